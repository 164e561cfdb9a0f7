"""Stable radix sort of long rows.

It makes a pass for each byte of the keys, which are unsigned integers in the elements' order.
"""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvtf.ops.kernels.approx import named, names_values
from tvtf.ops.kernels.common import FlatProxy, compute, flat_buffer, long
from tvtf.ops.kernels.scan import product, rows

LEAST_LENGTH = 256
"""Minimum row length for which counting digits costs less than comparing elements."""
DIGITS = 256


def order_by_digits(x: te.Tensor, descending: bool) -> te.Tensor:
    """Computes the int32 indices that sort each row (the last axis), by a stable radix sort.

    Source: Knuth, The Art of Computer Programming, volume 3, 5.2.5 (algorithm R, starting at the last digit).
    """
    length = long(x.shape[-1])
    count = product(list(x.shape)[:-1])  # of rows
    codes = compute(x.shape, lambda *i: code(x(*i), descending), "codes")
    code_dtype = str(codes.dtype)
    # A digit is a byte of a code: "uint32" has 4.
    digit_count = int(code_dtype.removeprefix("uint")) // 8

    def build_ir(ins: Any, outs: Any) -> Any:
        """Emits a radix sort of each row by its keys, which are unsigned integers.

        Args:
          ins, outs: the buffers of the inputs and of the results.
        """
        with IRBuilder() as builder:
            # The first output buffer is the result, the others are work space.
            keys, *order_buffers = (flat_buffer(buffer) for buffer in (ins[0], *outs))
            with rows(count, count * length) as row:
                _sort_row(keys, (order_buffers[:2], order_buffers[2:]), row * length, length, digit_count)
            return builder.get()

    # Two pairs of (indices, keys): the pass for a digit reads one and writes the other.
    dtypes = ["int32", code_dtype] * 2
    return te.extern([x.shape] * 4, [codes], build_ir, name="order_by_digits", dtype=dtypes)[0]


@names_values
def code(x: Any, descending: bool) -> Any:
    """Maps an element to an unsigned integer key for radix sort. The keys sort in the same order as the elements.

    NaN comes last, and -0 equals 0. ``descending`` reverses the order.
    """
    dtype = str(x.ty.dtype)
    if "float" in dtype:
        bit_count = dtype.removeprefix("float")
        return _ordered_bits(named(_canonical(x)), bit_count, True, descending)
    # Narrower integers and bools are sorted as int32.
    integer_dtype = dtype if dtype.endswith(("32", "64")) else "int32"
    bit_count = integer_dtype[-2:]
    is_unsigned = integer_dtype.startswith("u")
    return _ordered_bits(x.astype(integer_dtype), bit_count, False, descending, is_unsigned)


def _canonical(x: Any) -> Any:
    """Replaces -0 by 0 and every NaN by the same one, so that their bits compare equal."""
    dtype = str(x.ty.dtype)
    ordered = tirx.Select(tirx.EQ(x, tirx.const(0, dtype)), tirx.const(0, dtype), x)
    return tirx.Select(tirx.isnan(x), tirx.const(float("nan"), dtype), ordered)


def _ordered_bits(x: Any, bits: str, is_float: bool, descending: bool, is_unsigned: bool = False) -> Any:
    """Converts the bits of a number to an unsigned integer. These integers sort in the order of the numbers.

    Args:
      x: the number.
      bits: its size in bits, as text.
      is_float: whether it is a float.
      descending: whether the order is reversed.
      is_unsigned: whether it is an unsigned integer.
    """
    signed = f"int{bits}"
    unsigned = f"uint{bits}"
    last_bit = int(bits) - 1
    sign_bit = tirx.const(1, unsigned) << tirx.const(last_bit, unsigned)
    result = tirx.reinterpret(unsigned, x)
    if is_float:
        # All bits of a negative float are inverted, of others only the sign bit. The mask has all bits of a negative
        # one, because the shift of a signed integer copies the sign bit.
        sign_mask = tirx.reinterpret(signed, x) >> tirx.const(last_bit, signed)
        result = result ^ (tirx.reinterpret(unsigned, sign_mask) | sign_bit)
    elif not is_unsigned:
        result = result ^ sign_bit  # negative integers then come before the others
    return tirx.bitwise_not(result) if descending else result


def _sort_row(codes: Any, order_buffers: tuple[Any, Any], base: Any, length: Any, passes: int) -> None:
    """Emits a radix sort of one row: each pass sorts the row stably by one byte of the keys, the lowest first.

    Passes alternate between two pairs of buffers. As the number of passes is even, the result is in the first pair.

    Args:
      codes: the keys of all rows, as unsigned integers.
      order_buffers: two pairs of buffers (indices, keys).
      base: the position at which the row begins in all buffers.
      length: the number of keys in the row.
      passes: the number of bytes of a key.
    """
    counts = FlatProxy(T.decl_buffer([passes * DIGITS], "int32", scope="local"))
    _count_digits(codes, counts, base, length, passes)
    first_pair, second_pair = order_buffers
    for pass_number in range(passes):
        is_even = pass_number % 2 == 0
        (old_indices, old_keys), (indices, keys) = (first_pair, second_pair) if is_even else (second_pair, first_pair)
        is_first = pass_number == 0  # it reads the codes themselves, in their original order
        with T.serial(long(0), length) as i:
            key = T.Bind((codes if is_first else old_keys)[base + i])
            counter = T.Bind(_digit(key, pass_number))
            target = T.Bind(base + counts[counter].astype("int64"))
            counts[counter] = counts[counter] + 1
            indices[target] = i.astype("int32") if is_first else old_indices[base + i]
            keys[target] = key


def _count_digits(codes: Any, counts: Any, base: Any, length: Any, passes: int) -> None:
    """Emits the histogram of digits for each pass of a radix sort, and the exclusive prefix sums of the histogram.

    The prefix sum of a digit is the position of the digit's first element in the sorted row.

    Args:
      codes: the keys of all rows, as unsigned integers.
      counts: the buffer for the histograms, ``DIGITS`` numbers for each pass.
      base: the position at which the row begins in ``codes``.
      length: the number of keys in the row.
      passes: the number of bytes of a key.
    """
    running = FlatProxy(T.decl_buffer([2], "int32", scope="local"))
    with T.serial(long(0), long(passes * DIGITS)) as i:
        counts[i] = 0
    with T.serial(long(0), length) as i:
        for pass_number in range(passes):
            counter = _digit(codes[base + i], pass_number)
            counts[counter] = counts[counter] + 1
    with T.serial(long(0), long(passes)) as pass_number:
        running[0] = 0  # the sum so far; running[1] keeps a count while the sum replaces the count
        with T.serial(long(0), long(DIGITS)) as digit:
            running[1] = counts[pass_number * DIGITS + digit]
            counts[pass_number * DIGITS + digit] = running[0]
            running[0] = running[0] + running[1]


def _digit(key: Any, pass_number: int) -> Any:
    """Returns the index of the counter for a key's digit in a radix sort pass; each pass has DIGITS counters."""
    dtype = str(key.ty.dtype)
    digit = (key >> tirx.const(8 * pass_number, dtype)) & tirx.const(DIGITS - 1, dtype)
    return digit.astype("int64") + pass_number * DIGITS
