"""The gradient of ``while``.

The forward loop gets stacks: of the iterations' inputs, as far as the backward pass needs them, and of the results of
costly primitives. The backward pass is a loop over these stacks. Its body recomputes the cheap rest of an iteration
and sweeps it. Both loops are made of primitives, so they can be differentiated again.

Effects without results are done only by the forward loop; results of effects come from outside
(:mod:`tvtf.frontend.control_flow.effects_once`).

Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tvtf.core.shape import TensorType, same_shape, size_of
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.control_flow.closure_conversion import Inner, lift, without_unused
from tvtf.frontend.control_flow.cond_grad import both_swept, of_size
from tvtf.frontend.control_flow.gather_grad_in_loop import Rows, Shared
from tvtf.frontend.control_flow.loop_stack import stacks_for
from tvtf.frontend.control_flow.rematerialize import (
    Replay,
    Residuals,
    Walk,
    WalkWithoutEffects,
    differentiable,
    dims_in,
    has_effects,
    position_of,
    put_instead,
    read_by,
    used_by,
    walk,
)
from tvtf.frontend.control_flow.vectorized_map import by_element, is_mapped
from tvtf.ir.trace import Trace, tracing
from tvtf.ops.control import own_dims, varying_dims
from tvtf.ops.control import while_ as while_primitive
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind, zeros_like
from tvtf.ops.stack import new_stack, stack_of
from tvtf.passes.autodiff.reverse_mode import at_once


def while_vjp(cts: Any, outputs: Any, *inputs: Tensor, **attrs: Any) -> Any:
    """Returns the cotangents of a loop's inputs: adds stacks to the loop, then runs a loop backward over them."""
    if state.trace is None or is_mapped(cts):
        return by_element(lambda *element_cts: at_once(while_vjp)(element_cts, outputs, *inputs, **attrs), cts)
    effects = has_effects(attrs["condition"], attrs["body"])
    kind = _LoopOnce if effects or attrs.get("arrays") or attrs.get("shapes") else _Loop
    return kind(inputs, outputs, effects, **attrs).backward(cts, outputs)


def effect_while_vjp(cts: Any, outputs: Any, *inputs: Tensor, **attrs: Any) -> Any:
    """Returns the cotangents of a loop with effects, which only one run of the loop performs."""
    if state.trace is None or is_mapped(cts):
        return by_element(lambda *element_cts: at_once(effect_while_vjp)(element_cts, outputs, *inputs, **attrs), cts)
    return _LoopOnce(inputs, outputs, True, **attrs).backward(cts, outputs)


