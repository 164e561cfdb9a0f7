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
    becomes_tensor,
    is_undefined,
    placeholder,
    require_condition,
    require_same_form,
    require_same_structure,
    with_objects,
    with_run_time_check,
)
from tvtf.frontend.autograph.whole_malt import Undefined, UndefinedReturnValue
from tvtf.frontend.control_flow.abstract_trace import AbstractTrace
from tvtf.frontend.control_flow.cond_while import repack, traced_while
from tvtf.frontend.control_flow.loop_shapes import varying_shape
from tvtf.frontend.control_flow.tensor_array import Growth, growing_array_shapes, grows_arrays, with_array_buffers
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
    """Runs a ``while`` statement: as a loop of the graph if its first condition is a tensor, else in Python.

    Args:
      test: evaluates the condition.
      body: runs the statements of one iteration.
      get_state, set_state: read and write the user's variables that the loop uses.
      symbol_names: the names of these variables.
      opts: the loop options, such as ``maximum_iterations``.
    """
    if state.trace is None:
        _python_while(test, body)
        return
    # A temporary trace, only to see whether the condition is a tensor: a loop of the graph traces it again.
    with tracing(Trace("while_test", state.trace)):
        first_condition = test()
    if is_symbolic(first_condition):
        _Loop(get_state, set_state, symbol_names, opts, body).run(test, body)
    elif first_condition:
        body()
        _python_while(test, body)


def _python_while(test: Callable[[], Any], body: Callable[[], None]) -> None:
    """Runs a ``while`` statement in Python. Raises an error if the condition becomes a tensor of the graph."""
    while _python_truth(test(), MSG_WHILE_CHANGED):
        body()


def _python_truth(value: Any, message: str) -> bool:
    """Converts a condition to a bool, or raises NotImplementedError with ``message`` if it is a tensor of the graph."""
    try:
        return bool(value)
    except OperatorNotAllowedInGraphError as error:
        raise NotImplementedError(message) from error


def _leaves(structure: Any) -> list[Any]:
    """Returns the tensors of a structure, without the Nones in it."""
    return [leaf for leaf in nest.flatten(structure, expand_composites=True) if leaf is not None]


class _Carried:
    """The tensors that a loop of the graph carries: the user's variables that it uses.

    If a variable is undefined before the loop, the first tensor is a flag that tells whether an iteration ran.
    """

    def __init__(self, before: tuple[Any, ...], flagged: bool, generalized: dict[int, TensorShape]) -> None:
        """Computes the tensors with which the loop starts.

        Args:
          before: the values of the user's variables before the loop.
          flagged: whether the loop also carries a flag that tells whether an iteration ran.
          generalized: shape invariants that were inferred, by the position of the variable's leaf.
        """
        self.before = before
        self.flag_count = int(flagged)
        self.generalized = generalized
        self.shapes: list[Any] = []
        self.entry = as_tensors(before)
        flags = [state.trace.own(convert_to_tensor(False))] if flagged else []
        self.start = [*flags, *_leaves(self.entry)]

    def names(self, symbols: tuple[str, ...]) -> list[str]:
        """Returns a name for each carried tensor, for error messages: the name of the user's variable."""
        return ["<ran>"] * self.flag_count + [name for name, value in zip(symbols, self.entry) for _ in _leaves(value)]

    def invariants(self, declared_pairs: Any, counter_count: int) -> list[Any] | None:
        """Returns a list of shape invariants of the carried tensors, or None if no shape changes.

        An element of the list is None if the tensor keeps its shape.

        Args:
          declared_pairs: the user's pairs of a value and its shape invariant, or None.
          counter_count: the number of loop counters. They come first and keep their shapes, as does the flag.
        """
        if not declared_pairs and not self.generalized:
            return None
        declared = {id(convert_to_tensor(value)): shape for value, shape in declared_pairs or ()}
        flat = nest.flatten(self.before, expand_composites=True)
        self.shapes = [declared.get(id(value)) for value in flat]
        for position, shape in self.generalized.items():
            self.shapes[position] = shape
        carried = nest.flatten(self.entry, expand_composites=True)
        invariants = [shape for shape, tensor in zip(self.shapes, carried) if tensor is not None]
        return [None] * (counter_count + self.flag_count) + invariants

    def restored(self, tensors: Any) -> tuple[Any, ...]:
        """Returns the values of the user's variables for these carried tensors. Objects other than tensors stay."""
        values = tensors[self.flag_count :]
        return with_objects(repack(self.entry, values), self.before)


