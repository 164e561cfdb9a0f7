"""The reasons for retracing a function, recorded for every trace and shown on request and in warnings."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tvtf.core.display import Column, Table, as_printed
from tvtf.core.log import logger
from tvtf.core.thread_state import debug_settings
from tvtf.frontend.function.signature import Arguments, Leaf

if TYPE_CHECKING:
    from rich.console import RenderableType

TRACES_TO_WARN, COUNTED_CALLS, MAX_WARNINGS = 5, 10, 2
"""TensorFlow warns at this many traces within so many calls, and at most so often (``_FrequentTracingDetector``)."""
MSG_FREQUENT = (
    "%d out of the last %d calls to %s triggered tf.function retracing. Tracing is expensive and the excessive number of "
    "tracings could be due to (1) creating @tf.function repeatedly in a loop, (2) passing tensors with different shapes, "
    "(3) passing Python objects instead of tensors. For (1), please define your @tf.function outside of the loop. For (2), "
    "@tf.function has reduce_retracing=True option that can avoid unnecessary retracing. For (3), please refer to "
    "https://www.tensorflow.org/guide/function#controlling_retracing and "
    "https://www.tensorflow.org/api_docs/python/tf/function for  more details. The last one: %s. %s"
)
"""TensorFlow's text, with the reason of the last trace and a remedy."""

RECREATED_FUNCTION = "a function made anew"
CREATED_VARIABLES = "the first call created Variables"


class Calls:
    """The last calls of a Python function, counted over all compiled functions made of it."""

    __slots__ = ("per_trace", "since", "warnings")

    def __init__(self) -> None:
        self.since = 0  # calls since the last one that traced
        self.per_trace: list[int] = []
        self.warnings = 0

    def traced(self) -> tuple[int, int] | None:
        """Counts a call that traced the function, and decides whether to warn of too many retraces.

        Returns:
          the counts for a warning: how many of the latest calls traced, and the number of these calls. None if the
          function isn't traced too often.
        """
        # `per_trace` has an entry for each trace: the number of calls that it served, with the call that traced.
        if self.since:
            self.per_trace = self.per_trace or [0]
            self.per_trace[-1] += self.since
            self.since = 0
        self.per_trace.append(1)
        # Only the latest COUNTED_CALLS calls count, so that retraces while a program starts are forgotten.
        while sum(self.per_trace) - self.per_trace[0] > COUNTED_CALLS:
            del self.per_trace[0]
        if len(self.per_trace) < TRACES_TO_WARN or self.warnings == MAX_WARNINGS:
            return None
        self.warnings += 1
        return len(self.per_trace), sum(self.per_trace)


_calls: weakref.WeakKeyDictionary[Any, Calls] = weakref.WeakKeyDictionary()
"""The call counters, by the code object of the Python function."""


def calls_of(python_function: Any) -> Calls:
    """Returns the counter of calls of a Python function, shared by all ``tf.function`` objects made of the same code.

    The counter is found by the code object. So wrappers of the function, its bound methods, and functions that a loop
    defines again and again have the same counter.
    """
    while hasattr(python_function, "__wrapped__"):
        python_function = python_function.__wrapped__
    function = getattr(python_function, "__func__", python_function)
    try:
        return _calls.setdefault(getattr(function, "__code__", function), Calls())
    except TypeError:  # it cannot be hashed or weakly referenced
        return Calls()


class Retrace(NamedTuple):
    """A trace after the first: its number, why it was made, and how to avoid it, where that is known."""

    number: int
    reason: str
    remedy: str = ""


class RetraceReport(str):
    """Why a function was traced again: a line for each trace after the first; a table on terminals and in notebooks.

    >>> report = RetraceReport("step", 2, [Retrace(2, CREATED_VARIABLES)])
    >>> print(report.table.text)
    step was traced twice: the first call created Variables
    >>> str.__str__(report)
    'trace 2: the first call created Variables'
    """

    table: Table

    def __new__(cls, name: str, count: int, retraces: Sequence[Retrace]) -> RetraceReport:
        lines = [f"trace {retrace.number}: {retrace.reason}" for retrace in retraces]
        once = f"{name!r} was traced {count} time(s), never again" if count else f"{name!r} was not traced yet"
        report = super().__new__(cls, "\n".join(lines) or once)
        report.table = _table(name, count, retraces)
        return report

    def __str__(self) -> str:
        return as_printed(super().__str__(), self.table.rich())

    def __rich__(self) -> RenderableType:
        return self.table.rich()

    def _repr_html_(self) -> str:
        return self.table.html()


