"""A character-level transformer that writes Python, trained on Python's standard library."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import tvtf as tf
from tvtf.models.stdlib import LETTERS, decode, encode, load
from tvtf.models.training import cosine
from tvtf.models.transformer import Sizes, Transformer

BATCH = 32
STEPS = 200
"""The number of steps per epoch, which covers a twelfth of the text; a checkpoint is written after each."""
PEAK_RATE = 3e-3
WARMUP = 100
EVALUATED = 256
"""The number of held-out windows, evenly spaced, on which bits per character are measured."""


class Text:
    """The transformer, its training step and windows of text, for :func:`tvtf.models.training.fit`."""

    name = "text"
    counted = "windows"
    batch = BATCH
    steps = STEPS

    def __init__(self, seed: int, tokens: tuple[np.ndarray, np.ndarray] | None = None) -> None:
        """Creates the transformer, its functions to compile, and the tokens to train on and held out."""
        self.seed = seed
        self.train, self.test = load() if tokens is None else tokens
        self.sizes = Sizes(len(LETTERS))
        self.model = Transformer(seed, self.sizes)
        self.optimizer = tf.optimizers.Adam(learning_rate=PEAK_RATE, beta_2=0.99)
        self.step, self.losses, self.logits = self._functions()

    def _functions(self) -> tuple[Any, Any, Any]:
        """Returns three functions to compile: the training step, the loss of each token, and the logits of the next tokens."""
        model, optimizer = self.model, self.optimizer

        @tf.function
        def train_step(tokens: Any, following: Any, rate: Any) -> tuple[Any, Any]:
            """Updates the weights for a batch of tokens and those that follow; returns the loss and accuracy before that."""
            optimizer.learning_rate.assign(rate)
            with tf.GradientTape() as tape:
                logits = model(tokens)
                loss = tf.reduce_mean(cross_entropy(logits, following))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            hits = tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), following)
            return loss, tf.reduce_mean(tf.cast(hits, tf.float32))

        @tf.function
        def losses(tokens: Any, following: Any) -> Any:
            return cross_entropy(model(tokens), following)

        spec = tf.TensorSpec(["batch", self.sizes.context], tf.int32, name="tokens")

        @tf.function(input_signature=[spec])
        def logits(tokens: Any) -> Any:
            return model(tokens)

        return train_step, losses, logits

    def batches(self, epoch: int) -> Iterator[tuple[Any, Any]]:
        """Yields batches of windows, whose random starts depend only on seed and epoch."""
        rng = np.random.default_rng([self.seed, epoch])
        for starts in rng.integers(0, len(self.train) - self.sizes.context, (STEPS, BATCH)):
            yield windows(self.train, starts, self.sizes.context)

    def rate(self, step: int, total: int) -> float:
        """Returns the learning rate of a step."""
        return cosine(step, total, PEAK_RATE, WARMUP)

    def bits_per_character(self) -> float:
        """Returns the cross-entropy on windows spread over the held-out files, in bits per character."""
        starts = np.linspace(0, len(self.test) - self.sizes.context - 1, EVALUATED).astype(np.int64)
        parts = [windows(self.test, part, self.sizes.context) for part in np.split(starts, len(starts) // BATCH)]
        return float(np.mean([self.losses(*part).numpy() for part in parts])) / math.log(2)

    def sample(self, prompt: str, length: int, temperature: float = 0.7) -> str:
        """Returns the prompt and ``length`` characters drawn one by one after it."""
        rng = np.random.default_rng(self.seed)
        tokens = list(encode(prompt))
        for _ in range(length):
            tokens.append(self._next_token(tokens, rng, temperature))
        return decode(np.array(tokens))

    def _next_token(self, tokens: list[int], rng: np.random.Generator, temperature: float) -> int:
        """Draws the token after ``tokens`` at random by the model's probabilities; a low ``temperature`` favours likely ones."""
        seen = tokens[-self.sizes.context :]
        window = np.zeros((1, self.sizes.context), np.int32)
        window[0, : len(seen)] = seen
        scores = self.logits(tf.constant(window)).numpy()[0, len(seen) - 1] / temperature
        # Gumbel's trick: the largest of scores with such noise is a draw from their softmax.
        return int(np.argmax(scores + rng.gumbel(size=scores.shape)))


def cross_entropy(logits: Any, following: Any) -> Any:
    """Returns the cross-entropy of logits ``(n, time, symbols)`` and the following tokens, in nats, float32 ``(n, time)``."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=following, logits=logits)


def windows(tokens: np.ndarray, starts: np.ndarray, length: int) -> tuple[Any, Any]:
    """Cuts windows of ``length`` tokens at the given starts; returns them, and the token after each of theirs, both int32.

    >>> seen, following = windows(np.arange(9), np.array([0, 4]), 3)
    >>> seen.numpy().tolist(), following.numpy().tolist()
    ([[0, 1, 2], [4, 5, 6]], [[1, 2, 3], [5, 6, 7]])
    """
    tokens_and_next = tokens[starts[:, None] + np.arange(length + 1)].astype(np.int32)
    return tf.constant(tokens_and_next[:, :-1]), tf.constant(tokens_and_next[:, 1:])
