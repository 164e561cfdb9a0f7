"""``tf.compat.v1.metrics``: functions that return a metric and an op that updates it from a batch; the sums are local variables.

Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/metrics
"""

from __future__ import annotations

from typing import Any

from tvtf.core.primitive import defer_unknown_rank
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.ops.loss import check_weights
from tvtf.v1.graph import current_graph, get_default_graph
from tvtf.v1.graph_variable import GraphKeys
from tvtf.v1.registry import called as _tf
from tvtf.v1.registry import v1
from tvtf.v1.variables import Variable, variable_scope


def _floats(x: Any) -> Tensor:
    return _tf("cast", convert_to_tensor(x), "float32")  # type: ignore[no-any-return]


def _local(name: str, shape: Any = (), dtype: str = "float32") -> Any:
    collections = [GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES]
    return Variable(_tf("zeros", list(shape), dtype), trainable=False, collections=collections, name=name)


class _Metric:
    """Running sums in local variables, by name, in a scope of their own; ``value`` computes the metric from them."""

    def __init__(
        self, name: str | None, default_name: str, batch_sums: dict[str, Any], value: Any, collections: Any
    ) -> None:
        """Creates the metric's variables. Each update adds the sums of a batch to them.

        The attribute ``value_and_update`` is the pair that TensorFlow's metric functions return: the metric's value
        before the update, and the update op, which returns the value after the update.

        Args:
          name: the user's name for the metric, or None.
          default_name: the name if ``name`` is None.
          batch_sums: the sums of the current batch, by the name of the variable that they are added to.
          value: computes the metric from the variables' values, which it is passed in the order of ``batch_sums``.
          collections: a pair of lists of graph collections (or None). The value is added to the first, the update op to
            the second.
        """
        graph = current_graph()
        with variable_scope(name, default_name), graph.trace.without_op_names():
            variables = {key: _local(key, batch_sum.shape.as_list()) for key, batch_sum in batch_sums.items()}
            current_value = value(*(variable._as_tensor() for variable in variables.values()))
            new_sums = [variables[key].assign_add(batch_sum) for key, batch_sum in batch_sums.items()]
            updated_value = value(*new_sums)
        graph.trace.name_results(current_value, f"{name or default_name}/value", "Identity")
        graph.trace.name_results(updated_value, f"{name or default_name}/update_op", "Identity")
        self.value_and_update = current_value, updated_value
        for keys, tensor in zip(collections, self.value_and_update):
            if keys:
                get_default_graph().add_to_collections(keys, tensor)


def _ratio(total: Any, count: Any) -> Any:
    return _tf("math.divide_no_nan", total, count)


def _weighted_sums(values: Any, weights: Any) -> tuple[Any, Any]:
    """Returns the weighted sum of values, and the sum of their weights, each of which is 1 if ``weights`` is None."""
    values = _floats(values)
    if weights is None:
        return _tf("reduce_sum", values), _tf("cast", _tf("size", values), "float32")
    weights = _broadcast_weights(weights, values)
    weighted_sum = _tf("reduce_sum", values * weights)
    sum_of_weights = _tf("reduce_sum", weights)
    # Scalars, whatever the rank of the values.
    return _tf("ensure_shape", weighted_sum, []), _tf("ensure_shape", sum_of_weights, [])


def _broadcast_weights(weights: Any, values: Any) -> Any:
    """Broadcasts weights to the shape of the values that they weigh, as floats.

    If their ranks differ by one, the last dim of the weights is removed, or one of size 1 is added: a weight per row
    weighs all values of the row.

    Raises:
      ValueError: the weights are no scalar, and a size of theirs is neither 1 nor that of the values.
    """
    fitted_weights = _of_values_rank(_floats(weights), values)
    # Weights of unknown rank don't fit at all ranks: tracing doesn't find that the result always has the values' shape.
    return _tf("ensure_shape", fitted_weights, values.shape)


@defer_unknown_rank
def _of_values_rank(weights: Any, values: Any) -> Any:
    """Broadcasts weights to the shape of the values; see `_broadcast_weights`."""
    weights = weights_of_rank(weights, values)
    check_weights(values, weights)
    return _tf("broadcast_to", weights, _tf("shape", values))


