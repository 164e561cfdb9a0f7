"""Elementwise comparison, logic, select, and tests for NaN and infinities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import Primitive, Sample, export, primitive
from tvtf.core.shape import Dim, TensorType, broadcast_shapes
from tvtf.core.tensor import Tensor, convert_to_tensor, static_value
from tvtf.dtypes import ALL, COMPILED, FLOATING, NUMERIC, REAL, DType, as_dtype
from tvtf.ops.elementwise import binary_op, like, nodes, operands, tensor_of, unary_op
from tvtf.ops.indexing import nonzero_indices
from tvtf.ops.rules import (
    batch_elementwise,
    binary,
    bind,
    broadcast_types,
    draw,
    require_same_dtype,
    scalar,
    unbroadcast,
    zeros_like,
)

bool_ = as_dtype("bool")
COMPARABLE = (*NUMERIC, bool_)


@binary_op(
    domain=COMPARABLE,
    type=binary(ALL, bool_),
    numpy=np.equal,
    lower=lambda t, x, y: t.equal(x, y),
    onnx="Equal",
    public=("equal", "math.equal"),
    shows=("tf.equal([1, 2], 2).numpy()", "array([False,  True])"),
)
def equal(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns whether ``x == y``, elementwise, with broadcasting. NaN is not equal to anything.

    Args:
      x: tensor of any dtype, shape (...).
      y: tensor of the same dtype, of a shape that broadcasts with x's.

    Returns:
      A bool tensor of the broadcast shape.
    """
    return operands(x, y), {}


