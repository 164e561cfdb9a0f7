"""Saves one function as a saved model, and loads one signature of a saved model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.frontend.function.concrete_function import ConcreteFunction
from tvtf.frontend.function.polymorphic_function import Function, function
from tvtf.saved.reader import load as load_model
from tvtf.saved.saved_function import SavedFunction, check_reads
from tvtf.saved.signatures import DEFAULT
from tvtf.saved.writer import save as save_model
from tvtf.state.autotrackable import AutoTrackable
from tvtf.state.variable import Variable


def save(folder: str | os.PathLike[str], fn: Any, *args: Any) -> str:
    """Writes a saved model whose default signature is a function that only reads Variables.

    Args:
      folder: created if missing.
      fn: a ``tf.function``, a concrete function, or a Python function to trace.
      *args: the arguments to trace it with: ``TensorSpec`` objects, whose named dims stay unknown, or tensors.

    Returns:
      The folder.

    Raises:
      ValueError: the function updates Variables, or calls Python.
      ResourceExhaustedError: the disk is full; the folder's old content is unchanged.
    """
    concrete = _traced(fn, args)
    check_reads(concrete)
    model = AutoTrackable()
    model.values = _named_variables(concrete)
    save_model(model, folder, concrete)
    return os.fspath(folder)


def _traced(fn: Any, args: Sequence[Any]) -> ConcreteFunction:
    """Traces a function for arguments, and returns the concrete function; one is returned as it is."""
    if isinstance(fn, ConcreteFunction):
        return fn
    polymorphic = fn if isinstance(fn, Function) else function(fn)
    return polymorphic.get_concrete_function(*args)


def _named_variables(concrete: ConcreteFunction) -> dict[str, Variable]:
    """Returns the Variables that a function reads, by unique names.

    Several Variables may have the same name, but the names are keys in the saved model. Therefore a repeated name gets
    a number: ``w``, ``w__1``, ``w__2``.
    """
    named: dict[str, Variable] = {}
    for variable in concrete.variables:
        name = variable.name.partition(":")[0].replace("/", "_")  # "dense/w:0" becomes "dense_w"
        used_names = [used for used in named if used == name or used.startswith(f"{name}__")]
        unique_name = f"{name}__{len(used_names)}" if used_names else name
        named[unique_name] = variable
    return named


def load(folder: str | os.PathLike[str], signature: str = DEFAULT) -> SavedFunction:
    """Loads one signature of a saved model as a function, after checking all files in the folder.

    Raises:
      OSError: the folder holds no saved model.
      SavedModuleError: the model is damaged, has another version, or has no such signature.
    """
    signatures = load_model(folder).signatures
    if signature not in signatures:
        names = ", ".join(signatures) or "none"
        raise SavedModuleError(f"{folder} has no signature {signature!r}; it has: {names}")
    return SavedFunction(signatures[signature])
