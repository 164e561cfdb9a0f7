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

_building = Lock()


def _know_tensors(module: ModuleType) -> None:
    """Recognizes tvtf's tensors, because Keras looks at the module name of a tensor's class."""
    vars(module).update(
        is_tensorflow_tensor=tvtf.is_tensor,
        is_tensorflow_ragged=lambda value: isinstance(value, tvtf.RaggedTensor),
        is_tensorflow_sparse=lambda value: isinstance(value, tvtf.SparseTensor),
    )


def _know_ragged(module: ModuleType) -> None:
    """Recognizes tvtf's ragged tensors, because Keras's layers compare the text of their class."""
    vars(module)["is_ragged_tensor"] = lambda x: isinstance(x, tvtf.RaggedTensor)


def _know_datasets(module: ModuleType) -> None:
    """Recognizes tvtf's datasets, because Keras looks at the module name of a dataset's class."""
    vars(module)["is_tf_dataset"] = lambda dataset: isinstance(dataset, tvtf.data.Dataset)


def _know_traces(module: ModuleType) -> None:
    """Reports traces: Keras checks for them only if ``sys.modules`` has TensorFlow."""

    def in_tf_graph() -> bool:
        is_set = module.global_state.get_global_attribute("in_tf_graph_scope", False)
        return is_set or not tvtf.executing_eagerly()

    vars(module)["in_tf_graph"] = in_tf_graph


def _have_functions(module: ModuleType) -> None:
    """Adds functions under their full names, which ``keras.losses`` has and ``tf.keras.losses`` lacks."""
    package, _, name = module.__name__.partition("._tf_keras.keras.")
    for public, function in vars(import_module(f"{package}.{name}")).items():
        if not public.startswith("_"):
            vars(module).setdefault(public, function)


def _name_as_keras(module: ModuleType) -> None:
    """Stores classes and ops by the names with which every Keras finds them.

    Keras's classes lie in ``keras``, not in a copy of it, and ops are functions in TensorFlow.
    """
    package = module.__name__.removesuffix(".src.saving.serialization_lib")
    serialize = vars(module)["serialize_keras_object"]

    @functools.wraps(serialize)
    def serialize_keras_object(obj: Any) -> Any:
        config = serialize(_as_function(obj))
        place = config.get("module") if isinstance(config, dict) else None
        if isinstance(place, str) and place.startswith(f"{package}."):
            config["module"] = f"keras{place.removeprefix(package)}"
        return config

    vars(module)["serialize_keras_object"] = serialize_keras_object


def _serialize_ops(module: ModuleType) -> None:
    """Lets activations be ops, which are functions in TensorFlow."""
    serialize = vars(module)["serialize"]
    vars(module)["serialize"] = functools.wraps(serialize)(lambda activation: serialize(_as_function(activation)))


def _as_function(value: Any) -> Any:
    """Returns an op as a function, because Keras's serialization looks for functions."""
    if not isinstance(value, Primitive):
        return value
    return functools.update_wrapper(lambda *args, **kwargs: value(*args, **kwargs), value)


def _change_layers(module: ModuleType) -> None:
    """Makes layers hold TensorFlow's parts, and exports accept layers."""
    modules.hold_parts(module)
    exports.know_layers(module)


def _look_into_steps(module: ModuleType) -> None:
    """Adds the methods that inspect compiled code to ``model.train_function``, a Python wrapper of a ``tf.function``."""
    trainer = vars(module)["TensorFlowTrainer"]
    keras = trainer._make_function

    @functools.wraps(keras)
    def _make_function(self: Any, step_function: Any) -> Any:
        """Adds the inspection methods of the traced step to Keras's wrapper of it."""
        step_wrapper = keras(self, step_function)
        contents: list[Any] = [cell.cell_contents for cell in step_wrapper.__closure__ or ()]
        functions: list[Any] = [each for each in contents if isinstance(each, PolymorphicFunction)]
        for traced in functions:
            if traced.python_function.__name__ == STEPS_ON_ITERATOR:
                vars(step_wrapper).update({name: getattr(traced, name) for name in INSPECTING})
        return step_wrapper

    trainer._make_function = _make_function


def _take_backend(module: ModuleType) -> None:
    """Sets the backend: another one that the user chose is for the Keras that other code imports."""
    vars(module)["_BACKEND"] = "tensorflow"


def _build_once(module: ModuleType) -> None:
    """Builds an optimizer under a lock: Keras sets ``built`` before the slots exist, and threads may run first steps at once."""
    apply = module.BaseOptimizer.apply

    def apply_built(self: Any, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        """Builds the optimizer's Variables under a lock before the first step."""
        if trainable_variables is not None and len(grads):
            trainable_variables = list(trainable_variables)
            with _building:
                if not self.built:
                    with module.backend.name_scope(self.name, caller=self):
                        self.build(trainable_variables)
        apply(self, grads, trainable_variables)

    module.BaseOptimizer.apply = functools.wraps(apply)(apply_built)


STEPS_ON_ITERATOR = "multi_step_on_iterator"
INSPECTING = ("ir", "draw", "relax", "cost", "memory", "profile", "tune", "explain_retraces", "get_concrete_function")
"""Methods of a ``tf.function`` that inspect its code."""
HOOKS: dict[str, Callable[[ModuleType], None]] = {
    # "loss=tf.keras.losses.mean_squared_error"
    "_tf_keras.keras.losses": _have_functions,
    "_tf_keras.keras.metrics": _have_functions,
    "src.backend.config": _take_backend,
    "src.export.onnx": exports.patch_nothing,
    "src.utils.module_utils": exports.write_onnx,
    "src.saving.serialization_lib": _name_as_keras,
    # "tf.keras.layers.Activation(tf.nn.relu)"; "keras_model.save(keras_module_path+"/my_model.keras")"
    "src.activations": _serialize_ops,
    "src.optimizers.base_optimizer": _build_once,
    "src.backend.tensorflow.trainer": _look_into_steps,
    "src.backend.tensorflow.optimizer": eager_steps.compile_steps,
    "src.trainers.data_adapters": _know_datasets,
    "src.trainers.data_adapters.data_adapter_utils": _know_tensors,
    "src.utils.backend_utils": _know_traces,
    "src.utils.tf_utils": _know_ragged,
    "src.utils.dataset_utils": _know_datasets,
    # "print(issubclass(tf.keras.layers.Layer, tf.Module))  # True"; "model.submodules"; "print(model.name_scope())  # sequential"
    "src.backend.tensorflow.layer": modules.be_modules,
    # "self.w = tf.Variable(tf.random.normal([in_features, out_features]), name='w')" in a layer: "Trainable params: 20"
    "src.utils.tracking": modules.track_parts,
    # The same, in "def build(self, input_shape)", too; "simple_layer([[2.0, 2.0, 2.0]])"
    "src.layers.layer": _change_layers,
    # "keras_model.save_weights(...)" of such a model
    "src.saving.saving_lib": modules.save_parts,
    # "model_to_be_restored = MyModel(); checkpoint = tf.train.Checkpoint(myAwesomeModel=model_to_be_restored); checkpoint.restore"
    "src.backend.tensorflow.core": modules.restore_early,
    # "my_sequential_model.save("exname_of_file")"; "tf.keras.models.load_model("exname_of_file")"
    "src.saving.saving_api": folders.save_folders,
    # "keras_model.save_weights("my_checkpoint")"
    "src.models.model": folders.save_checkpoints,
}
"""The hook of each module; comments quote the lines of TensorFlow's documents that need it."""
