"""Combines elements and splits them: batch, padded_batch, unbatch, window, group_by_window, bucket_by_sequence_length."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.argument_error import ArgumentError
from tvtf.core.integers import ceil_div
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import EagerTensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.data.argument_conversion import bool_argument, int_argument
from tvtf.data.base import UNKNOWN, Dataset, Joined, map_known_size, method, started
from tvtf.data.mapped import DatasetFunction, Traced
from tvtf.data.parallel import Workers, debug, warn_unused
from tvtf.data.sources import ElementList, Tensors, common_size
from tvtf.data.specs import DatasetSpec
from tvtf.data.structure import Element, arrays, flat_shapes, packer, spec_of, tensors_of
from tvtf.dtypes import int64
from tvtf.errors import DataLossError, InvalidArgumentError
from tvtf.ir.batching import encoding, leading, rows, with_spec_fields, without_leading
from tvtf.ops.rules import bind
from tvtf.state.random_streams import trying


class Groups(Iterator[list[Any]]):
    """Groups items into lists of ``size`` items; after an error, the next list starts with the following items."""

    def __init__(self, items: Iterator[Any], size: int, drop_remainder: bool) -> None:
        self.items, self.size, self.drop_remainder = items, size, drop_remainder

    def __next__(self) -> list[Any]:
        group = list(itertools.islice(self.items, self.size))
        if not group or (self.drop_remainder and len(group) < self.size):
            raise StopIteration
        return group


class Batch(Dataset):
    """Stacked batches of ``count`` elements."""

    def __init__(self, source: Dataset, count: int, drop_remainder: bool) -> None:
        """Checks the batch size ``count``, and computes the number of batches."""
        if count < 1:
            raise InvalidArgumentError(
                None, "BatchDataset", "Batch size must be greater than zero. [Op:BatchDatasetV2]"
            )
        self.source, self.count, self.drop_remainder = source, count, drop_remainder

        def batch_count(element_count: int) -> int:
            return element_count // count if drop_remainder else ceil_div(element_count, count)

        super().__init__(self._spec(), map_known_size(source.size, batch_count))

    def _spec(self) -> Any:
        # Only without a smaller last batch is the leading dim static.
        return leading(self.source.element_spec, self.count if self.drop_remainder else None)

    def size_of_batches(self) -> int | None:
        return self.count

    def handles(self) -> Iterator[Any]:
        return Groups(self.source.handles(), self.count, self.drop_remainder)

    def value(self, handle: list[Any]) -> Element:
        stacked_batch = self.source.batch_value(handle)
        return with_spec_fields(self.element_spec, stacked_batch) if self.drop_remainder else stacked_batch


class CyclingBatches(Dataset):
    """Batches whose sizes cycle through ``counts``."""

    repr_name = "_RebatchDataset"

    def __init__(
        self, source: Dataset, counts: Sequence[int], drop_remainder: bool, row_counts: Collection[int]
    ) -> None:
        """Groups rows into batches, and computes their element spec.

        Args:
          source: a dataset of the rows, which were in batches before.
          counts: the sizes of the new batches, in turn.
          drop_remainder: whether to leave out a last batch that is smaller.
          row_counts: the static first dims of the old batches' tensors.
        """
        if any(count < 1 for count in counts):
            raise ArgumentError("Batch size must be greater than zero.").for_op("RebatchDatasetV2")
        self.source, self.counts, self.drop_remainder = source, counts, drop_remainder
        # A smaller last batch or different sizes make the first dim unknown.
        fills_batches = drop_remainder or (
            bool(row_counts) and all(row_count % counts[0] == 0 for row_count in row_counts)
        )
        has_one_size = len(set(counts)) == 1
        static_size = counts[0] if fills_batches and has_one_size else None
        super().__init__(leading(source.element_spec, static_size), UNKNOWN)

    @started
    def handles(self) -> Iterator[Any]:
        """Yields lists of handles, one list for each batch; the sizes of the lists cycle through ``counts``."""
        source = self.source.handles()
        yield
        for count in itertools.cycle(self.counts):
            group = list(itertools.islice(source, count))
            if not group or (self.drop_remainder and len(group) < count):
                return
            yield group

    def value(self, handle: list[Any]) -> Element:
        return self.source.batch_value(handle)


class ParallelBatch(Batch):
    """Batches that several threads stack at the same time."""

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
    """Stacks each ``batch_size`` consecutive elements into a batch.

    Args:
      drop_remainder: whether to leave out a last batch of fewer elements.
      num_parallel_calls: the number of threads that stack batches; see ``map``.
      deterministic: whether batches keep their order; see ``map``.

    Raises:
      InvalidArgumentError: ``batch_size`` is not positive; or, during iteration, the shapes of elements differ.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#batch
    """
    if num_parallel_calls is None or debug.on:
        warn_unused(deterministic)
        return Batch(self, int_argument(batch_size), bool_argument(drop_remainder))
    workers = Workers(num_parallel_calls, deterministic, "ParallelBatchDataset")
    return ParallelBatch(self, int_argument(batch_size), bool_argument(drop_remainder), workers)


class PaddedBatch(Batch):
    """Batches of elements padded to a common shape."""

    def __init__(self, source: Dataset, count: int, shapes: Any, values: Any, drop_remainder: bool) -> None:
        """Checks the padded shapes and the padding values against the element spec of ``source``."""
        specs = nest.flatten(source.element_spec)
        for spec in specs:
            if not isinstance(spec, TensorSpec):
                raise TypeError(
                    "`padded_batch` is only supported for datasets that produce tensor elements but type spec of elements "
                    f"in the input dataset is not a subclass of TensorSpec: `{spec}`."
                )
        if shapes is None:
            self.shapes = [spec.shape for spec in specs]
        else:
            self.shapes = flat_shapes(source.element_spec, shapes)
        for spec, shape in zip(specs, self.shapes):
            if shape.rank is None or not spec.shape.is_compatible_with(TensorShape([None] * shape.rank)):
                raise ValueError(
                    f"The padded shape {shape} is not compatible with the shape {spec.shape} of the corresponding input "
                    "component."
                )
        self.values = list(map(_padding, specs, _flat_values(source.element_spec, values)))
        super().__init__(source, count, drop_remainder)

    def _spec(self) -> Any:
        """Returns the spec of padded batches."""
        flat = [
            TensorSpec(shape, spec.dtype) for shape, spec in zip(self.shapes, nest.flatten(self.source.element_spec))
        ]
        padded_spec = nest.pack_sequence_as(self.source.element_spec, flat)
        return leading(padded_spec, self.count if self.drop_remainder else None)

    def value(self, handle: list[Any]) -> Element:
        """Pads the elements of a batch, given by their handles, and stacks each component."""
        elements = [self.source.value(each) for each in handle]
        columns = zip(*map(arrays, elements))
        padded = [_padded(column, shape, value) for column, shape, value in zip(columns, self.shapes, self.values)]
        return packer(self.source.element_spec)(padded)


def _flat_values(spec: Any, values: Any) -> list[Any]:
    """Flattens nested padding values; a single value serves all components of ``spec``."""
    count = len(nest.flatten(spec))
    return nest.flatten(values) if nest.is_nested(values) else [values] * count


def _padding(spec: Any, value: Any) -> np.ndarray:
    """Converts the padding value of a component to an array of the component's dtype.

    None stands for the default, zero or an empty string. Raises TypeError if the value has another dtype.
    """
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
    """Pads the arrays of a batch to a common shape, and stacks them.

    An unknown dim of ``shape`` becomes the largest size in the batch. Raises DataLossError if an array is larger.
    """
    dims = []
    sizes_of_axes = zip(*(array.shape for array in column))
    for requested, sizes in zip(shape, sizes_of_axes):
        dims.append(max(sizes) if requested is None else requested)
    batch = np.full((len(column), *dims), value, column[0].dtype)
    for i, array in enumerate(column):
        if any(size > dim for size, dim in zip(array.shape, dims)):
            raise DataLossError(
                None,
                "IteratorGetNext",
                f"Attempted to pad to a smaller size than the input element: {list(array.shape)} to {dims}",
            )
        index: Any = (i, *map(slice, array.shape))  # batch[i, :rows, :columns] for a matrix
        batch[index] = array if array.ndim else array.item()  # an array among objects would stay an array
    return batch


@method
def padded_batch(
    self: Dataset,
    batch_size: Any,
    padded_shapes: Any = None,
    padding_values: Any = None,
    drop_remainder: bool = False,
    name: str | None = None,
) -> Dataset:
    """Pads elements to a common shape, and stacks each ``batch_size`` consecutive elements into a batch.

    Args:
      padded_shapes: the shape of each component, in the structure of an element. An unknown dim becomes the largest size
        in the batch.
      padding_values: the values to pad with; zeros or empty strings by default.
      drop_remainder: whether to leave out a last batch of fewer elements.

    Raises:
      ValueError: the rank of a padded shape differs from the element's.
      DataLossError: during iteration, an element is larger than its padded shape.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#padded_batch
    """
    return PaddedBatch(self, int_argument(batch_size), padded_shapes, padding_values, bool_argument(drop_remainder))


class Unbatch(Dataset):
    """The rows of a dataset's elements, as elements of their own."""

    def __init__(self, source: Dataset) -> None:
        """Checks that no component is a scalar, and computes the number of rows if it is static."""
        self.source = source
        shapes = [spec.shape for spec in encoding(source.element_spec)]
        if any(shape.rank == 0 for shape in shapes):
            raise ValueError("Cannot unbatch an input with scalar components.")
        row_counts = {shape.as_list()[0] if shape.rank else None for shape in shapes}
        row_count = row_counts.pop() if len(row_counts) == 1 else None  # of each batch, if all agree
        size = UNKNOWN
        if row_count is not None:
            size = map_known_size(source.size, lambda element_count: element_count * row_count)
        super().__init__(without_leading(source.element_spec), size)

    def handles(self) -> Iterator[Any]:
        return Joined(map(self._rows, self.source.elements()))

    def _rows(self, element: Element) -> Iterator[Element]:
        return iter(rows(element, self.source.element_spec))


