"""Primitives of ``tf.custom_gradient`` and ``tf.recompute_grad``: calls in the IR with custom gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tvtf.core.primitive import primitive
from tvtf.core.shape import TensorType
from tvtf.core.tensor import Tensor
from tvtf.ops.control import arity, call, call_numpy, result_types
from tvtf.ops.indexed_slices import rows_of


def _type(*inputs: TensorType, count: int, **_: Any) -> tuple[TensorType, ...]:
    return inputs[:count]


def _numpy(*arrays: np.ndarray, count: int, **_: Any) -> tuple[np.ndarray, ...]:
    return arrays[:count]


def _vjp(cotangents: Any, outputs: Any, *inputs: Tensor, backward: Any, count: int, given: Any, error_text: str) -> Any:
    if error_text:
        raise LookupError(error_text)
    results = call(backward, [*cotangents, *inputs[used_from(len(inputs), backward, count) :]])
    return gradients_of(inputs, results, given)


def gradients_of(inputs: Sequence[Tensor], results: Iterable[Tensor], given: Iterable[tuple[int, bool]]) -> list[Any]:
    """Returns a list with the gradient of each input, from the flat results of a user's backward function.

    Args:
      inputs: the inputs of the function whose gradient was computed.
      results: the results of the backward function. A gradient that is IndexedSlices has two: values and indices.
      given: a pair for each gradient among the results: the index of the input, and whether it is IndexedSlices.

    Returns:
      the gradients, None for an input that has none.
    """
    gradients: list[Any] = [None] * len(inputs)
    remaining = iter(results)
    for index, is_indexed_slices in given:
        values = next(remaining)
        if is_indexed_slices:
            indices = next(remaining)
            gradients[index] = rows_of(inputs[index], values, indices)
        else:
            gradients[index] = values
    return gradients


def used_from(size: int, backward: Any, count: int) -> int:
    """Returns the index of the first input that the backward function takes after the cotangents."""
    return size - arity(backward) + count


def _operands(name: str, types: list[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
    """Returns the operand types of the backward function: cotangents, then captures."""
    count = attrs["count"]
    return [*types[:count], *types[used_from(len(types), attrs["backward"], count) :]]


@primitive(
    tf_name="CustomGradient",
    operands=_operands,
    type=_type,
    numpy=_numpy,
    vjp=_vjp,
    why_not={
        "lower": "the simplify pass replaces it by its first inputs",
        "onnx": "the exporter passes its first inputs on",
        "samples": "its functions are tested by tests/frontend/test_custom.py",
    },
)
def with_gradient(*inputs: Tensor, backward: Any, count: int, given: Any = (), error_text: str = "") -> Any:
    """Returns its first ``count`` inputs unchanged, and makes ``backward`` compute their gradients.

    Args:
      inputs: the results of the user's function, the function's inputs, and the tensors that ``backward`` captures.
      backward: a function of the results' cotangents and the captured tensors.
      count: the number of results.
      given: for each gradient that ``backward`` returns, the index of the input, and whether it is IndexedSlices.
      error_text: the error of a gradient that doesn't exist.

    Source: https://www.tensorflow.org/api_docs/python/tf/custom_gradient
    """
    return inputs, {"backward": backward, "count": count, "given": given, "error_text": error_text}


_RECOMPUTE: dict[str, Any] = {
    "tf_name": "RecomputeGrad",
    "type": lambda *inputs, forward, count: result_types(forward, inputs),
    "numpy": lambda *arrays, forward, count: call_numpy(forward, arrays),
    "why_not": {
        "lower": "the simplify pass replaces it by its function",
        "onnx": "the exporter inlines its function",
        "samples": "its functions are tested by tests/frontend/test_recompute.py",
    },
}


@primitive(**_RECOMPUTE)
def recompute(*inputs: Tensor, forward: Any, count: int) -> Any:
    """Calls ``forward``, which is recomputed for its gradient; only the first ``count`` results are differentiable.

    Source: https://www.tensorflow.org/api_docs/python/tf/recompute_grad
    """
    return inputs, {"forward": forward, "count": count}


@primitive(pure=False, **_RECOMPUTE)
def effect_recompute(*inputs: Tensor, forward: Any, count: int) -> Any:
    """Same as ``recompute``, for a function with effects."""
    return inputs, {"forward": forward, "count": count}
