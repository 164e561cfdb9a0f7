"""TE kernels of sparse matrices: one pass over the elements, each a row added to a row."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvtf.ops.kernels.common import INDEPENDENT, accumulator_dtype, as_dtype, flat_buffer, long
from tvtf.ops.kernels.indexing import columns, statements
from tvtf.ops.kernels.reduce import narrowed


def matmul(indices: te.Tensor, values: te.Tensor, b: te.Tensor, *, rows: Any) -> te.Tensor:
    """Places out of range are left out; columns in parallel, for elements of one row would race."""
    count, inner, width = values.shape[0], b.shape[0], b.shape[1]
    wide = accumulator_dtype(str(b.dtype))

    def body(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            (at, scales, given), out = map(flat_buffer, ins), flat_buffer(outs[0])
            with statements():
                with T.serial(long(0), long(rows) * width, annotations=INDEPENDENT) as i:
                    out[i] = tirx.const(0, wide)
                with columns(count, width) as (first, part), T.serial(long(0), count) as i:
                    row, column = at[i * 2], at[i * 2 + 1]
                    inside = tirx.all(row >= 0, row < long(rows), column >= 0, column < long(inner))
                    with T.If(inside), T.Then(), T.serial(long(0), part, annotations=INDEPENDENT) as j:
                        to = row * width + first + j
                        product = as_dtype(scales[i], wide) * as_dtype(given[column * width + first + j], wide)
                        out[to] = out[to] + product
            return builder.get()

    shape = [long(rows), long(width)]
    found = te.extern([shape], [indices, values, b], body, name="sparse_matmul", dtype=wide)
    return narrowed(found, str(b.dtype))
