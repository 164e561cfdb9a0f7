"""The training loop of these models: epochs with a progress bar, checkpoints, and exact resumption.

An epoch's batches and the learning rate of each step depend only on the seed and the step's index. A run that is stopped
and resumed from the last checkpoint therefore performs bit for bit the same steps as an uninterrupted one.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

import tvtf as tf
from tvtf.core.tvm_import import import_whole
from tvtf.models.losses import LossFile
from tvtf.models.report import Stages, duration, since_process_start

CHECKPOINTS = 2
"""The number of checkpoints to keep."""
REFRESH_SECONDS = 0.1
"""Seconds between two updates of the progress bar."""


class Trained(Protocol):
    """A model to train; see :class:`tvtf.models.digits.Digits`."""

    name: str
    counted: str
    batch: int
    seed: int
    steps: int
    model: Any
    optimizer: Any
    step: Any

    def batches(self, epoch: int) -> Iterator[tuple[Any, ...]]: ...

    def rate(self, step: int, total: int) -> float: ...


@dataclass(frozen=True)
class Plan:
    """How far to train, and in which folder; ``stop_after`` counts epochs, ``resume`` continues from the last checkpoint."""

    folder: Path
    epochs: int
    stop_after: int | None = None
    resume: bool = False

    @property
    def last(self) -> int:
        return self.epochs if self.stop_after is None else min(self.epochs, self.stop_after)


@dataclass
class Outcome:
    """The result of a run: its epochs, the seconds of every step in this process, and of the stages before them."""

    epochs: int
    seconds: list[float] = field(default_factory=list)
    stages: Stages = field(default_factory=Stages)
    started: float | None = None
    compiled: bool = False

    @property
    def step_seconds(self) -> float | None:
        """The median time of a step, without the first, which compiles."""
        return statistics.median(self.seconds[1:]) if len(self.seconds) > 1 else None


def stage_rows(outcome: Outcome, trained: Trained) -> list[tuple[str, str]]:
    """Returns the report's rows with the time of each stage of training, as pairs of texts.

    There is a single row if a resumed run was finished already.
    """
    step = outcome.step_seconds
    if outcome.started is None or step is None:
        return [("training", "was finished already")]
    first_stage = "compile, and the first step" if outcome.compiled else "load from the cache, and the first step"
    return [
        *((name, duration(seconds)) for name, seconds in outcome.stages.seconds.items()),
        (first_stage, duration(outcome.seconds[0])),
        ("first step done, after Python's start", duration(outcome.started)),
        ("one step", f"{duration(step)} ({trained.batch / step:,.0f} {trained.counted}/s)"),
    ]


class ResumeError(ValueError):
    """A run can't be resumed as requested; the text says how it can."""


class Fit:
    """The training of one model into one folder."""

    def __init__(self, trained: Trained, plan: Plan, console: Console) -> None:
        """Prepares checkpoints and the file of losses; without ``plan.resume`` those of an earlier run are removed."""
        self.trained, self.plan, self.console = trained, plan, console
        self.epoch = tf.Variable(0, trainable=False, dtype=tf.int64, name="epoch")
        self.planned = tf.Variable(plan.epochs, trainable=False, dtype=tf.int64, name="planned")
        trained.optimizer.build(trained.model.trainable_variables)
        checkpoint = tf.train.Checkpoint(
            model=trained.model, optimizer=trained.optimizer, epoch=self.epoch, planned=self.planned
        )
        self.losses = LossFile(plan.folder / "losses.csv")
        if not plan.resume:
            remove_run_files(plan.folder)
        self.manager = tf.train.CheckpointManager(checkpoint, plan.folder, max_to_keep=CHECKPOINTS)
        self.outcome = Outcome(0)

    def run(self) -> Outcome:
        """Trains up to the plan's last epoch, from the last checkpoint if it resumes; returns the measured times."""
        self._restore()
        with self._progress() as progress:
            bar = Bar(progress, self.trained, self.plan.epochs)
            for epoch in range(self._done, self.plan.last):
                self._train_epoch(epoch, bar)
        self.outcome.epochs = self._done
        return self.outcome

    @property
    def _done(self) -> int:
        return int(self.epoch.numpy())

    def _restore(self) -> None:
        """Restores the last checkpoint if the plan resumes an earlier run.

        Raises:
          ResumeError: there is no checkpoint, or the interrupted run was planned for a different number of epochs.
        """
        if not self.plan.resume:
            return
        if self.manager.restore_or_initialize() is None:
            raise ResumeError(f"{self.plan.folder} has no checkpoint to resume from; start without --resume")
        planned = int(self.planned.numpy())
        if planned != self.plan.epochs:
            raise ResumeError(
                f"the run in {self.plan.folder} was planned for {planned} epochs, which its learning rates depend on; "
                f"resume it with --epochs {planned}, or restart without --resume"
            )
        self.losses.cut(self._done)

    def _train_epoch(self, epoch: int, bar: Bar) -> None:
        """Trains one epoch, records its losses and saves a checkpoint."""
        losses = []
        for index, batch in enumerate(self.trained.batches(epoch)):
            loss, accuracy = self._timed_step(epoch * self.trained.steps + index, batch)
            losses.append(float(loss))
            bar.advance(epoch, losses[-1], accuracy)
        bar.settle(epoch)
        self.losses.append(epoch, losses)
        self.epoch.assign(epoch + 1)
        self.manager.save(checkpoint_number=epoch + 1)

    def _timed_step(self, number: int, batch: tuple[Any, ...]) -> tuple[Any, Any]:
        """Runs the training step with a number on a batch and records its time; returns its loss and accuracy."""
        rate = tf.constant(self.trained.rate(number, self.plan.epochs * self.trained.steps))
        if not self.outcome.seconds:
            self._prepare((*batch, rate))
        started = time.perf_counter()
        result = self.trained.step(*batch, rate)
        self.outcome.seconds.append(time.perf_counter() - started)
        if self.outcome.started is None:
            self.outcome.started = since_process_start()
            self.outcome.compiled = was_compiled()
        return result

    def _prepare(self, arguments: tuple[Any, ...]) -> None:
        """Imports the compiler and traces, so that the first step's time is that of the compilation."""
        self.outcome.stages.seconds["Python, tvtf and data"] = since_process_start() or math.nan
        with self.outcome.stages("compiler's import"):
            import_whole("tvm")
        with self.outcome.stages("trace"):
            self.trained.step.get_concrete_function(*arguments)

    def _progress(self) -> Progress:
        status = "epoch {task.fields[epoch]} loss {task.fields[loss]:.4f} accuracy {task.fields[accuracy]:.3f}"
        speed = "{task.fields[speed]:,.0f} {task.fields[counted]}/s"
        texts = map(TextColumn, (status, speed))
        return Progress(TextColumn("{task.description}"), BarColumn(bar_width=12), *texts, console=self.console)


