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
from tvtf.ops.philox import KEY_STEPS, LANES, MULTIPLIERS, ROUNDS, SCRAMBLING_KEY

BOX_MULLER_EPSILON = 1.0e-7
MASK = 0xFFFFFFFF
MANTISSA_BITS = {"float16": 10, "bfloat16": 7, "float32": 23}
Words = Sequence[str]


class Nodes:
    """Writes arithmetic on the exporter's tensor names; ints become constants."""

    def __init__(self, emitter: Any) -> None:
        self.emitter = emitter

    def __call__(self, op: str, *inputs: Any, **attrs: Any) -> str:
        return self.emitter.computed(op, [self.name(x) for x in inputs], **attrs)

    def name(self, value: Any) -> str:
        return value if isinstance(value, str) else self.emitter.const(np.array([value], np.int64))

    def low(self, value: str) -> str:
        return self("BitwiseAnd", value, MASK)

    def high(self, value: str) -> str:
        """Writes the upper half of 64 bits; ONNX shifts only unsigned integers."""
        shift = self.emitter.const(np.array([32], np.uint64))
        return self.emitter.cast(
            self.emitter.computed("BitShift", [self.emitter.cast(value, uint64), shift], direction="RIGHT"), int64
        )

    def halves(self, value: str) -> tuple[str, str]:
        return self.low(value), self.high(value)

    def joined(self, low: str, high: str) -> str:
        return self("Add", low, self("Mul", high, 1 << 32))

    def item(self, values: str, index: int) -> str:
        return self("Gather", values, index)

    def vector(self, *values: Any) -> str:
        return self.emitter.const(np.array(values, np.int64))


def rounds(n: Nodes, counter: Words, key: Words) -> Words:
    """Writes Philox's ten rounds on a counter's four words."""
    for step in range(ROUNDS):
        keys = [n.low(n("Add", k, step * w & MASK)) for k, w in zip(key, KEY_STEPS)]
        (low_a, high_a), (low_b, high_b) = (n.halves(n("Mul", counter[i], m)) for m, i in zip(MULTIPLIERS, (0, 2)))
        first = n("BitwiseXor", n("BitwiseXor", high_b, counter[1]), keys[0])
        third = n("BitwiseXor", n("BitwiseXor", high_a, counter[3]), keys[1])
        counter = first, low_b, third, low_a
    return counter


def state(n: Nodes, seed: str, seed_type: TensorType) -> tuple[Words, Words]:
    """Writes the counter's four words and the key's two, from a seed or a generator state."""
    wide = seed if seed_type.dtype is int64 else n.emitter.cast(seed, int64)
    if seed_type.shape == (3,):
        parts = [half for i in range(3) for half in n.halves(n.item(wide, i))]
        return parts[:4], parts[4:]
    seeds = [half for i in range(2) for half in n.halves(n.item(wide, i))]
    mixed = rounds(n, seeds, [n.name(k) for k in SCRAMBLING_KEY])
    return [n.name(0), n.name(0), *mixed[2:]], mixed[:2]


def advanced(n: Nodes, counter: Words, steps: str) -> Words:
    """Writes the counter advanced by ``steps`` (not negative), with carries from word to word."""
    moved: list[str] = []
    carry = n.name(0)
    added = [*n.halves(steps), n.name(0), n.name(0)]
    for word, step in zip(counter, added):
        total = n("Add", n("Add", word, step), carry)
        moved.append(n.low(total))
        carry = n.high(total)
    return moved


def blocks(n: Nodes, seed: str, seed_type: TensorType, count: str) -> str:
    """Writes the words of ``count`` blocks, shape (count, 4)."""
    counter, key = state(n, seed, seed_type)
    at = n.emitter.computed("Range", [n.emitter.const(np.array(0)), n("Squeeze", count), n.emitter.const(np.array(1))])
    words = rounds(n, advanced(n, counter, at), key)
    return n("Concat", *(n("Unsqueeze", word, n.vector(1)) for word in words), axis=1)


def size(n: Nodes, shape: Sequence[Dim]) -> str:
    """Writes the number of elements, shape (1,)."""
    return n.emitter.computed("ReduceProd", [n.emitter.shape(shape)], keepdims=1) if shape else n.name(1)


def words_for(n: Nodes, inputs: Words, types: Any, shape: Sequence[Dim], width: int) -> str:
    """Writes as many blocks as ``shape`` needs at ``width`` elements a block."""
    count = n("Div", n("Add", size(n, shape), width - 1), width)
    return blocks(n, inputs[0], types[0][0], count)


def shaped(n: Nodes, values: str, shape: Sequence[Dim], outputs: Words) -> None:
    """Writes the first values in the result's shape."""
    flat = n("Reshape", values, n.vector(-1))
    cut = n("Slice", flat, n.vector(0), size(n, shape), n.vector(0))
    n.emitter.node("Reshape", [cut, n.emitter.shape(shape)], outputs)


def wide_words(n: Nodes, words: str) -> str:
    """Writes pairs of words as 64-bit integers, shape (pairs,)."""
    pairs = n("Reshape", words, n.vector(-1, 2))
    return n.joined(column(n, pairs, 0), column(n, pairs, 1))


def column(n: Nodes, table: str, index: int) -> str:
    return n.emitter.computed("Gather", [table, n.emitter.const(np.array(index))], axis=1)


