"""``tf.compat.v1.metrics``: functions that return a metric and an op that updates it from a batch; the sums are local variables.

Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/metrics
"""

from __future__ import annotations

from typing import Any

from tvtf.core.tensor import Tensor, convert_to_tensor
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

    def __init__(self, name: str | None, default: str, sums: dict[str, Any], value: Any, collections: Any) -> None:
        graph = current_graph()
        with variable_scope(name, default), graph.trace.unnamed():
            variables = {key: _local(key, each.shape.as_list()) for key, each in sums.items()}
            now = value(*(v._as_tensor() for v in variables.values()))
            added = [variables[key].assign_add(each) for key, each in sums.items()]
            then = value(*added)
        graph.trace.name_results(now, f"{name or default}/value", "Identity")
        graph.trace.name_results(then, f"{name or default}/update_op", "Identity")
        self.pair = now, then
        for keys, each in zip(collections, self.pair):
            if keys:
                get_default_graph().add_to_collections(keys, each)


def _ratio(total: Any, count: Any) -> Any:
    return _tf("math.divide_no_nan", total, count)


def _weighted(values: Any, weights: Any) -> tuple[Any, Any]:
    """Returns the weighted sum of values, and the sum of weights; without weights, they are ones."""
    values = _floats(values)
    if weights is None:
        return _tf("reduce_sum", values), _tf("cast", _tf("size", values), "float32")
    spread = _tf("broadcast_to", _floats(weights), _tf("shape", values))
    return _tf("reduce_sum", values * spread), _tf("reduce_sum", spread)


def _mean_of(
    name: str | None, default: str, values: Any, weights: Any, collections: Any, change: Any = lambda x: x
) -> Any:
    """Declares the sums of a weighted mean; ``change`` is applied to the mean."""
    with current_graph().trace.unnamed():
        total, count = _weighted(values, weights)
    sums = {"total": total, "count": count}
    return _Metric(name, default, sums, lambda t, c: change(_ratio(t, c)), collections).pair


@v1("metrics.mean")
def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """Returns the (weighted) mean of the values of all batches."""
    return _mean_of(name, "mean", values, weights, (metrics_collections, updates_collections))


