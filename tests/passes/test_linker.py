"""The built-in linker on objects from TVM's LLVM, and its way out to the system's."""

import ctypes
import re
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.script import tirx as T

import tvtf as tf
from tvtf.passes.codegen import linker
from tvtf.passes.codegen.elf import UnsupportedObjectError, read_object
from tvtf.passes.codegen.linker import LinkError, export_linker, link

TARGET = tvm.target.Target("llvm")


@T.prim_func(s_tir=True)
def exponential(A: T.Buffer((64,), "float64"), B: T.Buffer((64,), "float64")):
    for i in T.parallel(64):
        with T.sblock("exponential"):
            v = T.axis.spatial(64, i)
            B[v] = T.exp(A[v]) + T.float64(0.25)


@T.prim_func(s_tir=True)
def doubled(A: T.Buffer((64,), "float64"), B: T.Buffer((64,), "float64")):
    for i in T.parallel(64):
        with T.sblock("doubled"):
            v = T.axis.spatial(64, i)
            B[v] = A[v] * T.float64(2)


def write_object(path: Path, name: str, func: tvm.tirx.PrimFunc) -> Path:
    module = tvm.tirx.build(tvm.IRModule({name: func.with_attr("global_symbol", name)}), target=TARGET)
    module.write_to_file(str(path))
    return path


def run(library: Path, name: str) -> np.ndarray:
    source, result = np.linspace(-1, 1, 64), np.zeros(64)
    tvm_ffi.load_module(str(library))[name](tvm.runtime.tensor(source), target := tvm.runtime.tensor(result))
    return target.numpy()


@pytest.fixture
def system_linkers(monkeypatch):
    """Lets a test use the system's linker, which others don't have."""
    monkeypatch.setattr(linker, "SYSTEM_LINKERS", ("cc", "gcc", "clang", "ld"))


needs_x86 = pytest.mark.skipif(
    "x86_64" not in tvm.get_global_func("target.llvm_get_system_triple")(), reason="the built-in linker is for x86-64"
)


@needs_x86
def test_two_objects_become_one_library_without_a_toolchain(tmp_path):
    objects = [write_object(tmp_path / "a.o", "a", exponential), write_object(tmp_path / "b.o", "b", doubled)]
    link(objects, tmp_path / "both.so")
    values = np.linspace(-1, 1, 64)
    np.testing.assert_allclose(run(tmp_path / "both.so", "a"), np.exp(values) + 0.25, rtol=1e-12)
    np.testing.assert_array_equal(run(tmp_path / "both.so", "b"), values * 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.o", "b.o", "both.so"]


@needs_x86
def test_a_whole_executable_is_exported_through_it(tmp_path):
    x = relax.Var("x", relax.TensorType((3,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, relax.const(np.arange(3, dtype="float32")))))
    executable = tvm.compile(builder.get(), TARGET)
    executable.export_library(str(tmp_path / "main.so"), fcompile=export_linker)
    loaded = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "main.so")), tvm.cpu())
    np.testing.assert_array_equal(loaded["main"](tvm.runtime.tensor(np.ones(3, "float32"))).numpy(), [1, 2, 3])


@needs_x86
@pytest.mark.skipif(shutil.which("cc") is None, reason="the objects with constructors are compiled from C")
def test_constructors_of_all_objects_run_when_the_library_is_loaded(tmp_path):
    add = "extern int constructed; __attribute__((constructor)) static void add(void) { constructed += %d; }"
    texts = ["int constructed = 1;", add % 10, add % 100]
    objects = []
    for index, text in enumerate(texts):
        source = tmp_path / f"{index}.c"
        source.write_text(text)
        objects.append(source.with_suffix(".o"))
        subprocess.run(["cc", "-c", "-O1", "-fPIC", str(source), "-o", str(objects[-1])], check=True)
    link(objects, tmp_path / "all.so")
    assert ctypes.c_int.in_dll(ctypes.CDLL(str(tmp_path / "all.so")), "constructed").value == 111


def test_a_kernel_that_only_calls_subroutines_needs_no_system_linker(own_cache):
    x = np.arange(49, dtype=np.float32).reshape(7, 7)
    product = tf.function(lambda x: tf.matmul(x, x))
    np.testing.assert_array_equal(product(tf.constant(x)).numpy(), x @ x)


def test_an_unknown_relocation_goes_to_the_system_linker(tmp_path, monkeypatch, system_linkers):
    def fail(_objects):
        raise UnsupportedObjectError("relocation kind 99 against f")

    monkeypatch.setattr(linker, "shared_library", fail)
    link([write_object(tmp_path / "b.o", "b", doubled)], tmp_path / "b.so")
    np.testing.assert_array_equal(run(tmp_path / "b.so", "b"), np.linspace(-1, 1, 64) * 2)


def test_without_any_linker_the_error_names_object_need_and_cure(tmp_path, monkeypatch):
    monkeypatch.setattr(linker, "SYSTEM_LINKERS", ("no-such-linker",))
    path = tmp_path / "arm.o"
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 1, 183) + bytes(44))
    expected = (
        f"link: {path} is ELF type 1 for machine 183, not type 1 for machine 62 (x86-64); this needs the system's "
        "linker, but none of no-such-linker is on PATH. Install one (Debian, Ubuntu: apt install gcc; Fedora: dnf "
        "install gcc; macOS: xcode-select --install)."
    )
    with pytest.raises(LinkError, match=f"^{re.escape(expected)}$"):
        link([path], tmp_path / "arm.so")


def test_a_failing_system_linker_is_quoted_and_leaves_nothing(tmp_path, system_linkers):
    path = tmp_path / "text.o"
    path.write_text("no object at all")
    with pytest.raises(LinkError, match=r"^link: `.*-shared.*` failed with exit status \d+: .*text\.o"):
        link([path], tmp_path / "text.so")
    assert [entry.name for entry in tmp_path.iterdir()] == ["text.o"]


@needs_x86
def test_a_symbol_defined_twice_is_rejected(tmp_path):
    objects = [write_object(tmp_path / name, "same", doubled) for name in ("a.o", "b.o")]
    expected = f"link: symbol __tvm_ffi_same is defined twice, the second time in {objects[1]}; rename one"
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        link(objects, tmp_path / "same.so")


def test_nothing_to_link_is_rejected(tmp_path):
    out = tmp_path / "none.so"
    expected = f"link: expected at least one object for {out}, received none"
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        link([], out)


def test_reading_something_else_says_what_it_is(tmp_path):
    path = tmp_path / "x.o"
    path.write_bytes(b"MZ123456")
    expected = f"{path} isn't a 64-bit little-endian ELF object; it starts with b'MZ1234'"
    with pytest.raises(UnsupportedObjectError, match=f"^{re.escape(expected)}$"):
        read_object(path)


@needs_x86
def test_a_library_is_replaced_whole_while_it_is_loaded(tmp_path):
    out = tmp_path / "f.so"
    link([write_object(tmp_path / "a.o", "f", exponential)], out)
    first = tvm_ffi.load_module(str(out))["f"]
    link([write_object(tmp_path / "b.o", "f", doubled)], out)
    result = tvm.runtime.tensor(np.zeros(64))
    first(tvm.runtime.tensor(np.zeros(64)), result)
    np.testing.assert_array_equal(result.numpy(), np.full(64, 1.25))
