"""``tf.compat.v1.data``: pipelines that a graph declares and a session runs through, by iterators that ops ask.

What a pipeline is made of may be fed: then it is built when its iterator is initialized. What its elements are is told from
two examples with other sizes.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.primitive import public_names
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.data.base import Dataset
from tvtf.dtypes import string
from tvtf.errors import FailedPreconditionError, OutOfRangeError
from tvtf.frontend.host.python_call import numpy_function, py_function
from tvtf.v1.graph import GraphTrace, Operation, current_graph
from tvtf.v1.registry import v1
from tvtf.v1.session import running

_Given = Mapping[Any, Any]
"""By tensor of the graph, the value to build with."""


@contextmanager
def _eagerly() -> Iterator[None]:
    outer, tapes = state.trace, state.tapes
    state.trace, state.tapes = None, []
    try:
        yield
    finally:
        state.trace, state.tapes = outer, tapes


def _in_graph() -> bool:
    return isinstance(state.trace, GraphTrace)


class GraphDataset:
    """A pipeline declared in a graph: ``make`` builds it when the ``inputs`` are known."""

    def __init__(self, make: Callable[[_Given], Any], inputs: list[SymbolicTensor], whole: Any = None) -> None:
        self._make, self._inputs = make, inputs
        self._whole = whole

    def built(self, given: _Given) -> Any:
        return self._make(given) if self._inputs or self._whole is None else self._whole

    @property
    def element_spec(self) -> Any:
        if not self._inputs:
            return self.built({}).element_spec
        with _eagerly():
            first, second = (self._make({id(t): _example(t, n) for t in self._inputs}).element_spec for n in (2, 3))
        return nest.map_structure(_both, first, second)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "make_one_shot_iterator":
            return lambda: make_one_shot_iterator(self)
        if name == "make_initializable_iterator":
            return lambda shared_name=None: make_initializable_iterator(self)
        if name in ("output_types", "output_shapes", "output_classes"):
            return _STRUCTURES[name](self.element_spec)
        getattr(Dataset, name)
        return lambda *args, **kwargs: _declared(
            lambda given: getattr(self.built(given), name), self._inputs, args, kwargs
        )


def _both(a: Any, b: Any) -> Any:
    """The spec of what is of either."""
    if not isinstance(a, TensorSpec) or a.shape.rank is None or b.shape.rank != a.shape.rank:
        return a
    return TensorSpec([m if m == n else None for m, n in zip(a.shape, b.shape)], a.dtype)


def _example(tensor: SymbolicTensor, size: int) -> EagerTensor:
    shape = [] if tensor.shape.rank is None else [size if d is None else d for d in tensor.shape]
    if tensor.dtype is string:
        return EagerTensor(np.full(shape, b"", object))
    return EagerTensor(np.full(shape, 1, tensor.dtype.np))


def _declared(how: Callable[[_Given], Any], inputs: list[SymbolicTensor], args: Any, kwargs: Any) -> Any:
    """What a function of ``how`` gives for arguments, of which tensors of the graph are known later."""
    leaves = [x for x in _leaves((args, kwargs)) if isinstance(x, (SymbolicTensor, GraphDataset))]
    found = list(inputs)
    for leaf in leaves:
        found += leaf._inputs if isinstance(leaf, GraphDataset) else [] if _constant(leaf) is not None else [leaf]

    def make(given: _Given) -> Any:
        with _eagerly():
            return how(given)(*_resolved(args, given), **_resolved(kwargs, given))

    if found:
        return GraphDataset(make, list({id(t): t for t in found}.values()))
    made = make({})
    return GraphDataset(make, [], made) if isinstance(made, Dataset) else made


def _constant(tensor: SymbolicTensor) -> Any:
    return tensor._trace.known_value(tensor) if isinstance(tensor._trace, GraphTrace) else None


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return _leaves(list(value.values()))
    if nest.is_composite(value):
        return nest.flatten(value, expand_composites=True)
    return [x for v in value for x in _leaves(v)] if isinstance(value, (list, tuple)) else [value]


def _resolved(value: Any, given: _Given) -> Any:
    if isinstance(value, GraphDataset):
        return value.built(given)
    if isinstance(value, SymbolicTensor):
        return given[id(value)] if id(value) in given else _constant(value)
    if isinstance(value, Mapping):
        made: Any = type(value)
        return made((k, _resolved(v, given)) for k, v in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_resolved(v, given) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_resolved(v, given) for v in value)
    if nest.is_composite(value):
        flat = [_resolved(v, given) for v in nest.flatten(value, expand_composites=True)]
        return nest.pack_sequence_as(value, flat, expand_composites=True)
    return value


class _Makers(type):
    """What makes datasets, in a graph declared and later built."""

    def __getattr__(cls, name: str) -> Any:
        found = getattr(cls._target, name)  # type: ignore[attr-defined]
        return _deferring(found) if callable(found) else found

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _deferring(cls._target)(*args, **kwargs)  # type: ignore[attr-defined]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (GraphDataset, cls._target))  # type: ignore[attr-defined]


def _deferring(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: (
        _declared(lambda _: function, [], args, kwargs) if _in_graph() else function(*args, **kwargs)
    )


def _declare(path: str) -> None:
    import tvtf

    target: Any = tvtf
    for name in path.split("."):
        target = getattr(target, name)
    v1(path)(_Makers(target.__name__, (), {"_target": target}))


for _path in ("data.Dataset", "data.TextLineDataset", "data.TFRecordDataset", "data.FixedLengthRecordDataset"):
    _declare(_path)
for _path in ("CsvDataset", "SqlDataset", "RandomDataset", "make_csv_dataset", "make_batched_features_dataset"):
    try:
        _declare(f"data.experimental.{_path}")
    except AttributeError:
        continue


# -- tables, which are made at once


def _made_at_once(path: str) -> None:
    def make(*args: Any, **kwargs: Any) -> Any:
        whole = public_names()[path]
        if not _in_graph():
            return whole(*args, **kwargs)
        unknown = [x for x in _leaves((args, kwargs)) if isinstance(x, SymbolicTensor) and _constant(x) is None]
        if unknown:
            raise NotImplementedError(
                f"tf.{path} in a graph takes constants: {unknown[0]} is known when the graph runs"
            )
        with _eagerly():
            return whole(*_resolved(args, {}), **_resolved(kwargs, {}))

    make.__name__ = path.rpartition(".")[2]
    v1(path)(make)


for _path in (
    *("KeyValueTensorInitializer", "TextFileInitializer", "StaticHashTable", "StaticVocabularyTable"),
    *("experimental.DenseHashTable", "experimental.MutableHashTable"),
):
    _made_at_once(f"lookup.{_path}")


@v1("tables_initializer", "initialize_all_tables")
def tables_initializer(name: str = "init_all_tables") -> Any:
    """Tables hold what they hold from the start."""
    return public_names()["no_op"](name)


# -- iterators


class GraphIterator:
    """An iterator whose place each session has for itself; ops ask it for elements.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/data/Iterator
    """

    def __init__(self, spec: Any, begin: Callable[[], Any] | None = None, initializer: Operation | None = None) -> None:
        self._spec, self._begin, self._initializer = spec, begin, initializer
        self._places: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._handle = f"iterator-{next(_numbers)}".encode()
        _iterators[self._handle] = self

    @property
    def initializer(self) -> Operation:
        """The op that begins anew.

        Raises:
          ValueError: it has none.
        """
        if self._initializer is None:
            raise ValueError(
                "The iterator does not have an initializer. This means it was likely created using "
                "`tf.data.Dataset.make_one_shot_iterator()`. For an initializable iterator, use "
                "`tf.data.Dataset.make_initializable_iterator()` instead."
            )
        return self._initializer

    @property
    def element_spec(self) -> Any:
        return self._spec

    output_types = property(lambda self: _STRUCTURES["output_types"](self._spec))
    output_shapes = property(lambda self: _STRUCTURES["output_shapes"](self._spec))
    output_classes = property(lambda self: _STRUCTURES["output_classes"](self._spec))

    def begin(self, dataset: Any) -> None:
        """Begins in the session that runs."""
        with _eagerly():
            self._places[running()] = iter(dataset)

    def next_element(self) -> Any:
        """The session's next one.

        Raises:
          FailedPreconditionError: it has not begun. OutOfRangeError: there is none.
        """
        if running() not in self._places:
            if self._begin is None:
                told = (
                    "GetNext() failed because the iterator has not been initialized. Ensure that you have run the initializer "
                    "operation for this iterator before getting the next element."
                )
                raise FailedPreconditionError(None, None, told)
            self.begin(self._begin())
        with _eagerly():
            try:
                return next(self._places[running()])
            except StopIteration:
                raise OutOfRangeError(None, "IteratorGetNext", "End of sequence") from None

    def get_next(self, name: str | None = None) -> Any:
        """The next element as tensors of the graph: another one in each run."""
        return _asked(lambda *_: self.next_element(), [], self._spec, name)

    def string_handle(self, name: str | None = None) -> Tensor:
        """What a feedable iterator is fed to take elements from this one."""
        return current_graph().trace.own(convert_to_tensor(self._handle))

    def make_initializer(self, dataset: Any, name: str | None = None) -> Operation:
        """The op that begins with a dataset."""
        return _initializing(self, dataset, name)

    @staticmethod
    def from_structure(
        output_types: Any, output_shapes: Any = None, shared_name: Any = None, output_classes: Any = None
    ) -> GraphIterator:
        """One that begins with any dataset of these elements."""
        return GraphIterator(_spec_of(output_types, output_shapes, output_classes))

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> Any:
        """One that takes elements from that whose handle is fed."""
        return FeedableIterator(_spec_of(output_types, output_shapes, output_classes), string_handle)


class FeedableIterator(GraphIterator):
    """Takes elements from the iterator whose handle is fed."""

    def __init__(self, spec: Any, handle: Any) -> None:
        super().__init__(spec)
        self._fed = handle

    def get_next(self, name: str | None = None) -> Any:
        return _asked(lambda h: _iterators[h.numpy()].next_element(), [convert_to_tensor(self._fed)], self._spec, name)


_numbers = itertools.count()
_iterators: weakref.WeakValueDictionary[bytes, GraphIterator] = weakref.WeakValueDictionary()
v1("data.Iterator")(GraphIterator)


def _asked(work: Callable[..., Any], inputs: list[Any], spec: Any, name: str | None) -> Any:
    """What Python gives when the graph runs, in the structure of ``spec``."""
    flat = nest.flatten(spec)
    trace = current_graph().trace
    with trace.unnamed():
        found = py_function(lambda *given: nest.flatten(work(*given)), inputs, flat)
    trace.name_results(found, name or "IteratorGetNext", "IteratorGetNext")
    return nest.pack_sequence_as(spec, list(found))


def _initializing(iterator: GraphIterator, dataset: Any, name: str | None = None) -> Operation:
    declared = dataset if isinstance(dataset, GraphDataset) else GraphDataset(lambda _: dataset, [], dataset)
    graph = current_graph()

    def begin(*values: Any) -> np.ndarray:
        given = {id(t): convert_to_tensor(v, t.dtype) for t, v in zip(declared._inputs, values)}
        iterator.begin(declared.built(given))
        return np.array(True)

    with graph.trace.unnamed(), graph.trace.one_operation() as effects:
        numpy_function(begin, list(declared._inputs), TensorSpec([], "bool"))
    return Operation("MakeIterator", name or "MakeIterator", graph, effects)


@v1("data.make_one_shot_iterator")
def make_one_shot_iterator(dataset: Any) -> Any:
    """An iterator that begins by itself; outside a graph as ``iter``.

    Raises:
      ValueError: the dataset is made of what is fed.
    """
    if not _in_graph():
        return iter(dataset)
    if getattr(dataset, "_inputs", None):
        raise ValueError(
            f"Failed to create a one-shot iterator for a dataset. `Dataset.make_initializable_iterator()` is required: it captures {dataset._inputs}."
        )
    whole = dataset.built({}) if isinstance(dataset, GraphDataset) else dataset
    return GraphIterator(whole.element_spec, lambda: whole)


@v1("data.make_initializable_iterator")
def make_initializable_iterator(dataset: Any, shared_name: str | None = None) -> Any:
    """An iterator that its ``initializer`` begins."""
    iterator = GraphIterator(dataset.element_spec)
    iterator._initializer = _initializing(iterator, dataset)
    return iterator


# -- structures of elements, as TensorFlow 1 told them


def _structure(pick: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda spec: nest.map_structure(pick, spec)


_STRUCTURES: dict[str, Callable[[Any], Any]] = {
    "output_types": _structure(lambda s: getattr(s, "dtype", None) or s._dtype),
    "output_shapes": _structure(
        lambda s: getattr(s, "shape", None) or s._shape if not isinstance(s, TensorSpec) else s.shape
    ),
    "output_classes": _structure(lambda s: s.value_type),
}


def _getter(name: str) -> None:
    def get(dataset_or_iterator: Any) -> Any:
        return _STRUCTURES[name](dataset_or_iterator.element_spec)

    get.__name__ = f"get_{name}"
    v1(f"data.get_{name}")(get)


for _name in _STRUCTURES:
    _getter(_name)


def _spec_of(types: Any, shapes: Any, classes: Any) -> Any:
    if shapes is None:
        return nest.map_structure(lambda t: TensorSpec(None, t), types)
    flat = nest.flatten_up_to(types, shapes) if hasattr(nest, "flatten_up_to") else _flat_shapes(shapes)
    specs = [TensorSpec(None if s is None else TensorShape(s), t) for s, t in zip(flat, nest.flatten(types))]
    return nest.pack_sequence_as(types, specs)


def _flat_shapes(shapes: Any) -> list[Any]:
    if isinstance(shapes, TensorShape) or shapes is None:
        return [shapes]
    values = shapes.values() if isinstance(shapes, Mapping) else shapes
    return [s for v in values for s in _flat_shapes(v)]
