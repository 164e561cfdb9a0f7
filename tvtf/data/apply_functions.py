"""Defines ``tf.data.experimental``: functions for ``Dataset.apply``, and transformations that are not methods of Dataset."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tvtf.core import nest
from tvtf.core.primitive import export, exports
from tvtf.core.tensor import EagerTensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.data.argument_conversion import bool_argument, int_argument
from tvtf.data.base import UNKNOWN, Dataset
from tvtf.data.batching import Batch
from tvtf.data.element_order import Concatenate
from tvtf.data.mapped import Map, Traced
from tvtf.data.sources import ElementList
from tvtf.data.structure import Element, relaxed, spec_of, tensors_of
from tvtf.dtypes import int64
from tvtf.errors import OutOfRangeError

Transformation = Callable[[Dataset], Any]
SHARD_HINT: Final = -1
exports["data.experimental.SHARD_HINT"] = SHARD_HINT

APPLIED = {
    "bucket_by_sequence_length": ("lambda x: 1, [2], [2, 2]", "[[0, 1], [2]]"),
    "enumerate_dataset": ("5", "[(np.int64(5), np.int64(0)), (np.int64(6), np.int64(1)), (np.int64(7), np.int64(2))]"),
    "group_by_window": ("lambda x: x % 2, lambda key, group: group.batch(2), 2", "[[0, 2], [1]]"),
    "ignore_errors": ("", "[0, 1, 2]"),
    "scan": ("np.int64(0), lambda total, x: (total + x, total)", "[0, 0, 1]"),
    "take_while": ("lambda x: x < 1", "[0]"),
    "unique": ("", "[0, 1, 2]"),
}
"""For each function, the arguments of its docstring's example on ``range(3)`` and the expected elements."""
RENAMED = {"enumerate_dataset": "enumerate"}


def _apply_function(name: str) -> Callable[..., Transformation]:
    """Creates ``tf.data.experimental.<name>``, which returns a function for ``Dataset.apply``.

    That function calls a method of the dataset. The docstring's example is made from ``APPLIED[name]``: the arguments
    and the expected elements.
    """
    method = getattr(Dataset, RENAMED.get(name, name))
    arguments, expected = APPLIED[name]

    def transformation(*args: Any, **kwargs: Any) -> Transformation:
        return lambda dataset: method(dataset, *args, **kwargs)

    transformation.__name__ = transformation.__qualname__ = name
    transformation.__doc__ = f"""Returns a function for ``Dataset.apply`` that calls ``Dataset.{method.__name__}``.

    >>> import numpy as np
    >>> import tvtf as tf
    >>> result = tf.data.Dataset.range(3).apply(tf.data.experimental.{name}({arguments}))
    >>> [x.tolist() if hasattr(x, "tolist") else x for x in result.as_numpy_iterator()]
    {expected}

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/{name}
    """
    return transformation


exports.update({f"data.experimental.{name}": _apply_function(name) for name in APPLIED})


@export("data.experimental.unbatch")
def unbatch() -> Transformation:
    """Returns a function for ``Dataset.apply`` that does the same as ``Dataset.unbatch``.

    >>> import tvtf as tf
    >>> rows = tf.data.Dataset.from_tensors([1, 2]).apply(tf.data.experimental.unbatch())
    >>> [int(x) for x in rows]
    [1, 2]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/unbatch
    """
    return lambda dataset: dataset.unbatch()  # type: ignore[attr-defined]


@export("data.experimental.dense_to_ragged_batch")
def dense_to_ragged_batch(
    batch_size: Any, drop_remainder: bool = False, row_splits_dtype: Any = int64
) -> Transformation:
    """Returns a function for ``Dataset.apply`` that does the same as ``Dataset.ragged_batch``.

    >>> import tvtf as tf
    >>> rows = tf.data.experimental.from_list([[1], [2, 3]])
    >>> [batch] = rows.apply(tf.data.experimental.dense_to_ragged_batch(2))
    >>> batch.to_list()
    [[1], [2, 3]]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/dense_to_ragged_batch
    """
    return lambda dataset: dataset.ragged_batch(batch_size, drop_remainder, row_splits_dtype)  # type: ignore[attr-defined]


