"""Compiles repeated eager steps of Keras's optimizers, from the third one on.

Their Python takes half a millisecond per variable; the compiled step is what a ``tf.function`` around it would run.
"""

from __future__ import annotations

import functools
from typing import Any

from tvtf.plain_optimizers.repeated import Repeated
from tvtf.state.variable import Variable, of_library

STEPS = "_tvtf_repeated"


class _RepeatedSteps(Repeated):
    """The repeated steps of an optimizer whose class is in ``package``."""

    def __init__(self, update: Any, package: str) -> None:
        super().__init__(update)
        self.package = package

    def __deepcopy__(self, memo: Any) -> None:
        """Returns a copy of the optimizer starts without compiled steps."""

    def is_known(self, optimizer: Any) -> bool:
        """Returns whether optimizer and learning rate are of Keras's own classes: a user's may behave differently in each step."""
        rate = optimizer._learning_rate
        is_variable = isinstance(of_library(rate), Variable)
        return self._is_own(optimizer) and (is_variable or self._is_own(rate))

    def _is_own(self, value: Any) -> bool:
        return type(value).__module__.startswith(self.package)


def compile_steps(module: Any) -> None:
    """Patches Keras's ``backend.tensorflow.optimizer`` so that an optimizer's repeated eager steps are compiled."""
    optimizer = module.TFOptimizer
    original = optimizer._backend_apply_gradients
    package = module.__name__.removesuffix(".backend.tensorflow.optimizer") + ".optimizers."

    @functools.wraps(original)
    def _backend_apply_gradients(self: Any, grads: Any, trainable_variables: Any) -> None:
        repeated_steps = vars(self).get(STEPS)
        if repeated_steps is None:
            repeated_steps = vars(self)[STEPS] = _RepeatedSteps(functools.partial(original, self), package)
        repeated_steps(self, list(grads), list(trainable_variables))

    optimizer._backend_apply_gradients = _backend_apply_gradients
