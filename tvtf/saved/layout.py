"""The folder of a saved model: which files it has, and what its description begins with."""

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
    """The description of a saved model, once every file that it names is found to be the one that was saved.

    Raises:
      OSError: the folder holds no saved model.
      SavedModuleError: it is of another version, damaged, or TensorFlow's.
    """
    return found(folder)[0]


def found(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], Path]:
    """The description as `read` gives it, and the folder in which the files lie that it names (see ``swap.py``).

    Raises:
      OSError, SavedModuleError: as `read`.
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
    base = _base(place, data.pop("generation", None))
    for name, digest in files.items():
        _check_file(place, base, name, digest)
    return data, base


def current(folder: str | os.PathLike[str]) -> Any:
    """The description that stands in a folder, unchecked; None where there is none that can be read."""
    try:
        return parse((Path(folder) / FILE).read_bytes(), FILE)
    except (OSError, SavedModuleError):
        return None


def extra(folder: str | os.PathLike[str], name: str) -> bytes | None:
    """The content of an extra file of a saved model; None where it has none of this name.

    Raises:
      OSError, SavedModuleError: as `read`.
    """
    data, base = found(folder)
    path = f"{EXTRA}/{name}"
    return (base / path).read_bytes() if path in data["files"] else None


def stamp(folder: str | os.PathLike[str]) -> Any:
    """What changes while another model takes the place of this one, or its files are moved."""
    place = Path(folder)
    try:
        told = (place / FILE).stat()
        moving = sorted(name for name in os.listdir(place) if is_generation(name))
    except OSError:
        return None
    return told.st_ino, told.st_mtime_ns, told.st_size, moving


@contextmanager
def damage_named(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Has whatever goes wrong while a model is read name its file.

    Raises:
      SavedModuleError: for what Python makes of values of other types than `save` writes, too; not for OSError and OpError.
    """
    try:
        yield
    except (OSError, OpError):
        raise
    except Exception as cause:
        if isinstance(cause, SavedModuleError) and os.fspath(folder) in str(cause):
            raise
        told = str(cause) if isinstance(cause, SavedModuleError) else f"{type(cause).__name__}: {cause}"
        raise SavedModuleError(f"{Path(folder) / FILE} is damaged: {told}; save the model again") from cause


def _base(place: Path, generation: Any) -> Path:
    """Where the files of a model lie: in a folder of their own, until the save that wrote them has moved them."""
    if generation is None:
        return place.parent
    if not isinstance(generation, str) or not is_generation(generation):
        raise SavedModuleError(f"{place} is damaged: {generation!r:.60} is no folder of a save; save the model again")
    own = place.parent / generation
    return own if own.is_dir() else place.parent


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


def _check_file(place: Path, base: Path, name: str, digest: Any) -> None:
    if not is_inside(name):
        raise SavedModuleError(
            f"{place} names the file {name!r}, which is not one of its folder; it may not be trusted"
        )
    path = base / name
    if not path.is_file():
        raise SavedModuleError(f"{path} is missing; save the model again")
    if digest_of(str(path)) != digest:
        raise SavedModuleError(f"{path} is not the file that was saved; save the model again")


def index_of(prefix: str) -> str:
    """The file of a bundle whose digest stands for all: it holds the checksums of the others' parts."""
    return index_name(prefix)
