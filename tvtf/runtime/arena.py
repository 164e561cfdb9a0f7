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
from tvtf.ir.dialect import dtype_of


class Layout:
    """The memory plan of a compiled function's temporary tensors.

    Args:
      described: the block's size in bytes, followed by the offset, shape and dtype of each tensor.
    """

    def __init__(self, described: Sequence[Any]) -> None:
        self.size = int(described[0])
        described_fields = zip(described[1::3], described[2::3], described[3::3])
        self.fields = [
            (int(offset), tuple(map(int, shape)), dtype_of(str(dtype))) for offset, shape, dtype in described_fields
        ]

    def tensors(self, memory: np.ndarray) -> list[Any]:
        """Returns the temporary tensors as TVM tensors that view ``memory``."""
        return [_tensor(memory, *field) for field in self.fields]


def _tensor(memory: np.ndarray, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """Returns a TVM tensor that views the bytes of ``memory`` starting at ``offset``."""
    kind = np.dtype(dtype.as_numpy_dtype)
    part = memory[offset : offset + prod(shape) * kind.itemsize]
    return to_handle(part.view(kind).reshape(shape))


class Block:
    """A memory block, with the tensors of each layout that used it."""

    def __init__(self, size: int) -> None:
        self.memory = aligned_array.empty((size,), np.dtype(np.uint8))
        self._tensors: WeakKeyDictionary[Layout, list[Any]] = WeakKeyDictionary()

    def tensors(self, layout: Layout) -> list[Any]:
        """Returns the temporary tensors of a layout as views of this block; creates them on the first use."""
        tensors = self._tensors.get(layout)
        if tensors is None:
            tensors = self._tensors[layout] = layout.tensors(self.memory)
        return tensors


class _Blocks(threading.local):
    """The free blocks of a thread."""

    def __init__(self) -> None:
        self.free: list[Block] = []

    def take(self, size: int) -> Block:
        """Removes a block from the free blocks and returns it.

        Allocates a new block of ``size`` bytes if no block is free, or if the last free block is smaller.
        """
        block = self.free.pop() if self.free else None
        return block if block is not None and block.memory.size >= size else Block(size)


_blocks = _Blocks()


def with_arena(run: Callable[..., Any], layout: Layout) -> Callable[..., Any]:
    """Returns a callable that appends temporary tensors to the arguments of a compiled function and calls this function.

    The tensors are views of a memory block of the calling thread. The next call reuses the block: the operating system
    has paged in the memory already.

    Args:
      run: the compiled function; its last parameters are the temporary tensors.
      layout: the memory plan of these tensors.
    """

    def call(*args: Any) -> Any:
        """Calls the function with memory of a free block, which the next call can use again."""
        block = _blocks.take(layout.size)
        try:
            return run(*args, *block.tensors(layout))
        finally:
            _blocks.free.append(block)

    return call
