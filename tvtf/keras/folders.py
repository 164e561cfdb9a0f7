"""``model.save("folder")`` and ``save_weights("prefix")``: TensorFlow's saved models and checkpoints, which Keras 3 rejects.

A folder holds a saved model: `tf.saved_model.load` and servers run its functions. It also holds Keras's own file if Keras
can serialize the model, so that `load_model` restores the model with its classes, loss, metrics and optimizer. Without the
file, or without the model's classes, `load_model` returns a model that calls the functions.

Source: https://www.tensorflow.org/guide/keras/save_and_serialize (2.15)
"""

from __future__ import annotations

import functools
import io
import json
import logging
import os
import zipfile
from importlib import import_module
from typing import Any

import tvtf
from tvtf.keras.modules import input_specs

_log = logging.getLogger("tvtf")
KERAS_EXTENSIONS = (".h5", ".hdf5")
"""Extensions of Keras's files that contain digits."""
TENSORFLOW_EXTENSIONS = (".ckpt", ".tf")
"""Extensions that folders and checkpoints may have. Keras reports other extensions of letters as wrong file names."""
FILE = "model.keras"
"""The name of Keras's file among the extra files of the saved model."""
MSG_UNBUILT = (
    "Model {!r} cannot be saved as a saved model: its input specs are not known, since it was not called yet. Call it on some "
    "data, or train it."
)
MSG_NOT_CALLABLE = (
    "{} holds a saved model that is not a layer or model: it has no function `__call__`. Use `tf.saved_model.load()`."
)
MSG_NO_WEIGHTS = (
    "Weights for model {!r} have not yet been created. Weights are created when the model is first called on inputs or "
    "`build()` is called with an `input_shape`."
)
MSG_BY_OBJECTS = (
    "A checkpoint's weights are matched by objects; `skip_mismatch` and `by_name` are supported only for Keras's own files. "
    "Received: filepath={}"
)


def _is_folder_or_checkpoint(filepath: Any) -> bool:
    """Returns whether a path names a saved model's folder or a checkpoint, rather than a Keras file.

    A path with ``.h5``, ``.hdf5`` or an extension of letters names a Keras file, except that ``.ckpt`` and ``.tf`` are
    TensorFlow's. So ``"model"``, ``"w.ckpt"`` and ``"weights.10"`` name folders or checkpoints, ``"model.keras"`` does not.
    """
    if not isinstance(filepath, (str, os.PathLike)):
        return False
    text = os.fspath(filepath)
    if not isinstance(text, str) or text.startswith("hf://"):  # Keras loads models from Hugging Face itself
        return False
    extension = os.path.splitext(text)[1]
    # In "weights.10" the digits are a part of the name. Only the Keras files in KERAS_EXTENSIONS have digits.
    is_part_of_name = not extension[1:].isalpha() and extension not in KERAS_EXTENSIONS
    return extension in TENSORFLOW_EXTENSIONS or is_part_of_name


# -- folders


def save_folders(module: Any) -> None:
    """Patches Keras's ``saving.saving_api`` to save models as folders, and to load them from folders.

    A path without the extension of a Keras file is the path of a folder.
    """
    _patch_save_model(module)
    _patch_load_model(module)


def _patch_save_model(module: Any) -> None:
    """Patches Keras's ``save_model`` so that a path without a file extension becomes a folder with a saved model."""
    keras_save_model = module.save_model

    @functools.wraps(keras_save_model)
    def save_model(model: Any, filepath: Any, overwrite: bool = True, zipped: Any = None, **kwargs: Any) -> None:
        """Saves a model as a Keras file, or as a folder with a saved model if the path has no file extension.

        Args:
          model: the Keras model.
          filepath: the path of the file or folder.
          overwrite: whether an existing file or folder is replaced.
          zipped: Keras's argument; only for Keras files.
        """
        is_folder = _is_folder_or_checkpoint(filepath) and kwargs.get("save_format") in ("tf", None, False)
        if not is_folder or zipped is not None:  # only Keras's own files can be zipped
            return keras_save_model(model, filepath, overwrite=overwrite, zipped=zipped, **kwargs)  # type: ignore[no-any-return]
        kwargs.pop("save_format", None)
        kwargs.pop("include_optimizer", None)  # Keras 3 has this argument only for HDF5 files
        saved_model_arguments = {name: kwargs.pop(name, None) for name in ("signatures", "options")}
        if kwargs:
            raise ValueError(f"The following argument(s) are not supported: {list(kwargs)}")
        if _may_write(module, filepath, overwrite, filepath):
            _save(module, model, os.fspath(filepath), **saved_model_arguments)
        return None

    vars(module)["save_model"] = save_model


