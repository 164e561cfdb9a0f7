"""Elementwise arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, incompatible_shapes
from tvtf.core.primitive import export
from tvtf.core.shape import agree_shape, as_shape
from tvtf.core.tensor import Tensor, convert_to_tensor, is_tensor
from tvtf.dtypes import COMPLEX, FLOATING, FLOATING_AND_COMPLEX, NUMERIC, REAL, SIGNED, as_dtype, string
from tvtf.ops.elementwise import binary_op, conj, hinted_operands, nodes, operands, tensor_of, unary_op, widened
from tvtf.ops.indexed_slices import on_values
from tvtf.ops.rules import binary, bind, kernel, number, require_same_dtype, unbroadcast, zeros_like

MSG_NEGATIVE_POWER = "Integers to negative integer powers are not allowed"


def both_known(function: Any) -> Any:
    """Returns the rule that evaluates a binary op while tracing, for arithmetic with shapes.

    The rule applies ``function`` if both operands are known while tracing. Otherwise it returns None.
    """

    def value(x: Any, y: Any) -> Any:
        """Returns the result of ``function`` on the operands' known values, or None if tracing doesn't know them."""
        if x.known is None or y.known is None:
            return None
        try:
            return function(x.known, y.known)
        except ValueError:  # two symbolic dims can't be compared while tracing
            return None

    return value


def _negated_to(like: Tensor, cotangent: Tensor) -> Tensor:
    """Returns the cotangent ``-cotangent``, summed to the shape of ``like``."""
    return unbroadcast(bind.negative(cotangent), like)


def _product_to(like: Tensor, cotangent: Tensor, factor: Tensor) -> Tensor:
    """Returns the cotangent ``cotangent * conj(factor)``, summed to the shape of ``like``."""
    return unbroadcast(bind.multiply(cotangent, conj(factor)), like)


# Cotangents are computed only for operands that need one: of `x * 2` and `x ** 2` that is one of two.


@binary_op(
    tf_name="AddV2",
    type=binary((*NUMERIC, string)),
    domain=NUMERIC,
    numpy=np.add,
    lower=lambda t, x, y: x + y,
    vjp=lambda cotangent, z, x, y: (partial(unbroadcast, cotangent, x), partial(unbroadcast, cotangent, y)),
    onnx="Add",
    value=both_known(np.add),
    public=("add", "math.add"),
    shows=("tf.add([1, 2], 3)", "<tf.Tensor: shape=(2,), dtype=int32, numpy=array([4, 5], dtype=int32)>"),
)
def add(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x + y`` elementwise, with broadcasting. Strings are concatenated.

    Args:
      x: tensor of a numeric dtype or of strings, shape (...).
      y: tensor of the same dtype, of a shape that broadcasts with x's.

    Returns:
      A tensor of that dtype and the broadcast shape.

    Raises:
      InvalidArgumentError: (TypeError, ValueError while tracing) the dtypes differ, or the shapes don't broadcast.
    """
    return hinted_operands(x, y), {}


