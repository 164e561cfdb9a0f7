"""Elements in files: ``Dataset.save``, ``Dataset.load`` and ``cache(filename)``."""

from __future__ import annotations

import importlib
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvtf import files, nest
from tvtf.data.structure import Element, arrays, packer
from tvtf.dtypes import as_dtype
from tvtf.errors import DataLossError
from tvtf.records import framed, unframed
from tvtf.spec import TensorSpec

SUFFIX = ".elements"


def store(path: str, elements: Sequence[Element], spec: Any) -> None:
    """Writes elements, all or nothing: one record for each tensor's dtype and shape, one for its bytes."""
    parts = [part for element in elements for array in arrays(element) for part in _written(array)]
    files.replace(path + SUFFIX, b"".join(map(framed, parts)))


def _written(array: np.ndarray) -> tuple[bytes, bytes]:
    dtype = "string" if array.dtype.kind in "OS" else as_dtype(array.dtype).name
    head = json.dumps({"dtype": dtype, "shape": array.shape}).encode()
    if dtype != "string":
        return head, np.ascontiguousarray(array).tobytes()
    return head, b"".join(framed(text) for text in array.ravel().tolist())


def load(path: str, spec: Any) -> list[Element] | None:
    """The elements of a file; None where there is none.

    Raises:
      DataLossError: the file is damaged.
    """
    file = Path(path + SUFFIX)
    if not file.exists():
        return None
    with file.open("rb") as stream:
        parts = list(unframed(stream))
    found = [_read(head, body) for head, body in zip(parts[::2], parts[1::2])]
    width = len(nest.flatten(spec, expand_composites=True))
    pack = packer(spec)
    return [pack(found[i : i + width]) for i in range(0, len(found), width)]


def _read(head: bytes, body: bytes) -> np.ndarray:
    kind = json.loads(head)
    shape = tuple(kind["shape"])
    if kind["dtype"] == "string":
        made = np.empty(int(np.prod(shape)), object)
        made[:] = list(unframed(io.BytesIO(body)))
        return made.reshape(shape)
    array = np.frombuffer(body, as_dtype(kind["dtype"]).np)
    if array.size != int(np.prod(shape)):
        raise DataLossError(None, None, f"stored tensor of shape {shape} has {array.size} elements")
    return array.reshape(shape).copy()


def save_dataset(folder: str, elements: Sequence[Element], spec: Any) -> None:
    """Elements and the form of one."""
    store(os.path.join(folder, "dataset"), elements, spec)
    if any(map(nest.is_composite, nest.flatten(spec))):
        files.replace(os.path.join(folder, "dataset.json"), json.dumps(_described(spec)).encode())
        return
    shapes = [[s.shape.as_list(), s.dtype.name] for s in nest.flatten(spec)]
    form = nest.pack_sequence_as(spec, list(range(len(shapes)))) if nest.is_nested(spec) else 0
    head = json.dumps({"specs": shapes, "form": _form(form)}).encode()
    files.replace(os.path.join(folder, "dataset.json"), head)


def load_dataset(folder: str, spec: Any) -> tuple[list[Element], Any] | None:
    """Elements and their spec; None where nothing is saved."""
    head = Path(folder, "dataset.json")
    if not head.exists():
        return None
    found = json.loads(head.read_bytes())
    if "told" in found:
        return _of_spec(folder, spec, found)
    specs = [TensorSpec(shape, dtype) for shape, dtype in found["specs"]]
    spec = nest.map_structure(lambda i: specs[i], _unform(found["form"])) if spec is None else spec
    elements = load(os.path.join(folder, "dataset"), spec)
    return None if elements is None else (elements, spec)


def _described(spec: Any) -> dict[str, Any]:
    """The form of elements with tensors made of tensors, to be shown, and to be read where a file can hold it."""
    structures = _structures()
    try:
        return {"told": str(spec), "form": structures.encode(spec)}
    except structures.NotPlain:
        return {"told": str(spec)}


def _structures() -> Any:
    return importlib.import_module("tvtf.saved.structure")  # a room above


def _of_spec(folder: str, spec: Any, found: dict[str, Any]) -> tuple[list[Element], Any] | None:
    if spec is None and "form" not in found:
        raise ValueError(f"such elements are loaded with their element_spec, which was {found['told']}")
    spec = _structures().decode(found["form"]) if spec is None else spec
    elements = load(os.path.join(folder, "dataset"), spec)
    return None if elements is None else (elements, spec)


def _form(form: Any) -> Any:
    """Tuples and dicts of numbers as JSON."""
    if isinstance(form, dict):
        return {"dict": {key: _form(value) for key, value in form.items()}}
    return {"tuple": [_form(each) for each in form]} if isinstance(form, tuple) else form


def _unform(form: Any) -> Any:
    if not isinstance(form, dict):
        return form
    if "dict" in form:
        return {key: _unform(value) for key, value in form["dict"].items()}
    return tuple(_unform(each) for each in form["tuple"])
