"""Kernels unpack what a trusted caller passes: tensors of known and unknown sizes, and numbers."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import tirx

from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.codegen.llvm import kernel_module, lower_kernels
from tvtf.passes.codegen.packed_entry import TRUSTED
from tvtf.runtime.target import host_target


def kernel(params, body, **attrs):
    """A kernel called "kernel" whose callers are trusted."""
    return tirx.PrimFunc(params, body).with_attrs({"global_symbol": "kernel", "s_tir": True, TRUSTED: True, **attrs})


def loops(extents, body):
    """Loops around what ``body`` returns for their variables."""
    variables = [tirx.Var(f"i{axis}", "int64") for axis in range(len(extents))]
    stmt = body(variables)
    for variable, extent in reversed(list(zip(variables, extents, strict=True))):
        stmt = tirx.For(variable, tirx.IntImm("int64", 0), extent, tirx.ForKind.SERIAL, stmt)
    return stmt


def checks_of(func):
    """The number of assertions in the code that a kernel is lowered to."""
    host, _ = lower_kernels(tvm.IRModule({"kernel": func}), host_target())
    found = []
    for lowered in host.functions.values():
        structural_walk(lowered.body, (tirx.AssertStmt, found.append))
    return len(found)


def test_sizes_numbers_and_memory_are_what_the_caller_passes():
    n, k, number = (tirx.Var(name, "int64") for name in ("n", "k", "number"))
    two = tirx.IntImm("int64", 2)
    x = tirx.decl_buffer((n, k), "float32", "x")
    doubled = tirx.decl_buffer((n * two, k), "float32", "doubled")  # its first size follows from that of x
    flags = tirx.decl_buffer((k,), "bool", "flags")
    scale = tirx.decl_buffer((), "float32", "scale")

    def scaled(at):
        row, column = at
        value = x[row // two, column] * scale[()] + tirx.Cast("float32", number)
        return tirx.BufferStore(doubled, tirx.Select(flags[column], value, tirx.const(0.0, "float32")), [row, column])

    func = kernel([x, flags, number, scale, doubled], loops((n * two, k), scaled))
    assert checks_of(func) == 0
    run = kernel_module(tvm.IRModule({"kernel": func}), host_target())["kernel"]
    for rows, columns in [(3, 4), (1, 1), (0, 2)]:
        values = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        given = [
            values,
            np.arange(columns) % 2 == 0,
            np.array(0.5, np.float32),
            np.full((2 * rows, columns), 9, np.float32),
        ]
        first, second, third, result = map(tvm.runtime.tensor, given)
        run(first, second, 7, third, result)
        expected = np.where(given[1], np.repeat(values, 2, axis=0) * np.float32(0.5) + 7, np.float32(0))
        np.testing.assert_array_equal(result.numpy(), expected)


def test_a_tensor_may_have_an_offset_that_only_the_call_knows():
    x = tirx.decl_buffer((4,), "float32", "x", elem_offset=tirx.Var("offset", "int64"))
    y = tirx.decl_buffer((4,), "float32", "y")
    func = kernel([x, y], loops((tirx.IntImm("int64", 4),), lambda at: tirx.BufferStore(y, x[at[0]], at)))
    assert checks_of(func) == 0


def test_strides_are_checked():
    x, y = tirx.decl_buffer((4,), "float32", "x", strides=(2,)), tirx.decl_buffer((4,), "float32", "y")
    body = loops((tirx.IntImm("int64", 4),), lambda at: tirx.BufferStore(y, x[at[0]], at))
    assert checks_of(kernel([x, y], body)) > 0


def test_a_number_that_is_no_int64_is_checked():
    number, y = tirx.Var("number", "float32"), tirx.decl_buffer((4,), "float32", "y")
    body = loops((tirx.IntImm("int64", 4),), lambda at: tirx.BufferStore(y, number, at))
    assert checks_of(kernel([number, y], body)) > 0


def test_an_unknown_caller_is_not_trusted():
    x, y = (tirx.decl_buffer((4,), "float32", name) for name in "xy")
    body = loops((tirx.IntImm("int64", 4),), lambda at: tirx.BufferStore(y, x[at[0]], at))
    func = kernel([x, y], body)
    assert checks_of(func) == 0
    assert checks_of(func.without_attr(TRUSTED)) > 0
