"""The folder of a saved model: which files it has, and what its description begins with."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any, Final

from tvtf.files import digest_of
from tvtf.saved.description import SavedModuleError, entry, parse
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
TAGS: Final = ("serve",)
MARK: Final = {"format": FORMAT, "version": VERSION, "producer": f"tvtf {__version__}", "tags": list(TAGS)}


def read(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The description of a saved model, once every file that it names is found to be the one that was saved.

    Raises:
      OSError: the folder holds no saved model.
      SavedModuleError: it is of another version, damaged, or TensorFlow's.
    """
    place = Path(folder) / FILE
    data = parse(_content(place), str(place))
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise SavedModuleError(f"{place} is not a description of a saved model: its format is not {FORMAT!r}")
    if data.get("version") != VERSION:
        raise SavedModuleError(
            f"{place} has version {data.get('version')!r} of the format, and tvtf {__version__} reads version {VERSION}; "
            "save the model again with this tvtf, or install the one that wrote it"
        )
    files = entry(data, "files", str(place))
    if not isinstance(files, dict):
        raise SavedModuleError(f"{place} is damaged: its list of files is none; save the model again")
    for name, digest in files.items():
        _check_file(place, name, digest)
    return data


def _content(place: Path) -> bytes:
    try:
        return place.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(place) from None
    except OSError as cause:
        raise SavedModuleError(f"{place} can't be read: {cause.strerror}") from cause


def _missing(place: Path) -> Exception:
    folder = place.parent
    if any((folder / name).exists() for name in OF_TENSORFLOW):
        return SavedModuleError(
            f"{folder} was saved by TensorFlow, as a graph of TensorFlow's ops, which tvtf does not run; its variables can be "
            f"read: tf.train.load_checkpoint('{folder}/{VARIABLES}')"
        )
    return OSError(f"SavedModel file does not exist at: {folder}{os.path.sep}{FILE}")


def _check_file(place: Path, name: str, digest: Any) -> None:
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts or "\\" in name or "\0" in name or len(inside.parts) != 2:
        raise SavedModuleError(
            f"{place} names the file {name!r}, which is not one of its folder; it may not be trusted"
        )
    path = place.parent / inside
    if not path.is_file():
        raise SavedModuleError(f"{path} is missing; save the model again")
    if digest_of(str(path)) != digest:
        raise SavedModuleError(f"{path} is not the file that was saved; save the model again")


def index_of(prefix: str) -> str:
    """The file of a bundle whose digest stands for all: it holds the checksums of the others' parts."""
    return index_name(prefix)
