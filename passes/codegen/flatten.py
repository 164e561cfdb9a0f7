"""Flattens buffers to one dim, with each access a simplified offset.

TVM's own pass simplifies each offset as an affine map under the conditions of all loops around it. On a kernel of
unrolled tiles that takes longer than all of LLVM. Here the ranges of the loops are enough.

Booleans are bytes in memory and one bit in LLVM's vectors. So a loaded boolean is its byte compared with 0. TVM's own
pass casts the byte instead; in a vector this leaves a byte that later code interprets as a boolean, and whose `not` is true
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
    """Flattens the buffers of every PrimFunc to one dimension.

    Functions with strided or aliased buffers are passed to TVM's own pass. For kernels with unrolled tiles, that pass
    would take longer than the compilation by LLVM.
    """
    flattened = {name: _flattened(func) if isinstance(func, PrimFunc) else func for name, func in mod.functions_items()}
    unsupported = {name: mod[name] for name, func in flattened.items() if func is None}
    if unsupported:
        flattened_by_tvm = tirx.transform.FlattenBuffer()(ir.IRModule(unsupported, attrs=mod.attrs))
        for name, func in flattened_by_tvm.functions_items():
            flattened[name] = func.with_body(_with_compared_flags(func.body))
    return ir.IRModule(flattened, attrs=mod.attrs)


def _with_compared_flags(body: Any) -> Any:
    """Replaces each cast from a byte to a boolean by a comparison with 0.

    TVM's pass loads booleans by such casts, which give wrong values in vectors.
    """

    def compared(cast: tirx.Cast) -> ir.Expr:
        """Replaces a cast from a byte to a boolean; returns other casts unchanged."""
        loads_boolean = str(cast.ty.dtype) == "bool" and str(cast.value.ty.dtype) == BYTE
        return tirx.NE(cast.value, tirx.const(0, BYTE)) if loads_boolean else cast

    return structural_map(body, (tirx.Cast, compared))


def _flattened(func: PrimFunc) -> PrimFunc | None:
    """Returns the function with one-dimensional buffers, or None where a buffer is strided or a view of another."""
    flattener = _Flattener(func)
    return flattener.flattened_function() if flattener.can_flatten() else None


class _Flattener:
    """The rewrite of one kernel's buffers to one-dimensional ones."""

    def __init__(self, func: PrimFunc) -> None:
        """Collects a kernel's buffers and loops, and creates a flat buffer for each buffer that needs one."""
        self.func = func
        self.parameters = [param for param in func.params if is_buffer_var(param)]
        self.allocated: list[Var] = []
        self.unsupported: list[Any] = []
        """Views of other buffers, and loops that share a variable but not its range."""
        self.ranges = sym.Analyzer()
        self.extents: dict[Var, ir.Range] = {}
        rules: Any = [
            (For, self._record_loop),
            (AllocBuffer, lambda stmt: self.allocated.append(stmt.buffer)),
            (DeclBuffer, self.unsupported.append),
        ]
        structural_walk(func.body, rules)
        self.flat_buffers = {
            buffer: _flat_buffer(buffer) for buffer in (*self.parameters, *self.allocated) if _needs_flattening(buffer)
        }

    def _record_loop(self, loop: For) -> None:
        """Records the range of a loop's variable; two loops with the same variable must have the same range."""
        known = self.extents.get(loop.loop_var)
        if known is None:
            self.extents[loop.loop_var] = ir.Range.from_min_extent(loop.min, loop.extent)
            self.ranges.bind(loop.loop_var, self.extents[loop.loop_var])
        elif not _has_same_range(known, loop):
            self.unsupported.append(loop)

    def can_flatten(self) -> bool:
        """Returns whether all buffers are contiguous and none is a view of another."""
        return not self.unsupported and all(map(_is_contiguous, (*self.parameters, *self.allocated)))

    def flattened_function(self) -> PrimFunc | None:
        """Returns the kernel with flat buffers, or None if it uses a buffer otherwise than by loads and stores."""
        rules: Any = [
            (TensorLoad, self._flat_load),
            (BufferStore, self._flat_store),
            (AllocBuffer, self._flat_allocation),
        ]
        body = structural_map(self.func.body, rules)
        if self._uses_replaced_buffers(body):
            return None
        # A parameter keeps its shape, and has a flat view of its memory.
        reshaped_params = [param for param in self.parameters if param in self.flat_buffers]
        views = [DeclBuffer(self.flat_buffers[param], data=param.data) for param in reshaped_params]
        return self.func.with_body(SeqStmt([*views, body]) if views else body)

    def _uses_replaced_buffers(self, body: Any) -> bool:
        """Returns whether the rewritten body still uses a replaced buffer, for example as an argument of a call."""
        replaced = {buffer for buffer in self.allocated if buffer in self.flat_buffers}
        used: list[Var] = []
        structural_walk(body, (Var, used.append))
        return not replaced.isdisjoint(used)

    def _flat_load(self, load: TensorLoad) -> ir.Expr:
        """Rewrites the load of an element to load from the flat buffer; a boolean is loaded as ``byte != 0``."""
        flat = self.flat_buffers.get(load.source)
        if flat is None:
            return load
        element = BufferLoad(flat, [self._flat_offset(load.source, load.indices)])
        return tirx.NE(element, tirx.const(0, BYTE)) if _holds_booleans(load.source) else element

    def _flat_store(self, store: BufferStore) -> BufferStore:
        """Rewrites the store of an element to store to the flat buffer; a boolean is stored as a byte."""
        flat = self.flat_buffers.get(store.buffer)
        if flat is None:
            return store
        value = store.value.astype(BYTE) if _holds_booleans(store.buffer) else store.value
        return BufferStore(flat, value, [self._flat_offset(store.buffer, store.indices)])

    def _flat_allocation(self, stmt: AllocBuffer) -> AllocBuffer:
        flat = self.flat_buffers.get(stmt.buffer)
        return stmt if flat is None else AllocBuffer(flat, stmt.annotations)

    def _flat_offset(self, buffer: Var, indices: Any) -> ir.Expr:
        """Returns the offset of an element in row-major order, simplified with the ranges of loop variables.

        For example, indices ``(i, j)`` in a buffer of shape ``(m, n)`` have the offset ``i * n + j``.
        """
        if not len(indices):  # a scalar
            return tirx.IntImm("int64", 0)
        offset, *inner = indices
        for index, extent in zip(inner, buffer.ty.shape[1:], strict=True):
            offset = offset * extent + index
        return self.ranges.simplify(offset)


