"""Candidate sampling: samplers of classes, with TensorFlow's random numbers, and the losses over sampled classes.

Source: tensorflow/core/kernels/range_sampler.cc, tensorflow/core/lib/random/simple_philox.h and distribution_sampler.h
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError, incompatible_shapes
from tvtf.core.primitive import export, public_names
from tvtf.core.shape import TensorType, agree_shape
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import outside_of_functions
from tvtf.core.thread_state import state as thread
from tvtf.dtypes import float32, int32, int64
from tvtf.ops import philox
from tvtf.ops.array import stop_gradient
from tvtf.ops.cast import cast
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.indexing import gather, in_range
from tvtf.ops.operands import attributes, operand, positive
from tvtf.ops.rules import bind, require_dtype
from tvtf.ops.value_checks import required
from tvtf.rng.rng_streams import reserve_blocks
from tvtf.state.variable import Variable

BLOCKS_PER_SAMPLE = 512
"""How far a sampler's stream advances for each sampled class: 512 blocks of 4 words."""
LOWEST_FLOAT = float(np.finfo(np.float32).min)


class _RandomWords:
    """An iterator over the random words of a Philox stream."""

    def __init__(self, state: np.ndarray) -> None:
        self.state = state
        self.buffered: Iterator[int] = iter(())

    def next(self) -> int:
        """Returns the next random word of 32 bits. The generator computes 256 blocks of words at a time."""
        word = next(self.buffered, None)
        if word is None:
            self.buffered = iter(philox.blocks(self.state, 256).ravel().tolist())
            self.state = philox.skipped(self.state, 256)
            word = next(self.buffered)
        return word

    def next_long(self) -> int:
        """Returns the next random number of 64 bits, from two words, the low one first."""
        return self.next() | self.next() << 32

    def below(self, limit: int, draw: Callable[[], int], bits: int) -> int:
        """Draws a uniformly distributed integer in [0, limit).

        ``draw`` returns random numbers of ``bits`` bits. The result is the remainder of a number divided by ``limit``.
        The smallest numbers are rejected and drawn again, as the remainder would be biased otherwise.
        """
        # A power of two divides the number of possible values, so no number is rejected.
        if limit & (limit - 1) == 0:
            return draw() & (limit - 1)
        rejected_below = (2**bits - 1) % limit + 1
        number = draw()
        while number < rejected_below:
            number = draw()
        return number % limit

    def fraction(self) -> float:
        """Returns a random float32 in [0, 1) from the low bits of a word."""
        # The bits become the mantissa of a float32 in [1, 2).
        return float(np.array(self.next() & 0x7FFFFF | 0x3F800000, np.uint32).view(np.float32)) - 1.0

    def long_fraction(self) -> float:
        """Returns a random float64 in [0, 1) from 52 bits of two words."""
        high = self.next() & 0xFFFFF
        low = self.next()
        # The bits become the mantissa of a float64 in [1, 2).
        return float(np.array(high << 32 | low | 1023 << 52, np.uint64).view(np.float64)) - 1.0


class _AliasTables(NamedTuple):
    """The tables of Walker's alias method, which samples a class with given probabilities in constant time.

    Slot ``i``, chosen uniformly, gives class ``i`` with probability ``acceptance[i]``, else class ``aliases[i]``.
    """

    acceptance: list[float]
    aliases: list[int]

    @classmethod
    def of(cls, weights: Sequence[float]) -> _AliasTables:
        """Builds the tables of Walker's alias method, which samples a class with a given probability in constant time.

        Each class has a slot, and all slots are equally likely. A class with less than the mean weight does not fill
        its slot. The rest of the slot is taken from a class with more than the mean weight, the alias.
        """
        count = len(weights)
        total = float(np.sum(weights, dtype=np.float64))
        acceptance = [weight * count / total for weight in weights]
        aliases = [-1] * count
        low = [i for i, probability in enumerate(acceptance) if probability < 1]
        high = [i for i, probability in enumerate(acceptance) if probability >= 1]
        while high and low:
            small = low.pop()
            large = high.pop()
            aliases[small] = large
            acceptance[large] -= 1 - acceptance[small]
            if acceptance[large] < 1:
                low.append(large)
            else:
                high.append(large)
        for i in (*high, *low):  # these slots are full, but for rounding errors
            acceptance[i] = 1.0
        rounded = [float(np.float32(probability)) for probability in acceptance]
        return cls(rounded, aliases)

    def draw(self, words: _RandomWords) -> int:
        """Samples a class: chooses a slot, then the slot's own class or its alias."""
        fraction = words.fraction()
        slot = words.below(len(self.acceptance), words.next, 32)
        return slot if fraction < self.acceptance[slot] else self.aliases[slot]


