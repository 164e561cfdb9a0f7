"""Defines ``tf.raw_ops``: ops that programs use because no public function does exactly the same.

As in TensorFlow, arguments are keyword-only, and several results are a named tuple.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tvtf.api.namespaces import install as _install
from tvtf.core.primitive import export, public_names
from tvtf.core.shape import Dim, brackets, same_dim
from tvtf.core.tensor import Tensor, convert_to_tensor, static_value
from tvtf.dtypes import float32, int32
from tvtf.errors import InvalidArgumentError
from tvtf.ops.batch_norm import fused_batch_norm
from tvtf.ops.incomplete import igamma_grad_a
from tvtf.ops.rules import bind, number
from tvtf.ops.sort import Unique, UniqueWithCounts, unique_slices


class _Normalized(NamedTuple):
    """The results of the ops ``FusedBatchNorm`` and ``FusedBatchNormV2``."""

    y: Tensor
    batch_mean: Tensor
    batch_variance: Tensor
    reserve_space_1: Tensor
    reserve_space_2: Tensor


class _NormalizedV3(NamedTuple):
    """The results of the op ``FusedBatchNormV3``."""

    y: Tensor
    batch_mean: Tensor
    batch_variance: Tensor
    reserve_space_1: Tensor
    reserve_space_2: Tensor
    reserve_space_3: Tensor


class _Reduced(NamedTuple):
    r0: Tensor
    r1: Tensor


@export("raw_ops.FusedBatchNorm", "raw_ops.FusedBatchNormV2")
def FusedBatchNormV2(  # noqa: N802 - TensorFlow's names
    *,
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any,
    variance: Any,
    epsilon: float = 0.0001,
    exponential_avg_factor: float = 1,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
) -> _Normalized:
    """Normalizes a batch as ``tf.compat.v1.nn.fused_batch_norm`` does, and also returns values for the gradient.

    Returns:
      A named tuple: the normalized tensor, the running mean and variance, and the mean and variance used to normalize. In
      training, the unbiased variance of the batch enters the running variance, and the biased one is used to normalize.

    >>> import tvtf as tf
    >>> x = tf.constant([[[[1.]], [[3.]]]])
    >>> result = tf.raw_ops.FusedBatchNormV2(x=x, scale=[1.], offset=[0.], mean=[], variance=[], is_training=True)
    >>> result.batch_variance.numpy(), result.reserve_space_2.numpy()
    (array([2.], dtype=float32), array([1.], dtype=float32))

    Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops/FusedBatchNormV2
    """
    training = bool(is_training)
    running_mean, running_variance = _none_if_empty(mean), _none_if_empty(variance)
    y, new_mean, new_variance = fused_batch_norm(
        x, scale, offset, running_mean, running_variance, epsilon, data_format, training, name, exponential_avg_factor
    )
    used_statistics = _batch_moments(convert_to_tensor(x), data_format) if training else (new_mean, new_variance)
    return _Normalized(y, new_mean, new_variance, *used_statistics)


@export("raw_ops.FusedBatchNormV3")
def FusedBatchNormV3(**arguments: Any) -> _NormalizedV3:  # noqa: N802
    """Same as ``FusedBatchNormV2``, with one more result. TensorFlow's result on the CPU is an empty tensor, too.

    >>> import tvtf as tf
    >>> x = tf.constant([[[[1.]], [[3.]]]])
    >>> tf.raw_ops.FusedBatchNormV3(x=x, scale=[1.], offset=[0.], mean=[2.], variance=[1.], is_training=False)[-1].shape
    TensorShape([0])

    Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops/FusedBatchNormV3
    """
    results = FusedBatchNormV2(**arguments)
    return _NormalizedV3._make((*results, convert_to_tensor([], results.batch_mean.dtype)))


def _none_if_empty(statistic: Any) -> Any:
    """Returns a running mean or variance unchanged, or None for an empty tensor, which programs pass in training."""
    return None if convert_to_tensor(statistic).shape == (0,) else statistic


def _batch_moments(x: Tensor, data_format: str) -> Any:
    """Computes the mean and the biased variance of each channel in a batch, in float32 or float64."""
    channel_axis = 1 if data_format.startswith("NC") else x.ndim - 1
    values = public_names()["cast"](x, "float64" if x.dtype.name == "float64" else "float32")
    return public_names()["nn.moments"](values, [axis for axis in range(x.ndim) if axis != channel_axis])


@export("raw_ops.BroadcastGradientArgs")
def BroadcastGradientArgs(*, s0: Any, s1: Any, name: str | None = None) -> _Reduced:  # noqa: N802
    """Returns the axes to sum the gradients over if tensors of shapes ``s0`` and ``s1`` are broadcast together.

    Raises:
      InvalidArgumentError: the shapes can't be broadcast.

    >>> import tvtf as tf
    >>> axes = tf.raw_ops.BroadcastGradientArgs(s0=[2, 1, 3], s1=[4, 1, 5, 3])
    >>> axes.r0.numpy(), axes.r1.numpy()
    (array([0, 2], dtype=int32), array([1], dtype=int32))

    Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops/BroadcastGradientArgs
    """
    tf = public_names()
    # An empty list would be a float32 tensor.
    shapes = [
        tf["cast"](shape, "int32") if isinstance(shape, list) and not shape else convert_to_tensor(shape)
        for shape in (s0, s1)
    ]
    rank = max(int(shape.shape[0]) for shape in shapes)
    static_axes = _static_reduction_axes(_dims_of(shapes[0]), _dims_of(shapes[1]), name)
    if static_axes is not None:
        return _Reduced(*(convert_to_tensor(np.array(axes, shapes[0].dtype.np)) for axes in static_axes))
    first, second = (tf["pad"](shape, [[rank - int(shape.shape[0]), 0]], constant_values=1) for shape in shapes)
    one = number(1, first)
    # Between equal shapes nothing is broadcast, not even an axis of size 1.
    differ = shapes[0].shape != shapes[1].shape or tf["reduce_any"](tf["not_equal"](first, second))
    reduced = (tf["where"](tf["logical_and"](tf["equal"](s, one), differ)) for s in (first, second))
    return _Reduced(*(tf["cast"](tf["reshape"](axes, [-1]), first.dtype) for axes in reduced))


def _dims_of(vector: Any) -> list[Dim] | None:
    """Returns the elements of a shape vector as static or symbolic dims, or None if they are unknown."""
    static = static_value(vector)
    # A traced tensor may have symbolic dims as its elements.
    dims = vector.known if static is None else static
    return None if dims is None else dims.tolist()  # type: ignore[no-any-return]


def _static_reduction_axes(
    first: list[Dim] | None, second: list[Dim] | None, name: str | None
) -> tuple[list[int], list[int]] | None:
    """Returns the axes along which each of two shapes is broadcast to the other: the axes on which its size is 1.

    Returns None if the axes are not known while a function is traced. For example, the shapes ``[2, 1]`` and ``[3]`` give
    ``([1], [0])``.

    Raises:
      InvalidArgumentError: the shapes can't be broadcast together.
    """
    if first is None or second is None:
        return None
    rank = max(len(first), len(second))
    padded = [[1] * (rank - len(dims)) + dims for dims in (first, second)]
    for a, b in zip(*padded):
        # A symbolic dim that meets 1 is assumed not to be 1. If it is 1, summing its gradient over this axis changes nothing.
        if not (same_dim(a, b) or _is_one(a) or _is_one(b)):
            if isinstance(a, int) and isinstance(b, int):
                message = f"Incompatible shapes: {brackets(first)} vs. {brackets(second)} [Op:BroadcastGradientArgs]"
                raise InvalidArgumentError(None, name, message)
            return None
    # Between equal shapes nothing is broadcast, not even an axis of size 1.
    if len(first) == len(second) and all(map(same_dim, first, second)):
        return [], []
    ones = [[axis for axis, dim in enumerate(dims) if _is_one(dim)] for dims in padded]
    return ones[0], ones[1]


def _is_one(dim: Dim) -> bool:
    return isinstance(dim, int) and dim == 1


@export("raw_ops.IgammaGradA")
def IgammaGradA(*, a: Any, x: Any, name: str | None = None) -> Tensor:  # noqa: N802
    """Returns the derivative of ``tf.math.igamma(a, x)`` with respect to ``a``.

    >>> import tvtf as tf
    >>> tf.raw_ops.IgammaGradA(a=1., x=2.).numpy().round(4)
    np.float32(-0.2208)

    Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops/IgammaGradA
    """
    return igamma_grad_a(convert_to_tensor(a), convert_to_tensor(x))  # type: ignore[no-any-return]


@export("raw_ops.RandomGammaGrad")
def RandomGammaGrad(*, alpha: Any, sample: Any, name: str | None = None) -> Tensor:  # noqa: N802
    """Returns the derivative of a sample of the gamma distribution with respect to ``alpha``.

    >>> import tvtf as tf
    >>> tf.raw_ops.RandomGammaGrad(alpha=1., sample=2.).numpy().round(4)
    np.float32(1.6317)

    Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops/RandomGammaGrad
    """
    tf = public_names()
    alpha, sample = convert_to_tensor(alpha), convert_to_tensor(sample)
    # As alpha changes, the sample stays at the same quantile: F(alpha, sample) is constant, where F is the distribution
    # function. So the derivative is -dF/dalpha divided by dF/dsample, the density.
    log_density = (alpha - number(1, alpha)) * tf["math.log"](sample) - sample - tf["math.lgamma"](alpha)
    return bind.negative(tf["divide"](igamma_grad_a(alpha, sample), tf["exp"](log_density)))  # type: ignore[no-any-return]


@export("raw_ops.MatrixDiagPartV2")
def MatrixDiagPartV2(*, input: Any, k: Any, padding_value: Any, name: str | None = None) -> Tensor:  # noqa: A002, N802
    """Extracts diagonals of matrices, as ``tf.linalg.diag_part`` does, and aligns the short ones to the left.

    >>> import tvtf as tf
    >>> tf.raw_ops.MatrixDiagPartV2(input=[[1, 2], [3, 4]], k=[0, 1], padding_value=9).numpy()
    array([[2, 9],
           [1, 4]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops/MatrixDiagPartV2
    """
    return MatrixDiagPartV3(input=input, k=k, padding_value=padding_value, align="LEFT_LEFT")


@export("raw_ops.MatrixDiagPartV3")
def MatrixDiagPartV3(  # noqa: N802
    *,
    input: Any,
    k: Any,
    padding_value: Any,
    align: str = "RIGHT_LEFT",
    name: str | None = None,  # noqa: A002
) -> Tensor:
    """Extracts diagonals of matrices, as ``tf.linalg.diag_part`` does.

    >>> import tvtf as tf
    >>> tf.raw_ops.MatrixDiagPartV3(input=[[1, 2], [3, 4]], k=1, padding_value=0).numpy()
    array([2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops/MatrixDiagPartV3
    """
    diag_part = public_names()["linalg.diag_part"]
    return diag_part(input, name=name or "diag_part", k=k, padding_value=padding_value, align=align)  # type: ignore[no-any-return]


@export("raw_ops.Bucketize")
def Bucketize(*, input: Any, boundaries: Sequence[float], name: str | None = None) -> Tensor:  # noqa: A002, N802
    """Returns for each element the index of its bucket, as int32: the number of boundaries less than or equal to the element.

    Raises:
      InvalidArgumentError: the boundaries are not sorted.

    >>> import tvtf as tf
    >>> tf.raw_ops.Bucketize(input=[-5, 10, 150], boundaries=[0., 10., 100.]).numpy()
    array([0, 2, 3], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops/Bucketize
    """
    tf = public_names()
    x = convert_to_tensor(input)
    bounds = np.array(boundaries, np.float32)
    if (np.diff(bounds) < 0).any():
        raise InvalidArgumentError(None, "Bucketize", "Expected sorted boundaries [Op:Bucketize]")
    dtype = x.dtype if x.dtype.is_floating else float32
    flat = tf["reshape"](tf["cast"](x, dtype), [-1])
    flat_indices = tf["searchsorted"](bounds.astype(dtype.np), flat, side="right")
    return tf["reshape"](flat_indices, tf["shape"](x))  # type: ignore[no-any-return]


@export("raw_ops.UniqueV2")
def UniqueV2(*, x: Any, axis: Any, out_idx: Any = int32, name: str | None = None) -> Unique:  # noqa: N802
    """Finds the unique slices of a tensor along an axis, as ``tf.unique`` finds the unique elements of a vector.

    Args:
      axis: a vector with one axis; an empty vector if ``x`` is a vector.

    >>> import tvtf as tf
    >>> tf.raw_ops.UniqueV2(x=[[1, 2], [0, 0], [1, 2]], axis=[0]).y.numpy()
    array([[1, 2],
           [0, 0]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops/UniqueV2
    """
    return Unique(*unique_slices(x, axis, out_idx, "UniqueV2")[:2])


@export("raw_ops.UniqueWithCountsV2")
def UniqueWithCountsV2(*, x: Any, axis: Any, out_idx: Any = int32, name: str | None = None) -> UniqueWithCounts:  # noqa: N802
    """Finds and counts the unique slices of a tensor along an axis, as ``tf.unique_with_counts`` does for a vector.

    >>> import tvtf as tf
    >>> tf.raw_ops.UniqueWithCountsV2(x=[[1, 2], [0, 0], [1, 2]], axis=[0]).count.numpy()
    array([2, 1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops/UniqueWithCountsV2
    """
    return UniqueWithCounts(*unique_slices(x, axis, out_idx, "UniqueWithCountsV2"))


_install()
