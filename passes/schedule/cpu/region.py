"""Regions of a kernel that can be subroutines: loops that store to arrays, and call other subroutines in between."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import tvm_ffi
from tvm import ir
from tvm.ir import TensorLoad
from tvm.tirx import AllocBuffer, BufferStore, Evaluate, For, ForKind, IfThenElse, IntImm, SeqStmt, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.core.variable_lock import cached_property
from tvtf.passes.schedule.cpu import emit, subroutine
from tvtf.passes.schedule.cpu.access import LinearAccess, linear_access, load_stride
from tvtf.passes.schedule.cpu.kernel import loads, substitute, variables
from tvtf.passes.schedule.cpu.product_tile import MIN_TERMS, product_tile_of
from tvtf.passes.schedule.cpu.subroutine import Array
from tvtf.passes.schedule.cpu.vector_axis import OPERATIONS_PER_CYCLE

DTYPE = "float32"
"""The element type of regions. `codegen/bfloat16.py` changes kernels on others after they are scheduled."""
MAX_ARRAYS = 16
"""Maximum number of arrays of a region: the update of a variable by Adam has 3 results, 10 operands and the gradient."""
ITEMS_PER_CYCLE = 16
CYCLES_OF_A_CALL = 100
"""Estimated cycles of a call other than of a product tile, such as a transform of Winograd's."""
MIN_PASSED_DISTANCE = 64
"""Minimum distance between two accesses of an array, in elements, that is passed to a subroutine as a number. A smaller one
is usually within a row, and the same in many kernels."""
UNKNOWN_EXTENT = 8
"""The extent that is assumed for a loop whose extent is known only at run time, when its work is estimated."""
_ADDRESS_OF = ir.Op.get("tirx.address_of")
Pairs = Sequence[tuple[Var, Var]]


Loops = tuple[For, ...]


class Part(NamedTuple):
    """A part of a loop: its first index, and its number of iterations."""

    start: ir.Expr
    extent: ir.Expr


class _Array:
    """An array that a region reads or writes: the element whose address is passed, and the strides of the loops.

    The element is ``source[indices]``, and ``start`` its offset in elements. ``strides`` has the distance in elements
    from one iteration of a loop to the next, by the loop's variable.
    """

    def __init__(self, access: LinearAccess, loops: Loops) -> None:
        self.source, self.indices, self.start = access.source, access.indices, access.start
        self.strides = _strides(access, loops)

    def distance(self, access: LinearAccess, loops: Loops) -> int | None:
        """Returns the distance in elements from this element to an access, or None if the access isn't one of this array."""
        new = _strides(access, loops)
        if not self.source.same_as(access.source) or any(
            self.strides.get(var, step) != step for var, step in new.items()
        ):
            return None
        distance = emit.static(emit.simplified(access.start - self.start))
        if distance is not None:
            self.strides.update(new)
        return distance


class _Location(NamedTuple):
    """The location of an access in an array: its distance from the array's first element, and the loops around it."""

    array: _Array
    distance: int
    loops: Loops


def _strides(access: LinearAccess, loops: Loops) -> dict[Var, int]:
    return {loop.loop_var: stride for loop, stride in zip(loops, access.strides, strict=True)}


def _is_gathered(store: BufferStore, loops: Loops) -> bool:
    """Returns whether the elements of a vector aren't contiguous in memory, so that they are loaded or stored one by one."""
    if not loops or loops[-1].kind != ForKind.VECTORIZED:
        return False
    lane, accesses = loops[-1].loop_var, [emit.load(store.buffer, list(store.indices)), *loads(store.value)]
    return any(load_stride(access, lane) not in (0, 1) for access in accesses)


def _is_local(buffer: Var) -> bool:
    """Returns whether a buffer is a local array of static size, as for the sums of a tile."""
    return buffer.ty.storage_scope == "local" and emit.static(emit.volume(buffer.ty.shape)) is not None