class _ArrayOutgrowsRows(Exception):
    """Raised if a loop's body writes a TensorArray beyond the rows that the loop reserved. The loop is traced again."""


class _Loop:
    """A loop of the graph, and the user's variables that it uses: before it, and around the traced iteration."""

    def __init__(
        self,
        get_state: Any,
        set_state: Any,
        names: tuple[str, ...],
        opts: dict[str, Any],
        body: Callable[..., None],
        bound: Any = None,
        row_limit: Any = None,
    ) -> None:
        """Reads the values of the user's variables before the loop.

        ``bound`` and ``row_limit`` are the greatest number of iterations, or None. ``bound`` is known while tracing.
        ``row_limit`` is a tensor: this many rows are added to TensorArrays before the loop. The others are those of
        :func:`while_stmt`.
        """
        self.get_state = get_state
        self.set_state = set_state
        self.names = names
        self.opts = opts
        self.bound = bound
        self.row_limit = row_limit
        self.before: tuple[Any, ...] = get_state()
        self.original = self.before
        self.missing = [is_undefined(value) for value in self.before]
        self.generalized: dict[int, TensorShape] = {}
        self.claimed = claimed_names(body, names)

    def run(self, test: Callable[[], Any], body: Callable[[], None]) -> None:
        """Traces the loop, and sets the user's variables to the values after the loop.

        Args:
          test: returns the loop's condition.
          body: runs an iteration on the user's variables.
        """
        scope = status.scopes[-1]
        scope.loops += 1
        try:
            if any(self.missing):
                self.before = self.with_placeholders(body)
            self.before = with_array_buffers(
                self.before, lambda abstract: self.first_iteration(body, abstract), self.row_limit
            )
            self.set_state(self.original)  # the first iteration has set others
            final = self.traced(test, body)
        except BaseException:  # restores the user's variables, whatever interrupts the iteration
            self.set_state(self.original)
            raise
        finally:
            scope.loops -= 1
        # Only at run time is it known whether the loop's return statement was reached.
        scope.partial |= any(isinstance(value, UndefinedReturnValue) for value in self.original)
        self.set_state(final)

    def traced(self, test: Callable[[], Any], body: Callable[[], None]) -> tuple[Any, ...]:
        """Traces the loop, and returns the values of the user's variables after the loop.

        Two things are assumed first: TensorArrays need only the reserved rows, and variables have the shapes that
        ``set_shape`` claims. The loop is traced again without an assumption that doesn't hold.

        Args:
          test: returns the loop's condition.
          body: runs an iteration on the user's variables.
        """
        try:
            return self.bind_loop(test, body)
        except _ArrayOutgrowsRows:
            self.row_limit = None
        except (TypeError, ValueError, NotImplementedError, OpError):
            if not self.claimed:
                raise
            self.claimed = frozenset()
        self.set_state(self.original)
        return self.traced(test, body)

    def bind_loop(self, test: Callable[[], Any], body: Callable[[], None]) -> tuple[Any, ...]:
        """Traces the loop once, and returns the values of the user's variables after the loop.

        If a variable is undefined before the loop, the loop also carries a flag that tells whether an iteration ran.

        Args:
          test, body: run the user's condition, and an iteration, on the user's variables.
        """
        carried = _Carried(self.before, any(self.missing), self.generalized)
        limit = self.opts.get("maximum_iterations")
        graph_condition, graph_body, start, counter_count = self.with_iteration_limit(
            self.condition(test, carried), self.step(body, carried), carried.start, limit
        )
        names = ["<counter>"] * counter_count + carried.names(self.names)
        claimed = [i for i, name in enumerate(names) if name in self.claimed and start[i].shape.is_fully_defined()]
        invariants = carried.invariants(self.opts.get("shape_invariants"), counter_count)
        growth = Growth(carried.entry if self.row_limit is None else (), counter_count + carried.flag_count)
        results = traced_while(graph_condition, graph_body, start, invariants, self.bound, names, growth, claimed)
        outputs = results[counter_count:]
        final = carried.restored(outputs)
        if not carried.flag_count:
            return final
        has_run = outputs[0]
        return self.initialized(has_run, final)

    def condition(self, test: Callable[[], Any], carried: _Carried) -> Callable[..., Any]:
        """Returns the loop's condition as a function of the carried tensors.

        The function first sets the user's variables to the tensors, because the user's condition reads them by name.
        """

        def graph_condition(*tensors: Any) -> Any:
            """Evaluates the user's condition for these values of the carried tensors."""
            self.set_state(carried.restored(tensors))
            return require_condition(test(), "while loop")

        return graph_condition

    def step(self, body: Callable[[], None], carried: _Carried) -> Callable[..., list[Any]]:
        """Returns the loop's body as a function of the carried tensors."""

        def graph_body(*tensors: Any) -> list[Any]:
            """Runs one iteration on the carried tensors, and returns their new values.

            If the first tensor is the flag that tells whether an iteration ran, its new value is True.
            """
            start = carried.restored(tensors)
            if self.row_limit is not None:
                # Each iteration has a reserved row in a TensorArray: for a write at the loop's index, or for an append.
                loop_index = tensors[carried.flag_count]  # the first of the user's variables
                state.trace.reserved_indices = {loop_index._var, COUNT}
            self.set_state(start)
            body()
            end = self.get_state()
            self.check(start, end, carried.shapes)
            # `flag_count` is 0 or 1.
            flags = [convert_to_tensor(True) for _ in range(carried.flag_count)]
            return [*flags, *_leaves(as_tensors(end))]

        return graph_body

    def with_iteration_limit(
        self, graph_condition: Any, graph_body: Any, start: list[Any], limit: Any
    ) -> tuple[Any, Any, list[Any], int]:
        """Adds a counter to a loop that has ``maximum_iterations``. The counter is the first carried tensor.

        Args:
          graph_condition, graph_body: functions of the carried tensors.
          start: the initial values of the carried tensors.
          limit: the greatest number of iterations, or None.

        Returns:
          the condition, the body and the initial values with the counter, and the number of counters added (0 or 1).
        """
        if limit is None:
            return graph_condition, graph_body, start, 0
        if isinstance(limit, int) and self.bound is None:
            self.bound = limit  # with a bound, stacks for the loop's gradient are allocated at once
        max_iterations = convert_to_tensor(limit)
        zero = convert_to_tensor(0, max_iterations.dtype)
        one = convert_to_tensor(1, max_iterations.dtype)

        def limited_condition(counter: Any, *values: Any) -> Any:
            return bind.logical_and(bind.less(counter, max_iterations), graph_condition(*values))

        def counting_body(counter: Any, *values: Any) -> list[Any]:
            return [bind.add(counter, one), *graph_body(*values)]

        return limited_condition, counting_body, [zero, *start], 1

    def initialized(self, has_run: Tensor, final: tuple[Any, ...]) -> tuple[Any, ...]:
        """Adds a run-time check to variables that only an iteration defines: using one fails if no iteration ran.

        Args:
          has_run: the flag that tells whether an iteration ran.
          final: the values of the user's variables after the loop.

        Returns:
          the values, with the checks.
        """

        def with_check(name: str, value: Any) -> Any:
            """Adds a run-time check to a variable's tensors, which fails if no iteration has set the variable."""
            message = MSG_NO_ITERATION + name

            def with_leaf_check(leaf: Any) -> Any:
                return with_run_time_check(leaf, has_run, message)

            return nest.map_structure(with_leaf_check, value, expand_composites=True)

        checked = list(final)
        for i, (name, before, is_missing) in enumerate(zip(self.names, self.original, self.missing)):
            if is_missing and isinstance(before, Undefined):
                checked[i] = with_check(name, final[i])
        return tuple(checked)

    # -- symbols without a value before the loop

    def with_placeholders(self, body: Callable[[], None]) -> tuple[Any, ...]:
        """Returns the user's variables before the loop, with zeros for variables that only an iteration defines.

        The loop needs an initial value of each carried tensor. One iteration is traced temporarily to find the types.
        """
        failure = ""
        first_results: tuple[Any, ...] = (None,) * len(self.before)
        try:
            with tracing(AbstractTrace("while_first")) as abstract:
                first_results = self.first_iteration(body, abstract)
        except (UnboundLocalError, TypeError, ValueError, KeyError) as error:
            failure = (
                f"\nNote: AutoGraph tried to define it automatically, but ran into a {type(error).__name__}: {error}"
            )
        finally:
            self.set_state(self.original)
        values = list(self.before)
        for i, is_missing in enumerate(self.missing):
            if is_missing:
                values[i] = placeholder(first_results[i])
        filled = tuple(values)
        self.generalized = dict(self.computed_shapes(filled, first_results))
        for name, value, after in zip(self.names, filled, first_results):
            _require_start(name, value, after, failure)
        return filled

    def computed_shapes(
        self, with_zeros: tuple[Any, ...], after_iteration: tuple[Any, ...]
    ) -> Iterator[tuple[int, TensorShape]]:
        """Yields shape invariants for placeholders whose shape isn't that of the variable after an iteration.

        A variable that only the loop's body defines starts as a placeholder: zeros. A size that the body computes isn't
        known before the loop, and the placeholder has another size there. So the variable's shape is unknown in this
        dim.

        Args:
          with_zeros: the user's variables before the loop, with zeros as placeholders.
          after_iteration: the user's variables after an iteration.

        Yields:
          pairs of the index of a leaf among all variables' leaves, and the leaf's shape invariant.
        """
        first_index = 0
        for zero_value, inferred, missing in zip(with_zeros, after_iteration, self.missing):
            zero_leaves, inferred_leaves = (
                nest.flatten(value, expand_composites=True) for value in (zero_value, inferred)
            )
            for i, zero in enumerate(zero_leaves):
                if (
                    missing
                    and isinstance(zero, Tensor)
                    and not _have_same_shape(zero, inferred_leaf := convert_to_tensor(inferred_leaves[i]))
                ):
                    sizes = zip(inferred_leaf.shape, zero.shape)
                    yield first_index + i, TensorShape([size if size == other else None for size, other in sizes])
            first_index += len(zero_leaves)

    def first_iteration(self, body: Callable[[], None], abstract: AbstractTrace) -> tuple[Any, ...]:
        """Runs the body once in a temporary trace, and returns the user's variables after the iteration.

        Values that become tensors of the graph are replaced by parameters of the trace ``abstract``.
        """

        def param_or_value(value: Any) -> Any:
            return abstract.param_of(value) if becomes_tensor(value) else value

        self.set_state(nest.map_structure(param_or_value, self.before, expand_composites=True))
        body()
        return self.get_state()

    # -- checks

    def check(self, start: tuple[Any, ...], end: tuple[Any, ...], declared: Sequence[Any]) -> None:
        """Checks that an iteration keeps the structure, dtype and shape of each of the user's variables.

        The errors name the user's variables. ``traced_while`` checks, too, but could only number its tensors.

        Args:
          start, end: the variables at the start and at the end of the iteration.
          declared: the declared shape of each leaf, or None.
        """
        if self.row_limit is not None and grows_arrays(start, end):
            raise _ArrayOutgrowsRows
        growing = growing_array_shapes(start) if self.row_limit is None else ()
        # The shape of each leaf that may change its shape, None for other leaves.
        varying_shapes = iter([shape or growing_shape for shape, growing_shape in zip_longest(declared, growing)])
        for name, before, after in zip(self.names, start, end):
            text = "'{name}' does not have the same nested structure after one iteration.\n\n{error}"
            require_same_structure(name, before, after, text)
            leaves_before = nest.flatten(before, expand_composites=True)
            leaves_after = nest.flatten(after, expand_composites=True)
            for leaf_before, leaf_after in zip(leaves_before, leaves_after):
                may_vary = next(varying_shapes, None) is not None or name in self.claimed
                # Leaves whose shape may vary are checked by `traced_while`.
                if not may_vary and not _varies(leaf_before, leaf_after):
                    _check_leaf(name, leaf_before, leaf_after)


