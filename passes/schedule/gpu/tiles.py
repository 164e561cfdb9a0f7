"""Chooses how a GPU computes a matrix product: the instruction of the tensor cores, and the tile of a block of threads."""

from __future__ import annotations

from tvm import tirx

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.gpu.product import Contraction, Tile, size_of, volume_of
from tvtf.passes.schedule.gpu.target import GpuTarget
from tvtf.passes.schedule.gpu.tensorcore import HALF_PTX, Instruction
from tvtf.passes.schedule.gpu.warpgroup import WarpgroupInstruction

BLOCKS_THAT_FILL = 128
"""Blocks that occupy the GPU; smaller tiles are used to get that many."""
LARGE, MIDDLE, SMALL = (128, 128, 64, 64), (64, 64, 32, 32), (32, 32, 16, 16)
"""Rows and columns of a block's tile, then of a warp's part of it."""
STAGES = 4
"""Tiles of each operand in shared memory: one is multiplied while the others are filled. On an H100, four of them, and
warps' parts of 64x64, take 485 us for a product of 4096x4096 in float16 where three, and 64x32, take 517 (tf32: 1034, 1234)."""
OF_WARPGROUPS = (
    Tile(128, 256, 64, 16, 256, warps=True, stages=4),
    Tile(128, 128, 64, 16, 128, warps=True, stages=3),
)
"""The tiles of a warpgroup's instruction, which fill shared memory with one block and with two. On an H100, a product of
4096x4096 takes 251 us with the first and 279 with the second (cuBLAS: 186)."""


def instruction_for(product: Contraction, target: GpuTarget) -> Instruction | None:
    """Returns the tensor-core instruction that multiplies a product's operands, or None if there is none.

    Operands cast from a 16-bit type are multiplied exactly. The tf32 instruction rounds float32 operands, and is used
    only if the user allows it.
    """
    if not target.has_tensor_cores or product.stage.dtype != "float32":
        return None
    operands = [product.left.value, product.right.value]
    if all(isinstance(operand, tirx.Cast) for operand in operands):
        dtypes = {str(operand.value.ty.dtype) for operand in operands}
        if len(dtypes) == 1 and dtypes <= set(HALF_PTX):
            tile = _tile_of_warpgroups(product) if target.has_warpgroup_products else None
            dtype = dtypes.pop()
            return Instruction(dtype) if tile is None else WarpgroupInstruction(dtype, tile)
    return Instruction("float32") if target.has_tf32 else None


def _tile_of_warpgroups(product: Contraction) -> Tile | None:
    """Returns the largest tile of warpgroups that leaves enough blocks for the GPU, or None if the product is too small."""
    return next(
        (tile for tile in OF_WARPGROUPS if _tiles_in(product, tile.rows, tile.columns) >= BLOCKS_THAT_FILL), None
    )


def tile_of(product: Contraction, instruction: Instruction | None) -> Tile:
    """Chooses the tile of a matrix product that a block computes: the largest that leaves enough blocks for the GPU.

    Without tensor cores, the tile is fixed, and each thread computes 4 by 4 results.
    """
    if instruction is None:
        return Tile(64, 64, 16, 4, 4, warps=False, stages=1)
    if isinstance(instruction, WarpgroupInstruction):
        return instruction.tile
    # If the sum is shorter than the widest tile, the tile has the terms of one instruction: a wider one would be mostly
    # zeros.
    terms = min(
        instruction.widest,
        max(instruction.terms, size_of(product.stage.reduce) // instruction.terms * instruction.terms),
    )
    terms = instruction.widest if terms not in (instruction.terms, instruction.widest) else terms
    sizes = next((sizes for sizes in (LARGE, MIDDLE) if _is_suitable(product, sizes)), SMALL)
    rows, columns, own_rows, own_columns = sizes
    return Tile(rows, columns, terms, own_rows, own_columns, warps=True, stages=STAGES)


def tile_for(product: Contraction, target: GpuTarget) -> Tile:
    """Returns the tile of a product's kernel."""
    return tile_of(product, instruction_for(product, target))


def blocks_of(product: Contraction, target: GpuTarget) -> int | None:
    """Returns the number of thread blocks (one for each tile) of a matrix product's kernel; None if it isn't static."""
    tile = tile_for(product, target)
    batch, rows, columns = (emit.static(size) for size in (volume_of(product.batch), product.rows, product.columns))
    if batch is None or rows is None or columns is None:
        return None
    return batch * -(-rows // tile.rows) * -(-columns // tile.columns)


def _is_suitable(product: Contraction, sizes: tuple[int, int, int, int]) -> bool:
    """Returns whether a tile of these sizes suits a matrix product.

    The tile mustn't be larger than the product, and tiles of the largest size must be enough to occupy the GPU.
    """
    tiles = _tiles_in(product, *sizes[:2])
    return tiles >= BLOCKS_THAT_FILL if sizes is LARGE else tiles > 0


def _tiles_in(product: Contraction, tile_rows: int, tile_columns: int) -> int:
    """Returns the number of tiles that cover a matrix product, or 0 if a tile is larger than the product."""
    rows, columns = size_of(product.left.side), size_of(product.right.side)
    if rows < tile_rows or columns < tile_columns:
        return 0
    return -(-rows // tile_rows) * -(-columns // tile_columns) * size_of(product.batch)
