"""Packing: a contiguous copy of an operand, panel by panel, in the order in which a tiled reduction reads it.

A panel has the operand's elements for some indices of the packed axis, the width of a register tile. Its rows are the
indices of the operand's other axes. Where packing transposes the operand, a piece is one vector of a panel, else the panel.
A chunk is what one task copies: some rows of one piece.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.band_copy import call_band_copy
from tvtf.passes.schedule.cpu.elementwise import emit_elementwise
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, AxisIndices, Stage, by_axis, substitute, variables, with_value
from tvtf.passes.schedule.cpu.parallel_threshold import MIN_PARALLEL_CYCLES, is_small_box
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile_plan import Packing, Plan
from tvtf.passes.schedule.cpu.transpose import transposed_copy
from tvtf.passes.schedule.cpu.vector_axis import PAGE_BYTES

CYCLES_PER_PACKED_ELEMENT = 1
ROWS_PER_CHUNK = 16
"""Rows of a panel that a task copies."""
MAX_LANES_TO_TRANSPOSE = 16
"""The side of a square to transpose, at most. Its rows and columns are in registers at the same time: at 16 lanes, all 32 of
AVX-512. Narrow elements, of which a vector has more, are transposed in squares of 16, too."""


@dataclass(frozen=True)
class PackedOperand:
    """An operand copied into panels, with the layout `buffer[panel, *axes, lane]`.

    Attributes:
        buffer: the packed copy.
        load: the load of the operand that the copy replaces.
        vector: the packed axis, along which a tile has its vectors.
        axes: the other axes along which the operand is read. Their indices are the rows of a panel.
        width: the number of indices of the packed axis in a panel.
        pitch: the number of elements from row to row of a panel, a multiple of `lanes`. The first `width` are used.
        lanes: the number of elements of a vector when the operand is copied.
    """

    buffer: Var
    load: TensorLoad
    vector: Axis
    axes: tuple[Axis, ...]
    width: int
    pitch: int
    lanes: int

    def packed_load(self) -> ir.Expr:
        """Returns the load from the packed copy that replaces the load of the operand."""
        panel = tirx.floordiv(self.vector.var, index(self.width))
        lane = tirx.floormod(self.vector.var, index(self.width))
        return emit.load(self.buffer, [panel, *(axis.var for axis in self.axes), lane])

    @property
    def size(self) -> int:
        """The extent of the packed axis."""
        return int(self.vector.extent)

    @property
    def count(self) -> int:
        """The number of subpanels along the packed axis: of panels, or of vectors where packing transposes the operand."""
        return emit.ceil_div(self.size, self.lanes if self.is_transposed else self.width)

    @property
    def rows_per_chunk(self) -> int:
        """The number of rows of a panel, along the last axis, that a chunk copies."""
        last = self.axes[-1].size if self.axes else None
        return 1 if last is None else min(last, self.lanes if self.is_transposed else ROWS_PER_CHUNK)

    @property
    def is_contiguous(self) -> bool:
        """Whether the operand is contiguous along the packed axis. Panels can then be copied in vectors."""
        return access.load_stride(self.load, self.vector.var) == 1

    @property
    def is_transposed(self) -> bool:
        """Whether packing transposes the operand.

        That is needed if the operand is contiguous along its last axis, but the vectors of a panel run along another one.
        """
        last = self.axes[-1] if self.axes else None
        if last is None or last.size is None or last.size < self.lanes:
            return False
        # Square matrices are transposed in registers. Their size must be a power of two.
        is_power_of_two = self.lanes & (self.lanes - 1) == 0
        if not is_power_of_two or is_small_box((self.vector, *self.axes)):
            return False
        has_full_vectors = self.width == self.pitch
        is_contiguous_along_last = access.load_stride(self.load, last.var) == 1
        return not self.is_contiguous and has_full_vectors and is_contiguous_along_last


def pack_operands(stage: Stage, plan: Plan, target: CpuTarget, parallel: bool) -> tuple[Stage, list[Stmt]]:
    """Packs the operands of a reduction that its plan lists, into panels of the width of a register tile.

    A tile then loads consecutive full vectors from a panel. Returns the reduction on the packed operands, and the
    statements that pack them.

    Args:
        stage: the reduction.
        plan: lists the operands to pack.
        target: the CPU.
        parallel: whether to pack in parallel.
    """
    statements: list[Stmt] = []
    for packing in plan.packed:
        operand = _packed_operand(stage, packing, target)
        stage = with_value(stage, _with_packed_load(stage.value, operand))
        statements += [emit.allocate(operand.buffer), _pack(operand, parallel)]
    return stage, statements


def transpose_operand(stage: Stage, plan: Plan, target: CpuTarget) -> tuple[Stage, list[Stmt]]:
    """Returns a reduction that reads a transposed copy of an operand, and the statements that make the copy.

    Vectors of terms are then contiguous in the copy. The stage is unchanged if the plan transposes nothing.

    Args:
        stage: the reduction.
        plan: names the operand to transpose, if there is one.
        target: the CPU.
    """
    load = plan.transposed
    if load is None:
        return stage, []
    used_vars = variables(access.flat_offset(load.source, list(load.indices)))
    other_axes = [axis for axis in stage.axes if axis.var in used_vars and not axis.var.same_as(plan.vector.var)]
    # The axis of the vectors comes last, so that it is contiguous in the copy.
    stage_axes = (*other_axes, plan.vector)
    stage_indices = [axis.var for axis in stage_axes]
    copy_axes = tuple(replace(axis, var=Var(axis.var.name, "int64")) for axis in stage_axes)
    copy_indices = [axis.var for axis in copy_axes]
    buffer = emit.scratch([axis.extent for axis in copy_axes], str(load.source.ty.dtype.dtype), "turned")
    source_item = substitute(load, dict(zip(stage_indices, copy_indices, strict=True)))
    copy = emit_elementwise([Stage(buffer, copy_axes, (), None, source_item)], target)

    def replace_load(candidate: TensorLoad) -> TensorLoad:
        return emit.load(buffer, stage_indices) if tvm_ffi.structural_equal(candidate, load) else candidate

    value_on_copy = structural_map(stage.value, (TensorLoad, replace_load))
    return with_value(stage, value_on_copy), [emit.allocate(buffer), copy]


def _packed_operand(stage: Stage, packing: Packing, target: CpuTarget) -> PackedOperand:
    """Describes the packed copy of an operand, and creates a scratch buffer for the copy.

    The copy consists of panels, each of `packing.width` elements along the vector axis. The rows of a panel are padded to
    full vectors, so that tiles read them without bounds checks.

    Args:
        stage: the reduction.
        packing: the operand, its axis of vectors, and the width of a panel.
        target: the CPU.
    """
    load, vector_axis, width = packing.load, packing.axis, packing.width
    used_vars = variables(access.flat_offset(load.source, list(load.indices)))
    other_axes = tuple(axis for axis in stage.axes if axis.var in used_vars and not axis.var.same_as(vector_axis.var))
    item_bytes = load.ty.dtype.bits // 8
    lanes = min(target.lanes(item_bytes), MAX_LANES_TO_TRANSPOSE)
    pitch = emit.round_up(width, lanes)
    panel_count = emit.ceil_div(int(vector_axis.extent), width)
    row_extents = _without_page_strides([axis.extent for axis in other_axes], row_bytes=pitch * item_bytes)
    buffer = emit.scratch([panel_count, *row_extents, pitch], str(load.source.ty.dtype.dtype), "packed")
    return PackedOperand(buffer, load, vector=vector_axis, axes=other_axes, width=width, pitch=pitch, lanes=lanes)


def _without_page_strides(extents: list[ir.Expr], row_bytes: int) -> list[ir.Expr]:
    """Enlarges the last extent of a panel by one row if panels would be a multiple of the page size apart.

    Rows at the same position in several panels would then map to the same set of the level-1 cache, and evict one
    another.

    Args:
        extents: the extents of a panel.
        row_bytes: the bytes of a row.
    """
    row_count = emit.static(emit.volume(extents))
    if not extents or row_count is None or row_count * row_bytes % PAGE_BYTES:
        return extents
    return [*extents[:-1], emit.simplified(extents[-1] + 1)]


def _with_packed_load(value: ir.Expr, operand: PackedOperand) -> ir.Expr:
    """Returns a value with the loads of an operand replaced by loads of its packed copy."""

    def replace_load(load: TensorLoad) -> ir.Expr:
        return operand.packed_load() if tvm_ffi.structural_equal(load, operand.load) else load

    return structural_map(value, (TensorLoad, replace_load))


def _pack(operand: PackedOperand, parallel: bool) -> Stmt:
    """Emits a parallel loop that packs an operand into panels, chunk by chunk.

    All chunks have the same size: the last one along an axis overlaps the one before.
    """
    item_count = access.iteration_count((operand.vector, *operand.axes))
    parallel = parallel and (item_count is None or item_count * CYCLES_PER_PACKED_ELEMENT > MIN_PARALLEL_CYCLES)
    last_extent = operand.axes[-1].extent if operand.axes else index(1)
    outer_extents = [axis.extent for axis in operand.axes[:-1]]
    chunk_rows = operand.rows_per_chunk
    chunk_count = emit.simplified(tirx.floordiv(last_extent + (chunk_rows - 1), index(chunk_rows)))

    def emit_task(indices: list[ir.Expr]) -> Stmt:
        """Emits one task: the packing of one chunk (some rows) of one subpanel.

        A subpanel is a panel, or one vector of a panel where packing transposes the operand.
        """
        if operand.is_transposed:
            *outer_indices, subpanel, chunk = indices
        else:
            *outer_indices, chunk, subpanel = indices
        start = chunk * chunk_rows
        # If the chunk size doesn't divide the axis, the last chunk starts earlier, and overlaps the previous chunk.
        if emit.static(tirx.floormod(last_extent, index(chunk_rows))) != 0:
            start = emit.simplified(tirx.min(start, last_extent - chunk_rows))
        axis_indices = by_axis(operand.axes[: len(outer_indices)], outer_indices)
        return _pack_chunk(operand, subpanel, axis_indices, start)

    chunk_order = [operand.count, chunk_count] if operand.is_transposed else [chunk_count, operand.count]
    return emit.fused_loops([*outer_extents, *chunk_order], emit_task, parallel)


def _pack_chunk(operand: PackedOperand, subpanel: ir.Expr, axis_indices: AxisIndices, start: ir.Expr) -> Stmt:
    """Emits the packing of one chunk, some rows of one subpanel.

    Args:
        operand: the operand, and its packed copy.
        subpanel: the index of a panel, or of one vector of a panel where packing transposes the operand.
        axis_indices: the indices of all axes but the last.
        start: the first row along the last axis.
    """
    full_size = operand.lanes if operand.is_transposed else operand.width
    full_subpanels, remaining = divmod(operand.size, full_size)

    def pack_elements(size: int) -> Stmt:
        """Emits the packing of `size` elements along the packed axis."""
        if operand.is_transposed:
            return _transpose_square(operand, subpanel, axis_indices, start, size)
        if size == full_size:
            return _copy_full_panel(operand, subpanel, axis_indices, start, size)
        return _copy_rows(operand, subpanel, axis_indices, start, size)

    full_subpanel = pack_elements(full_size)
    if not remaining:
        return full_subpanel
    last_subpanel = pack_elements(remaining)
    if not full_subpanels:
        return last_subpanel
    return emit.when(subpanel < full_subpanels, full_subpanel, last_subpanel)


def _copy_full_panel(
    operand: PackedOperand, panel: ir.Expr, axis_indices: AxisIndices, start: ir.Expr, width: int
) -> Stmt:
    """Emits the copy of some rows of a full panel.

    If the operand has further elements after the row, they are copied, too, so that the last vector is full.

    Args:
        operand: the operand, and its packed copy.
        panel: the index of the panel.
        axis_indices: the indices of all axes but the last.
        start: the first row along the last axis.
        width: the elements of a row.
    """
    exact_copy = _copy_rows(operand, panel, axis_indices, start, width)
    if width == operand.pitch or not operand.is_contiguous or operand.size < operand.pitch:
        return exact_copy
    wider_copy = _copy_rows(operand, panel, axis_indices, start, operand.pitch)
    return emit.when(panel * width + operand.pitch <= operand.size, wider_copy, exact_copy)


def _copy_rows(operand: PackedOperand, panel: ir.Expr, axis_indices: AxisIndices, start: ir.Expr, width: int) -> Stmt:
    """Emits the copy of some rows of a panel, in vectors along the width.

    Args:
        operand: the operand, which is packed `operand.rows_per_chunk` rows at a time.
        panel: the index of the panel.
        axis_indices: the indices of the operand's axes but the last.
        start: the first row.
        width: the number of elements to copy of each row.
    """
    spans = emit.vector_spans(width, operand.lanes)

    def indices_of_row(row: ir.Expr) -> dict[Var, ir.Expr]:
        return {**axis_indices, **{axis.var: row for axis in operand.axes[-1:]}}

    # What isn't contiguous is loaded element by element, in a loop: LLVM takes 10 ms for each such vector in the code.
    looped_vectors = 0 if operand.is_contiguous else width // operand.lanes

    def copy_row(row: ir.Expr) -> Stmt:
        """Emits the copy of one row of the panel, in vectors."""
        row_values = indices_of_row(start + row)

        def copy_gathered(vector: ir.Expr) -> Stmt:
            """Emits the copy of one full vector."""
            return _copy_vector(operand, panel, row_values, vector * operand.lanes, operand.lanes)

        loop = emit.loop(looped_vectors, copy_gathered) if looped_vectors else None
        unrolled = [_copy_vector(operand, panel, row_values, *span) for span in spans[looped_vectors:]]
        return emit.sequence([loop, *unrolled])

    # Rows of full vectors may be copied by a subroutine, which copies a band of an image: here one row of the image,
    # whose columns are the panel's rows and whose channels are the width.
    call = None
    if width % operand.lanes == 0:
        call = call_band_copy(
            lambda at: _packed_element(operand, panel, indices_of_row(start + at[1]), at[2]),
            lambda at: _source_element(operand, panel, indices_of_row(start + at[1]), at[2]),
            [1, operand.rows_per_chunk, width],
            operand.lanes,
            also_small=width < operand.width,  # a call for the last panel, too, leaves no copying in the kernel
        )
    return call or emit.loop(operand.rows_per_chunk, copy_row)


def _transpose_square(
    operand: PackedOperand, vector: ir.Expr, axis_indices: AxisIndices, start: ir.Expr, rows: int
) -> Stmt:
    """Emits the copy of one square of a panel as a transpose in registers.

    The operand is contiguous along the panel's last axis, not along its lanes.

    Args:
        operand: the operand, and its packed copy.
        vector: the index of a vector among those of all panels.
        axis_indices: the indices of all axes but the last.
        start: the first row along the last axis.
        rows: the number of rows to read, fewer than lanes at the end of the operand.
    """
    last_axis = operand.axes[-1].var
    vectors_per_panel = operand.width // operand.lanes
    panel = tirx.floordiv(vector, index(vectors_per_panel))
    first_lane = tirx.floormod(vector, index(vectors_per_panel)) * operand.lanes
    # A single panel has index 0.
    if operand.size <= operand.width:
        panel = index(0)
        first_lane = vector * operand.lanes

    def source(row: int, lane: ir.Expr) -> TensorLoad:
        return _source_element(operand, panel, {**axis_indices, last_axis: start + lane}, first_lane + row)

    def destination(column: int, lane: ir.Expr) -> TensorLoad:
        return _packed_element(operand, panel, {**axis_indices, last_axis: start + column}, first_lane + lane)

    return transposed_copy(
        source, destination, (rows, operand.lanes), operand.lanes, str(operand.load.source.ty.dtype.dtype)
    )


def _copy_vector(
    operand: PackedOperand, panel: ir.Expr, axis_indices: AxisIndices, start: int | ir.Expr, lanes: int
) -> Stmt:
    """Emits the copy of some lanes of a row into a panel, with zeros in the rest of their vector.

    Tiles load full vectors from a panel, without bounds checks. The results of lanes with zeros are never stored.

    Args:
        operand: the operand, and its packed copy.
        panel: the index of the panel.
        axis_indices: the indices of the row along all axes.
        start: the first lane in the panel.
        lanes: the number of lanes to copy.
    """
    copies = emit.vectorized(lanes, lambda lane: _copy_element(operand, panel, axis_indices, lane + start))
    padding_lanes = operand.lanes - lanes
    if not padding_lanes:
        return copies
    zero = tirx.const(0, str(operand.load.source.ty.dtype.dtype))

    def store_zero(lane: ir.Expr) -> Stmt:
        """Emits the store of a zero to a lane after the copied ones."""
        return _store_element(operand, panel, axis_indices, lane + (start + lanes), zero)

    return emit.sequence([copies, emit.vectorized(padding_lanes, store_zero)])


def _copy_element(operand: PackedOperand, panel: ir.Expr, axis_indices: AxisIndices, lane: ir.Expr) -> Stmt:
    """Emits the copy of one element of an operand into a lane of a panel."""
    return _store_element(operand, panel, axis_indices, lane, _source_element(operand, panel, axis_indices, lane))


def _source_element(operand: PackedOperand, panel: ir.Expr, axis_indices: AxisIndices, lane: ir.Expr) -> TensorLoad:
    """Returns the load of the operand's element that belongs in a lane of a panel."""
    return substitute(operand.load, {**axis_indices, operand.vector.var: panel * operand.width + lane})


def _store_element(
    operand: PackedOperand, panel: ir.Expr, axis_indices: AxisIndices, lane: ir.Expr, value: ir.Expr
) -> Stmt:
    """Emits the store of an element into a lane of a panel."""
    target = _packed_element(operand, panel, axis_indices, lane)
    return emit.store(operand.buffer, value, target.indices)


def _packed_element(operand: PackedOperand, panel: ir.Expr, axis_indices: AxisIndices, lane: ir.Expr) -> TensorLoad:
    """Returns the load of an element of the packed copy: by panel, by values of the other axes, and by lane."""
    return emit.load(operand.buffer, [panel, *(axis_indices[axis.var] for axis in operand.axes), lane])