def extent_of(loop: For) -> int:
    """Returns the extent of a loop, or an estimate of it."""
    extent = emit.static(loop.extent)
    return UNKNOWN_EXTENT if extent is None else extent


class Region:
    """A statement of a kernel as a subroutine: with the extents of its loops, and the strides of its arrays, as numbers.

    Local arrays, to which called subroutines store, and the loops over their elements keep their sizes. Tiles that the
    region sums itself stay in the kernel: there are too many kinds of them. Local arrays of the kernel are passed only
    if they are ``in_memory`` anyway: the sums of a tile in the kernel are in registers.
    """

    def __init__(self, stmt: Stmt, in_memory: Collection[Var] = ()) -> None:
        self.stmt, self.in_memory = stmt, in_memory
        self.loops: list[For] = []
        """All loops in the statement."""
        self.stores: list[tuple[BufferStore, Loops]] = []
        """The stores in it, each with the loops around it."""
        self.calls: list[tuple[ir.Call, Loops]] = []
        """The calls of subroutines in it, each with the loops around it."""
        self.locals: list[Var] = []
        """The local arrays that it allocates."""
        self.cycles: float | None = self._collect(stmt, ())
        """An estimate of what the region takes; None if it has a statement that can't be in a subroutine."""
        self.arrays: list[_Array] = []
        """The arrays that the region writes to come first."""
        self.results = 0
        """The number of arrays that it writes."""
        self.locations: dict[Any, _Location] = {}
        """The location of each load and store."""

    def _collect(self, stmt: Stmt, loops: Loops) -> float | None:
        """Collects loops, stores, calls and local arrays, each with the loops around it; returns the cycles that they take."""
        times = prod(extent_of(loop) for loop in loops)
        if isinstance(stmt, SeqStmt):
            parts = [self._collect(part, loops) for part in stmt.seq]
            return None if None in parts else sum(part or 0 for part in parts)
        if isinstance(stmt, For):
            return self._collect(stmt.body, (*loops, stmt)) if self._is_simple(stmt) else None
        if isinstance(stmt, BufferStore) and not self.is_local(stmt.buffer):
            self.stores.append((stmt, loops))
            return times / (1 if _is_gathered(stmt, loops) else ITEMS_PER_CYCLE)
        if isinstance(stmt, AllocBuffer) and _is_local(stmt.buffer):
            self.locals.append(stmt.buffer)
            return 0
        if isinstance(stmt, Evaluate) and subroutine.is_call(stmt.value):
            self.calls.append((stmt.value, loops))
            return times * cycles_of_call(stmt.value)
        return None

    def _is_simple(self, loop: For) -> bool:
        """Adds a loop; returns whether it starts at 0, isn't parallel, and has an extent that is known before the region."""
        used = variables(loop.extent)
        is_known = not any(other.loop_var in used for other in self.loops)
        can_be_inner = loop.kind != ForKind.PARALLEL or not self.loops
        self.loops.append(loop)
        return emit.static(loop.min) == 0 and is_known and can_be_inner

    def can_be_called(self) -> bool:
        """Reads all accesses; returns whether they are of few arrays with constant strides.

        Values may depend on nothing else of the kernel, nor on a loop's variable. An array that is written and read,
        such as one that a variable is updated in, is passed once: arrays that are passed don't overlap.
        """
        read: list[tuple[TensorLoad, Loops]] = []
        for store, loops in self.stores:
            found: list[TensorLoad] = []
            if structural_walk(store.value, _loads_only(found), order="pre") is not None:
                return False
            read.extend((load, loops) for load in found)
        written: list[tuple[Any, Var, Loops]] = [(store, store.buffer, loops) for store, loops in self.stores]
        for call, loops in self.calls:
            _, elements, numbers = subroutine.arguments(call)
            if any(loop.loop_var in variables(number) for number in numbers for loop in loops):
                return False
            results = subroutine.results(call)
            written.extend((element, element.source, loops) for element in elements[:results])
            read.extend((element, loops) for element in elements[results:])
        if not all(self._add(*location) for location in written):
            return False
        self.results = len(self.arrays)
        if not self.results or not all(self._add(load, load.source, loops) for load, loops in read):
            return False
        sources = [array.source for array in self.arrays]
        if any(_is_local(source) and source not in self.in_memory for source in sources):
            return False
        if any(sources[number].same_as(other) for number in range(self.results) for other in sources[number + 1 :]):
            return False
        return len(self.arrays) <= MAX_ARRAYS

    def _add(self, node: BufferStore | TensorLoad, source: Var, loops: Loops) -> bool:
        """Finds the array of a load or store, or adds one; returns False if its offset isn't linear in the loops' variables."""
        access = linear_access(source, node.indices, [loop.loop_var for loop in loops])
        if access is None or str(source.ty.dtype.dtype) != DTYPE:
            return False
        if self.is_local(source):
            start = emit.static(access.start)
            self.locations[node] = _Location(_Array(access, loops), start or 0, loops)
            return start is not None
        distances = ((array, array.distance(access, loops)) for array in self.arrays)
        array, distance = next(((array, found) for array, found in distances if found is not None), (None, 0))
        if array is None:
            array = _Array(access, loops)
            self.arrays.append(array)
        self.locations[node] = _Location(array, distance or 0, loops)
        return True

    def is_local(self, source: Var) -> bool:
        return any(source.same_as(local) for local in self.locals)

    def call(self, overlapping: Pairs, part: Part | None = None) -> Stmt:
        """Returns the call of the subroutine, and makes the subroutine.

        Args:
            overlapping: pairs of arrays that may be the same memory.
            part: the part of the outermost loop that the call does; None for all of it.
        """
        extents = self._extents_to_pass(part)
        left = set(extents) | self.fixed
        # Stride 1 isn't passed: LLVM vectorizes only accesses that it knows to be contiguous.
        moving = [
            (array, loop.loop_var, array.strides[loop.loop_var])
            for array in self.arrays
            for loop in self.loops
            if loop.loop_var in left
            and loop.kind != ForKind.VECTORIZED
            and array.strides.get(loop.loop_var, 0) not in (0, 1)
        ]
        far = self._distances_to_pass()
        numbers_of_calls = [number for call, _ in self.calls for number in subroutine.arguments(call)[2]]

        def body(arrays: Sequence[Var], numbers: Sequence[ir.Expr]) -> Stmt:
            """Returns the subroutine's body, given its arrays and its numbers.

            The numbers are extents of loops, strides and distances of arrays, and then those of inner calls.
            """
            remaining = iter(numbers)
            new_extents = {var: next(remaining) for var in extents}
            strides = {(id(array), var): next(remaining) for array, var, _ in moving}
            distances = {key: next(remaining) for key in far}
            new_arrays = dict(zip(map(id, self.arrays), arrays, strict=True))
            return _Body(self, new_arrays, new_extents, strides, distances, remaining).statement(self.stmt)

        passed_distances = [distance for _, distance in far]
        passed = [*extents.values(), *(stride for *_, stride in moving), *passed_distances, *numbers_of_calls]
        name = subroutine.subroutine(
            [Array(DTYPE)] * len(self.arrays), len(passed), body, self._are_distinct(overlapping), self.results
        )
        starts = {loop.loop_var: emit.index(0) for loop in self.loops}
        if part is not None:
            starts[self.loops[0].loop_var] = part.start
        first_elements = [
            emit.load(array.source, [emit.simplified(substitute(index, starts)) for index in array.indices])
            for array in self.arrays
        ]
        return subroutine.call(name, first_elements, passed)

    def _distances_to_pass(self) -> list[tuple[int, int]]:
        """Returns the large distances of accesses from the first element of their array, each with the array's ``id``."""
        far = (
            (id(location.array), location.distance)
            for location in self.locations.values()
            if abs(location.distance) >= MIN_PASSED_DISTANCE and not self.is_local(location.array.source)
        )
        return list(dict.fromkeys(far))

    def _are_distinct(self, overlapping: Pairs) -> bool:
        """Returns whether no array that is written shares memory with one that is only read."""
        sources = [array.source for array in self.arrays]
        results, operands = sources[: self.results], sources[self.results :]
        pairs = [pair for a in results for b in operands for pair in ((a, b), (b, a))]
        return not any(a.same_as(c) and b.same_as(d) for a, b in pairs for c, d in overlapping)

    def _extents_to_pass(self, part: Part | None) -> dict[Var, int | ir.Expr]:
        """Returns the extents that are passed as numbers, of loops that aren't merged with the loop inside.

        Two loops are one if all accesses go on where the inner loop ends. Fewer loops are the same in more kernels.
        """
        extents: dict[Var, int | ir.Expr] = {}
        for loop in self.loops:
            if loop.loop_var not in self.fixed:
                extent = emit.static(loop.extent)
                extents[loop.loop_var] = loop.extent if extent is None else extent
        if part is not None:
            extents[self.loops[0].loop_var] = part.extent
        for outer in reversed(self.loops):
            inner = outer.body.loop_var if isinstance(outer.body, For) else None
            if outer.loop_var in extents and inner in extents and self._is_mergeable(outer.loop_var, inner, extents):
                extents[inner] = extents[inner] * extents.pop(outer.loop_var)
        return extents

    def _is_mergeable(self, outer: Var, inner: Var, extents: Mapping[Var, int | ir.Expr]) -> bool:
        """Returns whether a loop and the loop inside of it can be merged: all accesses move through memory as along one loop."""
        steps = [
            (location.array.strides[outer], location.array.strides[inner])
            for location in self.locations.values()
            if any(loop.loop_var.same_as(inner) for loop in location.loops)
        ]
        inner_extent = emit.static(extents[inner])
        is_single = emit.static(extents[outer]) == 1
        return is_single or (inner_extent is not None and all(a == inner_extent * b for a, b in steps))

    @cached_property
    def fixed(self) -> set[Var]:
        """The variables of loops whose extents are compiled into the subroutine instead of being passed as arguments.

        These are the loops that become vectors, and those over the elements of local arrays, which have constant sizes.
        """
        over_locals = {
            var
            for location in self.locations.values()
            if self.is_local(location.array.source)
            for var, stride in location.array.strides.items()
            if stride
        }
        return {
            loop.loop_var
            for loop in self.loops
            if loop.kind == ForKind.VECTORIZED
            or (loop.loop_var in over_locals and emit.static(loop.extent) is not None)
        }


