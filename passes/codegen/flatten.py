"""Flattens buffers to one dim, with each access a simplified offset.

TVM's own pass simplifies each offset as an affine map under the conditions of all loops around it. On a kernel of
unrolled tiles that takes longer than all of LLVM. Here the ranges of the loops are enough.

Booleans are bytes in memory and one bit in LLVM's vectors. So a loaded boolean is its byte compared with 0. TVM's own
pass casts the byte instead; in a vector this leaves a byte that later code takes for a boolean, and whose `not` is true
for true (21 of 120 random programs on booleans gave wrong sums).
"""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

from tvm import ir, sym, tirx, transform
from tvm.ir import TensorLoad
from tvm.tirx import AllocBuffer, BufferLoad, BufferStore, DeclBuffer, For, PrimFunc, SeqStmt, Var, decl_buffer
from tvm.tirx.buffer import is_buffer_var

from tvtf.core.tvm_visitor import structural_map, structural_walk

BYTE = "int8"
"""The memory type of a boolean, 0 or 1."""


@transform.module_pass(opt_level=0, name="FlattenBuffers")
def FlattenBuffers(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
    """Flattens the buffers of every PrimFunc; functions with strided or aliased buffers are left to TVM's pass."""
    flattened = {name: _flattened(func) if isinstance(func, PrimFunc) else func for name, func in mod.functions_items()}
    unsupported = {name: mod[name] for name, func in flattened.items() if func is None}
    if unsupported:
        flat = tirx.transform.FlattenBuffer()(ir.IRModule(unsupported, attrs=mod.attrs))
        flattened |= {name: func.with_body(_with_compared_flags(func.body)) for name, func in flat.functions_items()}
    return ir.IRModule(flattened, attrs=mod.attrs)


def _with_compared_flags(body: Any) -> Any:
    """Replaces casts from a byte to a boolean by a comparison with 0."""

    def compared(cast: tirx.Cast) -> ir.Expr:
        is_flag = str(cast.ty.dtype) == "bool" and str(cast.value.ty.dtype) == BYTE
        return tirx.NE(cast.value, tirx.const(0, BYTE)) if is_flag else cast

    return structural_map(body, (tirx.Cast, compared))


def _flattened(func: PrimFunc) -> PrimFunc | None:
    """Returns the function with flat buffers; None where a buffer is strided or a view of another."""
    flatten = _Flatten(func)
    return flatten.function() if flatten.are_plain() else None


class _Flatten:
    """The rewrite of one function."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.parameters = [p for p in func.params if is_buffer_var(p)]
        self.allocated: list[Var] = []
        self.unsupported: list[Any] = []
        """Views of other buffers, and loops that share a variable but not its range."""
        self.ranges = sym.Analyzer()
        self.extents: dict[Var, ir.Range] = {}
        rules: Any = [
            (For, self._note_loop),
            (AllocBuffer, lambda stmt: self.allocated.append(stmt.buffer)),
            (DeclBuffer, self.unsupported.append),
        ]
        structural_walk(func.body, rules)
        self.rows = {buffer: _row_of(buffer) for buffer in (*self.parameters, *self.allocated) if _needs_row(buffer)}

    def _note_loop(self, loop: For) -> None:
        """Records a loop's range; loops that share a variable must have the same range."""
        known = self.extents.get(loop.loop_var)
        if known is None:
            self.extents[loop.loop_var] = ir.Range.from_min_extent(loop.min, loop.extent)
            self.ranges.bind(loop.loop_var, self.extents[loop.loop_var])
        elif not _is_same(known, loop):
            self.unsupported.append(loop)

    def are_plain(self) -> bool:
        return not self.unsupported and all(map(_is_plain, (*self.parameters, *self.allocated)))

    def function(self) -> PrimFunc | None:
        rules: Any = [(TensorLoad, self._load), (BufferStore, self._store), (AllocBuffer, self._alloc)]
        body = structural_map(self.func.body, rules)
        if self._mentions_removed(body):
            return None
        views = [DeclBuffer(self.rows[x], data=x.data) for x in self.parameters if x in self.rows]
        return self.func.with_body(SeqStmt([*views, body]) if views else body)

    def _mentions_removed(self, body: Any) -> bool:
        """Returns whether a body still mentions a buffer that was replaced, other than by loads and stores."""
        removed = {buffer for buffer in self.allocated if buffer in self.rows}
        named: list[Var] = []
        structural_walk(body, (Var, named.append))
        return not removed.isdisjoint(named)

    def _load(self, load: TensorLoad) -> ir.Expr:
        row = self.rows.get(load.source)
        if row is None:
            return load
        element = BufferLoad(row, [self._offset(load.source, load.indices)])
        return tirx.NE(element, tirx.const(0, BYTE)) if _holds_flags(load.source) else element

    def _store(self, store: BufferStore) -> BufferStore:
        row = self.rows.get(store.buffer)
        if row is None:
            return store
        value = store.value.astype(BYTE) if _holds_flags(store.buffer) else store.value
        return BufferStore(row, value, [self._offset(store.buffer, store.indices)])

    def _alloc(self, stmt: AllocBuffer) -> AllocBuffer:
        row = self.rows.get(stmt.buffer)
        return stmt if row is None else AllocBuffer(row, stmt.annotations)

    def _offset(self, buffer: Var, indices: Any) -> ir.Expr:
        if not len(indices):
            return tirx.IntImm("int64", 0)
        offset, *inner = indices
        for place, extent in zip(inner, buffer.ty.shape[1:], strict=True):
            offset = offset * extent + place
        return self.ranges.simplify(offset)


def _holds_flags(buffer: Var) -> bool:
    return str(buffer.ty.dtype.dtype) == "bool"


def _needs_row(buffer: Var) -> bool:
    return len(buffer.ty.shape) != 1 or _holds_flags(buffer)


def _row_of(buffer: Var) -> Var:
    """Returns the one-dimensional buffer that replaces a buffer."""
    kind = buffer.ty
    return decl_buffer(
        [reduce(mul, kind.shape) if len(kind.shape) else 1],
        BYTE if _holds_flags(buffer) else kind.dtype,
        buffer.name,
        elem_offset=kind.elem_offset,
        scope=kind.storage_scope,
        data_alignment=kind.data_alignment,
        offset_factor=kind.offset_factor,
        layout=None,
    )


def _is_plain(buffer: Var) -> bool:
    kind = buffer.ty
    starts = kind.elem_offset is None or (isinstance(kind.elem_offset, tirx.IntImm) and not int(kind.elem_offset))
    return not kind.strides and starts


def _is_same(known: ir.Range, loop: For) -> bool:
    pairs = (known.min, loop.min), (known.extent, loop.extent)
    return all(isinstance(a, tirx.IntImm) and isinstance(b, tirx.IntImm) and int(a) == int(b) for a, b in pairs)
