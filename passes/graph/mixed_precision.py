"""Mixed precision as a pass on the dialect: matmuls and convolutions in 16 bits, the rest in float32 where it matters.

A function traced under a 16-bit policy carries its compute type. Operands of matmuls and convolutions are cast to it.
Cheap elementwise ops and ops that only move data stay in it if all of their operands are in it. Everything else is in
float32, so Variables, losses and optimizers are unaffected. The lists follow TensorFlow's graph rewrite.

Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/mixed_precision/enable_mixed_precision_graph_rewrite
"""

from __future__ import annotations

from typing import Any

import tvm

from tvtf.core.primitive import Primitive, as_tuple
from tvtf.core.tensor import Tensor
from tvtf.dtypes import DType, bfloat16, float16, float32
from tvtf.ir.graph import COMPUTE
from tvtf.ir.interpreter import Evaluation, reemit
from tvtf.ops.rules import bind
from tvtf.passes.graph.simplify import constant_value, is_constant

NARROW = frozenset(("matmul", "contract", "conv", "conv_input_grad", "conv_filter_grad"))
"""Ops that gain from 16 bits: they use each element many times, and their kernels accumulate in float32."""

FOLLOWING = frozenset(
    [
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
        "tile",
        "strided_slice",
        "strided_slice_grad",
        "gather",
        "max_pool",
        "max_pool_grad",
        "max_pool_pick",
    ]
)
"""Ops that lose little or nothing in 16 bits: they stay in it where all of their operands are in it."""

TYPE_PRESERVING = frozenset(("cast", "shape", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal"))
"""Ops whose result isn't a float or whose dtype is an attribute; comparisons are exact in their operands' own dtype."""


def mixed_precision(mod: tvm.IRModule) -> tvm.IRModule:
    """Computes the module in the dtype that its ``main`` was traced for; returns it unchanged where there is none."""
    attrs = mod["main"].attrs
    if not attrs or COMPUTE not in attrs:
        return mod
    return reemit(mod, KINDS[str(attrs[COMPUTE])])


class Mixed(Evaluation):
    """Binds primitives on float32 tensors in the compute dtype or in float32, with casts between the two.

    Tensors that the program itself keeps in 16 bits are left alone.
    """

    compute: DType

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.narrow: dict[int, Tensor] = {}

    def run(self) -> tuple[Tensor, ...]:
        return tuple(map(self.widened, super().run()))

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Emits a primitive in the 16-bit compute dtype where that is accurate enough, else in float32.

        The operands are cast accordingly. Primitives in ``NARROW``, such as matmul, run in 16 bits even if all operands
        are float32. Primitives in ``FOLLOWING`` and ``TYPE_PRESERVING`` run in 16 bits if an operand has 16 bits already.

        Args:
          prim: the primitive.
          inputs: its operands.
          attrs: its attributes.
        """
        if prim.name in NARROW and all(x._type.dtype is float32 or self.is_narrow(x) for x in inputs):
            return self.remember_narrow(prim.bind(*map(self.narrowed, inputs), **attrs))
        if prim.name in FOLLOWING and self.stays_narrow(inputs):
            return self.remember_narrow(prim.bind(*map(self.narrowed, inputs), **attrs))
        if prim.name in TYPE_PRESERVING and self.stays_narrow(inputs):
            return prim.bind(*map(self.narrowed, inputs), **attrs)
        return prim.bind(*map(self.widened, inputs), **attrs)

    def is_narrow(self, x: Tensor) -> bool:
        """Returns whether this pass made a tensor 16 bits wide."""
        return id(x) in self.narrow

    def stays_narrow(self, inputs: list[Any]) -> bool:
        """Returns whether an operand is narrow and every float32 operand can be cast without loss of range."""
        wide = [x for x in inputs if x._type.dtype is float32]
        return any(map(self.is_narrow, inputs)) and all(self.fits(x) for x in wide)

    def fits(self, x: Tensor) -> bool:
        """Returns whether an operand is a scalar constant within the compute dtype's range."""
        return is_constant(x) and x._type.shape == () and abs(float(constant_value(x))) <= float(self.compute.max)

    def remember_narrow(self, results: Any) -> Any:
        """Records which results are in the compute dtype."""
        self.narrow |= {id(x): x for x in as_tuple(results) if x._type.dtype is self.compute}
        return results

    def narrowed(self, x: Tensor) -> Tensor:
        """Returns a float32 tensor in the compute dtype; any other unchanged."""
        return bind.cast(x, dtype=self.compute) if x._type.dtype is float32 else x

    def widened(self, x: Tensor) -> Tensor:
        """Returns a tensor that this pass made narrow in float32; any other unchanged."""
        return bind.cast(x, dtype=float32) if self.is_narrow(x) else x


class InFloat16(Mixed):
    compute = float16


class InBfloat16(Mixed):
    compute = bfloat16


KINDS = {"float16": InFloat16, "bfloat16": InBfloat16}
