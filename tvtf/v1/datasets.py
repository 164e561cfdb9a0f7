"""``tf.compat.v1.data``: pipelines that a graph declares; a session runs them through iterators, which ops call.

A pipeline may depend on fed tensors: then it is built when its iterator is initialized. Its element spec is inferred from two
examples with different sizes.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

import tvtf
from tvtf.core import nest
from tvtf.core.primitive import public_names
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.data.base import Dataset
from tvtf.data.captured_tensors import captured_tensors, is_function, with_values
from tvtf.dtypes import string
from tvtf.errors import FailedPreconditionError, OutOfRangeError
from tvtf.frontend.host.python_call import numpy_function, py_function
from tvtf.state.random_streams import made_again, remade_ops
from tvtf.v1.default_session import running
from tvtf.v1.graph import GraphTrace, Operation, current_graph
from tvtf.v1.registry import v1

_ValuesById = Mapping[Any, Any]
"""The values of the graph's tensors from which a pipeline is built, by identity."""


@contextmanager
def _eagerly() -> Iterator[None]:
    """Runs the ops of the ``with`` block eagerly. They are added to no graph, and no gradient tape records them."""
    outer_trace, outer_tapes = state.trace, state.tapes
    state.trace, state.tapes = None, []
    try:
        yield
    finally:
        state.trace, state.tapes = outer_trace, outer_tapes


def _in_graph() -> bool:
    return isinstance(state.trace, GraphTrace)


class GraphDataset:
    """A pipeline declared in a graph; ``make`` builds it from the values of ``inputs``."""

    def __init__(
        self, make: Callable[[_ValuesById], Any], inputs: list[SymbolicTensor], constant_dataset: Any = None
    ) -> None:
        self._make, self._inputs = make, inputs
        self._constant_dataset = constant_dataset

    def built(self, values: _ValuesById) -> Any:
        """Returns the dataset for values of the inputs."""
        return self._make(values) if self._inputs or self._constant_dataset is None else self._constant_dataset

    @property
    def element_spec(self) -> Any:
        """Returns the spec of the dataset's elements.

        A dataset that depends on fed tensors is built twice, from example values. Unknown dims of the values are 2,
        then 3. A dim of the elements that differs between the two datasets is unknown.
        """
        if not self._inputs:
            return self.built({}).element_spec
        with _eagerly():
            first, second = self._example_spec(2), self._example_spec(3)
        return nest.map_structure(_covering_spec, first, second)

    def _example_spec(self, size: int) -> Any:
        """Returns the element spec of the dataset that is built from example values with unknown dims of ``size``."""
        examples = {id(tensor): _example(tensor, size) for tensor in self._inputs}
        return self._make(examples).element_spec

    def __getattr__(self, name: str) -> Any:
        """Returns the dataset's method ``name``, such as ``map``, or an attribute of TensorFlow 1's datasets.

        A call of the method is only declared. It is made when the dataset is built from the graph's fed values.
        """
        if name.startswith("__"):  # Python itself looks up such names, for example to copy an object
            raise AttributeError(name)
        if name == "make_one_shot_iterator":
            return lambda: make_one_shot_iterator(self)
        if name == "make_initializable_iterator":
            return lambda shared_name=None: make_initializable_iterator(self)
        if name in ("output_types", "output_shapes", "output_classes"):
            return _STRUCTURES[name](self.element_spec)
        getattr(Dataset, name)  # raises AttributeError if datasets have no such method

        def method_for(values: _ValuesById) -> Any:
            return getattr(self.built(values), name)

        return lambda *args, **kwargs: _declare_call(method_for, self._inputs, args, kwargs)


def _covering_spec(a: Any, b: Any) -> Any:
    """Returns the spec that covers two specs: dims that differ are unknown."""
    if not isinstance(a, TensorSpec) or a.shape.rank is None or b.shape.rank != a.shape.rank:
        return a
    return TensorSpec([a_dim if a_dim == b_dim else None for a_dim, b_dim in zip(a.shape, b.shape)], a.dtype)


