"""Stores elements in files: ``Dataset.save``, ``Dataset.load`` and ``cache(filename)``.

A data file is a TFRecord file with the elements: two records for each tensor, and a last one with the number of elements.
A saved dataset is such a file and a manifest, ``dataset.json``, with the structure of an element and the name, size and
digest of the file. The manifest is renamed into place last, so that a folder always holds one complete dataset.
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
"""The manifest's entry with the digest of all other entries."""
_FILE_NAMES: Final = ("dataset" + SUFFIX, "dataset-1" + SUFFIX)
"""The two names of a data file: a new file takes the one that the existing manifest does not use."""
_UNSEALED: Final = ({"specs", "form"}, {"told", "form"}, {"told"})
"""The entries of manifests written before manifests held digests; their file has the first name."""


def store(path: str, elements: Sequence[Element]) -> None:
    """Writes elements to a file atomically."""
    atomic_file.replace(path + SUFFIX, _records(elements))


def _records(elements: Sequence[Element]) -> bytes:
    """Returns the content of a data file."""
    parts = [part for element in elements for array in arrays(element) for part in _encode_array(array)]
    return b"".join(map(framed, [*parts, json.dumps({"elements": len(elements)}).encode()]))


def _encode_array(array: np.ndarray) -> tuple[bytes, bytes]:
    """Encodes an array as two records of a data file: its dtype and shape as JSON, and its bytes."""
    dtype = "string" if array.dtype.kind in "OS" else as_dtype(array.dtype).name
    header = json.dumps({"dtype": dtype, "shape": array.shape}).encode()
    if dtype != "string":
        return header, np.ascontiguousarray(array).tobytes()
    return header, b"".join(framed(text) for text in array.ravel().tolist())


def load(path: str, spec: Any, name: str | None = None) -> list[Element] | None:
    """Reads the elements of a dataset, of element spec ``spec``, from a file. Returns None if it does not exist.

    Args:
      path: the file without its suffix, or the folder of ``name``.

    Raises:
      DataLossError: the file is damaged.
    """
    file = path + SUFFIX if name is None else os.path.join(path, name)
    if not os.path.exists(file):
        return None
    records = list(records_of(file))
    # Each array has two records; the last record has the number of elements.
    is_counted = len(records) % 2 == 1
    # A file named by a manifest is checked by the manifest's size and digest; older ones have no last record.
    if not is_counted and name is None:
        raise _damaged(file, f"it has {len(records)} records, the last one is missing")
    try:
        arrays_read = [_decode_array(header, body) for header, body in zip(records[::2], records[1::2])]
        count = json.loads(records[-1])["elements"] if is_counted else None
        return list(_pack(arrays_read, spec, count))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise _damaged(file, str(error)) from error


def _damaged(path: str, why: str) -> DataLossError:
    return DataLossError(None, None, f"{path}: damaged elements of a dataset: {why}")


def _pack(leaves: Sequence[np.ndarray], spec: Any, count: Any) -> Iterator[Element]:
    """Packs arrays into elements of a spec.

    ``count`` is the number of elements, or None for as many as the arrays fill.

    Raises:
      ValueError: the number of arrays is not ``count`` times the number of leaves of an element.
    """
    width = len(nest.flatten(spec, expand_composites=True))  # the number of arrays of an element
    if count is None:
        count = len(leaves) // max(width, 1)
    if not isinstance(count, int) or len(leaves) != count * width:
        raise ValueError(f"{len(leaves)} tensors, but {count!r:.40} elements of {width} tensors each were expected")
    pack = packer(spec)
    return (pack(leaves[i * width : (i + 1) * width]) for i in range(count))


def _decode_array(header: bytes, body: bytes) -> np.ndarray:
    """Decodes an array from its two records.

    Args:
      header: JSON with the shape and dtype.
      body: the elements.

    Raises:
      ValueError: the shape is invalid, or the body has another number of elements.
    """
    description = json.loads(header)
    shape = tuple(description["shape"])
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"a stored tensor of shape {shape!r:.80}")
    count = math.prod(shape)
    if description["dtype"] == "string":
        texts = list(unframed(io.BytesIO(body)))
        array = np.array([*texts, None], object)[:-1]
    else:
        array = np.frombuffer(body, as_dtype(description["dtype"]).np).copy()
    if array.size != count:
        raise ValueError(f"a stored tensor of shape {shape!r:.80} has {array.size} elements")
    return array.reshape(shape)


# -- a folder


