"""Ops along axes that the program computes: the axis is moved to the front by a transposition computed at run time.

The transposition gathers elements by their flat index, from sizes that are computed, too. The results have unknown
dims, as in TensorFlow.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import add_handler, hooks
from tvtf.core.shape import agree_dim, brackets
from tvtf.core.specialization import UnknownRank, unknown_size
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.text_format import HOLE
from tvtf.dtypes import int16, int32, int64
from tvtf.ops.array import reshape
from tvtf.ops.create import arange
from tvtf.ops.getitem import scalars_of
from tvtf.ops.rules import bind, is_computed, not_among


def _as_int32(x: Any) -> Tensor:
    return convert_to_tensor(np.asarray(x, np.int32)) if not isinstance(x, Tensor) else bind.cast(x, dtype=int32)


def permuted(x: Tensor, perm: Tensor) -> Tensor:
    """Transposes ``x`` by a permutation of axes that is computed at run time.

    The elements are gathered from the flattened ``x`` by their row-major indices.
    """
    rank = x.ndim
    dims = bind.shape(x, dtype=int32)
    sizes = [bind.gather(dims, perm[i], axis=0, batch_dims=0) for i in range(rank)]  # type: ignore[index]
    strides = bind.cumprod(dims, axis=0, exclusive=True, reverse=True)
    flat_indices: Any = _as_int32(0)
    for axis, size in enumerate(sizes):
        stride = bind.gather(strides, perm[axis], axis=0, batch_dims=0)  # type: ignore[index]
        # The index along this axis of the result, which broadcasts with the other axes.
        index_shape = [1] * rank
        index_shape[axis] = -1
        index = reshape(arange(size), index_shape)
        flat_indices = bind.add(flat_indices, bind.multiply(index, stride))
    return bind.gather(reshape(x, [-1]), flat_indices, axis=0, batch_dims=0)


def _canonical_axis(axis: Any, rank: int) -> Tensor:
    """Converts axes that are computed at run time to a non-negative int32 tensor.

    The traced program checks that the axes are in range.
    """
    index = _as_int32(axis)
    is_valid = bind.logical_and(bind.less_equal(_as_int32(-rank), index), bind.less(index, _as_int32(rank)))
    all_valid = bind.reduce_all(is_valid, axis=tuple(range(is_valid.ndim)), keepdims=False)
    message = f"Expected axis in the range [{-rank}, {rank}), but got {HOLE}"
    bind.guard(all_valid, index, message=message, shown=1)  # the index fills the placeholder
    is_negative = bind.less(index, _as_int32(0))
    return bind.select(is_negative, bind.add(index, _as_int32(rank)), index)


def to_front(x: Tensor, axis: Tensor, count: int = 1) -> Tensor:
    """Moves ``count`` axes, beginning with ``axis``, to the front. ``axis`` is computed at run time."""
    position = _as_int32(np.arange(x.ndim))
    end = bind.add(axis, _as_int32(count))
    others = bind.select(bind.less(position, end), bind.subtract(position, _as_int32(count)), position)
    return permuted(x, bind.select(bind.less(position, _as_int32(count)), bind.add(axis, position), others))


def from_front(x: Tensor, axis: Tensor, count: int = 1) -> Tensor:
    """Moves the first ``count`` axes to ``axis``: the inverse of ``to_front``."""
    position = _as_int32(np.arange(x.ndim))
    end = bind.add(axis, _as_int32(count))
    moved = bind.select(bind.less(position, end), bind.subtract(position, axis), position)
    return permuted(x, bind.select(bind.less(position, axis), bind.add(position, _as_int32(count)), moved))


def _same_shape(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> Tensor:
    """Applies a function that keeps the shape, such as cumsum, along an axis computed at run time."""
    canonical = _canonical_axis(axis, x.ndim)
    return from_front(function(to_front(x, canonical), **arguments, axis=0), canonical)


def _axis_removed(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> Tensor:
    """Applies a function that removes its axis, such as argmax, along an axis computed at run time."""
    return function(to_front(x, _canonical_axis(axis, x.ndim)), **arguments, axis=0)  # type: ignore[no-any-return]


def _several_axes(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> Tensor:
    """Applies reverse or roll along axes that are computed at run time, one axis after the other.

    Args:
      function: ``reverse`` or ``roll``.
      x: the tensor.
      axis: a scalar or a vector of axes.
      arguments: the function's other arguments; for roll, ``shift`` has a shift for each axis.
    """
    shifts = scalars_of(arguments.pop("shift", ()))
    scalar_axes = [axis]
    if axis.ndim:
        scalar_axes = [axis[i] for i in range(_count(axis))]
    if shifts and len(shifts) != len(scalar_axes):
        raise ArgumentError("shift and axis must have the same size")

    def reverse_axis(x: Tensor, axis: Any) -> Tensor:
        return function(x, axis=[axis])  # type: ignore[no-any-return]

    for i, scalar_axis in enumerate(scalar_axes):
        along_axis = functools.partial(function, shift=shifts[i]) if shifts else reverse_axis
        x = _same_shape(along_axis, x, scalar_axis, arguments)
    return x


def _reduced(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> Tensor:
    """Reduces ``x`` along axes that are computed at run time, by a transpose that moves these axes to the end.

    The number of axes is known while tracing. So the reduction after the transpose has static axes.
    """
    rank = x.ndim
    keepdims = bool(arguments.pop("keepdims", False))
    axes = reshape(_canonical_axis(axis, rank), [-1])
    count = _count(axes)
    position = _as_int32(np.arange(rank))
    is_named = bind.equal(reshape(position, [rank, 1]), reshape(axes, [1, count]))
    is_reduced = bind.reduce_any(is_named, axis=(1,), keepdims=False)
    reduced_count = bind.reduce_sum(bind.cast(is_reduced, dtype=int32), axis=(0,), keepdims=False)
    is_unique = bind.equal(reduced_count, _as_int32(count))
    bind.guard(is_unique, message="Invalid reduction arguments: Axes contains duplicate dimension")
    # Sort the axes with the reduced ones last.
    sort_key = bind.add(position, bind.multiply(_as_int32(rank), bind.cast(is_reduced, dtype=int32)))
    perm = bind.cast(_sorting_indices(sort_key), dtype=int32)
    result: Tensor = function(permuted(x, perm), axis=list(range(rank - count, rank)), **arguments)
    if not keepdims:
        return result
    kept_dims = bind.select(is_reduced, _as_int32(1), bind.shape(x, dtype=int32))
    return reshape(result, kept_dims)


def _sorting_indices(keys: Tensor) -> Tensor:
    """Returns the indices that sort a vector of distinct keys.

    The rank of a key is the number of smaller keys. For example, the keys ``[5, 3]`` have the ranks ``[1, 0]``.
    """
    n = keys.ndim and _count(keys)  # the number of keys
    is_smaller = bind.less(reshape(keys, [1, n]), reshape(keys, [n, 1]))
    rank = bind.reduce_sum(bind.cast(is_smaller, dtype=int32), axis=(1,), keepdims=False)
    # Row r of the matrix is True at the key of rank r, whose index is the result's element r.
    indices = _as_int32(np.arange(n))
    is_at_rank = bind.equal(reshape(rank, [1, n]), reshape(indices, [n, 1]))
    index_at_rank = bind.multiply(bind.cast(is_at_rank, dtype=int32), reshape(indices, [1, n]))
    return bind.reduce_sum(index_at_rank, axis=(1,), keepdims=False)


def _count(x: Tensor) -> int:
    """Returns the number of axes in a vector of axes. Raises an error unless it is known while tracing."""
    (count,) = x._type.shape
    if not isinstance(count, int):
        message = f"how many axes there are must be known while tracing, but axis is {x!r}"
        raise unknown_size(ArgumentError(message, TypeError))
    return count


def _concatenated(function: Callable[..., Any], values: Sequence[Any], axis: Any, arguments: dict[str, Any]) -> Tensor:
    """Concatenates along an axis computed at run time."""
    tensors = [convert_to_tensor(value) for value in values]
    canonical = _canonical_axis(axis, tensors[0].ndim)
    return from_front(function([to_front(x, canonical) for x in tensors], axis=0), canonical)


def _gathered(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> Tensor:
    """Gathers along an axis computed at run time, which the axes of the indices replace."""
    canonical = _canonical_axis(axis, x.ndim)
    indices = convert_to_tensor(arguments["indices"])
    result: Tensor = function(to_front(x, canonical), indices, axis=0)
    return from_front(result, canonical, indices.ndim) if indices.ndim != 1 else from_front(result, canonical)


def _split(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> list[Tensor]:
    canonical = _canonical_axis(axis, x.ndim)
    return [from_front(part, canonical) for part in function(to_front(x, canonical), **arguments, axis=0)]


def _expanded(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> Tensor:
    return from_front(function(x, axis=0), _canonical_axis(axis, x.ndim + 1))


def _transposed(function: Callable[..., Any], x: Tensor, perm: Any, arguments: dict[str, Any]) -> Tensor:
    """Transposes ``x`` by a permutation that is computed at run time, after the checks of ``tf.transpose``.

    Args:
      function: the op; not used, like ``arguments``.
      x: the tensor.
      perm: the permutation.
      arguments: the other arguments.
    """
    rank = x.ndim
    if perm.ndim != 1:
        raise ArgumentError(f"perm must be rank 1, got shape {brackets(perm.shape)}", ValueError).for_op("Transpose")
    if not agree_dim(perm._type.shape[0], rank):
        message = f"transpose expects a vector of size {rank}. But input(1) is a vector of size {perm.shape[0]}"
        raise ArgumentError(message, ValueError).for_op("Transpose")
    axes = _canonical_axis(perm, rank)
    position = _as_int32(np.arange(rank))
    is_entry = bind.equal(reshape(axes, [1, rank]), reshape(position, [rank, 1]))
    is_present = bind.reduce_any(is_entry, axis=(1,), keepdims=False)  # one bool for each axis
    all_present = bind.reduce_all(is_present, axis=(0,), keepdims=False)
    bind.guard(all_present, message="perm is not a permutation: an axis is missing")
    return permuted(x, axes)


_INTEGERS = (int32, int64, int16)


def _with_computed_axis(name: str, implementation: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the handler of a function's calls in which the program computes the axis, the argument ``name``.

    It calls ``implementation(function, x, axis, arguments)``, where ``x`` is the function's first argument.
    """

    def handle(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls the implementation if the axis is computed at run time, else returns NotImplemented.

        If the rank of the axis or of the first argument is unknown, the call is deferred until it is known.
        """
        arguments = dict(_signature(function).bind(*args, **kwargs).arguments)
        first_name, *_ = arguments
        x = arguments.pop(first_name)
        axis = arguments.pop(name, None)
        if _may_be_computed(axis):
            axis = convert_to_tensor(axis)
        if not is_computed(axis):
            return NotImplemented
        if axis.dtype not in _INTEGERS:
            op = getattr(function, "tf_name", function.__name__)
            raise not_among(axis.dtype, _INTEGERS, "Tidx", name).for_op(op)
        if isinstance(axis._type.shape, AnyShape):
            return _defer_until_rank_known(handle, function, args, kwargs)
        arguments.pop("name", None)
        if implementation is _concatenated:  # its first argument is a list of tensors
            return implementation(function, x, axis, arguments)
        x = convert_to_tensor(x)
        if isinstance(x._type.shape, AnyShape):
            return _defer_until_rank_known(handle, function, args, kwargs)
        return implementation(function, x, axis, arguments)

    return handle


_signature = functools.cache(inspect.signature)
"""The signature of a public function, which takes 30 us to read: as long as tracing a short function takes otherwise."""


def _defer_until_rank_known(handle: Callable[..., Any], function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Defers a call of ``function`` until the ranks of its tensors are known.

    An axis that the program computes can be resolved only against a known rank. ``handle`` is then called with the same
    arguments, and ``function`` itself if ``handle`` returns NotImplemented.
    """

    def call_with_known_ranks(*args: Any, **kwargs: Any) -> Any:
        result = handle(function, *args, **kwargs)
        return function(*args, **kwargs) if result is NotImplemented else result

    return hooks.defer_call(call_with_known_ranks, args, kwargs, UnknownRank("the rank of a tensor"))


def _may_be_computed(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(is_computed, value))
    return is_computed(value) or hasattr(value, "_as_tensor")


_REDUCTIONS = (
    *("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_any", "reduce_all"),
    *(
        "reduce_logsumexp",
        "math.reduce_std",
        "math.reduce_variance",
        "math.reduce_euclidean_norm",
        "math.count_nonzero",
    ),
)
_HANDLERS: dict[Callable[..., Any], tuple[str, ...]] = {
    _reduced: _REDUCTIONS,
    _axis_removed: ("argmax", "argmin"),
    _same_shape: ("cumsum", "math.cumprod", "math.cumulative_logsumexp"),
    _several_axes: ("reverse", "roll"),
    _concatenated: ("concat",),
    _gathered: ("gather",),
    _split: ("split",),
    _expanded: ("expand_dims",),
}
for _handler, _names in _HANDLERS.items():
    for _name in _names:
        add_handler(_name, _may_be_computed, _with_computed_axis("axis", _handler))
add_handler("transpose", _may_be_computed, _with_computed_axis("perm", _transposed))