def claimed_names(body: Callable[..., None], names: Sequence[str]) -> frozenset[str]:
    """Returns the names of the variables on which the loop's body calls ``set_shape``.

    The names are found in the byte code, before the body is traced. Otherwise the body would be traced twice.
    """
    return frozenset(_claimed_in(body.__code__)).intersection(names)


def _claimed_in(code: CodeType) -> Iterator[str]:
    """Yields the names of the variables on which a function's byte code, or a nested function's, calls ``set_shape``.

    The variable is the name that was loaded last before ``set_shape``. As in TensorFlow, a loop variable may have the
    shape that the body claims.
    """
    last_loaded = ""
    for instruction in dis.get_instructions(code):
        # Python 3.13 joins instructions of two variables, as LOAD_FAST_LOAD_FAST and STORE_FAST_LOAD_FAST.
        if "LOAD_FAST" in instruction.opname or instruction.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF"):
            name = instruction.argval
            last_loaded = name[-1] if isinstance(name, tuple) else name
        elif instruction.argval == "set_shape":
            yield last_loaded
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _claimed_in(constant)


def _varies(before: Any, after: Any) -> bool:
    """Returns whether an iteration changes a tensor's sizes in a way that TensorFlow accepts.

    ``before`` and ``after`` are the values of a variable's leaf before and after the iteration.
    """
    are_tensors = isinstance(before, Tensor) and isinstance(after, SymbolicTensor) and before.dtype is after.dtype
    return are_tensors and varying_shape(before, after) is not None


