"""Defines Dataset and its iterator; other files add transformations as methods with ``@method``."""

from __future__ import annotations

import abc
import functools
import itertools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from tvtf.composites.sparse.dense import to_dense
from tvtf.core import nest
from tvtf.core.primitive import defer_unknown_rank, export
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.core.variable_lock import cached_property
from tvtf.data.dataset_arguments import NumberedObject, in_traces
from tvtf.data.random import RandomFunction, SeedGenerator
from tvtf.data.specs import DatasetSpec, IteratorSpec
from tvtf.data.structure import Element
from tvtf.dtypes import int64
from tvtf.errors import OpError, OutOfRangeError
from tvtf.frontend.autograph.status import status
from tvtf.ir.batching import stacked
from tvtf.state.random_streams import (
    StreamStates,
    drawn_by,
    function_of_elements,
    returned_by,
    states_of_part,
    trying,
)
from tvtf.state.trackable import Trackable

INFINITE: Final = -1
UNKNOWN: Final = -2
SHORT_CHAIN = 40
"""The longest chain of datasets that can be iterated within Python's usual recursion limit, next to the program itself."""
FRAMES_PER_DATASET = 12
"""The most frames that a dataset of a chain adds to the stack when it is iterated."""
RECURSION_BESIDE = 1000
"""The frames that are left to the program and to the functions of elements."""
MAX_UNCONVERTED_STEPS = 32
"""The most elements that an iterator gives to one trace while AutoGraph is off; TensorFlow's limit."""
MSG_UNCONVERTED_LOOP = (
    "An unusually high number of `tf.data.Iterator.get_next()` calls was detected. This suggests that the "
    "`for elem in dataset: ...` idiom is used within tf.function with AutoGraph disabled. This idiom is only supported when "
    "AutoGraph is enabled."
)
CACHED_ELEMENTS = "cached"
"""The attribute of a dataset that holds elements, in which there is nothing random."""


