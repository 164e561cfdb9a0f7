"""Every primitive on a GPU: its schedule emulated on the CPU, its code compiled by nvcc, and run where there is a GPU."""

import numpy as np
import pytest
from covering import some
from gpu_emulation import backwards
from table_support import OWN, all_cases, compiled_differences, function_of, some_cases, specs_of

import tvtf as tf
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.frontend.function import executor
from tvtf.passes import pipeline
from tvtf.passes.codegen import cuda
from tvtf.passes.schedule import gpu as schedules
from tvtf.runtime.target import cuda_target, emulated_gpu_target
from tvtf.saved import library
from tvtf.saved.description import Description

LOWERED = [p for p in OWN if p.lower is not None]
A_FEW = (
    "add cast matmul conv reduce_sum argmax softmax cumsum sort gather tensor_scatter_add unsorted_segment_sum max_pool"
)
FEW = [p for p in LOWERED if p.name in A_FEW.split()]
ARCHITECTURES = ["sm_80", "sm_90", "sm_90a"]


def each(primitives):
    return pytest.mark.parametrize("prim", primitives, ids=lambda p: p.name)


def cases_of(prim, every=False):
    """The cases that are compiled, and those of them that run with unknown dims."""
    cases = [c for c in (all_cases if every else some_cases)(prim) if c.is_exported]
    return cases, [c for c in cases if c.sample.symbolic is not None]


def compiled_lines(prim, every=False):
    cases, symbolic = cases_of(prim, every)
    lines = compiled_differences(cases) if cases else []
    return lines + (compiled_differences(symbolic, symbolic=True) if symbolic else [])


# -- emulated


@pytest.fixture
def emulated(own_cache, monkeypatch):
    monkeypatch.setattr(executor, "target_of", lambda device: emulated_gpu_target())


@pytest.fixture
def backwards_emulated(emulated, monkeypatch):
    """Each phase's threads in the opposite order: where two of them meet in one place, results change."""
    forwards = schedules.schedule

    def schedule(func, target):
        scheduled = forwards(func, target)
        return scheduled.with_body(backwards(scheduled.body))

    monkeypatch.setattr(schedules, "schedule", schedule)


def test_the_few_are_primitives():
    assert {p.name for p in FEW} == set(A_FEW.split())


@each(some(FEW, FEW[::2]))
def test_some_gpu_schedules_give_the_numpy_column(prim, emulated):
    lines = compiled_lines(prim)
    assert not lines, "\n".join(["", *lines])


@each(some(FEW, FEW[1::2]))
def test_some_gpu_schedules_give_it_with_threads_in_the_opposite_order(prim, backwards_emulated):
    lines = compiled_lines(prim)
    assert not lines, "\n".join(["", *lines])


@pytest.mark.sweep
@each(LOWERED)
def test_gpu_schedules_give_it_with_threads_in_the_opposite_order(prim, backwards_emulated):
    lines = compiled_lines(prim)
    assert not lines, "\n".join(["", *lines])


@pytest.mark.sweep
@each(LOWERED)
def test_gpu_schedules_give_the_numpy_column(prim, emulated):
    lines = compiled_lines(prim, every=True)
    assert not lines, "\n".join(["", *lines])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("left, right", [(False, False), (False, True), (True, False), (True, True)])
def test_tensor_core_products_of_half_types(left, right, dtype, emulated):
    kind = tf.as_dtype(dtype).as_numpy_dtype
    a, b = np.arange(40 * 45) % 7 - 3.0, np.arange(45 * 70) % 5 - 2.0
    a, b = a.reshape(40, 45), b.reshape(45, 70)
    product = tf.function(lambda x, y: tf.matmul(x, y, transpose_a=left, transpose_b=right))
    found = product(tf.constant((a.T if left else a).astype(kind)), tf.constant((b.T if right else b).astype(kind)))
    np.testing.assert_array_equal(found.numpy(), (a @ b).astype(kind))


def test_a_training_step_gives_what_the_cpu_gives(own_cache, monkeypatch):
    def step():
        w = tf.Variable(np.linspace(-1, 1, 640, dtype="float32").reshape(32, 20))

        @tf.function
        def descend(x, labels):
            with tf.GradientTape() as tape:
                logits = tf.matmul(x, w)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
            w.assign_sub(0.5 * tape.gradient(loss, w))
            return loss

        x = tf.constant(np.sin(np.arange(64 * 32, dtype="float32")).reshape(64, 32))
        losses = [descend(x, tf.constant(np.arange(64) % 20)).numpy() for _ in range(3)]
        return [*losses, w.numpy()]

    on_cpu = step()
    monkeypatch.setattr(executor, "target_of", lambda device: emulated_gpu_target())
    for found, expected in zip(step(), on_cpu):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


# -- compiled by nvcc


def build(cases, target, folder, symbolic=False):
    specs = [spec for case in cases for spec in specs_of(case, symbolic)]
    traced = function_of(cases).get_concrete_function(*specs).graph.module()
    pipeline.compile_module(traced, target, folder / "library.so")


@pytest.fixture
def nvcc():
    try:
        return cuda.nvcc()
    except cuda.CudaError as error:
        pytest.skip(str(error))


@pytest.mark.sweep
@pytest.mark.parametrize("arch", ARCHITECTURES)
@each(LOWERED)
def test_every_primitive_compiles_for_cuda(prim, arch, nvcc, tmp_path):
    cases, symbolic = cases_of(prim)
    if cases:
        build(cases, cuda_target(arch), tmp_path)
        assert b"__global__" not in (tmp_path / "library.so").read_bytes()
    if symbolic:
        build(symbolic, cuda_target(arch), tmp_path, symbolic=True)


