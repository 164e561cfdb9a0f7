"""Rules shared by families of primitives: types, cotangents, batching, lowering, samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import Sample, defer_unknown_rank, table
from tvtf.core.shape import (
    Dim,
    TensorShape,
    TensorType,
    agree_shape,
    broadcast_shapes,
    fresh_dim,
    is_static_shape,
    same_dim,
    same_shape,
    show_shape,
)
from tvtf.core.specialization import UnknownRank, of_any_rank, unknown_rank, unknown_size
from tvtf.core.tensor import (
    EagerTensor,
    SymbolicTensor,
    Tensor,
    convert_to_tensor,
    is_tensor,
    read_if_variable,
    to_array,
)
from tvtf.core.thread_state import state
from tvtf.core.tvm_import import import_whole
from tvtf.core.v1_dimension import Dimension, is_dim
from tvtf.dtypes import DType, from_array, int32, int64, type_name

# -- binding by name: rules of any family may use primitives of any other


class _Binder:
    """Finds primitives by attribute: ``bind.cos(x)`` is ``table["cos"].bind(x)``, looked up when the rule runs."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Returns the function that binds the primitive ``name``.

        For a primitive of tvtf's own, it becomes an attribute, to make further look-ups fast.
        """
        try:
            prim = table[name]
        except KeyError:
            raise AttributeError(f"there is no primitive {name}") from None
        if prim.is_own:
            self.__dict__[name] = prim.bind
        return prim.bind


bind = _Binder()

# -- arguments


def promote(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Converts the operands of a binary op to tensors. A Python number is converted to the other's dtype.

    A NumPy array is converted to the other operand's dtype, too, if all its elements can be. Otherwise the array keeps its
    own dtype. These are TensorFlow's rules.
    """
    # Objects with `_as_tensor`, such as Variables, have a dtype as tensors do.
    if not isinstance(x, Tensor) and isinstance(y, Tensor) and not hasattr(x, "_as_tensor"):
        y = convert_to_tensor(y)
        return _convert_operand(x, y.dtype), y
    x = convert_to_tensor(x)
    if isinstance(y, Tensor) or hasattr(y, "_as_tensor"):
        return x, convert_to_tensor(y)
    return x, _convert_operand(y, x.dtype)


def _convert_operand(value: Any, dtype: DType) -> Tensor:
    """Converts an operand to a tensor of ``dtype``, the other operand's dtype; a NumPy array may keep its own."""
    if isinstance(value, (np.ndarray, np.generic)):
        return convert_to_tensor(value, dtype_hint=dtype)
    return convert_to_tensor(value, dtype)


def _is_array(value: Any) -> bool:
    """Returns whether a value is a NumPy array or scalar."""
    return isinstance(value, (np.ndarray, np.generic))


def canonical_axis(axis: Any, rank: int, name: str = "axis") -> int:
    """Converts an axis, which may be negative, to an int in [0, rank). ``name`` is the argument's name in errors.

    Raises:
      ArgumentError: the axis is out of [-rank, rank).
    """
    index = static_int(axis, name)
    if not -rank <= index < rank:
        raise ArgumentError(
            f"Expected {name} in the range [{-rank}, {rank}), but got {index}: the input has rank {rank}"
        )
    return index % rank


def canonical_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """Converts the argument ``axis`` of a reduction to a sorted tuple of axes, without duplicates.

    Axes that are out of range are left unchanged: the type rule rejects them.
    """
    if axis is None:  # all axes
        return tuple(range(rank))
    if _is_array(axis) and axis.dtype.kind == "f":
        axis = axis.astype(np.int32)  # TensorFlow casts NumPy's floats but rejects Python's
    if type(axis) is float and state.trace is None:
        raise TypeError(f"Cannot convert {axis} to EagerTensor of dtype int32")
    indices = np.ravel(static_value(axis, "axis"))
    _require_sizes(indices.tolist(), "axis")
    axes = set()
    for element in indices:
        index = static_int(element, "axis")
        is_in_range = -rank <= index < rank
        axes.add(index % rank if is_in_range else index)  # a negative axis counts from the end
    return tuple(sorted(axes))


