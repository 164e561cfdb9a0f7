"""Elements put together and taken apart: batch, padded_batch, unbatch, window, groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.argument_error import ArgumentError
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import EagerTensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.data.argument_conversion import flag, number
from tvtf.data.base import UNKNOWN, Dataset, method, scaled
from tvtf.data.mapped import Traced
from tvtf.data.parallel import Workers, debug, warn_unused
from tvtf.data.sources import Tensors
from tvtf.data.specs import DatasetSpec
from tvtf.data.structure import Element, arrays, flat_shapes, packer, spec_of, tensors_of
from tvtf.dtypes import int64
from tvtf.errors import DataLossError, InvalidArgumentError
from tvtf.ir.batching import encoding, leading, rows, with_spec_fields, without_leading
from tvtf.ops.rules import bind


class Groups(Iterator[list[Any]]):
    """Items, ``size`` at a time; after a failure it goes on with the items behind."""

    def __init__(self, items: Iterator[Any], size: int, drop_remainder: bool) -> None:
        self.items, self.size, self.drop_remainder = items, size, drop_remainder

    def __next__(self) -> list[Any]:
        part = list(itertools.islice(self.items, self.size))
        if not part or (self.drop_remainder and len(part) < self.size):
            raise StopIteration
        return part


class Batch(Dataset):
    def __init__(self, source: Dataset, count: int, drop_remainder: bool) -> None:
        if count < 1:
            raise InvalidArgumentError(
                None, "BatchDataset", "Batch size must be greater than zero. [Op:BatchDatasetV2]"
            )
        self.source, self.count, self.drop_remainder = source, count, drop_remainder
        size = scaled(source.size, lambda n: n // count if drop_remainder else -(-n // count))
        super().__init__(self._spec(), size)

    def _spec(self) -> Any:
        return leading(self.source.element_spec, self.count if self.drop_remainder else None)

    def size_of_batches(self) -> int | None:
        return self.count

    def handles(self) -> Iterator[Any]:
        return Groups(self.source.handles(), self.count, self.drop_remainder)

    def value(self, handle: list[Any]) -> Element:
        found = self.source.batch_value(handle)
        return with_spec_fields(self.element_spec, found) if self.drop_remainder else found


class BatchesInTurn(Dataset):
    """Batches of several sizes, one after the other and again."""

    shown = "_RebatchDataset"

    def __init__(self, source: Dataset, counts: Sequence[int], drop_remainder: bool) -> None:
        self.source, self.counts, self.drop_remainder = source, counts, drop_remainder
        known = counts[0] if drop_remainder and len(set(counts)) == 1 else None
        super().__init__(leading(source.element_spec, known), UNKNOWN)

    def handles(self) -> Iterator[Any]:
        source = self.source.handles()
        for count in itertools.cycle(self.counts):
            group = list(itertools.islice(source, count))
            if not group or (self.drop_remainder and len(group) < count):
                return
            yield group

    def value(self, handle: list[Any]) -> Element:
        return self.source.batch_value(handle)


class ParallelBatch(Batch):
    def __init__(self, source: Dataset, count: int, drop_remainder: bool, workers: Workers) -> None:
        super().__init__(source, count, drop_remainder)
        self.workers = workers

    def handles(self) -> Iterator[Any]:
        return self.workers.results(super().value, super().handles())

    def value(self, handle: Any) -> Element:
        return handle


@method
def batch(
    self: Dataset,
    batch_size: Any,
    drop_remainder: bool = False,
    num_parallel_calls: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Dataset:
    """Stacks each ``batch_size`` elements; the last batch may be smaller, unless ``drop_remainder`` leaves it out.

    Args:
      num_parallel_calls, deterministic: how many batches are put together at once, and whether they keep their order; see
        ``map``.

    Raises:
      InvalidArgumentError: the size is not positive; or, when iterated, elements differ in shape.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#batch
    """
    if num_parallel_calls is None or debug.on:
        warn_unused(deterministic)
        return Batch(self, number(batch_size), flag(drop_remainder))
    workers = Workers(num_parallel_calls, deterministic, "ParallelBatchDataset")
    return ParallelBatch(self, number(batch_size), flag(drop_remainder), workers)


class PaddedBatch(Batch):
    def __init__(self, source: Dataset, count: int, shapes: Any, values: Any, drop_remainder: bool) -> None:
        flat = nest.flatten(source.element_spec)
        for spec in flat:
            if not isinstance(spec, TensorSpec):
                raise TypeError(
                    "`padded_batch` is only supported for datasets that produce tensor elements but type spec of elements "
                    f"in the input dataset is not a subclass of TensorSpec: `{spec}`."
                )
        self.shapes = [s.shape for s in flat] if shapes is None else flat_shapes(source.element_spec, shapes)
        for spec, shape in zip(flat, self.shapes):
            if shape.rank is None or not spec.shape.is_compatible_with(TensorShape([None] * shape.rank)):
                raise ValueError(
                    f"The padded shape {shape} is not compatible with the shape {spec.shape} of the corresponding input "
                    "component."
                )
        self.values = [_padding(s, v) for s, v in zip(flat, _flat_values(source.element_spec, values))]
        super().__init__(source, count, drop_remainder)

    def _spec(self) -> Any:
        flat = [
            TensorSpec(shape, spec.dtype) for shape, spec in zip(self.shapes, nest.flatten(self.source.element_spec))
        ]
        own = nest.pack_sequence_as(self.source.element_spec, flat)
        return leading(own, self.count if self.drop_remainder else None)

    def value(self, handle: list[Any]) -> Element:
        elements = [self.source.value(h) for h in handle]
        columns = zip(*map(arrays, elements))
        padded = [_padded(column, shape, value) for column, shape, value in zip(columns, self.shapes, self.values)]
        return packer(self.source.element_spec)(padded)


def _flat_values(spec: Any, values: Any) -> list[Any]:
    count = len(nest.flatten(spec))
    return nest.flatten(values) if nest.is_nested(values) else [values] * count


def _padding(spec: Any, value: Any) -> np.ndarray:
    if value is None:
        return np.array(b"" if spec.dtype.name == "string" else 0, spec.dtype.np)
    tensor = convert_to_tensor(value)
    if tensor.dtype is not spec.dtype:
        raise TypeError(
            f"Invalid `padding_values`. `padding_values` values type {tensor.dtype} "
            f"does not match type {spec.dtype} of the corresponding input component."
        )
    return np.asarray(value, spec.dtype.np)


def _padded(column: Sequence[np.ndarray], shape: TensorShape, value: np.ndarray) -> np.ndarray:
    largest = [max(sizes) for sizes in zip(*(a.shape for a in column))]
    dims = [own if own is not None else widest for own, widest in zip(shape, largest)]
    made = np.full((len(column), *dims), value, column[0].dtype)
    for i, array in enumerate(column):
        if any(n > m for n, m in zip(array.shape, dims)):
            raise DataLossError(
                None,
                "IteratorGetNext",
                f"Attempted to pad to a smaller size than the input element: {list(array.shape)} to {dims}",
            )
        place: Any = (i, *(slice(n) for n in array.shape))
        made[place] = array
    return made


@method
def padded_batch(
    self: Dataset,
    batch_size: Any,
    padded_shapes: Any = None,
    padding_values: Any = None,
    drop_remainder: bool = False,
    name: str | None = None,
) -> Dataset:
    """Batches of elements padded to a common shape.

    Args:
      padded_shapes: in the form of an element; unknown dims become those of the batch's largest element.
      padding_values: zeros, or empty strings, by default.

    Raises:
      ValueError: a rank is not the element's.
      DataLossError: when iterated, an element is larger than its padded shape.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#padded_batch
    """
    return PaddedBatch(self, number(batch_size), padded_shapes, padding_values, flag(drop_remainder))


class Unbatch(Dataset):
    def __init__(self, source: Dataset) -> None:
        self.source = source
        if any(s.shape.rank == 0 for s in encoding(source.element_spec)):
            raise ValueError("Cannot unbatch an input with scalar components.")
        sizes = {s.shape.as_list()[0] if s.shape.rank else None for s in encoding(source.element_spec)}
        known = sizes.pop() if len(sizes) == 1 else None
        super().__init__(
            without_leading(source.element_spec), UNKNOWN if known is None else scaled(source.size, lambda n: n * known)
        )

    def handles(self) -> Iterator[Any]:
        return (row for element in self.source.elements() for row in rows(element, self.source.element_spec))


@method
def unbatch(self: Dataset, name: str | None = None) -> Dataset:
    """The rows of the elements.

    Raises:
      ValueError: an element is a scalar.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#unbatch
    """
    return Unbatch(self)


class Rows(Unbatch):
    """The rows of one element, of composite tensors too."""

    shown = "_TensorSliceDataset"

    def __init__(self, whole: Element) -> None:
        super().__init__(Tensors(whole))
        self.size = len(list(self.handles()))


class Given(Dataset):
    """Elements that are there already."""

    shown = "_VariantDataset"

    def __init__(self, elements: Sequence[Element], spec: Any) -> None:
        self.given = elements
        super().__init__(spec, len(elements))

    def handles(self) -> Iterator[Any]:
        return iter(self.given)


class Window(Dataset):
    def __init__(self, source: Dataset, size: int, shift: int, stride: int, drop_remainder: bool) -> None:
        for what, count in (("size", size), ("shift", shift), ("stride", stride)):
            if count < 1:
                raise ArgumentError(f"Window {what} must be greater than zero.").told_by("WindowDataset")
        self.source, self.length, self.shift, self.stride, self.drop = source, size, shift, stride, drop_remainder
        spec = nest.map_structure(DatasetSpec, source.element_spec)
        reach = (size - 1) * stride + 1 if drop_remainder else 1
        super().__init__(spec, scaled(source.size, lambda n: max(0, -(-(n - reach + 1) // shift))))

    def handles(self) -> Iterator[Any]:
        source, kept = self.source.elements(), list[Element]()
        reach = (self.length - 1) * self.stride + 1
        while True:
            kept += itertools.islice(source, max(reach - len(kept), 0))
            chosen = kept[: reach : self.stride]
            if not chosen or (self.drop and len(chosen) < self.length):
                return
            yield self._window(chosen)
            missing = self.shift - len(kept)
            kept = kept[self.shift :]
            if missing > 0:
                next(itertools.islice(source, missing, missing), None)

    def _window(self, chosen: list[Element]) -> Any:
        spec = self.source.element_spec
        if type(spec) is TensorSpec:
            return Given(chosen, spec)
        columns = [Given(list(column), s) for column, s in zip(zip(*map(nest.flatten, chosen)), nest.flatten(spec))]
        return nest.pack_sequence_as(spec, columns)


@method
def window(
    self: Dataset, size: Any, shift: Any = None, stride: Any = 1, drop_remainder: bool = False, name: str | None = None
) -> Dataset:
    """Datasets of ``size`` elements ``stride`` apart, each window ``shift`` elements after the one before.

    Raises:
      InvalidArgumentError: one of the numbers is not positive.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#window
    """
    length = number(size)
    return Window(self, length, length if shift is None else number(shift), number(stride), flag(drop_remainder))


class GroupByWindow(Dataset):
    def __init__(
        self, source: Dataset, key: Callable[..., Any], reduce: Callable[..., Any], size: Callable[[int], int]
    ) -> None:
        self.source, self.reduce, self.length = source, reduce, size
        self.key = Traced(key, source)
        if self.key.spec != TensorSpec([], int64):
            raise ValueError(
                f"Invalid `key_func`. `key_func` must return a single `tf.int64` scalar tensor but its return type is "
                f"{self.key.spec}."
            )
        probe = reduce(EagerTensor(np.array(0, np.int64)), Given([], source.element_spec))
        if not isinstance(probe, Dataset):
            raise TypeError(
                "Invalid `reduce_func`. `reduce_func` must return a single `tf.data.Dataset` object but its return type is "
                f"{spec_of(tensors_of(probe))}."
            )
        super().__init__(probe.element_spec, UNKNOWN)

    def handles(self) -> Iterator[Any]:
        waiting: dict[int, list[Element]] = {}
        for element in self.source.elements():
            key = int(self.key(element).numpy())
            group = waiting.setdefault(key, [])
            group.append(element)
            if len(group) == self.length(key):
                yield from self._reduced(key, waiting.pop(key))
        for key in sorted(waiting):
            yield from self._reduced(key, waiting[key])

    def _reduced(self, key: int, group: list[Element]) -> Iterator[Element]:
        made: Dataset = self.reduce(EagerTensor(np.array(key, np.int64)), Given(group, self.source.element_spec))
        return made.elements()


@method
def group_by_window(
    self: Dataset,
    key_func: Callable[..., Any],
    reduce_func: Callable[..., Any],
    window_size: Any = None,
    window_size_func: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Dataset:
    """Groups elements by an int64 key; each full group becomes what ``reduce_func(key, dataset)`` makes of it.

    Args:
      window_size, window_size_func: elements in a group, the same for all or by key; one of the two.

    Raises:
      ValueError: both or none of them are given.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#group_by_window
    """
    if (window_size is None) == (window_size_func is None):
        raise ValueError("Either the `window_size` argument or the `window_size_func` argument must be specified.")
    return GroupByWindow(self, key_func, reduce_func, _window_size(window_size, window_size_func))


def _window_size(fixed: Any, by_key: Callable[..., Any] | None) -> Callable[[int], int]:
    if by_key is None:
        size = number(fixed)
        return lambda key: size
    return lambda key: number(by_key(key))


@method
def bucket_by_sequence_length(
    self: Dataset,
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
    name: str | None = None,
) -> Dataset:
    """Batches elements of similar length together, padded; one batch size for each bucket.

    Raises:
      ValueError: there is not one batch size more than boundaries.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#bucket_by_sequence_length
    """
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError(
            "`len(bucket_batch_sizes)` must equal `len(bucket_boundaries) + 1` but "
            f"`len(bucket_batch_sizes)={len(bucket_batch_sizes)}` and `len(bucket_boundaries)={len(bucket_boundaries)}`."
        )
    boundaries = np.asarray(bucket_boundaries, np.int64)

    def bucket_of(*element: Any) -> Any:
        length = convert_to_tensor(element_length_func(*element))
        below = bind.less_equal(convert_to_tensor(boundaries.astype(length.dtype.np)), length)
        return bind.reduce_sum(bind.cast(below, dtype=int64), axis=(0,), keepdims=False)

    def together(key: Any, group: Dataset) -> Dataset:
        size = bucket_batch_sizes[int(key.numpy())]
        if no_padding:
            return Batch(group, size, drop_remainder)
        return PaddedBatch(group, size, _shapes(int(key.numpy())), padding_values, drop_remainder)

    def _shapes(key: int) -> Any:
        if not pad_to_bucket_boundary:
            return padded_shapes
        if key == len(boundaries):
            raise ValueError("When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries).")
        filled = [
            TensorShape([boundaries[key] - 1 if d is None else d for d in s.shape])
            for s in nest.flatten(self.element_spec)
        ]
        return nest.pack_sequence_as(self.element_spec, filled)

    sizes = list(bucket_batch_sizes)
    return GroupByWindow(self, bucket_of, together, lambda key: sizes[key])