def _uniform_sampler(limit: int, weights: np.ndarray) -> Any:
    """Returns a sampler of classes below ``limit`` with equal probabilities, and the probabilities."""
    return lambda words: words.below(limit, words.next_long, 64), np.full(limit, 1 / limit, np.float32)


def _log_uniform_sampler(limit: int, weights: np.ndarray) -> Any:
    """Returns a sampler of classes below ``limit`` with a log-uniform (Zipfian) distribution, and the probabilities.

    The probability of class ``i`` is ``log((i + 2) / (i + 1)) / log(limit + 1)``. ``weights`` are ignored.
    """
    scale = np.log1p(limit)
    classes = np.arange(limit)
    probabilities = np.log((classes + 2.0) / (classes + 1.0)) / scale

    def sample(words: Any) -> int:
        """Draws a class by inverting the distribution function; ``words`` are those of the random generator."""
        return (int(np.exp(words.long_fraction() * scale)) - 1) % limit

    return sample, probabilities.astype(np.float32)


def _fixed_unigram_sampler(limit: int, weights: np.ndarray) -> Any:
    """Returns a sampler of classes with probabilities proportional to ``weights``, and the probabilities."""
    return _AliasTables.of(weights.tolist()).draw, (weights / weights.sum()).astype(np.float32)


def _learned_unigram_sampler(limit: int, weights: np.ndarray) -> Any:
    """Returns a sampler of classes with probabilities proportional to ``weights``, and the probabilities.

    ``weights`` count how often each class was seen.
    """
    cumulative_weights = np.cumsum(weights.astype(np.int64))
    total = int(cumulative_weights[-1])

    def draw(words: _RandomWords) -> int:
        return int(np.searchsorted(cumulative_weights, words.below(total, words.next, 32), side="right"))

    return draw, (weights / total).astype(np.float32)


_SAMPLERS = {
    "UniformCandidateSampler": _uniform_sampler,
    "LogUniformCandidateSampler": _log_uniform_sampler,
    "FixedUnigramCandidateSampler": _fixed_unigram_sampler,
    "LearnedUnigramCandidateSampler": _learned_unigram_sampler,
}


def _draw_classes(
    draw: Callable[[_RandomWords], int], state: np.ndarray, count: int, unique: bool
) -> tuple[list[int], int]:
    """Draws random classes with a sampler.

    Args:
      draw: draws one class from a source of random words.
      state: the state of the random generator.
      count: the number of classes.
      unique: whether the classes are distinct: repeated classes are dropped, and more are drawn.

    Returns:
      the classes and the number of draws.
    """
    words = _RandomWords(state)
    if not unique:
        return [draw(words) for _ in range(count)], count
    distinct: dict[int, None] = {}
    draws = 0
    while len(distinct) < count:
        distinct.setdefault(draw(words))  # a dict keeps the order of the first draws
        draws += 1
    return list(distinct), draws


def _expected_counts(probabilities: np.ndarray, classes: Any, count: int, draws: int) -> np.ndarray:
    """Computes how often each of ``classes`` is expected among ``count`` sampled classes.

    ``draws`` is the number of draws. If there were more draws than ``count``, the samples are distinct. The result for
    a class is then the probability that the draws contain it, ``1 - (1 - p) ** draws``.
    """
    probability = probabilities[classes].astype(np.float32)
    if draws == count:
        return probability * np.float32(count)
    # 1 - (1 - p)**draws, accurate for small probabilities, too
    return (-np.expm1(draws * np.log1p(-probability))).astype(np.float32)


