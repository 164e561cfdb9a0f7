"""``tvtf compile``, ``tvtf run`` and ``tvtf export``: use saved modules without the code that trained them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tvtf import onnx
from tvtf.cli import arrays
from tvtf.cli.failures import report_failures
from tvtf.cli.models import is_of_keras, loaded_from
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.saved.batched_run import run_batched

MODEL = click.argument("model", type=click.Path(path_type=Path))
DEFAULT_BATCH = 256
A_FILE = "A .npy or .csv file, or -."


def output(default: str) -> Any:
    """Returns the command-line option ``--output`` for the file that a command writes."""
    return click.option(
        *("-o", "--output"),
        type=click.Path(dir_okay=False, path_type=Path),
        default=default,
        show_default=True,
        help="The file to write.",
    )


@click.command("compile")
@MODEL
@output("lib.so")
@click.option("--target", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help="What runs it.")
@click.option(
    "--arch", default="sm_80", show_default=True, help="The GPU's architecture; later ones run it, too, but not sm_90a."
)
@report_failures
def compile_(model: Path, output: Path, target: str, arch: str) -> None:
    """Compile MODEL, a folder such as runs/digits/model or a file of Keras's, into one library.

    The library holds code for this machine's processor and the weights. It runs with `tvtf run`, or from C++ with TVM's
    runtime, without Python and without the compiler. With `--target cuda` its kernels are machine code for an NVIDIA GPU;
    to compile them takes nvcc (CUDA 13), and no GPU.
    """
    from tvtf.saved import library

    loaded = loaded_from(model)
    library.write(loaded, output, arch if target == "cuda" else None)
    click.echo(f"{output}: {loaded.description}, {output.stat().st_size / 1e6:.1f} MB")


@click.command()
@MODEL
@output("model.onnx")
@report_failures
def export(model: Path, output: Path) -> None:
    """Write MODEL, a folder such as runs/digits/model or a file of Keras's, as an ONNX model."""
    loaded = loaded_from(model)
    onnx.export(loaded.function, path=output)
    click.echo(f"{output}: {loaded.description}, {output.stat().st_size / 1e6:.1f} MB")


@click.command()
@MODEL
@click.option("--input", "inputs", multiple=True, required=True, metavar="[NAME=]FILE", help=A_FILE)
@click.option("--output", "outputs", multiple=True, metavar="[NAME=]FILE", help=f"{A_FILE}  [default: -]")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help=f"Rows at a time.  [default: {DEFAULT_BATCH}]")
@report_failures
def run(model: Path, inputs: tuple[str, ...], outputs: tuple[str, ...], batch: int | None) -> None:
    """Run MODEL, a library, a saved module's folder or a file of Keras's, on arrays.

    A dash is CSV on standard input or output. Rows of CSV are flattened items of the first axis. With several inputs or
    outputs, give each with its name.
    """
    program = opened(model)
    description = program.description
    if not outputs and len(description.outputs) > 1:
        names = ", ".join(spec.name for spec in description.outputs)
        raise SavedModuleError(f"{model} has several outputs ({names}); name their files: --output NAME=FILE")
    output_files = arrays.assign_files(outputs or ("-",), description.outputs, "output", is_required=False)
    input_files = arrays.assign_files(inputs, description.inputs, "input", is_required=True)
    input_arrays = [arrays.read(input_files[spec.name], spec) for spec in description.inputs]
    results = run_batched(program, input_arrays, batch or DEFAULT_BATCH, require=batch is not None)
    for spec, result in zip(description.outputs, results):
        if spec.name in output_files:
            arrays.write(output_files[spec.name], result)


def opened(model: Path) -> Any:
    """Loads a compiled library, a saved module or a file of Keras, to be run.

    Returns an object with the attribute ``description``, of the inputs and outputs, and the method ``run``.
    """
    if model.is_dir() or is_of_keras(model):
        return loaded_from(model)
    from tvtf.saved.library import Library

    return Library(model)
