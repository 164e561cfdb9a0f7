"""``while`` and ``for`` statements in converted code."""

from __future__ import annotations

import abc
import dis
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from types import CodeType
from typing import Any

from tvtf.core import nest
from tvtf.core.composite import is_ragged
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.shape import TensorShape, same_shape
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import int32
from tvtf.errors import OperatorNotAllowedInGraphError, OpError
from tvtf.frontend.autograph.builtin import is_symbolic
from tvtf.frontend.autograph.iteration import (
    Enumerated,
    Leading,
    Range,
    Zipped,
    has_steps,
    is_iterated,
    remembered_range,
)
from tvtf.frontend.autograph.status import status
from tvtf.frontend.autograph.values import (
    Places,
    as_tensors,
    is_undefined,
    only_if,
    placeholder,
    require_condition,
    require_same_form,
    require_same_structure,
    travels,
    with_objects,
)
from tvtf.frontend.autograph.whole_malt import Undefined, UndefinedReturnValue
from tvtf.frontend.control_flow.abstract_trace import AbstractTrace
from tvtf.frontend.control_flow.cond_while import repack, traced_while, varying_shape
from tvtf.frontend.control_flow.tensor_array import Growth, grows, loose_shapes, settled
from tvtf.frontend.control_flow.tensor_array_traced import COUNT
from tvtf.frontend.function.deferred_call import with_checked_shape
from tvtf.ir.trace import Trace, tracing
from tvtf.ops.rules import bind

LEGAL = "Tensor, int, float, bool or a list, tuple or dict thereof"
LIMITATIONS = (
    "https://github.com/tensorflow/tensorflow/blob/master/tensorflow/python/autograph/g3doc/reference/limitations.md"
    "#consistency-of-control-flow-types"
)
MSG_WHILE_CHANGED = (
    "The condition of while loop started as non-Tensor, then changed to Tensor. This may happen either because "
    "variables changed type, or when a break or return statement inside the loop depends on a Tensor condition. In "
    f"both cases, changing to a TF loop should remove the error.\nSee {LIMITATIONS} for more info."
)
MSG_FOR_BREAK = (
    "break and return statements which depend on a TF condition are not supported in Python for loops. Did you intend "
    f"to make it a TF loop?\nSee {LIMITATIONS} for more info."
)

ITERATION = Places(
    "before the loop",
    "after one iteration",
    "only tensors, numbers and strings may change in a loop on a tensor",
    ". Use tf.autograph.experimental.set_loop_options to set shape invariants.",
)
MSG_NO_ITERATION = "loop must iterate at least once to initialize "


def while_stmt(
    test: Callable[[], Any],
    body: Callable[[], None],
    get_state: Callable[[], tuple[Any, ...]],
    set_state: Callable[[tuple[Any, ...]], None],
    symbol_names: tuple[str, ...],
    opts: dict[str, Any],
) -> None:
    """Runs a ``while``: as a loop of the graph if its first condition is a tensor, else in Python."""
    if state.trace is None:
        _python_while(test, body)
        return
    # Traced aside, only to see whether it is a tensor: a loop of the graph traces it again.
    with tracing(Trace("while_test", state.trace)):
        first = test()
    if is_symbolic(first):
        _Loop(get_state, set_state, symbol_names, opts, body).run(test, body)
    elif first:
        body()
        _python_while(test, body)


def _python_while(test: Callable[[], Any], body: Callable[[], None]) -> None:
    while _python_truth(test(), MSG_WHILE_CHANGED):
        body()


def _python_truth(value: Any, message: str) -> bool:
    try:
        return bool(value)
    except OperatorNotAllowedInGraphError as error:
        raise NotImplementedError(message) from error


def _leaves(structure: Any) -> list[Any]:
    return [leaf for leaf in nest.flatten(structure, expand_composites=True) if leaf is not None]


