"""Removes loop-carried values that neither the condition nor any used result depends on.

A loop that is there only to count another loop's iterations then computes no more than its condition needs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

import tvm
from tvm import ir, relax, tirx

from tvtf.core.tvm_visitor import structural_walk
from tvtf.ir import dialect
from tvtf.passes.analysis.dead_code import drop_dead, needed_bindings
from tvtf.passes.analysis.rewriter import Bindings

ROUNDS = 8
"""Passes over the module at most: what an outer loop drops may let an inner loop drop more."""


def trim_loops(mod: tvm.IRModule) -> tvm.IRModule:
    """Reduces each ``while`` of a dialect module to the carried values and operands that it needs."""
    for _ in range(ROUNDS):
        trimmed = _Trimmer(mod).run()
        if trimmed is mod:
            break
        mod = drop_dead(trimmed)
    return mod


class _Trimmer:
    """One pass over a module."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.functions: dict[ir.GlobalVar, relax.Function] = {}

    def run(self) -> tvm.IRModule:
        changed = {name: self.function(f) for name, f in self.mod.functions_items() if isinstance(f, relax.Function)}
        if not self.functions:
            return self.mod
        return tvm.IRModule({**dict(self.mod.functions_items()), **changed, **self.functions}, attrs=self.mod.attrs)

    def function(self, func: relax.Function) -> relax.Function:
        """Returns a function with its loops reduced, and reads of their results moved to the new positions."""
        if not any(is_loop(b.value) for b in _bindings(func)):
            return func
        out, used_items, moved = Bindings(), extracted_items(func), dict[Any, dict[int, Any]]()
        for binding in _bindings(func):
            value = binding.value
            if is_loop(value):
                loop = Needs(self.mod, value, used_items.get(binding.var))
                if loop.is_smaller():
                    moved[binding.var] = self.trimmed(out, binding, loop)
                    continue
            if isinstance(value, relax.TupleGetItem) and value.tuple_value in moved:
                out.bind(binding.var, moved[value.tuple_value][int(value.index)])
            else:
                out.bindings.append(binding)
        return out.function(func) if moved else func

    def trimmed(self, out: Bindings, binding: Any, loop: Needs) -> dict[int, Any]:
        """Binds the reduced loop; returns the expression of each remaining result by its old index."""
        attrs = loop.bound.attrs
        condition, body = self.add(attrs["condition"], loop.condition()), self.add(attrs["body"], loop.body())
        var = out.emit(loop.call(condition, body), binding.var.name)
        return {k: relax.TupleGetItem(var, i) for i, k in enumerate(loop.carried)}

    def add(self, name: ir.GlobalVar, func: relax.Function) -> ir.GlobalVar:
        used_names = {v.name_hint for v in [*self.mod.get_global_vars(), *self.functions]}
        unique = next(n for n in (f"{name.name_hint}_{k}" for k in count(1)) if n not in used_names)
        var = Bindings.typed(ir.GlobalVar(unique), func.ty)
        self.functions[var] = func
        return var


def _bindings(func: relax.Function) -> list[Any]:
    return [b for block in func.body.blocks for b in block.bindings]


def is_loop(value: Any) -> bool:
    return dialect.is_dialect(value) and value.op.name == "tvtf.while"


def extracted_items(func: relax.Function) -> dict[Any, Any]:
    """Returns the items that are read of each tuple; a tuple that is used as a whole has no entry."""
    items: dict[Any, set[int]] = defaultdict(set)
    uses: Counter[Any] = Counter()

    def note(expr: Any) -> None:
        if isinstance(expr, relax.Var):
            uses[expr] += 1
        elif isinstance(expr, relax.TupleGetItem):
            items[expr.tuple_value].add(int(expr.index))
            # The visitor counts the tuple in it, too.
            uses[expr.tuple_value] -= 1

    relax.analysis.post_order_visit(func.body, note)
    return {var: indices for var, indices in items.items() if uses[var] == 0}


