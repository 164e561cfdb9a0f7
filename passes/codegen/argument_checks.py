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
    """Returns whether a binding only checks dtypes, ranks and static dims of a parameter, or what a function returns.

    A check that stores a symbolic dim, or compares one parameter's dim with another's, is needed.
    """
    if not isinstance(value, relax.Call) or not isinstance(value.op, relax.ExternFunc):
        return False
    name = value.op.global_symbol
    if name != MATCH_SHAPE:
        return name in TYPE_CHECKS and _checked_place(value) != ""
    return _codes_of_dims(value) <= _redundant_codes(_checked_place(value))


def _checked_place(call: relax.Call) -> str:
    """Returns whether a check of TVM's is of a parameter or at a return, by the text for its error; else ""."""
    context = call.args[-1]
    error_text = context.value if isinstance(context, ir.StringImm) else ""
    return next((mark for mark in (AT_PARAMETER, AT_RETURN) if mark in error_text), "")


def _redundant_codes(place: str) -> set[int]:
    """Returns the codes of dims in a shape check that can't fail: at a return, also those of known dims."""
    return {AT_PARAMETER: {FIXED_DIM, ANY_DIM}, AT_RETURN: {FIXED_DIM, ANY_DIM, KNOWN_DIM}}.get(place, set())


def _codes_of_dims(match_shape: relax.Call) -> set[int]:
    """Returns the codes that say what a shape check does with each dim."""
    args = list(match_shape.args)
    # A value and the heap of dims, the number of dims, then a code and an operand for each.
    count = int(args[2].value)
    return {int(code.value) for code in args[FIRST_DIM_CODE : FIRST_DIM_CODE + 2 * count : 2]}


def checking_kernels(code: Code, untrusted: Iterable[Register]) -> set[str]:
    """Returns the called functions that must check their arguments, since these may come from outside.

    Safe arguments are constants, tensors and numbers made in the function, and parameters of a trusted caller;
    `untrusted` are the parameters of any other caller. A register may hold values from several places: those of a loop
    are written before it and by its body. So the set of registers with foreign values grows until it is stable.
    """
    calls = [call for call in code.calls() if call.name not in MADE_HERE]
    foreign = {VOID, *untrusted, *(call.result for call in calls if call.name not in HANDED_ON)}
    previous_count = 0
    while previous_count < len(foreign):
        previous_count = len(foreign)
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
            result.update_func(name, func.with_body(_Prologue().unchecked(func.body)))
    return result


class _Prologue:
    """Rewrites the prologue of a lowered kernel, which unpacks and checks its arguments.

    It goes backwards, so that it is known what the later code uses.
    """

    def __init__(self) -> None:
        self.used: set[tirx.Var] = set()

    def unchecked(self, stmt: tirx.Stmt) -> tirx.Stmt:
        """Returns the prologue without its checks and unused bindings; the body and its assertions are unchanged.

        Each argument nests the rest of the prologue in itself, so a loop replaces recursion: many arguments would
        overflow Python's stack.
        """
        enclosing: list[tirx.AttrStmt | Sequence[tirx.Stmt]] = []
        while (isinstance(stmt, tirx.AttrStmt) and stmt.attr_key != COMPUTED) or isinstance(stmt, tirx.SeqStmt):
            if isinstance(stmt, tirx.SeqStmt):
                *preceding, last = stmt.seq
                enclosing.append(preceding)
                stmt = _without_other_cases(last)
            else:
                enclosing.append(stmt)
                stmt = stmt.body
        self.use(stmt)
        for outer in reversed(enclosing):
            stmt = self.enclosed(outer, stmt) if isinstance(outer, tirx.AttrStmt) else self.preceded(outer, stmt)
        return stmt

    def enclosed(self, outer: tirx.AttrStmt, body: tirx.Stmt) -> tirx.Stmt:
        """Returns a statement within an attribute, unless that promises no more than the item alignment of a buffer."""
        if outer.attr_key == ALIGNED and int(outer.value) <= _item_bytes(outer.node):
            return body
        self.use(outer.value)
        return tirx.AttrStmt(outer.node, outer.attr_key, outer.value, body)

    def preceded(self, before: Sequence[tirx.Stmt], last: tirx.Stmt) -> tirx.Stmt:
        """Returns a statement after those of ``before`` that are needed: no checks, no bindings of unused variables."""
        remaining = [last]
        for part in reversed(before):
            if _only_checks(part) or (isinstance(part, tirx.Bind) and part.var not in self.used):
                continue
            remaining.append(self.unchecked(_without_other_cases(part)))
        return emit.sequence(remaining[::-1])

    def use(self, node: tirx.Stmt | ir.Expr) -> None:
        """Records the variables of a statement or expression as used."""
        structural_walk(node, (tirx.Var, self.used.add))


def _item_bytes(buffer: Any) -> int:
    return int(buffer.ty.dtype.dtype.itemsize) if is_buffer_var(buffer) else 0


def _without_other_cases(stmt: tirx.Stmt) -> tirx.Stmt:
    """Binds an argument's memory as that of a tensor: the VM never passes DLTensors, which TVM also allows for."""
    value = stmt.value if isinstance(stmt, tirx.Bind) else None
    if not isinstance(value, ir.Call) or not value.op.same_as(CHOOSE):
        return stmt
    test, of_tensor, *_ = value.args
    is_tensor_test = isinstance(test, tirx.EQ) and isinstance(test.b, tirx.IntImm) and int(test.b) == TENSOR_OBJECT
    return tirx.Bind(stmt.var, of_tensor) if is_tensor_test else stmt


def _only_checks(stmt: tirx.Stmt) -> bool:
    """Returns whether a statement consists of assertions only."""
    if isinstance(stmt, tirx.IfThenElse):
        return stmt.else_case is None and _only_checks(stmt.then_case)
    if isinstance(stmt, tirx.SeqStmt):
        return all(_only_checks(part) for part in stmt.seq)
    return isinstance(stmt, tirx.AssertStmt)
