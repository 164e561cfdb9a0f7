"""Kernels in the cache: compiled once for all programs, with the same bits, and never used when damaged or half written."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest

import tvtf as tf
from tvtf.core.thread_state import debug_settings
from tvtf.frontend.function import executor
from tvtf.passes import pipeline
from tvtf.passes.codegen import llvm
from tvtf.passes.codegen.subroutines import names_in
from tvtf.passes.schedule.cpu import product_tile, subroutine, transpose, winograd_transforms
from tvtf.runtime import cache, store
from tvtf.runtime.target import host_target


@pytest.fixture
def nothing_loaded(monkeypatch):
    """Makes this process forget what it loaded, as a second process knows nothing."""

    def forget():
        monkeypatch.setattr(cache, "_loaded", weakref.WeakValueDictionary())
        monkeypatch.setattr(cache, "_files", weakref.WeakValueDictionary())

    forget()
    monkeypatch.setattr(store, "_estimates", {})
    return forget


def kernels(folder):
    return sorted(folder.glob("code/*.o"))


def is_whole(kernel):
    digest, code = kernel.read_bytes()[:20], kernel.read_bytes()[20:]
    return store.digest_of_content(code) == digest


def without_libraries(folder):
    """Leaves a folder with kernels only, so that the program is compiled again."""
    for library in folder.glob("code/*.so"):
        library.unlink()


def layers(*widths):
    """A training step of dense layers; its kernels depend on the widths."""
    rng = np.random.default_rng(0)
    shapes = zip(widths, widths[1:])
    variables = [tf.Variable(rng.normal(size=shape).astype(np.float32)) for shape in shapes]
    x = tf.constant(rng.normal(size=(5, widths[0])).astype(np.float32))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            y = x
            for variable in variables:
                y = tf.tanh(y @ variable)
            loss = tf.reduce_sum(y * y)
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(0.1 * gradient)
        return loss

    return step, variables


def after_a_step(*widths):
    step, variables = layers(*widths)
    return [step().numpy().tobytes(), *(v.numpy().tobytes() for v in variables)]


def test_an_equal_program_finds_all_kernels_and_computes_the_same_bits(own_cache, nothing_loaded, compiled):
    fresh = after_a_step(8, 16, 16, 4)
    assert len(kernels(own_cache)) >= len(compiled) > 3  # with the subroutines that the kernels call
    without_libraries(own_cache)
    nothing_loaded()
    compiled.clear()
    assert after_a_step(8, 16, 16, 4) == fresh
    assert compiled == []


def test_a_changed_layer_compiles_only_what_is_new(own_cache, nothing_loaded, compiled):
    after_a_step(8, 16, 16, 16, 4)
    whole = len(compiled)
    compiled.clear()
    after_a_step(8, 16, 16, 16, 6)
    assert 0 < len(compiled) < whole


def test_a_program_with_more_layers_of_the_same_size_compiles_nothing(own_cache, nothing_loaded, compiled):
    after_a_step(8, 16, 16, 16, 16, 4)
    compiled.clear()
    after_a_step(8, 16, 16, 16, 16, 16, 4)
    assert compiled == []


def test_kernels_without_any_library_stay_within_the_limit(own_cache, nothing_loaded, monkeypatch, recwarn):
    """As where a program is exported: its kernels are cached, but the library is written elsewhere."""
    monkeypatch.setenv("TVTF_CACHE_SIZE", "2500")
    for number in range(6):
        assert store.load_or_build_object(f"kernel-{number}", lambda: b"x" * 1000) == b"x" * 1000
    assert 1 <= len(kernels(own_cache)) <= 2
    assert not recwarn.list


def affine():
    return tf.function(lambda x: x * 2.0 + 1.0, autograph=False)


DAMAGES = {
    "empty": lambda good: b"",
    "garbage": lambda good: b"x" * 1000,
    "cut in half": lambda good: good[: len(good) // 2],
    "one bit": lambda good: good[:500] + bytes([good[500] ^ 1]) + good[501:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_kernel_is_built_again(own_cache, nothing_loaded, compiled, damage):
    affine()(tf.ones([2]))
    (kernel,) = kernels(own_cache)
    good = kernel.read_bytes()
    kernel.write_bytes(DAMAGES[damage](good))
    without_libraries(own_cache)
    nothing_loaded()
    with pytest.warns(UserWarning) as warned:
        assert affine()(tf.ones([2])).numpy().tolist() == [3.0, 3.0]
    assert [str(w.message) for w in warned] == [f"the cached kernel {kernel} is damaged and is built anew"]
    assert kernel.read_bytes() == good
    assert len(compiled) == 2


def test_a_kernel_that_was_evicted_is_built_again(own_cache, nothing_loaded, compiled):
    affine()(tf.ones([2]))
    for file in own_cache.glob("code/*"):
        file.unlink()
    nothing_loaded()
    assert affine()(tf.ones([2])).numpy().tolist() == [3.0, 3.0]
    assert len(compiled) == 2


def test_a_cache_of_size_0_stores_nothing(own_cache, nothing_loaded, compiled, monkeypatch):
    monkeypatch.setenv("TVTF_CACHE_SIZE", "0")
    for _ in range(2):
        nothing_loaded()
        assert affine()(tf.ones([2])).numpy().tolist() == [3.0, 3.0]
    assert len(compiled) == 2
    assert not own_cache.exists()


def test_another_version_of_the_compiler_finds_nothing(own_cache, nothing_loaded, compiled, monkeypatch):
    affine()(tf.ones([2]))
    nothing_loaded()
    monkeypatch.setattr(cache, "_digest", ["another"])
    affine()(tf.ones([2]))
    assert len(compiled) == 2


def test_a_full_disk_costs_the_cache_only(own_cache, nothing_loaded, compiled, monkeypatch):
    def full(source, place):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.os, "replace", full)
    with pytest.warns(UserWarning, match="can't be written .*No space left on device"):
        assert cache.kernel_code("key", lambda: b"code") == b"code"


# -- lowered one by one


def image_step():
    rng = np.random.default_rng(0)
    w = tf.Variable(rng.normal(size=(3, 3, 4, 8)).astype(np.float32))
    x = tf.constant(rng.normal(size=(2, 9, 9, 4)).astype(np.float32))

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME")) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    return tf.function(step), ()


def constant_operands():
    w = tf.constant(np.random.default_rng(0).normal(size=(64, 96)).astype(np.float32))
    return tf.function(lambda x: tf.nn.relu(x @ w)), (tf.TensorSpec((40, 64), tf.float32),)


def rows_of_unknown_number():
    return tf.function(lambda x: tf.nn.softmax(x * 2.0) + x), (tf.TensorSpec((None, 7), tf.float32),)


def scattered():
    table = tf.Variable(np.ones((9, 3), np.float32))

    def step(i):
        table.scatter_sub(tf.IndexedSlices(tf.ones((2, 3)), i))
        return tf.reduce_sum(table)

    return tf.function(step), (tf.TensorSpec((2,), tf.int32),)


def loop():
    def count(x):
        return tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.tanh(y @ y)), (0, x))[1]

    return tf.function(count), (tf.TensorSpec((3, 3), tf.float32),)


@pytest.mark.parametrize("program", [image_step, constant_operands, rows_of_unknown_number, scattered, loop])
def test_kernels_lowered_one_by_one_give_the_library_of_those_lowered_together(tmp_path, program, monkeypatch):
    # Kernels that are lowered together keep their own sizes.
    monkeypatch.setattr(pipeline, "with_runtime_sizes", lambda mod, _target: mod)
    function, specs = program()
    concrete = function.get_concrete_function(*specs)
    mod, target = executor.entry_module(concrete, None, False), host_target()
    llvm.build_library(pipeline.lower(mod, target), target, tmp_path / "together.so")
    alone = pipeline.lower(mod, target, kernels=False)
    llvm.build_library(alone, target, tmp_path / "alone.so", finish=pipeline.finisher(target))
    assert (tmp_path / "alone.so").read_bytes() == (tmp_path / "together.so").read_bytes()


# -- other processes


PROGRAM = """
    import sys, time
    import numpy as np
    import tvtf as tf
    from tvtf.passes.codegen import llvm
    build = llvm._Objects._compile_part

    def slow(self, *args):
        code = build(self, *args)
        print("compiled", flush=True)
        time.sleep(float(sys.argv[1]))
        return code

    llvm._Objects._compile_part = slow
    w = tf.Variable(np.random.default_rng(0).normal(size=(7, 7)).astype(np.float32))
    x = tf.constant(np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32))

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.softmax(x @ w) ** 2)
        w.assign_sub(tape.gradient(loss, w))
        return loss

    print([step().numpy().tobytes().hex(), w.numpy().tobytes().hex()], flush=True)
