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
    """Multiplies a sparse matrix of ``rows`` rows in coordinate format by the dense matrix ``b``.

    Each element of the sparse matrix adds a scaled row of ``b`` to a row of the result. Columns run in parallel, because
    elements of one row would race. Indices out of range are skipped.
    """
    count, dense_rows, dense_columns = values.shape[0], b.shape[0], b.shape[1]
    accumulation_dtype = accumulator_dtype(str(b.dtype))

    def build_ir(ins: Any, outs: Any) -> Any:
        """Emits the product of a sparse and a dense matrix.

        One loop fills the result with zeros. Then, for each block of columns, a loop over all sparse elements adds the
        element's value times a row of the dense matrix to a row of the result. Elements out of range are skipped.

        Args:
          ins, outs: the buffers of the inputs and of the results.
        """
        with IRBuilder() as builder:
            element_indices, element_values, dense = map(flat_buffer, ins)
            out = flat_buffer(outs[0])
            with statements():
                with T.serial(long(0), long(rows) * dense_columns, annotations=INDEPENDENT) as i:
                    out[i] = tirx.const(0, accumulation_dtype)
                with columns(count, dense_columns) as (first, column_count), T.serial(long(0), count) as i:
                    row, column = element_indices[i * 2], element_indices[i * 2 + 1]
                    is_valid = tirx.all(row >= 0, row < long(rows), column >= 0, column < long(dense_rows))
                    with T.If(is_valid), T.Then(), T.serial(long(0), column_count, annotations=INDEPENDENT) as j:
                        sparse_element = as_dtype(element_values[i], accumulation_dtype)
                        dense_element = as_dtype(dense[column * dense_columns + first + j], accumulation_dtype)
                        target = row * dense_columns + first + j
                        out[target] = out[target] + sparse_element * dense_element
            return builder.get()

    shape = [long(rows), long(dense_columns)]
    result = te.extern([shape], [indices, values, b], build_ir, name="sparse_matmul", dtype=accumulation_dtype)
    return narrowed(result, str(b.dtype))