@binary_op(
    tf_name="Sub",
    domain=NUMERIC,
    numpy=np.subtract,
    lower=lambda t, x, y: x - y,
    vjp=lambda cotangent, z, x, y: (partial(unbroadcast, cotangent, x), partial(_negated_to, y, cotangent)),
    onnx="Sub",
    value=both_known(np.subtract),
    public=("subtract", "math.subtract"),
    shows=("tf.subtract([1., 2.], 3.).numpy()", "array([-2., -1.], dtype=float32)"),
)
def subtract(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x - y`` elementwise, with broadcasting; unsigned integers wrap around."""
    return operands(x, y), {}


@binary_op(
    tf_name="Mul",
    domain=NUMERIC,
    numpy=np.multiply,
    lower=lambda t, x, y: x * y,
    vjp=lambda cotangent, z, x, y: (partial(_product_to, x, cotangent, y), partial(_product_to, y, cotangent, x)),
    onnx="Mul",
    value=both_known(np.multiply),
    public=("multiply", "math.multiply"),
    shows=("tf.multiply([1., 2.], 3.).numpy()", "array([3., 6.], dtype=float32)"),
)
def multiply(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x * y`` elementwise, with broadcasting."""
    return operands(x, y), {}


def _divide_vjp(cotangent: Tensor, z: Tensor, x: Tensor, y: Tensor) -> tuple[Any, Any]:
    """Returns functions that compute the cotangents of ``x`` and ``y`` of ``z = x / y`` where they are needed."""
    x_cotangent = bind.divide(cotangent, conj(y))
    return partial(unbroadcast, x_cotangent, x), partial(_divisor_cotangent, x_cotangent, z, y)


def _divisor_cotangent(x_cotangent: Tensor, z: Tensor, y: Tensor) -> Tensor:
    """Returns the cotangent ``-x_cotangent * conj(z)`` of the divisor of ``z = x / y``, summed to the divisor's shape."""
    return unbroadcast(bind.negative(bind.multiply(x_cotangent, conj(z))), y)


@binary_op(
    name="divide",
    tf_name="RealDiv",
    domain=FLOATING_AND_COMPLEX,
    numpy=np.divide,
    lower=lambda t, x, y: x / y,
    vjp=_divide_vjp,
    onnx="Div",
    samples=(0.5, 3.0),
    public=("realdiv",),
    shows=("tf.realdiv([1., 2.], 4.).numpy()", "array([0.25, 0.5 ], dtype=float32)"),
)
def real_divide(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x / y`` of floating or complex operands; :func:`divide` converts integers first."""
    return operands(x, y), {}


_QUOTIENT = {"int8": "float32", "uint8": "float32", "int16": "float32", "uint16": "float32"} | dict.fromkeys(
    ("int32", "uint32", "int64", "uint64"), "float64"
)
_DIVIDED = "uint8 int8 uint16 int16 uint32 int32 uint64 int64 bfloat16 float16 float32 float64 complex64 complex128"


@export("divide", "math.divide")
def divide(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x / y`` elementwise, with broadcasting. Quotients of integers are not rounded to integers.

    Args:
      x: numeric tensor of shape (...).
      y: tensor of the same dtype, of a shape that broadcasts with x's.

    Returns:
      A tensor of the broadcast shape and the same dtype; 8- and 16-bit integers give float32, wider ones float64.

    Raises:
      TypeError: the dtypes differ, or are bool.

    >>> import tvtf as tf
    >>> tf.divide([1, 2], 4).numpy()
    array([0.25, 0.5 ])

    Source: https://www.tensorflow.org/api_docs/python/tf/math/divide
    """
    return truediv(x if is_tensor(x) or not is_tensor(y) else convert_to_tensor(x, y.dtype), y)


@export("truediv", "math.truediv")
def truediv(x: Any, y: Any, name: str | None = None) -> Any:
    """Same as `tf.divide`, but a Python value ``x`` isn't converted to the dtype of ``y``.

    >>> import tvtf as tf
    >>> tf.truediv([1., 2.], 4).numpy()
    array([0.25, 0.5 ], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/truediv
    """
    x, y = hinted_operands(x, y)
    if x.dtype is not y.dtype:
        raise TypeError(f"`x` and `y` must have the same dtype, got {x.dtype!r} != {y.dtype!r}.")
    if not x.dtype.is_numeric:
        allowed = ", ".join(f"tf.{name}" for name in _DIVIDED.split())
        raise TypeError(f"Invalid dtype {x.dtype!r} in __truediv__. Expected one of {{{allowed}}}.")
    return real_divide.bind(*map(as_quotient, (x, y)))


def as_quotient(x: Tensor) -> Tensor:
    """Casts integers to the floating dtype in which TensorFlow divides them; others are left unchanged."""
    target = _QUOTIENT.get(x.dtype.name)
    return x if target is None else bind.cast(x, dtype=as_dtype(target))


def _select_cotangents(cotangent: Tensor, selects_x: Tensor, x: Tensor, y: Tensor) -> tuple[Any, Any]:
    """Returns functions for two operands' cotangents: the result's goes to ``x`` where ``selects_x``, else to ``y``."""
    zeros = zeros_like(cotangent)
    return partial(_selected_to, x, selects_x, cotangent, zeros), partial(_selected_to, y, selects_x, zeros, cotangent)


def _selected_to(like: Tensor, condition: Tensor, if_true: Tensor, if_false: Tensor) -> Tensor:
    """Selects one of two cotangents elementwise, and sums it to the shape of ``like``."""
    return unbroadcast(bind.select(condition, if_true, if_false), like)


def _extreme(numpy: np.ufunc, selects_x: Callable[[Tensor, Tensor], Tensor], onnx: str, shows: tuple[str, str]) -> Any:
    """Returns a decorator that declares maximum or minimum.

    Args:
      numpy: computes it for NumPy arrays.
      selects_x: ``selects_x(x, y)`` is True where the result is ``x``, also for equal elements. The cotangent goes to
        ``x`` there.
      onnx: ONNX's operator.
      shows: the docstring's example: a call and its result.
    """

    def declare(front: Callable[..., Any]) -> Any:
        """Declares the primitive whose public function is ``front``, named ``maximum`` or ``minimum``."""
        name = front.__name__

        def lower(scalar_functions: Any, x: Any, y: Any) -> Any:
            return getattr(scalar_functions, name)(x, y)

        def vjp(cotangent: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Any:
            return _select_cotangents(cotangent, selects_x(x, y), x, y)

        return binary_op(
            domain=REAL,
            numpy=numpy,
            lower=lower,
            vjp=vjp,
            onnx=onnx,
            value=both_known(numpy),
            public=(name, f"math.{name}"),
            shows=shows,
        )(front)

    return declare


@_extreme(
    np.maximum,
    lambda x, y: bind.greater_equal(x, y),
    "Max",
    shows=("tf.maximum([1., 5.], 3.).numpy()", "array([3., 5.], dtype=float32)"),
)
def maximum(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns the larger of ``x`` and ``y`` elementwise, with broadcasting. The result is NaN where either is.

    The gradient of a tie goes to ``x``.
    """
    return operands(x, y), {}


@_extreme(
    np.minimum,
    lambda x, y: bind.less_equal(x, y),
    "Min",
    shows=("tf.minimum([1., 5.], 3.).numpy()", "array([1., 3.], dtype=float32)"),
)
def minimum(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns the smaller of ``x`` and ``y`` elementwise, with broadcasting. The result is NaN where either is.

    The gradient of a tie goes to ``x``.
    """
    return operands(x, y), {}


def _pow_numpy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Computes powers by NumPy after checking that integers have no negative exponent."""
    if y.dtype.kind == "i" and (y < 0).any():
        raise ArgumentError(MSG_NEGATIVE_POWER)
    return np.power(x, y)


def _pow_by_base(cotangent: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Returns the cotangent of the base of ``x ** y``: ``cotangent * conj(y * x ** (y - 1))``."""
    power = bind.pow(x, bind.subtract(y, number(1, x)))
    return unbroadcast(bind.multiply(bind.multiply(cotangent, conj(y)), conj(power)), x)


def _pow_by_exponent(cotangent: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Returns the cotangent of the exponent ``y`` of the power ``z = x ** y``: ``cotangent * conj(z * log(x))``.

    As in TensorFlow, it is 0 for a base that has no logarithm: real numbers up to 0, or the complex 0.
    """
    zero = number(0, x)
    one = number(1, x)
    has_log = bind.not_equal(x, zero) if x._type.dtype.is_complex else bind.greater(x, zero)
    # The logarithm of 1 stands in for the others, which are replaced by 0.
    logarithm = bind.log(bind.select(has_log, x, one))
    logarithm = bind.select(has_log, logarithm, zero)
    scaled_cotangent = bind.multiply(cotangent, conj(z))
    y_cotangent = bind.multiply(scaled_cotangent, conj(logarithm))
    return unbroadcast(y_cotangent, y)


def _pow_guard(x: Tensor, y: Tensor) -> list[tuple[Tensor, str]]:
    """Checks at run time that integer exponents are not negative."""
    if not y._type.dtype.is_integer:
        return []
    return [(_all(bind.greater_equal(y, number(0, y))), MSG_NEGATIVE_POWER)]


def _all(conditions: Tensor) -> Tensor:
    """Returns whether all elements of a bool tensor are true, a scalar."""
    return bind.reduce_all(conditions, axis=tuple(range(len(conditions._type.shape))), keepdims=False)


@binary_op(
    domain=FLOATING + SIGNED + COMPLEX,
    numpy=_pow_numpy,
    lower=None,
    kernel=kernel("power.power"),
    vjp=lambda cotangent, z, x, y: (
        partial(_pow_by_base, cotangent, x, y),
        partial(_pow_by_exponent, cotangent, z, x, y),
    ),
    guard=_pow_guard,
    onnx="Pow",
    samples=(0.5, 3.0),
    public=("pow", "math.pow"),
    shows=("tf.pow([2, 3], 2).numpy()", "array([4, 9], dtype=int32)"),
)
def pow(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x ** y`` elementwise, with broadcasting. Integers wrap around.

    Raises:
      InvalidArgumentError: the exponent of an integer is negative.
    """
    return operands(x, y), {}


@unary_op(
    tf_name="Neg",
    domain=FLOATING + SIGNED + COMPLEX,
    numpy=np.negative,
    lower=lambda t, x: t.negative(x),
    vjp=lambda cotangent, y, x: bind.negative(cotangent),
    onnx="Neg",
    value=lambda x: None if x.known is None else -x.known,
    public=("negative", "math.negative"),
    shows=("tf.negative([1, -2]).numpy()", "array([-1,  2], dtype=int32)"),
)
def negative(x: Any, name: str | None = None) -> Any:
    """Computes ``-x`` elementwise, of what has a sign."""
    return tensor_of(x)


@unary_op(
    name="abs",
    domain=FLOATING + SIGNED,
    numpy=np.abs,
    lower=lambda t, x: t.magnitude(x),
    vjp=lambda cotangent, y, x: bind.multiply(cotangent, bind.sign(x)),
    onnx="Abs",
)
def abs_real(x: Any) -> Any:
    """Returns ``|x|`` of real numbers."""
    return tensor_of(x)


@export("abs", "math.abs")
def abs(x: Any, name: str | None = None) -> Any:
    """Computes ``|x|`` elementwise. The magnitudes of complex numbers are floating.

    Args:
      x: floating, signed integer or complex tensor of shape (...).

    Returns:
      A tensor of the same shape; the gradient at 0 is 0.

    >>> import tvtf as tf
    >>> tf.abs([-1.5, 2.]).numpy()
    array([1.5, 2. ], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/abs
    """
    x = convert_to_tensor(x)
    return bind.complex_abs(x) if x.dtype.is_complex else abs_real.bind(x)


@unary_op(
    domain=FLOATING + SIGNED + COMPLEX,
    numpy=np.sign,
    lower=lambda t, x: t.sign(x),
    vjp=lambda cotangent, y, x: zeros_like(x),
    onnx="Sign",
    gradient=False,
    public=("sign", "math.sign"),
    shows=("tf.sign([-2., 0., 3.]).numpy()", "array([-1.,  0.,  1.], dtype=float32)"),
)
def sign(x: Any, name: str | None = None) -> Any:
    """Returns -1, 0 or 1 elementwise, NaN where x is; ``x / |x|`` of complex numbers."""
    return tensor_of(x)


@unary_op(
    domain=NUMERIC,
    numpy=np.square,
    lower=lambda t, x: x * x,
    vjp=lambda cotangent, y, x: bind.multiply(cotangent, conj(bind.add(x, x))),
    onnx=nodes(("Mul", 0, 0)),
    public=("square", "math.square"),
    shows=("tf.square([-2., 3.]).numpy()", "array([4., 9.], dtype=float32)"),
)
def square(x: Any, name: str | None = None) -> Any:
    """Computes ``x * x`` elementwise."""
    return tensor_of(x)


@binary_op(
    domain=FLOATING + SIGNED + COMPLEX,
    numpy=widened(lambda x, y: np.square(x - y) if x.dtype.kind != "c" else (x - y) * np.conj(x - y)),
    lower=lambda t, x, y: (x - y) * (x - y),
    vjp=lambda cotangent, z, x, y: _squared_difference_vjp(cotangent, x, y),
    onnx=nodes(("Mul", ("Sub", 0, 1), ("Sub", 0, 1))),
    public=("math.squared_difference",),
    shows=("tf.math.squared_difference([1., 5.], 3.).numpy()", "array([4., 4.], dtype=float32)"),
)
def squared_difference(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``(x - y) * conj(x - y)`` elementwise, with broadcasting."""
    return operands(x, y), {}


def _squared_difference_vjp(cotangent: Tensor, x: Tensor, y: Tensor) -> tuple[Any, Any]:
    """Returns functions for the cotangents of squared_difference's operands: 2 * cotangent * (x - y), and minus that.

    The result of the op is real, so only the real part of a complex cotangent counts.
    """
    difference = bind.subtract(x, y)
    if cotangent._type.dtype.is_complex:
        real_part = bind.real(cotangent)
        cotangent = bind.complex(real_part, zeros_like(real_part))
    x_cotangent = bind.multiply(cotangent, bind.add(difference, difference))
    return partial(unbroadcast, x_cotangent, x), partial(_negated_to, y, x_cotangent)


@export("clip_by_value")
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """Limits ``t`` to [min, max], elementwise. NaN stays NaN. If ``min`` is above ``max``, the result is ``min``.

    Args:
      t: real tensor of shape (...), or IndexedSlices, whose values are clipped.
      clip_value_min: tensor of the same dtype, of a shape that broadcasts to that of ``t``.
      clip_value_max: as ``clip_value_min``.

    Returns:
      A tensor like ``t``.

    Raises:
      ValueError: the bounds' shapes don't broadcast to that of ``t``.

    >>> import tvtf as tf
    >>> tf.clip_by_value([-1., 0.5, 2.], 0., 1.).numpy()
    array([0. , 0.5, 1. ], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/clip_by_value
    """
    return on_values(lambda x: _clip_to_range(x, clip_value_min, clip_value_max), t)


def _clip_to_range(x: Tensor, low: Any, high: Any) -> Tensor:
    """Limits ``x`` to [low, high], after checking that the bounds don't broadcast it to a larger shape."""
    bounded_above = minimum(x, high)
    _require_shape(x, bounded_above)
    clipped = maximum(bounded_above, low)
    _require_shape(x, clipped)
    return clipped


def _require_shape(x: Tensor, result: Tensor) -> None:
    """Raises TensorFlow's error if broadcasting changed the shape of ``x``."""
    if not x.shape.is_compatible_with(result.shape):
        raise ValueError(f"Shapes {x.shape} and {result.shape} are incompatible")


@export("add_n", "math.add_n")
def add_n(inputs: Any, name: str | None = None) -> Any:
    """Returns the sum of tensors of one shape and dtype.

    Args:
      inputs: tensors, or one whose rows they are, of the same numeric dtype and shape (...).

    Returns:
      A tensor of that dtype and shape.

    Raises:
      ValueError: the list is empty, or the shapes differ.

    >>> import tvtf as tf
    >>> tf.add_n([[1., 2.], [3., 4.]]).numpy()
    array([4., 6.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/add_n
    """
    tensors = [convert_to_tensor(term) for term in inputs]
    if not tensors:
        raise ValueError(
            "Inputs must be an iterable of at least one Tensor/IndexedSlices with the same dtype and shape."
        )
    try:
        require_same_dtype([term._type for term in tensors], in_list="inputs")
    except ArgumentError as error:
        raise error.for_op("AddN") from None
    total = tensors[0]
    for term in tensors[1:]:
        if not agree_shape(total._type.shape, term._type.shape):
            message = f"Shapes must be equal, but are {total.shape} and {term.shape}: add_n takes equal shapes"
            raise incompatible_shapes(ValueError(message))
        total = add.bind(total, term)
    return total


def _terms(op: str, inputs: Any) -> list[Tensor]:
    """Returns the inputs of a sum as tensors, one tensor as a list of itself."""
    if is_tensor(inputs):
        return [convert_to_tensor(inputs)]
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError(f"{op}: inputs must be a list of tensors of one dtype and shape, got {inputs!r}")
    return [convert_to_tensor(term) for term in inputs]


@export("math.accumulate_n")
def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Any:
    """Returns the sum of tensors of one shape and dtype, as :func:`add_n`.

    Args:
      inputs: a list of tensors of the same numeric dtype and shape (...).
      shape: the shape that the tensors are expected to have.
      tensor_dtype: the dtype that they are expected to have.

    Returns:
      A tensor of that dtype and shape.

    Raises:
      ValueError: the list is empty, or the shape of a tensor is not compatible with ``shape``.
      TypeError: the dtype of a tensor is not ``tensor_dtype``.

    >>> import tvtf as tf
    >>> tf.math.accumulate_n([[1, 2], [3, 4]]).numpy()
    array([4, 6], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/accumulate_n
    """
    tensors = _terms("accumulate_n", inputs)
    for term in tensors:
        if shape is not None and not term.shape.is_compatible_with(shape):
            raise ValueError(f"Shapes {as_shape(shape)} and {term.shape} are incompatible")
        if tensor_dtype is not None and term.dtype is not as_dtype(tensor_dtype):
            raise TypeError(f"tensor_dtype is {as_dtype(tensor_dtype).name}, but input is of type {term.dtype.name}")
    return add_n(tensors)
