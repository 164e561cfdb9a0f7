"""``tvtf tune``: searches faster schedules for a saved module's kernels by measuring them on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from tvtf.cli import arrays
from tvtf.cli.failures import report_failures
from tvtf.cli.inference import MODEL
from tvtf.cli.models import loaded_from
from tvtf.core.tensor import EagerTensor

DEFAULT_ROWS = 32


@click.command()
@MODEL
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, help="To search."
)
@click.option(
    "--trials", type=click.IntRange(min=1), metavar="N", help="Schedules to try at most.  [default: no limit]"
)
@click.option("--batch", type=click.IntRange(min=1), default=DEFAULT_ROWS, show_default=True, help="For unknown sizes.")
@click.option("--input", "inputs", multiple=True, metavar="[NAME=]FILE", help="A .npy file.  [default: random numbers]")
@report_failures
def tune(model: Path, seconds: float, trials: int | None, batch: int, inputs: tuple[str, ...]) -> None:
    """Search quicker schedules for the kernels of MODEL, a saved module's folder or a file of Keras's, and record them.

    `tvtf run` and `tvtf compile` use them from then on, as does every program with the same kernels on this kind of
    processor. Records lie in the folder that TVTF_TUNED names (`tuned` in the cache folder by default), as lines of JSON in
    files that can be copied and joined. Ctrl-C ends the search and keeps what was found. Nothing else should run meanwhile.
    """
    from rich.console import Console

    loaded = loaded_from(model)
    description = loaded.description
    files = arrays.assign_files(inputs, description.inputs, "input", is_required=False)
    input_arrays = []
    for value in description.inputs:
        is_given = value.name in files
        input_arrays.append(arrays.read(files[value.name], value) if is_given else example_array(value, batch))
    description.check(input_arrays)
    with Console(stderr=True).status(f"tuning {model} for up to {seconds:g} seconds"):
        tuning = loaded.function.tune(*map(EagerTensor, input_arrays), seconds=seconds, trials=trials)
    Console().print(table_of(tuning))
    if tuning.records is not None:
        click.echo(f"recorded in {tuning.records}")


def example_array(value: Any, rows: int) -> np.ndarray:
    """Makes an array for one input of a program, to measure its kernels.

    The array contains random floats, or zeros for other dtypes, because zeros are valid indices. An unknown size of the shape
    becomes ``rows``.
    """
    shape = [dim if isinstance(dim, int) else rows for dim in value.shape]
    values = np.random.default_rng(0).standard_normal(shape) if value.dtype.is_floating else np.zeros(shape)
    return values.astype(value.dtype.np)


def table_of(tuning: Any) -> Any:
    """Formats the results of tuning as a table to print, with one row for each kernel and a last row for the whole call."""
    from rich.table import Table

    from tvtf.frontend.tuning.tune import format_choices

    table = Table("kernel", "share", "before", "after", "tried", "choices", box=None)
    for kernel in tuning.kernels:
        times = in_microseconds(kernel.before), in_microseconds(kernel.after)
        table.add_row(kernel.name, f"{kernel.share:.1%}", *times, str(kernel.tried), format_choices(kernel.choices))
    table.add_row("a whole call", "", in_microseconds(tuning.before), in_microseconds(tuning.after))
    return table


def in_microseconds(seconds: float) -> str:
    """Formats a duration in microseconds."""
    return f"{seconds * 1e6:.1f} us"
