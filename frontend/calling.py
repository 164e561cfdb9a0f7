"""Calling one trace by itself: arguments bound to its Python signature, converted, and checked against what it was traced for."""

from __future__ import annotations

import inspect
from typing import Any

from tvtf.frontend.signature import Arguments, Leaf, flatten_up_to
from tvtf.spec import TensorSpec
from tvtf.tensor import convert_to_tensor
from tvtf.variable import Variable


class Misfit(Exception):
    """Why an argument does not fit."""


def bind_call(
    signature: inspect.Signature, traced: Arguments, args: Any, kwargs: Any
) -> tuple[list[Any], list[Variable]]:
    """The tensors and the Variables of a call, in the order in which the trace takes them; its own Python values fill in.

    Raises:
      TypeError: when the arguments don't fit the trace.
    """
    try:
        given = _filled(signature, traced, args, kwargs)
        values = [_fitted(leaf, value) for leaf, value in zip(traced.leaves, _flattened(traced, given))]
    except (TypeError, ValueError, Misfit) as error:
        raise TypeError(
            f"Binding inputs to tf.function failed due to `{error}`. Received args: {args} and kwargs: {kwargs} for "
            f"signature: ({_described(signature, traced)})."
        ) from None
    tensors = [v for leaf, v in zip(traced.leaves, values) if leaf.spec is not None]
    return tensors, [v for v in values if isinstance(v, Variable)]


def _filled(signature: inspect.Signature, traced: Arguments, args: Any, kwargs: Any) -> Any:
    """``(args, kwargs)`` of the call; what it leaves out is the trace's own leaf."""
    own_args, own_kwargs = traced.described(lambda leaf: leaf)
    own = signature.bind(*own_args, **own_kwargs)
    own.arguments |= signature.bind_partial(*args, **kwargs).arguments
    return own.args, own.kwargs


def _flattened(traced: Arguments, given: Any) -> list[Any]:
    flat = flatten_up_to(traced.structure, given)
    if flat is None:
        raise Misfit("the structure of the arguments differs from the traced one")
    return flat


def _fitted(leaf: Leaf, value: Any) -> Any:
    if leaf.spec is not None:
        return _tensor(leaf, value)
    if value is leaf:
        return leaf.value
    if isinstance(leaf.value, Variable) and isinstance(value, Variable):
        return value
    if Leaf(leaf.name, value).key != leaf.key:
        raise Misfit(f"Can not cast {value!r} to {leaf.typed_text()}")
    return value


def _tensor(leaf: Leaf, value: Any) -> Any:
    if value is leaf:
        raise Misfit(f"missing a required argument: {leaf.name!r}")
    spec = TensorSpec(leaf.spec.shape, leaf.spec.dtype)  # type: ignore[union-attr]
    tensor = convert_to_tensor(value, dtype_hint=spec.dtype)
    if not spec.is_compatible_with(tensor):
        raise Misfit(f"Can not cast {TensorSpec(tensor.shape, tensor.dtype)!r} to {spec!r}")
    return tensor


def _described(signature: inspect.Signature, traced: Arguments) -> str:
    args, kwargs = traced.described(Leaf.typed_text)
    return ", ".join(f"{name}: {text}" for name, text in signature.bind(*args, **kwargs).arguments.items())
