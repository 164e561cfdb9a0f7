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

from tvtf.core.tvm_visitor import structural_map
from tvtf.core.variable_lock import cached_property
from tvtf.dtypes import DType
from tvtf.errors import UnimplementedError
from tvtf.ir import dialect
from tvtf.ir.dialect import bindings_of
from tvtf.ops.host import CALL_SYMBOL, GRADIENT_SYMBOL, KERNEL_SYMBOL, RECORD_SYMBOL, attrs_to_json, runs_on_host
from tvtf.ops.rules import kernel as te_kernel
from tvtf.ops.rules import scalar
from tvtf.passes.analysis.dead_code import drop_dead
from tvtf.passes.analysis.loop_op import IMPURE_LOOP, PURE_LOOP, loop_parts
from tvtf.passes.analysis.rewriter import Bindings, rewrite_functions
from tvtf.passes.analysis.side_effects import copy_kernel, raising_kernel, void_call
from tvtf.passes.lower.inplace_stack import InPlace, rows_kernel, slice_kernel
from tvtf.passes.lower.kernel_builder import build_kernel

OPAQUE = 8
"""TVM's ``op_pattern`` of kernels that FuseOps leaves as they are."""


def legalize(mod: tvm.IRModule) -> tvm.IRModule:
    """Lowers every op of the ``tvtf`` dialect: to a kernel, to Relax's control flow, or to a call of the host.

    Raises:
      UnimplementedError: a primitive has no native kernel; the text gives the reason from its ``why_not``.
    """
    return _Legalizer(_lower_empty_results(_without_merge_barriers(mod))).run()


def _without_merge_barriers(mod: tvm.IRModule) -> tvm.IRModule:
    """Removes calls of ``tvtf.apart``, and replaces their results by their operands.

    These calls kept equal values from being merged by common subexpression elimination. No later pass merges values.
    """
    result = mod.clone()
    for name, func in mod.functions_items():
        sources: dict[Any, Any] = {}
        out = Bindings()
        for binding in bindings_of(func.body):
            value = _replaced(binding.value, sources)
            if dialect.is_dialect(value) and value.op.name == "tvtf.apart":
                sources[binding.var] = value.args[0]
            else:
                out.rebind(binding, value)
        if sources:
            result.update_func(name, out.function(func, _replaced(func.body.body, sources)))
    return result


def _lower_empty_results(mod: tvm.IRModule) -> tvm.IRModule:
    """Lowers the operations whose results have no elements to kernels without operands, and drops dead code.

    So no op's own kernel has to handle such results, and nothing is computed for them. Guards of the operations, which
    check the operands, are bindings of their own and stay.
    """
    kernels: dict[ir.GlobalVar, tirx.PrimFunc] = {}

    def lower_if_empty(out: Bindings, binding: relax.VarBinding) -> None:
        """Binds the variable to the call of a kernel if its value has no elements, or else to the same value.

        Args:
          out: collects the new bindings.
          binding: the variable and its value.
        """
        call = binding.value
        if not (dialect.is_dialect(call) and is_empty(call.ty) and _has_kernel(call, dialect.read(call))):
            out.rebind(binding, call)
            return
        func, args, out_types = build_kernel(lambda: _empty_results(call.ty))
        kernel = Bindings.typed(ir.GlobalVar(_unique_name("empty", used_names)), func.ty)
        kernels[kernel] = func
        out.bind(binding.var, call_kernel(kernel, args, out_types, call))

    used_names = {var.name_hint for var in mod.get_global_vars()}
    lowered = rewrite_functions(mod, lower_if_empty)
    if not kernels:
        return mod
    for kernel, func in kernels.items():
        lowered[kernel] = func
    return drop_dead(lowered)


def _has_kernel(call: relax.Call, bound: dialect.Bound) -> bool:
    """Returns whether a kernel computes a primitive; others are lowered to control flow or called on the host."""
    primitive = bound.primitive
    is_control = primitive.name in CONTROL
    return (
        not is_control and primitive.lower is not None and not runs_on_host(primitive, dialect.dtypes_of(call, bound))
    )


