"""Loads the argument MODEL of commands: a saved module's folder, or a file of Keras."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tvtf import saved

FILES_OF_KERAS = (".keras", ".h5", ".hdf5")


def is_of_keras(model: Path) -> bool:
    """Returns whether a path has a suffix of Keras's files, such as ``.keras``."""
    return model.suffix.lower() in FILES_OF_KERAS


def loaded_from(model: Path) -> Any:
    """Loads a model from the folder of a saved module, or from a file of Keras; returns the saved module.

    A model of Keras is converted to a saved module that contains its inference function.

    Raises:
      SavedModuleError: the saved module does not exist or is damaged.
      ValueError: Keras can't load the file, because it does not exist, is not a model, or needs missing classes.
      ImportError: Keras is not installed.
    """
    if not is_of_keras(model):
        return saved.load(model)
    from tvtf import keras
    from tvtf.keras.exports import prediction

    # The function is saved and loaded again. So a model of Keras has the same type as a saved module.
    function = prediction(keras.models.load_model(model, compile=False))
    with TemporaryDirectory() as folder:
        return saved.load(saved.save(Path(folder, model.stem), function))
