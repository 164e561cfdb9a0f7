"""TE kernels of random numbers: a stage of Philox 4x32-10 words, each computed from its index, and one that reads them.

The stage has a row for each block and selects a word by its position in the row, so that schedules can compute a block's
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
from tvtf.ops.kernels.common import INDEPENDENT, FlatProxy, compute, flat_buffer, long
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
    """Collects TIR let-bindings of shared subexpressions.

    ``names(value)`` binds a subexpression to a new variable, and returns the variable. ``around`` wraps a result in all
    bindings.
    """

    def __init__(self) -> None:
        self.bound: list[tuple[tirx.Var, Any]] = []

    def __call__(self, value: Any) -> tirx.Var:
        """Binds a value to a new variable, and returns the variable."""
        variable = tirx.Var("word", scalar.dtype_of(value))
        self.bound.append((variable, value))
        return variable

    def around(self, result: Any) -> Any:
        """Returns ``result`` inside all bindings, the last of them innermost."""
        for name, value in reversed(self.bound):
            result = tirx.Let(name, value, result)
        return result


def u32(value: Any) -> Any:
    """Converts an int or an expression to uint32."""
    return tirx.const(value & WORD_MASK, "uint32") if isinstance(value, int) else value.astype("uint32")


def u64(value: Any) -> Any:
    """Converts an int or an expression to uint64."""
    return tirx.const(value, "uint64") if isinstance(value, int) else value.astype("uint64")


def lower(value: Any) -> Any:
    """Returns the lower 32 bits of a uint64."""
    return value & u64(WORD_MASK)


def halves(value: Any) -> tuple[Any, Any]:
    """Returns the lower and the upper 32 bits of a uint64."""
    return lower(value), value >> u64(32)


def join_words(first: Any, second: Any) -> Any:
    """Joins two 32-bit words to a uint64, the first as its lower half."""
    return u64(first) | (u64(second) << u64(32))


def carry(a: Any, b: Any, total: Any) -> Any:
    """Returns the carry of the uint64 sum ``total = a + b``: 1 if the sum wrapped around, else 0.

    It is computed by bits, because TVM simplifies ``total < a`` to false.
    """
    return ((a & b) | ((a | b) & tirx.bitwise_not(total))) >> u64(63)


# -- Philox


def rounds(names: Names, counter: Words, key: Words) -> Words:
    """Applies the ten rounds of Philox 4x32-10 to a counter of four words with a key of two.

    Returns four uint32 words. The words of the counter are uint64, but their upper halves are ignored. Processors
    multiply the lower halves of 64-bit lanes, and shuffles from 32-bit lanes would cost more than the rounds.
    """
    first_multiplier, second_multiplier = MULTIPLIERS
    for round_number in range(ROUNDS):
        first_product = names(lower(counter[0]) * u64(first_multiplier))
        second_product = names(lower(counter[2]) * u64(second_multiplier))
        first_key, second_key = (
            names(key_word + u64(round_number * increment)) for key_word, increment in zip(key, KEY_STEPS)
        )
        first_upper = first_product >> u64(32)
        second_upper = second_product >> u64(32)
        first_word = names(second_upper ^ counter[1] ^ first_key)
        third_word = names(first_upper ^ counter[3] ^ second_key)
        counter = first_word, second_product, third_word, first_product
    return tuple(names(u32(word)) for word in counter)


def generator_state(seed: te.Tensor) -> te.Tensor:
    """Returns a random generator's state as uint64[3]: the low half of the counter, the high half, and the key.

    A seed of three integers is the state itself. A seed of two integers is scrambled to a state.
    """
    if int(seed.shape[0]) == 3:
        return compute((3,), lambda i: u64(seed(i)), "state")

    def scrambled_word(i: Any) -> Any:
        seeds = [u64(seed(long(index)).astype("int64")) for index in (0, 1)]
        return scrambled(i, seeds)

    return compute((3,), scrambled_word, "scrambled")


def scrambled(i: Any, seeds: Sequence[Any]) -> Any:
    """Returns word ``i`` of the random generator's state for a seed of two integers.

    The two integers are the counter of one Philox block with a constant key. The block's first two words are the key of
    the state, and the last two are the high half of the state's counter.
    """
    names = Names()
    counter = tuple(names(seed_half) for seed in seeds for seed_half in halves(seed))
    scrambling_key = tuple(u64(word) for word in SCRAMBLING_KEY)
    first, second, third, fourth = rounds(names, counter, scrambling_key)
    low_counter = u64(0)
    high_counter = join_words(third, fourth)
    key = join_words(first, second)
    return names.around(pick(i, (low_counter, high_counter, key)))


def per_block(seed: te.Tensor, count: Any, width: int, values: Callable[[Names, Words], Words], name: str) -> te.Tensor:
    """Computes ``width`` random values from each of ``count`` Philox blocks, as a tensor of shape (count, width).

    ``values(names, words)`` computes the values of a block from the block's four words. ``names`` binds expressions to
    variables.
    """
    state = generator_state(seed)

    def value(block: Any, place: Any) -> Any:
        names = Names()
        return names.around(pick(place, values(names, block_at(names, state, block))))

    return compute((count, width), value, name)


def block_at(names: Names, state: Callable[[Any], Any], block: Any) -> Words:
    """Computes the four random words of Philox block number ``block`` of a generator state.

    The block's counter is the state's plus ``block``.

    Args:
      names: binds an expression to a variable.
      state: reads a word of the state by its index: the low and the high half of the counter, then the key.
      block: the index of the block.
    """
    start, key = state(long(0)), state(long(2))
    offset = names(u64(block))
    low_counter = names(start + offset)
    high_counter = names(state(long(1)) + carry(start, offset, low_counter))
    counter_words = tuple(names(word) for word in (*halves(low_counter), *halves(high_counter)))
    key_words = tuple(names(word) for word in halves(key))
    return rounds(names, counter_words, key_words)


# -- elements


def position(index_vector: Sequence[Any], shape: Shape) -> Any:
    """Returns the flat (row-major) index of the element at an index vector."""
    flat_index = long(0)
    for index, extent in zip(index_vector, shape):
        flat_index = flat_index * long(extent) + index
    return flat_index


def each(shape: Shape, value: Callable[[Any], Any], name: str) -> te.Tensor:
    """Computes ``value(flat index)`` for every element of a tensor of ``shape``."""
    if not shape:
        return te.compute((), lambda: value(long(0)), name=name)
    return compute(shape, lambda *index: value(position(index, shape)), name)


def groups(shape: Shape, width: int) -> Any:
    """Returns the number of groups of ``width`` elements that a tensor of ``shape`` needs; ``width`` is a power of two."""
    return (product(shape) + long(width - 1)) >> long(width.bit_length() - 1)


def group_width(dtype: str) -> int:
    """Returns how many elements of a dtype one Philox block gives."""
    return 2 if dtype.endswith("64") else 4


def pick(index: Any, values: Sequence[Any]) -> Any:
    """Selects the value at ``index``, which is known only at run time."""
    result = values[0]
    for i, value in enumerate(values[1:], 1):
        result = tirx.Select(index == long(i), value, result)
    return result


def in_order(shape: Shape, numbers: te.Tensor, name: str) -> te.Tensor:
    """Arranges random numbers of shape (groups, width) row by row in a tensor of ``shape``.

    Surplus numbers are dropped.
    """
    width = long(numbers.shape[1])

    def number_at(flat_index: Any) -> Any:
        return numbers(tirx.floordiv(flat_index, width), tirx.floormod(flat_index, width))

    return each(shape, number_at, name)


def drawn(seed: te.Tensor, shape: Shape, dtype: str, number: Callable[[Any], Any], name: str) -> te.Tensor:
    """Draws a random tensor. Each element is ``number(word)``, where ``word`` is 32 or 64 random bits.

    ``seed`` is two integers or a generator state. ``name`` is the name of the TE stage.
    """
    width = group_width(dtype)

    def values(names: Names, words: Words) -> Words:
        # A Philox block of four 32-bit words has four elements, or two of 64 bits.
        words_of_elements = words if width == 4 else (join_words(*words[:2]), join_words(*words[2:]))
        return tuple(number(word) for word in words_of_elements)

    return in_order(shape, per_block(seed, groups(shape, width), width, values, f"{name}_of_block"), name)


def bits(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    """Draws integers over the whole range of a dtype."""
    return drawn(seed, shape, dtype, lambda word: word.astype(dtype), "random_bits")


def integers(seed: te.Tensor, low_end: te.Tensor, high_end: te.Tensor, *, shape: Shape) -> te.Tensor:
    """Draws random integers in [low_end, high_end): random bits modulo the span, as TensorFlow does.

    The span is the number of integers in the range.
    """
    dtype = str(low_end.dtype)
    # The span may not fit the signed dtype.
    unsigned = f"u{dtype}"
    unsigned_low = low_end().astype(unsigned)
    # An empty range must not divide by 0.
    span = tirx.max(high_end().astype(unsigned) - unsigned_low, tirx.const(1, unsigned))

    def integer_from(word: Any) -> Any:
        return (unsigned_low + tirx.truncmod(word, span)).astype(dtype)

    return drawn(seed, shape, dtype, integer_from, "random_integers")


def uniform(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    """Draws uniform numbers in [0, 1)."""
    if dtype == "float64":
        return drawn(seed, shape, dtype, unit64, "random_uniform")
    return drawn(seed, shape, dtype, lambda word: rounded(unit(word, dtype), dtype), "random_uniform")


def unit(word: Any, dtype: str = "float32") -> Any:
    """Converts the low bits of a random 32-bit word, as many as the mantissa has, to a float32 in [0, 1)."""
    size = MANTISSA_BITS[dtype]
    return (word & u32((1 << size) - 1)).astype("int32").astype("float32") * tirx.const(2.0**-size, "float32")


def unit64(word: Any) -> Any:
    """Converts a random 64-bit word to a float64 in [0, 1).

    The mantissa's 52 bits are the low 20 bits of the word, followed by its high 32 bits.
    """
    mantissa = ((word & u64(0xFFFFF)) << u64(32)) | (word >> u64(32))
    return mantissa.astype("int64").astype("float64") * tirx.const(2.0**-52, "float64")


def rounded(value: Any, dtype: str) -> Any:
    """Rounds a finite float32 to a dtype. A bfloat16 is rounded to the nearest, and ties to the even neighbour.

    A bfloat16 is computed from the bits of the float32, which are bound to a variable. TVM's own cast would use its
    operand several times, and repeat the whole expression with the variables bound in it.
    """
    if dtype != "bfloat16":
        return value.astype(dtype)
    names = Names()  # collects let-bindings
    bits = names(tirx.reinterpret("uint32", value))
    # A bfloat16 is the upper half of a float32. The sum carries into the upper half if the lower half is more than
    # 0x8000, or is 0x8000 and the upper half is odd. The sum could change a NaN, but the value is finite.
    is_odd = (bits >> u32(16)) & u32(1)
    nearest_even = (bits + u32(0x7FFF) + is_odd) >> u32(16)
    return names.around(tirx.reinterpret("bfloat16", nearest_even.astype("uint16")))


# -- normal numbers


def normal(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    """Draws standard normal random numbers, as TensorFlow does.

    A Philox block of random bits gives four numbers, or two of float64.
    """
    width = group_width(dtype)

    def values(names: Names, words: Words) -> Words:
        return tuple(rounded(number, dtype) for number in normals(names, words, dtype))

    return in_order(shape, per_block(seed, groups(shape, width), width, values, "normals"), "random_normal")


def normals(names: Names, words: Words, dtype: str) -> Words:
    """Computes the normal numbers of a Philox block from its words: two of float64, else four of float32."""
    if dtype == "float64":
        return box_muller(names, *(unit64(join_words(*words[i : i + 2])) for i in (0, 2)))
    return tuple(n for i in (0, 2) for n in box_muller(names, *(unit(word) for word in words[i : i + 2])))


def box_muller(names: Names, first: Any, second: Any) -> tuple[Any, Any]:
    """Computes two normal numbers from two uniform ones by the Box-Muller transform. The sine comes first.

    The order is TensorFlow's. Logarithm, sine and cosine are computed in float64 and then rounded, so that eager calls
    give the same bits.

    Args:
      names: binds an expression to a variable, and returns the variable.
      first, second: uniform numbers in [0, 1).
    """
    dtype = scalar.dtype_of(first)
    radians = second.astype("float64") * tirx.const(2 * pi, "float64")
    angle = names(radians.astype(dtype))
    # The logarithm of 0 would be infinite.
    bounded = names(tirx.max(first, tirx.const(BOX_MULLER_EPSILON, dtype)))
    logarithm = fastmath.log_of_normal(names(bounded.astype("float64"))).astype(dtype)
    radius = names(tirx.sqrt(logarithm * tirx.const(-2.0, dtype)))
    sine, cosine = circular.of_small_angle(names, names(angle.astype("float64")))
    return names(sine.astype(dtype) * radius), names(cosine.astype(dtype) * radius)


def truncated_normal(seed: te.Tensor, *, shape: Shape, dtype: str) -> te.Tensor:
    """Draws standard normal random numbers, truncated to (-2, 2) by rejection.

    The elements form groups of as many numbers as a Philox block gives. A group takes numbers from its own blocks,
    which other groups don't use, until it is full. Mostly two blocks suffice. A loop completes the other groups.
    """
    width = group_width(dtype)
    reserved = width * RESERVED_BLOCKS // 4  # blocks of each group
    state = generator_state(seed)

    def value(group: Any, index_in_group: Any) -> Any:
        """Computes one number from the first blocks of its group; NaN if these have too few numbers in the range."""
        names = Names()
        blocks = [block_at(names, state, group * long(reserved) + long(number)) for number in range(TRIED_BLOCKS)]
        numbers = [number for words in blocks for number in normals(names, words, dtype)]
        return names.around(pick(index_in_group, first_within(names, numbers, width)))

    drawn_numbers = compute((groups(shape, width), width), value, "first_within")
    complete_numbers = completed(drawn_numbers, state, shape, reserved)
    if str(complete_numbers.dtype) == dtype:
        return complete_numbers
    return compute(shape, lambda *i: rounded(complete_numbers(*i), dtype), "truncated_normal")


def first_within(names: Names, numbers: Sequence[Any], width: int) -> list[Any]:
    """Selects the first ``width`` normal random numbers that a truncated normal distribution accepts.

    A number is accepted if it is within TRUNCATED_AT of zero. Missing numbers are NaN. The code has no branches.
    """
    dtype = scalar.dtype_of(numbers[0])
    zero = tirx.const(0, dtype)
    one = tirx.const(1, dtype)
    nan = tirx.const(float("nan"), dtype)
    accepted: list[Any] = [nan] * width
    accepted_count: Any = zero
    # The number at ``index`` can only be accepted at positions up to ``index``.
    for index, number in enumerate(numbers):
        is_within = tirx.abs(number) < tirx.const(TRUNCATED_AT, dtype)
        for position in range(min(index + 1, width)):
            is_next = tirx.all(is_within, tirx.EQ(accepted_count, tirx.const(position, dtype)))
            accepted[position] = names(tirx.Select(is_next, number, accepted[position]))
        accepted_count = names(accepted_count + tirx.Select(is_within, one, zero))
    return accepted


def completed(drawn_numbers: te.Tensor, state: te.Tensor, shape: Shape, reserved: int) -> te.Tensor:
    """Copies truncated normal numbers, and draws incomplete groups again.

    A group is incomplete if its last number is NaN. It is drawn again from all of its ``reserved`` Philox blocks.

    Args:
      drawn_numbers: the numbers of all groups, of shape (groups, numbers of a group).
      state: the state of the random generator.
      shape: the shape of the result.
      reserved: the number of Philox blocks of each group.
    """
    count = product(shape)
    width = int(drawn_numbers.shape[1])  # the numbers of a group
    dtype = str(drawn_numbers.dtype)

    def build_ir(ins: Any, outs: Any) -> Any:
        """Emits a loop over groups of numbers. It copies each group, and draws the group again if it is incomplete.

        Args:
          ins, outs: the buffers of the inputs and of the results.
        """
        with IRBuilder() as builder:
            numbers, start, out = map(FlatProxy, (*ins, outs[0]))
            # One task has PART numbers, or fewer at the end.
            with rows(tirx.floordiv(count + (PART - 1), long(PART)), count) as part:
                first = part * PART
                size = tirx.min(count - first, long(PART))
                with T.serial(long(0), size, annotations=INDEPENDENT) as i:
                    out[first + i] = numbers[first + i]
                with T.serial(long(0), tirx.floordiv(size + (width - 1), long(width))) as group:
                    base = first + group * width
                    with T.If(tirx.isnan(numbers[base + (width - 1)])), T.Then():
                        _draw_group(lambda i: start[i], out, base, (count, width, reserved), dtype)
            return builder.get()

    return te.extern([shape], [drawn_numbers, state], build_ir, name="completed", dtype=dtype)


def _draw_group(state: Any, out: Any, base: Any, sizes: tuple[Any, int, int], dtype: str) -> None:
    """Emits a loop that draws Philox block by block until a group of truncated normal numbers is full.

    Numbers beyond the truncation are skipped. Each group has its own blocks, which makes groups independent. The group's
    elements begin at ``base`` in ``out``. ``sizes`` are the number of all elements, a group's width, and a group's number
    of blocks.
    """
    count, width, reserved = sizes
    words, candidate = (
        FlatProxy(T.decl_buffer([size], local_dtype, scope="local"))
        for size, local_dtype in ((4, "uint32"), (1, dtype))
    )
    filled = FlatProxy(T.decl_buffer([1], "int64", scope="local"))
    block_number = FlatProxy(T.decl_buffer([1], "int64", scope="local"))
    filled[0] = long(0)
    block_number[0] = long(0)
    with T.While(tirx.all(filled[0] < width, block_number[0] < reserved)):
        with T.serial(long(0), long(4)) as i:
            names = Names()
            block = tirx.floordiv(base, long(width)) * reserved + block_number[0]
            words[i] = names.around(pick(i, block_at(names, state, block)))
        with T.serial(long(0), long(width)) as i:
            names = Names()
            numbers = normals(names, tuple(words[index] for index in range(4)), dtype)
            candidate[0] = names.around(pick(i, numbers))
            with T.If(tirx.all(tirx.abs(candidate[0]) < tirx.const(TRUNCATED_AT, dtype), filled[0] < width)), T.Then():
                # The last group may have fewer elements.
                with T.If(base + filled[0] < count), T.Then():
                    out[base + filled[0]] = candidate[0]
                filled[0] = filled[0] + long(1)
        block_number[0] = block_number[0] + long(1)


# -- order and states


def permutation(seed: te.Tensor, *, size: Any) -> te.Tensor:
    """Computes a random permutation of the numbers from 0 to size - 1 by a Fisher-Yates shuffle.

    The swaps are sequential, which TE can't express. So a TIR loop is emitted.
    """
    count = long(size)
    words = per_block(seed, groups((size,), 4), 4, lambda _names, words: words, "words")

    def build_ir(ins: Any, outs: Any) -> Any:
        """Emits a Fisher-Yates shuffle of 0, 1, ...: swaps each position with a random one that isn't before it.

        Args:
          ins, outs: the buffers of the inputs and of the results.
        """
        with IRBuilder() as builder:
            random_words, order = flat_buffer(ins[0]), flat_buffer(outs[0])
            with T.serial(long(0), long(1)):
                with T.serial(long(0), count, annotations=INDEPENDENT) as i:
                    order[i] = i
                with T.serial(long(0), count) as i:
                    # A Philox block has four words.
                    block = i >> long(2)
                    position_in_block = i & long(3)
                    word = random_words[block, position_in_block].astype("int64")
                    offset = tirx.truncmod(word, count - i)
                    with T.serial(long(0), long(1)):
                        old = T.Bind(order[i])
                        order[i] = order[i + offset]
                        order[i + offset] = old
            return builder.get()

    return te.extern([[count]], [words], build_ir, name="permutation", dtype="int64")


def skip(state: te.Tensor, *, blocks: Any) -> te.Tensor:
    """Advances a random generator's state by ``blocks`` Philox blocks: adds the number to the 128-bit counter.

    The state's elements are the low and the high half of the counter, and the key, which stays.
    """
    low, high, key = (u64(state(long(index))) for index in range(3))
    increment = u64(long(blocks))
    new_low = low + increment
    new_high = high + carry(low, increment, new_low)

    def word(i: Any) -> Any:
        return pick(i, (new_low, new_high, key)).astype(str(state.dtype))

    return compute((3,), word, "skip")
