"""Native code compiled in parts, and the library that links it with bytecode and constants."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from codegen_programs import TARGET, finalized, load, number, variable
from tvm import ir, relax, tirx

from tvtf.passes.codegen.argument_checks import checking_kernels
from tvtf.passes.codegen.bytecode import DIM, MAKE_TUPLE, TENSOR, TUPLE_ITEM, VOID, Code
from tvtf.passes.codegen.llvm import NarrowIndices, build_library, host_target, lower_kernels, split_functions
from tvtf.passes.codegen.packed_entry import TRUSTED
from tvtf.passes.codegen.vm import generate
from tvtf.passes.schedule.cpu import subroutine


def chain(lengths):
    """A program of one distinct kernel pair per length: rotate by concatenation, then scale."""
    builder = relax.BlockBuilder()
    x = variable("x", (3,))
    with builder.function("main", [x]):
        value = x
        for length in lengths:
            wide = builder.emit(relax.op.concat([value] * length))
            rows = builder.emit(relax.op.reshape(wide, (length, 3)))
            value = builder.emit(relax.op.add(relax.op.sum(rows, axis=0), number(length)))
        builder.emit_func_output(value)
    return finalized(builder.get())


def expected(lengths, value):
    for length in lengths:
        value = value * length + length
    return value


LENGTHS = (2, 3, 4, 5)


@pytest.mark.parametrize("threads", [1, 2, 3, 64, None])
def test_any_number_of_threads_gives_the_same_program(tmp_path, threads):
    build_library(chain(LENGTHS), TARGET, tmp_path / "chain.so", threads=threads)
    given = np.float32([1, 2, 3])
    got = load(tmp_path / "chain.so")["main"](tvm.runtime.tensor(given))
    np.testing.assert_array_equal(got.numpy(), expected(LENGTHS, given))


def test_kernels_are_compiled_alone_unless_they_call_each_other():
    host, _ = lower_kernels(kernels_of(chain(LENGTHS)), TARGET)
    functions = dict(host.functions_items())
    parts = split_functions(functions)
    assert [len(part) for part in parts] == [1] * len(functions)
    assert {name for part in parts for name in part} == set(functions)

    one, other, *rest = functions
    calling = functions[one].with_body(tirx.Evaluate(ir.Call(other, [])))
    together, *alone = split_functions(functions | {one: calling})
    assert set(together) == {one, other}
    assert [len(part) for part in alone] == [1] * len(rest)


def test_where_indices_are_narrowed_a_subroutine_still_takes_64_bits_of_each_number():
    # It reads 64 bits. Those above a narrower number are chance: loops with strided convolutions crashed.
    source, result = (tirx.decl_buffer((64,), "float32") for _ in range(2))
    row = tirx.Var("row", "int64")
    numbers = [row * 3 - 5, 4]
    elements = [tirx.BufferLoad(result, [row * 16]), tirx.BufferLoad(source, [tirx.IntImm("int64", 0)])]
    copy = subroutine.call(subroutine.PREFIX + "copy", elements, numbers)
    loop = tirx.For(row, tirx.IntImm("int64", 0), tirx.IntImm("int64", 4), tirx.ForKind.SERIAL, copy)
    kernel = tirx.PrimFunc([source, result], loop).with_attr("global_symbol", "kernel")

    narrowed = NarrowIndices(tvm.IRModule({"kernel": kernel}))["kernel"]

    assert str(narrowed.body.loop_var.ty.dtype) == "int32"
    _, _, widths = subroutine.arguments(narrowed.body.body.value)
    assert [str(each.ty.dtype) for each in widths] == ["int64", "int64"]


def kernels_of(mod):
    return tvm.IRModule({n: f for n, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc)})


def test_the_same_module_gives_the_same_bytes(tmp_path):
    mod = chain(LENGTHS)
    for name in ("a.so", "b.so"):
        build_library(mod, TARGET, tmp_path / name, threads=2)
    assert (tmp_path / "a.so").read_bytes() == (tmp_path / "b.so").read_bytes()


def test_several_threads_build_at_once(tmp_path):
    programs = [(length, length + 1) for length in range(2, 6)]
    modules = [chain(program) for program in programs]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: build_library(modules[k], TARGET, tmp_path / f"{k}.so"), range(4)))
    given = np.float32([1, 2, 3])
    for index, program in enumerate(programs):
        got = load(tmp_path / f"{index}.so")["main"](tvm.runtime.tensor(given))
        np.testing.assert_array_equal(got.numpy(), expected(program, given))


WITHOUT_COMPILER = """
import ctypes, sys
import numpy as np, tvm_ffi
ctypes.CDLL(sys.argv[2], ctypes.RTLD_GLOBAL)
machine = tvm_ffi.load_module(sys.argv[1])["vm_load_executable"]()
machine["vm_initialization"](1, 0, 2)
given = np.zeros(64 // 4 + 3 + 16, "float32")
start = -given.ctypes.data % 64 // 4
given = given[start : start + 3]
given[:] = 1, 2, 3
print(np.from_dlpack(machine["main"](tvm_ffi.from_dlpack(given))).tolist(), "tvm" in sys.modules)
"""


def test_runs_in_a_process_without_the_compiler(tmp_path):
    build_library(chain((2, 3)), TARGET, tmp_path / "chain.so", poll_signals=False)
    (runtime,) = Path(tvm.__file__).parent.glob("lib/libtvm_runtime.*")
    command = [sys.executable, "-c", WITHOUT_COMPILER, str(tmp_path / "chain.so"), str(runtime)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[15.0, 21.0, 27.0] False\n", "")


def test_host_of_a_device_target_is_llvm():
    assert host_target(tvm.target.Target({"kind": "cuda", "arch": "sm_90"})).kind.name == "llvm"
    assert host_target(TARGET).same_as(TARGET)


def test_an_error_of_llvm_reaches_the_caller_and_leaves_nothing(tmp_path):
    builder = relax.BlockBuilder()
    x = variable("x", (3,), "bool")
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.equal(x, x)))
    with pytest.raises(RuntimeError, match="LLVM module verification failed"):
        build_library(finalized(builder.get()), TARGET, tmp_path / "broken.so")
    assert list(tmp_path.iterdir()) == []


def two_products():
    x = variable("x", (3,))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        first = builder.emit(relax.op.matmul(x, relax.const(np.ones((3, 4), "float32"))))
        builder.emit_func_output(builder.emit(relax.op.matmul(first, relax.const(np.ones((4, 5), "float32")))))
    return finalized(builder.get())


def test_kernels_check_what_an_unknown_caller_gives(tmp_path):
    kernels = generate(relax.ExecBuilder(), two_products(), check_arguments=True)
    assert trusted(kernels) == {"matmul": False, "matmul1": True}
    build_library(two_products(), TARGET, tmp_path / "strided.so", check_arguments=True)
    main = load(tmp_path / "strided.so")["main"]
    with pytest.raises(ValueError, match=r"Mismatched x\.strides on argument #0"):
        main(np.ones(6, "float32")[::2])


def test_kernels_check_nothing_of_a_trusted_caller():
    kernels = generate(relax.ExecBuilder(), two_products())
    assert trusted(kernels) == {"matmul": True, "matmul1": True}
    host, _ = lower_kernels(kernels, TARGET)
    assert [asserts(func) for func in host.functions.values()] == [0, 0]


def test_kernels_take_from_a_trusted_caller_only_the_memory_of_tensors():
    """What describes their shapes, and asks whether they are tensors, is twice the code of a small kernel."""
    host, _ = lower_kernels(generate(relax.ExecBuilder(), two_products()), TARGET)
    for func in host.functions.values():
        names = bound_names(func)
        assert [name.partition(".")[2] for name in names] == ["handle"] * 3 + [""], names


@pytest.mark.parametrize(
    "maker, checking", [(TENSOR, set()), (DIM, set()), ("tvtf.call_python", {"read", "read late"})]
)
def test_what_a_loop_carries_is_as_trusted_as_what_its_body_gives(maker, checking):
    code = Code(relax.ExecBuilder(), 0)
    state = code.copy(code.call(TENSOR, []))
    code.call("read", [state], VOID)
    code.copy(code.call(TUPLE_ITEM, [code.call(MAKE_TUPLE, [code.call(maker, [])])]), state)
    code.call("read late", [state], VOID)
    assert checking_kernels(code, ()) == checking


def test_kernels_of_unknown_dims_read_them_from_a_trusted_caller():
    n = tirx.Var("n", "int64")
    x, y = (tirx.decl_buffer((n, 4), "float32", name) for name in "xy")
    i = tirx.Var("i", "int64")
    copied = tirx.For(i, 0, n, tirx.ForKind.SERIAL, tirx.BufferStore(y, tirx.BufferLoad(x, [i, 0]), [i, 0]))
    kernel = tirx.PrimFunc([x, y], copied).with_attrs({TRUSTED: True, "s_tir": True})
    host, _ = lower_kernels(tvm.IRModule({ir.GlobalVar("copy"): kernel}), TARGET)
    (func,) = host.functions.values()
    assert len([name for name in bound_names(func) if "shape" in name]) == 1


def bound_names(func):
    found = []
    tvm_ffi.structural_walk(func.body, (tirx.Bind, lambda bind: found.append(bind.var.name)))
    return found


def test_what_a_trusted_kernel_asserts_itself_is_kept(tmp_path):
    kernels = tvm.IRModule({ir.GlobalVar("refuse"): failing_kernel().with_attr(TRUSTED, True)})
    host, _ = lower_kernels(kernels, TARGET)
    assert [asserts(func) for func in host.functions.values()] == [1]


def trusted(kernels):
    return {name.name_hint: TRUSTED in func.attrs for name, func in kernels.functions_items()}


def asserts(func):
    found = []
    tvm_ffi.structural_walk(func.body, (tirx.AssertStmt, found.append))
    return len(found)


def failing_kernel():
    """A kernel that wants a positive number."""
    x = tirx.decl_buffer((1,), "float32", "x")
    positive = tirx.GT(tirx.BufferLoad(x, [0]), tirx.const(0.0, "float32"))
    rejected = tirx.AssertStmt(positive, ir.StringImm("ValueError"), [ir.StringImm("not positive")])
    return tirx.PrimFunc([x], tirx.SeqStmt([rejected, tirx.BufferStore(x, tirx.const(1.0, "float32"), [0])]))
