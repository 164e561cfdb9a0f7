"""Primitives of dims alone, so that no tensor is computed only for its shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentValueError
from tvtf.core.primitive import Sample, hooks, primitive
from tvtf.core.shape import Dim, TensorType
from tvtf.core.text_format import HOLE
from tvtf.core.thread_state import state
from tvtf.dtypes import DType, int32, int64
from tvtf.dtypes import bool as bool_dtype
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind, kernel

TOO_LARGE = "Shape: a size that the program computes, or their product, is more than {dtype} counts"

ADDRESSABLE = 1 << 47
"""Bytes that a process can address at most: 47 bits on x86-64."""


def require_countable(dims: tuple[Dim, ...], dtype: DType) -> None:
    """Checks that known dims fit the integer dtype of a shape vector, as TensorFlow's kernels do.

    Raises:
      ArgumentValueError: a dim is too large.
    """
    for axis, dim in enumerate(dims):
        if isinstance(dim, int) and dim > dtype.max:
            raise ArgumentValueError(f"Shape output type is {8 * dtype.size}-bit but dim {axis} is {dim}")


def _vector_type(*, dims: tuple[Dim, ...], dtype: DType) -> TensorType:
    require_countable(dims, dtype)
    return TensorType((len(dims),), dtype)


def _guard(*, dims: tuple[Dim, ...], dtype: DType) -> list[tuple[Any, str]]:
    """Returns the run-time check that the dims which the program computes fit a dtype.

    Dims of the program's arguments fit anyway, because the arrays exist.
    """
    computed_dims = tuple(dim for dim in dims if state.trace.computes(dim))
    if not computed_dims:
        return []
    all_fit = bind.dims_fit(dims=computed_dims, most=int(dtype.max))
    return [] if all_fit is None else [(all_fit, TOO_LARGE.format(dtype=dtype.name))]


@primitive(
    tf_name="Shape",
    type=_vector_type,
    numpy=lambda *, dims, dtype: np.array(dims, dtype.np),
    lower=kernel("array.dims_vector"),
    guard=_guard,
    batch=lambda size, inputs, batched, **attrs: bind.dims_vector(**attrs),
    onnx=lambda emitter, inputs, outputs, types, *, dims, dtype: emitter.node(
        "Identity", [emitter.cast(emitter.shape(dims), dtype)], outputs
    ),
    value=lambda *, dims, dtype: np.array([*dims], object),
    samples=lambda: [
        Sample((), {"dims": dims, "dtype": dtype}, (), gradient=False)
        for dims, dtype in (((2, 3), int32), ((0, 1 << 40), int64), ((), int32))
    ],
    why_not={"vjp": "no inputs"},
)
def dims_vector(dims: tuple[Dim, ...], dtype: DType) -> Any:
    """Returns dims as a vector."""
    return (), {"dims": dims, "dtype": dtype}


@primitive(
    tf_name="Shape",
    type=lambda *, dims, most: TensorType((), bool_dtype),
    numpy=lambda *, dims, most: np.array(all(dim <= most for dim in dims)),
    lower=kernel("array.dims_fit"),
    batch=lambda size, inputs, batched, **attrs: bind.dims_fit(**attrs),
    samples=lambda: [
        Sample((), {"dims": dims, "most": most}, (), gradient=False)
        for dims, most in (((2, 3), 2), ((2, 1 << 40), 1 << 40), ((), 0))
    ],
    why_not={"vjp": "no inputs", "onnx": "compiled code alone checks the sizes of what it makes"},
)
def dims_fit(dims: tuple[Dim, ...], most: int) -> Any:
    """Returns whether no dim is larger than ``most``; a product that overflows 64 bits is."""
    return (), {"dims": dims, "most": most}


@primitive(
    tf_name="Shape",
    type=lambda *, sizes: TensorType((), bool_dtype),
    numpy=lambda *, sizes: np.array(all(size < ADDRESSABLE for size in sizes)),
    lower=kernel("array.memory_fits"),
    batch=lambda size, inputs, batched, **attrs: bind.memory_fits(**attrs),
    samples=lambda: [Sample((), {"sizes": shape}, (), gradient=False) for shape in ((2, 3), (2, 1 << 60), ())],
    why_not={"vjp": "no inputs", "onnx": "compiled code alone checks the sizes of what it makes"},
)
def memory_fits(sizes: tuple[Dim, ...]) -> Any:
    """Returns whether tensors of these ``sizes`` in bytes can be allocated.

    The limits are what a process can address and a few times the machine's memory.
    """
    return (), {"sizes": sizes}


@primitive(
    tf_name="Shape",
    type=lambda *, dims: TensorType((), bool_dtype),
    numpy=lambda *, dims: np.array(dims[0] == dims[1]),
    lower=kernel("array.dims_equal"),
    batch=lambda size, inputs, batched, **attrs: bind.dims_equal(**attrs),
    samples=lambda: [Sample((), {"dims": dims}, (), gradient=False) for dims in ((2, 3), (1 << 40, 1 << 40))],
    onnx=lambda emitter, inputs, outputs, types, *, dims: emitter.node(
        "Equal", [emitter.computed("Squeeze", [emitter.shape((dim,))]) for dim in dims], outputs
    ),
    why_not={"vjp": "no inputs"},
)
def dims_equal(dims: tuple[Dim, Dim]) -> Any:
    """Returns whether two dims are equal."""
    return (), {"dims": dims}


def _compare_dims(a: Dim, b: Dim) -> None:
    """Emits a run-time check that two dims are equal, for dims that can't be compared or assumed to be equal before."""
    message = f"Dimensions must be equal, but are {HOLE} and {HOLE}"
    bind.guard(bind.dims_equal(dims=(a, b)), scalar_of(a), scalar_of(b), message=message, shown=2)


hooks.compare_dims = _compare_dims
