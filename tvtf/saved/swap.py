"""Replaces a saved model atomically, by the rename of its description.

All files are written to a new folder ``.saving-ID`` inside the model's, which the description names. Once the description is
renamed into place, the new model is valid and is read from ``.saving-ID``. Then its files are linked to the paths where
TensorFlow's tools look for them, and ``.saving-ID`` is renamed and removed. A process killed before the first rename leaves
the old model, after it the new one; the next save removes the leftovers. Locks on folders, which end with their process,
distinguish a running save from one that was killed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from tvtf.fileio import atomic_file
from tvtf.fileio.folder_locks import locked
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.saved.description import parse

if TYPE_CHECKING:
    from typing_extensions import Self

SAVING: Final = ".saving-"
DISCARDED: Final = ".discarded-"


class Swap:
    """One save over the content of a folder; leaving the ``with`` block without `commit` removes the new files."""

    def __init__(self, folder: str, description: str) -> None:
        self.folder, self.description = folder, description
        self.name = f"{SAVING}{uuid.uuid4().hex}"
        self.new_folder = os.path.join(folder, self.name)
        self._lock = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Creates and locks the folder for the new files.

        The lock shows that the save is running. A save removes unlocked folders, which killed saves have left.
        """
        with atomic_file.named_failures(self.folder, "write"):
            os.makedirs(self.folder, exist_ok=True)
            with locked(self.folder):
                remove_leftovers(self.folder, generation=_generation_of(self._current()))
                os.mkdir(self.new_folder)
                self._lock.enter_context(locked(self.new_folder))
        return self

    def __exit__(self, *exception: object) -> None:
        """Removes the new files, unless the model is read from them after `commit`."""
        self._lock.close()
        if os.path.isfile(os.path.join(self.folder, self.description)) and _generation_of(self._current()) == self.name:
            return  # the folder's description names these files
        shutil.rmtree(self.new_folder, ignore_errors=True)

    def path(self, name: str) -> str:
        """Returns the path in the save's own folder to which a file of the model is written."""
        return os.path.join(self.new_folder, *PurePosixPath(name).parts)

    def target(self, name: str) -> str:
        """Returns the path in the model's folder to which `commit` moves the file ``name``."""
        return os.path.join(self.folder, *PurePosixPath(name).parts)

    def _current(self) -> object:
        """Returns the unchecked description that the folder holds now, or None if it is missing or can't be parsed."""
        try:
            return parse((Path(self.folder) / self.description).read_bytes(), self.description)
        except (OSError, SavedModuleError):
            return None

    def commit(self, names: Sequence[str], stale: Iterable[str] = ()) -> None:
        """Replaces the folder's model by the new one. When this returns, the new model survives a power failure.

        Args:
          names: the new files without the description, in the order in which they are moved.
          stale: files that an older model may have, and that are removed unless they are among ``names``.
        """
        with atomic_file.named_failures(self.folder, "write"), locked(self.folder):
            old_files = _files_of(self._current())
            _sync_all(self.new_folder)
            # The description names the folder with the model's files: this rename makes the new model the valid one.
            os.replace(os.path.join(self.new_folder, self.description), os.path.join(self.folder, self.description))
            atomic_file.sync_folder(self.folder)
            try:
                self._move_files(names, {*old_files, *stale} - set(names))
            except OSError as cause:
                logging.getLogger("tvtf").warning("%s is saved, and is read from there: %s", self.new_folder, cause)

    def _move_files(self, names: Sequence[str], stale: Iterable[str]) -> None:
        """Moves the new model's files into the model's folder, where tools look for them, and removes ``stale`` files.

        The files are first linked to the new paths. Then the save's folder is removed.
        """
        remove_leftovers(self.folder, generation=self.name)
        for name in names:
            os.makedirs(os.path.dirname(self.target(name)), exist_ok=True)
            _link(self.path(name), self.target(name), self.name)
        for name in stale:
            atomic_file.remove(self.target(name))
        for folder in {os.path.dirname(self.target(name)) for name in names}:
            atomic_file.sync_folder(folder)
        # If the removal is interrupted, the next save recognizes the remaining files by the folder's name.
        discarded = os.path.join(self.folder, self.name.replace(SAVING, DISCARDED))
        os.replace(self.new_folder, discarded)
        atomic_file.sync_folder(self.folder)
        shutil.rmtree(discarded, ignore_errors=True)


def _link(source: str, target: str, unique: str) -> None:
    """Gives a file a second name ``target``, and atomically replaces a file of that name.

    A hard link takes no time for large files. On file systems without links, the file is copied. The new file first
    has a temporary name, which contains ``unique``, and is then renamed. Therefore it appears atomically.
    """
    temporary = f"{os.path.join(os.path.dirname(target), unique)}-{os.path.basename(target)}"
    atomic_file.remove(temporary)
    try:
        os.link(source, temporary)
    except OSError:
        shutil.copyfile(source, temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
    os.replace(temporary, target)


def _sync_all(root: str) -> None:
    """Flushes a folder and its subfolders to disk, so that the names of the files in them survive a power failure."""
    for folder, _, _ in os.walk(root):
        atomic_file.sync_folder(folder)


def _generation_of(data: object) -> str | None:
    """Returns the name of the folder with the model's files from a description, which may be damaged.

    Returns None if the description names no such folder, or an invalid one.
    """
    generation = data.get("generation") if isinstance(data, dict) else None
    return generation if isinstance(generation, str) and is_generation(generation) else None


def is_generation(name: str) -> bool:
    """Returns whether a folder's name shows that a save writes its files there."""
    return name.startswith(SAVING) and name.removeprefix(SAVING).isalnum()


def _files_of(data: object) -> list[str]:
    """Returns the names of files that a description lists. In a damaged description, invalid names are left out."""
    listed = data.get("files") if isinstance(data, dict) else None
    return [name for name in listed if is_inside(name)] if isinstance(listed, dict) else []


def is_inside(name: str) -> bool:
    """Returns whether a name is of the form ``subfolder/file``, so that the file lies inside a model's folder."""
    parts = PurePosixPath(name).parts
    return len(parts) == 2 and ".." not in parts and parts[0] != "/" and "\\" not in name and "\0" not in name


def remove_leftovers(folder: str, generation: str | None) -> None:
    """Deletes the files and folders that killed saves have left in a model's folder.

    The folder ``generation`` stays, because the model is read from it. Locked folders belong to running saves, and
    stay, too.
    """
    for entry in list(os.scandir(folder)):
        if entry.name != generation and entry.is_dir(follow_symlinks=False):
            if entry.name.startswith(DISCARDED) or (is_generation(entry.name) and _is_abandoned(entry.path)):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif not entry.name.startswith("."):
                _remove_links(entry.path)


def _remove_links(folder: str) -> None:
    """Removes the temporary names of files that a killed save has left in a folder of a model."""
    for entry in list(os.scandir(folder)):
        if entry.name.startswith(SAVING):
            atomic_file.remove(entry.path)


def _is_abandoned(save_folder: str) -> bool:
    """Returns whether the save that wrote to a folder was killed: no process has locked the folder."""
    try:
        with locked(save_folder, seconds=0) as is_alone:
            return is_alone is True
    except OSError:
        return False
