"""Hoists work on constants (kernels, and packed copies of operands), to run once before the first call.

``main`` carries ``tvtf.constants``, the positions of parameters that are the same tensors in every call. The hoisted
work moves into a second entry, ``prepare``, whose results become ``main``'s last parameters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from math import inf, prod
from typing import Any, NamedTuple

import tvm
from tvm import ir, relax, tirx

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.ir.dialect import bindings_of
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.entry_points import PREPARE
from tvtf.passes.schedule.constant_operands import CONSTANT_OPERANDS, constant_operands
from tvtf.passes.schedule.cpu import SCHEDULED, emit
from tvtf.passes.schedule.cpu.kernel import INPLACE_PAIRS
from tvtf.passes.schedule.cpu.subroutine import written_buffers

CONSTANTS = "tvtf.constants"
_CALL_TIR = ir.Op.get("relax.call_tir")


def hoist(mod: tvm.IRModule) -> tvm.IRModule:
    """Splits ``prepare`` off ``main`` if it has constant parameters; its kernels are scheduled already."""
    main = mod["main"]
    positions = [int(position) for position in (main.attrs or {}).get(CONSTANTS, [])]
    return _Hoist(mod, main, positions).run() if positions else mod


def separate_constants(mod: tvm.IRModule) -> tvm.IRModule:
    """Prevents FuseOps from fusing kernels that compute small values from constants into the kernels that read them.

    A fused kernel would compute such a value again for each element of its own result. FuseOps groups only dataflow
    variables, so these values are bound to variables that are outputs of dataflow blocks.
    """
    main = mod["main"]
    bindings = bindings_of(main.body)
    constants = _small_constants(main, bindings)
    read_by_others = _variables([binding.value for binding in bindings if binding.var not in constants])
    intermediate = [var for var in constants & read_by_others if isinstance(var, relax.DataflowVar)]
    # A plain `relax.Var` is an output of its dataflow block.
    outputs = {var: relax.Var(var.name, var.ty, var.span) for var in intermediate}
    result = mod.clone()
    if outputs:
        separated = structural_map(main, (ir.Var, lambda var: outputs.get(var, var)))
        result.update_func(mod.get_global_var("main"), separated)
    return result


def _small_constants(main: relax.Function, bindings: list[Any]) -> set[Any]:
    """Returns the constant parameters of ``main``, and small values that kernels compute from constants alone.

    A small value is no larger than the largest constant that it is computed from. A larger one, such as a broadcast,
    would take more memory for good than the saved work is worth.
    """
    constants = {main.params[int(position)] for position in (main.attrs or {}).get(CONSTANTS, [])}
    if not constants:
        return constants
    for binding in bindings:
        if not is_kernel_call(binding.value):
            continue
        _kernel, tensors = binding.value.args
        operands = list(tensors.fields)
        if _are_constant(operands, constants):
            largest = max(_element_count(operand) for operand in operands if operand in constants)
            if _element_count(binding.var) <= largest:
                constants.add(binding.var)
    return constants


def _are_constant(arguments: list[Any], constants: set[Any]) -> bool:
    """Returns whether all operands of a kernel are literals or in ``constants``, and at least one in ``constants``."""
    is_literal_or_constant = (isinstance(x, ir.GenericConst) or x in constants for x in arguments)
    return any(x in constants for x in arguments) and all(is_literal_or_constant)


def _element_count(x: Any) -> float:
    """Returns the number of elements of a tensor, infinite where it isn't static."""
    shape = x.ty.shape.values if isinstance(x.ty, relax.TensorType) and x.ty.shape is not None else [None]
    return prod(int(dim) if isinstance(dim, tirx.IntImm) else inf for dim in shape)


def _constant_values(main: relax.Function) -> set[Any]:
    """Returns the constant parameters of ``main``, and the results of kernels on constants that ``prepare`` computes.

    The function ``prepare`` is passed constants only, and can't allocate a result with a symbolic dim. A result that
    anything but a kernel uses may be returned to the caller, so each call computes its own.
    """
    constants = {main.params[int(position)] for position in (main.attrs or {}).get(CONSTANTS, [])}
    if not constants:
        return constants
    escaping = _used_by_other_than_kernels(main)
    for binding in _kernel_calls(main):
        has_static_size = _element_count(binding.var) < inf
        if binding.var in escaping or not has_static_size:
            continue
        _kernel, tensors = binding.value.args
        if _are_constant(list(tensors.fields), constants):
            constants.add(binding.var)
    return constants


def _kernel_calls(main: relax.Function) -> list[relax.VarBinding]:
    return [binding for binding in bindings_of(main.body) if is_kernel_call(binding.value)]


