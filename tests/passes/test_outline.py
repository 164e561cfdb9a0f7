"""Loops as subroutines: each form with the values of the loops, what is shared, and what stays in the kernel."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from schedule_programs import HOST
from tvm import ir, tirx
from tvm.tirx import For, ForKind, Stmt, Var

from tvtf.passes.codegen.llvm import kernel_module
from tvtf.passes.schedule.cpu import SCHEDULED, emit, subroutine
from tvtf.passes.schedule.cpu.outline import with_called_loops
from tvtf.passes.schedule.cpu.subroutine import Array, is_call

ROWS, COLUMNS, LANES = 24, 64, 16


def buffer(name: str, shape=(ROWS, COLUMNS), dtype="float32") -> Var:
    return tirx.decl_buffer([emit.index(size) for size in shape], dtype, name)


def mark(array: Var) -> Stmt:
    """A call of a subroutine: only kernels that have one are changed. It stores 7 to the array's last item."""
    name = subroutine.subroutine([Array("float32")], 0, lambda arrays, _: emit.store(arrays[0], tirx.const(7.0), [0]))
    last = [emit.index(int(extent) - 1) for extent in array.ty.shape]
    return subroutine.call(name, [emit.load(array, last)], [])


def rows(columns, count=ROWS, kind=ForKind.SERIAL) -> Stmt:
    var = Var("row", "int64")
    return For(var, emit.index(0), emit.index(count), kind, columns(var))


def in_vectors(write, kind=ForKind.SERIAL) -> Stmt:
    var = Var("vector", "int64")
    inner = emit.vectorized(LANES, lambda lane: write(var * LANES + lane))
    return For(var, emit.index(0), emit.index(COLUMNS // LANES), kind, inner)


def calls_and_stores(body: Stmt) -> tuple[int, int]:
    calls: list[ir.Call] = []
    stores: list[tirx.BufferStore] = []
    tvm_ffi.structural_walk(
        body, [(ir.Call, lambda c: calls.append(c) if is_call(c) else None), (tirx.BufferStore, stores.append)]
    )
    return len(calls), len(stores)


def run(body: Stmt, params: list[Var], arrays: list[np.ndarray]) -> list[np.ndarray]:
    root = tvm.s_tir.SBlockRealize([], True, tvm.s_tir.SBlock([], [], [], "root", body))
    func = tirx.PrimFunc(params, root).with_attrs({"global_symbol": "run", SCHEDULED: True, "tirx.noalias": True})
    built = kernel_module(tvm.IRModule({"run": func.with_attr("s_tir", True)}), HOST)
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    built["run"](*tensors)
    return [tensor.numpy() for tensor in tensors]


X, Y, ROW, OUT = buffer("x"), buffer("y"), buffer("row", (COLUMNS,)), buffer("out")
RANDOM = np.random.default_rng(0)
A, B = (RANDOM.integers(-9, 10, (ROWS, COLUMNS)).astype("float32") for _ in range(2))
R = RANDOM.integers(-9, 10, (COLUMNS,)).astype("float32")


def store(value, place=None):
    """A loop over rows and vectors that stores ``value(row, column)``."""
    place = place or (lambda i, j: [i, j])
    return rows(lambda i: in_vectors(lambda j: emit.store(OUT, value(i, j), place(i, j))))


LOOPS = {
    "elementwise": (store(lambda i, j: emit.load(X, [i, j]) * emit.load(Y, [i, j]) + emit.load(ROW, [j])), A * B + R),
    "zeros": (store(lambda i, j: tirx.const(0.0)), np.zeros_like(A)),
    "rows from the end": (store(lambda i, j: emit.load(X, [ROWS - 1 - i, j])), A[::-1]),
    "one row for all": (store(lambda i, j: emit.load(X, [emit.index(3), j])), np.broadcast_to(A[3], A.shape)),
    "two rows of an operand": (
        rows(lambda i: in_vectors(lambda j: emit.store(OUT, emit.load(X, [i, j]) - emit.load(X, [i + 1, j]), [i, j])), ROWS - 1),
        np.concatenate([A[:-1] - A[1:], B[-1:]]),
    ),
    "unrolled vectors": (
        rows(lambda i: in_vectors(lambda j: emit.store(OUT, emit.load(Y, [i, j]), [i, j]), ForKind.UNROLLED)), B,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LOOPS)
def test_a_loop_in_a_subroutine_gives_the_loops_values(case):
    loop, expected = LOOPS[case]
    body = with_called_loops(emit.sequence([loop, mark(ROW)]))
    assert calls_and_stores(body) == (2, 0)
    *_, row, out = run(body, [X, Y, ROW, OUT], [A, B, R, B])
    np.testing.assert_array_equal(out, expected)
    assert row[-1] == 7


def scalar_value(i, j):
    return tirx.Cast("float32", i)


def through_division(i, j):
    return emit.load(X, [tirx.floordiv(i, emit.index(2)), j])


STAY = {
    "a value of the loop's variable": store(scalar_value),
    "places that aren't linear": store(through_division),
    "few items": rows(lambda i: emit.store(OUT, tirx.const(1.0), [i, emit.index(0)])),
    "two arrays": rows(lambda i: in_vectors(lambda j: emit.sequence([
        emit.store(OUT, emit.load(X, [i, j]), [i, j]), emit.store(Y, emit.load(X, [i, j]), [i, j])]))),
    "sums of what was stored": store(lambda i, j: emit.load(OUT, [i, j]) + emit.load(X, [i, j])),
    "the stored array in another order": store(lambda i, j: emit.load(OUT, [ROWS - 1 - i, j])),
}  # fmt: skip


@pytest.mark.parametrize("case", STAY)
def test_what_cannot_be_called_stays(case):
    calls, stores = calls_and_stores(with_called_loops(emit.sequence([STAY[case], mark(ROW)])))
    assert calls == 1 and stores >= 1


def test_kernels_without_subroutines_stay():
    loop, _ = LOOPS["elementwise"]
    assert with_called_loops(loop).same_as(loop)


def tripled(row_count: int, columns: int, row=lambda i: i) -> Stmt:
    """Loops over rows and their vectors, which store three times an item of a row."""
    x, out = buffer("x", (row_count, columns)), buffer("out", (row_count, columns))

    def write(i, v):
        lanes = lambda lane: emit.store(out, emit.load(x, [row(i), v * LANES + lane]) * 3.0, [i, v * LANES + lane])  # noqa: E731
        return emit.vectorized(LANES, lanes)

    return emit.nest([row_count, columns // LANES], lambda indices: write(*indices))


def test_the_inner_loops_of_one_that_cannot_be_called_are():
    long_rows, short_rows = (tripled(ROWS, columns, lambda i: i % 5) for columns in (1024, 64))
    assert calls_and_stores(with_called_loops(emit.sequence([long_rows, mark(ROW)]))) == (2, 0)
    assert calls_and_stores(with_called_loops(emit.sequence([short_rows, mark(ROW)]))) == (1, 1)


def test_loops_of_other_sizes_share_a_subroutine():
    made = set()
    for sizes in ((24, 64), (40, 96), (7, 640)):
        body = with_called_loops(emit.sequence([tripled(*sizes), mark(ROW)]))
        tvm_ffi.structural_walk(body, (ir.Call, lambda c: made.add(str(c.args[0].value)) if is_call(c) else None))
    assert len(made) == 2  # with the mark
