"""Loops in bytecode, through TVM's passes that plan memory and free dead values."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from codegen_programs import COUNT, TARGET, compiled, counting, finalized, like, load, number, private, variable
from tvm import ir, relax, tirx

from tvtf.passes.analysis.loop_op import while_loop
from tvtf.passes.codegen.vm import generate

i, n = relax.Var("i", COUNT), relax.Var("n", COUNT)


def program(carried, step, outputs=lambda result, initial: result, extra=()):
    """`main(n, *carried, *extra)`: carried values go through `step(i, *carried, *extra, n)` n times."""
    builder = relax.BlockBuilder()
    inputs = [i, *carried, *extra, n]
    condition, body = counting(builder, "loop", inputs, step)
    params = [like(p.name, p) for p in (*carried, *extra)]
    count = relax.Var("n", COUNT)
    with builder.function("main", [count, *params]):
        first, invariant = params[: len(carried)], params[len(carried) :]
        call = while_loop(condition, body, [number(0, "int64"), *first], [*invariant, count])
        result = builder.emit(call)
        fields = [builder.emit(relax.TupleGetItem(result, k)) for k in range(1 + len(carried))]
        builder.emit_func_output(builder.emit(relax.Tuple(outputs(fields[1:], params))))
    return builder.get()


def test_repeats_the_body_and_carries_several_values(tmp_path):
    x, y = variable("x", (3,)), variable("y", (3,))
    run = compiled(program([x, y], lambda i, x, y, n: (relax.op.add(x, y), relax.op.multiply(y, number(2)))), tmp_path)
    result = run(np.int64(4), np.zeros(3, "float32"), np.ones(3, "float32"))
    np.testing.assert_array_equal(result, [[15.0] * 3, [16.0] * 3])


def test_no_turn_gives_the_initial_values(tmp_path):
    x = variable("x", (3,))
    run = compiled(program([x], lambda i, x, n: (relax.op.add(x, x),)), tmp_path)
    np.testing.assert_array_equal(run(np.int64(0), np.arange(3, dtype="float32")), [[0, 1, 2]])


@pytest.mark.parametrize(("turns", "expected"), [(3, [[2.0] * 3, [1.0] * 3]), (4, [[1.0] * 3, [2.0] * 3])])
def test_carried_values_swap_places(tmp_path, turns, expected):
    a, b = variable("a", (3,)), variable("b", (3,))
    run = compiled(program([a, b], lambda i, a, b, n: (b, a)), tmp_path)
    np.testing.assert_array_equal(run(np.int64(turns), np.full(3, 1, "float32"), np.full(3, 2, "float32")), expected)


def test_three_values_rotate_with_one_new(tmp_path):
    a, b, c = (variable(name, (2,)) for name in "abc")
    run = compiled(program([a, b, c], lambda i, a, b, c, n: (b, c, relax.op.add(a, b))), tmp_path)
    values = [np.full(2, value, "float32") for value in (1, 2, 3)]
    result = run(np.int64(5), *values)
    for _ in range(5):
        values = [values[1], values[2], values[0] + values[1]]
    np.testing.assert_array_equal(result, values)


def test_body_gives_back_an_input_an_invariant_and_one_value_twice(tmp_path):
    a, b, c, d, w = (variable(name, (2,)) for name in "abcdw")

    def step(i, a, b, c, d, w, n):
        both = relax.op.add(c, d)
        return a, w, both, both

    run = compiled(program([a, b, c, d], step, extra=[w]), tmp_path)
    result = run(np.int64(3), *[np.full(2, value, "float32") for value in (1, 2, 3, 4, 9)])
    np.testing.assert_array_equal(result, [[1, 1], [9, 9], [28, 28], [28, 28]])


def test_initial_values_keep_their_memory_and_are_used_after_the_loop(tmp_path):
    x = variable("x", (4,))
    mod = program([x], lambda i, x, n: (relax.op.add(x, number(1)),), lambda result, initial: [result[0], initial[0]])
    given = np.arange(4, dtype="float32")
    final, initial = compiled(mod, tmp_path)(np.int64(10), given)
    np.testing.assert_array_equal(final, given + 10)
    np.testing.assert_array_equal(initial, np.arange(4))


def test_value_computed_before_the_loop_lives_through_it(tmp_path):
    builder = relax.BlockBuilder()
    x = variable("x", (4,))
    condition, body = counting(builder, "loop", [i, x, n], lambda i, x, n: (relax.op.exp(relax.op.negative(x)),))
    count, x = relax.Var("n", COUNT), variable("x", (4,))
    with builder.function("main", [count, x]):
        start = builder.emit(relax.op.multiply(x, x))
        result = builder.emit(while_loop(condition, body, [number(0, "int64"), start], [count]))
        last = builder.emit(relax.TupleGetItem(result, 1))
        after = builder.emit(relax.op.add(relax.op.add(last, start), relax.op.exp(start)))
        builder.emit_func_output(after)
    values = np.linspace(0, 1, 4, dtype="float32")
    expected = values**2
    for _ in range(7):
        expected = np.exp(-expected)
    got = compiled(builder.get(), tmp_path)(np.int64(7), values)
    np.testing.assert_allclose(got, expected + values**2 + np.exp(values**2), rtol=1e-5)


def test_intermediates_of_a_long_body_share_memory_rightly(tmp_path):
    x, w = variable("x", (5,)), variable("w", (5,))

    def step(i, x, w, n):
        a = relax.op.sin(x)
        b = relax.op.multiply(a, w)
        c = relax.op.matmul(b, b)
        d = relax.op.add(relax.op.divide(a, relax.op.add(relax.op.abs(c), number(1))), w)
        return (relax.op.cos(d),)

    values, weights = np.linspace(-1, 1, 5, dtype="float32"), np.linspace(1, 2, 5, dtype="float32")
    got = compiled(program([x], step, extra=[w]), tmp_path)(np.int64(6), values, weights)
    for _ in range(6):
        sine = np.sin(values)
        values = np.cos(sine / (abs((sine * weights) @ (sine * weights)) + 1) + weights)
    np.testing.assert_allclose(got[0], values, rtol=1e-4)


def test_symbolic_dims_in_the_body(tmp_path):
    m = tirx.Var("m", "int64")
    x = variable("x", (m, 2))
    builder = relax.BlockBuilder()
    condition, body = counting(
        builder, "loop", [i, x, n], lambda i, x, n: (relax.op.add(relax.op.add(x, x), relax.op.sum(x, keepdims=True)),)
    )
    k = tirx.Var("k", "int64")
    count, x = relax.Var("n", COUNT), variable("x", (k, 2))
    with builder.function("main", [count, x]):
        result = builder.emit(while_loop(condition, body, [number(0, "int64"), x], [count]))
        builder.emit_func_output(builder.emit(relax.TupleGetItem(result, 1)))
    run = compiled(builder.get(), tmp_path)
    for rows in (1, 3, 5):
        expected = values = np.ones((rows, 2), "float32")
        for _ in range(3):
            expected = expected + expected + expected.sum()
        np.testing.assert_array_equal(run(np.int64(3), values), expected)


def test_a_carried_value_may_grow(tmp_path):
    rows = tirx.Var("rows", "int64")
    x = variable("x", (rows,))
    builder = relax.BlockBuilder()
    condition, body = counting(builder, "loop", [i, x, n], lambda i, x, n: (relax.op.concat([x, x]),))
    count, x = relax.Var("n", COUNT), variable("x", (2,))
    final = relax.TupleType([COUNT, relax.TensorType(None, "float32", ndim=1)])
    with builder.function("main", [count, x]):
        result = builder.emit(while_loop(condition, body, [number(0, "int64"), x], [count], final))
        builder.emit_func_output(builder.emit(relax.TupleGetItem(result, 1)))
    got = compiled(builder.get(), tmp_path)(np.int64(3), np.array([1, 2], "float32"))
    np.testing.assert_array_equal(got, np.tile([1, 2], 8))


def test_a_loop_inside_a_loop(tmp_path):
    builder = relax.BlockBuilder()
    x = variable("x", (2,))
    inner = counting(builder, "inner", [i, x, n], lambda i, x, n: (relax.op.add(x, number(1)),))

    def step(i, x, n):
        result = builder.emit(while_loop(*inner, [number(0, "int64"), x], [n]))
        return (relax.op.multiply(relax.TupleGetItem(result, 1), number(2)),)

    outer = counting(builder, "outer", [i, x, n], step)
    count, x = relax.Var("n", COUNT), variable("x", (2,))
    with builder.function("main", [count, x]):
        result = builder.emit(while_loop(*outer, [number(0, "int64"), x], [count]))
        builder.emit_func_output(builder.emit(relax.TupleGetItem(result, 1)))
    got = compiled(builder.get(), tmp_path)(np.int64(3), np.zeros(2, "float32"))
    np.testing.assert_array_equal(got, [42, 42])


def branch(builder, condition, true, false):
    def sequence(value):
        var = relax.Var("branch", builder.normalize(value).ty)
        return relax.SeqExpr([relax.BindingBlock([relax.VarBinding(var, value)])], var)

    return relax.If(condition, sequence(true), sequence(false))


def test_a_loop_inside_an_if(tmp_path):
    builder = relax.BlockBuilder()
    x = variable("x", (2,))
    parts = counting(builder, "loop", [i, x, n], lambda i, x, n: (relax.op.add(x, number(1)),))
    flag, count, x = relax.Var("c", relax.TensorType((), "bool")), relax.Var("n", COUNT), variable("x", (2,))

    def repeated(count, x):
        return relax.TupleGetItem(builder.emit(while_loop(*parts, [number(0, "int64"), x], [count])), 1)

    yes = private(builder, "yes", [like("n", count), like("x", x)], repeated)
    no = private(builder, "no", [like("n", count), like("x", x)], lambda count, x: relax.op.negative(x))
    with builder.function("main", [flag, count, x]):
        builder.emit_func_output(
            builder.emit(branch(builder, flag, relax.Call(yes, [count, x]), relax.Call(no, [count, x])))
        )
    run = compiled(builder.get(), tmp_path)
    np.testing.assert_array_equal(run(np.bool_(True), np.int64(5), np.ones(2, "float32")), [6, 6])
    np.testing.assert_array_equal(run(np.bool_(False), np.int64(5), np.ones(2, "float32")), [-1, -1])


def test_an_if_inside_a_loop(tmp_path):
    builder = relax.BlockBuilder()
    x = variable("x", (2,))
    half = private(builder, "half", [like("x", x)], lambda x: relax.op.multiply(x, number(0.5)))
    more = private(builder, "more", [like("x", x)], lambda x: relax.op.add(relax.op.multiply(x, number(3)), number(1)))

    def step(i, x, n):
        total = builder.emit(relax.op.sum(x))
        return (branch(builder, relax.op.greater(total, number(5)), relax.Call(half, [x]), relax.Call(more, [x])),)

    parts = counting(builder, "loop", [i, x, n], step)
    count, x = relax.Var("n", COUNT), variable("x", (2,))
    with builder.function("main", [count, x]):
        result = builder.emit(while_loop(*parts, [number(0, "int64"), x], [count]))
        builder.emit_func_output(builder.emit(relax.TupleGetItem(result, 1)))
    got, expected = compiled(builder.get(), tmp_path)(np.int64(9), np.ones(2, "float32")), np.ones(2, "float32")
    for _ in range(9):
        expected = expected * 0.5 if expected.sum() > 5 else expected * 3 + 1
    np.testing.assert_array_equal(got, expected)


def resident_pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory use from /proc")
def test_a_million_turns_in_flat_memory(tmp_path):
    x = variable("x", (300,))
    run = compiled(program([x], lambda i, x, n: (relax.op.add(x, number(1)),)), tmp_path)
    start = np.zeros(300, "float32")
    run(np.int64(1000), start)
    before = resident_pages()
    np.testing.assert_array_equal(run(np.int64(1_000_000), start), [np.full(300, 1_000_000)])
    assert resident_pages() - before < 500


ENDLESS = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
import numpy as np, tvm, tvm_ffi
machine = tvm_ffi.load_module(sys.argv[1])["vm_load_executable"]()
machine["vm_initialization"](1, 0, 2)
tensor = lambda value: tvm.runtime.tensor(np.asarray(value))
try:
    print("started", flush=True)
    machine["main"](tensor(np.int64(2**62)), tensor(np.ones(2, "float32")))
except KeyboardInterrupt:
    print("interrupted", machine["main"](tensor(np.int64(3)), tensor(np.ones(2, "float32")))[0].numpy())
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_ctrl_c_ends_a_long_loop_and_leaves_the_process_usable(tmp_path):
    compiled(program([variable("x", (2,))], lambda i, x, n: (relax.op.add(x, number(1)),)), tmp_path)
    command = [sys.executable, "-c", ENDLESS, str(tmp_path / "program.so")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "interrupted [4. 4.]\n", "")


def test_without_polling_the_library_needs_nothing_of_python(tmp_path):
    mod = program([variable("x", (2,))], lambda i, x, n: (relax.op.add(x, number(1)),))
    compiled(mod, tmp_path, poll_signals=False)
    assert b"TVMFFIEnvCheckSignals" not in (tmp_path / "program.so").read_bytes()
    compiled(mod, tmp_path, poll_signals=True)
    assert b"TVMFFIEnvCheckSignals" in (tmp_path / "program.so").read_bytes()


def test_private_functions_are_inlined_and_hidden(tmp_path):
    compiled(program([variable("x", (2,))], lambda i, x, n: (relax.op.add(x, number(1)),)), tmp_path)
    machine = load(tmp_path / "program.so")
    assert machine.implements_function("main")
    assert not machine.implements_function("loop_step")


def test_the_stock_passes_keep_the_loop(tmp_path):
    mod = finalized(program([variable("x", (2,))], lambda i, x, n: (relax.op.add(x, number(1)),)))
    assert mod["main"].script().count("tvtf.while_loop") == 1


def test_effects_in_a_loop_happen_each_turn_in_order(tmp_path):
    seen = []
    tvm.register_global_func("tvtf_test.see", lambda value: seen.append(int(value.numpy())), override=True)
    builder = relax.BlockBuilder()
    inputs = [i, n]
    condition = private(
        builder, "more", [like(p.name, p) for p in inputs], lambda i, n: relax.op.less(relax.op.abs(i), n)
    )
    j, m = (like(p.name, p) for p in inputs)
    with builder.function("step", [j, m], private=True, pure=False):
        builder.emit(relax.Call(relax.ExternFunc("tvtf_test.see"), [j], ty_args=[relax.TupleType([])]))
        following = builder.emit(relax.op.subtract(j, number(2, "int64")))
        builder.emit_func_output(relax.Tuple([following]))
    (body,) = (name for name in builder.get().get_global_vars() if name.name_hint == "step")
    count = relax.Var("n", COUNT)
    with builder.function("main", [count], pure=False):
        builder.emit(while_loop(condition, body, [number(1, "int64")], [count], pure=False))
        builder.emit_func_output(count)
    compiled(builder.get(), tmp_path)(np.int64(8))
    assert seen == [1, -1, -3, -5, -7]


def test_scalars_of_the_machine_may_be_carried(tmp_path):
    scalar = ir.PrimType("int64")
    builder = relax.BlockBuilder()

    def parameters():
        return [relax.Var("i", scalar), relax.Var("total", scalar), relax.Var("n", scalar)]

    condition = private(builder, "more", parameters(), lambda i, total, n: i < n)
    body = private(builder, "step", parameters(), lambda i, total, n: (i + 1, total + i))
    count = relax.Var("n", scalar)
    with builder.function("main", [count]):
        start = [tirx.IntImm("int64", 0), tirx.IntImm("int64", 0)]
        result = builder.emit(while_loop(condition, body, start, [count]))
        builder.emit_func_output(builder.emit(relax.TupleGetItem(result, 1)))
    compiled(builder.get(), tmp_path)
    assert load(tmp_path / "program.so")["main"](101) == 5050


def test_a_module_not_marked_before_the_stock_passes_is_rejected():
    mod = program([variable("x", (2,))], lambda i, x, n: (relax.op.add(x, number(1)),))
    with TARGET:
        fused = tvm.transform.Sequential(
            [relax.transform.LegalizeOps(), relax.transform.FuseOps(), relax.transform.FuseTIR()]
        )(mod)
    expected = (
        "bytecode: loop_more takes 2 parameters, but its loop passes 3; run MarkPrivate before TVM's passes, "
        "which drop unused parameters of private functions"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        generate(relax.ExecBuilder(), fused)