def _holds_booleans(buffer: Var) -> bool:
    return str(buffer.ty.dtype.dtype) == "bool"


def _needs_flattening(buffer: Var) -> bool:
    return len(buffer.ty.shape) != 1 or _holds_booleans(buffer)


def _flat_buffer(buffer: Var) -> Var:
    """Creates the one-dimensional buffer that replaces a buffer of several dims, with the same number of elements.

    A buffer of booleans is replaced by a buffer of bytes, since a boolean is a byte in memory.
    """
    buffer_type = buffer.ty
    element_count = reduce(mul, buffer_type.shape) if len(buffer_type.shape) else 1
    return decl_buffer(
        [element_count],
        BYTE if _holds_booleans(buffer) else buffer_type.dtype,
        buffer.name,
        elem_offset=buffer_type.elem_offset,
        scope=buffer_type.storage_scope,
        data_alignment=buffer_type.data_alignment,
        offset_factor=buffer_type.offset_factor,
        layout=None,
    )


def _is_contiguous(buffer: Var) -> bool:
    """Returns whether a buffer has no strides, and no offset in its memory."""
    buffer_type = buffer.ty
    has_no_offset = buffer_type.elem_offset is None or (
        isinstance(buffer_type.elem_offset, tirx.IntImm) and not int(buffer_type.elem_offset)
    )
    return not buffer_type.strides and has_no_offset


def _has_same_range(known: ir.Range, loop: For) -> bool:
    """Returns whether a loop has a constant range, the same as a known one."""
    pairs = (known.min, loop.min), (known.extent, loop.extent)
    return all(isinstance(a, tirx.IntImm) and isinstance(b, tirx.IntImm) and int(a) == int(b) for a, b in pairs)
