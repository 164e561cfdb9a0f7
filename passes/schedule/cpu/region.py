"""Regions of a kernel that can be subroutines: loops that store to arrays, and call other subroutines in between."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir import TensorLoad
from tvm.tirx import AllocBuffer, BufferStore, Evaluate, For, ForKind, IfThenElse, IntImm, SeqStmt, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.core.variable_lock import cached_property
from tvtf.passes.schedule.cpu import emit, subroutine
from tvtf.passes.schedule.cpu.access import MAX_CACHED_STRIDES, LinearAccess, linear_access, load_stride
from tvtf.passes.schedule.cpu.kernel import loads, substitute, variables
from tvtf.passes.schedule.cpu.product_tile import MIN_TERMS, MULTIPLY_ADDS_PER_CYCLE, product_tile_of
from tvtf.passes.schedule.cpu.subroutine import Array

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
MAX_KNOWN_EXTENT = 1 << 24
"""Bounds of extents from here on tell nothing: they are those of the integer type."""
_ADDRESS_OF = ir.Op.get("tirx.address_of")
Pairs = Sequence[tuple[Var, Var]]


Loops = tuple[For, ...]
Access = tuple[BufferStore | TensorLoad, Var, Loops]
"""A store or load, the array that it accesses, and the loops around it."""


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
        """Returns the constant distance, in elements, from the array's first element to an access inside some loops.

        The access can then use the address and the strides that are passed for the array; strides of further loops are
        added to these. Returns None if the access is of another buffer, has another stride along a loop, or has no
        constant distance.
        """
        access_strides = _strides(access, loops)
        if not self.source.same_as(access.source):
            return None
        if any(self.strides.get(var, stride) != stride for var, stride in access_strides.items()):
            return None
        distance = emit.static(emit.simplified(access.start - self.start))
        if distance is not None:
            self.strides.update(access_strides)
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
    is_vector = bool(loops) and loops[-1].kind == ForKind.VECTORIZED
    return is_vector and _is_gathered_along(store, loops[-1].loop_var)


@lru_cache(maxsize=MAX_CACHED_STRIDES)
def _is_gathered_along(store: BufferStore, lane: Var) -> bool:
    """Returns whether a vector store, or a load in its value, has another stride than 0 or 1 along the lanes.

    The result is cached, since it is needed for each loop around the store.
    """
    accesses = [emit.load(store.buffer, list(store.indices)), *loads(store.value)]
    return any(load_stride(access, lane) not in (0, 1) for access in accesses)


def _is_local(buffer: Var) -> bool:
    """Returns whether a buffer is a local array of static size, as for the sums of a tile."""
    return buffer.ty.storage_scope == "local" and emit.static(emit.volume(buffer.ty.shape)) is not None


def extent_of(loop: For) -> int:
    """Returns the extent of a loop, or an estimate of it: the constant that it can't exceed, if there is one."""
    return _upper_bound(loop.extent) or UNKNOWN_EXTENT


def _upper_bound(extent: ir.Expr) -> int | None:
    """Returns an extent, or the constant that it can't exceed, or None if no constant is known."""
    if isinstance(extent, IntImm):
        return int(extent)
    bound = int(sym.Analyzer().const_int_bound(extent).max_value)
    return bound if 0 < bound < MAX_KNOWN_EXTENT else None


