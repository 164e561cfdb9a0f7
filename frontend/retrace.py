"""Why a function was traced again: recorded for every trace, told on demand and in the warning."""

from __future__ import annotations

import sys
from typing import Any

from tvtf.context import dials
from tvtf.frontend.signature import Arguments, Leaf
from tvtf.log import logger

TOO_MANY = 5
"""Traces after which TensorFlow warns."""


class RetraceLog:
    """The traces of one function with their reasons."""

    def __init__(self, name: str, signature: Any) -> None:
        self.name = name
        self.signature = signature
        self.count = 0
        self.reasons: list[str] = []

    def record(self, arguments: Arguments, earlier: list[Arguments]) -> None:
        self.count += 1
        reason = self._reason(arguments, earlier)
        if reason:
            self.reasons.append(f"trace {self.count}: {reason}")
        if dials.debug >= 1:
            print(f"tvtf: {self.name} trace {self.count}{f': {reason}' if reason else ''}", file=sys.stderr)
        if self.count == TOO_MANY:
            self._warn(reason)

    def again(self) -> None:
        """A first trace that made Variables is repeated without: TensorFlow counts both."""
        self.count += 1

    def note(self, reason: str) -> None:
        """Something that made a trace other than the arguments ask for."""
        self.reasons.append(f"trace {self.count + 1}: {reason}")

    def explain(self) -> str:
        return "\n".join(self.reasons) or f"{self.name!r} was traced {self.count} time(s), never again"

    def _reason(self, arguments: Arguments, earlier: list[Arguments]) -> str:
        if not earlier:
            return ""
        return min((differences(old, arguments) for old in reversed(earlier)), key=len)

    def _warn(self, reason: str) -> None:
        logger.warning(
            "%d out of the last %d calls to %s triggered tf.function retracing. The last one: %s. %s",
            self.count, self.count, self.name, reason, cure(reason),
        )  # fmt: skip


def differences(old: Arguments, new: Arguments) -> str:
    """What changed between two calls, argument by argument."""
    if old.form != new.form:
        return "the structure of the arguments changed"
    changed = [_difference(a, b) for a, b in zip(old.leaves, new.leaves) if not a.accepts(b)]
    return "; ".join(changed) or "the same arguments (an earlier trace was dropped from the cache)"


def _difference(old: Leaf, new: Leaf) -> str:
    where = f"argument `{new.name}`"
    if old.spec is None or new.spec is None:
        return f"{where}: {old.describe()} -> {new.describe()}"
    if old.spec.dtype is not new.spec.dtype:
        return f"{where}: dtype {old.spec.dtype.name} -> {new.spec.dtype.name}"
    return f"{where}: shape {old.spec.shape} -> {new.spec.shape}"


def cure(reason: str) -> str:
    """How to stop retraces of this kind."""
    if "shape" in reason:
        return "Use reduce_retracing=True, or an input_signature with None for the dims that vary."
    if "dtype" in reason:
        return "Cast the argument to one dtype before the call."
    return (
        "Pass the value as a tensor (tf.constant) instead of a Python value, or make the object once, outside the loop."
    )
