"""Accumulators are on the stack, since heap allocation for each row would dominate a kernel's time."""

import tvm
from schedule_programs import HOST, tensor
from tvm import te
from tvm.target import Target

from tvtf.ops.kernels import reduce
from tvtf.ops.kernels.matmul import matmul
from tvtf.passes.codegen.llvm import lower_kernels
from tvtf.passes.codegen.stack_buffers import MAX_BYTES, with_local_stack
from tvtf.passes.schedule.cpu import emit, schedule


def lowered(operands, result, target=HOST):
    func = te.create_prim_func([*operands, result]).with_attr("global_symbol", "main")
    return lower_kernels(tvm.IRModule({"main": schedule(func, target)}), target)[0].script()


def test_a_sum_of_many_rows_allocates_nothing_and_is_not_cut():
    x = tensor((1000, 1003))
    script = lowered([x], reduce.sum(x, axis=(1,), keepdims=False))
    assert "accumulator" in script
    assert "AllocWorkspace" not in script


def test_the_highest_tile_of_a_product_whose_rows_end_in_a_part_of_a_vector_allocates_nothing():
    a, b = tensor((2800, 20), name="a"), tensor((20, 20), name="b")
    script = lowered([a, b], matmul(a, b), Target({"kind": "llvm", "mcpu": "x86-64-v4"}))
    assert "accumulator" in script
    assert "AllocWorkspace" not in script


def test_what_is_large_empty_or_shared_stays_where_it_is():
    large = emit.scratch([MAX_BYTES], "float32", "large", "local")
    empty = emit.scratch([0], "float32", "empty", "local")  # LLVM refuses it on the stack
    shared = emit.scratch([4], "float32", "shared")
    small = emit.scratch([4], "float32", "small", "local")
    body = emit.sequence([emit.allocate(buffer) for buffer in (large, empty, shared, small)])
    func = with_local_stack(tvm.IRModule({"main": tvm.tirx.PrimFunc([], body)}))["main"]
    assert [bool(stmt.annotations) for stmt in func.body.seq] == [False, False, False, True]
