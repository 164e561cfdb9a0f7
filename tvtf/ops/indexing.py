"""Ops that read by index: gather, gather_nd, boolean_mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, ArgumentValueError, incompatible_shapes
from tvtf.core.primitive import Sample, export, primitive
from tvtf.core.shape import Dim, TensorType, agree_dim, agree_shape, brackets, size_of
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import COMPILED, DType, as_dtype, int64
from tvtf.dtypes import bool as bool_dtype
from tvtf.ops.dims import scalar_of
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.indexed_slices import rows_of
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.operands import attributes
from tvtf.ops.rules import attribute_text, bind, draw, kernel, static_int, stretch, zeros_like

INDEX_TYPES: tuple[DType, ...] = tuple(map(as_dtype, ("int16", "int32", "int64")))


def require_index(indices: TensorType, allowed: Sequence[DType] = INDEX_TYPES) -> None:
    """Checks that indices have one of the dtypes ``allowed``."""
    if indices.dtype not in allowed:
        names = ", ".join(dtype.name for dtype in allowed)
        raise ArgumentError(
            f"Value for attr 'Tindices' of {indices.dtype.name} is not in the list of allowed values: {names}",
            TypeError,
        )


def index_error(index: Sequence[int], value: Any, extent: int, what: str = "indices") -> ArgumentError:
    """Returns the error for an index out of range in TensorFlow's words: ``indices[0,1] = 7 is not in [0, 3)``.

    ``index`` is the position of the bad ``value`` in the array of indices.
    """
    subscript = brackets([int(i) for i in index]) if len(index) else ""
    return ArgumentError(f"{what}{subscript} = {value} is not in [0, {extent})")


def check_range(indices: np.ndarray, extent: int, what: str = "indices") -> None:
    """Raises TensorFlow's error for the first index outside [0, extent), if any."""
    wrong = (indices < 0) | (indices >= extent)
    if wrong.any():
        index = tuple(np.argwhere(wrong)[0])
        raise index_error(index, indices[index], extent, what)


def in_range(indices: Tensor, extent: Dim, low: int = 0) -> Tensor:
    """Returns whether all indices lie in [low, extent), as a bool scalar of the program."""
    indices64 = bind.cast(indices, dtype=int64)
    fits = bind.logical_and(
        bind.less(indices64, scalar_of(extent)), bind.greater_equal(indices64, EagerTensor(np.array(low)))
    )
    return bind.reduce_all(fits, axis=tuple(range(indices.ndim)), keepdims=False)


# -- gather


def _gather_type(params: TensorType, indices: TensorType, *, axis: int, batch_dims: int) -> TensorType:
    """Checks the arguments of a gather, and returns the type of the result.

    The axes of ``indices`` replace the gathered axis. For example, params ``(4, 3)`` and indices ``(2, 5)`` on axis 0
    give ``(2, 5, 3)``. The first ``batch_dims`` axes of both operands are paired.
    """
    require_index(indices)
    rank = len(params.shape)
    index_rank = len(indices.shape)
    if not 0 <= axis < rank:
        raise ArgumentError(f"Shape must be at least rank {axis + 1} but is rank {rank}")
    if not 0 <= batch_dims <= min(axis, index_rank):
        raise ArgumentError(
            f"batch_dims ({batch_dims}) must be at most axis ({axis}) and the rank of indices ({index_rank})"
        )
    for i in range(batch_dims):
        if not agree_dim(params.shape[i], indices.shape[i]):
            raise ArgumentError(
                f"params.shape[{i}]: {params.shape[i]} should be equal to indices.shape[{i}]: {indices.shape[i]}"
            )
    dims_before, dims_after = params.shape[:axis], params.shape[axis + 1 :]
    return TensorType((*dims_before, *indices.shape[batch_dims:], *dims_after), params.dtype)


