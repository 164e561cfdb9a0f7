"""Assertions on ranks, shapes and dtypes: ``tf.debugging.assert_rank``, ``assert_shapes``, ``assert_type`` and more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tvtf import dtypes
from tvtf.core.composite import CompositeTensor
from tvtf.core.graph_operation import done
from tvtf.core.primitive import export
from tvtf.core.shape import Dim
from tvtf.core.tensor import Tensor, convert_to_tensor, static_value
from tvtf.core.thread_state import state
from tvtf.dtypes import DType, as_dtype
from tvtf.ops.assertion import called, guarded, prefix, shape_and_dtype
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind

# -- ranks


@export("debugging.assert_rank", "assert_rank")
def assert_rank(x: Any, rank: Any, message: Any = None, name: str | None = None) -> Any:
    """Raises an error unless ``x`` has the given rank. The check happens while tracing, because ranks are known then.

    Args:
      x: tensor.
      rank: integer scalar that is known while tracing.
      message: begins the error's text.

    Raises:
      ValueError: the rank of ``x`` is wrong, or ``rank`` is not a scalar.

    >>> import tvtf as tf
    >>> tf.debugging.assert_rank(tf.zeros([2, 3]), 2)

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_rank
    """
    return _assert_rank(x, rank, message, "", lambda rank, expected: rank == expected)


@export("debugging.assert_rank_at_least")
def assert_rank_at_least(x: Any, rank: Any, message: Any = None, name: str | None = None) -> Any:
    """Raises an error unless ``x`` has at least the given rank. Same as ``assert_rank`` in other respects.

    >>> import tvtf as tf
    >>> tf.debugging.assert_rank_at_least(tf.zeros([2, 3]), 1)

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_rank_at_least
    """
    return _assert_rank(x, rank, message, " at least", lambda rank, expected: rank >= expected)


def _assert_rank(x: Any, rank: Any, message: Any, qualifier: str, matches: Callable[[int, int], bool]) -> Any:
    """Checks a tensor's rank, and returns an op without effect, as TensorFlow does if the rank is known while tracing.

    Args:
      x: the tensor, or a value that converts to one.
      rank: the expected rank.
      message: the beginning of the error's text, or None.
      qualifier: text before the expected rank in the error, such as " at least".
      matches: ``matches(x.ndim, rank)`` is whether the rank is right.

    Raises:
      ValueError: the rank is wrong.
    """
    x, expected = convert_to_tensor(x), _known_rank(rank)
    if not matches(x.ndim, expected):
        raise ValueError(
            f"{prefix(message)}Tensor {called(x, '')} must have rank{qualifier} {expected}.  Received rank {x.ndim}, "
            f"shape {x.shape}"
        )
    return done("NoOp", "static_checks_determined_all_ok")


def _known_rank(rank: Any) -> int:
    """Converts the expected rank of an assertion to an int. The rank must be an int32 scalar known while tracing."""
    rank = convert_to_tensor(rank)
    assert_type(rank, dtypes.int32)
    known = static_value(rank)
    if known is None:
        raise NotImplementedError(f"the rank to be had must be known while tracing, but got {rank}")
    if known.ndim:
        raise ValueError("Rank must be a scalar.")
    return int(known)


@export("debugging.assert_rank_in")
def assert_rank_in(x: Any, ranks: Sequence[Any], message: Any = None, name: str | None = None) -> Any:
    """Raises an error unless ``x`` has one of the given ranks. Same as ``assert_rank`` in other respects.

    >>> import tvtf as tf
    >>> tf.debugging.assert_rank_in(tf.zeros([2, 3]), [1, 2])

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_rank_in
    """
    x, expected = convert_to_tensor(x), tuple(map(_known_rank, ranks))
    if x.ndim not in expected:
        raise ValueError(
            f"{prefix(message)}Tensor {called(x, '')} must have rank in {expected}.  Received rank {x.ndim}, "
            f"shape {x.shape}"
        )
    return done("NoOp", "static_checks_determined_all_ok")


@export("debugging.assert_scalar")
def assert_scalar(tensor: Any, message: Any = None, name: str | None = None) -> None:
    """Raises an error unless ``tensor`` is a scalar.

    Raises:
      ValueError: the rank of ``tensor`` is not 0.

    >>> import tvtf as tf
    >>> tf.debugging.assert_scalar(tf.constant(1.))

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_scalar
    """
    x = convert_to_tensor(tensor)
    if x.ndim:
        for_tensor = f" for {called(x, '')}" if state.trace is not None else ""  # eager tensors have no name
        raise ValueError(f"{prefix(message)}Expected scalar shape{for_tensor}, saw shape: {x.shape}.")


# -- shapes


class _Constraint(NamedTuple):
    """A tensor of ``assert_shapes`` and the symbols of its dims, or of its innermost dims if ``innermost`` is True.

    A symbol is a size, a name, or None or "." for any size. A scalar counts as a vector of one.
    """

    tensor: Tensor
    symbols: tuple[Any, ...]
    innermost: bool

    @property
    def dims(self) -> tuple[Dim, ...]:
        return self.tensor._type.shape or (1,)

    def constrained_axes(self) -> list[tuple[int, Any]]:
        """Returns each axis whose size matters, with its symbol."""
        first = -len(self.symbols) if self.innermost else 0
        return [(first + i, symbol) for i, symbol in enumerate(self.symbols) if symbol not in (None, ".")]

    def name(self) -> str:
        return called(self.tensor, shape_and_dtype(self.tensor))


@export("debugging.assert_shapes")
def assert_shapes(
    shapes: Any, data: Any = None, summarize: int | None = None, message: Any = None, name: str | None = None
) -> None:
    """Raises an error unless tensors have the given shapes, in which equal names stand for equal sizes.

    Args:
      shapes: pairs of a tensor and its shape, an iterable of sizes, names, and None or "." for any size; where the first
        is ``...`` or "*", the shape is that of the innermost dims.
      data, summarize: what to show of a tensor whose size only the running program knows, and how many elements.
      message: begins the error's text.

    Raises:
      ValueError: a rank or a size that is known while tracing differs.
      InvalidArgumentError: a size differs when the program runs.

    >>> import tvtf as tf
    >>> tf.debugging.assert_shapes([(tf.zeros([4, 3]), ("N", 3)), (tf.zeros([4]), ("N",))])

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_shapes
    """
    pairs = shapes.items() if isinstance(shapes, dict) else shapes
    constraints = [_constraint(convert_to_tensor(x), shape, message) for x, shape in pairs if shape is not None]
    for constraint in constraints:
        _check_rank(constraint, message)
    known_sizes: dict[Any, tuple[Any, str]] = {}
    for constraint in constraints:
        for axis, symbol in constraint.constrained_axes():
            _check_size(constraint, axis, symbol, known_sizes, _ErrorFormat(message, data, summarize))


def _constraint(x: Tensor, shape: Any, message: Any) -> _Constraint:
    """Parses the shape that ``assert_shapes`` demands of the tensor ``x``.

    A first entry ``...`` or "*" matches any leading dims. ``message`` begins the errors.
    """
    if not hasattr(shape, "__iter__"):
        raise ValueError(
            f"{prefix(message)}Tensor {called(x, shape_and_dtype(x))}.  Specified shape must be an iterable.  "
            f"An iterable has the attribute `__iter__` or `__getitem__`.  Received specified shape: {shape}"
        )
    symbols = tuple(shape)
    for i, symbol in enumerate(symbols[1:], 1):
        if symbol in (..., "*"):
            raise ValueError(
                f"{prefix(message)}Tensor {called(x, shape_and_dtype(x))} specified shape index {i}.  Symbol `...` or "
                "`*` for a variable number of unspecified dimensions is only allowed as the first entry"
            )
    innermost = bool(symbols) and symbols[0] in (..., "*")
    sizes = symbols[1:] if innermost else symbols
    # A scalar counts as a vector of one. For ``...`` alone TensorFlow demands a last dim of one, too.
    return _Constraint(x, sizes or (1,), innermost)


def _check_rank(constraint: _Constraint, message: Any) -> None:
    """Checks that a tensor has as many axes as its specified shape has entries.

    If the specified shape begins with ``...``, the tensor may have more axes.
    """
    rank = len(constraint.symbols)
    if constraint.innermost:
        if rank > 1:
            assert_rank_at_least(constraint.tensor, rank, message)
    elif rank == 1:
        assert_rank_in(constraint.tensor, [0, 1], message)  # a scalar counts as a vector of one
    else:
        assert_rank(constraint.tensor, rank, message)


class _ErrorFormat(NamedTuple):
    """What a caller of ``assert_shapes`` wants errors to show."""

    message: Any
    data: Any
    summarize: int | None


def _check_size(
    constraint: _Constraint, axis: int, symbol: Any, known_sizes: dict[Any, Any], error_format: _ErrorFormat
) -> None:
    """Checks the size of an axis against a symbol of the specified shape.

    Args:
      constraint: a tensor and the shape that is specified for it.
      axis: the axis of the tensor.
      symbol: a number, or a name: all axes with the same name must have the same size.
      known_sizes: maps each name that occurred before to its size, and to text about the origin of that size. A new
        name is added.
      error_format: how to write the error.
    """
    size = constraint.dims[axis]
    if _is_size(symbol):
        _require_size(constraint, axis, int(symbol), "Specified explicitly", error_format)
    elif symbol in known_sizes:
        expected, origin = known_sizes[symbol]
        _require_size(constraint, axis, expected, origin, error_format)
    else:
        known_sizes[symbol] = size, f"Specified by tensor {constraint.name()} dimension {axis}"


def _is_size(symbol: Any) -> bool:
    """Returns whether a symbol of a shape is a size that converts to an int, rather than a name."""
    try:
        int(symbol)
    except (TypeError, ValueError):
        return False
    return True


def _require_size(constraint: _Constraint, axis: int, expected: Dim, origin: str, error_format: _ErrorFormat) -> None:
    """Checks that an axis has the expected size: at once if both sizes are known, else when the program runs.

    Args:
      constraint: a tensor and the symbols of its dims.
      axis: the axis of the tensor.
      expected: the size that the axis must have.
      origin: the part of the error's text that describes where the expected size comes from.
      error_format: the other parts of the error's text.
    """
    size = constraint.dims[axis]
    if isinstance(size, int) and isinstance(expected, int):
        if size != expected:
            raise ValueError(
                f"{prefix(error_format.message)}{origin}.  Tensor {constraint.name()} dimension {axis} must have size "
                f"{expected}.  Received size {size}, shape {constraint.tensor.shape}"
            )
        return
    size_tensor = convert_to_tensor(size) if isinstance(size, int) else _scalar_of(size)
    expected_tensor = convert_to_tensor(expected) if isinstance(expected, int) else _scalar_of(expected)
    tensor_name = f"Tensor {constraint.name()} dimension"
    message = [prefix(error_format.message), origin, tensor_name, axis, "must have size", expected_tensor]
    assert_data = [*message, "Received shape: ", bind.shape(constraint.tensor, dtype=dtypes.int32)]
    is_expected = bind.equal(size_tensor, expected_tensor)
    guarded(is_expected, error_format.data or assert_data, error_format.summarize)


def _scalar_of(dim: Dim) -> Tensor:
    return bind.cast(scalar_of(dim), dtype=dtypes.int32)


# -- dtypes


@export("debugging.assert_type")
def assert_type(tensor: Any, tf_type: Any, message: Any = None, name: str | None = None) -> None:
    """Raises an error unless ``tensor`` has the given dtype.

    Raises:
      TypeError: the dtype of ``tensor`` is wrong.

    >>> import tvtf as tf
    >>> tf.debugging.assert_type(tf.constant(1.), tf.float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_type
    """
    x: Any = tensor if isinstance(tensor, CompositeTensor) else convert_to_tensor(tensor)
    expected = as_dtype(tf_type)
    if x.dtype is not expected:
        name = "tensor" if isinstance(x, CompositeTensor) else called(x, "tensor")
        raise TypeError(f"{prefix(message)}{name} must be of type {expected!r}; got {x.dtype!r}")


@export("debugging.assert_integer")
def assert_integer(x: Any, message: Any = None, name: str | None = None) -> None:
    """Raises an error unless ``x`` has an integer dtype.

    Raises:
      TypeError: the dtype of ``x`` is wrong.

    >>> import tvtf as tf
    >>> tf.debugging.assert_integer(tf.constant(1))

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_integer
    """
    x = convert_to_tensor(x)
    if not x.dtype.is_integer:
        raise TypeError(
            f'{prefix(message)}Expected "x" to be integer type.  Found: {called(x, "tensor")} of dtype {x.dtype}'
        )


@export("debugging.assert_same_float_dtype")
def assert_same_float_dtype(tensors: Iterable[Any] | None = None, dtype: DType | None = None) -> DType:
    """Checks that all tensors have the same floating dtype, ``dtype`` if given, and returns the dtype.

    Without tensors, returns float32.

    Raises:
      ValueError: the dtypes differ, or are not floating.

    >>> import tvtf as tf
    >>> tf.debugging.assert_same_float_dtype([tf.constant(1.), tf.constant([2.])])
    tf.float32

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_same_float_dtype
    """
    present = [x for x in tensors or () if x is not None]
    expected = dtype
    for x in present:
        dtype = dtype or x.dtype
        if x.dtype is not dtype:
            # Only here, as printing an object may take long or fail.
            reference = "" if expected or x is present[0] else f" as {_described(present[0])}"
            raise ValueError(f"{_described(x)}, type={x.dtype}, must be of the same type ({dtype}){reference}.")
    dtype = dtype or dtypes.float32
    if not dtype.is_floating:
        raise ValueError(f"Expected floating point type, got {dtype}.")
    return dtype


def _described(x: Any) -> str:
    return called(x, "") or str(x)


@export("debugging.is_numeric_tensor")
def is_numeric_tensor(tensor: Any) -> bool:
    """Returns whether ``tensor`` is a tensor of numbers.

    >>> import tvtf as tf
    >>> tf.debugging.is_numeric_tensor(tf.constant(1)), tf.debugging.is_numeric_tensor(tf.constant("a"))
    (True, False)

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/is_numeric_tensor
    """
    return isinstance(tensor, Tensor) and tensor.dtype.is_numeric


@export("debugging.assert_proper_iterable")
def assert_proper_iterable(values: Any) -> None:
    """Raises an error unless ``values`` is an iterable other than a tensor, an array or a string.

    Raises:
      TypeError: ``values`` is a tensor, an array or a string, or is not iterable.

    >>> import tvtf as tf
    >>> tf.debugging.assert_proper_iterable([1, 2])

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_proper_iterable
    """
    if isinstance(values, (Tensor, np.ndarray, bytes, str)):
        raise TypeError(f'Expected argument "values" to be a "proper" iterable.  Found: {type(values)}')
    if not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values)}')
