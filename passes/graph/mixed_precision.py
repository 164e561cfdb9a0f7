"""Mixed precision: products and convolutions in 16 bits, sums and everything delicate in float32, as a pass on the dialect.

A function traced under a 16-bit policy carries its compute type. Operands of products are cast to it; cheap elementwise work
and what only moves data stays in it where all of its operands are; everything else gets float32, so Variables, losses and
optimizers see nothing of it. The lists follow TensorFlow's graph rewrite.

Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/mixed_precision/enable_mixed_precision_graph_rewrite
"""

from __future__ import annotations

from typing import Any

import tvm

from tvtf.core.primitive import Primitive, as_tuple
from tvtf.core.tensor import Tensor
from tvtf.dtypes import DType, bfloat16, float16, float32
from tvtf.ir.interpreter import Evaluation, reemit
from tvtf.ir.trace import COMPUTE
from tvtf.ops.rules import bind
from tvtf.passes.graph.simplify import constant_value, is_constant

NARROW = frozenset(("matmul", "contract", "conv", "conv_input_grad", "conv_filter_grad"))
"""What is worth 16 bits: arithmetic on every element many times, summed in float32 by the kernel."""

FOLLOWING = frozenset(
    (
        *(
            "relu",
            "relu6",
            "leaky_relu",
            "relu_grad",
            "add",
            "subtract",
            "multiply",
            "maximum",
            "minimum",
            "negative",
            "abs",
            "bias_add",
        ),
        *(
            "select",
            "concat",
            "stack",
            "split",
            "reshape",
            "broadcast_to",
            "transpose",
            "identity",
            "apart",
            "stop_gradient",
            "pad",
        ),
        *("tile", "strided_slice", "strided_slice_grad", "gather", "max_pool", "max_pool_grad", "max_pool_pick"),
    )
)
"""What loses nothing, or little, in 16 bits: it stays there where all it reads is there."""

INDIFFERENT = frozenset(("cast", "shape", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal"))
"""What gives no floats, or is told its type: comparisons are as exact in the type of what they compare."""


def mixed_precision(mod: tvm.IRModule) -> tvm.IRModule:
    """The module computed in the type that its ``main`` was traced for; the same one where that is none."""
    attrs = mod["main"].attrs
    if not attrs or COMPUTE not in attrs:
        return mod
    return reemit(mod, KINDS[str(attrs[COMPUTE])])


class Mixed(Evaluation):
    """Binds primitives on float32 tensors in the compute type or in float32, casting what comes in the other.

    Tensors that the program itself holds in 16 bits are none of its business.
    """

    compute: DType

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.narrow: dict[int, Tensor] = {}

    def run(self) -> tuple[Tensor, ...]:
        return tuple(map(self.widened, super().run()))

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        if prim.name in NARROW and all(x._type.dtype is float32 or self.is_narrow(x) for x in inputs):
            return self.marked(prim.bind(*map(self.narrowed, inputs), **attrs))
        if prim.name in FOLLOWING and self.stays_narrow(inputs):
            return self.marked(prim.bind(*map(self.narrowed, inputs), **attrs))
        if prim.name in INDIFFERENT and self.stays_narrow(inputs):
            return prim.bind(*map(self.narrowed, inputs), **attrs)
        return prim.bind(*map(self.widened, inputs), **attrs)

    def is_narrow(self, x: Tensor) -> bool:
        return id(x) in self.narrow

    def stays_narrow(self, inputs: list[Any]) -> bool:
        """Whether an operand is narrow, and no other needs float32."""
        wide = [x for x in inputs if x._type.dtype is float32]
        return any(map(self.is_narrow, inputs)) and all(self.fits(x) for x in wide)

    def fits(self, x: Tensor) -> bool:
        """Whether an operand is a single number that has a value in the compute type."""
        return is_constant(x) and x._type.shape == () and abs(float(constant_value(x))) <= float(self.compute.max)

    def marked(self, results: Any) -> Any:
        self.narrow |= {id(x): x for x in as_tuple(results) if x._type.dtype is self.compute}
        return results

    def narrowed(self, x: Tensor) -> Tensor:
        return bind.cast(x, dtype=self.compute) if x._type.dtype is float32 else x

    def widened(self, x: Tensor) -> Tensor:
        return bind.cast(x, dtype=float32) if self.is_narrow(x) else x


class InFloat16(Mixed):
    compute = float16


class InBfloat16(Mixed):
    compute = bfloat16


KINDS = {"float16": InFloat16, "bfloat16": InBfloat16}
