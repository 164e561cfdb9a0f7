"""``tf.compat.v1.losses``: weighted losses, which are added to a collection of the graph.

Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/losses
"""

from __future__ import annotations

from typing import Any

from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.v1.graph import get_default_graph
from tvtf.v1.graph_variable import GraphKeys
from tvtf.v1.registry import called as _tf
from tvtf.v1.registry import v1


@v1("losses.Reduction")
class Reduction:
    """Ways to reduce the losses of elements to one number."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Returns all reductions."""
        return (
            cls.NONE,
            cls.SUM,
            cls.MEAN,
            cls.SUM_OVER_BATCH_SIZE,
            cls.SUM_OVER_NONZERO_WEIGHTS,
            cls.SUM_BY_NONZERO_WEIGHTS,
        )


_BY_WEIGHTS = Reduction.SUM_BY_NONZERO_WEIGHTS


@v1("losses.compute_weighted_loss")
def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Multiplies ``losses`` by ``weights`` and reduces them; adds the result to the collection."""
    if reduction not in Reduction.all():
        raise ValueError(f"Invalid Reduction Key {reduction}.")
    losses = convert_to_tensor(losses)
    dtype = losses.dtype
    losses, weights = _tf("cast", losses, "float32"), _tf("cast", convert_to_tensor(weights), "float32")
    _check_weights(losses, weights)
    weighted = losses * weights
    result = _tf("cast", _reduce(weighted, losses, weights, reduction), dtype)
    add_loss(result, loss_collection)
    return result


def _check_weights(losses: Any, weights: Any) -> None:
    """Checks that weights can be broadcast to the losses."""
    values, own = losses.shape, weights.shape
    if own.rank in (None, 0) or values.rank is None:
        return
    fits = own.rank == values.rank and all(a is None or b is None or a in (1, b) for a, b in zip(own, values))
    if not fits:
        raise ValueError(
            f"weights can not be broadcast to values. values.rank={values.rank}. weights.rank={own.rank}. "
            f"values.shape={values}. weights.shape={own}."
        )


def _reduce(each: Any, losses: Any, weights: Any, reduction: str) -> Any:
    """Reduces losses: none, the sum, or the sum divided by a number that the reduction defines."""
    if reduction == Reduction.NONE:
        return each
    total = _tf("reduce_sum", each)
    if reduction == Reduction.SUM:
        return total
    ones = _tf("ones_like", losses)
    if reduction == Reduction.MEAN:
        count = _tf("reduce_sum", ones * weights)
    elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
        count = _tf("reduce_sum", ones)
    else:
        count = _tf("reduce_sum", ones * _tf("cast", _tf("not_equal", weights, 0.0), "float32"))
    return _tf("math.divide_no_nan", total, count)


@v1("losses.add_loss")
def add_loss(loss: Any, loss_collection: Any = GraphKeys.LOSSES) -> None:
    """Adds a loss to the collection."""
    if loss_collection:
        get_default_graph().add_to_collection(loss_collection, loss)


@v1("losses.get_losses")
def get_losses(scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES) -> list[Any]:
    """Returns the losses in the collection."""
    return get_default_graph().get_collection(loss_collection, scope)


@v1("losses.get_regularization_losses")
def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """Returns the losses that variables' regularizers computed."""
    return get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


@v1("losses.get_regularization_loss")
def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Any:
    """Returns the sum of ``get_regularization_losses``."""
    found = get_regularization_losses(scope)
    return _tf("add_n", found) if found else convert_to_tensor(0.0)


@v1("losses.get_total_loss")
def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None) -> Any:
    """Returns the sum of all losses."""
    found = get_losses(scope)
    return _tf("add_n", [*found, *(get_regularization_losses(scope) if add_regularization_losses else [])])


def _pair(labels: Any, predictions: Any) -> tuple[Any, Any]:
    if labels is None or predictions is None:
        missing = "labels" if labels is None else "predictions"
        raise ValueError(f"Argument `{missing}` must not be None.")
    x, y = _tf("cast", convert_to_tensor(predictions), "float32"), _tf("cast", convert_to_tensor(labels), "float32")
    x.shape.assert_is_compatible_with(y.shape)
    return y, x


def _loss(name: str, function: Any) -> None:
    """Declares a loss whose elements ``function`` computes from labels and predictions."""

    def loss(
        labels: Any, predictions: Any, *args: Any, weights: Any = 1.0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES,
        reduction: str = _BY_WEIGHTS, **more: Any,
    ) -> Tensor:  # fmt: skip
        """Computes the weighted loss; TensorFlow's order of arguments depends on the loss."""
        names = ("weights", *_EXTRA.get(name, ()), "scope", "loss_collection", "reduction")
        options = {
            "weights": weights,
            "scope": scope,
            "loss_collection": loss_collection,
            "reduction": reduction,
        } | more
        options |= dict(zip(names, args))
        extra = {k: options.pop(k) for k in _EXTRA.get(name, ()) if k in options}
        return compute_weighted_loss(function(*_pair(labels, predictions), **extra), **options)

    loss.__name__ = name
    v1(f"losses.{name}")(loss)


