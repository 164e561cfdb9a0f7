"""Keras's ``fit``, ``evaluate`` and ``predict`` over its backends: ``python -m benchmarks keras``.

A call is one pass over the data, the Python of each step and the callbacks included. Weights are NumPy's, the same everywhere.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.workload import Call, Workload

CLASSES = 10
WORDS = 5000


class Size(NamedTuple):
    """The number of steps of a pass, and of examples in each step."""

    steps: int
    batch: int


class Program(NamedTuple):
    """A Keras model: the function that builds it from ``keras``, and its inputs: floats of a shape, or words (``has_words``)."""

    name: str
    title: str
    build: Callable[[Any], Any]
    shape: tuple[int, ...]
    has_words: bool
    size: Size


def _stack(keras: Any, shape: tuple[int, ...], *layers: Any) -> Any:
    return keras.Sequential([keras.layers.Input(shape), *layers, keras.layers.Dense(CLASSES)])


def _small(keras: Any) -> Any:
    return _stack(keras, (32,), keras.layers.Dense(64, activation="relu"))


def _mlp(keras: Any) -> Any:
    dense = partial(keras.layers.Dense, activation="relu")
    return _stack(keras, (784,), dense(256), dense(256))


def _cnn(keras: Any) -> Any:
    layers = keras.layers
    first, second = (layers.Conv2D(filters, 3, activation="relu") for filters in (32, 64))
    return _stack(keras, (28, 28, 1), first, layers.MaxPooling2D(), second, layers.MaxPooling2D(), layers.Flatten())


def _mobilenet(keras: Any) -> Any:
    return keras.applications.MobileNetV2(
        (96, 96, 3), weights=None, classes=CLASSES, alpha=0.5, classifier_activation=None
    )


def _lstm(keras: Any) -> Any:
    return _stack(keras, (80,), keras.layers.Embedding(WORDS, 64), keras.layers.LSTM(64))


def _transformer(keras: Any) -> Any:
    layers = keras.layers
    words = layers.Input((64,))
    x = layers.Embedding(WORDS, 64)(words)
    for _ in range(2):
        seen = layers.MultiHeadAttention(4, 16)(x, x)
        x = layers.LayerNormalization()(x + seen)
        x = layers.LayerNormalization()(x + layers.Dense(64)(layers.Dense(128, activation="relu")(x)))
    return keras.Model(words, layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x)))


PROGRAMS = (
    Program("small", "a layer of 64", _small, (32,), False, Size(100, 32)),
    Program("mlp", "an MLP, 784-256-256-10", _mlp, (784,), False, Size(50, 128)),
    Program("cnn", "a CNN of 28x28 digits", _cnn, (28, 28, 1), False, Size(10, 64)),
    Program("mobilenet", "MobileNetV2, 96x96", _mobilenet, (96, 96, 3), False, Size(4, 16)),
    Program("lstm", "an LSTM over 80 words", _lstm, (80,), True, Size(10, 32)),
    Program("transformer", "a transformer over 64 words", _transformer, (64,), True, Size(10, 32)),
)


def _model(program: Program, keras: Any) -> Any:
    model = program.build(keras)
    rng = np.random.default_rng(1)
    model.set_weights([0.05 * rng.normal(size=w.shape) + (w if w.ndim < 2 else 0.0) for w in model.get_weights()])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss)
    return model


def _data(program: Program, size: Size) -> tuple[np.ndarray, np.ndarray]:
    rng, shape = np.random.default_rng(0), (size.steps * size.batch, *program.shape)
    x = rng.integers(0, WORDS, shape) if program.has_words else rng.normal(size=shape)
    return x.astype(np.int32 if program.has_words else np.float32), rng.integers(0, CLASSES, shape[0])


def _call(program: Program, method: str, keras: Any, size: Size) -> Call:
    model, (x, y) = _model(program, keras), _data(program, size)
    given: dict[str, Any] = {"batch_size": size.batch, "verbose": 0}
    calls: dict[str, Call] = {
        "fit": lambda: model.fit(x, y, shuffle=False, **given).history["loss"],
        "evaluate": lambda: model.evaluate(x, y, **given),
        "predict": lambda: model.predict(x, **given),
    }
    return calls[method]


def _on(backend: str, _framework: Any, *_options: Any) -> Any:
    """Imports Keras with a backend, which is selected before the import."""
    os.environ["KERAS_BACKEND"] = backend
    return importlib.import_module("keras")


def _workload(program: Program, method: str) -> Workload:
    make = partial(_call, program, method)
    return Workload(
        f"keras_{method}_{program.name}",
        f"Keras's {method}: {program.title}, {program.size.steps} steps of {program.size.batch}",
        program.size,
        Size(2, 4),
        tensorflow=lambda tf, function, size: make(tf.keras, size),
        jax=lambda jax, size: make(_on("jax", jax), size),
        torch=lambda torch, compiled, size: make(_on("torch", torch), size),
        is_eager=True,
        goal="1.5 times the best" if method == "fit" else "",
    )


WORKLOADS = tuple(_workload(program, method) for program in PROGRAMS for method in ("fit", "evaluate", "predict"))