class _Body:
    """Writes a region's statements on the arguments of its subroutine."""

    def __init__(
        self,
        region: Region,
        arrays: Mapping[int, Var],
        extents: Mapping[Var, ir.Expr],
        strides: Mapping[tuple[int, Var], ir.Expr],
        distances: Mapping[tuple[int, int], ir.Expr],
        numbers_of_calls: Iterator[ir.Expr],
    ) -> None:
        """Prepares the translation of a region.

        The mappings have the subroutine's arguments: an array by the ``id`` of the region's array, an extent by the
        loop's variable, a stride by array and variable, a distance by array and its value in the region.
        """
        self.region, self.arrays, self.extents, self.strides = region, arrays, extents, strides
        self.distances = distances
        self.numbers_of_calls = numbers_of_calls
        self.vars = {loop.loop_var: Var(f"v{number}", loop.loop_var.ty) for number, loop in enumerate(region.loops)}
        self.locals = {
            local: emit.scratch([emit.volume(local.ty.shape)], DTYPE, f"l{number}", "local")
            for number, local in enumerate(region.locals)
        }

    def statement(self, stmt: Stmt) -> Stmt:
        """Returns a statement of the region on the arguments."""
        if isinstance(stmt, SeqStmt):
            return SeqStmt([self.statement(part) for part in stmt.seq])
        if isinstance(stmt, For):
            return self._loop(stmt)
        if isinstance(stmt, AllocBuffer):
            return emit.allocate(self.locals[stmt.buffer])
        if isinstance(stmt, Evaluate):
            name, elements, numbers = subroutine.arguments(stmt.value)
            new_elements = [emit.load(*self._array_and_index(element, element.source)) for element in elements]
            return subroutine.call(name, new_elements, [next(self.numbers_of_calls) for _ in numbers])
        array, indices = self._array_and_index(stmt, stmt.buffer)
        value = structural_map(
            stmt.value, (TensorLoad, lambda load: emit.load(*self._array_and_index(load, load.source)))
        )
        return emit.store(array, value, indices)

    def _loop(self, loop: For) -> Stmt:
        """Returns a loop of the region over its new variable, or only the body of a loop that was merged."""
        var = loop.loop_var
        if var in self.extents:  # so does a loop that was unrolled
            return For(self.vars[var], emit.index(0), self.extents[var], ForKind.SERIAL, self.statement(loop.body))
        if var not in self.region.fixed:
            return self.statement(loop.body)
        return For(self.vars[var], emit.index(0), loop.extent, loop.kind, self.statement(loop.body))

    def _array_and_index(self, node: BufferStore | TensorLoad, source: Var) -> tuple[Var, list[ir.Expr]]:
        """Returns the argument or local array that a load or store accesses in the subroutine, and the index in it."""
        array, distance, loops = self.region.locations[node]
        offset = self.distances.get((id(array), distance), emit.index(distance))
        for var in (loop.loop_var for loop in loops):
            if array.strides[var] and (var in self.extents or var in self.region.fixed):
                offset = offset + self.vars[var] * self.strides.get((id(array), var), emit.index(array.strides[var]))
        is_local = self.region.is_local(source)
        return self.locals[source] if is_local else self.arrays[id(array)], [emit.simplified(offset)]


