"""The gradient of ``while``.

The forward loop gets stacks: of the iterations' inputs, as far as the backward pass needs them, and of the results of
costly primitives. The backward pass is a loop over these stacks. Its body recomputes the cheap rest of an iteration
and sweeps it. Both loops are made of primitives, so they can be differentiated again.

Effects without results are done only by the forward loop; results of effects come from outside
(:mod:`tvtf.frontend.control_flow.effects_once`).

Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tvtf.core.shape import TensorType, same_shape, size_of
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.control_flow.closure_conversion import TracedFunction, lift, without_unused
from tvtf.frontend.control_flow.cond_grad import traced_cond_vjp, with_shape_of_result
from tvtf.frontend.control_flow.gather_grad_in_loop import RowCotangents, SharedTensors
from tvtf.frontend.control_flow.loop_stack import stacks_for
from tvtf.frontend.control_flow.rematerialize import (
    KeepResiduals,
    Replay,
    Residuals,
    ResidualsWithoutEffects,
    differentiable,
    dims_in,
    evaluation_of,
    has_effects,
    loop_position,
    read_by,
    replace_binding,
    variables_used_by,
)
from tvtf.frontend.control_flow.vectorized_map import by_element, is_mapped
from tvtf.ir.trace import temporary_trace, tracing
from tvtf.ops.control import own_dims, varying_dims
from tvtf.ops.control import while_ as while_primitive
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind, zeros_like
from tvtf.ops.stack import new_stack, stack_of
from tvtf.passes.autodiff.reverse_mode import with_all_cotangents


def while_vjp(cotangents: Any, outputs: Any, *inputs: Tensor, **attrs: Any) -> Any:
    """Computes the cotangents of a while loop's inputs.

    The forward loop saves the values that the gradient needs on stacks. A second loop reads the stacks backward.

    Args:
      cotangents: the cotangents of the loop's results.
      outputs: the loop's results.
      inputs: the loop variables before the loop, then the loop invariants.
      attrs: the attributes of the loop.
    """
    if state.trace is None or is_mapped(cotangents):
        return _vjp_by_element(while_vjp, cotangents, outputs, inputs, attrs)
    has_loop_effects = has_effects(attrs["condition"], attrs["body"])
    # Other loops may run twice: the first run counts the iterations.
    runs_once = has_loop_effects or attrs.get("arrays") or attrs.get("shapes")
    loop_class = _LoopOnce if runs_once else _Loop
    return loop_class(inputs, outputs, has_loop_effects, **attrs).backward(cotangents, outputs)


def _vjp_by_element(
    vjp: Callable[..., Any], cotangents: Any, outputs: Any, inputs: Sequence[Tensor], attrs: dict[str, Any]
) -> Any:
    """Computes the cotangents of a loop's inputs by a trace for one element of batched cotangents.

    The backward loop can be emitted only in a trace. The trace for one element then runs for all elements at once.

    Args:
      vjp: the rule that computes the cotangents in a trace.
      cotangents: the cotangents of the loop's results, batched.
      outputs, inputs, attrs: the loop's results, inputs and attributes.
    """

    def vjp_of_element(*element_cotangents: Any) -> Any:
        return with_all_cotangents(vjp)(element_cotangents, outputs, *inputs, **attrs)

    return by_element(vjp_of_element, cotangents)


def effect_while_vjp(cotangents: Any, outputs: Any, *inputs: Tensor, **attrs: Any) -> Any:
    """Computes the cotangents of the inputs of a while loop that has side effects.

    The effects must happen once, so the loop is not run again to count its iterations. The arguments are those of
    :func:`while_vjp`.
    """
    if state.trace is None or is_mapped(cotangents):
        return _vjp_by_element(effect_while_vjp, cotangents, outputs, inputs, attrs)
    return _LoopOnce(inputs, outputs, True, **attrs).backward(cotangents, outputs)


class _Loop:
    """A ``while`` loop to be differentiated, in the active trace.

    The inputs are loop variables (``start``) and invariants, which the condition and the body read but don't change.
    ``active`` are the indices of the differentiable loop variables.

    The loop makes growing TensorArrays larger while it runs. The backward pass, and another run of the loop, start with
    the final number of rows (``extended_start``).
    """

    evaluation_class: Any = KeepResiduals
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
        """Splits the inputs of the loop into the first ``carried``, which are the loop variables, and the invariants.

        ``effects`` says whether the loop has side effects. The other arguments are the attributes of the loop.
        """
        self.condition = condition
        self.body = body
        self.effects = effects
        self.start = list(inputs[:carried])
        self.invariants = list(inputs[carried:])
        self.bound = bound
        self.shapes = shapes
        self.arrays = arrays
        self.extended_start = [self._with_final_rows(i, x, y) for i, (x, y) in enumerate(zip(self.start, outputs))]
        self.active = [i for i, x in enumerate(self.start) if differentiable(x)]
        self.shapes_after = [output._type.shape for output in outputs]

    def _with_final_rows(self, index: int, before: Tensor, after: Tensor) -> Tensor:
        """Returns a loop variable's initial value. A growing TensorArray is extended by zeros to its final row count.

        Args:
          index: the position of the loop variable.
          before, after: the loop variable before and after the loop.
        """
        array_positions = [position for position, *_ in self.arrays]
        if index not in array_positions or same_shape(before._type.shape, after._type.shape):
            return before
        final_row_count, *row_dims = after._type.shape
        # A rerun of the loop finds by this symbol that the array is complete (`_without_growth`).
        state.trace.root.final_rows.add(final_row_count)
        missing_row_count = final_row_count - before._type.shape[0]
        missing_rows = new_stack(missing_row_count, TensorType(tuple(row_dims), after.dtype))
        return bind.concat(before, missing_rows, axis=0)

    def varies(self, index: int) -> set[int]:
        """Returns the axes of loop variable ``index`` on which the size differs between iterations."""
        return varying_dims(self.extended_start[index]._type, self.shapes_after, index)

    def types(self) -> list[TensorType]:
        """Returns types of the loop variables with a new symbolic dim for each size that differs between iterations.

        Each call returns other dims: one call is for the start of an iteration, another call for the end.
        """
        return [x._type._replace(shape=own_dims(x._type, self.varies(i))) for i, x in enumerate(self.extended_start)]

    def backward(self, result_cotangents: Any, outputs: Sequence[Any]) -> list[Any]:
        """Emits the backward loop, and returns the cotangents of all inputs, None for inputs without one.

        The loop carries the number of forward iterations left, the cotangents of the active loop variables, and for
        each invariant the sum of its cotangents so far, because every iteration reads the invariant. An iteration reads
        the residuals of one forward iteration from the stacks, from the last to the first.

        Args:
          result_cotangents: the cotangents of the forward loop's results.
          outputs: the forward loop's results.
        """
        iteration = _Sweep(self)
        count, stacks = self.forward(iteration, outputs)
        active_cotangents = [result_cotangents[i] for i in self.active]
        sums = [iteration.sum_start(index) for index in iteration.summed]
        # A size that differs between iterations has one symbolic dim as the step's parameter, and another one as a loop
        # invariant shape.
        step_types, loop_types = self.types(), self.types()
        cotangent_types = [
            step_types[i]._replace(dtype=cotangent.dtype) for i, cotangent in zip(self.active, active_cotangents)
        ]
        types = [count._type, *cotangent_types, *(total._type for total in sums)]

        def step(count_left: Tensor, *cotangents: Tensor) -> Any:
            return self.backward_step(iteration, stacks, count_left, cotangents)

        def has_iterations_left(count_left: Tensor, *_: Tensor) -> Tensor:
            return bind.less(_int(0), count_left)  # type: ignore[no-any-return]

        backward_step = TracedFunction("while_grad", step, types, is_branch=True)
        condition = TracedFunction(
            "while_grad_cond", has_iterations_left, [param._type for param in backward_step.params]
        )
        without_unused(backward_step.trace, backward_step.leaves)
        # Loop functions are closed: tensors that they capture from this trace become inputs of the loop.
        captured = lift([condition, backward_step])
        shapes: tuple[Any, ...] = ()
        if self.vary:
            shapes = ((), *(loop_types[i].shape for i in self.active), *(total._type.shape for total in sums))
        results = while_primitive.bind(
            count, *active_cotangents, *sums, *captured, condition=condition.graph(), body=backward_step.graph(),
            carried=len(types), bound=self.bound, shapes=shapes,
        )  # fmt: skip
        first_sum = 1 + len(active_cotangents)
        return self.cotangents_by_input(iteration, results[1:first_sum], results[first_sum:])

    def cotangents_by_input(self, iteration: _Sweep, cotangents: Sequence[Tensor], sums: Sequence[Tensor]) -> list[Any]:
        """Returns the cotangents in the order of the loop's inputs, None for inputs without a cotangent.

        Args:
          iteration: the sweep of one iteration.
          cotangents: the results of the backward loop for the differentiable loop variables.
          sums: the results of the backward loop for the invariants: sums over all iterations.
        """
        cotangent_of_variable = dict(zip(self.active, cotangents))
        start_cotangents = []
        for i, before in enumerate(self.start):
            # The backward loop carries cotangents of the extended start, of which the first rows belong to the start.
            in_shape_of_start = _of_shape if self.varies(i) else _first_rows
            start_cotangents.append(in_shape_of_start(cotangent_of_variable.get(i), before))
        cotangent_of_invariant = self.zeros()
        for index, total in zip(iteration.summed, sums):
            # A sum may be a buffer of rows, with leading axes flattened.
            cotangent_of_invariant[index] = bind.reshape(total, shape=self.invariants[index]._type.shape)
        invariant_cotangents = [cotangent_of_invariant.get(index) for index in range(len(self.invariants))]
        return [*start_cotangents, *invariant_cotangents]

    def zeros(self) -> dict[int, Any]:
        """Returns a dict of zero cotangents for the differentiable invariants that the loop reads, by index.

        TensorFlow gives zeros, not None, for these invariants. A zero is a function, which is called if it is needed.
        """
        read_params = read_by(self.condition) | read_by(self.body)
        zeros: dict[int, Any] = {}
        for i, x in enumerate(self.invariants):
            # The parameters of both functions are the loop variables, then the invariants.
            is_read = len(self.start) + i in read_params
            if is_read and differentiable(x):
                zeros[i] = partial(zeros_like, x)
        return zeros

    def backward_step(
        self, iteration: _Sweep, stacks: Sequence[Tensor], count: Tensor, cotangents: Sequence[Tensor]
    ) -> Any:
        """Runs one iteration of the backward loop, and returns its new loop variables.

        Args:
          iteration: the sweep of one iteration.
          stacks: the inputs and residuals that the forward iterations saved.
          count: the number of iterations left, the first loop variable.
          cotangents: the other loop variables: the cotangents of the forward loop's variables, then the sums for the
            invariants.
        """
        variable_cotangents = cotangents[: len(self.active)]
        sums = cotangents[len(self.active) :]
        index = bind.subtract(count, _int(1))
        saved_values = self.read(stacks, index)
        needed_count = len(iteration.needed)
        start_of = dict(zip(iteration.needed, saved_values[:needed_count]))
        residuals = dict(zip(iteration.saved, saved_values[needed_count:]))
        # The sweep doesn't read the other loop variables: zeros take their place.
        values = [start_of[i] if i in start_of else zeros_like(x) for i, x in enumerate(self.extended_start)]
        new_variable_cotangents, new_sums = iteration.run(values, variable_cotangents, sums, residuals)
        return [index, *new_variable_cotangents, *new_sums]

    @property
    def vary(self) -> bool:
        """Whether any loop variable changes a size between iterations."""
        return any(map(self.varies, range(len(self.extended_start))))

    def read(self, stacks: Sequence[Tensor], index: Tensor) -> list[Tensor]:
        """Returns the values that iteration ``index`` saved on the stacks, one value of each stack."""
        return [bind.stack_read(stack, index) for stack in stacks]

    def written(self, stacks: Sequence[Tensor], index: Tensor, values: Sequence[Tensor]) -> list[Tensor]:
        """Returns the stacks with the values of iteration ``index`` written, one to each stack."""
        return [bind.stack_write(stack, index, value) for stack, value in zip(stacks, values)]

    def forward(self, iteration: _Sweep, outputs: Sequence[Any]) -> tuple[Tensor, Sequence[Tensor]]:
        """Emits a copy of the forward loop that saves values on stacks.

        If the original loop is in the active trace, the copy replaces the original. Otherwise both loops run.

        Returns:
          the number of iterations, and the filled stacks.
        """
        bindings = state.trace.bindings
        position = loop_position(bindings, outputs, self.effects)
        first = len(bindings)
        count, values, stacks = self.bind_with_stacks(iteration, position is not None)
        if position is not None:
            replace_binding(position, first, values)
        return count, stacks

    def bind_with_stacks(self, iteration: _Sweep, is_original: bool) -> Run:
        """Emits the forward loop with stacks.

        If no bound on the iterations is known, the loop runs twice: the first run counts the iterations, which gives
        the size of the stacks.

        Args:
          iteration: the sweep of one iteration, which determines what to save.
          is_original: whether this loop replaces the original loop; only subclasses need it.

        Returns:
          the number of iterations, the final values of the loop variables, and the filled stacks.
        """
        types = iteration.stacked_types()
        if not types or self.bound is not None:
            stacks = [new_stack(self.bound, tensor_type) for tensor_type in types]
        else:
            count, _, _ = self.run(iteration, self.start, stacks=[])
            stacks = [stack_of(count, tensor_type) for tensor_type in types]
        return self.run(iteration, self.start, stacks)

    def run(
        self, iteration: _Sweep, start: Sequence[Tensor], stacks: Sequence[Tensor], arrays: Any = (), shapes: Any = ()
    ) -> Run:
        """Emits the forward loop with a counter and stacks as additional loop variables.

        Args:
          iteration: the sweep of one iteration, which determines what to save.
          start: the loop variables before the loop.
          stacks: the empty stacks.
          arrays, shapes: the attributes of the loop: the growing arrays, and the final shapes of all variables if any
            shape changes.

        Returns:
          the number of iterations, the final values of the loop variables, and the filled stacks.
        """
        entry = [state.trace.own(x) for x in (_int(0), *start, *stacks)]
        types = []
        for i, x in enumerate(entry):
            dims = own_dims(x._type, varying_dims(x._type, shapes, i))
            types.append(x._type._replace(shape=dims))
        # The names begin with "while": TensorArrays find the enclosing loop by its name.
        condition = TracedFunction("while_again_cond", self.counted_condition, types)
        body = TracedFunction("while_again", partial(self.step, iteration), types, is_branch=True)
        captured = lift([condition, body])
        results = while_primitive.bind(
            *entry, *captured, condition=condition.graph(), body=body.graph(), carried=len(entry), bound=self.bound,
            shapes=shapes, arrays=arrays,
        )  # fmt: skip
        first_stack = 1 + len(self.start)
        count, final_values, filled_stacks = results[0], results[1:first_stack], results[first_stack:]
        return count, final_values, filled_stacks

    def counted_condition(self, count: Tensor, *values: Tensor) -> Tensor:
        """Evaluates the loop's condition on its variables, without the counter and the stacks of the forward loop."""
        return self.evaluation(self.condition, values[: len(self.start)]).run()[0]  # type: ignore[no-any-return]

    def step(self, iteration: _Sweep, count: Tensor, *values_and_stacks: Tensor) -> list[Tensor]:
        """Runs one iteration of the forward loop, and saves its inputs and residuals on the stacks.

        Args:
          iteration: the sweep of one iteration, which determines what to save.
          count: the number of earlier iterations.
          values_and_stacks: the loop variables, then the stacks.

        Returns:
          the count, loop variables and stacks for the next iteration.
        """
        variable_count = len(self.start)
        values, stacks = values_and_stacks[:variable_count], values_and_stacks[variable_count:]
        evaluation = self.evaluation(self.body, values)
        new_values = evaluation.run()
        inputs_to_save = [values[i] for i in iteration.needed]
        residuals = [evaluation.residuals[key] for key in iteration.saved]
        new_stacks = self.written(stacks, count, [*inputs_to_save, *residuals])
        return [bind.add(count, _int(1)), *new_values, *new_stacks]

    def evaluation(self, function: Any, values: Sequence[Tensor]) -> Any:
        """Returns an evaluation, ready to run, of the condition or the body on the loop variables ``values``."""
        return evaluation_of(function, [*values, *self.invariants], self.evaluation_class).start({}, self.invariants)


