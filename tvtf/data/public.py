"""Defines how datasets are made (``from_tensors``, ``from_generator``, ``zip``, ...) and other names of ``tf.data``."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from tvtf.core import nest
from tvtf.core.primitive import export, exports
from tvtf.core.thread_state import state
from tvtf.data import apply_functions as _apply_functions  # noqa: F401 - adds names
from tvtf.data import base, batching, choose_datasets, element_order, parallel, readers, saved_elements, sources
from tvtf.data import composite_batches as _composed  # noqa: F401 - adds methods
from tvtf.data import csv_and_sql as _csv_and_sql  # noqa: F401 - adds names
from tvtf.data import features as _features  # noqa: F401 - adds names
from tvtf.data import lookup_tables as _lookup_tables  # noqa: F401 - adds names
from tvtf.data import optional as _optional  # noqa: F401 - adds names
from tvtf.data.argument_conversion import bool_argument, int_argument
from tvtf.data.base import INFINITE, UNKNOWN, Dataset, NumpyIterator, method, methods, started
from tvtf.data.options import Options
from tvtf.data.structure import Element, tensors_of
from tvtf.data.traced_datasets import deferring
from tvtf.data.traced_iteration import single_of
from tvtf.dtypes import as_dtype, int64
from tvtf.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError

exports.update({"data.AUTOTUNE": -1, "data.INFINITE_CARDINALITY": INFINITE, "data.UNKNOWN_CARDINALITY": UNKNOWN})
exports.update({"data.experimental.INFINITE_CARDINALITY": INFINITE, "data.experimental.UNKNOWN_CARDINALITY": UNKNOWN})
exports.update({"data.experimental.AUTOTUNE": -1, "data.NumpyIterator": NumpyIterator})


def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
    """Makes a dataset of one element.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#from_tensors
    """
    return sources.Tensors(tensors)


def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
    """Makes a dataset of the rows of tensors with equal first dims.

    Raises:
      ValueError: the first dims differ, or a tensor is a scalar.

    >>> import tvtf as tf
    >>> for x, y in tf.data.Dataset.from_tensor_slices(([1, 2], [[3.], [4.]])):
    ...     print(x.numpy(), y.numpy())
    1 [3.]
    2 [4.]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#from_tensor_slices
    """
    element = tensors_of(tensors)
    has_composites = any(map(nest.is_composite, nest.flatten(element)))  # sparse or ragged tensors
    return batching.Rows(element) if has_composites else sources.Slices(element)


def from_generator(
    generator: Callable[..., Any],
    output_types: Any = None,
    output_shapes: Any = None,
    args: Sequence[Any] | None = None,
    output_signature: Any = None,
    name: str | None = None,
) -> Dataset:
    """Makes a dataset of the elements that a Python generator yields; each iteration calls ``generator(*args)`` again.

    Args:
      output_signature: the specs of an element; or pass its dtypes and shapes as ``output_types`` and ``output_shapes``.

    Raises:
      TypeError: there is no signature, or ``generator`` is not callable.
      InvalidArgumentError: during iteration, an element does not match the signature.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#from_generator
    """
    spec = sources.signature(output_types, output_shapes, output_signature)
    # The generator is called with arrays instead of tensors.
    arguments = [argument.numpy() if hasattr(argument, "numpy") else argument for argument in args or ()]
    return sources.Generator(generator, spec, arguments)


def zip_(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
    """Makes a dataset of tuples (or other nests) of the datasets' elements; it ends with the shortest dataset.

    Args:
      *args: datasets, or one nest of them.

    Raises:
      TypeError: an argument is not a nest of datasets.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#zip
    """
    if not args and datasets is None:
        raise TypeError("Must pass at least one dataset to `zip`.")
    if args and datasets is not None:
        raise TypeError("Both `*args` and `datasets` cannot be set.")
    if datasets is None:
        datasets = args[0] if len(args) == 1 else args
    return element_order.Zip(datasets)


def counter(start: Any = 0, step: Any = 1, dtype: Any = int64, name: str | None = None) -> Dataset:
    """Makes an infinite dataset of the numbers ``start``, ``start + step``, ``start + 2 * step``, ...

    >>> import tvtf as tf
    >>> [int(n) for n in tf.data.Dataset.counter(start=2, step=3).take(3).as_numpy_iterator()]
    [2, 5, 8]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#counter
    """
    number_dtype = as_dtype(dtype)
    start = np.asarray(start, number_dtype.np).item()
    step = np.asarray(step, number_dtype.np).item()
    return element_order.Counter(start, step, number_dtype)


def random(seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None) -> Dataset:
    """Makes an infinite dataset of random int64 numbers below 2**32.

    >>> import tvtf as tf
    >>> numbers = tf.data.Dataset.random(seed=4).take(2)
    >>> list(numbers.as_numpy_iterator()) == list(numbers.as_numpy_iterator())
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#random
    """
    return sources.Random(seed, rerandomize_each_iteration)


def load(
    path: str, element_spec: Any = None, compression: str | None = None, reader_func: Any = None, wait: bool = False
) -> Dataset:
    """Loads the dataset that ``Dataset.save`` wrote to the folder ``path``.

    Args:
      path: the folder.
      element_spec: the element spec of the dataset; None for the one that was saved.
      compression, reader_func, wait: not used.

    Raises:
      NotFoundError: the folder holds no dataset.
      DataLossError: its files are damaged.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#load
    """
    elements_and_spec = saved_elements.load_dataset(os.fspath(path), element_spec)
    if elements_and_spec is None:
        raise NotFoundError(None, None, f"Could not find a saved dataset in {path}")
    return sources.ElementList(*elements_and_spec)


for _function in (
    from_tensors, from_tensor_slices, from_generator, zip_, counter, random, load,
    readers.list_files, choose_datasets.choose_from_datasets, choose_datasets.sample_from_datasets,
):  # fmt: skip
    setattr(Dataset, _function.__name__.rstrip("_"), staticmethod(deferring(_function)))
Dataset.range = staticmethod(deferring(sources.Range))  # type: ignore[attr-defined]
exports["data.experimental.Counter"] = Dataset.counter  # type: ignore[attr-defined]
exports["data.experimental.choose_from_datasets"] = Dataset.choose_from_datasets  # type: ignore[attr-defined]
exports["data.experimental.sample_from_datasets"] = Dataset.sample_from_datasets  # type: ignore[attr-defined]
exports["data.experimental.RandomDataset"] = Dataset.random  # type: ignore[attr-defined]


@method
def save(
    self: Dataset,
    path: str,
    compression: str | None = None,
    shard_func: Any = None,
    checkpoint_args: Any = None,
) -> None:
    """Writes the dataset's elements to the folder ``path``, from which ``Dataset.load`` reads them.

    Args:
      path: the folder.
      compression, shard_func, checkpoint_args: not used.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#save
    """
    saved_elements.save_dataset(os.fspath(path), list(self.new_elements()), self.element_spec)


@method
def get_single_element(self: Dataset, name: str | None = None) -> Element:
    """Returns the only element of the dataset.

    Raises:
      InvalidArgumentError: there is no element, or more than one.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#get_single_element
    """
    if state.trace is not None:
        return single_of(self, get_single_element)
    elements = list(element_order.Take(self, 2).new_elements())  # two, to find out whether there is more than one
    if len(elements) != 1:
        problem = "had more than one element" if elements else "was empty"
        raise InvalidArgumentError(None, "DatasetToSingleElement", f"Dataset {problem}. [Op:DatasetToSingleElement]")
    return elements[0]


@method
def rebatch(self: Dataset, batch_size: Any, drop_remainder: bool = False, name: str | None = None) -> Dataset:
    """Regroups the rows of batches into batches of another size, or of several sizes in turn.

    Raises:
      ValueError: elements are scalars.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#rebatch
    """
    if any(spec.shape.rank == 0 for spec in nest.flatten(self.element_spec)):
        raise ValueError(
            "Invalid `batch_sizes`. Expected dataset with rank of >= 1 but found a dataset with scalar elements. Fix the "
            "issue by adding the `batch` transformation to the dataset."
        )
    drops_remainder = bool_argument(drop_remainder)
    sizes = [int_argument(size) for size in (batch_size if np.ndim(batch_size) else [batch_size])]
    row_counts = {spec.shape[0] for spec in batching.encoding(self.element_spec) if spec.shape.rank} - {None}
    return batching.CyclingBatches(batching.Unbatch(self), sizes, drops_remainder, row_counts)


@method
def snapshot(
    self: Dataset, path: str, compression: str = "AUTO", reader_func: Any = None, shard_func: Any = None,
    name: str | None = None,
) -> Dataset:  # fmt: skip
    """Not supported: a snapshot's folder would have to identify the pipeline that wrote it.

    Raises:
      NotImplementedError: the method is called.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#snapshot
    """
    raise NotImplementedError(
        "tvtf can't tell whether a folder holds the elements of this pipeline: use cache(filename), or save and load"
    )


@method
def fingerprint(self: Dataset) -> NoReturn:
    """Not supported: it would have to compare the functions in pipelines.

    Raises:
      NotImplementedError: the method is called.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#fingerprint
    """
    raise NotImplementedError("tvtf can't tell whether two pipelines with the same functions give the same elements")


@method
def options(self: Dataset) -> Options:
    """Returns the options that ``with_options`` has set for the dataset or for those that it depends on, merged.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#options
    """
    sources = [self]
    while len(sources) == 1:  # a chain can be too long for recursion
        if isinstance(sources[0], WithOptions):
            return sources[0].merged_options
        sources = sources[0].sources()
    return functools.reduce(Options.merge, map(options, sources), Options())


@method
def with_options(self: Dataset, options: Options, name: str | None = None) -> Dataset:
    """Returns a dataset of the same elements with ``options`` merged into its own.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#with_options
    """
    return WithOptions(self, self.options().merge(options))  # type: ignore[attr-defined]


class WithOptions(base.PassThrough):
    """The elements of a dataset, which has options."""

    repr_name = "_OptionsDataset"

    def __init__(self, source: Dataset, options: Options) -> None:
        super().__init__(source, source.size)
        self.merged_options = options

    def handles(self) -> Iterator[Any]:
        return self.source.handles()


@export("data.experimental.cardinality")
def cardinality(dataset: Dataset) -> Any:
    """Same as ``dataset.cardinality()``.

    >>> import tvtf as tf
    >>> int(tf.data.experimental.cardinality(tf.data.Dataset.range(3)))
    3

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/cardinality
    """
    return dataset.cardinality()


@export("data.experimental.assert_cardinality")
def assert_cardinality(expected_cardinality: Any) -> Callable[[Dataset], Dataset]:
    """Returns a function for ``Dataset.apply`` that sets a dataset's cardinality, which iteration then checks.

    >>> import tvtf as tf
    >>> counted = tf.data.Dataset.range(5).filter(lambda x: x > 2).apply(tf.data.experimental.assert_cardinality(2))
    >>> len(counted)
    2

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/assert_cardinality
    """
    return lambda dataset: Counted(dataset, int_argument(expected_cardinality))


class Counted(element_order.PassThrough):
    """A dataset whose number of elements is checked against ``size``."""

    @started
    def handles(self) -> Any:
        """Yields the source's elements (as handles).

        Raises an error if their number is not the asserted one, ``size``.
        """
        count = 0
        source = self.source.handles()
        yield
        for handle in source:
            count += 1
            if count > self.size >= 0:  # a negative size is not a number of elements: infinite or unknown
                raise self._wrong_count("at least", count)
            yield handle
        if self.size != count:
            raise self._wrong_count("only", count)

    def _wrong_count(self, how: str, count: int) -> Exception:
        expected = "an infinite number of elements" if self.size == INFINITE else _elements(self.size)
        return FailedPreconditionError(
            None, None, f"Input dataset was expected to contain {expected} but contained {how} {_elements(count)}."
        )


def _elements(count: int) -> str:
    return f"{count} element{'s' * (count != 1)}"


@export("data.experimental.enable_debug_mode")
def enable_debug_mode() -> None:
    """Runs functions passed to datasets as eager Python from now on, until the process ends.

    Raises:
      ValueError: called in a traced function.

    >>> import tvtf as tf
    >>> tf.data.experimental.enable_debug_mode()  # doctest: +SKIP

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/enable_debug_mode
    """
    if state.trace is not None:
        raise ValueError("`enable_debug_mode() is only supported in eager mode.")
    parallel.debug.on = True


@export("data.experimental.get_structure")
def get_structure(dataset_or_iterator: Any) -> Any:
    """Returns ``element_spec`` of a dataset or iterator.

    >>> import tvtf as tf
    >>> tf.data.experimental.get_structure(tf.data.Dataset.range(3))
    TensorSpec(shape=(), dtype=tf.int64, name=None)

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/get_structure
    """
    return dataset_or_iterator.element_spec


_CONSUMERS = {"apply", "get_single_element", "options", "reduce", "save"}
"""Methods that return something other than a dataset."""
for _name in {*methods} - _CONSUMERS:
    setattr(Dataset, _name, deferring(getattr(Dataset, _name)))
