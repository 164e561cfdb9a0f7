"""``tf.sets``: operations on the sets in the last axis; and ``tf.edit_distance``."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from tvtf.composites.sparse.tensor import SparseTensor, as_sparse, is_sparse, rank_of
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import TensorType, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import DType, as_dtype, float32, int32, int64, string
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.indexing import nonzero_indices
from tvtf.ops.operands import attributes
from tvtf.ops.rules import bind, dims_of

DTYPES: tuple[DType, ...] = (
    *(as_dtype(f"int{bits}") for bits in (8, 16, 32, 64)),
    *(as_dtype(f"uint{bits}") for bits in (8, 16)),
    string,
)

Rows = dict[tuple[int, ...], list[Any]]


def _values_by_row(indices: np.ndarray, values: np.ndarray) -> Rows:
    """Groups the values of a sparse tensor by row: by their index in all axes but the last."""
    result: Rows = defaultdict(list)
    for row, value in zip(map(tuple, indices[:, :-1].tolist()), values.tolist()):
        result[row].append(value)
    return result


def _operand(value: Any) -> SparseTensor:
    """Converts a dense tensor to a sparse tensor with all its elements. Returns a sparse tensor unchanged."""
    if is_sparse(value):
        return as_sparse(value)
    x = convert_to_tensor(value)
    indices = nonzero_indices(bind.broadcast_to(EagerTensor(np.array(True)), shape=x._type.shape))
    shape = x._type.shape
    dims = bind.shape(x, dtype=int64)
    return SparseTensor(indices, bind.reshape(x, shape=(size_of(shape),)), dims)


_OPERATIONS: dict[str, Any] = {
    "a-b": set.difference,
    "b-a": lambda a, b: b - a,
    "intersection": set.intersection,
    "union": set.union,
}


def _result_types(*inputs: TensorType, how: str, count: Any) -> tuple[TensorType, ...]:
    rank = inputs[0].shape[1]
    return TensorType((count, rank), int64), TensorType((count,), inputs[1].dtype), TensorType((rank,), int64)


def _compute_set_operation(
    indices_a: np.ndarray,
    values_a: np.ndarray,
    shape_a: np.ndarray,
    indices_b: np.ndarray,
    values_b: np.ndarray,
    shape_b: np.ndarray,
    how: str,
    count: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Applies a set operation to the rows of two tensors; a row that one of them lacks is an empty set.

    The tensors are given by the parts of sparse tensors. ``how`` is a key of ``_OPERATIONS``, such as "a-b". ``count`` is
    the symbolic number of results, for the result type. Returns the parts of the sparse result.
    """
    if (shape_a[:-1] != shape_b[:-1]).any():
        raise ArgumentError(
            f"Mismatched group shapes [{','.join(map(str, shape_a[:-1]))}] vs [{','.join(map(str, shape_b[:-1]))}]"
        )
    rows_a, rows_b = _values_by_row(indices_a, values_a), _values_by_row(indices_b, values_b)
    indices, values, largest = [], [], 0
    for row in sorted({*rows_a, *rows_b}):
        result = sorted(_OPERATIONS[how](set(rows_a.get(row, ())), set(rows_b.get(row, ()))))
        indices += [(*row, i) for i in range(len(result))]
        values += result
        largest = max(largest, len(result))
    value_array = np.empty(len(values), values_a.dtype)
    # Assignment keeps bytes objects, which np.array could convert.
    value_array[:] = values
    return (
        np.array(indices, np.int64).reshape(-1, indices_a.shape[1]),
        value_array,
        np.array([*shape_a[:-1], largest], np.int64),
    )


@host_primitive(tf_name="SparseToSparseSetOperation", type=_result_types, numpy=_compute_set_operation)
def set_operation(*parts: Tensor, how: str, count: Any) -> Any:
    """Applies a set operation to the rows of two sparse tensors. Returns the indices, values and shape of the result."""
    return parts, {"how": how, "count": count}


