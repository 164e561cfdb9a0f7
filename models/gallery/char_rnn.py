"""A character-level recurrent network that generates Python code after training on a few modules.

A GRU updates its state with each character and predicts the next one; the loop over time is a Python loop over a tensor,
which AutoGraph converts to a loop of the compiled function. Training uses windows of text; generation runs one step at a
time, with the character that was sampled last as input.

Source: Cho et al. 2014, https://arxiv.org/abs/1406.1078; Karpathy 2015, https://karpathy.github.io/2015/05/21/rnn-effectiveness/
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import logging
import textwrap
import typing
from pathlib import Path
from typing import Any

import numpy as np

import tvtf as tf
from tvtf.models.pictures import picture
from tvtf.models.stdlib import LETTERS, decode, encode

READ = (argparse, dataclasses, inspect, logging, textwrap, typing)
UNITS = 192
BATCH = 32
WINDOW = 64
PROMPT = "\n\ndef "
WRITTEN = 500
TEMPERATURE = 0.7
"""Below 1, likely characters are sampled more often than the network predicts: fewer errors, less variety."""


class CharRNN(tf.Module):
    """An embedding of characters, a GRU, and a dense layer for the logits of the next character."""

    def __init__(self, seed: int) -> None:
        """Creates the weights at random: of the embedding and a GRU (gates and candidate), and of the dense layer."""
        super().__init__(name="char_rnn")
        rng = np.random.default_rng(seed)

        def weights(name: str, *shape: int) -> Any:
            return tf.Variable(rng.normal(size=shape, scale=shape[0] ** -0.5), dtype=tf.float32, name=name)

        # Gathering a row of a table costs less than the equal product with a one-hot vector.
        self.table = weights("table", len(LETTERS), 3 * UNITS)
        self.gates = weights("gates", UNITS, 2 * UNITS)
        self.candidate = weights("candidate", UNITS, UNITS)
        self.head = weights("head", UNITS, len(LETTERS))
        self.bias = tf.Variable(tf.zeros([len(LETTERS)]), name="bias")

    def cell(self, characters: Any, state: Any) -> Any:
        """Returns the state after one more character of each row."""
        from_character = tf.gather(self.table, characters)
        gates = tf.sigmoid(from_character[:, : 2 * UNITS] + state @ self.gates)
        keep, reset = tf.split(gates, 2, axis=1)
        candidate = tf.tanh(from_character[:, 2 * UNITS :] + (reset * state) @ self.candidate)
        return keep * state + (1.0 - keep) * candidate

    def logits(self, state: Any) -> Any:
        return state @ self.head + self.bias

    def __call__(self, windows: Any) -> Any:
        """Returns the logits of the character after each one in ``windows``, float32 ``(batch, time, letters)``."""
        state = tf.zeros([BATCH, UNITS])
        states = tf.TensorArray(tf.float32, size=WINDOW, element_shape=[BATCH, UNITS])
        for time in tf.range(WINDOW):
            state = self.cell(windows[:, time], state)
            states = states.write(time, state)
        return self.logits(tf.transpose(states.stack(), [1, 0, 2]))


def main(folder: Path, steps: int = 1200, seed: int = 0) -> dict[str, float]:
    """Trains, generates text, and draws the loss next to the text."""
    text = encode("\n".join(inspect.getsource(module) for module in READ))
    rng = np.random.default_rng(seed)
    tf.random.set_seed(seed)
    network, optimizer = CharRNN(seed), tf.optimizers.Adam(4e-3, clipnorm=1.0)

    @tf.function
    def step(windows: Any) -> Any:
        """Trains on a batch of windows to predict each next character; returns the loss."""
        with tf.GradientTape() as tape:
            logits = network(windows[:, :-1])
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=windows[:, 1:], logits=logits)
            loss = tf.reduce_mean(losses)
        variables = network.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    @tf.function
    def write(character: Any, state: Any) -> tuple[Any, Any]:
        state = network.cell(character, state)
        drawn = tf.random.categorical(network.logits(state) / TEMPERATURE, 1, dtype=tf.int32)
        return drawn[:, 0], state

    losses = []
    for _ in range(steps):
        starts = rng.integers(0, len(text) - WINDOW, BATCH)
        losses.append(float(step(text[starts[:, None] + np.arange(WINDOW + 1)].astype(np.int32))))

    written, state = list(encode(PROMPT)), tf.zeros([1, UNITS])
    for place in range(WRITTEN):
        # Samples within the prompt are discarded: only the state is needed there.
        drawn, state = write(tf.constant([written[place]], tf.int32), state)
        if place + 1 == len(written):
            written.append(int(drawn[0]))
    with picture(folder / "char_rnn.png", columns=2) as (left, right):
        left.plot(losses, linewidth=0.8)
        left.set(xlabel="step", title="nats a character")
        wrapped = [
            part for line in decode(np.array(written)).splitlines() for part in (textwrap.wrap(line, 46) or [""])
        ]
        right.text(0, 1, "\n".join(wrapped[:15]), va="top", family="monospace", fontsize=7, parse_math=False)
        right.set_axis_off()
    return {"first loss": losses[0], "loss": float(np.mean(losses[-20:]))}