def _gather_numpy(params: np.ndarray, indices: np.ndarray, *, axis: int, batch_dims: int) -> np.ndarray:
    """Computes a gather in NumPy by ``np.take``, or by advanced indexing and a transpose if there are batch dims."""
    check_range(indices, params.shape[axis])
    if not batch_dims:
        return np.take(params, indices, axis)
    gathered_axis_first = np.moveaxis(params, axis, batch_dims)  # directly after the batch dims
    batch_indices = []
    for batch_axis, size in enumerate(indices.shape[:batch_dims]):
        shape = [1] * indices.ndim
        shape[batch_axis] = size
        batch_indices.append(np.arange(size).reshape(shape))
    index = (*batch_indices, indices)
    slices = gathered_axis_first[index]
    # The axes of the slices are those of the indices, then the other axes of params. The result has the axes that
    # params has before the gathered axis in front of those of the indices.
    batch_axes, index_axes = range(batch_dims), range(batch_dims, indices.ndim)
    axes_before = range(indices.ndim, indices.ndim + axis - batch_dims)
    axes_after = range(axes_before.stop, slices.ndim)
    return slices.transpose([*batch_axes, *axes_before, *index_axes, *axes_after])


def _gather_vjp(
    cotangent: Tensor, y: Tensor, params: Tensor, indices: Tensor, *, axis: int, batch_dims: int
) -> tuple[Any, ...]:
    """Returns the cotangents of a gather's inputs. That of ``params`` sums the result's slices by index.

    For a gather along the first axis, it is IndexedSlices, as in TensorFlow, which need less memory than ``params``.
    """
    # ``y`` isn't needed here, but all gradient rules receive it
    if not axis:
        return rows_of(params, cotangent, indices), None
    shape = params._type.shape
    batch, extent = shape[:batch_dims], shape[axis]
    row_dims = (*shape[batch_dims:axis], *shape[axis + 1 :])
    # The cotangent's axes of the indices are moved right after the batch axes: its rows then match the ids.
    index_axes = range(axis, axis + indices.ndim - batch_dims)
    to_rows = (*range(batch_dims), *index_axes, *range(batch_dims, axis), *range(index_axes.stop, cotangent.ndim))
    rows = bind.transpose(cotangent, perm=to_rows)
    ids = flat_ids(indices, batch, extent) if batch_dims else indices
    summed = bind.unsorted_segment_sum(rows, ids, num_segments=size_of((*batch, extent)))
    summed = bind.reshape(summed, shape=(*batch, extent, *row_dims))
    # The gathered axis returns to its position in params.
    from_rows = (*range(batch_dims), *range(batch_dims + 1, axis + 1), batch_dims, *range(axis + 1, params.ndim))
    return bind.transpose(summed, perm=from_rows), None


def flat_ids(indices: Tensor, batch: Sequence[Dim], extent: Dim) -> Tensor:
    """Returns indices into the batch axes and the gathered axis, of size ``extent``, merged into one axis."""
    starts = bind.range(size=size_of(batch), start=0, delta=1, dtype=int64)
    offsets = bind.multiply(starts, bind.range(size=1, start=extent, delta=1, dtype=int64))
    aligned = bind.reshape(offsets, shape=(*batch, *(1,) * (indices.ndim - len(batch))))
    return bind.add(bind.cast(indices, dtype=int64), aligned)


def _gather_batch(
    size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, axis: int, batch_dims: int
) -> Tensor:
    """Maps a gather over a leading batch axis of ``size`` items.

    An input that all items share is repeated for each item only if no gather without that has the same result.
    """
    params, indices = inputs
    are_params_batched, are_indices_batched = batched
    if not batch_dims and not are_indices_batched:  # the same indices for all items
        return bind.gather(params, indices, axis=axis + 1, batch_dims=0)
    if not batch_dims and not axis and not are_params_batched:  # the items' indices are axes of the indices
        return bind.gather(params, indices, axis=0, batch_dims=0)
    params = stretch(size, params, are_params_batched)
    indices = stretch(size, indices, are_indices_batched)
    return bind.gather(params, indices, axis=axis + 1, batch_dims=batch_dims + 1)


def _gather_nodes(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, axis: int, batch_dims: int
) -> None:
    """Emits ONNX's Gather for a gather, or GatherND if the gather has batch dims, which Gather has not."""
    if batch_dims:
        _batched_gather_nodes(emitter, inputs, outputs, types, axis, batch_dims)
        return
    params, indices = inputs
    (_, indices_type), _ = types
    if indices_type.dtype.name == "int16":  # ONNX takes only int32 and int64
        indices = emitter.cast(indices, int64)
    emitter.node("Gather", [params, indices], outputs, axis=axis)


