"""Finds the argument checks that TVM adds to functions and kernels, and that can't fail or that the caller has made."""

from __future__ import annotations

from collections.abc import Iterable

from tvm import ir, relax, tirx

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
    made in the caller, need no check.

    Args:
      code: the bytecode of a function.
      untrusted: the registers of parameters, if the function's caller isn't trusted.
    """
    # Builtins in `MADE_HERE` return new values. Those in `HANDED_ON` return values of their operands.
    calls = [call for call in code.calls() if call.name not in MADE_HERE]
    foreign = {VOID, *untrusted, *(call.result for call in calls if call.name not in HANDED_ON)}
    # A register may be written several times, for example before a loop and in its body. So results are added until
    # nothing changes.
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
