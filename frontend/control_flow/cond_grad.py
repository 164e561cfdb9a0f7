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
from tvtf.frontend.control_flow.closure_conversion import Inner, lift, without_unused
from tvtf.frontend.control_flow.gather_grad_in_loop import Rows, Shared
from tvtf.frontend.control_flow.rematerialize import Replay
from tvtf.frontend.control_flow.vectorized_map import by_element, is_mapped
from tvtf.ir.trace import tracing
from tvtf.ops.control import cond as cond_primitive
from tvtf.ops.rules import bind, number, zeros_like


def cond_vjp(
    cts: Any, outputs: Any, pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any, shapes: Any = ()
) -> Any:
    """Returns the cotangents of a cond's operands."""
    attrs = {"then_branch": then_branch, "else_branch": else_branch, "shapes": shapes}
    # Eagerly it is known which branch was taken.
    if state.trace is None:
        chosen = Replay(then_branch if pred.eager_array() else else_branch, captured)
        return (None, *chosen.sweep(cts, chosen.inputs))
    if is_mapped(cts):
        return by_element(lambda *element_cts: cond_vjp(element_cts, outputs, pred, *captured, **attrs), cts)
    return both_swept(cts, outputs, pred, *captured, **attrs)


def both_swept(
    cts: Any, outputs: Any, pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any, shapes: Any = (),
    shared: Shared | None = None,
) -> Any:  # fmt: skip
    """Returns the cotangents of a cond's operands, by a cond over both branches' sweeps.

    Reads of ``shared`` tensors give cotangents of rows. If their shapes are known in one branch only, dense
    cotangents are used.
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

    inner: Inner
    rows: Sequence[Rows]

    def __init__(self, function: Any, shared: Shared | None) -> None:
        self.function, self.shared = function, shared

    def swept(self, cts: Any, captured: Sequence[Tensor]) -> tuple[Any, ...]:
        """Reruns the branch and sweeps it; keeps the rows that are cotangents of shared tensors."""
        replay = Replay(self.function, captured)
        shared = Shared.within(self.shared, captured, replay.inputs)
        replay.records = shared.replace_reads(replay.records, both_swept)
        cotangents = replay.sweep(list(map(of_size, cts, replay.outputs)), replay.inputs)
        self.rows = [
            replace(r, places=state.trace.own(r.places), values=state.trace.own(r.values)) for r in shared.rows
        ]
        return tuple(cotangents)

    def sweep(self, cts: Any, captured: Sequence[Tensor]) -> None:
        """Traces the sweep of the branch."""
        self.inner = Inner("cond_grad", lambda: self.swept(cts, captured))
        self.cotangents = self.inner.structure

    def rows_fit(self, captured: Sequence[Tensor]) -> bool:
        """Returns whether the other branch knows the shapes of the rows."""
        known = {d for x in captured for d in x._type.shape}
        return all(isinstance(d, int) or d in known for r in self.rows for d in r.values._type.shape)

    def rows_of(self, side: _Branch) -> list[Tensor]:
        """Returns ``side``'s rows as results of this branch.

        If that is the other branch, they are zeros at place -1, which means no row: both branches must return the
        same types.
        """
        if side is self:
            return [x for r in self.rows for x in (r.places, r.values)]
        with tracing(self.inner.trace):
            nowhere = [bind.broadcast_to(EagerTensor(np.array(-1)), shape=r.places._type.shape) for r in side.rows]
            zeros = [bind.broadcast_to(number(0, r.values), shape=r.values._type.shape) for r in side.rows]
            return [self.inner.trace.own(x) for pair in zip(nowhere, zeros) for x in pair]


def _by_cond(pred: Tensor, captured: Sequence[Tensor], branches: Sequence[_Branch], shared: Shared | None) -> Any:
    """Binds the cond of the branches' sweeps and distributes its results."""
    used = [i for i in range(len(captured)) if any(branch.cotangents[i] is not None for branch in branches)]
    # Both graphs return the same results: zeros where one branch has no cotangent, and no rows for the other's reads.
    dense = [[_or_zeros(branch.inner, branch.cotangents[i], captured[i]) for i in used] for branch in branches]
    parts = [
        [*grads, *(x for other in branches for x in branch.rows_of(other))] for branch, grads in zip(branches, dense)
    ]
    for branch, part in zip(branches, parts):
        without_unused(branch.inner.trace, part)
    lifted = lift([branch.inner for branch in branches])
    graphs = [branch.inner.trace.finish(part) for branch, part in zip(branches, parts)]
    results = iter(cond_primitive.bind(pred, *lifted, then_branch=graphs[0], else_branch=graphs[1]) if parts[0] else ())
    cotangents = {i: next(results) for i in used}
    for branch in branches:
        for rows in branch.rows:
            shared.rows.append(replace(rows, places=next(results), values=next(results)))  # type: ignore[union-attr]
    return (None, *(cotangents.get(i) for i in range(len(captured))))


def of_size(ct: Any, like: Tensor) -> Any:
    """Returns a cotangent of a cond's result as one of this branch's result, whose sizes may be other symbols."""
    if ct is None or same_shape(ct._type.shape, like._type.shape):
        return ct
    return bind.ensure_shape(state.trace.own(ct), shape=like._type.shape)


def _or_zeros(inner: Inner, ct: Any, like: Tensor) -> Any:
    if ct is not None:
        return ct
    with tracing(inner.trace):
        return inner.trace.own(zeros_like(like))
