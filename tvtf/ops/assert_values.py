"""Assertions on values.

``tf.debugging.assert_equal``, ``assert_less``, ``assert_positive``, ``assert_near`` and more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tvtf.core.graph_operation import done
from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor, convert_to_tensor, static_value
from tvtf.core.thread_state import state
from tvtf.errors import InvalidArgumentError
from tvtf.ops.assertion import FEW, Assert, called, guarded, prefix, shape_and_dtype
from tvtf.ops.math import abs as magnitude
from tvtf.ops.rules import bind

Data = Sequence[Any] | None
_COMPARISONS = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def _assert_comparison(sign: str, x: Any, y: Any, message: Any, summarize: int | None, data: Data = None) -> Any:
    """Asserts that a comparison of ``x`` with ``y`` by ``sign`` (such as ``<=``) holds for all elements.

    In eager execution and for constants the check happens at once, else when the traced program runs.

    Args:
      sign: the comparison, such as "<=".
      x, y: the operands, or values that convert to tensors.
      message: the beginning of the error's text, or None.
      summarize: the number of elements that the error shows, or None for the default.
      data: the values that the error shows, by default both operands.
    """
    x = convert_to_tensor(x)
    y = convert_to_tensor(y)
    compare = getattr(bind, _COMPARISONS[sign])
    if state.trace is None:  # eager execution
        holds = compare(x, y)
        if holds.numpy().all():
            return None
        message_parts = _eager_message(sign, x, y, holds, summarize, message) if data is None else data
        text = "\n".join(_formatted(value, summarize) for value in message_parts)
        raise InvalidArgumentError(None, None, text)
    if data is None:
        data = [] if message is None else [message]
        data.append(f"Condition x {sign} y did not hold element-wise:")
        data += [f"x ({called(x, 'x')}) = ", x, f"y ({called(y, 'y')}) = ", y]
    _check_constants(sign, x, y, data)
    return guarded(_all(compare(x, y)), data, summarize)


def _all(flags: Tensor) -> Tensor:
    return bind.reduce_all(flags, axis=tuple(range(flags.ndim)), keepdims=False)


def _check_constants(sign: str, x: Tensor, y: Tensor, data: Sequence[Any]) -> None:
    """Raises while tracing if both operands are constants for which the assertion fails, as TensorFlow does."""
    known = [static_value(x), static_value(y)]
    if known[0] is not None and known[1] is not None and not getattr(np, _COMPARISONS[sign])(*known).all():
        reported = [item if not isinstance(item, Tensor) else static_value(item) for item in data]
        raise InvalidArgumentError(None, None, "\n".join(map(str, reported)))


def _eager_message(sign: str, x: Tensor, y: Tensor, holds: Tensor, summarize: int | None, message: Any) -> list[Any]:
    """Returns the parts of the error text of a failed eager assertion.

    They are the comparison, the indices where it fails, and the operands.

    Args:
      sign: the comparison, such as "<=".
      x, y: the operands.
      holds: the elementwise result of the comparison.
      summarize: the number of elements to show; None is the default, a negative number all.
      message: the user's text, which comes first, or None.
    """
    limit = _limit(summarize)
    values: list[Any] = [] if message is None else [message]
    values.append(f"Condition x {sign} y did not hold.")
    if not limit:
        return values
    # Differences are shown by index, so they need operands of one shape.
    if x.shape == y.shape and x.ndim:
        values += _differences(x.numpy(), y.numpy(), holds.numpy(), limit)
    for name, tensor in (("x", x), ("y", y)):
        first_elements = tensor.numpy().reshape(-1)[:limit]
        values += [f"First {len(first_elements)} elements of {name}:", first_elements]
    return values


def _differences(x: np.ndarray, y: np.ndarray, holds: np.ndarray, limit: int) -> list[Any]:
    """Returns the parts of an error that show the first elements for which a comparison fails."""
    indices = np.argwhere(~holds)[:limit]
    pairs = [part for name, a in (("x", x), ("y", y)) for part in (f"Corresponding {name} values:", a[~holds][:limit])]
    return [f"Indices of first {len(indices)} different values:", indices, *pairs]


def _limit(summarize: int | None) -> int:
    """Returns how many elements of a tensor an error shows; a negative ``summarize`` stands for all."""
    return FEW if summarize is None else int(1e9) if summarize < 0 else summarize


def _formatted(value: Any, summarize: int | None) -> str:
    """Formats a text or tensor of an assertion's error message. A tensor shows its first ``summarize`` elements."""
    if not isinstance(value, Tensor):
        return str(value)
    array = value.eager_array()
    if not array.ndim:
        return str(array[()])
    limit = _limit(summarize)
    shown = [str(element) for element in array.ravel()[:limit]]
    if limit < array.size:
        shown.append("...")
    return str(shown)


