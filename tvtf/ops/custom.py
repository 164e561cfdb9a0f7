"""The primitives behind ``tf.custom_gradient`` and ``tf.recompute_grad``: functions in the IR with gradients of their own."""

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


def _vjp(cts: Any, outputs: Any, *inputs: Tensor, backward: Any, count: int, given: Any, refusal: str) -> Any:
    if refusal:
        raise LookupError(refusal)
    found = call(backward, [*cts, *inputs[used_from(len(inputs), backward, count) :]])
    return gradients_of(inputs, found, given)


def gradients_of(inputs: Sequence[Tensor], found: Iterable[Tensor], given: Iterable[tuple[int, bool]]) -> list[Any]:
    """What a backward function found, one for each input: None, a tensor, or rows."""
    gradients: list[Any] = [None] * len(inputs)
    left = iter(found)
    for place, is_rows in given:
        gradients[place] = rows_of(inputs[place], next(left), next(left)) if is_rows else next(left)
    return gradients


def used_from(size: int, backward: Any, count: int) -> int:
    """Where, of so many inputs, those begin that a backward function is given after the cotangents."""
    return size - arity(backward) + count


def _operands(name: str, types: list[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
    """Cotangents and captures for the backward function."""
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
def with_gradient(*inputs: Tensor, backward: Any, count: int, given: Any = (), refusal: str = "") -> Any:
    """The first ``count`` inputs, whose gradient is ``backward``'s: of cotangents and the last inputs.

    It gives those by the inputs that ``given`` tells the places of, and whether they are rows. ``refusal`` says why it is
    None.

    Source: https://www.tensorflow.org/api_docs/python/tf/custom_gradient
    """
    return inputs, {"backward": backward, "count": count, "given": given, "refusal": refusal}


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
    """``forward(*inputs)``, which runs once more for its gradient; what comes after ``count`` results has none.

    Source: https://www.tensorflow.org/api_docs/python/tf/recompute_grad
    """
    return inputs, {"forward": forward, "count": count}


@primitive(name="effect_recompute", pure=False, **_RECOMPUTE)
def effect_recompute(*inputs: Tensor, forward: Any, count: int) -> Any:
    """As ``recompute``, of a function that has effects."""
    return inputs, {"forward": forward, "count": count}