@export("data.Dataset")
class Dataset(NumberedObject, abc.ABC):
    """A sequence of elements, each a nest of tensors; every iteration computes them again.

    Subclasses define ``handles``, and ``value`` if a handle is not the element itself. Handles are cheap to move:
    shuffling and batching work on row indices, and ``batch_value`` gathers a whole batch in one step.

    >>> import tvtf as tf
    >>> numbers = tf.data.Dataset.range(10).shuffle(10, seed=1).batch(4)
    >>> [batch.shape[0] for batch in numbers]
    [4, 4, 2]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset
    """

    number_kind = "dataset"
    repr_name = ""
    """TensorFlow's class name, which ``repr`` prints; if empty, it is derived from this class's name."""

    def __init__(self, element_spec: Any, size: int) -> None:
        self._element_spec = element_spec
        self.size = size
        """The number of elements, or INFINITE or UNKNOWN."""
        self._maker = function_of_elements()
        """The function of elements that makes this dataset, or None."""

    @property
    def element_spec(self) -> Any:  # type: ignore[override]
        """The specs of an element's tensors."""
        return self._element_spec

    def argument_spec(self) -> Any:
        return DatasetSpec(self.element_spec)

    @abc.abstractmethod
    def handles(self) -> Iterator[Any]:
        """Starts an iteration over handles, which ``value`` turns into elements."""

    def value(self, handle: Any) -> Element:
        """Returns the element of a handle; by default the handle is the element."""
        return handle

    def batch_value(self, handles: Sequence[Any]) -> Element:
        """Returns the elements of several handles, stacked."""
        return stacked([*self._values(handles)], self.element_spec)

    def elements(self) -> Iterator[Element]:
        """Starts an iteration over elements."""
        return self._values(self.handles())

    def _values(self, handles: Iterable[Any]) -> Iterator[Element]:
        return iter(handles) if type(self).value is Dataset.value else map(self.value, handles)

    @cached_property
    def seed_generators(self) -> list[SeedGenerator]:
        """The seed generators of this dataset and of all datasets that it depends on."""
        return [part for part in self._random_parts if isinstance(part, SeedGenerator)]

    @cached_property
    def _random_functions(self) -> list[RandomFunction]:
        """The functions of elements of this dataset and of all datasets that it depends on."""
        return [part for part in self._random_parts if isinstance(part, RandomFunction)]

    def assigns_variables(self) -> bool:
        """Returns whether computing elements is known to assign Variables."""
        return any(function.assigns_variables() for function in self._random_functions)

    @cached_property
    def _random_parts(self) -> list[SeedGenerator | RandomFunction]:
        """What may draw random numbers in this dataset and in all datasets that it depends on, without duplicates."""
        return self._upstream[0]

    @cached_property
    def _upstream(self) -> tuple[list[SeedGenerator | RandomFunction], int]:
        """The random parts of this dataset and of all that it depends on, and the length of the longest chain of datasets.

        This is a depth-first search with a stack of its own: a chain can be too long for recursion.
        """
        parts: dict[int, SeedGenerator | RandomFunction] = {}
        lengths: dict[int, int] = {}  # of the chain that ends with a dataset, by the dataset's identity
        unfinished = [(self, _attributes(self))]
        while unfinished:
            dataset, attributes = unfinished[-1]
            unvisited = None
            for attribute in attributes:
                if not isinstance(attribute, Dataset):
                    parts[id(attribute)] = attribute
                elif "_upstream" in vars(attribute):
                    known_parts, lengths[id(attribute)] = attribute._upstream
                    parts.update((id(part), part) for part in known_parts)
                elif id(attribute) not in lengths:
                    unvisited = attribute
                    break
            if unvisited is not None:  # its chain must be known before the search goes on with this dataset
                unfinished.append((unvisited, _attributes(unvisited)))
                continue
            source_lengths = [lengths[id(source)] for source in dataset.sources()]
            lengths[id(dataset)] = 1 + max(source_lengths, default=0)
            unfinished.pop()
        return list(parts.values()), lengths[id(self)]

    def sources(self) -> list[Dataset]:
        """Returns the datasets that this one depends on directly."""
        return [attribute for attribute in _attributes(self) if isinstance(attribute, Dataset)]

    def _allow_recursion(self) -> None:
        """Raises Python's recursion limit if the chain of datasets is long: each calls the one before it for an element."""
        length = self._upstream[1]
        if length > SHORT_CHAIN:
            sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_BESIDE + length * FRAMES_PER_DATASET))

    def new_elements(self, position: int = 0) -> Iterator[Element]:
        """Starts an iteration over elements for the program, in which random ops of functions start again, as in TensorFlow.

        The first ``position`` elements are skipped without being computed.
        """
        self._allow_recursion()
        if self.may_draw() or returned_by() is not None:
            return DrawingIterator(StreamStates(), lambda: self._elements_from(position))
        return self._elements_from(position)

    def may_draw(self) -> bool:
        """Returns whether a function of elements, of this dataset or of one that it depends on, may call random ops."""
        return any(function.may_draw() for function in self._random_functions)

    def is_rewritten(self) -> bool:
        """Returns whether TensorFlow rewrites the graph that has this dataset for the running iteration.

        It rewrites the program's datasets, and those that a function of elements makes, but not those that one captures.
        """
        function = returned_by()
        return function is None or function is self._maker

    def _elements_from(self, position: int) -> Iterator[Element]:
        """Starts an iteration at the element ``position``. The elements before it are not computed."""
        if not position:
            return self.elements()
        return self._values(itertools.islice(self.handles(), position, None))

    def example_elements(self) -> Iterator[Element]:
        """Yields the first element, if there is one. Later iterations have the same order as without this call.

        The states of the seed generators are restored, because an iteration draws seeds from them.
        """
        self._allow_recursion()
        states = [(generator, generator.pair, generator.drawn) for generator in self.seed_generators]
        with trying():
            first_elements = list(itertools.islice(self.elements(), 1))
        for generator, pair, drawn in states:
            generator.restore(pair, drawn)
        return iter(first_elements)

    def __iter__(self) -> OwnedIterator:
        if state.trace is not None:
            return in_traces.begin(self)
        return OwnedIterator(self)

    def _traced_steps(self) -> Any:
        """Returns the iteration that a ``for`` loop of a traced function runs."""
        return in_traces.steps(self)

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        """Returns the number of elements. Raises TypeError if it is infinite or unknown."""
        if self.size == INFINITE:
            raise TypeError("The dataset is infinite.")
        if self.size == UNKNOWN:
            raise TypeError("The dataset length is unknown.")
        return self.size

    def size_of_batches(self) -> int | None:
        """Returns the size of all batches but the last, or None if elements are no batches or their sizes differ."""
        return None

    def changes_nothing(self) -> bool:
        """Returns whether its elements are those of its only source, so that TensorFlow leaves it out of what it rewrites."""
        return False

    def __repr__(self) -> str:
        """Returns TensorFlow's text: its class name and the element spec."""
        return f"<{self.repr_name or f'_{type(self).__name__}Dataset'} element_spec={self.element_spec}>"

    def cardinality(self, name: str | None = None) -> Tensor:
        """Returns the number of elements as an int64 scalar, or ``tf.data.INFINITE_CARDINALITY`` or ``UNKNOWN_CARDINALITY``.

        Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#cardinality
        """
        return EagerTensor(np.array(self.size, int64.np))

    def as_numpy_iterator(self) -> Iterator[Any]:
        """Returns an iterator over the elements with NumPy arrays in place of tensors.

        Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#as_numpy_iterator
        """
        for spec in nest.flatten(self.element_spec):
            if nest.is_composite(spec) and spec.value_type.__name__ not in (
                "RaggedTensor",
                "SparseTensor",
                "Tensor",
                "NoneType",
            ):
                raise TypeError(
                    "`tf.data.Dataset.as_numpy_iterator()` is not supported for datasets that produce values of type "
                    f"{spec.value_type}"
                )
        return NumpyIterator(self)