def mark_constants(mod: tvm.IRModule) -> tvm.IRModule:
    """Marks each unscheduled kernel with the positions of the operands that are constant in all its calls.

    The schedule may then pack these operands once, before the first call. Kernels that loops and branches call get no
    mark.
    """
    main = mod["main"]
    constants = _constant_values(main)
    positions_by_kernel: dict[Any, list[set[int]]] = defaultdict(list)
    for binding in _kernel_calls(main):
        kernel, operands = binding.value.args
        constant_positions = {i for i, operand in enumerate(operands.fields) if operand in constants}
        positions_by_kernel[kernel].append(constant_positions)
    marked = mod.clone()
    for kernel, positions_by_call in positions_by_kernel.items():
        common = sorted(set.intersection(*positions_by_call))
        if common and kernel not in called_elsewhere(mod):
            marked.update_func(kernel, mod[kernel].with_attr(CONSTANT_OPERANDS, common))
    return marked


def kernels_on_constants(mod: tvm.IRModule) -> set[Any]:
    """Returns the kernels whose calls `hoist` moves to ``prepare``, so that they run only once."""
    main = mod["main"]
    constants = _constant_values(main)
    if not constants:
        return set()
    called, called_in_main = set(), set()
    for binding in _kernel_calls(main):
        kernel, *_ = binding.value.args
        called.add(kernel)
        if binding.var not in constants:
            called_in_main.add(kernel)
    return called - called_in_main


def called_elsewhere(mod: tvm.IRModule, entries: Sequence[str] = ("main",)) -> set[Any]:
    """Returns the functions and kernels that functions other than ``entries`` call, such as bodies of loops.

    Work on constants isn't moved out of such functions.

    Args:
      mod: the module.
      entries: the names of the entry functions.
    """
    called: set[Any] = set()
    for name, func in mod.functions_items():
        if isinstance(func, relax.Function) and name.name_hint not in entries:
            structural_walk(func.body, (ir.GlobalVar, called.add))
    return called


class _Pack(NamedTuple):
    """A kernel that fills a packed copy of constants: the positions of the arguments it reads, and the copy's type."""

    kernel: ir.GlobalVar
    reads: list[int]
    type: relax.TensorType


