"""Chooses how a GPU computes a matrix product: the instruction of the tensor cores, and the tile of a block of threads."""

from __future__ import annotations

from tvm import tirx

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.gpu.product import Contraction, Tile, size_of, volume_of
from tvtf.passes.schedule.gpu.target import GpuTarget
from tvtf.passes.schedule.gpu.tensorcore import HALF_PTX, Instruction
from tvtf.passes.schedule.gpu.warpgroup import WarpgroupInstruction

BLOCKS_THAT_FILL = 128
"""Number of blocks that occupy the GPU; if there are fewer, smaller tiles are used."""
LARGE, MIDDLE, SMALL = (128, 128, 64, 64), (64, 64, 32, 32), (32, 32, 16, 16)
"""The rows and columns of a block's tile, then of a warp's tile in it."""
STAGES = 4
"""Tiles of each operand in shared memory: one is multiplied while the others are filled. Four of them, and warps' tiles of
64x64, take 6 % less time than three, and 64x32, for a product of 4096x4096 in float16 by `mma`, and 16 % less in tf32, on an
H100; other GPUs weren't measured."""
OF_WARPGROUPS = (
    Tile(128, 256, 64, 16, 256, warps=True, stages=4),
    Tile(128, 128, 64, 16, 128, warps=True, stages=3),
)
"""The tiles of a warpgroup's instruction, which fill shared memory with one block and with two. A product of 4096x4096 takes
a tenth longer with the second."""


def instruction_for(product: Contraction, target: GpuTarget) -> Instruction | None:
    """Returns the tensor-core instruction that multiplies a product's operands, or None if there is none.

    Operands cast from a 16-bit type are multiplied exactly. The tf32 instruction rounds float32 operands, and is used
    only if the user allows it.
    """
    if not target.has_tensor_cores or product.stage.dtype != "float32":
        return None
    operands = [product.left.value, product.right.value]
    if all(isinstance(operand, tirx.Cast) for operand in operands):
        dtype, *other_dtypes = {str(operand.value.ty.dtype) for operand in operands}
        if dtype in HALF_PTX and not other_dtypes:
            warpgroup_tile = _tile_of_warpgroups(product) if target.has_warpgroup_products else None
            if warpgroup_tile is not None:
                return WarpgroupInstruction(dtype, warpgroup_tile)
            return Instruction(dtype)
    return Instruction("float32") if target.has_tf32 else None


def _tile_of_warpgroups(product: Contraction) -> Tile | None:
    """Returns the largest tile of warpgroups that leaves enough blocks for the GPU, or None if the product is too small."""
    return next((tile for tile in OF_WARPGROUPS if _fills_gpu(product, tile.rows, tile.columns)), None)


def tile_of(product: Contraction, instruction: Instruction | None) -> Tile:
    """Chooses the tile of a matrix product that a block computes: the largest that leaves enough blocks for the GPU.

    Without tensor cores, the tile is fixed, and each thread computes 4 by 4 results.
    """
    if instruction is None:
        return Tile(64, 64, 16, 4, 4, warps=False, stages=1)
    if isinstance(instruction, WarpgroupInstruction):
        return instruction.tile
    # If a sum has too few terms for the widest tile, this would be padded with zeros.
    full_instructions = size_of(product.stage.reduce) // instruction.terms
    terms = instruction.terms if full_instructions < 2 else instruction.widest
    if _fills_gpu(product, *LARGE[:2]):
        sizes = LARGE
    elif _fits(product, *MIDDLE[:2]):
        sizes = MIDDLE
    else:
        sizes = SMALL
    rows, columns, own_rows, own_columns = sizes
    return Tile(rows, columns, terms, own_rows, own_columns, warps=True, stages=STAGES)


def tile_for(product: Contraction, target: GpuTarget) -> Tile:
    """Returns the tile of a product's kernel."""
    return tile_of(product, instruction_for(product, target))


def blocks_of(product: Contraction, target: GpuTarget) -> int | None:
    """Returns the number of thread blocks (one for each tile) of a matrix product's kernel, or None if it isn't static."""
    tile = tile_for(product, target)
    batch, rows, columns = (emit.static(size) for size in (volume_of(product.batch), product.rows, product.columns))
    if batch is None or rows is None or columns is None:
        return None
    return batch * emit.ceil_div(rows, tile.rows) * emit.ceil_div(columns, tile.columns)


def _fills_gpu(product: Contraction, tile_rows: int, tile_columns: int) -> bool:
    """Returns whether tiles of a size aren't larger than a product, and are enough to occupy the GPU."""
    rows, columns = size_of(product.left.free_axes), size_of(product.right.free_axes)
    count = emit.ceil_div(rows, tile_rows) * emit.ceil_div(columns, tile_columns) * size_of(product.batch)
    return _fits(product, tile_rows, tile_columns) and count >= BLOCKS_THAT_FILL


def _fits(product: Contraction, tile_rows: int, tile_columns: int) -> bool:
    """Returns whether a tile of a size isn't larger than a product."""
    return size_of(product.left.free_axes) >= tile_rows and size_of(product.right.free_axes) >= tile_columns