def weights_of_rank(weights: Any, values: Any) -> Any:
    """Removes the last dim of weights, or adds one of size 1, if this gives them the rank of ``values``."""
    if weights.ndim:
        if weights.ndim == values.ndim + 1:
            return _tf("squeeze", weights, [-1])
        if weights.ndim == values.ndim - 1:
            return _tf("expand_dims", weights, -1)
    return weights


def _mean_of(
    name: str | None, default_name: str, values: Any, weights: Any, collections: Any, transform: Any = lambda mean: mean
) -> Any:
    """Creates a metric: the weighted mean of values over all batches, transformed by a function.

    Returns the metric's value and the op that updates it.

    Args:
      name: a prefix of the names of the two tensors, or None.
      default_name: the prefix if ``name`` is None.
      values: the values of a batch.
      weights: a tensor that broadcasts to the values, or None for equal weights.
      collections: names of the graph's collections for the value and for the update op.
      transform: a function of the mean.
    """
    with current_graph().trace.without_op_names():
        batch_total, batch_count = _weighted_sums(values, weights)

    def value(total: Any, count: Any) -> Any:
        return transform(_ratio(total, count))

    batch_sums = {"total": batch_total, "count": batch_count}
    return _Metric(name, default_name, batch_sums, value, collections).value_and_update


@v1("metrics.mean")
def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """Creates a metric, the (weighted) mean of the values of all batches.

    Returns the mean and the op that updates it.

    Args:
      values: the values of a batch.
      weights: a tensor that broadcasts to the values, or None for equal weights.
      metrics_collections, updates_collections: names of the graph's collections for the value and for the update op.
      name: a prefix of the names of the two tensors.
    """
    return _mean_of(name, "mean", values, weights, (metrics_collections, updates_collections))


