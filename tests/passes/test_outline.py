"""Loops as subroutines: each form with the values of the loops, what is shared, and what stays in the kernel."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from schedule_programs import run_body as run
from tvm import ir, tirx
from tvm.tirx import For, ForKind, Stmt, Var

from tvtf.passes.schedule.cpu import emit, subroutine
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


def in_many_calls(inner: Stmt) -> Stmt:
    """Repeats a statement so often that calls instead of its loops would take longer than a microsecond in all.

    The condition around it can't be a part of a subroutine.
    """
    return rows(lambda i: emit.when(i >= 1, inner), 1000)


def calls_and_stores(body: Stmt) -> tuple[int, int]:
    calls: list[ir.Call] = []
    stores: list[tirx.BufferStore] = []
    tvm_ffi.structural_walk(
        body, [(ir.Call, lambda c: calls.append(c) if is_call(c) else None), (tirx.BufferStore, stores.append)]
    )
    return len(calls), len(stores)


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


def test_a_subroutine_writes_to_several_arrays_and_reads_what_it_wrote():
    """As an optimizer updates a variable and a moving average, where they lie."""
    rate = buffer("rate", ())

    def update(i, j):
        average = emit.load(Y, [i, j]) * 0.5 + emit.load(X, [i, j])
        value = emit.load(OUT, [i, j]) - emit.load(rate, []) * emit.load(Y, [i, j])
        return emit.sequence([emit.store(Y, average, [i, j]), emit.store(OUT, value, [i, j])])

    loop = rows(lambda i: in_vectors(lambda j: update(i, j)))
    body = with_called_loops(emit.sequence([loop, mark(ROW)]))
    assert calls_and_stores(body) == (2, 0)
    assert {buffer.name for buffer in subroutine.written_buffers(body)} == {"y", "out", "row"}
    _, _, x, average, out = run(body, [ROW, rate, X, Y, OUT], [R, np.float32(2), A, B, B])
    np.testing.assert_array_equal(x, A)
    np.testing.assert_array_equal(average, B * 0.5 + A)
    np.testing.assert_array_equal(out, B - 2 * (B * 0.5 + A))


def test_a_sum_is_added_to_where_it_is_stored():
    loop = store(lambda i, j: emit.load(OUT, [i, j]) + emit.load(X, [i, j]))
    body = with_called_loops(emit.sequence([loop, mark(ROW)]))
    assert calls_and_stores(body) == (2, 0)
    *_, out = run(body, [X, ROW, OUT], [A, R, B])
    np.testing.assert_array_equal(out, A + B)


def scalar_value(i, j):
    return tirx.Cast("float32", i)


def rounded_value(i, j):
    return tirx.Cast("float32", tirx.Cast("bfloat16", emit.load(X, [i, j])))


def through_division(i, j):
    return emit.load(X, [tirx.floordiv(i, emit.index(2)), j])


STAY = {
    "a value of the loop's variable": store(scalar_value),
    "a value rounded to bfloat16": store(rounded_value),
    "places that aren't linear": store(through_division),
    "few items": rows(lambda i: emit.store(OUT, tirx.const(1.0), [i, emit.index(0)])),
    "two stored arrays, one in another order": rows(lambda i: in_vectors(lambda j: emit.sequence([
        emit.store(Y, emit.load(X, [i, j]), [i, j]), emit.store(OUT, emit.load(Y, [ROWS - 1 - i, j]), [i, j])]))),
    "the stored array in another order": store(lambda i, j: emit.load(OUT, [ROWS - 1 - i, j])),
}  # fmt: skip


@pytest.mark.parametrize("case", STAY)
def test_what_cannot_be_called_stays(case):
    calls, stores = calls_and_stores(with_called_loops(emit.sequence([in_many_calls(STAY[case]), mark(ROW)])))
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
    long_rows, short_rows = (tripled(1000, columns, lambda i: i % 5) for columns in (1024, 64))
    assert calls_and_stores(with_called_loops(emit.sequence([long_rows, mark(ROW)]))) == (2, 0)
    assert calls_and_stores(with_called_loops(emit.sequence([short_rows, mark(ROW)]))) == (1, 1)


def test_loops_of_other_sizes_share_a_subroutine():
    made = set()
    for sizes in ((24, 64), (40, 96), (7, 640)):
        body = with_called_loops(emit.sequence([tripled(*sizes), mark(ROW)]))
        tvm_ffi.structural_walk(body, (ir.Call, lambda c: made.add(str(c.args[0].value)) if is_call(c) else None))
    assert len(made) == 2  # with the mark


def halves(row_count: int, columns: int) -> Stmt:
    """Loops over rows that store the sums of the row's first 32 items and of the 32 from its middle on."""
    x, out = buffer("x", (row_count, columns)), buffer("out", (row_count, 32))

    def write(i, v):
        def lanes(lane):
            j = v * LANES + lane
            return emit.store(out, emit.load(x, [i, j]) + emit.load(x, [i, j + columns // 2]), [i, j])

        return emit.vectorized(LANES, lanes)

    return emit.nest([row_count, 32 // LANES], lambda indices: write(*indices))


def test_items_at_other_distances_share_a_subroutine():
    made = set()
    for sizes in ((64, 128), (64, 256), (90, 640)):
        body = with_called_loops(emit.sequence([halves(*sizes), mark(ROW)]))
        assert calls_and_stores(body) == (2, 0)
        tvm_ffi.structural_walk(body, (ir.Call, lambda c: made.add(str(c.args[0].value)) if is_call(c) else None))
    assert len(made) == 2  # with the mark


def doubled(source: Var, place: list, local: Var) -> Stmt:
    """A call of a subroutine that stores twice the vector at a place to a local array."""
    name = subroutine.subroutine(
        [Array("float32"), Array("float32")],
        0,
        lambda arrays, _: emit.vectorized(
            LANES, lambda lane: emit.store(arrays[0], emit.load(arrays[1], [lane]) * 2.0, [lane])
        ),
    )
    return subroutine.call(name, [emit.load(local, [emit.index(0)]), emit.load(source, place)], [])


def rows_through_local_arrays(count=ROWS) -> Stmt:
    """Loops over rows and vectors: a subroutine stores to a local array, which is then added to a row."""

    def vector(i, v):
        local = emit.scratch([LANES], "float32", "local", "local")
        add = emit.vectorized(
            LANES, lambda lane: emit.store(OUT, emit.load(local, [lane]) + emit.load(Y, [i, v + lane]), [i, v + lane])
        )
        return emit.sequence([emit.allocate(local), doubled(X, [i, v], local), add])

    return emit.nest([count, COLUMNS // LANES], lambda indices: vector(indices[0], indices[1] * LANES))


def test_calls_and_local_arrays_are_a_part_of_a_subroutine():
    body = with_called_loops(emit.sequence([rows_through_local_arrays(), mark(ROW)]))
    assert calls_and_stores(body) == (2, 0)
    *_, row, out = run(body, [X, Y, ROW, OUT], [A, B, R, B])
    np.testing.assert_array_equal(out, 2 * A + B)


def test_few_calls_stay():
    body = with_called_loops(emit.sequence([in_many_calls(rows_through_local_arrays(count=4)), mark(ROW)]))
    assert calls_and_stores(body) == (2, 1)


def test_short_loops_are_called_if_all_of_their_calls_take_little():
    """Less than a microsecond, or a small share of the kernel's time."""
    short_rows = tripled(60, 64, lambda i: i % 5)
    many_short_rows, long_rows = tripled(1000, 64, lambda i: i % 5), tripled(40_000, 1024, lambda i: i % 5)
    assert calls_and_stores(with_called_loops(emit.sequence([short_rows, mark(ROW)]))) == (2, 0)
    assert calls_and_stores(with_called_loops(emit.sequence([many_short_rows, mark(ROW)]))) == (1, 1)
    assert calls_and_stores(with_called_loops(emit.sequence([many_short_rows, long_rows, mark(ROW)]))) == (3, 0)


@pytest.mark.parametrize("count", [ROWS, ROWS - 1, 7])
def test_a_parallel_loop_becomes_calls_of_parts(count):
    wide = buffer("wide", (ROWS, 4096)), buffer("sums", (ROWS, 4096))

    def row(i):
        def vector(start):
            return emit.vectorized(
                LANES, lambda lane: emit.store(wide[1], emit.load(wide[0], [i, start + lane]) * 3.0, [i, start + lane])
            )

        pair = lambda v: emit.sequence([vector(v * (2 * LANES)), vector(v * (2 * LANES) + LANES)])  # noqa: E731
        return emit.loop(4096 // (2 * LANES), pair)

    body = with_called_loops(emit.sequence([rows(row, count, ForKind.PARALLEL), mark(ROW)]))
    assert calls_and_stores(body) == (2, 0)
    data = RANDOM.integers(-9, 10, (ROWS, 4096)).astype("float32")
    _, _, out = run(body, [ROW, *wide], [R, data, np.zeros_like(data)])
    np.testing.assert_array_equal(out, np.where(np.arange(ROWS)[:, None] < count, data * 3, 0))


def test_a_short_loop_beside_a_long_one_is_called():
    short = rows(lambda i: emit.store(OUT, tirx.const(1.0), [i, emit.index(0)]))
    long_call = rows_through_local_arrays()
    assert calls_and_stores(with_called_loops(emit.sequence([short, long_call, mark(ROW)]))) == (3, 0)


def test_a_loop_around_a_parallel_one_stays():
    def inner(i):
        copied = lambda j: in_vectors(lambda v: emit.store(OUT, emit.load(X, [j, v]), [j, v]))  # noqa: E731
        return rows(copied, 4, ForKind.PARALLEL)

    body = with_called_loops(emit.sequence([rows(inner), mark(ROW)]))
    kinds = []
    tvm_ffi.structural_walk(body, (For, lambda loop: kinds.append(loop.kind)))
    assert ForKind.PARALLEL in kinds


def test_arrays_that_may_be_the_same_are_not_declared_distinct():
    loop, _ = LOOPS["elementwise"]
    for pairs, is_distinct in (((), True), (((OUT, X),), False), (((OUT, ROW), (ROW, X)), False), (((X, Y),), True)):
        call = with_called_loops(emit.sequence([loop, mark(ROW)]), pairs).seq[0].value
        name = subroutine.arguments(call)[0]
        assert bool(subroutine.function(name).attrs["tirx.noalias"]) == is_distinct
    body = with_called_loops(emit.sequence([LOOPS["rows from the end"][0], mark(ROW)]), [(OUT, X)])
    *_, out = run(body, [X, Y, ROW, OUT], [A, B, R, B])
    np.testing.assert_array_equal(out, A[::-1])


def named(value: float, are_distinct: bool = True) -> str:
    body = lambda arrays, _: emit.store(arrays[0], tirx.const(value, "float32"), [0])  # noqa: E731
    return subroutine.subroutine([Array("float32")], 0, body, are_distinct)


def test_subroutines_have_one_name_only_if_they_do_the_same():
    values = [0.0, -0.0, 1.0, 1.0 + 2.0**-23, float("inf"), float("nan")]
    names = [named(value) for value in values]
    assert names == [named(value) for value in values]
    assert len({*names, named(0.0, are_distinct=False)}) == len(values) + 1


@pytest.mark.parametrize("is_passed", [False, True])
def test_sums_that_a_tile_in_the_kernel_holds_in_registers_are_not_passed(is_passed):
    sums = emit.scratch([LANES * 8], "float32", "sums", "local")

    def vectors(value, kind=ForKind.UNROLLED):
        lanes = lambda u: emit.vectorized(LANES, lambda lane: value(u * LANES + lane))  # noqa: E731
        return emit.loop(8, lanes, kind)

    clear = vectors(lambda item: emit.store(sums, tirx.const(0.0), [item]), ForKind.SERIAL)
    add = vectors(lambda item: emit.store(sums, emit.load(sums, [item]) + emit.load(ROW, [item % COLUMNS]), [item]))
    others = [doubled(X, [emit.index(0), emit.index(0)], sums)] if is_passed else [mark(ROW)]
    steps = emit.loop(10**6, lambda _: add)  # long enough to hide a call
    body = with_called_loops(emit.sequence([emit.allocate(sums), clear, steps, *others]))
    assert calls_and_stores(body) == (1 + is_passed, 2 - is_passed)
