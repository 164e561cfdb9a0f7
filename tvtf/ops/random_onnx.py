"""Philox as ONNX nodes: words are int64 holding 32 bits, for ONNX runtimes lack arithmetic on unsigned integers.

``emitter`` is the exporter. Vectors hold one word of every block; scalars of the seed are vectors of one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

import numpy as np

from tvtf.core.shape import Dim, TensorType
from tvtf.dtypes import DType, float32, float64, int64, uint64
from tvtf.ops.onnx_nodes import NodeEmitter, RuleTypes
from tvtf.ops.philox import KEY_STEPS, LANES, MULTIPLIERS, ROUNDS, SCRAMBLING_KEY

BOX_MULLER_EPSILON = 1.0e-7
MASK = 0xFFFFFFFF
MANTISSA_BITS = {"float16": 10, "bfloat16": 7, "float32": 23}
Words = Sequence[str]


class Nodes:
    """Emits ONNX nodes for integer arithmetic: ``nodes("Add", name, 1)`` returns the sum's name; ints become constants."""

    def __init__(self, emitter: NodeEmitter) -> None:
        self.emitter = emitter

    def __call__(self, op: str, *inputs: Any, **attrs: Any) -> str:
        return self.emitter.computed(op, [self.name(x) for x in inputs], **attrs)

    def name(self, value: Any) -> str:
        """Returns a tensor's name as it is, and writes an int as a constant vector of one element."""
        return value if isinstance(value, str) else self.emitter.const(np.array([value], np.int64))

    def low(self, value: str) -> str:
        """Emits the lower 32 bits of 64-bit integers."""
        return self("BitwiseAnd", value, MASK)

    def high(self, value: str) -> str:
        """Emits the upper 32 bits of 64-bit integers.

        ONNX shifts only unsigned integers, so the integers are cast to uint64.
        """
        emitter = self.emitter
        shift = emitter.const(np.array([32], np.uint64))
        upper_bits = emitter.computed("BitShift", [emitter.cast(value, uint64), shift], direction="RIGHT")
        return emitter.cast(upper_bits, int64)

    def halves(self, value: str) -> tuple[str, str]:
        """Emits the lower and the upper 32 bits of 64-bit integers."""
        return self.low(value), self.high(value)

    def joined(self, low: str, high: str) -> str:
        """Emits the 64-bit integers of which ``low`` and ``high`` are the 32-bit halves."""
        return self("Add", low, self("Mul", high, 1 << 32))

    def item(self, values: str, index: int) -> str:
        """Emits the element of a vector at an index, as a vector of one element."""
        return self("Gather", values, index)

    def vector(self, *values: Any) -> str:
        """Emits a constant int64 vector."""
        return self.emitter.const(np.array(values, np.int64))


def rounds(nodes: Nodes, counter: Words, key: Words) -> Words:
    """Emits the ten rounds of the random generator Philox, as ``philox._rounds`` computes them.

    A counter has four words of 32 bits, the key two. Returns the words of the random block.
    """
    for round_number in range(ROUNDS):
        round_keys = []
        for key_word, increment in zip(key, KEY_STEPS):
            offset = round_number * increment & MASK
            round_keys.append(nodes.low(nodes("Add", key_word, offset)))
        word_0, word_1, word_2, word_3 = counter
        low_0, high_0 = nodes.halves(nodes("Mul", word_0, MULTIPLIERS[0]))
        low_2, high_2 = nodes.halves(nodes("Mul", word_2, MULTIPLIERS[1]))
        new_word_0 = nodes("BitwiseXor", nodes("BitwiseXor", high_2, word_1), round_keys[0])
        new_word_2 = nodes("BitwiseXor", nodes("BitwiseXor", high_0, word_3), round_keys[1])
        counter = new_word_0, low_2, new_word_2, low_0
    return counter


