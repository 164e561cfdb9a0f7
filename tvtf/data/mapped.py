"""Applies users' functions to elements: map, filter, flat_map, interleave, scan, reduce, cache."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from tvtf.core import nest, thread_state
from tvtf.core.argument_error import ArgumentError
from tvtf.core.composite import CompositeTensor, TypeSpec
from tvtf.core.log import logger
from tvtf.core.tensor import EagerTensor
from tvtf.core.tensor_spec import NoneTensorSpec, TensorSpec
from tvtf.core.thread_count import available_cores
from tvtf.data.argument_conversion import int_argument
from tvtf.data.base import UNKNOWN, Dataset, DrawingIterator, Joined, method, started
from tvtf.data.parallel import ComputedElements, PrefetchingIterator, UnorderedMerge, Workers, debug, warn_unused
from tvtf.data.random import RandomFunction
from tvtf.data.saved_elements import load, store
from tvtf.data.sources import ElementList
from tvtf.data.specs import DatasetSpec, NumberedSpec
from tvtf.data.structure import Element, relaxed, result_of, spec_of, tensors_of
from tvtf.dtypes import bool as bool_
from tvtf.errors import OpError
from tvtf.frontend.autograph import convert
from tvtf.frontend.control_flow.cond_while import while_loop
from tvtf.frontend.function.polymorphic_function import Function, function
from tvtf.state.random_streams import (
    FunctionStreams,
    StreamStates,
    calling,
    drawn_by,
    new_function,
    states_of_results,
    traced_with,
    trying,
)


class Eager(RandomFunction):
    """A user's function of elements, run as Python; a tuple element is passed as several arguments."""

    def __init__(self, user: Callable[..., Any]) -> None:
        if not callable(user):
            raise ValueError(f"Argument `func` must be a callable. Received func={user!r} (of type {type(user)})")
        self.user = user
        self.streams = new_function()

    def __call__(self, *elements: Element) -> Any:
        with calling(self.streams):
            result = self.user(*_arguments(elements))
        return result if isinstance(result, Dataset) else result_of(result)

    def may_draw(self) -> bool:
        return True


class Traced(Eager):
    """A user's function of elements, traced once for their spec.

    A function that cannot be traced or compiled runs as Python for each element, with a warning.
    """

    def __init__(self, user: Callable[..., Any], source: Dataset, *state: Any) -> None:
        """Traces a user's function of the elements of ``source``, and infers the spec of the function's result.

        Args:
          user: the function. If it can't be traced, it is called on an element to find the spec.
          source: the dataset of the elements.
          *state: the specs of arguments before the element, such as the state of ``scan``.
        """
        super().__init__(user)
        specs = (*state, source.element_spec)
        all_dense = all(type(spec) is TensorSpec for spec in nest.flatten(specs))
        self._flatten = nest.flattener(specs) if all_dense else None
        self._traced = None
        if debug.on or _needs_values(specs):
            self.spec = self._eager_spec(source)
            return
        try:
            self._traced = self._trace(specs)
        except (TypeError, ValueError, NotImplementedError) as error:
            self.spec = self._eager_spec(source, error)
        else:
            self.spec = _result_spec(self._traced)

    def _trace(self, specs: tuple[Any, ...]) -> Any:
        """Traces the user's function for arguments with these specs, and returns the concrete function."""
        user = convert(self.user, is_explicit=False)

        def run(*element: Any) -> Any:
            traced_with(self.streams)
            return result_of(user(*_with_new_containers(element)))

        return function(run).get_concrete_function(*_arguments(specs))

    def may_draw(self) -> bool:
        return self._traced is None or self._traced.may_draw

    def assigns_variables(self) -> bool:
        return self._traced is not None and self._traced.assigns_variables

    def _eager_spec(self, source: Dataset, trace_error: Exception | None = None) -> Any:
        """Infers the spec of the function's result by a call on the first element, as Python.

        All dims of the spec are unknown, because they may differ for other elements.

        Args:
          source: the dataset of the elements.
          trace_error: the error that tracing raised; it is raised again if the call fails, too.
        """
        for element in source.example_elements():
            try:
                with trying():
                    spec_of_first = spec_of(super().__call__(element))
                result_spec = nest.map_structure(_with_unknown_dims, spec_of_first)
            except Exception as error:
                raise trace_error or error from None
            if trace_error is not None:
                logger.warning(
                    "tf.data runs %r as Python for each element: it can't be compiled: %s", self.user, trace_error
                )
            return result_spec
        if trace_error is not None:
            raise trace_error
        try:
            blank_element = nest.map_structure(_blank, source.element_spec)
            with trying():
                return spec_of(super().__call__(blank_element))
        except Exception:  # a spec may have no blank element, and the user's Python may raise any error on one
            return source.element_spec

    @property
    def returns_element(self) -> bool:
        """Whether the function returns the tensors of its argument, perhaps in another structure, and does nothing else."""
        return (
            self._flatten is not None
            and self._traced is not None
            and not isinstance(self.user, Function)  # TensorFlow doesn't look into it
            and self._traced.returns_arguments
        )

    @property
    def is_nonblocking(self) -> bool:
        """Whether a plan of Python calls, without compiled code, runs the function.

        Threads don't speed such a plan up.
        """
        plan = self._traced.plan() if self._traced is not None else None
        return plan is not None and plan.is_nonblocking

    @property
    def is_compiled(self) -> bool:
        """Whether the function runs as compiled code only. Code that calls Python could block a thread."""
        return self._traced is not None and not self._traced.graph.root.python.is_called

    def __call__(self, *elements: Element) -> Any:
        """Calls the traced function with the flat tensors of the elements; if there is no trace, runs Python."""
        if self._traced is None:
            return super().__call__(*elements)
        if self._flatten is not None:
            return self._traced.call_flat(self._flatten(elements))
        leaves = nest.flatten(elements, expand_composites=True)
        return self._traced.call_flat([leaf for leaf in leaves if leaf is not None])


