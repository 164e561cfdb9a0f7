"""NumPy's functions that rearrange elements: reshape, stack, split, sort, take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf.arrays.convert import (
    array,
    broadcast,
    int_dtype,
    nonnegative_axis,
    numpy_like,
    range_as_list,
    tf,
    to_common_dtype,
    to_tensor,
)
from tvtf.arrays.create import concatenate
from tvtf.core.tensor import Tensor

A_MATRIX = "[[1, 2], [3, 4]]"


@numpy_like("reshape", shows="[1, 2, 3, 4], [2, 2], order='F'")
def reshape(a: Any, newshape: Any, order: str = "C") -> Tensor:
    if order not in ("C", "F"):
        raise ValueError(f"Unsupported order argument {order}")
    a, shape = to_tensor(a), [newshape] if isinstance(newshape, int) else newshape
    return tf.reshape(a, shape) if order == "C" else tf.transpose(tf.reshape(tf.transpose(a), shape[::-1]))


@numpy_like("ravel", shows=A_MATRIX)
def ravel(a: Any) -> Tensor:
    return tf.reshape(to_tensor(a), [-1])


@numpy_like("flatten")
def flatten(a: Any, order: str = "C") -> Tensor:
    """Returns all elements as a vector.

    >>> import tvtf as tf
    >>> tf.experimental.numpy.flatten([[1, 2], [3, 4]], order="F").numpy()
    array([1, 3, 2, 4])

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/flatten
    """
    if order not in ("C", "A", "K", "F"):
        raise ValueError("order can only be C, A, K (all row major) or F (column major).")
    a = to_tensor(a)
    return tf.reshape(tf.transpose(a) if order == "F" else a, [-1])


@numpy_like("expand_dims", shows="[1, 2], 0")
def expand_dims(a: Any, axis: Any) -> Tensor:
    return tf.expand_dims(to_tensor(a), axis)


@numpy_like("squeeze", shows="[[1, 2]]")
def squeeze(a: Any, axis: Any = None) -> Tensor:
    return tf.squeeze(to_tensor(a), axis)


@numpy_like("transpose", shows=A_MATRIX)
def transpose(a: Any, axes: Any = None) -> Tensor:
    return tf.transpose(to_tensor(a), axes)


@numpy_like("swapaxes", shows=f"{A_MATRIX}, 0, 1")
def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    a = to_tensor(a)
    order = list(range(a.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return tf.transpose(a, order)


@numpy_like("moveaxis", shows="np.ones([2, 3, 4]), 0, -1")
def moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    """Moves axes ``source`` of a tensor to the positions ``destination``; the other axes keep their order."""
    a = to_tensor(a)
    rank = a.ndim
    sources = [nonnegative_axis(axis, rank) for axis in tf.nest.flatten(range_as_list(source))]
    destinations = [nonnegative_axis(axis, rank) for axis in tf.nest.flatten(range_as_list(destination))]
    if len(sources) != len(destinations):
        raise ValueError("The lengths of source and destination must equal")
    perm = [axis for axis in range(rank) if axis not in sources]
    # In ascending order, each insertion leaves those before it in their places.
    for destination_axis, source_axis in sorted(zip(destinations, sources)):
        perm.insert(destination_axis, source_axis)
    return tf.transpose(a, perm)


@numpy_like("flip", shows=A_MATRIX)
def flip(m: Any, axis: int | None = None) -> Tensor:
    m = to_tensor(m)
    return tf.reverse(m, list(range(m.ndim)) if axis is None else [nonnegative_axis(axis, m.ndim)])


@numpy_like("flipud", shows=A_MATRIX)
def flipud(m: Any) -> Tensor:
    return flip(m, 0)


@numpy_like("fliplr", shows=A_MATRIX)
def fliplr(m: Any) -> Tensor:
    return flip(m, 1)


@numpy_like("rot90", shows=A_MATRIX)
def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Returns the tensor rotated ``k`` times by 90 degrees in the plane of two axes."""
    m = to_tensor(m)
    first, second = axes
    quarter_turns = k % 4
    if quarter_turns == 1:
        return swapaxes(flip(m, second), first, second)
    if quarter_turns == 2:
        return flip(flip(m, first), second)
    if quarter_turns == 3:
        return flip(swapaxes(m, first, second), second)
    return m


