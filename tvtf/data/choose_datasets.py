"""Chooses elements from several datasets, by given or random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.data.base import INFINITE, UNKNOWN, Dataset, Joining, elements_of, method, started
from tvtf.data.batching import Batch, Unbatch
from tvtf.data.element_order import Prefetch, Repeat, Take, Zip
from tvtf.data.mapped import Filter, Map, Scan
from tvtf.data.sources import Random, Tensors
from tvtf.data.structure import Element, relaxed
from tvtf.dtypes import float32, float64, int64
from tvtf.errors import InvalidArgumentError
from tvtf.frontend.autograph import convert
from tvtf.ops.array import broadcast_to
from tvtf.ops.create import one_hot
from tvtf.ops.indexing import gather
from tvtf.ops.random import stateless_categorical
from tvtf.ops.rules import bind
from tvtf.rng.stateful import uniform


class Choose(Joining):
    """Elements of several datasets.

    Each of ``choices`` is the index of the dataset that the next element comes from.
    """

    repr_name = "_DirectedInterleaveDataset"

    def __init__(self, datasets: Sequence[Dataset], choices: Dataset, stop_on_empty: bool) -> None:
        spec = _common_spec(datasets)
        self.inputs = (choices, *datasets)  # in the order in which TensorFlow begins to iterate over them
        self.count, self.stop_on_empty = len(datasets), stop_on_empty
        super().__init__(spec, INFINITE if all(dataset.size == INFINITE for dataset in datasets) else UNKNOWN)

    @started
    def handles(self) -> Iterator[Any]:
        """Yields, for each element of the dataset of choices, the next element of the dataset with this index.

        Exhausted datasets are skipped; with ``stop_on_empty``, the first one ends the iteration.
        """
        choices, *iterators = self.iterations_of_inputs(elements_of)
        open_iterators: dict[int, Iterator[Element]] = dict(enumerate(iterators))
        yield
        for choice_tensor in choices:
            choice = int(choice_tensor.numpy())
            if not 0 <= choice < self.count:
                raise InvalidArgumentError(
                    None,
                    "DirectedInterleaveDataset",
                    f"Selector index out of range: {choice} >= {self.count}",
                )
            if choice not in open_iterators:  # this dataset is exhausted
                continue
            try:
                yield next(open_iterators[choice])
            except StopIteration:
                del open_iterators[choice]
            if len(open_iterators) < self.count and (self.stop_on_empty or not open_iterators):
                return


def _common_spec(datasets: Sequence[Dataset]) -> Any:
    """Returns the element spec that covers the elements of all datasets. Raises TypeError if there is none."""
    spec = datasets[0].element_spec
    try:
        for dataset in datasets[1:]:
            spec = relaxed(spec, dataset.element_spec)
    except TypeError as error:
        lines = [f"Dataset {index} element_spec={dataset.element_spec}." for index, dataset in enumerate(datasets)]
        specs = "\n".join(lines)
        raise TypeError(f"Invalid `datasets`. `datasets` must have compatible element specs.\n {specs}") from error
    return spec


def choose_from_datasets(
    datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True
) -> Dataset:
    """Takes each element from the dataset whose index is the next element of ``choice_dataset``.

    Raises:
      TypeError: the choices are not int64 scalars, or the datasets' elements differ in structure or dtype.

    >>> import tvtf as tf
    >>> zeros, ones = (tf.data.Dataset.from_tensors(n).repeat() for n in (0, 1))
    >>> chosen = tf.data.Dataset.choose_from_datasets([zeros, ones], tf.data.Dataset.range(2).repeat(2))
    >>> [int(n) for n in chosen.as_numpy_iterator()]
    [0, 1, 0, 1]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#choose_from_datasets
    """
    if not datasets:
        raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
    if not isinstance(choice_dataset, Dataset):
        raise TypeError(
            f"Invalid `choice_dataset`. `choice_dataset` should be a `tf.data.Dataset` but is {type(choice_dataset)}."
        )
    if choice_dataset.element_spec != TensorSpec([], int64):
        raise TypeError(
            "Invalid `choice_dataset`. Elements of `choice_dataset` must be scalar `tf.int64` tensors but are "
            f"{choice_dataset.element_spec}."
        )
    return Choose(list(datasets), choice_dataset, stop_on_empty_dataset)


TINY = np.finfo(np.float32).tiny
"""Added to frequencies before they divide, as in TensorFlow."""
ESTIMATION_BATCH = 32
"""The number of elements after which class frequencies are estimated anew."""
SMOOTHING = 10
"""How often each class counts as seen before the first element."""


def _resampled(source: Any, class_func: Callable[..., Any], target_dist: Any, initial_dist: Any, seed: Any) -> Dataset:
    """Mixes a dataset with one of its elements that are filtered at random by their class, as TensorFlow does.

    With the ratio ``target / initial`` of a class, its elements are accepted with the probability
    ``(ratio - min) / (max - min)``, and ``min`` is the probability of an element of the unfiltered dataset.

    Source: ``tensorflow/python/data/ops/dataset_ops.py``.
    """
    target = bind.cast(convert_to_tensor(target_dist), dtype=float32)
    class_of = convert(class_func, is_explicit=False)
    if initial_dist is None:
        frequencies = _estimated_frequencies(source.map(class_of), target.shape[0])
        of_original = None
    else:
        initial = bind.cast(convert_to_tensor(initial_dist), dtype=float32)
        frequencies = Repeat(Tensors(initial), -1)
        of_original = float(np.min(target.numpy() / initial.numpy()))
    # As in TensorFlow, the frequencies are computed once for the probabilities and once beside them, where they are only
    # for a warning: a source that is shuffled takes seeds for each.
    acceptance = Map(Zip((Map(frequencies, lambda initial: _acceptance(initial, target)[0]), frequencies)), _first)

    def with_class(*element: Any) -> Any:
        return class_of(*element), element[0] if len(element) == 1 else element

    def with_probability(accepted: Tensor, data: Any) -> Any:
        element_class = class_of(*data) if isinstance(data, tuple) else class_of(data)
        return element_class, gather(accepted, element_class), data

    def accepts(_class: Tensor, probability: Tensor, _data: Any) -> Tensor:
        return bind.less(uniform([], seed=seed), probability)

    accepted = Filter(Map(Zip((acceptance, source)), with_probability), accepts)
    filtered = Prefetch(Map(accepted, lambda element_class, _, data: (element_class, data)), 3)
    if of_original == 1:
        return Map(source, with_class)
    if of_original == 0:
        return filtered
    weights = Map(frequencies, lambda initial: _weights(_acceptance(initial, target)[1]))
    return sample_from_datasets([Map(source, with_class), filtered], weights, seed, stop_on_empty_dataset=True)


def _first(probabilities: Tensor, _frequencies: Tensor) -> Tensor:
    return probabilities


def _acceptance(initial: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the probability of accepting an element of each class, and that of an element of the unfiltered dataset."""
    ratio = bind.divide(target, bind.add(initial, EagerTensor(np.array(TINY))))
    least = bind.reduce_min(ratio, axis=(0,), keepdims=False)
    greatest = bind.reduce_max(ratio, axis=(0,), keepdims=False)
    return bind.divide(bind.subtract(ratio, least), bind.subtract(greatest, least)), least