def _loads_only(found: list[TensorLoad]) -> list[tuple[Any, Any]]:
    """Returns rules for a walk that collects loads, and stops where a value depends on a variable or an address."""

    def add(load: TensorLoad) -> tvm_ffi.WalkResult:
        found.append(load)
        return tvm_ffi.WalkResult.SKIP

    def stop_at(node: ir.Expr) -> Any:
        is_allowed = isinstance(node, ir.Call) and node.op != _ADDRESS_OF
        return tvm_ffi.WalkResult.ADVANCE if is_allowed else tvm_ffi.VisitInterrupt(node)

    return [(TensorLoad, add), ((Var, ir.Call), stop_at)]


def estimated_cycles(stmt: Stmt, times: int = 1) -> float:
    """Estimates the cycles that stores and calls of subroutines in a statement take ``times`` times."""
    if isinstance(stmt, SeqStmt):
        return sum(estimated_cycles(part, times) for part in stmt.seq)
    if isinstance(stmt, For):
        return estimated_cycles(stmt.body, times * extent_of(stmt))
    if isinstance(stmt, IfThenElse):
        cases = (stmt.then_case, stmt.else_case)
        return max(0 if case is None else estimated_cycles(case, times) for case in cases)
    if isinstance(stmt, Evaluate):
        return times * cycles_of_call(stmt.value) if subroutine.is_call(stmt.value) else 0
    return times / ITEMS_PER_CYCLE if isinstance(stmt, BufferStore) else 0


def cycles_of_call(call: ir.Call) -> float:
    """Estimates the cycles that a call of a subroutine takes."""
    tile, numbers = product_tile_of(call), subroutine.arguments(call)[2]
    if tile is None:
        return CYCLES_OF_A_CALL
    # A number that isn't constant is at an image's edges, or the last of several parts.
    terms = prod(int(number) if isinstance(number, IntImm) else 1 for number in numbers[: tile.first_number])
    terms = max(terms, MIN_TERMS)
    return prod(tile.sizes) * tile.width * terms / (ITEMS_PER_CYCLE * OPERATIONS_PER_CYCLE)
