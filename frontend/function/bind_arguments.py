"""Binds, converts and checks the arguments of a call of one trace (a concrete function)."""

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
    """An argument that does not fit the trace; the message says why."""


def bind_call(concrete: Any, args: Any, kwargs: Any) -> tuple[list[Any], list[Variable]]:
    """Binds the arguments of a call of one trace. Python values of the trace may be left out.

    If the arguments don't fit the Python function's signature, they are bound as the flat list of the trace's tensors.

    Args:
      concrete: the trace.
      args, kwargs: the arguments of the call.

    Returns:
      the tensors and the Variables among the arguments, in the trace's order.

    Raises:
      TypeError: the arguments don't fit the trace.
      InvalidArgumentError: the dtype of a tensor differs from the trace's.
    """
    traced = concrete.arguments
    try:
        bound = _with_traced_leaves(concrete._signature, traced, args, kwargs)
        values = [_checked_argument(leaf, value) for leaf, value in zip(traced.leaves, _flattened(traced, bound))]
    except (TypeError, ValueError, ArgumentMismatch) as error:
        return _bind_flat(concrete, args, kwargs, str(error)), traced.variables
    tensors = [value for leaf, value in zip(traced.leaves, values) if leaf.spec is not None]
    variables = [value for leaf, value in zip(traced.leaves, values) if leaf.is_variable]
    return tensors, variables


def _bind_flat(concrete: Any, args: Any, kwargs: Any, reason: str) -> list[Any]:
    """Binds a call's arguments as the flat list of the trace's tensors.

    Args:
      concrete: the trace.
      args, kwargs: the arguments of the call.
      reason: the error of binding them to the function's own signature, which comes first in TensorFlow, too.

    Raises:
      TypeError: the arguments don't fit the flat list either.
    """
    leaves = [leaf for leaf in concrete.arguments.leaves if leaf.spec is not None]
    names = [leaf.name for leaf in leaves]
    try:
        values = _values_in_order(concrete, names, args, kwargs)
        return [_flat_tensor(concrete.name, i, leaf, value) for i, (leaf, value) in enumerate(zip(leaves, values))]
    except ArgumentMismatch as error:
        flat_reason = "" if str(error) == reason else f"\nFallback to flat signature also failed due to: {error}."
        raise TypeError(
            f"Binding inputs to tf.function failed due to `{reason}`. Received args: {args} and kwargs: {kwargs} for "
            f"signature: {concrete.function_type}.{flat_reason}"
        ) from None


def _values_in_order(concrete: Any, names: list[str], args: Any, kwargs: Any) -> list[Any]:
    """Returns a call's values, passed by position or by keyword, in the order of the parameters ``names``.

    Raises:
      ArgumentMismatch: a parameter has no value, or a value has no parameter. The text is TensorFlow's.
    """
    call_text = f"{concrete.name}({', '.join(names)})"
    if len(args) > len(names):
        raise ArgumentMismatch(f"{call_text} takes {len(names)} positional arguments, got {len(args)}")
    values = dict(zip(names, args)) | kwargs
    missing = [name for name in names if name not in values]
    if missing:
        raise ArgumentMismatch(f"{call_text} missing required arguments: {', '.join(missing)}")
    unexpected = [name for name in values if name not in names]
    if unexpected:
        raise ArgumentMismatch(f"{call_text} got unexpected keyword arguments: {', '.join(unexpected)}")
    return [values[name] for name in names]


def _flat_tensor(name: str, index: int, leaf: Leaf, value: Any) -> Any:
    """Converts a value of a flat list of arguments to a tensor.

    Args:
      name: the name of the trace, for error messages.
      index: the value's position in the list.
      leaf: the tensor argument of the trace.
      value: the value to convert.

    Raises:
      ArgumentMismatch: the value can't be converted, or its shape doesn't fit.
      InvalidArgumentError: it has another dtype. The text is TensorFlow's.
    """
    spec: Any = leaf.spec
    try:
        tensor = convert_to_tensor(value, dtype_hint=spec.dtype)
    except (TypeError, ValueError) as error:
        raise ArgumentMismatch(str(error)) from None
    if tensor.dtype is not spec.dtype:
        expected, actual = type_name(spec.dtype), type_name(tensor.dtype)
        raise InvalidArgumentError(
            None,
            None,
            f"cannot compute {name} as input #{index}(zero-based) was expected to be a {expected} tensor but is a {actual} "
            f"tensor [Op:{name}]",
        )
    return _tensor(leaf, tensor)