def _batched_gather_nodes(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, axis: int, batch_dims: int
) -> None:
    """Emits ONNX's GatherND for a gather with batch dims, which ONNX's Gather doesn't support.

    A transpose moves the gathered axis right after the batch axes, and another one restores the order of the result.
    """
    params, indices = inputs
    (params_type, indices_type), _ = types
    rank = len(params_type.shape)
    index_rank = len(indices_type.shape)
    remaining_axes = [i for i in range(batch_dims, rank) if i != axis]
    moved = emitter.computed("Transpose", [params], perm=[*range(batch_dims), axis, *remaining_axes])
    indices64 = emitter.computed("Cast", [indices], to=7)  # int64
    index_vectors = emitter.computed("Unsqueeze", [indices64, emitter.const(np.array([-1]))])
    gathered = emitter.computed("GatherND", [moved, index_vectors], batch_dims=batch_dims)
    # The axes of GatherND's result, in its order.
    batch_axes = range(batch_dims)
    index_axes = range(batch_dims, index_rank)
    axes_before = range(index_rank, index_rank + axis - batch_dims)  # before the gathered axis
    axes_after = range(axes_before.stop, rank - 1 + index_rank - batch_dims)
    emitter.node("Transpose", [gathered], outputs, perm=[*batch_axes, *axes_before, *index_axes, *axes_after])


def _gather_samples() -> list[Sample]:
    """Returns test samples of gathers along several axes, with batch dims, a scalar index, and no indices."""
    # The shape of the parameters, the indices, the axis and the number of batch dims.
    cases: tuple[tuple[Any, ...], ...] = (
        ((4, 3), [0, 2, 3, 0], 0, 0),
        ((4, 3), [[2, 0]], 1, 0),
        ((2, 3, 2), [[0, 2], [1, 1]], 1, 1),
        ((2, 2, 3), [[1], [0]], 2, 1),
        ((4,), 2, 0, 0),
        ((4, 2), [], 0, 0),
    )
    samples = []
    for i, (shape, indices, axis, batch_dims) in enumerate(cases):
        index_dtype = "int64" if i % 2 else "int32"  # both in turn
        operands = (draw(i, shape), np.array(indices, index_dtype))
        samples.append(Sample(operands, {"axis": axis, "batch_dims": batch_dims}, COMPILED))
    return samples


@primitive(
    name="gather",
    tf_name="GatherV2",
    type=_gather_type,
    numpy=_gather_numpy,
    lower=kernel("indexing.gather"),
    vjp=_gather_vjp,
    batch=_gather_batch,
    onnx=_gather_nodes,
    guard=lambda params, indices, *, axis, batch_dims: [
        (in_range(indices, params._type.shape[axis]), f"indices are not in [0, {params._type.shape[axis]})")
    ],
    value=lambda params, indices, *, axis, batch_dims: _known_gathered(params, indices, axis, batch_dims),
    samples=_gather_samples,
)
def gather_along(params: Tensor, indices: Tensor, axis: int, batch_dims: int) -> Any:
    """Returns the slices of ``params`` along ``axis`` at ``indices``."""
    return (params, indices), {"axis": axis, "batch_dims": batch_dims}


def _known_gathered(params: Any, indices: Any, axis: int, batch_dims: int) -> np.ndarray | None:
    """Returns the gathered value if the trace knows both operands, as with parts of shapes."""
    if params.known is None or indices.known is None or batch_dims:
        return None
    if not all(isinstance(i, int) and 0 <= i < params.known.shape[axis] for i in indices.known.flat):
        return None  # the guard rejects it when the program runs
    return np.asarray(np.take(params.known, indices.known.astype(np.int64), axis), object)


@export("gather")
@attributes(batch_dims=int)
def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Tensor:
    """Gathers the slices of ``params`` along ``axis`` at ``indices``.

    Args:
      params: tensor of shape p.
      indices: int16, int32 or int64 tensor of shape i with values in [0, p[axis]).
      axis: int in [-rank, rank); ``batch_dims`` as it is given where None.
      batch_dims: number of leading axes that params and indices share.

    Returns:
      A tensor of shape ``p[:axis] + i[batch_dims:] + p[axis + 1:]``.

    >>> import tvtf as tf
    >>> tf.gather([10, 20, 30], [2, 0]).numpy()
    array([30, 10], dtype=int32)

    Raises:
      InvalidArgumentError: an index is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/gather
    """
    x, at = convert_to_tensor(params), convert_to_tensor(indices)
    batch = batch_dims + at.ndim if batch_dims < 0 else batch_dims
    if batch < 0:
        raise ArgumentError(f"Expected batch_dims in the range [-{at.ndim}, {at.ndim}], but got {batch_dims}").for_op(
            "GatherV2"
        )
    along = batch_dims if axis is None else static_int(axis, "axis")
    if -x.ndim <= along < 0:
        along += x.ndim
        x = x if along else without_rows(x)  # for a negative axis TensorFlow's gradient is dense, not IndexedSlices
    if batch > along and batch <= at.ndim:
        raise ArgumentError(f"batch_dims ({batch}) must be less than or equal to axis ({along}).").for_op("GatherV2")
    return bind.gather(x, at, axis=along, batch_dims=batch)


