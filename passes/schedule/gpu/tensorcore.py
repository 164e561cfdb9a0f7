"""Tensor cores: products of small matrices by a warp, ``mma`` on float16, bfloat16 and tf32 with float32 accumulators.

The kernels are CUDA with inline PTX, called by each thread of a warp. An emulation computes what the instruction
defines: each thread's accumulators from the tiles in shared memory.
Source: PTX ISA 8.0, "Matrix Fragments for mma.m16n8k16 / mma.m16n8k8", ldmatrix, cp.async.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from tvm import ir, tirx
from tvm.backend.cuda.op import cuda_func_call
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.gpu.block import Registers
from tvtf.passes.schedule.gpu.product import Contraction, Tile, TileLayout
from tvtf.passes.schedule.gpu.target import VECTOR_BYTES, GpuTarget

HALF_PTX = {"float16": "f16", "bfloat16": "bf16"}
SHARED_TYPES = {"float16": "float16", "bfloat16": "uint16", "float32": "float32"}
ROWS, COLUMNS, ACCUMULATORS = 16, 8, 4


class WarpOperands(NamedTuple):
    """The operands of a warp's product, tiles in shared memory, and where the warp's part of the result begins."""

    shared: Var
    """The block's shared memory."""
    left: TileLayout
    right: TileLayout
    stage: ir.Expr
    """The pipeline stage whose tiles are multiplied."""
    row: ir.Expr
    column: ir.Expr
    """The first row and column that the warp computes in the block's tile."""
    thread: ir.Expr
    """The thread's index in the block."""

    def left_item(self, row: ir.Expr, term: ir.Expr) -> TensorLoad:
        """Returns the element of the left tile at a row and a term."""
        return emit.load(self.shared, self.left.indices_of(self.stage, row, term))

    def right_item(self, column: ir.Expr, term: ir.Expr) -> TensorLoad:
        """Returns the element of the right tile at a column and a term."""
        return emit.load(self.shared, self.right.indices_of(self.stage, column, term))


