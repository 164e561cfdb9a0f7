"""Moves elementwise loops out of kernels into subroutines, where a kernel calls subroutines anyway.

What is left around the tiles of a product, such as clearing sums or the elementwise stages that follow it, differs among
kernels in little but sizes. As a subroutine with its sizes and strides as numbers it is compiled once for all of them, and a
kernel that only calls subroutines needs no optimization.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tvm_ffi
from tvm import ir, sym
from tvm.ir import TensorLoad
from tvm.tirx import BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu import access, emit, subroutine
from tvtf.passes.schedule.cpu.kernel import substitute
from tvtf.passes.schedule.cpu.subroutine import Array

DTYPE = "float32"
"""The element type of loops that are moved. `codegen/bfloat16.py` changes kernels on others after they are scheduled."""
FEWEST_ITEMS = 1024
"""Items that loops store, from which on a call costs nothing beside them: with 256, a U-Net's steps take 2 % longer."""
MOST_ARRAYS = 8
_ADDRESS_OF = ir.Op.get("tirx.address_of")


def with_called_loops(body: Stmt) -> Stmt:
    """Returns a kernel's body with elementwise loops as calls of subroutines, if it calls subroutines already."""
    return _with_calls(body) if subroutine.has_calls(body) else body


def _with_calls(stmt: Stmt) -> Stmt:
    """Replaces the outermost loops that can be subroutines by calls of them."""
    if isinstance(stmt, SeqStmt):
        return emit.sequence([_with_calls(part) for part in stmt.seq])
    if isinstance(stmt, IfThenElse):
        other = None if stmt.else_case is None else _with_calls(stmt.else_case)
        return IfThenElse(stmt.condition, _with_calls(stmt.then_case), other)
    if not isinstance(stmt, For):
        return stmt
    call = _call_of(stmt) if stmt.kind == ForKind.SERIAL else None
    if call is not None or stmt.kind not in (ForKind.SERIAL, ForKind.PARALLEL):
        return stmt if call is None else call
    body = _with_calls(stmt.body)
    return For(stmt.loop_var, stmt.min, stmt.extent, stmt.kind, body, stmt.thread_binding, stmt.annotations)


def _call_of(nest: For) -> Stmt | None:
    """Returns the call of a subroutine that does what loops do, or None if it can't be one, or stores too little."""
    loops: list[For] = []
    stores: list[BufferStore] = []

    def collect(stmt: Stmt, items: int) -> int | None:
        """Collects loops and stores; returns the number of items that are stored, or None if there is anything else."""
        if isinstance(stmt, For) and stmt.kind != ForKind.PARALLEL and emit.static(stmt.min) == 0:
            loops.append(stmt)
            extent = emit.static(stmt.extent)
            return None if extent is None else collect(stmt.body, items * extent)
        if isinstance(stmt, SeqStmt):
            parts = [collect(part, items) for part in stmt.seq]
            return None if None in parts else sum(part or 0 for part in parts)
        if isinstance(stmt, BufferStore):
            stores.append(stmt)
        return items if isinstance(stmt, BufferStore) else None

    items = collect(nest, 1)
    if items is None or items < FEWEST_ITEMS:
        return None
    region = _Region(nest, loops, stores)
    return region.call() if region.can_be_called() else None


class _Access(NamedTuple):
    """An access of an array from loops: its place, its offset in items at the loops' first points, and its strides."""

    source: Var
    indices: Sequence[ir.Expr]
    start: ir.Expr
    strides: list[int]

    def distance(self, other: _Access) -> int | None:
        """Returns how many items another access with the same strides lies behind; None if that isn't known."""
        if not self.source.same_as(other.source) or self.strides != other.strides:
            return None
        return emit.static(emit.simplified(other.start - self.start))