def _unique_name(name: str, used_names: set[str]) -> str:
    """Returns ``name``, with a number appended if it is in ``used_names``; adds the result to ``used_names``."""
    unique, count = name, 0
    while unique in used_names:
        count += 1
        unique = f"{name}_{count}"
    used_names.add(unique)
    return unique


def _replaced(value: Any, replacements: dict[Any, Any]) -> Any:
    return structural_map(value, (ir.Var, lambda var: replacements.get(var, var))) if replacements else value


class _Legalizer:
    """One run over a module, with the kernels that it has made."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.kernels: dict[ir.GlobalVar, tirx.PrimFunc] = {}
        self.kernel_of_key: dict[Any, ir.GlobalVar] = {}
        self.used_names = {gv.name_hint for gv in mod.get_global_vars()}
        self.in_place = InPlace(mod)
        self.recorded = recorded_calls(mod)

    @cached_property
    def new_dims(self) -> dict[relax.Call, set[tirx.Var]]:
        return dims_bound_by(self.mod)

    def run(self) -> tvm.IRModule:
        lowered = rewrite_functions(self.mod, self.lower_binding)
        for var, kernel in self.kernels.items():
            lowered[var] = kernel
        return with_loop_results(lowered)

    def lower_binding(self, out: Bindings, binding: relax.VarBinding) -> None:
        """Binds the variable of a binding to its lowered value."""
        value = binding.value
        out.bind(binding.var, self.lower_call(out, value) if dialect.is_dialect(value) else value)

    def lower_call(self, out: Bindings, call: relax.Call) -> Any:
        """Lowers a call of a tvtf primitive to the Relax expression that replaces it.

        This is the result of a rule in :data:`CONTROL`, a call of NumPy on the host, or a call of a kernel that the
        primitive's ``lower`` function builds.

        Raises:
          UnimplementedError: the primitive has no kernel.
        """
        bound = dialect.read(call)
        primitive = bound.primitive
        rule = CONTROL.get(primitive.name)
        if rule is not None:
            return rule(self, out, call, bound)
        if runs_on_host(primitive, dialect.dtypes_of(call, bound)):
            return _call_host(self, out, call, bound)
        return self.kernel_call(call, bound)

    def kernel_call(self, call: relax.Call, bound: dialect.Bound) -> relax.Call:
        """Builds the kernel that computes a primitive, and returns the call of the kernel.

        Calls with the same attributes and operand types share a kernel.

        Raises:
          UnimplementedError: the primitive has no kernel.
        """
        primitive = bound.primitive
        if primitive.lower is None:
            reason = primitive.why_not.get("lower", "its primitive has no `lower` column")
            raise UnimplementedError(None, primitive.tf_name, f"{primitive.name} has no native kernel: {reason}")
        attrs = {name: kernel_attribute(value) for name, value in bound.attrs.items()}
        key = self.kernel_key(bound, attrs, call)
        if key is not None and key in self.kernel_of_key:
            return call_kernel(self.kernel_of_key[key], bound.inputs, call.ty, call)
        func, args, out_types = build_kernel(primitive.lower, *bound.inputs, **attrs)
        kernel = self.add(primitive.name, func)
        if key is not None:
            self.kernel_of_key[key] = kernel
        return call_kernel(kernel, args, out_types, call)

    @staticmethod
    def kernel_key(bound: dialect.Bound, attrs: dict[str, Any], call: relax.Call) -> Any:
        """Returns the key under which calls share a kernel: the primitive's name, its attributes and operand types.

        Symbolic dims are numbered in the order of their first occurrences: calls with differently named dims share a
        kernel. Returns None if a dim is an expression, or an operand is a shape.

        Args:
          bound: the primitive and its operands.
          attrs: the primitive's attributes.
          call: the call to lower.
        """
        if len(call.args) > 0 and isinstance(call.args[-1], relax.ShapeExpr):
            return None
        symbol_numbers: dict[tirx.Var, int] = {}
        operand_types = []
        for operand in bound.inputs:
            dims: list[int | str] = []
            for dim in operand.ty.shape.values[:]:
                if isinstance(dim, tirx.IntImm):
                    dims.append(int(dim))
                elif isinstance(dim, tirx.Var):
                    number = symbol_numbers.setdefault(dim, len(symbol_numbers))
                    dims.append(f"symbol {number}")
                else:
                    return None
            operand_types.append((str(operand.ty.dtype), *dims))
        return bound.primitive.name, repr(sorted(attrs.items())), tuple(operand_types)

    def add_impure(self, name: str, func: tirx.PrimFunc) -> ir.GlobalVar:
        """Adds a kernel that is called for its effect, and returns the kernel's global variable.

        The kernel is typed as impure: Relax would treat a kernel without results as pure, and drop the call.
        """
        ty = relax.FuncType(func.ty.params, func.ty.ret, False)
        return self.add(name, func, ty)

    def add(self, name: str, func: tirx.PrimFunc, ty: relax.FuncType | None = None) -> ir.GlobalVar:
        """Adds a kernel to the module under a unique name made from ``name``, and returns its global variable."""
        var = Bindings.typed(ir.GlobalVar(_unique_name(name, self.used_names)), ty or func.ty)
        self.kernels[var] = func
        return var


def with_loop_results(mod: tvm.IRModule) -> tvm.IRModule:
    """Converts the results of loop conditions and bodies to the form that code generation expects; returns the module.

    A condition returns its boolean instead of a tuple. A body returns a tuple that isn't bound to a variable.
    """
    # `loop_parts` returns the condition and the body of each loop, alternately.
    is_condition = {function.name_hint: i % 2 == 0 for i, function in enumerate(loop_parts(mod))}
    for name, returns_item in is_condition.items():
        mod.update_func(mod.get_global_var(name), _with_unbound_result(mod[name], returns_item))
    return mod


def _with_unbound_result(func: relax.Function, returns_item: bool) -> relax.Function:
    """Returns a function that returns its last tuple directly, instead of a variable that the tuple is bound to.

    The bytecode of a loop then moves the values themselves to registers, without making a tuple in each iteration.

    Args:
      func: the function.
      returns_item: whether to return the first item of the tuple instead of the tuple.
    """
    *bindings, last = bindings_of(func.body)
    returns_last_binding = func.body.body.same_as(last.var)
    if not returns_last_binding or not isinstance(last.value, relax.Tuple):
        return func
    out = Bindings()
    out.bindings = bindings
    return out.function(func, last.value.fields[0] if returns_item else last.value)


def _tensor_types(ty: ir.Type) -> list[relax.TensorType]:
    return list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]


def is_empty(ty: ir.Type) -> bool:
    """Returns whether all results are known to have no elements."""
    return all(
        any(isinstance(dim, tirx.IntImm) and int(dim) == 0 for dim in tensor_type.shape.values[:])
        for tensor_type in _tensor_types(ty)
    )


def _empty_results(ty: ir.Type) -> list[te.Tensor]:
    """Returns the results of a kernel for tensors without elements."""
    return [_empty_result(tensor_type) for tensor_type in _tensor_types(ty)]


def _empty_result(ty: relax.TensorType) -> te.Tensor:
    zero = tirx.const(0, str(ty.dtype))
    return te.compute(ty.shape.values, lambda *_: zero, name="nothing")


def kernel_attribute(value: Any) -> Any:
    """Converts an attribute to the form that kernels take: dtypes become names."""
    if isinstance(value, DType):
        return value.name
    return tuple(map(kernel_attribute, value)) if isinstance(value, tuple) else value


_CALL_TIR = ir.Op.get("relax.call_tir")


def call_kernel(kernel: ir.GlobalVar, args: Any, out_types: Any, call: relax.Call) -> relax.Call:
    """Returns the call of a kernel that replaces the call of a primitive.

    The source span is kept, by which errors name the user's line.

    Args:
      kernel: the kernel.
      args: the arguments, a list or a Relax tuple.
      out_types: the type of the kernel's result, or a list of the types of its results.
      call: the call of the primitive.
    """
    if isinstance(call.ty, relax.TupleType):
        out_type: Any = call.ty
    else:
        out_type = out_types[0] if isinstance(out_types, list) else out_types
    operands = args if isinstance(args, relax.Tuple) else relax.Tuple(list(args))
    return relax.Call(_CALL_TIR, [kernel, operands], ty_args=[out_type], span=call.span, ret_ty=call.ty)


def _cond(_: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers ``tvtf.cond(pred, *captured)`` to a Relax If. Each branch calls a function on the captured values.

    Args:
      out: collects the new bindings.
      call: the call to lower.
      bound: the call's operands and attributes.
    """
    predicate, *captured = bound.inputs
    # Sizes that differ between the branches become dims of the results, bound after the If.
    sizes_differ = bool(bound.attrs.get("shapes"))
    result_type = call.ty
    if sizes_differ:
        result_type = relax.TupleType([_of_any_size(ty) for ty in call.ty.fields])
    functions = [bound.attrs["then_branch"], bound.attrs["else_branch"]]
    branches = [_branch(function, captured, result_type, call.span) for function in functions]
    result = out.typed(relax.If(predicate, *branches, span=call.span), result_type)
    return _cast_items(out, result, call.ty) if sizes_differ else result


