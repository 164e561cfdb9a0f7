"""Declares elementwise primitives: the columns that all of them share are filled in here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from tvtf.core.primitive import Primitive, primitive
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import FLOATING_AND_COMPLEX, DType
from tvtf.ops.rules import batch_elementwise, binary, binary_samples, bind, scalar, unary, unary_samples


def unary_op(
    *,
    numpy: Callable[..., Any],
    lower: Callable[..., Any] | None,
    domain: Sequence[DType] = FLOATING_AND_COMPLEX,
    result: DType | None = None,
    samples: Any = (-2.0, 2.0),
    gradient: bool = True,
    **columns: Any,
) -> Callable[[Callable[..., Any]], Primitive[Any]]:
    """An elementwise primitive of one input, sampled in the range ``samples`` (or by that function).

    ``lower`` is an expression of the scalar library and its values, unless a ``kernel`` column is given;
    ``gradient`` is False where the function jumps.
    """

    def declare(front: Callable[..., Any]) -> Primitive[Any]:
        columns.setdefault("type", unary(domain, result))
        columns["samples"] = samples if callable(samples) else unary_samples(domain, *samples, gradient=gradient)
        return _declare(front, numpy, lower, columns)

    return declare


def binary_op(
    *,
    numpy: Callable[..., Any],
    lower: Callable[..., Any] | None,
    domain: Sequence[DType],
    result: DType | None = None,
    samples: tuple[float, float] = (-2.0, 2.0),
    gradient: bool = True,
    **columns: Any,
) -> Callable[[Callable[..., Any]], Primitive[Any]]:
    """An elementwise primitive of two inputs of one dtype, broadcasting; see :func:`unary_op`."""

    def declare(front: Callable[..., Any]) -> Primitive[Any]:
        columns.setdefault("type", binary(domain, result))
        columns.setdefault("broadcasts", True)
        columns.setdefault("samples", binary_samples(domain, *samples, gradient=gradient))
        return _declare(front, numpy, lower, columns)

    return declare


def _declare(front: Callable[..., Any], numpy: Any, lower: Any, columns: dict[str, Any]) -> Primitive[Any]:
    lower = columns.pop("kernel") if "kernel" in columns else lower and scalar(lower)
    columns.setdefault("batch", batch_elementwise(columns.get("name") or front.__name__))
    is_ufunc = isinstance(numpy, np.ufunc) and numpy.nin <= 2
    return primitive(kind=Ufunc if is_ufunc else Primitive, numpy=numpy, lower=lower, **columns)(front)


class Ufunc(Primitive[Any]):
    """One that is a NumPy ufunc: done at once on operands of one dtype that the type rule has seen before.

    NumPy itself checks that the shapes broadcast.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: set[np.dtype] = set()

    def bind(self, x: Any, y: Any = None) -> Any:  # type: ignore[override]
        inputs = (x,) if y is None else (x, y)
        result = None
        if state.trace is None:
            try:
                array = x._array
                dtype = array.dtype
                if dtype in self.seen:
                    if y is None:
                        result = state.quiet.run(self.numpy, array)
                    elif y._array.dtype is dtype:
                        result = state.quiet.run(self.numpy, array, y._array)
            except (AttributeError, ValueError, RuntimeError):  # a batch, shapes, a context that is entered already
                pass
        if result is None:
            return super().bind(*inputs)
        output = EagerTensor(result if type(result) is np.ndarray else np.asarray(result))
        for tape in state.tapes:
            tape.record(self, inputs, output, {})
        return output

    def run(self, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        output = super().run(inputs, attrs)
        dtypes = {x.eager_array(self).dtype for x in inputs}
        if len(dtypes) == 1 and dtypes.isdisjoint(self.seen):
            (dtype,) = dtypes
            raw = self.numpy(*[np.ones(0, dtype)] * len(inputs))
            if dtype.kind != "O" and raw.dtype is output._array.dtype:  # else NumPy's result is to be cast
                self.seen.add(dtype)
        return output


# -- operands


def operands(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two operands as tensors; a Python or NumPy value takes the dtype of the tensor, or of the first.

    While tracing it is always the first, as TensorFlow's graphs infer dtypes.

    Raises:
      TypeError: a Python value that the dtype can't hold (2.5 next to int32).
    """
    if type(x) is EagerTensor and type(y) is EagerTensor:
        return x, y
    if is_tensor(x):
        x = convert_to_tensor(x)
        return x, like(y, x.dtype)
    if is_tensor(y) and state.trace is None:
        y = convert_to_tensor(y)
        return like(x, y.dtype), y
    x = convert_to_tensor(x)
    return x, like(y, x.dtype)


def hinted_operands(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """As TensorFlow's ``+`` and ``/``: what does not fit the first dtype keeps its own, for the op to refuse."""
    x = convert_to_tensor(x)
    try:
        return x, like(y, x.dtype)
    except TypeError:
        return x, convert_to_tensor(y)


def like(value: Any, dtype: DType) -> Tensor:
    """``value`` as an operand beside one of ``dtype``: tensors stay, NumPy values are cast, Python ones checked."""
    kind = type(value)
    if kind is int or kind is bool or kind is float:
        array = number(value, dtype)
        if array is not None:
            return EagerTensor(array)
    if is_tensor(value):
        return convert_to_tensor(value)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf" and dtype.is_numeric:
        return EagerTensor(np.asarray(value).astype(dtype.np))
    return convert_to_tensor(value, dtype)


MOST_HALF = 65504
"""The greatest float16: what is less is no overflow in any dtype."""


def number(value: float, dtype: DType) -> np.ndarray | None:
    """A Python number in a dtype that admits it; ints of up to 64 bits wrap around, as TensorFlow's operators have it."""
    if dtype.kind in "fc":
        if -MOST_HALF <= value <= MOST_HALF:
            return np.array(value, dtype.np)
        with np.errstate(over="ignore"), suppress(OverflowError):  # an int beyond all floats is refused as elsewhere
            return np.array(value, dtype.np)
    if dtype.kind in "iu" and type(value) is not float and int(value).bit_length() < 64:
        bits = 8 * dtype.np.itemsize
        return np.array(int(value) & ((1 << bits) - 1), f"u{bits // 8}").view(dtype.np)
    return None


def tensor_of(x: Any) -> tuple[tuple[Tensor], dict[str, Any]]:
    """The front of a function of one tensor."""
    return (convert_to_tensor(x),), {}


# -- cotangents


def conj(x: Tensor) -> Tensor:
    """The conjugate where ``x`` is complex, as TensorFlow's gradients have it."""
    return bind.conj(x) if x.dtype.is_complex else x


def chain(derivative: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The vjp of a function of one variable: ``ct`` times the (conjugate) derivative, given as ``derivative(y, x)``."""
    return lambda ct, y, x: bind.multiply(ct, conj(derivative(y, x)))


def chain_of_root(derivative: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """As :func:`chain`, but 0 where ``ct`` is, whatever the derivative: so are TensorFlow's SqrtGrad, RsqrtGrad and InvGrad."""
    return lambda ct, y, x: bind.multiply_no_nan(conj(derivative(y, x)), ct)


def scaled(x: Tensor, factor: float) -> Tensor:
    """``x`` times a Python number."""
    return bind.multiply(x, EagerTensor(np.array(factor, x._type.dtype.np)))


def shifted(x: Tensor, amount: float) -> Tensor:
    """``x`` plus a Python number."""
    return bind.add(x, EagerTensor(np.array(amount, x._type.dtype.np)))


# -- NumPy kernels


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy kernel that computes 16-bit floats in float32 and rounds once."""

    def run(*arrays: np.ndarray, **attrs: Any) -> Any:
        narrow = arrays[0].dtype
        if narrow.itemsize != 2 or narrow.kind not in "fV":
            return function(*arrays, **attrs)
        return np.asarray(function(*(a.astype(np.float32) for a in arrays), **attrs)).astype(narrow)

    return run


# -- ONNX


def nodes(tree: tuple[Any, ...]) -> Callable[..., None]:
    """An ``onnx`` column from a tree of nodes: ``("Not", ("Equal", 0, 1))``.

    An int is an input by position, a float a constant of the first input's dtype; a dict at the end holds attributes.
    """

    def emit(e: Any, inputs: Sequence[str], outputs: Sequence[str], types: Any, **_: Any) -> None:
        op, leaves, options = _parts(tree)
        e.node(op, [_leaf(e, leaf, inputs, types[0][0].dtype) for leaf in leaves], outputs, **options)

    return emit


def _parts(tree: tuple[Any, ...]) -> tuple[str, list[Any], dict[str, Any]]:
    op, *leaves = tree
    return (op, leaves[:-1], leaves[-1]) if isinstance(leaves[-1], dict) else (op, leaves, {})


def _leaf(e: Any, leaf: Any, inputs: Sequence[str], dtype: DType) -> str:
    if isinstance(leaf, tuple):
        op, leaves, options = _parts(leaf)
        return e.computed(op, [_leaf(e, part, inputs, dtype) for part in leaves], **options)
    return inputs[leaf] if isinstance(leaf, int) else e.const(np.array(leaf, dtype.np))
