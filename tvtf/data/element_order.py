"""Selects and orders elements: take, skip, shard, repeat, shuffle, concatenate, zip, prefetch, unique."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.argument_error import ArgumentError
from tvtf.core.tensor import EagerTensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.data.argument_conversion import int_argument
from tvtf.data.base import (
    INFINITE,
    UNKNOWN,
    Dataset,
    Joining,
    PassThrough,
    elements_of,
    handles_of,
    map_known_size,
    method,
    started,
)
from tvtf.data.parallel import ComputedElements, PrefetchingIterator, debug
from tvtf.data.random import SeedGenerator, words
from tvtf.data.structure import Element, arrays, relaxed
from tvtf.dtypes import DType, int32, int64, string
from tvtf.errors import InvalidArgumentError


class Take(PassThrough):
    """The first ``count`` elements of a dataset."""

    def __init__(self, source: Dataset, count: int) -> None:
        self.count = count
        endless = count if source.size == INFINITE and count >= 0 else source.size
        super().__init__(source, map_known_size(endless, lambda n: n if count < 0 else min(n, count)))

    def changes_nothing(self) -> bool:
        return self.count < 0

    def handles(self) -> Iterator[Any]:
        return self.source.handles() if self.count < 0 else itertools.islice(self.source.handles(), self.count)


@method
def take(self: Dataset, count: Any, name: str | None = None) -> Dataset:
    """Returns the first ``count`` elements; all of them if it is -1.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#take
    """
    return Take(self, int_argument(count))


class Skip(PassThrough):
    """All but the first ``count`` elements of a dataset."""

    def __init__(self, source: Dataset, count: int) -> None:
        self.count = count
        super().__init__(source, 0 if count < 0 else map_known_size(source.size, lambda n: max(n - count, 0)))

    def changes_nothing(self) -> bool:
        return self.count == 0

    def handles(self) -> Iterator[Any]:
        return iter(()) if self.count < 0 else itertools.islice(self.source.handles(), self.count, None)


@method
def skip(self: Dataset, count: Any, name: str | None = None) -> Dataset:
    """Returns all but the first ``count`` elements; none if it is -1.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#skip
    """
    return Skip(self, int_argument(count))


class Shard(PassThrough):
    """Every ``count``-th element of a dataset, starting at ``index``."""

    def __init__(self, source: Dataset, count: int, index: int) -> None:
        """Checks the number of shards and the shard's index, and computes the number of elements in the shard."""
        if count < 1:
            raise InvalidArgumentError(
                None,
                "ShardDataset",
                f"Number of shards must be greater than zero (currently num_shards = {count}). [Op:ShardDataset]",
            )
        if not 0 <= index < count:
            raise InvalidArgumentError(
                None,
                "ShardDataset",
                f"Index must be between 0 and {count - 1} (currently index = {index}). [Op:ShardDataset]",
            )
        self.count, self.index = count, index

        def shard_size(element_count: int) -> int:
            return len(range(index, element_count, count))

        super().__init__(source, map_known_size(source.size, shard_size))

    def changes_nothing(self) -> bool:
        return self.count == 1

    def handles(self) -> Iterator[Any]:
        return itertools.islice(self.source.handles(), self.index, None, self.count)


