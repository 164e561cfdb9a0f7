"""Small composed functions: polyval, reciprocal_no_nan, approx_max_k, sobol_sample."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.dtypes import as_dtype, bfloat16, float16, float32, float64, int32
from tvtf.ops.computed_arguments import computed
from tvtf.ops.operands import at_least, attributes, one_of, operand
from tvtf.ops.rules import bind, canonical_axis, number, require_dtype, static_int
from tvtf.ops.sort import top_k


@export("math.polyval")
def polyval(coeffs: Any, x: Any, name: str | None = None) -> Tensor:
    """Evaluates a polynomial elementwise, by Horner's rule.

    Args:
      coeffs: list of tensors that broadcast with ``x``. The coefficient of the highest power comes first.
      x: numeric tensor.

    Raises:
      ValueError: ``coeffs`` is not a list.

    >>> import tvtf as tf
    >>> tf.math.polyval([2., 1.], tf.constant([1., 3.])).numpy()
    array([3., 7.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/polyval
    """
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    x = convert_to_tensor(x)
    if not coeffs:
        return bind.broadcast_to(number(0, x), shape=x._type.shape)
    result, *lower_coefficients = map(convert_to_tensor, coeffs)
    for coefficient in lower_coefficients:
        result = bind.add(coefficient, bind.multiply(result, x))
    return result


@export("math.reciprocal_no_nan")
def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """Computes ``1 / x``, but 0 where ``x`` is 0, elementwise.

    >>> import tvtf as tf
    >>> tf.math.reciprocal_no_nan([2., 0.]).numpy()
    array([0.5, 0. ], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/reciprocal_no_nan
    """
    x = convert_to_tensor(x)
    return bind.divide_no_nan(number(1, x), x)


class ApproxTopK(NamedTuple):
    """The result of `tf.math.approx_max_k`."""

    values: Tensor
    indices: Tensor


APPROXIMATE = attributes(
    aggregate_to_topk=bool,
    k=at_least(0),
    reduction_dimension=int,
    recall_target=float,
    reduction_input_size_override=int,
)
"""Converts the arguments that are attributes in TensorFlow."""


@export("math.approx_max_k", "nn.approx_max_k")
@APPROXIMATE
def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> ApproxTopK:
    """Returns the ``k`` largest elements along an axis and their indices.

    They are exact: ``recall_target`` is ignored.

    >>> import tvtf as tf
    >>> tf.math.approx_max_k([3., 1., 2.], 2)[0].numpy()
    array([3., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/approx_max_k
    """
    x = convert_to_tensor(operand)
    require_dtype(x._type, (float16, bfloat16, float32), "input")
    axis = canonical_axis(reduction_dimension, x.ndim)
    axis_last = [i for i in range(x.ndim) if i != axis] + [axis]
    inverse = tuple(int(i) for i in np.argsort(axis_last))
    values, indices = top_k(bind.transpose(x, perm=tuple(axis_last)), k)
    return ApproxTopK(bind.transpose(values, perm=inverse), bind.transpose(indices, perm=inverse))


@export("math.approx_min_k", "nn.approx_min_k")
@APPROXIMATE
def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> ApproxTopK:
    """Returns the ``k`` smallest elements along an axis and their indices.

    They are exact: ``recall_target`` is ignored.

    >>> import tvtf as tf
    >>> tf.math.approx_min_k([3., 1., 2.], 2)[0].numpy()
    array([1., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/approx_min_k
    """
    negated_values, indices = approx_max_k(bind.negative(convert_to_tensor(operand)), k, reduction_dimension)
    return ApproxTopK(bind.negative(negated_values), indices)


@export("approx_top_k")
@attributes(
    is_max_k=bool,
    aggregate_to_topk=bool,
    k=at_least(0),
    reduction_dimension=int,
    recall_target=float,
    reduction_input_size_override=int,
)
def approx_top_k(
    input: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    is_max_k: bool = True,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> ApproxTopK:
    """Returns the ``k`` largest or, without ``is_max_k``, smallest elements along an axis and their indices.

    They are exact: ``recall_target`` is ignored.

    >>> import tvtf as tf
    >>> tf.approx_top_k([3., 1., 2.], 2, is_max_k=False).indices.numpy()
    array([1, 2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/approx_top_k
    """
    select = approx_max_k if is_max_k else approx_min_k
    return select(input, k, reduction_dimension)


@export("math.sobol_sample")
@computed("dim", "num_results", "skip", gives=lambda arguments: [TensorSpec([None, None], arguments["dtype"])])
@attributes(dtype=one_of(float32, float64))
def sobol_sample(dim: int, num_results: int, skip: int = 0, dtype: Any = float32, name: str | None = None) -> Tensor:
    """Returns points of the Sobol sequence, shape (num_results, dim), without the first ``skip + 1`` points.

    >>> import tvtf as tf
    >>> tf.math.sobol_sample(2, 2).numpy()
    array([[0.5 , 0.5 ],
           [0.75, 0.25]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/sobol_sample
    """
    from scipy.stats import qmc

    # The numbers are the positions of the operands of TensorFlow's op, for its errors.
    count = static_int(operand(num_results, int32, 0), "dim")
    skipped = static_int(operand(skip, int32, 1), "dim")
    dimensions = static_int(operand(dim, int32, 2), "dim")
    if dimensions < 1:
        raise ArgumentError("dim must be at least one")
    if count < 1 or skipped < 0:
        raise ArgumentError(f"num_results must be at least one and skip non-negative, but got {count} and {skipped}")
    sequence = qmc.Sobol(dimensions, scramble=False)
    sequence.fast_forward(skipped + 1)  # the first point is all zeros, and TensorFlow leaves it out
    return EagerTensor(np.ascontiguousarray(sequence.random(count), as_dtype(dtype).np))