class Region:
    """A statement of a kernel as a subroutine: with the extents of its loops, and the strides of its arrays, as numbers.

    Local arrays, to which called subroutines store, and the loops over their elements keep their sizes. Tiles that the
    region sums itself stay in the kernel: there are too many kinds of them. Local arrays of the kernel are passed only
    if they are ``in_memory`` anyway: the sums of a tile in the kernel are in registers.
    """

    def __init__(self, stmt: Stmt, in_memory: Collection[Var] = ()) -> None:
        """Collects what a statement contains, to decide whether it can be outlined into a subroutine.

        Args:
            stmt: the statement.
            in_memory: the kernel's local arrays that LLVM can't hold in registers.
        """
        self.stmt, self.in_memory = stmt, in_memory
        self.loops: list[For] = []
        """All loops in the statement."""
        self.stores: list[tuple[BufferStore, Loops]] = []
        """The stores in the statement, each with the loops around it."""
        self.calls: list[tuple[ir.Call, Loops]] = []
        """The calls of subroutines in the statement, each with the loops around it."""
        self.locals: list[Var] = []
        """The local arrays that the statement allocates."""
        self.cycles: float | None = self._collect(stmt, ())
        """The estimated cycles of the statement; None if it contains a statement that can't be in a subroutine."""
        self.arrays: list[_Array] = []
        """The arrays that are passed to the subroutine: first those that it writes. `can_be_called` finds them."""
        self.results = 0
        """The number of arrays that the subroutine writes."""
        self.locations: dict[Any, _Location] = {}
        """The location of each load and store."""

    def _collect(self, stmt: Stmt, loops: Loops) -> float | None:
        """Collects the loops, stores, calls and local arrays of a statement, and estimates its cycles.

        Returns None if the statement can't be in a subroutine.

        Args:
            stmt: the statement.
            loops: the loops around the statement.
        """
        times = prod(extent_of(loop) for loop in loops)
        if isinstance(stmt, SeqStmt):
            cycles_of_parts = [self._collect(part, loops) for part in stmt.seq]
            known_cycles = [cycles for cycles in cycles_of_parts if cycles is not None]
            return sum(known_cycles) if len(known_cycles) == len(cycles_of_parts) else None
        if isinstance(stmt, For):
            return self._collect(stmt.body, (*loops, stmt)) if self._is_simple(stmt) else None
        if isinstance(stmt, BufferStore) and not self.is_local(stmt.buffer):
            self.stores.append((stmt, loops))
            items_per_cycle = 1 if _is_gathered(stmt, loops) else ITEMS_PER_CYCLE
            return times / items_per_cycle
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

    @cached_property
    def can_be_called(self) -> bool:
        """Returns whether the region can be a subroutine, and records its arrays and the locations of its accesses.

        There must be only a few arrays, which are accessed with constant strides. Values may depend only on elements of
        arrays, and not on other variables of the kernel or of loops. An array that is both written and read is passed
        once, since the arguments of a subroutine must not overlap.
        """
        accesses = self._accesses()
        if accesses is None:
            return False
        written, read = accesses
        # Arrays that are written come first.
        if not all(self._add(*access) for access in written):
            return False
        self.results = len(self.arrays)
        if not self.results or not all(self._add(*access) for access in read):
            return False
        sources = [array.source for array in self.arrays]
        if any(_is_local(source) and source not in self.in_memory for source in sources):
            return False
        for position, result in enumerate(sources[: self.results]):
            if any(result.same_as(other) for other in sources[position + 1 :]):
                return False
        return len(self.arrays) <= MAX_ARRAYS

    def _accesses(self) -> tuple[list[Access], list[Access]] | None:
        """Returns all writes and all reads of arrays, by the region itself and by the subroutines that it calls.

        Returns None if a value depends on something other than arrays.
        """
        written: list[Access] = []
        read: list[Access] = []
        for store, loops in self.stores:
            loads: list[TensorLoad] = []
            interrupted_at = structural_walk(store.value, _loads_only(loads), order="pre")
            depends_on_other_values = interrupted_at is not None
            if depends_on_other_values:
                return None
            written.append((store, store.buffer, loops))
            read += [(load, load.source, loops) for load in loads]
        for call, loops in self.calls:
            _name, elements, numbers = subroutine.arguments(call)
            if any(loop.loop_var in variables(number) for number in numbers for loop in loops):
                return None
            accesses = [(element, element.source, loops) for element in elements]
            result_count = subroutine.results(call)
            written += accesses[:result_count]
            read += accesses[result_count:]
        return written, read

    def _add(self, node: BufferStore | TensorLoad, source: Var, loops: Loops) -> bool:
        """Records the location of a load or store: its distance from the first element of an array that is passed.

        An access that no array has at a constant distance adds an array. Returns False for an access that a subroutine
        can't have: another dtype than float32, or an offset that isn't linear in the variables of the loops.

        Args:
            node: the load or store.
            source: its buffer.
            loops: the loops around it.
        """
        access = linear_access(source, node.indices, [loop.loop_var for loop in loops])
        if access is None or str(source.ty.dtype.dtype) != DTYPE:
            return False
        if self.is_local(source):
            # The subroutine allocates this array itself, and its offsets must be constants.
            start = emit.static(access.start)
            self.locations[node] = _Location(_Array(access, loops), start or 0, loops)
            return start is not None
        for array in self.arrays:
            distance = array.distance(access, loops)
            if distance is not None:
                self.locations[node] = _Location(array, distance, loops)
                return True
        new_array = _Array(access, loops)
        self.arrays.append(new_array)
        self.locations[node] = _Location(new_array, 0, loops)
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
        strides = self._strides_to_pass(set(extents) | self.fixed)
        distances = self._distances_to_pass()

        def emit_body(arrays: Sequence[Var], numbers: Sequence[ir.Expr]) -> Stmt:
            """Returns the subroutine's body, given its arrays and its numbers.

            The numbers are extents of loops, strides and distances of arrays, and then those of inner calls.
            """
            remaining = iter(numbers)
            new_extents = {var: next(remaining) for var in extents}
            new_strides = {array_and_var: next(remaining) for array_and_var in strides}
            new_distances = {array_and_distance: next(remaining) for array_and_distance in distances}
            new_arrays = dict(zip(map(id, self.arrays), arrays, strict=True))
            return _Body(self, new_arrays, new_extents, new_strides, new_distances, remaining).statement(self.stmt)

        passed_distances = [distance for _array_id, distance in distances]
        passed_numbers = [*extents.values(), *strides.values(), *passed_distances, *self._numbers_of_calls()]
        array_types = [Array(DTYPE)] * len(self.arrays)
        are_distinct = self._are_distinct(overlapping)
        name = subroutine.subroutine(array_types, len(passed_numbers), emit_body, are_distinct, self.results)
        return subroutine.call(name, self._first_elements(part), passed_numbers)

    def _strides_to_pass(self, loop_vars: set[Var]) -> dict[tuple[int, Var], int]:
        """Returns the strides that are arguments of the subroutine, by the ``id`` of the array and the loop's variable.

        Strides of 0 and 1 aren't passed, since LLVM vectorizes only accesses that it knows to be contiguous.

        Args:
            loop_vars: the variables of the subroutine's loops.
        """
        strides = {}
        for array in self.arrays:
            for loop in self.loops:
                stride = array.strides.get(loop.loop_var, 0)
                is_argument = loop.loop_var in loop_vars and loop.kind != ForKind.VECTORIZED
                if is_argument and stride not in (0, 1):
                    strides[id(array), loop.loop_var] = stride
        return strides

    def _numbers_of_calls(self) -> list[ir.Expr]:
        """Returns the numbers that the region passes to other subroutines, call after call."""
        numbers_of_calls: list[ir.Expr] = []
        for call, _loops in self.calls:
            _name, _elements, numbers = subroutine.arguments(call)
            numbers_of_calls += numbers
        return numbers_of_calls

    def _first_elements(self, part: Part | None) -> list[TensorLoad]:
        """Returns the load of each array's first element, whose address is passed to the subroutine.

        Args:
            part: a part of the outermost loop, if the call runs only this part. The first element is then the first one
                that the part accesses.
        """
        starts = {loop.loop_var: emit.index(0) for loop in self.loops}
        if part is not None:
            starts[self.loops[0].loop_var] = part.start

        def first_element(array: _Array) -> TensorLoad:
            """Returns the load of an array's first element."""
            indices = [emit.simplified(substitute(index, starts)) for index in array.indices]
            return emit.load(array.source, indices)

        return [first_element(array) for array in self.arrays]

    def _distances_to_pass(self) -> list[tuple[int, int]]:
        """Returns the distances from an array's first element that are arguments, each with the array's ``id``.

        A large distance, such as that of the next row, depends on the kernel's sizes. It is an argument, so that
        kernels of different sizes can share the subroutine. Small distances are constants.
        """
        large_distances = [
            (id(location.array), location.distance)
            for location in self.locations.values()
            if abs(location.distance) >= MIN_PASSED_DISTANCE and not self.is_local(location.array.source)
        ]
        return list(dict.fromkeys(large_distances))  # each once, in order

    def _are_distinct(self, overlapping: Pairs) -> bool:
        """Returns whether no array that the region writes shares memory with one that it only reads.

        LLVM may then assume that stores don't change operands (``noalias``), and vectorizes without run-time checks.

        Args:
            overlapping: the pairs of arrays that may share memory.
        """
        sources = [array.source for array in self.arrays]
        results, operands = sources[: self.results], sources[self.results :]

        def contains(arrays: list[Var], array: Var) -> bool:
            """Returns whether an array is in a list."""
            return any(array.same_as(other) for other in arrays)

        for first, second in overlapping:
            if contains(results, first) and contains(operands, second):
                return False
            if contains(results, second) and contains(operands, first):
                return False
        return True

    def _extents_to_pass(self, part: Part | None) -> dict[Var, int | ir.Expr]:
        """Returns the extents of loops that are arguments of the subroutine, by the loop's variable.

        Nested loops that access memory like a single loop are merged into the inner loop; only the merged loop has an
        extent. With fewer loops, more kernels share the subroutine.

        Args:
            part: the part of the outermost loop that a call runs; None for the entire loop.
        """
        extents: dict[Var, int | ir.Expr] = {}
        for loop in self.loops:
            if loop.loop_var not in self.fixed:
                static_extent = emit.static(loop.extent)
                extents[loop.loop_var] = loop.extent if static_extent is None else static_extent
        if part is not None:
            extents[self.loops[0].loop_var] = part.extent
        merged_into: dict[Var, Var] = {}
        for outer in reversed(self.loops):
            inner_var = outer.body.loop_var if isinstance(outer.body, For) else None
            inner_var = merged_into.get(inner_var, inner_var)
            if outer.loop_var not in extents or inner_var not in extents:
                continue
            if self._is_mergeable(outer.loop_var, inner_var, extents):
                extents[inner_var] = extents[inner_var] * extents.pop(outer.loop_var)
                merged_into[outer.loop_var] = inner_var
        return extents

    def _is_mergeable(self, outer: Var, inner: Var, extents: Mapping[Var, int | ir.Expr]) -> bool:
        """Returns whether two nested loops can be merged into one, since all accesses are those of a single loop.

        For each array, the stride of the outer loop must be the stride of the inner loop times its extent.

        Args:
            outer: the variable of the outer loop.
            inner: the variable of the inner loop.
            extents: the extents of loops by their variables.
        """
        if emit.static(extents[outer]) == 1:
            return True
        inner_extent = emit.static(extents[inner])
        if inner_extent is None:
            return False
        arrays_in_inner_loop = []
        for location in self.locations.values():
            if any(loop.loop_var.same_as(inner) for loop in location.loops):
                arrays_in_inner_loop.append(location.array)
        return all(array.strides[outer] == inner_extent * array.strides[inner] for array in arrays_in_inner_loop)

    @cached_property
    def fixed(self) -> set[Var]:
        """The variables of loops whose extents are compiled into the subroutine instead of being passed as arguments.

        These are the loops that become vectors, and those over the elements of local arrays, which have constant sizes.
        The length of a vector is part of its type, and can't be an argument.
        """
        local_arrays = [location.array for location in self.locations.values() if self.is_local(location.array.source)]
        vars_over_locals = {var for array in local_arrays for var, stride in array.strides.items() if stride != 0}

        def is_fixed(loop: For) -> bool:
            """Returns whether a loop's extent is compiled into the subroutine."""
            if loop.kind == ForKind.VECTORIZED:
                return True
            return loop.loop_var in vars_over_locals and emit.static(loop.extent) is not None

        return {loop.loop_var for loop in self.loops if is_fixed(loop)}


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
        """Prepares the translation of a region of a kernel to the body of a subroutine.

        Args:
            region: the region.
            arrays: the subroutine's array arguments, by the ``id`` of the region's array.
            extents: the arguments for extents, by the loop's variable.
            strides: the arguments for strides, by the array's ``id`` and the loop's variable.
            distances: the arguments for large distances, by the array's ``id`` and the distance in the kernel.
            numbers_of_calls: the arguments that calls of other subroutines in the region pass on, in order.
        """
        self.region, self.arrays, self.extents, self.strides = region, arrays, extents, strides
        self.distances = distances
        self.numbers_of_calls = numbers_of_calls
        # New names and variables, the same for all kernels: equal subroutines are recognized by their content, which
        # includes names. So loops that were merged into others don't count.
        left = [loop.loop_var for loop in region.loops if loop.loop_var in extents or loop.loop_var in region.fixed]
        self.vars = {var: Var(f"v{i}", var.ty) for i, var in enumerate(left)}
        self.locals = {
            local: emit.scratch([emit.volume(local.ty.shape)], DTYPE, f"l{i}", "local")
            for i, local in enumerate(region.locals)
        }

    def statement(self, stmt: Stmt) -> Stmt:
        """Translates a statement of the region: the result uses the subroutine's arguments and its own variables."""
        if isinstance(stmt, SeqStmt):
            return SeqStmt([self.statement(part) for part in stmt.seq])
        if isinstance(stmt, For):
            return self._loop(stmt)
        if isinstance(stmt, AllocBuffer):
            return emit.allocate(self.locals[stmt.buffer])
        if isinstance(stmt, Evaluate):
            name, elements, numbers = subroutine.arguments(stmt.value)
            passed_elements = [self._load(element) for element in elements]
            passed_numbers = [next(self.numbers_of_calls) for _ in numbers]
            return subroutine.call(name, passed_elements, passed_numbers)
        array, indices = self._array_and_index(stmt, stmt.buffer)
        value = structural_map(stmt.value, (TensorLoad, self._load))
        return emit.store(array, value, indices)

    def _load(self, load: TensorLoad) -> TensorLoad:
        """Translates a load of the region to a load of the subroutine's array."""
        array, indices = self._array_and_index(load, load.source)
        return emit.load(array, indices)

    def _loop(self, loop: For) -> Stmt:
        """Translates a loop of the region to a loop of the subroutine.

        Its extent is an argument; that of a loop with a fixed extent is a constant. A loop that was merged into its inner
        loop is left out.
        """
        old_var = loop.loop_var
        body = self.statement(loop.body)
        new_var = self.vars.get(old_var)
        if old_var in self.extents:
            # Serial, even if the kernel's loop was unrolled or parallel: the extent is an argument, and a call is the work
            # of one thread.
            return For(new_var, emit.index(0), self.extents[old_var], ForKind.SERIAL, body)
        if old_var in self.region.fixed:
            return For(new_var, emit.index(0), loop.extent, loop.kind, body)
        return body

    def _array_and_index(self, node: BufferStore | TensorLoad, source: Var) -> tuple[Var, list[ir.Expr]]:
        """Returns the array that a load or store accesses in the subroutine, and its index.

        The index is the distance from the array's first element plus ``variable * stride`` for each loop around the
        access. Each distance and stride is an argument of the subroutine or a constant.

        Args:
            node: the load or store.
            source: its buffer.
        """
        array, distance, loops = self.region.locations[node]
        offset = self.distances.get((id(array), distance), emit.index(distance))
        for loop_var in (loop.loop_var for loop in loops):
            constant_stride = array.strides[loop_var]
            has_own_loop = loop_var in self.extents or loop_var in self.region.fixed  # it wasn't merged
            if constant_stride != 0 and has_own_loop:
                stride = self.strides.get((id(array), loop_var), emit.index(constant_stride))
                offset = offset + self.vars[loop_var] * stride
        new_array = self.locals[source] if self.region.is_local(source) else self.arrays[id(array)]
        return new_array, [emit.simplified(offset)]


