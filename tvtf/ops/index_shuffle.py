"""``tf.random.experimental.index_shuffle``: positions in a shuffled sequence, each computed alone by a block cipher.

The cipher is Simon with few rounds; a position it maps outside the sequence is mapped again until it is inside.

Sources: Beaulieu and others, The Simon and Speck families of lightweight block ciphers, 2013 (https://eprint.iacr.org/2013/404);
Black and Rogaway, Ciphers with arbitrary finite domains, 2002; ``tensorflow/core/kernels/random_index_shuffle.cc``
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import TensorType, brackets, broadcast_shapes
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import int32, int64, uint32, uint64
from tvtf.ops.host import host_primitive
from tvtf.ops.rules import bind, require_dtype

Words = np.ndarray[Any, Any]

INTEGERS: Final = (int32, uint32, int64, uint64)
FEWEST_BITS: Final = 8
FEW: Final = 1 << 12
"""Of a sequence with fewer positions most blocks are outside: a table of all 2**16 blocks is computed once, in 15 ms."""
SEQUENCE: Final = 0x7369F885192C0EF5
"""The first of Simon's constant sequences, one bit for each round."""
FIRST_KEY: Final = 498247692
"""The first word of the cipher's key: TensorFlow's seeds have only two numbers, and the key needs three."""


class _Cipher:
    """Simon on blocks of twice ``bits`` bits, with a key and a block size for each element of an array."""

    def __init__(self, bits: Words, keys: list[Words], rounds: int) -> None:
        """Expands the key to a key for each round, by Simon's key schedule for keys of three words.

        Args:
          bits: half of the block size, for each element.
          keys: the three words of the key, for each element.
          rounds: the number of round keys, which are used in pairs.
        """
        self.bits = bits
        self.mask = (np.uint64(1) << bits) - np.uint64(1)
        keys = [key & self.mask for key in keys]
        for i in range(3, rounds):
            step = np.uint64(0xFFFFFFFC ^ SEQUENCE >> (i - 3) & 1) & self.mask
            keys.append(step ^ keys[i - 3] ^ self._rotated(keys[-1], -3) ^ self._rotated(keys[-1], -4))
        self.rounds = list(zip(keys[:rounds:2], keys[1:rounds:2]))

    def _rotated(self, word: Words, by: int) -> Words:
        """Rotates the bits of half a block to the left, or to the right for a negative number."""
        left = np.uint64(by) if by > 0 else self.bits - np.uint64(-by)
        left = np.where(left >= self.bits, left - self.bits, left)
        return (word << left | word >> (self.bits - left)) & self.mask

    def _mixed(self, word: Words) -> Words:
        return self._rotated(word, 1) & self._rotated(word, 8) ^ self._rotated(word, 2)

    def encrypt(self, blocks: Words) -> Words:
        """Encrypts blocks by a Feistel network: each round changes one half of a block by a function of the other."""
        left = blocks >> self.bits & self.mask
        right = blocks & self.mask
        for first, second in self.rounds:
            left = left ^ self._mixed(right) ^ first
            right = right ^ self._mixed(left) ^ second
        return left << self.bits | right