@export("data.experimental.dense_to_sparse_batch")
def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> Transformation:
    """Returns a function for ``Dataset.apply`` that does the same as ``Dataset.sparse_batch``.

    >>> import tvtf as tf
    >>> rows = tf.data.experimental.from_list([[1], [2, 3]])
    >>> [batch] = rows.apply(tf.data.experimental.dense_to_sparse_batch(2, [3]))
    >>> tf.sparse.to_dense(batch).numpy().tolist()
    [[1, 0, 0], [2, 3, 0]]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/dense_to_sparse_batch
    """
    return lambda dataset: dataset.sparse_batch(batch_size, row_shape)  # type: ignore[attr-defined]


@export("data.experimental.shuffle_and_repeat")
def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: Any = None) -> Transformation:
    """Returns a function for ``Dataset.apply`` that shuffles a dataset, then repeats it.

    >>> import tvtf as tf
    >>> twice = tf.data.Dataset.range(2).apply(tf.data.experimental.shuffle_and_repeat(2, 2, seed=1))
    >>> sorted(int(x) for x in twice)
    [0, 0, 1, 1]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/shuffle_and_repeat
    """
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)  # type: ignore[attr-defined]


@export("data.experimental.map_and_batch")
def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: Any,
    num_parallel_batches: int | None = None,
    drop_remainder: bool = False,
    num_parallel_calls: Any = None,
) -> Transformation:
    """For ``apply``: ``map``, then ``batch``.

    Raises:
      ValueError: both ``num_parallel_batches`` and ``num_parallel_calls`` are set.

    >>> import tvtf as tf
    >>> doubled = tf.data.Dataset.range(3).apply(tf.data.experimental.map_and_batch(lambda x: x * 2, 2))
    >>> [x.tolist() for x in doubled.as_numpy_iterator()]
    [[0, 2], [4]]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/map_and_batch
    """
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError(
            "`map_and_batch` allows only one of `num_parallel_batches` and `num_parallel_calls` to be set, but "
            f"`num_parallel_batches` was set to {num_parallel_batches} and `num_parallel_calls` as set to "
            f"{num_parallel_calls}."
        )
    calls = num_parallel_calls if num_parallel_batches is None else batch_size * num_parallel_batches

    def batched(dataset: Any) -> Dataset:
        batches = Batch(dataset.map(map_func, calls), int_argument(batch_size), bool_argument(drop_remainder))
        batches.repr_name = "_MapAndBatchDataset"
        return batches

    return batched


@export("data.experimental.parallel_interleave")
def parallel_interleave(
    map_func: Callable[..., Any],
    cycle_length: int,
    block_length: int = 1,
    sloppy: bool | None = False,
    buffer_output_elements: int | None = None,
    prefetch_input_elements: int | None = None,
) -> Transformation:
    """Returns a function for ``Dataset.apply`` that does the same as ``Dataset.interleave`` with parallel calls.

    >>> import tvtf as tf
    >>> found = tf.data.Dataset.range(3).apply(tf.data.experimental.parallel_interleave(tf.data.Dataset.range, 3))
    >>> [int(x) for x in found]
    [0, 0, 1]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/parallel_interleave
    """
    return lambda dataset: dataset.interleave(map_func, cycle_length, block_length, cycle_length)  # type: ignore[attr-defined]


@export("data.experimental.prefetch_to_device")
def prefetch_to_device(device: str, buffer_size: Any = None) -> Transformation:
    """Returns a function for ``Dataset.apply`` that does the same as ``Dataset.prefetch``.

    The elements stay in main memory: the function that uses the tensors moves them to its device.

    >>> import tvtf as tf
    >>> found = tf.data.Dataset.range(2).apply(tf.data.experimental.prefetch_to_device("/cpu:0"))
    >>> [int(x) for x in found]
    [0, 1]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/prefetch_to_device
    """
    size = -1 if buffer_size is None else buffer_size  # -1: the dataset chooses the size
    return lambda dataset: dataset.prefetch(size)  # type: ignore[attr-defined]


@export("data.experimental.copy_to_device")
def copy_to_device(target_device: str, source_device: str = "/cpu:0") -> Transformation:
    """Returns a function for ``Dataset.apply`` that returns the same dataset.

    The elements stay in main memory: the function that uses the tensors moves them to its device.

    >>> import tvtf as tf
    >>> found = tf.data.Dataset.range(2).apply(tf.data.experimental.copy_to_device("/cpu:0"))
    >>> [int(x) for x in found]
    [0, 1]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/copy_to_device
    """
    return lambda dataset: dataset