class _Loop:
    """A ``while`` to be differentiated, in the active trace.

    Its inputs are loop variables (``start``) and invariants, which the condition and the body read but don't change.
    ``active`` are the indices of the differentiable loop variables.

    In the backward pass, arrays have their final number of rows: the loop itself makes them larger while it runs, and
    another run of it starts with ``wide`` ones.
    """

    walk_kind: Any = Walk
    """The class that evaluates its functions in another run."""

    def __init__(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        effects: bool,
        condition: Any,
        body: Any,
        carried: int,
        bound: Any,
        shapes: Any = (),
        arrays: Any = (),
    ) -> None:
        self.condition, self.body, self.effects = condition, body, effects
        self.start, self.invariants = list(inputs[:carried]), list(inputs[carried:])
        self.bound, self.shapes, self.arrays = bound, shapes, arrays
        self.wide = [self._wide(i, x, y) for i, (x, y) in enumerate(zip(self.start, outputs))]
        self.active = [i for i, x in enumerate(self.start) if differentiable(x)]
        self.shapes_after = [y._type.shape for y in outputs]

    def _wide(self, index: int, x: Tensor, y: Tensor) -> Tensor:
        """Returns the initial value of an array with the rows that it has at the end."""
        if same_shape(x._type.shape, y._type.shape) or index not in (i for i, *_ in self.arrays):
            return x
        rows = y._type.shape[0]
        state.trace.root.final_rows.add(rows)
        return bind.concat(x, new_stack(rows - x._type.shape[0], TensorType(y._type.shape[1:], y.dtype)), axis=0)

    def varies(self, index: int) -> set[int]:
        """Returns the axes of a loop variable whose size changes between iterations."""
        return varying_dims(self.wide[index]._type, self.shapes_after, index)

    def types(self) -> list[TensorType]:
        """Returns the types of the loop variables at the start, or the end, of an iteration."""
        return [x._type._replace(shape=own_dims(x._type, self.varies(i))) for i, x in enumerate(self.wide)]

    def backward(self, cts: Any, outputs: Sequence[Any]) -> list[Any]:
        """Binds the backward loop and returns the cotangents of all inputs.

        The backward loop carries the number of forward iterations left, the cotangents of the active loop variables, and
        for each invariant the sum of its cotangents so far, because every iteration reads the same invariant. Each of its
        iterations pops the residuals of one forward iteration from the stacks.
        """
        plan = _Step(self)
        count, stacks = self.forward(plan, outputs)
        entry = [cts[i] for i in self.active]
        sums = [plan.sum_start(k) for k in plan.summed]
        start_types, shape_types = self.types(), self.types()
        types = [start_types[i]._replace(dtype=ct.dtype) for i, ct in zip(self.active, entry)]
        step_back = Inner("while_grad", lambda i, *rest: self.step_back(plan, stacks, i, rest), [
            count._type, *types, *(s._type for s in sums)
        ])  # fmt: skip
        condition = Inner("while_grad_cond", lambda i, *_: bind.less(_int(0), i), [p._type for p in step_back.params])
        without_unused(step_back.trace, step_back.leaves)
        # Loop functions are closed: tensors that they capture from this trace become inputs of the loop.
        shared = lift([condition, step_back])
        carried = 1 + len(entry) + len(sums)
        results = while_primitive.bind(
            count,
            *entry,
            *sums,
            *shared,
            condition=condition.graph(),
            body=step_back.graph(),
            carried=carried,
            bound=self.bound,
            shapes=((), *(shape_types[i].shape for i in self.active), *(s._type.shape for s in sums))
            if self.vary
            else (),
        )
        return self.gathered(plan, results[1 : 1 + len(entry)], results[1 + len(entry) :])

    def gathered(self, plan: _Step, cts: Sequence[Tensor], sums: Sequence[Tensor]) -> list[Any]:
        """Returns the cotangents in the order of the loop's inputs."""
        shaped = [bind.reshape(x, shape=self.invariants[k]._type.shape) for k, x in zip(plan.summed, sums)]
        by_start, by_invariant = dict(zip(self.active, cts)), self.zeros() | dict(zip(plan.summed, shaped))
        starts = [
            _of_shape(by_start.get(i), x) if self.varies(i) else _first_rows(by_start.get(i), x)
            for i, x in enumerate(self.start)
        ]
        return [*starts, *map(by_invariant.get, range(len(self.invariants)))]

    def zeros(self) -> dict[int, Any]:
        """Returns zero gradients for differentiable invariants that the loop reads, as TensorFlow does."""
        read = {place - len(self.start) for place in read_by(self.condition) | read_by(self.body)}
        return {k: partial(zeros_like, x) for k, x in enumerate(self.invariants) if k in read and differentiable(x)}

    def step_back(self, plan: _Step, stacks: Sequence[Tensor], i: Tensor, rest: Sequence[Tensor]) -> Any:
        """Runs one backward iteration: reads the iteration's inputs from the stacks, then sweeps it."""
        cts, sums = rest[: len(self.active)], rest[len(self.active) :]
        index = bind.subtract(i, _int(1))
        read = self.read(stacks, index)
        starts, saved = dict(zip(plan.needed, read)), dict(zip(plan.saved, read[len(plan.needed) :]))
        values = [
            starts[j] if j in starts else zeros_like(x) for j, x in enumerate(self.wide)
        ]  # the planned step reads all that vary in size
        new_cts, new_sums = plan.run(values, cts, sums, saved)
        return [index, *new_cts, *new_sums]

    @property
    def vary(self) -> bool:
        return any(map(self.varies, range(len(self.wide))))

    def read(self, stacks: Sequence[Tensor], index: Tensor) -> list[Tensor]:
        return [bind.stack_read(s, index) for s in stacks]

    def written(self, stacks: Sequence[Tensor], index: Tensor, values: Sequence[Tensor]) -> list[Tensor]:
        return [bind.stack_write(s, index, x) for s, x in zip(stacks, values)]

    def forward(self, plan: _Step, outputs: Sequence[Any]) -> tuple[Tensor, Sequence[Tensor]]:
        """Returns the number of iterations and the stacks: of the loop itself if this trace has it, else of a rerun.

        A loop that this trace has isn't run twice: it is replaced by itself with stacks.
        """
        bindings = state.trace.bindings
        position, first = position_of(bindings, outputs, self.effects), len(bindings)
        count, values, stacks = self.stacked(plan, position is not None)
        if position is not None:
            put_instead(position, first, values)
        return count, stacks

    def stacked(self, plan: _Step, itself: bool) -> Run:
        """Returns the number of iterations, the final values, and the stacks.

        Without a bound, a first run counts the iterations, so that the stacks have a known size.
        """
        types = plan.stacked_types()
        if not types or self.bound is not None:
            return self.run(plan, self.start, [new_stack(self.bound, t) for t in types])
        count, *_ = self.run(plan, self.start, [])
        return self.run(plan, self.start, [stack_of(count, t) for t in types])

    def run(
        self, plan: _Step, start: Sequence[Tensor], stacks: Sequence[Tensor], arrays: Any = (), shapes: Any = ()
    ) -> Run:
        """Binds the loop with a counter and stacks; ``shapes`` are given if some vary."""
        values = [state.trace.own(x) for x in (_int(0), *start, *stacks)]
        types = [
            x._type._replace(shape=own_dims(x._type, varying_dims(x._type, shapes, i))) for i, x in enumerate(values)
        ]
        condition = Inner("while_again_cond", self.continues, types)
        body = Inner("while_again", partial(self.step, plan), types)
        shared = lift([condition, body])
        results = while_primitive.bind(
            *values, *shared, condition=condition.graph(), body=body.graph(), carried=len(values), bound=self.bound,
            shapes=shapes, arrays=arrays,
        )  # fmt: skip
        size = 1 + len(self.start)
        return results[0], results[1:size], results[size:]

    def continues(self, count: Tensor, *values: Tensor) -> Tensor:
        return self.walk(self.condition, values[: len(self.start)]).run()[0]  # type: ignore[no-any-return]

    def step(self, plan: _Step, count: Tensor, *rest: Tensor) -> list[Tensor]:
        """Runs one iteration, and writes its residuals to the stacks."""
        size = len(self.start)
        run = self.walk(self.body, rest[:size])
        values = run.run()
        residuals = [*(rest[j] for j in plan.needed), *(run.residuals[key] for key in plan.saved)]
        return [bind.add(count, _int(1)), *values, *self.written(rest[size:], count, residuals)]

    def walk(self, function: Any, values: Sequence[Tensor]) -> Any:
        return walk(function, [*values, *self.invariants], self.walk_kind).start({}, self.invariants)