def _have_same_shape(zero: Tensor, inferred: Tensor) -> bool:
    """Returns whether a placeholder has the inferred shape. A shape of unknown rank counts as the same."""
    shapes = zero._type.shape, inferred._type.shape
    return any(isinstance(shape, AnyShape) for shape in shapes) or same_shape(*shapes)


def _require_start(name: str, value: Any, after_iteration: Any, failure: str) -> None:
    """Checks that a variable has a value before the loop, or a placeholder, and raises TensorFlow's error otherwise.

    Args:
      name: the name of the variable.
      value: the value or placeholder, None if the variable has none.
      after_iteration: the value after an iteration.
      failure: text that says why no placeholder was inferred.
    """
    if isinstance(value, UndefinedReturnValue) or (value is None and isinstance(after_iteration, UndefinedReturnValue)):
        raise NotImplementedError(
            "a return statement cannot be placed inside this TensorFlow loop; this may happen if a return statement "
            "depends on a static Python condition such as a hyperparameter"
        )
    if value is None and after_iteration is not None:
        raise ValueError(
            f"'{name}' must be one of {LEGAL} after an iteration of the loop, but is {type(after_iteration).__name__}"
        )
    if value is None:
        raise ValueError(f"'{name}' must be defined before the loop{failure}")


def _check_leaf(name: str, before: Any, after: Any) -> None:
    """Raises an error if a leaf of a variable has another dtype or shape after an iteration, or has become None."""
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
    """Runs a ``for`` statement: as a loop of the graph over tensors and datasets, else in Python.

    Args:
      iter_: what is iterated over.
      extra_test: returns whether the loop continues, for a loop with ``break`` or ``return`` in it; otherwise None.
      body: runs the statements of one iteration on an element.
      get_state, set_state: read and write the user's variables that the loop uses.
      symbol_names: the names of these variables.
      opts: the loop options, such as ``maximum_iterations``.
    """
    if hasattr(iter_, "_as_tensor") and not is_iterated(iter_):  # such as a Variable
        iter_ = iter_._as_tensor()
    if state.trace is not None and (is_iterated(iter_) or isinstance(iter_, Tensor) or has_steps(iter_)):
        _graph_for(iter_, extra_test, body, get_state, set_state, symbol_names, opts)
    else:
        _python_for(iter_, extra_test, body)


