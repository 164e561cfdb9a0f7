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
from tvtf.frontend.control_flow.closure_conversion import Inner, lift
from tvtf.frontend.control_flow.cond_while import _bound_cond
from tvtf.frontend.control_flow.vectorized_map import Batched, level, unwrapped
from tvtf.ops.control import call
from tvtf.ops.control import while_ as while_primitive
from tvtf.ops.custom import gradients_of, used_from, with_gradient
from tvtf.ops.indexed_slices import as_dense
from tvtf.ops.rules import bind, stretch

Raw = Sequence[Tensor]
Flags = Sequence[bool]


class _Elements(level):
    """A level of mapping in which functions see elements of whole batches."""

    def __init__(self, size: Dim) -> None:
        self.size = size

    def __enter__(self) -> Any:
        self.own = super().__enter__()
        return self

    def of(self, tensors: Raw, batched: Flags) -> list[Tensor]:
        return [Batched(x, self.own) if b else x for x, b in zip(tensors, batched, strict=True)]

    def has(self, x: Tensor) -> bool:
        return x.is_batched and x.level == self.own  # type: ignore[attr-defined]

    def whole(self, results: Sequence[Any]) -> list[Tensor]:
        return [unwrapped(x, self.own, self.size) for x in results]


def cond_batch(size: Dim, inputs: Raw, batched: Flags, *, then_branch: Any, else_branch: Any, shapes: Any = ()) -> Any:
    """Runs the chosen branch for all elements; both branches and a select if the elements choose.

    It is left to a loop over the elements (NotImplemented) if they choose and a branch has effects.
    """
    pred, *captured = inputs
    branches = (then_branch, else_branch)
    # A select needs results of one shape, and runs both branches.
    if batched[0] and (shapes or not all(map(_is_pure, branches))):
        return NotImplemented
    with _Elements(size) as elements:
        operands = elements.of(captured, batched[1:])
        if batched[0]:
            (chosen,) = elements.of([pred], [True])
            pairs = zip(*(call(branch, operands) for branch in branches))
            return tuple(elements.whole([bind.select(chosen, a, b) for a, b in pairs]))
        if state.trace is None:
            return tuple(elements.whole(call(branches[0] if pred.eager_array() else branches[1], operands)))
        inners = [Inner("cond_of_rows", lambda f=f: elements.whole(call(f, operands))) for f in branches]
        shared = lift(inners)
        return _bound_cond(pred, shared, [inner.graph() for inner in inners])


def _is_pure(function: Any) -> bool:
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
    """Runs one loop for all elements.

    It is left to a loop over the elements (NotImplemented) if its arrays grow, or, in a trace, if its shapes change.
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
        self.elements, self.condition, self.body = elements, condition, body
        self.start, self.flags = list(inputs[:carried]), list(batched[:carried])
        self.invariants = elements.of(inputs[carried:], batched[carried:])

    def iterate(self, values: Raw) -> list[Tensor]:
        """Returns the values after an iteration; elements that are done keep theirs."""
        (continues,) = call(self.condition, [*values, *self.invariants])
        new = call(self.body, [*values, *self.invariants])
        if not self.elements.has(continues):
            return list(new)
        return [bind.select(continues, after, before) for after, before in zip(new, values)]

    def test(self, values: Raw) -> Tensor:
        """Returns whether any element goes on."""
        (result,) = call(self.condition, [*values, *self.invariants])
        if not self.elements.has(result):
            return result
        return bind.reduce_any(result.inner, axis=(0,), keepdims=False)  # type: ignore[attr-defined, no-any-return]

    def run(self) -> tuple[Tensor, ...]:
        values = self.elements.of(self.start, self.flags)
        while self.test(values).eager_array():
            values = self.iterate(values)
        return tuple(self.elements.whole(values))

    def traced(self, bound: Any) -> tuple[Tensor, ...]:
        """Binds the loop; values that come to differ between elements are batched from the start."""
        start = [state.trace.own(x) for x in self.start]
        # A value that an iteration batches may make others differ, so that iterations are traced until none does.
        while (step := self._step(start)).flags != self.flags:
            start = [stretch(self.elements.size, x, f is g) for x, f, g in zip(start, self.flags, step.flags)]
            self.flags = step.flags
        test = Inner("rows_cond", lambda *raw: self.test(self.elements.of(raw, self.flags)), [x._type for x in start])
        shared = lift([test, step.inner])
        outputs = while_primitive.bind(
            *start, *shared, condition=test.graph(), body=step.inner.graph(), carried=len(start), bound=bound
        )
        return tuple(self.elements.whole(self.elements.of(outputs, self.flags)))

    def _step(self, start: Raw) -> _Step:
        return _Step(self, [x._type for x in start])


class _Step:
    """The body over whole batches, and which of its values differ between elements afterwards."""

    def __init__(self, loop: _Loop, types: Sequence[TensorType]) -> None:
        self.flags = list(loop.flags)

        def body(*raw: Tensor) -> list[Tensor]:
            results = loop.iterate(loop.elements.of(raw, loop.flags))
            # Only the traced results show which values an iteration batches.
            self.flags = [f or loop.elements.has(x) for f, x in zip(loop.flags, results)]
            return [
                unwrapped(x, loop.elements.own, loop.elements.size) if f else x for f, x in zip(self.flags, results)
            ]

        self.inner = Inner("rows_body", body, types)


def recompute_batch(size: Dim, inputs: Raw, batched: Flags, *, forward: Any, count: int) -> Any:
    """Runs the function itself, so that its intermediates are kept for all elements."""
    with _Elements(size) as elements:
        return tuple(elements.whole(call(forward, elements.of(inputs, batched))))


def custom_batch(
    size: Dim, inputs: Raw, batched: Flags, *, backward: Any, count: int, given: Any, error_text: str
) -> Any:
    """Passes whole batches through; shared operands get the sum of their elements' cotangents."""
    results = [stretch(size, x, b) for x, b in zip(inputs[:count], batched)]
    if error_text:
        attrs: dict[str, Any] = {"backward": None, "count": count, "given": (), "error_text": error_text}
        return with_gradient.bind(*results, *inputs[count:], **attrs)
    used = used_from(len(inputs), backward, count)
    with _Elements(size) as elements:
        each = elements.of(inputs, batched)

        def backward_of_batch(*raw: Tensor) -> list[Tensor]:
            cotangents = call(backward, elements.of(raw, [*[True] * count, *batched[used:]]))
            dense = [as_dense(g) for g in gradients_of(each, cotangents, given) if g is not None]
            return [
                x if batched[i] else bind.reduce_sum(x, axis=(0,), keepdims=False)
                for (i, _), x in zip(given, elements.whole(dense))
            ]

        inner = Inner("rows_backward", backward_of_batch, [x._type for x in (*results, *inputs[used:])])
        shared = lift([inner])
        places = tuple((i, False) for i, _ in given)
        attrs = {"backward": inner.graph(), "count": count, "given": places, "error_text": ""}
        return with_gradient.bind(*results, *inputs[count:], *shared, **attrs)