@export("debugging.assert_equal", "assert_equal")
def assert_equal(x: Any, y: Any, message: Any = None, summarize: int | None = None, name: str | None = None) -> Any:
    """Raises an error unless ``x == y`` for every pair of (broadcast) elements; in a traced function, whenever it runs.

    Args:
      x, y: tensors of one dtype, with shapes that broadcast.
      message: begins the error's text.
      summarize: how many elements to show, 3 by default.

    Raises:
      InvalidArgumentError: a pair of elements differs. This is raised while tracing if both tensors are constants.

    >>> import tvtf as tf
    >>> tf.debugging.assert_equal(tf.constant([1, 2]), tf.constant([1, 3]))
    Traceback (most recent call last):
      ...
    tvtf.errors.InvalidArgumentError: Condition x == y did not hold.
    Indices of first 1 different values:
    [[1]]
    Corresponding x values:
    [2]
    Corresponding y values:
    [3]
    First 2 elements of x:
    [1 2]
    First 2 elements of y:
    [1 3]

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_equal
    """
    return done("NoOp") if x is y else _assert_comparison("==", x, y, message, summarize)


@export("debugging.assert_none_equal")
def assert_none_equal(x: Any, y: Any, summarize: int | None = None, message: Any = None, name: Any = None) -> Any:
    """Raises an error unless ``x != y`` for every pair of (broadcast) elements.

    Same as ``assert_equal`` in other respects.

    >>> import tvtf as tf
    >>> tf.debugging.assert_none_equal(tf.constant([1, 2]), tf.constant([3, 4]))

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_none_equal
    """
    return _assert_comparison("!=", x, y, message, summarize)


@export("debugging.assert_less", "assert_less")
def assert_less(x: Any, y: Any, message: Any = None, summarize: int | None = None, name: str | None = None) -> Any:
    """Raises an error unless ``x < y`` for every pair of (broadcast) elements.

    Same as ``assert_equal`` in other respects.

    >>> import tvtf as tf
    >>> tf.debugging.assert_less(tf.constant([1, 2]), 3)

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_less
    """
    return _assert_comparison("<", x, y, message, summarize)


@export("debugging.assert_less_equal")
def assert_less_equal(x: Any, y: Any, message: Any = None, summarize: int | None = None, name: Any = None) -> Any:
    """Raises an error unless ``x <= y`` for every pair of (broadcast) elements.

    Same as ``assert_equal`` in other respects.

    >>> import tvtf as tf
    >>> tf.debugging.assert_less_equal(tf.constant([1, 2]), 2)

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_less_equal
    """
    return _assert_comparison("<=", x, y, message, summarize)


@export("debugging.assert_greater", "assert_greater")
def assert_greater(x: Any, y: Any, message: Any = None, summarize: int | None = None, name: str | None = None) -> Any:
    """Raises an error unless ``x > y`` for every pair of (broadcast) elements.

    Same as ``assert_equal`` in other respects.

    >>> import tvtf as tf
    >>> tf.debugging.assert_greater(tf.constant([1, 2]), 0)

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_greater
    """
    return _assert_comparison(">", x, y, message, summarize)


@export("debugging.assert_greater_equal")
def assert_greater_equal(x: Any, y: Any, message: Any = None, summarize: int | None = None, name: Any = None) -> Any:
    """Raises an error unless ``x >= y`` for every pair of (broadcast) elements.

    Same as ``assert_equal`` in other respects.

    >>> import tvtf as tf
    >>> tf.debugging.assert_greater_equal(tf.constant([1, 2]), 1)

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_greater_equal
    """
    return _assert_comparison(">=", x, y, message, summarize)