def static_value(value: Any, name: str) -> Any:
    """Returns the Python value of the argument ``name``, which must be known while tracing.

    Values of eager tensors, and of symbolic tensors that tracing can evaluate, become numbers or lists. Tensors in a
    list or tuple are replaced by their values.

    Raises:
      TypeError: the program computes the value.
      UnknownRank: the value is the shape of a tensor of unknown rank, or depends on its rank.
    """
    if is_tensor(value):
        value = value._as_tensor()  # a Variable's value
    if isinstance(value, EagerTensor):
        return value.eager_array().tolist()
    if isinstance(value, AnyShape):  # the shape of a tensor of unknown rank
        raise unknown_rank(name)
    if isinstance(value, SymbolicTensor):
        return _known_value(value, name)
    if type(value) in (list, tuple):
        return type(value)(static_value(element, name) for element in value)
    if isinstance(value, (list, tuple)):  # a subclass, whose constructor may have other parameters
        return list(value)
    if isinstance(value, Dimension):
        return value.value
    return value.tolist() if _is_array(value) else value


def _known_value(value: SymbolicTensor, name: str) -> Any:
    """Returns the value of a symbolic tensor if tracing knows the value or can compute it from constants.

    Raises:
      TypeError: the value depends on the program's inputs. ``name`` is the argument's name in the message.
    """
    if value.known is not None:
        return value.known.tolist()
    if isinstance(value._type.shape, AnyShape):
        raise unknown_rank(name)
    constant = value._trace.computed_constants.value(value._var)
    if constant is not None:
        return constant.tolist()
    raise TypeError(
        f"{name} must be known while tracing, but {value!r} is computed by the program: pass a Python value, or "
        "compute it from shapes"
    )


def static_int(value: Any, name: str) -> int:
    """Converts the argument ``name``, which may be anything with ``__index__``, to an int.

    Raises:
      TypeError: the value is not an integer, or is not known while tracing.
      ArgumentError: the value is a tensor of floats.
    """
    if isinstance(value, EagerTensor) and value.dtype.is_floating:
        raise not_among(value.dtype, (int32, int64), "Tidx", name)
    if _is_array(value) and value.dtype.kind == "f":
        value = value.astype(np.int64)  # TensorFlow casts NumPy's floats but rejects Python's
    value = static_value(value, name)
    try:
        index = value.__index__()
    except AttributeError:
        raise _no_int(value, name) from None
    if type(index) is int and index.bit_length() > 63:
        to_array(index, None)  # raises NumPy's error for an int that no dtype holds
    return index


def _no_int(value: Any, name: str) -> Exception:
    """Returns the error for a value of the argument ``name`` that is not an integer, of TensorFlow's type."""
    if isinstance(value, (list, tuple)):
        return ArgumentError(f"{name} must be a scalar, but got {value!r}")
    if not isinstance(value, (float, complex, str, bytes)):
        to_array(value, None)
    return TypeError(f"{name} must be an int, but got {value!r} of type {type(value).__name__}")


def static_dims(value: Any, name: str = "shape", is_vector: bool = False) -> tuple[Dim, ...]:
    """Converts a shape argument to dims. It is a shape, a list that may hold symbolic scalars, or a tensor of sizes.

    Raises:
      ValueError: the value can't be converted to a tensor.
      ArgumentError: the value isn't of integers, has a rank above 1, or is a scalar although ``is_vector`` requires a
        vector.
    """
    if hasattr(value, "as_list"):
        value = value.as_list()
    if isinstance(value, (list, tuple)):
        _require_scalars(value, name)
    value = dims_value(value, name)
    if hasattr(value, "_type_spec"):
        raise TypeError(f"{name} must be a shape, but got {value!r}")
    if not isinstance(value, (list, tuple)):
        _require_sizes([value], name)
        if is_vector:
            raise ArgumentError(f"{name} must be a vector of int32 or int64, but got the scalar {value}")
        return (value,)
    _require_sizes(value, name)
    return tuple(int(dim) if isinstance(dim, bool) else dim for dim in value)


