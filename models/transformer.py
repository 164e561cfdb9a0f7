"""A small decoder-only transformer (Vaswani et al. 2017), with normalisation before each part (Xiong et al. 2020)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import tvtf as tf
from tvtf.models.layers import Dense, LayerNorm

MASKED = -1e9
"""Added to a score that must not count: its exponential is zero in float32."""


class Sizes(NamedTuple):
    """The sizes that determine a transformer's shape."""

    symbols: int
    context: int = 128
    width: int = 128
    heads: int = 4
    blocks: int = 3


class Attention(tf.Module):
    """Causal self-attention: float32 ``(n, time, width)`` to the same; a position sees itself and earlier positions."""

    def __init__(self, rng: np.random.Generator, sizes: Sizes, name: str | None = None) -> None:
        super().__init__(name=name)
        self.heads = sizes.heads
        self.mixed = Dense(rng, sizes.width, 3 * sizes.width, name="mixed")
        self.out = Dense(rng, sizes.width, sizes.width, name="out")

    def __call__(self, x: Any, mask: Any) -> Any:
        query, key, value = (self._by_head(part) for part in tf.split(self.mixed(x), 3, axis=-1))
        scores = tf.matmul(query, key, transpose_b=True) * (1.0 / math.sqrt(query.shape[-1])) + mask
        return self.out(self._joined(tf.matmul(tf.nn.softmax(scores), value)))

    def _by_head(self, x: Any) -> Any:
        """``(n, time, width)`` to ``(n, heads, time, width / heads)``."""
        _, time, width = x.shape
        return tf.transpose(tf.reshape(x, [-1, time, self.heads, width // self.heads]), [0, 2, 1, 3])

    @staticmethod
    def _joined(x: Any) -> Any:
        """``(n, heads, time, width / heads)`` to ``(n, time, width)``."""
        _, heads, time, width = x.shape
        return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [-1, time, heads * width])


class Block(tf.Module):
    """Attention, then two dense layers of four times the width, each with a residual connection."""

    def __init__(self, rng: np.random.Generator, sizes: Sizes, name: str | None = None) -> None:
        """Creates the layers: attention, two dense layers, and a norm before each part."""
        super().__init__(name=name)
        self.before_attention = LayerNorm(sizes.width, name="before_attention")
        self.attention = Attention(rng, sizes, name="attention")
        self.before_dense = LayerNorm(sizes.width, name="before_dense")
        self.wide = Dense(rng, sizes.width, 4 * sizes.width, name="wide")
        self.narrow = Dense(rng, 4 * sizes.width, sizes.width, name="narrow")

    def __call__(self, x: Any, mask: Any) -> Any:
        x = x + self.attention(self.before_attention(x), mask)
        return x + self.narrow(tf.nn.relu(self.wide(self.before_dense(x))))


class Transformer(tf.Module):
    """Tokens, int32 ``(n, time)``, to logits of the token after each, float32 ``(n, time, symbols)``."""

    def __init__(self, seed: int, sizes: Sizes) -> None:
        """Creates the weights at random: embeddings of tokens and positions, the blocks, and the layer for the logits."""
        super().__init__(name="transformer")
        rng = np.random.default_rng(seed)
        self.sizes = sizes
        self.embedding = tf.Variable(normal(rng, (sizes.symbols, sizes.width)), name="embedding")
        self.positions = tf.Variable(normal(rng, (sizes.context, sizes.width)), name="positions")
        self.blocks = [Block(rng, sizes, name=f"block_{i}") for i in range(sizes.blocks)]
        self.last = LayerNorm(sizes.width, name="last")
        self.head = Dense(rng, sizes.width, sizes.symbols, name="head")
        self.mask = causal_mask(sizes.context)

    def __call__(self, tokens: Any) -> Any:
        x = tf.gather(self.embedding, tokens) + self.positions
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.last(x))


def causal_mask(time: int) -> Any:
    """Returns the mask that is added to scores, float32 ``(time, time)``: 0 up to a position, very negative after it.

    >>> causal_mask(2).numpy().tolist()
    [[0.0, -1000000000.0], [0.0, 0.0]]
    """
    return tf.constant(np.triu(np.full((time, time), MASKED, np.float32), k=1))


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Initial embeddings: of standard deviation 0.02, as in GPT-2 (Radford et al. 2019)."""
    return rng.normal(0.0, 0.02, shape).astype(np.float32)