class _Carried:
    """The tensors that a loop carries: its symbols, after a flag whether it ran if some are undefined before it."""

    def __init__(self, before: tuple[Any, ...], flagged: bool, generalized: dict[int, TensorShape]) -> None:
        self.before, self.flags, self.generalized = before, int(flagged), generalized
        self.shapes: list[Any] = []
        self.entry = as_tensors(before)
        ran = [state.trace.own(convert_to_tensor(False))] if flagged else []
        self.start = [*ran, *_leaves(self.entry)]

    def names(self, symbols: tuple[str, ...]) -> list[str]:
        return ["<ran>"] * self.flags + [n for n, v in zip(symbols, self.entry) for _ in _leaves(v)]

    def invariants(self, pairs: Any, counters: int) -> list[Any] | None:
        """Returns the shape invariants, declared or inferred, of everything that is carried."""
        if not pairs and not self.generalized:
            return None
        declared = {id(convert_to_tensor(value)): shape for value, shape in pairs or ()}
        flat = nest.flatten(self.before, expand_composites=True)
        self.shapes = [declared.get(id(value)) for value in flat]
        for place, shape in self.generalized.items():
            self.shapes[place] = shape
        travelling = nest.flatten(self.entry, expand_composites=True)
        invariants = [shape for shape, tensor in zip(self.shapes, travelling) if tensor is not None]
        return [None] * (counters + self.flags) + invariants

    def restored(self, tensors: Any) -> tuple[Any, ...]:
        """Returns the symbols' values; objects that are not tensors stay as they were."""
        values = tensors[self.flags :]
        return with_objects(repack(self.entry, values), self.before)


class _Grows(Exception):
    """Raised if an array is written beyond the rows that the loop reserved."""


