"""Adam, and Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor
from tvtf.dtypes import DType
from tvtf.frontend.library.plain_optimizers.base import Optimizer
from tvtf.frontend.library.plain_optimizers.clipping import squared
from tvtf.ops.indexed_slices import as_dense
from tvtf.ops.rules import bind, number
from tvtf.state.variable import Variable


@export("optimizers.Adam")
class Adam(Optimizer):
    """An optimizer whose steps are scaled by moving averages of the gradient and of its square.

    Args:
      learning_rate: float, a Variable, a schedule or a function.
      beta_1: the decay of the average gradient.
      beta_2: the decay of the average square.
      epsilon: added to the root of the average square.
      amsgrad: whether to use the largest average square so far.
      **options: those of :class:`Optimizer`.

    >>> import tvtf as tf
    >>> w = tf.Variable(1.)
    >>> _ = tf.optimizers.Adam(0.1).apply_gradients([(tf.constant(2.), w)])
    >>> w.numpy().round(4)
    np.float32(0.9)

    Source: https://keras.io/api/optimizers/adam/; Kingma and Ba, Adam, 2015; Reddi et al., On the Convergence of Adam, 2018.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **options: Any,
    ) -> None:
        """Stores the settings; ``options`` are the arguments that all optimizers have."""
        super().__init__(learning_rate, **options)
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad

    def build(self, variables: Sequence[Variable]) -> None:
        """Creates the optimizer's slot variables for each trained variable: momentum and velocity."""
        if self.built:
            return
        super().build(variables)
        self._momentums, self._velocities = self.add_optimizer_variables(variables, ["momentum", "velocity"])
        if self.amsgrad:
            self._velocity_hats = self.add_optimizer_variables(variables, "velocity_hat")

    takes_rows = True

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Tensor) -> None:
        """Updates one variable by a step of Adam, and the moving averages of its gradient and squared gradient.

        With ``amsgrad``, the step uses the largest average of squares so far.
        """
        alpha = self.once("alpha", variable.dtype, lambda: self._alpha(self.rate_for(variable, learning_rate)))
        mean = _update_average(self._slot(self._momentums, variable), as_dense(gradient), self.beta_1)
        square = _update_average(self._slot(self._velocities, variable), squared(gradient), self.beta_2)
        if self.amsgrad:
            square = _update_maximum(self._slot(self._velocity_hats, variable), square)
        update = mean * alpha / (bind.sqrt(square) + number(self.epsilon, square))
        variable.assign(variable.value() - update, read_value=False)

    def _alpha(self, rate: Tensor) -> Tensor:
        """Returns the learning rate corrected for the bias of averages that start at zero."""
        step = self._step_number(rate.dtype)
        correction_1, correction_2 = (1 - bind.pow(number(beta, rate), step) for beta in (self.beta_1, self.beta_2))
        return rate * bind.sqrt(correction_2) / correction_1

    def _step_number(self, dtype: DType) -> Tensor:
        return bind.cast(self._iterations.value() + 1, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {name: getattr(self, name) for name in ("beta_1", "beta_2", "epsilon", "amsgrad")}


def _update_average(slot: Variable, target: Tensor, decay: float) -> Tensor:
    """Updates a moving average and returns its new value."""
    old = slot.value()
    mean = old + (target - old) * number(1 - decay, target)
    slot.assign(mean, read_value=False)
    return mean


def _update_maximum(slot: Variable, value: Tensor) -> Tensor:
    """Updates the largest value so far and returns it."""
    largest = bind.maximum(slot.value(), value)
    slot.assign(largest, read_value=False)
    return largest


@export("optimizers.AdamW")
class AdamW(Adam):
    """:class:`Adam` with decoupled weight decay: each step also subtracts ``weight_decay * learning_rate`` times the variable.

    See :meth:`Optimizer.exclude_from_weight_decay`.


    Raises:
      ValueError: ``weight_decay`` is None.

    >>> import tvtf as tf
    >>> w = tf.Variable(1.)
    >>> _ = tf.optimizers.AdamW(0.1, weight_decay=0.5).apply_gradients([(tf.constant(2.), w)])
    >>> w.numpy().round(4)
    np.float32(0.85)

    Source: https://keras.io/api/optimizers/adamw/; Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019.
    """

    def __init__(
        self, learning_rate: Any = 0.001, weight_decay: float | None = 0.004, *args: Any, **options: Any
    ) -> None:
        super().__init__(learning_rate, *args, weight_decay=weight_decay, **options)
        if weight_decay is None:
            raise ValueError("Argument `weight_decay` must be a float. Received: weight_decay=None")