def _may_write(module: Any, filepath: Any, overwrite: bool, written: Any) -> bool:
    """Returns whether a model may be written. If the file ``written`` exists and ``overwrite`` is not set, the user decides.

    ``filepath`` is the path to show to the user. For a checkpoint, ``written`` is the index file.
    """
    return (
        overwrite or not os.path.exists(written) or bool(module.io_utils.ask_to_proceed_with_overwrite(str(filepath)))
    )


def _save(module: Any, model: Any, folder: str, signatures: Any, options: Any) -> None:
    """Saves a Keras model as a saved model in a folder, which also contains Keras's own file of the model.

    Args:
      module: Keras's module for saving.
      model: the model.
      folder: the path of the folder.
      signatures, options: the arguments of ``tf.saved_model.save``.

    Raises:
      ValueError: the model was not called yet, so that the specs of its inputs are not known.
    """
    from tvtf.saved.writer import save_with  # imports the compiler, which many programs never need

    if input_specs(model) is None:
        raise ValueError(MSG_UNBUILT.format(model.name))
    save_with(model, folder, signatures, options, _keras_file(module, model))


def _keras_file(module: Any, model: Any) -> dict[str, bytes]:
    """Serializes a model in the format of a ``.keras`` file, for an extra file in a saved model's folder.

    Returns a dict of the file's name and content. If Keras can't serialize the model, a warning is logged and the dict is
    empty.
    """
    content = io.BytesIO()
    try:
        module.saving_lib._save_model_to_fileobj(model, content, "h5")
    except (TypeError, ValueError, NotImplementedError) as error:
        _log.warning("%s is saved without Keras's own file, which restores its classes: %s", model.name, error)
        return {}
    return {FILE: content.getvalue()}


def _patch_load_model(module: Any) -> None:
    """Patches Keras's ``load_model`` so that it also loads models from folders with saved models."""
    keras_load_model = module.load_model

    @functools.wraps(keras_load_model)
    def load_model(filepath: Any, custom_objects: Any = None, compile: bool = True, safe_mode: bool = True) -> Any:  # noqa: A002
        """Loads a model from a Keras file, or from a folder with a saved model."""
        arguments = {"custom_objects": custom_objects, "compile": compile, "safe_mode": safe_mode}
        if not _is_folder_or_checkpoint(filepath) or not _holds_saved_model(filepath):
            return keras_load_model(filepath, **arguments)
        return _load_from_folder(module, os.fspath(filepath), arguments)

    vars(module)["load_model"] = load_model


def _holds_saved_model(folder: Any) -> bool:
    """Returns whether a folder contains a saved model of TensorFlow's format."""
    return bool(tvtf.saved_model.contains_saved_model(folder))


def _load_from_folder(module: Any, folder: str, arguments: dict[str, Any]) -> Any:
    """Loads a Keras model from the folder of a saved model.

    The model is restored from Keras's own file in the folder. If the file or the model's classes are missing, the result is a
    model that calls the saved functions.

    Args:
      module: Keras's ``saving.saving_api``.
      folder: the folder.
      arguments: the keyword arguments of ``load_model``.
    """
    from tvtf.saved import layout

    content = layout.extra(folder, FILE)
    if content is None:
        return _function_model(module, folder)
    try:
        return module.saving_lib.load_model(io.BytesIO(content), **arguments)
    except (TypeError, ValueError, NotImplementedError) as error:
        _log.warning("%s is loaded as functions, because its classes are missing: %s", folder, error)
    model = _function_model(module, folder)
    if arguments["compile"]:
        _restore_compilation(module, model, content)
    return model


