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
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
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
    """Returns a decorator that declares an elementwise primitive of one input.

    Args:
      numpy: The kernel on arrays.
      lower: ``lower(t, x)`` builds the compiled expression of a scalar ``x`` by functions of the library ``t``.
      domain: The dtypes of the input.
      result: The dtype of the result; None is the input's.
      samples: The range that tests draw from, or a function that returns samples.
      gradient: False for functions with jumps, which numeric gradients can't check.
      columns: Further columns of the primitive. ``kernel`` replaces ``lower``; ``shows`` is a call and its result for
        the docstring.
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
    """Returns a decorator that declares an elementwise primitive of two inputs of one dtype, which broadcast.

    Args:
      numpy: computes the op for NumPy arrays; a ufunc has a fast path in eager calls.
      lower: computes the op for scalars in a kernel, or None.
      domain: the allowed dtypes of the inputs.
      result: the dtype of the result, or None for that of the inputs.
      samples: the range of the random inputs in tests.
      gradient: whether tests check the gradient.
      columns: other arguments of :func:`tvtf.core.primitive.primitive`.
    """

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
    """Declares an elementwise primitive with the public function ``front``.

    Args:
      front: the public function.
      numpy: computes the op for NumPy arrays.
      lower: computes the op for scalars in a kernel, or None.
      columns: the other arguments of the declaration. If they have an example ``shows``, a call and its result, it is
        added to the docstring of ``front``.
    """
    if "shows" in columns:
        call, result = columns.pop("shows")
        public_names = columns["public"]
        documented_name = next((name for name in public_names if name.startswith("math.")), public_names[0])
        page = documented_name.replace(".", "/")
        front.__doc__ = (front.__doc__ or "").rstrip() + EXAMPLE.format(call=call, result=result, page=page)
    if "kernel" in columns:
        lower = columns.pop("kernel")
    elif lower:
        lower = scalar(lower)
    columns.setdefault("batch", batch_elementwise(columns.get("name") or front.__name__))
    is_ufunc = isinstance(numpy, np.ufunc) and numpy.nin <= 2  # then eager calls have a fast path
    return primitive(kind=Ufunc if is_ufunc else Primitive, numpy=numpy, lower=lower, **columns)(front)


class Ufunc(Primitive[Any]):
    """A primitive that is a NumPy ufunc, with a fast path for eager operands of a dtype that passed the type rule before.

    NumPy itself checks that the shapes broadcast.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: set[np.dtype] = set()

    def bind(self, x: Any, y: Any = None) -> Any:  # type: ignore[override]
        """Calls the op. Eager tensors of a dtype that passed the type rule before go directly to NumPy's ufunc."""
        inputs = (x,) if y is None else (x, y)
        result = None  # of the fast path
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
        # NumPy returns a scalar, not an array, for operands of rank 0
        output = EagerTensor(result if type(result) is np.ndarray else np.asarray(result))
        for tape in state.tapes:
            tape.record(self, inputs, output, {})
        return output

    def run(self, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Runs the op eagerly, and adds the operands' dtype to ``seen`` if NumPy's result has the op's dtype.

        From then on, :meth:`bind` calls the ufunc directly for operands of that dtype.
        """
        output = super().run(inputs, attrs)
        dtypes = {x.eager_array(self).dtype for x in inputs}
        if len(dtypes) == 1 and dtypes.isdisjoint(self.seen):
            (dtype,) = dtypes
            empty_operands = [np.ones(0, dtype)] * len(inputs)
            ufunc_dtype = self.numpy(*empty_operands).dtype
            if dtype.kind != "O" and ufunc_dtype is output._array.dtype:
                self.seen.add(dtype)
        return output


# -- operands


def operands(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Converts two operands to tensors. A Python or NumPy value gets the dtype of the other operand, a tensor.

    If both are values, the second one gets the dtype of the first. While tracing, a first operand that is a value keeps
    its own dtype, as in TensorFlow's graphs.

    Raises:
      TypeError: the dtype can't hold a Python value (2.5 next to int32).
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
    """Converts two operands to tensors, the second one to the dtype of the first, as TensorFlow's ``+`` and ``/`` do.

    A second operand that doesn't fit that dtype keeps its own. Then the op raises the error.
    """
    x = convert_to_tensor(x)
    try:
        return x, like(y, x.dtype)
    except TypeError:
        return x, convert_to_tensor(y)


def like(value: Any, dtype: DType) -> Tensor:
    """Converts an operand of an elementwise op whose other operand has ``dtype`` to a tensor.

    A tensor keeps its dtype, a NumPy value is cast, and a Python value must fit the dtype.
    """
    python_type = type(value)
    if python_type is int or python_type is bool or python_type is float:  # a fast path for most numbers
        array = scalar_array(value, dtype)
        if array is not None:
            return EagerTensor(array)
    if is_tensor(value):
        return convert_to_tensor(value)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf" and dtype.is_numeric:
        return EagerTensor(np.asarray(value).astype(dtype.np))
    return convert_to_tensor(value, dtype)


MOST_HALF = 65504
"""The largest float16: a smaller number overflows no floating dtype."""


def scalar_array(value: float, dtype: DType) -> np.ndarray | None:
    """Converts a Python number to an array of a dtype, or returns None if the general conversion must check it.

    Ints of fewer than 64 bits wrap around.
    """
    if dtype.kind in "fc":
        if -MOST_HALF <= value <= MOST_HALF:
            return np.array(value, dtype.np)
        with np.errstate(over="ignore"), suppress(OverflowError):  # an int too large for a float falls through to None
            return np.array(value, dtype.np)
    if dtype.kind in "iu" and type(value) is not float and int(value).bit_length() < 64:
        byte_count = dtype.np.itemsize
        wrapped = int(value) % (1 << 8 * byte_count)
        return np.array(wrapped, f"u{byte_count}").view(dtype.np)
    return None


def tensor_of(x: Any) -> tuple[tuple[Tensor], dict[str, Any]]:
    """Returns the inputs and attributes of an op of one tensor."""
    return (convert_to_tensor(x),), {}


# -- cotangents


def conj(x: Tensor) -> Tensor:
    """Returns the conjugate of a complex ``x``, as TensorFlow's gradients do, else ``x``."""
    return bind.conj(x) if x.dtype.is_complex else x


def chain(derivative: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns the vjp of a function of one variable: ``cotangent`` times the conjugate of ``derivative(y, x)``."""
    return lambda cotangent, y, x: bind.multiply(cotangent, conj(derivative(y, x)))


def chain_of_root(derivative: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns a vjp like :func:`chain`, but 0 where ``cotangent`` is 0 even if the derivative is infinite.

    TensorFlow's SqrtGrad, RsqrtGrad and InvGrad do that.
    """
    return lambda cotangent, y, x: bind.multiply_no_nan(conj(derivative(y, x)), cotangent)


def scaled(x: Tensor, factor: float) -> Tensor:
    """Multiplies ``x`` by a Python number."""
    return bind.multiply(x, EagerTensor(np.array(factor, x._type.dtype.np)))


def shifted(x: Tensor, amount: float) -> Tensor:
    """Adds a Python number to ``x``."""
    return bind.add(x, EagerTensor(np.array(amount, x._type.dtype.np)))


# -- NumPy kernels


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a NumPy kernel that calls ``function``, but computes 16-bit floats in float32.

    Only the result is rounded to 16 bits.
    """

    def run(*arrays: np.ndarray, **attrs: Any) -> Any:
        """Calls the function on arrays, 16-bit floats of which are cast to float32."""
        dtype = arrays[0].dtype
        is_half_float = dtype.itemsize == 2 and dtype.kind in "fV"  # bfloat16 has kind V
        if not is_half_float:
            return function(*arrays, **attrs)
        wide_arrays = [array.astype(np.float32) for array in arrays]
        return np.asarray(function(*wide_arrays, **attrs)).astype(dtype)

    return run


# -- ONNX


def nodes(tree: tuple[Any, ...]) -> Callable[..., None]:
    """Returns an ONNX rule that emits a tree of nodes, such as ``("Not", ("Equal", 0, 1))``.

    An int is the position of an input, a float a constant of the first input's dtype. A dict at the end has attributes.
    A tuple that stands in several places of the tree is emitted once.
    """

    def emit(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, **_: Any) -> None:
        op, arguments, attributes = _parts(tree)
        (first_type, *_others), _results = types
        emitted: dict[int, str] = {}
        names = [_argument(emitter, argument, inputs, first_type.dtype, emitted) for argument in arguments]
        emitter.node(op, names, outputs, **attributes)

    return emit


def _parts(tree: tuple[Any, ...]) -> tuple[str, list[Any], dict[str, Any]]:
    """Splits a tree of nodes into the operator of its root, the arguments and the attributes."""
    op, *arguments = tree
    return (op, arguments[:-1], arguments[-1]) if isinstance(arguments[-1], dict) else (op, arguments, {})


def _argument(emitter: NodeEmitter, argument: Any, inputs: Names, dtype: DType, emitted: dict[int, str]) -> str:
    """Emits an argument of a node, and returns its name in ONNX.

    Args:
      emitter: adds nodes to the ONNX graph.
      argument: a tree of nodes, the position of an input, or a constant.
      inputs: the names of the inputs.
      dtype: the dtype of constants.
      emitted: the names of the trees that were emitted before, by the trees' ids.
    """
    if isinstance(argument, int):
        return inputs[argument]
    if not isinstance(argument, tuple):
        return emitter.const(np.array(argument, dtype.np))
    if id(argument) not in emitted:
        op, arguments, attributes = _parts(argument)
        names = [_argument(emitter, each, inputs, dtype, emitted) for each in arguments]
        emitted[id(argument)] = emitter.computed(op, names, **attributes)
    return emitted[id(argument)]


def log1p_nodes(x: Any) -> tuple[Any, ...]:
    """Returns the tree of nodes that compute log(1 + x), for `nodes`; ONNX has no operator for it.

    Near 0 the sum 1 + x rounds away most of x. There the logarithm is scaled by x over what the sum has kept of it.

    Source: W. Kahan's formula, in Goldberg, What every computer scientist should know about floating-point arithmetic,
    theorem 4.
    """
    rounded_sum = ("Add", x, 1.0)
    rounded_x = ("Sub", rounded_sum, 1.0)
    logarithm = ("Log", rounded_sum)
    scaled_logarithm = ("Div", ("Mul", x, logarithm), rounded_x)
    near_0 = ("Where", ("Equal", rounded_x, 0.0), x, scaled_logarithm)
    return "Where", ("Less", ("Abs", x), 0.5), near_0, logarithm


def expm1_nodes(x: Any) -> tuple[Any, ...]:
    """Returns the tree of nodes that compute exp(x) - 1, for `nodes`; ONNX has no operator for it.

    Near 0 the exponential rounds away most of x. There the difference is scaled by x over the logarithm of the exponential.

    Source: N. Higham, Accuracy and Stability of Numerical Algorithms, section 1.14.1.
    """
    exponential = ("Exp", x)
    difference = ("Sub", exponential, 1.0)
    scaled_difference = ("Div", ("Mul", x, difference), ("Log", exponential))
    near_0 = ("Where", ("Equal", difference, 0.0), x, scaled_difference)
    return "Where", ("Less", ("Abs", x), 0.5), near_0, difference