@numpy_like("roll", shows=f"{A_MATRIX}, 1")
def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    a = to_tensor(a)
    if axis is not None:
        return tf.roll(a, shift, axis)
    return tf.reshape(tf.roll(tf.reshape(a, [-1]), shift, 0), tf.shape(a))


@numpy_like("pad", shows="[1, 2], [[1, 1]], 'constant'")
def pad(array: Any, pad_width: Any, mode: str, **kwargs: Any) -> Tensor:
    if mode not in ("constant", "reflect", "symmetric"):
        raise ValueError(f"Unsupported padding mode: {mode}")
    return tf.pad(to_tensor(array), to_tensor(pad_width, tf.int32), mode.upper(), kwargs.get("constant_values", 0))


@numpy_like("tile", shows="[1, 2], [2, 2]")
def tile(a: Any, reps: Any) -> Tensor:
    a, reps = to_tensor(a), tf.reshape(to_tensor(reps, tf.int32), [-1])
    rank = max(a.ndim, reps.shape[0])
    shape = tf.concat([[1] * (rank - a.ndim), tf.shape(a)], 0)
    return tf.tile(tf.reshape(a, shape), tf.concat([[1] * (rank - reps.shape[0]), reps], 0))


@numpy_like("repeat", shows="[1, 2], 3")
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Tensor:
    return tf.repeat(to_tensor(a), to_tensor(repeats), axis)


@numpy_like("broadcast_arrays")
def broadcast_arrays(*args: Any, **kwargs: Any) -> list[Tensor]:
    """Broadcasts arrays to their common shape.

    >>> import tvtf as tf
    >>> [array.shape for array in tf.experimental.numpy.broadcast_arrays([[1], [2]], [3, 4, 5])]
    [TensorShape([2, 3]), TensorShape([2, 3])]

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/broadcast_arrays
    """
    if kwargs.pop("subok", False):
        raise ValueError("subok=True is not supported.")
    if kwargs:
        raise ValueError(f"Received unsupported arguments {kwargs.keys()}")
    return broadcast(*map(to_tensor, args))


