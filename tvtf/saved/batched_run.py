"""Runs a saved function on more rows than fit into memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.saved.description import Description


class Runnable(Protocol):
    """A `SavedFunction` or a `Library`."""

    description: Description

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]: ...


def run_batched(program: Runnable, arrays: Sequence[np.ndarray], rows: int, require: bool = True) -> list[np.ndarray]:
    """Runs a saved function on arrays in batches of ``rows`` rows, and returns the outputs for all rows.

    This requires that the first dim of all inputs and outputs is the same named dim. If it is the same fixed size
    instead, the batches have that size.

    Args:
      require: raise an error if the function can't run in batches; otherwise it runs on all rows at once.

    Raises:
      SavedModuleError: an array does not match, the number of rows is not a multiple of a fixed batch size, or there is no
        axis to split.
    """
    description = program.description
    fixed_batch_size = fixed_rows(description)
    if fixed_batch_size is not None and _are_whole_batches(description, arrays, fixed_batch_size):
        return _in_parts(program, arrays, fixed_batch_size)
    if batch_axis(description) is not None:
        description.check(arrays)
        return _in_parts(program, arrays, rows)
    if require and fixed_batch_size is None:
        raise SavedModuleError(f"{description.name} can't be run in batches: its values share no first axis")
    return program.run(arrays)


def batch_axis(description: Description) -> str | None:
    """Returns the name of the first dim, if all inputs and outputs of a function have the same named first dim.

    Otherwise returns None.
    """
    dim = _common_first_dim(description)
    return dim if isinstance(dim, str) else None


def fixed_rows(description: Description) -> int | None:
    """Returns the size of the first dim, if all inputs and outputs of a function have the same static first dim.

    Otherwise returns None.
    """
    dim = _common_first_dim(description)
    return dim if isinstance(dim, int) else None


def _common_first_dim(description: Description) -> str | int | None:
    """Returns the first dim of all inputs and outputs; None if they differ, or one of them is a scalar."""
    first_dims = {value.shape[0] if value.shape else None for value in (*description.inputs, *description.outputs)}
    return first_dims.pop() if len(first_dims) == 1 else None


def _are_whole_batches(description: Description, arrays: Sequence[np.ndarray], rows: int) -> bool:
    """Returns whether a function of a fixed batch size, ``rows``, can run on the arrays in batches.

    All arrays must have the same positive number of rows.

    Raises:
      SavedModuleError: the number of rows is not a multiple of the batch size.
    """
    counts = {len(array) if array.ndim else 0 for array in arrays}
    if len(counts) != 1 or 0 in counts:
        return False
    count = counts.pop()
    if count % rows:
        raise SavedModuleError(
            f"{description.name} takes {rows} rows at a time, but got {count} rows, which is not a multiple of {rows}"
        )
    return True


def _in_parts(program: Runnable, arrays: Sequence[np.ndarray], rows: int) -> list[np.ndarray]:
    """Runs a saved function on batches of ``rows`` rows, and concatenates the outputs of all batches."""
    results = [program.run(batch) for batch in _batches(arrays, rows)]
    return [np.concatenate(outputs) for outputs in zip(*results)]


def _batches(arrays: Sequence[np.ndarray], rows: int) -> Iterator[list[np.ndarray]]:
    """Yields the batches of ``rows`` consecutive rows of all arrays; the last batch may have fewer rows."""
    count = len(arrays[0])
    for start in range(0, max(count, 1), rows):  # without rows, one empty batch gives the outputs' shapes
        yield [np.ascontiguousarray(array[start : start + rows]) for array in arrays]