def bits(emitter: Any, inputs: Words, outputs: Words, types: Any, *, shape: Sequence[Dim], dtype: DType) -> None:
    """Writes ``stateless_random_bits``."""
    n = Nodes(emitter)
    words = words_for(n, inputs, types, shape, LANES if dtype.size == 4 else 2)
    values = words if dtype.size == 4 else wide_words(n, words)
    shaped(n, values if dtype is int64 else emitter.cast(values, dtype), shape, outputs)


def integers(emitter: Any, inputs: Words, outputs: Words, types: Any, *, shape: Sequence[Dim]) -> None:
    """Writes ``stateless_random_integers``: raw words modulo the span."""
    n, dtype = Nodes(emitter), types[1][0].dtype
    low, high = (x if dtype is int64 else emitter.cast(x, int64) for x in inputs[1:])
    words = words_for(n, inputs, types, shape, LANES if dtype.size == 4 else 2)
    span = n("Sub", high, low)
    if dtype.size == 4:
        rest = n("Mod", words, span)
    else:
        rest = emitter.cast(n("Mod", emitter.cast(wide_words(n, words), uint64), emitter.cast(span, uint64)), int64)
    values = n("Add", rest, low)
    shaped(n, values if dtype is int64 else emitter.cast(values, dtype), shape, outputs)


def uniform(emitter: Any, inputs: Words, outputs: Words, types: Any, *, shape: Sequence[Dim], dtype: DType) -> None:
    """Writes ``stateless_random_uniform``."""
    n = Nodes(emitter)
    words = words_for(n, inputs, types, shape, 2 if dtype is float64 else LANES)
    values = unit64(n, words) if dtype is float64 else unit(n, words, MANTISSA_BITS[dtype.name])
    shaped(n, values if dtype in (float32, float64) else emitter.cast(values, dtype), shape, outputs)


def unit(n: Nodes, words: str, mantissa: int) -> str:
    """Writes numbers in [0, 1) from the words' low bits."""
    number = n.emitter.cast(n("BitwiseAnd", words, (1 << mantissa) - 1), float32)
    return n.emitter.computed("Mul", [number, n.emitter.const(np.float32(2.0**-mantissa))])


def unit64(n: Nodes, words: str) -> str:
    """Writes pairs of words as float64 in [0, 1), shape (pairs,)."""
    pairs = n("Reshape", words, n.vector(-1, 2))
    mantissa = n.joined(column(n, pairs, 1), n("BitwiseAnd", column(n, pairs, 0), 0xFFFFF))
    return n.emitter.computed("Mul", [n.emitter.cast(mantissa, float64), n.emitter.const(np.float64(2.0**-52))])


def normal(emitter: Any, inputs: Words, outputs: Words, types: Any, *, shape: Sequence[Dim], dtype: DType) -> None:
    """Writes ``stateless_random_normal``."""
    n = Nodes(emitter)
    words = words_for(n, inputs, types, shape, 2 if dtype is float64 else LANES)
    units = unit64(n, words) if dtype is float64 else unit(n, words, MANTISSA_BITS["float32"])
    pairs = n("Reshape", units, n.vector(-1, 2))
    values = box_muller(n, column(n, pairs, 0), column(n, pairs, 1), float64 if dtype is float64 else float32)
    shaped(n, values if dtype in (float32, float64) else emitter.cast(values, dtype), shape, outputs)


def box_muller(n: Nodes, first: str, second: str, dtype: DType) -> str:
    """Writes pairs of normal numbers; functions are computed in float64 and rounded, as eager calls do."""
    emitter = n.emitter

    def cast(value: str, to: DType) -> str:
        return value if dtype is float64 else emitter.cast(value, to)

    turned = emitter.computed("Mul", [cast(second, float64), emitter.const(np.float64(2 * pi))])
    angle = cast(cast(turned, dtype), float64)
    bounded = emitter.computed("Max", [first, emitter.const(np.array(BOX_MULLER_EPSILON, dtype.np))])
    log = cast(emitter.computed("Log", [cast(bounded, float64)]), dtype)
    radius = emitter.computed("Sqrt", [emitter.computed("Mul", [log, emitter.const(np.array(-2.0, dtype.np))])])
    waves = [cast(emitter.computed(wave, [angle]), dtype) for wave in ("Sin", "Cos")]
    coordinates = [emitter.computed("Mul", [wave, radius]) for wave in waves]
    return n("Concat", *(n("Unsqueeze", t, n.vector(1)) for t in coordinates), axis=1)


def skip(emitter: Any, inputs: Words, outputs: Words, types: Any, *, blocks: Dim) -> None:
    """Writes ``philox_skip``."""
    n, dtype = Nodes(emitter), types[0][0].dtype
    wide = inputs[0] if dtype is int64 else emitter.cast(inputs[0], int64)
    counter = [half for i in range(2) for half in n.halves(n.item(wide, i))]
    moved = advanced(n, counter, emitter.shape((blocks,)))
    parts = [n.joined(*moved[:2]), n.joined(*moved[2:]), n.item(wide, 2)]
    state = n("Concat", *parts, axis=0)
    emitter.node("Identity", [state if dtype is int64 else emitter.cast(state, dtype)], outputs)