def test_code_is_loaded_for_the_gpu_that_is_named(monkeypatch):
    requested = []
    monkeypatch.setattr(executor, "target_of", lambda device: cuda_target("sm_80"))
    monkeypatch.setattr(executor, "GpuExecutable", lambda path, number: requested.append(number))
    monkeypatch.setattr(executor, "cached", lambda key, build, load, device: (key, load("")))
    module = tf.function(tf.sin).get_concrete_function(tf.TensorSpec([2])).graph.module()
    keys = set()
    for device in ("GPU:0", "GPU:1", "GPU:3"):
        monkeypatch.setattr(executor.state, "device", device)
        keys.add(executor.executable_for(module)[0])
    assert requested == [0, 1, 3] and len(keys) == 3


def test_a_library_for_hopper_gpus_is_rejected_elsewhere(monkeypatch):
    monkeypatch.setattr(cuda, "load_runtime", lambda: None)
    monkeypatch.setattr(library, "gpu_arch", lambda number: "sm_100")
    loaded = library.Library.__new__(library.Library)
    loaded.description = Description("f", (), (), "sm_90a")
    with pytest.raises(
        SavedModuleError, match="code for sm_90a, which runs on no other GPU, but this machine's is sm_100"
    ):
        loaded._devices()
    loaded.description = Description("f", (), (), "sm_90")
    assert len(loaded._devices()) == 6


# -- run on a GPU


@pytest.fixture
def gpu():
    """A GPU, without tf32: the numpy column is held to float32's tolerances."""
    from tvtf.runtime import target

    try:
        arch = target.gpu_arch(0)
    except (RuntimeError, OSError) as error:
        pytest.skip(str(error))
    return cuda_target(arch, tf32=False)


@pytest.mark.gpu
@each(LOWERED)
def test_compiled_on_a_gpu_is_the_numpy_column(prim, gpu, monkeypatch):
    monkeypatch.setattr(executor, "target_of", lambda device: gpu)
    lines = compiled_lines(prim)
    assert not lines, "\n".join(["", *lines])


@pytest.mark.gpu
@pytest.mark.sweep
@each(LOWERED)
def test_all_cases_on_a_gpu_are_the_numpy_column(prim, gpu, monkeypatch):
    monkeypatch.setattr(executor, "target_of", lambda device: gpu)
    lines = compiled_lines(prim, every=True)
    assert not lines, "\n".join(["", *lines])


SMALL_PRODUCTS = [(16, 16, 16), (130, 129, 31), (1024, 1024, 1024), (4096, 320, 64)]
PRODUCTS_OF_WARPGROUPS = [(2048, 1104, 200), (2048, 4096, 328), (2050, 4099, 65)]


@pytest.mark.gpu
@pytest.mark.parametrize("left, right", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("dtype, tolerance", [("float16", 2e-3), ("bfloat16", 2e-2), ("float32", 2e-3)])
@pytest.mark.parametrize("sizes", [*SMALL_PRODUCTS, *PRODUCTS_OF_WARPGROUPS])
def test_tensor_core_products_on_a_gpu(sizes, dtype, tolerance, left, right, gpu):
    m, n, k = sizes
    kind = tf.as_dtype(dtype).as_numpy_dtype
    random = np.random.default_rng(0)
    a, b = random.standard_normal((m, k)).astype(kind), random.standard_normal((k, n)).astype(kind)
    operands = tf.constant(a.T.copy() if left else a), tf.constant(b.T.copy() if right else b)
    with tf.device("GPU:0"):
        product = tf.function(lambda x, y: tf.matmul(x, y, transpose_a=left, transpose_b=right))
        found = product(*operands).numpy().astype("float64")
    expected = a.astype("float64") @ b.astype("float64")
    assert np.max(np.abs(found - expected)) <= tolerance * np.sqrt(k) * 4


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("sizes", [(2048, 4096, 328), (1024, 512, 72), (130, 130, 31), (130, 129, 31)])
def test_what_follows_a_product_on_a_gpu(sizes, dtype, gpu):
    m, n, k = sizes
    kind = tf.as_dtype(dtype).as_numpy_dtype
    a, b, bias = (np.random.default_rng(0).integers(-1, 2, shape).astype("float32") for shape in ((m, k), (k, n), (n,)))
    with tf.device("GPU:0"):
        layer = tf.function(lambda x, w, v: tf.nn.relu(tf.matmul(x, w) + v))
        found = layer(*(tf.constant(operand.astype(kind)) for operand in (a, b, bias)))
    np.testing.assert_array_equal(found.numpy(), np.maximum((a @ b).astype(kind) + bias.astype(kind), 0))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32"])
@pytest.mark.parametrize("first, last", [(0, 1024), (1, 1021), (2, 1022)])
def test_vectors_of_neighbours_on_a_gpu(first, last, dtype, gpu):
    x = (np.arange(512 * 1024) % 100).reshape(512, 1024).astype(tf.as_dtype(dtype).as_numpy_dtype)
    with tf.device("GPU:0"):
        found = tf.function(lambda x: x[:, first:last] * 2 + x[:, : last - first])(tf.constant(x))
    np.testing.assert_array_equal(found.numpy(), x[:, first:last] * 2 + x[:, : last - first])


@pytest.mark.gpu
def test_a_failing_check_on_a_gpu_raises_and_leaves_the_device_usable(gpu):
    gather = tf.function(lambda x, i: tf.gather(x, i))
    x = tf.constant([1.0, 2.0])
    with tf.device("GPU:0"):
        with pytest.raises(tf.errors.InvalidArgumentError):
            gather(x, tf.constant([5]))
        assert gather(x, tf.constant([1])).numpy().tolist() == [2.0]
