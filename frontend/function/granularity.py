"""What the traces of a function are specialized to beyond the specs of its arguments: ranks, shapes, which dataset.

A function is traced for no more than its arguments' specs say, so that one trace serves many calls. Where tracing needs more
(``core/specialization.Unspecialized``), the granularity becomes finer, and the function is traced again.
"""

from __future__ import annotations

from tvtf.core.deferred_shape import AnyShape
from tvtf.core.specialization import UnknownDataset, UnknownRank, UnknownSize, Unspecialized
from tvtf.frontend.function.retrace_log import RetraceLog
from tvtf.frontend.function.signature import Arguments


class Granularity:
    """What the traces of a function are specialized to; it becomes finer, never coarser."""

    def __init__(self, log: RetraceLog) -> None:
        """Starts with the coarsest granularity: one trace serves all ranks, shapes and datasets.

        ``log`` records why a function was traced again.
        """
        self.log = log
        self.by_rank = False
        """Whether each rank of the arguments has its own trace."""
        self.by_dataset = False
        """Whether each dataset among the arguments has its own trace."""
        self.assumes_scalars = False
        """Whether traces take elements of arrays for scalars where nothing tells their rank, as of Python's results."""
        self.by_shape: UnknownSize | None = None
        """Why each shape has its own trace; None if it has none."""

    def applied_to(self, arguments: Arguments) -> Arguments:
        """Returns a call's arguments with specs as specific as this function's traces are.

        A trace is found by the specs. If an earlier trace needed the ranks, shapes or datasets of its call, the specs
        have them, and each rank, shape or dataset has a trace of its own.
        """
        if self.by_dataset:
            arguments = arguments.with_datasets_as_values()
        if self.by_rank:
            arguments = arguments.of_ranks(arguments.tensors)
        if self.by_shape is not None and all(tensor is not None for tensor in arguments.tensors):
            arguments = arguments.of_sizes(arguments.tensors)
        return arguments

    def refined(self, arguments: Arguments, needed: Unspecialized) -> tuple[Arguments, UnknownSize | None]:
        """Returns the arguments with more specific specs, for another trace after one that lacked a rank, size or dataset.

        Args:
          arguments: the arguments that were traced.
          needed: the exception in which that trace ended.

        Returns:
          the arguments, and the reason why their specs have sizes now, or None if they have none.

        Raises:
          ValueError: the call doesn't supply a rank that tracing needs.
          UnknownSize: the call doesn't supply the sizes; the enclosing trace may.
          UnknownDataset: the dataset is itself one of an enclosing trace.
        """
        if isinstance(needed, UnknownDataset):
            return self._with_datasets(arguments), None
        if isinstance(needed, UnknownRank) and arguments.are_of_any_rank:
            return self._with_ranks(arguments, needed), None
        call_has_more_sizes = arguments.are_refined_by(arguments.tensors)
        if isinstance(needed, UnknownRank):
            # The ranks of the arguments are known, so the rank of a computed tensor depends on an unknown size.
            if not call_has_more_sizes:
                if self.assumes_scalars:
                    raise rank_error(needed) from needed
                self.assumes_scalars = True
                return arguments, None
            needed = UnknownSize(rank_error(needed), is_required=True)
        if not call_has_more_sizes or not isinstance(needed, UnknownSize):
            raise needed
        return arguments.of_sizes(arguments.tensors), needed

    def _with_datasets(self, arguments: Arguments) -> Arguments:
        """Has each dataset traced separately from now on, and returns the arguments with datasets as Python values."""
        arguments = arguments.with_datasets_as_values()
        self.by_dataset = True
        self.log.note("it does more with a dataset than loop over it, so each dataset has its own trace")
        return arguments

    def _with_ranks(self, arguments: Arguments, needed: UnknownRank) -> Arguments:
        """Has each rank traced separately from now on, and returns the arguments with their ranks."""
        if any(tensor is None or isinstance(tensor._type.shape, AnyShape) for tensor in arguments.tensors):
            raise rank_error(needed) from needed
        self.by_rank = True
        self.log.note(f"{needed} must be known, so each rank has its own trace")
        return arguments.of_ranks(arguments.tensors)

    def separate_shapes(self, needed: UnknownSize) -> None:
        """Specializes traces to shapes from now on, after a trace for given shapes supplied what was ``needed``."""
        if self.by_shape is None:
            self.by_shape = needed
            self.log.note(f"a size must be known, so each shape has its own trace: {needed}")


def rank_error(needed: UnknownRank) -> ValueError:
    """Returns the error for the user: a rank is needed while tracing that only a call supplies."""
    from tvtf.frontend.autograph.errors import ATTRIBUTE, UserFrames

    text = f"{needed} must be known while tracing: give it by set_shape, tf.ensure_shape or tf.reshape"
    metadata: UserFrames | None = getattr(needed, ATTRIBUTE, None)
    return ValueError(text if metadata is None else metadata._replace(message=f"ValueError: {text}").text())
