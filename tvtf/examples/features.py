"""Defines the classes that describe features of examples, and the columns that are parsed for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.shape import as_shape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import DType, as_dtype, float32, int32, int64, string


@export("io.VarLenFeature")
class VarLenFeature(NamedTuple):
    """A feature with any number of values: a ``tf.sparse.SparseTensor``.

    >>> import tvtf as tf
    >>> tf.io.VarLenFeature(tf.int64)
    VarLenFeature(dtype=tf.int64)

    Source: https://www.tensorflow.org/api_docs/python/tf/io/VarLenFeature
    """

    dtype: Any


@export("io.FixedLenFeature")
class FixedLenFeature(NamedTuple):
    """A feature of a static shape; without a default it is required.

    >>> import tvtf as tf
    >>> tf.io.FixedLenFeature([2], tf.int64)
    FixedLenFeature(shape=[2], dtype=tf.int64, default_value=None)

    Source: https://www.tensorflow.org/api_docs/python/tf/io/FixedLenFeature
    """

    shape: Any
    dtype: Any
    default_value: Any = None


@export("io.FixedLenSequenceFeature")
class FixedLenSequenceFeature(NamedTuple):
    """A feature with any number of items of a static shape: a tensor, padded with a default.

    >>> import tvtf as tf
    >>> tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True).allow_missing
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/io/FixedLenSequenceFeature
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


@export("io.SparseFeature")
class SparseFeature(NamedTuple):
    """A sparse tensor whose values are in one feature and whose indices in others.

    >>> import tvtf as tf
    >>> tf.io.SparseFeature("places", "values", tf.float32, size=100).size
    100

    Source: https://www.tensorflow.org/api_docs/python/tf/io/SparseFeature
    """

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False


class RowSplits(NamedTuple):
    """A row partition by the rows' starts and the end of the last row."""

    key: str


class RowLengths(NamedTuple):
    """A row partition by the rows' lengths."""

    key: str


class RowStarts(NamedTuple):
    """A row partition by the rows' starts."""

    key: str


class RowLimits(NamedTuple):
    """A row partition by the rows' ends."""

    key: str


class ValueRowIds(NamedTuple):
    """A row partition by the row of each value."""

    key: str


class UniformRowLength(NamedTuple):
    """A row partition with rows of one length."""

    length: int


PARTITIONS = (RowSplits, RowLengths, RowStarts, RowLimits, ValueRowIds, UniformRowLength)


class _Ragged(NamedTuple):
    """The fields of `RaggedFeature`, whose ``__new__`` checks the arguments."""

    dtype: Any
    value_key: str | None
    partitions: tuple[Any, ...]
    row_splits_dtype: Any
    validate: bool


@export("io.RaggedFeature")
class RaggedFeature(_Ragged):
    """A feature with any number of values: a ``tf.RaggedTensor``, split into rows by other features.

    Args:
      dtype: int64, float32 or string.
      value_key: the feature with the values, if it has another name.
      partitions: ``RaggedFeature.RowSplits(key)`` and similar, the outermost first.
      row_splits_dtype: int32 or int64.
      validate: whether to check the row partitions.

    >>> import tvtf as tf
    >>> tf.io.RaggedFeature(tf.int64, partitions=[tf.io.RaggedFeature.RowLengths("n")]).partitions
    (RowLengths(key='n'),)

    Raises:
      ValueError: the dtype is not supported, or the key is empty.
      TypeError: ``partitions`` is not a list, or contains an object that is not a partition.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/RaggedFeature
    """

    RowSplits = RowSplits
    RowLengths = RowLengths
    RowStarts = RowStarts
    RowLimits = RowLimits
    ValueRowIds = ValueRowIds
    UniformRowLength = UniformRowLength

    def __new__(
        cls,
        dtype: Any,
        value_key: str | None = None,
        partitions: Sequence[Any] = (),
        row_splits_dtype: Any = int32,
        validate: bool = False,
    ) -> RaggedFeature:
        """Creates the feature after checking the arguments and converting the dtypes."""
        if value_key is not None and not isinstance(value_key, str):
            raise ValueError(f"Argument `value_key` must be a string; got {value_key}")
        if value_key == "":
            raise ValueError("Argument `value_key` must not be empty")
        value_dtype, splits_dtype = as_dtype(dtype), as_dtype(row_splits_dtype)
        if value_dtype not in (int64, float32, string):
            raise ValueError(f"Argument `dtype` must be int64, float32, or bytes; got {value_dtype!r}")
        if splits_dtype not in (int32, int64):
            raise ValueError(f"Argument `row_splits_dtype` must be int32 or int64; got{splits_dtype!r}")
        if not isinstance(partitions, (list, tuple)):
            received = f"partitions={partitions} of type {type(partitions).__name__}."
            raise TypeError(f"Argument `partitions` must be a list or tuple. Received{received}")
        for partition in partitions:
            if not isinstance(partition, PARTITIONS):
                received = f"in {PARTITIONS}; got: {partition!r} with type {type(partition)!r}"
                raise TypeError(f"Argument `partitions` cannot be cast to any of the partition types {received}")
        if not isinstance(validate, bool):
            raise TypeError(f"Argument `validate` must be a bool; got {validate!r}")
        return super().__new__(cls, value_dtype, value_key, tuple(partitions), splits_dtype, validate)