_EXTRA = {"huber_loss": ("delta",), "log_loss": ("epsilon",)}


def _huber(y: Any, x: Any, delta: float = 1.0) -> Any:
    error = _tf("abs", x - y)
    quadratic = _tf("minimum", error, delta)
    return 0.5 * quadratic * quadratic + delta * (error - quadratic)


def _log(y: Any, x: Any, epsilon: float = 1e-7) -> Any:
    return -y * _tf("math.log", x + epsilon) - (1 - y) * _tf("math.log", 1 - x + epsilon)


_loss("mean_squared_error", lambda y, x: _tf("math.squared_difference", x, y))
_loss("absolute_difference", lambda y, x: _tf("abs", x - y))
_loss("huber_loss", _huber)
_loss("log_loss", _log)


@v1("losses.hinge_loss")
def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Computes ``max(0, 1 - y * x)`` for labels of 0 and 1."""
    y, x = _pair(labels, logits)
    return compute_weighted_loss(_tf("nn.relu", 1 - (2 * y - 1) * x), weights, scope, loss_collection, reduction)


@v1("losses.cosine_distance")
def cosine_distance(
    labels: Any, predictions: Any, axis: Any = None, weights: Any = 1.0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS, dim: Any = None,
) -> Tensor:  # fmt: skip
    """One minus the dot product along ``axis``; the vectors must have unit length."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify argument `axis`.")
    y, x = _pair(labels, predictions)
    return compute_weighted_loss(1 - _tf("reduce_sum", x * y, axis, True), weights, scope, loss_collection, reduction)


@v1("losses.mean_pairwise_squared_error")
def mean_pairwise_squared_error(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES
) -> Tensor:
    """Returns the mean of ``((x_i - x_j) - (y_i - y_j)) ** 2`` over all pairs of an example's elements.

    It is computed without the pairs, from the sums of ``d_i`` and of their squares, where ``d = x - y``.
    """
    y, x = _pair(labels, predictions)
    weights = _tf("cast", convert_to_tensor(weights), "float32")
    delta = x - y
    axes = list(range(1, delta.shape.rank))
    squares = _tf("reduce_sum", delta * delta, axes, True)
    present = _tf("ones_like", delta) * _tf("cast", _tf("not_equal", weights, 0.0), "float32")
    count = _tf("reduce_sum", present, axes, True)
    first = 2.0 * _tf("math.divide_no_nan", squares, count - 1)
    second = 2.0 * _tf("math.divide_no_nan", _tf("square", _tf("reduce_sum", delta, axes, True)), count * (count - 1))
    total = _tf("reduce_sum", (first - second) * weights)
    result = _tf("where", _tf("reduce_sum", count) > 0, total, 0.0)
    add_loss(result, loss_collection)
    return result  # type: ignore[no-any-return]


@v1("losses.softmax_cross_entropy")
def softmax_cross_entropy(
    onehot_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: Any = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = _BY_WEIGHTS,
) -> Tensor:  # fmt: skip
    """Softmax cross entropy of logits and the classes' probabilities."""
    logits = convert_to_tensor(logits)
    y = _tf("cast", convert_to_tensor(onehot_labels), logits.dtype)
    y = _smooth(y, label_smoothing, 1.0 / logits.shape[-1] if label_smoothing > 0 else 0.0)
    found = _tf("nn.softmax_cross_entropy_with_logits", _tf("stop_gradient", y), logits)
    return compute_weighted_loss(found, weights, scope, loss_collection, reduction)


def _smooth(y: Any, smoothing: float, to: float) -> Any:
    return y * (1 - smoothing) + to * smoothing if smoothing > 0 else y


@v1("losses.sigmoid_cross_entropy")
def sigmoid_cross_entropy(
    multi_class_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: Any = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = _BY_WEIGHTS,
) -> Tensor:  # fmt: skip
    """Sigmoid cross entropy of each logit and its label."""
    logits = convert_to_tensor(logits)
    y = _smooth(_tf("cast", convert_to_tensor(multi_class_labels), logits.dtype), label_smoothing, 0.5)
    found = _tf("nn.sigmoid_cross_entropy_with_logits", y, logits)
    return compute_weighted_loss(found, weights, scope, loss_collection, reduction)


@v1("losses.sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Softmax cross entropy of logits and class numbers."""
    labels, logits = convert_to_tensor(labels), convert_to_tensor(logits)
    if labels.shape.rank is not None and labels.shape.rank == logits.shape.rank:
        labels = _tf("squeeze", labels, [-1])
    found = _tf("nn.sparse_softmax_cross_entropy_with_logits", labels, logits)
    return compute_weighted_loss(found, weights, scope, loss_collection, reduction)
