"""The reasons for retracing a function, recorded for every trace and shown on request and in warnings."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from tvtf.core.log import logger
from tvtf.core.thread_state import dials
from tvtf.frontend.function.signature import Arguments, Leaf

TOO_MANY, LAST_CALLS, MOST_WARNINGS = 5, 10, 2
"""TensorFlow warns at this many traces within so many calls, and at most so often (``_FrequentTracingDetector``)."""
OFTEN = (
    "%d out of the last %d calls to %s triggered tf.function retracing. Tracing is expensive and the excessive number of "
    "tracings could be due to (1) creating @tf.function repeatedly in a loop, (2) passing tensors with different shapes, "
    "(3) passing Python objects instead of tensors. For (1), please define your @tf.function outside of the loop. For (2), "
    "@tf.function has reduce_retracing=True option that can avoid unnecessary retracing. For (3), please refer to "
    "https://www.tensorflow.org/guide/function#controlling_retracing and "
    "https://www.tensorflow.org/api_docs/python/tf/function for  more details. The last one: %s. %s"
)
"""TensorFlow's text, with the reason of the last trace and a remedy."""

ANEW = "a function made anew"


class Calls:
    """The last calls of a Python function, counted over all compiled functions made of it."""

    __slots__ = ("per_trace", "since", "warnings")

    def __init__(self) -> None:
        self.since = 0  # calls since the last one that traced
        self.per_trace: list[int] = []
        self.warnings = 0

    def traced(self) -> tuple[int, int] | None:
        """Counts a call that traced; returns how many of the last calls traced if that deserves a warning."""
        if self.since:
            self.per_trace = self.per_trace or [0]
            self.per_trace[-1] += self.since
        self.since = 0
        self.per_trace.append(1)
        while sum(self.per_trace) - self.per_trace[0] > LAST_CALLS:
            del self.per_trace[0]
        if len(self.per_trace) < TOO_MANY or self.warnings == MOST_WARNINGS:
            return None
        self.warnings += 1
        return len(self.per_trace), sum(self.per_trace)


_calls: weakref.WeakKeyDictionary[Any, Calls] = weakref.WeakKeyDictionary()
"""The call counters, by the code object of the Python function."""


def calls_of(python_function: Any) -> Calls:
    """Returns the call counter of a Python function.

    Wrappers and methods of many objects share the counter of the function that was written once: a ``tf.function``
    made in a loop counts as the same.
    """
    while hasattr(python_function, "__wrapped__"):
        python_function = python_function.__wrapped__
    function = getattr(python_function, "__func__", python_function)
    try:
        return _calls.setdefault(getattr(function, "__code__", function), Calls())
    except TypeError:  # it cannot be hashed or weakly referenced
        return Calls()


class RetraceLog:
    """The traces of one function with their reasons."""

    def __init__(self, name: str, signature: Any) -> None:
        self.name = name
        self.signature = signature
        self.count = 0
        self.reasons: list[str] = []
        self.reason = ""  # of the last trace

    def record(self, arguments: Arguments, earlier: list[Arguments]) -> None:
        """Records a trace with its reason: how its arguments differ from the closest earlier trace."""
        self.count += 1
        reason = self.reason = self._reason(arguments, earlier)
        if reason:
            self.reasons.append(f"trace {self.count}: {reason}")
        if dials.debug >= 1:
            print(f"tvtf: {self.name} trace {self.count}{f': {reason}' if reason else ''}", file=sys.stderr)

    def again(self) -> None:
        """Counts a second first trace: one that created Variables is repeated, and TensorFlow counts both."""
        self.count += 1

    def note(self, reason: str) -> None:
        """Records a reason for the next trace other than its arguments."""
        self.reasons.append(f"trace {self.count + 1}: {reason}")

    def explain(self) -> str:
        return "\n".join(self.reasons) or f"{self.name!r} was traced {self.count} time(s), never again"

    def _reason(self, arguments: Arguments, earlier: list[Arguments]) -> str:
        """Returns the shortest description of a difference to an earlier trace."""
        if not earlier:
            return ""
        return min((differences(old, arguments) for old in reversed(earlier)), key=len)

    def warn(self, often: tuple[int, int], python_function: Any) -> None:
        """Warns of frequent retracing, with the last reason and a remedy."""
        reason = self.reason or ANEW
        logger.warning(OFTEN, *often, python_function, reason, cure(reason))


def differences(old: Arguments, new: Arguments) -> str:
    """Describes what changed between two calls, argument by argument."""
    if old.form != new.form:
        return "the structure of the arguments changed"
    changed = [_difference(a, b) for a, b in zip(old.leaves, new.leaves) if not a.accepts(b)]
    return "; ".join(changed) or "the same arguments (an earlier trace was dropped from the cache)"


def _difference(old: Leaf, new: Leaf) -> str:
    where = f"argument `{new.name}`"
    if old.spec is None or new.spec is None or old.is_held or new.is_held:
        return f"{where}: {old.describe()} -> {new.describe()}"
    if old.spec.dtype is not new.spec.dtype:
        return f"{where}: dtype {old.spec.dtype.name} -> {new.spec.dtype.name}"
    return f"{where}: shape {old.spec.shape} -> {new.spec.shape}"


def cure(reason: str) -> str:
    """Returns advice that prevents retraces of this kind."""
    if reason == ANEW:
        return "Make it once, outside the loop."
    if "shape" in reason:
        return "Use reduce_retracing=True, or an input_signature with None for the dims that vary."
    if "dtype" in reason:
        return "Cast the argument to one dtype before the call."
    return (
        "Pass the value as a tensor (tf.constant) instead of a Python value, or make the object once, outside the loop."
    )