def without_rows(x: Tensor) -> Tensor:
    """Returns ``x`` through a reshape, so that a gather from it gets a dense gradient instead of IndexedSlices."""
    return bind.reshape(x, shape=x._type.shape)


def gather_densely(x: Tensor, at: Tensor, axis: int = 0) -> Tensor:
    """Gathers along an axis with a dense gradient: gathering after a new first axis never makes IndexedSlices."""
    slices = bind.gather(bind.reshape(x, shape=(1, *x._type.shape)), at, axis=axis + 1, batch_dims=0)
    return bind.reshape(slices, shape=slices._type.shape[1:])


# -- gather_nd


def _nd_type(params: TensorType, indices: TensorType) -> TensorType:
    """Checks the arguments of gather_nd, and returns the type of the result.

    The index vectors, along the last axis of ``indices``, must not be longer than the rank of ``params``.
    """
    require_index(indices)
    if not indices.shape:
        raise ArgumentError("indices must be at least a vector")
    depth = index_depth(indices)
    if depth > len(params.shape):
        raise ArgumentError(
            f"index innermost dimension length must be <= params rank; saw: {depth} vs. {len(params.shape)}"
        )
    return TensorType((*indices.shape[:-1], *params.shape[depth:]), params.dtype)


def index_depth(indices: TensorType) -> int:
    """Returns the length of the index vectors, which are the rows along the last axis of ``indices``.

    Raises an error unless the length is known while tracing.
    """
    depth = indices.shape[-1]
    if not isinstance(depth, int):
        message = f"Expected indices with a known last dimension, but got shape {brackets(indices.shape)}"
        raise unknown_size(ArgumentError(message))
    return depth


def check_nd(indices: np.ndarray, shape: Sequence[int], what: str = "shape") -> None:
    """Checks that index vectors, the rows along the last axis of ``indices``, are in range of ``shape``.

    Raises TensorFlow's error for the first wrong one. ``what`` describes ``shape`` in the error.
    """
    extents = np.array(shape[: indices.shape[-1]], np.int64)
    is_outside = ((indices < 0) | (indices >= extents)).any(-1)  # one bool for each vector
    if is_outside.any():
        position = tuple(np.argwhere(is_outside)[0].tolist())  # of the first wrong vector
        position_text = brackets(position) if position else ""
        vector_text = ", ".join(map(str, indices[position]))
        raise ArgumentError(f"indices{position_text} = [{vector_text}] does not index into {what} {brackets(shape)}")


def guard_nd(indices: Tensor, shape: Sequence[Dim], what: str = "shape") -> list[tuple[Tensor, str]]:
    """Checks at run time that all index vectors are in range."""
    if not index_depth(indices._type):
        return []
    inside = bind.reduce_all(_fits(indices, shape), axis=tuple(range(indices.ndim)), keepdims=False)
    return [(inside, f"indices do not index into {what} {brackets(shape)}")]


def _fits(indices: Tensor, shape: Sequence[Dim]) -> Tensor:
    """Returns which elements of index vectors are in range, as a bool tensor of their shape."""
    limits = bind.stack(*(scalar_of(dim) for dim in shape[: index_depth(indices._type)]), axis=0)
    indices64 = bind.cast(indices, dtype=int64)
    return bind.logical_and(bind.less(indices64, limits), bind.greater_equal(indices64, EagerTensor(np.array(0))))