def _python_for(iter_: Any, extra_test: Callable[[], Any] | None, body: Callable[[Any], None]) -> None:
    """Runs a ``for`` statement in Python.

    Args:
      iter_: the object to iterate over.
      extra_test: returns False after a ``break`` or ``return``; None if the loop has none.
      body: runs the loop's statements for an element.
    """
    if extra_test is not None and not _python_truth(extra_test(), MSG_FOR_BREAK):
        return
    for target in iter_:
        body(target)
        if extra_test is not None and not _python_truth(extra_test(), MSG_FOR_BREAK):
            break


def _graph_for(iter_: Any, extra_test: Any, body: Any, get_state: Any, set_state: Any, names: Any, opts: Any) -> None:
    """Runs a ``for`` statement as a ``while`` loop of the graph; the arguments are those of ``for_stmt``.

    The position of the iteration is an additional loop variable, before the user's variables.
    """
    steps = _steps(iter_)

    def test() -> Any:
        """Evaluates the condition of the ``while``: there is another element, and no ``break`` was reached."""
        has_more = steps.more()
        return has_more if extra_test is None else _and_extra_test(has_more, extra_test)

    def step() -> None:
        """Runs the user's statements on the present element, and moves to the next element."""
        before = get_state() if steps.may_lose_shapes else ()
        body(steps.element())
        if steps.may_lose_shapes:
            set_state(tuple(map(_with_shapes_before, before, get_state())))
        steps.advance()

    def get_with_position() -> tuple[Any, ...]:
        """Returns the loop variables: the position of the iteration, then the user's variables."""
        defined = (
            _value_or_range_start(name, value, opts.get("iterate_names"), steps)
            for name, value in zip(names, get_state())
        )
        return (steps.position, *defined)

    def set_with_position(values: tuple[Any, ...]) -> None:
        """Sets the position of the iteration, then the user's variables."""
        steps.position = values[0]
        set_state(tuple(values[1:]))

    _Loop(
        get_with_position,
        set_with_position,
        ("<internal iterate>", *names),
        opts,
        body,
        bound=steps.size,
        row_limit=steps.limit,
    ).run(test, step)
    steps.end()


