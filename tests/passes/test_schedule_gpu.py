"""GPU schedules, emulated thread by thread on the CPU: NumPy's values for every rule, within the GPU's limits."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
import tvm
import tvm_ffi
from covering import covering
from gpu_emulation import backwards
from schedule_programs import dtype_of, tensor, values
from tvm import ir, te, tirx

from tvtf.ops.kernels.conv import conv_nd
from tvtf.ops.kernels.matmul import matmul
from tvtf.ops.kernels.scan import cumsum
from tvtf.ops.kernels.softmax import softmax
from tvtf.passes.codegen import cuda
from tvtf.passes.codegen.llvm import lower_kernels
from tvtf.passes.codegen.memory_file import scratch_folder
from tvtf.passes.schedule.gpu import schedule, tiles
from tvtf.runtime.target import cuda_target, emulated_gpu_target

MOST_THREADS = 1024
MOST_SHARED_BYTES = {"sm_80": 163 * 1024, "sm_90a": 227 * 1024}
"""Of a block (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""
EMULATED = [emulated_gpu_target(), emulated_gpu_target(tf32=True)]
NAMED_EMULATED = dict(zip(("float32", "tf32"), EMULATED, strict=True))
each_target = pytest.mark.parametrize("target", NAMED_EMULATED.values(), ids=NAMED_EMULATED)
TURNED = {
    "neither": (False, False),
    "right": (False, True),
    "left": (True, False),
    "both": (True, True),
}
"""Which operands of a product are given transposed."""


def function(result: te.Tensor, operands: list[te.Tensor]) -> tirx.PrimFunc:
    return te.create_prim_func([*operands, result]).with_attr("global_symbol", "main")


def run(
    result: te.Tensor, inputs: dict[te.Tensor, np.ndarray], shape: tuple[int, ...], target=EMULATED[0]
) -> np.ndarray:
    """The result of a kernel as it is, which its threads in the opposite order must give, too."""
    scheduled = schedule(function(result, list(inputs)), target)
    assert scheduled.attrs["tirx.is_scheduled"]
    found = []
    for func in (scheduled, scheduled.with_body(backwards(scheduled.body))):
        built = tvm.compile(tvm.IRModule({"main": func}), target=target)
        out = tvm.runtime.tensor(np.full(shape, 77, dtype_of(str(result.dtype))))
        built["main"](*map(tvm.runtime.tensor, inputs.values()), out)
        found.append(out.numpy())
    np.testing.assert_array_equal(*found)
    return found[0]


@pytest.mark.parametrize("shape", [(), (1,), (7, 5), (256, 4), (300, 1030)])
def test_elementwise(shape: tuple[int, ...]) -> None:
    x, y = tensor(shape), tensor(shape, name="y")
    a, b = values(shape), values(shape)
    result = te.compute(x.shape, lambda *i: x(*i) * y(*i) + 1.0)
    np.testing.assert_allclose(run(result, {x: a, y: b}, shape), a * b + 1, rtol=1e-6, atol=1e-6)


def test_threads_move_several_elements_at_once() -> None:
    x = tensor((512, 512))
    scheduled = schedule(function(te.compute(x.shape, lambda i, j: x[i, j] * 2.0), [x]), cuda_target("sm_80"))
    assert scheduled.script().count("T.vectorized(T.int64(4))") == 2


@covering(shifts=2, shape=[(3, 5), (40, 300), (1000, 33), (300, 1030)], axis=[0, 1, (0, 1)])
def test_sum(shape: tuple[int, int], axis: int | tuple[int, ...]) -> None:
    x, data = tensor(shape), values(shape)
    k = [
        te.reduce_axis((tirx.IntImm("int64", 0), tirx.IntImm("int64", extent)), f"k{n}")
        for n, extent in enumerate(shape)
    ]
    axes = (axis,) if isinstance(axis, int) else axis
    kept = [x.shape[n] for n in range(2) if n not in axes]

    def body(*i: ir.Expr) -> ir.Expr:
        rest = iter(i)
        return te.sum(x(*(k[n] if n in axes else next(rest) for n in range(2))), axis=[k[n] for n in axes])

    expected = data.sum(axis=axis, dtype=np.float64)
    np.testing.assert_allclose(run(te.compute(kept, body), {x: data}, expected.shape), expected, rtol=1e-4, atol=1e-3)


def test_sum_with_unknown_extents() -> None:
    n = tirx.Var("n", "int64")
    x, k = tensor((n, 40)), te.reduce_axis((tirx.IntImm("int64", 0), tirx.IntImm("int64", 40)), "k")
    data = values((37, 40))
    result = te.compute((n,), lambda i: te.sum(x[i, k], axis=k))
    np.testing.assert_allclose(run(result, {x: data}, (37,)), data.sum(1), rtol=1e-4, atol=1e-5)


def test_softmax() -> None:
    x, data = tensor((19, 300)), values((19, 300))
    expected = np.exp(data - data.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(run(softmax(x, axis=1), {x: data}, data.shape), expected, rtol=1e-4)


@pytest.mark.parametrize("shape", [(3, 40), (40, 1), (2, 5, 3)])
def test_cumsum(shape: tuple[int, ...]) -> None:
    x, data = tensor(shape), values(shape)
    result = cumsum(x, axis=1, exclusive=False, reverse=False)
    np.testing.assert_allclose(run(result, {x: data}, shape), np.cumsum(data, 1), rtol=1e-4, atol=1e-5)


@covering(shifts=2, turned=TURNED, dtype=["float16", "float32", "float64", "int32"], target=NAMED_EMULATED)
def test_matmul(turned: tuple[bool, bool], dtype: str, target) -> None:
    m, n, k = 33, 70, 45
    left, right = turned
    a, b = (
        np.rint(values(shape)).astype(dtype_of(dtype))
        for shape in ((k, m) if left else (m, k), (n, k) if right else (k, n))
    )
    x, y = tensor(a.shape, dtype), tensor(b.shape, dtype, "y")
    wide = (a.T if left else a).astype("float64") @ (b.T if right else b).astype("float64")
    result = matmul(x, y, transpose_a=left, transpose_b=right)
    np.testing.assert_array_equal(run(result, {x: a, y: b}, (m, n), target), wide.astype(dtype_of(dtype)))


@covering(
    shifts=2,
    turned=TURNED,
    dtype=["float16", "bfloat16"],
    sizes=[(128, 256, 64), (130, 300, 72), (136, 136, 200), (129, 131, 65)],
)
def test_products_of_warpgroups(
    turned: tuple[bool, bool], dtype: str, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = turned
    monkeypatch.setattr(tiles, "BLOCKS_THAT_FILL", 1)
    m, n, k = sizes
    a, b = (
        np.arange(r * c).reshape(r, c) % 7 - 3.0 for r, c in ((k, m) if left else (m, k), (n, k) if right else (k, n))
    )
    x, y = tensor(a.shape, dtype), tensor(b.shape, dtype, "y")
    product = matmul(x, y, transpose_a=left, transpose_b=right)
    kind = dtype_of(dtype)
    expected = ((a.T if left else a) @ (b.T if right else b)).astype(kind)
    (kernel,) = kernels_of(product, [x, y], "sm_90a")
    assert "tvtf_wgmma" in kernel.script()
    operands = {x: a.astype(kind), y: b.astype(kind)}
    np.testing.assert_array_equal(run(product, operands, (m, n), emulated_gpu_target(warpgroups=True)), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("sizes", [(130, 264, 72), (128, 131, 65)])
def test_what_follows_a_product_of_warpgroups(
    sizes: tuple[int, int, int], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches of two, with a bias, a residual of another type, and a second result."""
    monkeypatch.setattr(tiles, "BLOCKS_THAT_FILL", 1)
    m, n, k = sizes
    kind = dtype_of(dtype)
    a, b = (np.arange(2 * r * c).reshape(2, r, c) % 5 - 2.0 for r, c in ((m, k), (k, n)))
    bias, residual = np.arange(n) % 3 - 1.0, np.arange(2 * m * n).reshape(2, m, n) % 7 - 3.0
    x, y = tensor(a.shape, dtype), tensor(b.shape, dtype, "y")
    v, r = tensor((n,), dtype, "v"), tensor(residual.shape, "float32", "r")
    product = matmul(x, y, transpose_a=False, transpose_b=False)
    result = te.compute(
        product.shape,
        lambda i, j, c: tirx.max((product[i, j, c] + v[c]).astype("float32") + r[i, j, c], tirx.const(0.0, "float32")),
    )
    rounded = (a @ b).astype(kind) + bias.astype(kind)
    expected = np.maximum(rounded.astype("float32") + residual.astype("float32"), 0)
    operands = {x: a.astype(kind), y: b.astype(kind), v: bias.astype(kind), r: residual.astype("float32")}
    found = run(result, operands, residual.shape, emulated_gpu_target(warpgroups=True))
    np.testing.assert_array_equal(found, expected)


def test_products_of_warpgroups_run_while_threads_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where sums are used before a product is finished, ptxas waits for each instruction, and says so (C7510 to C7515)."""
    with_nvcc()
    sources: list[str] = []
    monkeypatch.setattr(cuda, "machine_code", lambda source, *_: sources.append(source) or b"0")
    x, y, v = tensor((4096, 512), "float16"), tensor((512, 4096), "float16", "y"), tensor((4096,), "float16", "v")
    product = matmul(x, y, transpose_a=False, transpose_b=False)
    zero = tirx.const(0.0, "float16")
    result = te.compute(product.shape, lambda i, j: tirx.max(product[i, j] + v[j], zero))
    target = cuda_target("sm_90a")
    _, devices = lower_kernels(tvm.IRModule({"main": schedule(function(result, [x, y, v]), target)}), target)
    for kind, part in devices.items():
        cuda.build_device(part, kind)
    (source,) = sources
    with scratch_folder() as folder:
        (folder / "k.cu").write_text(source)
        command = [
            cuda.nvcc(),
            "--cubin",
            "-arch",
            "sm_90a",
            *cuda.FLAGS,
            "-o",
            str(folder / "k.cubin"),
            str(folder / "k.cu"),
        ]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "wgmma" in source and "C75" not in said


@each_target
@pytest.mark.parametrize("strides, channels", [(1, 16), (2, 3)])
def test_convolution(strides: int, channels: int, target) -> None:
    data, window = np.rint(values((2, 9, 11, channels))), np.rint(values((3, 3, channels, 20)))
    x, w = tensor(data.shape), tensor(window.shape, name="w")
    result = conv_nd(x, w, (strides, strides), [(1, 1), (1, 1)], (1, 1))
    shape = tuple(int(extent) for extent in result.shape)
    around = np.pad(data, [(0, 0), (1, 1), (1, 1), (0, 0)])
    expected = np.zeros(shape, "float32")
    for i, j in np.ndindex(3, 3):
        cut = around[:, i : i + (shape[1] - 1) * strides + 1 : strides, j : j + (shape[2] - 1) * strides + 1 : strides]
        expected += cut @ window[i, j]
    np.testing.assert_array_equal(
        run(result, {x: data.astype("float32"), w: window.astype("float32")}, shape, target), expected
    )


@covering(
    shifts=2, dtype=["float16", "float32", "float64"], sizes=[(20, 20, 1040), (64, 70, 960)], target=NAMED_EMULATED
)
def test_long_products_in_parts(dtype: str, sizes: tuple[int, int, int], target) -> None:
    m, n, k = sizes
    a, b = (np.arange(r * c).reshape(r, c) % 3 - 1.0 for r, c in ((m, k), (k, n)))
    x, y = tensor(a.shape, dtype), tensor(b.shape, dtype, "y")
    product = matmul(x, y, transpose_a=False, transpose_b=False)
    result = te.compute(product.shape, lambda i, j: product[i, j] + x[i, j])
    expected = (a @ b + a[:, :n]).astype(dtype_of(dtype))
    operands = {x: a.astype(dtype_of(dtype)), y: b.astype(dtype_of(dtype))}
    np.testing.assert_array_equal(run(result, operands, (m, n), target), expected)


@each_target
def test_gradients_of_filters_in_parts(target) -> None:
    """A sum over images, rows and columns."""
    data, grad = (np.rint(values((8, 12, 12, channels))) for channels in (5, 24))
    x, g = tensor(data.shape), tensor(grad.shape, name="g")
    axes = [te.reduce_axis((tirx.IntImm("int64", 0), tirx.IntImm("int64", size)), f"k{size}") for size in (8, 10, 9)]
    n, h, w = axes
    shape = (3, 4, 5, 24)
    extents = [tirx.IntImm("int64", size) for size in shape]
    result = te.compute(extents, lambda i, j, c, o: te.sum(x[n, h + i, w + j, c] * g[n, h, w, o], axis=axes))
    expected = np.zeros(shape, "float32")
    for i, j in np.ndindex(3, 4):
        expected[i, j] = np.einsum("nhwc,nhwo->co", data[:, i : i + 10, j : j + 9], grad[:, :10, :9])
    np.testing.assert_array_equal(
        run(result, {x: data.astype("float32"), g: grad.astype("float32")}, shape, target), expected
    )


# -- what a GPU allows


def kernels_of(result: te.Tensor, operands: list[te.Tensor], arch: str = "sm_80") -> list[tirx.PrimFunc]:
    target = cuda_target(arch)
    func = schedule(function(result, operands), target)
    _, devices = lower_kernels(tvm.IRModule({"main": func}), target)
    return [kernel for part in devices.values() for kernel in part.functions.values()]


def launched(kernel: tirx.PrimFunc, tag: str) -> int:
    return int(re.search(rf'launch_thread\("{tag}", (\d+)\)', kernel.script())[1])


def shared_buffers(kernel: tirx.PrimFunc) -> list[tuple[str, str, str]]:
    """Names, dtypes and scopes."""
    return [(made.name, str(made.ty.dtype.dtype), str(made.ty.storage_scope)) for made in _shared(kernel)]


def shared_bytes(kernel: tirx.PrimFunc) -> int:
    kinds = [made.ty for made in _shared(kernel)]
    sizes = [int(np.prod([int(e) for e in kind.shape])) for kind in kinds]
    return sum(size * tvm_ffi.dtype(str(kind.dtype.dtype)).bits // 8 for size, kind in zip(sizes, kinds))


def _shared(kernel: tirx.PrimFunc) -> list[tirx.Var]:
    found: list[tirx.AllocBuffer] = []
    tvm_ffi.structural_walk(kernel.body, (tirx.AllocBuffer, found.append))
    return [made.buffer for made in found if str(made.buffer.ty.storage_scope).startswith("shared")]


def products(dtype: str) -> dict[str, tuple[te.Tensor, list[te.Tensor]]]:
    x, y = tensor((4096, 512), dtype), tensor((512, 4096), dtype, "y")
    image, window = tensor((32, 56, 56, 64), dtype), tensor((3, 3, 64, 128), dtype, "w")
    return {
        "matmul": (matmul(x, y, transpose_a=False, transpose_b=False), [x, y]),
        "conv": (conv_nd(image, window, (1, 1), [(1, 1), (1, 1)], (1, 1)), [image, window]),
    }


@pytest.mark.parametrize("arch", MOST_SHARED_BYTES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["matmul", "conv"])
def test_products_keep_to_the_limits(name: str, dtype: str, arch: str) -> None:
    for kernel in kernels_of(*products(dtype)[name], arch):
        assert 32 <= launched(kernel, "threadIdx.x") <= MOST_THREADS
        assert shared_bytes(kernel) <= MOST_SHARED_BYTES[arch]


@pytest.mark.parametrize("columns, count", [(1000, 1), (50_000, 4)])
def test_softmax_is_one_kernel_where_a_row_fits(columns: int, count: int) -> None:
    x = tensor((4096, columns))
    kernels = kernels_of(softmax(x, axis=1), [x])
    assert len(kernels) == count
    assert all(launched(kernel, "threadIdx.x") <= MOST_THREADS for kernel in kernels)
    assert all(shared_bytes(kernel) <= 48 * 1024 for kernel in kernels)


def test_a_sum_in_parts_of_other_lengths_is_shared_by_threads() -> None:
    x = tensor((43_261, 40))
    k = te.reduce_axis((tirx.IntImm("int64", 0), x.shape[0]), "k")
    first, last = kernels_of(te.compute((x.shape[1],), lambda j: te.sum(x[k, j], axis=k)), [x])
    assert launched(first, "blockIdx.x") > 50 and "partial" in first.script() and launched(last, "blockIdx.x") < 10


@pytest.mark.parametrize("sizes, kernels", [((64, 512, 784), 2), ((64, 512, 128), 1), ((2048, 2048, 784), 1)])
def test_products_of_few_tiles_are_cut_into_parts(sizes: tuple[int, int, int], kernels: int) -> None:
    m, n, k = sizes
    x, y = tensor((m, k)), tensor((k, n), name="y")
    made = kernels_of(matmul(x, y, transpose_a=False, transpose_b=False), [x, y])
    assert len(made) == kernels
    assert launched(made[0], "blockIdx.x") >= 8 * (7 if kernels == 2 else 1)


def test_tiles_of_several_types_have_names_of_their_own() -> None:
    """CUDA has one name in a file for all memory whose size the launch tells."""
    found: set[tuple[str, str]] = set()
    for dtype in ("float16", "float32", "float64", "int32"):
        x, y = tensor((64, 64), dtype), tensor((64, 64), dtype, "y")
        for kernel in kernels_of(matmul(x, y, transpose_a=False, transpose_b=False), [x, y]):
            found |= {(name, kind) for name, kind, scope in shared_buffers(kernel) if scope == "shared.dyn"}
    assert len(found) == len({name for name, _ in found}) == 4


def test_no_memory_of_several_threads_is_used_twice() -> None:
    """Between two barriers, some threads may still read what others write anew."""
    x = tensor((64, 300))
    func = schedule(function(softmax(x, axis=1), [x]), cuda_target("sm_80"))
    (kernel,) = kernels_of(softmax(x, axis=1), [x])
    assert len(shared_buffers(kernel)) == len(shared_buffers(func)) >= 3


def test_nothing_is_done_where_an_unknown_size_is_zero() -> None:
    """At least one block is launched."""
    n = tirx.Var("n", "int64")
    x = tensor((n, 300))
    (kernel,) = kernels_of(softmax(x, axis=1), [x])
    block = re.search(r"(\w+) = T.launch_thread\(\"blockIdx.x|blockIdx.x\", .*\) as (\w+):", kernel.script())
    name = block[1] or block[2]
    assert f"if {name} < n:" in kernel.script() or f'if T.Cast("int64", {name}) < n:' in kernel.script()


def with_nvcc() -> str:
    try:
        return cuda.nvcc()
    except cuda.CudaError as error:
        pytest.skip(str(error))


INSTRUCTIONS = {
    ("sm_80", "float16"): "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    ("sm_80", "float32"): "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    ("sm_90", "float16"): "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    ("sm_90a", "float16"): "wgmma.mma_async.sync.aligned.m64n",
    ("sm_90a", "bfloat16"): "wgmma.mma_async.sync.aligned.m64n",
    ("sm_90a", "float32"): "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
}


@pytest.mark.sweep
@pytest.mark.parametrize("arch, dtype", INSTRUCTIONS)
@pytest.mark.parametrize("name", ["matmul", "conv"])
def test_products_use_tensor_cores(name: str, dtype: str, arch: str, monkeypatch) -> None:
    with_nvcc()
    sources: list[str] = []
    monkeypatch.setattr(cuda, "machine_code", lambda source, *_: sources.append(source) or b"0")
    result, operands = products(dtype)[name]
    target = cuda_target(arch)
    _, devices = lower_kernels(tvm.IRModule({"main": schedule(function(result, operands), target)}), target)
    for kind, part in devices.items():
        cuda.build_device(part, kind)
    monkeypatch.undo()
    code = cuda.machine_code(sources[0], arch, "ptx").decode()
    assert INSTRUCTIONS[arch, dtype] in code and "cp.async.cg.shared.global" in code


def test_an_architecture_is_checked() -> None:
    with pytest.raises(ValueError, match="sm_80 or later, such as sm_90, but got 'sm_70'"):
        cuda_target("sm_70")


def test_a_missing_compiler_is_reported(monkeypatch) -> None:
    monkeypatch.setattr(cuda.shutil, "which", lambda *_, **__: None)
    cuda.nvcc.cache_clear()
    with pytest.raises(cuda.CudaError, match="nvcc, which is neither on PATH nor in .*set CUDA_HOME"):
        cuda.nvcc()
    cuda.nvcc.cache_clear()


def test_constants_of_float64_are_written_exactly() -> None:
    """TVM writes 15 digits behind the point: 1e-20 would be 0."""
    x = tensor((64,), "float64")
    small, plain = tirx.const(1e-20, "float64"), tirx.const(0.5, "float64")
    func = te.create_prim_func([x, te.compute(x.shape, lambda i: x(i) * small + plain)])
    script = cuda.with_plain_bits(tvm.IRModule({"main": func}))["main"].script()
    bits = int(np.float64(1e-20).view(np.int64))
    assert f'T.call_pure_extern("float64", "__longlong_as_double", T.int64({bits}))' in script
    assert "T.float64(0.5)" in script
