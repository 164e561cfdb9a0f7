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
    """Returns whether a binding is a check of TVM's that can be left out.

    The dtype, rank and static dims of parameters, and the types of results, needn't be checked. A check that stores a
    symbolic dim, or compares the dims of two parameters, is needed.
    """
    if not isinstance(value, relax.Call) or not isinstance(value.op, relax.ExternFunc):
        return False
    name = value.op.global_symbol
    if name != MATCH_SHAPE:
        return name in TYPE_CHECKS and _checked_value(value) != ""
    return _codes_of_dims(value) <= _redundant_codes(_checked_value(value))


def _checked_value(call: relax.Call) -> str:
    """Returns the kind of value that TVM checks by a call: ``AT_PARAMETER``, ``AT_RETURN``, or "" for another kind.

    The call's last argument is the text of the check's error, which names the kind.
    """
    context = call.args[-1]
    error_text = context.value if isinstance(context, ir.StringImm) else ""
    for kind in (AT_PARAMETER, AT_RETURN):
        if kind in error_text:
            return kind
    return ""


def _redundant_codes(checked: str) -> set[int]:
    """Returns the codes of dims that a shape check needn't check, for a check of a parameter or of a returned value."""
    if checked == AT_PARAMETER:
        return {FIXED_DIM, ANY_DIM}
    if checked == AT_RETURN:
        return {FIXED_DIM, ANY_DIM, KNOWN_DIM}
    return set()


def _codes_of_dims(match_shape: relax.Call) -> set[int]:
    """Returns the set of codes in a shape check; a code says what the check does with a dim, such as ``FIXED_DIM``."""
    args = list(match_shape.args)
    # The arguments are a value, the heap of dims, the number of dims, then a code and an operand for each dim.
    count = int(args[2].value)
    return {int(code.value) for code in args[FIRST_DIM_CODE : FIRST_DIM_CODE + 2 * count : 2]}


def checking_kernels(code: Code, untrusted: Iterable[Register]) -> set[str]:
    """Returns the names of the called functions that must check their arguments.

    These functions are passed values from outside, such as parameters of the caller. Constants, and tensors and numbers
    made in the caller, need no check. A register may be written several times, such as before a loop and in the loop's
    body. So the set of registers with values from outside grows to a fixed point.

    Args:
      code: the bytecode of a function.
      untrusted: the registers of parameters, if the function's caller isn't trusted.
    """
    # Builtins in `MADE_HERE` return new values. Those in `HANDED_ON` return values of their operands.
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
    """Removes argument checks, and code that unpacks unused arguments, from the kernels that are marked as trusted.

    This code is most of LLVM's work on small kernels.
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
        """Removes the checks and unused bindings from a kernel's prologue; the kernel's own body stays unchanged.

        Each argument adds a level of nesting. A loop is used in place of recursion, which many arguments would make
        overflow Python's stack.
        """
        enclosing: list[tirx.AttrStmt | Sequence[tirx.Stmt]] = []
        while (isinstance(stmt, tirx.AttrStmt) and stmt.attr_key != COMPUTED) or isinstance(stmt, tirx.SeqStmt):
            if isinstance(stmt, tirx.SeqStmt):
                *preceding, last = stmt.seq[:]
                enclosing.append(preceding)
                stmt = _without_dltensor_case(last)
            else:
                enclosing.append(stmt)
                stmt = stmt.body
        self.use(stmt)
        for outer in reversed(enclosing):
            stmt = self.enclosed(outer, stmt) if isinstance(outer, tirx.AttrStmt) else self.with_needed(outer, stmt)
        return stmt

    def enclosed(self, outer: tirx.AttrStmt, body: tirx.Stmt) -> tirx.Stmt:
        """Returns ``body`` inside the attribute statement ``outer``.

        An attribute that only promises a buffer to be aligned to its elements is dropped.
        """
        if outer.attr_key == ALIGNED and int(outer.value) <= _item_bytes(outer.node):
            return body
        self.use(outer.value)
        return tirx.AttrStmt(outer.node, outer.attr_key, outer.value, body)

    def with_needed(self, before: Sequence[tirx.Stmt], last: tirx.Stmt) -> tirx.Stmt:
        """Returns the sequence of statements ``before`` and ``last``, without statements that aren't needed.

        Checks of arguments and bindings of unused variables aren't needed.
        """
        needed = [last]
        # From last to first: a needed statement adds the variables that it uses to `self.used`.
        for stmt in reversed(before):
            if _only_checks(stmt) or (isinstance(stmt, tirx.Bind) and stmt.var not in self.used):
                continue
            needed.append(self.unchecked(_without_dltensor_case(stmt)))
        return emit.sequence(needed[::-1])

    def use(self, node: tirx.Stmt | ir.Expr) -> None:
        """Records the variables of a statement or expression as used."""
        structural_walk(node, (tirx.Var, self.used.add))


def _item_bytes(buffer: Any) -> int:
    return int(buffer.ty.dtype.dtype.itemsize) if is_buffer_var(buffer) else 0


def _without_dltensor_case(stmt: tirx.Stmt) -> tirx.Stmt:
    """Simplifies the binding of an argument's memory to the case that the argument is a tensor object.

    TVM's code also has a case for a DLTensor, which the VM never passes.
    """
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
