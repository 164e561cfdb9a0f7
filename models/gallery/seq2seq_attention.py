"""A sequence to sequence network with attention: dates as people write them become dates as machines read them.

An encoder reads "3 march 1987" letter by letter, a decoder writes "1987-03-03". At each letter that it writes, attention looks
back over all that was read and takes a mean of it, so nothing must be squeezed into one vector; where it looked is drawn. In
training the decoder is given the right letters so far; afterwards it reads its own.

Source: Bahdanau, Cho and Bengio 2014, https://arxiv.org/abs/1409.0473
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np

import tvtf as tf
from tvtf.models.pictures import picture

LETTERS = " -0123456789abcdefghijklmnopqrstuvwxyz,>"
"""The first pads what is shorter; the last tells the decoder to begin."""
BEGIN = ">"
READ, WRITTEN = 18, 10
FORMATS = ("%d %B %Y", "%B %d, %Y", "%d %b %y", "%d-%m-%y")
UNITS = 64
BATCH = 64
EXAMPLES = 12000
HELD_OUT = 500


def examples(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Dates of 1970 to 2069 in four ways of writing and in ISO's, as numbers of letters, int32 ``(count, length)``."""
    rng = np.random.default_rng(seed)
    days = [datetime.date(1970, 1, 1) + datetime.timedelta(int(day)) for day in rng.integers(0, 36524, count)]
    # Two digits are a year of 1969 to 2068 by POSIX, which isn't asked of the network: 70 to 99 are of the 20th century.
    read = [
        day.strftime(FORMATS[way]).lower().lstrip("0") for day, way in zip(days, rng.integers(0, len(FORMATS), count))
    ]
    return numbers(read, READ), numbers([day.isoformat() for day in days], WRITTEN)


def numbers(texts: list[str], length: int) -> np.ndarray:
    return np.array([[LETTERS.index(letter) for letter in text.ljust(length)] for text in texts], np.int32)


def shifted(written: np.ndarray) -> np.ndarray:
    """What the decoder is given: each letter one place later, behind the sign to begin."""
    return np.pad(written[:, :-1], ((0, 0), (1, 0)), constant_values=LETTERS.index(BEGIN))


def networks() -> tuple[Any, Any]:
    """The network that is trained, and the same one with where it looked as a second result."""
    layers = tf.keras.layers
    read, written = layers.Input((READ,), dtype="int32"), layers.Input((WRITTEN,), dtype="int32")
    embedding = layers.Embedding(len(LETTERS), 32)
    # Both ways: what a letter means may depend on what comes after it.
    seen, forward, backward = layers.Bidirectional(layers.GRU(UNITS, return_sequences=True, return_state=True))(
        embedding(read)
    )
    start = layers.Dense(UNITS, activation="tanh")(layers.Concatenate()([forward, backward]))
    states = layers.GRU(UNITS, return_sequences=True)(embedding(written), initial_state=start)
    keys = layers.Dense(UNITS)(seen)
    # The decoder's states are compared with keys; the mean is of what was seen.
    attention = layers.AdditiveAttention()
    found, looked = attention([states, seen, keys], return_attention_scores=True)
    logits = layers.Dense(len(LETTERS))(layers.Concatenate()([states, found]))
    return tf.keras.Model([read, written], logits), tf.keras.Model([read, written], [logits, looked])


def write(network: Any, read: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest letters one by one, each given those before it; and where each looked."""
    written = np.full((len(read), WRITTEN), LETTERS.index(BEGIN), np.int32)
    compiled = tf.function(network)
    for place in range(WRITTEN):
        logits, looked = compiled((read, shifted(written)))
        written[:, place] = tf.argmax(logits[:, place], axis=-1).numpy()
    return written, looked.numpy()


def main(folder: Path, steps: int = 500, seed: int = 0) -> dict[str, float]:
    """Trains, writes dates that training never saw, and draws where it looked."""
    tf.keras.utils.set_random_seed(seed)
    read, written = examples(seed, EXAMPLES)
    network, looking = networks()
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(tf.keras.optimizers.Adam(4e-3, clipnorm=1.0), loss)
    training = slice(HELD_OUT, None)
    batches = tf.data.Dataset.from_tensor_slices(((read[training], shifted(written[training])), written[training]))
    batches = batches.shuffle(EXAMPLES, seed=seed).repeat().batch(BATCH).take(steps)
    losses = network.fit(batches, shuffle=False, verbose=0).history["loss"]  # the pipeline shuffles

    predicted, looked = write(looking, read[:HELD_OUT])
    right = (predicted == written[:HELD_OUT]).all(axis=1)
    with picture(folder / "seq2seq_attention.png", columns=3, size=(7.5, 3.0)) as panels:
        for panel, row in zip(panels, range(3)):
            panel.imshow(looked[row].T, cmap="Greys", aspect="auto", interpolation="nearest")
            panel.set_xticks(range(WRITTEN), [LETTERS[letter] for letter in predicted[row]])
            panel.set_yticks(range(READ), [LETTERS[letter] for letter in read[row]])
        panels[1].set_title("letters written (across) look at letters read (down)", fontsize=9)
    return {"loss": float(losses[-1]), "whole dates right": float(right.mean())}