def by_policy(policy: str | None, indices: Tensor, shape: Sequence[Dim], op: str) -> tuple[Tensor, Tensor | None]:
    """Applies TensorFlow's ``bad_indices_policy`` to ``indices``, index vectors into a tensor of the shape ``shape``.

    Returns the index vectors and a bool mask of the valid ones. With the policy "IGNORE", vectors that are out of range
    become zeros, and the caller uses the mask to ignore them. With other policies the mask is None, and the op itself
    raises an error for vectors that are out of range.
    """
    if policy is not None and attribute_text(policy, "bad_indices_policy") not in ("", "DEFAULT", "ERROR", "IGNORE"):
        raise ArgumentValueError(f"Unknown bad indices handling attribute: {policy}").for_op(op)
    if policy != "IGNORE" or not index_depth(indices._type):
        return indices, None
    is_valid = bind.reduce_all(_fits(indices, shape), axis=(indices.ndim - 1,), keepdims=True)
    valid_indices = bind.select(is_valid, indices, zeros_like(indices))
    mask = bind.reshape(is_valid, shape=indices._type.shape[:-1])
    return valid_indices, mask


def where_counted(counts: Tensor, values: Tensor, otherwise: Tensor) -> Tensor:
    """Selects the slices of ``values`` whose index vectors are valid, and ``otherwise`` elsewhere."""
    shape = (*counts._type.shape, *(1,) * (values.ndim - counts.ndim))
    return bind.select(bind.reshape(counts, shape=shape), values, otherwise)


