"""Removes argument checks that TVM adds to functions and kernels, where they can't fail or the caller has made them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tvm import IRModule, ir, relax, tirx
from tvm.tirx.buffer import is_buffer_var

from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.codegen.bytecode import (
    COPY,
    DIM,
    MAKE_TUPLE,
    NULL,
    SHAPE_HEAP,
    TENSOR,
    TUPLE_ITEM,
    VOID,
    ZERO_OFFSET,
    Code,
    Register,
)
from tvtf.passes.schedule.cpu import emit

TRUSTED = "tvtf.trusted_arguments"
COMPUTED = "compute_scope"
"""The attribute that marks the statement in which `tirx.transform.MakePackedAPI` puts a kernel's own body."""
ALIGNED = "storage_alignment"
CHOOSE = ir.Op.get("prim.if_then_else")
TENSOR_OBJECT = 70
"""`kTVMFFITensor` in tvm/ffi/c_api.h."""
TYPE_CHECKS = frozenset(
    f"vm.builtin.{name}"
    for name in ("check_tensor_info", "check_shape_info", "check_prim_value_info", "check_tuple_info")
)
MATCH_SHAPE = "vm.builtin.match_shape"
FIRST_DIM_CODE = 3
# In src/runtime/vm/builtin.cc: 0 the dim equals a number, 1 it is stored, 2 it may be anything, 3 it equals a stored
# one.
FIXED_DIM, ANY_DIM, KNOWN_DIM = 0, 2, 3
MADE_HERE, HANDED_ON = (
    frozenset([NULL, TENSOR, SHAPE_HEAP, DIM]),
    frozenset([COPY, MAKE_TUPLE, TUPLE_ITEM, ZERO_OFFSET]),
)
AT_PARAMETER, AT_RETURN = "loc=param[", "loc=return"


def is_redundant_check(value: ir.Expr) -> bool:
    """Returns whether a binding only checks dtypes, ranks and static dims of a parameter, or what the function returns.

    A check that stores a symbolic dim, or compares one parameter's dim with another's, is needed.
    """
    if not isinstance(value, relax.Call) or not isinstance(value.op, relax.ExternFunc):
        return False
    name = value.op.global_symbol
    if name != MATCH_SHAPE:
        return name in TYPE_CHECKS and _where(value) != ""
    return _dim_codes(value) <= _redundant_codes(_where(value))


def _where(call: relax.Call) -> str:
    context = call.args[-1]
    text = context.value if isinstance(context, ir.StringImm) else ""
    return next((place for place in (AT_PARAMETER, AT_RETURN) if place in text), "")


def _redundant_codes(where: str) -> set[int]:
    return {AT_PARAMETER: {FIXED_DIM, ANY_DIM}, AT_RETURN: {FIXED_DIM, ANY_DIM, KNOWN_DIM}}.get(where, set())


def _dim_codes(match_shape: relax.Call) -> set[int]:
    args = list(match_shape.args)
    count = int(args[2].value)
    return {int(code.value) for code in args[FIRST_DIM_CODE : FIRST_DIM_CODE + 2 * count : 2]}


def checking_kernels(code: Code, untrusted: Iterable[Register]) -> set[str]:
    """Returns the callees that may get arguments from outside: these have to check them.

    Safe arguments are constants, tensors and numbers made in the function, and parameters of a trusted caller;
    `untrusted` are the parameters of any other caller. A register may hold values from several places: those of a loop
    are written before it and by its body. So the set of registers with foreign values grows until it is stable.
    """
    calls = [call for call in code.calls() if call.name not in MADE_HERE]
    foreign = {VOID, *untrusted, *(call.result for call in calls if call.name not in HANDED_ON)}
    known = 0
    while known < len(foreign):
        known = len(foreign)
        foreign |= {call.result for call in calls if not foreign.isdisjoint(call.operands)}
    return {call.name for call in calls if call.name not in HANDED_ON and not foreign.isdisjoint(call.operands)}


