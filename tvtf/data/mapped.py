"""Functions of elements: map, filter, flat_map, interleave, scan, reduce ..."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

from tvtf.core import nest, thread_state
from tvtf.core.argument_error import ArgumentError
from tvtf.core.composite import CompositeTensor, TypeSpec
from tvtf.core.log import logger
from tvtf.core.tensor_spec import NoneTensorSpec, TensorSpec
from tvtf.data.argument_conversion import number
from tvtf.data.base import UNKNOWN, Dataset, method
from tvtf.data.parallel import Ahead, AsTheyCome, Ready, Workers, debug, warn_unused
from tvtf.data.specs import HeldSpec
from tvtf.data.structure import Element, relaxed, result_of, spec_of, tensors_of
from tvtf.dtypes import bool as bool_
from tvtf.errors import OpError
from tvtf.frontend.control_flow.cond_while import while_loop
from tvtf.frontend.function.polymorphic_function import function


class Eager:
    """A user's function of elements, run as Python; a tuple is passed as several arguments."""

    def __init__(self, user: Callable[..., Any]) -> None:
        if not callable(user):
            raise ValueError(f"Argument `func` must be a callable. Received func={user!r} (of type {type(user)})")
        self.user = user

    def __call__(self, *elements: Element) -> Any:
        found = self.user(*_arguments(elements))
        return found if isinstance(found, Dataset) else result_of(found)


class Traced(Eager):
    """A user's function of elements, traced once for their spec; what can't be compiled runs as Python, which is logged."""

    def __init__(self, user: Callable[..., Any], source: Dataset, *state: Any) -> None:
        super().__init__(user)
        specs = (*state, source.element_spec)
        plain = all(type(spec) is TensorSpec for spec in nest.flatten(specs))
        self._flatten = nest.flattener(specs) if plain else None
        try:
            self._traced = None if debug.on or _needs_values(specs) else self._trace(specs)
        except (TypeError, ValueError, NotImplementedError) as refusal:
            self._traced = None
            self.spec = self._first(source, refusal)
        else:
            self.spec = self._first(source) if self._traced is None else _result_spec(self._traced)

    def _trace(self, specs: tuple[Any, ...]) -> Any:
        traced = function(lambda *element: result_of(self.user(*_with_own_containers(element))))
        return traced.get_concrete_function(*_arguments(specs))

    def _first(self, source: Dataset, refusal: Exception | None = None) -> Any:
        """The specs of what it makes of the first element, any dim of which may be another for the next.

        Raises the refusal to trace it where it fails on the element, too.
        """
        for element in source.elements():
            try:
                found = nest.map_structure(_of_rank, spec_of(super().__call__(element)))
            except Exception as error:
                raise refusal or error from None
            if refusal is not None:
                logger.warning(
                    "tf.data runs %r as Python for each element: it can't be compiled: %s", self.user, refusal
                )
            return found
        if refusal is not None:
            raise refusal
        return source.element_spec

    @property
    def is_brief(self) -> bool:
        """Whether Python alone runs it, and threads gain nothing."""
        plan = self._traced.plan() if self._traced is not None else None
        return plan is not None and plan.is_brief

    @property
    def is_compiled(self) -> bool:
        """Whether it runs without Python, which could wait for something."""
        return self._traced is not None and not self._traced.graph.root.python.is_called

    def __call__(self, *elements: Element) -> Any:
        if self._traced is None:
            return super().__call__(*elements)
        if self._flatten is not None:
            return self._traced.call_flat(self._flatten(elements))
        flat = (t for e in elements for t in nest.flatten(e, expand_composites=True))
        return self._traced.call_flat([t for t in flat if t is not None])


def _with_own_containers(element: tuple[Any, ...]) -> tuple[Any, ...]:
    """The element in dicts and lists that the user's function may change: ``features.pop("label")``."""
    return nest.map_structure(lambda leaf: leaf, element)  # type: ignore[no-any-return]


def _result_spec(traced: Any) -> Any:
    return nest.map_structure(_spec, traced.structured_outputs)


def _of_rank(spec: Any) -> Any:
    return TensorSpec([None] * (spec.shape.rank or 0), spec.dtype) if isinstance(spec, TensorSpec) else spec