def state(nodes: Nodes, seed: str, seed_type: TensorType) -> tuple[Words, Words]:
    """Emits ONNX nodes for the four counter words and the two key words of the random generator Philox.

    Args:
      nodes: emits nodes.
      seed: the name of a seed of two integers, or of a generator's state of three, which has the words themselves.
      seed_type: the type of the seed.
    """
    seed_int64 = seed if seed_type.dtype is int64 else nodes.emitter.cast(seed, int64)
    words: list[str] = []
    is_state = seed_type.shape == (3,)
    for i in range(3 if is_state else 2):
        words += nodes.halves(nodes.item(seed_int64, i))
    if is_state:
        return words[:4], words[4:]
    # A seed is scrambled: it is the counter of one Philox block, whose key is a constant.
    scrambled = rounds(nodes, words, [nodes.name(key_word) for key_word in SCRAMBLING_KEY])
    counter = [nodes.name(0), nodes.name(0), *scrambled[2:]]  # its lower half begins at 0
    return counter, scrambled[:2]


def advanced(nodes: Nodes, counter: Words, steps: str) -> Words:
    """Emits ONNX nodes that add the 64-bit integer ``steps`` to Philox's 128-bit counter.

    The counter has four words of 32 bits, the lowest first. ``steps`` must not be negative. Returns the new words.
    """
    sums: list[str] = []
    carry = nodes.name(0)
    addends = [*nodes.halves(steps), nodes.name(0), nodes.name(0)]  # only the two lower words of ``steps`` are not 0
    for word, addend in zip(counter, addends):
        total = nodes("Add", nodes("Add", word, addend), carry)
        sums.append(nodes.low(total))
        carry = nodes.high(total)
    return sums


def blocks(nodes: Nodes, seed: str, seed_type: TensorType, count: str) -> str:
    """Emits ONNX nodes for the random words of a seed's first ``count`` Philox blocks, of shape (count, 4).

    Args:
      nodes: adds nodes to the ONNX graph.
      seed: the name of the seed.
      seed_type: the type of the seed.
      count: the name of the number of blocks, a vector of one element.
    """
    counter, key = state(nodes, seed, seed_type)
    # Block i comes from the counter plus i. All blocks are computed at once, as vectors.
    emitter = nodes.emitter
    start = emitter.const(np.array(0))
    stop = nodes("Squeeze", count)
    step = emitter.const(np.array(1))
    block_numbers = emitter.computed("Range", [start, stop, step])
    counters = advanced(nodes, counter, block_numbers)
    words = rounds(nodes, counters, key)
    columns = [nodes("Unsqueeze", word, nodes.vector(1)) for word in words]
    return nodes("Concat", *columns, axis=1)


def size(nodes: Nodes, shape: Sequence[Dim]) -> str:
    """Emits the number of elements of a tensor of ``shape``, as a vector of one element."""
    return nodes.emitter.computed("ReduceProd", [nodes.emitter.shape(shape)], keepdims=1) if shape else nodes.name(1)


def words_for(nodes: Nodes, inputs: Words, types: Any, shape: Sequence[Dim], width: int) -> str:
    """Emits as many Philox blocks as ``shape`` needs. Each block has the words for ``width`` elements."""
    # The number of elements divided by the width, rounded up.
    count = nodes("Div", nodes("Add", size(nodes, shape), width - 1), width)
    seed, seed_type = inputs[0], types[0][0]
    return blocks(nodes, seed, seed_type, count)


def shaped(nodes: Nodes, values: str, shape: Sequence[Dim], outputs: Words) -> None:
    """Emits the output of a random op: the first elements of ``values``, reshaped to ``shape``.

    ``values`` has more elements than needed if the last Philox block isn't used up.
    """
    flat = nodes("Reshape", values, nodes.vector(-1))
    elements = nodes("Slice", flat, nodes.vector(0), size(nodes, shape), nodes.vector(0))
    nodes.emitter.node("Reshape", [elements, nodes.emitter.shape(shape)], outputs)


def wide_words(nodes: Nodes, words: str) -> str:
    """Emits pairs of 32-bit words as 64-bit integers, shape (pairs,)."""
    pairs = nodes("Reshape", words, nodes.vector(-1, 2))
    return nodes.joined(column(nodes, pairs, 0), column(nodes, pairs, 1))