class Column(NamedTuple):
    """One feature as it is parsed, before composite tensors are built from columns."""

    key: str
    kind: str
    """"dense", "stacked" (a FixedLenSequenceFeature), "sparse" or "ragged"."""
    dtype: DType
    shape: tuple[int, ...] = ()
    missing: bool = False
    """Whether the feature may be missing."""
    splits: DType = int64
    default: Tensor | None = None


def columns_of(features: Mapping[str, Any] | None, allowed: Sequence[type], rows: bool = False) -> list[Column]:
    """Returns the columns to parse for features: first the sparse, then the dense, then the ragged columns.

    Columns of the same kind are sorted by key.

    Args:
      features: the features by key.
      allowed: the classes of features that the caller supports.
      rows: whether the features are feature lists of a SequenceExample.

    Raises:
      ValueError: a feature's class is not in ``allowed``, or a feature is incomplete or contradicts another.
    """
    by_key: dict[str, Column] = {}
    for key in sorted(features or {}):
        feature = features[key]  # type: ignore[index]
        if not isinstance(feature, tuple(allowed)):
            raise ValueError(f"Unsupported {type(feature).__name__} {feature} for key '{key}'")
        for column in _columns(key, feature, rows):
            _add_column(by_key, column)
    # "stacked" columns are dense, too. The sort is stable, so that columns of one rank stay sorted by key.
    rank = {"sparse": 0, "dense": 1, "stacked": 1, "ragged": 2}
    return sorted(by_key.values(), key=lambda column: rank[column.kind])


def _add_column(by_key: dict[str, Column], column: Column) -> None:
    """Adds a column to ``by_key``, or checks that it agrees with the column that the key has already.

    Features that read the same key share one column.

    Raises:
      ValueError: the two columns differ in their kind, dtype, or dtype of row splits.
    """
    existing = by_key.setdefault(column.key, column)
    if existing.kind != column.kind:
        kinds = "Dense" if "dense" in (existing.kind, column.kind) else "Ragged"
        raise ValueError(
            f"{kinds} and sparse keys must not intersect; {column.key} is {existing.kind} and {column.kind}"
        )
    if existing.dtype is not column.dtype:
        raise ValueError(f"Conflicting type {existing.dtype!r} vs {column.dtype!r} for feature {column.key}.")
    if existing.splits is not column.splits:
        raise ValueError(
            f"Conflicting partition type {existing.splits!r} vs {column.splits!r} for feature {column.key}."
        )


def _columns(key: str, feature: Any, in_feature_lists: bool) -> list[Column]:
    """Returns the columns to parse for one feature. A SparseFeature or RaggedFeature may have several columns.

    ``in_feature_lists`` says whether the feature is a feature list of a SequenceExample.
    """
    if isinstance(feature, VarLenFeature):
        _require_attribute(feature.dtype, "type", key, feature)
        return [Column(key, "sparse", as_dtype(feature.dtype))]
    if isinstance(feature, SparseFeature):
        return _sparse_columns(key, feature)
    if isinstance(feature, RaggedFeature):
        splits_dtype = feature.row_splits_dtype
        columns = [Column(feature.value_key or key, "ragged", feature.dtype, splits=splits_dtype)]
        for partition in feature.partitions:
            if not isinstance(partition, UniformRowLength):  # which needs no column
                columns.append(Column(partition.key, "ragged", int64, splits=splits_dtype))
        return columns
    _require_attribute(feature.dtype, "type", key, feature)
    if feature.shape is None:
        raise ValueError(f"Missing shape for feature {key}. Received feature={feature}.")
    if isinstance(feature, FixedLenSequenceFeature):
        return [_sequence_column(key, feature, in_feature_lists)]
    return [_fixed_column(key, feature)]