@method
def unbatch(self: Dataset, name: str | None = None) -> Dataset:
    """Splits each element along the first dimension; each row becomes an element.

    Raises:
      ValueError: an element has a scalar component.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#unbatch
    """
    return Unbatch(self)


class Rows(Unbatch):
    """The rows of one element, which may hold composite tensors."""

    repr_name = "_TensorSliceDataset"

    def __init__(self, element: Element) -> None:
        super().__init__(Tensors(element))
        specs, leaves = self.source.element_spec, nest.flatten(element)
        self.size = common_size([len(list(rows(leaf, spec))) for leaf, spec in zip(leaves, nest.flatten(specs))])


class Window(Dataset):
    """Windows over a dataset's elements; each window is a dataset.

    With several components a window is a nest of datasets, one for each component.
    """

    def __init__(self, source: Dataset, size: int, shift: int, stride: int, drop_remainder: bool) -> None:
        """Checks the sizes, which must be positive, and computes the number of windows."""
        for name, argument in (("size", size), ("shift", shift), ("stride", stride)):
            if argument < 1:
                raise ArgumentError(f"Window {name} must be greater than zero.").for_op("WindowDataset")
        self.source, self.length, self.shift, self.stride, self.drop = source, size, shift, stride, drop_remainder
        # The number of source elements that a window needs: all up to its last one, or only its first.
        needed = (size - 1) * stride + 1 if drop_remainder else 1

        def window_count(element_count: int) -> int:
            return max(0, ceil_div(element_count - needed + 1, shift))

        spec = nest.map_structure(DatasetSpec, source.element_spec)
        super().__init__(spec, map_known_size(source.size, window_count))

    @started
    def handles(self) -> Iterator[Any]:
        """Yields windows of ``length`` elements.

        For example, length 2, shift 3, stride 2 on 0..9 give (0, 2), (3, 5) ... ``stride`` is the distance between a
        window's elements. ``shift`` is the distance between the starts of windows.
        """
        source = self.source.elements()
        buffered: list[Element] = []
        yield
        span = (self.length - 1) * self.stride + 1  # from a window's first element to its last
        while True:
            buffered += itertools.islice(source, max(span - len(buffered), 0))
            window = buffered[: span : self.stride]
            if not window or (self.drop and len(window) < self.length):
                return
            yield self._window(window)
            # With shift > span, elements between two windows have not been read yet and are skipped.
            unread = self.shift - len(buffered)
            buffered = buffered[self.shift :]
            if unread > 0:
                _skip(source, unread)

    def _window(self, elements: list[Element]) -> Any:
        """Returns a window as a dataset; if elements have several components, as a nest with a dataset for each."""
        spec = self.source.element_spec
        if type(spec) is TensorSpec:
            return ElementList(elements, spec)
        component_specs = nest.flatten(spec)
        components = zip(*map(nest.flatten, elements))  # of all elements, a tuple per component
        datasets = [
            ElementList(list(component), component_spec)
            for component, component_spec in zip(components, component_specs)
        ]
        return nest.pack_sequence_as(spec, datasets)


