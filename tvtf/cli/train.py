"""``tvtf train``: trains the models of ``tvtf.models`` on real data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tvtf.cli.failures import report_failures

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended: 128 plus the signal's number."""


@click.group()
def train() -> None:
    """Train a model from scratch on real data: digits, also in Keras, or text."""


def shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a training command with `report_failures` and with the options of all training commands.

    The options are ``--epochs``, ``--stop-after``, ``--resume`` and ``--out``.
    """
    # The last option that is added is the first in the help text.
    for option in reversed(
        [
            click.option("--epochs", type=click.IntRange(min=1), help="How long to train.  [default: the model's own]"),
            click.option("--stop-after", type=click.IntRange(min=1), metavar="N", help="Stop once N epochs are done."),
            click.option("--resume", is_flag=True, help="Go on from the last checkpoint, as if never stopped."),
            click.option(
                "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for everything written."
            ),
        ]
    ):
        command = option(command)
    return report_failures(command)


@train.command()
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Train with seeds 0 to N-1.")
@shared
def digits(seeds: int, out: Path | None, **training_options: Any) -> None:
    """A small convolutional network on scanned digits.

    1,797 images of 8x8 pixels that come with scikit-learn; a fifth, drawn with the seed, is held out. Writes
    checkpoints, a saved module, and ONNX models of the inference function and of the whole training step.
    """
    from tvtf.models.digits_run import run

    interruptible(lambda: run(out or Path("runs/digits"), seeds, **training_options))


@train.command()
@click.option("--seed", type=int, default=0, show_default=True, help="Decides initial weights and order.")
@shared
def text(seed: int, out: Path | None, **training_options: Any) -> None:
    """A character-level transformer on Python's own standard library.

    Every tenth source file, selected by its path, is held out. Reports bits per character there, and prints a sample.
    """
    from tvtf.models.text_run import run

    interruptible(lambda: run(out or Path("runs/text"), seed, **training_options))


@train.command()
@click.option("--epochs", type=click.IntRange(min=1), help="The most epochs.  [default: 60, fewer if nothing improves]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Decides all that is random.")
@click.option("--resume", is_flag=True, help="Go on after the last whole epoch in the folder.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for everything written.")
@report_failures
def keras(seed: int, out: Path | None, **training_options: Any) -> None:
    """The scanned digits with a model of Keras.

    Images are moved, turned and zoomed by layers of the model; callbacks lower the learning rate, keep the best model
    and end the training when nothing improves. A fifth of the images, drawn with the seed, tests the best model.
    Writes model.keras, history.csv and history.png. Takes Keras and Matplotlib: pip install 'tvtf[train,keras,plot]'.
    """
    from tvtf.models.keras_run import run

    interruptible(lambda: run(out or Path("runs/keras"), seed, **training_options))


def interruptible(train_model: Callable[[], object]) -> None:
    """Calls a training function. If the user presses Ctrl-C, the command ends with one line instead of a traceback.

    The option ``--resume`` continues from the last complete epoch on disk.
    """
    try:
        train_model()
    except KeyboardInterrupt:
        click.echo("\nstopped; go on from the last checkpoint with --resume", err=True)
        raise SystemExit(INTERRUPTED) from None
