"""``tvtf train text``: trains, evaluates on held-out files, saves, exports, and shows a sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console

from tvtf import saved
from tvtf.models.exports import has_onnxruntime, inference_difference
from tvtf.models.report import show
from tvtf.models.text import Text, windows
from tvtf.models.training import Fit, Plan, stage_rows

EPOCHS = 8
PROMPT = "def read_"
SAMPLED = 400


def run(
    folder: Path, seed: int, epochs: int | None = None, stop_after: int | None = None, resume: bool = False
) -> None:
    """Trains a transformer on characters of the standard library, reports its bits per character, and prints a sample.

    ``stop_after`` stops after this many epochs, to be resumed.
    """
    console = Console()
    text = Text(seed)
    plan = Plan(folder / f"seed-{seed}", epochs or EPOCHS, stop_after, resume)
    outcome = Fit(text, plan, console).run()
    if outcome.epochs < plan.epochs:
        console.print(f"stopped after epoch {outcome.epochs} of {plan.epochs}; go on with --resume")
        return
    show(console, "text", stage_rows(outcome, text) + finished(text, folder))
    console.print(text.sample(PROMPT, SAMPLED), markup=False, highlight=False)


def finished(text: Text, folder: Path) -> list[tuple[str, str]]:
    """Evaluates, saves and exports the trained transformer; returns the rows of the report."""
    rows = [
        ("characters to train on, held out", f"{len(text.train):,}, {len(text.test):,}"),
        ("bits per character, held out", f"{text.bits_per_character():.3f}"),
    ]
    saved.save(folder / "model", text.logits)
    if has_onnxruntime():
        tokens, _ = windows(text.test, np.arange(2), text.sizes.context)
        difference = inference_difference(text.logits, folder / "model.onnx", tokens)
        rows.append(("ONNX Runtime differs by, logits", f"{difference:.1e}"))
    return [*rows, ("written to", str(folder))]
