"""Adam, and Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor
from tvtf.dtypes import DType
from tvtf.ops.indexed_slices import as_dense
from tvtf.ops.rules import bind, number
from tvtf.plain_optimizers.base import Optimizer
from tvtf.plain_optimizers.clipping import squared
from tvtf.state.variable import Variable


@export("optimizers.Adam")
class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square.

    Args:
      learning_rate: float, a Variable, a schedule or a function.
      beta_1: decay of the mean of gradients.
      beta_2: decay of the mean of squares.
      epsilon: added to the root of the mean of squares.
      amsgrad: whether the largest mean of squares so far is used.
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
        super().__init__(learning_rate, **options)
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad

    def build(self, variables: Sequence[Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._momentums, self._velocities = self.add_optimizer_variables(variables, ["momentum", "velocity"])
        if self.amsgrad:
            self._velocity_hats = self.add_optimizer_variables(variables, "velocity_hat")

    takes_rows = True

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Tensor) -> None:
        alpha = self.once("alpha", variable.dtype, lambda: self._alpha(self.rate_for(variable, learning_rate)))
        mean = _towards(self._slot(self._momentums, variable), as_dense(gradient), self.beta_1)
        square = _towards(self._slot(self._velocities, variable), squared(gradient), self.beta_2)
        if self.amsgrad:
            square = _at_least(self._slot(self._velocity_hats, variable), square)
        step = mean * alpha / (bind.sqrt(square) + number(self.epsilon, square))
        variable.assign(variable.value() - step, read_value=False)

    def _alpha(self, rate: Tensor) -> Tensor:
        """The learning rate corrected for means that began at zero."""
        step = self._step_number(rate.dtype)
        first, second = (1 - bind.pow(number(beta, rate), step) for beta in (self.beta_1, self.beta_2))
        return rate * bind.sqrt(second) / first

    def _step_number(self, dtype: DType) -> Tensor:
        return bind.cast(self._iterations.value() + 1, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {k: getattr(self, k) for k in ("beta_1", "beta_2", "epsilon", "amsgrad")}


def _towards(slot: Variable, target: Tensor, decay: float) -> Tensor:
    """A running mean's new value, assigned."""
    now = slot.value()
    mean = now + (target - now) * number(1 - decay, target)
    slot.assign(mean, read_value=False)
    return mean


def _at_least(slot: Variable, value: Tensor) -> Tensor:
    largest = bind.maximum(slot.value(), value)
    slot.assign(largest, read_value=False)
    return largest


@export("optimizers.AdamW")
class AdamW(Adam):
    """:class:`Adam` that also takes ``weight_decay * learning_rate`` of each variable away; see
    :meth:`Optimizer.exclude_from_weight_decay`.

    Raises:
      ValueError: when ``weight_decay`` is None.

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