def _make_at_least(name: str, reshaped: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """Creates NumPy's function ``name``, ``atleast_1d``, ``_2d`` or ``_3d``, which applies ``reshaped`` to its arguments.

    The function returns a tensor for one argument, and a list for several.
    """

    def arrays(*arys: Any) -> Any:
        results = [reshaped(to_tensor(each)) for each in arys]
        return results[0] if len(results) == 1 else results

    return numpy_like(name, shows="[1, 2]")(arrays)


def _to_3d(x: Tensor) -> Tensor:
    x = x[None] if x.ndim in (0, 1) else x
    return array(x, ndmin=2)[..., None] if x.ndim < 3 else x


atleast_1d = _make_at_least("atleast_1d", lambda x: array(x, ndmin=1))
atleast_2d = _make_at_least("atleast_2d", lambda x: array(x, ndmin=2))
atleast_3d = _make_at_least("atleast_3d", _to_3d)


@numpy_like("stack", shows="[[1, 2], [3, 4]], 1")
def stack(arrays: Any, axis: int = 0) -> Tensor:
    if isinstance(arrays, Tensor):
        return arrays if axis == 0 else swapaxes(arrays, 0, axis)
    return tf.stack(to_common_dtype(*arrays), axis)


@numpy_like("hstack", shows="[[1, 2], [3, 4]]")
def hstack(tup: Any) -> Tensor:
    arrays = to_common_dtype(*map(atleast_1d, tup))
    return tf.concat(arrays, 0 if arrays[0].ndim == 1 else 1)


@numpy_like("vstack", shows="[[1, 2], [3, 4]]")
def vstack(tup: Any) -> Tensor:
    return tf.concat(to_common_dtype(*map(atleast_2d, tup)), 0)


@numpy_like("dstack", shows="[[1, 2], [3, 4]]")
def dstack(tup: Any) -> Tensor:
    return tf.concat(to_common_dtype(*map(atleast_3d, tup)), 2)


@numpy_like("append", shows="[1, 2], [[3]]")
def append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    return concatenate([ravel(arr), ravel(values)], 0) if axis is None else concatenate([arr, values], axis)


def _part_sizes(ary: Tensor, boundaries: Sequence[int], axis: int) -> list[int]:
    """Converts the boundaries of NumPy's ``split`` to the sizes of the parts, which ``tf.split`` expects.

    For example, the boundaries 2 and 5 of an axis of size 6 give the sizes 2, 3, 1.
    """
    if axis >= ary.ndim:
        raise ValueError(f"axis {axis} is out of bound for shape {ary.shape}")
    total = ary.shape[axis]
    previous = 0
    sizes: list[int] = []
    for i, boundary in enumerate(boundaries):
        if boundary < previous:
            raise ValueError(f"The {i}-th boundary {boundary} is smaller than the previous boundary {previous}")
        # As in NumPy, parts beyond the end of the axis are empty.
        remaining = max(0, total - sum(sizes))
        sizes.append(min(boundary - previous, remaining))
        previous = boundary
    return [*sizes, max(0, total - sum(sizes))]


@numpy_like("split", shows="np.ones([4]), 2")
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    ary = to_tensor(ary)
    if not isinstance(indices_or_sections, int):
        indices_or_sections = _part_sizes(ary, indices_or_sections, axis)
    return tf.split(ary, indices_or_sections, axis)


def _make_split(axis: int) -> Callable[..., list[Tensor]]:
    """Creates NumPy's ``vsplit``, ``hsplit`` or ``dsplit``, which split a tensor along a fixed axis."""

    def parts(ary: Any, indices_or_sections: Any) -> list[Tensor]:
        """Splits an array along ``axis`` into equal sections, or at the given indices.

        Args:
          ary: the array.
          indices_or_sections: the number of sections, or the indices at which to split.
        """
        ary = to_tensor(ary)
        # NumPy's `hsplit` splits a vector along its only axis.
        split_axis = 0 if axis == 1 and ary.ndim == 1 else axis
        size = ary.shape[split_axis] or 0  # an unknown size, None, passes the check
        if isinstance(indices_or_sections, int) and size % indices_or_sections:
            raise ValueError("array split does not result in an equal division")
        return split(ary, indices_or_sections, split_axis)

    return parts


for _axis, _name in enumerate(("vsplit", "hsplit", "dsplit")):
    numpy_like(_name, shows="np.ones([2, 2, 2]), 2")(_make_split(_axis))


@numpy_like("compress", shows=f"[True, False], {A_MATRIX}, 0")
def compress(condition: Any, a: Any, axis: int | None = None) -> Tensor:
    """Returns the slices along an axis for which ``condition`` holds."""
    condition = to_tensor(condition, tf.bool)
    a = to_tensor(a)
    if condition.ndim != 1:
        raise ValueError("condition must be a 1-d array.")
    if axis is None or a.ndim == 0:
        a = ravel(a)
        axis = 0
    axis = nonnegative_axis(axis, a.ndim)
    # As in NumPy, elements beyond the condition's end don't count.
    missing = max(a.shape[axis] - condition.shape[0], 0)
    mask = tf.pad(condition, [[0, missing]], constant_values=False)
    return tf.boolean_mask(a, mask, axis)


@numpy_like("take", shows="[10, 20, 30], [2, 0]")
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "clip") -> Tensor:
    """Returns the elements at indices along an axis.

    Args:
      a: the tensor.
      indices: the indices, of any shape.
      axis: the axis; None for the flattened tensor.
      out: not supported.
      mode: whether indices out of bounds are clipped ("clip") or wrapped ("wrap").
    """
    if out is not None:
        raise ValueError("out argument is not supported in take.")
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"Invalid mode '{mode}' for take")
    if mode == "raise":
        raise ValueError("The 'raise' mode to take is not supported.")
    a = to_tensor(a)
    indices = to_tensor(indices)
    if axis is None:
        a = ravel(a)
        axis = 0
    size = tf.shape(a, indices.dtype)[axis]
    if mode == "clip":
        in_bounds = tf.clip_by_value(indices, 0, size - 1)
    else:
        in_bounds = tf.math.floormod(indices, size)
    return tf.gather(a, in_bounds, axis=axis)


def _with_dim(shape: Any, axis: int, size: Any) -> Any:
    """Returns a shape with the dim of an axis replaced."""
    return tf.concat([shape[:axis], [size], shape[axis + 1 :]], 0)


