"""sufficient_statistics and normalize_moments, crelu, and losses averaged over batches."""

from __future__ import annotations

from typing import Any

from tvtf.core.primitive import export, public_names
from tvtf.core.shape import size_of
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.v1_dimension import is_dim
from tvtf.dtypes import float32
from tvtf.ops.batch_norm import batch_normalization
from tvtf.ops.cast import cast, cast_tensor
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind, canonical_axes, canonical_axis, number


@export("nn.sufficient_statistics")
def sufficient_statistics(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Returns the statistics from which the moments over axes are computed.

    The count, the sum and the sum of squares, of ``x - shift`` where given.

    Args:
      x: numeric tensor.
      axes: list of ints.
      shift: tensor near the mean, or None.
      keepdims: keep reduced axes with size 1.

    Returns:
      Count, sum, sum of squares, and ``shift`` itself.

    >>> import tvtf as tf
    >>> [t.numpy().item() for t in tf.nn.sufficient_statistics([1., 2.], [0])[:3]]
    [2.0, 3.0, 5.0]

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/sufficient_statistics
    """
    x = convert_to_tensor(x)
    reduced_axes = canonical_axes(axes, x.ndim)
    count = cast(scalar_of(size_of(x._type.shape[index] for index in reduced_axes)), x.dtype)
    shift_tensor = None if shift is None else convert_to_tensor(shift, x.dtype)
    centered = x if shift_tensor is None else bind.subtract(x, shift_tensor)
    options = {"axis": reduced_axes, "keepdims": bool(keepdims)}
    sums = bind.reduce_sum(centered, **options), bind.reduce_sum(bind.multiply(centered, centered), **options)
    return count, *sums, shift_tensor


@export("nn.normalize_moments")
def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Returns mean and variance from the result of `tf.nn.sufficient_statistics`.

    >>> import tvtf as tf
    >>> [t.numpy().item() for t in tf.nn.normalize_moments(2., 4., 10., None)]
    [2.0, 1.0]

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/normalize_moments
    """
    total, squares_total = convert_to_tensor(mean_ss), convert_to_tensor(variance_ss)
    count = convert_to_tensor(counts, total.dtype)
    reciprocal = bind.divide(number(1, count), count)
    shifted_mean = bind.multiply(total, reciprocal)
    mean = shifted_mean if shift is None else bind.add(shifted_mean, convert_to_tensor(shift, total.dtype))
    return mean, bind.subtract(bind.multiply(squares_total, reciprocal), bind.multiply(shifted_mean, shifted_mean))


@export("nn.batch_norm_with_global_normalization")
def batch_norm_with_global_normalization(
    input: Any,
    mean: Any,
    variance: Any,
    beta: Any,
    gamma: Any,
    variance_epsilon: float,
    scale_after_normalization: bool,
    name: str | None = None,
) -> Tensor:
    """Normalizes images over the batch. ``gamma`` is used only with ``scale_after_normalization``.

    >>> import tvtf as tf
    >>> tf.nn.batch_norm_with_global_normalization([[[[3.]]]], [1.], [4.], [0.], [2.], 0., True).numpy()
    array([[[[2.]]]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/batch_norm_with_global_normalization
    """
    return batch_normalization(
        input, mean, variance, beta, gamma if scale_after_normalization else None, variance_epsilon
    )


@export("nn.crelu")
def crelu(features: Any, axis: int = -1, name: str | None = None) -> Tensor:
    """Returns the positive parts of a tensor and of its negative, side by side along an axis.

    >>> import tvtf as tf
    >>> tf.nn.crelu([1., -2.]).numpy()
    array([1., 0., 0., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/crelu
    """
    x = convert_to_tensor(features)
    return bind.relu(bind.concat(x, bind.negative(x), axis=canonical_axis(axis, x.ndim)))


@export("nn.compute_average_loss")
def compute_average_loss(per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None) -> Tensor:
    """Returns the sum of losses, with optional weights, divided by the batch size.

    Args:
      per_example_loss: floating tensor, with a loss for each example along the first axis.
      sample_weight: tensor that broadcasts with ``per_example_loss``, from the first axis if it has one axis less.
      global_batch_size: int; by default the first dim.

    >>> import tvtf as tf
    >>> tf.nn.compute_average_loss([1., 3.], global_batch_size=4).numpy()
    np.float32(1.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/compute_average_loss
    """
    losses = convert_to_tensor(per_example_loss)
    if not losses.ndim:
        raise ValueError("Invalid value passed for `per_example_loss`. Expected a tensor with at least rank 1.")
    size = losses._type.shape[0] if global_batch_size is None else _batch_size(global_batch_size)
    if sample_weight is not None:
        losses = _weighted(losses, convert_to_tensor(sample_weight))
    total = bind.reduce_sum(losses, axis=tuple(range(losses.ndim)), keepdims=False)
    divisor = cast(scalar_of(size) if is_dim(size) else size, losses.dtype)
    return public_names()["math.divide_no_nan"](total, divisor)


def _weighted(losses: Tensor, weights: Tensor) -> Tensor:
    """Multiplies losses by weights, in float32 as TensorFlow does. The last axis of weights may be missing or too many."""
    if weights.ndim == losses.ndim + 1:
        weights = public_names()["squeeze"](weights, [-1])
    elif weights.ndim and weights.ndim == losses.ndim - 1:
        weights = public_names()["expand_dims"](weights, -1)
    return cast_tensor(bind.multiply(cast_tensor(losses, float32), cast_tensor(weights, float32)), losses.dtype)


def _batch_size(size: Any) -> Tensor:
    """Converts the argument ``global_batch_size`` to a tensor.

    Raises TensorFlow's error if it is not a scalar or not an integer.
    """
    tensor = convert_to_tensor(size)
    if tensor.ndim:
        raise ValueError(f"global_batch_size must be scalar.. Expected scalar shape, saw shape: {tensor.shape}.")
    if not tensor.dtype.is_integer:
        raise TypeError(f"global_batch_size must be an integer.. Found: tensor of dtype {tensor.dtype!r}")
    return tensor


@export("nn.scale_regularization_loss")
def scale_regularization_loss(regularization_loss: Any) -> Tensor:
    """Returns the sum of a regularization loss divided by the number of replicas, which is one.

    >>> import tvtf as tf
    >>> tf.nn.scale_regularization_loss([1., 2.]).numpy()
    np.float32(3.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/scale_regularization_loss
    """
    losses = convert_to_tensor(regularization_loss)
    # The division by the number of replicas, which makes integers floats.
    return bind.reduce_sum(losses, axis=tuple(range(losses.ndim)), keepdims=False) / 1  # type: ignore[no-any-return]
