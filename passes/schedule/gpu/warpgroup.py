"""Products by warpgroups: ``wgmma`` of Hopper GPUs, by which four warps multiply tiles in shared memory asynchronously.

Each of the four warps has the accumulators of 16 rows, in the layout of ``mma``.
Source: PTX ISA 8.0, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions", and "Matrix Descriptor Format".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm import ir, tirx
from tvm.backend.cuda.op import cuda_func_call
from tvm.tirx import Stmt

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.gpu.block import Registers
from tvtf.passes.schedule.gpu.product import Tile, TileLayout
from tvtf.passes.schedule.gpu.target import SWIZZLED_BYTES, SWIZZLED_LINES, GpuTarget
from tvtf.passes.schedule.gpu.tensorcore import HALF_PTX, Instruction, WarpOperands, fill_template

ROWS_OF_WARPGROUP = 64
UNIT = 16
"""Bytes in which addresses and distances are given in a descriptor."""


@dataclass(frozen=True)
class WarpgroupInstruction(Instruction):
    """``wgmma.mma_async`` for one 16-bit operand type, with both operands from swizzled tiles in shared memory."""

    tile: Tile
    is_swizzled: ClassVar[bool] = True
    is_asynchronous: ClassVar[bool] = True

    def pad(self, along_terms: bool) -> int:
        return 0

    def wait_for_copies(self, target: GpuTarget, unfinished: int) -> Stmt | None:
        """Waits for asynchronous copies, as the base class does, and emits a fence.

        After the fence and the barrier that follows, the instruction sees the elements that this thread has copied.
        """
        if target.emulated:
            return None
        name = f"tvtf_copy_wait_{unfinished}_for_warpgroups"
        code = WAIT.replace("NAME", name).replace("COUNT", str(unfinished))
        return tirx.Evaluate(cuda_func_call(name, source_code=code))

    def wait_for_product(self, target: GpuTarget, accumulators: Registers) -> Stmt | None:
        """Emits `wgmma.wait_group`, which waits until the asynchronous products are complete."""
        if target.emulated:
            return None
        name = f"tvtf_wgmma_finish_{self.tile.accumulators}"
        code = fill_template(FINISH.replace("NAME", name), {"SUMS": _accumulator_operands(self.tile)})
        return tirx.Evaluate(cuda_func_call(name, accumulators.address(), source_code=code))

    def _addresses(self, operands: WarpOperands) -> list[ir.Expr]:
        """Returns the addresses of both operands of a thread's warpgroup: four warps multiply their rows with all columns."""
        zero, rows_of_warpgroup = emit.index(0), emit.index(ROWS_OF_WARPGROUP)
        first_row = tirx.floordiv(operands.row, rows_of_warpgroup) * rows_of_warpgroup
        # The instruction permutes the vectors of swizzled tiles itself.
        left_indices = operands.left.indices_before_swizzling(operands.stage, first_row, zero)
        right_indices = operands.right.indices_before_swizzling(operands.stage, zero, zero)
        return [tirx.address_of(emit.load(operands.shared, indices)) for indices in (left_indices, right_indices)]

    def _cuda_function(self, tile: Tile, left: TileLayout, right: TileLayout) -> tuple[str, str]:
        """Returns the name and the CUDA source of the function that multiplies two tiles; the name has its sizes.

        Kernels with equal sizes share the function.

        Args:
          tile: the sizes of the tile.
          left, right: where the tiles of the operands lie in shared memory.
        """
        ptx_type = HALF_PTX[self.dtype]
        sizes = f"{tile.rows}_{tile.own_columns}_{tile.terms}_{int(left.along_terms)}_{int(right.along_terms)}"
        name = f"tvtf_wgmma_{ptx_type}_{sizes}"
        constants = {
            "COLUMNS": tile.own_columns,
            "TIMES": tile.terms // self.terms,
            "GROUP": _distance(SWIZZLED_LINES),
            "LEFT_SEGMENT": _distance(left.line_count),
            "RIGHT_SEGMENT": _distance(right.line_count),
            "LEFT_STEP": self._step(left),
            "RIGHT_STEP": self._step(right),
            "LEFT_TRANSPOSED": int(not left.along_terms),
            "RIGHT_TRANSPOSED": int(not right.along_terms),
            "REGISTERS": ", ".join(f"%{number}" for number in range(tile.accumulators)),
            "LEFT": f"%{tile.accumulators}",
            "RIGHT": f"%{tile.accumulators + 1}",
            "SUMS": _accumulator_operands(tile),
        }
        return name, fill_template(CODE.replace("NAME", name).replace("TYPE", ptx_type), constants)

    def _step(self, layout: TileLayout) -> int:
        """Returns the distance, in units of a descriptor, from the terms of one instruction to the next in a tile."""
        return self.terms * 2 // UNIT if layout.along_terms else _distance(self.terms)


def _accumulator_operands(tile: Tile) -> str:
    """Returns a thread's accumulators as operands of inline assembly."""
    return ", ".join(f'"+f"(sums[{number}])' for number in range(tile.accumulators))


def _distance(lines: int) -> int:
    """Returns the distance of lines of a swizzled tile, in units of a descriptor."""
    return lines * SWIZZLED_BYTES // UNIT


WAIT = """
__forceinline__ __device__ void NAME() {
  asm volatile("cp.async.wait_group COUNT;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
"""
# The sums are operands, so that no code that reads or writes them moves to where the instruction does.
FINISH = """
__forceinline__ __device__ void NAME(float* sums) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : <SUMS> :: "memory");
}
"""
CODE = """
__forceinline__ __device__ void NAME(float* sums, const void* left, const void* right) {
  // A descriptor: where a tile begins, how far apart its pieces and groups of lines are, and how it is swizzled.
  const unsigned long long layout = (1ull << 62) | (<GROUP>ull << 32);
  const unsigned long long a = layout | (<LEFT_SEGMENT>ull << 16) | ((__cvta_generic_to_shared(left) & 0x3ffff) >> 4);
  const unsigned long long b = layout | (<RIGHT_SEGMENT>ull << 16) | ((__cvta_generic_to_shared(right) & 0x3ffff) >> 4);
  asm volatile("wgmma.fence.sync.aligned;" : <SUMS> :: "memory");
#pragma unroll
  for (int k = 0; k < <TIMES>; ++k) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n<COLUMNS>k16.f32.TYPE.TYPE {<REGISTERS>}, <LEFT>, <RIGHT>, "
                 "1, 1, 1, <LEFT_TRANSPOSED>, <RIGHT_TRANSPOSED>;"
                 : <SUMS> : "l"(a + k * <LEFT_STEP>), "l"(b + k * <RIGHT_STEP>));
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
"""