def _require_scalars(dims: Sequence[Any], name: str) -> None:
    """Checks that no entry of a list of dims is itself a vector, as far as symbolic tensors show it."""
    for dim in dims:
        is_scalar = True
        if isinstance(dim, (list, tuple)):
            is_scalar = not any(isinstance(element, SymbolicTensor) for element in dim)
        elif isinstance(dim, SymbolicTensor):
            is_scalar = isinstance(dim._type.shape, AnyShape) or not dim._type.shape
        if not is_scalar:
            raise ArgumentError(f"{name} must be a vector of int32 or int64, but got {list(dims)}")


def _require_integers(shape: Any) -> None:
    """Checks that tensors in a shape argument, at any depth, are of int32 or int64."""
    if isinstance(shape, Tensor):
        require_dtype(shape._type, (int32, int64), "shape")
    for element in shape if isinstance(shape, (list, tuple)) else ():
        _require_integers(element)


def drawn_dims(shape: Any) -> tuple[Dim, ...]:
    """Returns the dims of a random op's ``shape`` argument.

    Raises:
      ArgumentError: the value is not a vector of int32 or int64, or a dim is negative.
    """
    if _is_array(shape):
        require_dtype(TensorType((), from_array(shape)), (int32, int64), "shape")
    _require_integers(shape)
    dims = static_dims(shape, "shape", is_vector=True)
    for dim in dims:
        if isinstance(dim, int) and dim < 0:
            raise ArgumentError(f"Dimension {dim} must be >= 0")
    return dims


def _require_sizes(dims: Sequence[Any], name: str) -> None:
    """Checks that a list of dims converts to a vector of int32 or int64, by TensorFlow's rules of conversion.

    ``name`` is the name of the argument in errors.
    """
    if all(map(_converts_to_int64, dims)):
        return
    # Lists of symbolic dims can't be converted to an array.
    has_lists_of_dims = any(isinstance(dim, (list, tuple)) and any(map(is_dim, dim)) for dim in dims)
    array = to_array([] if has_lists_of_dims else list(dims), None)
    if has_lists_of_dims or array.ndim != 1:
        raise ArgumentError(f"{name} must be a vector of int32 or int64, but got {list(dims)}")
    require_dtype(TensorType(array.shape, from_array(array)), (int32, int64), name)


def _converts_to_int64(dim: Any) -> bool:
    """Returns whether a size is an int of at most 64 bits, a symbolic dim, or another object with ``__index__``."""
    if type(dim) is int:
        return dim.bit_length() < 64
    return is_dim(dim) or hasattr(dim, "__index__")


def dims_value(value: Any, name: str) -> Any:
    """Returns :func:`static_value` of sizes, where a size that the program computes becomes a symbolic dim."""
    return static_value(as_dims(value, name), name)


def as_dims(value: Any, name: str) -> Any:
    """Replaces integer tensors that the program computes by aliases whose value is known as symbolic dims.

    A trace binds the dims of a tensor once, so that equal sizes are the same symbol. A branch or loop body binds its
    own: the check that comes with binding (no size is negative) must not run where the branch doesn't.

    Raises:
      TypeError: the shape of such a tensor is unknown.
      ArgumentError: the dtype is neither int32 nor int64.
    """
    if type(value) in (list, tuple):
        return type(value)(as_dims(_cast_float(each), name) for each in value)
    value = read_if_variable(value)
    if not is_computed(value):
        return with_constant_sizes(value)
    require_dtype(value._type, (int32, int64), name)
    if isinstance(value._type.shape, AnyShape):
        return value
    tensor = state.trace.own(value)
    if (
        tensor._var not in state.trace.known_elements
        and (constant := state.trace.computed_constants.value(tensor._var)) is not None
    ):
        state.trace.known_elements[tensor._var] = constant.astype(object)
    if tensor._var not in state.trace.known_elements:
        outer_dims = value._trace.known_elements.get(value._var)
        state.trace.known_elements[tensor._var] = _bind_dims(tensor, name) if outer_dims is None else outer_dims
    alias = tensor.alias()  # `tensor` itself keeps no known value: as a number it may be negative
    alias.known = state.trace.known_elements[tensor._var]
    return alias


