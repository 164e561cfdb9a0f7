"""``tvtf train keras``: scanned digits in Keras's style, with augmenting layers, tf.data, callbacks, and a plot of the history."""

from __future__ import annotations

import csv
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import tvtf as tf
from tvtf.models import digits, pictures
from tvtf.models.batches import split
from tvtf.models.report import duration, percent, show

EPOCHS = 60
BATCH = 64
RATE = 2e-3
PATIENCE = 12
"""The number of epochs without a better validation loss after which training ends; after half as many the learning rate is
halved."""
TURN = 0.04
"""The largest rotation, as a fraction of a full turn: 14 degrees. Larger ones would confuse digits such as 6 and 9."""
MOVE = 0.1
"""The largest translation, as a fraction of the side: most of a pixel."""
LATER_STEPS = slice(1, None)
"""All steps but the first, which traces and compiles."""


def run(folder: Path, seed: int, epochs: int | None = None, resume: bool = False) -> dict[str, float]:
    """Trains a model, evaluates it on held-out images, and writes the best model and a plot of its history.

    Returns:
      The number of epochs, and the loss and the accuracy on the test images.
    """
    pictures.require()
    console = Console()
    tf.keras.utils.set_random_seed(seed)
    train, validation, test = parts(seed)
    model, times = network(), StepTimes()
    folder.mkdir(parents=True, exist_ok=True)
    if not resume:
        remove_resume_files(folder)
    model.fit(
        pipeline(train, seed),
        validation_data=pipeline(validation),
        epochs=epochs or EPOCHS,
        callbacks=[*callbacks(folder), times.callback()],
        shuffle=False,  # the pipeline shuffles
        verbose=2,
    )
    if not times.seconds:
        raise ValueError(f"the run in {folder} has done its {epochs or EPOCHS} epochs; raise --epochs to go on")
    best = tf.keras.models.load_model(folder / "model.keras")
    loss, accuracy = best.evaluate(pipeline(test), verbose=0)
    history = read(folder / "history.csv")
    draw(folder / "history.png", history)
    done = len(history["loss"])
    show(console, "keras", [*times.rows(), ("epochs", str(done)), ("test accuracy", percent(accuracy))])
    console.print(f"written to {folder}: model.keras, history.png", soft_wrap=True)
    return {"epochs": done, "loss": loss, "accuracy": accuracy}


def remove_resume_files(folder: Path) -> None:
    """Removes the files from which an earlier run could be resumed; other files stay."""
    shutil.rmtree(folder / "backup", ignore_errors=True)
    (folder / "history.csv").unlink(missing_ok=True)


def parts(seed: int) -> tuple[digits.Data, digits.Data, digits.Data]:
    """Returns the images for training, for deciding when to stop, and for the final test: 64, 16 and 20 percent.

    If the test images decided when to stop, the chosen epoch would be biased towards them.
    """
    data = digits.load()
    remaining, held_out = split(len(data.labels), seed)
    training, validation = split(len(remaining), seed)
    return data.at(remaining[training]), data.at(remaining[validation]), data.at(held_out)


def pipeline(data: digits.Data, seed: int | None = None) -> Any:
    """Returns batches of images and labels; with a seed they are shuffled, in a different order each epoch."""
    dataset = tf.data.Dataset.from_tensor_slices((data.images, data.labels))
    if seed is not None:
        dataset = dataset.shuffle(len(data.labels), seed=seed)
    return dataset.batch(BATCH).prefetch(tf.data.AUTOTUNE)


def network() -> Any:
    """Returns a compiled model whose first layers move, rotate and zoom images at random, only during training."""
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((digits.SIDE, digits.SIDE, 1)),
            layers.RandomTranslation(MOVE, MOVE, fill_mode="constant"),
            layers.RandomRotation(TURN, fill_mode="constant"),
            layers.RandomZoom(MOVE, fill_mode="constant"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.BatchNormalization(momentum=0.9),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(digits.CLASSES),
        ],
        name="digits",
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(RATE), loss, metrics=["accuracy"])
    return model


def callbacks(folder: Path) -> list[Any]:
    """Returns callbacks that lower the learning rate, stop early, save the best model, and back up for resuming.

    A resumed run reads the earlier epochs from ``history.csv``, so that a worse model does not replace the best one.
    """
    keras_callbacks = tf.keras.callbacks
    log = folder / "history.csv"
    best = min(read(log).get("val_loss", ()), default=None) if log.exists() else None
    return [
        keras_callbacks.ReduceLROnPlateau(factor=0.5, patience=PATIENCE // 2),
        keras_callbacks.EarlyStopping(patience=PATIENCE),
        keras_callbacks.ModelCheckpoint(folder / "model.keras", save_best_only=True, initial_value_threshold=best),
        keras_callbacks.CSVLogger(log, append=True),
        keras_callbacks.BackupAndRestore(folder / "backup", delete_checkpoint=False),
    ]


def read(path: Path) -> dict[str, list[float]]:
    """Returns the columns of a history by name; for an epoch that a resumed run repeated, its last row."""
    with path.open(newline="") as file:
        rows = {row["epoch"]: row for row in csv.DictReader(file)}
    names = next(iter(rows.values()), {})
    return {name: [float(row[name]) for row in rows.values()] for name in names}


class StepTimes:
    """The seconds of each training step, measured by a callback."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._started = 0.0

    def callback(self) -> Any:
        return tf.keras.callbacks.LambdaCallback(on_train_batch_begin=self._begin, on_train_batch_end=self._end)

    def _begin(self, batch: int, logs: Any) -> None:
        self._started = time.perf_counter()

    def _end(self, batch: int, logs: Any) -> None:
        self.seconds.append(time.perf_counter() - self._started)

    def rows(self) -> list[tuple[str, str]]:
        """Returns rows with the first step, which compiles, and the median of the others."""
        later = statistics.median(self.seconds[LATER_STEPS]) if self.seconds[LATER_STEPS] else None
        return [("first step", duration(self.seconds[0])), ("one step", duration(later))]


def draw(path: Path, history: dict[str, list[float]]) -> None:
    """Plots loss and accuracy by epoch to a file, with vertical lines where the learning rate was lowered."""
    epochs = np.arange(1, len(history["loss"]) + 1)
    epochs_of_lower_rate = epochs[1:][np.diff(history["learning_rate"]) < 0]
    with pictures.picture(path, columns=2) as axes:
        for panel, name in zip(axes, ("loss", "accuracy")):
            panel.plot(epochs, history[name], label="training")
            panel.plot(epochs, history[f"val_{name}"], label="validation")
            for epoch in epochs_of_lower_rate:
                panel.axvline(epoch, color="0.8", zorder=0)
            panel.set(xlabel="epoch", title=name)
        axes[0].set_yscale("log")
        axes[0].legend()