def _with_traced_leaves(signature: inspect.Signature, traced_arguments: Arguments, args: Any, kwargs: Any) -> Any:
    """Returns the call's ``(args, kwargs)``; in place of an argument that is left out it has the trace's leaf."""
    traced_args, traced_kwargs = traced_arguments.described(lambda leaf: leaf)
    bound = signature.bind(*traced_args, **traced_kwargs)
    bound.arguments |= signature.bind_partial(*args, **kwargs).arguments
    return bound.args, bound.kwargs


def _flattened(traced: Arguments, arguments: Any) -> list[Any]:
    flat = flatten_up_to(traced.structure, arguments)
    if flat is None:
        raise ArgumentMismatch("the structure of the arguments differs from the traced one")
    return flat


def _checked_argument(leaf: Leaf, value: Any) -> Any:
    """Returns the value to pass for a leaf of the trace, after checking it against what was traced.

    Python values were constants of the trace, so that a call must pass equal ones.
    """
    if leaf.is_dataset:
        return _dataset_number(leaf, value)
    if leaf.spec is not None:
        return _tensor(leaf, value)
    if value is leaf:  # the argument was left out
        return leaf.value
    is_captured_variable = isinstance(leaf.value, Variable) and value is leaf.value
    if is_captured_variable or (leaf.is_variable and isinstance(value, Variable)):
        return value
    if Leaf(leaf.name, value).key != leaf.key:
        raise ArgumentMismatch(f"Can not cast {value!r} to {leaf.typed_text()}")
    return value


def require_unmodified(function: Callable[..., Any], signature: inspect.Signature, before: Any, after: Any) -> None:
    """Raises ValueError if the traced Python changed lists or dicts among its arguments, as TensorFlow does.

    Such a change would be lost: tracing passes copies of the caller's objects, and later calls run no Python.

    Args:
      function: the Python function that was traced, for the error message.
      signature: the function's signature.
      before, after: ``(args, kwargs)`` as they were before and after the function ran.
    """
    old_args, old_kwargs = before
    new_args, new_kwargs = after
    if not any(map(nest.is_nested, (*old_args, *old_kwargs.values()))):
        return  # only a list or dict can be modified
    old_by_name = signature.bind(*old_args, **old_kwargs).arguments
    new_by_name = signature.bind(*new_args, **new_kwargs).arguments
    modified = [name for name, old in old_by_name.items() if not _is_same(old, new_by_name[name])]
    if modified:
        raise ValueError(
            f"{getattr(function, '__qualname__', function)}{signature} should not modify its Python input arguments. "
            f"Modifying a copy is allowed. The following parameter(s) were modified: {', '.join(modified)}"
        )


def _is_same(old: Any, new: Any) -> bool:
    """Returns whether two nested structures have the same form and identical leaves."""
    try:
        nest.assert_same_structure(old, new)
    except (TypeError, ValueError):
        return False
    return all(old_leaf is new_leaf for old_leaf, new_leaf in zip(nest.flatten(old), nest.flatten(new)))


def _dataset_number(leaf: Leaf, value: Any) -> Any:
    """Returns the tensor that stands for a dataset or an iterator."""
    actual = leaf if value is leaf else Leaf(leaf.name, value)
    if actual.key != leaf.key:
        raise ArgumentMismatch(f"Can not cast {value!r} to {leaf.typed_text()}")
    return actual.tensor


def _tensor(leaf: Leaf, value: Any) -> Any:
    """Returns an argument as a tensor that fits the leaf's spec."""
    if value is leaf:  # the argument was left out
        raise ArgumentMismatch(f"missing a required argument: {leaf.name!r}")
    spec = TensorSpec(leaf.spec.shape, leaf.spec.dtype)  # type: ignore[union-attr]
    tensor = convert_to_tensor(value, dtype_hint=spec.dtype)
    if not spec.is_compatible_with(tensor):
        raise ArgumentMismatch(f"Can not cast {TensorSpec(tensor.shape, tensor.dtype)!r} to {spec!r}")
    return tensor


def described(concrete: Any) -> str:
    """Returns the arguments with their types as text."""
    args, kwargs = concrete.arguments.described(Leaf.typed_text)
    return ", ".join(f"{name}: {text}" for name, text in concrete._signature.bind(*args, **kwargs).arguments.items())
