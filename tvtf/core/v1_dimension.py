"""The size of one axis as users see it: an int or None, and TensorFlow 1's ``Dimension``, whose arithmetic propagates None."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


def is_dim(value: Any) -> bool:
    """Returns whether a value is a symbolic dim, without importing TVM."""
    return type(value).__module__.startswith("tvm")


def visible_dim(dim: Any) -> int | None:
    """Converts a dim to the form that users of a TensorShape see: an int, or None for a symbolic or unknown dim.

    Raises:
      TypeError: the dim is not an integer.
      ValueError: the dim is negative.
    """
    if dim is None or is_dim(dim):
        return None
    if isinstance(dim, Dimension):
        return dim.value
    try:
        value = dim.__index__()
    except AttributeError:
        raise TypeError(
            f"Dimension value must be integer or None or have an __index__ method, got value '{dim!r}' with type '{type(dim)!r}'"
        ) from None
    if value < 0:
        raise ValueError(f"Dimension {value} must be >= 0")
    return value


class Dimension:
    """The size of one axis of a shape, or None; the element type of `tf.TensorShape.dims`.

    >>> import tvtf as tf
    >>> tf.compat.v1.Dimension(3) * 2, tf.compat.v1.Dimension(None) + 1
    (Dimension(6), Dimension(None))

    Raises:
      TypeError: the value is not an int.
      ValueError: the value is negative.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/Dimension
    """

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value.value if isinstance(value, Dimension) else visible_dim(value)

    @property
    def value(self) -> int | None:
        return self._value

    def is_compatible_with(self, other: Any) -> bool:
        """Returns whether this dim and ``other`` can be the same size: True if one of them is unknown."""
        other = Dimension(other)
        return self._value is None or other._value is None or self._value == other._value

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raises ValueError unless this dim and ``other`` can be the same size."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")

    def merge_with(self, other: Any) -> Dimension:
        """Returns this dim if it is known, else ``other``. The two dims must be compatible."""
        other = Dimension(other)
        self.assert_is_compatible_with(other)
        return other if self._value is None else self

    def __index__(self) -> int | None:  # type: ignore[override]
        return self._value

    def __int__(self) -> int | None:  # type: ignore[override]
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __repr__(self) -> str:
        return f"Dimension({self._value})"

    def __truediv__(self, other: Any) -> Any:
        raise TypeError(_no_division(type(self).__name__, type(other).__name__))

    def __rtruediv__(self, other: Any) -> Any:
        raise TypeError(_no_division(type(other).__name__, type(self).__name__))


def _no_division(left: str, right: str) -> str:
    return f"unsupported operand type(s) for /: '{left}' and '{right}', please use // instead"


def _dimension_operator(
    compute: Callable[[int, int], Any], wrap: Callable[[Any], Any], is_reflected: bool
) -> Callable[..., Any]:
    """Returns the method of Dimension for an arithmetic or comparison operator.

    The result is unknown (None) if one of the operands is.

    Args:
      compute: applies the operator to two ints.
      wrap: converts the result: to a Dimension for arithmetic; a comparison's result is left unchanged.
      is_reflected: whether the operands come in reverse, as for ``__radd__``.
    """

    def apply(self: Dimension, other: Any) -> Any:
        """Applies the operator to two dims, either of which may be unknown."""
        try:
            sizes = self._value, Dimension(other)._value
        except (TypeError, ValueError):  # `other` is not a dim: Python tries its operator, or raises TypeError
            return NotImplemented
        first, second = reversed(sizes) if is_reflected else sizes
        return wrap(None if first is None or second is None else compute(first, second))

    return apply


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(Dimension, f"__{_name}__", _dimension_operator(getattr(operator, _name), Dimension, False))
    setattr(Dimension, f"__r{_name}__", _dimension_operator(getattr(operator, _name), Dimension, True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Dimension, f"__{_name}__", _dimension_operator(getattr(operator, _name), lambda result: result, False))
Dimension.__hash__ = None  # type: ignore[assignment,method-assign]


def dimension_value(dimension: Any) -> Any:
    """Returns the size of a Dimension, an int or None. Any other value is returned unchanged.

    >>> import tvtf as tf
    >>> tf.compat.v1.dimension_value(tf.compat.v1.Dimension(3)), tf.compat.v1.dimension_value(3)
    (3, 3)

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/dimension_value
    """
    return dimension.value if isinstance(dimension, Dimension) else dimension