def remove_squeezable_dimensions(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Converts labels and predictions to tensors of equal rank, and returns both.

    If one of them has one dim more, its last dim is removed. This dim must be 1. For example, predictions of shape
    (8, 1) are compared with labels of shape (8,).

    Raises:
      ValueError: the resulting shapes are incompatible.
    """
    labels, predictions = convert_to_tensor(labels), convert_to_tensor(predictions)
    label_rank, prediction_rank = labels.shape.rank, predictions.shape.rank
    if label_rank is not None and prediction_rank is not None:
        # A last dim that is unknown is checked when the graph runs.
        if label_rank == prediction_rank + 1 and labels.shape[-1] in (1, None):
            labels = _tf("squeeze", labels, [-1])
        elif prediction_rank == label_rank + 1 and predictions.shape[-1] in (1, None):
            predictions = _tf("squeeze", predictions, [-1])
    predictions.shape.assert_is_compatible_with(labels.shape)
    return labels, predictions


@v1("metrics.accuracy")
def accuracy(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Creates a metric, the share of predictions that equal their labels.

    Returns the share and the op that updates it.

    Args:
      labels, predictions: tensors of one shape.
      weights: a tensor that broadcasts to the values, or None for equal weights.
      metrics_collections, updates_collections: names of the graph's collections for the value and for the update op.
      name: a prefix of the names of the two tensors.
    """
    labels, predictions = remove_squeezable_dimensions(labels, predictions)
    with current_graph().trace.without_op_names():
        cast_labels = _tf("cast", labels, predictions.dtype)
        is_correct = _tf("equal", predictions, cast_labels)
    return _mean_of(name, "accuracy", is_correct, weights, (metrics_collections, updates_collections))


def _declare_mean_error(name_of_metric: str, error: Any, transform: Any = lambda mean: mean) -> None:
    """Defines the public function ``tf.compat.v1.metrics.<name_of_metric>``, such as ``mean_squared_error``.

    The function's metric is the (weighted) mean of an elementwise error over the examples of all batches.

    Args:
      name_of_metric: the function's name, which is also the default name of its variables' scope.
      error: computes the error of each example from float32 labels and predictions of equal rank.
      transform: computes the metric from the mean error, such as the root for ``root_mean_squared_error``.
    """

    def metric(
        labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
        name: str | None = None,
    ) -> Any:  # fmt: skip
        """Creates the metric. Returns the mean error and the op that updates it.

        Args:
          labels, predictions: the true and the predicted values.
          weights: a weight for each prediction, or None.
          metrics_collections, updates_collections: the graph's collections for the value and for the update op.
        """
        labels, predictions = remove_squeezable_dimensions(labels, predictions)
        # Only the metric's value and update op get names, in `_Metric`.
        with current_graph().trace.without_op_names():
            values = error(_floats(labels), _floats(predictions))
        return _mean_of(name, name_of_metric, values, weights, (metrics_collections, updates_collections), transform)

    metric.__name__ = name_of_metric
    v1(f"metrics.{name_of_metric}")(metric)


_declare_mean_error("mean_absolute_error", lambda y, x: _tf("abs", x - y))
_declare_mean_error("mean_squared_error", lambda y, x: _tf("square", x - y))
_declare_mean_error("root_mean_squared_error", lambda y, x: _tf("square", x - y), lambda mean: _tf("sqrt", mean))


@v1("metrics.mean_relative_error")
def mean_relative_error(
    labels: Any, predictions: Any, normalizer: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Creates a metric, the mean of absolute errors divided by a normalizer.

    Returns the mean and the op that updates it.

    Args:
      labels, predictions, normalizer: tensors of one shape.
      weights: a tensor that broadcasts to the values, or None for equal weights.
      metrics_collections, updates_collections: names of the graph's collections for the value and for the update op.
      name: a prefix of the names of the two tensors.
    """
    labels, predictions = remove_squeezable_dimensions(labels, predictions)
    normalizer, predictions = remove_squeezable_dimensions(normalizer, predictions)
    with current_graph().trace.without_op_names():
        absolute_errors = _tf("abs", _floats(predictions) - _floats(labels))
        relative_errors = _tf("math.divide_no_nan", absolute_errors, _floats(normalizer))
    collections = (metrics_collections, updates_collections)
    return _mean_of(name, "mean_relative_error", relative_errors, weights, collections)


@v1("metrics.percentage_below")
def percentage_below(
    values: Any, threshold: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Creates a metric, the share of values below a threshold. Returns the share and the op that updates it.

    Args:
      values: the values of a batch.
      threshold: a number.
      weights: a tensor that broadcasts to the values, or None for equal weights.
      metrics_collections, updates_collections: names of the graph's collections for the value and for the update op.
      name: a prefix of the names of the two tensors.
    """
    with current_graph().trace.without_op_names():
        below = convert_to_tensor(values) < threshold
    return _mean_of(name, "percentage_below_threshold", below, weights, (metrics_collections, updates_collections))


_COUNTS = {  # for each kind of prediction: whether the label is true, and whether the prediction is true
    "true_positives": (True, True),
    "false_positives": (False, True),
    "false_negatives": (True, False),
    "true_negatives": (False, False),
}


def _weighted_count(labels: Any, predictions: Any, weights: Any, kind: str) -> Any:
    """Returns the number of a batch's predictions of a kind in `_COUNTS`, such as ``true_positives``.

    With weights, this is the sum of these predictions' weights.
    """
    counted_label, counted_prediction = _COUNTS[kind]
    labels, predictions = remove_squeezable_dimensions(labels, predictions)
    has_label = _tf("equal", _tf("cast", labels, "bool"), counted_label)
    has_prediction = _tf("equal", _tf("cast", predictions, "bool"), counted_prediction)
    weighted_count, _ = _weighted_sums(_tf("logical_and", has_label, has_prediction), weights)
    return weighted_count


def _declare_prediction_count(kind: str) -> None:
    """Defines the public function ``tf.compat.v1.metrics.<kind>``, such as ``true_positives``.

    The function's metric is the (weighted) number of predictions of this kind in all batches. ``kind`` is a key of
    `_COUNTS`.
    """

    def value(count: Any) -> Any:
        """Returns a new tensor, which can get the metric's name: the variable's tensor has its own."""
        return _tf("identity", count)

    def metric(
        labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
        name: str | None = None,
    ) -> Any:  # fmt: skip
        """Creates the metric. Returns the number of predictions, and the op that adds a batch's number to it.

        Args:
          labels, predictions: the true and the predicted values.
          weights: a weight for each prediction, or None.
          metrics_collections, updates_collections: the graph's collections for the value and for the update op.
        """
        with current_graph().trace.without_op_names():
            sums = {"count": _weighted_count(labels, predictions, weights, kind)}
        return _Metric(name, kind, sums, value, (metrics_collections, updates_collections)).value_and_update

    v1(f"metrics.{kind}")(metric)


for _kind in _COUNTS:
    _declare_prediction_count(_kind)


def _declare_share_of_true_positives(name_of_metric: str, other_kind: str) -> None:
    """Declares the metric ``name_of_metric``: ``true_positives / (true_positives + other_kind)``.

    Precision has ``false_positives`` as the other kind of predictions, and recall has ``false_negatives``.
    """

    def value(true_positives: Any, others: Any) -> Any:
        return _ratio(true_positives, true_positives + others)

    def metric(
        labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
        name: str | None = None,
    ) -> Any:  # fmt: skip
        """Creates the metric. Returns the share of true positives and the op that updates it.

        Args:
          labels, predictions: the true and the predicted values.
          weights: a weight for each prediction, or None.
          metrics_collections, updates_collections: the graph's collections for the value and for the update op.
        """
        with current_graph().trace.without_op_names():
            sums = {}
            for kind in ("true_positives", other_kind):
                sums[f"{kind}/count"] = _weighted_count(labels, predictions, weights, kind)
        collections = (metrics_collections, updates_collections)
        return _Metric(name, name_of_metric, sums, value, collections).value_and_update

    v1(f"metrics.{name_of_metric}")(metric)


_declare_share_of_true_positives("precision", "false_positives")
_declare_share_of_true_positives("recall", "false_negatives")


@v1("metrics.mean_tensor")
def mean_tensor(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """Creates a metric, the (weighted) mean over batches of each element.

    Returns the means and the op that updates them.

    Args:
      values: the values of a batch.
      weights: a tensor that broadcasts to the values, or None for equal weights.
      metrics_collections, updates_collections: names of the graph's collections for the value and for the update op.
      name: a prefix of the names of the two tensors.
    """
    with current_graph().trace.without_op_names():
        values = _floats(values)
        weights = _tf("ones_like", values) if weights is None else _broadcast_weights(weights, values)
        sums = {"total_tensor": values * weights, "count_tensor": weights}
    return _Metric(name, "mean", sums, _ratio, (metrics_collections, updates_collections)).value_and_update


def _confusion_matrix(labels: Any, predictions: Any, num_classes: int, weights: Any) -> Any:
    labels, predictions = (_tf("reshape", convert_to_tensor(tensor), [-1]) for tensor in (labels, predictions))
    weights = None if weights is None else _tf("reshape", _floats(weights), [-1])
    return _tf("math.confusion_matrix", labels, predictions, num_classes, weights, "float32")


@v1("metrics.mean_iou")
def mean_iou(
    labels: Any, predictions: Any, num_classes: int, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Creates a metric, the mean over classes of the intersection over union of labels and predictions.

    Returns the mean and the op that updates it. The metric's variable is the confusion matrix.

    Args:
      labels, predictions: the true and the predicted classes.
      num_classes: the number of classes.
      weights: a weight for each prediction, or None.
      metrics_collections, updates_collections: the graph's collections to which the mean and the update op are added.
    """

    def value(matrix: Any) -> Any:
        """Returns the mean IoU over the classes that occur, from the confusion matrix.

        Other classes have an empty union.
        """
        intersection = _tf("linalg.diag_part", matrix)
        union = _tf("reduce_sum", matrix, 0) + _tf("reduce_sum", matrix, 1) - intersection
        occurs = _tf("cast", _tf("not_equal", union, 0.0), "float32")
        iou_of_classes = _ratio(intersection, union)
        return _ratio(_tf("reduce_sum", iou_of_classes), _tf("reduce_sum", occurs))

    with current_graph().trace.without_op_names():
        sums = {"total_confusion_matrix": _confusion_matrix(labels, predictions, num_classes, weights)}
    return _Metric(name, "mean_iou", sums, value, (metrics_collections, updates_collections)).value_and_update


@v1("metrics.mean_per_class_accuracy")
def mean_per_class_accuracy(
    labels: Any, predictions: Any, num_classes: int, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Creates a metric, the mean of the accuracies of all classes. Returns the mean and the op that updates it.

    Args:
      labels, predictions: tensors of classes, of one shape.
      num_classes: the number of classes.
      weights: a tensor that broadcasts to the values, or None for equal weights.
      metrics_collections, updates_collections: names of the graph's collections for the value and for the update op.
      name: a prefix of the names of the two tensors.
    """

    def value(correct: Any, total: Any) -> Any:
        return _tf("reduce_mean", _ratio(correct, total))

    with current_graph().trace.without_op_names():
        matrix = _confusion_matrix(labels, predictions, num_classes, weights)
        # Correct predictions are on the diagonal; the sum of a row is the number of labels of a class.
        sums = {"count": _tf("linalg.diag_part", matrix), "total": _tf("reduce_sum", matrix, 1)}
    return _Metric(name, "mean_accuracy", sums, value, (metrics_collections, updates_collections)).value_and_update


@v1("metrics.auc")
def auc(
    labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = 200, metrics_collections: Any = None,
    updates_collections: Any = None, curve: str = "ROC", name: str | None = None, summation_method: str = "trapezoidal",
    thresholds: Any = None,
) -> Any:  # fmt: skip
    """Creates a metric, the area under the ROC curve, approximated by trapezoids between thresholds.

    Returns the area and the op that updates it. The metric's variables have the number of predictions of each kind in
    `_COUNTS` at each threshold.

    Raises:
      NotImplementedError: ``curve`` is not "ROC", or ``summation_method`` is not "trapezoidal".
    """
    if curve != "ROC" or summation_method != "trapezoidal":
        raise NotImplementedError("tf.compat.v1.metrics.auc finds the area under the ROC curve by the trapezoidal rule")
    inner_thresholds = thresholds or [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
    with current_graph().trace.without_op_names():
        # The outer thresholds are just outside of [0, 1]: all predictions are above the first, and none above the last.
        all_thresholds = convert_to_tensor([-1e-7, *sorted(inner_thresholds), 1.0 + 1e-7], "float32")
        labels, predictions = remove_squeezable_dimensions(labels, predictions)
        y, x = _tf("reshape", labels, [1, -1]), _tf("reshape", predictions, [1, -1])
        is_above = _floats(x) > all_thresholds[:, None]
        is_label = _tf("cast", y, "bool")
        flat_weights = None
        if weights is not None:
            flat_weights = _tf("reshape", _broadcast_weights(weights, predictions), [1, -1])
            flat_weights = _tf("ensure_shape", flat_weights, [1, None])  # whatever the rank of the predictions
        sums = {}
        for kind, (label, prediction) in _COUNTS.items():
            has_label = _tf("equal", is_label, label)
            is_predicted = _tf("equal", is_above, prediction)
            sums[kind] = _tf("reduce_sum", _masked(has_label, is_predicted, flat_weights), 1)

    def area(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        """Returns the area under the curve, from the numbers of true and false positives and negatives."""
        epsilon = 1e-6  # TensorFlow's, against division by zero
        true_positive_rate = (tp + epsilon) / (tp + fn + epsilon)
        false_positive_rate = fp / (fp + tn + epsilon)
        widths = false_positive_rate[:-1] - false_positive_rate[1:]
        return _tf("reduce_sum", widths * ((true_positive_rate[:-1] + true_positive_rate[1:]) / 2.0))

    return _Metric(name, "auc", sums, area, (metrics_collections, updates_collections)).value_and_update


def _masked(a: Any, b: Any, weights: Any) -> Any:
    """Returns ones (or weights) where both are true, else zeros."""
    found = _tf("cast", _tf("logical_and", a, b), "float32")
    return found if weights is None else found * weights
