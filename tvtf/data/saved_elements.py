"""Elements in files: ``Dataset.save``, ``Dataset.load`` and ``cache(filename)``.

A file of elements is a TFRecord file: two records for each tensor, and a last one that tells how many elements there are.
A saved dataset is such a file and ``dataset.json``, the manifest, with the form of an element, and the name, size and
digest of the file. The manifest is renamed into place last, so that a folder always holds one whole dataset.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from tvtf.composites import value_json
from tvtf.core import nest
from tvtf.core.tensor_spec import TensorSpec
from tvtf.data.structure import Element, arrays, packer
from tvtf.dtypes import as_dtype
from tvtf.errors import DataLossError, NotFoundError
from tvtf.fileio import atomic_file
from tvtf.fileio.tfrecord import framed, records_of, unframed

SUFFIX: Final = ".elements"
MANIFEST: Final = "dataset.json"
SEAL: Final = "sha256"
"""The manifest's entry for the digest of all others."""
_NAMES: Final = ("dataset" + SUFFIX, "dataset-1" + SUFFIX)
"""The file of the elements has the one that the manifest in its place does not name."""
_UNSEALED: Final = ({"specs", "form"}, {"told", "form"}, {"told"})
"""The entries of manifests that were written before they held digests; their file has the first name."""


def store(path: str, elements: Sequence[Element]) -> None:
    """Writes elements, all or nothing."""
    atomic_file.replace(path + SUFFIX, _records(elements))


def _records(elements: Sequence[Element]) -> bytes:
    parts = [part for element in elements for array in arrays(element) for part in _written(array)]
    return b"".join(map(framed, [*parts, json.dumps({"elements": len(elements)}).encode()]))


def _written(array: np.ndarray) -> tuple[bytes, bytes]:
    """A record for the dtype and shape, and one for the bytes."""
    dtype = "string" if array.dtype.kind in "OS" else as_dtype(array.dtype).name
    head = json.dumps({"dtype": dtype, "shape": array.shape}).encode()
    if dtype != "string":
        return head, np.ascontiguousarray(array).tobytes()
    return head, b"".join(framed(text) for text in array.ravel().tolist())


def load(path: str, spec: Any, name: str | None = None) -> list[Element] | None:
    """The elements of a file; None where there is none.

    Args:
      path: without the suffix, unless a ``name`` below it is given.

    Raises:
      DataLossError: the file is damaged.
    """
    file = path + SUFFIX if name is None else os.path.join(path, name)
    if not os.path.exists(file):
        return None
    parts = list(records_of(file))
    is_counted = len(parts) % 2 == 1
    if not is_counted and name is None:  # a manifest tells what is whole, or is an old one
        raise _damaged(file, f"it has {len(parts)} records, the last one is missing")
    try:
        found = [_read(head, body) for head, body in zip(parts[::2], parts[1::2])]
        return list(_packed(found, spec, json.loads(parts[-1])["elements"] if is_counted else None))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise _damaged(file, str(error)) from error


def _damaged(path: str, why: str) -> DataLossError:
    return DataLossError(None, None, f"{path}: damaged elements of a dataset: {why}")


def _packed(found: Sequence[np.ndarray], spec: Any, count: Any) -> Iterator[Element]:
    width, pack = len(nest.flatten(spec, expand_composites=True)), packer(spec)
    count = len(found) // max(width, 1) if count is None else count
    if not isinstance(count, int) or len(found) != count * width:
        raise ValueError(f"{len(found)} tensors are no {count!r:.40} elements of {width}")
    return (pack(found[i * width : (i + 1) * width]) for i in range(count))


def _read(head: bytes, body: bytes) -> np.ndarray:
    kind = json.loads(head)
    shape = tuple(kind["shape"])
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"a stored tensor of shape {shape!r:.80}")
    count = math.prod(shape)
    if kind["dtype"] == "string":
        texts = list(unframed(io.BytesIO(body)))
        array = np.array([*texts, None], object)[:-1]
    else:
        array = np.frombuffer(body, as_dtype(kind["dtype"]).np).copy()
    if array.size != count:
        raise ValueError(f"a stored tensor of shape {shape!r:.80} has {array.size} elements")
    return array.reshape(shape)


