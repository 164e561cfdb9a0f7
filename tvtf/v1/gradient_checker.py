"""``tf.compat.v1.test.compute_gradient``: Jacobians of a graph's tensors, by its gradients and by differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvtf.core.tensor import convert_to_tensor
from tvtf.ops.central_differences import central_differences
from tvtf.v1.names import gradients, placeholder_with_default
from tvtf.v1.registry import tf_, v1

Jacobians = tuple[np.ndarray, np.ndarray]
"""A Jacobian by gradients and the same one by differences."""


@v1("test.compute_gradient")
def compute_gradient(
    x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3,
    init_targets: Sequence[Any] | None = None, extra_feed_dict: Mapping[Any, Any] | None = None,
) -> Jacobians | list[Jacobians]:  # fmt: skip
    """Computes the Jacobian of ``y`` with respect to ``x``, by gradients and by central differences.

    ``x`` and ``y`` are tensors of the graph, which the default session runs. A complex number counts as two reals.

    Args:
      x: the tensor to feed, or a list of tensors.
      x_shape: its shape, or the list of shapes.
      y: a tensor that depends on ``x``.
      y_shape: its shape.
      x_init_value: the array at which the Jacobian is computed, or a list of arrays; random numbers by default.
      delta: the step of the differences.
      init_targets: ops to run first.
      extra_feed_dict: the values of other tensors.

    Returns:
      Two arrays of shape (elements of ``x``, elements of ``y``); for a list of tensors, a list of such pairs.

    Raises:
      ValueError: ``y`` does not depend on ``x``, or the shape of ``x_init_value`` is not ``x_shape``.

    >>> import tvtf as tf
    >>> with tf.Graph().as_default(), tf.compat.v1.Session():
    ...     x = tf.compat.v1.placeholder(tf.float32, [2])
    ...     point = tf.constant([1., 3.]).eval()
    ...     by_gradient, _ = tf.compat.v1.test.compute_gradient(x, [2], x * x, [2], point)
    >>> by_gradient
    array([[2., 0.],
           [0., 6.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/test/compute_gradient
    """
    is_list = isinstance(x, list)
    tensors, shapes = (x, x_shape) if is_list else ([x], [x_shape])
    points = [None] * len(tensors) if x_init_value is None else x_init_value if is_list else [x_init_value]
    output_gradients = [_placeholder_of_ones(y, y_shape) for _ in tensors]
    results = [_dense_gradient(y, tensor, fed) for tensor, fed in zip(tensors, output_gradients)]
    for init in init_targets or ():
        init.run()
    extra = dict(extra_feed_dict or {})
    jacobians = []
    for tensor, shape, point, result, output_gradient in zip(tensors, shapes, points, results, output_gradients):
        array = _point(tensor, shape, point)
        by_gradients = _by_gradients(tensor, array, result, output_gradient, extra)
        by_differences = _by_differences(tensor, array, y, delta, extra).reshape(by_gradients.shape)
        jacobians.append((by_gradients, by_differences))
    return jacobians if is_list else jacobians[0]


@v1("test.compute_gradient_error")
def compute_gradient_error(
    x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3,
    init_targets: Sequence[Any] | None = None, extra_feed_dict: Mapping[Any, Any] | None = None,
) -> Any:  # fmt: skip
    """Returns the largest difference between the two Jacobians that ``compute_gradient`` computes from the arguments.

    >>> import tvtf as tf
    >>> with tf.Graph().as_default(), tf.compat.v1.Session():
    ...     x = tf.constant([0.5, 1.])
    ...     print(tf.compat.v1.test.compute_gradient_error(x, [2], tf.sin(x), [2]) < 1e-3)
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/test/compute_gradient_error
    """
    found = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)
    pairs = found if isinstance(found, list) else [found]
    return max(np.abs(by_gradients - by_differences).max(initial=0) for by_gradients, by_differences in pairs)


def _placeholder_of_ones(y: Any, shape: Any) -> Any:
    """Returns a tensor to be fed with a gradient with respect to ``y``."""
    with y.graph.as_default():
        return placeholder_with_default(tf_("ones")(shape, y.dtype), shape)


def _dense_gradient(y: Any, x: Any, output_gradient: Any) -> Any:
    """Returns the gradient of ``y`` with respect to ``x`` for a gradient with respect to ``y``, as a dense tensor.

    Raises:
      ValueError: ``y`` does not depend on ``x``.
    """
    with y.graph.as_default():
        (gradient,) = gradients(y, x, output_gradient)
        if gradient is None:
            raise ValueError(f"there is no gradient: {y.name} does not depend on {x.name}")
        return convert_to_tensor(gradient)


def _point(x: Any, shape: Any, value: Any) -> np.ndarray:
    """Returns the array at which the Jacobian is computed: ``value``, or random numbers between 0 and 1.

    Raises:
      ValueError: the shape of ``value`` is not ``shape``.
    """
    sizes = tuple(shape)
    if value is not None:
        if np.shape(value) != sizes:
            raise ValueError(f"x_shape = {list(sizes)}, but x_init_value has shape {list(np.shape(value))}")
        return np.array(value, x.dtype.np)
    real_part = np.random.random_sample(sizes).astype(x.dtype.np)
    if not x.dtype.is_complex:
        return real_part
    imaginary_part = np.random.random_sample(sizes).astype(x.dtype.real_dtype.np)
    return real_part + 1j * imaginary_part


def _reals(array: np.ndarray, dtype: Any) -> np.ndarray:
    """Returns a view of a contiguous array as a vector of reals: a complex number is two of them."""
    return array.reshape(-1).view(dtype.real_dtype.np)


def _by_gradients(x: Any, point: np.ndarray, result: Any, output_gradient: Any, extra: Mapping[Any, Any]) -> np.ndarray:
    """Computes a Jacobian by gradients, one column for each element of ``y``.

    Args:
      x: the input, a placeholder.
      point: the value of the input.
      result: the gradient with respect to ``x``, given that with respect to ``y``.
      output_gradient: the placeholder of the gradient with respect to ``y``.
      extra: the values of other placeholders.
    """
    fed = np.zeros(output_gradient.shape.as_list(), output_gradient.dtype.np)
    size = _reals(fed, output_gradient.dtype).size
    jacobian = np.zeros((_reals(point, x.dtype).size, size), x.dtype.real_dtype.np)
    for column in range(size):
        _reals(fed, output_gradient.dtype)[:] = np.arange(size) == column
        value = np.ascontiguousarray(result.eval({**extra, x: point, output_gradient: fed}))
        jacobian[:, column] = _reals(value, x.dtype)
    return jacobian


def _by_differences(x: Any, point: np.ndarray, y: Any, delta: float, extra: Mapping[Any, Any]) -> np.ndarray:
    """Computes a Jacobian by central differences, one row for each element of ``x``.

    Args:
      x: the input, a placeholder.
      point: the value of the input.
      y: the result, which depends on ``x``.
      delta: the step of the differences.
      extra: the values of other placeholders.
    """

    def result_at(reals: np.ndarray) -> np.ndarray:
        """Returns ``y`` as a vector of reals, for ``x`` as a vector of reals."""
        value = reals.view(x.dtype.np).reshape(point.shape)
        return _reals(np.ascontiguousarray(y.eval({**extra, x: value})), y.dtype)

    rows = central_differences(result_at, _reals(point, x.dtype), delta)
    return np.array(rows, x.dtype.real_dtype.np)
