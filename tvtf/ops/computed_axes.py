"""Axes that the program computes: an axis is brought to where it is known, by a transposition that only running tells.

Such a transposition takes elements by their place in memory; its sizes are computed, too. What comes back has unknown dims,
as in TensorFlow.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.deferred_shape import AnyShape, UnknownRank, until_told
from tvtf.core.primitive import Primitive, add_handler, hooks
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.text_format import HOLE
from tvtf.dtypes import int16, int32, int64
from tvtf.ops.array import reshape
from tvtf.ops.create import arange
from tvtf.ops.getitem import scalars_of
from tvtf.ops.rules import bind, is_computed, not_among


def _told(x: Any) -> Tensor:
    return convert_to_tensor(np.asarray(x, np.int32)) if not isinstance(x, Tensor) else bind.cast(x, dtype=int32)


def permuted(x: Tensor, perm: Tensor) -> Tensor:
    """``x`` with its axes in the order of ``perm``, integers from 0 on."""
    count = x.ndim
    dims = bind.shape(x, dtype=int32)
    sizes = [bind.gather(dims, perm[i], axis=0, batch_dims=0) for i in range(count)]  # type: ignore[index]
    steps = bind.cumprod(dims, axis=0, exclusive=True, reverse=True)
    places: Any = _told(0)
    for i, size in enumerate(sizes):
        step = bind.gather(steps, perm[i], axis=0, batch_dims=0)  # type: ignore[index]
        along = reshape(arange(size), [-1 if j == i else 1 for j in range(count)])
        places = bind.add(places, bind.multiply(along, step))
    return bind.gather(reshape(x, [-1]), places, axis=0, batch_dims=0)


def _axis(axis: Any, rank: int) -> Tensor:
    """The axis as an int32 scalar from 0 on; it fails where there is none such."""
    given = _told(axis)
    ok = bind.logical_and(bind.less_equal(_told(-rank), given), bind.less(given, _told(rank)))
    bind.guard(
        bind.reduce_all(ok, axis=tuple(range(ok.ndim)), keepdims=False),
        given,
        message=f"Expected axis in the range [{-rank}, {rank}), but got {HOLE}",
        shown=1,
    )
    return bind.select(bind.less(given, _told(0)), bind.add(given, _told(rank)), given)


def to_front(x: Tensor, axis: Tensor, count: int = 1) -> Tensor:
    """``x`` with ``count`` axes from ``axis`` on before the others."""
    p = _told(np.arange(x.ndim))
    before = bind.select(bind.less(p, bind.add(axis, _told(count))), bind.subtract(p, _told(count)), p)
    return permuted(x, bind.select(bind.less(p, _told(count)), bind.add(axis, p), before))


def from_front(x: Tensor, axis: Tensor, count: int = 1) -> Tensor:
    """``x`` with its first ``count`` axes put at ``axis``: what ``to_front`` undoes."""
    p = _told(np.arange(x.ndim))
    within = bind.select(bind.less(p, bind.add(axis, _told(count))), bind.subtract(p, axis), p)
    return permuted(x, bind.select(bind.less(p, axis), bind.add(p, _told(count)), within))


def _moved(function: Callable[..., Any], x: Tensor, axis: Any, given: dict[str, Any]) -> Tensor:
    """A function that keeps the shape, along the first axis."""
    place = _axis(axis, x.ndim)
    return from_front(function(to_front(x, place), **given, axis=0), place)


def _found(function: Callable[..., Any], x: Tensor, axis: Any, given: dict[str, Any]) -> Tensor:
    """A function that takes one axis away."""
    return function(to_front(x, _axis(axis, x.ndim)), **given, axis=0)  # type: ignore[no-any-return]


def _one_by_one(function: Callable[..., Any], x: Tensor, axis: Any, given: dict[str, Any]) -> Tensor:
    """A function along several axes, one after the other."""
    shifts = scalars_of(given.pop("shift", ()))
    places = [axis[i] for i in range(_count(axis))] if axis.ndim else [axis]
    for i, place in enumerate(places):
        x = _moved(
            lambda x, axis, i=i: function(x, *shifts[i : i + 1], axis=[axis] if not len(shifts) else axis),
            x,
            place,
            given,
        )
    return x


def _reduced(function: Callable[..., Any], x: Tensor, axis: Any, given: dict[str, Any]) -> Tensor:
    """The axes to reduce come last."""
    rank, keepdims = x.ndim, bool(given.pop("keepdims", False))
    places = reshape(_axis(axis, rank), [-1])
    count = _count(places)
    p = _told(np.arange(rank))
    hit = bind.reduce_any(bind.equal(reshape(p, [rank, 1]), reshape(places, [1, count])), axis=(1,), keepdims=False)
    once = bind.equal(bind.reduce_sum(bind.cast(hit, dtype=int32), axis=(0,), keepdims=False), _told(count))
    bind.guard(once, message="Invalid reduction arguments: Axes contains duplicate dimension")
    order = bind.add(p, bind.multiply(_told(rank), bind.cast(hit, dtype=int32)))
    perm = bind.cast(_places_in_order(order), dtype=int32)
    found: Tensor = function(permuted(x, perm), axis=list(range(rank - count, rank)), **given)
    return reshape(found, bind.select(hit, _told(1), bind.shape(x, dtype=int32))) if keepdims else found


def _places_in_order(keys: Tensor) -> Tensor:
    """Which element comes where, for different keys."""
    n = keys.ndim and _count(keys)
    smaller = bind.less(reshape(keys, [1, n]), reshape(keys, [n, 1]))
    rank = bind.reduce_sum(bind.cast(smaller, dtype=int32), axis=(1,), keepdims=False)
    here = bind.equal(reshape(rank, [1, n]), reshape(_told(np.arange(n)), [n, 1]))
    return bind.reduce_sum(
        bind.multiply(bind.cast(here, dtype=int32), reshape(_told(np.arange(n)), [1, n])), axis=(1,), keepdims=False
    )


def _count(x: Tensor) -> int:
    (count,) = x._type.shape
    if not isinstance(count, int):
        raise until_told(
            ArgumentError(f"how many axes there are must be known while tracing, but axis is {x!r}", TypeError)
        )
    return count


def _joined(function: Callable[..., Any], values: Sequence[Any], axis: Any, given: dict[str, Any]) -> Tensor:
    tensors = [convert_to_tensor(v) for v in values]
    place = _axis(axis, tensors[0].ndim)
    return from_front(function([to_front(x, place) for x in tensors], axis=0), place)


def _taken(function: Callable[..., Any], x: Tensor, axis: Any, given: dict[str, Any]) -> Tensor:
    place = _axis(axis, x.ndim)
    indices = convert_to_tensor(given["indices"])
    found: Tensor = function(to_front(x, place), indices, axis=0)
    return from_front(found, place, indices.ndim) if indices.ndim != 1 else from_front(found, place)


def _cut(function: Callable[..., Any], x: Tensor, axis: Any, given: dict[str, Any]) -> list[Tensor]:
    place = _axis(axis, x.ndim)
    return [from_front(part, place) for part in function(to_front(x, place), **given, axis=0)]


def _wider(function: Callable[..., Any], x: Tensor, axis: Any, given: dict[str, Any]) -> Tensor:
    return from_front(function(x, axis=0), _axis(axis, x.ndim + 1))


def _transposed(function: Callable[..., Any], x: Tensor, perm: Any, given: dict[str, Any]) -> Tensor:
    return permuted(x, _axis(perm, x.ndim))


_INTEGERS = (int32, int64, int16)


def _by_axis(name: str, handler: Callable[..., Any]) -> Callable[..., Any]:
    """What a function does where the program computes its argument ``name``; its first is the tensor."""

    def handle(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
        x, *_ = given.values()
        axis = given.pop(name, None)
        axis = axis._as_tensor() if hasattr(axis, "_as_tensor") else axis
        del given[next(iter(given))]
        if not is_computed(axis):
            return NotImplemented
        if axis.dtype not in _INTEGERS:
            told = getattr(function, "tf_name", function.__name__)
            raise not_among(axis.dtype, _INTEGERS, "Tidx", name).told_by(told)
        if isinstance(axis._type.shape, AnyShape):
            return _waiting(handle, function, args, kwargs)
        given.pop("name", None)
        if handler is _joined:
            return handler(function, x, axis, given)
        x = convert_to_tensor(x)
        if isinstance(x._type.shape, AnyShape):
            return _waiting(handle, function, args, kwargs)
        return handler(function, x, axis, given)

    return handle


def _waiting(handle: Callable[..., Any], function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Has ``handle`` be asked again when the ranks are known; of a primitive it is, by the primitive."""
    if isinstance(function, Primitive):
        return NotImplemented

    def again(*args: Any, **kwargs: Any) -> Any:
        found = handle(function, *args, **kwargs)
        return function(*args, **kwargs) if found is NotImplemented else found

    return hooks.defer_call(again, args, kwargs, UnknownRank("the rank of a tensor"))


def _may_be_computed(value: Any) -> bool:
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
    _found: ("argmax", "argmin"),
    _moved: ("cumsum", "math.cumprod", "math.cumulative_logsumexp"),
    _one_by_one: ("reverse", "roll"),
    _joined: ("concat",),
    _taken: ("gather",),
    _cut: ("split",),
    _wider: ("expand_dims",),
}
for _handler, _names in _HANDLERS.items():
    for _name in _names:
        add_handler(_name, _may_be_computed, _by_axis("axis", _handler))
add_handler("transpose", _may_be_computed, _by_axis("perm", _transposed))