# -- functions of datasets


@export("data.experimental.get_single_element")
def get_single_element(dataset: Any) -> Element:
    """Same as ``dataset.get_single_element()``.

    >>> import tvtf as tf
    >>> int(tf.data.experimental.get_single_element(tf.data.Dataset.from_tensors(3)))
    3

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/get_single_element
    """
    return dataset.get_single_element()


@export("data.experimental.save")
def save(dataset: Any, path: str, compression: str | None = None, shard_func: Any = None, **kwargs: Any) -> None:
    """Same as ``dataset.save(path)``.

    >>> import tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tf.data.experimental.save(tf.data.Dataset.range(2), folder)
    ...     print(list(tf.data.experimental.load(folder).as_numpy_iterator()))
    [np.int64(0), np.int64(1)]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/save
    """
    dataset.save(path, compression, shard_func, **kwargs)


@export("data.experimental.load")
def load(path: str, element_spec: Any = None, compression: str | None = None, reader_func: Any = None) -> Dataset:
    """Same as ``tf.data.Dataset.load``; see :func:`save`.

    >>> import tvtf as tf
    >>> tf.data.experimental.load("/no/such/folder")
    Traceback (most recent call last):
      ...
    tvtf.errors.NotFoundError: Could not find a saved dataset in /no/such/folder

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/load
    """
    return Dataset.load(path, element_spec, compression, reader_func)  # type: ignore[attr-defined,no-any-return]


@export("data.experimental.at")
def at(dataset: Dataset, index: Any) -> Element:
    """Returns the element at ``index``.

    Raises:
      OutOfRangeError: the dataset has no element at ``index``.

    >>> import tvtf as tf
    >>> int(tf.data.experimental.at(tf.data.Dataset.range(5), 3))
    3

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/at
    """
    position = int_argument(index)
    handles = list(itertools.islice(dataset.handles(), position, position + 1)) if position >= 0 else []
    if not handles:
        raise OutOfRangeError(
            None, "GetElementAtIndex", f"Index out of range [0, {dataset.size}):{position} [Op:GetElementAtIndex]"
        )
    return dataset.value(handles[0])


class Listed(ElementList):
    """The dataset of ``from_list``."""

    repr_name = "_ListDataset"


@export("data.experimental.from_list")
def from_list(elements: Sequence[Any], name: str | None = None) -> Dataset:
    """Makes a dataset of a list of elements, whose shapes may differ.

    Raises:
      ValueError: ``elements`` is empty or not a list, or the structures of elements differ.
      TypeError: the dtypes of elements differ.

    >>> import tvtf as tf
    >>> [x.tolist() for x in tf.data.experimental.from_list([[1], [2, 3]]).as_numpy_iterator()]
    [[1], [2, 3]]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/from_list
    """
    if elements is not None and not isinstance(elements, list):
        raise ValueError("Invalid `elements`. `elements` must be a list.")
    if not elements:
        raise ValueError(
            "Invalid `elements`. `elements` should not be empty. If you want an empty dataset, use `tf.data.Dataset.range(0)`."
        )
    tensor_elements = [tensors_of(element) for element in elements]
    spec = spec_of(tensor_elements[0])
    for element in tensor_elements[1:]:
        nest.assert_same_structure(spec, element)
        spec = relaxed(spec, spec_of(element))
    return Listed(tensor_elements, spec)


def _zeros_of(spec: Any) -> EagerTensor:
    """Returns a tensor of zeros with the shape and dtype of a spec."""
    return EagerTensor(np.zeros(spec.shape.as_list(), spec.dtype.np))


