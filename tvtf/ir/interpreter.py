"""The executable definition of the dialect: binds every call of a Relax function again, on other tensors.

On eager tensors this runs the function with NumPy; on symbolic ones it re-emits (inlines) it into the active trace; under a
tape it is what differentiates; over batched tensors it maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax, tirx

from tvtf.core.primitive import Primitive, as_tuple, table
from tvtf.core.shape import fresh_dim, same_shape, substitute_dim
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.ir import dialect
from tvtf.ir.trace import Graph, Trace, tracing


def evaluate(
    mod: tvm.IRModule, name: str, args: Sequence[Tensor], kind: type[Evaluation] | None = None
) -> tuple[Tensor, ...]:
    """The outputs of function ``name`` of a dialect module at ``args``; ``kind`` changes what a binding does."""
    return (kind or Evaluation)(mod, mod[name], args).run()


class Evaluation:
    """One walk over a function; subclasses override :meth:`bind` to rewrite."""

    def __init__(self, mod: tvm.IRModule, function: relax.Function, args: Sequence[Tensor]) -> None:
        self.mod = mod
        self.function = function
        self.values: dict[relax.Var, Any] = dict(zip(function.params, args))
        self.dims = bound_dims(function.params, [a._type.shape for a in args])
        self.computed: set[tirx.Var] = set()

    def run(self) -> tuple[Tensor, ...]:
        trace = state.trace
        outer = None if trace is None else trace.span
        try:
            self._run_bindings(trace)
        finally:
            if trace is not None:
                trace.span = outer
        result = self.value(self.function.body.body)
        return result if isinstance(result, tuple) else (result,)

    def _run_bindings(self, trace: Any) -> None:
        for block in self.function.body.blocks:
            for binding in block.bindings:
                if trace is not None and binding.value.span is not None:
                    trace.span = binding.value.span
                self.values[binding.var] = self.bound(binding)
                if self.computed:
                    self.learn(binding.var)

    def bound(self, binding: Any) -> Any:
        """What a variable of the function is here."""
        return self.value(binding.value)

    def learn(self, var: relax.Var) -> None:
        """What a dim that the program computes is here, from the tensors that have it."""
        types = var.ty.fields if isinstance(var.ty, relax.TupleType) else [var.ty]
        for ty, value in zip(types, as_tuple(self.values[var])):
            for symbol, dim in () if ty.shape is None else zip(ty.shape.values, value._type.shape):
                if symbol in self.computed:
                    self.dims[symbol] = dim

    def value(self, expr: Any) -> Any:
        if isinstance(expr, relax.Var):
            return self.values[expr]
        if isinstance(expr, ir.Constant):
            return self.constant(EagerTensor(np.array(expr.value.numpy())))
        if isinstance(expr, relax.Tuple):
            return tuple(map(self.value, expr.fields))
        if isinstance(expr, relax.TupleGetItem):
            return self.value(expr.tuple_value)[expr.index]
        return self.call(expr)

    def constant(self, tensor: EagerTensor) -> Tensor:
        """A constant stays one in the trace, whatever its size."""
        return tensor if state.trace is None else state.trace.embed(tensor)

    def call(self, expr: Any) -> Any:
        if not dialect.is_dialect(expr):
            raise TypeError(f"not an op of the tvtf dialect: {expr}; import the module into the dialect first")
        bound = dialect.read(expr)
        attrs = {k: self.attribute(v) for k, v in bound.attrs.items()}
        return self.bind(bound.primitive, [self.value(x) for x in bound.inputs], attrs)

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        return prim.bind(*inputs, **attrs)

    def attribute(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.attribute, value))
        if isinstance(value, ir.GlobalVar):
            return Subfunction(self.mod, value.name_hint, type(self))
        if isinstance(value, tirx.Var) and value not in self.dims:
            self.dims[value] = fresh_dim(value.name)
            self.computed.add(value)
        if isinstance(value, ir.Expr):
            return substitute_dim(value, self.dims)
        return value


class Instance(Evaluation):
    """A function at the ranks of its arguments, whose dims it left open where it was traced for any rank."""

    def bound(self, binding: Any) -> Any:
        found = super().bound(binding)
        declared = binding.var.ty
        types = declared.fields if isinstance(declared, relax.TupleType) else [declared]
        for each, value in zip(types, as_tuple(found)):
            if isinstance(each, relax.TensorType) and each.shape is not None:
                self._meet(each.shape.values, value._type.shape)
        return found

    def _meet(self, declared: Sequence[Any], found: Sequence[Any]) -> None:
        for symbol, dim in zip(declared, found, strict=True):
            if isinstance(symbol, tirx.Var):
                self.dims.setdefault(symbol, dim)


class Met(Evaluation):
    """A function whose dims that meet turned out to be the same: nothing is repeated for others."""

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        if prim.name in ("broadcast_to", "sum_to") and same_shape(inputs[0]._type.shape, attrs["shape"]):
            return inputs[0]
        return super().bind(prim, inputs, attrs)


class Subfunction:
    """A function of a module as an attribute of a control-flow primitive: callable on tensors."""

    def __init__(self, mod: tvm.IRModule, name: str, kind: type[Evaluation] = Evaluation) -> None:
        self.mod = mod
        self.name = name
        self.kind = kind

    def __call__(self, *args: Tensor) -> tuple[Tensor, ...]:
        return evaluate(self.mod, self.name, args, self.kind)


def reemit(mod: tvm.IRModule, kind: type[Evaluation]) -> tvm.IRModule:
    """The module with ``main`` emitted anew through ``kind``; attributes, parameters and the form of its result stay."""
    main = mod["main"]
    with tracing(Trace("main")) as trace:
        state.tapes, trace.tapes_around = [], []  # no ops of the user's: nobody is told of them
        params = [trace.add_param(dialect.from_relax_type(p.ty), p.name) for p in main.params]
        outputs = _own_memory(trace, evaluate(mod, "main", params, kind), _donated(main))
    graph = trace.finish(outputs)
    bare = not isinstance(main.body.body.ty, relax.TupleType)
    return graph.with_attributes(main.attrs, bare)


CONTROL = ("cond", "while", "effect_cond", "effect_while")
SHARING = ("apart", *CONTROL)
"""Primitives whose results may be what they were given, in the same memory."""


def _donated(main: relax.Function) -> set[int]:
    """The positions of the results that are new values of Variables."""
    return {int(output) for output, _ in (main.attrs or {}).get("tvtf.donate", ())}


def _own_memory(trace: Trace, outputs: Sequence[Any], donated: set[int]) -> list[Any]:
    """Results, copied where they could share memory with a parameter or with a Variable's new value.

    A Variable's memory may be overwritten by the next call.
    """
    values = {b.var: b.value for b in trace.bindings}
    kept = {_viewed(values, outputs[i]._var) for i in donated}
    return [
        table["identity"].bind(t)
        if _may_alias(values, t._var) or (i not in donated and _viewed(values, t._var) in kept)
        else t
        for i, t in enumerate(outputs)
    ]


VIEWS = ("reshape",)
"""Primitives whose result is what they were given, in the same memory."""


def _viewed(values: dict[Any, Any], var: Any) -> Any:
    """The value whose memory ``var`` shows."""
    made: Any = values.get(var)
    while dialect.is_dialect(made) and made.op.name.removeprefix("tvtf.") in VIEWS:
        var = made.args[0]
        made = values.get(var)
    return var


def _may_alias(values: dict[Any, Any], var: Any) -> bool:
    made = values.get(var)
    if isinstance(made, relax.TupleGetItem):
        made = values.get(made.tuple_value)
    return made is None or (dialect.is_dialect(made) and made.op.name.removeprefix("tvtf.") in SHARING)


def bound_dims(params: Sequence[relax.Var], shapes: Sequence[tuple[Any, ...]]) -> dict[tirx.Var, Any]:
    """What each symbolic dim of the parameters is in the given shapes."""
    found: dict[tirx.Var, Any] = {}
    for param, shape in zip(params, shapes):
        if param.ty.shape is None:
            continue
        for symbol, dim in zip(param.ty.shape.values, shape):
            if isinstance(symbol, tirx.Var):
                found.setdefault(symbol, dim)
    return found


def _copied(graph: Graph, trace: Trace) -> Graph:
    """Re-emits a graph of another trace under ``trace``; its captures are none by then (they were lifted to inputs)."""
    with tracing(Trace(graph.name, trace)) as inner:
        params = [inner.add_param(p._type, p._var.name) for p in graph.all_params]
        outputs = evaluate(graph.module(), "main", params)
    return inner.finish(outputs)


Trace.copy_graph = staticmethod(_copied)
