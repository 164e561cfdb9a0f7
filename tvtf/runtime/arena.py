"""Arenas: memory blocks for the temporary tensors of compiled functions, shared by all functions of a thread.

A function's temporary tensors are views of the thread's block. They are created once per block and passed to each call. A
nested call, such as one from a signal handler, uses another block. A function that needs more memory gets a larger block,
which replaces the smaller one; other functions then create new views.
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
    """The memory plan of a function: ``described`` is the size in bytes, then offset, shape and dtype of each tensor."""

    def __init__(self, described: Sequence[Any]) -> None:
        self.size = int(described[0])
        fields = zip(described[1::3], described[2::3], described[3::3])
        self.places = [(int(o), tuple(map(int, shape)), as_dtype(str(dtype))) for o, shape, dtype in fields]

    def tensors(self, memory: np.ndarray) -> list[Any]:
        """Returns the temporary tensors as TVM tensors that view ``memory``."""
        return [_tensor(memory, *place) for place in self.places]


def _tensor(memory: np.ndarray, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
    kind = np.dtype(dtype.as_numpy_dtype)
    part = memory[offset : offset + prod(shape) * kind.itemsize]
    return to_handle(part.view(kind).reshape(shape))


class Block:
    """A memory block, with the tensors of each layout that used it."""

    def __init__(self, size: int) -> None:
        self.memory = aligned_array.empty((size,), np.dtype(np.uint8))
        self._tensors: WeakKeyDictionary[Layout, list[Any]] = WeakKeyDictionary()

    def tensors(self, layout: Layout) -> list[Any]:
        tensors = self._tensors.get(layout)
        if tensors is None:
            tensors = self._tensors[layout] = layout.tensors(self.memory)
        return tensors


class _Blocks(threading.local):
    """The free blocks of a thread."""

    def __init__(self) -> None:
        self.free: list[Block] = []

    def take(self, size: int) -> Block:
        """Returns a free block, or a new one if there is none or it is too small."""
        block = self.free.pop() if self.free else None
        return block if block is not None and block.memory.size >= size else Block(size)


_blocks = _Blocks()


def with_arena(run: Callable[..., Any], layout: Layout) -> Callable[..., Any]:
    """Binds the last parameters of ``run`` to the temporary tensors of its layout, in a block of the calling thread.

    The next call reuses the block, whose memory the system has paged in already.
    """

    def call(*args: Any) -> Any:
        block = _blocks.take(layout.size)
        try:
            return run(*args, *block.tensors(layout))
        finally:
            _blocks.free.append(block)

    return call
