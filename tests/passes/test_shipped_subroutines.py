"""Subroutines that a wheel holds: used where they are what would be compiled, with the same results, and nowhere else."""

import importlib.util
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest
from tvm.target import Target

import tvtf as tf
from tvtf.passes.codegen import llvm, shipped_subroutines, subroutines
from tvtf.passes.codegen.processor_models import MODELS
from tvtf.passes.codegen.shipped_subroutines import (
    archive_for,
    shipped_code,
    shipped_kernel_code,
    shipped_kernel_name,
    target_of,
    write_archive,
)
from tvtf.passes.codegen.subroutines import SubroutineCompiler
from tvtf.passes.pipeline import finisher
from tvtf.passes.schedule.cpu import subroutine
from tvtf.runtime import cache
from tvtf.runtime.target import host_target

TOOL = Path(__file__).parents[2] / "tools" / "write_subroutines.py"
MODEL_NAMES = [model.name for model in MODELS]
SHAPES = (2, 9, 9, 16), (3, 3, 16, 40), (40,)


@pytest.fixture
def tool():
    spec = importlib.util.spec_from_file_location("write_subroutines", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder of archives, which the compiler looks into."""
    monkeypatch.setattr(shipped_subroutines, "FOLDER", tmp_path)
    monkeypatch.setenv("TVTF_SUBROUTINES", "1")
    return tmp_path


@pytest.fixture
def compiled_names(monkeypatch):
    """The names of the subroutines that are compiled."""
    names, lowered = [], subroutines.lower_subroutine
    monkeypatch.setattr(subroutines, "lower_subroutine", lambda name, *rest: names.append(name) or lowered(name, *rest))
    return names


def convolved(x, w, b):
    return tf.nn.relu(tf.nn.conv2d(x, w, 2, "SAME") + b)


def results():
    rng = np.random.default_rng(0)
    x, w, b = (tf.constant(rng.normal(size=shape).astype(np.float32)) for shape in SHAPES)

    @tf.function
    def step(x, w, b):
        with tf.GradientTape() as tape:
            tape.watch((x, w, b))
            loss = tf.reduce_sum(convolved(x, w, b) ** 2)
        return tape.gradient(loss, (x, w, b))

    return [gradient.numpy() for gradient in step(x, w, b)]


def model_of_this_processor():
    model = shipped_subroutines._model_of(host_target())
    if model is None:
        pytest.skip("wheels hold subroutines for x86-64 processors with AVX2")
    return model


def test_subroutines_of_a_wheel_are_not_compiled_again_and_results_are_the_same(
    own_cache, folder, compiled_names, tool, monkeypatch
):
    model = model_of_this_processor()
    names = tool.names_of([tool.Layer(convolved, SHAPES)], host_target())
    compiler = SubroutineCompiler(target_of(model), {}, None)
    code = {name: compiler.code(name, lambda name=name: subroutine.function(name)) for name in names}
    write_archive(model, code)
    compiled_names.clear()
    found = results()
    assert not set(compiled_names) & names
    monkeypatch.setenv("TVTF_SUBROUTINES", "0")
    monkeypatch.setenv("TVTF_CACHE_DIR", str(folder / "another"))
    for loaded in ("_loaded", "_files"):
        monkeypatch.setattr(cache, loaded, weakref.WeakValueDictionary())
    for one, other in zip(found, results(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert set(compiled_names) & names


def test_the_tool_writes_an_archive_for_each_model(folder, tool, monkeypatch):
    layers = [tool.Layer(convolved, SHAPES), tool.Layer(lambda x, w: x @ w, ((32, 64), (64, 96)))]
    monkeypatch.setattr(tool, "layers", lambda _tf: iter(layers))
    monkeypatch.setattr(tool, "elementwise", lambda _tf: iter([tool.Layer(tf.nn.relu, [(64, 100)])]))
    for model in MODEL_NAMES:
        tool.write(model)
        names = archive_for(target_of(model)).namelist()
        assert {name.split("_")[0] for name in names} == {"kernel", "tvtf"}
        assert all(shipped_code(name, target_of(model), {}).startswith(b"\x7fELF") for name in names)


SMALL, LARGE = (4, 5, 4), (64, 56, 56, 8)


@pytest.fixture
def compiled_kernels(monkeypatch):
    """The names of the kernels that are compiled."""
    names, compile_part = [], llvm._Objects._compile_part
    monkeypatch.setattr(
        llvm._Objects,
        "_compile_part",
        lambda self, part, cost: names.append(cost.name) or compile_part(self, part, cost),
    )
    return names


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_kernels_of_a_wheel_are_not_compiled_again_and_results_are_the_same(
    own_cache, folder, compiled_kernels, tool, monkeypatch, shape
):
    model, cores = model_of_this_processor(), int(host_target().attrs["num-cores"])
    monkeypatch.setattr(
        tool, "elementwise", lambda _tf: iter([tool.Layer(tf.nn.gelu, [LARGE]), tool.Layer(tf.nn.gelu, [SMALL])])
    )
    target = target_of(model, cores)
    kernels = tool.elementwise_kernels(target)
    write_archive(
        model,
        {
            shipped_kernel_name(func, content, cores): llvm.kernel_object_code(func, target, finisher(target))
            for content, func in kernels.items()
        },
    )
    compiled_kernels.clear()
    x = tf.constant(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    found = tf.function(tf.nn.gelu)(x)
    assert not compiled_kernels
    monkeypatch.setenv("TVTF_SUBROUTINES", "0")
    monkeypatch.setenv("TVTF_CACHE_DIR", str(folder / "another"))
    for loaded in ("_loaded", "_files"):
        monkeypatch.setattr(cache, loaded, weakref.WeakValueDictionary())
    np.testing.assert_array_equal(found, tf.function(tf.nn.gelu)(x))
    assert compiled_kernels


def test_kernels_without_parallel_loops_do_not_depend_on_the_number_of_cores(tool, monkeypatch):
    monkeypatch.setattr(
        tool, "elementwise", lambda _tf: iter([tool.Layer(tf.tanh, [SMALL]), tool.Layer(tf.tanh, [LARGE])])
    )
    kernels = tool.elementwise_kernels(target_of("x86-64-v3", 8))
    for content, func in kernels.items():
        targets = [target_of("x86-64-v3", cores) for cores in (2, 8)]
        one, other = (llvm.kernel_object_code(func, target, finisher(target)) for target in targets)
        names = [shipped_kernel_name(func, content, cores) for cores in (2, 8)]
        assert (one == other) == (names[0] == names[1])


def test_a_kernel_that_is_scheduled_otherwise_is_compiled(folder, tool, monkeypatch):
    """One that was tuned, and one for a processor that executes wide vectors in halves."""
    monkeypatch.setattr(tool, "elementwise", lambda _tf: iter([tool.Layer(tf.tanh, [SMALL])]))
    (content, func), *_ = tool.elementwise_kernels(target_of("x86-64-v4", 2)).items()
    write_archive("x86-64-v4", {shipped_kernel_name(func, content, 2): b"code"})
    processor, halved = (Target({"kind": "llvm", "mcpu": name, "num-cores": 2}) for name in ("znver5", "znver4"))
    assert shipped_kernel_code(func, content, processor, {}) == b"code"
    assert shipped_kernel_code(func, content, halved, {}) is None
    monkeypatch.setattr(shipped_subroutines, "choices_text", lambda func, target: "[1]")
    assert shipped_kernel_code(func, content, processor, {}) is None


def test_layers_are_of_many_kinds(tool):
    layers = list(tool.layers(tf))
    assert len(layers) > 100 and all(len(layer.shapes) > 1 for layer in layers)


@pytest.mark.parametrize(
    ("processor", "model"),
    [
        ({"mcpu": "znver5"}, "x86-64-v4"),
        ({"mcpu": "skylake-avx512"}, "x86-64-v4"),
        ({"mcpu": "haswell"}, "x86-64-v3"),
        ({"mcpu": "x86-64-v2"}, None),
        ({}, None),
        ({"mcpu": "znver5", "mtriple": "x86_64-pc-windows-msvc"}, None),
        ({"mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu"}, None),
    ],
)
def test_a_processor_gets_the_code_of_a_model_whose_instructions_it_has(folder, processor, model):
    for each in MODEL_NAMES:
        write_archive(each, {"tvtf_sub_a": each.encode()})
    code = shipped_code("tvtf_sub_a", Target({"kind": "llvm", **processor}), {})
    assert code == (None if model is None else model.encode())


def test_code_that_would_be_compiled_otherwise_is_not_used(folder, monkeypatch):
    target = target_of("x86-64-v3")
    write_archive("x86-64-v3", {"tvtf_sub_a": b"code"})
    assert shipped_code("tvtf_sub_a", target, {}) == b"code"
    assert shipped_code("tvtf_sub_b", target, {}) is None
    assert shipped_code("tvtf_sub_a", target, {"tirx.disable_vectorize": True}) is None
    monkeypatch.setenv("TVTF_SUBROUTINES", "0")
    assert shipped_code("tvtf_sub_a", target, {}) is None


def test_an_archive_of_another_compiler_is_not_used(folder, monkeypatch):
    with monkeypatch.context() as other:
        other.setattr(shipped_subroutines, "_digest_of_compiler", lambda: "another")
        write_archive("x86-64-v3", {"tvtf_sub_a": b"code"})
    assert shipped_code("tvtf_sub_a", target_of("x86-64-v3"), {}) is None


@pytest.mark.parametrize("value", [0, 14, 255, "another bit"])
def test_a_damaged_archive_is_not_used(folder, value, monkeypatch):
    """Whatever byte is another: its code is found whole, or there is a warning, or it counts as another compiler's."""
    monkeypatch.setattr(shipped_subroutines, "_digest_of_compiler", lambda: "this one")
    code = bytes(np.random.default_rng(0).integers(0, 4, 100, dtype=np.uint8))
    path = write_archive("x86-64-v3", {"tvtf_sub_a": code})
    data, messages = path.read_bytes(), []
    for place, byte in enumerate(data):
        changed = byte ^ 1 << place % 8 if value == "another bit" else value
        path.write_bytes(data[:place] + bytes([changed]) + data[place + 1 :])
        shipped_subroutines._open_archive.cache_clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = shipped_code("tvtf_sub_a", target_of("x86-64-v3"), {})
        assert found in (code, None) and (found is None or not caught)
        messages += [str(each.message) for each in caught]
    assert len(messages) > len(data) // 4 and all(f"{path} is damaged" in message for message in messages)


def test_an_archive_that_is_cut_off_gives_a_warning(folder):
    path = write_archive("x86-64-v3", {"tvtf_sub_a": b"code"})
    path.write_bytes(path.read_bytes()[:50])
    with pytest.warns(UserWarning, match="is damaged .* Installing tvtf again mends it"):
        assert shipped_code("tvtf_sub_a", target_of("x86-64-v3"), {}) is None