def _table(name: str, count: int, retraces: Sequence[Retrace]) -> Table:
    """Returns the table of a function's retraces; a sentence alone if there is only one reason."""
    times = {0: "not traced yet", 1: "traced once", 2: "traced twice"}.get(count, f"traced {count} times")
    rows = [[str(retrace.number), retrace.reason, retrace.remedy] for retrace in retraces]
    if len(retraces) == 1 and not retraces[0].remedy:
        times, rows = f"{times}: {retraces[0].reason}", []
    return Table(f"{name} was {times}", [Column("trace", True), Column("why"), Column("to avoid it")], rows)


class RetraceLog:
    """The traces of one function with their reasons."""

    def __init__(self, name: str, signature: Any) -> None:
        self.name = name
        self.signature = signature
        self.count = 0
        self.retraces: list[Retrace] = []
        self.reason = ""  # of the last trace

    def record(self, arguments: Arguments, earlier: list[Arguments]) -> None:
        """Records a trace with its reason: how its arguments differ from the closest earlier trace."""
        self.count += 1
        self.reason = reason = self._reason(arguments, earlier)
        if reason:
            self.retraces.append(Retrace(self.count, reason, remedy(reason)))
        if debug_settings.debug >= 1:
            reason_text = f": {reason}" if reason else ""
            print(f"tvtf: {self.name} trace {self.count}{reason_text}", file=sys.stderr)

    def count_second_trace(self) -> None:
        """Counts a second first trace: one that created Variables is repeated, and TensorFlow counts both."""
        self.count += 1
        self.note(CREATED_VARIABLES)

    def note(self, reason: str) -> None:
        """Records a reason for the next trace other than its arguments."""
        self.retraces.append(Retrace(self.count + 1, reason))

    def explain(self) -> RetraceReport:
        return RetraceReport(self.name, self.count, self.retraces)

    def _reason(self, arguments: Arguments, earlier: list[Arguments]) -> str:
        """Returns the shortest description of a difference to an earlier trace."""
        if not earlier:
            return ""
        return min((differences(old, arguments) for old in reversed(earlier)), key=len)

    def warn(self, counts: tuple[int, int], python_function: Any) -> None:
        """Warns of frequent retracing, with the last reason and a remedy."""
        reason = self.reason or RECREATED_FUNCTION
        logger.warning(MSG_FREQUENT, *counts, python_function, reason, remedy(reason))


def differences(old: Arguments, new: Arguments) -> str:
    """Describes what changed between two calls, argument by argument."""
    if old.form != new.form:
        return "the structure of the arguments changed"
    changed = [
        _difference(old_leaf, new_leaf)
        for old_leaf, new_leaf in zip(old.leaves, new.leaves)
        if not old_leaf.accepts(new_leaf)
    ]
    return "; ".join(changed) or "the same arguments (an earlier trace was dropped from the cache)"


def _difference(old: Leaf, new: Leaf) -> str:
    """Describes how an argument's leaf differs between two calls: its dtype, its shape, or its kind or value."""
    where = f"argument `{new.name}`"
    if old.spec is None or new.spec is None or old.is_dataset or new.is_dataset:
        return f"{where}: {old.describe()} -> {new.describe()}"
    if old.spec.dtype is not new.spec.dtype:
        return f"{where}: dtype {old.spec.dtype.name} -> {new.spec.dtype.name}"
    return f"{where}: shape {old.spec.shape} -> {new.spec.shape}"


def remedy(reason: str) -> str:
    """Returns advice on how to avoid retraces for ``reason``, a text such as "argument `x`: shape (2,) -> (3,)"."""
    if reason == RECREATED_FUNCTION:
        return "Make it once, outside the loop."
    if "shape" in reason:
        return "Use reduce_retracing=True, or an input_signature with None for the dims that vary."
    if "dtype" in reason:
        return "Cast the argument to one dtype before the call."
    return (
        "Pass the value as a tensor (tf.constant) instead of a Python value, or make the object once, outside the loop."
    )