def with_constant_sizes(value: Any) -> Any:
    """Replaces the sizes in a tensor's known value that depend on constants only, as the number of a mask's true elements.

    Values without such sizes are returned unchanged.
    """
    if not isinstance(value, SymbolicTensor) or not isinstance(value.known, np.ndarray):
        return value
    dims = value.known
    if is_static_shape(dims.flat):
        return value
    constants = value._trace.computed_constants
    sizes = [constants.size(dim) for dim in dims.flat]
    alias = value.alias()
    alias.known = np.array(sizes, object).reshape(dims.shape)
    return alias


def _cast_float(size: Any) -> Any:
    """Casts a tensor of floats in a list of sizes to int32, as TensorFlow does when it packs the list into a tensor."""
    is_floating = isinstance(size, Tensor) and size.dtype.is_floating
    return bind.cast(size, dtype=int32) if is_floating else size


def is_computed(value: Any) -> bool:
    """Returns whether a value is a symbolic tensor whose value is not known while tracing."""
    return isinstance(value, SymbolicTensor) and value.known is None


def size_argument(value: Any, name: str, of_any_dtype: bool = False) -> Dim:
    """Converts the argument ``name``, a number of elements, to a dim. The program may compute it.

    TensorFlow's ops raise different errors for a value that isn't an integer. With ``of_any_dtype``, the error is that of a
    tensor of the wrong dtype, otherwise that of a value that is not an int.

    Raises:
      TypeError: the value is not a number.
    """
    result = dims_value(value, name)
    if isinstance(result, (list, tuple)):
        raise ArgumentError(f"{name} must be a scalar, but got {value!r}")
    if of_any_dtype:
        _require_sizes([result], name)
    return result if is_dim(result) else static_int(result, name)


def attribute_text(value: Any, name: str, allowed: Sequence[str] = ()) -> str:
    """Returns the argument ``name``, a string that TensorFlow keeps as an attribute of the op, one of ``allowed``.

    Raises:
      TypeError: the argument is not a string.
      ArgumentError: the string is not in ``allowed``.
    """
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"Expected string for argument '{name}' not {value!r}.")
    text = value if isinstance(value, str) else value.decode("utf-8", "replace")
    if allowed and text not in allowed:
        choices = ", ".join(f'"{each}"' for each in allowed)
        raise ArgumentError(f"Value for attr '{name}' of \"{text}\" is not in the list of allowed values: {choices}")
    return text


def attribute_int(value: Any, name: str, minimum: float = 0, bits: float = 32) -> int:
    """Returns the argument ``name``, an int that TensorFlow keeps as an attribute of the op.

    It may be anything that ``int`` accepts, except strings, in the range from ``minimum`` to the largest signed integer
    of ``bits`` bits.

    Raises:
      TypeError: the argument is not a number.
      ArgumentError: the number is out of range.
    """
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError  # int() would parse the string
        result = int(value)
    except (TypeError, ValueError):
        raise TypeError(f"Expected int for argument '{name}' not {value!r}.") from None
    if result < minimum:
        raise ArgumentError(f"Value for attr '{name}' of {result} must be at least minimum {minimum}")
    if result >= 2 ** (bits - 1):
        raise ArgumentError(f"Attr {name} has value {result} out of range for an int{bits}")
    return result


def attribute_ints(value: Any, name: str, op: str, minimum: int = -(2**31)) -> list[int]:
    """Returns the argument ``name``, a list of ints that TensorFlow keeps as an attribute of ``op``.

    Raises:
      TypeError: the argument is not a list, or an item is not a number.
      ArgumentError: an item is out of range.
    """
    return [attribute_int(each, name, minimum) for each in listed(value, name, op)]


def listed(value: Any, name: str, op: str) -> Sequence[Any]:
    """Returns the argument ``name`` of TensorFlow's op ``op``, a list of inputs or of numbers.

    Raises:
      TypeError: the argument is neither a list nor a tuple.
    """
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"Expected list for '{name}' argument to '{op}' Op, not {value!r}.")
    return value


def variadic_inputs(value: Any, name: str, op: str) -> Any:
    """Returns the inputs of an op that accepts any number of inputs, after checking that they are a list.

    In eager execution they may also be a range or a shape, or the rows of a tensor, as in TensorFlow.

    Raises:
      TypeError: ``value`` is nothing of that.
      ValueError: ``value`` is a NumPy array, in eager execution.
    """
    if state.trace is None:
        if isinstance(value, np.ndarray):
            raise ValueError(f"expected a sequence for attr N, got an ndarray with rank {value.ndim} instead")
        if isinstance(value, (range, TensorShape)) or (is_tensor(value) and value.shape.rank):
            return value
    return listed(value, name, op)