def _arguments(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """One element that is a tuple is spread; an accumulator beside an element isn't."""
    return (
        values[0] if len(values) == 1 and isinstance(values[0], tuple) and not hasattr(values[0], "_fields") else values
    )


def _spec(leaf: Any) -> Any:
    if leaf is None:
        return NoneTensorSpec()
    if isinstance(leaf, CompositeTensor):
        return leaf._type_spec
    return leaf if not hasattr(leaf, "dtype") or isinstance(leaf, TypeSpec) else TensorSpec(leaf.shape, leaf.dtype)


def _needs_values(specs: Any) -> bool:
    """Whether elements are no tensors: datasets are not."""
    return not all(isinstance(s, TypeSpec) and not isinstance(s, HeldSpec) for s in nest.flatten(specs))


class Map(Dataset):
    def __init__(self, source: Dataset, user: Callable[..., Any]) -> None:
        self.source = source
        self.function = Traced(user, source)
        if isinstance(self.function.spec, NoneTensorSpec):
            raise ArgumentError("Length for attr 'output_types' of 0 must be at least minimum 1").told_by("MapDataset")
        super().__init__(self.function.spec, source.size)

    def handles(self) -> Iterator[Any]:
        return map(self.function, self.source.elements())


class ParallelMap(Ready):
    def __init__(self, source: Dataset, user: Callable[..., Any], workers: Workers) -> None:
        self.source, self.workers = source, workers
        self.function = Traced(user, source)
        super().__init__(self.function.spec, source.size)

    def handles(self) -> Iterator[Any]:
        if self.function.is_brief:
            return map(self.function, self.source.elements())
        waits = not self.function.is_compiled
        return self.workers.results(lambda h: self.function(self.source.value(h)), self.source.handles(), waits)


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
    """``map_func`` of each element; it is traced once and compiled.

    Args:
      map_func: takes the parts of a tuple as arguments; returns a nest of tensors, of which lists become tensors.
      num_parallel_calls: how many elements are computed at once, by threads; ``tf.data.AUTOTUNE`` for one per core.
      deterministic: whether they come in order all the same; they do by default.

    Raises:
      ValueError: ``synchronous`` with parallel calls.
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
    return isinstance(spec, TensorSpec) and spec.dtype is bool_ and spec.shape.is_compatible_with([])


class Filter(Dataset):
    def __init__(self, source: Dataset, predicate: Callable[..., Any]) -> None:
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
    """The elements for which ``predicate`` gives true.

    Raises:
      ValueError: it gives no bool scalar.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#filter
    """
    return Filter(self, predicate)


class TakeWhile(Filter):
    def size_of_batches(self) -> int | None:
        return None

    def handles(self) -> Iterator[Any]:
        for element in self.source.elements():
            if not self.function(element):
                return
            yield element


@method
def take_while(self: Dataset, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
    """The elements before the first for which ``predicate`` gives false.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#take_while
    """
    return TakeWhile(self, predicate)


AUTOTUNE = -1
AHEAD = 8
"""Elements by which the threads of datasets that are open at once are ahead."""


class Interleave(Dataset):
    """``cycle`` datasets are open at once, each gives ``block`` elements in turn; flat_map is a cycle of one.

    Source: ``tensorflow/core/kernels/data/interleave_dataset_op.cc``.
    """

    def __init__(self, source: Dataset, user: Callable[..., Any], cycle: int, block: int) -> None:
        self.source, self.cycle, self.block = source, cycle, block
        self.function = Eager(user)
        super().__init__(self._inner_spec(), UNKNOWN)

    def _inner_spec(self) -> Any:
        for element in self.source.elements():
            return self._inner(element).element_spec
        return self.source.element_spec

    def _inner(self, element: Element) -> Dataset:
        found = self.function(element)
        if not isinstance(found, Dataset):
            raise TypeError(f"The `map_func` argument must return a `Dataset` object. Got {type(found).__name__}.")
        return found

    def handles(self) -> Iterator[Any]:
        source = self.source.elements()
        open_ones = self._opened_at_once(source)
        exhausted, at = False, 0
        while not exhausted or any(o is not None for o in open_ones):
            if open_ones[at] is None and not exhausted:
                element = next(source, None)
                exhausted = element is None
                open_ones[at] = None if exhausted else self._opened(element)
            yield from self._block(open_ones, at)
            at = (at + 1) % self.cycle

    def _opened_at_once(self, source: Iterator[Element]) -> list[Iterator[Element] | None]:
        return [None] * self.cycle

    def _opened(self, element: Element) -> Iterator[Element]:
        return self._inner(element).elements()

    def _block(self, open_ones: list[Iterator[Element] | None], at: int) -> Iterator[Element]:
        current = open_ones[at]
        if current is None:
            return
        for _ in range(self.block):
            try:
                yield next(current)
            except StopIteration:
                open_ones[at] = None
                return


@method
def flat_map(self: Dataset, map_func: Callable[..., Any], name: str | None = None) -> Dataset:
    """The elements of the datasets that ``map_func`` makes of the elements, one after the other.

    Raises:
      TypeError: it makes no dataset.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#flat_map
    """
    return FlatMap(self, map_func)


class FlatMap(Interleave):
    def __init__(self, source: Dataset, user: Callable[..., Any]) -> None:
        super().__init__(source, user, 1, 1)

    def handles(self) -> Iterator[Any]:
        return (e for element in self.source.elements() for e in self._inner(element).elements())


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
    """``block_length`` elements in turn of each of ``cycle_length`` datasets that ``map_func`` makes of elements.

    Args:
      cycle_length: one for each core where it is None or ``tf.data.AUTOTUNE``, but no more than ``num_parallel_calls``.
      num_parallel_calls: where given, each of the datasets that are open is iterated ahead by a thread of its own;
        ``tf.data.AUTOTUNE`` or a positive number.
      deterministic: whether elements come in the order that they have without threads; they do by default. Where False,
        they come as threads have them.

    Raises:
      InvalidArgumentError: a length or a number of calls is not positive.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#interleave
    """
    cycle = AUTOTUNE if cycle_length is None else number(cycle_length, "cycle_length")
    block = 1 if block_length is None else number(block_length, "block_length")
    for what, length in (("cycle_length", cycle), ("block_length", block)):
        if length < 1 and (length, what) != (AUTOTUNE, "cycle_length"):
            raise ArgumentError(f"{what} must be greater than zero.").told_by("InterleaveDataset")
    cores = os.cpu_count() or 1
    if num_parallel_calls is None or debug.on:
        warn_unused(deterministic)
        return Interleave(self, map_func, cores if cycle == AUTOTUNE else cycle, block)
    workers = Workers(num_parallel_calls, deterministic, "ParallelInterleaveDatasetV4")
    open_at_once = min(cores, workers.count) if cycle == AUTOTUNE else cycle
    return ParallelInterleave(self, map_func, open_at_once, block, workers.in_order)


class ParallelInterleave(Interleave):
    def __init__(self, source: Dataset, user: Callable[..., Any], cycle: int, block: int, in_order: bool) -> None:
        super().__init__(source, user, cycle, block)
        self.in_order = in_order

    def handles(self) -> Iterator[Any]:
        if self.in_order:
            return super().handles()
        sources = (self._inner(element).elements() for element in self.source.elements())
        return AsTheyCome(sources, self.cycle, self.cycle * self.block)

    def _opened_at_once(self, source: Iterator[Element]) -> list[Iterator[Element] | None]:
        first = [self._opened(element) for element in itertools.islice(source, self.cycle)]
        return [*first, *[None] * (self.cycle - len(first))]

    def _opened(self, element: Element) -> Iterator[Element]:
        return Ahead(super()._opened(element), max(self.block, AHEAD), waits=True)


class Scan(Dataset):
    def __init__(self, source: Dataset, initial: Any, user: Callable[..., Any]) -> None:
        self.source, self.initial = source, tensors_of(initial)
        self.function, _ = _settled(user, source, spec_of(self.initial), _state_of_two)
        super().__init__(self.function.spec[1], source.size)

    def handles(self) -> Iterator[Any]:
        state = self.initial
        for element in self.source.elements():
            state, found = self.function(state, element)
            yield found


def _state_of_two(results: Any) -> Any:
    if not isinstance(results, tuple) or len(results) != 2:
        raise TypeError(
            "Invalid `scan_func`. `scan_func` should return a pair consisting of new state and the output value but its "
            f"return type is {results}."
        )
    return results[0]


def _settled(
    user: Callable[..., Any], source: Dataset, spec: Any, state_of: Callable[[Any], Any]
) -> tuple[Traced, Any]:
    """A function of a state and an element, traced for all shapes that its states take, and the specs of these."""
    while True:
        step = Traced(user, source, spec)
        new = state_of(step.spec)
        for was, found in zip(nest.flatten(spec), nest.flatten(new)):
            if isinstance(was, TensorSpec) and isinstance(found, TensorSpec) and was.dtype is not found.dtype:
                raise TypeError(
                    "The element types for the new state must match the initial state. Expected "
                    f"{was.dtype} but got {found.dtype}."
                )
        wider = relaxed(spec, new)
        if wider == spec:
            return step, spec
        spec = wider


@method
def scan(self: Dataset, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None) -> Dataset:
    """``scan_func(state, element)`` gives the next state and an element, from ``initial_state`` on.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#scan
    """
    return Scan(self, initial_state, scan_func)


@method
def reduce(self: Dataset, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None) -> Any:
    """The last state of ``reduce_func(state, element)``, from ``initial_state`` on.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#reduce
    """
    start = tensors_of(initial_state)
    if thread_state.state.trace is not None:
        return _reduced_when_run(self, start, reduce_func)
    step, _ = _settled(reduce_func, self, spec_of(start), lambda result: result)
    for element in self.elements():
        start = step(start, element)
    return start


def _reduced_when_run(source: Dataset, start: Any, reduce_func: Callable[..., Any]) -> Any:
    step, steps = Eager(function(reduce_func)), source._traced_steps()
    _, spec = _settled(reduce_func, source, spec_of(start), lambda result: result)

    def body(more: Any, *held: Any) -> Any:
        new = step(nest.pack_sequence_as(start, held), steps.element())
        steps.advance()
        return (steps.more(), *nest.flatten(new))

    given, shapes = [steps.more(), *nest.flatten(start)], [TensorSpec([], bool_), *nest.flatten(spec)]
    _, *final = while_loop(lambda more, *_: more, body, given, shape_invariants=shapes)
    steps.end()
    return nest.pack_sequence_as(start, final)


@method
def apply(self: Dataset, transformation_func: Callable[[Dataset], Any], name: str | None = None) -> Any:
    """``transformation_func`` of this dataset.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#apply
    """
    found = transformation_func(self)
    if not isinstance(found, Dataset):
        raise TypeError(f"`transformation_func` must return a `tf.data.Dataset` object. Got {type(found)}.")
    return found


class IgnoreErrors(Dataset):
    def __init__(self, source: Dataset, log_warning: bool) -> None:
        self.source, self.log_warning = source, log_warning
        super().__init__(source.element_spec, UNKNOWN)

    def handles(self) -> Iterator[Any]:
        source = self.source.elements()
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
    """Leaves out the elements whose computation fails.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#ignore_errors
    """
    return IgnoreErrors(self, log_warning)


class Cache(Dataset):
    """Elements are kept by the first iteration that comes to the end; in a file where one is named."""

    shown = "CacheDataset"

    def __init__(self, source: Dataset, path: str) -> None:
        self.source, self.path = source, path
        self.kept: list[Element] | None = None
        super().__init__(source.element_spec, source.size)

    def size_of_batches(self) -> int | None:
        return self.source.size_of_batches()

    def handles(self) -> Iterator[Any]:
        if self.kept is None and self.path:
            from tvtf.data.saved_elements import load

            self.kept = load(self.path, self.element_spec)
        return self._first() if self.kept is None else iter(self.kept)

    def _first(self) -> Iterator[Any]:
        seen = []
        for element in self.source.elements():
            seen.append(element)
            yield element
        self.kept = seen
        if self.path:
            from tvtf.data.saved_elements import store

            store(self.path, seen)


@method
def cache(self: Dataset, filename: Any = "", name: str | None = None) -> Dataset:
    """Computes each element once: they are kept in memory, or below the path ``filename``.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#cache
    """
    return Cache(self, str(filename))
