"""TE kernels of random numbers: a stage of Philox 4x32-10 words, each computed from its index, and one that reads them.

The stage has a row for each block and selects a word by its place in the row, so that schedules can compute a block's
words together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvtf.ops.kernels import circular, fastmath, scalar
from tvtf.ops.kernels.common import INDEPENDENT, compute, flat_buffer, long
from tvtf.ops.kernels.scan import product, rows
from tvtf.ops.philox import KEY_STEPS, MULTIPLIERS, ROUNDS, SCRAMBLING_KEY

Words = tuple[Any, ...]
Shape = tuple[Any, ...]
BOX_MULLER_EPSILON = 1.0e-7
TRUNCATED_AT = 2.0
RESERVED_BLOCKS = 256
TRIED_BLOCKS = 2
"""Blocks of a group drawn before testing whether it is full: of 100,000 groups of four, one is not."""
PART = 4096
MANTISSA_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
WORD_MASK = 0xFFFFFFFF


class Names:
    """Let-bindings for shared subexpressions: ``names(value)`` binds a variable, ``around`` wraps the result in all."""

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


def lower(value: Any) -> Any:
    return value & u64(WORD_MASK)


def halves(value: Any) -> tuple[Any, Any]:
    return lower(value), value >> u64(32)


def wide(first: Any, second: Any) -> Any:
    """Joins two words to 64 bits, the first low."""
    return u64(first) | (u64(second) << u64(32))


def carry(a: Any, b: Any, total: Any) -> Any:
    """Returns 1 where ``a + b`` wrapped around; by bits, since TVM simplifies ``total < a`` to false."""
    return ((a & b) | ((a | b) & tirx.bitwise_not(total))) >> u64(63)


# -- Philox


def rounds(names: Names, counter: Words, key: Words) -> Words:
    """Applies ten rounds to a counter of four uint64 words, whose upper halves are ignored.

    Processors multiply the lower halves of 64-bit lanes; shuffles from 32-bit lanes would cost more than the rounds.
    """
    for step in range(ROUNDS):
        first, second = (names(lower(counter[i]) * u64(m)) for m, i in zip(MULTIPLIERS, (0, 2)))
        keys = [names(k + u64(step * w)) for k, w in zip(key, KEY_STEPS)]
        upper = [product >> u64(32) for product in (first, second)]
        counter = names(upper[1] ^ counter[1] ^ keys[0]), second, names(upper[0] ^ counter[3] ^ keys[1]), first
    return tuple(names(u32(word)) for word in counter)


def generator_state(seed: te.Tensor) -> te.Tensor:
    """Returns a generator's state as uint64[3]: counter low, counter high, key."""
    if int(seed.shape[0]) == 3:
        return compute((3,), lambda i: u64(seed(i)), "state")
    return compute((3,), lambda i: scrambled(i, [u64(seed(long(at)).astype("int64")) for at in (0, 1)]), "scrambled")


def scrambled(i: Any, seeds: Sequence[Any]) -> Any:
    names = Names()
    counter = tuple(names(half) for s in seeds for half in halves(s))
    words = rounds(names, counter, tuple(map(u64, SCRAMBLING_KEY)))
    return names.around(pick(i, (u64(0), wide(*words[2:]), wide(*words[:2]))))


def per_block(seed: te.Tensor, count: Any, width: int, values: Callable[[Names, Words], Words], name: str) -> te.Tensor:
    """Computes ``values`` of each block's words, ``width`` for a block, shape (count, width)."""
    state = generator_state(seed)

    def value(block: Any, place: Any) -> Any:
        names = Names()
        return names.around(pick(place, values(names, block_at(names, state, block))))

    return compute((count, width), value, name)


