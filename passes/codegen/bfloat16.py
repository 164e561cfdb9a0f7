"""Computes bfloat16 as NumPy does: in float32, with each result rounded to the nearest bfloat16.

TVM's own passes duplicate the values that they round, and don't look into `Let`, `reinterpret` or broadcasts: a name
then stands for two values, and float32 bits for bfloat16 ones. After `Bfloat16Bits` they find nothing to do. Within a
kernel, every bfloat16 value is a float32 whose lower half is zero; it is rounded where the program casts or computes.
Parameters are accessed as uint16, the upper half of such a float32.

Source: https://github.com/jax-ml/ml_dtypes (round to nearest even, NaN stays NaN)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
from tvm import ir, tirx, transform
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import BufferStore, PrimFunc, Stmt, Var, decl_buffer
from tvm.tirx.buffer import is_buffer_var

from tvtf.core.tvm_visitor import structural_map, structural_walk

Node = TypeVar("Node")
NARROW, WIDE, BITS = "bfloat16", "float32", "uint16"
BITS_BYTES = 2
MOVED_BITS = 16
ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div)
CHOICES = (tirx.Min, tirx.Max)
REINTERPRET, CHOOSE = ir.Op.get("tirx.reinterpret"), ir.Op.get("prim.if_then_else")
ADDRESS = ir.Op.get("tirx.address_of")


def without_bfloat16(func: PrimFunc) -> PrimFunc:
    """Returns `func` computing in float32 where it computed in bfloat16; parameters keep their type.

    TVM's own passes confuse float32 and bfloat16 bits in `Let`, `reinterpret` and broadcasts.

    Example:
        >>> from tvm.script import tirx as T
        >>> @T.prim_func(s_tir=True)
        ... def double(a: T.Buffer((4,), "bfloat16"), b: T.Buffer((4,), "bfloat16")):
        ...     for i in range(4):
        ...         with T.sblock("double"):
        ...             v = T.axis.spatial(4, i)
        ...             b[v] = a[v] + a[v]
        >>> 'reinterpret("float32"' in without_bfloat16(double).script()
        True
    """
    return func if not _uses_bfloat16(func) else func.with_body(_Widening(func).rewrite_body(func.body))


@tirx.transform.prim_func_pass(opt_level=0, name="Bfloat16Bits")
def Bfloat16Bits(func: PrimFunc, _mod: ir.IRModule, _context: transform.PassContext) -> PrimFunc:
    """Applies `without_bfloat16` to every PrimFunc of a module.

    Kernels then compute in float32 and round each result, as NumPy does; TVM's own passes find nothing left to do.
    """
    return without_bfloat16(func)


def bits_of(value: ir.Expr) -> ir.Expr:
    """Returns the uint16 bits of a bfloat16 that is held as a float32."""
    return (tirx.reinterpret("uint32", value) >> _u32(MOVED_BITS)).astype(BITS)


def from_bits(bits: ir.Expr) -> ir.Expr:
    """Returns the float32 of a bfloat16's uint16 bits."""
    return tirx.reinterpret(WIDE, bits.astype("uint32") << _u32(MOVED_BITS))


def round_to_bfloat16(value: ir.Expr) -> ir.Expr:
    """Rounds a float32 to the nearest bfloat16, which is returned as a float32. Ties go to even, and NaN stays NaN."""
    bits = Var("bits", "uint32")
    is_nan = (bits & _u32(0x7FFFFFFF)) > _u32(0x7F800000)
    nan = (bits & _u32(0x80000000)) | _u32(0x7FC00000)
    # The upper 16 bits are kept. Before the lower ones are cut off, half a unit of the last kept bit is added. If this
    # bit is 0, a little less is added, so that ties round to even.
    last_kept_bit = (bits >> _u32(MOVED_BITS)) & _u32(1)
    nearest = (bits + _u32(0x7FFF) + last_kept_bit) & _u32(0xFFFF0000)
    result = tirx.reinterpret(WIDE, tirx.Select(is_nan, nan, nearest))
    return tirx.Let(bits, tirx.reinterpret("uint32", value), result)


