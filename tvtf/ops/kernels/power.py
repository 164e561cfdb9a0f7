"""Powers of floats, and by squaring of integers."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvtf.ops.kernels.common import INDEPENDENT, FlatProxy, long
from tvtf.ops.kernels.indexing import statements
from tvtf.ops.kernels.scalar import elementwise


def power(x: te.Tensor, y: te.Tensor) -> te.Tensor:
    """Computes ``x ** y`` with broadcasting; integers wrap around, and a negative exponent counts as 0."""
    if "int" in str(x.dtype):
        return _integer_power(x, y)
    return elementwise(lambda t, base, exponent: t.power(base, exponent), (x, y), {})


def _integer_power(x: te.Tensor, y: te.Tensor) -> te.Tensor:
    """Computes powers of integers with broadcasting, by repeated squaring."""
    bases = elementwise(lambda t, base, exponent: base, (x, y), {})
    exponents = elementwise(lambda t, base, exponent: exponent, (x, y), {})
    return te.extern([bases.shape], [bases, exponents], _emit_square_and_multiply, name="power", dtype=str(x.dtype))


def _emit_square_and_multiply(ins: Any, outs: Any) -> Any:
    """Emits a loop that computes each integer power by square-and-multiply.

    ``ins`` are the buffers of bases and exponents, ``outs`` has the buffer of the result. Each bit of the exponent takes
    one squaring.
    """
    dtype = str(outs[0].dtype)
    element_count = long(1)
    for extent in outs[0].shape:
        element_count = element_count * long(extent)
    with IRBuilder() as builder:
        bases, exponents, out = map(FlatProxy, (*ins, outs[0]))
        with statements():
            # Buffers of one element are variables of the loop.
            square = FlatProxy(T.alloc_buffer([1], dtype, scope="local"))
            remaining_exponent = FlatProxy(T.alloc_buffer([1], dtype, scope="local"))
            with T.serial(long(0), element_count, annotations=INDEPENDENT) as i:
                out[i] = tirx.const(1, dtype)
                square[0] = bases[i]
                remaining_exponent[0] = exponents[i]
                with T.While(remaining_exponent[0] > tirx.const(0, dtype)):
                    with T.If(tirx.EQ(remaining_exponent[0] & tirx.const(1, dtype), tirx.const(1, dtype))), T.Then():
                        out[i] = out[i] * square[0]
                    square[0] = square[0] * square[0]
                    remaining_exponent[0] = remaining_exponent[0] >> tirx.const(1, dtype)
        return builder.get()
