"""Copies of images with zeros around them: a call where that is all they are, with the values of loops."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from schedule_programs import HOST, TARGETS, run_te, tensor, values
from tvm import ir, te, tirx
from tvm.target import Target

from tvtf.passes.schedule.cpu import band_copy, elementwise, schedule, subroutine

IMAGES = (9, 5, 6, 19)
"""More images than two cores need tasks, and channels that aren't a whole number of vectors."""


@pytest.fixture
def of_any_size(monkeypatch) -> None:
    """Small images are copied by calls, too."""
    monkeypatch.setattr(band_copy, "MIN_VECTORS", 0)
    monkeypatch.setattr(band_copy, "MIN_ELEMENTS", 0)


def inside(row, column, rows: int = 5, columns: int = 6):
    return tirx.all(row >= 0, row < rows, column >= 0, column < columns)


def zero(value: float = 0.0) -> ir.Expr:
    return tirx.const(value, "float32")


def padded(x, shape, row=lambda r: r, column=lambda c: c, otherwise: float = 0.0) -> te.Tensor:
    """The image whose row and column each result reads, with another number where there is none."""
    extents = tuple(tirx.IntImm("int64", extent) for extent in shape)
    return te.compute(
        extents,
        lambda n, r, c, k: tirx.if_then_else(inside(row(r), column(c)), x[n, row(r), column(c), k], zero(otherwise)),
    )


def around(x, top: int, bottom: int, left: int, right: int, otherwise: float = 0.0):
    return np.pad(x, [(0, 0), (top, bottom), (left, right), (0, 0)], constant_values=otherwise)


CALLED = {
    "around": ((9, 8, 9, 19), {"row": lambda r: r - 1, "column": lambda c: c - 2}, lambda x: around(x, 1, 2, 2, 1)),
    "before": ((9, 7, 6, 19), {"row": lambda r: r - 2}, lambda x: around(x, 2, 0, 0, 0)),
    "after, dense": ((9, 8, 6, 19), {}, lambda x: around(x, 0, 3, 0, 0)),
    "cut off": ((9, 3, 3, 19), {"row": lambda r: r + 3, "column": lambda c: c + 4},
                lambda x: around(x, 0, 1, 0, 1)[:, 3:, 4:]),
    "every second row": ((9, 4, 6, 19), {"row": lambda r: r * 2 - 1}, lambda x: around(x, 1, 2, 0, 0)[:, ::2]),
    "from the end": ((9, 7, 6, 19), {"row": lambda r: 5 - r}, lambda x: around(x, 1, 1, 0, 0)[:, ::-1]),
    "nothing of the image": ((9, 4, 5, 19), {"row": lambda r: r - 9}, lambda x: np.zeros((9, 4, 5, 19), "f4")),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
@pytest.mark.parametrize("case", CALLED.values(), ids=CALLED.keys())
@pytest.mark.usefixtures("of_any_size")
def test_copies_of_images_are_calls_with_the_values_of_loops(case, target: Target) -> None:
    shape, places, expected = case
    x, image = tensor(IMAGES), values(IMAGES)
    result = run_te(padded(x, shape, **places), {x: image}, shape, target, marks=subroutine.PREFIX)
    np.testing.assert_array_equal(result, expected(image))
    with patch.object(elementwise, "emit_image_copies", return_value=None):
        np.testing.assert_array_equal(run_te(padded(x, shape, **places), {x: image}, shape, target), result)


def kernel(result: te.Tensor, x: te.Tensor) -> str:
    return schedule(te.create_prim_func([x, result]).with_attr("global_symbol", "main"), HOST).script()


SHAPE = (9, 7, 8, 19)
LOOPS = {
    "another number around": lambda x: padded(x, SHAPE, lambda r: r - 1, lambda c: c - 1, otherwise=1.0),
    "a negative zero around": lambda x: padded(x, SHAPE, lambda r: r - 1, lambda c: c - 1, otherwise=-0.0),
    "a test of the channel": lambda x: te.compute(
        x.shape, lambda n, r, c, k: tirx.if_then_else(tirx.all(r > 1, k < 7), x[n, r, c, k], zero())
    ),
    "a test of a row and a column": lambda x: te.compute(
        x.shape, lambda n, r, c, k: tirx.if_then_else(r + c < 7, x[n, r, c, k], zero())
    ),
    "either of two tests": lambda x: te.compute(
        x.shape, lambda n, r, c, k: tirx.if_then_else(tirx.any(r < 1, c < 1), x[n, r, c, k], zero())
    ),
    "something computed": lambda x: te.compute(
        x.shape, lambda n, r, c, k: tirx.if_then_else(r < 3, x[n, r, c, k] * 2.0, zero())
    ),
    "channels in another order": lambda x: te.compute(
        x.shape, lambda n, r, c, k: tirx.if_then_else(r < 3, x[n, r, c, 18 - k], zero())
    ),
}


@pytest.mark.parametrize("made", LOOPS.values(), ids=LOOPS.keys())
@pytest.mark.usefixtures("of_any_size")
def test_everything_else_is_a_loop(made) -> None:
    x = tensor(IMAGES)
    assert subroutine.PREFIX not in kernel(made(x), x)


@pytest.mark.usefixtures("of_any_size")
def test_bounds_that_are_read_are_tests_of_a_loop() -> None:
    """As numbers of a call they would have 32 bits."""
    x, first = tensor(IMAGES), tensor((9,), "int64", "first")
    image, firsts = values(IMAGES), np.arange(9)
    firsts[0], firsts[1] = 2**32, -(2**32)
    result = te.compute(x.shape, lambda n, r, c, k: tirx.if_then_else(r >= first[n], x[n, r, c, k], zero()))
    want = np.where(np.arange(5)[None, :, None, None] >= firsts[:, None, None, None], image, np.float32(0))
    np.testing.assert_array_equal(run_te(result, {x: image, first: firsts}, IMAGES, HOST), want)


@pytest.mark.parametrize("shape", [(2000, 3, 3, 8), (9, 40, 40, 3)], ids=["small", "short runs"])
def test_copies_that_a_call_would_slow_down_are_loops(shape) -> None:
    x = tensor(shape)
    column = (lambda c: c * 2 - 1) if shape[-1] == 3 else (lambda c: c)
    assert subroutine.PREFIX not in kernel(padded(x, shape, lambda r: r - 1, column), x)


def test_few_images_are_shared_by_the_cores() -> None:
    x = tensor((1, 200, 100, 32))
    extents = tuple(tirx.IntImm("int64", extent) for extent in (1, 202, 100, 32))
    result = te.compute(
        extents, lambda n, r, c, k: tirx.if_then_else(tirx.all(r > 0, r < 201), x[n, r - 1, c, k], zero())
    )
    text = kernel(result, x)
    assert "T.parallel" in text and subroutine.PREFIX not in text


def test_items_of_another_size_are_a_loop() -> None:
    band, image = (tirx.decl_buffer((50, 60, 190), "float64", name) for name in ("band", "image"))
    copied = band_copy.call_band_copy(
        lambda at: tirx.BufferLoad(band, at), lambda at: tirx.BufferLoad(image, at), [50, 60, 190], 8
    )
    assert copied is None


def test_images_beyond_int32_are_copied_by_a_call() -> None:
    band = tirx.decl_buffer((5, 6, 1000), "float32", "band")
    image = tirx.decl_buffer((2**20, 2**10, 1000), "float32", "image")
    copied = band_copy.call_band_copy(
        lambda at: tirx.BufferLoad(band, at), lambda at: tirx.BufferLoad(image, at), [5, 6, 1000], 8
    )
    assert subroutine.is_call(copied.value)