class Joined(Iterator[Any]):
    """The elements of several iterators, one after the other; after an error, the following elements."""

    def __init__(self, iterators: Iterator[Iterator[Any]]) -> None:
        self._iterators = iterators
        self._current: Iterator[Any] | None = None

    def __next__(self) -> Any:
        """Returns the next element of the current iterator; at its end, goes on with the next iterator."""
        while True:
            if self._current is None:
                self._current = next(self._iterators)
            try:
                return next(self._current)
            except StopIteration:
                self._current = None


class DrawingIterator(Iterator[Any]):
    """An iteration over a dataset whose functions may call random ops: these have the states of the iteration in it."""

    def __init__(self, states: StreamStates, start: Callable[[], Iterator[Any]]) -> None:
        self._drawing = drawn_by(states)
        with self._drawing:
            self._items = start()

    def __next__(self) -> Any:
        with self._drawing:
            return next(self._items)


class Joining(Dataset):
    """A dataset that depends on several others.

    When TensorFlow makes an iterator, it copies the graph of each of these. So two of them draw the same numbers if they
    are one dataset, or depend on one. TensorFlow doesn't copy what a function of elements returns.
    """

    inputs: Sequence[Dataset]
    """The datasets that this one depends on, each as often as it is used."""

    def iterations_of_inputs(self, start: Callable[[Dataset], Iterator[Any]]) -> Iterator[Iterator[Any]]:
        """Yields an iteration of each input, which begins only then; ``start`` calls ``elements`` or ``handles``."""
        is_copied = returned_by() is None and sum(dataset.may_draw() for dataset in self.inputs) > 1
        for index, dataset in enumerate(self.inputs):
            states = states_of_part((self, index)) if is_copied else None
            begin = functools.partial(start, dataset)
            yield begin() if states is None else DrawingIterator(states, begin)


elements_of: Callable[[Dataset], Iterator[Element]] = operator.methodcaller("elements")
handles_of: Callable[[Dataset], Iterator[Any]] = operator.methodcaller("handles")


def _attributes(dataset: Dataset) -> Iterator[Dataset | SeedGenerator | RandomFunction]:
    """Yields the datasets and random parts among a dataset's attributes, which may be tuples or lists."""
    for name, attribute in list(vars(dataset).items()):  # a copy: another thread may set an attribute
        if name == CACHED_ELEMENTS:
            continue
        values = attribute if isinstance(attribute, (tuple, list)) else [attribute]
        for value in values:
            if isinstance(value, (Dataset, SeedGenerator, RandomFunction)):
                yield value


Handles = Callable[[Any], Iterator[Any]]


def started(handles: Handles) -> Handles:
    """Decorates a generator method `handles` so that a call runs it to its first ``yield``, which has no value.

    The code before that ``yield`` starts to iterate the sources. TensorFlow also starts the whole pipeline when an iterator
    is created: `shuffle` draws its seeds then, even if the iterator is never used. Keras creates such iterators.
    """

    @functools.wraps(handles)
    def start(self: Any) -> Iterator[Any]:
        iterator = handles(self)
        next(iterator)
        return iterator

    return start


Method = TypeVar("Method", bound=Callable[..., Any])


def method(function: Method) -> Method:
    """Adds a function to the class Dataset as a method, and returns the function.

    The method's name lacks a trailing underscore. For example, ``map_`` becomes ``Dataset.map``.
    """
    function.__name__ = function.__name__.rstrip("_")
    setattr(Dataset, function.__name__, defer_unknown_rank(function))
    methods.append(function.__name__)
    return function


methods: list[str] = []
"""The names of the methods that `method` has added."""


class PassThrough(Dataset):
    """A dataset that selects or reorders elements of ``source`` and passes its handles on unchanged."""

    def __init__(self, source: Dataset, size: int, element_spec: Any = None) -> None:
        super().__init__(source.element_spec if element_spec is None else element_spec, size)
        self.source = source

    def value(self, handle: Any) -> Element:
        return self.source.value(handle)

    def batch_value(self, handles: Sequence[Any]) -> Element:
        return self.source.batch_value(handles)

    def size_of_batches(self) -> int | None:
        return self.source.size_of_batches()