def attribute_bool(value: Any, name: str) -> bool:
    """Returns the argument ``name``, a bool that TensorFlow keeps as an attribute of the op.

    Raises:
      TypeError: the argument is not a bool.
    """
    if not isinstance(value, bool):
        raise TypeError(f"Expected bool for argument '{name}' not {value!r}.")
    return value


def optional_flag(value: Any, name: str) -> bool:
    """Returns a bool attribute for which None means False."""
    return value is not None and attribute_bool(value, name)


MOST_SIZES = 2**12
"""Limit of the sizes read from one tensor, for each becomes a symbol.

Shapes have at most 254 dims, paddings twice that.
"""


def _bind_dims(values: SymbolicTensor, name: str) -> np.ndarray:
    """Binds each element of an integer tensor to a symbolic dim, and returns an array of these dims.

    ``name`` is the argument's name in errors.
    """
    shape = values._type.shape
    if not is_static_shape(shape):
        if of_any_rank():
            raise UnknownRank(f"the number of elements of {name}")
        raise unknown_size(TypeError(f"{name} must be of a shape known while tracing, but got {values!r}"))
    count = math.prod(shape)
    if count > MOST_SIZES:
        raise ArgumentError(f"{name} must hold sizes, but is of shape {show_shape(shape)}")
    flat = bind.reshape(values, shape=(count,))
    return np.array(dims_of(flat), object).reshape(shape)


def dims_of(vector: Tensor) -> tuple[Dim, ...]:
    """Returns the elements of an integer vector as dims.

    Known elements become ints. If the vector is computed at run time, its elements become symbolic dims.
    """
    if isinstance(vector, EagerTensor):
        return tuple(vector.eager_array().tolist())
    if isinstance(vector, SymbolicTensor) and vector.known is not None:
        return tuple(vector.known.tolist())
    unique_name = vector._trace.root.unique  # type: ignore[attr-defined]
    element_count = vector._type.shape[0]
    dims = tuple(fresh_dim(unique_name("told")) for _ in range(element_count))
    # An empty tensor of the shape (*dims, 0): the program binds the dims to the shape of this tensor.
    carrier = bind.told_dims(bind.cast(vector, dtype=int64), dims=dims)
    return tuple(carrier._type.shape[:-1])


# -- type rules


def require_dtype(x: TensorType, domain: Sequence[DType], name: str = "x") -> None:
    """Checks that the dtype of the input ``name`` is in ``domain``; the error is TensorFlow's."""
    if x.dtype not in domain:
        raise not_among(x.dtype, domain, "T", name)


def not_among(dtype: DType, allowed: Sequence[DType], attribute: str, parameter: str) -> ArgumentError:
    """Returns TensorFlow's error for a dtype outside ``allowed``.

    Args:
        dtype: the input's dtype.
        allowed: the dtypes that the op accepts.
        attribute: the name of the op's dtype attribute, as the message of eager calls has it.
        parameter: the name of the input, as the message in graphs has it.
    """
    eager_names = ", ".join(map(type_name, allowed))
    eager_text = f"Value for attr '{attribute}' of {type_name(dtype)} is not in the list of allowed values: "
    graph_names = ", ".join(each.name for each in allowed)
    graph_text = f"Value passed to parameter '{parameter}' has DataType {dtype.name} not in list of allowed values: "
    return ArgumentError(eager_text + eager_names, TypeError, graph_text + graph_names)


