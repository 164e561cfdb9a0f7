"""Exports Keras's models as functions for other formats, such as ONNX."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import tvtf
from tvtf.keras.modules import called_on, input_specs
from tvtf.onnx.model_functions import finders

MSG_UNBUILT = (
    "{!r} can't be exported: its input specs are not known, since it was not called yet. Call it on some data, or pass "
    "input_signature."
)


def accept_layers(module: Any) -> None:
    """Lets tvtf's exports, such as that to ONNX, accept a Keras layer or model in place of a function.

    The layer is exported for inference. ``module`` is Keras's ``layers.layer``.
    """
    layer_class = module.Layer

    def function_of_model(value: Any, input_signature: Any) -> Any:
        """Returns a function that calls a Keras layer and the tensor specs of its inputs, or None for other objects."""
        if not isinstance(value, layer_class):
            return None
        specs = input_signature or input_specs(value)
        if not specs:
            raise ValueError(MSG_UNBUILT.format(value.name))
        return tvtf.function(lambda *inputs: value(*inputs, training=False), autograph=False), specs

    finders.append(function_of_model)


def prediction(model: Any) -> Any:
    """Returns a ``tf.function`` that calls a layer or model for inference, as the method ``predict`` does.

    The function accepts the inputs that the model was built or called on, in batches of any size.

    Raises:
      ValueError: the model was neither built nor called, so that the specs of the inputs are not known.
    """
    specs = input_specs(model)
    if not specs:
        raise ValueError(MSG_UNBUILT.format(model.name))
    return called_on(model, specs)


def _from_function(function: Any, input_signature: Any, opset: int | None = None, output_path: Any = None) -> Any:
    """Exports a ``tf.function`` to ONNX, in place of ``tf2onnx.convert.from_function``.

    Args:
      function: a ``tf.function``, or a concrete function.
      input_signature: the specs of the arguments.
      opset: the version of ONNX's operators; None for the default.
      output_path: the path of the file, or None.
    """
    concrete = function
    if hasattr(function, "get_concrete_function"):
        concrete = function.get_concrete_function(*input_signature)
    return tvtf.onnx.export(concrete, path=output_path, opset=opset)


def write_onnx(module: ModuleType) -> None:
    """Patches Keras's ``utils.module_utils`` so that ``model.export(..., format="onnx")`` uses tvtf instead of tf2onnx."""
    vars(module)["tf2onnx"] = SimpleNamespace(convert=SimpleNamespace(from_function=_from_function))


def patch_nothing(module: ModuleType) -> None:
    """Patches Keras's ``export.onnx`` so that Keras does not change tf2onnx, which is not used."""
    vars(module)["patch_tf2onnx"] = lambda: None