def _with_shapes_before(before: Any, after: Any) -> Any:
    """Returns a variable's value after an iteration, with run-time checks that tensors keep their shapes.

    Only tensors whose rank became unknown in the iteration are checked.
    """
    try:
        return nest.map_structure(_with_shape_of, before, after, expand_composites=True)
    except (TypeError, ValueError):  # structures that differ: the loop raises an error for them
        return after


def _with_shape_of(before: Any, after: Any) -> Any:
    """Returns ``after``, a leaf of a variable after an iteration, with the shape that the leaf had before.

    If the rank of ``after`` is unknown, a run-time check of the shape is added. Otherwise it is returned unchanged.
    """
    has_unknown_rank = isinstance(after, SymbolicTensor) and isinstance(after._type.shape, AnyShape)
    if not has_unknown_rank or not becomes_tensor(before):
        return after
    tensor_before = convert_to_tensor(before)
    if isinstance(tensor_before._type.shape, AnyShape):  # there is no shape to compare with
        return after
    return with_checked_shape(after, tensor_before.shape)


def _steps(iter_: Any) -> Any:
    """Returns the iteration (an object with a position) over the elements of ``iter_`` for a loop of the graph.

    The elements are the rows of a ragged tensor, the elements of a dataset, the numbers of a range, or slices of a tensor.
    """
    if is_ragged(iter_):
        return _RowSteps(iter_)
    if has_steps(iter_):
        return iter_._traced_steps()
    bounds = remembered_range(iter_)
    return _RangeSteps(bounds) if bounds is not None else _IndexSteps(iter_)


def _value_or_range_start(name: str, value: Any, iterate_names: Any, steps: Any) -> Any:
    """Returns the value of a user's variable before a ``for`` loop.

    The target of a loop over a range is often undefined before the loop. The range's start then gives it a type.

    Args:
      name, value: the variable's name and value.
      iterate_names: the name of the loop's target.
      steps: the iteration over the elements.
    """
    is_undefined_target = isinstance(value, Undefined) and name == iterate_names
    if is_undefined_target and isinstance(steps, _RangeSteps):
        return steps.position
    return value


def _and_extra_test(has_more: Tensor, extra_test: Callable[[], Any]) -> Any:
    """Returns the condition of a ``for`` loop with ``break``: there is another element, and ``extra_test`` holds.

    If ``extra_test`` returns a constant True, no op is added.
    """
    extra = extra_test()
    return bind.logical_and(has_more, convert_to_tensor(extra)) if is_symbolic(extra) or not extra else has_more