Run = tuple[Tensor, Sequence[Tensor], Sequence[Tensor]]
"""The number of iterations, the values after the last one, and the stacks of residuals."""


class _LoopOnce(_Loop):
    """A ``while`` whose trip count is known only at run time: it has effects, or its values vary in size."""

    def stacked(self, plan: _Step, is_original: bool) -> Run:
        """Returns the trip count, the final values and the stacks; the original loop starts with unextended arrays."""
        known = dims_in(x._type for x in (*self.wide, *self.invariants))
        self.stacks = stacks = stacks_for(plan.stacked_types(), known, self.bound)
        start, shapes, growing = self.wide, [t.shape for t in self.types()], self.arrays[:0]
        if is_original:
            start, shapes, growing = self.start, self.shapes or shapes, self.arrays
        else:
            self.walk_kind = WalkWithoutEffects
        arrays = [(1 + i, step, tuple(1 + c for c in counters)) for i, step, counters in growing]
        arrays += [(1 + len(start) + i, 1, (0,)) for i in stacks.growing]
        varies = self.vary or stacks.vary or bool(growing)
        return self.run(plan, start, stacks.start, tuple(arrays), ((), *shapes, *stacks.shapes()) if varies else ())

    def read(self, stacks: Sequence[Tensor], index: Tensor) -> list[Tensor]:
        return self.stacks.read(stacks, index)

    def written(self, stacks: Sequence[Tensor], index: Tensor, values: Sequence[Tensor]) -> list[Tensor]:
        return self.stacks.written(stacks, index, values)


def _first_rows(ct: Any, like: Tensor) -> Any:
    """Returns the cotangent of an array before it grew: the first rows."""
    if ct is None or same_shape(ct._type.shape, like._type.shape):
        return ct
    rows = like._type.shape[0]
    return partial(lambda: bind.ensure_shape(ct[: scalar_of(rows)], shape=like._type.shape))