def _example(tensor: SymbolicTensor, size: int) -> EagerTensor:
    """Returns an example value with ``size`` for unknown dims, and for elements, which may be sizes, too."""
    shape = [] if tensor.shape.rank is None else [size if dim is None else dim for dim in tensor.shape]
    if tensor.dtype is string:
        return EagerTensor(np.full(shape, b"", object))
    return EagerTensor(np.full(shape, size, tensor.dtype.np))


def _declare_call(
    function_of: Callable[[_ValuesById], Any], inputs: list[SymbolicTensor], args: Any, kwargs: Any
) -> Any:
    """Calls a dataset function now, or returns a ``GraphDataset`` that calls it when the graph runs.

    The function is called now if all arguments are constants. ``function_of(values)`` returns the function, from the
    values of the graph's tensors ``inputs`` by id.
    """
    all_inputs = list(inputs)
    for leaf in _leaves((args, kwargs)):
        if isinstance(leaf, GraphDataset):
            all_inputs += leaf._inputs
        else:
            tensors = (
                captured_tensors(leaf) if is_function(leaf) else [leaf] if isinstance(leaf, SymbolicTensor) else []
            )
            all_inputs += [tensor for tensor in tensors if _constant(tensor) is None]
    ops = remade_ops()

    def call(values: _ValuesById) -> Any:
        with _eagerly(), made_again(ops):
            return function_of(values)(*_with_values(args, values), **_with_values(kwargs, values))

    if all_inputs:
        unique_inputs = list({id(tensor): tensor for tensor in all_inputs}.values())
        return GraphDataset(call, unique_inputs)
    # All arguments are constants, so no values are needed.
    result = call({})
    return GraphDataset(call, [], result) if isinstance(result, Dataset) else result


def _constant(tensor: SymbolicTensor) -> Any:
    """Returns the value of a constant tensor, or None."""
    return tensor._trace.known_value(tensor) if isinstance(tensor._trace, GraphTrace) else None


def _leaves(value: Any) -> list[Any]:
    """Returns the leaves of nested lists, tuples and dicts. A composite tensor is replaced by its components."""
    if isinstance(value, Mapping):
        return _leaves(list(value.values()))
    if nest.is_composite(value):
        return nest.flatten(value, expand_composites=True)
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, (list, tuple)) else [value]


def _with_values(argument: Any, values: _ValuesById) -> Any:
    """Replaces the graph's tensors and datasets in a (nested) argument by their values.

    ``values`` holds the values of fed tensors, by the tensors' ids. All other tensors are constants.
    """
    if isinstance(argument, GraphDataset):
        return argument.built(values)
    if isinstance(argument, SymbolicTensor):
        return values[id(argument)] if id(argument) in values else _constant(argument)
    if is_function(argument):
        captured_values = {id(tensor): _with_values(tensor, values) for tensor in captured_tensors(argument)}
        return with_values(argument, captured_values)
    container: Any = type(argument)
    if isinstance(argument, Mapping):
        return container((key, _with_values(item, values)) for key, item in argument.items())
    if isinstance(argument, (list, tuple)):
        items = [_with_values(item, values) for item in argument]
        is_named_tuple = hasattr(argument, "_fields")  # it takes its fields one by one
        return container(*items) if is_named_tuple else container(items)
    if nest.is_composite(argument):
        components = [_with_values(item, values) for item in nest.flatten(argument, expand_composites=True)]
        return nest.pack_sequence_as(argument, components, expand_composites=True)
    return argument


class _Makers(type):
    """The metaclass of dataset classes whose functions are declared in a graph and built later."""

    def __getattr__(cls, name: str) -> Any:
        attribute = getattr(cls._target, name)  # type: ignore[attr-defined]
        return _deferring(attribute) if callable(attribute) else attribute

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _deferring(cls._target)(*args, **kwargs)  # type: ignore[attr-defined]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (GraphDataset, cls._target))  # type: ignore[attr-defined]


