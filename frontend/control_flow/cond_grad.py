"""The gradient of ``cond``: reruns and sweeps the branch that was taken, in a cond over the same predicate.

Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tvtf.core.shape import same_shape
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.frontend.control_flow.closure_conversion import TracedFunction, lift, without_unused
from tvtf.frontend.control_flow.gather_grad_in_loop import RowCotangents, SharedTensors
from tvtf.frontend.control_flow.rematerialize import Replay
from tvtf.frontend.control_flow.vectorized_map import by_element, is_mapped
from tvtf.ir.trace import tracing
from tvtf.ops.control import cond as cond_primitive
from tvtf.ops.rules import bind, number, zeros_like


def cond_vjp(
    cotangents: Any, outputs: Any, pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any, shapes: Any = ()
) -> Any:
    """Computes the cotangents of a cond's operands. The cotangent of the condition is None.

    Eagerly, only the branch that was taken is differentiated. In a trace, a cond over the backward sweeps of both
    branches is emitted.

    Args:
      cotangents: the cotangents of the cond's results.
      outputs: the cond's results.
      pred: the condition.
      captured: the arguments of both branches.
      then_branch, else_branch, shapes: the attributes of the cond.
    """
    attrs = {"then_branch": then_branch, "else_branch": else_branch, "shapes": shapes}
    if state.trace is None:  # eagerly it is known which branch was taken
        chosen = Replay(then_branch if pred.eager_array() else else_branch, captured)
        return (None, *chosen.sweep(cotangents, chosen.inputs))
    if is_mapped(cotangents):
        # A trace of one element has no batched tensors. Its cond is then batched by a rule.
        return by_element(
            lambda *element_cotangents: cond_vjp(element_cotangents, outputs, pred, *captured, **attrs), cotangents
        )
    return traced_cond_vjp(cotangents, outputs, pred, *captured, **attrs)


def traced_cond_vjp(
    cotangents: Any, outputs: Any, pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any,
    shapes: Any = (), shared: SharedTensors | None = None,
) -> Any:  # fmt: skip
    """Emits a cond over the backward sweeps of both branches, and returns the cotangents of the cond's operands.

    Only the cotangents of rows that a branch reads are computed for shared tensors. If the shapes of these rows are
    known in one branch only, dense cotangents are computed instead.

    Args:
      cotangents: the cotangents of the cond's results.
      outputs: the cond's results.
      pred, captured: the cond's operands.
      then_branch, else_branch, shapes: the cond's attributes.
      shared: the tensors that all iterations of a loop around the cond read, or None.
    """
    branches = [_Branch(then_branch, shared), _Branch(else_branch, shared)]
    for branch in branches:
        branch.sweep(cotangents, captured)
    if not all(branch.rows_fit(captured) for branch in branches):
        for branch in branches:
            branch.shared = None
            branch.sweep(cotangents, captured)
    return _by_cond(pred, captured, branches, shared)


class _Branch:
    """A branch of a cond that is being differentiated."""

    traced: TracedFunction
    rows: Sequence[RowCotangents]

    def __init__(self, function: Any, shared: SharedTensors | None) -> None:
        self.function, self.shared = function, shared

    def swept(self, result_cotangents: Any, captured: Sequence[Tensor]) -> tuple[Any, ...]:
        """Reruns the branch under a tape, sweeps it backward, and returns the cotangents of the captured tensors.

        Sets ``self.rows``: the cotangents of rows that the branch reads of tensors shared by a loop's iterations.
        """
        replay = Replay(self.function, captured)
        shared = SharedTensors.within(self.shared, captured, replay.inputs)
        replay.records = shared.replace_reads(replay.records, traced_cond_vjp)
        cotangents = replay.sweep(list(map(with_shape_of_result, result_cotangents, replay.outputs)), replay.inputs)
        self.rows = [
            replace(rows, indices=state.trace.own(rows.indices), values=state.trace.own(rows.values))
            for rows in shared.rows
        ]
        return tuple(cotangents)

    def sweep(self, cotangents: Any, captured: Sequence[Tensor]) -> None:
        """Traces the backward sweep of the branch, from the cotangents of its results."""
        self.traced = TracedFunction("cond_grad", lambda: self.swept(cotangents, captured), is_branch=True)
        self.cotangents = self.traced.structure

    def rows_fit(self, captured: Sequence[Tensor]) -> bool:
        """Returns whether the captured tensors determine the shapes of this branch's row cotangents.

        Only then can the other branch of the cond return zeros of the same shapes.
        """
        outer_dims = {dim for x in captured for dim in x._type.shape}
        return all(isinstance(dim, int) or dim in outer_dims for rows in self.rows for dim in rows.values._type.shape)

    def rows_of(self, branch: _Branch) -> list[Tensor]:
        """Returns the row cotangents of ``branch`` as results of this branch: indices and values in turn.

        Both branches of a cond must return the same types. For the other branch, the values are therefore zeros and the
        indices are -1, which means no row.
        """
        results = []
        if branch is self:
            for rows in self.rows:
                results += [rows.indices, rows.values]
            return results
        with tracing(self.traced.trace):
            for rows in branch.rows:
                no_indices = bind.broadcast_to(EagerTensor(np.array(-1)), shape=rows.indices._type.shape)
                zeros = bind.broadcast_to(number(0, rows.values), shape=rows.values._type.shape)
                results += [self.traced.trace.own(no_indices), self.traced.trace.own(zeros)]
        return results


def _by_cond(
    pred: Tensor, captured: Sequence[Tensor], branches: Sequence[_Branch], shared: SharedTensors | None
) -> Any:
    """Binds a cond over the branches' backward sweeps, and returns the cotangents of the forward cond's operands.

    The cotangents of rows of shared tensors are appended to ``shared.rows``.
    """
    used = [i for i in range(len(captured)) if any(branch.cotangents[i] is not None for branch in branches)]
    # Both graphs return the same results: zeros where one branch has no cotangent, and no rows for the other's reads.
    outputs_of_branches = []
    for branch in branches:
        outputs = [_or_zeros(branch.traced, branch.cotangents[i], captured[i]) for i in used]
        for other in branches:
            outputs += branch.rows_of(other)
        outputs_of_branches.append(outputs)
    for branch, outputs in zip(branches, outputs_of_branches):
        without_unused(branch.traced.trace, outputs)
    lifted = lift([branch.traced for branch in branches])
    graphs = [branch.traced.trace.finish(outputs) for branch, outputs in zip(branches, outputs_of_branches)]
    results: Iterator[Tensor] = iter(())
    if outputs_of_branches[0]:
        results = iter(cond_primitive.bind(pred, *lifted, then_branch=graphs[0], else_branch=graphs[1]))
    cotangents = {i: next(results) for i in used}
    for branch in branches:
        for rows in branch.rows:
            shared.rows.append(replace(rows, indices=next(results), values=next(results)))  # type: ignore[union-attr]
    # The condition, which is the first operand, has no cotangent.
    return (None, *(cotangents.get(i) for i in range(len(captured))))


def with_shape_of_result(cotangent: Any, like: Tensor) -> Any:
    """Returns a cotangent with the shape of ``like``, which is the same result inside a branch or loop body.

    A cond or loop and its functions may have different symbolic dims for the same size. None stays None.
    """
    if cotangent is None or same_shape(cotangent._type.shape, like._type.shape):
        return cotangent
    return bind.ensure_shape(state.trace.own(cotangent), shape=like._type.shape)


def _or_zeros(inner: TracedFunction, cotangent: Any, like: Tensor) -> Any:
    """Returns a cotangent, or zeros in the shape of ``like`` if it is None.

    The zeros are emitted into the trace of ``inner``, a branch of the cond.
    """
    if cotangent is not None:
        return cotangent
    with tracing(inner.trace):
        return inner.trace.own(zeros_like(like))