class _Loop:
    """The symbols of one loop: their values before it, and at the start and the end of the traced iteration."""

    def __init__(
        self,
        get_state: Any,
        set_state: Any,
        names: tuple[str, ...],
        opts: dict[str, Any],
        body: Callable[..., None],
        bound: Any = None,
        room: Any = None,
    ) -> None:
        self.get_state, self.set_state = get_state, set_state
        self.names, self.opts, self.bound, self.room = names, opts, bound, room
        self.before: tuple[Any, ...] = get_state()
        self.original = self.before
        self.missing = [is_undefined(v) for v in self.before]
        self.generalized: dict[int, TensorShape] = {}
        self.claimed = claimed_names(body, names)

    def run(self, test: Callable[[], Any], body: Callable[[], None]) -> None:
        """Traces the loop and sets the symbols to its results."""
        scope = status.scopes[-1]
        scope.loops += 1
        try:
            if any(self.missing):
                self.before = self.with_placeholders(body)
            self.before = settled(self.before, lambda abstract: self.first_iteration(body, abstract), self.room)
            self.set_state(self.original)
            final = self.traced(test, body)
        except BaseException:  # the user's symbols come back, whatever interrupts the iteration
            self.set_state(self.original)
            raise
        finally:
            scope.loops -= 1
        scope.partial |= any(isinstance(v, UndefinedReturnValue) for v in self.original)
        self.set_state(final)

    def traced(self, test: Callable[[], Any], body: Callable[[], None]) -> tuple[Any, ...]:
        """Traces the loop; again without reserved rows, or without claimed shapes, if these don't hold."""
        try:
            return self.carried_through(test, body)
        except _Grows:
            self.room = None
        except (TypeError, ValueError, NotImplementedError, OpError):
            if not self.claimed:
                raise
            self.claimed = frozenset()
        self.set_state(self.original)
        return self.traced(test, body)

    def carried_through(self, test: Callable[[], Any], body: Callable[[], None]) -> tuple[Any, ...]:
        """Binds the loop over the symbols; returns their final values.

        Flags that the loop ran are carried only where symbols have no value before it.
        """
        carried = _Carried(self.before, any(self.missing), self.generalized)
        condition, step, start, count = self.limited(
            self.condition(test, carried), self.step(body, carried), carried.start, self.opts.get("maximum_iterations")
        )
        names = ["<counter>"] * count + carried.names(self.names)
        claimed = [i for i, name in enumerate(names) if name in self.claimed and start[i].shape.is_fully_defined()]
        invariants = carried.invariants(self.opts.get("shape_invariants"), count)
        growth = Growth(carried.entry if self.room is None else (), count + carried.flags)
        outputs = traced_while(condition, step, start, invariants, self.bound, names, growth, claimed)[count:]
        final = carried.restored(outputs)
        return self.initialized(outputs[0], final) if carried.flags else final

    def condition(self, test: Callable[[], Any], carried: _Carried) -> Callable[..., Any]:
        """Returns the loop's condition as a function of the carried tensors.

        Symbols are set to the loop's own tensors, because the user's condition reads them by name.
        """

        def condition(*tensors: Any) -> Any:
            self.set_state(carried.restored(tensors))
            return require_condition(test(), "while loop")

        return condition

    def step(self, body: Callable[[], None], carried: _Carried) -> Callable[..., list[Any]]:
        """Returns the loop's body as a function of the carried tensors."""

        def step(*tensors: Any) -> list[Any]:
            """Runs one iteration on symbolic variables; returns the variables, after flags that the loop ran."""
            start = carried.restored(tensors)
            if self.room is not None:
                state.trace.room_for = {tensors[carried.flags]._var, COUNT}
            self.set_state(start)
            body()
            end = self.get_state()
            self.check(start, end, carried.shapes)
            return [*(convert_to_tensor(True) for _ in range(carried.flags)), *_leaves(as_tensors(end))]

        return step

    def limited(self, condition: Any, step: Any, start: list[Any], limit: Any) -> tuple[Any, Any, list[Any], int]:
        """Adds a counter in front if the loop has ``maximum_iterations``."""
        if limit is None:
            return condition, step, start, 0
        most = convert_to_tensor(limit)
        one, zero = (convert_to_tensor(n, most.dtype) for n in (1, 0))
        # Stacks for the loop's gradient are then allocated at once.
        if isinstance(limit, int):
            self.bound = limit if self.bound is None else self.bound
        return (
            lambda i, *v: bind.logical_and(bind.less(i, most), condition(*v)),
            lambda i, *v: [bind.add(i, one), *step(*v)],
            [zero, *start],
            1,
        )

    def initialized(self, ran: Tensor, final: tuple[Any, ...]) -> tuple[Any, ...]:
        """Makes symbols that only an iteration defines fail at run time when they are used though none ran."""
        return tuple(
            nest.map_structure(
                lambda leaf, n=name: only_if(leaf, ran, MSG_NO_ITERATION + n), value, expand_composites=True
            )
            if missing and isinstance(before, Undefined)
            else value
            for name, value, before, missing in zip(self.names, final, self.original, self.missing)
        )

    # -- symbols without a value before the loop

    def with_placeholders(self, body: Callable[[], None]) -> tuple[Any, ...]:
        """Traces one iteration in a temporary trace for the types of undefined symbols; before it, zeros replace them.

        The loop needs an initial value of each tensor that it carries.
        """
        failure = ""
        first: tuple[Any, ...] = (None,) * len(self.before)
        try:
            with tracing(AbstractTrace("while_first")) as abstract:
                first = self.first_iteration(body, abstract)
        except (UnboundLocalError, TypeError, ValueError, KeyError) as error:
            failure = (
                f"\nNote: AutoGraph tried to define it automatically, but ran into a {type(error).__name__}: {error}"
            )
        finally:
            self.set_state(self.original)
        filled = tuple(placeholder(f) if m else v for v, f, m in zip(self.before, first, self.missing))
        self.generalized = dict(self.computed_shapes(filled, first))
        for name, value, after in zip(self.names, filled, first):
            _require_start(name, value, after, failure)
        return filled

    def computed_shapes(self, filled: tuple[Any, ...], first: tuple[Any, ...]) -> Iterator[tuple[int, TensorShape]]:
        """Yields the shapes, by place, of placeholders without elements: only an iteration computes their sizes."""
        place = 0
        for zeros, like, missing in zip(filled, first, self.missing):
            parts, values = (nest.flatten(value, expand_composites=True) for value in (zeros, like))
            for i, zero in enumerate(parts):
                if (
                    missing
                    and isinstance(zero, Tensor)
                    and not _are_same_kind(zero, of := convert_to_tensor(values[i]))
                ):
                    yield place + i, TensorShape([d if d == z else None for d, z in zip(of.shape, zero.shape)])
            place += len(parts)

    def first_iteration(self, body: Callable[[], None], abstract: AbstractTrace) -> tuple[Any, ...]:
        """Returns the symbols after an iteration in a temporary trace.

        Only what becomes a tensor of the graph gets a parameter; other objects stay as they are.
        """
        values = nest.map_structure(
            lambda v: abstract.param_of(v) if travels(v) else v, self.before, expand_composites=True
        )
        self.set_state(values)
        body()
        return self.get_state()

    # -- checks

    def check(self, start: tuple[Any, ...], end: tuple[Any, ...], declared: Sequence[Any]) -> None:
        """Checks that an iteration keeps the symbols' structures, dtypes and shapes.

        These errors name the user's symbols, while those of ``traced_while`` could only number its tensors.
        """
        if self.room is not None and grows(start, end):
            raise _Grows
        loose = loose_shapes(start) if self.room is None else ()
        shapes = [a or b for a, b in zip_longest(declared, loose)]
        remaining = iter(shapes)
        for name, before, after in zip(self.names, start, end):
            text = "'{name}' does not have the same nested structure after one iteration.\n\n{error}"
            require_same_structure(name, before, after, text)
            flat = (nest.flatten(values, expand_composites=True) for values in (before, after))
            for a, b in zip(*flat):
                may_vary = next(remaining, None) is not None or name in self.claimed or _varies(a, b)
                if not may_vary:  # traced_while checks the others
                    _check_leaf(name, a, b)


