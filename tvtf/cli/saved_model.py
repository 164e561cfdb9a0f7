"""``tvtf saved-model``: TensorFlow's ``saved_model_cli`` for models saved by tvtf."""

from __future__ import annotations

import ast
import io
from pathlib import Path
from typing import Any

import click
import numpy as np

from tvtf.cli.failures import report_failures
from tvtf.fileio.atomic_file import replace

DIR = click.option("--dir", "folder", required=True, type=click.Path(path_type=Path), help="The saved model's folder.")
SIGNATURE = click.option("--signature_def", help="A signature's name.")


@click.group("saved-model")
def saved_model() -> None:
    """Look into saved models, and run their signatures."""


@saved_model.command()
@DIR
@click.option("--all", "shows_all", is_flag=True, help="Signatures with their inputs and outputs, ops and functions.")
@click.option("--tag_set", help="Tags, separated by commas: serve.")
@SIGNATURE
@click.option("--list_ops", is_flag=True, help="The ops of the tag set.")
@report_failures
def show(folder: Path, shows_all: bool, tag_set: str | None, signature_def: str | None, list_ops: bool) -> None:
    """Print what a saved model holds, as `saved_model_cli show` does."""
    from tvtf.saved.layout import damage_named
    from tvtf.saved.show_cli import ModelPrinter

    with damage_named(folder):
        printer = ModelPrinter(folder)
    if shows_all:
        lines = list(printer.everything())
    elif tag_set is None:
        hint = ["--list_ops must be paired with a tag-set or with --all."] if list_ops else []
        lines = hint + list(printer.tag_sets())
    else:
        _require_known_tags(tag_set)
        lines = [printer.ops()] if list_ops else []
        lines += printer.keys() if signature_def is None else printer.signature(signature_def).lines()
    click.echo("\n".join(lines))


def _require_known_tags(tag_set: str) -> None:
    """Checks that a tag set given on the command line, such as ``"serve"``, is the one that tvtf writes.

    A saved model of tvtf contains one graph, and so has one tag set.

    Raises:
      ValueError: the tag set is not ``"serve"``.
    """
    from tvtf.saved.layout import TAGS

    if {tag.strip() for tag in tag_set.split(",")} != set(TAGS):
        raise ValueError(
            f"MetaGraphDef associated with tag-set {tag_set} could not be found in the SavedModel. Please use one of the "
            f"following tag-sets: {list(TAGS)}"
        )


@saved_model.command()
@DIR
@click.option("--tag_set", default="serve", show_default=True, help="Tags, separated by commas.")
@SIGNATURE
@click.option("--inputs", default="", help="Files by input: 'x=x.npy;y=pair.npz[name]'.")
@click.option("--input_exprs", default="", help="Python literals by input: 'x=[[1.0, 2.0]]'.")
@click.option(
    "--outdir", type=click.Path(file_okay=False, path_type=Path), help="Where to write OUTPUT.npy for each output."
)
@click.option("--overwrite", is_flag=True, help="Replace files that are there.")
@report_failures
def run(
    folder: Path,
    tag_set: str,
    signature_def: str | None,
    inputs: str,
    input_exprs: str,
    outdir: Path | None,
    overwrite: bool,
) -> None:
    """Run a signature on arrays, and print what it gives, as `saved_model_cli run` does."""
    from tvtf import saved_model as models

    if not inputs and not input_exprs:
        raise ValueError("At least one of --inputs, --input_exprs or --input_examples must be required")
    _require_known_tags(tag_set)
    signatures = models.load(folder).signatures
    name = signature_def or models.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if name not in signatures:
        raise ValueError(f'Could not find signature "{name}". Please choose from: {", ".join(signatures)}')
    arguments = _from_files(inputs) | _from_literals(input_exprs)
    _check_keys(arguments, signatures[name])
    for key, result in sorted(signatures[name](**arguments).items()):
        click.echo(f"Result for output key {key}:\n{result.numpy()}")
        if outdir is not None:
            _write_array(outdir / f"{key}.npy", result.numpy(), overwrite)


def _from_files(text: str) -> dict[str, Any]:
    """Reads the arrays of the option ``--inputs``, such as ``x=x.npy;y=pair.npz[name]``, and returns them by input."""
    return {key: _read_array(file) for key, file in _pairs(text, "--inputs", "<filename>")}


def _pairs(text: str, option: str, value_form: str) -> list[tuple[str, str]]:
    """Splits the text of an option, ``KEY=VALUE;...``, into pairs of a key and a value.

    ``value_form`` describes a value in errors, such as ``"<filename>"``.

    Raises:
      ValueError: a part of the text has no ``=``.
    """
    pairs = [part.split("=", 1) for part in text.split(";") if part]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f'{option} "{text}" format is incorrect. Please follow "<input_key>={value_form}"')
    return [(key, value) for key, value in pairs]


def _read_array(file: str) -> Any:
    """Reads an array from a ``.npy`` file, or from a ``.npz`` file given as ``FILE[NAME]``.

    The name may be left out if the file contains one array. Pickled objects are rejected, because loading them runs code.

    Raises:
      ValueError: a ``.npz`` file has no array of this name, or several arrays and no name is given.
    """
    path, bracket, name = file.removesuffix("]").partition("[")
    content = np.load(path, allow_pickle=False)
    if not hasattr(content, "files"):  # a .npy file is one array
        return content
    array_names = content.files
    is_known = name in array_names if bracket else len(array_names) == 1
    if not is_known:
        example_name = array_names[0] if array_names else "name"
        raise ValueError(f"{path} holds {', '.join(array_names)}: name one of them, as {path}[{example_name}]")
    return content[name or array_names[0]]


def _from_literals(text: str) -> dict[str, Any]:
    """Parses the values of the option ``--input_exprs``, such as ``x=[[1.0, 2.0]]``, and returns them by input."""
    return {key: _literal(value) for key, value in _pairs(text, "--input_exprs", "<python expression>")}


def _literal(text: str) -> Any:
    """Parses a Python literal, such as a nested list of numbers, without evaluating code."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError) as cause:
        raise ValueError(f'Expression "{text}" is not a valid python literal.') from cause


def _check_keys(arguments: dict[str, Any], signature: Any) -> None:
    """Checks that arguments have the names of a signature's inputs.

    Raises:
      ValueError: the signature has no input of an argument's name.
    """
    names = signature.arguments.names
    for key in arguments:
        if key not in names:
            choices = '", "'.join(names)
            raise ValueError(f'"{key}" is not a valid input key. Please choose from "{choices}", or use --show option.')


def _write_array(path: Path, array: Any, overwrite: bool) -> None:
    """Writes an array to a ``.npy`` file. An existing file is replaced atomically if ``overwrite`` is set.

    Raises:
      ValueError: the file exists, and ``overwrite`` is not set.
    """
    if path.exists() and not overwrite:
        raise ValueError(
            f'Output file {path} already exists. Add "--overwrite" to overwrite the existing output files.'
        )
    buffer = io.BytesIO()
    np.save(buffer, array)
    replace(str(path), buffer.getvalue())
