"""with_space_to_batch: dilates the windows of any op by applying it to images subsampled by space_to_batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor, convert_to_tensor, is_tensor
from tvtf.dtypes import int32
from tvtf.ops.rules import static_value


@export("nn.with_space_to_batch")
def with_space_to_batch(
    input: Any,
    dilation_rate: Any,
    padding: str,
    op: Callable[[Any, int, str], Any],
    filter_shape: Any = None,
    spatial_dims: Sequence[int] | None = None,
    data_format: str | None = None,
) -> Tensor:
    """Applies ``op(images, count of spatial dims, padding)`` with its windows dilated.

    Args:
      input: tensor of known shape (n, spatial dims ..., channels), or as ``data_format`` says.
      dilation_rate: an int for each spatial dim.
      padding: "SAME" or "VALID"; ``op`` is passed "VALID" where a rate is above 1.
      op: a function over windows.
      filter_shape: the windows' shape; needed for "SAME".
      spatial_dims: the indices of the spatial dims; by default those after the first; for "NC...", after the second.
      data_format: "NHWC" and its like, or "NCHW" and its like.

    Returns:
      The result of ``op``.

    Raises:
      ValueError: a rate is below 1, the spatial dims don't ascend, or ``filter_shape`` is missing with "SAME".

    >>> import tvtf as tf
    >>> x = tf.reshape(tf.range(5.), [1, 5, 1])
    >>> pool = lambda images, count, padding: tf.nn.max_pool1d(images, 2, 1, padding)
    >>> tf.nn.with_space_to_batch(x, [2], "VALID", pool).numpy().ravel()
    array([2., 3., 4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/with_space_to_batch
    """
    x = convert_to_tensor(input)
    rate_argument = convert_to_tensor(dilation_rate, int32) if is_tensor(dilation_rate) else dilation_rate
    rates = np.atleast_1d(np.array(static_value(rate_argument, "dilation_rate")))
    if rates.ndim != 1:
        raise ValueError(
            f"`dilation_rate.shape.rank` must be 1. Received: dilation_rate={dilation_rate} of rank {rates.ndim}"
        )
    first = 2 if data_format is not None and data_format.startswith("NC") else 1
    dims = list(range(first, first + len(rates)) if spatial_dims is None else spatial_dims)
    if dims != sorted(set(dims)) or any(dim < 1 for dim in dims):
        raise ValueError(
            f"`spatial_dims` must be a monotonically increasing sequence of positive integers. Received: spatial_dims={dims}"
        )
    if (rates < 1).any():
        raise ValueError(f"`dilation_rate` must be positive. Received: dilation_rate={rates}")
    if (rates == 1).all():
        return op(x, len(rates), padding)  # type: ignore[no-any-return]
    blocks = np.ones(dims[-1], np.int64)
    edges = np.zeros((dims[-1], 2), np.int64)
    positions = np.array(dims) - 1
    blocks[positions], edges[positions] = rates, _paddings(padding, filter_shape, rates)
    sizes = [x.shape[i] for i in range(1, dims[-1] + 1)]
    crops = np.zeros_like(edges)
    crops[:, 1] = -(np.array(sizes) + edges.sum(1)) % blocks
    edges[:, 1] += crops[:, 1]
    from tvtf.ops.partition import batch_to_space, space_to_batch

    return batch_to_space(op(space_to_batch(x, blocks, edges), len(rates), "VALID"), blocks, crops)  # type: ignore[no-any-return]


def _paddings(padding: str, filter_shape: Any, rates: np.ndarray) -> np.ndarray:
    """Returns the zero padding (before, after) of each spatial axis, for windows dilated by ``rates``.

    ``padding`` is "SAME" or "VALID". The result has a row for each axis.
    """
    if padding == "VALID":
        return np.zeros((len(rates), 2), np.int64)
    if padding != "SAME":
        raise ValueError(f"`padding` must be one of 'SAME' or 'VALID'. Received: padding={padding}")
    if filter_shape is None:
        raise ValueError(
            f"`filter_shape` must be specified for `padding='SAME'`. Received: filter_shape=None and padding={padding}"
        )
    filter_dims = np.array(static_value(filter_shape, "filter_shape"))
    spatial_dims = filter_dims[: len(rates)]  # the first axes of a filter are the spatial ones
    total = (spatial_dims - 1) * rates
    before = total // 2
    return np.stack([before, total - before], axis=1)