@export("data.experimental.pad_to_cardinality")
def pad_to_cardinality(cardinality: int, mask_key: str = "valid") -> Transformation:
    """For ``apply``: adds a bool under ``mask_key`` to each dict, and appends zeros up to ``cardinality`` elements.

    Raises:
      ValueError: elements are not dicts, or their number is unknown or above ``cardinality``.

    >>> import tvtf as tf
    >>> rows = tf.data.Dataset.from_tensor_slices({"x": [1, 2]})
    >>> [bool(row["valid"]) for row in rows.apply(tf.data.experimental.pad_to_cardinality(3))]
    [True, True, False]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/pad_to_cardinality
    """

    def padded(dataset: Dataset) -> Dataset:
        """Appends elements of zeros until there are ``cardinality``.

        The entry ``mask_key`` is True in the dataset's own elements.
        """
        if dataset.size < 0:
            raise ValueError(
                f"The dataset passed into `pad_to_cardinality` must have a known cardinalty, but has cardinality {dataset.size}"
            )
        if dataset.size > cardinality:
            raise ValueError(
                "The dataset passed into `pad_to_cardinality` must have a cardinalty less than the target cardinality "
                f"({cardinality}), but has cardinality {dataset.size}"
            )
        if not isinstance(dataset.element_spec, Mapping):
            raise ValueError("`pad_to_cardinality` requires its input dataset to be a dictionary.")
        filler = nest.map_structure(_zeros_of, dict(dataset.element_spec))
        filler[mask_key] = convert_to_tensor(False)
        fillers = ElementList([filler] * (cardinality - dataset.size), spec_of(filler))
        marked = Map(dataset, lambda element: {**element, mask_key: convert_to_tensor(True)})
        return Concatenate(marked, fillers)

    return padded


# -- reducing by key


@export("data.experimental.Reducer")
class Reducer:
    """Combines the elements of one key: an initial state for the key, a step for each element, and a final result.

    >>> import numpy as np
    >>> import tvtf as tf
    >>> total = tf.data.experimental.Reducer(lambda key: np.int64(0), lambda state, x: state + x, lambda state: state)
    >>> grouped = tf.data.Dataset.range(5).apply(tf.data.experimental.group_by_reducer(lambda x: x % 2, total))
    >>> [int(x) for x in grouped]
    [6, 4]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/Reducer
    """

    def __init__(
        self, init_func: Callable[..., Any], reduce_func: Callable[..., Any], finalize_func: Callable[..., Any]
    ) -> None:
        self.init_func, self.reduce_func, self.finalize_func = init_func, reduce_func, finalize_func


class GroupByReducer(Dataset):
    """The reduced values of groups of elements with equal keys, in the order of the keys."""

    def __init__(self, source: Dataset, key: Callable[..., Any], reducer: Reducer) -> None:
        """Traces the function of an element's key, and the reducer's three functions."""
        self.source = source
        self.key = Traced(key, source)
        if self.key.spec != TensorSpec([], int64):
            raise ValueError(
                "Invalid `key_func`. Expected `key_func` to return a scalar tf.int64 tensor, but instead "
                f"{self.key.spec} was returned."
            )
        zero: Dataset = ElementList([EagerTensor(np.array(0, np.int64))], TensorSpec([], int64))
        self.initial_state = Traced(reducer.init_func, zero)
        self.next_state = Traced(reducer.reduce_func, source, self.initial_state.spec)
        self.result = Traced(reducer.finalize_func, ElementList([], self.initial_state.spec))
        super().__init__(self.result.spec, UNKNOWN)

    def handles(self) -> Iterator[Any]:
        """Reduces all elements, then yields one result per key, in ascending order of the keys."""
        states: dict[int, Any] = {}
        for element in self.source.elements():
            key = self.key(element)
            state = states.get(int(key))
            if state is None:
                state = self.initial_state(key)
            states[int(key)] = self.next_state(state, element)
        return (self.result(states[key]) for key in sorted(states))


@export("data.experimental.group_by_reducer")
def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> Transformation:
    """Returns a function for ``Dataset.apply`` that reduces the elements of each int64 key to one.

    See :class:`Reducer`.

    Raises:
      ValueError: ``key_func`` returns something other than an int64 scalar.

    >>> import tvtf as tf
    >>> count = tf.data.experimental.Reducer(lambda key: 0, lambda state, x: state + 1, lambda state: state)
    >>> [int(n) for n in tf.data.Dataset.range(5).apply(tf.data.experimental.group_by_reducer(lambda x: x % 2, count))]
    [3, 2]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/group_by_reducer
    """
    return lambda dataset: GroupByReducer(dataset, key_func, reducer)
