"""Compiles repeated eager steps of Keras's optimizers, starting with the third one.

Their Python takes half a millisecond per variable; the compiled step is what a ``tf.function`` around it would run.
"""

from __future__ import annotations

import functools
from typing import Any

from tvtf.frontend.library.plain_optimizers.repeated import Repeated
from tvtf.state.variable import Variable, of_library

STEPS = "_tvtf_repeated"


class _RepeatedSteps(Repeated):
    """Compiles the repeated eager steps of one of Keras's optimizers; ``package`` is the package of Keras's optimizers."""

    def __init__(self, update: Any, package: str) -> None:
        super().__init__(update)
        self.package = package

    def __deepcopy__(self, memo: Any) -> None:
        """Returns a new object without compiled steps, for the copy of the optimizer."""

    def is_known(self, optimizer: Any) -> bool:
        """Returns whether the optimizer and its learning rate are of Keras's own classes, whose steps can be compiled.

        An object of a user's class may behave differently in each step.
        """
        learning_rate = optimizer._learning_rate
        is_variable = isinstance(of_library(learning_rate), Variable)
        return self._is_own(optimizer) and (is_variable or self._is_own(learning_rate))

    def _is_own(self, value: Any) -> bool:
        """Returns whether an object's class is in Keras's package of optimizers."""
        return type(value).__module__.startswith(self.package)


def compile_steps(module: Any) -> None:
    """Patches Keras's optimizers so that eager steps are compiled when they are repeated.

    ``module`` is Keras's ``backend.tensorflow.optimizer``.
    """
    optimizer_class = module.TFOptimizer
    keras_apply_gradients = optimizer_class._backend_apply_gradients
    package = module.__name__.removesuffix(".backend.tensorflow.optimizer") + ".optimizers."  # "keras.src.optimizers."

    @functools.wraps(keras_apply_gradients)
    def _backend_apply_gradients(self: Any, grads: Any, trainable_variables: Any) -> None:
        """Applies gradients through a compiled step once the same step repeats."""
        repeated_steps = vars(self).get(STEPS)
        if repeated_steps is None:
            update = functools.partial(keras_apply_gradients, self)
            repeated_steps = vars(self)[STEPS] = _RepeatedSteps(update, package)
        repeated_steps(self, list(grads), list(trainable_variables))

    optimizer_class._backend_apply_gradients = _backend_apply_gradients