class Steps(abc.ABC):
    """The iteration of a loop of the graph over its elements. ``position`` is a loop variable."""

    size: Any = None
    """The greatest number of elements, if known while tracing."""
    limit: Any = None
    """The greatest number of elements as a tensor, if known before the loop."""
    may_lose_shapes = False
    """Whether an iteration may make the rank of a value unknown.

    The value must then keep its shape, which is checked.
    """
    position: Any

    @abc.abstractmethod
    def more(self) -> Any:
        """Returns whether there is an element at the position, as a boolean tensor."""

    @abc.abstractmethod
    def element(self) -> Any:
        """Returns the element at the position."""

    @abc.abstractmethod
    def advance(self) -> None:
        """Moves to the next element."""

    def end(self) -> None:  # noqa: B027 - most have nothing to do
        """Is called after the loop was traced, to emit code that runs after the loop."""


class _RangeSteps(Steps):
    """Iteration over a range: each element is computed from the previous one."""

    def __init__(self, bounds: Range) -> None:
        self.range = bounds
        self.size, self.limit = bounds.size, bounds.limit
        self.position: Any = bounds.start

    def more(self) -> Any:
        """Returns whether the position has not reached the limit, in the direction of the range's step.

        If the sign of the step is known only at run time, a select chooses between both directions.
        """
        ascending = self.range.ascending()
        if ascending is not None:
            return self._is_below_limit() if ascending else self._is_above_limit()
        is_ascending = bind.less(convert_to_tensor(0, self.range.delta.dtype), self.range.delta)
        return bind.select(is_ascending, self._is_below_limit(), self._is_above_limit())

    def _is_below_limit(self) -> Any:
        return bind.less(self.position, self.range.limit)

    def _is_above_limit(self) -> Any:
        return bind.less(self.range.limit, self.position)

    def element(self) -> Any:
        return self.position

    def advance(self) -> None:
        self.position = bind.add(self.position, self.range.delta)


class _IndexSteps(Steps):
    """Iteration by index over the slices of a tensor, or over tensors that are enumerated or zipped."""

    def __init__(self, iterated: Any) -> None:
        """Starts at index 0. The shortest of zipped tensors limits the number of iterations."""
        self.iterated = iterated
        self.position: Any = convert_to_tensor(0)
        shortest = min(_sources(iterated), key=_known_size)
        self.size = shortest.size()
        self.limit = shortest.length()

    def more(self) -> Any:
        return bind.less(self.position, self.limit)

    def element(self) -> Any:
        return _element(self.iterated, self.position)

    def advance(self) -> None:
        self.position = bind.add(self.position, convert_to_tensor(1))


def _known_size(source: Any) -> float:
    """Returns the number of a tensor's slices. An unknown number counts as infinity, for ``min``."""
    size = source.size()
    return size if isinstance(size, int) else math.inf


class _RowSteps(Steps):
    """Iteration over the rows of a ragged tensor."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.limit = rows.nrows(int32)
        self.size = rows.shape[0]
        self.position: Any = convert_to_tensor(0)

    def more(self) -> Any:
        return bind.less(self.position, self.limit)

    def element(self) -> Any:
        return self.rows[self.position]

    def advance(self) -> None:
        self.position = bind.add(self.position, convert_to_tensor(1))


def _sources(iterated: Any) -> list[Any]:
    """Returns the tensors that a loop iterates over: several if they are enumerated or zipped."""
    if isinstance(iterated, (Enumerated, Zipped)):
        return [source for part in iterated.parts() for source in _sources(part)]
    return [_source(iterated)]


def _source(iterated: Any) -> Any:
    """Returns the slices of a tensor, or of a value that becomes a tensor, along the first axis."""
    if isinstance(iterated, Range):
        raise NotImplementedError(
            "a range whose length depends on data can't be enumerated or zipped; count in the loop's body instead"
        )
    return Leading(state.trace.own(convert_to_tensor(iterated)))


def _element(iterated: Any, index: Tensor) -> Any:
    """Returns the element of a loop at ``index``: a slice, or a tuple of slices if tensors are enumerated or zipped."""
    if isinstance(iterated, (Enumerated, Zipped)):
        return iterated.element(index, [_element(part, index) for part in iterated.parts()])
    return _source(iterated).at(index)