class _Hoist:
    """One split of ``main`` into the work ``before`` all calls and the work ``after``, done in each."""

    def __init__(self, mod: tvm.IRModule, main: relax.Function, positions: list[int]) -> None:
        """Prepares to split ``main``, without moving anything yet.

        Args:
          mod: the module.
          main: its function ``main``.
          positions: the positions of the parameters that are constant.
        """
        self.mod = mod.clone()
        self.main = main
        self.constants = [main.params[position] for position in positions]
        self.constant_values = _constant_values(main)
        self.before, self.after = Bindings(), Bindings()
        self.split: dict[ir.GlobalVar, tuple[ir.GlobalVar, list[_Pack]]] = {}
        self.packs: dict[Any, relax.Var] = {}

    def run(self) -> tvm.IRModule:
        """Moves the work on constants from ``main`` to a new function ``prepare``, and returns the new module.

        The results of ``prepare`` become the last parameters of ``main``. A program whose weights are constant then
        packs or transforms them once instead of in each call.
        """
        for binding in bindings_of(self.main.body):
            self._distribute(binding)
        used = _variables([binding.value for binding in self.after.bindings])
        prepared = [binding.var for binding in self.before.bindings if binding.var in used]
        self._add_prepare(prepared)
        main = self.after.function(self.main)
        params = [*main.params, *prepared]
        self.mod["main"] = relax.Function(params, main.body, main.ret_ty, main.is_pure, main.attrs, main.span)
        return self.mod

    def _distribute(self, binding: relax.VarBinding) -> None:
        """Assigns a binding of ``main`` to ``before`` (run once, in ``prepare``) or ``after`` (run in each call).

        Kernel calls on constants alone go to ``before``. If another kernel packs some constants, only its packing goes
        to ``before``.
        """
        call = binding.value
        if not is_kernel_call(call):
            self.after.rebind(binding, call)
        elif binding.var in self.constant_values:
            kernel = call.args[0]
            # The kernel runs only once, so that a later schedule must not pack its operands in advance.
            self.mod.update_func(kernel, self.mod[kernel].without_attr(CONSTANT_OPERANDS))
            self.before.bind(binding.var, call)
        else:
            self.after.bind(binding.var, self._with_packs(call))

    def _with_packs(self, call: relax.Call) -> relax.Call:
        """Rewrites a kernel call to pass packed copies of the kernel's constants as further operands.

        If the kernel packs no constants, the call is returned unchanged. The packed copies are made once, before the
        first call.
        """
        name, tensors = call.args
        arguments = list(tensors.fields)
        kernel, packs = self._split(name, len(arguments))
        if not packs:
            return call
        copies = []
        for pack in packs:
            packed_arguments = [arguments[i] for i in pack.reads]
            copies.append(self._packed_copy(pack, packed_arguments))
        operands = relax.Tuple([*arguments, *copies])
        return relax.Call(_CALL_TIR, [kernel, operands], ty_args=call.ty_args, span=call.span, ret_ty=call.ty)

    def _packed_copy(self, pack: _Pack, arguments: list[Any]) -> relax.Var:
        """Emits the call that packs constants, once for the same constants, and returns the variable with the copy."""
        key = pack.kernel, tuple(arguments)
        if key not in self.packs:
            call = relax.Call(_CALL_TIR, [pack.kernel, relax.Tuple(arguments)], ty_args=[pack.type], ret_ty=pack.type)
            self.packs[key] = self.before.emit(call, pack.kernel.name_hint)
        return self.packs[key]

    def _split(self, name: ir.GlobalVar, inputs: int) -> tuple[ir.GlobalVar, list[_Pack]]:
        """Returns a kernel without the statements that pack constants, and the kernels that do; made once."""
        if name not in self.split:
            self.split[name] = self._new_split(name, inputs)
        return self.split[name]

    def _new_split(self, name: ir.GlobalVar, inputs: int) -> tuple[ir.GlobalVar, list[_Pack]]:
        """Splits a kernel into kernels that pack its constants and a remainder, and adds these to the module.

        Returns the remainder, which takes the packed copies as further inputs, and the packing kernels.

        Args:
          name: the kernel.
          inputs: the number of its inputs; its outputs follow them.
        """
        func = self.mod[name]
        constants = {func.params[i] for i in constant_operands(func)}
        statements_by_copy, remainder = _split_packing(func, constants)
        if not statements_by_copy:
            return name, []
        packs = [
            self._pack(name, func, packed_copy, statements) for packed_copy, statements in statements_by_copy.items()
        ]
        params = [*func.params[:inputs], *statements_by_copy, *func.params[inputs:]]
        # The remainder gets the kernel's name.
        del self.mod[name]
        kernel = _with_shifted_pairs(_build_kernel(func, params, remainder), len(statements_by_copy))
        return self._add(name.name_hint, kernel), packs

    def _pack(self, name: ir.GlobalVar, func: tirx.PrimFunc, buffer: tirx.Var, statements: list[tirx.Stmt]) -> _Pack:
        """Builds a kernel that fills the packed copy of a constant, and adds the kernel to the module.

        Args:
          name: the name of the kernel ``func``, whose statements are used.
          func: the kernel that reads the packed copy.
          buffer: the packed copy.
          statements: the statements of ``func`` that fill the copy.
        """
        used = _variables(statements)
        reads = [i for i, param in enumerate(func.params) if param in used]
        params = [*(func.params[i] for i in reads), buffer]
        # The name and attributes don't depend on `func`, so that equal packing kernels have equal code.
        attrs = tvm.ir.make_node("ir.DictAttrs", **{SCHEDULED: True, "tirx.noalias": True})
        kernel = self._add("pack", _build_kernel(func, params, statements, attrs))
        shape = relax.ShapeExpr([tirx.IntImm("int64", int(extent)) for extent in buffer.ty.shape])
        return _Pack(kernel, reads, relax.TensorType(shape, str(buffer.ty.dtype.dtype)))

    def _add(self, name: str, func: tirx.PrimFunc) -> ir.GlobalVar:
        """Adds a function to the module under a unique name made from ``name``, and returns its global variable."""
        used_names = {var.name_hint for var in self.mod.get_global_vars()}
        unique_name, suffix = name, 0
        while unique_name in used_names:
            suffix += 1
            unique_name = f"{name}_{suffix}"
        var = Bindings.typed(ir.GlobalVar(unique_name), func.ty)
        self.mod.update_func(var, func)
        return var

    def _add_prepare(self, needed: list[relax.Var]) -> None:
        """Adds the function ``prepare``, which runs once before the first call, to the module.

        It computes the values that ``main`` needs (``needed``) from the constants, which are its parameters.
        """
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


