"""Tensor cores: products of small matrices by a whole warp, ``mma`` on float16, bfloat16 and tf32 with float32 sums.

The kernels are CUDA with inline PTX, called by each thread of a warp. An emulation computes what the instruction
defines: each thread's sums from the tiles in shared memory.
Source: PTX ISA 8.0, "Matrix Fragments for mma.m16n8k16 / mma.m16n8k8", ldmatrix, cp.async.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.backend.cuda.op import cuda_func_call
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.gpu.block import Registers
from tvtf.passes.schedule.gpu.product import Contraction, Side, Tile
from tvtf.passes.schedule.gpu.target import VECTOR_BYTES, GpuTarget

HALF_PTX = {"float16": "f16", "bfloat16": "bf16"}
SHARED_TYPES = {"float16": "float16", "bfloat16": "uint16", "float32": "float32"}
ROWS, COLUMNS, SUMS = 16, 8, 4


@dataclass(frozen=True)
class Instruction:
    """``mma.sync`` for one operand type, with operands from tiles in shared memory."""

    dtype: str

    @property
    def terms(self) -> int:
        """The terms of one instruction."""
        return 16 if self.dtype in HALF_PTX else 8

    @property
    def widest(self) -> int:
        """The most terms of a tile."""
        return 32 if self.dtype in HALF_PTX else 16

    def narrowed(self, product: Contraction) -> Contraction:
        """Returns the product with operands before they are cast to float32."""
        if self.dtype not in HALF_PTX:
            return product
        left, right = (replace(o, value=o.value.value) for o in (product.left, product.right))
        return replace(product, left=left, right=right)

    def shared_type(self, target: GpuTarget) -> str:
        return "float32" if target.emulated else SHARED_TYPES[self.dtype]

    def pad(self, along_terms: bool) -> int:
        """Returns the padding that puts a tile's lines in different banks of shared memory."""
        return 8 if self.dtype in HALF_PTX or not along_terms else 4

    def shared_value(self, value: ir.Expr, target: GpuTarget) -> ir.Expr:
        if target.emulated:
            return value.astype("float32") if self.dtype in HALF_PTX else value
        return tirx.reinterpret("uint16", value) if self.dtype == "bfloat16" else value

    def move(
        self, target: GpuTarget, buffer: Var, to: list[ir.Expr], load: ir.Expr, inside: ir.Expr, width: int
    ) -> Stmt:
        """Copies ``width`` elements to shared memory, zeros where they are outside.

        `cp.async` copies without a register, and writes zeros beyond ``size`` bytes.
        """
        if target.emulated:
            return _copied(self, target, buffer, to, load, inside, width)
        place = tirx.address_of(emit.load(buffer, to))
        source = tirx.address_of(tirx.BufferLoad(load.source, list(load.indices)))
        size = tirx.Select(inside, tirx.const(VECTOR_BYTES, "int32"), tirx.const(0, "int32"))
        return tirx.Evaluate(cuda_func_call("tvtf_copy_async", place, source, size, source_code=COPY_ASYNC))

    def multiply(
        self,
        target: GpuTarget,
        tile: Tile,
        sums: Registers,
        shared: Var,
        left: Side,
        right: Side,
        stage: ir.Expr,
        row: ir.Expr,
        column: ir.Expr,
        thread: ir.Expr,
    ) -> Stmt:
        """Adds one tile's products to the sums of each thread of a warp."""
        if target.emulated:
            return self._emulated(tile, sums, shared, left, right, stage, row, column, thread)
        zero = emit.index(0)
        name, code = self._code(tile, left, right)
        places = [
            tirx.address_of(tirx.BufferLoad(sums.buffer, [zero])),
            tirx.address_of(emit.load(shared, left.place(stage, row, zero))),
            tirx.address_of(emit.load(shared, right.place(stage, column, zero))),
            (thread % 32).astype("int32"),
        ]
        return tirx.Evaluate(cuda_func_call(name, *places, source_code=code))

    def _emulated(
        self,
        tile: Tile,
        sums: Registers,
        shared: Var,
        left: Side,
        right: Side,
        stage: ir.Expr,
        row: ir.Expr,
        column: ir.Expr,
        thread: ir.Expr,
    ) -> Stmt:
        """Computes the instruction's sums element by element."""
        count = tile.own_rows * tile.own_columns // 32

        def one(places: list[ir.Expr]) -> Stmt:
            number, term = places
            down, across = self.place_of(thread % 32, number, tile)
            a = emit.load(shared, left.place(stage, row + down, term))
            b = emit.load(shared, right.place(stage, column + across, term))
            return sums.store(thread, sums.load(thread, number) + a * b, number)

        return emit.nest([count, tile.terms], one)

    def place_of(self, lane: ir.Expr, number: ir.Expr, tile: Tile) -> tuple[ir.Expr, ir.Expr]:
        """Returns the row and column, in the warp's part, of a thread's sum by its number.

        These are the fragments of the accumulators in the PTX ISA, "Matrix Fragments for mma.m16n8k16".
        """
        across = emit.index(tile.own_columns // COLUMNS)
        matrix, number_in_matrix = tirx.floordiv(number, emit.index(SUMS)), number % SUMS
        row = (
            tirx.floordiv(matrix, across) * ROWS
            + tirx.floordiv(lane, emit.index(4))
            + tirx.floordiv(number_in_matrix, emit.index(2)) * 8
        )
        return row, (matrix % across) * COLUMNS + (lane % 4) * 2 + number_in_matrix % 2

    def _code(self, tile: Tile, left: Side, right: Side) -> tuple[str, str]:
        """Returns the name and CUDA source of the function that multiplies one tile.

        CUDA's compiler sees constants, and unrolls all loops; kernels with the same sizes share the function.
        """
        values = {
            "DOWN": tile.own_rows // ROWS,
            "ACROSS": tile.own_columns // COLUMNS,
            "TERMS": tile.terms,
            "LEFT_LINE": left.line,
            "RIGHT_LINE": right.line,
            "LEFT_ALONG": int(left.along),
            "RIGHT_ALONG": int(right.along),
        }
        short = HALF_PTX.get(self.dtype, "tf32")
        name = f"tvtf_mma_{short}_" + "_".join(map(str, values.values()))
        code = (HALF_CODE if self.dtype in HALF_PTX else TF32_CODE).replace("NAME", name).replace("TYPE", short)
        for key in sorted(values, key=len, reverse=True):
            code = code.replace(f"<{key}>", str(values[key]))
        return name, code


def _copied(
    instruction: Instruction,
    target: GpuTarget,
    buffer: Var,
    to: list[ir.Expr],
    load: ir.Expr,
    inside: ir.Expr,
    width: int,
) -> Stmt:
    """Copies elements to shared memory one by one, as the emulation does."""

    def one(lane: ir.Expr) -> Stmt:
        at = [*load.indices]
        moved = tirx.BufferLoad(load.source, [*at[:-1], at[-1] + lane])
        value = instruction.shared_value(moved, target)
        return emit.store(buffer, tirx.if_then_else(inside, value, tirx.const(0, "float32")), [*to[:-1], to[-1] + lane])

    return emit.loop(width, one, name="lane")


def commit(target: GpuTarget) -> Stmt | None:
    """Ends a group of asynchronous copies."""
    return None if target.emulated else tirx.Evaluate(cuda_func_call("tvtf_copy_commit", source_code=COPY_COMMIT))


def wait(target: GpuTarget, left: int) -> Stmt | None:
    """Waits until at most the last ``left`` groups of copies are unfinished."""
    if target.emulated:
        return None
    name = f"tvtf_copy_wait_{left}"
    return tirx.Evaluate(cuda_func_call(name, source_code=COPY_WAIT.replace("NAME", name).replace("LEFT", str(left))))


def instruction_for(product: Contraction, target: GpuTarget) -> Instruction | None:
    """Returns the instruction that multiplies a product's operands, or None.

    Halves are multiplied exactly, while tf32 rounds float32 operands, which the user has to allow.
    """
    if not target.has_tensor_cores or product.stage.dtype != "float32":
        return None
    values = [product.left.value, product.right.value]
    if all(isinstance(v, tirx.Cast) for v in values):
        dtypes = {str(v.value.ty.dtype) for v in values}
        if len(dtypes) == 1 and dtypes <= set(HALF_PTX):
            return Instruction(dtypes.pop())
    return Instruction("float32") if target.has_tf32 else None


COPY_ASYNC = """
__forceinline__ __device__ void tvtf_copy_async(void* to, const void* from, int size) {
  unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(place), "l"(from), "r"(size) : "memory");
}
"""
COPY_COMMIT = """
__forceinline__ __device__ void tvtf_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
"""
COPY_WAIT = """
__forceinline__ __device__ void NAME() { asm volatile("cp.async.wait_group LEFT;" ::: "memory"); }
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
    for (int j = 0; j < <ACROSS>; ++j) {
      const int at = <RIGHT_ALONG> ? (j * 8 + low) * <RIGHT_LINE> + k + second * 8
                                   : (k + low + second * 8) * <RIGHT_LINE> + j * 8;
      const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(b + at));
      if (<RIGHT_ALONG>) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(y[j][0]), "=r"(y[j][1]) : "r"(place) : "memory");
      } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(y[j][0]), "=r"(y[j][1]) : "r"(place) : "memory");
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