def _sample_candidates(
    true_classes: np.ndarray, state: np.ndarray, weights: np.ndarray, kind: str, count: int, unique: bool, limit: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws ``count`` random classes below ``limit`` as negative examples for a loss over sampled classes.

    Args:
      state: the random generator's state.
      weights: the frequencies of the classes, for samplers that use them.
      kind: TensorFlow's name of the sampler.
      unique: whether the sampled classes must be distinct.

    Returns:
      The sampled classes, and how often each true class and each sampled class is expected among them.
    """
    _check_range(true_classes, limit)
    draw, probabilities = _SAMPLERS[kind](limit, weights)
    sampled, draws = _draw_classes(draw, state.view(np.uint64), count, unique)
    expected = (_expected_counts(probabilities, classes, count, draws) for classes in (true_classes, sampled))
    return (np.array(sampled, np.int64), *expected)  # type: ignore[return-value]


def _check_range(true_classes: np.ndarray, limit: int) -> None:
    """Raises ArgumentError if a true class is not in [0, limit)."""
    for label in true_classes.ravel().tolist():
        if not 0 <= label < limit:
            raise ArgumentError(f"`true_candidate` out of range [0, {limit}), received {label}")


def _check_candidates(_: np.ndarray, true_classes: np.ndarray, limit: int) -> None:
    """Checks the true classes as `_check_range`; `required` passes the tensor that the check is attached to, first."""
    _check_range(true_classes, limit)


def _candidate_types(true: TensorType, *_: TensorType, count: int, **__: Any) -> tuple[TensorType, ...]:
    """Returns the types of the sampled classes, and of the expected counts of true and sampled classes."""
    require_dtype(true, (int64,), "true_classes")
    return TensorType((count,), int64), TensorType(true.shape, float32), TensorType((count,), float32)


@host_primitive(
    tf_name="CandidateSampler",
    type=_candidate_types,
    numpy=_sample_candidates,
    why_not={"vjp": "what is drawn has no gradient"},
)
def sample_candidates(
    true: Tensor, state: Tensor, weights: Tensor, kind: str, count: int, unique: bool, limit: int
) -> Any:
    """Samples ``count`` of ``limit`` classes, and returns them, and the expected counts of true and sampled classes.

    Args:
      true: the true classes, of shape (batch, true classes of an example).
      state: the state of the random generator.
      weights: the frequencies of the classes, for samplers that use them.
      kind: the name of the sampler, such as "UniformCandidateSampler".
      count: the number of classes to sample.
      unique: whether the sampled classes are distinct.
      limit: the number of classes.
    """
    return (true, state, weights), {"kind": kind, "count": count, "unique": unique, "limit": limit}


SAMPLER = attributes(num_true=positive, num_sampled=positive, unique=bool, range_max=positive)
"""Converts the arguments of samplers that are attributes of TensorFlow's ops."""


def _checked_classes(kind: str, true_classes: Any, num_true: int, count: int, unique: bool, limit: int) -> Tensor:
    """Checks the arguments of a candidate sampler, and returns ``true_classes`` as a matrix of ``num_true`` columns.

    Args:
      kind: the name of TensorFlow's op, for errors.
      count: the number of classes to sample.
      unique: whether the sampled classes must be distinct.
      limit: the number of classes.
    """
    classes = operand(true_classes, int64)
    if classes.ndim != 2:
        raise ArgumentError("true_classes must be a matrix").for_op(kind)
    columns = classes.shape[1]
    if columns is not None and columns != num_true:
        message = f"true_classes must have num_true columns, expected: {columns} was: {num_true}"
        raise ArgumentError(message).for_op(kind)
    if unique and limit < count:
        raise ArgumentError("Sampler's range is too small.").for_op(kind)
    return classes  # type: ignore[no-any-return]


def _sample(
    kind: str, true_classes: Any, num_true: int, count: int, unique: bool, limit: int, seed: Any, weights: Any = ()
) -> Candidates:
    """Samples ``count`` classes below ``limit`` with a candidate sampler, and advances the sampler's random stream.

    Args:
      kind: TensorFlow's name of the sampler.
      seed: the op's own seed.
      weights: the frequencies of the classes, for samplers that use them.
    """
    classes = _checked_classes(kind, true_classes, num_true, count, unique, limit)
    state = reserve_blocks(f"{kind}:{count}:{unique}:{limit}", seed, count * BLOCKS_PER_SAMPLE)
    class_weights = convert_to_tensor(weights, float32)
    result = bind.sample_candidates(classes, state, class_weights, kind=kind, count=count, unique=unique, limit=limit)
    return Candidates(*result)


class Candidates(NamedTuple):
    """The result of the samplers."""

    sampled_candidates: Tensor
    true_expected_count: Tensor
    sampled_expected_count: Tensor


@export("random.uniform_candidate_sampler")
@SAMPLER
def uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Samples classes below ``range_max`` uniformly.

    Args:
      true_classes: int64 tensor of shape (batch, num_true).
      num_true, num_sampled: the number of true classes of each example, and of sampled classes for the whole batch.
      unique: whether all sampled classes must be distinct.
      range_max: the number of classes.
      seed: the op's own seed; see `tf.random.set_seed`.

    Returns:
      The sampled classes, int64 of shape (num_sampled,); the expected counts of the true and the sampled classes, float32 of
      shapes (batch, num_true) and (num_sampled,).

    Raises:
      InvalidArgumentError: there are fewer classes than unique samples, or a true class is out of range.

    >>> import tvtf as tf
    >>> drawn, true, _ = tf.random.uniform_candidate_sampler([[1, 2]], 2, 3, unique=True, range_max=3, seed=1)
    >>> sorted(drawn.numpy().tolist()), true.shape
    ([0, 1, 2], TensorShape([1, 2]))

    Source: https://www.tensorflow.org/api_docs/python/tf/random/uniform_candidate_sampler
    """
    return _sample("UniformCandidateSampler", true_classes, num_true, num_sampled, unique, range_max, seed)


@export("random.log_uniform_candidate_sampler")
@SAMPLER
def log_uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Samples classes from a log-uniform (Zipfian) distribution; see `tf.random.uniform_candidate_sampler`.

    >>> import tvtf as tf
    >>> tf.random.log_uniform_candidate_sampler([[1, 2]], 2, 3, unique=False, range_max=9)[1].numpy().round(3)
    array([[0.528, 0.375]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/random/log_uniform_candidate_sampler
    """
    return _sample("LogUniformCandidateSampler", true_classes, num_true, num_sampled, unique, range_max, seed)


_learned_counts: dict[Any, Variable] = {}
"""The counts of true classes seen by eager samplers, by their attributes."""


def _count_variable(key: tuple[Any, ...], limit: int) -> Variable:
    """Returns the Variable that counts how often a learned-unigram sampler has seen each of ``limit`` classes.

    Eager calls with the same ``key``, the sampler's attributes, share a Variable. Each sampler in a traced function has
    its own. This Variable is created outside of the trace, because the counts must survive the call.
    """
    if thread.trace is None and key in _learned_counts:
        return _learned_counts[key]
    with outside_of_functions():
        created = Variable(np.ones(limit, np.float32), trainable=False, name="candidate_counts")
    if thread.trace is None:
        _learned_counts[key] = created
    return created


@export("random.learned_unigram_candidate_sampler", "nn.learned_unigram_candidate_sampler")
@SAMPLER
def learned_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Samples classes by their counts as true classes in earlier calls; see `tf.random.uniform_candidate_sampler`.

    >>> import tvtf as tf
    >>> tf.random.learned_unigram_candidate_sampler([[1, 2]], 2, 3, unique=False, range_max=6, seed=1)[1].numpy()
    array([[0.5, 0.5]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/random/learned_unigram_candidate_sampler
    """
    kind = "LearnedUnigramCandidateSampler"
    if range_max > 2**31 - 1:
        raise ValueError(f"Value of range_max:{range_max} is too large to handle")
    counts = _count_variable((num_true, num_sampled, unique, range_max, seed), range_max)
    result = _sample(kind, true_classes, num_true, num_sampled, unique, range_max, seed, counts._as_tensor())
    flat = bind.reshape(cast(operand(true_classes, int64), int32), shape=(-1,))
    counts.assign_add(public_names()["math.bincount"](flat, minlength=range_max, maxlength=range_max, dtype=float32))
    return result


@export("random.fixed_unigram_candidate_sampler", "nn.fixed_unigram_candidate_sampler")
@SAMPLER
@attributes(num_reserved_ids=int, num_shards=positive, shard=int, distortion=float)
def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Samples classes by given counts; see `tf.random.uniform_candidate_sampler`.

    Args:
      vocab_file: a file with a class per line, whose last comma-separated field is its count.
      unigrams: the counts, instead of a file.
      distortion: the exponent that is applied to the counts.
      num_reserved_ids: the number of classes before the first counted one, which are never sampled.
      num_shards, shard: uses only every ``num_shards``-th count, starting at index ``shard``.

    Raises:
      InvalidArgumentError: not one of ``vocab_file`` and ``unigrams`` is set, or there are not ``range_max`` counts.

    >>> import tvtf as tf
    >>> tf.random.fixed_unigram_candidate_sampler([[1]], 1, 2, True, 2, unigrams=[1., 3.])[1].shape
    TensorShape([1, 1])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/fixed_unigram_candidate_sampler
    """
    kind = "FixedUnigramCandidateSampler"
    if bool(vocab_file) == bool(len(unigrams)):
        message = (
            "Must only provide one of vocab_file and unigrams."
            if vocab_file
            else "Must provide either vocab_file or unigrams."
        )
        raise ArgumentError(message).for_op(kind)
    counts = _read_counts(vocab_file) if vocab_file else list(unigrams)
    weights = [0.0] * num_reserved_ids + [float(count) ** distortion for count in counts]
    weights = weights[shard::num_shards]
    if len(weights) != range_max:
        raise ArgumentError(f"range_max is {range_max} instead of {len(weights)}").for_op(kind)
    return _sample(kind, true_classes, num_true, num_sampled, unique, range_max, seed, weights)


def _read_counts(path: str) -> list[float]:
    """Reads the counts of classes from a vocabulary file: the last comma-separated field of each line."""
    with open(path) as lines:
        return [float(line.rpartition(",")[2]) for line in lines if line.strip()]


@export("random.all_candidate_sampler", "nn.all_candidate_sampler")
@attributes(num_true=positive, num_sampled=positive, unique=bool)
def all_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, seed: int | None = None, name: str | None = None
) -> Candidates:
    """Returns all ``num_sampled`` classes, each with an expected count of 1; see `tf.random.uniform_candidate_sampler`.

    >>> import tvtf as tf
    >>> tf.random.all_candidate_sampler([[1]], 1, 3, True)[0].numpy()
    array([0, 1, 2])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/all_candidate_sampler
    """
    classes = _checked_classes("AllCandidateSampler", true_classes, num_true, num_sampled, False, num_sampled)
    message = f"`true_candidate` out of range [0, {num_sampled})"
    check = partial(_check_candidates, limit=num_sampled)
    # The check of the true classes is attached to this value, from which both expected counts are made.
    expected_count = required(
        convert_to_tensor(1.0), check, lambda _, true: in_range(true, num_sampled), message, classes
    )
    all_classes = public_names()["range"](num_sampled, dtype=int64)
    true_expected_count = bind.broadcast_to(expected_count, shape=classes._type.shape)
    sampled_expected_count = bind.broadcast_to(expected_count, shape=(num_sampled,))
    return Candidates(all_classes, true_expected_count, sampled_expected_count)


# -- true classes among the drawn ones


class AccidentalHits(NamedTuple):
    """The result of `tf.nn.compute_accidental_hits`."""

    indices: Tensor
    ids: Tensor
    weights: Tensor


def _find_accidental_hits(true_classes: np.ndarray, sampled: np.ndarray, count: Any) -> tuple[np.ndarray, ...]:
    """Finds the sampled classes that are also true classes of an example (accidental hits).

    ``count`` is the symbolic number of hits, for the result type.

    Returns:
      For each hit the index of the example, the position in ``sampled``, and a weight. Added to a logit, the weight
      removes the class from a softmax.
    """
    position_of_class = {label: position for position, label in enumerate(sampled.tolist())}
    examples: list[int] = []
    positions: list[int] = []
    for example, labels in enumerate(true_classes.tolist()):
        for label in labels:
            if label in position_of_class:
                examples.append(example)
                positions.append(position_of_class[label])
    weights = np.full(len(examples), LOWEST_FLOAT, np.float32)
    return np.array(examples, np.int32), np.array(positions, np.int64), weights


@host_primitive(
    tf_name="ComputeAccidentalHits",
    type=lambda true, sampled, count: tuple(TensorType((count,), kind) for kind in (int32, int64, float32)),
    numpy=_find_accidental_hits,
    why_not={"vjp": "places have no gradient"},
)
def accidental_hits(true: Tensor, sampled: Tensor, count: Any) -> Any:
    """Finds sampled classes that are true classes of an example; ``count`` is the symbolic number of hits."""
    return (true, sampled), {"count": count}


@export("nn.compute_accidental_hits")
def compute_accidental_hits(
    true_classes: Any, sampled_candidates: Any, num_true: int, seed: int | None = None, name: str | None = None
) -> AccidentalHits:
    """Finds true classes of examples among the sampled classes.

    Args:
      true_classes: int64 tensor of shape (batch, num_true).
      sampled_candidates: int64 vector of the sampled classes.
      num_true: the number of true classes of each example.

    Returns:
      For each hit the int32 index of the example, the int64 position among the sampled classes, and a float32 weight that,
      added to a logit, excludes it from a softmax.

    >>> import tvtf as tf
    >>> found = tf.nn.compute_accidental_hits([[1, 2], [0, 3]], [2, 3, 0], 2)
    >>> found.indices.numpy().tolist(), found.ids.numpy().tolist()
    ([0, 1, 1], [0, 2, 1])

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/compute_accidental_hits
    """
    # No classes are sampled here.
    classes = _checked_classes("ComputeAccidentalHits", true_classes, num_true, 0, False, 0)
    sampled = convert_to_tensor(sampled_candidates, int64)
    return AccidentalHits(*bind.accidental_hits(classes, sampled, count=unknown_dim()))


# -- losses


def _logits_and_labels(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    count: int,
    classes: int,
    num_true: int,
    sampled_values: Any,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """Computes logits and labels for a loss over the true classes of each example and sampled classes.

    Both results have the shape (batch, num_true + count). The logarithm of a class's expected count is subtracted from
    the class's logit. The labels of an example's true classes add up to 1.

    Args:
      count, classes, num_true: the numbers of sampled classes, of all classes, and of true classes of an example.
      sampled_values: the result of a candidate sampler, or None.
      options: ``seed`` of the default sampler; ``without_hits``: whether sampled classes that are true classes of an
        example have the lowest logit.
    """
    features = convert_to_tensor(inputs)
    true = cast(convert_to_tensor(labels), int64)
    if true.ndim != 2 or not agree_shape(true._type.shape, (features._type.shape[0], num_true)):
        raise incompatible_shapes(
            ValueError(
                f"labels must have shape [batch_size, num_true] = [{features.shape[0]}, {num_true}], but have {true.shape}"
            )
        )
    candidates = sampled_values or log_uniform_candidate_sampler(true, num_true, count, True, classes, options["seed"])
    sampled, true_expected, sampled_expected = (stop_gradient(convert_to_tensor(each)) for each in candidates)
    sampled = cast(sampled, int64)
    weight_rows, bias_rows = _whole_table(weights), _whole_table(biases)
    true_rows = cast(gather(weight_rows, true), features.dtype)
    true_logits = bind.reduce_sum(features[:, None, :] * true_rows, axis=(2,), keepdims=False)  # type: ignore[index]
    true_logits = (
        true_logits + cast(gather(bias_rows, true), features.dtype) - bind.log(cast(true_expected, features.dtype))
    )
    sampled_rows = cast(gather(weight_rows, sampled), features.dtype)
    logits = public_names()["matmul"](features, sampled_rows, transpose_b=True) + cast(
        gather(bias_rows, sampled), features.dtype
    )
    if options["without_hits"]:
        is_hit = bind.equal(true[:, :, None], sampled[None, None, :])  # type: ignore[index]
        logits = logits + bind.select(bind.reduce_any(is_hit, axis=(1,), keepdims=False), *_weights(features.dtype))
    logits = logits - bind.log(cast(sampled_expected, features.dtype))
    target_labels = [
        bind.broadcast_to(convert_to_tensor(value, features.dtype), shape=class_logits._type.shape)
        for value, class_logits in ((1 / num_true, true_logits), (0, logits))
    ]
    return bind.concat(true_logits, logits, axis=1), bind.concat(*target_labels, axis=1)


def _weights(dtype: Any) -> tuple[Tensor, Tensor]:
    """Returns what is added to the logit of a class: the lowest number for an accidental hit, else zero."""
    return convert_to_tensor(LOWEST_FLOAT, dtype), convert_to_tensor(0, dtype)


def _whole_table(parameter: Any) -> Tensor:
    """Returns the weights or biases of all classes as one tensor; ``parameter`` may be a list of its parts."""
    # A list of numbers is not a list of parts.
    if isinstance(parameter, (list, tuple)) and hasattr(parameter[0], "dtype"):
        return public_names()["concat"](list(parameter), 0)  # type: ignore[no-any-return]
    return convert_to_tensor(parameter)


@export("nn.nce_loss")
def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False,
    name: str = "nce_loss",
) -> Tensor:
    """Returns the noise-contrastive estimation loss, of classifying true against sampled classes.

    Args:
      weights: tensor of shape (classes, dim), or a list of its parts.
      biases: tensor of shape (classes,).
      labels: int64 tensor of shape (batch, num_true).
      inputs: tensor of shape (batch, dim).
      num_sampled, num_classes, num_true: the numbers of sampled, of all, and of true classes.
      sampled_values: a result of a sampler of `tf.random`; None for one of `tf.random.log_uniform_candidate_sampler`.
      remove_accidental_hits: whether sampled classes that are true are excluded.

    Returns:
      A tensor of shape (batch,).

    >>> import tvtf as tf
    >>> drawn = tf.constant([0], tf.int64), tf.ones([1, 1]), tf.ones([1])
    >>> tf.nn.nce_loss(tf.zeros([3, 2]), tf.zeros([3]), [[1]], tf.ones([1, 2]), 1, 3, sampled_values=drawn).numpy().round(4)
    array([1.3863], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/nce_loss
    """
    options: dict[str, Any] = {"seed": None, "without_hits": remove_accidental_hits}
    shared = (weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values)
    logits, target_labels = _logits_and_labels(*shared, **options)
    losses = public_names()["nn.sigmoid_cross_entropy_with_logits"](labels=target_labels, logits=logits)
    return bind.reduce_sum(losses, axis=(1,), keepdims=False)  # type: ignore[no-any-return]


@export("nn.sampled_softmax_loss")
def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    seed: int | None = None,
    name: str = "sampled_softmax_loss",
) -> Tensor:
    """Returns the cross entropy of a softmax over the true and the sampled classes; see `tf.nn.nce_loss`.

    >>> import tvtf as tf
    >>> drawn = tf.constant([0], tf.int64), tf.ones([1, 1]), tf.ones([1])
    >>> tf.nn.sampled_softmax_loss(tf.zeros([3, 2]), tf.zeros([3]), [[1]], tf.ones([1, 2]), 1, 3, sampled_values=drawn).numpy()
    array([0.6931472], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/sampled_softmax_loss
    """
    options: dict[str, Any] = {"seed": seed, "without_hits": remove_accidental_hits}
    shared = (weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values)
    logits, target_labels = _logits_and_labels(*shared, **options)
    return public_names()["nn.softmax_cross_entropy_with_logits"](stop_gradient(target_labels), logits)  # type: ignore[no-any-return]
