"""The primitives behind ``tf.custom_gradient`` and ``tf.recompute_grad``: functions in the IR with gradients of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.ops.control import call, call_numpy, late, result_types
from tvtf.primitive import primitive
from tvtf.shape import TensorType
from tvtf.tensor import Tensor


def _type(*inputs: TensorType, forward: Any, backward: Any, arguments: int, given: Any) -> tuple[TensorType, ...]:
    return result_types(forward, inputs)


def _numpy(*arrays: np.ndarray, forward: Any, backward: Any, arguments: int, given: Any) -> tuple[np.ndarray, ...]:
    return call_numpy(forward, arrays)


def _vjp(cts: Any, outputs: Any, *inputs: Tensor, forward: Any, backward: Any, arguments: int, given: Any) -> Any:
    found = call(backward, [*inputs[:arguments], *cts, *inputs[arguments:]])
    gradients: list[Any] = [None] * len(inputs)
    for place, ct in zip(given, found):
        gradients[place] = ct
    return gradients


def _operands(name: str, types: list[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
    """Inputs for the forward function; arguments, cotangents and captures for the backward one."""
    if name == "forward":
        return types
    count = attrs["arguments"]
    return [*types[:count], *result_types(attrs["forward"], types), *types[count:]]


@primitive(
    tf_name="CustomGradient",
    operands=_operands,
    type=_type,
    numpy=_numpy,
    vjp=_vjp,
    batch=late("mapped", "custom_batch"),
    why_not={
        "lower": "the simplify pass replaces it by its forward function",
        "onnx": "the exporter inlines its forward function",
        "samples": "its functions are tested by tests/frontend/test_custom.py",
    },
)
def with_gradient(*inputs: Tensor, forward: Any, backward: Any, arguments: int, given: Any) -> Any:
    """``forward(*inputs)``, whose gradient by the first ``arguments`` inputs is ``backward``'s; ``given`` says which it gives.

    Source: https://www.tensorflow.org/api_docs/python/tf/custom_gradient
    """
    return inputs, {"forward": forward, "backward": backward, "arguments": arguments, "given": given}


_RECOMPUTE: dict[str, Any] = {
    "tf_name": "RecomputeGrad",
    "type": lambda *inputs, forward, count: result_types(forward, inputs),
    "numpy": lambda *arrays, forward, count: call_numpy(forward, arrays),
    "vjp": late("recompute", "recompute_vjp"),
    "batch": late("mapped", "recompute_batch"),
    "why_not": {
        "lower": "the simplify pass replaces it by its function",
        "onnx": "the exporter inlines its function",
        "samples": "its functions are tested by tests/frontend/test_recompute.py",
    },
}


@primitive(**_RECOMPUTE)
def recompute(*inputs: Tensor, forward: Any, count: int) -> Any:
    """``forward(*inputs)``, which runs once more for its gradient; what comes after ``count`` results has none.

    Source: https://www.tensorflow.org/api_docs/python/tf/recompute_grad
    """
    return inputs, {"forward": forward, "count": count}


@primitive(name="effect_recompute", pure=False, **_RECOMPUTE)
def effect_recompute(*inputs: Tensor, forward: Any, count: int) -> Any:
    """As ``recompute``, of a function that has effects."""
    return inputs, {"forward": forward, "count": count}