@binary_op(
    domain=COMPARABLE,
    type=binary(ALL, bool_),
    numpy=np.not_equal,
    lower=lambda t, x, y: t.not_equal(x, y),
    onnx=nodes(("Not", ("Equal", 0, 1))),
    public=("not_equal", "math.not_equal"),
    shows=("tf.not_equal([1, 2], 2).numpy()", "array([ True, False])"),
)
def not_equal(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns whether ``x != y``, elementwise, with broadcasting."""
    return operands(x, y), {}


def _ordering(
    ufunc: np.ufunc, lower: Callable[..., Any], onnx: str, shows: tuple[str, str]
) -> Callable[[Callable[..., Any]], Primitive[Any]]:
    """Returns a decorator that declares an elementwise comparison of real numbers, public under its ufunc's name."""
    public = (ufunc.__name__, f"math.{ufunc.__name__}")
    return binary_op(domain=REAL, result=bool_, numpy=ufunc, lower=lower, onnx=onnx, public=public, shows=shows)


@_ordering(np.less, lambda t, x, y: x < y, "Less", shows=("tf.less([1, 2], 2).numpy()", "array([ True, False])"))
def less(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns whether ``x < y``, elementwise, with broadcasting."""
    return operands(x, y), {}


@_ordering(
    np.less_equal,
    lambda t, x, y: x <= y,
    "LessOrEqual",
    shows=("tf.less_equal([1, 3], 1).numpy()", "array([ True, False])"),
)
def less_equal(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns whether ``x <= y``, elementwise, with broadcasting."""
    return operands(x, y), {}


@_ordering(
    np.greater, lambda t, x, y: x > y, "Greater", shows=("tf.greater([1, 3], 1).numpy()", "array([False,  True])")
)
def greater(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns whether ``x > y``, elementwise, with broadcasting."""
    return operands(x, y), {}


@_ordering(
    np.greater_equal,
    lambda t, x, y: x >= y,
    "GreaterOrEqual",
    shows=("tf.greater_equal([1, 3], 3).numpy()", "array([False,  True])"),
)
def greater_equal(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns whether ``x >= y``, elementwise, with broadcasting."""
    return operands(x, y), {}


# -- logic


def _flags(*types: TensorType) -> TensorType:
    """Returns the result's type of a logical op, after checking that its inputs are bool and broadcast."""
    for i, type_ in enumerate(types):
        if type_.dtype is not bool_:
            _raise_not_bool(i, type_.dtype, "xy"[i])
    return TensorType(broadcast_types(*types), bool_)


def _raise_not_bool(position: int, dtype: DType, name: str) -> None:
    """Raises TensorFlow's error for an operand that isn't bool.

    The error names the operand by its position in eager execution, and by ``name`` while tracing.
    """
    kernel_names = {"float32": "float", "float64": "double", "float16": "half"}  # by which TensorFlow's kernels go
    kernel_name = kernel_names.get(dtype.name, dtype.name)
    raise ArgumentError(
        f"cannot compute {{op}} as input #{position}(zero-based) was expected to be a bool tensor but is a "
        f"{kernel_name} tensor",
        graph=TypeError,
        traced=f"Input '{name}' of '{{op}}' Op has type {dtype.name} that does not match expected type of bool.",
    )


def _flag_operands(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    return like(x, bool_), like(y, bool_)


def _logic(
    declare: Callable[..., Any], ufunc: np.ufunc, lower: Callable[..., Any], onnx: str, shows: tuple[str, str]
) -> Callable[[Callable[..., Any]], Primitive[Any]]:
    """Returns a decorator that declares an elementwise op on bools, public under its ufunc's name."""
    public = (ufunc.__name__, f"math.{ufunc.__name__}")
    columns = {"lower": lower, "onnx": onnx, "public": public, "shows": shows}
    return declare(type=_flags, domain=(bool_,), numpy=ufunc, **columns)  # type: ignore[no-any-return]


@_logic(
    binary_op,
    np.logical_and,
    lambda t, x, y: t.both(x, y),
    "And",
    shows=("tf.logical_and([True, False], True).numpy()", "array([ True, False])"),
)
def logical_and(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x and y`` of bool tensors, elementwise, with broadcasting.

    Raises:
      InvalidArgumentError: (TypeError while tracing) an operand's dtype is not bool.
    """
    return _flag_operands(x, y), {}


@_logic(
    binary_op,
    np.logical_or,
    lambda t, x, y: t.either(x, y),
    "Or",
    shows=("tf.logical_or([True, False], False).numpy()", "array([ True, False])"),
)
def logical_or(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x or y`` of bool tensors, elementwise, with broadcasting."""
    return _flag_operands(x, y), {}


@_logic(
    unary_op,
    np.logical_not,
    lambda t, x: t.negated(x),
    "Not",
    shows=("tf.logical_not([True, False]).numpy()", "array([False,  True])"),
)
def logical_not(x: Any, name: str | None = None) -> Any:
    """Computes ``not x`` of a bool tensor, elementwise."""
    return (like(x, bool_),), {}


@export("math.logical_xor")
def logical_xor(x: Any, y: Any, name: str | None = "LogicalXor") -> Any:
    """Returns whether exactly one of two bool tensors is true, elementwise, with broadcasting.

    Args:
      x: bool tensor of shape (...).
      y: bool tensor of a shape that broadcasts with x's.

    Returns:
      A bool tensor of the broadcast shape.

    >>> import tvtf as tf
    >>> tf.math.logical_xor([True, False], True).numpy()
    array([False,  True])

    Source: https://www.tensorflow.org/api_docs/python/tf/math/logical_xor
    """
    first, second = _flag_operands(x, y)
    return logical_and.bind(logical_or.bind(first, second), logical_not.bind(logical_and.bind(first, second)))


# -- select


def _select_type(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    """Checks the operands of a select, and returns the type of the result.

    The condition must be bool, ``x`` and ``y`` must have the same dtype, and all three must broadcast.
    """
    if condition.dtype is not bool_:
        _raise_not_bool(0, condition.dtype, "condition")
    require_same_dtype((x, y), ("t", "e"))  # TensorFlow's names: then, else
    shape: tuple[Dim, ...] = ()
    for operand in (condition, x, y):
        combined = broadcast_shapes(shape, operand.shape)
        if combined is None:
            raise ArgumentError(_show_select(condition, x, y))
        shape = combined
    return TensorType(shape, x.dtype)


def _show_select(*types: TensorType) -> str:
    condition, x, y = ("[" + ",".join(map(str, type_.shape)) + "]" for type_ in types)
    return f"condition {condition}, then {x}, and else {y} must be broadcastable"


_MASK_THRESHOLD = 4096
"""Minimum number of elements for which selecting by bit masks is faster than ``np.where``, which branches.

For 1M elements it is eight times as fast."""


def _select_array(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Computes a select elementwise by NumPy.

    Large arrays are combined by ``y ^ (mask & (x ^ y))`` on their bits: three vectorized passes without branches.
    """
    if condition.size < _MASK_THRESHOLD or x.dtype != y.dtype or x.dtype.hasobject or x.dtype.itemsize > 8:
        return np.where(condition, x, y)
    integer = f"i{x.dtype.itemsize}"  # as wide as the elements
    x_bits = x.view(integer)
    y_bits = y.view(integer)
    mask = np.negative(condition.view(np.int8)).astype(integer)  # True becomes -1, all ones
    selected_bits = mask & (x_bits ^ y_bits)
    selected_bits ^= y_bits
    return selected_bits.view(x.dtype)


def _select_value(condition: Any, x: Any, y: Any) -> np.ndarray | None:
    """Returns the selected value if the trace knows both operands and the condition."""
    flags = static_value(condition)
    if flags is None or x.known is None or y.known is None:
        return None
    return np.where(flags, x.known, y.known)


@primitive(
    tf_name="SelectV2",
    type=_select_type,
    value=_select_value,
    numpy=_select_array,
    lower=scalar(lambda t, condition, x, y: t.select(condition, x, y)),
    vjp=lambda cotangent, z, condition, x, y: (
        None,
        unbroadcast(bind.select(condition, cotangent, zeros_like(cotangent)), x),
        unbroadcast(bind.select(condition, zeros_like(cotangent), cotangent), y),
    ),
    batch=batch_elementwise("select"),
    broadcasts=True,
    heavy="repeated",
    onnx="Where",
    samples=lambda: [
        Sample((np.array(flags), draw(0, a), draw(1, b)), {}, COMPILED)
        for flags, a, b in (
            ([True, False, True], (3,), (3,)),
            (True, (2, 3), (3,)),
            ([[True], [False]], (), (1, 3)),
            ([True, False], (2,), ()),
            (np.zeros((0, 2), bool), (2,), (1, 2)),
        )
    ],
)
def select(condition: Any, x: Any, y: Any) -> Any:
    """Selects ``x`` where ``condition``, else ``y``; the three broadcast."""
    x, y = operands(x, y)
    return (like(condition, bool_), x, y), {}


@export("where", "where_v2")
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Selects ``x`` where ``condition`` is true, else ``y``; with the condition only, returns the indices where it is true.

    Args:
      condition: bool tensor; any numeric dtype where it stands alone.
      x: tensor of any dtype, of a shape that broadcasts with the others'.
      y: tensor of the same dtype, of a shape that broadcasts with the others'.

    Returns:
      A tensor of the broadcast shape and the dtype of ``x``; or an int64 tensor of shape (count, rank).

    Raises:
      ValueError: only one of ``x`` and ``y`` is given.
      InvalidArgumentError: (ValueError while tracing) the shapes don't broadcast.

    >>> import tvtf as tf
    >>> tf.where([True, False], [1, 2], 0).numpy()
    array([1, 0], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/where
    """
    if (x is None) != (y is None):
        raise ValueError("x and y must both be non-None or both be None.")
    if x is None:
        flags = convert_to_tensor(condition)
        if not flags.ndim:
            raise ArgumentValueError("WhereOp : Unhandled input dimensions: 0")
        return nonzero_indices(flags)
    return select(condition, x, y)


# -- tests of floats


def _number_test(
    ufunc: np.ufunc, lower: Callable[..., Any], onnx: Any, shows: tuple[str, str]
) -> Callable[[Callable[..., Any]], Primitive[Any]]:
    """Returns a decorator that declares an elementwise test of floats, such as ``is_nan``, public in ``tf.math``.

    Args:
      ufunc: the test of NumPy arrays.
      lower: the test of a scalar in a kernel.
      onnx: the ONNX nodes of the test.
      shows: the docstring's example: a call and its result.
    """

    def declare(front: Callable[..., Any]) -> Primitive[Any]:
        """Declares the elementwise primitive whose public function is ``front``, such as ``is_nan``."""
        return unary_op(
            domain=FLOATING,
            result=bool_,
            numpy=ufunc,
            lower=lower,
            onnx=onnx,
            public=(f"math.{front.__name__}",),
            shows=shows,
        )(front)

    return declare


@_number_test(
    np.isnan,
    lambda t, x: t.isnan(x),
    "IsNaN",
    shows=('tf.math.is_nan([1., float("nan")]).numpy()', "array([False,  True])"),
)
def is_nan(x: Any, name: str | None = None) -> Any:
    """Returns whether elements are NaN."""
    return tensor_of(x)


@_number_test(
    np.isinf,
    lambda t, x: t.isinf(x),
    "IsInf",
    shows=('tf.math.is_inf([1., float("-inf")]).numpy()', "array([False,  True])"),
)
def is_inf(x: Any, name: str | None = None) -> Any:
    """Returns whether elements are infinite, of either sign."""
    return tensor_of(x)


@_number_test(
    np.isfinite,
    lambda t, x: t.isfinite(x),
    nodes(("Not", ("Or", ("IsNaN", 0), ("IsInf", 0)))),
    shows=('tf.math.is_finite([1., float("inf"), float("nan")]).numpy()', "array([ True, False, False])"),
)
def is_finite(x: Any, name: str | None = None) -> Any:
    """Returns whether elements are finite numbers."""
    return tensor_of(x)