def claimed_names(body: Callable[..., None], names: Sequence[str]) -> frozenset[str]:
    """Returns the symbols on which the loop's body calls ``set_shape``, according to its byte code.

    They are read from byte code before the body is traced, so that it has to be traced only once.
    """
    return frozenset(_claimed_in(body.__code__)).intersection(names)


def _claimed_in(code: CodeType) -> Iterator[str]:
    """Yields the names that are loaded right before ``set_shape`` in byte code, nested functions included.

    Such a loop variable may come back with the shape that the body claims, as in TensorFlow.
    """
    loaded = ""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_DEREF", "LOAD_FAST", "LOAD_CLASSDEREF"):
            loaded = step.argval
        elif step.argval == "set_shape":
            yield loaded
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _claimed_in(inner)


def _varies(before: Any, after: Any) -> bool:
    """Returns whether a tensor's sizes change in an iteration in a way that TensorFlow accepts."""
    are_tensors = isinstance(before, Tensor) and isinstance(after, SymbolicTensor) and before.dtype is after.dtype
    return are_tensors and varying_shape(before, after) is not None


def _are_same_kind(zero: Tensor, inferred: Tensor) -> bool:
    shapes = zero._type.shape, inferred._type.shape
    return any(isinstance(shape, AnyShape) for shape in shapes) or same_shape(*shapes)


def _require_start(name: str, value: Any, after: Any, failure: str) -> None:
    """Raises TensorFlow's error for a symbol that has no usable value before the loop."""
    if isinstance(value, UndefinedReturnValue) or (value is None and isinstance(after, UndefinedReturnValue)):
        raise NotImplementedError(
            "a return statement cannot be placed inside this TensorFlow loop; this may happen if a return statement "
            "depends on a static Python condition such as a hyperparameter"
        )
    if value is None and after is not None:
        raise ValueError(
            f"'{name}' must be one of {LEGAL} after an iteration of the loop, but is {type(after).__name__}"
        )
    if value is None:
        raise ValueError(f"'{name}' must be defined before the loop{failure}")


