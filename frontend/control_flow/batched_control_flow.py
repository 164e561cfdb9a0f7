"""Batching rules of primitives whose attributes are functions: control flow over all elements of a map at once.

A branch on a condition that depends on the element becomes both branches and a select. A loop runs until the last
element is done; elements that are done keep their values. Source: https://arxiv.org/abs/1903.04243 (as TensorFlow
does it)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.core.shape import Dim, TensorType
from tvtf.core.tensor import Tensor
from tvtf.core.thread_state import state
from tvtf.frontend.control_flow.closure_conversion import TracedFunction, lift
from tvtf.frontend.control_flow.cond_while import bound_cond
from tvtf.frontend.control_flow.vectorized_map import Batched, level, unwrapped
from tvtf.ops.control import call
from tvtf.ops.control import while_ as while_primitive
from tvtf.ops.custom import gradients_of, used_from, with_gradient
from tvtf.ops.indexed_slices import as_dense
from tvtf.ops.rules import bind, stretch

Raw = Sequence[Tensor]
Flags = Sequence[bool]


class _Elements(level):
    """A level of a vectorized map: in it, a function sees each batch as a tensor of one element."""

    def __init__(self, size: Dim) -> None:
        self.size = size

    def __enter__(self) -> Any:
        self.level = super().__enter__()
        return self

    def as_elements(self, tensors: Raw, batched: Flags) -> list[Tensor]:
        return [
            Batched(tensor, self.level) if is_batched else tensor
            for tensor, is_batched in zip(tensors, batched, strict=True)
        ]

    def is_batched(self, x: Tensor) -> bool:
        return x.is_batched and x.level == self.level  # type: ignore[attr-defined]

    def as_batches(self, results: Sequence[Any]) -> list[Tensor]:
        return [unwrapped(result, self.level, self.size) for result in results]


def cond_batch(size: Dim, inputs: Raw, batched: Flags, *, then_branch: Any, else_branch: Any, shapes: Any = ()) -> Any:
    """Maps a ``cond`` over the ``size`` elements of a batch; ``batched`` says which inputs differ between elements.

    If the condition is the same for all elements, one branch runs for all. Otherwise both branches run, and a select
    chooses each element's results.

    Returns:
      the batched results, or NotImplemented if both branches must run but have side effects or results of different
      shapes. The caller then loops over the elements.
    """
    pred, *captured = inputs
    is_pred_batched, *are_captured_batched = batched
    branches = (then_branch, else_branch)
    if is_pred_batched and (shapes or not all(map(_is_pure, branches))):
        return NotImplemented
    with _Elements(size) as elements:
        operands = elements.as_elements(captured, are_captured_batched)
        if is_pred_batched:
            (element_pred,) = elements.as_elements([pred], [True])
            result_pairs = zip(call(then_branch, operands), call(else_branch, operands))
            results = [bind.select(element_pred, then, other) for then, other in result_pairs]
            return tuple(elements.as_batches(results))
        if state.trace is None:
            chosen = then_branch if pred.eager_array() else else_branch
            return tuple(elements.as_batches(call(chosen, operands)))

        def traced(branch: Any) -> TracedFunction:
            return TracedFunction("cond_of_rows", lambda: elements.as_batches(call(branch, operands)), is_branch=True)

        traced_branches = list(map(traced, branches))
        shared = lift(traced_branches)
        return bound_cond(pred, shared, [branch.graph() for branch in traced_branches])


def _is_pure(function: Any) -> bool:
    """Returns whether a branch has no side effects. Branches are graphs or functions of a Relax module."""
    return bool(function.pure if hasattr(function, "all_params") else function.mod[function.name].is_pure)


def while_batch(
    size: Dim,
    inputs: Raw,
    batched: Flags,
    *,
    condition: Any,
    body: Any,
    carried: int,
    bound: Any = None,
    shapes: Any = (),
    arrays: Any = (),
) -> Any:
    """Maps a ``while`` over the ``size`` elements of a batch: one loop runs for all, until the last element is done.

    Args:
      size: the number of elements.
      inputs: the loop variables, then the loop invariants.
      batched: for each input, whether its first axis is that of the elements.
      condition, body, carried, bound, shapes, arrays: the attributes of the ``while``.

    Returns:
      the batched results, or NotImplemented if TensorArrays of the loop grow or, in a trace, if shapes change. The
      caller then loops over the elements.
    """
    if arrays or (state.trace is not None and shapes):
        return NotImplemented
    with _Elements(size) as elements:
        loop = _Loop(elements, inputs, batched, condition, body, carried)
        return loop.run() if state.trace is None else loop.traced(bound)


class _Loop:
    """A ``while`` over all elements."""

    def __init__(
        self, elements: _Elements, inputs: Raw, batched: Flags, condition: Any, body: Any, carried: int
    ) -> None:
        """Splits the inputs into the ``carried`` loop variables and the loop invariants.

        ``batched`` says which inputs differ between elements.
        """
        self.elements = elements
        self.condition = condition
        self.body = body
        self.start = list(inputs[:carried])
        self.flags = list(batched[:carried])
        self.invariants = elements.as_elements(inputs[carried:], batched[carried:])

    def run_iteration(self, values: Raw) -> list[Tensor]:
        """Runs one iteration for all elements, and returns the loop variables after the iteration.

        Elements whose condition no longer holds keep their values.
        """
        (continues,) = call(self.condition, [*values, *self.invariants])
        new = call(self.body, [*values, *self.invariants])
        if not self.elements.is_batched(continues):
            return list(new)
        return [bind.select(continues, after, before) for after, before in zip(new, values)]

    def test(self, values: Raw) -> Tensor:
        """Evaluates the loop's condition, and returns whether the loop continues for any element."""
        (result,) = call(self.condition, [*values, *self.invariants])
        if not self.elements.is_batched(result):
            return result
        return bind.reduce_any(result.inner, axis=(0,), keepdims=False)  # type: ignore[attr-defined, no-any-return]

    def run(self) -> tuple[Tensor, ...]:
        values = self.elements.as_elements(self.start, self.flags)
        while self.test(values).eager_array():
            values = self.run_iteration(values)
        return tuple(self.elements.as_batches(values))

    def traced(self, bound: Any) -> tuple[Tensor, ...]:
        """Emits one ``while`` that runs the loop for all elements, and returns the batched results.

        A loop variable that differs between elements is carried as a whole batch. ``bound`` is the greatest number of
        iterations, or None.
        """
        start = [state.trace.own(x) for x in self.start]
        # A variable that differs may make others differ in the next iteration: trace the body until none is added.
        body = self._step(start)
        while body.flags != self.flags:
            for i, x in enumerate(start):
                became_batched = body.flags[i] and not self.flags[i]
                if became_batched:
                    start[i] = stretch(self.elements.size, x, False)  # repeats x for each element
            self.flags = body.flags
            body = self._step(start)

        def condition(*batches: Tensor) -> Any:
            return self.test(self.elements.as_elements(batches, self.flags))

        traced_condition = TracedFunction("rows_cond", condition, [x._type for x in start])
        captured = lift([traced_condition, body.function])
        outputs = while_primitive.bind(
            *start, *captured, condition=traced_condition.graph(), body=body.function.graph(), carried=len(start),
            bound=bound,
        )  # fmt: skip
        return tuple(self.elements.as_batches(self.elements.as_elements(outputs, self.flags)))

    def _step(self, start: Raw) -> _Step:
        return _Step(self, [x._type for x in start])


