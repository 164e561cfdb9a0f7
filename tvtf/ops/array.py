"""Shape and arrangement: reshape, broadcast, transpose and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.dtypes import COMPILED, as_dtype
from tvtf.ops.rules import bind, draw, kernel, static_dims, unbroadcast
from tvtf.primitive import Sample, primitive
from tvtf.refusal import Refused
from tvtf.shape import Dim, TensorType, broadcast_shapes, same_dim, same_shape, show_shape, simplify_dim, size_of
from tvtf.tensor import Tensor, convert_to_tensor


def _reshape_type(x: TensorType, *, shape: tuple[Dim, ...]) -> TensorType:
    target = _filled(x.shape, shape)
    if not same_dim(size_of(x.shape), size_of(target)):
        raise Refused(
            f"Input to reshape is a tensor with {size_of(x.shape)} values, but the requested shape has {size_of(target)}: "
            f"{show_shape(x.shape)} to {show_shape(target)}"
        )
    return TensorType(target, x.dtype)


def _filled(source: Sequence[Dim], target: Sequence[Dim]) -> tuple[Dim, ...]:
    """The target shape with its one -1 computed."""
    unknown = [i for i, d in enumerate(target) if isinstance(d, int) and d < 0]
    if not unknown:
        return tuple(target)
    if len(unknown) > 1:
        raise Refused(f"Only one input size may be -1, not both {unknown[0]} and {unknown[1]}: shape {show_shape(target)}")
    known = size_of(d for d in target if not (isinstance(d, int) and d < 0))
    total = size_of(source)
    if isinstance(known, int) and isinstance(total, int) and (known == 0 or total % known):
        raise Refused(
            f"Input to reshape is a tensor with {total} values, but the requested shape requires a multiple of {known}: "
            f"{show_shape(source)} to {show_shape(target)}"
        )
    return tuple(simplify_dim(total // known) if i == unknown[0] else d for i, d in enumerate(target))


@primitive(
    type=_reshape_type,
    numpy=lambda x, *, shape: x.reshape(shape),
    lower=kernel("array.reshape"),
    vjp=lambda ct, y, x, *, shape: bind.reshape(ct, shape=x._type.shape),
    batch=lambda size, inputs, batched, *, shape: bind.reshape(
        inputs[0], shape=(size, *_filled(inputs[0]._type.shape[1:], shape))
    ),
    onnx=lambda e, inputs, outputs, types, *, shape: e.node("Reshape", [inputs[0], e.shape(types[1][0].shape)], outputs),
    value=lambda x, *, shape: None if x.known is None else x.known.reshape(shape),
    samples=lambda: [
        Sample((draw(0, a),), {"shape": b}, COMPILED)
        for a, b in (((2, 3), (3, 2)), ((4,), (2, -1)), ((1,), ()), ((0, 3), (3, 0)))
    ],
    public=("reshape",),
)
def reshape(tensor: Any, shape: Any, name: str | None = None) -> Any:
    """The same elements in another shape; one dim may be -1.

    >>> import tvtf as tf
    >>> tf.reshape([1, 2, 3, 4], [2, -1]).numpy()
    array([[1, 2],
           [3, 4]], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) when the numbers of elements differ.

    Source: https://www.tensorflow.org/api_docs/python/tf/reshape
    """
    x = convert_to_tensor(tensor)
    return (x,), {"shape": _filled(x._type.shape, static_dims(shape))}


def _broadcast_type(x: TensorType, *, shape: tuple[Dim, ...]) -> TensorType:
    wide = broadcast_shapes(x.shape, shape)
    if wide is None or not same_shape(wide, shape):
        raise Refused(f"Incompatible shapes: {show_shape(x.shape)} can't be broadcast to {show_shape(shape)}")
    return TensorType(shape, x.dtype)


def _broadcast_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, shape: tuple[Dim, ...]) -> Tensor:
    dims = inputs[0]._type.shape
    lifted = bind.reshape(inputs[0], shape=(dims[0], *(1,) * (len(shape) - len(dims) + 1), *dims[1:]))
    return bind.broadcast_to(lifted, shape=(size, *shape))


@primitive(
    type=_broadcast_type,
    numpy=lambda x, *, shape: np.broadcast_to(x, shape).copy(),
    lower=kernel("array.broadcast_to"),
    vjp=lambda ct, y, x, *, shape: unbroadcast(ct, x),
    batch=_broadcast_batch,
    onnx=lambda e, inputs, outputs, types, *, shape: e.node("Expand", [inputs[0], e.shape(shape)], outputs),
    samples=lambda: [
        Sample((draw(0, a),), {"shape": b}, COMPILED)
        for a, b in (((3,), (2, 3)), ((), (4,)), ((2, 1), (2, 5)), ((1, 3), (0, 3)))
    ],
    public=("broadcast_to",),
)
def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Any:
    """Repeats along axes of size 1 and new leading axes, to ``shape``.

    >>> import tvtf as tf
    >>> tf.broadcast_to([1, 2], [2, 2]).numpy()
    array([[1, 2],
           [1, 2]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/broadcast_to
    """
    return (convert_to_tensor(input),), {"shape": static_dims(shape)}


@primitive(
    type=lambda x: TensorType((len(x.shape),), as_dtype("int32")),
    numpy=lambda x: np.array(x.shape, np.int32),
    lower=kernel("array.shape"),
    vjp=lambda ct, y, x: None,
    batch=lambda size, inputs, batched: bind.shape(inputs[0]),
    onnx="Shape",
    value=lambda x: np.array([*x._type.shape], object),
    samples=lambda: [Sample((draw(0, s),), {}, COMPILED, gradient=False) for s in ((2, 3), (), (0,))],
)
def shape(input: Any, name: str | None = None) -> Any:
    """The shape as an int32 vector."""
    return (convert_to_tensor(input),), {}