# -- a folder


def save_dataset(folder: str, elements: Sequence[Element], spec: Any) -> None:
    """Elements and the form of one; the dataset that was there is replaced at once."""
    content, path = _records(elements), os.path.join(folder, MANIFEST)
    name, spare = _names(path)
    told = {"file": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest = _described(spec) | {"elements": told}
    with atomic_file.Replacement() as both:
        both.add(os.path.join(folder, name), [content])
        both.add(path, [json.dumps(manifest | {SEAL: _seal(manifest)}).encode()])
        both.commit()
    atomic_file.remove(os.path.join(folder, spare))


def _names(path: str) -> tuple[str, str]:
    """The names of the file to write, and of the one that is no longer needed then."""
    try:
        used = _manifest(path).get("elements", {}).get("file", _NAMES[0])
    except (NotFoundError, DataLossError, AttributeError):
        used = _NAMES[1]
    return _NAMES if used == _NAMES[1] else _NAMES[::-1]  # type: ignore[return-value]


def _seal(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest).encode()).hexdigest()


def load_dataset(folder: str, spec: Any) -> tuple[list[Element], Any] | None:
    """Elements and their spec; None where nothing is saved.

    Raises:
      NotFoundError: the file of the elements is missing.
      DataLossError: one of the files is damaged.
    """
    path = os.path.join(folder, MANIFEST)
    if not os.path.exists(path):
        return None
    manifest = _manifest(path)
    name = _checked_file(folder, manifest, path)
    if spec is None and "told" in manifest and "form" not in manifest:
        raise ValueError(f"such elements are loaded with their element_spec, which was {manifest['told']}")
    try:
        spec = _spec(manifest) if spec is None else spec
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    elements = load(folder, spec, name)
    return None if elements is None else (elements, spec)


def _manifest(path: str) -> dict[str, Any]:
    try:
        found = json.loads(atomic_file.read(path))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"no JSON: {error}") from error
    seal = found.pop(SEAL, None) if isinstance(found, dict) else None
    if not isinstance(found, dict) or (seal != _seal(found) if seal is not None else set(found) not in _UNSEALED):
        raise _damaged(path, "it is not what was written: its digest is another")
    return found


def _checked_file(folder: str, manifest: dict[str, Any], path: str) -> str:
    """The name of the file of the elements."""
    if "elements" not in manifest:
        return _NAMES[0]
    told = manifest["elements"]
    try:
        name, size, digest = str(told["file"]), told["size"], told["sha256"]
    except (TypeError, LookupError) as error:
        raise _damaged(path, f"no elements: {error}") from error
    if name not in _NAMES:
        raise _damaged(path, f"{name!r:.80} is no name of a file of elements")
    file = os.path.join(folder, name)
    with atomic_file.named_failures(file, "read"):
        found = os.stat(file).st_size
    if found != size:
        raise _damaged(file, f"it has {found} bytes, {size} were written")
    if atomic_file.digest_of(file) != digest:
        raise _damaged(file, "it is not what was written: its digest is another")
    return name


def _spec(manifest: dict[str, Any]) -> Any:
    """The form of an element."""
    if "told" in manifest:
        return value_json.decode(manifest["form"])
    specs = [TensorSpec(shape, dtype) for shape, dtype in manifest["specs"]]
    return nest.map_structure(lambda i: specs[i], _unform(manifest["form"]))


def _described(spec: Any) -> dict[str, Any]:
    """The form of elements; with tensors made of tensors to be shown, and to be read where a file can hold it."""
    if not any(map(nest.is_composite, nest.flatten(spec))):
        shapes = [[s.shape.as_list(), s.dtype.name] for s in nest.flatten(spec)]
        form = nest.pack_sequence_as(spec, list(range(len(shapes)))) if nest.is_nested(spec) else 0
        return {"specs": shapes, "form": _form(form)}
    try:
        return {"told": str(spec), "form": value_json.encode(spec)}
    except value_json.NotPlain:
        return {"told": str(spec)}


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
