"""Accumulators lie on the stack: a kernel that allocates one for each row spends its time there."""

import tvm
from schedule_programs import HOST, tensor
from tvm import te

from tvtf.ops.kernels import reduce
from tvtf.passes.codegen.llvm import lower_kernels
from tvtf.passes.codegen.stack import MOST_BYTES, with_local_stack
from tvtf.passes.schedule.cpu import emit, schedule


def lowered(rows, columns):
    x = tensor((rows, columns))
    func = te.create_prim_func([x, reduce.sum(x, axis=(1,), keepdims=False)]).with_attr("global_symbol", "main")
    return lower_kernels(tvm.IRModule({"main": schedule(func, HOST)}), HOST)[0].script()


def test_a_sum_of_many_rows_allocates_nothing_and_is_not_cut():
    script = lowered(1000, 1003)
    assert "accumulator" in script
    assert "AllocWorkspace" not in script


def test_what_is_large_or_shared_stays_where_it_is():
    large = emit.scratch([MOST_BYTES], "float32", "large", "local")
    shared = emit.scratch([4], "float32", "shared")
    small = emit.scratch([4], "float32", "small", "local")
    body = emit.sequence([emit.allocate(buffer) for buffer in (large, shared, small)])
    func = with_local_stack(tvm.IRModule({"main": tvm.tirx.PrimFunc([], body)}))["main"]
    assert [bool(stmt.annotations) for stmt in func.body.seq] == [False, False, True]