class _Step:
    """The sweep of one iteration: decides which of its inputs it needs, and which invariants get a cotangent."""

    def __init__(self, loop: _Loop) -> None:
        self.loop = loop
        self.needed: list[int] = []
        self.saved: Residuals = {}
        self.saved = self._plan()
        self._plan()

    def _plan(self) -> Residuals:
        """Traces the sweep in a temporary trace, to decide what it reads and sums; returns the types of the residuals that it uses."""
        loop = self.loop
        # All invariants are summed at first, until it is known below which of them get a cotangent.
        self.summed, self.depths = list(range(len(loop.invariants))), dict[int, int]()
        with tracing(Trace("while_plan", state.trace)) as abstract:
            starts, ends = loop.types(), loop.types()
            values = [abstract.add_param(t) for t in starts]
            cts = [abstract.add_param(ends[i]) for i in loop.active]
            saved = {key: abstract.add_param(t) for key, t in self.saved.items()}
            new_cts, invariant_cts, rows, residuals = self.swept(values, cts, saved)
        for part in rows:
            self.depths[part.key] = max(part.depth, self.depths.get(part.key, 0))
        self.summed = [k for k in self.summed if invariant_cts[k] is not None or k in self.depths]
        row_parts = [x for part in rows for x in (part.places, part.values)]
        results = [*new_cts, *(ct for ct in invariant_cts if ct is not None), *row_parts]
        used = used_by(abstract, results)
        self.needed = [j for j, v in enumerate(values) if v._var in used or loop.varies(j)]
        self.starts = starts
        types = {key: x._type for key, x in residuals.items() if getattr(x, "_var", None) in used}
        return {key: t for key, t in types.items() if self._is_known(t)}

    def _is_known(self, of: TensorType) -> bool:
        """Returns whether all sizes of a type are known before the loop."""
        known = {d for t in (*self.loop.start, *self.loop.invariants) for d in t._type.shape}
        return all(isinstance(d, int) or d in known for d in of.shape)

    def stacked_types(self) -> list[TensorType]:
        return [self.starts[j] for j in self.needed] + list(self.saved.values())

    def sum_start(self, k: int) -> Tensor:
        """Returns the zeros that an invariant's cotangent is added to: a stack of rows if only rows of it are read."""
        x = self.loop.invariants[k]
        if k in self.depths:
            shape, depth = x._type.shape, self.depths[k]
            return new_stack(size_of(shape[:depth]), x._type._replace(shape=shape[depth:]))
        return state.trace.own(zeros_like(x))

    def swept(
        self, values: Sequence[Tensor], cts: Sequence[Any], saved: Residuals
    ) -> tuple[list[Any], list[Any], list[Rows], Residuals]:
        """Sweeps one iteration.

        Returns the cotangents of the carried values and of the invariants, those of rows read from invariants, and
        the residuals that the run kept.
        """
        loop = self.loop
        replay = Replay(loop.body, [*values, *loop.invariants], saved, len(values))
        carried, invariants = replay.inputs[: len(values)], replay.inputs[len(values) :]
        shared = Shared({id(x): (k, x._type.shape) for k, x in enumerate(invariants)})
        replay.records = shared.replace_reads(replay.records, both_swept)
        seeds = dict(zip(loop.active, cts))
        sources = [*(carried[i] for i in loop.active), *invariants]
        ends = [of_size(seeds.get(i), y) if loop.varies(i) else seeds.get(i) for i, y in enumerate(replay.outputs)]
        cotangents = replay.sweep(ends, sources, zeros=False)
        last = len(loop.active)
        new_cts = [zeros_like(carried[i]) if ct is None else ct for i, ct in zip(loop.active, cotangents[:last])]
        return new_cts, cotangents[last:], shared.rows, replay.walk.residuals

    def run(
        self, values: Sequence[Tensor], cts: Sequence[Tensor], sums: Sequence[Tensor], saved: Residuals
    ) -> tuple[list[Any], list[Any]]:
        """Sweeps one iteration and adds the invariants' cotangents to their sums."""
        new_cts, invariant_cts, rows, _ = self.swept(values, cts, saved)
        totals = dict(zip(self.summed, sums))
        for part in rows:
            part = part.deeper(self.loop.invariants[part.key]._type.shape, self.depths[part.key])
            totals[part.key] = bind.stack_add_rows(totals[part.key], part.places, part.values)
        for k in self.summed:
            if invariant_cts[k] is not None:
                totals[k] = bind.add(totals[k], bind.reshape(invariant_cts[k], shape=totals[k]._type.shape))
        return new_cts, [totals[k] for k in self.summed]


def _of_shape(ct: Any, like: Tensor) -> Any:
    return ct if ct is None else bind.ensure_shape(ct, shape=like._type.shape)


def _int(value: int) -> Tensor:
    return convert_to_tensor(value)