class DatasetFunction(Eager):
    """A user's function of elements that returns a dataset, run as Python."""

    def begin(self, dataset: Dataset) -> Iterator[Element]:
        """Starts an iteration over a dataset that the function has returned."""
        return DrawingIterator(states_of_results(self.streams), dataset.elements)

    def traced_spec(self, specs: tuple[Any, ...]) -> Any:
        """Returns the element spec of the datasets that the function returns for elements with these specs.

        The spec comes from a trace, because the dataset for one element may have sizes that the datasets for other
        elements don't have. An outer function may create this dataset once for each of its elements. So the spec is
        cached, unless the function captures objects.

        Returns:
          the spec, or None if the function can't be traced.
        """
        captured = _captured_numbers(self.user)
        if captured is None:
            return self._spec_of_trace(specs)
        key = self.user.__code__, captured, specs
        known_key, spec = self.streams.traced_spec
        if known_key != key:
            spec = self._spec_of_trace(specs)
            self.streams.traced_spec = key, spec
        return spec

    def _spec_of_trace(self, specs: tuple[Any, ...]) -> Any:
        """Traces the function for elements with these specs, and returns the element spec of the returned dataset.

        Returns None if the function can't be traced.
        """
        user = convert(self.user, is_explicit=False)
        tensor_specs = [spec for spec in nest.flatten(specs) if not isinstance(spec, NumberedSpec)]
        result_specs: list[Any] = []

        def run(*tensors: Any) -> None:
            """Calls the function on symbolic tensors, and on datasets without elements for windows."""
            remaining_tensors = iter(tensors)

            def argument_of(spec: Any) -> Any:
                return ElementList([], spec.element_spec) if isinstance(spec, DatasetSpec) else next(remaining_tensors)

            element = nest.map_structure(argument_of, specs)
            result_specs.append(user(*_arguments(element)).element_spec)

        try:
            with trying(), calling(FunctionStreams(self.streams.global_seed)):
                function(run).get_concrete_function(*tensor_specs)
        except Exception:  # the user's Python may raise any error on symbolic tensors: it is called on elements instead
            return None
        return result_specs[-1]


