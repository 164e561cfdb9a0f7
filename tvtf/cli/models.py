"""Loads the argument MODEL of commands: a saved module's folder, or a file of Keras."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tvtf import saved

FILES_OF_KERAS = (".keras", ".h5", ".hdf5")


def is_of_keras(model: Path) -> bool:
    return model.suffix.lower() in FILES_OF_KERAS


def loaded_from(model: Path) -> Any:
    """Loads a saved module, or a Keras model's file as a saved module of its inference function.

    Raises:
      SavedModuleError: the module does not exist or is damaged.
      ValueError: Keras can't load the file: it does not exist, is not a model, or its classes are missing.
      ImportError: Keras is not installed.
    """
    if not is_of_keras(model):
        return saved.load(model)
    from tvtf import keras
    from tvtf.keras.exports import prediction

    # Saved and loaded again, so that a model of Keras has the same form as a saved module.
    function = prediction(keras.models.load_model(model, compile=False))
    with TemporaryDirectory() as folder:
        return saved.load(saved.save(Path(folder, model.stem), function))
