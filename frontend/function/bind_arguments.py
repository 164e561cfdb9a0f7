"""Calling one trace by itself: arguments bound to its Python signature, converted, and checked against what it was traced for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tvtf.core import nest
from tvtf.core.tensor import convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.dtypes import type_name
from tvtf.errors import InvalidArgumentError
from tvtf.frontend.function.signature import Arguments, Leaf, flatten_up_to
from tvtf.state.variable import Variable


class ArgumentMismatch(Exception):
    """Why an argument does not fit."""


def bind_call(concrete: Any, args: Any, kwargs: Any) -> tuple[list[Any], list[Variable]]:
    """The tensors and the Variables of a call, in the order in which the trace takes them; its own Python values fill in.

    The arguments are those of the Python function, or, where these don't fit, the tensors alone.

    Raises:
      TypeError: when the arguments don't fit the trace.
      InvalidArgumentError: a tensor has another dtype.
    """
    traced = concrete.arguments
    try:
        given = _filled(concrete._signature, traced, args, kwargs)
        values = [_fitted(leaf, value) for leaf, value in zip(traced.leaves, _flattened(traced, given))]
    except (TypeError, ValueError, ArgumentMismatch) as error:
        return _bind_flat(concrete, args, kwargs, str(error)), traced.variables
    tensors = [v for leaf, v in zip(traced.leaves, values) if leaf.spec is not None]
    return tensors, [v for v in values if isinstance(v, Variable)]


def _bind_flat(concrete: Any, args: Any, kwargs: Any, reason: str) -> list[Any]:
    leaves = [leaf for leaf in concrete.arguments.leaves if leaf.spec is not None]
    try:
        given = _by_name(concrete, [leaf.name for leaf in leaves], args, kwargs)
        return [_flat_tensor(concrete.name, i, leaf, value) for i, (leaf, value) in enumerate(zip(leaves, given))]
    except ArgumentMismatch as flat:
        told = "" if str(flat) == reason else f"\nFallback to flat signature also failed due to: {flat}."
        raise TypeError(
            f"Binding inputs to tf.function failed due to `{reason}`. Received args: {args} and kwargs: {kwargs} for "
            f"signature: {concrete.function_type}.{told}"
        ) from None


def _by_name(concrete: Any, names: list[str], args: Any, kwargs: Any) -> list[Any]:
    """The values of the tensors with these names."""
    told = f"{concrete.name}({', '.join(names)})"
    if len(args) > len(names):
        raise ArgumentMismatch(f"{told} takes {len(names)} positional arguments, got {len(args)}")
    given = dict(zip(names, args)) | kwargs
    missing = [name for name in names if name not in given]
    if missing:
        raise ArgumentMismatch(f"{told} missing required arguments: {', '.join(missing)}")
    unexpected = [name for name in given if name not in names]
    if unexpected:
        raise ArgumentMismatch(f"{told} got unexpected keyword arguments: {', '.join(unexpected)}")
    return [given[name] for name in names]


def _flat_tensor(name: str, place: int, leaf: Leaf, value: Any) -> Any:
    try:
        tensor = convert_to_tensor(value, dtype_hint=leaf.spec.dtype)  # type: ignore[union-attr]
    except (TypeError, ValueError) as error:
        raise ArgumentMismatch(str(error)) from None
    if tensor.dtype is not leaf.spec.dtype:  # type: ignore[union-attr]
        wanted, found = type_name(leaf.spec.dtype), type_name(tensor.dtype)  # type: ignore[union-attr]
        raise InvalidArgumentError(
            None,
            None,
            f"cannot compute {name} as input #{place}(zero-based) was expected to be a {wanted} tensor but is a {found} "
            f"tensor [Op:{name}]",
        )
    return _tensor(leaf, tensor)


def _filled(signature: inspect.Signature, traced: Arguments, args: Any, kwargs: Any) -> Any:
    """``(args, kwargs)`` of the call; what it leaves out is the trace's own leaf."""
    own_args, own_kwargs = traced.described(lambda leaf: leaf)
    own = signature.bind(*own_args, **own_kwargs)
    own.arguments |= signature.bind_partial(*args, **kwargs).arguments
    return own.args, own.kwargs


def _flattened(traced: Arguments, given: Any) -> list[Any]:
    flat = flatten_up_to(traced.structure, given)
    if flat is None:
        raise ArgumentMismatch("the structure of the arguments differs from the traced one")
    return flat


def _fitted(leaf: Leaf, value: Any) -> Any:
    if leaf.is_held:
        return _held(leaf, value)
    if leaf.spec is not None:
        return _tensor(leaf, value)
    if value is leaf:
        return leaf.value
    if isinstance(leaf.value, Variable) and isinstance(value, Variable):
        return value
    if Leaf(leaf.name, value).key != leaf.key:
        raise ArgumentMismatch(f"Can not cast {value!r} to {leaf.typed_text()}")
    return value


def require_unmodified(function: Callable[..., Any], signature: inspect.Signature, before: Any, after: Any) -> None:
    """Raises ValueError where Python that was traced changed lists or dicts among its arguments, ``(args, kwargs)``.

    Those are copies made for the trace, so the caller's would stay as they are, and calls that need no trace do nothing.
    """
    old, new = (signature.bind(*args, **kwargs).arguments for args, kwargs in (before, after))
    modified = [name for name in old if not _is_same(old[name], new[name])]
    if modified:
        raise ValueError(
            f"{getattr(function, '__qualname__', function)}{signature} should not modify its Python input arguments. "
            f"Modifying a copy is allowed. The following parameter(s) were modified: {', '.join(modified)}"
        )


def _is_same(old: Any, new: Any) -> bool:
    """Whether nests have one form and the same leaves."""
    try:
        nest.assert_same_structure(old, new)
    except (TypeError, ValueError):
        return False
    return all(a is b for a, b in zip(nest.flatten(old), nest.flatten(new)))


def _held(leaf: Leaf, value: Any) -> Any:
    given = leaf if value is leaf else Leaf(leaf.name, value)
    if given.key != leaf.key:
        raise ArgumentMismatch(f"Can not cast {value!r} to {leaf.typed_text()}")
    return given.tensor


def _tensor(leaf: Leaf, value: Any) -> Any:
    if value is leaf:
        raise ArgumentMismatch(f"missing a required argument: {leaf.name!r}")
    spec = TensorSpec(leaf.spec.shape, leaf.spec.dtype)  # type: ignore[union-attr]
    tensor = convert_to_tensor(value, dtype_hint=spec.dtype)
    if not spec.is_compatible_with(tensor):
        raise ArgumentMismatch(f"Can not cast {TensorSpec(tensor.shape, tensor.dtype)!r} to {spec!r}")
    return tensor


def described(concrete: Any) -> str:
    """The arguments with their types."""
    args, kwargs = concrete.arguments.described(Leaf.typed_text)
    return ", ".join(f"{name}: {text}" for name, text in concrete._signature.bind(*args, **kwargs).arguments.items())