"""


def process(folder, sleep=0.0):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(sleep)],
        env=os.environ | {"TVTF_CACHE_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(started):
    """The count of compiled kernels, and the result."""
    out, err = started.communicate(timeout=120)
    assert err == ""
    *noted, result = out.splitlines()
    return len(noted), result


def test_two_processes_at_once_and_a_third_compute_the_same_bits(own_cache):
    both = [process(own_cache, 0.1) for _ in range(2)]
    (_, one), (_, other) = map(finished, both)
    assert one == other
    assert all(map(is_whole, kernels(own_cache)))
    without_libraries(own_cache)
    assert finished(process(own_cache)) == (0, one)


def test_what_a_killed_compilation_left_is_whole_or_not_used(own_cache):
    killed = process(own_cache, 60)
    assert killed.stdout.readline() == "compiled\n"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    # What is stored already, such as subroutines, is whole.
    assert all(map(is_whole, kernels(own_cache)))
    count, result = finished(process(own_cache))
    assert 0 < count <= len(kernels(own_cache))
    assert sorted(p.name for p in own_cache.iterdir()) == ["code", "index"]
    without_libraries(own_cache)
    assert finished(process(own_cache)) == (0, result)


# -- what TVTF_DEBUG=2 prints


def test_debugging_prints_what_each_kernel_took_and_which_were_found(own_cache, nothing_loaded, monkeypatch, capsys):
    monkeypatch.setattr(debug_settings, "debug", 2)
    after_a_step(8, 16, 4)
    printed = capsys.readouterr().err.splitlines()
    (summary,) = [line for line in printed if "kernels, " in line]
    assert re.fullmatch(
        r"tvtf: \d+ kernels, 0 of them found in the cache; processor seconds: schedule .*, lower .*, LLVM .*", summary
    )
    count = int(summary.split()[1])
    each = printed[printed.index(summary) + 1 :]
    assert len(each) == min(count, 10)
    seconds = [float(line.split()[1]) for line in each]
    assert seconds == sorted(seconds, reverse=True)
    without_libraries(own_cache)
    nothing_loaded()
    after_a_step(8, 16, 4)
    assert f"tvtf: {count} kernels, {count} of them found in the cache" in capsys.readouterr().err.splitlines()


# -- subroutines: code that kernels have in common


def subroutines(folder):
    """The stored code of subroutines: that which defines no kernel."""
    return [path for path in kernels(folder) if b"__tvm_ffi_" not in path.read_bytes()]


def test_kernels_of_several_sizes_share_subroutines(own_cache, nothing_loaded, compiled):
    fresh = after_a_step(64, 128, 128, 64)
    shared = subroutines(own_cache)
    assert 0 < len(shared) < len(compiled)
    rng = np.random.default_rng(1)
    x, w = (tf.constant(rng.normal(size=size).astype(np.float32)) for size in ((70, 128), (128, 128)))
    tf.function(lambda x: tf.nn.gelu(x @ w))(x)  # another kernel, with more rows
    assert len(subroutines(own_cache)) <= len(shared) + 3  # such as gelu's loops
    nothing_loaded()
    without_libraries(own_cache)
    assert after_a_step(64, 128, 128, 64) == fresh


def test_a_subroutine_that_is_gone_is_made_again_by_its_kernel(own_cache, nothing_loaded, compiled, monkeypatch):
    fresh = after_a_step(64, 128, 64)
    stored = subroutines(own_cache)
    assert stored
    for path in stored:
        path.unlink()
    without_libraries(own_cache)
    nothing_loaded()
    for made in ("_FUNCTIONS", "_NAMES"):
        monkeypatch.setattr(subroutine, made, {})
    for made in (product_tile._product, transpose._transpose):
        made.cache_clear()
    compiled.clear()
    assert after_a_step(64, 128, 64) == fresh
    assert not compiled and subroutines(own_cache) == stored


def after_a_convolution():
    """A training step of a 3x3 convolution: a subroutine updates its filter, and calls another for Winograd's transform."""
    rng = np.random.default_rng(0)
    images = tf.constant(rng.normal(size=(2, 32, 32, 32)).astype(np.float32))
    kernel = tf.Variable(rng.normal(size=(3, 3, 32, 32)).astype(np.float32))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.conv2d(images, kernel, 1, "SAME") ** 2)
        kernel.assign_sub(1e-6 * tape.gradient(loss, kernel))
        return loss

    return [step().numpy().tobytes(), kernel.numpy().tobytes()]


