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
    """Runs a saved function on all rows of arrays, ``rows`` at a time, and returns its outputs for all of them.

    The function runs in parts if the first axis of all its inputs and outputs has the same name, or is one fixed batch
    size.

    Args:
      require: raise an error if the function can't be run in parts; otherwise it is then run on all rows at once.

    Raises:
      SavedModuleError: an array does not match, the number of rows is not a multiple of a fixed batch size, or there is no
        axis to split.
    """
    description = program.description
    fixed_batch_size = fixed_rows(description)
    if (
        fixed_batch_size is not None
        and len(arrays[0]) != fixed_batch_size
        and _are_whole_batches(description, arrays, fixed_batch_size)
    ):
        return _in_parts(program, arrays, fixed_batch_size)
    if batch_axis(description) is not None:
        description.check(arrays)
        return _in_parts(program, arrays, rows)
    if require and fixed_batch_size != rows:
        raise SavedModuleError(f"{description.name} can't be run in batches: its values share no first axis")
    return program.run(arrays)


def batch_axis(description: Description) -> str | None:
    """Returns the name of the first dim of every input and output; None if it has no name or they differ."""
    first = {value.shape[0] if value.shape else None for value in (*description.inputs, *description.outputs)}
    name = first.pop() if len(first) == 1 else None
    return name if isinstance(name, str) else None


def fixed_rows(description: Description) -> int | None:
    """Returns the static size of the first dim of every input and output; None if it is not static or they differ."""
    first = {value.shape[0] if value.shape else None for value in (*description.inputs, *description.outputs)}
    size = first.pop() if len(first) == 1 else None
    return size if isinstance(size, int) else None


def _are_whole_batches(description: Description, arrays: Sequence[np.ndarray], rows: int) -> bool:
    """Returns whether all arrays have the same positive number of rows, and thus can run in batches of ``rows`` rows.

    Raises:
      SavedModuleError: the number is not a multiple of ``rows``, the function's fixed batch size.
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
    """Runs the function on slices of the rows and concatenates the outputs."""
    parts = [program.run(part) for part in _parts(arrays, rows)]
    return [np.concatenate(outputs) for outputs in zip(*parts)]


def _parts(arrays: Sequence[np.ndarray], rows: int) -> Iterator[list[np.ndarray]]:
    count = len(arrays[0])
    for start in range(0, max(count, 1), rows):
        yield [np.ascontiguousarray(array[start : start + rows]) for array in arrays]