def _branch(function: ir.GlobalVar, captured: list[Any], ty: Any, span: Any) -> relax.SeqExpr:
    """Builds a branch of an If: a sequence that calls ``function`` on the captured values."""
    result = relax.Var("branch", ty)
    value = relax.Call(function, captured, span=span, ret_ty=ty)
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(result, value)])], result)
    return Bindings.typed(body, ty)


def _while(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> relax.Call:
    """Lowers a tvtf while loop to a call of the loop op that is registered with Relax.

    A stack (a buffer with one value for each iteration) that the loop's body overwrites starts as a copy of its
    operand, which the caller may still read.

    Args:
      legalizer: the pass, which knows what loops may overwrite.
      out: collects the new bindings.
      call: the call to lower.
      bound: the call's operands and attributes.
    """
    condition, body = bound.attrs["condition"], bound.attrs["body"]
    overwritten = legalizer.in_place.carried.get(body.name_hint, ())
    inputs = [_emit_copy(legalizer, out, x) if i in overwritten else x for i, x in enumerate(bound.inputs)]
    attrs = ir.make_node("ir.DictAttrs", carried=bound.attrs["carried"])
    loop_op = ir.Op.get(PURE_LOOP if bound.primitive.pure else IMPURE_LOOP)

    def loop_of_type(ty: Any) -> relax.Call:
        return relax.Call(loop_op, [condition, body, *inputs], attrs=attrs, ty_args=[ty], span=call.span, ret_ty=ty)

    determines_sizes = bool(bound.attrs.get("shapes"))
    if not determines_sizes:
        return loop_of_type(call.ty)
    # The loop determines the sizes of these results. Casts bind symbolic dims to them.
    unsized = relax.TupleType([_of_any_size(ty) for ty in call.ty.fields])
    return _cast_items(out, loop_of_type(unsized), call.ty)


def _typed_kernel_call(kernel: ir.GlobalVar, args: Any, ty: Any) -> relax.Call:
    """Returns the call of a kernel with a result of a type."""
    operands = args if isinstance(args, relax.Tuple) else relax.Tuple(list(args))
    return relax.Call(_CALL_TIR, [kernel, operands], ty_args=[ty], ret_ty=ty)


def _emit_copy(legalizer: _Legalizer, out: Bindings, x: Any) -> Any:
    """Binds a copy of ``x`` in memory of its own."""
    func, args, _ = build_kernel(lambda t: scalar(lambda _, value: value)(t), x)
    return out.emit(_typed_kernel_call(legalizer.add("copy", func), args, x.ty), "own")


def _stack_sized(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers the creation of a stack (a buffer with one value for each iteration of a loop) of computed length.

    One kernel computes the length. A symbolic dim is bound to the length. Another kernel creates the stack.

    Args:
      legalizer: the pass, to which kernels are added.
      out: collects the new bindings.
      call: the call to lower.
      bound: the call's operands and attributes.
    """
    length_func, length_args, _ = build_kernel(te_kernel("stack.length"), *bound.inputs)
    length_kernel = legalizer.add("length", length_func)
    length_type = relax.TensorType((1,), "int64")
    length = out.emit(_typed_kernel_call(length_kernel, length_args, length_type), "length")
    _bind_dims(out, length, [bound.attrs["size"]])
    shape = (bound.attrs["size"], *bound.attrs["shape"])
    dtype = bound.attrs["dtype"].name
    stack_func, stack_args, types = build_kernel(te_kernel("stack.new"), shape=shape, dtype=dtype)
    return call_kernel(legalizer.add("stack_new", stack_func), stack_args, types, call)


def _computed_dims(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers ``told_dims(vector)``: binds symbolic dims to the elements of a vector.

    The op's result is an empty tensor whose type has these dims.

    Args:
      legalizer: the pass, to which kernels are added.
      out: collects the new bindings.
      call: the call to lower.
      bound: the call's operands and attributes.
    """
    dims = list(bound.attrs["dims"])
    _bind_dims(out, bound.inputs[0], dims)
    return _empty_tensor_with_dims(legalizer, dims, call)


def _empty_tensor_with_dims(legalizer: _Legalizer, dims: list[Any], call: relax.Call) -> Any:
    """Returns a call that makes a tensor of shape ``(*dims, 0)``, which has no elements and only carries the dims."""
    func, args, types = build_kernel(te_kernel("stack.new"), shape=(*dims, 0), dtype="bool")
    return call_kernel(legalizer.add("told", func), args, types, call)


def _common_dims(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers ``common_dims``: a kernel computes a vector from the inputs' dims, and symbolic dims are bound to it.

    As for `_computed_dims`, the result is an empty tensor that carries the dims.

    Args:
      legalizer: the pass, to which kernels are added.
      out: collects the new bindings.
      call: the call to lower.
      bound: the call's operands and attributes.
    """
    dims = list(bound.attrs["dims"])
    kernel, args, _ = build_kernel(te_kernel("array.common_dims"), *bound.inputs)
    vector_type = relax.TensorType((len(dims),), "int64")
    # The kernel reads only shapes. As an opaque kernel, FuseOps doesn't fuse the computation of its inputs into it.
    kernel = kernel.with_attr("op_pattern", OPAQUE)
    vector = out.emit(_typed_kernel_call(legalizer.add("common", kernel), args, vector_type), "common")
    _bind_dims(out, vector, dims)
    return _empty_tensor_with_dims(legalizer, dims, call)


def _bind_dims(out: Bindings, vector: Any, dims: list[Any]) -> None:
    """Emits bindings that define symbolic dims by the elements of an int64 vector, one dim for each element."""
    shape = out.emit(_builtin_call("vm.builtin.tensor_to_shape", [vector], relax.ShapeType(ndim=len(dims))), "shape")
    shape_type = relax.ShapeType(dims)
    out.bindings.append(relax.MatchCast(relax.Var("size", shape_type), shape, shape_type))
    # FuseOps reorders the bindings of a dataflow block by the tensors that they read, and ignores dims. So the cast
    # must not be in the same block as readers of the dims. This call of a builtin ends the block.
    out.emit(_builtin_call("vm.builtin.null_value", [], relax.AnyType()), "_")


def _builtin_call(builtin: str, args: list[Any], ty: Any) -> relax.Call:
    """Returns a call of a builtin of TVM's virtual machine, which also ends a dataflow block."""
    return relax.Call(relax.ExternFunc(builtin), args, ret_ty=ty)


def _write_to_stack(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers a write to a stack (a buffer with one value for each iteration of a loop).

    The write is in place if nothing else reads the stack. Otherwise a kernel returns a new stack.

    Args:
      legalizer: the pass, to which kernels are added.
      out: collects the new bindings.
      call: the call to lower.
      bound: the call's operands and attributes.
    """
    buffer, index, _ = bound.inputs
    is_read_elsewhere = buffer not in legalizer.in_place.owned
    if is_read_elsewhere:
        return legalizer.kernel_call(call, bound)
    name = bound.primitive.name
    func = rows_kernel(buffer.ty, index.ty) if name == "stack_add_rows" else slice_kernel(name, buffer.ty, index.ty)
    kernel = legalizer.add(name, func)
    out.emit(void_call(kernel, bound.inputs, call.span), "_")
    return buffer


def _guard(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers a run-time check ``tvtf.guard(ok, *shown, *pending)``, which raises an error unless ``ok`` holds.

    The error's message shows the tensors ``shown``. Before the error, the pairs of a value and a Variable in
    ``pending`` are written. A kernel raises the error; if tensors are shown, the host raises it.

    Args:
      legalizer: the pass, to which kernels are added.
      out: collects the new bindings.
      call: the call to lower.
      bound: the call's operands and attributes.
    """
    ok, *operands = bound.inputs
    shown_count = bound.attrs.get("shown", 0)
    shown, pending = operands[:shown_count], operands[shown_count:]
    if operands:
        # FuseOps fails on a constant in a branch.
        condition = _emit_copy(legalizer, out, ok) if isinstance(ok, ir.Constant) else ok

        def emit_failure(branch: Bindings) -> Any:
            return _emit_failure(legalizer, branch, [condition, *shown], pending, bound.attrs)

        ok = out.emit(_if_else_same(out, condition, emit_failure), "checked")
    # Where the message shows tensors, the branch above has raised.
    if shown:
        return ok
    error_kind = bound.attrs.get("kind", "InvalidArgumentError")
    kernel = legalizer.add_impure("guard", raising_kernel(error_kind, bound.attrs["message"]))
    out.emit(void_call(kernel, [ok], call.span), "_")
    return ok


def _write(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers ``tvtf.write(new, variable)`` to a kernel that copies into a Variable's memory; returns ``new``."""
    new, variable = bound.inputs
    out.emit(void_call(legalizer.add("write", copy_kernel(new.ty)), [new, variable], call.span), "_")
    return new


def _call_python(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers a call of a Python function to a call of a host function.

    Compiled code can't run Python itself. Depending on the call, the host function runs the Python function, runs it
    and records the call for a gradient, or computes the gradient of a recorded call.

    Args:
      legalizer: the pass, which knows the calls to record.
      out: collects the new bindings.
      call: the call to lower.
      bound: the call's operands and attributes.
    """
    result_ranks = [len(shape) for shape in bound.attrs["shapes"]]
    ranks = ir.StringImm(json.dumps(result_ranks))
    if bound.attrs["backward"]:
        symbol = GRADIENT_SYMBOL
    else:
        symbol = RECORD_SYMBOL if call in legalizer.recorded else CALL_SYMBOL
    return _emit_host_call(out, call, symbol, [ranks, *bound.inputs], bound.primitive.pure)


def recorded_calls(mod: tvm.IRModule) -> set[relax.Call]:
    """Returns the calls of Python functions in a module that a gradient uses, and that are recorded for it."""
    return {
        call for func in mod.functions.values() if isinstance(func, relax.Function) for call in _recorded_calls_in(func)
    }


def _recorded_calls_in(function: relax.Function) -> set[relax.Call]:
    """Returns the calls of Python in a function that must be recorded, because a gradient uses the record.

    The last result of a differentiable call is the id of its record, which only a gradient reads. So a call is recorded
    if anything in the function uses this id.
    """
    bindings = bindings_of(function.body)
    calls = {binding.var: binding.value for binding in bindings if _is_differentiable_python_call(binding.value)}
    if not calls:
        return set()
    call_of_record_id: dict[relax.Var, relax.Call] = {}
    for binding in bindings:
        item = binding.value
        if isinstance(item, relax.TupleGetItem) and item.tuple_value in calls:
            last_index = len(item.tuple_value.ty.fields) - 1
            if item.index == last_index:
                call_of_record_id[binding.var] = calls[item.tuple_value]
    values = [*(binding.value for binding in bindings), function.body.body]
    used = {var for value in values for var in relax.analysis.free_vars(value)}
    return {call for var, call in call_of_record_id.items() if var in used}


def _is_differentiable_python_call(value: Any) -> bool:
    """Returns whether a value is a Python call that may need a gradient, and isn't one itself."""
    if not dialect.is_dialect(value) or value.op.name != "tvtf.call_python":
        return False
    attrs = dialect.read(value).attrs
    return attrs["differentiable"] and not attrs["backward"]


def _call_host(legalizer: _Legalizer, out: Bindings, call: relax.Call, bound: dialect.Bound) -> Any:
    """Lowers a primitive that NumPy computes to a call of a host function.

    The host function is passed the primitive's name, its attributes as text, its operands, and the symbolic dims that
    the attributes contain. Primitives without a native kernel are computed this way.

    Args:
      legalizer: the pass, which knows the dims that each call computes.
      out: collects the new bindings.
      call: the call to lower.
      bound: the call's operands and attributes.
    """

    def is_known(dim: Any) -> bool:
        """Returns whether a dim is known before the call, and not only from its results."""
        return legalizer.new_dims[call].isdisjoint(tirx.analysis.undefined_vars(dim))

    text, dims = attrs_to_json(bound.attrs, is_known)
    args = [ir.StringImm(bound.primitive.name), ir.StringImm(text), *bound.inputs]
    if dims:
        args.append(relax.ShapeExpr(dims))
    return _emit_host_call(out, call, KERNEL_SYMBOL, args, bound.primitive.pure)


def dims_bound_by(mod: tvm.IRModule) -> dict[relax.Call, set[tirx.Var]]:
    """Returns the symbolic dims that each call's results define: dims that are known only after the call has run."""
    return {
        call: dims
        for func in mod.functions.values()
        if isinstance(func, relax.Function)
        for call, dims in _dims_bound_in(func)
    }


def _dims_bound_in(function: relax.Function) -> Iterator[tuple[relax.Call, set[tirx.Var]]]:
    """Yields each call in a function, with the symbolic dims that the call's results define.

    A dim is defined by the first type that contains it: a parameter's, or that of a call's result.
    """
    known = set().union(*(_symbols(param.ty) for param in function.params))
    for binding in bindings_of(function.body):
        new_dims = _symbols(binding.var.ty) - known
        known |= new_dims
        if isinstance(binding.value, relax.Call):
            yield binding.value, new_dims


def _symbols(ty: ir.Type) -> set[tirx.Var]:
    """Returns the symbolic sizes in the shapes of a type's tensors."""
    return {
        var
        for tensor_type in _tensor_types(ty)
        for dim in tensor_type.shape.values
        for var in tirx.analysis.undefined_vars(dim)
    }


def _emit_host_call(out: Bindings, call: relax.Call, symbol: str, args: list[Any], is_pure: bool) -> Any:
    """Emits a call of a host function, and returns its results with the types of ``call``.

    The host function returns tensors of unknown sizes. Casts to the types of ``call`` bind symbolic dims to the actual
    sizes.

    Args:
      out: collects the bindings.
      call: the call of the primitive that is lowered.
      symbol: the name of the host function.
      args: the arguments of the host function.
      is_pure: whether the call may be dropped or moved.
    """
    types = _tensor_types(call.ty)
    unsized_types = relax.TupleType([_of_any_size(ty) for ty in types])
    if is_pure:
        value = Bindings.typed(relax.op.call_pure_packed(symbol, *args, ty_args=[unsized_types]), unsized_types)
    else:
        value = relax.Call(
            relax.ExternFunc(symbol), args, ty_args=[unsized_types], span=call.span, ret_ty=unsized_types
        )
    results = out.emit(value, "found")
    items = [_cast_item(out, results, i, ty) for i, ty in enumerate(types)]
    return relax.Tuple(items) if isinstance(call.ty, relax.TupleType) else items[0]


def _of_any_size(ty: relax.TensorType) -> relax.TensorType:
    """Returns the type of tensors with the same dtype and rank, but unknown sizes."""
    return relax.TensorType(dtype=str(ty.dtype), ndim=len(ty.shape.values))


def _cast_items(out: Bindings, value: Any, ty: relax.TupleType) -> relax.Tuple:
    """Casts the items of a tuple from tensors of unknown sizes to their annotated types."""
    results = out.emit(value, "found")
    return relax.Tuple([_cast_item(out, results, i, field) for i, field in enumerate(ty.fields)])


def _cast_item(out: Bindings, results: Any, index: int, ty: relax.TensorType) -> Any:
    """Casts an item of a tuple from a tensor of unknown sizes to its annotated type, which binds symbolic dims."""
    item = out.emit(relax.TupleGetItem(results, index), "item")
    cast = relax.Var("matched", ty)
    out.bindings.append(relax.MatchCast(cast, item, ty))
    return cast


def _emit_failure(
    legalizer: _Legalizer, out: Bindings, condition_and_shown: list[Any], pending: list[Any], attrs: dict[str, Any]
) -> Any:
    """Emits the bindings that run if a guard (run-time check) fails, and returns the guard's condition.

    They write the pending assignments. If the message shows tensors, they also call the host, which formats the message
    and raises the error.

    Args:
      legalizer: the pass, to which kernels are added.
      out: collects the new bindings.
      condition_and_shown: the condition, then the tensors that the message shows.
      pending: new values, each followed by the memory of its Variable.
      attrs: the attributes of the guard.
    """
    _write_all(legalizer, out, pending)
    condition, *shown = condition_and_shown
    if shown:
        text, _ = attrs_to_json(attrs)
        args = [ir.StringImm("guard"), ir.StringImm(text), condition, *shown]
        out.emit(_builtin_call(KERNEL_SYMBOL, args, relax.AnyType()), "_")
    return condition


def _write_all(legalizer: _Legalizer, out: Bindings, pending: list[Any]) -> None:
    """Calls the kernels that write pending assignments: pairs of a new value and a Variable's memory."""
    for new, variable in zip(pending[::2], pending[1::2]):
        kernel = legalizer.add("write", copy_kernel(new.ty))
        out.emit(void_call(kernel, [new, variable], None), "_")


def _if_else_same(out: Bindings, ok: Any, otherwise: Any) -> relax.If:
    """Builds ``ok if ok else otherwise(bindings)`` as a Relax If.

    Args:
      out: sets the types of new expressions.
      ok: the condition, a bool scalar.
      otherwise: emits the else branch to the bindings that it is passed, and returns its value.
    """
    true_result, false_result = relax.Var("kept", ok.ty), relax.Var("written", ok.ty)
    false_bindings = Bindings()
    false_bindings.bind(false_result, otherwise(false_bindings))
    true_branch = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(true_result, ok)])], true_result)
    false_branch = relax.SeqExpr([relax.BindingBlock(false_bindings.bindings)], false_result)
    return out.typed(relax.If(ok, out.typed(true_branch, ok.ty), out.typed(false_branch, ok.ty)), ok.ty)


CONTROL = {
    "cond": _cond,
    "effect_cond": _cond,
    "while": _while,
    "effect_while": _while,
    "stack_sized": _stack_sized,
    "told_dims": _computed_dims,
    "common_dims": _common_dims,
    "stack_write": _write_to_stack,
    "stack_add": _write_to_stack,
    "stack_add_rows": _write_to_stack,
    "guard": _guard,
    "write": _write,
    "call_python": _call_python,
}