def test_a_subroutine_that_only_another_calls_is_made_again(own_cache, nothing_loaded, compiled, monkeypatch):
    fresh = after_a_convolution()
    mentioned = {path: set(names_in(path.read_bytes())) for path in subroutines(own_cache)}
    (called,) = {name for names in mentioned.values() if len(names) > 1 for name in names} - {
        name for path in kernels(own_cache) if path not in mentioned for name in names_in(path.read_bytes())
    }
    stored = [path for path, names in mentioned.items() if names == {called}]
    assert len(stored) == 1
    stored[0].unlink()
    without_libraries(own_cache)
    nothing_loaded()
    for made in ("_FUNCTIONS", "_NAMES"):
        monkeypatch.setattr(subroutine, made, {})
    for made in (product_tile._product, transpose._transpose, winograd_transforms._transform_subroutine):
        made.cache_clear()
    compiled.clear()
    assert after_a_convolution() == fresh
    assert not compiled and stored[0].exists()


def test_a_process_that_finds_all_code_makes_no_subroutine(own_cache):
    program = """
        import numpy as np, tvtf as tf
        from tvtf.passes.schedule.cpu import subroutine
        x = tf.constant(np.linspace(-1, 1, 128 * 128, dtype=np.float32).reshape(128, 128))
        y = tf.function(lambda x: tf.nn.relu(x @ x) + {added})(x)
        print(len(subroutine._FUNCTIONS), y.numpy().tobytes().hex()[:4000])
    """

    def run():
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program.format(added=1.0))],
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        count, bits = done.stdout.split()
        return int(count), bits

    first = run()
    assert first[0] > 0 and subroutines(own_cache)
    without_libraries(own_cache)
    assert run() == (0, first[1])
