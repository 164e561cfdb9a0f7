"""``tf.compat.v1.losses``: weighted losses, which are added to a collection of the graph.

Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/losses
"""

from __future__ import annotations

from typing import Any

from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.ops.loss import check_weights
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
        """Returns the names of all ways to reduce a loss."""
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
    """Multiplies losses by weights, reduces them in float32, and adds the result to a collection of the graph.

    Args:
      losses: the loss of each element.
      weights: a tensor that broadcasts to the losses; 0 leaves a loss out.
      scope: not used.
      loss_collection: the graph's collection to which the loss is added, or None.
      reduction: a member of ``Reduction``.
    """
    if reduction not in Reduction.all():
        raise ValueError(f"Invalid Reduction Key {reduction}.")
    losses = convert_to_tensor(losses)
    dtype = losses.dtype
    losses = _tf("cast", losses, "float32")
    weights = _tf("cast", convert_to_tensor(weights), "float32")
    check_weights(losses, weights)
    reduced = _reduce(losses * weights, losses, weights, reduction)
    result = _tf("cast", reduced, dtype)
    add_loss(result, loss_collection)
    return result


def _reduce(weighted: Any, losses: Any, weights: Any, reduction: str) -> Any:
    """Reduces the weighted losses by the method ``reduction``: to a sum, to a mean, or not at all.

    The divisor of a mean is the sum of the weights, the number of losses, or the number of nonzero weights.
    """
    if reduction == Reduction.NONE:
        return weighted
    total = _tf("reduce_sum", weighted)
    if reduction == Reduction.SUM:
        return total
    divisors = _tf("ones_like", losses)
    if reduction == Reduction.MEAN:
        divisors = divisors * weights
    elif reduction != Reduction.SUM_OVER_BATCH_SIZE:
        is_weighted = _tf("not_equal", weights, 0.0)
        divisors = divisors * _tf("cast", is_weighted, "float32")
    return _tf("math.divide_no_nan", total, _tf("reduce_sum", divisors))


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
    losses = get_regularization_losses(scope)
    return _tf("add_n", losses) if losses else convert_to_tensor(0.0)


@v1("losses.get_total_loss")
def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None) -> Any:
    """Returns the sum of all losses."""
    losses = get_losses(scope)
    return _tf("add_n", [*losses, *(get_regularization_losses(scope) if add_regularization_losses else [])])


