"""Defines ``tf.io.parse_example`` and related functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.composites.sparse.tensor import SparseTensor
from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor
from tvtf.examples.composite import build_composites
from tvtf.examples.features import (
    Column,
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
    columns_of,
)
from tvtf.examples.kernels import parse
from tvtf.ops.strings.rules import text

Features = Mapping[str, Any]
Tensors = dict[str, Any]
ALL = (VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature, RaggedFeature)
CONTEXT = (VarLenFeature, FixedLenFeature, RaggedFeature)
ROWS = (VarLenFeature, FixedLenSequenceFeature, RaggedFeature)


@export("io.parse_example")
def parse_example(serialized: Any, features: Features, example_names: Any = None, name: str | None = None) -> Tensors:
    """Parses serialized ``tf.train.Example`` messages into tensors.

    Args:
      serialized: a vector of strings; or a scalar, as for ``tf.io.parse_single_example``.
      features: a dict of ``FixedLenFeature``, ``FixedLenSequenceFeature``, ``VarLenFeature``, ``SparseFeature`` or
        ``RaggedFeature``.
      example_names: accepted without effect.

    Returns:
      A dict of tensors, ``SparseTensor`` and ``RaggedTensor`` objects.

    >>> import tvtf as tf
    >>> ages = tf.train.Feature(int64_list=tf.train.Int64List(value=[3]))
    >>> goat = tf.train.Example(features=tf.train.Features(feature={"age": ages})).SerializeToString()
    >>> tf.io.parse_example([goat, goat], {"age": tf.io.FixedLenFeature([], tf.int64)})["age"].numpy()
    array([3, 3])

    Raises:
      ValueError: ``features`` is empty, or a feature is incomplete.
      InvalidArgumentError: an example lacks a feature, or a feature's dtype or number of values is wrong.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/parse_example
    """
    if not features:
        raise ValueError(f"Argument `features` cannot be None or falsy. Got {features}")
    x, single = _as_text_vector(serialized)
    columns = columns_of(features, ALL)
    tensors = parse(x, "Example", columns, [], single)
    return build_composites(features, _tensors_by_key(columns, tensors, single))


@export("io.parse_single_example")
def parse_single_example(
    serialized: Any, features: Features, example_names: Any = None, name: str | None = None
) -> Tensors:
    """Parses one serialized ``tf.train.Example`` into tensors; see ``tf.io.parse_example``.

    >>> import tvtf as tf
    >>> names = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a", b"b"]))
    >>> goat = tf.train.Example(features=tf.train.Features(feature={"name": names})).SerializeToString()
    >>> tf.io.parse_single_example(goat, {"name": tf.io.FixedLenFeature([2], tf.string)})["name"].numpy()
    array([b'a', b'b'], dtype=object)

    Raises:
      ValueError: ``features`` is empty, a feature is incomplete, or ``serialized`` is not a scalar.
      InvalidArgumentError: an example lacks a feature, or a feature's dtype or number of values is wrong.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/parse_single_example
    """
    if features is None:
        raise ValueError("Invalid argument: features cannot be None.")
    if not features:
        raise ValueError("Invalid argument: features cannot be empty.")
    _require_scalar(text(serialized))
    return parse_example(serialized, features)


def _require_scalar(serialized: Tensor) -> None:
    if serialized.ndim:
        raise ValueError("Input serialized must be a scalar")


@export("io.parse_sequence_example")
def parse_sequence_example(
    serialized: Any,
    context_features: Features | None = None,
    sequence_features: Features | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[Tensors, Tensors, Tensors]:
    """Parses serialized ``tf.train.SequenceExample`` messages into tensors.

    Args:
      serialized: a vector of strings.
      context_features: a dict of ``FixedLenFeature``, ``VarLenFeature`` or ``RaggedFeature``.
      sequence_features: a dict of ``FixedLenSequenceFeature``, ``VarLenFeature`` or ``RaggedFeature``.
      example_names: accepted without effect.

    Returns:
      Three dicts: the context, the feature lists, and the lengths of the dense lists.

    >>> import tvtf as tf
    >>> row = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))
    >>> lists = tf.train.FeatureLists(feature_list={"rows": tf.train.FeatureList(feature=[row, row])})
    >>> one = tf.train.SequenceExample(feature_lists=lists).SerializeToString()
    >>> tf.io.parse_sequence_example([one], None, {"rows": tf.io.RaggedFeature(tf.int64)})[1]["rows"].to_list()
    [[[1, 2], [1, 2]]]

    Raises:
      ValueError: there are no features, or a feature is incomplete.
      InvalidArgumentError: an example lacks a feature, or a feature's dtype or number of values is wrong.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/parse_sequence_example
    """
    if not (context_features or sequence_features):
        raise ValueError(
            "Both `context_features` and `sequence_features` argument are None, but at least one should have values."
        )
    x, single = _as_text_vector(serialized)
    context = columns_of(context_features, CONTEXT)
    rows = columns_of(sequence_features, ROWS, rows=True)
    tensors = parse(x, "SequenceExample", context, rows, single)
    context_tensors, lists = tensors[: len(context)], tensors[len(context) :]
    lengths = {column.key: column_tensors[1] for column, column_tensors in zip(rows, lists) if column.kind == "dense"}
    return (
        build_composites(context_features or {}, _tensors_by_key(context, context_tensors, single)),
        build_composites(sequence_features or {}, _list_tensors_by_key(rows, lists, single)),
        lengths,
    )


@export("io.parse_single_sequence_example")
def parse_single_sequence_example(
    serialized: Any,
    context_features: Features | None = None,
    sequence_features: Features | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[Tensors, Tensors]:
    """Parses one serialized ``tf.train.SequenceExample`` into tensors; see ``tf.io.parse_sequence_example``.

    Args:
      serialized: scalar string tensor.
      context_features: what to parse of the context, by key.
      sequence_features: what to parse of the feature lists, by key.

    Returns:
      Two dicts by key: the tensors of the context, and those of the feature lists, whose first axis is time.

    Raises:
      ValueError: both dicts of features are empty, or ``serialized`` is not a scalar.

    >>> import tvtf as tf
    >>> row = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))
    >>> lists = tf.train.FeatureLists(feature_list={"rows": tf.train.FeatureList(feature=[row, row])})
    >>> one = tf.train.SequenceExample(feature_lists=lists).SerializeToString()
    >>> features = {"rows": tf.io.FixedLenSequenceFeature([2], tf.int64)}
    >>> tf.io.parse_single_sequence_example(one, sequence_features=features)[1]["rows"].numpy()
    array([[1, 2],
           [1, 2]])

    Source: https://www.tensorflow.org/api_docs/python/tf/io/parse_single_sequence_example
    """
    if not (context_features or sequence_features):
        raise ValueError("Both context_features and sequence_features are None, but at least one should have values.")
    _require_scalar(text(serialized))
    return parse_sequence_example(serialized, context_features, sequence_features)[:2]


# -- columns as tensors


def _as_text_vector(serialized: Any) -> tuple[Tensor, bool]:
    """Converts serialized messages to a string tensor of rank 0 or 1. Returns the tensor, and whether it is a scalar.

    Raises:
      ValueError: the rank is higher than 1.
    """
    x = text(serialized)
    if x.ndim > 1:
        raise ValueError(f"serialized must be a vector or a scalar, but has shape {x.shape}")
    return x, not x.ndim


def _tensors_by_key(columns: Sequence[Column], tensors_by_column: Sequence[list[Tensor]], single: bool) -> Tensors:
    """Builds the dense, sparse or ragged tensor of each column of features, by the columns' keys."""
    return {
        column.key: _build_tensor(column.kind, column_tensors, single)
        for column, column_tensors in zip(columns, tensors_by_column)
    }