def _check_leaf(name: str, before: Any, after: Any) -> None:
    if after is None:
        raise ValueError(f"'{name}' is None at the end of the iteration.")
    require_same_form(name, before, after, ITERATION)


# -- for


def for_stmt(
    iter_: Any,
    extra_test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    get_state: Callable[[], tuple[Any, ...]],
    set_state: Callable[[tuple[Any, ...]], None],
    symbol_names: tuple[str, ...],
    opts: dict[str, Any],
) -> None:
    """Runs a ``for``: as a loop of the graph over tensors, ranges of tensors and datasets, else in Python."""
    iter_ = iter_._as_tensor() if hasattr(iter_, "_as_tensor") and not is_iterated(iter_) else iter_
    if state.trace is None or not (is_iterated(iter_) or isinstance(iter_, Tensor) or has_steps(iter_)):
        _python_for(iter_, extra_test, body)
    else:
        _graph_for(iter_, extra_test, body, get_state, set_state, symbol_names, opts)


def _python_for(iter_: Any, extra_test: Callable[[], Any] | None, body: Callable[[Any], None]) -> None:
    if extra_test is not None and not _python_truth(extra_test(), MSG_FOR_BREAK):
        return
    for target in iter_:
        body(target)
        if extra_test is not None and not _python_truth(extra_test(), MSG_FOR_BREAK):
            break


def _graph_for(iter_: Any, extra_test: Any, body: Any, get_state: Any, set_state: Any, names: Any, opts: Any) -> None:
    """Runs a graph loop whose position is one more symbol.

    The position is carried like any symbol of the user's.
    """
    steps = _steps(iter_)

    def test() -> Any:
        more = steps.more()
        return more if extra_test is None else _both(more, extra_test)

    def step() -> None:
        before = get_state() if steps.may_lose_shapes else ()
        body(steps.element())
        if steps.may_lose_shapes:
            set_state(tuple(map(_as_before, before, get_state())))
        steps.advance()

    def get() -> tuple[Any, ...]:
        defined = (_value_or(n, v, opts.get("iterate_names"), steps) for n, v in zip(names, get_state()))
        return (steps.position, *defined)

    def put(values: tuple[Any, ...]) -> None:
        steps.position = values[0]
        set_state(tuple(values[1:]))

    _Loop(get, put, ("<internal iterate>", *names), opts, body, bound=steps.size, room=steps.limit).run(test, step)
    steps.end()


def _as_before(before: Any, after: Any) -> Any:
    """Returns a symbol after an iteration; if it lost a known shape, the shape is checked at run time."""
    try:
        return nest.map_structure(_of_its_shape, before, after, expand_composites=True)
    except (TypeError, ValueError):  # structures that differ: the loop raises an error for them
        return after


def _of_its_shape(before: Any, after: Any) -> Any:
    lost = isinstance(after, SymbolicTensor) and isinstance(after._type.shape, AnyShape)
    if not lost or not travels(before) or isinstance(convert_to_tensor(before)._type.shape, AnyShape):
        return after
    return with_checked_shape(after, convert_to_tensor(before).shape)


def _steps(iter_: Any) -> Any:
    """Returns the iteration of a loop: over rows, over a dataset's own steps, over a range, or by index."""
    if is_ragged(iter_):
        return _RowSteps(iter_)
    if has_steps(iter_):
        return iter_._traced_steps()
    bounds = remembered_range(iter_)
    return _RangeSteps(bounds) if bounds is not None else _IndexSteps(iter_)


def _value_or(name: str, value: Any, iterate_names: Any, steps: Any) -> Any:
    """Returns a symbol's value; the target of a range loop has a type before the first iteration too."""
    undefined = isinstance(value, Undefined) and name == iterate_names and isinstance(steps, _RangeSteps)
    return steps.position if undefined else value


