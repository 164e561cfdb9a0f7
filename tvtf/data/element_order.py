"""Which elements come, and in what order: take, skip, repeat, shuffle, zip, interleave ..."""

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
from tvtf.data.argument_conversion import number
from tvtf.data.base import INFINITE, UNKNOWN, Dataset, Through, method, scaled
from tvtf.data.parallel import Ahead, Ready, debug
from tvtf.data.random import SeedGenerator, words
from tvtf.data.structure import Element, arrays, relaxed
from tvtf.dtypes import DType, int32, int64, string
from tvtf.errors import InvalidArgumentError


class Take(Through):
    def __init__(self, source: Dataset, count: int) -> None:
        self.count = count
        endless = count if source.size == INFINITE and count >= 0 else source.size
        super().__init__(source, scaled(endless, lambda n: n if count < 0 else min(n, count)))

    def handles(self) -> Iterator[Any]:
        return self.source.handles() if self.count < 0 else itertools.islice(self.source.handles(), self.count)


@method
def take(self: Dataset, count: Any, name: str | None = None) -> Dataset:
    """The first ``count`` elements; all where it is -1.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#take
    """
    return Take(self, number(count))


class Skip(Through):
    def __init__(self, source: Dataset, count: int) -> None:
        self.count = count
        super().__init__(source, 0 if count < 0 else scaled(source.size, lambda n: max(n - count, 0)))

    def handles(self) -> Iterator[Any]:
        return iter(()) if self.count < 0 else itertools.islice(self.source.handles(), self.count, None)


@method
def skip(self: Dataset, count: Any, name: str | None = None) -> Dataset:
    """All but the first ``count`` elements; none where it is -1.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#skip
    """
    return Skip(self, number(count))


class Shard(Through):
    def __init__(self, source: Dataset, count: int, index: int) -> None:
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
        super().__init__(source, scaled(source.size, lambda n: len(range(index, n, count))))

    def handles(self) -> Iterator[Any]:
        return itertools.islice(self.source.handles(), self.index, None, self.count)