def was_compiled() -> bool:
    """Whether this process ran the compiler; otherwise code came from the cache."""
    from tvtf.passes.debug import dump

    return bool(dump.seconds)


class Bar:
    """The progress bar of one run: moving averages of loss and accuracy, and the speed since the first step."""

    def __init__(self, progress: Progress, trained: Trained, epochs: int) -> None:
        """Adds a bar for all steps of ``epochs`` epochs to ``progress``."""
        self.progress, self.trained = progress, trained
        name = f"seed {trained.seed}"
        fields: dict[str, Any] = {"epoch": "-", "loss": math.nan, "accuracy": math.nan, "speed": 0.0}
        fields["counted"] = trained.counted
        self.task = progress.add_task(name, total=epochs * trained.steps, **fields)
        self.epochs = epochs
        self.steps = 0
        self.loss = self.accuracy = math.nan
        self.looked = self.first = 0.0

    def advance(self, epoch: int, loss: float, accuracy: Any) -> None:
        self.steps += 1
        self.loss, self.accuracy = running(self.loss, loss), running(self.accuracy, float(accuracy))
        now = time.perf_counter()
        self.first = self.first or now
        if now - self.looked > REFRESH_SECONDS:
            self.settle(epoch)

    def settle(self, epoch: int) -> None:
        """Shows the current state."""
        self.looked = time.perf_counter()
        speed = (self.steps - 1) * self.trained.batch / max(self.looked - self.first, 1e-9)
        done = epoch * self.trained.steps + (self.steps - 1) % self.trained.steps + 1
        fields: dict[str, Any] = {"loss": self.loss, "accuracy": self.accuracy, "speed": speed}
        self.progress.update(self.task, completed=done, epoch=f"{epoch + 1}/{self.epochs}", **fields)


def running(mean: float, value: float, weight: float = 0.05) -> float:
    """Returns an exponential moving average that starts with its first value.

    >>> running(math.nan, 2.0), running(2.0, 4.0, weight=0.5)
    (2.0, 3.0)
    """
    return value if math.isnan(mean) else mean + weight * (value - mean)


def cosine(step: int, total: int, peak: float, warmup: int = 0) -> float:
    """Returns the learning rate of a step: it rises linearly to ``peak`` in ``warmup`` steps, then falls to 0 along a cosine.

    >>> [round(cosine(step, 10, 1.0, warmup=2), 3) for step in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.038]

    Source: Loshchilov and Hutter 2017, https://arxiv.org/abs/1608.03983
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def remove_run_files(folder: Path) -> None:
    """Removes the files of an earlier run; files of other names stay."""
    for pattern in ("ckpt-*.index", "ckpt-*.data-*", "checkpoint", "losses.csv"):
        for path in folder.glob(pattern):
            path.unlink()