def _skip(iterator: Iterator[Any], count: int) -> None:
    """Advances an iterator by up to ``count`` items."""
    for _ in itertools.islice(iterator, count):
        pass


@method
def window(
    self: Dataset, size: Any, shift: Any = None, stride: Any = 1, drop_remainder: bool = False, name: str | None = None
) -> Dataset:
    """Returns datasets of ``size`` elements ``stride`` apart.

    Each window starts ``shift`` elements after the previous one; ``size`` elements if None.

    Raises:
      InvalidArgumentError: ``size``, ``shift`` or ``stride`` is not positive.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#window
    """
    length = int_argument(size)
    distance = length if shift is None else int_argument(shift)
    return Window(self, length, distance, int_argument(stride), bool_argument(drop_remainder))


class GroupByWindow(Dataset):
    """The elements of the datasets that ``reduce`` returns for groups of elements with equal keys."""

    def __init__(
        self,
        source: Dataset,
        key: Callable[..., Any],
        reduce: Callable[..., Any],
        size: Callable[[int], int],
        element_spec: Any = None,
    ) -> None:
        """Checks the results of ``key`` and ``reduce``; ``size`` returns the group size for a key.

        ``element_spec`` is the spec of the elements of all datasets that ``reduce`` returns, if it is known.
        """
        self.source = source
        self.reduction = DatasetFunction(reduce)
        self.length = size
        self.key = Traced(key, source)
        if self.key.spec != TensorSpec([], int64):
            raise ValueError(
                f"Invalid `key_func`. `key_func` must return a single `tf.int64` scalar tensor but its return type is "
                f"{self.key.spec}."
            )
        super().__init__(self._spec_of_reduced() if element_spec is None else element_spec, UNKNOWN)

    def _spec_of_reduced(self) -> Any:
        """Returns the element spec of the datasets that ``reduce`` returns, from a trace, or from a call on an empty group."""
        key_spec = TensorSpec([], int64)
        group_spec = DatasetSpec(self.source.element_spec)
        traced_spec = self.reduction.traced_spec((key_spec, group_spec))
        if traced_spec is not None:
            return traced_spec
        key = EagerTensor(np.array(0, np.int64))
        empty_group = ElementList([], self.source.element_spec)
        with trying():
            reduced = self.reduction(key, empty_group)
        if not isinstance(reduced, Dataset):
            raise TypeError(
                "Invalid `reduce_func`. `reduce_func` must return a single `tf.data.Dataset` object but its return type is "
                f"{spec_of(tensors_of(reduced))}."
            )
        return reduced.element_spec

    @started
    def handles(self) -> Iterator[Any]:
        """Groups elements by key, and yields the elements of each group's reduced dataset.

        A group is reduced as soon as it is full. At the end of the source, the remaining groups are reduced.
        """
        source = self.source.elements()
        open_groups = dict[int, list[Element]]()
        yield
        for element in source:
            key = int(self.key(element).numpy())
            group = open_groups.setdefault(key, [])
            group.append(element)
            if len(group) == self.length(key):
                yield from self._reduced(key, open_groups.pop(key))
        for key in sorted(open_groups):
            yield from self._reduced(key, open_groups[key])

    def _reduced(self, key: int, group: list[Element]) -> Iterator[Element]:
        reduced: Dataset = self.reduction(
            EagerTensor(np.array(key, np.int64)), ElementList(group, self.source.element_spec)
        )
        return self.reduction.begin(reduced)


