"""TE kernels of random numbers: a stage of Philox 4x32-10 words, each computed from its own index, and one that reads them.

A block is computed for each of its four words, which keeps the stages elementwise: they fuse with what reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvtf.ops.kernels import fastmath, scalar
from tvtf.ops.kernels.common import INDEPENDENT, compute, long, reduce_axis
from tvtf.ops.philox import KEY_STEPS, MULTIPLIERS, ROUNDS, SCRAMBLING_KEY

Words = tuple[Any, ...]
Shape = tuple[Any, ...]
BOX_MULLER_EPSILON = 1.0e-7
TRUNCATED_AT = 2.0
RESERVED_BLOCKS = 256
# Fewer than four of 20 normal numbers lie within the bound once in 1e20 times, fewer than two of 16 once in 1e18: then 0.
TRIED_BLOCKS_OF_FOUR, TRIED_BLOCKS_OF_TWO = 5, 8
MANTISSA_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
WORD_MASK = 0xFFFFFFFF


class Names:
    """Names for values of one expression that are computed once: ``names(value)`` binds, ``around`` closes."""

    def __init__(self) -> None:
        self.bound: list[tuple[tirx.Var, Any]] = []

    def __call__(self, value: Any) -> tirx.Var:
        name = tirx.Var("word", scalar.dtype_of(value))
        self.bound.append((name, value))
        return name

    def around(self, result: Any) -> Any:
        for name, value in reversed(self.bound):
            result = tirx.Let(name, value, result)
        return result


def u32(value: Any) -> Any:
    return tirx.const(value & WORD_MASK, "uint32") if isinstance(value, int) else value.astype("uint32")


def u64(value: Any) -> Any:
    return tirx.const(value, "uint64") if isinstance(value, int) else value.astype("uint64")


def low(value: Any) -> Any:
    return (value & u64(WORD_MASK)).astype("uint32")


def high(value: Any) -> Any:
    return (value >> u64(32)).astype("uint32")


def wide(first: Any, second: Any) -> Any:
    """Two words as 64 bits, the first low."""
    return u64(first) | (u64(second) << u64(32))


def carry(a: Any, b: Any, total: Any) -> Any:
    """1 where ``a + b`` wrapped around; by bits, since TVM takes ``total < a`` for never true."""
    return ((a & b) | ((a | b) & tirx.bitwise_not(total))) >> u64(63)


# -- Philox


def rounds(names: Names, counter: Words, key: Words) -> Words:
    """The four words that ten rounds make of a counter."""
    for step in range(ROUNDS):
        first, second = (names(u64(counter[i]) * u64(m)) for m, i in zip(MULTIPLIERS, (0, 2)))
        keys = [names(k + u32(step * w)) for k, w in zip(key, KEY_STEPS)]
        mixed = high(second) ^ counter[1] ^ keys[0], low(second), high(first) ^ counter[3] ^ keys[1], low(first)
        counter = tuple(map(names, mixed))
    return counter


def generator_state(seed: te.Tensor) -> te.Tensor:
    """A generator's state as uint64[3]: counter low, counter high, key."""
    if int(seed.shape[0]) == 3:
        return compute((3,), lambda i: u64(seed(i)), "state")
    return compute((3,), lambda i: scrambled(i, [u64(seed(long(at)).astype("int64")) for at in (0, 1)]), "scrambled")


def scrambled(i: Any, seeds: Sequence[Any]) -> Any:
    names = Names()
    counter = tuple(names(half(s)) for s in seeds for half in (low, high))
    words = rounds(names, counter, tuple(map(u32, SCRAMBLING_KEY)))
    return names.around(pick(i, (u64(0), wide(*words[2:]), wide(*words[:2]))))


def blocks(seed: te.Tensor, count: Any, at: Callable[[Any], Any] = lambda block: block) -> te.Tensor:
    """The words of ``count`` blocks, uint32 of shape (count, 4); ``at`` tells how far a block lies from the state."""
    state = generator_state(seed)

    def word(block: Any, lane: Any) -> Any:
        names = Names()
        return names.around(pick(lane, block_at(names, state, at(block))))

    return compute((count, 4), word, "words")


def block_at(names: Names, state: te.Tensor, block: Any) -> Words:
    start, key = state(long(0)), state(long(2))
    offset = names(u64(block))
    moved = names(start + offset)
    upper = names(state(long(1)) + carry(start, offset, moved))
    counter = tuple(map(names, (low(moved), high(moved), low(upper), high(upper))))
    return rounds(names, counter, (names(low(key)), names(high(key))))


