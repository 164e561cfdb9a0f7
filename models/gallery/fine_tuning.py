"""Fine-tuning: a network that knows the digits 0 to 4 learns 5 to 9 from ten images of each.

A base network is trained on the digits 0 to 4 at random positions in a larger image, so that its features don't depend on
the position; fifty images are too few to teach that. Its last layer is replaced, and the base is frozen while the new
layer is trained: the first gradients, which are noise, would spoil the features. Then all weights are trained with small
steps. The same network, trained on the fifty images from random weights, is the baseline.

Source: https://keras.io/guides/transfer_learning/
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tvtf as tf
from tvtf.models import digits
from tvtf.models.pictures import picture

KNOWN = 5
"""The base is trained on the digits below this one."""
EACH = 10
FIELD = 16
PLACES = 4
BATCH = 32
EPOCHS = 12


def base() -> Any:
    """Returns a network from images to features, which is trained on some classes and reused for others."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((FIELD, FIELD, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
        ],
        name="base",
    )


def classifier(features: Any) -> Any:
    """Returns a classifier: a new last layer for five classes on a base, whose weights may be frozen."""
    return tf.keras.Sequential([features, tf.keras.layers.Dense(KNOWN)])


def fit(model: Any, data: digits.Data, rate: float, epochs: int, test: digits.Data) -> list[float]:
    """Trains a model with a learning rate; returns the accuracy on the test images after each epoch."""
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # `compile` fixes which weights are trained: after a change of `trainable` it must be called again.
    model.compile(tf.keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    fitted = model.fit(
        data.images, data.labels, batch_size=BATCH, epochs=epochs, verbose=0, validation_data=(test.images, test.labels)
    )
    accuracies: list[float] = fitted.history["val_accuracy"]
    return accuracies


def scattered(data: digits.Data, rng: np.random.Generator) -> digits.Data:
    """Puts each digit at a random position in a larger image."""
    fields = np.zeros((len(data.labels), FIELD, FIELD, 1), np.float32)
    for field, image, (y, x) in zip(fields, data.images, rng.integers(0, FIELD - digits.SIDE + 1, (len(fields), 2))):
        field[y : y + digits.SIDE, x : x + digits.SIDE] = image
    return data._replace(images=fields)


def parts(seed: int) -> tuple[digits.Data, digits.Data, digits.Data]:
    """Returns three sets of images, with labels 0 to 4: to train the base, to fine-tune it, and to test the result.

    The first has the digits 0 to 4, each image at several positions, the second a few of each of 5 to 9, the third the others.
    """
    data, rng = digits.load(), np.random.default_rng(seed)
    known = scattered(data.at(np.repeat(np.flatnonzero(data.labels < KNOWN), PLACES)), rng)
    new = [rng.permutation(np.flatnonzero(data.labels == digit)) for digit in range(KNOWN, digits.CLASSES)]
    few, others = (data.at(np.concatenate(rows)) for rows in ([r[:EACH] for r in new], [r[EACH:] for r in new]))
    few, others = (scattered(part._replace(labels=part.labels - KNOWN), rng) for part in (few, others))
    return known, few, others


def main(folder: Path, steps: int = 30, seed: int = 0) -> dict[str, float]:
    """Compares fine-tuning of a pretrained network with training a new one on few images, and draws the accuracies.

    The pretrained base is frozen for ``steps`` epochs, then all weights are trained for as many.
    """
    tf.keras.utils.set_random_seed(seed)
    known_digits, few, test = parts(seed)
    features = base()
    fit(classifier(features), known_digits, rate=2e-3, epochs=EPOCHS, test=known_digits.at(np.arange(BATCH)))

    features.trainable = False
    model = classifier(features)
    frozen = fit(model, few, rate=1e-2, epochs=steps, test=test)
    features.trainable = True
    fine_tuned = fit(model, few, rate=5e-4, epochs=steps, test=test)
    scratch = fit(classifier(base()), few, rate=2e-3, epochs=2 * steps, test=test)

    epochs = np.arange(1, 2 * steps + 1)
    with picture(folder / "fine_tuning.png", size=(6.0, 3.0)) as axes:
        axes.plot(epochs[:steps], frozen, label="the base frozen, a new last layer")
        axes.plot(epochs[steps:], fine_tuned, label="all of it, small steps")
        axes.plot(epochs, scratch, label="the same network from nothing")
        axes.set(xlabel="epoch of fifty images", title=f"accuracy on {len(test.labels)} images of 5 to 9")
        axes.legend(fontsize=8)
    return {"frozen": frozen[-1], "fine-tuned": fine_tuned[-1], "from nothing": scratch[-1]}
