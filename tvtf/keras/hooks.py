"""Replaces functions of Keras's modules that don't work on tvtf unchanged, each with the reason.

A hook runs right after its module is executed; a Keras on another backend is not changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import tvtf
from tvtf.core.function_types import PolymorphicFunction
from tvtf.core.primitive import Primitive
from tvtf.core.variable_lock import Lock
from tvtf.keras import eager_steps, exports, folders, modules

_build_lock = Lock()


def _recognize_tensors(module: ModuleType) -> None:
    """Patches Keras's functions that recognize TensorFlow's tensors, so that they recognize tvtf's.

    Keras looks at the module name of a tensor's class.
    """
    vars(module).update(
        is_tensorflow_tensor=tvtf.is_tensor,
        is_tensorflow_ragged=lambda value: isinstance(value, tvtf.RaggedTensor),
        is_tensorflow_sparse=lambda value: isinstance(value, tvtf.SparseTensor),
    )


def _recognize_ragged(module: ModuleType) -> None:
    """Patches Keras's ``is_ragged_tensor`` to recognize tvtf's ragged tensors; Keras looks at the text of the class."""
    vars(module)["is_ragged_tensor"] = lambda x: isinstance(x, tvtf.RaggedTensor)


def _recognize_datasets(module: ModuleType) -> None:
    """Patches Keras's ``is_tf_dataset`` to recognize tvtf's datasets; Keras looks at the module name of the class."""
    vars(module)["is_tf_dataset"] = lambda dataset: isinstance(dataset, tvtf.data.Dataset)


def _recognize_traces(module: ModuleType) -> None:
    """Patches Keras's ``in_tf_graph`` so that it returns whether a function is being traced by tvtf.

    Keras's own function needs TensorFlow in ``sys.modules``.
    """

    def in_tf_graph() -> bool:
        is_in_keras_scope = module.global_state.get_global_attribute("in_tf_graph_scope", False)
        return is_in_keras_scope or not tvtf.executing_eagerly()

    vars(module)["in_tf_graph"] = in_tf_graph


def _add_functions(module: ModuleType) -> None:
    """Adds the public names of ``keras.losses`` that ``tf.keras.losses`` lacks, such as ``mean_squared_error``.

    The same is done for metrics. ``module`` is Keras's module ``_tf_keras.keras.losses`` or ``_tf_keras.keras.metrics``.
    """
    package, _, name = module.__name__.partition("._tf_keras.keras.")
    for public_name, function in vars(import_module(f"{package}.{name}")).items():
        if not public_name.startswith("_"):
            vars(module).setdefault(public_name, function)


def _serialize_under_keras(module: ModuleType) -> None:
    """Patches Keras's serialization so that saved configurations can be loaded by every installation of Keras.

    tvtf may have loaded a copy of Keras under another name. In a configuration, the classes are in the package ``keras``
    nevertheless. Ops of tvtf are serialized as functions, as in TensorFlow.
    """
    package = module.__name__.removesuffix(".src.saving.serialization_lib")
    serialize = vars(module)["serialize_keras_object"]

    @functools.wraps(serialize)
    def serialize_keras_object(obj: Any) -> Any:
        """Serializes an object under Keras's own module names, so that Keras itself can load the file."""
        config = serialize(_as_function(obj))
        module_name = config.get("module") if isinstance(config, dict) else None
        if isinstance(module_name, str) and module_name.startswith(f"{package}."):
            config["module"] = f"keras{module_name.removeprefix(package)}"
        return config

    vars(module)["serialize_keras_object"] = serialize_keras_object


def _serialize_ops(module: ModuleType) -> None:
    """Patches the serialization of activations to accept tvtf's ops, such as ``tf.nn.relu``, which are not functions."""
    serialize = vars(module)["serialize"]
    vars(module)["serialize"] = functools.wraps(serialize)(lambda activation: serialize(_as_function(activation)))


def _as_function(value: Any) -> Any:
    """Wraps an op of tvtf in a Python function, because Keras serializes only functions. Returns other values unchanged."""
    if not isinstance(value, Primitive):
        return value
    return functools.update_wrapper(lambda *args, **kwargs: value(*args, **kwargs), value)


def _change_layers(module: ModuleType) -> None:
    """Patches Keras's layers to track ``tf.Variable`` and ``tf.Module`` attributes, and lets exports accept layers."""
    modules.track_tensorflow_objects(module)
    exports.accept_layers(module)


