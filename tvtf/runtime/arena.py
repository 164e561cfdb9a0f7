"""Memory that compiled functions compute in: a block for each depth of calls in a thread, shared by all functions.

A function's tensors are made once, in the thread's block, and handed to each call; a call within a call (Python code that
a signal runs) takes a block of its own. A block grows with the largest function that ran; what lay in the smaller one is
made anew at its next call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tvtf.core import aligned_array
from tvtf.core.dlpack_view import to_handle
from tvtf.dtypes import as_dtype


class Layout:
    """Where a function's tensors lie: ``described`` is its size, then offset, shape and dtype of each."""

    def __init__(self, described: Sequence[Any]) -> None:
        self.size = int(described[0])
        fields = zip(described[1::3], described[2::3], described[3::3])
        self.places = [(int(o), tuple(map(int, shape)), as_dtype(str(dtype))) for o, shape, dtype in fields]

    def tensors(self, memory: np.ndarray) -> list[Any]:
        """The tensors, as the virtual machine takes them."""
        return [_tensor(memory, *place) for place in self.places]


def _tensor(memory: np.ndarray, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
    kind = np.dtype(dtype.as_numpy_dtype)
    part = memory[offset : offset + prod(shape) * kind.itemsize]
    return to_handle(part.view(kind).reshape(shape))


class Block:
    """Bytes, and each layout's tensors in them."""

    def __init__(self, size: int) -> None:
        self.memory = aligned_array.empty((size,), np.dtype(np.uint8))
        self._tensors: WeakKeyDictionary[Layout, list[Any]] = WeakKeyDictionary()

    def tensors(self, layout: Layout) -> list[Any]:
        found = self._tensors.get(layout)
        if found is None:
            found = self._tensors[layout] = layout.tensors(self.memory)
        return found


class _Blocks(threading.local):
    def __init__(self) -> None:
        self.free: list[Block] = []

    def take(self, size: int) -> Block:
        block = self.free.pop() if self.free else None
        return block if block is not None and block.memory.size >= size else Block(size)


_blocks = _Blocks()


def with_arena(run: Callable[..., Any], layout: Layout) -> Callable[..., Any]:
    """``run`` without its last parameters, which take the tensors of its layout."""

    def call(*args: Any) -> Any:
        block = _blocks.take(layout.size)
        try:
            return run(*args, *block.tensors(layout))
        finally:
            _blocks.free.append(block)

    return call