def _weights(of_original: Tensor) -> Tensor:
    one = EagerTensor(np.array(1, np.float32))
    return bind.stack(of_original, bind.subtract(one, of_original), axis=0)


def _estimated_frequencies(classes: Dataset, count: int) -> Dataset:
    """Returns the frequency of each of ``count`` classes among the elements so far, for each element.

    The frequencies are updated after a batch of elements, as in TensorFlow.
    """

    def update_counts(counts: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Adds a batch to the counts of the classes, and returns the counts, and the frequencies for each element."""
        batch_counts = bind.reduce_sum(one_hot(batch, count, dtype=int64), axis=(0,), keepdims=False)
        new_counts = bind.add(counts, batch_counts)
        total = bind.reduce_sum(new_counts, axis=(0,), keepdims=False)
        ratios = bind.divide(bind.cast(new_counts, dtype=float64), bind.cast(total, dtype=float64))
        frequencies = bind.cast(ratios, dtype=float32)
        return new_counts, broadcast_to(frequencies, [ESTIMATION_BATCH, count])

    initial_counts = np.full([count], SMOOTHING, np.int64)
    batches = Batch(classes, ESTIMATION_BATCH, False)
    return Unbatch(Scan(batches, initial_counts, update_counts))


@method
def rejection_resample(
    self: Dataset,
    class_func: Callable[..., Any],
    target_dist: Any,
    initial_dist: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Dataset:
    """Returns a dataset of ``(class, element)`` pairs.

    Elements are dropped at random, so that classes have ``target_dist``.

    Args:
      class_func: returns an element's class, an integer scalar.
      target_dist: the wanted frequency of each class.
      initial_dist: the frequency of each class in the dataset; counted during iteration if None.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#rejection_resample
    """
    return _resampled(self, class_func, target_dist, initial_dist, seed)


@export("data.experimental.rejection_resample")
def resampling(
    class_func: Callable[..., Any], target_dist: Any, initial_dist: Any = None, seed: int | None = None
) -> Callable[[Dataset], Dataset]:
    """Returns a function for ``Dataset.apply`` that does the same as ``Dataset.rejection_resample``.

    >>> import tvtf as tf
    >>> evened = tf.data.experimental.rejection_resample(lambda x: x % 2, [0.5, 0.5], seed=1)
    >>> tf.data.Dataset.range(8).apply(evened).element_spec[0]
    TensorSpec(shape=(), dtype=tf.int64, name=None)

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/rejection_resample
    """
    return lambda dataset: _resampled(dataset, class_func, target_dist, initial_dist, seed)


def sample_from_datasets(
    datasets: Sequence[Dataset],
    weights: Any = None,
    seed: int | None = None,
    stop_on_empty_dataset: bool = False,
    rerandomize_each_iteration: bool | None = None,
) -> Dataset:
    """Takes each element from a random dataset; with seeds the choices are TensorFlow's.

    Args:
      datasets: the datasets to take elements from.
      weights: the probability of each dataset, or a dataset of such tensors; equal by default.
      seed: the seed of the choices, with the global seed.
      stop_on_empty_dataset: whether to end when a dataset has no more elements; otherwise the others continue.
      rerandomize_each_iteration: whether each iteration makes different choices.

    Raises:
      ValueError: there are no datasets, or their number is not that of the weights.
      TypeError: the weights are not float32 or float64.

    >>> import tvtf as tf
    >>> zeros, ones = (tf.data.Dataset.from_tensors(n).repeat() for n in (0, 1))
    >>> mixed = tf.data.Dataset.sample_from_datasets([zeros, ones], weights=[0.0, 1.0], seed=1)
    >>> [int(n) for n in mixed.take(3).as_numpy_iterator()]
    [1, 1, 1]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#sample_from_datasets
    """
    if not datasets:
        raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
    pairs = Batch(Random(seed, rerandomize_each_iteration), 2, False)
    if isinstance(weights, Dataset):
        drawn = Map(Zip((Map(weights, _logits), pairs)), _draw)
        return Choose(list(datasets), drawn, stop_on_empty_dataset)
    likely, logits = _with_log_weights(list(datasets), weights)
    if len(likely) == 1:
        return likely[0]
    return Choose(likely, Map(pairs, lambda seeds: _draw(logits, seeds)), stop_on_empty_dataset)


def _with_log_weights(datasets: list[Dataset], weights: Any) -> tuple[list[Dataset], Tensor]:
    """Drops datasets whose weight is not positive, and returns the others, and the logarithms of their weights.

    The logarithms form a matrix of one row. If the weights are a tensor, all datasets are kept. If no weight is
    positive, one empty dataset is returned.
    """
    if weights is None:
        return datasets, convert_to_tensor([[1.0] * len(datasets)])
    if isinstance(weights, Tensor):
        if not weights.shape.is_compatible_with([len(datasets)]):
            raise ValueError(
                "Invalid `weights`. The shape of `weights` should be compatible with `[len(datasets)]` but is "
                f"{weights.shape}."
            )
        return datasets, _logits(weights)
    if len(weights) != len(datasets):
        raise ValueError(
            "Invalid `weights`. `weights` should have the same length as `datasets` but got "
            f"`len(weights)={len(weights)}` vs. `len(datasets)={len(datasets)}`."
        )
    positive_weights = [weight for weight in weights if weight > 0]
    if not positive_weights:
        empty_dataset = Take(datasets[0], 0)
        return [empty_dataset], _logits([1.0])
    weighted_datasets = [dataset for dataset, weight in zip(datasets, weights) if weight > 0]
    return weighted_datasets, _logits(positive_weights)


def _logits(weights: Any) -> Tensor:
    """Returns log(weights) as float logits of shape (1, datasets): ``stateless_categorical`` takes a batch of distributions.

    Raises:
      TypeError: the weights are neither float32 nor float64.
    """
    probabilities = convert_to_tensor(weights)
    if probabilities.dtype not in (float32, float64):
        raise TypeError(
            f"Invalid `weights`. `weights` type must be either `tf.float32` or `tf.float64` but is {probabilities.dtype}."
        )
    return bind.reshape(bind.log(probabilities), shape=(1, *probabilities.shape))


def _draw(logits: Tensor, seeds: Tensor) -> Tensor:
    return bind.reshape(stateless_categorical(logits, 1, seeds), shape=())