Run = tuple[Tensor, Sequence[Tensor], Sequence[Tensor]]
"""The number of iterations, the values after the last one, and the stacks of residuals."""


class _LoopOnce(_Loop):
    """A ``while`` whose trip count is known only at run time: it has effects, or its values vary in size."""

    def bind_with_stacks(self, iteration: _Sweep, is_original: bool) -> Run:
        """Emits the forward loop with stacks.

        The stacks grow while the loop runs if no bound on the iterations is known.

        Returns the number of iterations, the final values of the loop variables, and the filled stacks.

        Args:
          iteration: the sweep of one iteration, which says what is saved.
          is_original: whether this loop replaces the original loop. Arrays then start with the rows that they had
            before the loop. In a second run they start with all rows, and effects don't happen again.
        """
        known_dims = dims_in(x._type for x in (*self.extended_start, *self.invariants))
        self.stacks = stacks = stacks_for(iteration.stacked_types(), known_dims, self.bound)
        start, growing = self.extended_start, self.arrays[:0]
        shapes = [tensor_type.shape for tensor_type in self.types()]
        if is_original:
            start, shapes, growing = self.start, self.shapes or shapes, self.arrays
        else:
            self.evaluation_class = ResidualsWithoutEffects
        # The loop carries a counter, then its variables, then the stacks, of which each iteration writes one row.
        arrays = [(1 + i, rows, tuple(1 + counter for counter in counters)) for i, rows, counters in growing]
        arrays += [(1 + len(start) + i, 1, (0,)) for i in stacks.growing]
        varies = self.vary or stacks.vary or bool(growing)
        return self.run(
            iteration, start, stacks.start, tuple(arrays), ((), *shapes, *stacks.shapes()) if varies else ()
        )

    def read(self, stacks: Sequence[Tensor], index: Tensor) -> list[Tensor]:
        """Returns the values that iteration ``index`` saved on the stacks, which may differ in size."""
        return self.stacks.read(stacks, index)

    def written(self, stacks: Sequence[Tensor], index: Tensor, values: Sequence[Tensor]) -> list[Tensor]:
        """Returns the stacks with the values of iteration ``index`` written."""
        return self.stacks.written(stacks, index, values)