def _with_shifted_pairs(func: tirx.PrimFunc, added_inputs: int) -> tirx.PrimFunc:
    """Corrects the positions of a kernel's in-place pairs after inputs were added before its outputs.

    An in-place pair is (output, input): two parameters that may share memory.
    """
    if INPLACE_PAIRS not in func.attrs:
        return func
    shifted_pairs = [[int(output) + added_inputs, int(source)] for output, source in func.attrs[INPLACE_PAIRS]]
    return func.with_attr(INPLACE_PAIRS, shifted_pairs)


def _force_pure(main: relax.Function) -> dict[str, Any]:
    """Returns the attribute by which ``main`` disables Relax's purity check, if it has it."""
    name = "relax.force_pure"
    return {name: main.attrs[name]} if main.attrs and name in main.attrs else {}


def is_kernel_call(value: Any) -> bool:
    """Returns whether a value is a kernel called on tensors only: symbolic dims would be a third argument."""
    return isinstance(value, relax.Call) and value.op == _CALL_TIR and len(value.args) == 2


def _used_by_other_than_kernels(main: relax.Function) -> set[Any]:
    """Returns the variables that anything but a kernel uses: tuples, branches, loops, and the function's result."""
    values = [binding.value for binding in bindings_of(main.body)]
    return _variables([main.body.body, *(value for value in values if not is_kernel_call(value))])


def _split_packing(func: tirx.PrimFunc, constants: set[Any]) -> tuple[dict[Any, list[tirx.Stmt]], list[tirx.Stmt]]:
    """Separates the statements of a scheduled kernel that only pack constant operands from all others.

    To pack an operand is to copy it into a buffer in the order in which the kernel reads it. The packing of constants
    moves to kernels of their own, which run once; their buffers become inputs of the remainder.

    Args:
      func: the kernel.
      constants: its parameters whose arguments are constant.

    Returns:
      The packing statements, as lists by the buffer that they fill, and the list of all other statements without the
      allocations of these buffers. If nothing is packed, the first is empty, and the second isn't used.
    """
    # Only a kernel with a root block is split.
    if not isinstance(func.body, tvm.s_tir.SBlockRealize):
        return {}, []
    body = func.body.block.body
    statements = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    packing: dict[Any, list[tirx.Stmt]] = {}
    for allocation in statements:
        if isinstance(allocation, tirx.AllocBuffer):
            writers = [statement for statement in statements if allocation.buffer in written_buffers(statement)]
            # Every writer must be moved, or the packed copy would depend on the kernel's other operands.
            if writers and all(_only_packs(writer, allocation.buffer, constants) for writer in writers):
                packing[allocation.buffer] = writers
    packing_statements = list(chain(*packing.values()))

    def is_hoisted(statement: tirx.Stmt) -> bool:
        """Returns whether a statement fills or allocates a packed buffer."""
        if isinstance(statement, tirx.AllocBuffer) and statement.buffer in packing:
            return True
        return any(statement.same_as(other) for other in packing_statements)

    return packing, [statement for statement in statements if not is_hoisted(statement)]


def _only_packs(statement: tirx.Stmt, buffer: Any, constants: set[Any]) -> bool:
    """Returns whether a statement fills ``buffer`` from constants alone.

    Buffers that the statement allocates itself may also be read and written.

    Args:
      statement: a statement of a kernel.
      buffer: the packed copy.
      constants: the kernel's parameters that are constant.
    """
    own_buffers = {buffer, *(allocation.buffer for allocation in _allocations(statement))}
    if not written_buffers(statement) <= own_buffers:
        return False
    read: set[Any] = set()
    structural_walk(statement, (ir.TensorLoad, lambda load: read.add(load.source)))
    return bool(read & constants) and read <= constants | own_buffers


def _allocations(statement: tirx.Stmt) -> list[Any]:
    allocations: list[Any] = []
    structural_walk(statement, (tirx.AllocBuffer, allocations.append))
    return allocations


def _build_kernel(
    like: tirx.PrimFunc, params: list[Any], statements: list[tirx.Stmt], attrs: ir.DictAttrs | None = None
) -> tirx.PrimFunc:
    """Builds a kernel from statements, with the result type of the kernel ``like``, and its attributes by default."""
    root = tvm.s_tir.SBlock([], [], [], "root", emit.sequence(statements))
    body = tvm.s_tir.SBlockRealize([], True, root)
    return tirx.PrimFunc(params, body, like.ty.ret, like.attrs if attrs is None else attrs)


def _replaced(value: Any, replacements: dict[Any, Any]) -> Any:
    return structural_map(value, (ir.Var, lambda var: replacements.get(var, var)))


def _variables(values: list[Any]) -> set[Any]:
    found: set[Any] = set()
    for value in values:
        structural_walk(value, (ir.Var, found.add))
    return found
