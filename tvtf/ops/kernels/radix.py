"""Stable radix sort of long rows.

It makes a pass for each byte of the keys, which are unsigned integers in the elements' order.
"""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvtf.ops.kernels.approx import let
from tvtf.ops.kernels.common import compute, flat_buffer, long
from tvtf.ops.kernels.scan import product, rows

LEAST_LENGTH = 256
"""Row length from which counting digits costs less than comparing elements."""
DIGITS = 256


def order_by_digits(x: te.Tensor, descending: bool) -> te.Tensor:
    """Computes the int32 indices that sort each row (the last axis), stably.

    Source: Knuth, The Art of Computer Programming, volume 3, 5.2.5 (algorithm R, from the last digit on).
    """
    length, count = long(x.shape[-1]), product(list(x.shape)[:-1])
    codes = compute(x.shape, lambda *i: code(x(*i), descending), "codes")

    def body(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            given, *pairs = (flat_buffer(b) for b in (ins[0], *outs))
            with rows(count, count * length) as row:
                _sort_row(given, (pairs[:2], pairs[2:]), row * length, length, int(str(codes.dtype)[4:]) // 8)
            return builder.get()

    kinds = ["int32", str(codes.dtype)] * 2
    return te.extern([x.shape] * 4, [codes], body, name="order_by_digits", dtype=kinds)[0]


def code(x: Any, descending: bool) -> Any:
    """Maps an element to an unsigned integer in sorting order: NaN last, zeros of both signs equal."""
    dtype = str(x.ty.dtype)
    if "float" in dtype:
        return let(_canonical(x), lambda value: _in_order(value, dtype[5:], True, descending))
    wide = dtype if dtype.endswith(("32", "64")) else "int32"
    return _in_order(x.astype(wide), wide[-2:], False, descending, wide.startswith("u"))


def _canonical(x: Any) -> Any:
    """Replaces -0 by 0 and every NaN by the same one, so that their bits compare equal."""
    dtype = str(x.ty.dtype)
    ordered = tirx.Select(tirx.EQ(x, tirx.const(0, dtype)), tirx.const(0, dtype), x)
    return tirx.Select(tirx.isnan(x), tirx.const(float("nan"), dtype), ordered)


def _in_order(x: Any, bits: str, is_float: bool, descending: bool, is_unsigned: bool = False) -> Any:
    """Returns bits that sort, as unsigned integers, in the order of the numbers."""
    unsigned, top = f"uint{bits}", tirx.const(1, f"uint{bits}") << tirx.const(int(bits) - 1, f"uint{bits}")
    raw = tirx.reinterpret(unsigned, x)
    if is_float:
        signs = tirx.reinterpret(f"int{bits}", x) >> tirx.const(int(bits) - 1, f"int{bits}")
        raw = raw ^ (tirx.reinterpret(unsigned, signs) | top)
    elif not is_unsigned:
        raw = raw ^ top
    return tirx.bitwise_not(raw) if descending else raw


def _sort_row(codes: Any, pairs: tuple[Any, Any], base: Any, length: Any, passes: int) -> None:
    """Emits the passes over a row; their number is even, so the result ends in the first pair of (places, keys)."""
    counts = T.buffer_proxy(T.decl_buffer([passes * DIGITS], "int32", scope="local"))
    _count(codes, counts, base, length, passes)
    for turn in range(passes):
        (places, keys), (old_places, old_keys) = pairs[1 - turn % 2], pairs[turn % 2]
        with T.serial(long(0), length) as i:
            key = T.Bind((old_keys if turn else codes)[base + i])
            slot = T.Bind(_digit(key, turn))
            to = T.Bind(base + counts[slot].astype("int64"))
            counts[slot] = counts[slot] + 1
            places[to] = old_places[base + i] if turn else i.astype("int32")
            keys[to] = key


def _count(codes: Any, counts: Any, base: Any, length: Any, passes: int) -> None:
    """Emits for each pass the counts of digits and their running sums: where each digit's first element goes."""
    total = T.buffer_proxy(T.decl_buffer([2], "int32", scope="local"))
    with T.serial(long(0), long(passes * DIGITS)) as i:
        counts[i] = 0
    with T.serial(long(0), length) as i:
        for turn in range(passes):
            slot = _digit(codes[base + i], turn)
            counts[slot] = counts[slot] + 1
    with T.serial(long(0), long(passes)) as turn:
        total[0] = 0
        with T.serial(long(0), long(DIGITS)) as digit:
            total[1] = counts[turn * DIGITS + digit]
            counts[turn * DIGITS + digit] = total[0]
            total[0] = total[0] + total[1]


def _digit(key: Any, turn: int) -> Any:
    kind = str(key.ty.dtype)
    digit = (key >> tirx.const(8 * turn, kind)) & tirx.const(DIGITS - 1, kind)
    return digit.astype("int64") + turn * DIGITS