def _apply_set_operation(a: Any, b: Any, how: str) -> SparseTensor:
    """Applies a set operation to the rows of two tensors, each of which holds a set; ``how`` names the operation.

    Operands may be dense or sparse. They must have the same rank, at least 2, and the same dtype.
    """
    first, second = _checked_operands(a, b)
    if rank_of(first) != rank_of(second):
        raise ArgumentError(f"Expected tensors of one rank, got {rank_of(first)} and {rank_of(second)}").for_op(
            "SetOperation"
        )
    if rank_of(first) < 2:
        op = "DenseToDenseSetOperation" if not is_sparse(a) and not is_sparse(b) else "SparseToSparseSetOperation"
        raise ArgumentError(f"Shape [{first.shape[0]}] has rank 1 < 2").for_op(op)
    operands = (first.indices, first.values, first.dense_shape, second.indices, second.values, second.dense_shape)
    return SparseTensor(*bind.set_operation(*operands, how=how, count=unknown_dim()))


def _checked_operands(a: Any, b: Any) -> tuple[SparseTensor, SparseTensor]:
    """Converts both operands to sparse tensors. Raises TypeError for an unsupported or different dtype."""
    first = _operand(a)
    if first.dtype not in DTYPES:
        raise TypeError(f"'a' has invalid dtype `{first.dtype!r}` not in supported dtypes: `{frozenset(DTYPES)}`.")
    second = _operand(b)
    if first.dtype is not second.dtype:
        raise TypeError(f"Types don't match, {first.dtype!s} vs {second.dtype!s}.")
    return first, second


