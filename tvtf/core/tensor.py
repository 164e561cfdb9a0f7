"""Tensors: eager ones over NumPy arrays, symbolic ones over Relax variables, and the conversions between Python and both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tvtf import dtypes
from tvtf.core import aligned_array
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import export, hooks, table
from tvtf.core.shape import TensorShape, TensorType, as_shape, brackets, claim_dim, is_calculated
from tvtf.core.thread_state import state
from tvtf.dtypes import _BY_NUMPY, DType, type_name
from tvtf.errors import InaccessibleTensorError, OperatorNotAllowedInGraphError

MSG_UNHASHABLE = "Tensor is unhashable. Instead, use tensor.ref() as the key."
MSG_INT = "int() argument must be a string, a bytes-like object or a real number, not {!r}"
MSG_BOOL = (
    "Using a symbolic `tf.Tensor` as a Python `bool` is not allowed. You can attempt the following resolutions to the "
    "problem: If you are running in Graph mode, use Eager execution mode or decorate this function with @tf.function. If "
    "you are using AutoGraph, you can try decorating this function with @tf.function. If that does not work, then you may "
    "be using an unsupported feature or your source code may not be visible to AutoGraph."
)
MSG_ITERATE = (
    "Iterating over a symbolic `tf.Tensor` is not allowed. You can attempt the following resolutions to the problem: If "
    "you are running in Graph mode, use Eager execution mode or decorate this function with @tf.function. If you are using "
    "AutoGraph, you can try decorating this function with @tf.function. If that does not work, then you may be using an "
    "unsupported feature or your source code may not be visible to AutoGraph."
)


class Reference:
    """A hashable reference to a tensor or Variable; references to the same object are equal.

    Source: https://www.tensorflow.org/api_docs/python/tf/Tensor#ref
    """

    __slots__ = ("_target",)

    def __init__(self, target: Any) -> None:
        self._target = target

    def deref(self) -> Any:
        return self._target

    def __eq__(self, other: object) -> bool:
        return other is not None and id(self._target) == _address_in(other)

    def __lt__(self, other: object) -> bool:
        """Compares by address, an arbitrary order, so that references can be sorted."""
        return id(self._target) < _address_in(other)

    def __gt__(self, other: object) -> bool:
        return id(self._target) > _address_in(other)

    def __hash__(self) -> int:
        return id(self._target)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._target!r}>"


def _address_in(reference: object) -> int:
    if not isinstance(reference, Reference):
        raise TypeError("Cannot compare wrapped object with unwrapped object")
    return id(reference._target)


@export("__internal__.types.Tensor")
class AnyTensor:
    """The base class of tensors, Variables and other libraries' objects that can be used as tensors.

    A subclass that is not a ``tf.Tensor`` converts itself by ``__tf_tensor__(dtype, name)``.

    >>> import tvtf as tf
    >>> class Pair(tf.__internal__.types.Tensor):
    ...     def __tf_tensor__(self, dtype=None, name=None):
    ...         return tf.constant([1, 2])
    >>> (tf.constant(1) + Pair()).numpy()
    array([2, 3], dtype=int32)

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/types/core.py
    """

    __slots__ = ()

    def _as_tensor(self) -> Tensor:
        return convert_to_tensor(self.__tf_tensor__())

    if TYPE_CHECKING:  # what tvtf.ops.operators attaches to tensors and Variables, and what only some of them have

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, key: Any) -> Tensor: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...


class Tensor(AnyTensor):
    """A typed, immutable n-dimensional array: the operands and results of ops. ``tvtf.ops`` attaches Python's operators.

    >>> import tvtf as tf
    >>> tf.constant([[1, 2], [3, 4]]) + 1
    <tf.Tensor: shape=(2, 2), dtype=int32, numpy=
    array([[2, 3],
           [4, 5]], dtype=int32)>

    Source: https://www.tensorflow.org/api_docs/python/tf/Tensor
    """

    __slots__ = ("__dict__", "__weakref__", "_slice_of")  # libraries set attributes on tensors: Keras its mask
    __array_priority__ = 100
    is_batched = False
    _type: TensorType
    _slice_of: tuple[Any, Any]

    @property
    def dtype(self) -> DType:
        return self._type.dtype

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self._type.shape)

    @property
    def _dims(self) -> tuple[Any, ...]:
        return self._type.shape

    @property
    def ndim(self) -> int:
        return len(self._dims)

    @property
    def device(self) -> str:
        return "/job:localhost/replica:0/task:0/device:CPU:0"

    def get_shape(self) -> TensorShape:
        return self.shape

    def ref(self) -> Reference:
        return Reference(self)

    experimental_ref = ref

    def _as_tensor(self) -> Tensor:
        return self

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Tensor:
        """Converts the tensor to a tensor: itself. TensorFlow's protocol for convertible objects."""
        return convert_to_tensor(self, dtype, name=name)

    def eager_array(self, prim: Any = None) -> np.ndarray:
        raise NotImplementedError

    def __bool__(self) -> bool:
        """Returns the truth of a convertible object; tensors override it. Other classes use this method, too."""
        return bool(convert_to_tensor(self))

    def __nonzero__(self) -> bool:
        return bool(self)

    def __hash__(self) -> int:
        raise TypeError(MSG_UNHASHABLE)