@method
def group_by_window(
    self: Dataset,
    key_func: Callable[..., Any],
    reduce_func: Callable[..., Any],
    window_size: Any = None,
    window_size_func: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Dataset:
    """Groups elements by an int64 key, and replaces each full group by the dataset ``reduce_func(key, group)``.

    Args:
      key_func: returns the key of an element.
      reduce_func: returns the dataset that replaces a group.
      window_size: the number of elements in a full group.
      window_size_func: returns that number for a key. Pass either this or ``window_size``.

    Raises:
      ValueError: both or neither of ``window_size`` and ``window_size_func`` are set.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#group_by_window
    """
    if (window_size is None) == (window_size_func is None):
        raise ValueError("Either the `window_size` argument or the `window_size_func` argument must be specified.")
    return GroupByWindow(self, key_func, reduce_func, _window_size(window_size, window_size_func))


def _window_size(fixed: Any, by_key: Callable[..., Any] | None) -> Callable[[int], int]:
    """Returns a function from a key to the group size: the ``fixed`` one, or the result of ``by_key``."""
    if by_key is None:
        size = int_argument(fixed)
        return lambda key: size
    return lambda key: int_argument(by_key(EagerTensor(np.array(key, np.int64))))


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
    """Groups elements of similar length into buckets, and makes padded batches of each bucket's elements.

    Args:
      element_length_func: returns the length of an element.
      bucket_boundaries: the lengths at which a new bucket starts, in ascending order.
      bucket_batch_sizes: the batch size of each bucket.
      pad_to_bucket_boundary: whether unknown dims are padded to the bucket's boundary minus one.
      no_padding: whether to stack the elements without padding.

    Raises:
      ValueError: the number of batch sizes is not the number of boundaries plus one.

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

    def batched_bucket(key: Any, group: Dataset) -> Dataset:
        size = bucket_batch_sizes[int(key.numpy())]
        if no_padding:
            return Batch(group, size, drop_remainder)
        return PaddedBatch(group, size, bucket_shapes(int(key.numpy())), padding_values, drop_remainder)

    def bucket_shapes(key: int) -> Any:
        """Returns the padded shapes of the batches of the bucket with index ``key``.

        With ``pad_to_bucket_boundary``, each unknown dim becomes the greatest length in the bucket.
        """
        if not pad_to_bucket_boundary:
            return padded_shapes
        if key == len(boundaries):
            raise ValueError("When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries).")
        greatest_length = boundaries[key] - 1

        def bucket_shape(spec: Any) -> TensorShape:
            return TensorShape([greatest_length if dim is None else dim for dim in spec.shape])

        return nest.map_structure(bucket_shape, self.element_spec)

    if no_padding:
        spec_of_any_bucket = Batch(self, 1, False).element_spec
    else:
        spec_of_any_bucket = PaddedBatch(self, 1, padded_shapes, padding_values, False).element_spec
    sizes = list(bucket_batch_sizes)
    return GroupByWindow(self, bucket_of, batched_bucket, lambda key: sizes[key], spec_of_any_bucket)