def _add_inspection(module: ModuleType) -> None:
    """Patches Keras's trainer so that ``model.train_function`` has the inspection methods of a ``tf.function``.

    Examples are ``ir`` and ``profile``. Keras wraps the ``tf.function`` of a training step in a Python function, which has no
    such methods.
    """
    trainer = vars(module)["TensorFlowTrainer"]
    keras_make_function = trainer._make_function

    @functools.wraps(keras_make_function)
    def _make_function(self: Any, step_function: Any) -> Any:
        """Makes Keras's step function, and copies the inspection methods of the ``tf.function`` in its closure to it."""
        step_wrapper = keras_make_function(self, step_function)
        closure_values: list[Any] = [cell.cell_contents for cell in step_wrapper.__closure__ or ()]
        functions: list[Any] = [value for value in closure_values if isinstance(value, PolymorphicFunction)]
        for function in functions:
            if function.python_function.__name__ == STEPS_ON_ITERATOR:
                vars(step_wrapper).update({name: getattr(function, name) for name in INSPECTING})
        return step_wrapper

    trainer._make_function = _make_function


def _set_backend(module: ModuleType) -> None:
    """Sets Keras's backend to TensorFlow, also if the user chose another backend.

    The user's choice is for the Keras that other code imports.
    """
    vars(module)["_BACKEND"] = "tensorflow"


def _build_under_lock(module: ModuleType) -> None:
    """Patches Keras's optimizers to create their Variables under a lock, because threads may run the first steps at once.

    Without the lock, a second thread could use Variables that don't exist yet: Keras sets ``built`` first.
    """
    keras_apply = module.BaseOptimizer.apply

    def apply_after_build(self: Any, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        """Applies gradients to Variables. Before the first step it creates the optimizer's Variables under a lock.

        Args:
          grads: the gradients.
          trainable_variables: the Variables to train; None for those that the optimizer was built for.
        """
        if trainable_variables is not None and len(grads):
            trainable_variables = list(trainable_variables)
            with _build_lock:
                if not self.built:
                    with module.backend.name_scope(self.name, caller=self):
                        self.build(trainable_variables)
        keras_apply(self, grads, trainable_variables)

    module.BaseOptimizer.apply = functools.wraps(keras_apply)(apply_after_build)


STEPS_ON_ITERATOR = "multi_step_on_iterator"
INSPECTING = ("ir", "draw", "relax", "cost", "memory", "profile", "tune", "explain_retraces", "get_concrete_function")
"""Methods of a ``tf.function`` that inspect its code."""
HOOKS: dict[str, Callable[[ModuleType], None]] = {
    # "loss=tf.keras.losses.mean_squared_error"
    "_tf_keras.keras.losses": _add_functions,
    "_tf_keras.keras.metrics": _add_functions,
    "src.backend.config": _set_backend,
    "src.export.onnx": exports.patch_nothing,
    "src.utils.module_utils": exports.write_onnx,
    "src.saving.serialization_lib": _serialize_under_keras,
    # "tf.keras.layers.Activation(tf.nn.relu)"; "keras_model.save(keras_module_path+"/my_model.keras")"
    "src.activations": _serialize_ops,
    "src.optimizers.base_optimizer": _build_under_lock,
    "src.backend.tensorflow.trainer": _add_inspection,
    "src.backend.tensorflow.optimizer": eager_steps.compile_steps,
    "src.trainers.data_adapters": _recognize_datasets,
    "src.trainers.data_adapters.data_adapter_utils": _recognize_tensors,
    "src.utils.backend_utils": _recognize_traces,
    "src.utils.tf_utils": _recognize_ragged,
    "src.utils.dataset_utils": _recognize_datasets,
    # "print(issubclass(tf.keras.layers.Layer, tf.Module))  # True"; "model.submodules"; "print(model.name_scope())  # sequential"
    "src.backend.tensorflow.layer": modules.make_layers_modules,
    # "self.w = tf.Variable(tf.random.normal([in_features, out_features]), name='w')" in a layer: "Trainable params: 20"
    "src.utils.tracking": modules.accept_parts_when_locked,
    # The same, in "def build(self, input_shape)", too; "simple_layer([[2.0, 2.0, 2.0]])"
    "src.layers.layer": _change_layers,
    # "keras_model.save_weights(...)" of such a model
    "src.saving.saving_lib": modules.save_modules,
    # "model_to_be_restored = MyModel(); checkpoint = tf.train.Checkpoint(myAwesomeModel=model_to_be_restored); checkpoint.restore"
    "src.backend.tensorflow.core": modules.restore_unbuilt_variables,
    # "my_sequential_model.save("exname_of_file")"; "tf.keras.models.load_model("exname_of_file")"
    "src.saving.saving_api": folders.save_folders,
    # "keras_model.save_weights("my_checkpoint")"
    "src.models.model": folders.save_checkpoints,
}
"""The hook of each module; comments quote the lines of TensorFlow's documents that need it."""
