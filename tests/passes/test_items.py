"""Tuple items are extracted before kernels are fused."""

import numpy as np
from tvm import relax, transform

from tvtf.passes.lower.hoist_tuple_items import HoistTupleItems

FUSION = [
    relax.transform.LegalizeOps(),
    HoistTupleItems,
    relax.transform.AnnotateTIROpPattern(),
    relax.transform.FuseOps(),
    relax.transform.FuseTIR(),
]


def sums_of_items(tuples: int) -> relax.expr.Expr:
    """A constant plus two of the three items of each of some tuples."""
    builder = relax.BlockBuilder()
    vector = relax.TensorType([4], "float32")
    params = [relax.Var(f"t{i}", relax.TupleType([vector] * 3)) for i in range(tuples)]
    with builder.function("main", params):
        with builder.dataflow():
            total = relax.const(np.arange(4, dtype="float32"))
            for param in params:
                for index in (0, 2):
                    total = builder.emit(relax.op.add(total, builder.emit(relax.TupleGetItem(param, index))))
            total = builder.emit_output(relax.op.negative(total))
        builder.emit_func_output(total)
    return builder.get()


def test_kernels_that_read_items_of_many_tuples_are_fused_whatever_the_order_of_addresses():
    kept = []
    for _ in range(20):
        kept.append(sums_of_items(6))
        fused = transform.Sequential(FUSION)(kept[-1])
        kernels = [var.name_hint for var, func in fused.functions_items() if not isinstance(func, relax.Function)]
        (kernel,) = kernels
        assert len(fused[kernel].params) == 14
