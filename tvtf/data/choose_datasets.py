"""Chooses elements from several datasets, by given or random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.data.base import INFINITE, UNKNOWN, Dataset, method, started
from tvtf.data.batching import Batch
from tvtf.data.element_order import Take, Zip
from tvtf.data.mapped import Map, Traced
from tvtf.data.sources import Random
from tvtf.data.structure import Element, relaxed
from tvtf.dtypes import float32, float64, int64
from tvtf.errors import InvalidArgumentError
from tvtf.ops.random import stateless_categorical
from tvtf.ops.rules import bind


class Choose(Dataset):
    """Elements of several datasets.

    Each of ``choices`` is the index of the dataset that the next element comes from.
    """

    repr_name = "_DirectedInterleaveDataset"

    def __init__(self, datasets: Sequence[Dataset], choices: Dataset, stop_on_empty: bool) -> None:
        spec = _common_spec(datasets)
        self.datasets, self.choices, self.stop_on_empty = datasets, choices, stop_on_empty
        super().__init__(spec, INFINITE if all(d.size == INFINITE for d in datasets) else UNKNOWN)

    @started
    def handles(self) -> Iterator[Any]:
        """Yields, for each element of the dataset of choices, the next element of the dataset with this index.

        Exhausted datasets are skipped; with ``stop_on_empty``, the first one ends the iteration.
        """
        open_iterators: dict[int, Iterator[Element]] = {}
        for index, dataset in enumerate(self.datasets):
            open_iterators[index] = dataset.elements()
        choices = self.choices.elements()
        yield
        for choice_tensor in choices:
            choice = int(choice_tensor.numpy())
            if not 0 <= choice < len(self.datasets):
                raise InvalidArgumentError(
                    None,
                    "DirectedInterleaveDataset",
                    f"Selector index out of range: {choice} >= {len(self.datasets)}",
                )
            if choice not in open_iterators:  # this dataset is exhausted
                continue
            try:
                yield next(open_iterators[choice])
            except StopIteration:
                del open_iterators[choice]
            if len(open_iterators) < len(self.datasets) and (self.stop_on_empty or not open_iterators):
                return


def _common_spec(datasets: Sequence[Dataset]) -> Any:
    """Returns the element spec that covers the elements of all datasets; raises TypeError if there is none."""
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


class Resampled(Dataset):
    """Pairs of a class and an element, with elements dropped at random to reach a target distribution of classes.

    An element of a class is accepted with a probability proportional to target over initial frequency (rejection
    sampling). Without ``initial`` the frequencies are counted during the iteration, starting with one of each class.
    """

    repr_name = "_MapDataset"

    def __init__(
        self, source: Dataset, class_of: Callable[..., Any], target: Any, initial: Any, seed: int | None
    ) -> None:
        """Resamples ``source``: ``class_of`` returns an element's class.

        The distributions have one frequency per class.
        """
        self.source = source
        self.class_of = Traced(class_of, source)
        self.draws = Random(seed, None)
        self.target = np.asarray(convert_to_tensor(target).numpy(), np.float64)
        self.initial = None if initial is None else np.asarray(convert_to_tensor(initial).numpy(), np.float64)
        super().__init__((self.class_of.spec, source.element_spec), UNKNOWN)

    @started
    def handles(self) -> Iterator[Any]:
        """Yields elements with their classes by rejection sampling, so that classes have the target frequencies."""
        counts = np.ones_like(self.target)
        elements_and_draws = zip(self.source.elements(), self.draws.elements())
        yield
        for element, draw in elements_and_draws:
            element_class = self.class_of(element)
            class_number = int(element_class)
            counts[class_number] += 1
            frequencies = counts / counts.sum() if self.initial is None else self.initial
            acceptance = np.divide(self.target, frequencies, out=np.zeros_like(frequencies), where=frequencies > 0)
            # draws are random numbers below 2**32
            if int(draw) < (1 << 32) * acceptance[class_number] / acceptance.max():
                yield element_class, element


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
    return Resampled(self, class_func, target_dist, initial_dist, seed)


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
    return lambda dataset: Resampled(dataset, class_func, target_dist, initial_dist, seed)


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
      stop_on_empty_dataset: whether to end when a dataset has no more elements; else the others continue.
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
    """Drops datasets whose weight is not positive; returns the others, and the logarithms of their weights.

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
    pairs = [(dataset, weight) for dataset, weight in zip(datasets, weights) if weight > 0]
    if not pairs:
        pairs = [(Take(datasets[0], 0), 1.0)]
    return [dataset for dataset, _ in pairs], _logits([weight for _, weight in pairs])


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
