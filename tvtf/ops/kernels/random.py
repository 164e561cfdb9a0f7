"""TE kernels of random numbers: Philox 4x32-10 in 32-bit words, each element computed from its own index.

A group of four words is computed for each of its elements, which keeps the kernels elementwise: they fuse with what reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi
from typing import Any

from tvm import te, tirx

from tvtf.ops.kernels import fastmath, scalar
from tvtf.ops.kernels.common import compute, long
from tvtf.ops.philox import KEY_STEPS, MULTIPLIERS, ROUNDS, SCRAMBLING_KEY

Words = tuple[Any, ...]
Shape = tuple[Any, ...]
BOX_MULLER_EPSILON = 1.0e-7
MANTISSA_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


def u32(value: Any) -> Any:
    return tirx.const(value & 0xFFFFFFFF, "uint32") if isinstance(value, int) else value.astype("uint32")


def u64(value: Any) -> Any:
    return tirx.const(value, "uint64") if isinstance(value, int) else value.astype("uint64")


def low(value: Any) -> Any:
    return (value & tirx.const(0xFFFFFFFF, "uint64")).astype("uint32")


def high(value: Any) -> Any:
    return (value >> tirx.const(32, "uint64")).astype("uint32")


def let(values: Sequence[Any], body: Callable[..., Any]) -> Any:
    """``body`` of names for ``values``, each computed once."""
    if not values:
        return body()
    return scalar.let(values[0], lambda first: let(values[1:], lambda *rest: body(first, *rest)))


def rounds(counter: Words, key: Words, body: Callable[..., Any], step: int = 0) -> Any:
    """``body`` of the four words that ten rounds make of a counter."""
    if step == ROUNDS:
        return body(*counter)
    products = [u64(counter[i]) * tirx.const(m, "uint64") for m, i in zip(MULTIPLIERS, (0, 2))]

    def mixed(first: Any, second: Any) -> Any:
        words = [high(second) ^ counter[1] ^ key[0], low(second), high(first) ^ counter[3] ^ key[1], low(first)]
        raised = [k + u32(w) for k, w in zip(key, KEY_STEPS)]
        return let([*words, *raised], lambda a, b, c, d, k, l: rounds((a, b, c, d), (k, l), body, step + 1))

    return let(products, mixed)


def generator_state(seed: te.Tensor) -> te.Tensor:
    """A generator's state as uint64[3]: counter low, counter high, key."""
    if int(seed.shape[0]) == 3:
        return compute((3,), lambda i: u64(seed(i)), "state")
    seeds = [u64(seed(long(i)).astype("int64")) for i in (0, 1)]
    counter = tuple(half(s) for s in seeds for half in (low, high))

    def element(i: Any) -> Any:
        return rounds(counter, tuple(map(u32, SCRAMBLING_KEY)), lambda a, b, c, d: _mixed_state(i, a, b, c, d))

    return compute((3,), element, "scrambled")


