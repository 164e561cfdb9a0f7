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
    return func if not _mentions(func) else func.with_body(_Widening(func).body(func.body))


@transform.module_pass(opt_level=0, name="Bfloat16Bits")
def Bfloat16Bits(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
    """Applies `without_bfloat16` to every PrimFunc of a module."""
    result = mod.clone()
    for name, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            result.update_func(name, without_bfloat16(func))
    return result


def bits_of(value: ir.Expr) -> ir.Expr:
    """Returns the uint16 bits of a bfloat16 that is held as a float32."""
    return (tirx.reinterpret("uint32", value) >> _u32(MOVED_BITS)).astype(BITS)


def from_bits(bits: ir.Expr) -> ir.Expr:
    """Returns the float32 of a bfloat16's uint16 bits."""
    return tirx.reinterpret(WIDE, bits.astype("uint32") << _u32(MOVED_BITS))


def rounded(value: ir.Expr) -> ir.Expr:
    """Returns the nearest float32 that is a bfloat16; ties to even, NaN to NaN."""
    bits = Var("bits", "uint32")
    is_nan = (bits & _u32(0x7FFFFFFF)) > _u32(0x7F800000)
    nan = (bits & _u32(0x80000000)) | _u32(0x7FC00000)
    nearest = (bits + _u32(0x7FFF) + ((bits >> _u32(MOVED_BITS)) & _u32(1))) & _u32(0xFFFF0000)
    result = tirx.reinterpret(WIDE, tirx.Select(is_nan, nan, nearest))
    return tirx.Let(bits, tirx.reinterpret("uint32", value), result)


class _Widening:
    """The rewrite of one function, from the leaves up: each rule sees its node with operands widened already."""

    def __init__(self, func: PrimFunc) -> None:
        narrow = [param for param in func.params if _item(param) == NARROW]
        self.known: dict[Var, Var] = {param: _retyped(param, BITS, BITS_BYTES) for param in narrow}
        self.views = [tirx.DeclBuffer(self.known[param], data=param.data) for param in narrow]

    def body(self, body: Stmt) -> Stmt:
        """Returns the body rewritten; parameters are viewed as bits, in the root block if there is one."""
        mapped = self.mapped(body)
        if not self.views:
            return mapped
        if not isinstance(mapped, SBlockRealize):
            return tirx.SeqStmt([*self.views, mapped])
        block = mapped.block
        inner = tirx.SeqStmt([*self.views, block.body])
        rewritten = SBlock([], block.reads, block.writes, block.name_hint, inner, None, block.alloc_buffers)
        return SBlockRealize([], mapped.predicate, rewritten)

    def mapped(self, body: Node) -> Node:
        """Returns `body` rewritten by the rules for each kind of node."""
        rules: list[tuple[Any, Callable[[Any], Any]]] = [
            (Var, self.variable),
            (TensorLoad, _load),
            (BufferStore, _store),
            (tirx.FloatImm, _if_narrow(_constant)),
            (ARITHMETIC, _if_narrow(lambda node: rounded(type(node)(node.a, node.b)))),
            (CHOICES, _if_narrow(lambda node: type(node)(node.a, node.b))),
            (tirx.Select, _if_narrow(lambda node: tirx.Select(node.condition, node.true_value, node.false_value))),
            (tirx.Let, _if_narrow(lambda node: tirx.Let(node.var, node.value, node.body))),
            (tirx.Cast, _cast),
            (ir.Call, _call),
        ]
        return structural_map(body, rules)

    def variable(self, var: Var) -> Var:
        """Returns the float32 version of a variable or of a buffer that the kernel allocates."""
        if var not in self.known:
            self.known[var] = self._wide_variable(var)
        return self.known[var]

    def _wide_variable(self, var: Var) -> Var:
        if is_buffer_var(var):
            return _retyped(var, WIDE, int(var.ty.data_alignment)) if _item(var) == NARROW else var
        return Var(var.name, WIDE) if _dtype(var) == NARROW else var


def _load(load: TensorLoad) -> ir.Expr:
    """Loads bits from a parameter, float32 from a buffer that the kernel allocates."""
    if _dtype(load) != NARROW:
        return load
    fresh = tirx.BufferLoad(load.source, list(load.indices))
    return from_bits(fresh) if _dtype(fresh) == BITS else fresh


def _store(store: BufferStore) -> BufferStore:
    """Stores bits into a parameter."""
    if _item(store.buffer) != BITS or _dtype(store.value) == BITS:
        return store
    return BufferStore(store.buffer, bits_of(store.value), list(store.indices))


def _item(buffer: Var) -> str:
    """Returns the element type of a buffer, or an empty string."""
    return str(buffer.ty.dtype.dtype) if is_buffer_var(buffer) else ""


def _dtype(value: Any) -> str:
    return str(getattr(value.ty, "dtype", ""))


def _if_narrow(rule: Callable[[Any], ir.Expr]) -> Callable[[Any], ir.Expr]:
    return lambda node: rule(node) if _dtype(node) == NARROW else node


def _constant(node: tirx.FloatImm) -> ir.Expr:
    return tirx.const(float(np.asarray(node.value, ml_dtypes.bfloat16)), WIDE)


def _cast(node: tirx.Cast) -> ir.Expr:
    """Casts to bfloat16 by way of float32; drops a cast that doesn't change the type any more."""
    if _dtype(node) != NARROW:
        return node.value if _dtype(node) == _dtype(node.value) else node
    return rounded(node.value.astype(WIDE))


def _call(node: ir.Call) -> ir.Expr:
    """Rewrites a call: reinterpretations and addresses by bits, math functions in float32 with a rounded result."""
    if node.op.same_as(REINTERPRET):
        return _reinterpreted(node)
    if node.op.same_as(ADDRESS):
        return _address(node)
    if _dtype(node) != NARROW:
        return node
    wide = ir.Call(node.op, list(node.args), node.attrs, node.ty_args, ret_ty=ir.PrimType(WIDE))
    return wide if node.op.same_as(CHOOSE) else rounded(wide)


def _address(node: ir.Call) -> ir.Expr:
    """Returns the address of an element; for a parameter, the address of its bits."""
    (element,) = node.args
    if isinstance(element, TensorLoad):
        return node
    loads: list[TensorLoad] = []
    structural_walk(element, (TensorLoad, loads.append))
    return tirx.address_of(loads[-1])


def _reinterpreted(node: ir.Call) -> ir.Expr:
    (value,) = node.args
    if _dtype(node) == NARROW:
        return value if _dtype(value) == WIDE else from_bits(tirx.reinterpret(BITS, value))
    if _dtype(value) == WIDE and _dtype(node).endswith("16"):
        return tirx.reinterpret(_dtype(node), bits_of(value))
    return node


def _retyped(buffer: Var, dtype: str, alignment: int) -> Var:
    """Returns a copy of a buffer with another item type and alignment."""
    kind = buffer.ty
    return decl_buffer(
        kind.shape,
        dtype,
        buffer.name,
        strides=kind.strides,
        elem_offset=kind.elem_offset,
        scope=kind.storage_scope,
        data_alignment=alignment,
        offset_factor=kind.offset_factor,
        layout=kind.layout,
    )


def _mentions(func: PrimFunc) -> bool:
    nodes: list[Any] = []
    every = (Var, tirx.Cast, ir.Call, tirx.FloatImm)
    structural_walk(func, (every, lambda node: nodes.append(node) if _is_narrow(node) else None))
    return bool(nodes)


def _is_narrow(node: Any) -> bool:
    return _dtype(node) == NARROW or (isinstance(node, Var) and _item(node) == NARROW)


def _u32(value: int) -> ir.Expr:
    return tirx.const(value, "uint32")