def _both(more: Tensor, extra_test: Callable[[], Any]) -> Any:
    extra = extra_test()
    return bind.logical_and(more, convert_to_tensor(extra)) if is_symbolic(extra) or not extra else more


class Steps(abc.ABC):
    """The iteration of a loop over its elements; ``position`` is a symbol of the loop."""

    size: Any = None
    """The greatest number of elements, if known while tracing."""
    limit: Any = None
    """The greatest number of elements as a tensor, if known before the loop."""
    may_lose_shapes = False
    """Whether an iteration may lose the rank of a value: its shape from before is then assumed, and checked."""
    position: Any

    @abc.abstractmethod
    def more(self) -> Any:
        """Returns whether there is an element, as a bool tensor."""

    @abc.abstractmethod
    def element(self) -> Any:
        """Returns the element at the position."""

    @abc.abstractmethod
    def advance(self) -> None:
        """Moves to the next element."""

    def end(self) -> None:  # noqa: B027 - most have nothing to do
        """Runs after the loop."""


class _RangeSteps(Steps):
    """Iteration over a range: each element is computed from the previous one."""

    def __init__(self, bounds: Range) -> None:
        self.range = bounds
        self.size, self.limit = bounds.size, bounds.limit
        self.position: Any = bounds.start

    def more(self) -> Any:
        """Returns whether the position is before the limit, in the direction of the step.

        The sign of the step may be known only at run time.
        """
        ascending = self.range.ascending()
        if ascending is not None:
            return self._is_below_limit() if ascending else self._is_above_limit()
        forward = bind.less(convert_to_tensor(0, self.range.delta.dtype), self.range.delta)
        return bind.select(forward, self._is_below_limit(), self._is_above_limit())

    def _is_below_limit(self) -> Any:
        return bind.less(self.position, self.range.limit)

    def _is_above_limit(self) -> Any:
        return bind.less(self.range.limit, self.position)

    def element(self) -> Any:
        return self.position

    def advance(self) -> None:
        self.position = bind.add(self.position, self.range.delta)


class _IndexSteps(Steps):
    """Iteration by index: slices of tensors, or tuples of them."""

    def __init__(self, iterated: Any) -> None:
        self.iterated = iterated
        self.position: Any = convert_to_tensor(0)
        shortest = min(_sources(iterated), key=_known_size)
        self.size, self.limit = shortest.size(), shortest.length()

    def more(self) -> Any:
        return bind.less(self.position, self.limit)

    def element(self) -> Any:
        return _element(self.iterated, self.position)

    def advance(self) -> None:
        self.position = bind.add(self.position, convert_to_tensor(1))


def _known_size(source: Any) -> float:
    size = source.size()
    return size if isinstance(size, int) else math.inf


class _RowSteps(Steps):
    """Iteration over the rows of a ragged tensor."""

    def __init__(self, rows: Any) -> None:
        self.rows, self.limit = rows, rows.nrows(int32)
        self.size = rows.shape[0]
        self.position: Any = convert_to_tensor(0)

    def more(self) -> Any:
        return bind.less(self.position, self.limit)

    def element(self) -> Any:
        return self.rows[self.position]

    def advance(self) -> None:
        self.position = bind.add(self.position, convert_to_tensor(1))


def _sources(iterated: Any) -> list[Any]:
    if isinstance(iterated, (Enumerated, Zipped)):
        return [source for part in iterated.parts() for source in _sources(part)]
    return [_source(iterated)]


def _source(iterated: Any) -> Any:
    if isinstance(iterated, Range):
        raise NotImplementedError(
            "a range whose length depends on data can't be enumerated or zipped; count in the loop's body instead"
        )
    return Leading(state.trace.own(convert_to_tensor(iterated)))


def _element(iterated: Any, index: Tensor) -> Any:
    if isinstance(iterated, (Enumerated, Zipped)):
        return iterated.element(index, [_element(part, index) for part in iterated.parts()])
    return _source(iterated).at(index)