def _mixed_state(i: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    counter, key = (u64(x) | (u64(y) << tirx.const(32, "uint64")) for x, y in ((c, d), (a, b)))
    return tirx.Select(i == long(0), tirx.const(0, "uint64"), tirx.Select(i == long(1), counter, key))


def block_at(state: te.Tensor, group: Any, body: Callable[..., Any]) -> Any:
    """``body`` of the four words of a group."""
    start = state(long(0))

    def counted(moved: Any) -> Any:
        upper = state(long(1)) + tirx.Select(moved < start, tirx.const(1, "uint64"), tirx.const(0, "uint64"))
        halves = [low(moved), high(moved), low(upper), high(upper)]
        key = state(long(2))
        return let([*halves, low(key), high(key)], lambda a, b, c, d, k, l: rounds((a, b, c, d), (k, l), body))

    return scalar.let(start + u64(group), counted)


def position(place: Sequence[Any], shape: Shape) -> Any:
    """The row-major index of an element."""
    at = long(0)
    for index, extent in zip(place, shape):
        at = at * long(extent) + index
    return at


def filled(seed: te.Tensor, shape: Shape, width: int, value: Callable[..., Any], name: str) -> te.Tensor:
    """``value(lane, *words)`` for each element, ``width`` elements to a block."""
    state = generator_state(seed)

    def element(*place: Any) -> Any:
        at = position(place, shape)
        lane = at & long(width - 1)
        return block_at(state, at >> long(width.bit_length() - 1), lambda *words: value(lane, *words))

    return compute(shape, element, name) if shape else te.compute((), element, name=name)


def pick(lane: Any, values: Sequence[Any]) -> Any:
    """The value of a lane."""
    chosen = values[0]
    for i, value in enumerate(values[1:], 1):
        chosen = tirx.Select(lane == long(i), value, chosen)
    return chosen


def joined(lane: Any, words: Words) -> Any:
    """A lane's two words as 64 bits, the first word low."""
    return pick(lane, [u64(a) | (u64(b) << tirx.const(32, "uint64")) for a, b in (words[:2], words[2:])])


def bits(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    if dtype.endswith("64"):
        return filled(seed, shape, 2, lambda lane, *words: joined(lane, words).astype(dtype), "random_bits")
    return filled(seed, shape, 4, lambda lane, *words: pick(lane, words).astype(dtype), "random_bits")


def uniform(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    if dtype == "float64":
        return filled(seed, shape, 2, lambda lane, *w: unit64(pick(lane, w[::2]), pick(lane, w[1::2])), "random_uniform")
    return filled(seed, shape, 4, lambda lane, *words: rounded(unit(pick(lane, words), dtype), dtype), "random_uniform")


def unit(word: Any, dtype: str) -> Any:
    """A word's low bits as a number in [0, 1), exact in float32."""
    size = MANTISSA_BITS[dtype]
    return (word & u32((1 << size) - 1)).astype("int32").astype("float32") * tirx.const(2.0**-size, "float32")


def rounded(value: Any, dtype: str) -> Any:
    """A finite float32 as the dtype. To bfloat16 by its bits: TVM's own cast repeats the expression, and each name in it."""
    if dtype != "bfloat16":
        return value.astype(dtype)
    return scalar.let(tirx.reinterpret("uint32", value), lambda bits: tirx.reinterpret("bfloat16", _nearest_even(bits)))


def _nearest_even(bits: Any) -> Any:
    return ((bits + u32(0x7FFF) + ((bits >> u32(16)) & u32(1))) >> u32(16)).astype("uint16")


def unit64(first: Any, second: Any) -> Any:
    upper = u64(first & u32(0xFFFFF)) << tirx.const(32, "uint64")
    return (upper | u64(second)).astype("int64").astype("float64") * tirx.const(2.0**-52, "float64")


def integers(seed: te.Tensor, low_end: te.Tensor, high_end: te.Tensor, *, shape: Shape) -> te.Tensor:
    dtype = str(low_end.dtype)
    unsigned = f"uint{dtype[-2:]}"
    start = low_end().astype(unsigned)
    span = high_end().astype(unsigned) - start
    width = 2 if dtype.endswith("64") else 4

    def value(lane: Any, *words: Any) -> Any:
        word = joined(lane, words) if width == 2 else pick(lane, words)
        return (start + tirx.truncmod(word, tirx.max(span, tirx.const(1, unsigned)))).astype(dtype)

    return filled(seed, shape, width, value, "random_integers")


def normal(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    if dtype == "float64":
        return filled(seed, shape, 2, lambda lane, *w: box_muller(lane, unit64(*w[:2]), unit64(*w[2:])), "random_normal")

    def value(lane: Any, *words: Any) -> Any:
        second_pair = lane >= long(2)
        first, second = (unit(tirx.Select(second_pair, words[i + 2], words[i]), "float32") for i in (0, 1))
        return rounded(box_muller(lane & long(1), first, second), dtype)

    return filled(seed, shape, 4, value, "random_normal")


def box_muller(lane: Any, first: Any, second: Any) -> Any:
    """One of the two normal numbers made of two uniform ones, as TensorFlow computes it: the sine comes first."""
    dtype = scalar.dtype_of(first)
    angle = (second.astype("float64") * tirx.const(2 * pi, "float64")).astype(dtype)
    bounded = tirx.max(first, tirx.const(BOX_MULLER_EPSILON, dtype))
    radius = tirx.sqrt(fastmath.log(bounded) * tirx.const(-2.0, dtype))
    turn = tirx.Select(lane == long(0), scalar.sin(angle), scalar.cos(angle))
    return turn * radius


def skip(state: te.Tensor, *, blocks: Any) -> te.Tensor:
    step = u64(long(blocks))
    moved = u64(state(long(0))) + step
    carried = u64(state(long(1))) + tirx.Select(moved < step, tirx.const(1, "uint64"), tirx.const(0, "uint64"))
    return compute(
        (3,), lambda i: pick(i, (moved, carried, u64(state(long(2))))).astype(str(state.dtype)), "skip"
    )
