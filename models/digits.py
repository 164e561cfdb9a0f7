"""Classifies scanned digits by a small convolutional network.

The data are the 1,797 images of 8x8 pixels that come with scikit-learn (its ``load_digits``): the test set of
https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits, written by 13 people.
"""

from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tvtf as tf
from tvtf.models.batches import order, split
from tvtf.models.layers import Conv2D, Dense
from tvtf.models.training import cosine

SIDE = 8
CLASSES = 10
INKIEST = 16.0
BATCH = 64
PEAK_RATE = 3e-3
MSG_NO_DATA = (
    "the digits come with scikit-learn, and {what}; install tvtf with what training needs: pip install 'tvtf[train]'"
)


class Data(NamedTuple):
    """Images, float32 ``(n, 8, 8, 1)`` from 0 to 1, and their digits, int64 ``(n,)``."""

    images: np.ndarray
    labels: np.ndarray

    def at(self, rows: np.ndarray) -> Data:
        return Data(self.images[rows], self.labels[rows])


def data_file() -> Path:
    """Returns the path of scikit-learn's file of scanned digits, without importing the package, which takes most of a second.

    Raises:
      FileNotFoundError: scikit-learn or its file is missing.
    """
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(MSG_NO_DATA.format(what="it is not installed"))
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if not path.is_file():
        raise FileNotFoundError(MSG_NO_DATA.format(what=f"the installed one has no {path.name}"))
    return path


def load() -> Data:
    """Returns all 1,797 images in the file's order."""
    with gzip.open(data_file(), "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    images = np.ascontiguousarray(table[:, :-1] / INKIEST).reshape(-1, SIDE, SIDE, 1)
    return Data(images, table[:, -1].astype(np.int64))


class ConvNet(tf.Module):
    """Two convolutions, a pooling and two dense layers with 152 thousand weights: from images to logits ``(n, 10)``."""

    def __init__(self, seed: int) -> None:
        """Creates the weights of the two convolutions and the two dense layers."""
        super().__init__(name="convnet")
        rng = np.random.default_rng(seed)
        self.first = Conv2D(rng, 3, 1, 32, name="first")
        self.second = Conv2D(rng, 3, 32, 64, name="second")
        self.hidden = Dense(rng, 64 * (SIDE // 2) ** 2, 128, name="hidden")
        self.head = Dense(rng, 128, CLASSES, name="head")

    def __call__(self, images: Any) -> Any:
        x = tf.nn.relu(self.first(images))
        x = pooled(tf.nn.relu(self.second(x)))
        x = tf.nn.relu(self.hidden(tf.reshape(x, [-1, self.hidden.kernel.shape[0]])))
        return self.head(x)


def pooled(x: Any) -> Any:
    """Returns the maximum of every 2x2 pixels: ``(n, 2h, 2w, c)`` to ``(n, h, w, c)``.

    ``tf.nn.max_pool2d`` returns the same, but its gradient has no counterpart in ONNX, and the training step is exported.
    """
    _, height, width, channels = x.shape
    return tf.reduce_max(tf.reshape(x, [-1, height // 2, 2, width // 2, 2, channels]), axis=[2, 4])


class Digits:
    """The network, its training step and its batches, for :func:`tvtf.models.training.fit`."""

    name = "digits"
    counted = "images"
    batch = BATCH

    def __init__(self, seed: int, data: Data | None = None) -> None:
        """Creates the network and splits the images into those to train on and those held out; ``seed`` determines both."""
        data = load() if data is None else data
        train_rows, held_out = split(len(data.labels), seed)
        self.seed, self.train, self.test = seed, data.at(train_rows), data.at(held_out)
        self.model = ConvNet(seed)
        self.optimizer = tf.optimizers.Adam(learning_rate=PEAK_RATE)
        self.steps = len(train_rows) // BATCH
        self.step, self.logits = self._functions()

    def _functions(self) -> tuple[Any, Any]:
        """Returns two functions to compile: the training step, and inference, from images to logits."""
        model, optimizer = self.model, self.optimizer

        @tf.function
        def train_step(images: Any, labels: Any, rate: Any) -> tuple[Any, Any]:
            """Updates the weights for a batch, with learning rate ``rate``; returns the loss and accuracy before the update."""
            optimizer.learning_rate.assign(rate)
            with tf.GradientTape() as tape:
                logits = model(images)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss, accuracy(logits, labels)

        @tf.function(input_signature=[tf.TensorSpec(["batch", SIDE, SIDE, 1], tf.float32, name="images")])
        def logits(images: Any) -> Any:
            return model(images)

        return train_step, logits

    def batches(self, epoch: int) -> Iterator[tuple[Any, Any]]:
        """Yields one epoch's batches, whose order and shifts depend only on seed and epoch; the last few images are left out."""
        rows = order(len(self.train.labels), self.seed, epoch)
        rng = np.random.default_rng([self.seed, epoch])
        for start in range(0, self.steps * BATCH, BATCH):
            batch = self.train.at(rows[start : start + BATCH])
            yield tf.constant(shifted(batch.images, rng)), tf.constant(batch.labels)

    def rate(self, step: int, total: int) -> float:
        """Returns the learning rate of a step."""
        return cosine(step, total, PEAK_RATE)

    def evaluate(self, eager: bool = False) -> float:
        """Returns the accuracy on the held-out images, by the compiled function or eagerly."""
        images = tf.constant(self.test.images)
        logits = self.model(images) if eager else self.logits(images)
        return float(accuracy(logits, tf.constant(self.test.labels)))


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Shifts each image at random by up to one pixel, vertically and horizontally, to augment the training data.

    >>> shifted(np.ones((2, 8, 8, 1), np.float32), np.random.default_rng(0)).shape
    (2, 8, 8, 1)
    """
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    down, right = rng.integers(0, 3, (2, len(images), 1, 1))
    pixels = np.arange(SIDE)
    image_indices = np.arange(len(images))[:, None, None]
    return padded[image_indices, down + pixels[:, None], right + pixels]


def accuracy(logits: Any, labels: Any) -> Any:
    """Returns the fraction of rows whose largest logit is the label's, float32 ``()``."""
    hits = tf.equal(tf.argmax(logits, axis=-1), labels)
    return tf.reduce_mean(tf.cast(hits, tf.float32))
