"""Hoists work on constants (whole kernels, and packed copies of operands), to run once before the first call.

``main`` carries ``tvtf.constants``, the positions of parameters that are the same tensors in every call. The hoisted
work moves into a second entry, ``prepare``, whose results become ``main``'s last parameters.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any, NamedTuple

import tvm
from tvm import ir, relax, tirx

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.entry_points import PREPARE
from tvtf.passes.lower.loop_kernel import SAFE
from tvtf.passes.schedule.constant_operands import CONSTANT_OPERANDS, constant_operands
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.subroutine import written

CONSTANTS = "tvtf.constants"
_CALL_TIR = ir.Op.get("relax.call_tir")


def hoist(mod: tvm.IRModule) -> tvm.IRModule:
    """Splits ``prepare`` off ``main`` if it has constant parameters; its kernels are scheduled already."""
    main = mod["main"]
    positions = [int(position) for position in (main.attrs or {}).get(CONSTANTS, [])]
    return _Hoist(mod, main, positions).run() if positions else mod


def separate_constants(mod: tvm.IRModule) -> tvm.IRModule:
    """Keeps kernels on constants out of fused groups, by making their results outputs of dataflow blocks.

    Fused into a consumer, they would be recomputed for each element of its result. A result that is larger than every
    constant that it is computed from stays in its consumer.
    """
    main = mod["main"]
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    fixed = _small_constants(main, bindings)
    read = _variables([binding.value for binding in bindings if binding.var not in fixed])
    inner = [var for var in fixed & read if isinstance(var, relax.DataflowVar)]
    outputs = {var: relax.Var(var.name, var.ty, var.span) for var in inner}
    result = mod.clone()
    if outputs:
        outer = structural_map(main, (ir.Var, lambda var: outputs.get(var, var)))
        result.update_func(mod.get_global_var("main"), outer)
    return result


def _small_constants(main: relax.Function, bindings: list[Any]) -> set[Any]:
    """Returns constant parameters, and kernels' results on constants that are no larger than their largest operand.

    Larger ones, such as a broadcast's, would take more memory for good than the work is worth.
    """
    fixed = {main.params[int(position)] for position in (main.attrs or {}).get(CONSTANTS, [])}
    for binding in bindings if fixed else ():
        arguments = list(binding.value.args[1].fields) if is_kernel_call(binding.value) else []
        known = [a for a in arguments if a in fixed]
        if _is_made_of(arguments, fixed) and _elements(binding.var) <= max(map(_elements, known)):
            fixed.add(binding.var)
    return fixed


def _is_made_of(arguments: list[Any], fixed: set[Any]) -> bool:
    """Returns whether a kernel's operands are the same in every call: literals, and at least one of ``fixed``."""
    known = [a in fixed for a in arguments]
    return any(known) and all(is_known or isinstance(a, ir.GenericConst) for a, is_known in zip(arguments, known))


def _elements(x: Any) -> float:
    """Returns the number of elements, infinite where it isn't static."""
    shape = x.ty.shape.values if isinstance(x.ty, relax.TensorType) and x.ty.shape is not None else [None]
    return prod(int(dim) if isinstance(dim, tirx.IntImm) else inf for dim in shape)


def _fixed(main: relax.Function) -> set[Any]:
    """Returns the constant parameters, and the kernels' results that ``prepare`` can compute.

    ``prepare`` gets constants only, so it can't allocate a result with a symbolic dim. A result that anything but a
    kernel uses may be returned to the caller, so each call computes its own.
    """
    fixed = {main.params[int(position)] for position in (main.attrs or {}).get(CONSTANTS, [])}
    escaping = _used_elsewhere(main) if fixed else set()
    for binding in _kernel_calls(main) if fixed else ():
        can_be = binding.var not in escaping and _elements(binding.var) < inf
        if can_be and _is_made_of(list(binding.value.args[1].fields), fixed):
            fixed.add(binding.var)
    return fixed


def _kernel_calls(main: relax.Function) -> list[relax.VarBinding]:
    return [b for block in main.body.blocks for b in block.bindings if is_kernel_call(b.value)]


def mark_constants(mod: tvm.IRModule) -> tvm.IRModule:
    """Marks unscheduled kernels that only ``main`` calls with the operands that are constant in all their calls."""
    main = mod["main"]
    fixed = _fixed(main)
    calls: dict[Any, list[set[int]]] = {}
    for name, operands in (binding.value.args for binding in _kernel_calls(main) if fixed):
        calls.setdefault(name, []).append({i for i, a in enumerate(operands.fields) if a in fixed})
    marked = mod.clone()
    for name, each in calls.items():
        # A kernel is packed for once: for operands that are constant in every call.
        common = sorted(set.intersection(*each))
        if common and name not in called_elsewhere(mod):
            marked.update_func(name, mod[name].with_attr(CONSTANT_OPERANDS, common))
    return marked