def _pair(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Converts labels and predictions to tensors; removes an additional last dim of 1 of either."""
    y, x = convert_to_tensor(labels), convert_to_tensor(predictions)
    if y.shape.rank is not None and x.shape.rank is not None and abs(y.shape.rank - x.shape.rank) == 1:
        longer = x if x.shape.rank > y.shape.rank else y
        if longer.shape[-1] in (1, None):
            cut = _tf("squeeze", longer, [-1])
            y, x = (y, cut) if longer is x else (cut, x)
    x.shape.assert_is_compatible_with(y.shape)
    return y, x


@v1("metrics.accuracy")
def accuracy(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Returns the share of predictions that equal their labels."""
    y, x = _pair(labels, predictions)
    with current_graph().trace.unnamed():
        same = _tf("equal", x, _tf("cast", y, x.dtype))
    return _mean_of(name, "accuracy", same, weights, (metrics_collections, updates_collections))


def _error(path: str, error: Any, change: Any = lambda x: x) -> None:
    """Declares a metric that is the mean of ``error`` of labels and predictions; ``change`` is applied to the mean."""

    def metric(
        labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
        name: str | None = None,
    ) -> Any:  # fmt: skip
        """Returns the mean error and the op that updates it."""
        y, x = _pair(labels, predictions)
        with current_graph().trace.unnamed():
            values = error(_floats(y), _floats(x))
        return _mean_of(name, path, values, weights, (metrics_collections, updates_collections), change)

    metric.__name__ = path
    v1(f"metrics.{path}")(metric)


_error("mean_absolute_error", lambda y, x: _tf("abs", x - y))
_error("mean_squared_error", lambda y, x: _tf("square", x - y))
_error("root_mean_squared_error", lambda y, x: _tf("square", x - y), lambda mean: _tf("sqrt", mean))


@v1("metrics.mean_relative_error")
def mean_relative_error(
    labels: Any, predictions: Any, normalizer: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Returns the mean of absolute errors divided by ``normalizer``."""
    y, x = _pair(labels, predictions)
    with current_graph().trace.unnamed():
        values = _tf("math.divide_no_nan", _tf("abs", _floats(x) - _floats(y)), _floats(normalizer))
    return _mean_of(name, "mean_relative_error", values, weights, (metrics_collections, updates_collections))


@v1("metrics.percentage_below")
def percentage_below(
    values: Any, threshold: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Returns the share of values below a threshold."""
    with current_graph().trace.unnamed():
        below = convert_to_tensor(values) < threshold
    return _mean_of(name, "percentage_below_threshold", below, weights, (metrics_collections, updates_collections))


_COUNTS = {  # whether the label is true, and whether the prediction is
    "true_positives": (True, True),
    "false_positives": (False, True),
    "false_negatives": (True, False),
    "true_negatives": (False, False),
}


def _count(labels: Any, predictions: Any, weights: Any, kind: str) -> Any:
    is_label, is_predicted = _COUNTS[kind]
    y, x = (_tf("cast", t, "bool") for t in _pair(labels, predictions))
    hit = _tf("logical_and", _tf("equal", y, is_label), _tf("equal", x, is_predicted))
    return _weighted(hit, weights)[0]


def _counted(kind: str) -> None:
    """Declares the metric that counts one of ``_COUNTS``."""

    def metric(
        labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
        name: str | None = None,
    ) -> Any:  # fmt: skip
        with current_graph().trace.unnamed():
            sums = {"count": _count(labels, predictions, weights, kind)}
        return _Metric(name, kind, sums, lambda c: _tf("identity", c), (metrics_collections, updates_collections)).pair

    v1(f"metrics.{kind}")(metric)


for _kind in _COUNTS:
    _counted(_kind)


def _share_of_true_positives(path: str, other: str) -> None:
    """Declares the share of true positives in these and ``other``."""

    def metric(
        labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
        name: str | None = None,
    ) -> Any:  # fmt: skip
        """Returns the share of true positives and the op that updates it."""
        kinds = ("true_positives", other)
        with current_graph().trace.unnamed():
            sums = {f"{k}/count": _count(labels, predictions, weights, k) for k in kinds}
        found = _Metric(name, path, sums, lambda a, b: _ratio(a, a + b), (metrics_collections, updates_collections))
        return found.pair

    v1(f"metrics.{path}")(metric)


_share_of_true_positives("precision", "false_positives")
_share_of_true_positives("recall", "false_negatives")


@v1("metrics.mean_tensor")
def mean_tensor(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """Returns the mean of each element over batches."""
    with current_graph().trace.unnamed():
        each = _floats(values)
        spread = (
            _tf("ones_like", each) if weights is None else _tf("broadcast_to", _floats(weights), _tf("shape", each))
        )
        sums = {"total_tensor": each * spread, "count_tensor": spread}
    return _Metric(name, "mean", sums, _ratio, (metrics_collections, updates_collections)).pair


def _confusion_matrix(labels: Any, predictions: Any, num_classes: int, weights: Any) -> Any:
    flat = [_tf("reshape", convert_to_tensor(t), [-1]) for t in (labels, predictions)]
    own = None if weights is None else _tf("reshape", _floats(weights), [-1])
    return _tf("math.confusion_matrix", *flat, num_classes, own, "float32")


@v1("metrics.mean_iou")
def mean_iou(
    labels: Any, predictions: Any, num_classes: int, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Returns the mean over classes of intersection over union of labels and predictions; the op updates the confusion matrix."""

    def value(matrix: Any) -> Any:
        intersection = _tf("linalg.diag_part", matrix)
        union = _tf("reduce_sum", matrix, 0) + _tf("reduce_sum", matrix, 1) - intersection
        return _ratio(
            _tf("reduce_sum", _ratio(intersection, union)),
            _tf("reduce_sum", _tf("cast", _tf("not_equal", union, 0.0), "float32")),
        )

    with current_graph().trace.unnamed():
        sums = {"total_confusion_matrix": _confusion_matrix(labels, predictions, num_classes, weights)}
    return _Metric(name, "mean_iou", sums, value, (metrics_collections, updates_collections)).pair


@v1("metrics.mean_per_class_accuracy")
def mean_per_class_accuracy(
    labels: Any, predictions: Any, num_classes: int, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Returns the mean over classes of their accuracy."""
    with current_graph().trace.unnamed():
        matrix = _confusion_matrix(labels, predictions, num_classes, weights)
        sums = {"count": _tf("linalg.diag_part", matrix), "total": _tf("reduce_sum", matrix, 1)}
    collections = (metrics_collections, updates_collections)
    return _Metric(name, "mean_accuracy", sums, lambda c, t: _tf("reduce_mean", _ratio(c, t)), collections).pair


@v1("metrics.auc")
def auc(
    labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = 200, metrics_collections: Any = None,
    updates_collections: Any = None, curve: str = "ROC", name: str | None = None, summation_method: str = "trapezoidal",
    thresholds: Any = None,
) -> Any:  # fmt: skip
    """Returns the area under the ROC curve, approximated at thresholds.

    Raises:
      NotImplementedError: another curve or method.
    """
    if curve != "ROC" or summation_method != "trapezoidal":
        raise NotImplementedError("tf.compat.v1.metrics.auc finds the area under the ROC curve by the trapezoidal rule")
    inner = thresholds or [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
    with current_graph().trace.unnamed():
        cuts = convert_to_tensor([-1e-7, *sorted(inner), 1.0 + 1e-7], "float32")
        y, x = (_tf("reshape", t, [1, -1]) for t in _pair(labels, predictions))
        above = _floats(x) > cuts[:, None]
        positive = _tf("cast", y, "bool")
        own = (
            None
            if weights is None
            else _tf("reshape", _tf("broadcast_to", _floats(weights), _tf("shape", predictions)), [1, -1])
        )
        sums = {
            f"{k}": _tf("reduce_sum", _masked(_tf("equal", positive, a), _tf("equal", above, b), own), 1)
            for k, (a, b) in _COUNTS.items()
        }

    def area(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        epsilon = 1e-6
        rate, false = (tp + epsilon) / (tp + fn + epsilon), fp / (fp + tn + epsilon)
        return _tf("reduce_sum", (false[:-1] - false[1:]) * ((rate[:-1] + rate[1:]) / 2.0))

    return _Metric(name, "auc", sums, area, (metrics_collections, updates_collections)).pair


def _masked(a: Any, b: Any, weights: Any) -> Any:
    """Returns ones (or weights) where both are true, else zeros."""
    found = _tf("cast", _tf("logical_and", a, b), "float32")
    return found if weights is None else found * weights
