"""LLVM's object code for lowered functions, and what is left out of it."""

from pathlib import Path

import numpy as np
import pytest
import tvm
from schedule_programs import compiled
from tvm import tirx
from tvm.target import Target, codegen

from tvtf.passes.codegen import native_code
from tvtf.passes.codegen.elf import parse_object, without_unused
from tvtf.passes.codegen.llvm import lower_kernels
from tvtf.passes.codegen.native_code import (
    HAS_ELF,
    LEVEL,
    LEVEL_WITHOUT_STORES,
    SAFE_LEVEL,
    native,
    with_less_unrolling,
)
from tvtf.passes.codegen.processor_models import MODELS

CONVERSIONS = {"__truncsfhf2", "__extendhfsf2"}
OLD, NEW = Target({"kind": "llvm", "mcpu": "x86-64"}), Target({"kind": "llvm", "mcpu": "x86-64-v3"})
"""Without an instruction for half precision, and with one."""


def cast(source, to):
    """A kernel that converts eight numbers."""
    x, y = tirx.decl_buffer((8,), source, "x"), tirx.decl_buffer((8,), to, "y")
    i = tirx.Var("i", "int32")
    store = tirx.BufferStore(y, tirx.Cast(to, tirx.BufferLoad(x, [i])), [i])
    return tirx.PrimFunc([x, y], tirx.For(i, 0, 8, tirx.ForKind.SERIAL, store)).with_attr("global_symbol", "main")


def defined(func, target):
    """The names that a kernel's object code defines for others."""
    code = native_code.native_code(lower_kernels(tvm.IRModule({"main": func}), target)[0], target)
    return {symbol.name for symbol in parse_object(Path("main.o"), code).symbols if symbol.defined and symbol.binding}


needs_elf = pytest.mark.skipif(not HAS_ELF, reason="objects of this system aren't ELF")


def failing_llvm(monkeypatch, message):
    """LLVM refuses its own first code."""
    levels = []

    def build(_part, host):
        levels.append(host.attrs.get("opt-level"))
        if len(levels) == 1:
            raise tvm.error.InternalError(message)
        return str(host.attrs["mcpu"])

    monkeypatch.setattr(native_code, "codegen_build", build)
    return levels


def test_code_that_llvm_rejects_is_optimized_one_level_less(monkeypatch):
    part, _ = lower_kernels(tvm.IRModule({"main": cast("float32", "int32")}), NEW)
    levels = failing_llvm(monkeypatch, "LLVM module verification failed with the following errors: ...")
    assert native(part, NEW) == "x86-64-v3"
    assert levels == [LEVEL, SAFE_LEVEL] == [2, 1]


def test_a_module_without_functions_is_not_optimized(monkeypatch):
    """Every program has one, and optimizing it took longer than compiling a small kernel."""
    levels = []
    monkeypatch.setattr(native_code, "codegen_build", lambda _part, host: levels.append(host.attrs["opt-level"]))
    native(tvm.IRModule(), NEW)
    assert levels == [LEVEL_WITHOUT_STORES] == [0]


def test_other_errors_of_llvm_are_reported(monkeypatch):
    failing_llvm(monkeypatch, "unknown intrinsic")
    with pytest.raises(tvm.error.InternalError, match="^unknown intrinsic$"):
        native(tvm.IRModule(), Target("llvm"))


@needs_elf
def test_conversions_of_half_precision_are_left_out_where_nothing_calls_them():
    assert not CONVERSIONS & defined(cast("float32", "int32"), OLD)
    assert not CONVERSIONS & defined(cast("float32", "float16"), NEW)


@needs_elf
def test_conversions_of_half_precision_are_kept_for_processors_without_them():
    assert defined(cast("float32", "float16"), OLD) >= CONVERSIONS


@pytest.mark.parametrize("target", [OLD, NEW], ids=["without F16C", "with F16C"])
def test_half_precision_is_converted_exactly(target):
    values = np.array([0.1, -2.5, 65504.0, 1e-7, 6e-8, 0.0, np.inf, 1e6], "float32")
    result = tvm.runtime.tensor(np.zeros(8, "float16"))
    compiled({"main": cast("float32", "float16")}, target)["main"](tvm.runtime.tensor(values), result)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result.numpy(), values.astype("float16"))


def test_objects_of_other_formats_are_left_alone():
    assert without_unused(b"\xcf\xfa\xed\xfe" + bytes(60), CONVERSIONS) is None


needs_x86 = pytest.mark.skipif(not codegen.llvm_get_system_x86_vendor(), reason="models of x86 processors")


@needs_x86
@pytest.mark.parametrize("cpu", ["znver5", "sapphirerapids", "alderlake", "znver2"])
def test_a_model_that_unrolls_less_has_the_same_features(cpu):
    target = Target({"kind": "llvm", "mcpu": cpu, "num-cores": 2})
    other = with_less_unrolling(target)
    assert other.attrs["mcpu"] in {model.name for model in MODELS} and int(other.attrs["num-cores"]) == 2
    assert codegen.llvm_get_cpu_features(other) == codegen.llvm_get_cpu_features(target)


@pytest.mark.parametrize(
    "target", [{"kind": "llvm"}, {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"}]
)
def test_other_processors_keep_their_model(target):
    assert str(with_less_unrolling(Target(target))) == str(Target(target))