class _Widening:
    """The rewrite of one function, from the leaves up: each rule sees its node with operands widened already."""

    def __init__(self, func: PrimFunc) -> None:
        narrow_params = [param for param in func.params if _element_type(param) == NARROW]
        self.new_variables: dict[Var, Var] = {
            param: _buffer_with_dtype(param, BITS, BITS_BYTES) for param in narrow_params
        }
        self.views = [tirx.DeclBuffer(self.new_variables[param], data=param.data) for param in narrow_params]

    def rewrite_body(self, body: Stmt) -> Stmt:
        """Rewrites a kernel's body to compute in float32.

        The new body begins with the declarations of views by which bfloat16 parameters are read as uint16. If there is
        a root block, they are inside of it.
        """
        new_body = self.rewrite(body)
        if not self.views:
            return new_body
        if not isinstance(new_body, SBlockRealize):
            return tirx.SeqStmt([*self.views, new_body])
        block = new_body.block
        statements = tirx.SeqStmt([*self.views, block.body])
        new_block = SBlock([], block.reads, block.writes, block.name_hint, statements, None, block.alloc_buffers)
        return SBlockRealize([], new_body.predicate, new_block)

    def rewrite(self, body: Node) -> Node:
        """Rewrites a statement or expression to compute in float32 instead of bfloat16.

        There is a rule for each class of node, and nodes are rewritten after their operands. Arithmetic is rounded to
        bfloat16. Choices between rounded values need no rounding.
        """

        def rounded_arithmetic(node: Any) -> Any:
            """Rebuilds a binary operation on its rewritten operands, and rounds the result."""
            return round_to_bfloat16(type(node)(node.a, node.b))

        rules: list[tuple[Any, Callable[[Any], Any]]] = [
            (Var, self.variable),
            (TensorLoad, _rewrite_load),
            (BufferStore, _rewrite_store),
            (tirx.FloatImm, _if_narrow(_rewrite_constant)),
            (ARITHMETIC, _if_narrow(rounded_arithmetic)),
            (CHOICES, _if_narrow(lambda node: type(node)(node.a, node.b))),
            (tirx.Select, _if_narrow(lambda node: tirx.Select(node.condition, node.true_value, node.false_value))),
            (tirx.Let, _if_narrow(lambda node: tirx.Let(node.var, node.value, node.body))),
            (tirx.Cast, _rewrite_cast),
            (ir.Call, _rewrite_call),
        ]
        return structural_map(body, rules)

    def variable(self, var: Var) -> Var:
        """Returns the float32 version of a variable or of a buffer that the kernel allocates."""
        if var not in self.new_variables:
            self.new_variables[var] = self._wide_variable(var)
        return self.new_variables[var]

    def _wide_variable(self, var: Var) -> Var:
        """Returns a float32 variable or buffer in place of a bfloat16 one; returns any other variable unchanged."""
        if is_buffer_var(var):
            return _buffer_with_dtype(var, WIDE, int(var.ty.data_alignment)) if _element_type(var) == NARROW else var
        return Var(var.name, WIDE) if _dtype(var) == NARROW else var


def _rewrite_load(load: TensorLoad) -> ir.Expr:
    """Rewrites the load of a bfloat16 element to give a float32.

    A parameter's element is loaded as bits and converted. A buffer that the kernel allocates already holds float32.
    """
    if _dtype(load) != NARROW:
        return load
    # The rewrite has replaced the buffer, and the load must have its dtype.
    new_load = tirx.BufferLoad(load.source, list(load.indices))
    return from_bits(new_load) if _dtype(new_load) == BITS else new_load


def _rewrite_store(store: BufferStore) -> BufferStore:
    """Stores the bits of a value into a bfloat16 parameter."""
    if _element_type(store.buffer) != BITS or _dtype(store.value) == BITS:
        return store
    return BufferStore(store.buffer, bits_of(store.value), list(store.indices))


def _element_type(buffer: Var) -> str:
    """Returns the dtype of a buffer's elements; an empty string for any other variable."""
    return str(buffer.ty.dtype.dtype) if is_buffer_var(buffer) else ""


