"""Steps done eagerly again and again: from the third on, compiled code does them, as fused kernels instead of a dozen passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvtf.core.tensor import EagerTensor
from tvtf.core.thread_state import precision, state
from tvtf.frontend.function.polymorphic_function import function, functions_run_eagerly
from tvtf.plain_optimizers.schedules import LearningRateSchedule
from tvtf.state.variable import Variable

WORTH_COMPILING = 1 << 13
"""Elements of all variables from which the compiled step's speed outweighs its compilation (about a second, then cached)."""
_PLAIN_STEPS = 2
_Update = Callable[..., None]


class Repeated:
    """An optimizer's steps: how often each was done, by its variables and settings, and its compiled code."""

    def __init__(self, update: _Update) -> None:
        self.update = update
        self.counts: dict[Any, int] = {}
        self.compiled: dict[Any, Any] = {}

    def __call__(self, optimizer: Any, grads: list[Any], variables: Sequence[Variable]) -> None:
        if not (may_compile(grads, variables) and self.is_known(optimizer)):
            self.update(grads, variables)
            return
        key = (_settings(optimizer), tuple(map(id, variables)))
        done = self.counts.get(key, 0)
        if done < _PLAIN_STEPS:
            self.counts[key] = done + 1
            self.update(grads, variables)
            return
        step = self.compiled.get(key)
        if step is None:
            step = self.compiled[key] = self._function(list(variables))
        step(*grads)

    def is_known(self, optimizer: Any) -> bool:
        """Whether nobody but tvtf has a part in the step."""
        return _is_own(optimizer.update_step) and _rate_is_known(optimizer._learning_rate)

    def _function(self, variables: list[Variable]) -> Any:
        return function(lambda *grads: self.update(list(grads), variables), autograph=False)


def may_compile(grads: Sequence[Any], variables: Sequence[Any]) -> bool:
    """Whether the step is large, and nobody watches it."""
    return (
        state.trace is None
        and not (state.tapes or state.observers or state.batches)
        and precision.compute is None
        and sum(g._array.size for g in grads if type(g) is EagerTensor) >= WORTH_COMPILING
        and all(type(g) is EagerTensor for g in grads)
        and not _runs_eagerly()
    )


def _is_own(method: Any) -> bool:
    return str(method.__module__).startswith("tvtf.")


def _rate_is_known(rate: Any) -> bool:
    """A Variable, or a schedule of tvtf's: a function of the user's gives another number each time."""
    return isinstance(rate, Variable) or (isinstance(rate, LearningRateSchedule) and _is_own(rate.__call__))


def _runs_eagerly() -> bool:
    return functions_run_eagerly()


def _settings(optimizer: Any) -> tuple[Any, ...]:
    """What a compiled step holds as constants."""
    plain = [v for v in vars(optimizer).values() if type(v) in (float, int, bool, type(None))]
    return (id(optimizer._learning_rate), *plain)