class _Region:
    """A nest of loops that may become a subroutine: its loops from the outside in, and its stores."""

    def __init__(self, nest: For, loops: Sequence[For], stores: Sequence[BufferStore]) -> None:
        self.nest, self.loops, self.stores = nest, loops, stores
        self.vars = [loop.loop_var for loop in loops]
        self.arrays: list[_Access] = []
        self.places: dict[Any, tuple[_Access, int]] = {}
        """By load or store: the array that it accesses, and the distance from the array's first element."""

    def can_be_called(self) -> bool:
        """Reads all accesses; returns whether they are of few arrays with constant strides, and one array is only written.

        Values may depend on nothing else of the kernel, nor on a loop's variable.
        """
        loads: list[TensorLoad] = []

        def add_load(load: TensorLoad) -> tvm_ffi.WalkResult:
            loads.append(load)
            return tvm_ffi.WalkResult.SKIP

        def stop_at(node: ir.Expr) -> Any:
            is_allowed = isinstance(node, ir.Call) and node.op != _ADDRESS_OF
            return tvm_ffi.WalkResult.ADVANCE if is_allowed else tvm_ffi.VisitInterrupt(node)

        rules = [(TensorLoad, add_load), ((Var, ir.Call), stop_at)]
        if any(structural_walk(store.value, rules, order="pre") is not None for store in self.stores):
            return False
        written = self.stores[0].buffer
        if not all(self._add(store, store.buffer) for store in self.stores) or len(self.arrays) > 1:
            return False
        if any(load.source.same_as(written) or not self._add(load, load.source) for load in loads):
            return False
        numbers = [stride for array in self.arrays for stride in array.strides]
        return len(self.arrays) <= MOST_ARRAYS and subroutine.can_pass(numbers)

    def _add(self, place: BufferStore | TensorLoad, source: Var) -> bool:
        """Finds the array of a load or store, or adds one; returns False if its place isn't linear in the loops' variables."""
        offset = access.flat_offset(source, list(place.indices))
        *slopes, start = sym.detect_linear_equation(offset, self.vars) or [None]
        strides = [emit.static(emit.simplified(slope)) for slope in slopes]
        known = [stride for stride in strides if stride is not None]
        if start is None or len(known) < len(self.vars) or str(source.ty.dtype.dtype) != DTYPE:
            return False
        new = _Access(source, place.indices, start, known)
        distances = ((array, array.distance(new)) for array in self.arrays)
        array, distance = next(((array, found) for array, found in distances if found is not None), (new, 0))
        if array is new:
            self.arrays.append(new)
        self.places[place] = array, distance
        return True

    def call(self) -> Stmt:
        """Returns the call of the subroutine, and makes the subroutine."""
        extents = self._merged_extents()
        # Stride 1 is no number: LLVM makes vectors only of what it knows to be neighbours.
        moving = [
            (array, var, stride)
            for array in self.arrays
            for var, stride in zip(self.vars, array.strides, strict=True)
            if var in extents and stride not in (0, 1)
        ]

        def body(arrays: Sequence[Var], numbers: Sequence[ir.Expr]) -> Stmt:
            keys = ((id(array), var) for array, var, _ in moving)
            strides = dict(zip(keys, numbers[len(extents) :], strict=True))
            new_arrays = dict(zip(map(id, self.arrays), arrays, strict=True))
            return self._body(new_arrays, dict(zip(extents, numbers, strict=False)), strides)

        name = subroutine.subroutine([Array(DTYPE)] * len(self.arrays), len(extents) + len(moving), body)
        starts = {var: emit.index(0) for var in self.vars}
        first_elements = [
            emit.load(array.source, [emit.simplified(substitute(index, starts)) for index in array.indices])
            for array in self.arrays
        ]
        return subroutine.call(name, first_elements, [*extents.values(), *(stride for *_, stride in moving)])

    def _merged_extents(self) -> dict[Var, int]:
        """Returns the extents that are passed as numbers, of loops that aren't merged with the loop inside.

        Two loops are one if all arrays go on where the inner loop ends. Fewer loops are the same in more kernels.
        """
        extents = {loop.loop_var: int(loop.extent) for loop in self.loops if loop.kind != ForKind.VECTORIZED}
        position = {var: number for number, var in enumerate(self.vars)}
        for outer in reversed(self.loops):
            var, inner = outer.loop_var, outer.body.loop_var if isinstance(outer.body, For) else None
            if var not in extents or inner not in extents:
                continue
            steps = [(array.strides[position[var]], array.strides[position[inner]]) for array in self.arrays]
            if extents[var] == 1 or all(step == extents[inner] * inner_step for step, inner_step in steps):
                extents[inner] *= extents.pop(var)
        return extents

    def _body(
        self, arrays: Mapping[int, Var], extents: Mapping[Var, ir.Expr], strides: Mapping[tuple[int, Var], ir.Expr]
    ) -> Stmt:
        """Returns the loops on the subroutine's arrays, with its numbers as extents and strides."""
        new_vars = {var: Var(f"v{number}", var.ty) for number, var in enumerate(self.vars)}

        def is_left(loop: For) -> bool:
            return loop.loop_var in extents or loop.kind == ForKind.VECTORIZED

        def moved(place: BufferStore | TensorLoad) -> tuple[Var, list[ir.Expr]]:
            array, distance = self.places[place]
            offset: ir.Expr = emit.index(distance)
            for loop, stride in zip(self.loops, array.strides, strict=True):
                if stride and is_left(loop):
                    step = strides.get((id(array), loop.loop_var), emit.index(stride))
                    offset = offset + new_vars[loop.loop_var] * step
            return arrays[id(array)], [emit.simplified(offset)]

        def statement(stmt: Stmt) -> Stmt:
            if isinstance(stmt, SeqStmt):
                return SeqStmt([statement(part) for part in stmt.seq])
            if isinstance(stmt, For):
                if not is_left(stmt):
                    return statement(stmt.body)
                # What was unrolled has a number as its extent, too.
                kind = ForKind.SERIAL if stmt.loop_var in extents else ForKind.VECTORIZED
                extent = extents.get(stmt.loop_var, stmt.extent)
                return For(new_vars[stmt.loop_var], emit.index(0), extent, kind, statement(stmt.body))
            array, indices = moved(stmt)
            value = structural_map(stmt.value, (TensorLoad, lambda load: emit.load(*moved(load))))
            return emit.store(array, value, indices)

        return statement(self.nest)
