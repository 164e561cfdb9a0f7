"""Compiles repeated eager optimizer steps, starting with the third one: fused kernels replace a dozen passes over memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvtf.core.tensor import EagerTensor
from tvtf.core.thread_state import precision, state
from tvtf.frontend.function.polymorphic_function import function, functions_run_eagerly
from tvtf.frontend.library.plain_optimizers.schedules import LearningRateSchedule
from tvtf.state.variable import Variable

WORTH_COMPILING = 1 << 13
"""The number of elements in all variables from which the compiled step's speed outweighs its compilation, which takes about a
second and is cached."""
_EAGER_STEPS = 2
"""The number of steps that run eagerly before a step counts as repeated."""
_Update = Callable[..., None]


class Repeated:
    """An optimizer's steps: the number of each, by variables and settings, and their compiled functions."""

    def __init__(self, update: _Update) -> None:
        self.update = update
        self.counts: dict[Any, int] = {}
        self.compiled: dict[Any, Any] = {}

    def __call__(self, optimizer: Any, grads: list[Any], variables: Sequence[Variable]) -> None:
        """Performs an optimizer's step: the first time eagerly, and by a compiled function when the step is repeated.

        A compiled function is valid only for one list of variables and one set of the optimizer's settings.
        """
        if not (may_compile(grads, variables) and self.is_known(optimizer)):
            self.update(grads, variables)
            return
        key = (_settings(optimizer), tuple(map(id, variables)))
        eager_steps = self.counts.get(key, 0)
        if eager_steps < _EAGER_STEPS:
            self.counts[key] = eager_steps + 1
            self.update(grads, variables)
            return
        compiled_step = self.compiled.get(key)
        if compiled_step is None:
            compiled_step = self.compiled[key] = self._function(list(variables))
        compiled_step(*grads)

    def is_known(self, optimizer: Any) -> bool:
        """Returns whether all code of the step is tvtf's, so that it does the same each time."""
        return _is_own(optimizer.update_step) and _rate_is_known(optimizer._learning_rate)

    def _function(self, variables: list[Variable]) -> Any:
        return function(lambda *grads: self.update(list(grads), variables), autograph=False)


def may_compile(grads: Sequence[Any], variables: Sequence[Any]) -> bool:
    """Returns whether an optimizer's step may be compiled: an eager step that no tape records, dense and large enough.

    A tape needs the single ops. For a small step, starting compiled code takes longer than the step itself.

    Args:
      grads: the gradients.
      variables: the variables to train.
    """
    is_observed = state.tapes or state.observers or state.batches
    if state.trace is not None or is_observed or precision.compute is not None:
        return False
    if not all(type(grad) is EagerTensor for grad in grads):
        return False
    element_count = sum(grad._array.size for grad in grads)
    return element_count >= WORTH_COMPILING and not _runs_eagerly()


def _is_own(method: Any) -> bool:
    return str(method.__module__).startswith("tvtf.")


def _rate_is_known(rate: Any) -> bool:
    """Returns whether the rate is a Variable or tvtf's schedule: a user's function may return another number each time."""
    return isinstance(rate, Variable) or (isinstance(rate, LearningRateSchedule) and _is_own(rate.__call__))


def _runs_eagerly() -> bool:
    return functions_run_eagerly()


def _settings(optimizer: Any) -> tuple[Any, ...]:
    """Returns the attributes that a compiled step holds as constants."""
    settings = [value for value in vars(optimizer).values() if type(value) in (float, int, bool, type(None))]
    return (id(optimizer._learning_rate), *settings)