def require_same_dtype(
    types: Sequence[TensorType],
    names: Sequence[str] = ("x", "y", "z"),
    in_list: str | None = None,
    before: int = 0,
) -> None:
    """Checks that all inputs have the dtype of the first one.

    The error has TensorFlow's text for eager execution and another one for graphs, which has the inputs' ``names``, or the name
    of the list that they are in. The op has other inputs ``before`` them.
    """
    first = types[0].dtype
    for i, other in enumerate(types[1:], 1):
        if other.dtype is not first:
            if in_list is None:
                graph_text = (
                    f"Input '{names[i]}' of '{{op}}' Op has type {other.dtype.name} that does not match type {first.name} "
                    f"of argument '{names[0]}'."
                )
            else:
                dtypes = ", ".join(each.dtype.name for each in types)
                graph_text = (
                    f"Tensors in list passed to '{in_list}' of '{{op}}' Op have types [{dtypes}] that don't all match."
                )
            raise ArgumentError(
                f"cannot compute {{op}} as input #{before + i}(zero-based) was expected to be a {type_name(first)} tensor "
                f"but is a {type_name(other.dtype)} tensor",
                TypeError,
                graph_text,
            )


def require_rank(x: TensorType, rank: int, name: str = "input") -> None:
    """Checks the number of axes of the input ``name``."""
    if len(x.shape) != rank:
        raise ArgumentError(f"{name} must be {rank}-dimensional, but got shape {show_shape(x.shape)}")


def require_shape(x: TensorType, expected: Sequence[Dim], name: str = "input") -> None:
    """Checks the shape of the input ``name``. Sizes known only at run time are compared then."""
    if not agree_shape(x.shape, expected):
        raise ArgumentError(f"{name} must have shape {show_shape(expected)}, but got {show_shape(x.shape)}")


def broadcast_types(*types: TensorType) -> tuple[Dim, ...]:
    """Returns the shape to which the types' shapes broadcast. Raises TensorFlow's error if they don't broadcast."""
    shape: tuple[Dim, ...] = ()
    for each in types:
        combined = broadcast_shapes(shape, each.shape)
        if combined is None:
            raise _incompatible_shapes(types)
        shape = combined
    return shape


def _incompatible_shapes(types: Sequence[TensorType]) -> ArgumentError:
    """Returns TensorFlow's error for operands whose shapes don't broadcast, with texts for eager calls and graphs."""
    shape_texts = ["[" + ",".join(map(str, each.shape)) + "]" for each in types]
    shapes = " vs. ".join(shape_texts)
    return ArgumentError(
        f"Incompatible shapes: {shapes}",
        ValueError,
        f"Dimensions must be equal or 1 to broadcast: input shapes {shapes}",
    )


def unary(domain: Sequence[DType], result: DType | None = None) -> Callable[..., TensorType]:
    """Returns the type rule of an elementwise op of one input, whose dtype must be in ``domain``.

    The result has the dtype ``result``, or the input's dtype.
    """

    def rule(x: TensorType, **_: Any) -> TensorType:
        require_dtype(x, domain)
        return TensorType(x.shape, result or x.dtype)

    return rule


def binary(domain: Sequence[DType], result: DType | None = None) -> Callable[..., TensorType]:
    """Returns the type rule of a broadcasting elementwise op of two inputs, which must have one dtype of ``domain``.

    The result has the dtype ``result``, or the inputs' dtype.
    """

    def rule(x: TensorType, y: TensorType, **_: Any) -> TensorType:
        require_same_dtype((x, y))
        require_dtype(x, domain)
        return TensorType(broadcast_types(x, y), result or x.dtype)

    return rule


def reduced_shape(shape: Sequence[Dim], axis: Sequence[int], keepdims: bool) -> tuple[Dim, ...]:
    """Returns the shape after a reduction over ``axis``: without these axes, or with size 1 if ``keepdims``."""
    if keepdims:
        return tuple(1 if i in axis else dim for i, dim in enumerate(shape))
    return tuple(dim for i, dim in enumerate(shape) if i not in axis)


def reduction(domain: Sequence[DType], result: DType | None = None) -> Callable[..., TensorType]:
    """Returns the type rule of an op that reduces the axes of its attribute ``axis``.

    The input's dtype must be in ``domain``. The result has the dtype ``result``, or the input's dtype.
    """

    def rule(x: TensorType, *, axis: tuple[int, ...], keepdims: bool, **_: Any) -> TensorType:
        """Checks dtype and axes of a reduction, and returns the type of the result.

        The reduced axes are removed, or have size 1 with ``keepdims``.
        """
        require_dtype(x, domain, "input")
        rank = len(x.shape)
        for index in axis:
            if not -rank <= index < rank:
                raise ArgumentError(f"Invalid reduction dimension ({index} for input with {rank} dimension(s)")
        return TensorType(reduced_shape(x.shape, axis, keepdims), result or x.dtype)

    return rule