def has_asserts(kernel: tirx.PrimFunc) -> bool:
    """Returns whether a kernel that isn't lowered yet has assertions of its own."""
    asserts: list[tirx.AssertStmt] = []
    structural_walk(kernel.body, (tirx.AssertStmt, asserts.append))
    return bool(asserts)


def without_redundant_checks(kernels: IRModule) -> IRModule:
    """Drops the argument checks, and the unpacking of unused arguments, of kernels marked as trusted.

    They are most of LLVM's work on small kernels.
    """
    result = kernels.clone()
    for name, func in kernels.functions_items():
        if func.attrs and TRUSTED in func.attrs:
            result.update_func(name, func.with_body(_Arguments().unchecked(func.body)))
    return result


class _Arguments:
    """Rewrites the prologue of a lowered kernel from its end, so that it is known what the later code uses."""

    def __init__(self) -> None:
        self.used: set[tirx.Var] = set()

    def unchecked(self, stmt: tirx.Stmt) -> tirx.Stmt:
        """Returns the prologue without its checks and unused bindings; the body and its assertions are unchanged.

        Each argument nests the rest of the prologue in itself, so a loop replaces recursion: many arguments would
        overflow Python's stack.
        """
        around: list[tirx.AttrStmt | Sequence[tirx.Stmt]] = []
        while (isinstance(stmt, tirx.AttrStmt) and stmt.attr_key != COMPUTED) or isinstance(stmt, tirx.SeqStmt):
            if isinstance(stmt, tirx.SeqStmt):
                *before, last = stmt.seq
                around.append(before)
                stmt = _of_a_tensor(last)
            else:
                around.append(stmt)
                stmt = stmt.body
        self.use(stmt)
        for outer in reversed(around):
            stmt = self.inside(outer, stmt) if isinstance(outer, tirx.AttrStmt) else self.after(outer, stmt)
        return stmt

    def inside(self, outer: tirx.AttrStmt, body: tirx.Stmt) -> tirx.Stmt:
        if outer.attr_key == ALIGNED and int(outer.value) <= _item_bytes(outer.node):
            return body
        self.use(outer.value)
        return tirx.AttrStmt(outer.node, outer.attr_key, outer.value, body)

    def after(self, before: Sequence[tirx.Stmt], last: tirx.Stmt) -> tirx.Stmt:
        remaining = [last]
        for part in reversed(before):
            if _only_checks(part) or (isinstance(part, tirx.Bind) and part.var not in self.used):
                continue
            remaining.append(self.unchecked(_of_a_tensor(part)))
        return emit.sequence(remaining[::-1])

    def use(self, node: tirx.Stmt | ir.Expr) -> None:
        structural_walk(node, (tirx.Var, self.used.add))


def _item_bytes(buffer: Any) -> int:
    return int(buffer.ty.dtype.dtype.itemsize) if is_buffer_var(buffer) else 0


def _of_a_tensor(stmt: tirx.Stmt) -> tirx.Stmt:
    """Simplifies the choice of where an argument's memory is described: the VM passes tensors only, never DLTensors."""
    value = stmt.value if isinstance(stmt, tirx.Bind) else None
    if not isinstance(value, ir.Call) or not value.op.same_as(CHOOSE):
        return stmt
    test = value.args[0]
    reads_tensor = isinstance(test, tirx.EQ) and isinstance(test.b, tirx.IntImm) and int(test.b) == TENSOR_OBJECT
    return tirx.Bind(stmt.var, value.args[1]) if reads_tensor else stmt


def _only_checks(stmt: tirx.Stmt) -> bool:
    if isinstance(stmt, tirx.IfThenElse):
        return stmt.else_case is None and _only_checks(stmt.then_case)
    if isinstance(stmt, tirx.SeqStmt):
        return all(_only_checks(part) for part in stmt.seq)
    return isinstance(stmt, tirx.AssertStmt)