def _loads_only(found: list[TensorLoad]) -> list[tuple[Any, Any]]:
    """Returns the rules of a walk that appends the loads of a value to a list.

    The walk is interrupted at nodes that can't be in a subroutine: variables and addresses, which aren't passed to it,
    and casts to floats of 16 bits or less, such as bfloat16. LLVM crashes on some of these, and `codegen/bfloat16.py`
    replaces them in kernels only.

    Args:
        found: the list of loads.
    """

    def add_load(load: TensorLoad) -> tvm_ffi.WalkResult:
        """Adds a load to the list, and skips its indices."""
        found.append(load)
        return tvm_ffi.WalkResult.SKIP  # indices may have variables

    def visit_variable_or_call(node: ir.Expr) -> Any:
        """Ends the walk at a variable or an address."""
        is_allowed = isinstance(node, ir.Call) and node.op != _ADDRESS_OF
        return tvm_ffi.WalkResult.ADVANCE if is_allowed else tvm_ffi.VisitInterrupt(node)

    def visit_cast(cast: tirx.Cast) -> Any:
        """Ends the walk at a cast to a float of 16 bits or less."""
        is_narrow_float = "float" in str(cast.ty.dtype) and cast.ty.dtype.itemsize < 4
        return tvm_ffi.VisitInterrupt(cast) if is_narrow_float else tvm_ffi.WalkResult.ADVANCE

    return [(TensorLoad, add_load), ((Var, ir.Call), visit_variable_or_call), (tirx.Cast, visit_cast)]


