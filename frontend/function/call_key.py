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
MOST_FORMS = 64
"""Combinations of keywords that are remembered for a function."""


def fast_key(args: tuple[Any, ...]) -> Any:
    """Returns the shapes and dtypes of eager tensors; None if any argument is something else."""
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
    kind = type(value)
    if kind is EagerTensor:
        tensors.append(value)
        return value._array.shape, value._array.dtype
    if kind is tuple or kind is list:
        parts = [nested_key(part, tensors) for part in value]
        return None if None in parts else (kind, *parts)
    if value is None:
        return kind
    if kind in _VALUES:
        return kind, value
    if kind is dict:
        return _dict_key(value, tensors)
    if kind is np.ndarray:
        if value.dtype.char not in _NUMBERS:
            return None
        tensors.append(value)
        return kind, value.shape, value.dtype
    if not hasattr(kind, "as_argument"):
        return None
    tensor, spec = value.as_argument()
    tensors.append(tensor)
    return spec


def _dict_key(value: dict[Any, Any], tensors: list[Any]) -> Any:
    names = list(value)
    if len(names) > 1:
        if not all(type(name) is str for name in names):  # others may not be comparable, or equal but of other types
            return None
        names.sort()
    parts = [nested_key(value[name], tensors) for name in names]
    return None if None in parts else (dict, *names, *parts)


def as_tensors(values: list[Any]) -> list[Tensor]:
    """Returns what `nested_key` appended, with arrays as tensors."""
    return [convert_to_tensor(x) if type(x) is np.ndarray else x for x in values]


def is_fixed(default: Any) -> bool:
    """Returns whether a parameter's default gives every call the same argument: lists and Variables may change."""
    if type(default) is tuple:
        return all(map(is_fixed, default))
    may_change = nest.is_nested_or_composite(default) or hasattr(type(default), "as_argument")
    return not may_change and not isinstance(default, (Variable, np.ndarray))


class KeywordPlaces:
    """Moves keyword arguments to the places of their parameters, as binding them to the signature does."""

    def __init__(self, signature: inspect.Signature) -> None:
        self._signature = signature
        self._bound: dict[Any, inspect.BoundArguments] = {}
        self._fixed: dict[int, bool] = {}

    def placed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns the call's ``(args, kwargs)`` with defaults filled in; None if they don't fit the signature."""
        form = (len(args), *kwargs)
        bound = self._bound.get(form)
        if bound is None:
            bound = self._bind(len(args), list(kwargs))
            if bound is None or len(self._bound) >= MOST_FORMS:
                return None
            self._bound[form] = bound
        given = (*args, *kwargs.values())
        return tuple(_value(x, given) for x in bound.args), {n: _value(x, given) for n, x in bound.kwargs.items()}

    def has_fixed_defaults(self, count: int) -> bool:
        """Returns whether a call of ``count`` positional arguments is the same call whenever these are the same."""
        if count not in self._fixed:
            bound = self._bind(count, [])
            values = () if bound is None else (*bound.args, *bound.kwargs.values())
            self._fixed[count] = all(type(each) is _Place or is_fixed(each) for each in values)
        return self._fixed[count]

    def _bind(self, count: int, names: list[str]) -> inspect.BoundArguments | None:
        """Binds a place for each of ``count`` positional arguments and of the keywords ``names``."""
        places = [_Place(number) for number in range(count + len(names))]
        try:
            bound = self._signature.bind(*places[:count], **dict(zip(names, places[count:])))
        except TypeError:
            return None
        bound.apply_defaults()
        return bound


class _Place:
    """Stands for an argument of a call by its number."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def _value(bound: Any, given: tuple[Any, ...]) -> Any:
    return given[bound.number] if type(bound) is _Place else bound
