"""What a loop would compute anew in each turn from the same values is computed before it: products, sums, turned matrices.

Elementwise ops stay where they are read, in the kernel of what reads them; so does what may be refused or has an extent that
only the call tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tvm
from tvm import ir, relax, tirx

from tvtf import dialect
from tvtf.context import state
from tvtf.emit import trace_graph
from tvtf.interpret import Evaluation, Subfunction, reemit
from tvtf.passes.dead import drop_dead
from tvtf.passes.uses import Graph, Use
from tvtf.primitive import Primitive, as_tuple, table

LOOPS = ("while", "effect_while")
PRODUCTS = ("matmul", "contract", "conv", "conv_input_grad", "conv_filter_grad")
REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "argmax", "argmin", "cumsum", "cumprod")
SORTS = ("sort", "argsort")
HEAVY = (*PRODUCTS, *REDUCTIONS, *SORTS)
VIEWS = ("strided_slice", "transpose", "concat", "cast", "split")
"""What prepares an operand of a product: kernels of their own, where the product can't read through them."""
FEWEST_ROWS = 8
"""A product of fewer rows reads a matrix as quickly turned as not."""
ROUNDS = 4
"""What leaves a loop within a loop may leave the outer one next."""


def hoist_invariants(mod: tvm.IRModule) -> tvm.IRModule:
    """The module whose loops are given what does not change in them."""
    for _ in range(ROUNDS):
        if not any(_invariants(mod[body], carried).is_something() for body, carried in _bodies(mod)):
            break
        mod = drop_dead(reemit(mod, _Hoisted))
    return mod


class Invariants(NamedTuple):
    """Of a loop's body: the bindings to compute before it, in order, and the matrices to turn before it."""

    bindings: list[Any]
    turned: list[Any]

    def is_something(self) -> bool:
        return bool(self.bindings or self.turned)


