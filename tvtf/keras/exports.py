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
    """Lets exports accept a Keras layer, as a function of the inputs that it was built or called on, run for inference.

    ``module`` is Keras's ``layers.layer``.
    """
    layer_class = module.Layer

    def function_of_model(value: Any, input_signature: Any) -> Any:
        if not isinstance(value, layer_class):
            return None
        specs = input_signature or input_specs(value)
        if not specs:
            raise ValueError(MSG_UNBUILT.format(value.name))
        return tvtf.function(lambda *inputs: value(*inputs, training=False), autograph=False), specs

    finders.append(function_of_model)


def prediction(model: Any) -> Any:
    """Returns a traceable function that calls a layer or model for inference, as its method ``predict`` does.

    Its arguments have the specs of the inputs that the model was built or called on, for batches of any size.

    Raises:
      ValueError: its input specs are not known.
    """
    specs = input_specs(model)
    if not specs:
        raise ValueError(MSG_UNBUILT.format(model.name))
    return called_on(model, specs)


def _from_function(function: Any, input_signature: Any, opset: int | None = None, output_path: Any = None) -> Any:
    """Replaces ``tf2onnx.convert.from_function``, with the arguments that Keras passes."""
    concrete = (
        function.get_concrete_function(*input_signature) if hasattr(function, "get_concrete_function") else function
    )
    return tvtf.onnx.export(concrete, path=output_path, opset=opset)


def write_onnx(module: ModuleType) -> None:
    """For ``utils.module_utils``: ``model.export(..., format="onnx")`` uses tvtf instead of tf2onnx."""
    vars(module)["tf2onnx"] = SimpleNamespace(convert=SimpleNamespace(from_function=_from_function))


def patch_nothing(module: ModuleType) -> None:
    """For ``export.onnx``: disables a patch of tf2onnx, which is not used."""
    vars(module)["patch_tf2onnx"] = lambda: None