def _float_pair(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Converts labels and predictions to float32. Raises ValueError if one is None or their shapes differ."""
    if labels is None or predictions is None:
        missing = "labels" if labels is None else "predictions"
        raise ValueError(f"Argument `{missing}` must not be None.")
    predictions = _tf("cast", convert_to_tensor(predictions), "float32")
    labels = _tf("cast", convert_to_tensor(labels), "float32")
    predictions.shape.assert_is_compatible_with(labels.shape)
    return labels, predictions


def _declare_loss(name: str, function: Any) -> None:
    """Declares the function ``tf.compat.v1.losses.<name>``, which computes a weighted loss.

    ``function(labels, predictions)`` computes the loss of each element.
    """

    def loss(
        labels: Any, predictions: Any, *args: Any, weights: Any = 1.0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES,
        reduction: str = _BY_WEIGHTS, **more: Any,
    ) -> Tensor:  # fmt: skip
        """Computes the weighted loss, and adds it to a collection of the graph.

        Positional arguments after the predictions are the weights, this loss's own arguments and the general ones.
        """
        own_names = _OWN_ARGUMENTS.get(name, ())
        positional_names = ("weights", *own_names, "scope", "loss_collection", "reduction")
        options = {"weights": weights, "scope": scope, "loss_collection": loss_collection, "reduction": reduction}
        options |= more
        options |= dict(zip(positional_names, args))
        own_options = {key: options.pop(key) for key in own_names if key in options}
        float_labels, float_predictions = _float_pair(labels, predictions)
        losses = function(float_labels, float_predictions, **own_options)
        return compute_weighted_loss(losses, **options)

    loss.__name__ = name
    v1(f"losses.{name}")(loss)


_OWN_ARGUMENTS = {"huber_loss": ("delta",), "log_loss": ("epsilon",)}
"""By loss: the names of the arguments that only it has."""


def _huber(y: Any, x: Any, delta: float = 1.0) -> Any:
    error = _tf("abs", x - y)
    quadratic = _tf("minimum", error, delta)
    return 0.5 * quadratic * quadratic + delta * (error - quadratic)


def _log(y: Any, x: Any, epsilon: float = 1e-7) -> Any:
    return -y * _tf("math.log", x + epsilon) - (1 - y) * _tf("math.log", 1 - x + epsilon)


_declare_loss("mean_squared_error", lambda y, x: _tf("math.squared_difference", x, y))
_declare_loss("absolute_difference", lambda y, x: _tf("abs", x - y))
_declare_loss("huber_loss", _huber)
_declare_loss("log_loss", _log)


@v1("losses.hinge_loss")
def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Computes the hinge loss ``max(0, 1 - sign * logit)``. Labels of 0 and 1 have the signs -1 and 1.

    Args:
      labels: 0 or 1 for each logit.
      logits: tensor of the same shape.
      weights: a tensor that broadcasts to the losses; 0 leaves a loss out.
      scope: not used.
      loss_collection: the graph's collection to which the loss is added, or None.
      reduction: a member of ``Reduction``.
    """
    labels, logits = _float_pair(labels, logits)
    signs = 2 * labels - 1  # -1 and 1
    losses = _tf("nn.relu", 1 - signs * logits)
    return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


@v1("losses.cosine_distance")
def cosine_distance(
    labels: Any, predictions: Any, axis: Any = None, weights: Any = 1.0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS, dim: Any = None,
) -> Tensor:  # fmt: skip
    """Computes the cosine distance of vectors of unit length: one minus their dot product along ``axis``.

    Args:
      labels, predictions: vectors of unit length.
      axis, dim: the axis of the vectors; ``dim`` is the older name.
      weights: a tensor that broadcasts to the losses; 0 leaves a loss out.
      scope: not used.
      loss_collection: the graph's collection to which the loss is added, or None.
      reduction: a member of ``Reduction``.
    """
    axis = dim if axis is None else axis  # the older name
    if axis is None:
        raise ValueError("You must specify argument `axis`.")
    labels, predictions = _float_pair(labels, predictions)
    distances = 1 - _tf("reduce_sum", predictions * labels, axis, True)
    return compute_weighted_loss(distances, weights, scope, loss_collection, reduction)


@v1("losses.mean_pairwise_squared_error")
def mean_pairwise_squared_error(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES
) -> Tensor:
    """Returns the mean of ``((x_i - x_j) - (y_i - y_j)) ** 2`` over all pairs of an example's elements.

    ``x`` are the predictions and ``y`` the labels. The mean is computed without forming the pairs, from the sums of
    ``d_i`` and of their squares, where ``d = x - y``.
    """
    labels, predictions = _float_pair(labels, predictions)
    weights = _tf("cast", convert_to_tensor(weights), "float32")
    check_weights(labels, weights)
    delta = predictions - labels
    axes = list(range(1, delta.shape.rank))  # all but the batch axis
    square_sum = _tf("reduce_sum", delta * delta, axes, True)
    squared_sum = _tf("square", _tf("reduce_sum", delta, axes, True))
    has_weight = _tf("ones_like", delta) * _tf("cast", _tf("not_equal", weights, 0.0), "float32")
    count = _tf("reduce_sum", has_weight, axes, True)
    if state.trace is None and not weights.ndim:
        # In eager mode TensorFlow counts the elements of all examples for a scalar weight; its graphs, those of one.
        count = _tf("reduce_sum", has_weight)
    square_term = 2.0 * _tf("math.divide_no_nan", square_sum, count - 1)
    sum_term = 2.0 * _tf("math.divide_no_nan", squared_sum, count * (count - 1))
    total = _tf("reduce_sum", (square_term - sum_term) * weights)
    result = _tf("where", _tf("reduce_sum", count) > 0, total, 0.0)
    add_loss(result, loss_collection)
    return result  # type: ignore[no-any-return]


@v1("losses.softmax_cross_entropy")
def softmax_cross_entropy(
    onehot_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: Any = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = _BY_WEIGHTS,
) -> Tensor:  # fmt: skip
    """Computes the softmax cross entropy of logits and the classes' probabilities.

    Args:
      onehot_labels: the probabilities, of the shape of the logits.
      logits: tensor of shape (..., classes).
      label_smoothing: how far the probabilities are moved towards ``1 / number of classes``, from 0 to 1.
      weights: a tensor that broadcasts to the losses; 0 leaves a loss out.
      scope: not used.
      loss_collection: the graph's collection to which the loss is added, or None.
      reduction: a member of ``Reduction``.
    """
    logits = convert_to_tensor(logits)
    probabilities = _tf("cast", convert_to_tensor(onehot_labels), logits.dtype)
    logits.shape.assert_is_compatible_with(probabilities.shape)
    if label_smoothing > 0:  # without smoothing, the number of classes may be unknown
        probabilities = _smooth(probabilities, label_smoothing, 1.0 / logits.shape[-1])
    losses = _tf("nn.softmax_cross_entropy_with_logits", _tf("stop_gradient", probabilities), logits)
    return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def _smooth(y: Any, smoothing: float, to: float) -> Any:
    return y * (1 - smoothing) + to * smoothing if smoothing > 0 else y


@v1("losses.sigmoid_cross_entropy")
def sigmoid_cross_entropy(
    multi_class_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: Any = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = _BY_WEIGHTS,
) -> Tensor:  # fmt: skip
    """Computes the sigmoid cross entropy of each logit and its label.

    Args:
      multi_class_labels: labels between 0 and 1, of the shape of the logits.
      logits: tensor of any shape.
      label_smoothing: how far the labels are moved towards 0.5, from 0 to 1.
      weights: a tensor that broadcasts to the losses; 0 leaves a loss out.
      scope: not used.
      loss_collection: the graph's collection to which the loss is added, or None.
      reduction: a member of ``Reduction``.
    """
    logits = convert_to_tensor(logits)
    float_labels = _tf("cast", convert_to_tensor(multi_class_labels), logits.dtype)
    labels = _smooth(float_labels, label_smoothing, 0.5)
    logits.shape.assert_is_compatible_with(labels.shape)
    losses = _tf("nn.sigmoid_cross_entropy_with_logits", labels, logits)
    return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


@v1("losses.sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Computes the softmax cross entropy of logits and class indices.

    Args:
      labels: the class of each row of the logits. An additional last dim of 1 is removed.
      logits: tensor of shape (..., classes).
      weights: a tensor that broadcasts to the losses; 0 leaves a loss out.
      scope: not used.
      loss_collection: the graph's collection to which the loss is added, or None.
      reduction: a member of ``Reduction``.
    """
    labels = convert_to_tensor(labels)
    logits = convert_to_tensor(logits)
    if labels.shape.rank is not None and labels.shape.rank == logits.shape.rank:
        labels = _tf("squeeze", labels, [-1])
    losses = _tf("nn.sparse_softmax_cross_entropy_with_logits", labels, logits)
    return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)