def _deferring(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: (
        _declare_call(lambda _: function, [], args, kwargs) if _in_graph() else function(*args, **kwargs)
    )


def _declare(path: str) -> None:
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


# -- tables, which are created immediately


def _export_table(path: str) -> None:
    """Declares ``tf.compat.v1.<path>``, a function that creates a lookup table at once, even in a graph."""

    def make_table(*args: Any, **kwargs: Any) -> Any:
        """Creates the lookup table. Raises NotImplementedError if an argument is computed by the graph."""
        table_class = public_names()[path]
        if not _in_graph():
            return table_class(*args, **kwargs)
        unknown = [x for x in _leaves((args, kwargs)) if isinstance(x, SymbolicTensor) and _constant(x) is None]
        if unknown:
            raise NotImplementedError(
                f"tf.{path} in a graph takes constants: {unknown[0]} is known when the graph runs"
            )
        with _eagerly():
            return table_class(*_with_values(args, {}), **_with_values(kwargs, {}))

    make_table.__name__ = path.rpartition(".")[2]
    v1(path)(make_table)


for _path in (
    *("KeyValueTensorInitializer", "TextFileInitializer", "StaticHashTable", "StaticVocabularyTable"),
    *("experimental.DenseHashTable", "experimental.MutableHashTable"),
):
    _export_table(f"lookup.{_path}")


@v1("tables_initializer", "initialize_all_tables")
def tables_initializer(name: str = "init_all_tables") -> Any:
    """Returns an op without effect: tables are filled when they are created."""
    return public_names()["no_op"](name)


# -- iterators


class GraphIterator:
    """An iterator whose position each session has separately; ops take elements from it.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/data/Iterator
    """

    def __init__(self, spec: Any, begin: Callable[[], Any] | None = None, initializer: Operation | None = None) -> None:
        self._spec, self._begin, self._initializer = spec, begin, initializer
        self._positions: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._handle = f"iterator-{next(_numbers)}".encode()
        _iterators[self._handle] = self

    @property
    def initializer(self) -> Operation:
        """The op that initializes the iterator: it goes to the first element.

        Raises:
          ValueError: the iterator has no initializer.
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
        """Starts an iteration in the running session."""
        with _eagerly():
            self._positions[running()] = iter(dataset)

    def next_element(self) -> Any:
        """Returns the next element in the running session.

        Raises:
          FailedPreconditionError: the iterator is not initialized.
          OutOfRangeError: the iterator is at its end.
        """
        session = running()
        if session not in self._positions:
            if self._begin is None:
                message = (
                    "GetNext() failed because the iterator has not been initialized. Ensure that you have run the initializer "
                    "operation for this iterator before getting the next element."
                )
                raise FailedPreconditionError(None, None, message)
            # A one-shot iterator begins by itself in each session.
            self.begin(self._begin())
        with _eagerly():
            try:
                return next(self._positions[session])
            except StopIteration:
                raise OutOfRangeError(None, "IteratorGetNext", "End of sequence") from None

    def get_next(self, name: str | None = None) -> Any:
        """Returns tensors of the next element; each run takes another one."""
        return _computed_when_run(lambda *_: self.next_element(), [], self._spec, name)

    def string_handle(self, name: str | None = None) -> Tensor:
        """Returns the handle by which a feedable iterator takes elements from this one."""
        return current_graph().trace.own(convert_to_tensor(self._handle))

    def make_initializer(self, dataset: Any, name: str | None = None) -> Operation:
        """Returns an op that starts iterating over a dataset."""
        return _make_initializer(self, dataset, name)

    @staticmethod
    def from_structure(
        output_types: Any, output_shapes: Any = None, shared_name: Any = None, output_classes: Any = None
    ) -> GraphIterator:
        """Returns an iterator that can be initialized with any dataset of these elements."""
        return GraphIterator(_spec_of(output_types, output_shapes, output_classes))

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> Any:
        """Returns an iterator that takes elements from the iterator whose handle is fed."""
        return FeedableIterator(_spec_of(output_types, output_shapes, output_classes), string_handle)


class FeedableIterator(GraphIterator):
    """An iterator that takes elements from the one whose handle is fed."""

    def __init__(self, spec: Any, handle: Any) -> None:
        super().__init__(spec)
        self._fed = handle

    def get_next(self, name: str | None = None) -> Any:
        return _computed_when_run(
            lambda h: _iterators[h.numpy()].next_element(), [convert_to_tensor(self._fed)], self._spec, name
        )


_numbers = itertools.count()
_iterators: weakref.WeakValueDictionary[bytes, GraphIterator] = weakref.WeakValueDictionary()
v1("data.Iterator")(GraphIterator)


def _computed_when_run(compute: Callable[..., Any], inputs: list[Any], spec: Any, name: str | None) -> Any:
    """Adds an op to the graph that calls ``compute`` on ``inputs`` when the graph runs.

    Returns the op's result tensors. ``spec`` is the nested structure of the results.
    """
    flat_specs = nest.flatten(spec)
    trace = current_graph().trace
    with trace.without_op_names():
        results = py_function(lambda *arrays: nest.flatten(compute(*arrays)), inputs, flat_specs)
    trace.name_results(results, name or "IteratorGetNext", "IteratorGetNext")
    return nest.pack_sequence_as(spec, list(results))


def _make_initializer(iterator: GraphIterator, dataset: Any, name: str | None = None) -> Operation:
    """Creates the op that initializes an iterator.

    When the op runs, it builds the dataset from the fed values, and sets the iterator to the first element.
    """
    declared = dataset if isinstance(dataset, GraphDataset) else GraphDataset(lambda _: dataset, [], dataset)
    inputs = list(declared._inputs)
    graph = current_graph()

    def begin(*values: Any) -> np.ndarray:
        """Builds the dataset from the ``values`` of its inputs, and sets the iterator to the first element."""
        values_by_id = {id(tensor): convert_to_tensor(value, tensor.dtype) for tensor, value in zip(inputs, values)}
        iterator.begin(declared.built(values_by_id))
        return np.array(True)  # an op needs a result

    with graph.trace.without_op_names(), graph.trace.one_operation() as effects:
        numpy_function(begin, inputs, TensorSpec([], "bool"))
    return Operation("MakeIterator", name or "MakeIterator", graph, effects)


@v1("data.make_one_shot_iterator")
def make_one_shot_iterator(dataset: Any) -> Any:
    """Returns an iterator that needs no initializer: its first element starts the iteration.

    Outside a graph, this is ``iter``.

    Raises:
      ValueError: the dataset depends on fed tensors.
    """
    if not _in_graph():
        return iter(dataset)
    if getattr(dataset, "_inputs", None):
        raise ValueError(
            f"Failed to create a one-shot iterator for a dataset. `Dataset.make_initializable_iterator()` is required: it captures {dataset._inputs}."
        )
    built_dataset = dataset.built({}) if isinstance(dataset, GraphDataset) else dataset
    return GraphIterator(built_dataset.element_spec, lambda: built_dataset)


@v1("data.make_initializable_iterator")
def make_initializable_iterator(dataset: Any, shared_name: str | None = None) -> Any:
    """Returns an iterator that its ``initializer`` starts."""
    iterator = GraphIterator(dataset.element_spec)
    iterator._initializer = _make_initializer(iterator, dataset)
    return iterator


# -- structures of elements, in TensorFlow 1's form


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
    """Declares the function ``tf.compat.v1.data.get_<name>``, such as ``get_output_shapes``.

    The function returns a part of the element spec of a dataset or iterator.
    """

    def get(dataset_or_iterator: Any) -> Any:
        return _STRUCTURES[name](dataset_or_iterator.element_spec)

    get.__name__ = f"get_{name}"
    v1(f"data.get_{name}")(get)


for _name in _STRUCTURES:
    _getter(_name)


def _spec_of(types: Any, shapes: Any, classes: Any) -> Any:
    """Returns the element spec with the structure of ``types``, which are nested dtypes, and with their ``shapes``.

    If ``shapes`` is None, all shapes are unknown. ``classes`` is not used.
    """
    if shapes is None:
        return nest.map_structure(lambda dtype: TensorSpec(None, dtype), types)
    flat_shapes = nest.flatten_up_to(types, shapes) if hasattr(nest, "flatten_up_to") else _flat_shapes(shapes)
    specs = []
    for shape, dtype in zip(flat_shapes, nest.flatten(types)):
        specs.append(TensorSpec(None if shape is None else TensorShape(shape), dtype))
    return nest.pack_sequence_as(types, specs)


def _flat_shapes(shapes: Any) -> list[Any]:
    if isinstance(shapes, TensorShape) or shapes is None:
        return [shapes]
    children = shapes.values() if isinstance(shapes, Mapping) else shapes
    return [shape for child in children for shape in _flat_shapes(child)]