# -- elements


def position(place: Sequence[Any], shape: Shape) -> Any:
    """The row-major index of an element."""
    at = long(0)
    for index, extent in zip(place, shape):
        at = at * long(extent) + index
    return at


def each(shape: Shape, value: Callable[[Any], Any], name: str) -> te.Tensor:
    """``value(position)`` for every element."""
    if not shape:
        return te.compute((), lambda: value(long(0)), name=name)
    return compute(shape, lambda *place: value(position(place, shape)), name)


def elements(shape: Shape) -> Any:
    """How many there are."""
    count = long(1)
    for extent in shape:
        count = count * long(extent)
    return count


def groups(shape: Shape, width: int) -> Any:
    """How many groups of ``width`` hold all elements."""
    return (elements(shape) + long(width - 1)) >> long(width.bit_length() - 1)


def group_width(dtype: str) -> int:
    """How many elements a block gives."""
    return 2 if dtype.endswith("64") else 4


def pick(lane: Any, values: Sequence[Any]) -> Any:
    """The value of a lane."""
    chosen = values[0]
    for i, value in enumerate(values[1:], 1):
        chosen = tirx.Select(lane == long(i), value, chosen)
    return chosen


def drawn(seed: te.Tensor, shape: Shape, dtype: str) -> Callable[[Any], Any]:
    """``word(position)``: an element's own 32 or 64 bits."""
    width = group_width(dtype)
    words = blocks(seed, groups(shape, width))
    if width == 4:
        return lambda at: words(at >> long(2), at & long(3))
    return lambda at: wide(*(words(at >> long(1), ((at & long(1)) << long(1)) + long(i)) for i in (0, 1)))


