"""Which of the checks that TVM puts at the start of functions and kernels can't fail or were done by the caller."""

from __future__ import annotations

import tvm_ffi
from tvm import IRModule, ir, relax, tirx

TRUSTED = "tvtf.trusted_arguments"
COMPUTED = "compute_scope"
"""The attribute in which `tirx.transform.MakePackedAPI` puts a kernel's own body."""
TYPE_CHECKS = frozenset(
    f"vm.builtin.{name}"
    for name in ("check_tensor_info", "check_shape_info", "check_prim_value_info", "check_tuple_info")
)
MATCH_SHAPE = "vm.builtin.match_shape"
FIRST_DIM_CODE = 3
# src/runtime/vm/builtin.cc: 0 the dim equals a number, 1 it is stored, 2 anything goes, 3 it equals a stored one.
FIXED_DIM, ANY_DIM, KNOWN_DIM = 0, 2, 3
AT_PARAMETER, AT_RETURN = "loc=param[", "loc=return"


def is_needless_check(value: ir.Expr) -> bool:
    """Whether a binding only checks dtypes, ranks and static dims of a parameter, or what the function returns.

    A check that stores a symbolic dim, or holds one parameter's dim against another's, is needed.
    """
    if not isinstance(value, relax.Call) or not isinstance(value.op, relax.ExternFunc):
        return False
    name = value.op.global_symbol
    if name != MATCH_SHAPE:
        return name in TYPE_CHECKS and _where(value) != ""
    return _dim_codes(value) <= _needless_codes(_where(value))


def _where(call: relax.Call) -> str:
    context = call.args[-1]
    text = context.value if isinstance(context, ir.StringImm) else ""
    return next((place for place in (AT_PARAMETER, AT_RETURN) if place in text), "")


def _needless_codes(where: str) -> set[int]:
    return {AT_PARAMETER: {FIXED_DIM, ANY_DIM}, AT_RETURN: {FIXED_DIM, ANY_DIM, KNOWN_DIM}}.get(where, set())


def _dim_codes(match_shape: relax.Call) -> set[int]:
    args = list(match_shape.args)
    count = int(args[2].value)
    return {int(code.value) for code in args[FIRST_DIM_CODE : FIRST_DIM_CODE + 2 * count : 2]}


def has_asserts(kernel: tirx.PrimFunc) -> bool:
    """Whether a kernel, not lowered yet, checks something by itself."""
    found: list[tirx.AssertStmt] = []
    tvm_ffi.structural_walk(kernel.body, (tirx.AssertStmt, found.append))
    return bool(found)


def without_needless_checks(kernels: IRModule) -> IRModule:
    """Drop what lowered kernels marked as trusted check of their arguments: half of LLVM's work on all kernels."""
    result = kernels.clone()
    for name, func in kernels.functions_items():
        if func.attrs and TRUSTED in func.attrs:
            result.update_func(name, func.with_body(_unchecked(func.body)))
    return result


def _unchecked(stmt: tirx.Stmt) -> tirx.Stmt:
    """The start of a lowered kernel without its checks; what the kernel computes, and asserts, is as it was."""
    if isinstance(stmt, tirx.AttrStmt) and stmt.attr_key != COMPUTED:
        return tirx.AttrStmt(stmt.node, stmt.attr_key, stmt.value, _unchecked(stmt.body))
    if isinstance(stmt, tirx.SeqStmt):
        return tirx.SeqStmt([_unchecked(part) for part in stmt.seq if not _only_checks(part)])
    return stmt


def _only_checks(stmt: tirx.Stmt) -> bool:
    if isinstance(stmt, tirx.IfThenElse):
        return stmt.else_case is None and _only_checks(stmt.then_case)
    if isinstance(stmt, tirx.SeqStmt):
        return all(_only_checks(part) for part in stmt.seq)
    return isinstance(stmt, tirx.AssertStmt)