def _assert_sign(x: Any, sign: str, message: Any, summarize: int | None, describe: Callable[[str], list[str]]) -> Any:
    """Asserts that a comparison of ``x`` with 0 holds for all elements.

    Args:
      x: the tensor, or a value that converts to one.
      sign: the comparison, such as ">".
      message: the beginning of the error's text, or None.
      summarize: the number of elements that the error shows.
      describe: maps text about ``x`` to the first lines of the error.
    """
    x = convert_to_tensor(x)
    zero = convert_to_tensor(0, x.dtype)
    data = [prefix(message), *describe(called(x, shape_and_dtype(x))), x]
    if sign in (">", ">="):  # TensorFlow compares 0 < x
        return _assert_comparison(sign.replace(">", "<"), zero, x, None, summarize, data)
    return _assert_comparison(sign, x, zero, None, summarize, data)


def _condition(sign: str) -> Callable[[str], list[str]]:
    return lambda name: [f"Condition x {sign} 0 did not hold element-wise:", f"x ({name}) = "]


@export("debugging.assert_positive")
def assert_positive(x: Any, message: Any = None, summarize: int | None = None, name: str | None = None) -> Any:
    """Raises an error unless ``x > 0`` for every element. Same as ``assert_equal`` in other respects.

    >>> import tvtf as tf
    >>> tf.debugging.assert_positive(tf.constant([1, 2]))

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_positive
    """
    return _assert_sign(x, ">", message, summarize, _condition(">"))


@export("debugging.assert_negative")
def assert_negative(x: Any, message: Any = None, summarize: int | None = None, name: str | None = None) -> Any:
    """Raises an error unless ``x < 0`` for every element. Same as ``assert_equal`` in other respects.

    >>> import tvtf as tf
    >>> tf.debugging.assert_negative(tf.constant([-1, -2]))

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_negative
    """
    return _assert_sign(x, "<", message, summarize, _condition("<"))


@export("debugging.assert_non_negative")
def assert_non_negative(x: Any, message: Any = None, summarize: int | None = None, name: str | None = None) -> Any:
    """Raises an error unless ``x >= 0`` for every element. Same as ``assert_equal`` in other respects.

    >>> import tvtf as tf
    >>> tf.debugging.assert_non_negative(tf.constant([0, 2]))

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_non_negative
    """
    return _assert_sign(x, ">=", message, summarize, _condition(">="))


@export("debugging.assert_non_positive")
def assert_non_positive(x: Any, message: Any = None, summarize: int | None = None, name: str | None = None) -> Any:
    """Raises an error unless ``x <= 0`` for every element. Same as ``assert_equal`` in other respects.

    >>> import tvtf as tf
    >>> tf.debugging.assert_non_positive(tf.constant([0, -2]))

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_non_positive
    """

    def joined_condition(tensor_name: str) -> list[str]:
        """Returns the error's text in one part: TensorFlow leaves out the space between the two parts of this one."""
        return ["".join(_condition("<=")(tensor_name))]

    return _assert_sign(x, "<=", message, summarize, joined_condition)


@export("debugging.assert_near")
def assert_near(
    x: Any, y: Any, rtol: Any = None, atol: Any = None, message: Any = None, summarize: Any = None, name: Any = None
) -> Any:
    """Raises an error unless ``|x - y| < atol + rtol * |y|`` for every pair of (broadcast) elements.

    Args:
      x, y: floating or complex tensors of one dtype, with shapes that broadcast.
      rtol, atol: relative and absolute tolerance; 10 times the dtype's epsilon by default.
      message: begins the error's text.
      summarize: how many elements to show, 3 by default.

    Raises:
      InvalidArgumentError: a pair of elements differs by more than the tolerance.

    >>> import tvtf as tf
    >>> tf.debugging.assert_near(tf.constant([1., 2.]), tf.constant([1., 2.0000001]))

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_near
    """
    x = convert_to_tensor(x)
    y = convert_to_tensor(y, x.dtype)
    real_dtype = x.dtype.real_dtype
    default = 10 * ml_dtypes.finfo(real_dtype.np).eps
    rtol, atol = (
        convert_to_tensor(default if tolerance is None else tolerance, real_dtype) for tolerance in (rtol, atol)
    )
    message_parts = [prefix(message), f"x and y not equal to tolerance rtol = {rtol!s}, atol = {atol!s}"]
    named = [part for t, n in ((x, "x"), (y, "y")) for part in (f"{n} ({called(t, shape_and_dtype(t))}) = ", t)]
    holds = bind.less(magnitude(bind.subtract(x, y)), bind.add(atol, bind.multiply(rtol, magnitude(y))))
    return Assert(_all(holds), [*message_parts, *named], summarize)