def bits(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    word = drawn(seed, shape, dtype)
    return each(shape, lambda at: word(at).astype(dtype), "random_bits")


def integers(seed: te.Tensor, low_end: te.Tensor, high_end: te.Tensor, *, shape: Shape) -> te.Tensor:
    dtype = str(low_end.dtype)
    unsigned, word = f"u{dtype}", drawn(seed, shape, dtype)
    start = low_end().astype(unsigned)
    span = tirx.max(high_end().astype(unsigned) - start, tirx.const(1, unsigned))
    return each(shape, lambda at: (start + tirx.truncmod(word(at), span)).astype(dtype), "random_integers")


def uniform(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    word = drawn(seed, shape, dtype)
    if dtype == "float64":
        return each(shape, lambda at: unit64(word(at)), "random_uniform")
    return each(shape, lambda at: rounded(unit(word(at), dtype), dtype), "random_uniform")


def unit(word: Any, dtype: str = "float32") -> Any:
    """A word's low bits as a number in [0, 1), exact in float32."""
    size = MANTISSA_BITS[dtype]
    return (word & u32((1 << size) - 1)).astype("int32").astype("float32") * tirx.const(2.0**-size, "float32")


def unit64(word: Any) -> Any:
    """Of two words: the second whole, the first's low bits above it."""
    mantissa = ((word & u64(0xFFFFF)) << u64(32)) | (word >> u64(32))
    return mantissa.astype("int64").astype("float64") * tirx.const(2.0**-52, "float64")


def rounded(value: Any, dtype: str) -> Any:
    """A finite float32 as the dtype. To bfloat16 by its bits: TVM's own cast repeats the expression, and each name in it."""
    if dtype != "bfloat16":
        return value.astype(dtype)
    names = Names()
    bits = names(tirx.reinterpret("uint32", value))
    nearest_even = (bits + u32(0x7FFF) + ((bits >> u32(16)) & u32(1))) >> u32(16)
    return names.around(tirx.reinterpret("bfloat16", nearest_even.astype("uint16")))


# -- normal numbers


def normal(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    width = group_width(dtype)
    numbers = normals(blocks(seed, groups(shape, width)), dtype)
    shift = long(width.bit_length() - 1)
    return each(shape, lambda at: rounded(numbers(at >> shift, at & long(width - 1)), dtype), "random_normal")


def normals(words: te.Tensor, dtype: str) -> te.Tensor:
    """The normal numbers of each block: two of float64, four of float32 for all others."""
    if dtype == "float64":
        of_pair = lambda block, i: unit64(wide(words(block, long(2 * i)), words(block, long(2 * i + 1))))  # noqa: E731
        return compute((words.shape[0], 2), lambda b, lane: box_muller(of_pair(b, 0), of_pair(b, 1), lane), "normals")

    def number(block: Any, lane: Any) -> Any:
        first, second = (unit(words(block, place)) for place in (lane & long(2), lane | long(1)))
        return box_muller(first, second, lane & long(1))

    return compute((words.shape[0], 4), number, "normals")


def box_muller(first: Any, second: Any, lane: Any) -> Any:
    """One of the two normal numbers made of two uniform ones, as TensorFlow computes it: the sine comes first."""
    dtype = scalar.dtype_of(first)
    angle = (second.astype("float64") * tirx.const(2 * pi, "float64")).astype(dtype)
    bounded = tirx.max(first, tirx.const(BOX_MULLER_EPSILON, dtype))
    radius = tirx.sqrt(fastmath.log(bounded) * tirx.const(-2.0, dtype))
    return tirx.Select(lane == long(0), scalar.sin(angle), scalar.cos(angle)) * radius


def truncated_normal(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    """Each group of elements tries some blocks: a number within the bound goes to the lane that is next."""
    width = group_width(dtype)
    tried = TRIED_BLOCKS_OF_TWO if width == 2 else TRIED_BLOCKS_OF_FOUR
    stretch, shift = width * RESERVED_BLOCKS // 4, long(width.bit_length() - 1)
    count = groups(shape, width) * long(tried)
    words = blocks(seed, count, lambda b: tirx.floordiv(b, long(tried)) * long(stretch) + tirx.floormod(b, long(tried)))
    kept = within(normals(words, dtype), groups(shape, width), tried, width)
    return each(shape, lambda at: rounded(kept(at >> shift, at & long(width - 1)), dtype), "truncated_normal")


def within(numbers: te.Tensor, count: Any, tried: int, width: int) -> te.Tensor:
    """The first ``width`` numbers within the bound among each group's ``tried`` blocks of them."""
    bound = tirx.const(TRUNCATED_AT, str(numbers.dtype))
    tries, zero = tried * width, tirx.const(0, str(numbers.dtype))

    def at(group: Any, k: Any) -> Any:
        return numbers(group * long(tried) + tirx.floordiv(k, long(width)), tirx.floormod(k, long(width)))

    fits = compute((count, tries), lambda g, k: (tirx.abs(at(g, k)) < bound).astype("int32"), "fits")
    k = reduce_axis(tries, "k")
    rank = compute((count, tries), lambda g, i: te.sum(tirx.Select(k.var <= i, fits(g, k.var), 0), axis=[k]), "rank")
    n = reduce_axis(tries, "n")

    def chosen(g: Any, lane: Any) -> Any:
        is_next = tirx.all(fits(g, n.var) == 1, rank(g, n.var).astype("int64") == lane + long(1))
        return te.sum(tirx.Select(is_next, at(g, n.var), zero), axis=[n])

    return compute((count, width), chosen, "kept")


# -- order and states


def permutation(seed: te.Tensor, *, size: Any) -> te.Tensor:
    """Swaps one after the other, which only a loop can say."""
    count = long(size)
    words = blocks(seed, groups((size,), 4))

    def body(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            drawn, order = T.buffer_proxy(ins[0]), T.buffer_proxy(outs[0])
            with T.serial(long(0), long(1)):
                with T.serial(long(0), count, annotations=INDEPENDENT) as i:
                    order[i] = i
                with T.serial(long(0), count) as i:
                    step = tirx.truncmod(drawn[i >> long(2), i & long(3)].astype("int64"), count - i)
                    with T.serial(long(0), long(1)):
                        kept = T.Bind(order[i])
                        order[i] = order[i + step]
                        order[i + step] = kept
            return builder.get()

    return te.extern([[count]], [words], body, name="permutation", dtype="int64")


def skip(state: te.Tensor, *, blocks: Any) -> te.Tensor:
    step = u64(long(blocks))
    moved = u64(state(long(0))) + step
    carried = u64(state(long(1))) + carry(u64(state(long(0))), step, moved)
    return compute((3,), lambda i: pick(i, (moved, carried, u64(state(long(2))))).astype(str(state.dtype)), "skip")