def save_dataset(folder: str, elements: Sequence[Element], spec: Any) -> None:
    """Saves a dataset's elements and element spec to a folder, and replaces an older dataset there atomically.

    A manifest contains the name, size and digest of the data file. The new file has another name than the old
    one. Thus the old dataset stays valid until the new manifest replaces the old manifest.
    """
    content = _records(elements)
    manifest_path = os.path.join(folder, MANIFEST)
    name, obsolete_name = _new_and_old_file_names(manifest_path)
    file_entry = {"file": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest = _encode_spec(spec) | {"elements": file_entry}
    sealed_manifest = manifest | {SEAL: _digest(manifest)}
    with atomic_file.Replacement() as replacement:
        replacement.add(os.path.join(folder, name), [content])
        replacement.add(manifest_path, [json.dumps(sealed_manifest).encode()])
        replacement.commit()
    atomic_file.remove(os.path.join(folder, obsolete_name))


def _new_and_old_file_names(manifest_path: str) -> tuple[str, str]:
    """Returns the name for a new data file, and the name of the folder's old one, which the manifest contains.

    The two names are used in turn.
    """
    first, second = _FILE_NAMES
    try:
        # A manifest of the first format has no entry for the file, which then has the first name.
        old = _manifest(manifest_path).get("elements", {}).get("file", first)
    except (NotFoundError, DataLossError, AttributeError):
        # The folder has no dataset, or a damaged one. No file must be kept, so the new file gets the first name.
        old = second
    return (first, second) if old == second else (second, first)


def _digest(manifest: dict[str, Any]) -> str:
    """Returns the digest of a manifest's entries."""
    return hashlib.sha256(json.dumps(manifest).encode()).hexdigest()


def load_dataset(folder: str, spec: Any) -> tuple[list[Element], Any] | None:
    """Reads the dataset that `save_dataset` wrote to a folder: its elements and element spec.

    The result is None if there is no manifest, or if the manifest is of the first format and the elements are missing.

    ``spec`` is the element spec if the caller knows it, otherwise None.

    Raises:
      NotFoundError: the data file is missing.
      DataLossError: one of the files is damaged.
    """
    manifest_path = os.path.join(folder, MANIFEST)
    if not os.path.exists(manifest_path):
        return None
    manifest = _manifest(manifest_path)
    name = _verified_data_file(folder, manifest, manifest_path)
    if spec is None and "told" in manifest and "form" not in manifest:
        raise ValueError(
            f"Dataset.load: the elements in {folder} need an element_spec; they were saved with {manifest['told']}"
        )
    try:
        spec = _decode_spec(manifest) if spec is None else spec
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise _damaged(manifest_path, str(error)) from error
    elements = load(folder, spec, name)
    return None if elements is None else (elements, spec)


def _manifest(path: str) -> dict[str, Any]:
    """Reads a dataset's manifest and verifies its digest. Raises DataLossError if it is damaged.

    Manifests written before manifests had digests are recognized by their entries.
    """
    try:
        manifest = json.loads(atomic_file.read(path))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"invalid JSON: {error}") from error
    if not _is_intact(manifest):
        raise _damaged(path, "its digest does not match its content")
    manifest.pop(SEAL, None)
    return manifest  # type: ignore[no-any-return]


def _is_intact(manifest: Any) -> bool:
    """Returns whether a manifest has the digest of its entries, or the entries of a manifest without a digest."""
    if not isinstance(manifest, dict):
        return False
    entries = {name: value for name, value in manifest.items() if name != SEAL}
    digest = manifest.get(SEAL)
    if digest is None:
        return set(entries) in _UNSEALED
    return bool(digest == _digest(entries))


def _verified_data_file(folder: str, manifest: dict[str, Any], manifest_path: str) -> str:
    """Returns the name of a dataset's data file, after verifying its size and digest.

    ``manifest_path`` is the path of the manifest, used in error messages.
    """
    if "elements" not in manifest:  # written before manifests had digests
        return _FILE_NAMES[0]
    file_entry = manifest["elements"]
    try:
        name = str(file_entry["file"])
        size = file_entry["size"]
        digest = file_entry["sha256"]
    except (TypeError, LookupError) as error:
        raise _damaged(manifest_path, f"the entry of the data file is incomplete: {error}") from error
    if name not in _FILE_NAMES:
        raise _damaged(manifest_path, f"{name!r:.80} is not a name of a data file")
    file = os.path.join(folder, name)
    with atomic_file.named_failures(file, "read"):
        actual_size = os.stat(file).st_size
    if actual_size != size:
        raise _damaged(file, f"it has {actual_size} bytes, {size} were written")
    if atomic_file.digest_of(file) != digest:
        raise _damaged(file, "its digest does not match its content")
    return name


def _decode_spec(manifest: dict[str, Any]) -> Any:
    """Decodes the element spec of a manifest."""
    if "told" in manifest:
        return value_json.decode(manifest["form"])
    specs = [TensorSpec(shape, dtype) for shape, dtype in manifest["specs"]]
    return nest.map_structure(lambda i: specs[i], _decode_structure(manifest["form"]))


def _encode_spec(spec: Any) -> dict[str, Any]:
    """Encodes an element spec for the manifest of a saved dataset.

    A spec of tensors becomes a list of shapes and dtypes, with their positions in the nested structure. A spec with
    composite tensors becomes text, for error messages, and also JSON if all parts can be encoded.
    """
    leaves = nest.flatten(spec)
    if any(map(nest.is_composite, leaves)):
        try:
            return {"told": str(spec), "form": value_json.encode(spec)}
        except value_json.NotPlain:
            return {"told": str(spec)}
    shapes_and_dtypes = [[leaf.shape.as_list(), leaf.dtype.name] for leaf in leaves]
    positions: Any = 0
    if nest.is_nested(spec):
        positions = nest.pack_sequence_as(spec, list(range(len(leaves))))
    return {"specs": shapes_and_dtypes, "form": _encode_structure(positions)}


def _encode_structure(form: Any) -> Any:
    """Encodes nested tuples and dicts of numbers as JSON."""
    if isinstance(form, dict):
        return {"dict": {key: _encode_structure(value) for key, value in form.items()}}
    return {"tuple": [_encode_structure(item) for item in form]} if isinstance(form, tuple) else form


def _decode_structure(form: Any) -> Any:
    """Decodes nested tuples and dicts of numbers from JSON, as `_encode_structure` encoded them."""
    if not isinstance(form, dict):
        return form
    if "dict" in form:
        return {key: _decode_structure(value) for key, value in form["dict"].items()}
    return tuple(_decode_structure(item) for item in form["tuple"])