class _Hoisted(Evaluation):
    """Binds each loop with what its body needs computed before it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.turned: dict[relax.Var, Any] = {}

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        if prim.name in LOOPS and isinstance(attrs["body"], Subfunction):
            inputs, attrs = self.with_invariants(prim, inputs, attrs)
        return super().bind(prim, inputs, attrs)

    def with_invariants(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], Any]:
        function = self.mod[attrs["body"].name]
        found = _invariants(function, attrs["carried"])
        if not found.is_something():
            return inputs, attrs
        made = _Hoisted(self.mod, function, inputs).computed_before(found)
        count, condition = len(inputs), attrs["condition"]
        inputs = [*inputs, *made]

        def turn(*args: Any) -> Any:
            return _Hoisted(self.mod, function, args[:count]).given(found, args[count:]).run()

        parts = {"condition": lambda *args: condition(*args[:count]), "body": turn}
        graphs = {name: _graph(prim, attrs[name].name, part, inputs, attrs) for name, part in parts.items()}
        return inputs, attrs | graphs

    def computed_before(self, found: Invariants) -> list[Any]:
        made: list[Any] = []
        for binding in found.bindings:
            self.values[binding.var] = self.bound(binding)
            made += as_tuple(self.values[binding.var])
        return made + [table["transpose"].bind(self.value(x), perm=(1, 0)) for x in found.turned]

    def given(self, found: Invariants, values: Sequence[Any]) -> _Hoisted:
        """Takes what :meth:`computed_before` made."""
        left = iter(values)
        for binding in found.bindings:
            self.values[binding.var] = _as_bound(binding.var.ty, left)
        self.turned = dict(zip(found.turned, left))
        return self

    def bound(self, binding: Any) -> Any:
        if binding.var in self.values:
            return self.values[binding.var]
        if self.turned and dialect.is_dialect(binding.value):
            use = _use(binding)
            if use.name == "matmul" and use.attrs["transpose_b"] and use.inputs[1] in self.turned:
                left, turned = self.value(use.inputs[0]), self.turned[use.inputs[1]]
                return table["matmul"].bind(left, turned, **use.attrs | {"transpose_b": False})
        return super().bound(binding)


def _graph(prim: Primitive[Any], name: str, part: Callable[..., Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
    types = prim.operands(name, [x._type for x in inputs], attrs) if prim.operands else []
    return trace_graph(name, part, types, state.trace)


def _as_bound(ty: Any, left: Any) -> Any:
    return tuple(next(left) for _ in ty.fields) if isinstance(ty, relax.TupleType) else next(left)


def _bodies(mod: tvm.IRModule) -> list[tuple[ir.GlobalVar, int]]:
    """The bodies of all loops, each with how many values it carries."""
    values = [b.value for f in mod.functions.values() for b in _bindings(f)]
    loops = [dialect.read(v) for v in values if dialect.is_dialect(v) and v.op.name.removeprefix("tvtf.") in LOOPS]
    return [(loop.attrs["body"], int(loop.attrs["carried"])) for loop in loops]


def _bindings(function: Any) -> list[Any]:
    is_relax = isinstance(function, relax.Function)
    return [binding for block in function.body.blocks for binding in block.bindings] if is_relax else []


def _use(binding: Any) -> Use:
    bound = dialect.read(binding.value)
    return Use(binding.var, bound.primitive.name, bound.inputs, bound.attrs)


def _invariants(function: relax.Function, carried: int) -> Invariants:
    graph, fixed = Graph(function), {p for p in function.params[carried:] if _is_static(p.ty)}
    movable: dict[Any, Any] = {}
    for binding in _bindings(function):
        if _can_move(binding, fixed):
            fixed.add(binding.var)
            movable[binding.var] = binding
    wanted = [var for var in movable if _is_worth_it(graph, var, movable)]
    turned = [
        use.inputs[1]
        for use in graph.made.values()
        if use.var not in fixed and use.inputs[1:] and use.inputs[1] in fixed and _is_turned(use)
    ]
    needed = _with_makers([*wanted, *turned], movable)
    return Invariants([b for var, b in movable.items() if var in needed], list(dict.fromkeys(turned)))


def _can_move(binding: Any, fixed: set[Any]) -> bool:
    """Whether a binding makes the same tensors each time, and nothing else: no error, no effect."""
    value = binding.value
    if isinstance(value, relax.TupleGetItem):
        return value.tuple_value in fixed
    if not dialect.is_dialect(value) or not _is_static(binding.var.ty):
        return False
    bound = dialect.read(value)
    if not bound.inputs or bound.primitive.host or not bound.primitive.pure or bound.primitive.name in (*LOOPS, "cond"):
        return False
    is_refused_never = bound.primitive.guard is None or bound.primitive.name in (*HEAVY, "split")
    is_refused_never |= bound.attrs.get("checked") == ()
    return is_refused_never and all(isinstance(x, ir.Constant) or x in fixed for x in bound.inputs)


def _is_worth_it(graph: Graph, var: relax.Var, movable: dict[Any, Any]) -> bool:
    use = graph.made.get(var)
    if use is None:
        return False
    if use.name in HEAVY:
        return True
    readers = graph.uses.get(var, [])
    return use.name in VIEWS and any(r is not None and r.name in PRODUCTS and r.var not in movable for r in readers)


def _is_turned(product: Use) -> bool:
    """Whether a product reads a matrix turned that it would read as it lies."""
    if product.name != "matmul" or not product.attrs["transpose_b"]:
        return False
    left, right = (x.ty for x in product.inputs)
    rows = left.shape.values[-1 if product.attrs["transpose_a"] else -2] if left.shape is not None else None
    return right.ndim == 2 and isinstance(rows, tirx.IntImm) and int(rows) >= FEWEST_ROWS


def _with_makers(wanted: list[Any], movable: dict[Any, Any]) -> set[Any]:
    needed: set[Any] = set()
    while wanted:
        var = wanted.pop()
        if var in movable and var not in needed:
            needed.add(var)
            wanted += list(relax.analysis.free_vars(movable[var].value))
    return needed


def _is_static(ty: Any) -> bool:
    if isinstance(ty, relax.TupleType):
        return all(map(_is_static, ty.fields))
    return ty.shape is not None and all(isinstance(d, tirx.IntImm) for d in ty.shape.values)
