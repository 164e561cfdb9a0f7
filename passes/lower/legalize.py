"""Lowers the ``tvtf`` dialect to kernels: each call becomes ``call_tir`` of the primitive's ``lower`` column.

Calls with the same primitive, attributes and types share one kernel. Spans are preserved. Control flow becomes Relax's
own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import tvm
from tvm import ir, relax, te, tirx
from tvm.relax.utils import gen_call_tir_inputs

from tvtf.core.tvm_visitor import structural_map
from tvtf.core.variable_lock import cached_property
from tvtf.dtypes import DType
from tvtf.errors import UnimplementedError
from tvtf.ir import dialect
from tvtf.ops.host import CALL_SYMBOL, GRADIENT_SYMBOL, KERNEL_SYMBOL, RECORD_SYMBOL, runs_on_host, written
from tvtf.ops.rules import kernel as te_kernel
from tvtf.ops.rules import scalar
from tvtf.passes.analysis.loop_op import IMPURE_LOOP, PURE_LOOP, loop_parts
from tvtf.passes.analysis.rewriter import Bindings, rewrite_functions
from tvtf.passes.analysis.side_effects import copy_kernel, raising_kernel, void_call
from tvtf.passes.lower.inplace_stack import InPlace, rows_kernel, slice_kernel


def legalize(mod: tvm.IRModule) -> tvm.IRModule:
    """Lowers every dialect call.

    Raises:
      UnimplementedError: a primitive has no native kernel; the text gives the reason from its ``why_not``.
    """
    return _Legalizer(_joined(mod)).run()


def _joined(mod: tvm.IRModule) -> tvm.IRModule:
    """Removes ``apart`` calls: they kept equal values from being merged, and no later pass merges values."""
    joined = mod.clone()
    for name, func in mod.functions_items():
        same: dict[Any, Any] = {}
        out = Bindings()
        for binding in (b for block in func.body.blocks for b in block.bindings):
            value = _replaced(binding.value, same)
            if dialect.is_dialect(value) and value.op.name == "tvtf.apart":
                same[binding.var] = value.args[0]
            else:
                out.again(binding, value)
        if same:
            joined.update_func(name, out.function(func, _replaced(func.body.body, same)))
    return joined


def _replaced(value: Any, by: dict[Any, Any]) -> Any:
    return structural_map(value, (ir.Var, lambda var: by.get(var, var))) if by else value


class _Legalizer:
    """One run over a module, with the kernels made so far."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.kernels: dict[ir.GlobalVar, tirx.PrimFunc] = {}
        self.known: dict[Any, ir.GlobalVar] = {}
        self.used_names = {gv.name_hint for gv in mod.get_global_vars()}
        self.in_place = InPlace(mod)
        self.recorded = recorded_calls(mod)

    @cached_property
    def new_dims(self) -> dict[relax.Call, set[tirx.Var]]:
        return dims_bound_by(self.mod)

    def run(self) -> tvm.IRModule:
        lowered = rewrite_functions(self.mod, self.binding)
        for var, kernel in self.kernels.items():
            lowered[var] = kernel
        return with_bare_loop_parts(lowered)

    def binding(self, out: Bindings, binding: relax.VarBinding) -> None:
        call = binding.value
        if not dialect.is_dialect(call):
            out.bind(binding.var, call)
        else:
            out.bind(binding.var, self.lowered(out, call))

    def lowered(self, out: Bindings, call: relax.Call) -> Any:
        """Lowers a call by its rule in :data:`CONTROL`, on the host, or by its ``lower`` column."""
        bound = dialect.read(call)
        rule = CONTROL.get(bound.primitive.name)
        if rule is not None:
            return rule(self, out, call, bound)
        if runs_on_host(bound.primitive, dialect.dtypes_of(call, bound)):
            return _call_host(self, out, call, bound)
        if bound.primitive.lower is None:
            raise UnimplementedError(
                None,
                bound.primitive.tf_name,
                f"{bound.primitive.name} has no native kernel: "
                f"{bound.primitive.why_not.get('lower', 'its primitive has no `lower` column')}",
            )
        return self.kernel_call(call, bound)

    def kernel_call(self, call: relax.Call, bound: dialect.Bound) -> relax.Call:
        """Returns the call of a kernel for a primitive, reusing the kernel of an equal earlier call."""
        attrs = {k: plain(v) for k, v in bound.attrs.items()}
        key = self.key(bound, attrs, call)
        lower, inputs = bound.primitive.lower, bound.inputs
        # So no op's own kernel has to handle results without elements.
        if is_empty(call.ty):
            lower, inputs, attrs = (lambda: empty_results(call.ty)), [], {}
        if key is not None and key in self.known:
            return call_kernel(self.known[key], inputs, call.ty, call)
        func, args, out_types = gen_call_tir_inputs(lower, *inputs, **attrs)
        kernel = self.add(bound.primitive.name, func)
        if key is not None:
            self.known[key] = kernel
        return call_kernel(kernel, args, out_types, call)

    @staticmethod
    def key(bound: dialect.Bound, attrs: dict[str, Any], call: relax.Call) -> Any:
        """Returns the key under which calls share a kernel; None if dims are expressions or an operand is a shape.

        Dims are replaced by the place where each occurs first, so that calls on other symbols share a kernel.
        """
        types = [(str(x.ty.dtype), x.ty.shape.values[:]) for x in bound.inputs]
        dims = [d for _, shape in types for d in shape]
        if not all(isinstance(d, (tirx.IntImm, tirx.Var)) for d in dims) or isinstance(
            call.args[-1:] and call.args[-1], relax.ShapeExpr
        ):
            return None
        # Backwards, so that the first place of each dim is kept.
        places = {d: place for place, d in reversed([*enumerate(dims)]) if isinstance(d, tirx.Var)}
        shapes = [(dtype, *(f"as {places[d]}" if d in places else int(d) for d in shape)) for dtype, shape in types]
        return bound.primitive.name, repr(sorted(attrs.items())), tuple(shapes)

    def add_impure(self, name: str, func: tirx.PrimFunc) -> ir.GlobalVar:
        """Adds a kernel that is called for its effect.

        It is typed as impure, since Relax would take a kernel without results for pure, and drop the call.
        """
        ty = relax.FuncType(func.ty.params, func.ty.ret, False)
        return self.add(name, func, ty)

    def add(self, name: str, func: tirx.PrimFunc, ty: relax.FuncType | None = None) -> ir.GlobalVar:
        """Adds a kernel under a unique name; returns its variable."""
        unique, count = name, 0
        while unique in self.used_names:
            count += 1
            unique = f"{name}_{count}"
        self.used_names.add(unique)
        var = Bindings.typed(ir.GlobalVar(unique), ty or func.ty)
        self.kernels[var] = func
        return var


