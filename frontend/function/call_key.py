"""Cheap keys of calls, by which a ``tf.function`` finds the trace of an earlier call with arguments of the same kind."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.state.variable import Variable

_VALUES = frozenset([bool, int, float, complex, str, bytes])
"""Types of Python values that a trace embeds."""
_NUMBERS = frozenset("?bBhHiIlLqQefdFD")
"""Characters of NumPy's dtypes that tell the tensor's; texts and objects have to be looked at, others can't be tensors."""
MAX_KEYWORD_COMBINATIONS = 64
"""Combinations of keywords that are remembered for a function."""


def fast_key(args: tuple[Any, ...]) -> Any:
    """Returns the shapes and dtypes of a call's positional arguments as a key, or None if one isn't an eager tensor."""
    key: list[Any] = []
    for x in args:
        if type(x) is not EagerTensor:
            return None
        key.append(x._array.shape)
        key.append(x._array.dtype)
    return tuple(key)


def nested_key(value: Any, tensors: list[Any]) -> Any:
    """Returns a key for nests of eager tensors, arrays, Python values, datasets and iterators.

    The tensors and arrays, and the tensors of datasets and iterators, are appended in the order of ``tf.nest.flatten``.

    Returns:
      The key; None if anything else is among the arguments.
    """
    value_type = type(value)
    if value_type is EagerTensor:
        tensors.append(value)
        return value._array.shape, value._array.dtype
    if value_type is tuple or value_type is list:
        part_keys = [nested_key(part, tensors) for part in value]
        return None if None in part_keys else (value_type, *part_keys)
    if value is None:
        return value_type
    if value_type in _VALUES:
        return value_type, value
    if value_type is dict:
        return _dict_key(value, tensors)
    if value_type is np.ndarray:
        if value.dtype.char not in _NUMBERS:
            return None
        tensors.append(value)
        return value_type, value.shape, value.dtype
    if not hasattr(value_type, "as_argument"):
        return None
    tensor, spec = value.as_argument()
    tensors.append(tensor)
    return spec


def _dict_key(value: dict[Any, Any], tensors: list[Any]) -> Any:
    """Returns the key of a dict, whatever the order of its keys, or None if these aren't all strings."""
    names = list(value)
    if len(names) > 1:
        if not all(type(name) is str for name in names):  # others may not be comparable, or equal but of other types
            return None
        names.sort()
    part_keys = [nested_key(value[name], tensors) for name in names]
    return None if None in part_keys else (dict, *names, *part_keys)


def as_tensors(values: list[Any]) -> list[Tensor]:
    """Returns what `nested_key` appended, with arrays as tensors."""
    return [convert_to_tensor(value) if type(value) is np.ndarray else value for value in values]


def is_fixed(default: Any) -> bool:
    """Returns whether a parameter's default gives every call the same argument: lists and Variables may change."""
    if type(default) is tuple:
        return all(map(is_fixed, default))
    may_change = nest.is_nested_or_composite(default) or hasattr(type(default), "as_argument")
    return not may_change and not isinstance(default, (Variable, np.ndarray))


class KeywordBinder:
    """Moves keyword arguments to the positions of their parameters, as binding them to the signature does.

    ``inspect.Signature.bind`` is slow: each combination of keywords is bound once, with placeholders for the arguments.
    """

    def __init__(self, signature: inspect.Signature) -> None:
        self._signature = signature
        self._bound: dict[Any, inspect.BoundArguments] = {}
        self._fixed: dict[int, bool] = {}

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns the call's ``(args, kwargs)`` with keywords moved to their parameters' positions and defaults filled in.

        Returns None if the arguments don't fit the signature, or if too many combinations of keywords are remembered.
        """
        call_form = (len(args), *kwargs)
        bound = self._bound.get(call_form)
        if bound is None:
            bound = self._bind(len(args), list(kwargs))
            if bound is None or len(self._bound) >= MAX_KEYWORD_COMBINATIONS:
                return None
            self._bound[call_form] = bound
        call_values = (*args, *kwargs.values())
        bound_kwargs = {name: _value(x, call_values) for name, x in bound.kwargs.items()}
        return tuple(_value(arg, call_values) for arg in bound.args), bound_kwargs

    def has_fixed_defaults(self, count: int) -> bool:
        """Returns whether calls of ``count`` equal positional arguments are equal: their defaults can't change."""
        if count not in self._fixed:
            bound = self._bind(count, [])
            values = () if bound is None else (*bound.args, *bound.kwargs.values())
            self._fixed[count] = all(type(argument) is _Placeholder or is_fixed(argument) for argument in values)
        return self._fixed[count]

    def _bind(self, count: int, names: list[str]) -> inspect.BoundArguments | None:
        """Binds placeholders for ``count`` positional arguments and keywords to the signature, and fills in defaults.

        Returns None if a call of that form doesn't fit the signature.
        """
        placeholders = [_Placeholder(position) for position in range(count + len(names))]
        try:
            bound = self._signature.bind(*placeholders[:count], **dict(zip(names, placeholders[count:])))
        except TypeError:
            return None
        bound.apply_defaults()
        return bound


class _Placeholder:
    """Stands for an argument of a call by its position among the positional, then the keyword arguments."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


def _value(bound: Any, call_values: tuple[Any, ...]) -> Any:
    return call_values[bound.position] if type(bound) is _Placeholder else bound
