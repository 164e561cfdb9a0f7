"""A call of a primitive, written for each framework, and the bytes that it moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from benchmarks.workload import Call, Workload

Shape = tuple[int, ...]
ELEMENT_BYTES = {"float32": 4, "int32": 4, "float64": 8}


@dataclass(frozen=True)
class Operand:
    """Random values in a range."""

    shape: Shape
    low: float = -2.0
    high: float = 2.0
    dtype: str = "float32"

    def values(self, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        if self.dtype == "int32":
            return rng.integers(int(self.low), int(self.high), self.shape, "int32")
        return rng.uniform(self.low, self.high, self.shape).astype(self.dtype)

    @property
    def traffic(self) -> int:
        return ELEMENT_BYTES[self.dtype] * prod(self.shape)


@dataclass(frozen=True)
class Primitive:
    """One call: ``tensorflow(tf, *operands)`` and its like; ``written`` is the number of elements in its results."""

    name: str
    operands: Sequence[Operand]
    tensorflow: Callable[..., Any]
    jax: Callable[..., Any] | None
    torch: Callable[..., Any] | None
    written: int

    @property
    def traffic(self) -> int:
        """Returns the minimum number of bytes that the call moves."""
        element_bytes = max(ELEMENT_BYTES[operand.dtype] for operand in self.operands)
        return element_bytes * self.written + sum(operand.traffic for operand in self.operands)

    def workload(self) -> Workload:
        """Returns the workload that calls the primitive in each framework."""
        return Workload(
            f"one {self.name}",
            self.name,
            self.operands,
            self.operands,
            self._tensorflow,
            self.jax and self._jax,
            self._torch,
        )

    def _arrays(self) -> list[np.ndarray]:
        return [operand.values(seed) for seed, operand in enumerate(self.operands)]

    def _tensorflow(self, tf: Any, function: Any, _size: Any) -> Call:
        inputs = [tf.constant(array) for array in self._arrays()]
        compiled = function(lambda *tensors: self.tensorflow(tf, *tensors))
        return lambda: compiled(*inputs)

    def _jax(self, jax: Any, _size: Any) -> Call:
        inputs = [jax.numpy.asarray(array) for array in self._arrays()]
        compiled = jax.jit(lambda *arrays: self.jax(jax, *arrays))
        return lambda: jax.block_until_ready(compiled(*inputs))

    def _torch(self, torch: Any, compiled: Any, _size: Any) -> Call | None:
        if self.torch is None:
            return None
        inputs = [torch.from_numpy(array) for array in self._arrays()]
        run = compiled(lambda *tensors: self.torch(torch, *tensors))
        return torch.inference_mode()(lambda: run(*inputs))


SQUARE = (1000, 1003)
