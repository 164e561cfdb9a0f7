"""Programs of random numbers, run by tvtf and by TensorFlow: ``sequences(tf)`` gives (name, values) in order."""

from __future__ import annotations

import goldens
import numpy as np

FLOATS = ("float16", "bfloat16", "float32", "float64")
WORDS = ("int32", "int64", "uint32", "uint64")
PROBABILITIES = np.log(np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]], np.float32))


def sequences(tf):
    yield from stateless(tf.random, tf)
    yield from stateful(tf.random, tf)
    yield from generators(tf.random)


def stateless(random, tf):
    for dtype in FLOATS:
        for kind in ("uniform", "normal", "truncated_normal"):
            drawn = getattr(random, f"stateless_{kind}")([5, 3], [7, -3], dtype=dtype)
            yield f"stateless {kind} {dtype}", tf.cast(drawn, "float64")
    for dtype in WORDS:
        yield f"bits {dtype}", random.stateless_uniform([9], [7, -3], None, None, dtype=dtype)
    for dtype in ("int32", "int64"):
        yield f"integers {dtype}", random.stateless_uniform([9], [7, -3], -5, 10, dtype=dtype)
    yield "seed of 64 bits", random.stateless_uniform([3], np.array([2**40 + 5, -(2**41)], np.int64))
    yield "uniform in a range", random.stateless_uniform([3], [1, 2], -2.0, 3.0)
    yield "normal elsewhere", random.stateless_normal([3], [1, 2], 5.0, 0.1)
    yield "categorical", random.stateless_categorical(PROBABILITIES, 6, [1, 2])
    yield "shuffle", random.experimental.stateless_shuffle(np.arange(8), [1, 2])
    yield "split", random.split([1, 2], 3)
    yield "fold in", random.fold_in([1, 2], 5)


def stateful(random, tf):
    random.set_seed(42)
    for kind in ("uniform", "uniform", "normal", "truncated_normal"):
        yield f"global seed: {kind}", getattr(random, kind)([5])
    for shape in ([5], [5], [2, 2]):
        yield f"op seed: uniform {shape}", random.uniform(shape, seed=1)
        yield f"op seed: normal {shape}", random.normal(shape, seed=1)
        yield f"op seed: truncated {shape}", random.truncated_normal(shape, seed=1)
        yield f"op seed: integers {shape}", random.uniform(shape, 0, 100, dtype="int32", seed=1)
    for _ in range(2):
        yield "op seed: shuffle", random.shuffle(np.arange(8), seed=1)
        yield "op seed: rows", random.shuffle(np.arange(8).reshape(4, 2), seed=1)
        yield "op seed: categorical", random.categorical(PROBABILITIES, 5, seed=1)
    random.set_seed(0)
    yield "both seeds 0", random.uniform([3], seed=0)
    yield "float64", random.uniform([3], dtype="float64", seed=2**40)


def generators(random):
    g = random.Generator.from_seed(1)
    yield "generator: uniform", g.uniform([3])
    yield "generator: normal", g.normal([3])
    yield "generator: truncated", g.truncated_normal([3])
    yield "generator: integers", g.uniform([3], 0, 10, dtype="int32")
    yield "generator: bits", g.uniform_full_int([2])
    yield "generator: seeds", g.make_seeds(2)
    yield "generator: split", g.split(2)[1].state
    g.skip(5)
    yield "generator: state", g.state
    g.reset_from_seed(7)
    yield "generator: reset", g.state
    yield "generator: big seed", random.Generator.from_seed(2**70 + 3).state
    yield "generator: list of seeds", random.Generator.from_seed([5, 6]).state


def recorded(tf):
    return [[name, np.asarray(values).dtype.name, np.asarray(values).tolist()] for name, values in sequences(tf)]


def golden():
    """What TensorFlow gave."""
    return goldens.read("random")