@export("data.Iterator")
class OwnedIterator(NumberedObject, Trackable):
    """An iteration over a dataset; checkpoints store its position and the seeds of its random choices.

    >>> import tvtf as tf
    >>> iterator = iter(tf.data.Dataset.range(2))
    >>> int(iterator.get_next()), int(next(iterator))
    (0, 1)

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Iterator
    """

    number_kind = "iterator"
    _unconverted_steps = 0
    """The number of elements given to traces while AutoGraph was off."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._generators = dataset.seed_generators
        self._start = [number for g in self._generators for number in (*g.pair, g.drawn)]
        self._elements = dataset.new_elements()
        self.position = 0
        """The number of elements returned so far."""

    def _serialize_to_tensors(self) -> dict[str, Any]:
        return {_STATE: np.array([self.position, *self._start], np.int64)}

    def _restore_from_tensors(self, tensors: Mapping[str, Any]) -> None:
        """Restores a saved position and seeds. The elements before the position are skipped without being computed."""
        self.position, *self._start = map(int, tensors[_STATE])
        # Each generator has stored three numbers: a pair of seeds and the number of pairs drawn from it.
        for index, generator in enumerate(self._generators):
            first_seed, second_seed, drawn = self._start[3 * index : 3 * index + 3]
            generator.restore((first_seed, second_seed), drawn)
        self._elements = self._dataset.new_elements(self.position)

    @property
    def element_spec(self) -> Any:  # type: ignore[override]
        return self._dataset.element_spec

    def argument_spec(self) -> Any:
        return IteratorSpec(self.element_spec)

    def __iter__(self) -> OwnedIterator:
        return self

    _traced_steps = Dataset._traced_steps

    def __next__(self) -> Element:
        """Returns the next element; while tracing, the symbolic tensors of the element that each run takes."""
        if state.trace is not None:
            self._count_traced_step()
            return in_traces.next(self)
        try:
            element = next(self._elements)
        except OpError as error:
            # TensorFlow's errors name the op that requested the element.
            raise type(error)(error.node_def, error.op, f"{error.message} [Op:IteratorGetNext] name: ") from None
        self.position += 1
        return element

    def _count_traced_step(self) -> None:
        """Raises TensorFlow's error if tracing takes many elements while AutoGraph is off.

        A Python loop over the dataset is then not converted, and would never end, because each step is only traced.
        """
        if status.disabled or not status.scopes:
            self._unconverted_steps += 1
        if self._unconverted_steps > MAX_UNCONVERTED_STEPS:
            raise ValueError(MSG_UNCONVERTED_LOOP)

    def next(self) -> Element:
        """Returns the next element; see `get_next`."""
        return self.__next__()

    def get_next(self) -> Element:
        """Returns the next element.

        Raises:
          OutOfRangeError: the iterator is at its end.
        """
        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError(None, "IteratorGetNext", "End of sequence [Op:IteratorGetNext] name: ") from None


class NumpyIterator:
    """An iteration over a dataset, with NumPy arrays in place of tensors.

    >>> import tvtf as tf
    >>> iterator = tf.data.Dataset.from_tensors([1, 2]).as_numpy_iterator()
    >>> iterator.next()
    array([1, 2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/data/NumpyIterator
    """

    def __init__(self, dataset: Dataset) -> None:
        self._iterator = iter(dataset)

    def __repr__(self) -> str:
        return f"NumpyIterator(iterator={self._iterator!r})"

    def __iter__(self) -> NumpyIterator:
        return self

    def __next__(self) -> Any:
        return nest.map_structure(_as_numpy, next(self._iterator))

    def next(self) -> Any:
        """Returns the next element."""
        return self.__next__()


def _as_numpy(leaf: Any) -> Any:
    """Converts a tensor to a read-only NumPy array; a sparse tensor becomes dense. Other leaves are left unchanged."""
    if hasattr(leaf, "dense_shape"):
        leaf = to_dense(leaf)
    array = leaf.numpy() if hasattr(leaf, "numpy") else leaf
    if isinstance(array, np.ndarray):
        array = array.view()
        array.setflags(write=False)
    return array


_STATE: Final = "ITERATOR_STATE"


DatasetSpec.value_type = Dataset
IteratorSpec.value_type = OwnedIterator


def map_known_size(size: int, change: Callable[[int], int]) -> int:
    """Returns ``change(size)``, or ``size`` if it is UNKNOWN or INFINITE."""
    return size if size < 0 else change(size)
