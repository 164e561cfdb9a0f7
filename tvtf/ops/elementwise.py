"""Declaration of elementwise primitives, with defaults for the columns that they share."""

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
    """Declares an elementwise primitive of one input, sampled in the range ``samples`` (or by that function).

    ``lower`` is an expression of the scalar library and its values, unless a ``kernel`` column is given;
    ``gradient`` is False for functions with jumps, which numeric gradients can't check. ``shows`` is a call and its
    result, which complete the docstring together with the page of TensorFlow that is its source.
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
    """Declares a broadcasting elementwise primitive of two inputs of one dtype; see :func:`unary_op`."""

    def declare(front: Callable[..., Any]) -> Primitive[Any]:
        columns.setdefault("type", binary(domain, result))
        columns.setdefault("broadcasts", True)
        columns.setdefault("samples", binary_samples(domain, *samples, gradient=gradient))
        return _declare(front, numpy, lower, columns)

    return declare


EXAMPLE = """

    >>> import tvtf as tf
    >>> {call}
    {result}

    Source: https://www.tensorflow.org/api_docs/python/tf/{page}
    """


def _declare(front: Callable[..., Any], numpy: Any, lower: Any, columns: dict[str, Any]) -> Primitive[Any]:
    if "shows" in columns:
        call, result = columns.pop("shows")
        public = columns["public"]
        page = next((path for path in public if path.startswith("math.")), public[0]).replace(".", "/")
        front.__doc__ = (front.__doc__ or "").rstrip() + EXAMPLE.format(call=call, result=result, page=page)
    lower = columns.pop("kernel") if "kernel" in columns else lower and scalar(lower)
    columns.setdefault("batch", batch_elementwise(columns.get("name") or front.__name__))
    is_ufunc = isinstance(numpy, np.ufunc) and numpy.nin <= 2
    return primitive(kind=Ufunc if is_ufunc else Primitive, numpy=numpy, lower=lower, **columns)(front)


class Ufunc(Primitive[Any]):
    """A primitive that is a NumPy ufunc, with a fast path for eager operands of a dtype that passed the type rule before.

    NumPy itself checks that the shapes broadcast.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: set[np.dtype] = set()

    def bind(self, x: Any, y: Any = None) -> Any:  # type: ignore[override]
        """Calls NumPy directly on eager tensors of dtypes in ``seen``; anything else takes the general path."""
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
            except (AttributeError, ValueError, RuntimeError):  # a batch, wrong shapes, a nested quiet context
                pass
        if result is None:
            return super().bind(*inputs)
        output = EagerTensor(result if type(result) is np.ndarray else np.asarray(result))
        for tape in state.tapes:
            tape.record(self, inputs, output, {})
        return output

    def run(self, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Runs the op, and adds its dtype to ``seen`` if NumPy's result has the op's dtype without a cast."""
        output = super().run(inputs, attrs)
        dtypes = {x.eager_array(self).dtype for x in inputs}
        if len(dtypes) == 1 and dtypes.isdisjoint(self.seen):
            (dtype,) = dtypes
            raw = self.numpy(*[np.ones(0, dtype)] * len(inputs))
            if dtype.kind != "O" and raw.dtype is output._array.dtype:  # otherwise NumPy's result needs a cast
                self.seen.add(dtype)
        return output


# -- operands


def operands(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Converts two operands to tensors; a Python or NumPy value takes the dtype of the tensor, or of the first operand.

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
    """Converts operands as TensorFlow's ``+`` and ``/`` do.

    An operand that doesn't fit the first one's dtype is left to the op, which raises.
    """
    x = convert_to_tensor(x)
    try:
        return x, like(y, x.dtype)
    except TypeError:
        return x, convert_to_tensor(y)


def like(value: Any, dtype: DType) -> Tensor:
    """Converts an operand beside one of ``dtype``: tensors are kept, NumPy values cast, Python values checked."""
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
"""The largest float16: a smaller number overflows no floating dtype."""


def number(value: float, dtype: DType) -> np.ndarray | None:
    """Converts a Python number to a dtype, or returns None if it needs checks; ints of up to 64 bits wrap around."""
    if dtype.kind in "fc":
        if -MOST_HALF <= value <= MOST_HALF:
            return np.array(value, dtype.np)
        with np.errstate(over="ignore"), suppress(OverflowError):  # an int too large for a float falls through to None
            return np.array(value, dtype.np)
    if dtype.kind in "iu" and type(value) is not float and int(value).bit_length() < 64:
        bits = 8 * dtype.np.itemsize
        return np.array(int(value) & ((1 << bits) - 1), f"u{bits // 8}").view(dtype.np)
    return None


def tensor_of(x: Any) -> tuple[tuple[Tensor], dict[str, Any]]:
    """Returns the inputs and attributes of an op of one tensor."""
    return (convert_to_tensor(x),), {}


# -- cotangents


def conj(x: Tensor) -> Tensor:
    """Returns the conjugate of a complex ``x``, as TensorFlow's gradients do, else ``x``."""
    return bind.conj(x) if x.dtype.is_complex else x


def chain(derivative: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns the vjp of a function of one variable: ``ct`` times the conjugate of ``derivative(y, x)``."""
    return lambda ct, y, x: bind.multiply(ct, conj(derivative(y, x)))


def chain_of_root(derivative: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns a vjp like :func:`chain`, but 0 where ``ct`` is 0 even if the derivative is infinite.

    TensorFlow's SqrtGrad, RsqrtGrad and InvGrad do that.
    """
    return lambda ct, y, x: bind.multiply_no_nan(conj(derivative(y, x)), ct)


def scaled(x: Tensor, factor: float) -> Tensor:
    """Multiplies ``x`` by a Python number."""
    return bind.multiply(x, EagerTensor(np.array(factor, x._type.dtype.np)))


def shifted(x: Tensor, amount: float) -> Tensor:
    """Adds a Python number to ``x``."""
    return bind.add(x, EagerTensor(np.array(amount, x._type.dtype.np)))


# -- NumPy kernels


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a NumPy kernel that computes 16-bit floats in float32 and rounds once."""

    def run(*arrays: np.ndarray, **attrs: Any) -> Any:
        narrow = arrays[0].dtype
        if narrow.itemsize != 2 or narrow.kind not in "fV":
            return function(*arrays, **attrs)
        return np.asarray(function(*(a.astype(np.float32) for a in arrays), **attrs)).astype(narrow)

    return run


# -- ONNX


def nodes(tree: tuple[Any, ...]) -> Callable[..., None]:
    """Returns an ``onnx`` column that writes a tree of nodes: ``("Not", ("Equal", 0, 1))``.

    An int is an input by position, a float a constant of the first input's dtype; a dict at the end holds attributes.
    """

    def emit(emitter: Any, inputs: Sequence[str], outputs: Sequence[str], types: Any, **_: Any) -> None:
        op, leaves, options = _parts(tree)
        emitter.node(op, [_leaf(emitter, leaf, inputs, types[0][0].dtype) for leaf in leaves], outputs, **options)

    return emit


def _parts(tree: tuple[Any, ...]) -> tuple[str, list[Any], dict[str, Any]]:
    op, *leaves = tree
    return (op, leaves[:-1], leaves[-1]) if isinstance(leaves[-1], dict) else (op, leaves, {})


def _leaf(emitter: Any, leaf: Any, inputs: Sequence[str], dtype: DType) -> str:
    """Writes a node of the tree, an input or a constant; returns its name."""
    if isinstance(leaf, tuple):
        op, leaves, options = _parts(leaf)
        return emitter.computed(op, [_leaf(emitter, part, inputs, dtype) for part in leaves], **options)
    return inputs[leaf] if isinstance(leaf, int) else emitter.const(np.array(leaf, dtype.np))