def _restore_compilation(module: Any, model: Any, content: bytes) -> None:
    """Compiles a Keras model as it was compiled when it was saved, and restores the state of its optimizer.

    The loss, metrics and optimizer are read from ``content``, Keras's own file of the model: a ZIP archive of the
    configuration and the weights. ``module`` is Keras's ``saving.saving_api``.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        config = json.loads(archive.read("config.json")).get("compile_config")
        if not config:
            return
        model.built = True
        model.compile_from_config(config)
        if not model.compiled or not model.optimizer.built:
            return
        store = module.saving_lib.H5IOStore(io.BytesIO(archive.read("model.weights.h5")), mode="r")
        optimizer_state = store.get("optimizer")
        if len(optimizer_state.keys()) == len(model.optimizer.variables):  # an untrained model has no optimizer state
            model.optimizer.load_own_variables(optimizer_state)


class _FunctionModel:
    """A mixin for a Keras model that calls the function of a loaded saved model, and has its Variables."""

    def __init__(self, loaded: Any) -> None:
        """Makes a Keras model of a loaded saved model; a Variable stays trainable if it was trainable when saved."""
        model: Any = super()
        model.__init__()
        # Each tf.Variable in the list gets a proxy among the variables of the Keras model.
        self.loaded = loaded
        self.function_variables = list(loaded.variables)
        trainable_ids = {id(variable) for variable in loaded.trainable_variables}
        for variable in model.variables:
            variable.trainable = id(variable.handle) in trainable_ids

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Calls the function of the saved model."""
        return self.loaded(inputs, training=bool(training))


def _function_model(module: Any, folder: str) -> Any:
    """Loads a saved model as a Keras model that calls the saved functions. The model's own classes are not needed.

    ``module`` is Keras's ``saving.saving_api``.

    Raises:
      ValueError: the saved object can't be called.
    """
    loaded = tvtf.saved_model.load(folder)
    if not callable(loaded):
        raise ValueError(MSG_NOT_CALLABLE.format(folder))
    package = module.__name__.removesuffix(".saving.saving_api")  # "keras.src", or that of a copy of Keras
    model_class: Any = type("LoadedModel", (_FunctionModel, import_module(f"{package}.models.model").Model), {})
    return model_class(loaded)


# -- checkpoints


def save_checkpoints(module: Any) -> None:
    """Patches Keras's ``models.model`` to save weights as checkpoints, and to load them from checkpoints.

    A path without the extension of a Keras file is the path of a checkpoint.
    """
    _patch_save_weights(module)
    _patch_load_weights(module)


def _patch_save_weights(module: Any) -> None:
    """Patches Keras's ``save_weights`` so that a path without a file extension becomes a checkpoint of TensorFlow's format."""
    keras_save_weights = module.Model.save_weights

    @functools.wraps(keras_save_weights)
    def save_weights(self: Any, filepath: Any, overwrite: bool = True, max_shard_size: Any = None) -> None:
        """Saves weights as a Keras file, or as a checkpoint if the path has no file extension.

        Args:
          filepath: the path of the file or checkpoint.
          overwrite: whether existing files are replaced.
          max_shard_size: Keras's argument; only for Keras files.
        """
        if not _is_folder_or_checkpoint(filepath) or max_shard_size is not None:  # only Keras's own files have shards
            return keras_save_weights(self, filepath, overwrite=overwrite, max_shard_size=max_shard_size)  # type: ignore[no-any-return]
        from tvtf.train.checkpoint_state import (
            update_checkpoint_state,  # imports protocol buffers, which importing Keras doesn't need
        )

        if not self.built and not self.weights:
            raise ValueError(MSG_NO_WEIGHTS.format(self.name))
        prefix = os.fspath(filepath)
        if _may_write(module.saving_api, prefix, overwrite, f"{prefix}.index"):
            tvtf.train.Checkpoint(root=self).write(prefix)
            update_checkpoint_state(os.path.dirname(prefix), prefix, [prefix])
        return None

    module.Model.save_weights = save_weights


def _patch_load_weights(module: Any) -> None:
    """Patches Keras's ``load_weights`` so that it also reads checkpoints of TensorFlow's format."""
    keras_load_weights = module.Model.load_weights

    @functools.wraps(keras_load_weights)
    def load_weights(self: Any, filepath: Any, skip_mismatch: bool = False, **kwargs: Any) -> Any:
        """Loads weights from a Keras file, or from a checkpoint, which has an index file.

        Args:
          filepath: the path of the file or checkpoint.
          skip_mismatch: Keras's argument; only for Keras files.
        """
        if not _is_folder_or_checkpoint(filepath) or not os.path.exists(f"{os.fspath(filepath)}.index"):
            return keras_load_weights(self, filepath, skip_mismatch=skip_mismatch, **kwargs)
        if skip_mismatch or kwargs.pop("by_name", False):
            raise ValueError(MSG_BY_OBJECTS.format(filepath))
        if kwargs:
            raise ValueError(f"Invalid keyword arguments: {kwargs}")
        status = tvtf.train.Checkpoint(root=self).read(os.fspath(filepath))
        status.assert_nontrivial_match()
        return status

    module.Model.load_weights = load_weights