def with_bare_loop_parts(mod: tvm.IRModule) -> tvm.IRModule:
    """Brings loop parts into the form that code generation expects.

    Conditions return their boolean instead of a tuple; bodies return a tuple that isn't bound to a variable.
    """
    for name, index in {part.name_hint: i for i, part in enumerate(loop_parts(mod))}.items():
        mod.update_func(mod.get_global_var(name), _unbound_result(mod[name], bare=index % 2 == 0))
    return mod


def _unbound_result(func: relax.Function, bare: bool) -> relax.Function:
    *bindings, last = [b for block in func.body.blocks for b in block.bindings]
    if not (isinstance(last.value, relax.Tuple) and func.body.body.same_as(last.var)):
        return func
    out = Bindings()
    out.bindings = bindings
    return out.function(func, last.value.fields[0] if bare else last.value)


def _tensor_types(ty: ir.Type) -> list[relax.TensorType]:
    return list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]


def is_empty(ty: ir.Type) -> bool:
    """Returns whether all results are known to have no elements."""
    return all(any(isinstance(d, tirx.IntImm) and int(d) == 0 for d in t.shape.values[:]) for t in _tensor_types(ty))


def empty_results(ty: ir.Type) -> list[te.Tensor]:
    """Builds the kernel for results without elements, so that no op's own kernel has to handle them."""
    return [_empty_result(t) for t in _tensor_types(ty)]


def _empty_result(ty: relax.TensorType) -> te.Tensor:
    zero = tirx.const(0, str(ty.dtype))
    return te.compute(ty.shape.values, lambda *_: zero, name="nothing")


def plain(value: Any) -> Any:
    """Converts an attribute to the form that kernels take: dtypes become names."""
    if isinstance(value, DType):
        return value.name
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


_CALL_TIR = ir.Op.get("relax.call_tir")


def call_kernel(kernel: ir.GlobalVar, args: Any, out_types: Any, call: relax.Call) -> relax.Call:
    """Returns the call of a kernel in place of ``call``, with the types of the kernel's results."""
    if isinstance(call.ty, relax.TupleType):
        out_type: Any = call.ty
    else:
        out_type = out_types[0] if isinstance(out_types, list) else out_types
    operands = args if isinstance(args, relax.Tuple) else relax.Tuple(list(args))
    return relax.Call(_CALL_TIR, [kernel, operands], ty_args=[out_type], span=call.span, ret_ty=call.ty)