@export("sets.intersection")
@attributes(validate_indices=bool)
def intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Returns the sorted intersection of each pair of rows of the last axis.

    Args:
      a, b: tensors or SparseTensors of integers or strings, of the same shape except for the last axis.
      validate_indices: ignored.

    Raises:
      TypeError: the dtypes differ, or are neither integers nor strings.

    >>> import tvtf as tf
    >>> tf.sparse.to_dense(tf.sets.intersection([[1, 2, 3]], [[3, 2, 9]])).numpy()
    array([[2, 3]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sets/intersection
    """
    return _apply_set_operation(a, b, "intersection")


@export("sets.union")
@attributes(validate_indices=bool)
def union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Returns the sorted union of each pair of rows of the last axis.

    Raises:
      TypeError: the dtypes differ, or are neither integers nor strings.

    >>> import tvtf as tf
    >>> tf.sparse.to_dense(tf.sets.union([[1, 2]], [[2, 9]])).numpy()
    array([[1, 2, 9]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sets/union
    """
    return _apply_set_operation(a, b, "union")


@export("sets.difference")
@attributes(validate_indices=bool)
def difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """Returns the sorted difference of each pair of rows of the last axis.

    Args:
      a, b: tensors or SparseTensors of integers or strings, of the same shape except for the last axis.
      aminusb: whether to return ``a`` minus ``b``; otherwise ``b`` minus ``a``.
      validate_indices: ignored.

    Raises:
      TypeError: the dtypes differ, or are neither integers nor strings.

    >>> import tvtf as tf
    >>> tf.sparse.to_dense(tf.sets.difference([[1, 2, 3]], [[2, 9, 9]])).numpy()
    array([[1, 3]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sets/difference
    """
    return _apply_set_operation(a, b, "a-b" if aminusb else "b-a")


def _count_distinct(indices: np.ndarray, values: np.ndarray, shape: np.ndarray, dims: Any) -> np.ndarray:
    result = np.zeros(shape[:-1], np.int32)
    for group, row in _values_by_row(indices, values).items():
        result[group] = len(set(row))
    return result


@host_primitive(
    tf_name="SetSize", type=lambda indices, values, shape, dims: TensorType(tuple(dims), int32), numpy=_count_distinct
)
def set_sizes(indices: Tensor, values: Tensor, shape: Tensor, dims: Any) -> Any:
    """Returns the number of distinct values in each row of a sparse tensor."""
    return (indices, values, shape), {"dims": dims}


@export("sets.size")
@attributes(validate_indices=bool)
def size(a: Any, validate_indices: bool = True) -> Tensor:
    """Returns the number of distinct elements in each row of the last axis of a SparseTensor.

    Returns:
      An int32 tensor of the input's shape without the last axis.

    Raises:
      TypeError: the argument is not a SparseTensor of integers or strings.

    >>> import tvtf as tf
    >>> tf.sets.size(tf.sparse.from_dense([[1, 1, 2], [3, 0, 0]])).numpy()
    array([2, 1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sets/size
    """
    if not is_sparse(a):
        raise TypeError(f"Expected `SparseTensor`, got {convert_to_tensor(a)!s}.")
    sp = as_sparse(a)
    if sp.dtype not in DTYPES:
        raise TypeError(f"Invalid dtype `{sp.dtype!r}` not in supported dtypes: `{frozenset(DTYPES)}`.")
    dims = dims_of(sp.dense_shape[:-1])
    return bind.set_sizes(sp.indices, sp.values, sp.dense_shape, dims=dims)  # type: ignore[no-any-return]


# -- sequences


def _levenshtein(a: list[Any], b: list[Any]) -> int:
    """Computes the Levenshtein distance of two sequences: the minimum number of insertions, deletions and replacements.

    Dynamic programming over prefixes: after step i, ``distances[j]`` is the distance of ``a[:i]`` and ``b[:j]``.
    """
    distances = list(range(len(b) + 1))
    for i, item_a in enumerate(a, 1):
        new_distances = [i]
        for j, item_b in enumerate(b, 1):
            deletion = distances[j] + 1
            insertion = new_distances[j - 1] + 1
            replacement = distances[j - 1] + (item_a != item_b)
            new_distances.append(min(deletion, insertion, replacement))
        distances = new_distances
    return distances[-1]


def _edit_distances(
    indices_a: np.ndarray,
    values_a: np.ndarray,
    shape_a: np.ndarray,
    indices_b: np.ndarray,
    values_b: np.ndarray,
    shape_b: np.ndarray,
    normalize: bool,
    dims: Any,
) -> np.ndarray:
    """Computes the edit distance of each pair of rows of two sparse tensors: the hypotheses (a) and the truth (b).

    If ``normalize``, a distance is divided by the length of the true row, and infinite for an empty true row.
    """
    hypotheses = _values_by_row(indices_a, values_a)
    truths = _values_by_row(indices_b, values_b)
    result = np.zeros(np.maximum(shape_a, shape_b)[:-1], np.float32)
    for row in {*hypotheses, *truths}:
        truth = truths.get(row, [])
        distance = _levenshtein(hypotheses.get(row, []), truth)
        if not normalize:
            result[row] = distance
        elif truth:
            result[row] = distance / len(truth)
        else:
            result[row] = np.inf
    return result


@host_primitive(
    tf_name="EditDistance",
    type=lambda *parts, normalize, dims: TensorType(tuple(dims), float32),
    numpy=_edit_distances,
)
def distances(*parts: Tensor, normalize: bool, dims: Any) -> Any:
    """Returns the edit distances of the rows of two sparse tensors."""
    return parts, {"normalize": normalize, "dims": dims}


@export("edit_distance")
@attributes(normalize=bool)
def edit_distance(hypothesis: Any, truth: Any, normalize: bool = True, name: str = "edit_distance") -> Tensor:
    """Returns the Levenshtein distance between the rows of the last axis of ``hypothesis`` and ``truth``.

    Args:
      hypothesis, truth: SparseTensors of the same rank and dtype.
      normalize: divides by the length of the truth's row; the result is infinite if that is empty.

    Returns:
      A float32 tensor of the input's shape without the last axis.

    Raises:
      TypeError: an argument is not a SparseTensor.

    >>> import tvtf as tf
    >>> a, b = tf.sparse.from_dense([["a", "b"], ["c", ""]]), tf.sparse.from_dense([["a", "c"], ["c", "d"]])
    >>> tf.edit_distance(a, b, normalize=False).numpy()
    array([1., 1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/edit_distance
    """
    for value, what in ((hypothesis, "Hypothesis"), (truth, "Truth")):
        if not is_sparse(value):
            raise TypeError(f"{what} must be a SparseTensor.")
    a, b = as_sparse(hypothesis), as_sparse(truth)
    if rank_of(b) < 2:
        message = f"Input SparseTensors must have rank at least 2, but truth_shape rank is: {rank_of(b)}"
        raise ArgumentError(message).for_op("EditDistance")
    if rank_of(a) != rank_of(b):
        message = f"Expected truth and hypothesis to have matching ranks, but got {rank_of(b)} and {rank_of(a)}"
        raise ArgumentError(message).for_op("EditDistance")
    dims = dims_of(bind.maximum(a.dense_shape, b.dense_shape)[:-1])
    parts = [part for operand in (a, b) for part in (operand.indices, operand.values, operand.dense_shape)]
    return bind.distances(*parts, normalize=bool(normalize), dims=dims)  # type: ignore[no-any-return]
