"""``tvtf train digits``: trains, evaluates, saves, exports, compares and reports."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

import tvtf as tf
from tvtf import saved
from tvtf.models.digits import Digits, load
from tvtf.models.exports import has_onnxruntime, inference_difference, step_difference
from tvtf.models.report import percent, show
from tvtf.models.training import Fit, Plan, stage_rows

EPOCHS = 20


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silences tvtf's warnings in a block: they are of functions traced again, which is intended for a new network."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    try:
        yield
    finally:
        logger.setLevel(level)


@without_warnings()
def run(
    folder: Path, seeds: int, epochs: int | None = None, stop_after: int | None = None, resume: bool = False
) -> None:
    """Trains a network on the digits for each seed, starting at 0, and reports the accuracies; saves and exports the first.

    ``stop_after`` stops after this many epochs, to be resumed.
    """
    console, data = Console(), load()
    accuracies: list[float] = []
    for seed in range(seeds):
        digits = Digits(seed, data)
        plan = Plan(folder / f"seed-{seed}", epochs or EPOCHS, stop_after, resume)
        outcome = Fit(digits, plan, console).run()
        if outcome.epochs < plan.epochs:
            console.print(f"stopped after epoch {outcome.epochs} of {plan.epochs}; go on with --resume")
            return
        accuracies.append(digits.evaluate())
        if seed == 0:
            show(console, "digits", stage_rows(outcome, digits) + finished(digits, folder))
    if seeds > 1:
        console.print(mean(accuracies))


def mean(accuracies: list[float]) -> str:
    """Formats the mean of the accuracies, one for each seed, as a line of the report.

    >>> mean([0.98, 0.99])
    'held-out accuracy: mean of 2 seeds 98.50 % (98.00 %, 99.00 %)'
    """
    listed = ", ".join(map(percent, accuracies))
    return f"held-out accuracy: mean of {len(accuracies)} seeds {percent(statistics.mean(accuracies))} ({listed})"


def finished(digits: Digits, folder: Path) -> list[tuple[str, str]]:
    """Evaluates, saves and exports a trained network; returns the rows of the report, pairs of a label and a text."""
    rows = [
        ("held-out accuracy, compiled", percent(digits.evaluate())),
        ("held-out accuracy, eager", percent(digits.evaluate(eager=True))),
    ]
    saved.save(folder / "model", digits.logits)
    return rows + exported(digits, folder) + [("written to", str(folder))]


def exported(digits: Digits, folder: Path) -> list[tuple[str, str]]:
    """Exports ONNX models of the inference function and the training step, and compares them with ONNX Runtime."""
    if not has_onnxruntime():
        return [("ONNX", "not compared: ONNX Runtime is not installed (pip install 'tvtf[train]')")]
    difference_of_logits = inference_difference(digits.logits, folder / "model.onnx", tf.constant(digits.test.images))
    batch = next(digits.batches(0))
    difference_of_step = step_difference(
        digits.step, folder / "train_step.onnx", *batch, tf.constant(digits.rate(0, 1))
    )
    return [
        ("ONNX Runtime differs by, logits", f"{difference_of_logits:.1e}"),
        ("ONNX Runtime differs by, step", f"{difference_of_step:.1e}"),
    ]
