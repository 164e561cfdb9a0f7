"""Primitives of dims alone, so that no tensor is computed only for its shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentValueError
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import Sample, primitive
from tvtf.core.shape import Dim, TensorType, agree_dim, same_dim
from tvtf.core.thread_state import state
from tvtf.dtypes import DType, int32, int64
from tvtf.dtypes import bool as bool_dtype
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
    computed = tuple(d for d in dims if _is_computed(d, state.trace))
    fits = bind.dims_fit(dims=computed, most=int(dtype.max)) if computed else None
    return [] if fits is None else [(fits, TOO_LARGE.format(dtype=dtype.name))]


def _is_computed(dim: Dim, trace: Any) -> bool:
    """Returns whether the program computes a dim, instead of reading it from the shapes of a trace's arguments.

    Such a dim depends on symbols that the trace's parameters don't have.
    """
    if isinstance(dim, int):
        return False
    from tvm import tirx

    parameter_symbols: set[Any] = set()
    shapes = [param._type.shape for param in trace.params]
    for shape in shapes:
        for param_dim in () if isinstance(shape, AnyShape) else shape:
            parameter_symbols.update(symbols_in(param_dim))
    return not parameter_symbols.issuperset(tirx.analysis.undefined_vars(dim))


def symbols_in(dim: Dim) -> list[Any]:
    from tvm import tirx

    return [] if isinstance(dim, int) else list(tirx.analysis.undefined_vars(dim))


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
    samples=lambda: [Sample((), {"sizes": s}, (), gradient=False) for s in ((2, 3), (2, 1 << 60), ())],
    why_not={"vjp": "no inputs", "onnx": "compiled code alone checks the sizes of what it makes"},
)
def memory_fits(sizes: tuple[Dim, ...]) -> Any:
    """Returns whether tensors of these ``sizes`` in bytes can be allocated.

    The limits are what a process can address and a few times the machine's memory.
    """
    return (), {"sizes": sizes}


def agree_or_check(a: Dim, b: Dim) -> bool:
    """Returns whether two dims agree, as ``agree_dim`` says; sizes that the program computes it compares at run time.

    ``agree_dim`` assumes that dims are equal by setting a symbol, and of ``n`` and ``min(n, 6)`` none can be set. To trace
    the function for the sizes of a call would not help where the program computes ``n``, so the program compares the two.
    """
    if agree_dim(a, b):
        return True
    if isinstance(a, int) and isinstance(b, int):
        return False
    if state.trace is None or state.infers_type:  # the call is in the program already, after the comparison
        return True
    root = state.trace.root
    if not any(_is_computed(dim, root) for dim in (a, b)):
        return False
    # What an assumption, which another branch may have made, put in place of a symbol would be compared in all branches.
    if any(same_dim(dim, assumed) for dim in (a, b) for assumed in root.assumptions.values()):
        return False
    # ``told_dims`` computes those of its dims that are symbols, and checks a number or an expression.
    computed, checked = (a, b) if _is_symbol(a) else (b, a)
    bind.told_dims(bind.dims_vector(dims=(computed,), dtype=int64), dims=(checked,))
    return True


def _is_symbol(dim: Dim) -> bool:
    from tvm import tirx

    return isinstance(dim, tirx.Var)
