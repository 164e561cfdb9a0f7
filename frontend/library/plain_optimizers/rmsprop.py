"""RMSprop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor
from tvtf.frontend.library.plain_optimizers.base import Optimizer
from tvtf.frontend.library.plain_optimizers.clipping import squared
from tvtf.ops.indexed_slices import as_dense
from tvtf.ops.rules import bind, number
from tvtf.state.variable import Variable


@export("optimizers.RMSprop")
class RMSprop(Optimizer):
    """An optimizer whose steps are divided by the root of a moving average of squared gradients.

    Args:
      learning_rate: float, a Variable, a schedule or a function.
      rho: the decay of the average square.
      momentum: a float; above 0, steps are accumulated.
      epsilon: added under the root.
      centered: whether to subtract the square of the average gradient, which gives the variance instead of the square.
      **options: those of :class:`Optimizer`.

    >>> import tvtf as tf
    >>> w = tf.Variable(1.)
    >>> _ = tf.optimizers.RMSprop(0.1).apply_gradients([(tf.constant(2.), w)])
    >>> w.numpy().round(4)
    np.float32(0.6838)

    Source: https://keras.io/api/optimizers/rmsprop/; Hinton, Neural Networks for Machine Learning, lecture 6, 2012.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        **options: Any,
    ) -> None:
        """Stores the settings; ``options`` are the arguments that all optimizers have."""
        super().__init__(learning_rate, **options)
        self.rho, self.momentum, self.epsilon, self.centered = rho, momentum, epsilon, centered

    def build(self, variables: Sequence[Variable]) -> None:
        """Creates the optimizer's slot variables for each trained variable, such as the average squared gradient."""
        if self.built:
            return
        super().build(variables)
        self._velocities = self.add_optimizer_variables(variables, "velocity")
        self._momentums = self.add_optimizer_variables(variables, "momentum") if self.momentum > 0 else []
        self._average_gradients = self.add_optimizer_variables(variables, "average_gradient") if self.centered else []

    takes_rows = True

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Tensor) -> None:
        """Updates one variable by a step of RMSprop, and the moving average of its squared gradient.

        If ``centered``, the variance of the gradient replaces the average squared gradient.
        """
        square = self._mean(self._velocities, variable, squared(gradient))
        gradient = as_dense(gradient)
        if self.centered:
            mean = self._mean(self._average_gradients, variable, gradient)
            square = square - mean * mean
        update = self.rate_for(variable, learning_rate) * gradient / bind.sqrt(square + number(self.epsilon, square))
        variable.assign(variable.value() - self._accumulated(variable, update), read_value=False)

    def _mean(self, slots: Sequence[Variable], variable: Variable, value: Tensor) -> Tensor:
        """Updates a moving average and returns its new value."""
        slot = self._slot(slots, variable)
        mean = slot.value() * number(self.rho, value) + value * number(1 - self.rho, value)
        slot.assign(mean, read_value=False)
        return mean

    def _accumulated(self, variable: Variable, update: Tensor) -> Tensor:
        """Adds an update to the variable's momentum, which decays at each step, and returns the new momentum.

        Without momentum, returns the update unchanged.
        """
        if not self.momentum > 0:
            return update
        slot = self._slot(self._momentums, variable)
        momentum = slot.value() * number(self.momentum, update) + update
        slot.assign(momentum, read_value=False)
        return momentum

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {name: getattr(self, name) for name in ("rho", "momentum", "epsilon", "centered")}