def column(nodes: Nodes, table: str, index: int) -> str:
    """Emits one column of a matrix, as a vector."""
    return nodes.emitter.computed("Gather", [table, nodes.emitter.const(np.array(index))], axis=1)


def bits(
    emitter: NodeEmitter, inputs: Words, outputs: Words, types: RuleTypes, *, shape: Sequence[Dim], dtype: DType
) -> None:
    """Emits ONNX nodes for ``stateless_random_bits``."""
    nodes = Nodes(emitter)
    # A Philox block of four 32-bit words has four 32-bit or two 64-bit elements.
    elements_per_block = LANES if dtype.size == 4 else 2
    words = words_for(nodes, inputs, types, shape, elements_per_block)
    values = words if dtype.size == 4 else wide_words(nodes, words)
    if dtype is not int64:
        values = emitter.cast(values, dtype)
    shaped(nodes, values, shape, outputs)


def integers(emitter: NodeEmitter, inputs: Words, outputs: Words, types: RuleTypes, *, shape: Sequence[Dim]) -> None:
    """Emits ONNX nodes for ``stateless_random_integers``: random words modulo the span, plus the lower bound.

    The inputs are the seed, the lower and the upper bound.
    """
    node = Nodes(emitter)
    _, (result_type,) = types
    dtype = result_type.dtype
    _, low, high = inputs
    if dtype is not int64:
        low = emitter.cast(low, int64)
        high = emitter.cast(high, int64)
    # A Philox block of four 32-bit words has four 32-bit or two 64-bit elements.
    words = words_for(node, inputs, types, shape, LANES if dtype.size == 4 else 2)
    span = node("Sub", high, low)
    if dtype.size == 4:  # words of 32 bits are positive in int64
        remainder = node("Mod", words, span)
    else:  # words of 64 bits need an unsigned remainder
        unsigned_words = emitter.cast(wide_words(node, words), uint64)
        unsigned_span = emitter.cast(span, uint64)
        unsigned_remainder = node("Mod", unsigned_words, unsigned_span)
        remainder = emitter.cast(unsigned_remainder, int64)
    values = node("Add", remainder, low)
    if dtype is not int64:
        values = emitter.cast(values, dtype)
    shaped(node, values, shape, outputs)


def uniform(
    emitter: NodeEmitter, inputs: Words, outputs: Words, types: RuleTypes, *, shape: Sequence[Dim], dtype: DType
) -> None:
    """Emits ONNX nodes for ``stateless_random_uniform``."""
    nodes = Nodes(emitter)
    # A Philox block has four words of 32 bits; a float64 needs two of them.
    numbers_per_block = 2 if dtype is float64 else LANES
    words = words_for(nodes, inputs, types, shape, numbers_per_block)
    values = unit64(nodes, words) if dtype is float64 else unit(nodes, words, MANTISSA_BITS[dtype.name])
    if dtype not in (float32, float64):
        values = emitter.cast(values, dtype)
    shaped(nodes, values, shape, outputs)


def unit(nodes: Nodes, words: str, mantissa_bits: int) -> str:
    """Emits numbers in [0, 1) made of the words' low bits, as many as the dtype's mantissa has."""
    number = nodes.emitter.cast(nodes("BitwiseAnd", words, (1 << mantissa_bits) - 1), float32)
    return nodes.emitter.computed("Mul", [number, nodes.emitter.const(np.float32(2.0**-mantissa_bits))])


def unit64(nodes: Nodes, words: str) -> str:
    """Emits pairs of words as float64 numbers in [0, 1), shape (pairs,): 52 bits, the upper 20 from the first word."""
    pairs = nodes("Reshape", words, nodes.vector(-1, 2))
    mantissa = nodes.joined(column(nodes, pairs, 1), nodes("BitwiseAnd", column(nodes, pairs, 0), 0xFFFFF))
    return nodes.emitter.computed(
        "Mul", [nodes.emitter.cast(mantissa, float64), nodes.emitter.const(np.float64(2.0**-52))]
    )