@dataclass(frozen=True)
class Instruction:
    """``mma.sync`` for one operand type, with operands from tiles in shared memory."""

    dtype: str
    is_swizzled: ClassVar[bool] = False
    """Whether the instruction reads tiles whose vectors are permuted, instead of tiles with padding (`TileLayout`)."""
    is_asynchronous: ClassVar[bool] = False
    """Whether threads continue while tiles are multiplied, until `wait_for_product`."""

    @property
    def terms(self) -> int:
        """The number of terms (k) of one instruction."""
        return 16 if self.dtype in HALF_PTX else 8

    @property
    def widest(self) -> int:
        """The maximum number of terms of a tile."""
        return 32 if self.dtype in HALF_PTX else 16

    def narrowed(self, product: Contraction) -> Contraction:
        """Returns the product without the casts of its operands from a 16-bit type to float32.

        The tensor-core instruction takes 16-bit operands.
        """
        if self.dtype not in HALF_PTX:
            return product
        left, right = (replace(operand, value=operand.value.value) for operand in (product.left, product.right))
        return replace(product, left=left, right=right)

    def wait_for_copies(self, target: GpuTarget, unfinished: int) -> Stmt | None:
        """Waits until at most the last ``unfinished`` groups of asynchronous copies are in flight."""
        if target.emulated:
            return None
        name = f"tvtf_copy_wait_{unfinished}"
        code = COPY_WAIT.replace("NAME", name).replace("COUNT", str(unfinished))
        return tirx.Evaluate(cuda_func_call(name, source_code=code))

    def wait_for_product(self, target: GpuTarget, accumulators: Registers) -> Stmt | None:
        """Emits the wait for an asynchronous product, after which the accumulators can be read; None if it is synchronous."""
        return None

    def shared_type(self, target: GpuTarget) -> str:
        """Returns the dtype of tiles in shared memory."""
        return "float32" if target.emulated else SHARED_TYPES[self.dtype]

    def pad(self, along_terms: bool) -> int:
        """Returns the padding that puts a tile's lines in different banks of shared memory."""
        return 8 if self.dtype in HALF_PTX or not along_terms else 4

    def shared_value(self, value: ir.Expr, target: GpuTarget) -> ir.Expr:
        """Returns an element as it is stored in shared memory."""
        if target.emulated:
            return value.astype("float32") if self.dtype in HALF_PTX else value
        return tirx.reinterpret("uint16", value) if self.dtype == "bfloat16" else value

    def copy_vector(
        self, target: GpuTarget, buffer: Var, indices: list[ir.Expr], load: ir.Expr, inside: ir.Expr, width: int
    ) -> Stmt:
        """Emits an asynchronous copy of ``width`` elements of an operand to shared memory.

        Zeros are written if ``inside`` is false: `cp.async` fills with zeros beyond ``size`` bytes.

        Args:
          target: the GPU.
          buffer: the shared memory.
          indices: the position of the first element there.
          load: the load of the first element.
          inside: whether the elements are inside the operand.
          width: the number of elements.
        """
        if target.emulated:
            return _copy_one_by_one(self, target, buffer, indices, load, inside, width)
        destination = tirx.address_of(emit.load(buffer, indices))
        source = tirx.address_of(tirx.BufferLoad(load.source, list(load.indices)))
        size = tirx.Select(inside, tirx.const(VECTOR_BYTES, "int32"), tirx.const(0, "int32"))
        name, swizzle = ("tvtf_copy_async_swizzled", SWIZZLE) if self.is_swizzled else ("tvtf_copy_async", "")
        code = fill_template(COPY_ASYNC.replace("NAME", name), {"SWIZZLE": swizzle})
        return tirx.Evaluate(cuda_func_call(name, destination, source, size, source_code=code))

    def multiply(self, target: GpuTarget, tile: Tile, accumulators: Registers, operands: WarpOperands) -> Stmt:
        """Emits the product of a warp's rows and columns of two tiles in shared memory; each thread adds to its own accumulators.

        The instruction multiplies small matrices, whose elements are spread over the threads of a warp.

        Args:
          target: the GPU.
          tile: the sizes of the block's tile.
          accumulators: the registers with the accumulators of a thread.
          operands: the tiles to multiply, and the warp's rows and columns.
        """
        if target.emulated:
            return self._emulate(tile, accumulators, operands)
        name, code = self._cuda_function(tile, operands.left, operands.right)
        addresses = [accumulators.address(), *self._addresses(operands)]
        return tirx.Evaluate(cuda_func_call(name, *addresses, source_code=code))

    def _addresses(self, operands: WarpOperands) -> list[ir.Expr]:
        """Returns the CUDA function's arguments after the accumulators: both operands' addresses, and the thread's lane."""
        first_term = emit.index(0)
        return [
            tirx.address_of(operands.left_item(operands.row, first_term)),
            tirx.address_of(operands.right_item(operands.column, first_term)),
            (operands.thread % 32).astype("int32"),
        ]

    def _emulate(self, tile: Tile, accumulators: Registers, operands: WarpOperands) -> Stmt:
        """Emits the emulation of the tensor-core instruction on a CPU: a thread's accumulators, one term after another.

        Args:
          tile: the sizes of the tile.
          accumulators: the accumulators of a thread.
          operands: the tiles of the operands that a warp multiplies.
        """
        thread = operands.thread

        def add_product(indices: list[ir.Expr]) -> Stmt:
            """Emits one multiply-add of an accumulator."""
            index, term = indices
            row_in_warp, column_in_warp = self.position_in_warp(thread % 32, index, tile)
            left = operands.left_item(operands.row + row_in_warp, term)
            right = operands.right_item(operands.column + column_in_warp, term)
            return accumulators.store(thread, accumulators.load(thread, index) + left * right, index)

        return emit.nest([tile.accumulators, tile.terms], add_product)

    def position_in_warp(self, lane: ir.Expr, index: ir.Expr, tile: Tile) -> tuple[ir.Expr, ir.Expr]:
        """Returns the row and column of a thread's accumulator within the warp's tile.

        The layout is that of the accumulators in the PTX ISA, "Matrix Fragments for mma.m16n8k16". The epilogue needs
        the position to store each result.

        Args:
          lane: the thread's index in its warp.
          index: the accumulator's index in the thread.
          tile: the sizes of the block's tile.
        """
        matrices_across = emit.index(tile.own_columns // COLUMNS)
        matrix = tirx.floordiv(index, emit.index(ACCUMULATORS))
        index_in_matrix = index % ACCUMULATORS
        first_row = tirx.floordiv(matrix, matrices_across) * ROWS
        first_column = (matrix % matrices_across) * COLUMNS
        # A thread's accumulators in a matrix are two neighbouring columns, and the same ones 8 rows below.
        row_of_lane = tirx.floordiv(lane, emit.index(4))
        rows_below = tirx.floordiv(index_in_matrix, emit.index(2)) * 8
        column_of_lane = (lane % 4) * 2
        return first_row + row_of_lane + rows_below, first_column + column_of_lane + index_in_matrix % 2

    def _cuda_function(self, tile: Tile, left: TileLayout, right: TileLayout) -> tuple[str, str]:
        """Returns the name and the CUDA source of the function that multiplies a warp's rows and columns of two tiles.

        All sizes are constants in the source, and CUDA's compiler unrolls all loops. The name has the sizes: kernels
        with the same sizes share the function.

        Args:
          tile: the sizes of the tile.
          left, right: where the tiles of the operands lie in shared memory.
        """
        constants = {
            "DOWN": tile.own_rows // ROWS,
            "ACROSS": tile.own_columns // COLUMNS,
            "TERMS": tile.terms,
            "LEFT_LINE": left.line_stride,
            "RIGHT_LINE": right.line_stride,
            "LEFT_ALONG": int(left.along_terms),
            "RIGHT_ALONG": int(right.along_terms),
        }
        is_half = self.dtype in HALF_PTX
        ptx_type = HALF_PTX[self.dtype] if is_half else "tf32"
        name = f"tvtf_mma_{ptx_type}_" + "_".join(map(str, constants.values()))
        template = (HALF_CODE if is_half else TF32_CODE).replace("NAME", name).replace("TYPE", ptx_type)
        return name, fill_template(template, constants)


def fill_template(code: str, constants: Mapping[str, object]) -> str:
    """Returns CUDA source with constants in place of their names in angle brackets."""
    for name, constant in constants.items():
        code = code.replace(f"<{name}>", str(constant))
    return code


def _copy_one_by_one(
    instruction: Instruction,
    target: GpuTarget,
    buffer: Var,
    indices: list[ir.Expr],
    load: ir.Expr,
    inside: ir.Expr,
    width: int,
) -> Stmt:
    """Emits a copy of ``width`` elements to shared memory, one by one, for the emulation of a GPU.

    Zeros are written if ``inside`` is false.

    Args:
      instruction: the tensor-core instruction, which determines the type in shared memory.
      target: the emulated GPU.
      buffer: the shared memory.
      indices: the position of the first element there.
      load: the load of the first element.
      inside: whether the elements are inside the operand.
      width: the number of elements.
    """

    def copy_lane(lane: ir.Expr) -> Stmt:
        """Emits the copy of one element of the vector."""
        source_indices = [*load.indices]
        element = tirx.BufferLoad(load.source, [*source_indices[:-1], source_indices[-1] + lane])
        value = instruction.shared_value(element, target)
        return emit.store(
            buffer, tirx.if_then_else(inside, value, tirx.const(0, "float32")), [*indices[:-1], indices[-1] + lane]
        )

    return emit.loop(width, copy_lane, name="lane")


def commit(target: GpuTarget) -> Stmt | None:
    """Emits the end of a group of asynchronous copies (``cp.async.commit_group``)."""
    return None if target.emulated else tirx.Evaluate(cuda_func_call("tvtf_copy_commit", source_code=COPY_COMMIT))


SWIZZLE = """
  place ^= (place >> 3) & 0x70;"""
COPY_ASYNC = """
__forceinline__ __device__ void NAME(void* to, const void* from, int size) {
  unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));<SWIZZLE>
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(place), "l"(from), "r"(size) : "memory");
}
"""
COPY_COMMIT = """
__forceinline__ __device__ void tvtf_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
"""
COPY_WAIT = """
__forceinline__ __device__ void NAME() { asm volatile("cp.async.wait_group COUNT;" ::: "memory"); }
"""
HALF_CODE = """
__forceinline__ __device__ void NAME(float* sums, const void* left, const void* right, int lane) {
  const unsigned short* a = static_cast<const unsigned short*>(left);
  const unsigned short* b = static_cast<const unsigned short*>(right);
  const int low = lane & 7, second = (lane >> 3) & 1, third = lane >> 4;
#pragma unroll
  for (int k = 0; k < <TERMS>; k += 16) {
    unsigned x[<DOWN>][4], y[<ACROSS>][2];
#pragma unroll
    for (int i = 0; i < <DOWN>; ++i) {
      const int at = <LEFT_ALONG> ? (i * 16 + low + second * 8) * <LEFT_LINE> + k + third * 8
                                  : (k + low + third * 8) * <LEFT_LINE> + i * 16 + second * 8;
      const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(a + at));
      if (<LEFT_ALONG>) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3]) : "r"(place) : "memory");
      } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3]) : "r"(place) : "memory");
      }
    }
#pragma unroll
    for (int j = 0; j < <ACROSS>; j += 2) {
      const int at = <RIGHT_ALONG> ? (j * 8 + low + third * 8) * <RIGHT_LINE> + k + second * 8
                                   : (k + low + second * 8) * <RIGHT_LINE> + j * 8 + third * 8;
      const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(b + at));
      if (<RIGHT_ALONG>) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(y[j][0]), "=r"(y[j][1]), "=r"(y[j + 1][0]), "=r"(y[j + 1][1]) : "r"(place) : "memory");
      } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(y[j][0]), "=r"(y[j][1]), "=r"(y[j + 1][0]), "=r"(y[j + 1][1]) : "r"(place) : "memory");
      }
    }
#pragma unroll
    for (int i = 0; i < <DOWN>; ++i) {
#pragma unroll
      for (int j = 0; j < <ACROSS>; ++j) {
        float* c = sums + (i * <ACROSS> + j) * 4;
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.TYPE.TYPE.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]), "r"(y[j][0]), "r"(y[j][1]));
      }
    }
  }
}
"""
TF32_CODE = """
__forceinline__ __device__ void NAME(float* sums, const float* a, const float* b, int lane) {
  const int group = lane >> 2, own = lane & 3;
#pragma unroll
  for (int k = 0; k < <TERMS>; k += 8) {
    unsigned x[<DOWN>][4], y[<ACROSS>][2];
#pragma unroll
    for (int i = 0; i < <DOWN>; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int row = i * 16 + group + (r & 1) * 8, term = k + own + (r >> 1) * 4;
        const float value = a[<LEFT_ALONG> ? row * <LEFT_LINE> + term : term * <LEFT_LINE> + row];
        asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(x[i][r]) : "f"(value));
      }
    }
#pragma unroll
    for (int j = 0; j < <ACROSS>; ++j) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int column = j * 8 + group, term = k + own + r * 4;
        const float value = b[<RIGHT_ALONG> ? column * <RIGHT_LINE> + term : term * <RIGHT_LINE> + column];
        asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(y[j][r]) : "f"(value));
      }
    }
#pragma unroll
    for (int i = 0; i < <DOWN>; ++i) {
#pragma unroll
      for (int j = 0; j < <ACROSS>; ++j) {
        float* c = sums + (i * <ACROSS> + j) * 4;
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]), "r"(y[j][0]), "r"(y[j][1]));
      }
    }
  }
}
"""