def called_elsewhere(mod: tvm.IRModule) -> set[Any]:
    """Returns the names that functions other than ``main`` mention: what loops, branches and ``prepare`` call."""
    functions = (f for name, f in mod.functions_items() if isinstance(f, relax.Function) and name.name_hint != "main")
    names: set[Any] = set()
    for func in functions:
        structural_walk(func.body, (ir.GlobalVar, names.add))
    return names


class _Pack(NamedTuple):
    """A kernel that fills a packed copy of constants: the arguments that it reads, and the copy's type."""

    kernel: ir.GlobalVar
    reads: list[int]
    type: relax.TensorType


class _Hoist:
    """One split of ``main`` into the work ``before`` all calls and the work ``after``, done in each."""

    def __init__(self, mod: tvm.IRModule, main: relax.Function, positions: list[int]) -> None:
        self.mod, self.main = mod.clone(), main
        self.constants = [main.params[position] for position in positions]
        self.fixed = _fixed(main)
        self.before, self.after = Bindings(), Bindings()
        self.split: dict[ir.GlobalVar, tuple[ir.GlobalVar, list[_Pack]]] = {}
        self.packs: dict[Any, relax.Var] = {}

    def run(self) -> tvm.IRModule:
        """Splits the bindings, adds ``prepare``, and appends its results to ``main``'s parameters."""
        for block in self.main.body.blocks:
            for binding in block.bindings:
                self._binding(binding)
        used = _variables([binding.value for binding in self.after.bindings])
        needed = [binding.var for binding in self.before.bindings if binding.var in used]
        self._add_prepare(needed)
        main = self.after.function(self.main)
        params, body = [*main.params, *needed], main.body
        self.mod["main"] = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs, main.span)
        return self.mod

    def _binding(self, binding: relax.VarBinding) -> None:
        """Moves a kernel on constants in front of all calls; packs the constants of others there.

        What is moved runs in `prepare`, once.
        """
        call = binding.value
        if not is_kernel_call(call):
            self.after.again(binding, call)
        elif binding.var in self.fixed:
            self.before.bind(binding.var, call)
        else:
            self.after.bind(binding.var, self._with_packs(call))

    def _with_packs(self, call: relax.Call) -> relax.Call:
        """Returns the call with its kernel's packed constants passed in."""
        name, arguments = call.args[0], list(call.args[1].fields)
        kernel, packs = self._split(name, len(arguments))
        if not packs:
            return call
        more = [self._packed(pack, [arguments[i] for i in pack.reads]) for pack in packs]
        operands = relax.Tuple([*arguments, *more])
        return relax.Call(_CALL_TIR, [kernel, operands], ty_args=call.ty_args, span=call.span, ret_ty=call.ty)

    def _packed(self, pack: _Pack, arguments: list[Any]) -> relax.Var:
        key = pack.kernel, tuple(arguments)
        if key not in self.packs:
            call = relax.Call(_CALL_TIR, [pack.kernel, relax.Tuple(arguments)], ty_args=[pack.type], ret_ty=pack.type)
            self.packs[key] = self.before.emit(call, pack.kernel.name_hint)
        return self.packs[key]

    def _split(self, name: ir.GlobalVar, inputs: int) -> tuple[ir.GlobalVar, list[_Pack]]:
        if name not in self.split:
            self.split[name] = self._new_split(name, inputs)
        return self.split[name]

    def _new_split(self, name: ir.GlobalVar, inputs: int) -> tuple[ir.GlobalVar, list[_Pack]]:
        """Splits a kernel into the kernels that pack its constants, and the rest, which takes the copies as inputs."""
        func = self.mod[name]
        nests, rest = _copies(func, {func.params[i] for i in constant_operands(func)})
        if not nests:
            return name, []
        packs = [self._pack(name, func, buffer, nest) for buffer, nest in nests.items()]
        params = [*func.params[:inputs], *nests, *func.params[inputs:]]
        del self.mod[name]
        return self._add(name.name_hint, _shifted(_kernel(func, params, rest), len(nests))), packs

    def _pack(self, name: ir.GlobalVar, func: tirx.PrimFunc, buffer: tirx.Var, nest: list[tirx.Stmt]) -> _Pack:
        mentioned = _variables(nest)
        reads = [i for i, param in enumerate(func.params) if param in mentioned]
        params = [*(func.params[i] for i in reads), buffer]
        kernel = self._add(f"pack_{name.name_hint}", _kernel(func, params, nest))
        shape = relax.ShapeExpr([tirx.IntImm("int64", int(extent)) for extent in buffer.ty.shape])
        return _Pack(kernel, reads, relax.TensorType(shape, str(buffer.ty.dtype.dtype)))

    def _add(self, name: str, func: tirx.PrimFunc) -> ir.GlobalVar:
        """Adds a function under a unique name; returns its variable."""
        used_names, unique, count = {var.name_hint for var in self.mod.get_global_vars()}, name, 0
        while unique in used_names:
            count += 1
            unique = f"{name}_{count}"
        var = Bindings.typed(ir.GlobalVar(unique), func.ty)
        self.mod.update_func(var, func)
        return var

    def _add_prepare(self, needed: list[relax.Var]) -> None:
        """Adds the function that computes what ``main`` needs from the constants."""
        # A variable may be bound in one function of a module only.
        new_vars = {var: relax.Var(var.name, var.ty) for var in self.constants}
        out = Bindings()
        for binding in self.before.bindings:
            new_vars[binding.var] = out.emit(_replaced(binding.value, new_vars), binding.var.name)
        result = out.emit(relax.Tuple([new_vars[var] for var in needed]), "prepared")
        body = Bindings.typed(relax.SeqExpr([relax.BindingBlock(out.bindings)], result), result.ty)
        func = relax.Function([new_vars[var] for var in self.constants], body, result.ty, True)
        func = func.with_attrs({"global_symbol": PREPARE, **_force_pure(self.main)})
        self.mod.update_func(Bindings.typed(ir.GlobalVar(PREPARE), func.ty), func)