def block_at(names: Names, state: Callable[[Any], Any], block: Any) -> Words:
    """Returns the four words of a block: the state's counter advanced by the block's number, with carry."""
    start, key = state(long(0)), state(long(2))
    offset = names(u64(block))
    moved = names(start + offset)
    upper = names(state(long(1)) + carry(start, offset, moved))
    counter = tuple(map(names, (*halves(moved), *halves(upper))))
    return rounds(names, counter, tuple(map(names, halves(key))))


# -- elements


def position(place: Sequence[Any], shape: Shape) -> Any:
    """Returns the row-major index of an element."""
    at = long(0)
    for index, extent in zip(place, shape):
        at = at * long(extent) + index
    return at


def each(shape: Shape, value: Callable[[Any], Any], name: str) -> te.Tensor:
    """Computes ``value(position)`` for every element."""
    if not shape:
        return te.compute((), lambda: value(long(0)), name=name)
    return compute(shape, lambda *place: value(position(place, shape)), name)


def groups(shape: Shape, width: int) -> Any:
    """Returns how many groups of ``width``, a power of two, hold all elements."""
    return (product(shape) + long(width - 1)) >> long(width.bit_length() - 1)


def group_width(dtype: str) -> int:
    """Returns how many elements a block gives."""
    return 2 if dtype.endswith("64") else 4


def pick(place: Any, values: Sequence[Any]) -> Any:
    """Selects the value with the number ``place``."""
    chosen = values[0]
    for i, value in enumerate(values[1:], 1):
        chosen = tirx.Select(place == long(i), value, chosen)
    return chosen


def in_order(shape: Shape, numbers: te.Tensor, name: str) -> te.Tensor:
    """Arranges groups of elements in a shape."""
    width = long(numbers.shape[1])
    return each(shape, lambda at: numbers(tirx.floordiv(at, width), tirx.floormod(at, width)), name)


def drawn(seed: te.Tensor, shape: Shape, dtype: str, number: Callable[[Any], Any], name: str) -> te.Tensor:
    """Computes ``number`` of each element's own 32 or 64 random bits."""
    width = group_width(dtype)

    def values(names: Names, words: Words) -> Words:
        own = words if width == 4 else (wide(*words[:2]), wide(*words[2:]))
        return tuple(number(word) for word in own)

    return in_order(shape, per_block(seed, groups(shape, width), width, values, f"{name}_of_block"), name)


