"""How far a trace is specialized to the ranks and sizes of its calls, and the signal that it must be specialized further.

A function may be traced for arguments of unknown rank (``core/deferred_shape.AnyShape``) and of unknown sizes, which are
symbolic dims. An op that needs what is unknown raises what :func:`unknown_rank` or :func:`unknown_size` returns.
Then, in this order:

1. The public function that was called becomes one deferred call in the IR. It is traced again when the function is
   instantiated for the ranks, or the shapes, of a call (``frontend/function/deferred_call.py``).
2. Where a call cannot be deferred, the whole function is traced again for the ranks or shapes of its arguments, and from
   then on has a trace for each (``frontend/function/granularity.py``).
3. A size that the program itself computes is known only at run time, so Python executes the call then.

What of this a trace allows is its :class:`Specialization`, one object that the traces of its branches and loops share.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from tvtf.core.thread_state import state
from tvtf.errors import InaccessibleTensorError


class Unspecialized(BaseException):
    """The signal that tracing needs a rank, size or dataset that the trace doesn't know.

    It is not an ``Exception``: handlers of errors must not catch it on the way.
    """


class UnknownRank(Unspecialized):
    """The signal that a rank is needed."""


class UnknownSize(Unspecialized):
    """The signal that a static size is needed where the trace has a symbolic one.

    Args:
      error: the error to raise instead, if no specialization can supply the size.
      is_required: whether the op certainly needs the size. If not, the op failed on a symbolic size, and may also fail on a
        static one.
    """

    def __init__(self, error: Exception, is_required: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.is_required = is_required


class UnknownDataset(Unspecialized):
    """The signal that the trace must know which dataset an argument is: the function does more than iterate over it."""


class Level(IntEnum):
    """What the trace of a function knows of a call's shapes."""

    SPECS = 0
    """What the function's arguments say: ranks and sizes may be unknown."""
    RANKS = 1
    """The ranks of a call: the instance of a trace with unknown ranks."""
    SHAPES = 2
    """All sizes of a call: the instance of a trace with deferred calls that need sizes."""


class Specialization:
    """What a trace knows of its calls' ranks and sizes, and the calls in it that are deferred until more is known."""

    def __init__(
        self,
        level: Level | None = None,
        is_refinable: bool = False,
        has_call_shapes: bool = False,
        python_ranks: Mapping[int, tuple[int, ...]] | None = None,
        example: int | None = None,
        runs_eagerly: bool = False,
        assumes_scalars: bool = False,
    ) -> None:
        """Stores what the trace may assume. Nothing is deferred yet.

        Args:
          level: what is known of a call; None for a trace that is no function's (an example, a TensorFlow 1 graph).
          is_refinable: whether the function can be traced again with more known.
          has_call_shapes: whether the arguments have the shapes of one call. Branches that this call never takes may be invalid.
          python_ranks: the ranks that Python returns in this instance, by the key of its deferred call.
          example: the index in ``RANKS`` of the example that a deferred call is traced for.
          runs_eagerly: whether calls that need sizes may be deferred because they run op by op (a TensorFlow 1 graph).
          assumes_scalars: whether elements of arrays whose rank nothing tells are scalars, which is checked when it runs.
        """
        self.level = level
        self.is_refinable = is_refinable
        self.has_call_shapes = has_call_shapes
        self.python_ranks = python_ranks or {}
        self.example = example
        self.runs_eagerly = runs_eagerly
        self.assumes_scalars = assumes_scalars
        self.deferred: dict[int, Any] | None = None
        """The deferred calls by key; None while nothing is of unknown rank and nothing was deferred."""
        self.needs_shapes = False
        """Whether a deferred call needs sizes, so that each shape has an instance of its own."""
        self.dim_examples: dict[Any, Any] = {}
        """By a symbolic size that depends on an unknown rank: its values at the example ranks."""

    @property
    def defers_sizes(self) -> bool:
        """Whether calls that need sizes may be deferred."""
        return self.level is Level.SPECS or self.runs_eagerly

    @property
    def may_know_more(self) -> bool:
        """Whether an unknown size may become known when the function is traced again or instantiated for a call."""
        return self.is_refinable or self.level in (Level.SPECS, Level.RANKS)

    def start_deferring(self) -> dict[int, Any]:
        """Allows calls to be deferred from now on. Returns the dict of deferred calls by key."""
        if self.deferred is None:
            self.deferred = {}
        return self.deferred


def of_any_rank() -> bool:
    """Returns whether calls can be deferred in the active trace, because a tensor in it has an unknown rank."""
    return state.trace is not None and state.trace.specialization.deferred is not None


def traces_example() -> bool:
    """Returns whether the active trace infers the result types of a deferred call from an example of its arguments."""
    return state.trace is not None and state.trace.specialization.example is not None


def unknown_size(error: Exception, is_required: bool = True) -> BaseException:
    """Returns the exception to raise for a symbolic size: :class:`UnknownSize` in a function's trace, else ``error``.

    ``is_required`` is described at :class:`UnknownSize`.
    """
    if state.trace is not None:
        specialization = state.trace.specialization
        # In a trace for one call's shapes, the program itself computes the size: Python executes the call then.
        knows_more = specialization.may_know_more or specialization.level is Level.SHAPES
        if knows_more or (is_required and specialization.runs_eagerly):
            return UnknownSize(error, is_required)
    return error


def unknown_rank(what: str) -> BaseException:
    """Returns the exception to raise if a rank must be known: :class:`UnknownRank` in a trace, else an error for the user.

    A trace can defer the call that needs the rank. ``what`` describes what must be known, for the error message.
    """
    if state.trace is not None:
        return UnknownRank(what)
    return InaccessibleTensorError(
        f"{what} must be known, outside the function that it belongs to: only its calls supply that"
    )