class _Step:
    """A loop's body traced over whole batches, and which of its values differ between elements after an iteration."""

    def __init__(self, loop: _Loop, types: Sequence[TensorType]) -> None:
        """Traces the body of a loop over whole batches. ``types`` are the types of its loop variables.

        Sets ``flags``: which loop variables differ between elements after an iteration.
        """
        self.flags = list(loop.flags)

        def body(*batches: Tensor) -> list[Tensor]:
            """Runs an iteration for all elements.

            Loop variables that differ between elements are returned as batches.
            """
            results = loop.run_iteration(loop.elements.as_elements(batches, loop.flags))
            # Only the traced results show which values an iteration batches.
            self.flags = []
            for was_batched, result in zip(loop.flags, results):
                self.flags.append(was_batched or loop.elements.is_batched(result))
            return [
                unwrapped(result, loop.elements.level, loop.elements.size) if is_batched else result
                for is_batched, result in zip(self.flags, results)
            ]

        self.function = TracedFunction("rows_body", body, types, is_branch=True)


def recompute_batch(size: Dim, inputs: Raw, batched: Flags, *, forward: Any, count: int) -> Any:
    """Maps a ``recompute`` over the ``size`` elements of a batch by running its function on whole batches.

    The function's intermediate results are therefore kept for the gradient, not recomputed.
    """
    with _Elements(size) as elements:
        return tuple(elements.as_batches(call(forward, elements.as_elements(inputs, batched))))


def custom_batch(
    size: Dim, inputs: Raw, batched: Flags, *, backward: Any, count: int, given: Any, error_text: str
) -> Any:
    """Maps a function with a custom gradient over the ``size`` elements of a batch.

    ``inputs`` are the function's ``count`` results, followed by the operands of the gradient function ``backward``. An
    operand that all elements share gets the sum of the elements' cotangents. ``given`` lists the operands that get a
    cotangent.
    """
    results = [stretch(size, x, is_batched) for x, is_batched in zip(inputs[:count], batched)]
    if error_text:
        attrs: dict[str, Any] = {"backward": None, "count": count, "given": (), "error_text": error_text}
        return with_gradient.bind(*results, *inputs[count:], **attrs)
    used = used_from(len(inputs), backward, count)
    with _Elements(size) as elements:
        element_inputs = elements.as_elements(inputs, batched)

        def backward_of_batch(*raw: Tensor) -> list[Tensor]:
            """Calls the user's gradient function on batches of cotangents, and returns the operands' cotangents.

            Args:
              raw: the cotangents of the results, which are batches; then the operands that the function reads, which
                are batches where ``batched`` says so.
            """
            are_batches = [True] * count + list(batched[used:])
            cotangents = call(backward, elements.as_elements(raw, are_batches))
            gradients = gradients_of(element_inputs, cotangents, given)
            batches = elements.as_batches([as_dense(gradient) for gradient in gradients if gradient is not None])
            operand_cotangents = []
            for (operand, _), batch in zip(given, batches):
                if not batched[operand]:  # all elements share the operand: its cotangent is the sum over the elements
                    batch = bind.reduce_sum(batch, axis=(0,), keepdims=False)
                operand_cotangents.append(batch)
            return operand_cotangents

        types = [x._type for x in (*results, *inputs[used:])]
        inner = TracedFunction("rows_backward", backward_of_batch, types, is_branch=True)
        shared = lift([inner])
        given_positions = tuple((i, False) for i, _ in given)
        attrs = {"backward": inner.graph(), "count": count, "given": given_positions, "error_text": ""}
        return with_gradient.bind(*results, *inputs[count:], *shared, **attrs)