def _require_attribute(value: Any, attribute: str, key: str, feature: Any) -> None:
    """Raises ValueError, with TensorFlow's text, if the value of a feature's attribute is not set."""
    if not value:
        # TensorFlow's text has no period for this class.
        end = "" if isinstance(feature, VarLenFeature) else "."
        raise ValueError(f"Missing {attribute} for feature {key}. Received feature={feature}{end}")


def _sparse_columns(key: str, feature: SparseFeature) -> list[Column]:
    """Returns the columns to parse for a SparseFeature: its index columns, sorted by key, then its value column."""
    if not feature.index_key:
        raise ValueError(f"Missing index_key for SparseFeature {feature}.")
    if not feature.value_key:
        raise ValueError(f"Missing value_key for SparseFeature {feature}.")
    _require_attribute(feature.dtype, "type", key, feature)
    keys = [feature.index_key] if isinstance(feature.index_key, str) else feature.index_key
    index_columns = [Column(index_key, "sparse", int64) for index_key in sorted(keys)]
    return [*index_columns, Column(feature.value_key, "sparse", as_dtype(feature.dtype))]


def _fixed_column(key: str, feature: FixedLenFeature) -> Column:
    """Returns the column to parse for a FixedLenFeature. The default is reshaped or broadcast to the feature's shape.

    Raises:
      ValueError: the feature's shape is not static.
    """
    shape = as_shape(feature.shape)
    if shape.rank and shape[0] is None:
        hint = "Consider using FixedLenSequenceFeature. Received "
        raise ValueError(f"First dimension of shape for feature {key} unknown. {hint}feature={feature}.")
    if not shape.is_fully_defined():
        raise ValueError(f"All dimensions of shape for feature {key} need to be known but received {feature.shape!s}.")
    value_dtype = as_dtype(feature.dtype)
    dims = tuple(int(dim) for dim in shape.as_list() if dim is not None)
    if feature.default_value is None:
        return Column(key, "dense", value_dtype, dims)
    default = _eager_default(feature.default_value, value_dtype).eager_array()
    if default.size == shape.num_elements():
        values = default.reshape(dims)
    else:
        values = np.broadcast_to(default, dims).copy()
    return Column(key, "dense", value_dtype, dims, missing=True, default=EagerTensor(values))


def _sequence_column(key: str, feature: FixedLenSequenceFeature, in_feature_lists: bool) -> Column:
    """Returns the column to parse for a FixedLenSequenceFeature.

    ``in_feature_lists`` says whether it is a feature list of a SequenceExample, which can't have a default. A feature
    of an Example is padded with its default.
    """
    value_dtype = as_dtype(feature.dtype)
    shape = tuple(as_shape(feature.shape).as_list())
    if in_feature_lists:
        if feature.default_value is not None:
            raise ValueError(f"Value feature_list.dense_defaults[{key}] must be None")
        return Column(key, "dense", value_dtype, shape, bool(feature.allow_missing))  # type: ignore[arg-type]
    if not feature.allow_missing:
        raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True.")
    empty = b"" if value_dtype is string else 0
    default = _eager_default(empty if feature.default_value is None else feature.default_value, value_dtype)
    return Column(key, "stacked", value_dtype, shape, True, default=default)  # type: ignore[arg-type]


def _eager_default(value: Any, dtype: DType) -> EagerTensor:
    """Converts the default of a feature to a tensor. Raises ValueError if a trace computes the value."""
    default = convert_to_tensor(value, dtype)
    if not isinstance(default, EagerTensor):
        raise ValueError(f"a feature's default_value must be known, but is {value!r}")
    return default