def _cond(_: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers ``tvtf.cond(pred, *captured)`` to Relax's If with a call of a branch function on each side."""
    predicate, *captured = bound.inputs
    # Sizes that differ between the branches become dims of the results, bound after the If.
    varies = bool(bound.attrs.get("shapes"))
    ty = relax.TupleType([_of_any_size(t) for t in call.ty.fields]) if varies else call.ty
    branches = [_branch(bound.attrs[name], captured, ty, call.span) for name in ("then_branch", "else_branch")]
    choice = out.typed(relax.If(predicate, *branches, span=call.span), ty)
    return _all_matched(out, choice, call.ty) if varies else choice


def _branch(function: ir.GlobalVar, captured: list[Any], ty: Any, span: Any) -> relax.SeqExpr:
    result = relax.Var("branch", ty)
    value = relax.Call(function, captured, span=span, ret_ty=ty)
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(result, value)])], result)
    return Bindings.typed(body, ty)


def _while(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> relax.Call:
    """Lowers a loop to the loop op; stacks that its body overwrites start as copies."""
    overwritten = legalizer.in_place.carried.get(bound.attrs["body"].name_hint, ())
    # The caller may still read the operand.
    inputs = [_copied(legalizer, out, x) if i in overwritten else x for i, x in enumerate(bound.inputs)]
    operands = [bound.attrs["condition"], bound.attrs["body"], *inputs]
    attrs = ir.make_node("ir.DictAttrs", carried=bound.attrs["carried"])
    op = ir.Op.get(PURE_LOOP if bound.primitive.pure else IMPURE_LOOP)
    if not bound.attrs.get("shapes"):
        return relax.Call(op, operands, attrs=attrs, ty_args=[call.ty], span=call.span, ret_ty=call.ty)
    loose = relax.TupleType([_of_any_size(t) for t in call.ty.fields])
    return _all_matched(
        out, relax.Call(op, operands, attrs=attrs, ty_args=[loose], span=call.span, ret_ty=loose), call.ty
    )


def _kernel_value(kernel: ir.GlobalVar, args: Any, ty: Any) -> relax.Call:
    operands = args if isinstance(args, relax.Tuple) else relax.Tuple(list(args))
    return relax.Call(_CALL_TIR, [kernel, operands], ty_args=[ty], ret_ty=ty)


def _copied(legalizer: _Legalizer, out: Bindings, x: Any) -> Any:
    """Copies ``x`` into memory of its own."""
    func, args, _ = gen_call_tir_inputs(lambda t: scalar(lambda _, value: value)(t), x)
    return out.emit(_kernel_value(legalizer.add("copy", func), args, x.ty), "own")


def _stack_sized(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Binds a symbolic dim to the stack's length, then creates the stack."""
    func, args, _ = gen_call_tir_inputs(te_kernel("stack.length"), *bound.inputs)
    length = out.emit(_kernel_value(legalizer.add("length", func), args, relax.TensorType((1,), "int64")), "length")
    _match_dims(out, length, [bound.attrs["size"]])
    dims = (bound.attrs["size"], *bound.attrs["shape"])
    func, args, types = gen_call_tir_inputs(te_kernel("stack.new"), shape=dims, dtype=bound.attrs["dtype"].name)
    return call_kernel(legalizer.add("stack_new", func), args, types, call)


def _computed_dims(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Binds symbolic dims to the elements of a vector, then makes an empty tensor that carries these dims."""
    dims = list(bound.attrs["dims"])
    _match_dims(out, bound.inputs[0], dims)
    return _without_elements(legalizer, dims, call)


def _without_elements(legalizer: _Legalizer, dims: list[Any], call: relax.Call) -> Any:
    func, args, types = gen_call_tir_inputs(te_kernel("stack.new"), shape=(*dims, 0), dtype="bool")
    return call_kernel(legalizer.add("told", func), args, types, call)


def _common_dims(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Works like `_computed_dims`, with the vector computed from the inputs' dims by a kernel."""
    dims = list(bound.attrs["dims"])
    func, args, _ = gen_call_tir_inputs(te_kernel("array.common_dims"), *bound.inputs)
    vector = _kernel_value(legalizer.add("common", func), args, relax.TensorType((len(dims),), "int64"))
    _match_dims(out, out.emit(vector, "common"), dims)
    return _without_elements(legalizer, dims, call)


def _match_dims(out: Bindings, vector: Any, dims: list[Any]) -> None:
    """Binds symbolic dims to the elements of an int64 vector."""
    shape = out.emit(_effect("vm.builtin.tensor_to_shape", [vector], relax.ShapeType(ndim=len(dims))), "shape")
    matched = relax.ShapeType(dims)
    out.bindings.append(relax.MatchCast(relax.Var("size", matched), shape, matched))
    # FuseOps orders a dataflow block by its tensors alone: nothing that uses the dim may share one with the cast.
    out.emit(_effect("vm.builtin.null_value", [], relax.AnyType()), "_")


def _effect(builtin: str, args: list[Any], ty: Any) -> relax.Call:
    """Returns a call of a VM builtin, which also ends a dataflow block."""
    return relax.Call(relax.ExternFunc(builtin), args, ret_ty=ty)


def _stack_change(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers a write to a stack; it happens in place where the loop owns the stack."""
    buffer, index, _ = bound.inputs
    # Something else still reads the buffer.
    if buffer not in legalizer.in_place.owned:
        return legalizer.kernel_call(call, bound)
    name = bound.primitive.name
    func = rows_kernel(buffer.ty, index.ty) if name == "stack_add_rows" else slice_kernel(name, buffer.ty, index.ty)
    kernel = legalizer.add(name, func)
    out.emit(void_call(kernel, bound.inputs, call.span), "_")
    return buffer


def _guard(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers ``tvtf.guard(ok, new, variable, ...)``: if not ``ok``, writes pending values, then a kernel raises."""
    ok, *operands = bound.inputs
    count = bound.attrs.get("shown", 0)
    printed, pending = operands[:count], operands[count:]
    if operands:
        ok = _copied(legalizer, out, ok) if isinstance(ok, ir.Constant) else ok  # FuseOps fails on one in a branch
        failed = _branching(out, ok, lambda inside: _failed(legalizer, inside, [ok, *printed], pending, bound.attrs))
        ok = out.emit(failed, "checked")
    # The message needs the tensors, so that the branch above has raised.
    if printed:
        return ok
    raising = legalizer.add_impure(
        "guard", raising_kernel(bound.attrs.get("kind", "InvalidArgumentError"), bound.attrs["message"])
    )
    out.emit(void_call(raising, [ok], call.span), "_")
    return ok


def _write(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers ``tvtf.write(new, variable)`` to a copying kernel; returns the new value."""
    new, variable = bound.inputs
    out.emit(void_call(legalizer.add("write", copy_kernel(new.ty)), [new, variable], call.span), "_")
    return new


def _call_python(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers a call of a Python function to a packed call by the symbol of its kind."""
    ranks = ir.StringImm(json.dumps([len(shape) for shape in bound.attrs["shapes"]]))
    if bound.attrs["backward"]:
        symbol = GRADIENT_SYMBOL
    else:
        symbol = RECORD_SYMBOL if call in legalizer.recorded else CALL_SYMBOL
    return _on_host(out, call, symbol, [ranks, *bound.inputs], bound.primitive.pure)


def recorded_calls(mod: tvm.IRModule) -> set[relax.Call]:
    """Returns the Python calls that a gradient uses: those whose last result, the number of their record, is read."""
    return {call for f in mod.functions.values() if isinstance(f, relax.Function) for call in _recorded_in(f)}


def _recorded_in(function: relax.Function) -> set[relax.Call]:
    """Returns a function's differentiable Python calls whose record number is used.

    Other calls needn't be recorded for their gradients.
    """
    bindings = [b for block in function.body.blocks for b in block.bindings]
    calls = {b.var: b.value for b in bindings if _differentiable_python(b.value)}
    if not calls:
        return set()
    items = [b for b in bindings if isinstance(b.value, relax.TupleGetItem) and b.value.tuple_value in calls]
    numbers = {
        b.var: calls[b.value.tuple_value] for b in items if b.value.index == len(b.value.tuple_value.ty.fields) - 1
    }
    values = [*(b.value for b in bindings), function.body.body]
    used = {var for value in values for var in relax.analysis.free_vars(value)}
    return {call for var, call in numbers.items() if var in used}


def _differentiable_python(value: Any) -> bool:
    if not dialect.is_dialect(value) or value.op.name != "tvtf.call_python":
        return False
    attrs = dialect.read(value).attrs
    return attrs["differentiable"] and not attrs["backward"]


def _call_host(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers a call of a primitive's NumPy kernel to a packed call with its name and attributes."""
    text, dims = written(
        bound.attrs, lambda dim: legalizer.new_dims[call].isdisjoint(tirx.analysis.undefined_vars(dim))
    )
    args = [ir.StringImm(bound.primitive.name), ir.StringImm(text), *bound.inputs]
    return _on_host(out, call, KERNEL_SYMBOL, [*args, relax.ShapeExpr(dims)] if dims else args, bound.primitive.pure)


def dims_bound_by(mod: tvm.IRModule) -> dict[relax.Call, set[tirx.Var]]:
    """Returns, for each call, the symbolic dims that its results bind first: they are known only after it ran."""
    return {
        call: dims for f in mod.functions.values() if isinstance(f, relax.Function) for call, dims in _dims_bound_in(f)
    }


def _dims_bound_in(function: relax.Function) -> Iterator[tuple[relax.Call, set[tirx.Var]]]:
    known = set().union(*(_symbols(param.ty) for param in function.params))
    for binding in (b for block in function.body.blocks for b in block.bindings):
        new = _symbols(binding.var.ty) - known
        known |= new
        if isinstance(binding.value, relax.Call):
            yield binding.value, new


def _symbols(ty: ir.Type) -> set[tirx.Var]:
    return {v for t in _tensor_types(ty) for d in t.shape.values for v in tirx.analysis.undefined_vars(d)}


def _on_host(out: Bindings, call: relax.Call, symbol: str, args: list[Any], pure: bool) -> Any:
    """Calls a host function by name; dims that only its results have are bound from them."""
    types = _tensor_types(call.ty)
    loose = relax.TupleType([_of_any_size(t) for t in types])
    if pure:
        value = Bindings.typed(relax.op.call_pure_packed(symbol, *args, ty_args=[loose]), loose)
    else:
        value = relax.Call(relax.ExternFunc(symbol), args, ty_args=[loose], span=call.span, ret_ty=loose)
    results = out.emit(value, "found")
    items = [_matched(out, results, i, t) for i, t in enumerate(types)]
    return relax.Tuple(items) if isinstance(call.ty, relax.TupleType) else items[0]


def _of_any_size(ty: relax.TensorType) -> relax.TensorType:
    return relax.TensorType(dtype=str(ty.dtype), ndim=len(ty.shape.values))


def _all_matched(out: Bindings, value: Any, ty: relax.TupleType) -> relax.Tuple:
    """Casts the items of a tuple from tensors of unknown shape to their annotated shapes."""
    results = out.emit(value, "found")
    return relax.Tuple([_matched(out, results, i, t) for i, t in enumerate(ty.fields)])


def _matched(out: Bindings, results: Any, index: int, ty: relax.TensorType) -> Any:
    """Casts one item of a tuple from a tensor of unknown shape to its annotated shape."""
    item = out.emit(relax.TupleGetItem(results, index), "item")
    matched = relax.Var("matched", ty)
    out.bindings.append(relax.MatchCast(matched, item, ty))
    return matched


def _failed(legalizer: _Legalizer, inside: Bindings, seen: list[Any], pending: list[Any], attrs: dict[str, Any]) -> Any:
    """Writes the assignments before a failed guard; a guard that shows tensors raises here, by its host kernel."""
    _write_all(legalizer, inside, pending)
    if len(seen) > 1:
        args = [ir.StringImm("guard"), ir.StringImm(written(attrs)[0]), *seen]
        inside.emit(_effect(KERNEL_SYMBOL, args, relax.AnyType()), "_")
    return seen[0]


def _write_all(legalizer: _Legalizer, inside: Bindings, pending: list[Any]) -> None:
    for new, variable in zip(pending[::2], pending[1::2]):
        kernel = legalizer.add("write", copy_kernel(new.ty))
        inside.emit(void_call(kernel, [new, variable], None), "_")


def _branching(out: Bindings, ok: Any, otherwise: Any) -> relax.If:
    """Returns an If that is ``ok`` itself where it holds, else the result of ``otherwise(bindings)``."""
    unchanged, written = relax.Var("kept", ok.ty), relax.Var("written", ok.ty)
    inside = Bindings()
    inside.bind(written, otherwise(inside))
    yes = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(unchanged, ok)])], unchanged)
    no = relax.SeqExpr([relax.BindingBlock(inside.bindings)], written)
    return out.typed(relax.If(ok, out.typed(yes, ok.ty), out.typed(no, ok.ty)), ok.ty)


CONTROL = {
    "cond": _cond,
    "effect_cond": _cond,
    "while": _while,
    "effect_while": _while,
    "stack_sized": _stack_sized,
    "told_dims": _computed_dims,
    "common_dims": _common_dims,
    "stack_write": _stack_change,
    "stack_add": _stack_change,
    "stack_add_rows": _stack_change,
    "guard": _guard,
    "write": _write,
    "call_python": _call_python,
}
