"""Running a saved function on more rows than should be in memory at a time."""

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


def run_batched(program: Runnable, arrays: Sequence[np.ndarray], rows: int, asked: bool = True) -> list[np.ndarray]:
    """The outputs for all rows, computed ``rows`` at a time where the function's first axis has a name.

    Args:
      asked: refuse a function that can't be run in parts; otherwise such a one is run whole.

    Raises:
      SavedModuleError: an array doesn't fit, the rows are no multiple of a fixed batch, or there is no axis to split.
    """
    description = program.description
    fixed = fixed_rows(description)
    if fixed is not None and len(arrays[0]) != fixed and _divisible(description, arrays, fixed):
        return _in_parts(program, arrays, fixed)
    if batch_axis(description) is not None:
        description.check(arrays)
        return _in_parts(program, arrays, rows)
    if asked and fixed != rows:
        raise SavedModuleError(f"{description.name} can't be run in batches: its values share no first axis")
    return program.run(arrays)


def batch_axis(description: Description) -> str | None:
    """The name of the dim that comes first in every input and output, or None."""
    first = {value.shape[0] if value.shape else None for value in (*description.inputs, *description.outputs)}
    name = first.pop() if len(first) == 1 else None
    return name if isinstance(name, str) else None


def fixed_rows(description: Description) -> int | None:
    """The size that comes first in every input and output, or None."""
    first = {value.shape[0] if value.shape else None for value in (*description.inputs, *description.outputs)}
    size = first.pop() if len(first) == 1 else None
    return size if isinstance(size, int) else None


def _divisible(description: Description, arrays: Sequence[np.ndarray], rows: int) -> bool:
    """Whether arrays are whole batches of a fixed size; other than that they must fit."""
    counts = {len(array) if array.ndim else 0 for array in arrays}
    if len(counts) != 1 or 0 in counts:
        return False
    count = counts.pop()
    if count % rows:
        raise SavedModuleError(f"{description.name} takes {rows} rows at a time, and {count} is no multiple of that")
    return True


def _in_parts(program: Runnable, arrays: Sequence[np.ndarray], rows: int) -> list[np.ndarray]:
    parts = [program.run(part) for part in _parts(arrays, rows)]
    return [np.concatenate(outputs) for outputs in zip(*parts)]


def _parts(arrays: Sequence[np.ndarray], rows: int) -> Iterator[list[np.ndarray]]:
    count = len(arrays[0])
    for start in range(0, max(count, 1), rows):
        yield [np.ascontiguousarray(array[start : start + rows]) for array in arrays]