def normal(
    emitter: NodeEmitter, inputs: Words, outputs: Words, types: RuleTypes, *, shape: Sequence[Dim], dtype: DType
) -> None:
    """Emits ONNX nodes for ``stateless_random_normal``: uniform random numbers and the Box-Muller transform.

    Other dtypes than float64 are computed in float32 and cast at the end.
    """
    nodes = Nodes(emitter)
    compute_dtype = float64 if dtype is float64 else float32
    # A Philox block has four words of 32 bits; a float64 needs two of them.
    numbers_per_block = 2 if dtype is float64 else LANES
    words = words_for(nodes, inputs, types, shape, numbers_per_block)
    uniform_numbers = unit64(nodes, words) if dtype is float64 else unit(nodes, words, MANTISSA_BITS["float32"])
    pairs = nodes("Reshape", uniform_numbers, nodes.vector(-1, 2))
    values = box_muller(nodes, column(nodes, pairs, 0), column(nodes, pairs, 1), compute_dtype)
    if dtype is not compute_dtype:
        values = emitter.cast(values, dtype)
    shaped(nodes, values, shape, outputs)


def box_muller(nodes: Nodes, first: str, second: str, dtype: DType) -> str:
    """Emits the Box-Muller transform: pairs of normal numbers from pairs of uniform numbers.

    Functions are computed in float64, then rounded. ``random._box_muller`` does the same, so eager calls give the same
    bits.

    Args:
      nodes: emits nodes.
      first, second: the names of the uniform numbers.
      dtype: the dtype of the numbers.
    """
    emitter = nodes.emitter

    def cast(value: str, to: DType) -> str:  # nothing to do where all is float64
        return value if dtype is float64 else emitter.cast(value, to)

    radians = emitter.computed("Mul", [cast(second, float64), emitter.const(np.float64(2 * pi))])
    angle = cast(cast(radians, dtype), float64)
    epsilon = emitter.const(np.array(BOX_MULLER_EPSILON, dtype.np))
    positive = emitter.computed("Max", [first, epsilon])  # the logarithm of 0 would be infinite
    logarithm = cast(emitter.computed("Log", [cast(positive, float64)]), dtype)
    minus_two = emitter.const(np.array(-2.0, dtype.np))
    radius = emitter.computed("Sqrt", [emitter.computed("Mul", [logarithm, minus_two])])
    columns = []
    for function in ("Sin", "Cos"):
        value = cast(emitter.computed(function, [angle]), dtype)
        columns.append(nodes("Unsqueeze", emitter.computed("Mul", [value, radius]), nodes.vector(1)))
    return nodes("Concat", *columns, axis=1)


def skip(emitter: NodeEmitter, inputs: Words, outputs: Words, types: RuleTypes, *, blocks: Dim) -> None:
    """Emits ONNX nodes for ``philox_skip``, which advances a random generator's state by a number of Philox blocks.

    The state has three integers of 64 bits: the low and high half of the counter, and the key.
    """
    nodes = Nodes(emitter)
    (generator_state,) = inputs
    (state_type,), _ = types
    dtype = state_type.dtype
    if dtype is not int64:
        generator_state = emitter.cast(generator_state, int64)
    old_low_half = nodes.item(generator_state, 0)
    old_high_half = nodes.item(generator_state, 1)
    counter = [*nodes.halves(old_low_half), *nodes.halves(old_high_half)]
    advanced_counter = advanced(nodes, counter, emitter.shape((blocks,)))
    low_half = nodes.joined(*advanced_counter[:2])
    high_half = nodes.joined(*advanced_counter[2:])
    key = nodes.item(generator_state, 2)
    new_state = nodes("Concat", low_half, high_half, key, axis=0)
    if dtype is not int64:
        new_state = emitter.cast(new_state, dtype)
    emitter.node("Identity", [new_state], outputs)