def _build_tensor(kind: str, tensors: list[Tensor], single: bool) -> Any:
    """Builds the sparse, ragged or dense tensor of a column from the tensors to which the column was parsed.

    The ragged values of a ``single`` example are dense: they have no rows for examples.
    """
    if kind == "sparse":
        return SparseTensor(*tensors)
    return RaggedTensor(*tensors) if kind == "ragged" and not single else tensors[0]


def _list_tensors_by_key(columns: Sequence[Column], tensors_by_column: Sequence[list[Tensor]], single: bool) -> Tensors:
    """Builds the tensor of each column of feature lists, and returns the tensors by the columns' keys."""
    return {
        column.key: _build_list_tensor(column.kind, tensors, single)
        for column, tensors in zip(columns, tensors_by_column)
    }


def _build_list_tensor(kind: str, tensors: list[Tensor], single: bool) -> Any:
    """Builds the tensor of a column of feature lists from the tensors to which the column was parsed.

    A ragged column has the values, the row splits of features and, for a batch, the row splits of examples.

    Args:
      kind: the kind of the column, such as "ragged".
      tensors: the tensors to which it was parsed.
      single: whether one example was parsed, rather than a batch.
    """
    if kind != "ragged":
        return _build_tensor(kind, tensors, single)
    values, feature_splits, *example_splits = tensors
    rows = RaggedTensor(values, feature_splits)
    return rows if single else RaggedTensor(rows, *example_splits)
