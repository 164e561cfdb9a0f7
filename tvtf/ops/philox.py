"""Philox 4x32-10 in NumPy: random bits as a function of a key and a counter, TensorFlow's own bits for the same seed.

A *generator state* is TensorFlow's: int64[3] (or uint64[3]) holding the low and high half of the 128-bit counter, then the
64-bit key. A *seed* is two integers, from which a state is mixed by Philox itself.

Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011; tensorflow/core/lib/random/philox_random.h,
tensorflow/core/kernels/stateless_random_ops.cc (GenerateKey).
"""

from __future__ import annotations

import numpy as np

from tvtf.core.integers import ceil_div

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
SCRAMBLING_KEY = (0x3EC8F720, 0x02461E29)
LANES = 4
LOW = np.uint64(0xFFFFFFFF)


def blocks(state: np.ndarray, count: int) -> np.ndarray:
    """Returns the first ``count`` blocks of four random words of a generator state, uint32 of shape (count, 4)."""
    return blocks_at(state, np.arange(count, dtype=np.uint64))


def blocks_at(state: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Computes the Philox blocks of random words at the uint64 ``offsets`` from a generator state's counter.

    The result has the shape (offsets, 4): a block has four words of 32 bits.
    """
    counter_low, counter_high, key = state.view(np.uint64)
    low = counter_low + offsets
    # The addition to the counter's low half overflowed where the sum is smaller: carry.
    high = counter_high + (low < offsets)
    counter_words = [low & LOW, low >> np.uint64(32), high & LOW, high >> np.uint64(32)]
    key_words = int(key) & 0xFFFFFFFF, int(key) >> 32
    words = _rounds(counter_words, key_words)
    return np.stack(words, axis=-1).astype(np.uint32)


def _rounds(counter: list[np.ndarray], key: tuple[int, int]) -> list[np.ndarray]:
    """Applies the ten rounds of the random number generator Philox to the four words of each counter.

    The key has two words. All words have 32 bits, stored as uint64, because a uint64 holds the product of two words.
    """
    half = np.uint64(32)
    for round_number in range(ROUNDS):
        key_0, key_1 = (
            np.uint64((key_word + round_number * increment) & 0xFFFFFFFF) for key_word, increment in zip(key, KEY_STEPS)
        )
        word_0, word_1, word_2, word_3 = counter
        product_0 = np.uint64(MULTIPLIERS[0]) * word_0
        product_2 = np.uint64(MULTIPLIERS[1]) * word_2
        new_word_0 = (product_2 >> half) ^ word_1 ^ key_0
        new_word_2 = (product_0 >> half) ^ word_3 ^ key_1
        counter = [new_word_0, product_2 & LOW, new_word_2, product_0 & LOW]
    return counter


def scrambled(seed: np.ndarray) -> np.ndarray:
    """Converts a seed of two integers to a generator state, as TensorFlow does.

    One Philox block of the seed has the random words for the state's key and the high half of its counter.
    """
    key = np.uint64(SCRAMBLING_KEY[0] | SCRAMBLING_KEY[1] << 32)
    # The seed is the counter, and a constant the key.
    seed_state = np.array([*seed.astype(np.int64), key.astype(np.int64)], np.int64)
    (words,) = blocks(seed_state, 1).astype(np.uint64)
    new_key = words[0] | words[1] << np.uint64(32)
    counter_high = words[2] | words[3] << np.uint64(32)
    return np.array([0, counter_high, new_key], np.uint64).view(np.int64)


def state_of(seed: np.ndarray) -> np.ndarray:
    """Returns the generator state of a primitive's ``seed`` input: two integers are scrambled, three are a state."""
    return scrambled(seed) if seed.size == 2 else np.ascontiguousarray(seed)


def words(seed: np.ndarray, count: int) -> np.ndarray:
    """Returns the first ``count`` random words (uint32) of a seed or generator state."""
    return blocks(state_of(seed), ceil_div(count, LANES)).ravel()[:count]


def double_words(seed: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first ``count`` pairs of consecutive random words, as two uint64 vectors."""
    pairs = words(seed, 2 * count).reshape(-1, 2).astype(np.uint64)
    return pairs[:, 0], pairs[:, 1]


def skipped(state: np.ndarray, blocks_used: int) -> np.ndarray:
    """Returns the generator state after ``blocks_used`` blocks were drawn: its 128-bit counter is advanced."""
    advanced = state.view(np.uint64).copy()
    advanced[:1] += np.uint64(blocks_used)
    # Carry from the low to the high half.
    advanced[1:2] += advanced[:1] < np.uint64(blocks_used)
    return advanced.view(state.dtype)