@method
def shard(self: Dataset, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
    """Every ``num_shards``-th element from the one at ``index`` on.

    Raises:
      InvalidArgumentError: no shards, or no such index.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#shard
    """
    return Shard(self, number(num_shards), number(index))


class Repeat(Through):
    def __init__(self, source: Dataset, count: int) -> None:
        self.count = count
        endless = INFINITE if source.size else 0
        super().__init__(source, endless if count < 0 else scaled(source.size, lambda n: n * count))
        if count == 0:
            self.size = 0

    def handles(self) -> Iterator[Any]:
        for _ in itertools.count() if self.count < 0 else range(self.count):
            empty = True
            for handle in self.source.handles():
                empty = False
                yield handle
            if empty and self.count < 0:
                return


@method
def repeat(self: Dataset, count: Any = None, name: str | None = None) -> Dataset:
    """The elements ``count`` times over; without end where it is None or -1.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#repeat
    """
    return Repeat(self, -1 if count is None else number(count))


class Shuffle(Through):
    """``slices`` are the stretches of the ring buffer; only one source is open, so there is one."""

    def __init__(self, source: Dataset, buffer_size: int, seed: Any, new_each_time: bool) -> None:
        if buffer_size < 1 and buffer_size != UNKNOWN:
            raise InvalidArgumentError(
                None,
                "ShuffleDataset",
                f"buffer_size must be greater than zero or UNKNOWN_CARDINALITY. Got: {buffer_size}",
            )
        self.buffer_size = buffer_size
        self.seeds = SeedGenerator(None if seed is None else number(seed), new_each_time)
        super().__init__(source, source.size)

    def handles(self) -> Iterator[Any]:
        random = words(self.seeds.next_pair())
        source = self.source.handles()
        buffer: deque[Any] = deque()
        while True:
            wanted = None if self.buffer_size == UNKNOWN else self.buffer_size - len(buffer)
            buffer.extend(itertools.islice(source, wanted))
            if not buffer:
                return
            chosen = next(random) % len(buffer)
            buffer[0], buffer[chosen] = buffer[chosen], buffer[0]
            yield buffer.popleft()


@method
def shuffle(
    self: Dataset,
    buffer_size: Any,
    seed: Any = None,
    reshuffle_each_iteration: bool | None = True,
    name: str | None = None,
) -> Dataset:
    """Elements in random order: each is drawn from a buffer of ``buffer_size``.

    Args:
      buffer_size: at least 1; ``UNKNOWN_CARDINALITY`` for all elements.
      seed: with it, or a global seed, the order is TensorFlow's for the same seeds.
      reshuffle_each_iteration: whether each iteration has an order of its own.

    Raises:
      InvalidArgumentError: the buffer holds nothing.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#shuffle
    """
    return Shuffle(self, number(buffer_size), seed, reshuffle_each_iteration is not False)


def _common_size_of_batches(datasets: Iterable[Dataset]) -> int | None:
    sizes = {dataset.size_of_batches() for dataset in datasets}
    return sizes.pop() if len(sizes) == 1 else None


class Concatenate(Dataset):
    def __init__(self, first: Dataset, second: Dataset) -> None:
        self.parts = first, second
        unknown = UNKNOWN if UNKNOWN in (first.size, second.size) else None
        endless = INFINITE if INFINITE in (first.size, second.size) else unknown
        size = first.size + second.size if endless is None else endless
        super().__init__(relaxed(first.element_spec, second.element_spec), size)

    def handles(self) -> Iterator[Any]:
        return itertools.chain(*(part.elements() for part in self.parts))

    def size_of_batches(self) -> int | None:
        return _common_size_of_batches(self.parts)


@method
def concatenate(self: Dataset, dataset: Dataset, name: str | None = None) -> Dataset:
    """These elements, then those of ``dataset``.

    Raises:
      TypeError: their forms or dtypes differ.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#concatenate
    """
    return Concatenate(self, dataset)


class Zip(Dataset):
    def __init__(self, datasets: Any) -> None:
        self.datasets = datasets
        self.flat = _flat(datasets)
        for each in self.flat:
            if isinstance(each, list):
                raise TypeError(
                    "Invalid input to `zip`. Inputs are expected to be (nested) structures of `tf.data.Dataset` objects. "
                    "Python `list` is not supported and you should use `tuple` instead."
                )
            if not isinstance(each, Dataset):
                raise TypeError(
                    "Invalid input to `zip`. Inputs are expected to be (nested) structures of `tf.data.Dataset` objects but "
                    f"encountered object of type {type(each)}."
                )
        finite = [d.size for d in self.flat if d.size != INFINITE]
        size = UNKNOWN if UNKNOWN in finite else min(finite, default=INFINITE)
        self.pack = nest.packer(_places(datasets))
        super().__init__(self.pack(iter([d.element_spec for d in self.flat])), size)

    def size_of_batches(self) -> int | None:
        return _common_size_of_batches(self.flat)

    def handles(self) -> Iterator[Any]:
        return zip(*(d.handles() for d in self.flat))

    def value(self, handle: Any) -> Element:
        return self.pack(iter([d.value(h) for d, h in zip(self.flat, handle)]))

    def batch_value(self, handles: Sequence[Any]) -> Element:
        columns = zip(*handles)
        return self.pack(iter([d.batch_value(column) for d, column in zip(self.flat, columns)]))


def _flat(datasets: Any) -> list[Any]:
    if isinstance(datasets, dict):
        return [d for key in sorted(datasets) for d in _flat(datasets[key])]
    return [d for each in datasets for d in _flat(each)] if isinstance(datasets, tuple) else [datasets]


def _places(datasets: Any) -> Any:
    """Zeros in the form of nested tuples and dicts of datasets, with sorted keys."""
    if isinstance(datasets, dict):
        return {key: _places(datasets[key]) for key in sorted(datasets)}
    return tuple(map(_places, datasets)) if isinstance(datasets, tuple) else 0


@method
def enumerate_(self: Dataset, start: Any = 0, name: str | None = None) -> Dataset:
    """Pairs of an int64 number, from ``start`` on, and an element.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#enumerate
    """
    return Zip((Counter(number(start), 1, int64), self))


class Counter(Dataset):
    shown = "_ScanDataset"

    def __init__(self, start: Any, step: Any, dtype: DType) -> None:
        self.start, self.step, self.dtype = start, step, dtype
        super().__init__(TensorSpec([], dtype), INFINITE)

    def handles(self) -> Iterator[Any]:
        return itertools.count(self.start, self.step)

    def value(self, handle: int) -> Element:
        return EagerTensor(np.array(handle, self.dtype.np))

    def batch_value(self, handles: Sequence[int]) -> Element:
        return EagerTensor(np.array(handles, self.dtype.np))


class Prefetch(Ready):
    """A thread works ahead by a few elements."""

    def __init__(self, source: Dataset, buffer_size: int) -> None:
        if buffer_size < -1:
            raise InvalidArgumentError(
                None,
                "PrefetchDataset",
                "buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning [Op:PrefetchDataset]",
            )
        self.source, self.buffer_size = source, 2 if buffer_size == -1 else buffer_size
        super().__init__(source.element_spec, source.size)

    def size_of_batches(self) -> int | None:
        return self.source.size_of_batches()

    def handles(self) -> Iterator[Any]:
        elements = self.source.elements()
        return Ahead(elements, self.buffer_size) if self.buffer_size and not debug.on else elements


@method
def prefetch(self: Dataset, buffer_size: Any, name: str | None = None) -> Dataset:
    """A thread prepares up to ``buffer_size`` elements ahead.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#prefetch
    """
    return Prefetch(self, number(buffer_size))


class Unique(Dataset):
    def __init__(self, source: Dataset) -> None:
        self.source = source
        for spec in nest.flatten(source.element_spec):
            if spec.dtype not in (int32, int64, string):
                raise TypeError(
                    f"`tf.data.Dataset.unique` does not support type {spec.dtype} -- only `tf.int32`, `tf.int64`, and "
                    "`tf.string` are supported."
                )
        if len(nest.flatten(source.element_spec)) != 1:
            raise ArgumentError("UniqueDataset only supports inputs with a single component.").told_by("UniqueDataset")
        super().__init__(source.element_spec, UNKNOWN)

    def handles(self) -> Iterator[Any]:
        seen = set()
        for element in self.source.elements():
            key = tuple(
                (a.dtype.str, a.shape, a.tobytes() if a.dtype != object else tuple(a.ravel())) for a in arrays(element)
            )
            if key not in seen:
                seen.add(key)
                yield element


@method
def unique(self: Dataset, name: str | None = None) -> Dataset:
    """Each element once.

    Raises:
      TypeError: elements are no int32, int64 or strings.
      InvalidArgumentError: they have several parts.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#unique
    """
    return Unique(self)
