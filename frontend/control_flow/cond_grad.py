"""The gradient of ``cond``: reruns and sweeps the branch that was taken, in a cond over the same predicate.

Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 12.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    cts: Any, outputs: Any, pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any, shapes: Any = ()
) -> Any:
    """Returns the cotangents of a cond's operands (None for the condition), given those of its results (``cts``)."""
    attrs = {"then_branch": then_branch, "else_branch": else_branch, "shapes": shapes}
    if state.trace is None:  # eagerly it is known which branch was taken
        chosen = Replay(then_branch if pred.eager_array() else else_branch, captured)
        return (None, *chosen.sweep(cts, chosen.inputs))
    if is_mapped(cts):
        return by_element(lambda *element_cts: cond_vjp(element_cts, outputs, pred, *captured, **attrs), cts)
    return traced_cond_vjp(cts, outputs, pred, *captured, **attrs)


def traced_cond_vjp(
    cts: Any, outputs: Any, pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any, shapes: Any = (),
    shared: SharedTensors | None = None,
) -> Any:  # fmt: skip
    """Returns the cotangents of a cond's operands, computed by a cond over the backward sweeps of both branches.

    Reads of ``shared`` tensors give cotangents of the rows that were read. If the rows' shapes are known in one branch
    only, dense cotangents are computed instead.
    """
    branches = [_Branch(then_branch, shared), _Branch(else_branch, shared)]
    for branch in branches:
        branch.sweep(cts, captured)
    if not all(branch.rows_fit(captured) for branch in branches):
        for branch in branches:
            branch.shared = None
            branch.sweep(cts, captured)
    return _by_cond(pred, captured, branches, shared)


class _Branch:
    """A branch of a cond that is being differentiated."""

    traced: TracedFunction
    rows: Sequence[RowCotangents]

    def __init__(self, function: Any, shared: SharedTensors | None) -> None:
        self.function, self.shared = function, shared

    def swept(self, cts: Any, captured: Sequence[Tensor]) -> tuple[Any, ...]:
        """Reruns the branch and sweeps it backward; returns the cotangents of what it captured.

        ``rows`` are set to the cotangents of the rows that it reads of shared tensors.
        """
        replay = Replay(self.function, captured)
        shared = SharedTensors.within(self.shared, captured, replay.inputs)
        replay.records = shared.replace_reads(replay.records, traced_cond_vjp)
        cotangents = replay.sweep(list(map(with_shape_of_result, cts, replay.outputs)), replay.inputs)
        self.rows = [
            replace(rows, places=state.trace.own(rows.places), values=state.trace.own(rows.values))
            for rows in shared.rows
        ]
        return tuple(cotangents)

    def sweep(self, cts: Any, captured: Sequence[Tensor]) -> None:
        """Traces the sweep of the branch."""
        self.traced = TracedFunction("cond_grad", lambda: self.swept(cts, captured))
        self.cotangents = self.traced.structure

    def rows_fit(self, captured: Sequence[Tensor]) -> bool:
        """Returns whether the shapes of this branch's row cotangents are known outside of it.

        Only then can the other branch return results of the same types.
        """
        known = {d for x in captured for d in x._type.shape}
        return all(isinstance(d, int) or d in known for r in self.rows for d in r.values._type.shape)

    def rows_of(self, branch: _Branch) -> list[Tensor]:
        """Returns the row cotangents of ``branch`` as results of this branch.

        If it is the other branch, they are zeros at place -1, which means no row: both branches of a cond return the
        same types.
        """
        if branch is self:
            return [tensor for rows in self.rows for tensor in (rows.places, rows.values)]
        with tracing(self.traced.trace):
            no_places = [
                bind.broadcast_to(EagerTensor(np.array(-1)), shape=rows.places._type.shape) for rows in branch.rows
            ]
            zeros = [bind.broadcast_to(number(0, rows.values), shape=rows.values._type.shape) for rows in branch.rows]
            return [self.traced.trace.own(tensor) for pair in zip(no_places, zeros) for tensor in pair]


def _by_cond(
    pred: Tensor, captured: Sequence[Tensor], branches: Sequence[_Branch], shared: SharedTensors | None
) -> Any:
    """Binds a cond over the branches' backward sweeps; returns the cotangents of the forward cond's operands.

    Its cotangents of rows are added to ``shared``.
    """
    used = [i for i in range(len(captured)) if any(branch.cotangents[i] is not None for branch in branches)]
    # Both graphs return the same results: zeros where one branch has no cotangent, and no rows for the other's reads.
    dense = [[_or_zeros(branch.traced, branch.cotangents[i], captured[i]) for i in used] for branch in branches]
    branch_outputs = [
        [*cotangents_of_branch, *(x for other in branches for x in branch.rows_of(other))]
        for branch, cotangents_of_branch in zip(branches, dense)
    ]
    for branch, outputs in zip(branches, branch_outputs):
        without_unused(branch.traced.trace, outputs)
    lifted = lift([branch.traced for branch in branches])
    graphs = [branch.traced.trace.finish(outputs) for branch, outputs in zip(branches, branch_outputs)]
    results = iter(
        cond_primitive.bind(pred, *lifted, then_branch=graphs[0], else_branch=graphs[1]) if branch_outputs[0] else ()
    )
    cotangents = {i: next(results) for i in used}
    for branch in branches:
        for rows in branch.rows:
            shared.rows.append(replace(rows, places=next(results), values=next(results)))  # type: ignore[union-attr]
    return (None, *(cotangents.get(i) for i in range(len(captured))))


def with_shape_of_result(ct: Any, like: Tensor) -> Any:
    """Returns the cotangent of a cond's result in the shape of one branch's result ``like``.

    The cond and its branches may have different symbols for the same size.
    """
    if ct is None or same_shape(ct._type.shape, like._type.shape):
        return ct
    return bind.ensure_shape(state.trace.own(ct), shape=like._type.shape)


def _or_zeros(inner: TracedFunction, ct: Any, like: Tensor) -> Any:
    if ct is not None:
        return ct
    with tracing(inner.trace):
        return inner.trace.own(zeros_like(like))