class _Part:
    """A loop's condition or body, and which parameters some of its results depend on."""

    def __init__(self, func: relax.Function) -> None:
        self.func = func
        self.values = {b.var: b for b in _bindings(func)}
        self.results = list(self.values[func.body.body].value.fields)

    def bindings_for(self, results: Iterable[int]) -> list[Any]:
        """Returns the bindings that some results depend on, in order."""
        return needed_bindings(self.func.params, _bindings(self.func), [self.results[k] for k in results])

    def needed(self, results: list[int]) -> set[int]:
        """Returns the positions of the parameters used, and of one parameter for each symbolic dim that is used.

        A dim is known only by a parameter that has it.
        """
        bindings = self.bindings_for(results)
        used = {v for b in bindings for v in relax.analysis.free_vars(b.value)}
        used |= {v for k in results for v in relax.analysis.free_vars(self.results[k])}
        params = list(self.func.params)
        positions = {i for i, p in enumerate(params) if p in used}
        dims = _dims(
            [*(b.var.ty for b in bindings), *(b.value for b in bindings), *(self.results[k].ty for k in results)]
        )
        for dim in dims - _bound(params[i] for i in positions):
            positions.update(next(([i] for i, p in enumerate(params) if dim in _bound([p])), []))
        return positions

    def part(self, params: list[int], results: list[int]) -> relax.Function:
        """Returns the function restricted to some parameters and results.

        The old functions stay in the module until dead code is dropped, and no variable may be bound in two functions.
        """
        out = Bindings()
        out.bindings = self.bindings_for(results)
        fields = [self.results[k] for k in results]
        var = out.emit(relax.Tuple(fields), "outputs")
        body = out.typed(relax.SeqExpr([relax.BindingBlock(out.bindings)], var), var.ty)
        func = self.func
        remaining_params = [func.params[i] for i in params]
        return relax.utils.copy_with_new_vars(
            relax.Function(remaining_params, body, var.ty, func.is_pure, func.attrs, func.span)
        )


def _dims(things: Iterable[Any]) -> set[Any]:
    """Returns the symbolic dims in types and expressions."""
    symbols: list[Any] = []
    for thing in things:
        structural_walk(thing, (tirx.Var, symbols.append))
    return {v for v in symbols if isinstance(v.ty, ir.PrimType)}


def _bound(params: Iterable[Any]) -> set[Any]:
    return {d for p in params for d in p.ty.shape.values if isinstance(d, tirx.Var)}


class Needs:
    """A loop and the positions of the operands and carried values that are needed."""

    def __init__(self, mod: Mapping[Any, relax.Function], call: relax.Call, used_results: set[int] | None) -> None:
        self.bound = dialect.read(call)
        self.span, self.result_types = call.span, list(call.ty.fields)
        attrs = self.bound.attrs
        self.count = int(attrs["carried"])
        self.test, self.step = _Part(mod[attrs["condition"]]), _Part(mod[attrs["body"]])
        self.params = self._needed(set(range(self.count)) if used_results is None else set(used_results))
        self.carried = [i for i in self.params if i < self.count]

    def _needed(self, used_results: set[int]) -> list[int]:
        """Adds what the condition needs, then what the body needs for that, until nothing is added.

        What the body needs for a carried value is carried itself, and so needed from the iteration before.
        """
        needed = used_results | self.test.needed([0])
        while True:
            more = needed | self.step.needed(sorted(i for i in needed if i < self.count))
            if more == needed:
                return sorted(needed)
            needed = more

    def operands(self) -> list[Any]:
        return [self.bound.inputs[i] for i in self.params]

    def is_smaller(self) -> bool:
        return bool(self.carried) and len(self.params) < len(self.bound.inputs)

    def condition(self) -> relax.Function:
        return self.test.part(self.params, [0])

    def body(self) -> relax.Function:
        return self.step.part(self.params, self.carried)

    def call(self, condition: ir.GlobalVar, body: ir.GlobalVar) -> relax.Call:
        shapes = tuple(self.bound.attrs["shapes"][i] for i in self.carried) if self.bound.attrs.get("shapes") else ()
        parts = {"condition": condition, "body": body, "carried": len(self.carried), "shapes": shapes}
        result = relax.TupleType([self.result_types[i] for i in self.carried])
        return dialect.write(self.bound.primitive, self.operands(), self.bound.attrs | parts, result, self.span)