def _dtype(value: Any) -> str:
    return str(getattr(value.ty, "dtype", ""))


def _if_narrow(rule: Callable[[Any], ir.Expr]) -> Callable[[Any], ir.Expr]:
    """Returns a rule that applies ``rule`` to bfloat16 nodes only."""
    return lambda node: rule(node) if _dtype(node) == NARROW else node


def _rewrite_constant(node: tirx.FloatImm) -> ir.Expr:
    return tirx.const(float(np.asarray(node.value, ml_dtypes.bfloat16)), WIDE)


def _rewrite_cast(node: tirx.Cast) -> ir.Expr:
    """Casts to bfloat16 by rounding a float32; drops a cast that doesn't change the type any more."""
    if _dtype(node) != NARROW:
        return node.value if _dtype(node) == _dtype(node.value) else node
    return round_to_bfloat16(node.value.astype(WIDE))


def _rewrite_call(node: ir.Call) -> ir.Expr:
    """Rewrites a call that returns or reads bfloat16.

    A math function is called in float32, and its result is rounded to bfloat16.
    """
    if node.op.same_as(REINTERPRET):
        return _rewrite_reinterpret(node)
    if node.op.same_as(ADDRESS):
        return _rewrite_address(node)
    if _dtype(node) != NARROW:
        return node
    wide = ir.Call(node.op, list(node.args), node.attrs, node.ty_args, ret_ty=ir.PrimType(WIDE))
    # A choice between two rounded values needs no rounding.
    return wide if node.op.same_as(CHOOSE) else round_to_bfloat16(wide)


def _rewrite_address(node: ir.Call) -> ir.Expr:
    """Rewrites ``address_of(buffer[i])`` of a bfloat16 parameter to the address of the uint16 element."""
    (element,) = node.args
    if isinstance(element, TensorLoad):
        return node
    # `_rewrite_load` has replaced the element by a conversion of the loaded uint16. This load is the last that the walk
    # visits, since loads within its indices come before.
    loads: list[TensorLoad] = []
    structural_walk(element, (TensorLoad, loads.append))
    loaded_bits = loads[-1]
    return tirx.address_of(loaded_bits)


def _rewrite_reinterpret(node: ir.Call) -> ir.Expr:
    """Rewrites ``reinterpret`` from or to bfloat16 to shifts, since bfloat16 values are held as float32.

    The bits of a bfloat16 are the upper half of the bits of the equal float32.
    """
    (value,) = node.args
    if _dtype(node) == NARROW:
        return value if _dtype(value) == WIDE else from_bits(tirx.reinterpret(BITS, value))
    if _dtype(value) == WIDE and _dtype(node).endswith("16"):
        return tirx.reinterpret(_dtype(node), bits_of(value))
    return node


def _buffer_with_dtype(buffer: Var, dtype: str, alignment: int) -> Var:
    """Returns a copy of a buffer with another element type and alignment.

    TVM's buffers can't be changed.
    """
    buffer_type = buffer.ty
    return decl_buffer(
        buffer_type.shape,
        dtype,
        buffer.name,
        strides=buffer_type.strides,
        elem_offset=buffer_type.elem_offset,
        scope=buffer_type.storage_scope,
        data_alignment=alignment,
        offset_factor=buffer_type.offset_factor,
        layout=buffer_type.layout,
    )


def _uses_bfloat16(func: PrimFunc) -> bool:
    """Returns whether a kernel has any value, variable or buffer of bfloat16."""
    nodes: list[Any] = []
    classes = (Var, tirx.Cast, ir.Call, tirx.FloatImm)
    structural_walk(func, (classes, lambda node: nodes.append(node) if _is_narrow(node) else None))
    return bool(nodes)


def _is_narrow(node: Any) -> bool:
    return _dtype(node) == NARROW or (isinstance(node, Var) and _element_type(node) == NARROW)


def _u32(value: int) -> ir.Expr:
    """Returns a uint32 constant."""
    return tirx.const(value, "uint32")