def estimated_cycles(stmt: Stmt, times: int = 1) -> float:
    """Estimates the cycles of all stores and subroutine calls in a statement that runs ``times`` times.

    For an If, this is the estimate of the slower branch. The estimate decides whether the cost of a call would be
    noticeable in comparison.
    """
    if isinstance(stmt, SeqStmt):
        return sum(estimated_cycles(part, times) for part in stmt.seq)
    if isinstance(stmt, For):
        return estimated_cycles(stmt.body, times * extent_of(stmt))
    if isinstance(stmt, IfThenElse):
        branches = [branch for branch in (stmt.then_case, stmt.else_case) if branch is not None]
        return max(estimated_cycles(branch, times) for branch in branches)
    if isinstance(stmt, Evaluate):
        return times * cycles_of_call(stmt.value) if subroutine.is_call(stmt.value) else 0
    return times / ITEMS_PER_CYCLE if isinstance(stmt, BufferStore) else 0


def cycles_of_call(call: ir.Call) -> float:
    """Estimates the cycles of a subroutine call: for a product tile from its multiply-adds, else a constant."""
    tile = product_tile_of(call)
    if tile is None:
        return CYCLES_OF_A_CALL
    _name, _arrays, numbers = subroutine.arguments(call)
    # The first numbers are the extents of the reduction axes. An extent without an upper bound is that of the last,
    # shorter part of an axis, and counts as 1.
    term_counts = [_upper_bound(number) or 1 for number in numbers[: tile.first_number]]
    terms = max(prod(term_counts), MIN_TERMS)
    multiply_adds = prod(tile.sizes) * tile.width * terms
    return multiply_adds / MULTIPLY_ADDS_PER_CYCLE