def _shifted(func: tirx.PrimFunc, more: int) -> tirx.PrimFunc:
    """Adjusts a kernel's in-place pairs to its new inputs, which stand in front of its results."""
    if SAFE not in func.attrs:
        return func
    return func.with_attr(SAFE, [[int(out) + more, int(source)] for out, source in func.attrs[SAFE]])


def _force_pure(main: relax.Function) -> dict[str, Any]:
    name = "relax.force_pure"
    return {name: main.attrs[name]} if main.attrs and name in main.attrs else {}


def is_kernel_call(value: Any) -> bool:
    """Returns whether a value is a kernel called on tensors only: symbolic dims would be a third argument."""
    return isinstance(value, relax.Call) and value.op == _CALL_TIR and len(value.args) == 2


def _used_elsewhere(main: relax.Function) -> set[Any]:
    """Returns the variables that anything but a kernel uses."""
    values = [binding.value for block in main.body.blocks for binding in block.bindings]
    return _variables([main.body.body, *(value for value in values if not is_kernel_call(value))])


def _copies(func: tirx.PrimFunc, fixed: set[Any]) -> tuple[dict[Any, list[tirx.Stmt]], list[tirx.Stmt]]:
    """Returns the buffers that a kernel fills from constants alone, with the statements that do, and the others.

    These are packed operands, which are the same in every call.
    """
    if not isinstance(func.body, tvm.s_tir.SBlockRealize):
        return {}, []
    body = func.body.block.body
    statements = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    fills: dict[Any, list[tirx.Stmt]] = {}
    for allocation in statements:
        if isinstance(allocation, tirx.AllocBuffer):
            filling = [s for s in statements if allocation.buffer in written(s)]
            if filling and all(_fills(s, allocation.buffer, fixed) for s in filling):
                fills[allocation.buffer] = filling
    filling_statements = [s for nest in fills.values() for s in nest]
    rest = [s for s in statements if not any(s.same_as(other) for other in filling_statements)]
    return fills, [s for s in rest if not (isinstance(s, tirx.AllocBuffer) and s.buffer in fills)]


def _fills(statement: tirx.Stmt, buffer: Any, fixed: set[Any]) -> bool:
    """Returns whether a statement reads only constants and its own buffers, and writes only ``buffer``."""
    reads: list[Any] = []
    structural_walk(statement, (ir.TensorLoad, lambda load: reads.append(load.source)))
    local = [inner.buffer for inner in _allocations(statement)]
    known = all(source in fixed or source in local or source.same_as(buffer) for source in reads)
    return known and any(source in fixed for source in reads) and written(statement) <= {buffer, *local}


def _allocations(statement: tirx.Stmt) -> list[Any]:
    allocations: list[Any] = []
    structural_walk(statement, (tirx.AllocBuffer, allocations.append))
    return allocations


def _kernel(like: tirx.PrimFunc, params: list[Any], statements: list[tirx.Stmt]) -> tirx.PrimFunc:
    root = tvm.s_tir.SBlock([], [], [], "root", emit.sequence(statements))
    body = tvm.s_tir.SBlockRealize([], True, root)
    return tirx.PrimFunc(params, body, like.ty.ret, like.attrs)


def _replaced(value: Any, by: dict[Any, Any]) -> Any:
    return structural_map(value, (ir.Var, lambda var: by.get(var, var)))


def _variables(values: list[Any]) -> set[Any]:
    names: set[Any] = set()
    for value in values:
        structural_walk(value, (ir.Var, names.add))
    return names
