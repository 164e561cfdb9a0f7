"""Softmax cross entropy of logits, with dense and sparse labels, and its gradients as primitives."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, incompatible_shapes
from tvtf.core.primitive import Sample, export, primitive, table
from tvtf.core.shape import Dim, TensorType, agree_dim, brackets, broadcast_shapes, same_shape, show_shape
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.text_format import HOLE
from tvtf.dtypes import FLOATING, int32, int64
from tvtf.ops.broadcast_dims import broadcast_operands
from tvtf.ops.dims import scalar_of
from tvtf.ops.indexing import in_range
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.rules import (
    bind,
    draw,
    kernel,
    ones_like,
    require_dtype,
    require_same_dtype,
    require_shape,
    static_int,
    stretch,
)
from tvtf.ops.softmax import log_softmax_array, softmax_array, upcast


def _dense_type(labels: TensorType, logits: TensorType) -> TensorType:
    """Checks the labels and logits of softmax cross entropy, and returns the type of the losses, one for each row."""
    require_dtype(logits, FLOATING, "features")
    require_same_dtype((logits, labels), ("features", "labels"))
    have_same_shape = len(logits.shape) == len(labels.shape) and all(map(agree_dim, logits.shape, labels.shape))
    if not logits.shape or not have_same_shape:
        raise ArgumentError(
            "logits and labels must be broadcastable: "
            f"logits_size={brackets(logits.shape)} labels_size={brackets(labels.shape)}"
        )
    return TensorType(logits.shape[:-1], logits.dtype)


def _dense_grad_type(cotangent: TensorType, labels: TensorType, logits: TensorType) -> TensorType:
    require_shape(cotangent, _dense_type(labels, logits).shape, "gradients")
    return logits


def _expanded(cotangent: Tensor) -> Tensor:
    return bind.reshape(cotangent, shape=(*cotangent._type.shape, 1))


def _scaled(cotangent: Tensor, x: Tensor) -> Tensor:
    """Multiplies each row of ``x`` by its cotangent."""
    return bind.multiply(_expanded(cotangent), x)


def _last(x: Tensor) -> int:
    return x.ndim - 1


def _dense_vjp(cotangent: Tensor, y: Tensor, labels: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the cotangents of labels and logits; the latter's is a primitive of its own, computed in one kernel."""
    cotangent_of_labels = bind.negative(_scaled(cotangent, bind.log_softmax(logits, axis=_last(logits))))
    return cotangent_of_labels, bind.softmax_cross_entropy_grad(cotangent, labels, logits)


