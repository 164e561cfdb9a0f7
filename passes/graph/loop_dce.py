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
from tvtf.ir.dialect import bindings_of
from tvtf.passes.analysis.dead_code import drop_dead, needed_bindings
from tvtf.passes.analysis.rewriter import Bindings

MAX_ROUNDS = 8
"""Maximum number of passes over the module: what an outer loop drops may let an inner loop drop more."""


def trim_loops(mod: tvm.IRModule) -> tvm.IRModule:
    """Reduces each ``while`` of a module to the carried values and operands that it needs.

    For example, a loop of which only the number of iterations is used then computes only its condition.
    """
    # A value that was dropped from an outer loop may have been the only use of an inner loop's result.
    for _ in range(MAX_ROUNDS):
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
        """Returns the module with smaller loops, and with the functions made for them.

        The original functions stay in the module, since other loops may use them. Dead code elimination later removes
        those that aren't used.
        """
        changed = {
            name: self.trim_function(func)
            for name, func in self.mod.functions_items()
            if isinstance(func, relax.Function)
        }
        if not self.functions:
            return self.mod
        return tvm.IRModule({**dict(self.mod.functions_items()), **changed, **self.functions}, attrs=self.mod.attrs)

    def trim_function(self, func: relax.Function) -> relax.Function:
        """Removes unneeded carried values from the while loops of a function, and returns the new function.

        Reads of a loop's results are changed to the positions of the results in the smaller loop.
        """
        if not any(is_loop(binding.value) for binding in bindings_of(func.body)):
            return func
        out = Bindings()
        used_items = extracted_items(func)
        new_results: dict[Any, dict[int, Any]] = {}
        for binding in bindings_of(func.body):
            value = binding.value
            if is_loop(value):
                used_results = used_items.get(binding.var)  # None: all results are used
                loop = TrimmedLoop(self.mod, value, used_results)
                if loop.is_smaller():
                    new_results[binding.var] = self.bind_trimmed(out, binding, loop)
                    continue
            reads_new_result = isinstance(value, relax.TupleGetItem) and value.tuple_value in new_results
            if reads_new_result:
                out.bind(binding.var, new_results[value.tuple_value][int(value.index)])
            else:
                out.bindings.append(binding)
        return out.function(func) if new_results else func

    def bind_trimmed(self, out: Bindings, binding: Any, loop: TrimmedLoop) -> dict[int, Any]:
        """Emits a while loop that carries only the needed values.

        Returns each remaining result by the index that it had in the original loop.

        Args:
          out: collects the new bindings.
          binding: the binding of the old loop.
          loop: the loop without unneeded values.
        """
        attrs = loop.bound.attrs
        condition = self.add(attrs["condition"], loop.condition())
        body = self.add(attrs["body"], loop.body())
        var = out.emit(loop.call(condition, body), binding.var.name)
        return {old_index: relax.TupleGetItem(var, new_index) for new_index, old_index in enumerate(loop.carried)}

    def add(self, name: ir.GlobalVar, func: relax.Function) -> ir.GlobalVar:
        """Adds a function to the module under a unique name made from ``name``, and returns its global variable."""
        used_names = {function.name_hint for function in [*self.mod.get_global_vars(), *self.functions]}
        numbered_names = (f"{name.name_hint}_{number}" for number in count(1))
        unique_name = next(candidate for candidate in numbered_names if candidate not in used_names)
        var = Bindings.typed(ir.GlobalVar(unique_name), func.ty)
        self.functions[var] = func
        return var


def is_loop(value: Any) -> bool:
    return dialect.is_dialect(value) and value.op.name == "tvtf.while"


def extracted_items(func: relax.Function) -> dict[Any, Any]:
    """Returns which items of each tuple a function reads, as a set of indices by the tuple's variable.

    A tuple that is also used other than by reading items has no entry.
    """
    items: dict[Any, set[int]] = defaultdict(set)
    whole_uses: Counter[Any] = Counter()

    def count(expr: Any) -> None:
        """Records the tuple items that are read, and counts the other uses of each variable."""
        if isinstance(expr, relax.Var):
            whole_uses[expr] += 1
        elif isinstance(expr, relax.TupleGetItem):
            items[expr.tuple_value].add(int(expr.index))
            # The visitor also visits the variable of the tuple that is read, and so counts it as another use.
            whole_uses[expr.tuple_value] -= 1

    relax.analysis.post_order_visit(func.body, count)
    return {var: indices for var, indices in items.items() if whole_uses[var] == 0}


