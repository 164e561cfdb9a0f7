"""What commands take as MODEL: a saved module's folder, or a file of Keras's."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FILES_OF_KERAS = (".keras", ".h5", ".hdf5")


def is_of_keras(model: Path) -> bool:
    return model.suffix.lower() in FILES_OF_KERAS


def loaded_from(model: Path) -> Any:
    """The saved module, with a ``description`` and a ``function``; a model of Keras as it predicts.

    Raises:
      SavedModuleError: there is none, or it is damaged.
      ValueError: Keras can't load the file: it isn't there, is no model, or holds classes that aren't here.
      ImportError: Keras isn't installed.
    """
    from tvtf import saved

    if not is_of_keras(model):
        return saved.load(model)
    from tvtf import keras
    from tvtf.keras.exports import prediction

    function = prediction(keras.models.load_model(model, compile=False))
    with TemporaryDirectory() as folder:
        return saved.load(saved.save(Path(folder, model.stem), function))