def _first_rows(cotangent: Any, before: Tensor) -> Any:
    """Returns the cotangent of a growing TensorArray before the loop: the first rows of ``cotangent``.

    Args:
      cotangent: the cotangent of the array with its final number of rows, or None.
      before: the array before the loop.
    """
    if cotangent is None or same_shape(cotangent._type.shape, before._type.shape):
        return cotangent
    row_count = before._type.shape[0]

    def first_rows() -> Any:
        return bind.ensure_shape(cotangent[: scalar_of(row_count)], shape=before._type.shape)

    return partial(first_rows)  # called if the cotangent is needed


class _Sweep:
    """The backward sweep of one iteration. A plan says what the sweep reads, and which invariants get a cotangent."""

    def __init__(self, loop: _Loop) -> None:
        self.loop = loop
        self.needed: list[int] = []
        self.saved: Residuals = {}
        self.saved = self._plan()
        self._plan()  # again: with the residuals saved, the sweep reads fewer loop variables

    def _plan(self) -> Residuals:
        """Determines which values the backward sweep of an iteration needs, by tracing the sweep in a temporary trace.

        Sets ``starts`` (the types of the loop variables), ``needed`` (the loop variables that the sweep reads),
        ``summed`` (the invariants with a cotangent) and ``depths`` (of the invariants of which only rows are read).

        Returns:
          the types of the residuals to save, by their keys.
        """
        loop = self.loop
        # All invariants are summed at first, until it is known below which of them get a cotangent.
        self.summed = list(range(len(loop.invariants)))
        self.depths: dict[int, int] = {}
        with tracing(temporary_trace("while_plan")) as abstract:
            self.starts, end_types = loop.types(), loop.types()
            values = [abstract.add_param(tensor_type) for tensor_type in self.starts]
            cotangents = [abstract.add_param(end_types[i]) for i in loop.active]
            saved = {key: abstract.add_param(tensor_type) for key, tensor_type in self.saved.items()}
            new_cotangents, invariant_cotangents, row_cotangents, residuals = self.swept(values, cotangents, saved)
        # Reads of one invariant at different depths are added to one buffer, of the smallest rows.
        for rows in row_cotangents:
            self.depths[rows.key] = max(rows.depth, self.depths.get(rows.key, 0))
        self.summed = [
            index for index in self.summed if invariant_cotangents[index] is not None or index in self.depths
        ]
        results = [*new_cotangents, *(cotangent for cotangent in invariant_cotangents if cotangent is not None)]
        for rows in row_cotangents:
            results += [rows.indices, rows.values]
        used = variables_used_by(abstract, results)
        self.needed = [i for i, value in enumerate(values) if value._var in used or loop.varies(i)]
        return {
            key: x._type for key, x in residuals.items() if getattr(x, "_var", None) in used and self._is_known(x._type)
        }

    def _is_known(self, tensor_type: TensorType) -> bool:
        """Returns whether all sizes of a type are known before the loop, because an input of the loop has them.

        Only values of such types are saved on stacks.
        """
        known_dims = {dim for x in (*self.loop.start, *self.loop.invariants) for dim in x._type.shape}
        return all(isinstance(dim, int) or dim in known_dims for dim in tensor_type.shape)

    def stacked_types(self) -> list[TensorType]:
        """Returns the types of the values that each iteration saves: needed loop variables, then residuals."""
        return [self.starts[j] for j in self.needed] + list(self.saved.values())

    def sum_start(self, index: int) -> Tensor:
        """Returns the zeros to which the backward loop adds the cotangents of invariant ``index``.

        If iterations read single rows of the invariant, the zeros are a buffer of such rows.
        """
        x = self.loop.invariants[index]
        if index in self.depths:
            shape, depth = x._type.shape, self.depths[index]
            return new_stack(size_of(shape[:depth]), x._type._replace(shape=shape[depth:]))
        return state.trace.own(zeros_like(x))

    def swept(
        self, values: Sequence[Tensor], end_cotangents: Sequence[Any], saved: Residuals
    ) -> tuple[list[Any], list[Any], list[RowCotangents], Residuals]:
        """Runs one forward iteration again under a tape, and sweeps it backward.

        Args:
          values: the loop variables at the start of the iteration.
          end_cotangents: the cotangents of the differentiable loop variables at its end.
          saved: the results of costly primitives, which are not computed again.

        Returns:
          the cotangents of the loop variables, of the invariants, and of rows of invariants, and the residuals.
        """
        loop = self.loop
        replay = Replay(loop.body, [*values, *loop.invariants], saved, len(values))
        carried, invariants = replay.inputs[: len(values)], replay.inputs[len(values) :]
        shared = SharedTensors({id(x): (index, x._type.shape) for index, x in enumerate(invariants)})
        replay.records = shared.replace_reads(replay.records, traced_cond_vjp)
        active_variables = [carried[i] for i in loop.active]
        cotangent_of_variable = dict(zip(loop.active, end_cotangents))
        result_cotangents = []
        for i, result in enumerate(replay.outputs):
            cotangent = cotangent_of_variable.get(i)
            result_cotangents.append(with_shape_of_result(cotangent, result) if loop.varies(i) else cotangent)
        cotangents = replay.sweep(result_cotangents, [*active_variables, *invariants], zeros=False)
        invariant_cotangents = cotangents[len(active_variables) :]
        new_cotangents = []
        for variable, cotangent in zip(active_variables, cotangents):
            new_cotangents.append(zeros_like(variable) if cotangent is None else cotangent)
        return new_cotangents, invariant_cotangents, shared.rows, replay.evaluation.residuals

    def run(
        self, values: Sequence[Tensor], cotangents: Sequence[Tensor], sums: Sequence[Tensor], saved: Residuals
    ) -> tuple[list[Any], list[Any]]:
        """Sweeps one iteration backward, and adds the invariants' cotangents to their sums over all iterations.

        Args:
          values: the loop variables at the start of the iteration.
          cotangents: the cotangents of the differentiable loop variables at its end.
          sums: the sums so far.
          saved: the results of costly primitives, which are not computed again.

        Returns:
          the cotangents of the differentiable loop variables at the start, and the new sums.
        """
        new_cotangents, invariant_cotangents, row_cotangents, _ = self.swept(values, cotangents, saved)
        totals = dict(zip(self.summed, sums))
        for rows in row_cotangents:
            index = rows.key
            # All cotangents of an invariant are added to one buffer, which has rows of one size.
            rows = rows.split_into_rows_at(self.loop.invariants[index]._type.shape, self.depths[index])
            totals[index] = bind.stack_add_rows(totals[index], rows.indices, rows.values)
        for index, total in totals.items():
            cotangent = invariant_cotangents[index]
            if cotangent is not None:
                totals[index] = bind.add(total, bind.reshape(cotangent, shape=total._type.shape))
        return new_cotangents, [totals[index] for index in self.summed]


def _of_shape(cotangent: Any, like: Tensor) -> Any:
    """Returns a cotangent in the shape of ``like``, with a check of its sizes at run time. None stays None."""
    return cotangent if cotangent is None else bind.ensure_shape(cotangent, shape=like._type.shape)


def _int(value: int) -> Tensor:
    return convert_to_tensor(value)