@numpy_like("take_along_axis", shows="np.array([[10, 20], [30, 40]]), np.array([[1], [0]]), 1")
def take_along_axis(arr: Any, indices: Any, axis: int | None) -> Tensor:
    """Gathers elements along one axis, by separate indices for each position along the other axes."""
    arr = to_tensor(arr)
    indices = to_tensor(indices)
    if axis is None:
        return take_along_axis(ravel(arr), indices, 0)
    axis = axis + arr.ndim if axis < 0 else axis
    arr_shape = tf.shape(arr)
    indices_shape = tf.shape(indices)
    # All axes but `axis` are broadcast.
    shape = tf.broadcast_dynamic_shape(_with_dim(arr_shape, axis, 1), _with_dim(indices_shape, axis, 1))
    arr = tf.broadcast_to(arr, _with_dim(shape, axis, arr_shape[axis]))
    indices = tf.broadcast_to(indices, _with_dim(shape, axis, indices_shape[axis]))
    rows = moveaxis(arr, axis, -1)
    index_rows = moveaxis(indices, axis, -1)
    size = tf.shape(rows, index_rows.dtype)[-1]
    nonnegative_indices = tf.where(index_rows < 0, index_rows + size, index_rows)  # negative ones count from the end
    selected = tf.gather(rows, nonnegative_indices, batch_dims=rows.ndim - 1)
    return moveaxis(selected, -1, axis)


def _check_sort_arguments(kinds: tuple[str, ...], kind: str, order: Any) -> None:
    """Raises ValueError for sort options that are not supported.

    ``kind`` is NumPy's name of the sorting algorithm, ``order`` the fields to compare in arrays of records.
    """
    if kind not in kinds:
        listed = " and ".join(f'kind="{supported}"' for supported in kinds)
        verb = "is" if len(kinds) == 1 else "are"
        raise ValueError(f"Invalid value for argument `kind`. Only {listed} {verb} supported. Received: kind={kind}")
    if order is not None:
        raise ValueError("The `order` argument is not supported. Pass order=None")


@numpy_like("sort", shows="[3, 1, 2]")
def sort(a: Any, axis: int | None = -1, kind: str = "quicksort", order: Any = None) -> Tensor:
    _check_sort_arguments(("quicksort",), kind, order)
    a = to_tensor(a)
    return tf.sort(tf.reshape(a, [-1]), 0) if axis is None else tf.sort(a, axis)


@numpy_like("argsort", shows="[3, 1, 2]")
def argsort(a: Any, axis: int | None = -1, kind: str = "quicksort", order: Any = None) -> Tensor:
    """Returns the indices that sort the tensor along an axis.

    Args:
      a: the tensor.
      axis: the axis; None for the flattened tensor.
      kind: "quicksort", or "stable" for an order in which equal elements keep their positions.
      order: not supported.
    """
    _check_sort_arguments(("quicksort", "stable"), kind, order)
    a = to_tensor(a)
    if a.dtype.is_complex:
        raise TypeError(f"argsort does not support complex64/complex128 dtypes. Received dtype: {a.dtype}")
    if a.ndim == 0:
        return tf.constant([0], int_dtype())
    if axis is None:
        a = tf.reshape(a, [-1])
        axis = 0
    indices = tf.argsort(a, axis, stable=kind == "stable")
    return tf.cast(indices, int_dtype())


def _make_arg_extreme(name: str, function: Callable[..., Tensor]) -> None:
    """Creates NumPy's ``argmax`` or ``argmin``, which flatten the tensor unless an axis is passed."""

    def position(a: Any, axis: int | None = None) -> Tensor:
        a = to_tensor(a)
        if axis is None:
            return function(tf.reshape(a, [-1]), 0)
        return function(array(a, ndmin=1), axis)

    numpy_like(name, shows="[3, 1, 2]")(position)


_make_arg_extreme("argmax", tf.argmax)
_make_arg_extreme("argmin", tf.argmin)


@numpy_like("shape", shows=A_MATRIX)
def shape(a: Any) -> tf.TensorShape:
    return to_tensor(a).shape


@numpy_like("ndim", shows=A_MATRIX)
def ndim(a: Any) -> int:
    return to_tensor(a).ndim


@numpy_like("isscalar", shows="3")
def isscalar(num: Any) -> bool:
    return ndim(num) == 0


@numpy_like("size", shows=A_MATRIX)
def size(x: Any, axis: Any = None) -> Any:
    if axis is not None:
        raise NotImplementedError("axis argument is not supported in the current `np.size` implementation")
    x = to_tensor(x)
    return np.int64(x.shape.num_elements()) if x.shape.is_fully_defined() else tf.size(x)