@method
def shard(self: Dataset, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
    """Returns every ``num_shards``-th element, starting with the one at ``index``.

    Raises:
      InvalidArgumentError: ``num_shards`` is not positive, or ``index`` is not below it.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#shard
    """
    return Shard(self, int_argument(num_shards), int_argument(index))


class Repeat(PassThrough):
    """The elements of a dataset ``count`` times; endlessly if it is negative."""

    def __init__(self, source: Dataset, count: int) -> None:
        self.count = count
        endless = INFINITE if source.size else 0
        super().__init__(source, endless if count < 0 else map_known_size(source.size, lambda n: n * count))
        if count == 0:
            self.size = 0

    def _starts_once_more(self) -> bool:
        """Returns whether TensorFlow starts one more iteration of the source after the last one, which draws seeds.

        TensorFlow doesn't if it has rewritten the graph of the pipeline. Then datasets that change nothing, such as a single
        repetition, are removed, and a shuffle is fused with its repetition.
        """
        if not (self.count > 0 and self.source.seed_generators):
            return False
        if not self.is_rewritten():
            return True
        source = self.source
        while source.is_rewritten() and source.changes_nothing():
            source = source.source  # type: ignore[attr-defined]  # it has one
        return not (self.changes_nothing() or (isinstance(source, Shuffle) and source.is_rewritten()))

    def changes_nothing(self) -> bool:
        return self.count == 1

    @started
    def handles(self) -> Iterator[Any]:
        """Yields the source's handles ``count`` times, starting a new iteration each time; endlessly if negative."""
        is_endless = self.count < 0
        handles = self.source.handles() if self.count else iter(())
        yield  # `started` runs the lines above at once, so that the source's iteration begins together with this one
        for repetition in itertools.count() if is_endless else range(self.count):
            if repetition > 0:
                handles = self.source.handles()
            is_empty = True
            for handle in handles:
                is_empty = False
                yield handle
            if is_empty and is_endless:  # repeating nothing endlessly would never return
                return
        if self._starts_once_more():
            self.source.handles()


@method
def repeat(self: Dataset, count: Any = None, name: str | None = None) -> Dataset:
    """Repeats the elements ``count`` times; endlessly if it is None or -1.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#repeat
    """
    return Repeat(self, -1 if count is None else int_argument(count))


class Shuffle(PassThrough):
    """The elements of a dataset in TensorFlow's random order for the same seeds.

    Each element is swapped with the buffer's first one and taken from there, as in TensorFlow's ring buffer: a
    different way to fill the gap would give another order. TensorFlow splits the buffer into slices, one per epoch in
    it; here one iteration of the source is open, so there is a single slice.
    """

    def __init__(self, source: Dataset, buffer_size: int, seed: Any, new_each_time: bool) -> None:
        """Checks the size of the shuffle buffer; ``new_each_time`` gives each iteration a different order."""
        if buffer_size < 1 and buffer_size != UNKNOWN:
            raise InvalidArgumentError(
                None,
                "ShuffleDataset",
                f"buffer_size must be greater than zero or UNKNOWN_CARDINALITY. Got: {buffer_size}",
            )
        self.buffer_size = buffer_size
        self.seeds = SeedGenerator(None if seed is None else int_argument(seed), new_each_time)
        super().__init__(source, source.size)

    @started
    def handles(self) -> Iterator[Any]:
        """Yields the source's handles in random order: draws each from a buffer, which the source refills.

        As in TensorFlow, the drawn handle is swapped with the first one, which then leaves the buffer.
        """
        random_words = words(self.seeds.next_pair())
        yield
        source = self.source.handles()  # after the `yield`: TensorFlow starts the source with the first element, too
        buffer: deque[Any] = deque()
        while True:
            free_slots = None if self.buffer_size == UNKNOWN else self.buffer_size - len(buffer)
            buffer.extend(itertools.islice(source, free_slots))
            if not buffer:
                return
            drawn = next(random_words) % len(buffer)
            buffer[0], buffer[drawn] = buffer[drawn], buffer[0]
            yield buffer.popleft()


@method
def shuffle(
    self: Dataset,
    buffer_size: Any,
    seed: Any = None,
    reshuffle_each_iteration: bool | None = True,
    name: str | None = None,
) -> Dataset:
    """Returns the elements in random order, each drawn from a buffer of ``buffer_size`` elements.

    Args:
      buffer_size: at least 1; ``UNKNOWN_CARDINALITY`` buffers all elements.
      seed: with this or a global seed, the order is TensorFlow's for the same seeds.
      reshuffle_each_iteration: whether each iteration has a different order.

    Raises:
      InvalidArgumentError: ``buffer_size`` is not positive.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#shuffle
    """
    return Shuffle(self, int_argument(buffer_size), seed, reshuffle_each_iteration is not False)


def _common_size_of_batches(datasets: Iterable[Dataset]) -> int | None:
    """Returns the batch size that all datasets share, or None if their batch sizes differ."""
    sizes = {dataset.size_of_batches() for dataset in datasets}
    return sizes.pop() if len(sizes) == 1 else None


class Concatenate(Joining):
    """The elements of one dataset followed by those of another."""

    def __init__(self, first: Dataset, second: Dataset) -> None:
        """Concatenates two datasets; the element spec leaves those dims unknown in which the datasets differ."""
        self.inputs = first, second
        unknown = UNKNOWN if UNKNOWN in (first.size, second.size) else None
        endless = INFINITE if INFINITE in (first.size, second.size) else unknown
        size = first.size + second.size if endless is None else endless
        super().__init__(relaxed(first.element_spec, second.element_spec), size)

    @started
    def handles(self) -> Iterator[Any]:
        parts = self.iterations_of_inputs(elements_of)
        first = next(parts)
        yield
        yield from first
        for second in parts:
            yield from second

    def size_of_batches(self) -> int | None:
        return _common_size_of_batches(self.inputs)


@method
def concatenate(self: Dataset, dataset: Dataset, name: str | None = None) -> Dataset:
    """Appends the elements of ``dataset``.

    Raises:
      TypeError: the elements' structures or dtypes differ.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#concatenate
    """
    return Concatenate(self, dataset)


class Rows(Iterator[Any]):
    """The elements of several iterators side by side.

    As in TensorFlow, each step advances all of them, even if one fails or is at its end: after an error they are in step. A
    step ends with the first failure, and all steps with the end of an iterator.
    """

    def __init__(self, iterators: list[Iterator[Any]]) -> None:
        self._iterators = iterators

    def __next__(self) -> tuple[Any, ...]:
        """Returns the next element of each iterator as a tuple, or raises the first failure after advancing all."""
        row: list[Any] = []
        try:
            for iterator in self._iterators:
                row.append(next(iterator))
        except Exception as failure:
            failures = [failure, *_failures(self._iterators[len(row) + 1 :])]
            if any(isinstance(each, StopIteration) for each in failures):
                self._iterators = []  # at the end of one iterator, all end
            raise
        if not row:
            raise StopIteration
        return tuple(row)


def _failures(iterators: Iterable[Iterator[Any]]) -> Iterator[Exception]:
    """Takes an element of each iterator, and yields why there is none."""
    for iterator in iterators:
        try:
            next(iterator)
        except Exception as failure:
            yield failure


class Zip(Joining):
    """The elements of several datasets side by side, in the nested structure of ``datasets``."""

    def __init__(self, datasets: Any) -> None:
        """Zips the datasets in a nest of tuples and dicts; the result ends with the shortest dataset."""
        self.datasets = datasets
        self.inputs = _flat(datasets)
        for dataset in self.inputs:
            if isinstance(dataset, list):
                raise TypeError(
                    "Invalid input to `zip`. Inputs are expected to be (nested) structures of `tf.data.Dataset` objects. "
                    "Python `list` is not supported and you should use `tuple` instead."
                )
            if not isinstance(dataset, Dataset):
                raise TypeError(
                    "Invalid input to `zip`. Inputs are expected to be (nested) structures of `tf.data.Dataset` objects but "
                    f"encountered object of type {type(dataset)}."
                )
        finite_sizes = [dataset.size for dataset in self.inputs if dataset.size != INFINITE]
        size = UNKNOWN if UNKNOWN in finite_sizes else min(finite_sizes, default=INFINITE)
        self.pack = nest.packer(_skeleton(datasets))
        specs = [dataset.element_spec for dataset in self.inputs]
        super().__init__(self.pack(iter(specs)), size)

    def size_of_batches(self) -> int | None:
        return _common_size_of_batches(self.inputs)

    def handles(self) -> Iterator[Any]:
        return Rows(list(self.iterations_of_inputs(handles_of)))

    def value(self, handle: Any) -> Element:
        return self.pack(iter([d.value(h) for d, h in zip(self.inputs, handle)]))

    def batch_value(self, handles: Sequence[Any]) -> Element:
        columns = zip(*handles)
        return self.pack(iter([d.batch_value(column) for d, column in zip(self.inputs, columns)]))


def _flat(datasets: Any) -> list[Any]:
    """Flattens a nest of tuples and dicts of datasets to a list.

    Dict entries come in the order of their sorted keys.
    """
    if isinstance(datasets, dict):
        children = [datasets[key] for key in sorted(datasets)]
    elif isinstance(datasets, tuple):
        children = list(datasets)
    else:
        return [datasets]
    flat: list[Any] = []
    for child in children:
        flat += _flat(child)
    return flat


def _skeleton(datasets: Any) -> Any:
    """Returns the nest of tuples and dicts with each dataset replaced by 0, and dict keys sorted."""
    if isinstance(datasets, dict):
        return {key: _skeleton(datasets[key]) for key in sorted(datasets)}
    return tuple(map(_skeleton, datasets)) if isinstance(datasets, tuple) else 0


@method
def enumerate_(self: Dataset, start: Any = 0, name: str | None = None) -> Dataset:
    """Pairs each element with its int64 index, counted from ``start``.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#enumerate
    """
    return Zip((Counter(int_argument(start), 1, int64), self))


class Counter(Dataset):
    """An infinite dataset of the numbers ``start``, ``start + step``, ``start + 2 * step``, ..."""

    repr_name = "_ScanDataset"

    def __init__(self, start: Any, step: Any, dtype: DType) -> None:
        self.start, self.step, self.dtype = start, step, dtype
        super().__init__(TensorSpec([], dtype), INFINITE)

    def handles(self) -> Iterator[Any]:
        return itertools.count(self.start, self.step)

    def value(self, handle: int) -> Element:
        return EagerTensor(np.array(handle, self.dtype.np))

    def batch_value(self, handles: Sequence[int]) -> Element:
        return EagerTensor(np.array(handles, self.dtype.np))


class Prefetch(ComputedElements):
    """A dataset whose next few elements a thread computes ahead of time."""

    def __init__(self, source: Dataset, buffer_size: int) -> None:
        """Checks the buffer size; AUTOTUNE (-1) buffers two elements, and 0 disables prefetching."""
        if buffer_size < -1:
            raise InvalidArgumentError(
                None,
                "PrefetchDataset",
                "buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning [Op:PrefetchDataset]",
            )
        self.source = source
        self.buffer_size = 2 if buffer_size == -1 else buffer_size
        super().__init__(source.element_spec, source.size)

    def size_of_batches(self) -> int | None:
        return self.source.size_of_batches()

    def handles(self) -> Iterator[Any]:
        elements = self.source.elements()
        return PrefetchingIterator(elements, self.buffer_size) if self.buffer_size and not debug.on else elements


@method
def prefetch(self: Dataset, buffer_size: Any, name: str | None = None) -> Dataset:
    """Computes up to ``buffer_size`` elements ahead of time in a thread.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#prefetch
    """
    return Prefetch(self, int_argument(buffer_size))


class Unique(Dataset):
    """The distinct elements of a dataset, in the order of their first occurrence."""

    def __init__(self, source: Dataset) -> None:
        """Checks that elements are single tensors of a dtype that TensorFlow's ``unique`` supports."""
        self.source = source
        for spec in nest.flatten(source.element_spec):
            if spec.dtype not in (int32, int64, string):
                raise TypeError(
                    f"`tf.data.Dataset.unique` does not support type {spec.dtype} -- only `tf.int32`, `tf.int64`, and "
                    "`tf.string` are supported."
                )
        if len(nest.flatten(source.element_spec)) != 1:
            raise ArgumentError("UniqueDataset only supports inputs with a single component.").for_op("UniqueDataset")
        super().__init__(source.element_spec, UNKNOWN)

    @started
    def handles(self) -> Iterator[Any]:
        """Yields each element that equals none before it; elements are equal if dtype, shape and content are."""
        source = self.source.elements()
        seen = set()
        yield
        for element in source:
            key = []
            for array in arrays(element):
                # An array of strings has dtype object. Its bytes are addresses, which differ for equal strings.
                content = tuple(array.ravel()) if array.dtype == object else array.tobytes()
                key.append((array.dtype.str, array.shape, content))
            if tuple(key) not in seen:
                seen.add(tuple(key))
                yield element


@method
def unique(self: Dataset, name: str | None = None) -> Dataset:
    """Returns each distinct element once.

    Raises:
      TypeError: elements are not int32, int64 or strings.
      InvalidArgumentError: an element has several components.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#unique
    """
    return Unique(self)