# -- cotangents


def unbroadcast(cotangent: Tensor, like: Tensor) -> Tensor:
    """Sums a cotangent over the axes along which an operand ``like`` was broadcast. The result has the operand's shape.

    Whether a symbolic dim is 1, and was broadcast, is known only at run time. The primitive ``sum_to`` decides then.
    """
    shape, target = cotangent._dims, like._dims
    if type(cotangent) is EagerTensor and shape == target:
        return cotangent
    new_axis_count = len(shape) - len(target)  # broadcasting adds axes in front
    repeated_axes = []  # axes of size 1 that were repeated
    summed_shape = list(shape[new_axis_count:])
    for i, target_dim in enumerate(target):
        axis = new_axis_count + i
        if isinstance(target_dim, int) and target_dim == 1 and not same_dim(shape[axis], 1):
            repeated_axes.append(axis)
            summed_shape[i] = target_dim
    axes = (*range(new_axis_count), *repeated_axes)
    if axes:
        cotangent = bind.reduce_sum(cotangent, axis=axes, keepdims=False)
    if repeated_axes:
        cotangent = bind.reshape(cotangent, shape=tuple(summed_shape))
    return cotangent if same_shape(summed_shape, target) else bind.sum_to(cotangent, shape=tuple(target))


def zeros_like(x: Tensor) -> Tensor:
    """Returns zeros of the shape and dtype of ``x``."""
    return full_like(x, 0)


def ones_like(x: Tensor) -> Tensor:
    """Returns ones of the shape and dtype of ``x``."""
    return full_like(x, 1)


def full_like(x: Tensor, value: float) -> Tensor:
    """Returns a tensor of the shape and dtype of ``x``, filled with ``value``. Eager execution calls NumPy for it."""
    if type(x) is EagerTensor and state.trace is None:
        array = np.empty(x._array.shape, x._array.dtype)
        array.fill(value)
        return EagerTensor(array)
    return filled_like(x, value)


@defer_unknown_rank
def filled_like(x: Tensor, value: float) -> Tensor:
    """Returns a tensor like :func:`full_like` as a broadcast op, which a trace records."""
    return bind.broadcast_to(number(value, x), shape=x._type.shape)


def number(value: Any, like: Tensor) -> Tensor:
    """Returns a scalar constant of the dtype of ``like``."""
    return EagerTensor(np.asarray(value, like._type.dtype.np))


# -- batching: inputs come with a leading axis of ``size`` where ``batched`` says so


def batch_elementwise(prim_name: str) -> Callable[..., Any]:
    """Returns the batch rule (for ``vectorized_map``) of the broadcasting elementwise op ``prim_name``.

    Batched inputs of lower rank get axes of size 1 after the batch axis, because broadcasting aligns shapes at the end.
    """

    def rule(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], **attrs: Any) -> Any:
        item_ranks = [len(x._type.shape) - int(is_batched) for x, is_batched in zip(inputs, batched)]
        result_rank = max(item_ranks)
        aligned = [_with_rank(x, result_rank) if is_batched else x for x, is_batched in zip(inputs, batched)]
        return table[prim_name].bind(*aligned, **attrs)

    return rule


def _with_rank(x: Tensor, rank: int) -> Tensor:
    """Inserts axes of size 1 after the batch axis of ``x``, until ``rank`` axes follow the batch axis."""
    shape = x._type.shape
    if len(shape) - 1 == rank:
        return x
    return bind.reshape(x, shape=(shape[0], *(1,) * (rank - len(shape) + 1), *shape[1:]))


def batch_axes(prim_name: str) -> Callable[..., Any]:
    """Returns the batch rule (for ``vectorized_map``) of the one-input op ``prim_name`` with an attribute ``axis``.

    The batch axis comes first, so each axis in ``axis`` (an int or a tuple) moves by one.
    """

    def rule(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, axis: Any, **attrs: Any) -> Any:
        if isinstance(axis, tuple):
            shifted_axis = tuple(each + 1 for each in axis)
        else:
            shifted_axis = axis + 1
        return table[prim_name].bind(*inputs, axis=shifted_axis, **attrs)

    return rule


