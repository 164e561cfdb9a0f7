"""Ops along axes that the program computes: the axis is moved to the front by a transposition computed at run time.

The transposition gathers elements by their flat index, from sizes that are computed, too. The results have unknown
dims, as in TensorFlow.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import add_handler, hooks
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
    """Transposes ``x`` by a computed permutation, by gathering elements at computed flat indices."""
    count = x.ndim
    dims = bind.shape(x, dtype=int32)
    sizes = [bind.gather(dims, perm[i], axis=0, batch_dims=0) for i in range(count)]  # type: ignore[index]
    steps = bind.cumprod(dims, axis=0, exclusive=True, reverse=True)
    places: Any = _as_int32(0)
    for i, size in enumerate(sizes):
        step = bind.gather(steps, perm[i], axis=0, batch_dims=0)  # type: ignore[index]
        along = reshape(arange(size), [-1 if j == i else 1 for j in range(count)])
        places = bind.add(places, bind.multiply(along, step))
    return bind.gather(reshape(x, [-1]), places, axis=0, batch_dims=0)


def _axis(axis: Any, rank: int) -> Tensor:
    """Returns a computed axis as a non-negative int32 tensor, with a check at run time that it is in range."""
    index = _as_int32(axis)
    ok = bind.logical_and(bind.less_equal(_as_int32(-rank), index), bind.less(index, _as_int32(rank)))
    bind.guard(
        bind.reduce_all(ok, axis=tuple(range(ok.ndim)), keepdims=False),
        index,
        message=f"Expected axis in the range [{-rank}, {rank}), but got {HOLE}",
        shown=1,
    )
    return bind.select(bind.less(index, _as_int32(0)), bind.add(index, _as_int32(rank)), index)


def to_front(x: Tensor, axis: Tensor, count: int = 1) -> Tensor:
    """Moves the ``count`` axes from ``axis`` on to the front."""
    p = _as_int32(np.arange(x.ndim))
    before = bind.select(bind.less(p, bind.add(axis, _as_int32(count))), bind.subtract(p, _as_int32(count)), p)
    return permuted(x, bind.select(bind.less(p, _as_int32(count)), bind.add(axis, p), before))


def from_front(x: Tensor, axis: Tensor, count: int = 1) -> Tensor:
    """Moves the first ``count`` axes to ``axis``: the inverse of ``to_front``."""
    p = _as_int32(np.arange(x.ndim))
    within = bind.select(bind.less(p, bind.add(axis, _as_int32(count))), bind.subtract(p, axis), p)
    return permuted(x, bind.select(bind.less(p, axis), bind.add(p, _as_int32(count)), within))


def _same_shape(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> Tensor:
    """Applies a function that keeps the shape along a computed axis."""
    place = _axis(axis, x.ndim)
    return from_front(function(to_front(x, place), **arguments, axis=0), place)


def _axis_removed(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> Tensor:
    """Applies a function that removes its axis, such as argmax, along a computed axis."""
    return function(to_front(x, _axis(axis, x.ndim)), **arguments, axis=0)  # type: ignore[no-any-return]


def _several_axes(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> Tensor:
    """Applies a function along several computed axes, one after the other."""
    shifts = scalars_of(arguments.pop("shift", ()))
    places = [axis[i] for i in range(_count(axis))] if axis.ndim else [axis]
    for i, place in enumerate(places):
        x = _same_shape(
            lambda x, axis, i=i: function(x, *shifts[i : i + 1], axis=[axis] if not len(shifts) else axis),
            x,
            place,
            arguments,
        )
    return x


def _reduced(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> Tensor:
    """Reduces along computed axes, after moving them to the end."""
    rank, keepdims = x.ndim, bool(arguments.pop("keepdims", False))
    places = reshape(_axis(axis, rank), [-1])
    count = _count(places)
    p = _as_int32(np.arange(rank))
    is_reduced = bind.reduce_any(
        bind.equal(reshape(p, [rank, 1]), reshape(places, [1, count])), axis=(1,), keepdims=False
    )
    is_unique = bind.equal(
        bind.reduce_sum(bind.cast(is_reduced, dtype=int32), axis=(0,), keepdims=False), _as_int32(count)
    )
    bind.guard(is_unique, message="Invalid reduction arguments: Axes contains duplicate dimension")
    order = bind.add(p, bind.multiply(_as_int32(rank), bind.cast(is_reduced, dtype=int32)))
    perm = bind.cast(_places_in_order(order), dtype=int32)
    result: Tensor = function(permuted(x, perm), axis=list(range(rank - count, rank)), **arguments)
    return reshape(result, bind.select(is_reduced, _as_int32(1), bind.shape(x, dtype=int32))) if keepdims else result


def _places_in_order(keys: Tensor) -> Tensor:
    """Returns the indices that sort distinct keys, by counting for each key the smaller ones."""
    n = keys.ndim and _count(keys)
    smaller = bind.less(reshape(keys, [1, n]), reshape(keys, [n, 1]))
    rank = bind.reduce_sum(bind.cast(smaller, dtype=int32), axis=(1,), keepdims=False)
    is_at_rank = bind.equal(reshape(rank, [1, n]), reshape(_as_int32(np.arange(n)), [n, 1]))
    return bind.reduce_sum(
        bind.multiply(bind.cast(is_at_rank, dtype=int32), reshape(_as_int32(np.arange(n)), [1, n])),
        axis=(1,),
        keepdims=False,
    )


def _count(x: Tensor) -> int:
    (count,) = x._type.shape
    if not isinstance(count, int):
        raise unknown_size(
            ArgumentError(f"how many axes there are must be known while tracing, but axis is {x!r}", TypeError)
        )
    return count


def _joined(function: Callable[..., Any], values: Sequence[Any], axis: Any, arguments: dict[str, Any]) -> Tensor:
    """Concatenates along a computed axis."""
    tensors = [convert_to_tensor(v) for v in values]
    place = _axis(axis, tensors[0].ndim)
    return from_front(function([to_front(x, place) for x in tensors], axis=0), place)


def _gathered(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> Tensor:
    """Gathers along a computed axis."""
    place = _axis(axis, x.ndim)
    indices = convert_to_tensor(arguments["indices"])
    result: Tensor = function(to_front(x, place), indices, axis=0)
    return from_front(result, place, indices.ndim) if indices.ndim != 1 else from_front(result, place)


def _split(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> list[Tensor]:
    place = _axis(axis, x.ndim)
    return [from_front(part, place) for part in function(to_front(x, place), **arguments, axis=0)]


def _expanded(function: Callable[..., Any], x: Tensor, axis: Any, arguments: dict[str, Any]) -> Tensor:
    return from_front(function(x, axis=0), _axis(axis, x.ndim + 1))


def _transposed(function: Callable[..., Any], x: Tensor, perm: Any, arguments: dict[str, Any]) -> Tensor:
    return permuted(x, _axis(perm, x.ndim))


_INTEGERS = (int32, int64, int16)


def _by_axis(name: str, handler: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a handler for calls whose argument ``name`` the program computes; the first argument is the tensor."""

    def handle(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls the handler if the axis is a tensor that is computed at run time; else returns NotImplemented."""
        arguments = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
        x, *_ = arguments.values()
        axis = arguments.pop(name, None)
        axis = convert_to_tensor(axis) if _may_be_computed(axis) else axis
        del arguments[next(iter(arguments))]
        if not is_computed(axis):
            return NotImplemented
        if axis.dtype not in _INTEGERS:
            op = getattr(function, "tf_name", function.__name__)
            raise not_among(axis.dtype, _INTEGERS, "Tidx", name).for_op(op)
        if isinstance(axis._type.shape, AnyShape):
            return _deferred(handle, function, args, kwargs)
        arguments.pop("name", None)
        if handler is _joined:
            return handler(function, x, axis, arguments)
        x = convert_to_tensor(x)
        if isinstance(x._type.shape, AnyShape):
            return _deferred(handle, function, args, kwargs)
        return handler(function, x, axis, arguments)

    return handle


def _deferred(handle: Callable[..., Any], function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Defers a call until ranks are known, when ``handle`` is called again."""

    def again(*args: Any, **kwargs: Any) -> Any:
        result = handle(function, *args, **kwargs)
        return function(*args, **kwargs) if result is NotImplemented else result

    return hooks.defer_call(again, args, kwargs, UnknownRank("the rank of a tensor"))


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
    _joined: ("concat",),
    _gathered: ("gather",),
    _split: ("split",),
    _expanded: ("expand_dims",),
}
for _handler, _names in _HANDLERS.items():
    for _name in _names:
        add_handler(_name, _may_be_computed, _by_axis("axis", _handler))
add_handler("transpose", _may_be_computed, _by_axis("perm", _transposed))