class _LoopFunction:
    """A loop's condition or body, and which parameters some of its results depend on."""

    def __init__(self, func: relax.Function) -> None:
        self.func = func
        self.values = {binding.var: binding for binding in bindings_of(func.body)}
        self.results = list(self.values[func.body.body].value.fields)

    def bindings_for(self, results: Iterable[int]) -> list[Any]:
        """Returns the bindings that the results at some positions depend on, in order."""
        return needed_bindings(self.func.params, bindings_of(self.func.body), [self.results[i] for i in results])

    def needed(self, results: list[int]) -> set[int]:
        """Returns the positions of the function's parameters that some of its results depend on.

        A function reads the size of a symbolic dim from a parameter that has this dim in its type. So each dim that the
        results depend on needs such a parameter, too.

        Args:
          results: the positions of the results.
        """
        bindings = self.bindings_for(results)
        values = [binding.value for binding in bindings]
        needed_results = [self.results[i] for i in results]
        used = {var for value in [*values, *needed_results] for var in relax.analysis.free_vars(value)}
        params = list(self.func.params)
        positions = {i for i, param in enumerate(params) if param in used}
        types = [binding.var.ty for binding in bindings] + [result.ty for result in needed_results]
        unbound_dims = _dims([*types, *values]) - _bound_dims(params[i] for i in positions)
        for dim in unbound_dims:
            first_with_dim = next((i for i, param in enumerate(params) if dim in _bound_dims([param])), None)
            if first_with_dim is not None:
                positions.add(first_with_dim)
        return positions

    def restricted(self, params: list[int], results: list[int]) -> relax.Function:
        """Returns a copy of the function with only some of its parameters and results.

        The copy has new variables: a variable may be bound in only one function of a module, and the original function
        stays in the module until dead code is removed.

        Args:
          params: the positions of the parameters.
          results: the positions of the results.
        """
        out = Bindings()
        out.bindings = self.bindings_for(results)
        fields = [self.results[index] for index in results]
        var = out.emit(relax.Tuple(fields), "outputs")
        body = out.typed(relax.SeqExpr([relax.BindingBlock(out.bindings)], var), var.ty)
        func = self.func
        remaining_params = [func.params[i] for i in params]
        restricted = relax.Function(remaining_params, body, var.ty, func.is_pure, func.attrs, func.span)
        return relax.utils.copy_with_new_vars(restricted)


def _dims(roots: Iterable[Any]) -> set[Any]:
    """Returns the symbolic dims in types and expressions."""
    symbols: list[Any] = []
    for root in roots:
        structural_walk(root, (tirx.Var, symbols.append))
    return {symbol for symbol in symbols if isinstance(symbol.ty, ir.PrimType)}


def _bound_dims(params: Iterable[Any]) -> set[Any]:
    """Returns the symbolic dims that tensor parameters have."""
    return {dim for param in params for dim in param.ty.shape.values if isinstance(dim, tirx.Var)}


class TrimmedLoop:
    """A loop reduced to the operands and carried values that are needed, which are given by their positions."""

    def __init__(self, mod: Mapping[Any, relax.Function], call: relax.Call, used_results: set[int] | None) -> None:
        """Finds which operands and carried values a while loop needs.

        Args:
          mod: the module with the loop's condition and body.
          call: the call of the loop.
          used_results: the positions of the loop's results that are read, or None for all.
        """
        self.bound = dialect.read(call)
        self.span = call.span
        self.result_types = list(call.ty.fields)
        attrs = self.bound.attrs
        self.count = int(attrs["carried"])
        self.old_condition = _LoopFunction(mod[attrs["condition"]])
        self.old_body = _LoopFunction(mod[attrs["body"]])
        needed_results = set(range(self.count)) if used_results is None else set(used_results)
        self.params = self._needed(needed_results)
        self.carried = [i for i in self.params if i < self.count]

    def _needed(self, used_results: set[int]) -> list[int]:
        """Returns the sorted positions of the operands that the while loop's condition and used results depend on.

        The body computes a needed value from carried values of the previous iteration, so these are needed, too. The
        search ends when no value is added (a fixed point).
        """
        needed = used_results | self.old_condition.needed([0])  # the condition has one result
        while True:
            needed_carried = sorted(i for i in needed if i < self.count)
            extended = needed | self.old_body.needed(needed_carried)
            if extended == needed:
                return sorted(needed)
            needed = extended

    def operands(self) -> list[Any]:
        """Returns the operands that are needed."""
        return [self.bound.inputs[i] for i in self.params]

    def is_smaller(self) -> bool:
        """Returns whether the loop can do with fewer operands, and still has a carried value."""
        return bool(self.carried) and len(self.params) < len(self.bound.inputs)

    def condition(self) -> relax.Function:
        """Returns the condition as a function of the needed operands."""
        return self.old_condition.restricted(self.params, [0])

    def body(self) -> relax.Function:
        """Returns the body as a function of the needed operands, which returns the needed carried values."""
        return self.old_body.restricted(self.params, self.carried)

    def call(self, condition: ir.GlobalVar, body: ir.GlobalVar) -> relax.Call:
        """Returns the call of the loop on the needed operands, with a reduced condition and body."""
        shapes = tuple(self.bound.attrs["shapes"][i] for i in self.carried) if self.bound.attrs.get("shapes") else ()
        changes = {"condition": condition, "body": body, "carried": len(self.carried), "shapes": shapes}
        result_type = relax.TupleType([self.result_types[i] for i in self.carried])
        return dialect.write(self.bound.primitive, self.operands(), self.bound.attrs | changes, result_type, self.span)