def bits(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    return drawn(seed, shape, dtype, lambda word: word.astype(dtype), "random_bits")


def integers(seed: te.Tensor, low_end: te.Tensor, high_end: te.Tensor, *, shape: Shape) -> te.Tensor:
    dtype = str(low_end.dtype)
    unsigned = f"u{dtype}"
    start = low_end().astype(unsigned)
    span = tirx.max(high_end().astype(unsigned) - start, tirx.const(1, unsigned))
    return drawn(seed, shape, dtype, lambda word: (start + tirx.truncmod(word, span)).astype(dtype), "random_integers")


def uniform(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    if dtype == "float64":
        return drawn(seed, shape, dtype, unit64, "random_uniform")
    return drawn(seed, shape, dtype, lambda word: rounded(unit(word, dtype), dtype), "random_uniform")


def unit(word: Any, dtype: str = "float32") -> Any:
    """Returns a word's low bits as a number in [0, 1), exact in float32."""
    size = MANTISSA_BITS[dtype]
    return (word & u32((1 << size) - 1)).astype("int32").astype("float32") * tirx.const(2.0**-size, "float32")


def unit64(word: Any) -> Any:
    """Returns two words as a float64 in [0, 1): the second word, and the first's low bits above it."""
    mantissa = ((word & u64(0xFFFFF)) << u64(32)) | (word >> u64(32))
    return mantissa.astype("int64").astype("float64") * tirx.const(2.0**-52, "float64")


def rounded(value: Any, dtype: str) -> Any:
    """Rounds a finite float32 to a dtype.

    It rounds to bfloat16 by the bits, for TVM's cast repeats the expression and each name bound in it.
    """
    if dtype != "bfloat16":
        return value.astype(dtype)
    names = Names()
    bits = names(tirx.reinterpret("uint32", value))
    nearest_even = (bits + u32(0x7FFF) + ((bits >> u32(16)) & u32(1))) >> u32(16)
    return names.around(tirx.reinterpret("bfloat16", nearest_even.astype("uint16")))


# -- normal numbers


def normal(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    width = group_width(dtype)

    def values(names: Names, words: Words) -> Words:
        return tuple(rounded(number, dtype) for number in normals(names, words, dtype))

    return in_order(shape, per_block(seed, groups(shape, width), width, values, "normals"), "random_normal")


def normals(names: Names, words: Words, dtype: str) -> Words:
    """Returns the normal numbers of a block: two of float64, else four of float32."""
    if dtype == "float64":
        return box_muller(names, *(unit64(wide(*words[i : i + 2])) for i in (0, 2)))
    return tuple(n for i in (0, 2) for n in box_muller(names, *(unit(word) for word in words[i : i + 2])))


def box_muller(names: Names, first: Any, second: Any) -> tuple[Any, Any]:
    """Returns two normal numbers from two uniform ones, as TensorFlow computes them: the sine comes first.

    Functions are computed in float64 and then rounded, so that eager calls give the same bits.
    """
    dtype = scalar.dtype_of(first)
    angle = names((second.astype("float64") * tirx.const(2 * pi, "float64")).astype(dtype))
    bounded = names(tirx.max(first, tirx.const(BOX_MULLER_EPSILON, dtype)))
    log = fastmath.log_of_normal(names(bounded.astype("float64"))).astype(dtype)
    radius = names(tirx.sqrt(log * tirx.const(-2.0, dtype)))
    sine, cosine = circular.of_small_angle(names, names(angle.astype("float64")))
    return names(sine.astype(dtype) * radius), names(cosine.astype(dtype) * radius)


def truncated_normal(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    """Computes truncated normal numbers from each group's own blocks until the group is full; mostly two suffice."""
    width = group_width(dtype)
    stretch = width * RESERVED_BLOCKS // 4
    state = generator_state(seed)

    def value(group: Any, place: Any) -> Any:
        names = Names()
        tried = [block_at(names, state, group * long(stretch) + long(k)) for k in range(TRIED_BLOCKS)]
        numbers = [number for words in tried for number in normals(names, words, dtype)]
        return names.around(pick(place, first_within(names, numbers, width)))

    drafts = compute((groups(shape, width), width), value, "first_within")
    numbers_of_shape = completed(drafts, state, shape, stretch)
    if str(numbers_of_shape.dtype) == dtype:
        return numbers_of_shape
    return compute(shape, lambda *i: rounded(numbers_of_shape(*i), dtype), "truncated_normal")


def first_within(names: Names, numbers: Sequence[Any], width: int) -> list[Any]:
    """Returns the first ``width`` numbers within the bound, and NaN for missing ones."""
    dtype = scalar.dtype_of(numbers[0])
    zero, one, nan = (tirx.const(value, dtype) for value in (0, 1, float("nan")))
    accepted: list[Any] = [nan] * width
    count: Any = zero
    for at, number in enumerate(numbers):
        fits = tirx.abs(number) < tirx.const(TRUNCATED_AT, dtype)
        for place in range(min(at + 1, width)):
            is_next = tirx.all(fits, tirx.EQ(count, tirx.const(place, dtype)))
            accepted[place] = names(tirx.Select(is_next, number, accepted[place]))
        count = names(count + tirx.Select(fits, one, zero))
    return accepted


def completed(drafts: te.Tensor, state: te.Tensor, shape: Shape, stretch: int) -> te.Tensor:
    """Copies all elements and redraws groups that miss some, from more of their ``stretch`` blocks."""
    count, width, dtype = product(shape), int(drafts.shape[1]), str(drafts.dtype)

    def body(ins: Any, outs: Any) -> Any:
        """Emits a loop over groups of numbers, which draws again those that are NaN."""
        with IRBuilder() as builder:
            known, start, out = map(T.buffer_proxy, (*ins, outs[0]))
            with rows(tirx.floordiv(count + (PART - 1), long(PART)), count) as part:
                first = part * PART
                size = tirx.min(count - first, long(PART))
                with T.serial(long(0), size, annotations=INDEPENDENT) as i:
                    out[first + i] = known[first + i]
                with T.serial(long(0), tirx.floordiv(size + (width - 1), long(width))) as group:
                    base = first + group * width
                    with T.If(tirx.isnan(known[base + (width - 1)])), T.Then():
                        _draw_group(lambda i: start[i], out, base, (count, width, stretch), dtype)
            return builder.get()

    return te.extern([shape], [drafts, state], body, name="completed", dtype=dtype)


def _draw_group(state: Any, out: Any, base: Any, sizes: tuple[Any, int, int], dtype: str) -> None:
    """Emits a loop that draws block by block until the group at ``base`` is full.

    Numbers beyond the truncation are skipped. Each group has its own ``stretch`` blocks of the stream, so that groups are
    independent of one another.
    """
    count, width, stretch = sizes
    words, number = (T.buffer_proxy(T.decl_buffer([n], d, scope="local")) for n, d in ((4, "uint32"), (1, dtype)))
    filled, tried = (T.buffer_proxy(T.decl_buffer([1], "int64", scope="local")) for _ in range(2))
    filled[0] = long(0)
    tried[0] = long(0)
    with T.While(tirx.all(filled[0] < width, tried[0] < stretch)):
        with T.serial(long(0), long(4)) as i:
            names = Names()
            block = tirx.floordiv(base, long(width)) * stretch + tried[0]
            words[i] = names.around(pick(i, block_at(names, state, block)))
        with T.serial(long(0), long(width)) as i:
            names = Names()
            drawn = normals(names, tuple(words[k] for k in range(4)), dtype)
            number[0] = names.around(pick(i, drawn))
            with T.If(tirx.all(tirx.abs(number[0]) < tirx.const(TRUNCATED_AT, dtype), filled[0] < width)), T.Then():
                with T.If(base + filled[0] < count), T.Then():
                    out[base + filled[0]] = number[0]
                filled[0] = filled[0] + long(1)
        tried[0] = tried[0] + long(1)


# -- order and states


def permutation(seed: te.Tensor, *, size: Any) -> te.Tensor:
    """Shuffles by sequential swaps, in a loop of TIR, for TE can't express it."""
    count = long(size)
    words = per_block(seed, groups((size,), 4), 4, lambda _names, words: words, "words")

    def body(ins: Any, outs: Any) -> Any:
        """Emits a Fisher-Yates shuffle of the positions."""
        with IRBuilder() as builder:
            drawn, order = flat_buffer(ins[0]), flat_buffer(outs[0])
            with T.serial(long(0), long(1)):
                with T.serial(long(0), count, annotations=INDEPENDENT) as i:
                    order[i] = i
                with T.serial(long(0), count) as i:
                    step = tirx.truncmod(drawn[i >> long(2), i & long(3)].astype("int64"), count - i)
                    with T.serial(long(0), long(1)):
                        swapped = T.Bind(order[i])
                        order[i] = order[i + step]
                        order[i + step] = swapped
            return builder.get()

    return te.extern([[count]], [words], body, name="permutation", dtype="int64")


def skip(state: te.Tensor, *, blocks: Any) -> te.Tensor:
    step = u64(long(blocks))
    moved = u64(state(long(0))) + step
    carried = u64(state(long(1))) + carry(u64(state(long(0))), step, moved)
    return compute((3,), lambda i: pick(i, (moved, carried, u64(state(long(2))))).astype(str(state.dtype)), "skip")
