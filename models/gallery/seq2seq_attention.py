"""A sequence-to-sequence network with attention that converts written dates to ISO format.

An encoder reads "3 march 1987" letter by letter, a decoder writes "1987-03-03". For each letter that it writes, attention
computes a weighted mean over the encoder's outputs, so that the input need not fit into one vector; the weights are drawn.
In training the decoder's inputs are the right previous letters; afterwards they are its own.

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
"""The alphabet: the first letter is padding, the last one starts the decoder."""
BEGIN = ">"
READ, WRITTEN = 18, 10
FORMATS = ("%d %B %Y", "%B %d, %Y", "%d %b %y", "%d-%m-%y")
UNITS = 64
BATCH = 64
EXAMPLES = 12000
HELD_OUT = 500


def examples(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws random dates of 1970 to 2069; returns them in one of four notations, and in ISO's.

    Both are indices of letters, int32 ``(count, length)``.
    """
    rng = np.random.default_rng(seed)
    days = [datetime.date(1970, 1, 1) + datetime.timedelta(int(day)) for day in rng.integers(0, 36524, count)]
    # The dates span one century, so that two-digit years are unambiguous: 70 to 99 are of the 20th.
    read = [
        day.strftime(FORMATS[notation]).lower().lstrip("0")
        for day, notation in zip(days, rng.integers(0, len(FORMATS), count))
    ]
    return numbers(read, READ), numbers([day.isoformat() for day in days], WRITTEN)


def numbers(texts: list[str], length: int) -> np.ndarray:
    return np.array([[LETTERS.index(letter) for letter in text.ljust(length)] for text in texts], np.int32)


def shifted(written: np.ndarray) -> np.ndarray:
    """Returns the decoder's inputs: the letters moved by one position, after the start letter."""
    return np.pad(written[:, :-1], ((0, 0), (1, 0)), constant_values=LETTERS.index(BEGIN))


def networks() -> tuple[Any, Any]:
    """Returns an encoder-decoder network with attention for training, and the same one with its attention weights, too."""
    layers = tf.keras.layers
    read, written = layers.Input((READ,), dtype="int32"), layers.Input((WRITTEN,), dtype="int32")
    embedding = layers.Embedding(len(LETTERS), 32)
    # Bidirectional: a letter's meaning may depend on what comes after it.
    encoder_outputs, forward, backward = layers.Bidirectional(
        layers.GRU(UNITS, return_sequences=True, return_state=True)
    )(embedding(read))
    start = layers.Dense(UNITS, activation="tanh")(layers.Concatenate()([forward, backward]))
    states = layers.GRU(UNITS, return_sequences=True)(embedding(written), initial_state=start)
    keys = layers.Dense(UNITS)(encoder_outputs)
    # Queries are the decoder's states, values the encoder's outputs, and keys a projection of these.
    attention = layers.AdditiveAttention()
    context, attention_weights = attention([states, encoder_outputs, keys], return_attention_scores=True)
    logits = layers.Dense(len(LETTERS))(layers.Concatenate()([states, context]))
    return tf.keras.Model([read, written], logits), tf.keras.Model([read, written], [logits, attention_weights])


def write(network: Any, read: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Converts dates by the network, greedily, one letter at a time; returns the letters and the attention weights."""
    written = np.full((len(read), WRITTEN), LETTERS.index(BEGIN), np.int32)
    compiled = tf.function(network)
    for position in range(WRITTEN):
        logits, attention_weights = compiled((read, shifted(written)))
        written[:, position] = tf.argmax(logits[:, position], axis=-1).numpy()
    return written, attention_weights.numpy()


def main(folder: Path, steps: int = 500, seed: int = 0) -> dict[str, float]:
    """Trains a network to convert dates to ISO's notation, converts held-out ones, and draws the attention weights.

    Returns the final loss and the fraction of dates that are right.
    """
    tf.keras.utils.set_random_seed(seed)
    read, written = examples(seed, EXAMPLES)
    network, network_with_attention = networks()
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(tf.keras.optimizers.Adam(4e-3, clipnorm=1.0), loss)
    training = slice(HELD_OUT, None)
    batches = tf.data.Dataset.from_tensor_slices(((read[training], shifted(written[training])), written[training]))
    batches = batches.shuffle(EXAMPLES, seed=seed).repeat().batch(BATCH).take(steps)
    losses = network.fit(batches, shuffle=False, verbose=0).history["loss"]  # the pipeline shuffles

    predicted, attention_weights = write(network_with_attention, read[:HELD_OUT])
    right = (predicted == written[:HELD_OUT]).all(axis=1)
    with picture(folder / "seq2seq_attention.png", columns=3, size=(7.5, 3.0)) as panels:
        for panel, row in zip(panels, range(3)):
            panel.imshow(attention_weights[row].T, cmap="Greys", aspect="auto", interpolation="nearest")
            panel.set_xticks(range(WRITTEN), [LETTERS[letter] for letter in predicted[row]])
            panel.set_yticks(range(READ), [LETTERS[letter] for letter in read[row]])
        panels[1].set_title("letters written (across) look at letters read (down)", fontsize=9)
    return {"loss": float(losses[-1]), "whole dates right": float(right.mean())}