def stretch(size: Dim, x: Tensor, batched: bool) -> Tensor:
    """Returns ``x`` with the batch axis, repeated along it if it isn't batched."""
    return x if batched else bind.broadcast_to(x, shape=(size, *x._type.shape))


# -- lowering


def scalar(expression: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the rule that lowers an elementwise op to TIR.

    ``expression(t, *values)`` builds one element of the result from one element of each input. ``t`` is the module
    ``kernels.scalar``, a library of scalar functions. 16-bit floats are computed in float32.
    """

    def lower(*tensors: Any, **attrs: Any) -> Any:
        kernels = import_whole("tvtf.ops.kernels.scalar")
        return kernels.elementwise(expression, tensors, attrs)

    return lower


def kernel(path: str) -> Callable[..., Any]:
    """Returns the rule that lowers an op by the TE kernel ``path``, such as "indexing.gather", of ``tvtf.ops.kernels``.

    The kernel's module is imported at the first compilation, because it imports TVM, which takes 0.7 s.
    """
    module_name, _, function_name = path.rpartition(".")

    def lower(*tensors: Any, **attrs: Any) -> Any:
        module = import_whole(f"tvtf.ops.kernels.{module_name}")
        tensor_expression = getattr(module, function_name)
        return tensor_expression(*tensors, **attrs)

    return lower


# -- samples


def random_array(seed: int, shape: Sequence[int], dtype: DType, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Draws reproducible test data of any dtype from a uniform distribution over [low, high).

    Unsigned integers are absolute values, and bools tell whether a number is in the upper half.
    """
    values = np.random.default_rng(seed).uniform(low, high, shape)
    if dtype.is_bool:
        return values > (low + high) / 2
    if dtype.is_unsigned:
        values = np.abs(values)
    if dtype.is_integer:
        values = np.round(values)
    if dtype.is_complex:
        values = values + 1j * np.random.default_rng(seed + 1).uniform(low, high, shape)
    return np.asarray(values).astype(dtype.np)


def unary_samples(
    domain: Sequence[DType], low: float = -2.0, high: float = 2.0, **options: Any
) -> Callable[[], list[Sample]]:
    """Returns a function that makes test samples of an op of one input: scalars, empty tensors and ranks up to 3.

    Args:
      domain: The dtypes to test.
      low, high: The inputs have numbers in [low, high).
      options: Further fields of a sample.
    """

    def make() -> list[Sample]:
        shapes = ((), (3,), (2, 5), (0, 4), (3, 1, 7))
        inputs = [draw(seed, shape, low, high) for seed, shape in enumerate(shapes)]
        return [Sample((x,), {}, tuple(domain), **options) for x in inputs]

    return make


def binary_samples(
    domain: Sequence[DType], low: float = -2.0, high: float = 2.0, **options: Any
) -> Callable[[], list[Sample]]:
    """Returns a function that makes test samples of an op of two inputs, whose shapes broadcast in different ways.

    Args:
      domain: The dtypes to test.
      low, high: The inputs have numbers in [low, high).
      options: Further fields of a sample.
    """

    def make() -> list[Sample]:
        """Returns test samples of equal shapes, of shapes that broadcast, and of scalars."""
        shapes = (((), ()), ((3,), (3,)), ((2, 1, 5), (4, 1)), ((0, 3), (1, 3)), ((2, 3), ()))
        samples = []
        for seed, (x_shape, y_shape) in enumerate(shapes):
            x = draw(seed, x_shape, low, high)
            y = draw(seed + 50, y_shape, low, high)  # another seed, for inputs with different numbers
            samples.append(Sample((x, y), {}, tuple(domain), **options))
        return samples

    return make


def draw(seed: int, shape: Sequence[int], low: float = -2.0, high: float = 2.0) -> Callable[[DType], np.ndarray]:
    """Returns a sample input: a function that draws reproducible data, in [low, high), in the dtype under test."""
    return lambda dtype: random_array(seed, shape, dtype, low, high)
