"""Defines the files in the folder of a saved model, and the header of its description."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tvtf.errors import OpError
from tvtf.fileio.atomic_file import digest_of
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.saved.description import entry, parse
from tvtf.saved.swap import is_generation, is_inside
from tvtf.train.bundle import index_name
from tvtf.version import __version__

FILE: Final = "saved_model.json"
OF_TENSORFLOW: Final = ("saved_model.pb", "saved_model.pbtxt")
FORMAT: Final = "tvtf-saved-model"
VERSION: Final = 1
VARIABLES: Final = "variables/variables"
CONSTANTS: Final = "constants/constants"
ASSETS: Final = "assets"
COMPILED: Final = "compiled"
EXTRA: Final = "assets.extra"
TAGS: Final = ("serve",)
MARK: Final = {"format": FORMAT, "version": VERSION, "producer": f"tvtf {__version__}", "tags": list(TAGS)}


def read(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the description of a saved model after verifying the digest of every file.

    Raises:
      OSError: the folder holds no saved model.
      SavedModuleError: the model has another version, is damaged, or was saved by TensorFlow.
    """
    description, _ = locate(folder)
    return description


def locate(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], Path]:
    """Reads the description of a saved model, and verifies the digest of every file.

    Returns the description, and the folder that holds the files. During a save this is a subfolder (see ``swap.py``).

    Raises:
      OSError, SavedModuleError: see `read`.
    """
    description_path = Path(folder) / FILE
    data = parse(_content(description_path), str(description_path))
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise SavedModuleError(
            f"{description_path} is not a description of a saved model: its format is not {FORMAT!r}"
        )
    if data.get("version") != VERSION:
        raise SavedModuleError(
            f"{description_path} has version {data.get('version')!r} of the format, and tvtf {__version__} reads version {VERSION}; "
            "save the model again with this tvtf, or install the one that wrote it"
        )
    files = entry(data, "files", str(description_path))
    if not isinstance(files, dict):
        raise SavedModuleError(f"{description_path} is damaged: its list of files is not a dict; save the model again")
    files_folder = _files_folder(description_path, data.pop("generation", None))
    for name, digest in files.items():
        _check_file(description_path, files_folder, name, digest)
    return data, files_folder


def extra(folder: str | os.PathLike[str], name: str) -> bytes | None:
    """Returns the content of a further file that was saved with a model, or None if there is no file of this name.

    Raises:
      OSError, SavedModuleError: see `read`.
    """
    data, files_folder = locate(folder)
    path = f"{EXTRA}/{name}"
    return (files_folder / path).read_bytes() if path in data["files"] else None


def stamp(folder: str | os.PathLike[str]) -> Any:
    """Returns the identity of the model in a folder: values that change when another model replaces the model.

    They also change when the model's files are moved. A reader compares the values before and after it reads the files.
    If they differ, the reader starts again. Returns None if there is no model.
    """
    model_folder = Path(folder)
    try:
        stat = (model_folder / FILE).stat()
        unmoved_folders = sorted(name for name in os.listdir(model_folder) if is_generation(name))
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size, unmoved_folders


@contextmanager
def damage_named(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Turns errors raised in the ``with`` block, which reads a model, into SavedModuleErrors that name the file.

    A damaged file may cause any error, such as a TypeError for a value of the wrong type. OSError and OpError stay as
    they are.
    """
    try:
        yield
    except (OSError, OpError):
        raise
    except Exception as cause:
        if isinstance(cause, SavedModuleError) and os.fspath(folder) in str(cause):
            raise
        reason = str(cause) if isinstance(cause, SavedModuleError) else f"{type(cause).__name__}: {cause}"
        raise SavedModuleError(f"{Path(folder) / FILE} is damaged: {reason}; save the model again") from cause


def _files_folder(description_path: Path, generation: Any) -> Path:
    """Returns the folder that holds a saved model's files.

    A save writes the files to its own folder, ``generation``. At its end, the save moves the files next to the
    description.
    """
    if generation is None:
        return description_path.parent
    if not isinstance(generation, str) or not is_generation(generation):
        raise SavedModuleError(
            f"{description_path} is damaged: {generation!r:.60} is not a folder of a save; save the model again"
        )
    unmoved = description_path.parent / generation
    return unmoved if unmoved.is_dir() else description_path.parent


def _content(description_path: Path) -> bytes:
    """Returns the bytes of a saved model's description file.

    Raises:
      OSError: the folder holds no saved model.
      SavedModuleError: the file can't be read, or TensorFlow saved the model.
    """
    try:
        return description_path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(description_path) from None
    except OSError as cause:
        raise SavedModuleError(f"{description_path} can't be read: {cause.strerror}") from cause


def _missing(description_path: Path) -> Exception:
    """Returns the error for a folder without a description file: no model, or a model that TensorFlow saved."""
    folder = description_path.parent
    if any((folder / name).exists() for name in OF_TENSORFLOW):
        return SavedModuleError(
            f"{folder} was saved by TensorFlow, as a graph of TensorFlow's ops, which tvtf does not run; its variables can be "
            f"read: tf.train.load_checkpoint('{folder}/{VARIABLES}')"
        )
    return OSError(f"SavedModel file does not exist at: {folder}{os.path.sep}{FILE}")


def _check_file(description_path: Path, files_folder: Path, name: str, digest: Any) -> None:
    """Checks that a file of a saved model has the digest that the description declares.

    The file may have been damaged or replaced since the save. A hostile description may name a file outside the model's
    folder, which is an error.

    Args:
      description_path: the path of the model's description, for errors.
      files_folder: the folder of the model's files.
      name: the name of the file.
      digest: the digest that the description declares.
    """
    if not is_inside(name):
        raise SavedModuleError(
            f"{description_path} names the file {name!r}, which is not one of its folder; it may not be trusted"
        )
    path = files_folder / name
    if not path.is_file():
        raise SavedModuleError(f"{path} is missing; save the model again")
    if digest_of(str(path)) != digest:
        raise SavedModuleError(f"{path} is not the file that was saved; save the model again")


def index_of(prefix: str) -> str:
    """Returns the name of the index file of a checkpoint bundle.

    The index holds the checksums of the data. A digest of the index file therefore covers the whole bundle.
    """
    return index_name(prefix)