class EagerTensor(Tensor):
    """A tensor with a value: a NumPy array that is never written again.

    >>> import tvtf as tf
    >>> isinstance(tf.constant(1), tf.__internal__.EagerTensor)
    True

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/framework/ops.py
    """

    __slots__ = ("_array", "_handle", "_typed")
    has_identity = False
    """Whether it is more than its value, as a resource is: then traces take it as a parameter, never as a constant."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self._handle: Any = None
        self._typed: TensorType | None = None

    @property
    def _type(self) -> TensorType:  # type: ignore[override]
        if self._typed is None:
            self._typed = TensorType(self._array.shape, _BY_NUMPY[self._array.dtype])
        return self._typed

    @property
    def dtype(self) -> DType:
        return _BY_NUMPY[self._array.dtype]

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self._array.shape)

    @property
    def _dims(self) -> tuple[int, ...]:
        return self._array.shape

    def eager_array(self, prim: Any = None) -> np.ndarray:
        return self._array

    def numpy(self) -> Any:
        """Returns a copy of the value as a NumPy array (a NumPy scalar or ``bytes`` for a scalar)."""
        return self._array[()] if self._array.ndim == 0 else self._array.copy()

    def cpu(self) -> EagerTensor:
        """Returns this tensor: eager tensors are in the CPU's memory."""
        return self

    def set_shape(self, shape: Any) -> None:
        if not self.shape.is_compatible_with(shape):
            raise ValueError(f"Tensor's shape {self.shape} is not compatible with supplied shape {as_shape(shape)}.")

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        raise NotImplementedError(
            "eval is not supported when eager execution is enabled, is .numpy() what you're looking for?"
        )

    def consumers(self) -> Any:
        raise NotImplementedError("Tensor.consumers is undefined when eager execution is enabled.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Implements NumPy's conversion protocol: returns a read-only view, or a copy if another dtype is requested."""
        if copy or (dtype is not None and np.dtype(dtype) != self._array.dtype):
            return self._array.astype(dtype or self._array.dtype)
        view = self._array.view()
        view.flags.writeable = False
        return view

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __bool__(self) -> bool:
        return bool(self._array.size) and bool(self._array)

    def __int__(self) -> int:
        return int(self._array)

    def __float__(self) -> float:
        return float(self._array)

    def __complex__(self) -> complex:
        return complex(self._array)

    def __index__(self) -> int:
        return self._array.__index__()

    def __format__(self, spec: str) -> str:
        return format(self.numpy(), spec)

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("Scalar tensor has no `len()`")
        return len(self._array)

    def __iter__(self) -> Iterator[Tensor]:
        if not self._array.ndim:
            raise TypeError("Cannot iterate over a scalar tensor.")
        return (self[i] for i in range(len(self._array)))  # type: ignore[index]

    def __copy__(self) -> EagerTensor:
        return self

    def __deepcopy__(self, memo: Any) -> EagerTensor:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return convert_to_tensor, (self._array,)

    def __str__(self) -> str:
        return f"tf.Tensor({_numpy_text(self._array, False)}, shape={self.shape}, dtype={self.dtype.name})"

    def __repr__(self) -> str:
        return f"<tf.Tensor: shape={self.shape}, dtype={self.dtype.name}, numpy={_numpy_text(self._array, True)}>"


def _numpy_text(array: np.ndarray, is_repr: bool) -> str:
    """Returns the value as TensorFlow prints it: scalars bare, a multi-line repr starting on a new line."""
    if array.ndim == 0:
        return repr(array.item()) if is_repr or array.dtype == object else str(array)
    text = repr(array) if is_repr else str(array)
    return "\n" + text if "\n" in text else text


def _of_graphs(name: str) -> property:
    """Returns a property that raises as TensorFlow does: only tensors of a graph have it."""

    def raise_graph_only(self: EagerTensor) -> Any:
        raise AttributeError(f"Tensor.{name} is undefined when eager execution is enabled.")

    return property(raise_graph_only)


for _name in ("name", "graph", "op", "value_index"):
    setattr(EagerTensor, _name, _of_graphs(_name))


def _merged_shape(static: TensorShape, claimed: TensorShape) -> TensorShape:
    """Merges the static shape with the shape that the user claims. Raises ValueError if known dims differ."""
    if static.rank == claimed.rank:
        for axis, (dim, claimed_dim) in enumerate(zip(static, claimed)):
            if None not in (dim, claimed_dim) and dim != claimed_dim:
                text = f"Dimension {axis} in both shapes must be equal, but are {dim} and {claimed_dim}."
                raise ValueError(f"{text} Shapes are {brackets(static)} and {brackets(claimed)}.")
    return static.merge_with(claimed)


class SymbolicTensor(Tensor):
    """A tensor of a function being traced: a Relax variable with its type.

    ``known`` is the statically known value, an object array of dims, of integers computed from shapes; otherwise None.
    ``claimed`` is the shape given to ``set_shape``, where that has sizes which only run time determines: ``shape`` shows
    them, but compiled code does not rely on them.
    """

    __slots__ = ("_var", "_type", "_trace", "_known", "claimed")

    def __init__(self, var: Any, tensor_type: TensorType, trace: Any) -> None:
        self._var = var
        self._type = tensor_type
        self._trace = trace
        self._known: np.ndarray | None = None
        self.claimed: TensorShape | None = None

    @property
    def known(self) -> np.ndarray | None:
        if self._known is not None and self._trace.static_uses is not None:
            self._trace.note_static_use(self._var)
        return self._known

    @known.setter
    def known(self, value: np.ndarray | None) -> None:
        self._known = value

    def __hash__(self) -> int:
        """Hashes a tensor of a TensorFlow 1 graph by identity, as a key of a ``feed_dict``; others are unhashable."""
        return id(self) if self._trace.has_keys else super().__hash__()

    @property
    def name(self) -> str:
        return self._trace.name_of(self)  # type: ignore[no-any-return]

    @property
    def op(self) -> Any:
        return self._trace.operation_of(self)

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Evaluates the tensor of a TensorFlow 1 graph in the given session, or the default one."""
        return self._trace.evaluate(self, feed_dict, session)

    def consumers(self) -> list[Any]:
        """Returns the ops that take the tensor as an input."""
        return self._trace.consumers_of(self)  # type: ignore[no-any-return]

    @property
    def graph(self) -> Any:
        return getattr(self._trace, "graph", self._trace)

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self._type.shape) if self.claimed is None else self.claimed

    @property
    def shown_type(self) -> TensorType:
        """The type with the sizes claimed by ``set_shape`` in place of symbolic ones."""
        if self.claimed is None:
            return self._type
        dims = zip(self.claimed, self._type.shape)
        return TensorType(tuple(actual if size is None else size for size, actual in dims), self._type.dtype)

    def alias(self) -> SymbolicTensor:
        """Returns a new tensor of the same value: tapes distinguish tensors by identity."""
        alias = SymbolicTensor(self._var, self._type, self._trace)
        alias.claimed = self.claimed
        return alias

    def eager_array(self, prim: Any = None) -> np.ndarray:
        raise self.out_of_scope(f"by {prim.tf_name}" if prim else "")

    def out_of_scope(self, where: str = "") -> InaccessibleTensorError:
        """Returns the error for a use of the tensor outside its trace."""
        return InaccessibleTensorError(
            f"{self!r} is out of scope and cannot be used here{where and f' {where}'}. Use return values, explicit Python "
            f"locals or TensorFlow collections to access it. It was defined while tracing {self._trace.name!r}, which has "
            "ended."
        )

    @property
    def numpy(self) -> Any:
        """Raises AttributeError, as in TensorFlow: programs use ``hasattr`` to distinguish eager tensors from traced ones."""
        raise AttributeError(
            f"'SymbolicTensor' object has no attribute 'numpy': it has no value while {self._trace.name!r} is traced; return "
            "it, or use tf.py_function"
        )

    def set_shape(self, shape: Any) -> None:
        """Declares unknown dims to be those of ``shape``; for its arguments the compiled function checks them at each call.

        A size that the program computes is checked here: the tensor becomes the result of the check, so that what the
        program did with the size before keeps the actual one. In a branch, which may not be taken, the size of an argument
        isn't checked, as in TensorFlow: ``x.shape`` shows the declared size, computations use the actual one.

        Raises:
          ValueError: a known dim differs from that of ``shape``.
        """
        if isinstance(self._type.shape, AnyShape):
            return hooks.set_rank(self, as_shape(shape))
        merged = _merged_shape(self.shape, as_shape(shape))
        is_parameter = any(self is param for param in self._trace.all_params)
        dims = []
        for dim, declared in zip(self._type.shape, merged):
            is_claimed = declared is not None and claim_dim(dim, declared, is_parameter)
            dims.append(declared if is_claimed else dim)
        self._type = TensorType(tuple(dims), self._type.dtype)
        if TensorShape(dims) != merged and self._can_be_checked(is_parameter, dims, merged):
            stated = tuple(dim if declared is None else declared for dim, declared in zip(dims, merged))
            self._trace.stand_for(self, hooks.ensure_shape(self.alias(), stated))
        self.claimed = None if TensorShape(self._type.shape) == merged else merged

    def _can_be_checked(self, is_parameter: bool, dims: Sequence[Any], declared: TensorShape) -> bool:
        """Returns whether the declared sizes can be checked at the current position of the trace.

        In the body of a loop or in a branch, parameters and sizes calculated from others are not checked, because the
        declared sizes may hold only after the last iteration. TensorFlow trusts the user there.
        """
        if self._trace is not state.trace:
            return False
        calculated = any(size is not None and is_calculated(dim) for dim, size in zip(dims, declared))
        return self._trace.parent is None or not (is_parameter or calculated)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise NotImplementedError(
            f"Cannot convert a symbolic tf.Tensor ({self.name}) to a numpy array. This error may indicate that you're "
            "trying to pass a Tensor to a NumPy call, which is not supported."
        )

    def __bool__(self) -> bool:
        raise OperatorNotAllowedInGraphError(MSG_BOOL)

    def __int__(self) -> int:
        """Returns the tensor's value as an int. The value must be known while tracing, for example from static shapes.

        Raises:
          TypeError: the value is not known while tracing.
        """
        value = static_value(self)
        if value is None:
            raise TypeError(MSG_INT.format(type(self).__name__))
        return int(value)

    def __len__(self) -> int:
        """Returns the size of axis 0, if it is static."""
        dim = self._type.shape[0] if self._type.shape else None
        if not isinstance(dim, int):
            raise TypeError(
                f"len is not well defined for a symbolic Tensor ({self.name}). Please call `x.shape` rather than `len(x)` for shape information."
            )
        return dim

    def __iter__(self) -> Iterator[Tensor]:
        raise OperatorNotAllowedInGraphError(MSG_ITERATE)

    def __str__(self) -> str:
        shape = "" if self.shape.rank is None else f" shape={self.shape},"
        return f'Tensor("{self.name}",{shape} dtype={self.dtype.name})'

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self.shape} dtype={self.dtype.name}>"


def static_value(tensor: Any) -> np.ndarray | None:
    """Returns the value of an eager tensor, or of a traced one that is a constant or computed from static shapes.

    Returns None for other tensors.
    """
    if isinstance(tensor, EagerTensor):
        return tensor._array
    if not isinstance(tensor, SymbolicTensor):
        return None
    from tvm import ir

    if isinstance(tensor._var, ir.Constant):
        tensor._trace.note_static_use(tensor._var)
        return np.array(tensor._var.value.numpy(), tensor.dtype.np)
    known = tensor.known  # an AnyValue, not an array, where it depends on an unknown rank
    if not isinstance(known, np.ndarray) or not all(isinstance(element, int) for element in known.flat):
        return None
    return known.astype(tensor.dtype.np)


def wrap(result: Any, expected: TensorType) -> EagerTensor:
    """Wraps the result of an op's NumPy kernel as a tensor of the type that the op's type rule inferred."""
    array = result if type(result) is np.ndarray else np.asarray(result)
    # Identity first, as it takes less time than a comparison of dtypes.
    if array.dtype is not expected.dtype.np and array.dtype != expected.dtype.np:
        array = array.astype(expected.dtype.np)
    tensor = EagerTensor(array)
    if array.shape == expected.shape:
        tensor._typed = expected
    return tensor


hooks.wrap = wrap

_converters: list[tuple[type, Callable[..., Any]]] = []


def register_tensor_conversion_function(
    base_type: type, conversion_func: Callable[..., Any], priority: int = 100
) -> None:
    """Registers how :func:`convert_to_tensor` converts values of a type.

    For a user's class of Variables, the function also replaces how ops read them.

    Args:
      base_type: the type.
      conversion_func: the function ``(value, dtype, name, as_ref) -> tensor``.
      priority: not used.

    Source: https://www.tensorflow.org/api_docs/python/tf/register_tensor_conversion_function
    """
    if issubclass(base_type, AnyTensor) and not issubclass(base_type, Tensor):
        base_type._as_tensor = lambda self: conversion_func(self, dtype=None, name=None, as_ref=False)  # type: ignore[method-assign]
    _converters.append((base_type, conversion_func))


def is_tensor(value: Any) -> bool:
    """Returns whether ``value`` is a tensor or a Variable; composite tensors are not."""
    return isinstance(value, AnyTensor) or hasattr(value, "_as_tensor")


def read_if_variable(value: Any) -> Any:
    """Returns the value of a Variable as a tensor; other values unchanged."""
    return value._as_tensor() if hasattr(value, "_as_tensor") else value


def convert_to_tensor(value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> Tensor:
    """Converts an op's argument to a tensor, as the public ``tf.convert_to_tensor`` (``ops/conversion.py``) does.

    While tracing, known values stay eager tensors here: an op checks its arguments by them. The primitive that they are
    passed to makes them constants of the trace.
    """
    if dtype is not None:
        dtype = dtypes.as_dtype(dtype)
    elif type(value) is EagerTensor:
        return value
    if not isinstance(value, Tensor) and hasattr(value, "_as_tensor"):
        value = value._as_tensor()
    if isinstance(value, Tensor):
        return _require_dtype(value, dtype)
    if hasattr(value, "__tf_tensor__") and not isinstance(value, type):
        return _require_dtype(value.__tf_tensor__(dtype, name), dtype)
    for source_type, convert in _converters:
        if isinstance(value, source_type):
            return _require_dtype(convert(value, dtype=dtype, name=name, as_ref=False), dtype)
    if isinstance(value, (list, tuple)) and (first := first_dtype(value)) is not None:
        wanted = dtype or (first if dtype_hint is None else dtypes.as_dtype(dtype_hint))
        return hooks.pack(value if wanted is first else _tensors_cast(value, wanted), wanted)  # type: ignore[no-any-return]
    return EagerTensor(to_array(value, dtype, dtype_hint))


def _shape_as_tensor(shape: TensorShape, dtype: DType | None = None, **_: Any) -> EagerTensor:
    """Converts a TensorShape to a vector tensor of its sizes, int32 by default; all sizes must be known."""
    if not shape.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape {shape} to a Tensor.")
    if dtype not in (None, dtypes.int32, dtypes.int64):
        raise TypeError(
            f"Cannot convert TensorShape {shape} to dtype {dtype}. Allowed dtypes are tf.int32 and tf.int64."
        )
    return EagerTensor(to_array(shape.as_list(), dtype, dtypes.int32))


register_tensor_conversion_function(TensorShape, _shape_as_tensor)


def _require_dtype(tensor: Tensor, dtype: DType | None) -> Tensor:
    """Returns the tensor after checking that it has the dtype requested of ``tf.convert_to_tensor``."""
    if dtype is not None and tensor.dtype is not dtype:
        raise ValueError(
            f"Tensor conversion requested dtype {dtype.name} for Tensor with dtype {tensor.dtype.name}: {tensor!r}"
        )
    return tensor


def _require_constant_dtype(tensor: Tensor, dtype: Any) -> Tensor:
    """Returns the tensor after checking that it has the dtype requested of ``tf.constant``."""
    if dtype is not None and tensor.dtype is not dtypes.as_dtype(dtype):
        value_text = _numpy_text(tensor._array, False) if isinstance(tensor, EagerTensor) else str(tensor)
        expected = dtypes.as_dtype(dtype)
        raise TypeError(f"Expected tensor {value_text} with dtype {expected!r}, but got dtype {tensor.dtype!r}.")
    return tensor


def _tensors_cast(value: Any, dtype: DType) -> Any:
    if isinstance(value, (list, tuple)):
        return [_tensors_cast(each, dtype) for each in value]
    return table["cast"].bind(value, dtype=dtype) if is_tensor(value) and value.dtype is not dtype else value


def first_dtype(values: Sequence[Any]) -> DType | None:
    """Returns the dtype of the first tensor in nested lists of values, or None if there is none."""
    for value in values:
        dtype = value.dtype if is_tensor(value) else first_dtype(value) if isinstance(value, (list, tuple)) else None
        if dtype is not None:
            return dtype
    return None


def to_array(value: Any, dtype: DType | None, hint: Any = None) -> np.ndarray:
    """Converts a Python or NumPy value to a new NumPy array, with TensorFlow's dtype inference and strictness."""
    if value is None:
        raise ValueError("Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor.")
    if hint is not None and dtype is None:
        return _hinted_array(value, dtypes.as_dtype(hint))
    return _array_from(value, dtype, _wrapped_ints)


def _hinted_array(value: Any, hint: DType) -> np.ndarray:
    """Converts a value to the dtype that is hinted, or to its own where it doesn't fit."""
    try:
        return _array_from(value, hint, _to_numpy)
    except (TypeError, ValueError, OverflowError):
        return to_array(value, None)


def _array_from(value: Any, dtype: DType | None, make_array: Callable[[Any, DType], np.ndarray]) -> np.ndarray:
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        return _from_numpy(np.asarray(value), dtype)
    return _from_python(value, dtype, make_array)


def _from_numpy(array: np.ndarray, dtype: DType | None) -> np.ndarray:
    """Converts a NumPy array to one of a dtype that tensors can have, in aligned memory.

    Without a ``dtype`` it is TensorFlow's dtype of the same name. Texts become bytes objects.
    """
    if array.dtype.kind == "O" and dtype not in (None, dtypes.string):
        return array.astype(dtype.np, order="C")
    if array.dtype.kind in "SUO":
        _check_texts(array)
        return _string_array(array.tolist(), dtype)
    if array.dtype.kind in "mM" and dtype is not None:
        array = array.astype(np.int64)  # dates as units since 1970: TensorFlow accepts them with an explicit dtype
    inferred = _BY_NUMPY.get(array.dtype.newbyteorder("=")) if array.dtype.names is None else None
    if inferred is None:
        raise ValueError(f"Failed to convert a NumPy array to a Tensor (Unsupported numpy type: {array.dtype}).")
    if dtype is dtypes.string and not array.size:
        return np.empty(array.shape, object)
    if dtype is dtypes.string:
        raise ValueError(f"Failed to convert a NumPy array of {array.dtype} to a Tensor of dtype string.")
    with np.errstate(all="ignore"):
        return aligned_array.aligned_copy(array, (dtype or inferred).np)


def _check_texts(array: np.ndarray) -> None:
    """Checks that all elements of an array of objects are str or bytes."""
    for each in array.ravel().tolist():
        if not isinstance(each, (str, bytes)):
            raise _unconvertible(
                array, f"Failed to convert a NumPy array to a Tensor (Unsupported object type {type(each).__name__})."
            )


def _from_python(value: Any, dtype: DType | None, make_array: Callable[[Any, DType], np.ndarray]) -> np.ndarray:
    """Converts a Python number or text, or a nested list of them, to a NumPy array.

    If ``dtype`` is None, the dtype is inferred from the types of the elements. ``make_array(value, dtype)`` converts
    numbers.
    """
    leaf_types = _leaf_types(value)
    if dtype is None and state.trace is not None and leaf_types.isdisjoint({str, bytes}) and _has_numpy_leaf(value):
        return _as_numpy_infers(value)
    if leaf_types & {str, bytes}:
        if leaf_types - {str, bytes}:
            raise _unconvertible(value, MSG_MIXED)
        return _string_array(value, dtype)
    target = dtype or _inferred_dtype(leaf_types, value)
    _check_leaf_types(leaf_types, value, target)
    if dtype is None and target is dtypes.int32:
        return _narrowest_ints(value)
    return make_array(value, target)


def _has_numpy_leaf(value: Any) -> bool:
    return any(isinstance(leaf, (np.generic, np.ndarray)) for leaf in _leaves(value))


def _as_numpy_infers(value: Any) -> np.ndarray:
    """Converts a list with NumPy values to the dtype that NumPy infers, as TensorFlow's graphs do.

    Lists of scalars prefer float32 to float64, and int32 to int64 where it can hold the numbers.
    """
    array = _to_numpy(value, None)
    if not any(isinstance(leaf, np.ndarray) for leaf in _leaves(value)):
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        elif array.dtype == np.int64 and np.array_equal(narrowed := array.astype(np.int32), array):
            array = narrowed
    return _from_numpy(array, None)


def _wrapped_ints(value: Any, target: DType) -> np.ndarray:
    """Converts Python numbers to an array of dtype ``target``; ints too large for it wrap around, as in TensorFlow.

    Raises:
      OverflowError: an int has more than 64 bits.
    """
    try:
        return _to_numpy(value, target)
    except OverflowError:
        if target.size == dtypes.int64.size:
            raise
        return _to_numpy(value, dtypes.int64).astype(target.np)


def _narrowest_ints(value: Any) -> np.ndarray:
    """Converts Python ints to int32, or to int64 where one does not fit, as TensorFlow does."""
    try:
        return _to_numpy(value, dtypes.int32)
    except OverflowError:
        return _to_numpy(value, dtypes.int64)


_SEQUENCES = (list, tuple, range, TensorShape)


def _leaf_types(value: Any) -> set[type]:
    """Returns the Python types of all leaves of a nested list."""
    if not isinstance(value, _SEQUENCES):
        return {_leaf_type(value)}
    if None in map(_none_or_type, value) and len(value) > 1:
        raise _unconvertible(value, MSG_MIXED)
    return set().union(*map(_leaf_types, value)) if len(value) else set()


def _none_or_type(value: Any) -> type | None:
    return None if value is None else type(value)


_NUMPY_KINDS = {"b": bool, "i": int, "u": int, "f": float, "c": complex, "S": bytes, "U": str, "V": float}


def _leaf_type(value: Any) -> type:
    """Returns the Python type that determines the dtype of a list's element: bool, int, float, complex, str or bytes.

    Raises:
      ValueError: the element has none of these types, and is not a NumPy scalar or array.
    """
    # A bool is an int, too, and so comes first.
    for python_type in (bool, int, float, complex, str, bytes):
        if isinstance(value, python_type):
            return python_type
    if isinstance(value, np.generic) or hasattr(value, "__array__"):
        numpy_leaf_type = _NUMPY_KINDS.get(np.asarray(value).dtype.kind)
        if numpy_leaf_type is not None:
            return numpy_leaf_type
    raise _unconvertible(
        value, f"Attempt to convert a value ({value!r}) with an unsupported type ({type(value)}) to a Tensor."
    )


def _inferred_dtype(leaf_types: set[type], value: Any) -> DType:
    """Infers the dtype of a Python number or nested list from its first element, as TensorFlow does.

    If the first element is a bool, all must be bools. If it is an int and any element is a float, the dtype is float32.
    NumPy's floats keep their dtype.
    """
    if not leaf_types:  # an empty list
        return dtypes.float32
    first_leaf = next(_leaves(value))
    first_type = _leaf_type(first_leaf)
    if leaf_types - _FOLLOWS[first_type]:
        raise _unconvertible(value, MSG_MIXED)
    if first_type is float:
        return _numpy_float(first_leaf)
    if first_type is int and float in leaf_types:
        return dtypes.float32
    return _BY_KIND[first_type]


def _unconvertible(value: Any, eager_message: str) -> Exception:
    """Returns TensorFlow's error for a value that can't be converted to a tensor.

    Eagerly it is a ValueError with the text ``eager_message``; while tracing it is a TypeError with another text.
    """
    if state.trace is None:
        return ValueError(eager_message)
    return TypeError(
        f"Failed to convert elements of {_value_text(value)} to Tensor. Consider casting elements to a supported type. "
        "See https://www.tensorflow.org/api_docs/python/tf/dtypes for supported TF dtypes."
    )


MSG_MIXED = "Can't convert Python sequence with mixed types to Tensor."
"""TensorFlow's message for a list that mixes types."""
_FOLLOWS: dict[type, set[type]] = {
    bool: {bool},
    int: {bool, int, float},
    float: {bool, int, float},
    complex: {bool, int, float, complex},
}
"""By the type of a list's first element: the types that may follow."""
_BY_KIND = {bool: dtypes.bool, int: dtypes.int32, complex: dtypes.complex128}


def _leaves(value: Any) -> Iterator[Any]:
    """Yields the leaves of nested lists and tuples."""
    if not isinstance(value, _SEQUENCES):
        yield value
        return
    for each in value:
        yield from _leaves(each)


def _numpy_float(leaf: Any) -> DType:
    is_numpy = isinstance(leaf, np.generic) or hasattr(leaf, "__array__")
    return _BY_NUMPY.get(np.asarray(leaf).dtype, dtypes.float32) if is_numpy else dtypes.float32


_ACCEPTS: dict[str, set[type]] = {
    "b": {bool},
    "i": {bool, int},
    "u": {bool, int},
    "f": {bool, int, float},
    "s": {str, bytes},
}


def _check_leaf_types(leaf_types: set[type], value: Any, target: DType) -> None:
    """Checks that Python values of these types can be converted to the dtype ``target``."""
    if leaf_types - _ACCEPTS.get(target.kind, {int, float, complex}):
        _to_numpy(value, None)  # a ragged list raises its own error first
        if complex in leaf_types and len(leaf_types) > 1:
            raise _unconvertible(value, MSG_MIXED)
        raise TypeError(f"Cannot convert {_value_text(value)} to EagerTensor of dtype {type_name(target)}")


def _value_text(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 100 else text[:97] + "..."


def _to_numpy(value: Any, target: DType | None) -> np.ndarray:
    """Converts a Python number or nested list to a NumPy array, of dtype ``target`` or of the one that NumPy infers.

    Raises TensorFlow's errors for ints that the dtype can't hold, and for nested lists that aren't rectangular.
    """
    try:
        with np.errstate(over="ignore"):
            return np.array(value, dtype=None if target is None else target.np)
    except OverflowError as error:
        reason = f"{_value_text(value)} does not fit {target and target.name}."
        if state.trace is not None:
            text = f"Failed to convert elements of {_value_text(value)} to Tensor: {reason}"
            raise TracedOutOfRangeInteger(text) from error
        text = f"Can't convert Python sequence with out-of-range integer to Tensor: {reason}"
        raise OutOfRangeInteger(text) from error
    except (TypeError, ValueError) as error:
        raise _unconvertible(value, MSG_MIXED) if _starts_with_scalar(value) else ValueError(MSG_RAGGED) from error


MSG_RAGGED = "Can't convert non-rectangular Python sequence to Tensor."


class OutOfRangeInteger(ValueError, OverflowError):
    """An int that its dtype can't hold."""


class TracedOutOfRangeInteger(TypeError, OverflowError):
    """An int that its dtype can't hold, in a trace: TensorFlow raises TypeError there."""


def _starts_with_scalar(value: Any) -> bool:
    """Returns whether a list, at any depth, starts with a scalar and contains a list: TensorFlow calls that mixed types."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    are_lists = [isinstance(item, (list, tuple)) for item in value]
    return (not are_lists[0] and any(are_lists)) or any(map(_starts_with_scalar, value))


def _string_array(value: Any, dtype: DType | None) -> np.ndarray:
    """Converts a text, or a nested list of texts, to an object array of bytes: the value of a string tensor."""
    if dtype not in (None, dtypes.string):
        raise TypeError(f"Cannot convert {_value_text(value)} to EagerTensor of dtype {type_name(dtype)}")  # type: ignore[arg-type]
    try:
        # NumPy's own type for texts drops zeros at the end.
        texts = np.array(value, dtype=object)
    except ValueError as error:
        raise ValueError(MSG_RAGGED) from error
    if any(isinstance(text, (list, tuple)) for text in texts.ravel()):
        raise ValueError(MSG_RAGGED)
    encoded = [_as_bytes(text) for text in texts.ravel()]
    result = np.empty(texts.shape, object)
    result.ravel()[:] = encoded
    return result


def _as_bytes(value: Any) -> bytes:
    """Converts a str or bytes to bytes, the elements of string tensors."""
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"Cannot convert {value!r} to EagerTensor of dtype string")


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = "Const") -> Tensor:
    """Creates a tensor of the given value, reshaped to ``shape``, or filling it with a single element.

    >>> import tvtf as tf
    >>> tf.constant(0., shape=(2,))
    <tf.Tensor: shape=(2,), dtype=float32, numpy=array([0., 0.], dtype=float32)>

    Raises:
      TypeError: the number of elements of ``value`` is neither 1 nor that of ``shape``.

    Source: https://www.tensorflow.org/api_docs/python/tf/constant
    """
    return (constant_rule.function or plain_constant)(value, dtype, shape, name)


class ConstantRule:
    """What `constant` calls instead of `plain_constant`, while the types of numbers are promoted without their dtypes."""

    function: Callable[..., Any] | None = None


constant_rule = ConstantRule()


def plain_constant(value: Any, dtype: Any, shape: Any, name: str | None) -> Tensor:
    """Creates a tensor as `constant` does, whatever `constant_rule` says."""
    if state.trace is not None and any(isinstance(each, SymbolicTensor) for each in _leaves(value)):
        raise TypeError("Expected any non-tensor type, but got a tensor instead.")
    if isinstance(value, Tensor) or (isinstance(value, (list, tuple)) and first_dtype(value) is not None):
        tensor = _require_constant_dtype(convert_to_tensor(value), dtype)
        if shape is not None and tensor.shape != as_shape(shape):
            sizes: Any = tuple(as_shape(shape).as_list())
            array = np.asarray(tensor.numpy(), tensor.dtype.np)  # a text's `numpy` is no array
            tensor = EagerTensor(_reshaped_or_filled(array, sizes, value))
        return tensor if state.trace is None else state.trace.own_result(tensor)
    array = to_array(value, None if dtype is None else dtypes.as_dtype(dtype))
    if shape is not None:
        array = _reshaped_or_filled(array, tuple(as_shape(shape).as_list()), value)  # type: ignore[arg-type]
    tensor = EagerTensor(array)
    return tensor if state.trace is None else state.trace.own_constant(tensor, name)


def _reshaped_or_filled(array: np.ndarray, shape: tuple[int, ...], value: Any) -> np.ndarray:
    """Reshapes an array for ``tf.constant``; one with a single element fills the shape.

    Raises:
      TypeError: the number of elements is neither 1 nor that of the shape.
    """
    if array.size == int(np.prod(shape)):
        return array.reshape(shape)
    if array.size == 1:
        element = array.reshape(())[()]
        return np.full(shape, element, array.dtype)
    raise TypeError(
        f"Eager execution of tf.constant with unsupported shape. Tensor {array} (converted from {_value_text(value)}) has "
        f"{array.size} elements, but got `shape` {shape} with {int(np.prod(shape))} elements)."
    )
