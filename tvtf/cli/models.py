"""Loads the argument MODEL of commands: a saved module's folder, or a file of Keras."""

from __future__ import annotations

import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tvtf import saved
from tvtf.fileio.saved_module_error import SavedModuleError

HDF5 = b"\x89HDF\r\n\x1a\n"
FILES_OF_KERAS = (".keras", ".h5", ".hdf5")


def is_of_keras(model: Path) -> bool:
    """Returns whether a path has a suffix of Keras's files, such as ``.keras``."""
    return model.suffix.lower() in FILES_OF_KERAS


def _check_file_of_keras(model: Path) -> None:
    """Raises an error for what is no file of Keras at all: Keras says of each that it was not found.

    A folder with the content of such a file is left to Keras.
    """
    if model.is_dir():
        return
    with model.open("rb") as file:
        start = file.read(len(HDF5))
    if model.suffix.lower() == ".keras" and not zipfile.is_zipfile(model):
        raise SavedModuleError(f"{model} is not a file of Keras, or is truncated: its format is ZIP")
    if model.suffix.lower() != ".keras" and start != HDF5:
        raise SavedModuleError(f"{model} is not a file of Keras: its format is HDF5")


def loaded_from(model: Path) -> Any:
    """Loads a model from the folder of a saved module, or from a file of Keras, and returns the saved module.

    A model of Keras is converted to a saved module that contains its inference function.

    Raises:
      SavedModuleError: the saved module does not exist or is damaged.
      OSError: the file of Keras does not exist or can't be read.
      ValueError: Keras can't load the file, because it is not a model, or needs missing classes.
      ImportError: Keras is not installed.
    """
    if not is_of_keras(model):
        return saved.load(model)
    _check_file_of_keras(model)
    from tvtf import keras
    from tvtf.keras.exports import prediction

    # The function is saved and loaded again. So a model of Keras has the same type as a saved module.
    function = prediction(keras.models.load_model(model, compile=False))
    with TemporaryDirectory() as folder:
        return saved.load(saved.save(Path(folder, model.stem), function))
