"""Functions of control flow run again for their gradients: recorded, and without their effects.

A run keeps what costly primitives give, so that another can take it instead of computing it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

from tvm import ir, relax, tirx

from tvtf.core.primitive import as_tuple, table
from tvtf.core.shape import TensorType, same_shape
from tvtf.core.tensor import Tensor
from tvtf.core.thread_state import state
from tvtf.core.tvm_visitor import structural_walk
from tvtf.ir import dialect
from tvtf.ir.interpreter import CONTROL, Evaluation, Subfunction
from tvtf.ir.trace import Trace
from tvtf.ops.indexed_slices import as_dense
from tvtf.ops.rules import bind
from tvtf.passes.autodiff.reverse_mode import Record, Recorder, sweep
from tvtf.passes.graph.loop_dce import Needs, is_loop


def differentiable(x: Tensor) -> bool:
    return x._type.dtype.is_differentiable


Residuals = dict[tuple[int, int], Any]
"""By place in a function and number of the result there: what a primitive gives, or its type."""


class Replay:
    """A function run again on tensors, without its effects, and recorded."""

    def __init__(
        self, function: Any, inputs: Sequence[Tensor], saved: Residuals | None = None, carried: int | None = None
    ) -> None:
        trace = state.trace
        self.inputs = list(inputs) if trace is None else [trace.own(x).alias() for x in inputs]
        recorder = Recorder()
        for x in self.inputs:
            if differentiable(x):
                recorder.watch(x)
        tapes, state.tapes = state.tapes, [*state.tapes, recorder]
        try:
            lasting = [] if carried is None else self.inputs[carried:]
            self.walk = walk(function, self.inputs, QuietWalk).start(saved or {}, lasting)
            self.outputs = self.walk.run()
        finally:
            state.tapes = tapes
        self.records: list[Record] = recorder.records

    def sweep(self, cts: Sequence[Any], sources: Sequence[Any], zeros: bool = True) -> list[Any]:
        """Cotangents of ``sources`` for those of the outputs, None where there is none."""
        seeds = [(y, ct) for y, ct in zip(self.outputs, cts) if ct is not None]
        found = sweep(self.records, seeds, sources, zeros=zeros)
        return [as_dense(ct) for ct in found]


class Quiet:
    """A run without effects: nothing is printed or checked again."""

    def bind(self, prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        if prim.name in CONTROL:
            prim, attrs = table[prim.name.removeprefix("effect_")], _wide(inputs, attrs)
        elif prim.name == "effect_recompute":
            prim = table["recompute"]
        elif prim.name == "guard":
            return inputs[0]
        elif prim.name == "with_gradient":
            attrs = attrs | {"backward": loud(attrs["backward"])}
        elif not prim.pure and not gives(prim, attrs):
            return zeros_for(prim, inputs, attrs)
        return super().bind(prim, inputs, attrs)  # type: ignore[misc]


def loud(function: Any) -> Any:
    """A function attribute with the effects that a quiet run leaves out: a gradient function is run for the first time."""
    return Subfunction(function.mod, function.name) if isinstance(function, Subfunction) else function


class Walk:
    """A run of a function that keeps what costly primitives give, or takes it from where it is saved."""

    saved: dict[int, dict[int, Tensor]] | None = None  # by place and number; None for the functions within
    place = 0

    def start(self, saved: Residuals, lasting: Sequence[Tensor] = ()) -> Any:
        """With what is taken; every iteration of a loop is given ``lasting``."""
        self.saved = defaultdict[int, dict[int, Tensor]](dict)
        for (place, i), x in saved.items():
            self.saved[place][i] = x
        self.lasting = lasting
        self.kept: Residuals = {}
        return self

    def bind(self, prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        if self.saved is None:
            return super().bind(prim, inputs, attrs)  # type: ignore[misc]
        self.place += 1
        if self.place in self.saved:
            found = _taken(prim, inputs, attrs, self.saved[self.place])
        else:
            found = super().bind(prim, inputs, attrs)  # type: ignore[misc]
        if prim.heavy or prim.name in COSTLY or self._reads_array(prim, inputs):
            self.kept |= {(self.place, i): x for i, x in enumerate(as_tuple(found))}
        return found

    def _reads_array(self, prim: Any, inputs: list[Any]) -> bool:
        """Whether a row is read of what the function may be given another of next time: it is kept instead of that."""
        return prim.name == "stack_read" and not any(inputs[0] is x for x in self.lasting)


class QuietWalk(Walk, Quiet):
    """Both."""


def _taken(prim: Any, inputs: list[Any], attrs: dict[str, Any], items: dict[int, Tensor]) -> Any:
    nothing = zeros_for(prim, inputs, attrs)
    if isinstance(nothing, Tensor):
        found: Any = items.get(0, nothing)
    else:
        found = tuple(items.get(i, x) for i, x in enumerate(nothing))
    tell_tapes(prim, inputs, found, attrs)
    return found


def tell_tapes(prim: Any, inputs: Sequence[Any], outputs: Any, attrs: dict[str, Any]) -> None:
    for tape in state.tapes:
        tape.record(prim, inputs, outputs, attrs)


def _wide(inputs: Sequence[Tensor], attrs: dict[str, Any]) -> dict[str, Any]:
    """Of a loop where arrays that a loop around carries have all the rows by now that they will need."""
    if not attrs.get("arrays") or state.trace is None:
        return attrs
    entry = [x._type.shape for x in inputs]
    wide = {i for i, *_ in attrs["arrays"] if entry[i][0] in state.trace.root.final_rows}
    arrays = tuple(growing for growing in attrs["arrays"] if growing[0] not in wide)
    shapes = tuple(entry[i] if i in wide else shape for i, shape in enumerate(attrs["shapes"]))
    return attrs | {"arrays": arrays, "shapes": () if all(map(same_shape, shapes, entry)) else shapes}


def gives(prim: Any, attrs: dict[str, Any]) -> bool:
    """Whether a primitive has effects and gives something that others may use."""
    if prim.pure or prim.name in CONTROL or prim.name in ("guard", "print_text", "effect_recompute"):
        return False
    return prim.name != "call_python" or bool(attrs["shapes"])


def zeros_for(prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    """What stands for results that nobody uses."""
    types = prim.typed(*(x._type for x in inputs), **attrs)
    given = dims_in(x._type for x in inputs)
    return zeros_of(types, given) if isinstance(types, TensorType) else tuple(zeros_of(t, given) for t in types)


def dims_in(types: Iterable[TensorType]) -> set[Any]:
    """The symbols among the dims of types."""
    return {d for t in types for d in t.shape if isinstance(d, tirx.Var)}


def zeros_of(of: TensorType, given: Collection[Any] = ()) -> Tensor:
    """Zeros; of dims that are not made of those ``given`` there are none."""
    return bind.stack_new(shape=tuple(d if is_given(d, given) else 0 for d in of.shape), dtype=of.dtype)  # type: ignore[no-any-return]


def is_given(dim: Any, given: Collection[Any]) -> bool:
    return isinstance(dim, int) or all(v in given for v in tirx.analysis.undefined_vars(dim))


COSTLY = ("matmul", "contract", "recompute")


@cache
def _walking(kind: Any, way: Any) -> Any:
    return kind if issubclass(kind, way) else type(way.__name__, (way, kind), {})


def walk(function: Any, inputs: Sequence[Tensor], way: Any = Walk) -> Any:
    """The run of a function attribute on tensors, to be started."""
    inside = hasattr(function, "all_params")
    mod, name = (function.module(), "main") if inside else (function.mod, function.name)
    return _walking(Evaluation if inside else function.kind, way)(mod, mod[name], inputs)


def read_by(function: Any) -> set[int]:
    """Which parameters a function attribute reads; it has the others for their dims."""
    main = function.function if hasattr(function, "all_params") else function.mod[function.name]
    used = set(relax.analysis.free_vars(main.body))
    return {i for i, param in enumerate(main.params) if param in used}


# -- in the active trace


def has_effects(*functions: Any) -> bool:
    """Whether graphs of the active trace have effects; functions of modules tell it by the primitive that calls them."""
    return state.trace is not None and not all(getattr(f, "pure", True) for f in functions)


def position_of(bindings: Sequence[Any], outputs: Sequence[Any], effects: bool) -> int | None:
    """Where the loop with these outputs is bound; another with effects may give those of one without."""
    places = {b.var: i for i, b in enumerate(bindings)}
    item = places.get(getattr(outputs[0], "_var", None))
    taken = None if item is None else bindings[item].value
    place = places.get(taken.tuple_value) if isinstance(taken, relax.TupleGetItem) else None
    if place is None or not dialect.is_dialect(bindings[place].value):
        return None
    return place if bindings[place].value.op.name.startswith("tvtf.effect_") == effects else None


def put_instead(position: int, first: int, found: Sequence[Tensor]) -> None:
    """Puts what was bound from ``first`` on, which gives ``found``, in the place of a binding of the active trace."""
    bindings = state.trace.bindings
    instead = relax.VarBinding(bindings[position].var, relax.Tuple([state.trace.own(x)._var for x in found]))
    bindings[position:] = [*bindings[first:], instead, *bindings[position + 1 : first]]


def used_by(trace: Trace, results: Sequence[Any]) -> set[Any]:
    """The variables that the results depend on, within the trace; of what a loop carries, those that the loop needs for them.

    A dim depends on what first has it.
    """
    used = {trace.own(r)._var for r in results if isinstance(trace.own(r)._var, relax.Var)}
    functions = {var: graph.function for var, graph in trace.subgraphs.items()}
    wanted: dict[Any, set[int]] = defaultdict(set)
    tellers = _tellers(trace)
    for binding in reversed(trace.bindings):
        value = binding.value
        if binding.var in used:
            used.update(tellers[dim] for dim in (*_dims(binding.var.ty), *_dims(value)) if dim in tellers)
        if binding.var in used and isinstance(value, relax.TupleGetItem):
            wanted[value.tuple_value].add(int(value.index))
        elif binding.var in wanted and is_loop(value):
            used.update(Needs(functions, value, wanted[binding.var]).operands())
        elif binding.var in used or binding.var in wanted:
            used.update(relax.analysis.free_vars(value))
    return used


def _tellers(trace: Trace) -> dict[Any, relax.Var]:
    """By dim that no parameter has, the variable that first has it."""
    given = {dim for param in trace.params for dim in _dims(param._var.ty)}
    found: dict[Any, relax.Var] = {}
    for binding in trace.bindings:
        for dim in _dims(binding.var.ty):
            if dim not in given:
                found.setdefault(dim, binding.var)
    return found


def _dims(part: Any) -> list[Any]:
    """The symbolic dims that a type or an expression names."""
    found: list[Any] = []
    structural_walk(part, (tirx.Var, found.append))
    return [var for var in found if isinstance(var.ty, ir.PrimType)]
