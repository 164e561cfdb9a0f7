"""``tf.ragged.cross``: feature crosses, the combinations of several features' values in each row."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tvtf.composites.ragged.build import from_tensor
from tvtf.composites.ragged.gathering import as_tensor
from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import TensorType
from tvtf.core.tensor import Tensor
from tvtf.dtypes import int32, int64, string
from tvtf.ops.cast import cast
from tvtf.ops.host import unknown_dim
from tvtf.ops.rules import bind
from tvtf.ops.strings.digests import fingerprint64, fingerprint_cat64
from tvtf.ops.strings.rules import text_op

HASH_KEY = 0xDECAFCAFFE


def _types(*inputs: TensorType, hashed: bool, count: Any, **_: Any) -> tuple[TensorType, TensorType]:
    return TensorType((count,), int64 if hashed else string), TensorType(inputs[1].shape, int64)


def _joined(parts: tuple[Any, ...], separator: str) -> bytes:
    return separator.encode().join(part if isinstance(part, bytes) else str(part).encode() for part in parts)


def _hashed(parts: tuple[Any, ...], key: int, num_buckets: int) -> int:
    result = key
    for part in parts:
        result = fingerprint_cat64(result, fingerprint64(part) if isinstance(part, bytes) else part % (1 << 64))
    return result % (num_buckets or (1 << 63) - 1)


def _cross(
    *inputs: np.ndarray, hashed: bool, num_buckets: int, key: int, separator: str, count: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the feature crosses of each row: all combinations of one value of each feature.

    Args:
      *inputs: the flat values and the row splits of each feature in turn.
      hashed: whether a cross is hashed into ``num_buckets`` with ``key``; otherwise it is joined as text by ``separator``.
      count: unused; the symbolic number of crosses.

    Returns:
      the crosses and their row splits.
    """
    all_values = [array.tolist() for array in inputs[::2]]
    all_splits = [array.tolist() for array in inputs[1::2]]
    if len(set(map(len, all_splits))) > 1:
        raise ArgumentError("All inputs must have the same batch size")
    crosses: list[Any] = []
    row_splits = [0]
    for row in range(len(all_splits[0]) - 1):
        values_in_row = [values[splits[row] : splits[row + 1]] for values, splits in zip(all_values, all_splits)]
        for combination in itertools.product(*values_in_row):
            crossed = _hashed(combination, key, num_buckets) if hashed else _joined(combination, separator)
            crosses.append(crossed)
        row_splits.append(len(crosses))
    result = np.empty(len(crosses), np.int64 if hashed else object)
    result[:] = crosses
    return result, np.array(row_splits, np.int64)


@text_op(tf_name="RaggedCross", type=_types, numpy=_cross)
def cross_rows(*inputs: Tensor, hashed: bool, num_buckets: int, key: int, separator: str, count: Any) -> Any:
    """Returns the combinations of values and their row splits, from the values and row splits of each feature."""
    attrs = {"hashed": hashed, "num_buckets": num_buckets, "key": key, "separator": separator, "count": count}
    return inputs, attrs


def _feature(value: Any, position: int) -> RaggedTensor:
    """Converts an input of `tf.ragged.cross` to a ragged matrix of integers or strings, or raises ValueError."""
    x = as_tensor(value)
    if not (x.dtype.is_integer or x.dtype is string):
        raise ValueError(f"Unexpected dtype for inputs[{position}]: {x.dtype}")
    if isinstance(x, RaggedTensor):
        if x.ragged_rank != 1:
            raise ValueError("tf.ragged.cross only supports inputs with rank=2")
        return x
    return from_tensor(x, None, None, 1, int64)


def _crossed(inputs: Any, hashed: bool, num_buckets: int, key: int) -> RaggedTensor:
    """Returns the feature crosses: for each row, all combinations of one value of each feature.

    The row splits are int32 only if all features are ragged with int32 row splits.

    Args:
      inputs: the features: a list of dense or ragged matrices of integers or strings.
      hashed: whether a combination becomes an int64 hash; otherwise it is text such as "a_X_b".
      num_buckets: hashes are less than this number; 0 for the largest int64.
      key: the key of the hash.

    Raises:
      TypeError: ``inputs`` is not a list.
      ValueError: a feature has another dtype or rank.
    """
    if not isinstance(inputs, (tuple, list)):
        raise TypeError("Inputs must be a list")
    features = [_feature(value, position) for position, value in enumerate(inputs)]
    has_int32_splits = all(isinstance(x, RaggedTensor) and x.row_splits.dtype is int32 for x in inputs)
    operands = []  # the values and the row splits of each feature in turn
    for feature in features:
        operands.append(cast(feature.values, int64) if feature.dtype.is_integer else feature.values)
        operands.append(cast(feature.row_splits, int64))
    attrs = {"hashed": hashed, "num_buckets": num_buckets, "key": key, "separator": "_X_"}
    values, splits = bind.cross_rows(*operands, count=unknown_dim(), **attrs)
    return RaggedTensor(values, cast(splits, int32 if has_int32_splits else int64))


@export("ragged.cross")
def cross(inputs: Any, name: str | None = None) -> RaggedTensor:
    """Returns, for each row, all combinations of one value of each input, as strings joined by ``_X_``.

    Args:
      inputs: a list of matrices of strings or integers, ragged or dense, with the same number of rows.

    >>> import tvtf as tf
    >>> tf.ragged.cross([tf.ragged.constant([["a"], ["b", "c"]]), tf.ragged.constant([["d"], ["e"]])])
    <tf.RaggedTensor [[b'a_X_d'], [b'b_X_e', b'c_X_e']]>

    Raises:
      TypeError: ``inputs`` is not a list.
      ValueError: an input has floats or more than two dims.

    Source: https://www.tensorflow.org/api_docs/python/tf/ragged/cross
    """
    return _crossed(inputs, False, 0, 0)


@export("ragged.cross_hashed")
def cross_hashed(
    inputs: Any, num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> RaggedTensor:
    """Returns, for each row, all combinations of one value of each input, hashed to bucket indices.

    Args:
      inputs: a list of matrices of strings or integers, ragged or dense, with the same number of rows.
      num_buckets: the number of buckets; 0 for the whole range of int64.
      hash_key: the initial hash value.

    >>> import tvtf as tf
    >>> tf.ragged.cross_hashed([tf.ragged.constant([["a"], ["b", "c"]]), tf.ragged.constant([["d"], ["e"]])], 100)
    <tf.RaggedTensor [[82], [61, 41]]>

    Source: https://www.tensorflow.org/api_docs/python/tf/ragged/cross_hashed
    """
    return _crossed(inputs, True, num_buckets, HASH_KEY if hash_key is None else hash_key)
