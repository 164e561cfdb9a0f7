"""TE kernel of a sparse matrix product: one pass over the elements, each adding a scaled row to a row."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvtf.ops.kernels.common import INDEPENDENT, accumulator_dtype, as_dtype, flat_buffer, long
from tvtf.ops.kernels.indexing import columns, statements
from tvtf.ops.kernels.reduce import narrowed


def matmul(indices: te.Tensor, values: te.Tensor, b: te.Tensor, *, rows: Any) -> te.Tensor:
    """Multiplies a sparse by a dense matrix, columns in parallel, for elements of one row would race.

    Indices out of range are skipped.
    """
    count, inner, width = values.shape[0], b.shape[0], b.shape[1]
    wide = accumulator_dtype(str(b.dtype))

    def body(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            (at, scales, dense), out = map(flat_buffer, ins), flat_buffer(outs[0])
            with statements():
                with T.serial(long(0), long(rows) * width, annotations=INDEPENDENT) as i:
                    out[i] = tirx.const(0, wide)
                with columns(count, width) as (first, part), T.serial(long(0), count) as i:
                    row, column = at[i * 2], at[i * 2 + 1]
                    inside = tirx.all(row >= 0, row < long(rows), column >= 0, column < long(inner))
                    with T.If(inside), T.Then(), T.serial(long(0), part, annotations=INDEPENDENT) as j:
                        to = row * width + first + j
                        product = as_dtype(scales[i], wide) * as_dtype(dense[column * width + first + j], wide)
                        out[to] = out[to] + product
            return builder.get()

    shape = [long(rows), long(width)]
    result = te.extern([shape], [indices, values, b], body, name="sparse_matmul", dtype=wide)
    return narrowed(result, str(b.dtype))
