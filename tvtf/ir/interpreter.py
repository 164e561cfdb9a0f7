"""The interpreter of the dialect: evaluates a Relax function by binding each of its calls again, on other tensors.

On eager tensors it runs the function with NumPy. On symbolic ones it inlines the function into the active trace. Under a
tape it records the calls for differentiation; on batched tensors it vectorizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax, tirx

from tvtf.core.primitive import Primitive, as_tuple, table
from tvtf.core.shape import fresh_dim, substitute_dim
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.ir import dialect
from tvtf.ir.dialect import bindings_of
from tvtf.ir.graph import Graph
from tvtf.ir.trace import Trace, tracing

Kind = Callable[[tvm.IRModule, relax.Function, Sequence[Tensor]], "Evaluation"]
"""What makes the evaluation of a function: a subclass of Evaluation, perhaps with arguments of its own bound."""


def evaluate(mod: tvm.IRModule, name: str, args: Sequence[Tensor], kind: Kind | None = None) -> tuple[Tensor, ...]:
    """Evaluates the function ``name`` of a dialect module at ``args`` and returns the results.

    ``kind`` creates the Evaluation. A subclass of Evaluation may rewrite the function's calls.
    """
    return (kind or Evaluation)(mod, mod[name], args).run()


class Evaluation:
    """One evaluation of a function, binding by binding; subclasses override :meth:`bind` to rewrite."""

    def __init__(self, mod: tvm.IRModule, function: relax.Function, args: Sequence[Tensor]) -> None:
        self.mod = mod
        self.function = function
        self.kind: Kind = type(self)
        self.values: dict[relax.Var, Any] = dict(zip(function.params, args))
        self.dims = bound_dims(function.params, [arg._type.shape for arg in args])
        self.computed: set[tirx.Var] = set()  # symbolic dims that the function computes

    def run(self) -> tuple[Tensor, ...]:
        """Evaluates the function's bindings and returns its results.

        The active trace's span, the user's line that new bindings get, is restored at the end.
        """
        trace = state.trace
        outer_span = None if trace is None else trace.span
        try:
            self._run_bindings(trace)
        finally:
            if trace is not None:
                trace.span = outer_span
        result = self.value(self.function.body.body)
        return result if isinstance(result, tuple) else (result,)

    def _run_bindings(self, trace: Any) -> None:
        """Evaluates the function's bindings in order.

        Calls that ``trace`` binds meanwhile get the span of the original binding, the user's line. So errors and times are
        reported for this line, also if a rewrite replaces the original call by others.
        """
        for binding in bindings_of(self.function.body):
            if trace is not None and binding.value.span is not None:
                trace.span = binding.value.span
            self.values[binding.var] = self.bound(binding)
            if self.computed:
                self.record_dims(binding.var)

    def bound(self, binding: Any) -> Any:
        """Evaluates the expression of a binding. Subclasses override this method to see the binding's variable."""
        return self.value(binding.value)

    def record_dims(self, var: relax.Var) -> None:
        """Sets symbolic dims that the program computes to the dims of the value that ``var`` is bound to.

        For example, a variable of the type ``f32[n]`` with a value of shape ``(m,)`` sets ``n`` to ``m``.
        """
        types = var.ty.fields if isinstance(var.ty, relax.TupleType) else [var.ty]
        for ty, value in zip(types, as_tuple(self.values[var])):
            if ty.shape is None:  # of unknown rank: no dims are declared
                continue
            for symbol, dim in zip(ty.shape.values, value._type.shape):
                if symbol in self.computed:
                    self.dims[symbol] = dim

    def value(self, expr: Any) -> Any:
        """Evaluates a Relax expression on the values of its variables, and returns a tensor, or a tuple of tensors."""
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
        """Embeds a constant of the evaluated function in the active trace. Returns it unchanged outside of traces.

        The constant's size doesn't matter here, as the IR contains the constant already.
        """
        return tensor if state.trace is None else state.trace.embed(tensor)

    def call(self, expr: Any) -> Any:
        """Evaluates a call of a primitive: copies the call to the active trace if possible, else binds the primitive again.

        Raises:
          TypeError: the call is one of TVM's own operators or of a kernel, as in a lowered module.
        """
        if not dialect.is_dialect(expr):
            raise TypeError(f"not an op of the tvtf dialect: {expr}; import the module into the dialect first")
        copied = self._copy_call(expr)
        if copied is not None:
            return copied
        decoded = dialect.read(expr)
        attrs = {name: self.attribute(value) for name, value in decoded.attrs.items()}
        return self.bind(decoded.primitive, [self.value(x) for x in decoded.inputs], attrs)

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Applies a primitive to evaluated inputs. Subclasses override this method to replace calls."""
        return prim.bind(*inputs, **attrs)

    def may_copy(self, prim: Primitive[Any]) -> bool:
        """Returns whether calls of a primitive may be copied without :meth:`bind`, since :meth:`bind` replaces none of them."""
        return False

    def _copy_call(self, call: relax.Call) -> Any:
        """Copies a call to the active trace if the operands have the same static types there, and returns the result.

        Returns None if the primitive has to be bound again. A copy takes a fifth of that time: no attribute is decoded or
        encoded, and no type is inferred.
        """
        prim = dialect.primitive_of(call)
        trace = state.trace
        if trace is None or state.tapes or not self.may_copy(prim):
            return None
        args = call.args[:]
        result_types = dialect.static_types(call.ty)
        if result_types is None or not all(isinstance(x, ir.Constant) or _is_static(x) for x in args):
            return None
        if prim.value is not None and not result_types.dtype.is_floating:
            return None  # tracing may infer the elements of an integer result; a copy would lose them
        new_args = []
        for arg in args:
            new_arg = self._operand_in_trace(arg, trace) if isinstance(arg, relax.Var) else arg
            if new_arg is None:
                return None
            new_args.append(new_arg)
        return trace.copy_call(call, prim, new_args, result_types)

    def _operand_in_trace(self, var: relax.Var, trace: Any) -> relax.Var | None:
        """Returns the active trace's Relax variable for a variable of the function.

        Returns None if the variable's value has another type there, or isn't a symbolic tensor of this trace: a copied
        call can refer to no other value.
        """
        operand = self.value(var)
        if type(operand) is not SymbolicTensor or not trace.owns(operand):
            return None
        return operand._var if operand._var.ty.same_as(var.ty) else None

    def attribute(self, value: Any) -> Any:
        """Evaluates a primitive's attribute.

        A function becomes a callable. Symbolic dims are replaced by the dims of this evaluation's arguments.
        """
        if isinstance(value, tuple):
            return tuple(map(self.attribute, value))
        if isinstance(value, ir.GlobalVar):
            return Subfunction(self.mod, value.name_hint, self.kind)
        # A symbol that no earlier type has is a dim that the program computes. A new symbol stands for it until a value
        # with this dim is known.
        if isinstance(value, tirx.Var) and value not in self.dims:
            self.dims[value] = fresh_dim(value.name)
            self.computed.add(value)
        if isinstance(value, ir.Expr):
            return substitute_dim(value, self.dims)
        return value


def _is_static(x: Any) -> bool:
    """Returns whether an expression is a variable whose dims are all constants."""
    return isinstance(x, relax.Var) and dialect.static_type(x.ty) is not None


class Instance(Evaluation):
    """An evaluation that uses the ranks of its arguments for a function that was traced for any rank."""

    def bound(self, binding: Any) -> Any:
        """Evaluates a binding, and sets the symbolic dims in its declared type to the dims of the actual results."""
        # Dims of these types are not bound by arguments: the rank, and so the dims, of an argument were unknown.
        result = super().bound(binding)
        declared = binding.var.ty
        types = declared.fields if isinstance(declared, relax.TupleType) else [declared]
        for ty, value in zip(types, as_tuple(result)):
            if isinstance(ty, relax.TensorType) and ty.shape is not None:
                self._set_dims(ty.shape.values, value._type.shape)
        return result

    def _set_dims(self, declared: Sequence[Any], actual: Sequence[Any]) -> None:
        """Sets the symbols in a declared shape to the dims of the actual shape. Symbols that have a dim keep it."""
        for symbol, dim in zip(declared, actual, strict=True):
            if isinstance(symbol, tirx.Var):
                self.dims.setdefault(symbol, dim)


class Subfunction:
    """A function of a module as an attribute of a control-flow primitive, callable on tensors."""

    def __init__(self, mod: tvm.IRModule, name: str, kind: Kind = Evaluation) -> None:
        self.mod = mod
        self.name = name
        self.kind = kind

    def __call__(self, *args: Tensor) -> tuple[Tensor, ...]:
        return evaluate(self.mod, self.name, args, self.kind)


def reemit(mod: tvm.IRModule, kind: Kind) -> tvm.IRModule:
    """Rewrites a module of the dialect by evaluating its ``main`` in a new trace, and returns the new module.

    ``kind`` creates the Evaluation, which replaces calls. The attributes of ``main`` are copied. The new ``main`` returns a
    tuple if the old ``main`` does.
    """
    main = mod["main"]
    with tracing(Trace("main")) as trace:
        trace.is_in_branch = True  # the first trace has made all assumptions about sizes
        state.tapes, trace.tapes_around = [], []  # the ops are the compiler's, not the user's: no tape may record them
        params = [trace.add_param(dialect.from_relax_type(param.ty), param.name) for param in main.params]
        evaluated = evaluate(mod, "main", params, kind)
        outputs = _without_aliases(trace, evaluated, _donated_outputs(main))
    graph = trace.finish(outputs)
    has_single_result = not isinstance(main.body.body.ty, relax.TupleType)
    return graph.with_attributes(main.attrs, has_single_result)


CONTROL = ("cond", "while", "effect_cond", "effect_while")
MAY_ALIAS = ("apart", *CONTROL)
"""Primitives whose results may alias an input."""


def _donated_outputs(main: relax.Function) -> set[int]:
    """Returns the indices of the results of ``main`` that are new values of Variables, from its attribute."""
    return {int(output) for output, _ in (main.attrs or {}).get("tvtf.donate", ())}


def _without_aliases(trace: Trace, outputs: Sequence[Any], donated: set[int]) -> list[Any]:
    """Returns the outputs, with a copy of each output that may share memory with a parameter or a Variable's new value.

    The next call of the function may overwrite that memory. ``donated`` are the indices of the outputs that are new values
    of Variables.
    """
    values = {binding.var: binding.value for binding in trace.bindings}
    variable_values = {_viewed_variable(values, outputs[i]._var) for i in donated}
    results = []
    for i, output in enumerate(outputs):
        may_alias = _may_alias_parameter(values, output._var)
        # A Variable's new value needs no copy; other outputs in the same memory do.
        if i not in donated and _viewed_variable(values, output._var) in variable_values:
            may_alias = True
        results.append(table["identity"].bind(output) if may_alias else output)
    return results


VIEWS = ("reshape",)
"""Primitives whose result always aliases their input."""


def _viewed_variable(values: dict[Any, Any], var: Any) -> Any:
    """Returns the variable whose memory ``var`` is a view of: follows reshapes back to the first operand.

    ``values`` maps each bound variable to the expression that it is bound to.
    """
    value: Any = values.get(var)
    while dialect.is_dialect(value) and value.op.name.removeprefix("tvtf.") in VIEWS:
        var = value.args[0]
        value = values.get(var)
    return var


def _may_alias_parameter(values: dict[Any, Any], var: Any) -> bool:
    """Returns whether a variable is a parameter, or the result of a primitive that may return its input.

    ``values`` maps each bound variable to the expression that it is bound to.
    """
    value = values.get(var)
    if isinstance(value, relax.TupleGetItem):  # an item of a loop's results, for example: look at the loop
        value = values.get(value.tuple_value)
    return value is None or (dialect.is_dialect(value) and value.op.name.removeprefix("tvtf.") in MAY_ALIAS)


def bound_dims(params: Sequence[relax.Var], shapes: Sequence[tuple[Any, ...]]) -> dict[tirx.Var, Any]:
    """Returns the actual dim of each symbolic dim in the parameters' types, given the arguments' shapes.

    For example, a parameter of the type ``f32[n,3]`` and the shape ``(2, 3)`` give ``{n: 2}``.
    """
    dims: dict[tirx.Var, Any] = {}
    for param, shape in zip(params, shapes):
        if param.ty.shape is None:  # the parameter's rank is unknown
            continue
        for symbol, dim in zip(param.ty.shape.values, shape):
            if isinstance(symbol, tirx.Var):
                dims.setdefault(symbol, dim)
    return dims


def _copied_graph(graph: Graph, trace: Trace) -> Graph:
    """Emits a graph of another trace again in a new trace inside ``trace``, and returns the new graph.

    The captures of the old graph become parameters of the new graph.
    """
    with tracing(Trace(graph.name, trace)) as inner:
        params = [inner.add_param(param._type, param._var.name) for param in graph.all_params]
        outputs = evaluate(graph.module(), "main", params)
    return inner.finish(outputs)


Trace.copy_graph = staticmethod(_copied_graph)