def _dense_grad_vjp(
    c: Tensor, g: Tensor, cotangent: Tensor, labels: Tensor, logits: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the cotangents of the cross entropy gradient's inputs ``cotangent``, ``labels`` and ``logits``.

    They are used for second derivatives. The op computes ``cotangent * (softmax(logits) - labels)``.

    Args:
      c: the cotangent of the result ``g``.
      g: the result.
      cotangent, labels, logits: the inputs.
    """
    # ``g`` isn't needed here, but all gradient rules receive it.
    axis = _last(logits)
    probabilities = bind.softmax(logits, axis=axis)
    terms = bind.multiply(c, bind.subtract(probabilities, labels))
    cotangent_of_cotangent = bind.reduce_sum(terms, axis=(axis,), keepdims=False)
    scaled_c = _scaled(cotangent, c)
    labels_cotangent = bind.negative(scaled_c)
    logits_cotangent = bind.softmax_grad(scaled_c, probabilities, axis=axis)
    return cotangent_of_cotangent, labels_cotangent, logits_cotangent


def _batch(name: str) -> Any:
    """Returns the rule that maps a loss over a batch: every input gets the batch axis, whose items are more rows."""

    def rule(size: Dim, inputs: Any, batched: Any) -> Tensor:
        return table[name].bind(*(stretch(size, x, is_batched) for x, is_batched in zip(inputs, batched)))

    return rule


def _distributions(seed: int, shape: Any) -> Any:
    """Returns sample rows that sum to 1, for which alone TensorFlow's gradient is exact."""
    return lambda dtype: softmax_array(draw(seed, shape)(dtype)).astype(dtype.np)


def _dense_samples() -> list[Sample]:
    """Returns test samples of softmax cross entropy: several ranks, symbolic sizes, and logits that aren't finite."""
    shapes = ((4,), (2, 3), (2, 2, 5), (0, 3), (3, 1))
    samples = [Sample((_distributions(i, shape), draw(i + 9, shape)), {}, FLOATING) for i, shape in enumerate(shapes)]
    dims = (("n", "classes"), ("n", "classes"))
    symbolic = Sample((_distributions(7, (2, 3)), draw(8, (2, 3))), {}, FLOATING, symbolic=dims)
    return [*samples, symbolic, _dense_sample_not_finite()]


def _dense_sample_not_finite() -> Sample:
    """Returns a sample of softmax cross entropy with logits that are infinite, NaN and far apart."""
    labels = lambda dtype: np.array([[0, 1], [0.5, 0.5], [1, 0]], dtype.np)  # noqa: E731
    logits = lambda dtype: np.array([[-np.inf, 0], [np.nan, 0], [1e4, -1e4]], dtype.np)  # noqa: E731
    return Sample((labels, logits), {}, FLOATING, gradient=False)


def _dense_grad_samples() -> list[Sample]:
    """Returns test samples for the gradient of softmax cross entropy, for logits of several shapes."""
    shapes = ((4,), (2, 3), (2, 2, 5), (0, 3))
    return [
        Sample((draw(i + 30, shape[:-1]), _distributions(i, shape), draw(i + 9, shape)), {}, FLOATING)
        for i, shape in enumerate(shapes)
    ]


def _dense_onnx(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes) -> None:
    """Emits ONNX nodes for softmax cross entropy: ``-sum(labels * log_softmax(logits))``."""
    labels, logits = inputs
    (_, logits_type), _ = types
    log = emitter.computed("LogSoftmax", [logits], axis=-1)
    product = emitter.computed("Mul", [labels, log])
    total = emitter.reduced("ReduceSum", [product], (len(logits_type.shape) - 1,), False)
    emitter.node("Neg", [total], outputs)


def _row_scaled_onnx(emitter: NodeEmitter, cotangent: str, rows: str, outputs: Names) -> None:
    """Emits ONNX nodes that multiply each row by the row's cotangent. The cotangents get a last axis of size 1."""
    expanded = emitter.computed("Unsqueeze", [cotangent, emitter.const(np.array([-1], np.int64))])
    emitter.node("Mul", [expanded, rows], outputs)


def _dense_grad_onnx(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes) -> None:
    """Emits ONNX nodes for the gradient of softmax cross entropy: ``(softmax(logits) - labels) * cotangent``."""
    cotangent, labels, logits = inputs
    probabilities = emitter.computed("Softmax", [logits], axis=-1)
    difference = emitter.computed("Sub", [probabilities, labels])
    _row_scaled_onnx(emitter, cotangent, difference, outputs)


@primitive(
    tf_name="SoftmaxCrossEntropyWithLogits",
    type=_dense_type,
    numpy=lambda labels, logits: -np.sum(upcast(labels) * log_softmax_array(logits), -1),
    lower=kernel("softmax.cross_entropy"),
    vjp=_dense_vjp,
    batch=_batch("softmax_cross_entropy"),
    onnx=_dense_onnx,
    samples=_dense_samples,
)
def softmax_cross_entropy(labels: Tensor, logits: Tensor) -> Any:
    """Computes ``-sum(labels * log_softmax(logits))`` over the last axis: (..., classes) twice to (...)."""
    return (labels, logits), {}


@primitive(
    type=_dense_grad_type,
    numpy=lambda cotangent, labels, logits: upcast(cotangent)[..., None] * (softmax_array(logits) - upcast(labels)),
    lower=kernel("softmax.cross_entropy_grad"),
    vjp=_dense_grad_vjp,
    batch=_batch("softmax_cross_entropy_grad"),
    onnx=_dense_grad_onnx,
    samples=_dense_grad_samples,
)
def softmax_cross_entropy_grad(cotangent: Tensor, labels: Tensor, logits: Tensor) -> Any:
    """Computes the logits' cotangent, ``cotangent * (softmax(logits) - labels)``. The labels must sum to 1."""
    return (cotangent, labels, logits), {}


@export("nn.softmax_cross_entropy_with_logits")
def softmax_cross_entropy_with_logits(labels: Any, logits: Any, axis: Any = -1, name: str | None = None) -> Tensor:
    """Computes the cross entropy between label distributions and the softmax of logits.

    Args:
      labels: probabilities, shape (..., classes); each row along ``axis`` should sum to 1.
      logits: floating tensor that broadcasts with labels; labels are cast to its dtype.
      axis: the axis of the classes.

    Returns:
      A tensor of the logits' dtype, without ``axis``. Both arguments get gradients; that of the logits is
      ``softmax(logits) - labels``.

    Raises:
      InvalidArgumentError: (ValueError while tracing) the shapes don't broadcast.

    >>> import tvtf as tf
    >>> tf.nn.softmax_cross_entropy_with_logits([[1., 0.]], [[0., 0.]]).numpy()
    array([0.6931472], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/softmax_cross_entropy_with_logits
    """
    x = convert_to_tensor(logits)
    if not x.dtype.is_floating:
        require_front(x, "SoftmaxCrossEntropyWithLogits")
    y = convert_to_tensor(labels, dtype_hint=x.dtype)
    y = y if y.dtype is x.dtype else table["cast"](y, x.dtype)
    x, y = broadcast_operands((_axis_last(x, axis), _axis_last(y, axis)))
    shape = broadcast_shapes(x._type.shape, y._type.shape)
    if shape is not None:
        if not same_shape(shape[:-1], x._type.shape[:-1]):
            shapes = f"logits_size={show_shape(x._type.shape)} labels_size={show_shape(y._type.shape)}"
            raise ArgumentError(f"logits and labels must be broadcastable: {shapes}")
        x, y = _broadcast(x, shape), _broadcast(y, shape)
    return bind.softmax_cross_entropy(y, x)


def require_front(x: Tensor, op: str, name: str = "features") -> None:
    """Checks that a tensor is floating. The error names TensorFlow's op."""
    try:
        require_dtype(x._type, FLOATING, name)
    except ArgumentError as error:
        raise error.for_op(op) from None


def _axis_last(x: Tensor, axis: Any) -> Tensor:
    """Moves an axis to the end by a transpose, if it isn't the last one."""
    index = static_int(axis, "axis")
    if index in (-1, x.ndim - 1):
        return x
    order = [i for i in range(x.ndim) if i != index % x.ndim]
    return table["transpose"](x, [*order, index % x.ndim])


def _broadcast(x: Tensor, shape: Any) -> Tensor:
    return x if same_shape(x._type.shape, shape) else bind.broadcast_to(x, shape=tuple(shape))


def _sparse_type(labels: TensorType, logits: TensorType) -> TensorType:
    require_dtype(logits, FLOATING, "features")
    require_dtype(labels, (int32, int64), "labels")
    require_shape(labels, logits.shape[:-1], "labels")
    return TensorType(logits.shape[:-1], logits.dtype)


def _sparse_grad_type(cotangent: TensorType, labels: TensorType, logits: TensorType) -> TensorType:
    require_shape(cotangent, _sparse_type(labels, logits).shape, "gradients")
    require_same_dtype((logits, cotangent), ("features", "gradients"))
    return logits


def _check_sparse_shapes(labels: Tensor, logits: Tensor) -> None:
    """Checks the shapes of sparse softmax cross entropy's operands, and raises ValueError if they don't fit.

    Labels are class numbers. They have the shape of the logits without the last axis.
    """
    shape_texts = f"labels.shape={labels.shape} and logits.shape={logits.shape}"
    if not logits.ndim:
        raise ValueError(f"Logits cannot be scalars. Received: logits of shape {logits.shape}")
    if labels.ndim != logits.ndim - 1:
        raise ValueError(
            f"`labels.shape.rank` must equal `logits.shape.rank - 1`. Received: labels.shape={labels.shape} of rank "
            f"{labels.ndim} and logits.shape={logits.shape} of rank {logits.ndim}"
        )
    if not all(map(agree_dim, labels._type.shape, logits._type.shape[:-1])):
        message = f"`labels.shape` must equal `logits.shape` except for the last dimension. Received: {shape_texts}"
        raise incompatible_shapes(ValueError(message))


def label_message(classes: Any, wrong: str = "") -> str:
    return f"Received a label value{wrong} which is outside the valid range of [0, {classes})."


def _require_labels(labels: np.ndarray, classes: int) -> None:
    """Raises TensorFlow's error, with all labels, if one of them is out of range."""
    if not labels.size or labels.min() >= 0 and labels.max() < classes:
        return
    wrong = labels.max() if labels.max() >= classes else labels.min()
    all_labels = " ".join(map(str, labels.ravel().tolist()))
    raise ArgumentError(f"{label_message(classes, f' of {wrong}')}  Label values: {all_labels}")


def _sparse_guard(labels: Tensor, logits: Tensor) -> list[tuple[Any, ...]]:
    """Returns the run-time check of sparse softmax cross entropy that all labels are class numbers.

    The check is a tuple of the condition and the error's message. A number of classes that is unknown while tracing is
    a third member, which fills the message's placeholder.
    """
    classes = logits._type.shape[-1]
    is_valid = in_range(labels, classes)
    if isinstance(classes, int):
        return [(is_valid, label_message(classes))]
    return [(is_valid, label_message(HOLE), scalar_of(classes))]


def _sparse_array(labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
    _require_labels(labels, logits.shape[-1])
    log_probabilities = log_softmax_array(logits)
    of_labels = np.take_along_axis(log_probabilities, labels[..., None].astype(np.int64), -1)[..., 0]
    return 0 - of_labels  # negation would give -0.0 for a certain label, which shows in print


def _sparse_grad_array(cotangent: np.ndarray, labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
    _require_labels(labels, logits.shape[-1])
    one_hot = labels[..., None] == np.arange(logits.shape[-1])
    return upcast(cotangent)[..., None] * (softmax_array(logits) - one_hot)


def _sparse_grad_vjp(c: Tensor, g: Tensor, cotangent: Tensor, labels: Tensor, logits: Tensor) -> tuple[Any, ...]:
    """Returns the cotangents of the gradient primitive's inputs, for second derivatives; integer labels have none."""
    axis = _last(logits)
    grad_of_ones = bind.sparse_softmax_cross_entropy_grad(ones_like(cotangent), labels, logits)
    cotangent_of_cotangent = bind.reduce_sum(bind.multiply(c, grad_of_ones), axis=(axis,), keepdims=False)
    probabilities = bind.softmax(logits, axis=axis)
    return cotangent_of_cotangent, None, bind.softmax_grad(_scaled(cotangent, c), probabilities, axis=axis)


def _labels(seed: int, shape: Any, classes: int, dtype: Any) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, classes, shape).astype(dtype)


def _sparse_samples() -> list[Sample]:
    """Returns test samples of sparse softmax cross entropy: int32 and int64 labels, no rows, and symbolic dims."""
    # The shape of the logits and the dtype of the labels.
    cases = (((4,), np.int32), ((2, 3), np.int64), ((2, 2, 5), np.int32), ((0, 3), np.int64))
    samples = []
    for seed, (shape, label_dtype) in enumerate(cases):
        *rows, classes = shape
        labels = _labels(seed, tuple(rows), classes, label_dtype)
        samples.append(Sample((labels, draw(seed + 9, shape)), {}, FLOATING))
    inputs = (_labels(7, (2,), 3, np.int32), draw(8, (2, 3)))
    symbolic_dims = (("n",), ("n", "classes"))
    samples.append(Sample(inputs, {}, FLOATING, symbolic=symbolic_dims))
    return samples


def _sparse_grad_samples() -> list[Sample]:
    """Returns samples of the gradient of sparse softmax cross entropy, for logits of various shapes."""
    shapes = ((4,), (2, 3), (2, 2, 5), (0, 3))
    samples = []
    for i, shape in enumerate(shapes):
        *row_dims, class_count = shape
        cotangents = draw(i + 30, tuple(row_dims))
        labels = _labels(i, tuple(row_dims), class_count, np.int32)
        logits = draw(i + 9, shape)
        samples.append(Sample((cotangents, labels, logits), {}, FLOATING))
    return samples


def _sparse_onnx(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes) -> None:
    """Emits ONNX nodes for sparse softmax cross entropy: ``-log_softmax(logits)`` at the label of each row."""
    labels, logits = inputs
    (_, logits_type), _ = types
    last_axis = emitter.const(np.array([-1], np.int64))
    log = emitter.computed("LogSoftmax", [logits], axis=-1)
    # GatherElements needs labels of the rank of the logits
    expanded = emitter.computed("Unsqueeze", [labels, last_axis])
    gathered = emitter.computed("GatherElements", [log, expanded], axis=len(logits_type.shape) - 1)
    squeezed = emitter.computed("Squeeze", [gathered, last_axis])
    emitter.node("Neg", [squeezed], outputs)


def _sparse_grad_onnx(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes) -> None:
    """Emits ONNX nodes for the gradient of sparse softmax cross entropy by the logits.

    It is ``(softmax(logits) - one_hot(labels)) * cotangent``, where ``cotangent`` is that of each row's loss.
    """
    cotangent, labels, logits = inputs
    (_, labels_type, logits_type), _ = types
    classes = np.arange(logits_type.shape[-1], dtype=labels_type.dtype.np)
    probabilities = emitter.computed("Softmax", [logits], axis=-1)
    expanded = emitter.computed("Unsqueeze", [labels, emitter.const(np.array([-1], np.int64))])
    one_hot = emitter.computed("Equal", [expanded, emitter.const(classes)])
    difference = emitter.computed("Sub", [probabilities, emitter.cast(one_hot, logits_type.dtype)])
    _row_scaled_onnx(emitter, cotangent, difference, outputs)


@primitive(
    tf_name="SparseSoftmaxCrossEntropyWithLogits",
    type=_sparse_type,
    numpy=_sparse_array,
    lower=kernel("softmax.sparse_cross_entropy"),
    vjp=lambda cotangent, y, labels, logits: (None, bind.sparse_softmax_cross_entropy_grad(cotangent, labels, logits)),
    batch=_batch("sparse_softmax_cross_entropy"),
    onnx=_sparse_onnx,
    guard=_sparse_guard,
    samples=_sparse_samples,
)
def sparse_softmax_cross_entropy(labels: Tensor, logits: Tensor) -> Any:
    """Computes ``-log_softmax(logits)[label]`` per row: labels (...) and logits (..., classes) to (...)."""
    return (labels, logits), {}


@primitive(
    type=_sparse_grad_type,
    numpy=_sparse_grad_array,
    lower=kernel("softmax.sparse_cross_entropy_grad"),
    vjp=_sparse_grad_vjp,
    batch=_batch("sparse_softmax_cross_entropy_grad"),
    onnx=_sparse_grad_onnx,
    guard=lambda cotangent, labels, logits: _sparse_guard(labels, logits),
    samples=_sparse_grad_samples,
)
def sparse_softmax_cross_entropy_grad(cotangent: Tensor, labels: Tensor, logits: Tensor) -> Any:
    """Computes the logits' cotangent ``cotangent * (softmax(logits) - one_hot(labels))``."""
    return (cotangent, labels, logits), {}


@export("nn.sparse_softmax_cross_entropy_with_logits")
def sparse_softmax_cross_entropy_with_logits(labels: Any, logits: Any, name: str | None = None) -> Tensor:
    """Computes the cross entropy between class numbers and the softmax of logits.

    Args:
      labels: int32 or int64 tensor, shape (...), values in [0, classes).
      logits: floating tensor, shape (..., classes).

    Returns:
      A tensor of the logits' dtype and the labels' shape.

    Raises:
      InvalidArgumentError: a label is out of range.
      ValueError: the shapes don't fit.

    >>> import tvtf as tf
    >>> tf.nn.sparse_softmax_cross_entropy_with_logits([1], [[0., 0.]]).numpy()
    array([0.6931472], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/sparse_softmax_cross_entropy_with_logits
    """
    y, x = convert_to_tensor(labels), convert_to_tensor(logits)
    _check_sparse_shapes(y, x)
    return bind.sparse_softmax_cross_entropy(y, x)


def check_weights(values: Any, weights: Any) -> None:
    """Checks that weights broadcast to the values that they weigh, and raises ValueError if not.

    Ranks must be equal. Each dim of the weights must be 1 or that of the values. Unknown ranks and dims are accepted.
    """
    shape, weights_shape = values.shape, weights.shape
    if weights_shape.rank in (None, 0) or shape.rank is None:  # a scalar always broadcasts
        return
    is_broadcastable = weights_shape.rank == shape.rank
    for weights_dim, dim in zip(weights_shape, shape):
        are_known = weights_dim is not None and dim is not None
        if are_known and weights_dim not in (1, dim):
            is_broadcastable = False
    if not is_broadcastable:
        raise ValueError(
            f"weights can not be broadcast to values. values.rank={shape.rank}. weights.rank={weights_shape.rank}. "
            f"values.shape={shape}. weights.shape={weights_shape}."
        )