def _half_block_bits(last: Words) -> Words:
    """Returns half of the cipher's block size: half of the bits of numbers below ``last``, at least FEWEST_BITS."""
    bits = np.array([(int(element) - 1).bit_length() for element in last.flat], np.uint64).reshape(last.shape)
    return np.maximum((bits + np.uint64(1)) // np.uint64(2), np.uint64(FEWEST_BITS))


def _shuffled(index: np.ndarray, seed: np.ndarray, last: np.ndarray, *, rounds: int) -> np.ndarray:
    """Computes the positions of indices in a random permutation of ``[0, ..., last]``.

    A block cipher with the key ``seed`` encrypts the indices. A result above ``last`` is encrypted again until it is in
    range: the mapping then still is a permutation.
    """
    # The seed has three integers.
    key_words = [seed[..., i].astype(np.uint32).astype(np.uint64) for i in range(3)]
    indices, limit, *keys = np.broadcast_arrays(index.astype(np.uint64), last.astype(np.uint64), *key_words)
    if (indices > limit).any():
        first_invalid = np.argmax(indices > limit)
        message = f"max_index must be >= index, but {limit.flat[first_invalid]} < {indices.flat[first_invalid]}"
        raise ArgumentError(message)
    is_short = limit.size and limit.flat[0] < FEW
    # One limit and one key for all indices.
    if is_short and all((words == words.flat[0]).all() for words in (limit, *keys)):
        positions = _of_one_key(indices, int(limit.flat[0]), [key.flat[0] for key in keys], rounds)
        return positions.astype(index.dtype)
    cipher = _Cipher(_half_block_bits(limit), list(keys), rounds)
    indices = cipher.encrypt(indices)
    is_outside = indices > limit
    while is_outside.any():
        indices = np.where(is_outside, cipher.encrypt(indices), indices)
        is_outside = indices > limit
    return indices.astype(index.dtype)


def _of_one_key(indices: Words, limit: int, keys: list[Any], rounds: int) -> Words:
    """Computes the positions of indices in one short permutation, by a table of all blocks and their encryptions.

    A position above ``limit`` is encrypted again until it is in range.
    """
    cipher = _Cipher(np.array([FEWEST_BITS], np.uint64), [np.array([key]) for key in keys], rounds)
    all_blocks = np.arange(1 << 2 * FEWEST_BITS, dtype=np.uint64)
    encrypted = cipher.encrypt(all_blocks).tolist()
    distinct_indices, number_of_index = np.unique(indices, return_inverse=True)
    positions = []
    for index in distinct_indices.tolist():
        position = encrypted[index]
        while position > limit:
            position = encrypted[position]
        positions.append(position)
    return np.array(positions, np.uint64)[number_of_index].reshape(indices.shape)


def _type(index: TensorType, seed: TensorType, last: TensorType, *, rounds: int) -> TensorType:
    """Checks the indices, seeds and largest indices of random_index_shuffle, and returns the type of the result.

    Each operand is a single item or a batch of n items.

    Args:
      index: the type of the indices to shuffle.
      seed: the type of the seeds, of three integers each.
      last: the type of the largest indices.
      rounds: the number of rounds of the cipher.
    """
    # ``rounds`` isn't needed here, but all rules of the op receive it
    for operand, role in ((index, "index"), (seed, "seed"), (last, "max_index")):
        require_dtype(operand, INTEGERS, role)
    if len(seed.shape) not in (1, 2) or seed.shape[-1] != 3:
        raise ArgumentError(
            f"Seed must be a vector of size [3] or a matrix of size [n, 3] but got {brackets(seed.shape)}."
        )
    index_shape = broadcast_shapes(index.shape, last.shape) or ()
    shape = broadcast_shapes(index_shape, seed.shape[:-1])
    if shape is None or len(shape) > 1:
        raise ArgumentError("Index, seed and max_index must be scalars or vectors of one size.")
    return TensorType(shape, index.dtype)


@host_primitive(type=_type, numpy=_shuffled, why_not={"vjp": "integers"})
def random_index_shuffle(index: Tensor, seed: Tensor, max_index: Tensor, rounds: int = 4) -> Any:
    """Computes the positions of indices in a shuffled ``[0, ..., max_index]``."""
    if rounds < 4 or rounds % 2:
        raise ArgumentError(f"Rounds must be >= 4 and even but got {rounds}.")
    return (index, seed, max_index), {"rounds": rounds}


@export("random_index_shuffle")
def shuffled_index(index: Any, seed: Any, max_index: Any, rounds: int = 4, name: str | None = None) -> Tensor:
    """Returns the position of each ``index`` in a random permutation of ``[0, ..., max_index]``.

    Args:
      index: integer scalar or vector of numbers from 0 to ``max_index``.
      seed: integers of shape (3,) or (n, 3).
      max_index: integer scalar or vector.
      rounds: number of rounds of the block cipher that permutes; even, at least 4.

    >>> import tvtf as tf
    >>> sorted(tf.random_index_shuffle(tf.range(5), [1, 2, 3], 4).numpy().tolist())
    [0, 1, 2, 3, 4]

    Source: https://www.tensorflow.org/api_docs/python/tf/random_index_shuffle
    """
    x = convert_to_tensor(index)
    return bind.random_index_shuffle(x, convert_to_tensor(seed), convert_to_tensor(max_index, x.dtype), rounds=rounds)


@export("random.experimental.index_shuffle")
def index_shuffle(index: Any, seed: Any, max_index: Any) -> Tensor:
    """Returns the position of each ``index`` in a permutation of ``[0, ..., max_index]``, the same as TensorFlow's.

    Args:
      index: integer scalar or vector of numbers from 0 to ``max_index``.
      seed: integers of shape (2,).
      max_index: integer scalar or vector.

    >>> import tvtf as tf
    >>> tf.random.experimental.index_shuffle(tf.range(4), [5, 9], 3).numpy().tolist()
    [2, 0, 1, 3]

    Source: https://www.tensorflow.org/api_docs/python/tf/random/experimental/index_shuffle
    """
    seed = convert_to_tensor(seed)
    key = bind.concat(convert_to_tensor([FIRST_KEY], seed.dtype), seed, axis=0)  # the cipher's key has three words
    return shuffled_index(index, key, max_index)
