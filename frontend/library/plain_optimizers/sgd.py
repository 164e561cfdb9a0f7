"""Gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor
from tvtf.core.thread_state import state
from tvtf.frontend.library.plain_optimizers.base import Optimizer
from tvtf.ops.indexed_slices import IndexedSlices, as_dense, on_values
from tvtf.ops.rules import number
from tvtf.state.variable import Variable


@export("optimizers.SGD")
class SGD(Optimizer):
    """Gradient descent: ``w -= rate * g``; with momentum ``m = momentum * m - rate * g; w += m``.

    Args:
      learning_rate: a float, a Variable, a schedule or a function.
      momentum: a float in [0, 1].
      nesterov: whether to use Nesterov's momentum: ``w += momentum * m - rate * g``.
      **options: those of :class:`Optimizer`.

    Raises:
      ValueError: ``momentum`` is not a float in [0, 1].

    >>> import tvtf as tf
    >>> w = tf.Variable(1.)
    >>> _ = tf.optimizers.SGD(0.1).apply_gradients([(tf.constant(2.), w)])
    >>> w.numpy().round(4)
    np.float32(0.8)

    Source: https://keras.io/api/optimizers/sgd/; Sutskever et al., On the importance of initialization and momentum, 2013.
    """

    def __init__(
        self, learning_rate: Any = 0.01, momentum: float = 0.0, nesterov: bool = False, **options: Any
    ) -> None:
        """Checks and stores the settings; ``options`` are the arguments that all optimizers have."""
        super().__init__(learning_rate, **options)
        if not isinstance(momentum, float) or not 0 <= momentum <= 1:
            raise ValueError("`momentum` must be a float between [0, 1].")
        self.momentum = momentum
        self.nesterov = nesterov

    def build(self, variables: Sequence[Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self.momentums = self.add_optimizer_variables(variables, "momentum") if self.momentum else []

    takes_rows = True

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Tensor) -> None:
        """Updates one variable by gradient descent, and its momentum, if there is one."""
        rate = self.rate_for(variable, learning_rate)
        if not self.momentum:
            self._subtract(on_values(lambda values: values * rate, gradient), variable)
            return
        step = as_dense(gradient) * rate
        slot = self._slot(self.momentums, variable)
        factor = number(self.momentum, step)
        new_momentum = slot.value() * factor - step
        slot.assign(new_momentum, read_value=False)
        update = new_momentum * factor - step if self.nesterov else new_momentum
        variable.assign(variable.value() + update, read_value=False)

    @staticmethod
    def _subtract(update: Any, variable: Variable) -> None:
        """Subtracts an update from a variable; eagerly, an update of type IndexedSlices changes only its rows.

        A compiled dense update is one kernel that writes to the Variable's memory, while a scatter would copy it twice.
        """
        if isinstance(update, IndexedSlices) and state.trace is None:
            variable.scatter_sub(update, read_value=False)
        else:
            variable.assign(variable.value() - as_dense(update), read_value=False)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"momentum": self.momentum, "nesterov": self.nesterov}