def nd_places(indices: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns the NumPy index for an array of index vectors."""
    return tuple(np.moveaxis(indices, -1, 0))


def _nd_numpy(params: np.ndarray, indices: np.ndarray) -> np.ndarray:
    check_nd(indices, params.shape, "param shape")
    if not indices.shape[-1]:
        return np.broadcast_to(params, (*indices.shape[:-1], *params.shape)).copy()
    return params[nd_places(indices)]


def _nd_vjp(cotangent: Tensor, y: Tensor, params: Tensor, indices: Tensor) -> tuple[Any, None]:
    """Adds the cotangent at the gathered slices; IndexedSlices where these are rows."""
    if index_depth(indices._type) == 1:
        return rows_of(params, cotangent, indices), None
    return bind.tensor_scatter_add(zeros_like(params), indices, cotangent), None


def _nd_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool]) -> Tensor:
    params, indices = inputs
    if not batched[0]:
        return bind.gather_nd(params, indices)
    return bind.gather_nd(params, with_batch_places(stretch(size, indices, batched[1]), 1))


def with_batch_places(indices: Tensor, batch_dims: int) -> Tensor:
    """Prepends to each index vector the vector's own position along the leading ``batch_dims`` axes of ``indices``.

    Then an op without batch dims reads or writes the batch item to which the vector belongs.
    """
    shape = indices._type.shape
    batch_positions = []
    for axis in range(batch_dims):
        position = bind.range(size=shape[axis], start=0, delta=1, dtype=indices.dtype)
        along_axis: list[Dim] = [1] * len(shape)
        along_axis[axis] = shape[axis]
        aligned = bind.reshape(position, shape=tuple(along_axis))
        batch_positions.append(bind.broadcast_to(aligned, shape=(*shape[:-1], 1)))
    return bind.concat(*batch_positions, indices, axis=len(shape) - 1)


def _nd_nodes(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes) -> None:
    emitter.node("GatherND", [inputs[0], emitter.cast(inputs[1], int64)], outputs)


@primitive(
    name="gather_nd",
    type=_nd_type,
    numpy=_nd_numpy,
    lower=kernel("indexing.gather_nd"),
    vjp=_nd_vjp,
    batch=_nd_batch,
    onnx=_nd_nodes,
    guard=lambda params, indices: guard_nd(indices, params._type.shape, "param shape"),
    samples=lambda: [
        Sample((draw(i, s), np.array(at, t)), {}, COMPILED)
        for i, (s, at, t) in enumerate(
            (
                ((3, 2), [[0, 1], [2, 0], [0, 1]], "int32"),
                ((3, 2), [[[2]], [[0]]], "int64"),
                ((4,), [3], "int32"),
                ((2, 2), np.zeros((0, 2)), "int32"),
            )
        )
    ],
)
def gather_places(params: Tensor, indices: Tensor) -> Any:
    """Returns the slices of ``params`` that the index vectors in the last axis of ``indices`` name."""
    return (params, indices), {}


@export("gather_nd")
def gather_nd(
    params: Any, indices: Any, batch_dims: int = 0, name: str | None = None, bad_indices_policy: str = ""
) -> Tensor:
    """Returns the slices of ``params`` that the index vectors in the last axis of ``indices`` name.

    Args:
      params: tensor of shape p.
      indices: int16, int32 or int64 tensor of shape (..., k), k <= rank of params.
      batch_dims: number of leading axes that params and indices share.
      bad_indices_policy: "IGNORE" gives zeros for indices out of range.

    Returns:
      A tensor of shape ``indices.shape[:-1] + p[batch_dims + k:]``.

    >>> import tvtf as tf
    >>> tf.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]]).numpy()
    array([2, 3], dtype=int32)

    Raises:
      InvalidArgumentError: an index is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/gather_nd
    """
    x, at = convert_to_tensor(params), convert_to_tensor(indices)
    if batch_dims:
        count = static_int(batch_dims, "batch_dims")
        _require_shared_batch(x, at, count)
        at = with_batch_places(at, count)
    at, counts = by_policy(bad_indices_policy, at, x._type.shape, "GatherNd")
    result = bind.gather_nd(x, at)
    return result if counts is None else where_counted(counts, result, zeros_like(result))


def _require_shared_batch(params: Tensor, indices: Tensor, batch_dims: int) -> None:
    """Checks the number of batch axes of a ``gather_nd``, and that params and indices have the same sizes along them."""
    if batch_dims < 0:
        raise ValueError("tf.gather_nd does not allow negative batch_dims.")
    for name, tensor in (("indices", indices), ("params", params)):
        if batch_dims >= tensor.ndim:
            raise ValueError(f"Argument `batch_dims` = {batch_dims} must be less than rank(`{name}`) = {tensor.ndim}")
    params_shape, indices_shape = params._type.shape, indices._type.shape
    if not agree_shape(params_shape[:batch_dims], indices_shape[:batch_dims]):
        raise ArgumentError(
            f"params and indices must have the same sizes along the first {batch_dims} axes, got shapes "
            f"{brackets(params_shape)} and {brackets(indices_shape)}"
        ).for_op("GatherNd")


# -- the indices of true elements


def nonzero_indices(condition: Tensor) -> Tensor:
    """Returns the indices of the true elements, an int64 tensor of shape (true elements, rank)."""
    return bind.true_places(condition, count=unknown_dim())


@host_primitive(
    tf_name="Where",
    type=lambda condition, count: TensorType((count, len(condition.shape)), int64),
    numpy=lambda condition, count: np.argwhere(condition).astype(np.int64),
)
def true_places(condition: Tensor, count: Any) -> Any:
    """Returns the indices of the ``count`` true elements, as :func:`nonzero_indices`."""
    return (condition,), {"count": count}


@export("boolean_mask")
def boolean_mask(tensor: Any, mask: Any, axis: int | None = None, name: str = "boolean_mask") -> Tensor:
    """Returns the elements (or slices) of ``tensor`` where ``mask`` holds.

    Args:
      tensor: tensor of rank r.
      mask: bool tensor of rank k <= r whose shape is that of ``tensor`` starting at ``axis``.
      axis: where the mask's axes begin; 0 where None. If it is negative, the mask must end before the last axis.

    >>> import tvtf as tf
    >>> tf.boolean_mask([1, 2, 3], [True, False, True]).numpy()
    array([1, 3], dtype=int32)

    Raises:
      ValueError: the mask is a scalar, or its shape doesn't fit the tensor's.

    Source: https://www.tensorflow.org/api_docs/python/tf/boolean_mask
    """
    x, chosen = convert_to_tensor(tensor), convert_to_tensor(mask)
    if chosen.dtype is not bool_dtype:
        chosen = bind.not_equal(chosen, zeros_like(chosen))
    if not chosen.ndim:
        raise ValueError("mask cannot be scalar.")
    axis = 0 if axis is None else static_int(axis, "axis")
    masked = slice(axis, axis + chosen.ndim)  # as in TensorFlow, a negative axis must not reach the last one
    if not agree_shape(x._type.shape[masked], chosen._type.shape):
        raise incompatible_shapes(ValueError(f"Shapes {x.shape[masked]} and {chosen.shape} are incompatible"))
    axis, dims = axis % x.ndim, x._type.shape
    merged = size_of(dims[axis : axis + chosen.ndim])
    flat = bind.reshape(x, shape=(*dims[:axis], merged, *dims[axis + chosen.ndim :]))
    result = nonzero_indices(bind.reshape(chosen, shape=(merged,)))
    return bind.gather(flat, bind.reshape(result, shape=(result._type.shape[0],)), axis=axis, batch_dims=0)