def _blank(spec: Any) -> Any:
    """Returns an element of a spec, in place of one of the source, which has none: a dataset without elements, or zeros."""
    if isinstance(spec, DatasetSpec):
        return ElementList([], spec.element_spec)
    return EagerTensor(np.zeros([dim or 0 for dim in spec.shape], spec.dtype.np))


def _captured_numbers(user: Any) -> list[tuple[type, Any]] | None:
    """Returns the numbers and texts that a Python function captures, each with its type, because 1 equals 1.0.

    Returns None if it captures other objects, or isn't a Python function.
    """
    if not isinstance(user, FunctionType) or user.__defaults__ or user.__kwdefaults__:
        return None
    try:
        captured = [cell.cell_contents for cell in user.__closure__ or ()]
    except ValueError:  # a cell is empty
        return None
    if any(type(value) not in (int, float, bool, str) for value in captured):
        return None
    return [(type(value), value) for value in captured]


def _with_new_containers(element: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies the nested dicts and lists of an element, but not the leaves.

    The user's function may change its containers, for example by ``features.pop("label")``.
    """
    return nest.map_structure(lambda leaf: leaf, element)  # type: ignore[no-any-return]


def _result_spec(traced: Any) -> Any:
    """Returns the nested specs of a concrete function's outputs."""
    return nest.map_structure(_spec, traced.structured_outputs)


def _with_unknown_dims(spec: Any) -> Any:
    """Returns a tensor spec of the same rank without static dims; other specs unchanged."""
    return TensorSpec([None] * (spec.shape.rank or 0), spec.dtype) if isinstance(spec, TensorSpec) else spec


def _arguments(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the arguments of a user's function: a single tuple becomes several arguments.

    Named tuples stay one argument. Several values, such as a state and an element, are left unchanged.
    """
    if len(values) != 1:
        return values
    (value,) = values
    is_plain_tuple = isinstance(value, tuple) and not hasattr(value, "_fields")
    return value if is_plain_tuple else values


def _spec(leaf: Any) -> Any:
    """Returns the spec of a leaf of a traced function's structured outputs."""
    if leaf is None:
        return NoneTensorSpec()
    if isinstance(leaf, CompositeTensor):
        return leaf._type_spec
    return leaf if not hasattr(leaf, "dtype") or isinstance(leaf, TypeSpec) else TensorSpec(leaf.shape, leaf.dtype)


def _needs_values(specs: Any) -> bool:
    """Returns whether elements hold values other than tensors, such as datasets. Their functions can't be traced."""
    return not all(isinstance(leaf, TypeSpec) and not isinstance(leaf, NumberedSpec) for leaf in nest.flatten(specs))


class Map(Dataset):
    """A function of each element of a dataset."""

    def __init__(self, source: Dataset, user: Callable[..., Any]) -> None:
        self.source = source
        self.function = Traced(user, source)
        if isinstance(self.function.spec, NoneTensorSpec):
            raise ArgumentError("Length for attr 'output_types' of 0 must be at least minimum 1").for_op("MapDataset")
        super().__init__(self.function.spec, source.size)

    def changes_nothing(self) -> bool:
        return self.function.returns_element

    def handles(self) -> Iterator[Any]:
        return map(self.function, self.source.elements())


class ParallelMap(ComputedElements):
    """A function of each element, computed by several threads."""

    def __init__(self, source: Dataset, user: Callable[..., Any], workers: Workers) -> None:
        self.source, self.workers = source, workers
        self.function = Traced(user, source)
        super().__init__(self.function.spec, source.size)

    def changes_nothing(self) -> bool:
        return self.function.returns_element

    def handles(self) -> Iterator[Any]:
        if self.function.is_nonblocking:
            return map(self.function, self.source.elements())
        may_block = not self.function.is_compiled
        return self.workers.results(lambda h: self.function(self.source.value(h)), self.source.handles(), may_block)


@method
def map_(
    self: Dataset,
    map_func: Callable[..., Any],
    num_parallel_calls: Any = None,
    deterministic: bool | None = None,
    synchronous: bool | None = None,
    use_unbounded_threadpool: bool = False,
    name: str | None = None,
) -> Dataset:
    """Applies ``map_func``, which is traced and compiled once, to each element.

    Args:
      map_func: takes the components of a tuple as arguments; returns a nest of tensors, in which lists become tensors.
      num_parallel_calls: the number of threads that compute elements; ``tf.data.AUTOTUNE`` for one per core.
      deterministic: whether the threads' results keep the order of the elements, as they do by default.

    Raises:
      ValueError: ``synchronous`` is set together with ``num_parallel_calls``.
      InvalidArgumentError: ``num_parallel_calls`` is not positive.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#map
    """
    if num_parallel_calls is None or debug.on:
        warn_unused(deterministic)
        return Map(self, map_func)
    if synchronous:
        raise ValueError(
            "`synchronous` is not supported with `num_parallel_calls`, but `num_parallel_calls` was set to ",
            num_parallel_calls,
        )
    return ParallelMap(self, map_func, Workers(num_parallel_calls, deterministic, "ParallelMapDatasetV2"))


def _may_be_a_bool(spec: Any) -> bool:
    """Returns whether values of a spec can be bool scalars; the rank may be unknown."""
    return isinstance(spec, TensorSpec) and spec.dtype is bool_ and spec.shape.is_compatible_with([])


class Filter(Dataset):
    """The elements of a dataset for which a predicate is true."""

    def __init__(self, source: Dataset, predicate: Callable[..., Any]) -> None:
        """Traces the predicate and checks that the predicate returns a bool scalar."""
        self.source = source
        self.function = Traced(predicate, source)
        if not _may_be_a_bool(self.function.spec):
            raise ValueError(
                f"Invalid `predicate`. `predicate` must return a `tf.bool` scalar tensor, but its return type is "
                f"{self.function.spec}."
            )
        super().__init__(source.element_spec, UNKNOWN)

    def size_of_batches(self) -> int | None:
        return self.source.size_of_batches()

    def handles(self) -> Iterator[Any]:
        return filter(self.function, self.source.elements())


@method
def filter_(self: Dataset, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
    """Returns the elements for which ``predicate`` is true.

    Raises:
      ValueError: ``predicate`` returns something other than a bool scalar.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#filter
    """
    return Filter(self, predicate)


class TakeWhile(Filter):
    """The elements before the first one for which a predicate is false."""

    def size_of_batches(self) -> int | None:
        return None

    @started
    def handles(self) -> Iterator[Any]:
        source = self.source.elements()
        yield
        for element in source:
            if not self.function(element):
                return
            yield element


@method
def take_while(self: Dataset, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
    """Returns the elements before the first one for which ``predicate`` is false.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#take_while
    """
    return TakeWhile(self, predicate)


AUTOTUNE = -1
AHEAD = 8
"""The least number of elements that the thread of each open dataset of a parallel interleave computes ahead."""


class Interleave(Dataset):
    """Interleaves the datasets that a function returns: yields ``block`` elements of each open dataset in turn.

    ``cycle`` datasets are open at the same time. ``flat_map`` is an interleave with a cycle of one.

    Source: ``tensorflow/core/kernels/data/interleave_dataset_op.cc``.
    """

    def __init__(self, source: Dataset, user: Callable[..., Any], cycle: int, block: int) -> None:
        self.source, self.cycle, self.block = source, cycle, block
        self.function = DatasetFunction(user)
        super().__init__(self._inner_spec(), UNKNOWN)

    def _inner_spec(self) -> Any:
        """Returns the element spec of the datasets that the function returns, from a trace, or for the first element."""
        traced_spec = self.function.traced_spec((self.source.element_spec,))
        if traced_spec is not None:
            return traced_spec
        for element in self.source.example_elements():
            with trying():
                return nest.map_structure(_with_unknown_dims, self._inner(element).element_spec)
        return self.source.element_spec  # there is no element to call the function with

    def _inner(self, element: Element) -> Dataset:
        """Calls the user's function with an element, and checks that the function returns a dataset."""
        dataset = self.function(element)
        if not isinstance(dataset, Dataset):
            raise TypeError(f"The `map_func` argument must return a `Dataset` object. Got {type(dataset).__name__}.")
        return dataset

    @started
    def handles(self) -> Iterator[Any]:
        """Yields blocks of elements from ``cycle`` open iterators in turn.

        When an iterator ends, the dataset of the source's next element replaces it. An empty slot holds None.
        """
        source = self.source.elements()
        yield
        open_iterators = self._initial_iterators(source)
        is_source_exhausted = False
        slot = 0
        while not is_source_exhausted or any(iterator is not None for iterator in open_iterators):
            if open_iterators[slot] is None and not is_source_exhausted:
                element = next(source, None)
                if element is None:
                    is_source_exhausted = True
                else:
                    open_iterators[slot] = self._open(element)
            yield from self._block(open_iterators, slot)
            slot = (slot + 1) % self.cycle

    def _initial_iterators(self, source: Iterator[Element]) -> list[Iterator[Element] | None]:
        return [None] * self.cycle

    def _open(self, element: Element) -> Iterator[Element]:
        return self.function.begin(self._inner(element))

    def _block(self, open_iterators: list[Iterator[Element] | None], slot: int) -> Iterator[Element]:
        """Yields up to ``block`` elements of the iterator in a slot, and empties the slot when the iterator ends."""
        current = open_iterators[slot]
        if current is None:
            return
        for _ in range(self.block):
            try:
                yield next(current)
            except StopIteration:
                open_iterators[slot] = None
                return


@method
def flat_map(self: Dataset, map_func: Callable[..., Any], name: str | None = None) -> Dataset:
    """Concatenates the datasets that ``map_func`` returns for the elements.

    Raises:
      TypeError: ``map_func`` returns something other than a dataset.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#flat_map
    """
    return FlatMap(self, map_func)


class FlatMap(Interleave):
    """The concatenated datasets that a function returns for the elements."""

    def __init__(self, source: Dataset, user: Callable[..., Any]) -> None:
        super().__init__(source, user, 1, 1)

    def handles(self) -> Iterator[Any]:
        return Joined(map(self._open, self.source.elements()))


@method
def interleave(
    self: Dataset,
    map_func: Callable[..., Any],
    cycle_length: int | None = None,
    block_length: int | None = None,
    num_parallel_calls: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Dataset:
    """Returns ``block_length`` elements in turn from each of ``cycle_length`` open datasets that ``map_func`` returns.

    Args:
      cycle_length: None or ``tf.data.AUTOTUNE`` open one dataset per core, but no more than ``num_parallel_calls``.
      num_parallel_calls: if set, to ``tf.data.AUTOTUNE`` or a positive number, each open dataset has a thread that
        computes its elements ahead of time.
      deterministic: whether elements keep the order that they have without threads, as they do by default. If False, they
        come in the order in which threads finish them.

    Raises:
      InvalidArgumentError: ``cycle_length``, ``block_length`` or ``num_parallel_calls`` is not positive.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#interleave
    """
    cycle = AUTOTUNE if cycle_length is None else int_argument(cycle_length, "cycle_length")
    block = 1 if block_length is None else int_argument(block_length, "block_length")
    for what, length in (("cycle_length", cycle), ("block_length", block)):
        if length < 1 and (length, what) != (AUTOTUNE, "cycle_length"):
            raise ArgumentError(f"{what} must be greater than zero.").for_op("InterleaveDataset")
    cores = available_cores()
    if num_parallel_calls is None or debug.on:
        warn_unused(deterministic)
        return Interleave(self, map_func, cores if cycle == AUTOTUNE else cycle, block)
    workers = Workers(num_parallel_calls, deterministic, "ParallelInterleaveDatasetV4")
    if num_parallel_calls != AUTOTUNE and AUTOTUNE != cycle < workers.count:
        raise ArgumentError(
            "If `cycle_length` is set to a fixed value, `num_parallel_calls` must be either `tf.data.AUTOTUNE` or a value "
            f"less than or equal to `cycle_length`. However, `num_parallel_calls` is {workers.count} and "
            f"`cycle_length` is {cycle}"
        ).for_op("ParallelInterleaveDatasetV4")
    open_at_once = min(cores, workers.count) if cycle == AUTOTUNE else cycle
    return ParallelInterleave(self, map_func, open_at_once, block, workers.in_order)


class ParallelInterleave(Interleave):
    """An interleave whose open datasets are iterated by threads."""

    def __init__(self, source: Dataset, user: Callable[..., Any], cycle: int, block: int, in_order: bool) -> None:
        super().__init__(source, user, cycle, block)
        self.in_order = in_order

    def handles(self) -> Iterator[Any]:
        if self.in_order:
            return super().handles()
        sources = map(super()._open, self.source.elements())
        return UnorderedMerge(sources, self.cycle, self.cycle * self.block)

    def _initial_iterators(self, source: Iterator[Element]) -> list[Iterator[Element] | None]:
        first = [self._open(element) for element in itertools.islice(source, self.cycle)]
        return [*first, *[None] * (self.cycle - len(first))]

    def _open(self, element: Element) -> Iterator[Element]:
        return PrefetchingIterator(super()._open(element), max(self.block, AHEAD), may_block=True)


class Scan(Dataset):
    """The outputs of a function of a running state and each element."""

    def __init__(self, source: Dataset, initial: Any, user: Callable[..., Any]) -> None:
        self.source = source
        self.initial = tensors_of(initial)
        self.function, _ = _trace_with_stable_state(user, source, spec_of(self.initial), _scan_state)
        super().__init__(self.function.spec[1], source.size)

    @started
    def handles(self) -> Iterator[Any]:
        state = self.initial
        source = self.source.elements()
        yield
        for element in source:
            state, output = self.function(state, element)
            yield output


def _scan_state(results: Any) -> Any:
    """Checks that ``scan_func`` returns a pair of a new state and an output, and returns the spec of the state."""
    if not isinstance(results, tuple) or len(results) != 2:
        raise TypeError(
            "Invalid `scan_func`. `scan_func` should return a pair consisting of new state and the output value but its "
            f"return type is {results}."
        )
    return results[0]


def _trace_with_stable_state(
    user: Callable[..., Any], source: Dataset, spec: Any, state_of: Callable[[Any], Any]
) -> tuple[Traced, Any]:
    """Traces a function of a state and an element until the spec of the state no longer changes.

    If a call changes a dim of the state, the dim becomes unknown, and the function is traced again.

    Args:
      user: the function.
      source: the dataset of the elements.
      spec: the spec of the initial state.
      state_of: extracts the spec of the new state from that of the function's result.

    Returns:
      the traced function and the spec of its state.
    """
    while True:
        step = Traced(user, source, spec)
        new_spec = state_of(step.spec)
        for old, new in zip(nest.flatten(spec), nest.flatten(new_spec)):
            if isinstance(old, TensorSpec) and isinstance(new, TensorSpec) and old.dtype is not new.dtype:
                raise TypeError(
                    "The element types for the new state must match the initial state. Expected "
                    f"{old.dtype} but got {new.dtype}."
                )
        wider_spec = relaxed(spec, new_spec)
        if wider_spec == spec:
            return step, spec
        spec = wider_spec


@method
def scan(self: Dataset, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None) -> Dataset:
    """Returns the outputs of ``scan_func(state, element)``, which returns a new state and an output.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#scan
    """
    return Scan(self, initial_state, scan_func)


@method
def reduce(self: Dataset, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None) -> Any:
    """Returns the last state of ``reduce_func(state, element)``, starting with ``initial_state``.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#reduce
    """
    accumulator = tensors_of(initial_state)
    if thread_state.state.trace is not None:
        return _traced_reduce(self, accumulator, reduce_func)
    step, _ = _trace_with_stable_state(reduce_func, self, spec_of(accumulator), lambda result: result)
    with drawn_by(StreamStates()):  # random ops of the function start again in each reduction, and continue within it
        for element in self.new_elements():
            accumulator = step(accumulator, element)
    return accumulator


def _traced_reduce(source: Dataset, start: Any, reduce_func: Callable[..., Any]) -> Any:
    """Reduces a dataset inside a traced function, by a while loop over the dataset's elements.

    When the loop runs, each iteration calls back into Python for the next element.

    Args:
      source: the dataset.
      start: the initial state.
      reduce_func: a function of the state and an element, which returns the new state.
    """
    traced_reduce = function(reduce_func)
    iteration = source._traced_steps()
    _, spec = _trace_with_stable_state(reduce_func, source, spec_of(start), lambda result: result)

    def has_element(more: Any, *_accumulator: Any) -> Any:
        return more

    def body(_more: Any, *accumulator: Any) -> Any:
        new = result_of(traced_reduce(nest.pack_sequence_as(start, accumulator), iteration.element()))
        iteration.advance()
        return (iteration.more(), *nest.flatten(new))

    loop_vars = [iteration.more(), *nest.flatten(start)]
    shape_invariants = [TensorSpec([], bool_), *nest.flatten(spec)]
    _, *final = while_loop(has_element, body, loop_vars, shape_invariants=shape_invariants)
    iteration.end()
    return nest.pack_sequence_as(start, final)


@method
def apply(self: Dataset, transformation_func: Callable[[Dataset], Any], name: str | None = None) -> Any:
    """Returns ``transformation_func(self)``, which must be a dataset.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#apply
    """
    result = transformation_func(self)
    if not isinstance(result, Dataset):
        raise TypeError(f"`transformation_func` must return a `tf.data.Dataset` object. Got {type(result)}.")
    return result


class IgnoreErrors(Dataset):
    """The elements of a dataset that are computed without an error."""

    def __init__(self, source: Dataset, log_warning: bool) -> None:
        self.source, self.log_warning = source, log_warning
        super().__init__(source.element_spec, UNKNOWN)

    @started
    def handles(self) -> Iterator[Any]:
        """Yields the elements that are computed without an error; logs errors if ``log_warning`` is set.

        The handles of this dataset (what ``value`` turns into elements) are the elements themselves.
        """
        source = self.source.elements()
        yield
        # A `for` loop would end at the first error, but the source may have a next element.
        while True:
            try:
                yield next(source)
            except StopIteration:
                return
            except OpError as error:
                if self.log_warning:
                    logger.warning("Error raised with error message %s", error)


@method
def ignore_errors(self: Dataset, log_warning: bool = False, name: str | None = None) -> Dataset:
    """Skips the elements whose computation fails.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#ignore_errors
    """
    return IgnoreErrors(self, log_warning)


class Cache(Dataset):
    """Elements stored by the first complete iteration, in memory or in a file, and reused by later ones."""

    repr_name = "CacheDataset"

    def __init__(self, source: Dataset, path: str) -> None:
        self.source, self.path = source, path
        self.cached: list[Element] | None = None
        super().__init__(source.element_spec, source.size)

    def size_of_batches(self) -> int | None:
        return self.source.size_of_batches()

    def handles(self) -> Iterator[Any]:
        if self.cached is None and self.path:
            self.cached = load(self.path, self.element_spec)
        return self._compute_and_store() if self.cached is None else iter(self.cached)

    @started
    def _compute_and_store(self) -> Iterator[Any]:
        """Yields the source's elements. At the end, stores all of them in memory, and in the file if there is one.

        If the number of elements is known, they are stored in memory before the last one is yielded. A file is written
        only when the consumer requests an element after the last one, as in TensorFlow.
        """
        source = self.source.elements()
        seen = []
        yield
        for element in source:
            seen.append(element)
            if not self.path and len(seen) == self.source.size:
                self._complete(seen)
            yield element
        self._complete(seen)  # does nothing if they are stored already

    def _complete(self, elements: list[Element]) -> None:
        """Stores all elements, unless another iteration has done so before."""
        if self.cached is None:
            self.cached = elements
            if self.path:
                store(self.path, elements)


@method
def cache(self: Dataset, filename: Any = "", name: str | None = None) -> Dataset:
    """Computes each element once and stores it in memory, or in a file at the path ``filename``.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#cache
    """
    return Cache(self, str(filename))
