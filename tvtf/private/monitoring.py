"""Names of ``tensorflow.python.eager.monitoring``: metrics of a process, with which libraries count how they are used.

Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/eager/monitoring.py
"""

from __future__ import annotations

from typing import Any, ClassVar


class _Cell:
    """The value of a metric for one choice of labels."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def set(self, value: Any) -> None:
        self._value = value

    def value(self) -> Any:
        return self._value


class _CounterCell(_Cell):
    """The value of a counter for one choice of labels."""

    def increase_by(self, value: int) -> None:
        self._value += value


class _Metric:
    """A metric, which has a value for each choice of its labels."""

    initial: ClassVar[Any]
    cell_class: ClassVar[type[_Cell]] = _Cell

    def __init__(self, name: str, description: str, *labels: str) -> None:
        self._name = name
        self._labels = labels
        self._cells = dict[tuple[str, ...], Any]()

    def get_cell(self, *labels: str) -> Any:
        """Returns the cell for values of the metric's labels.

        Raises:
          ValueError: the number of labels is not that of the metric.
        """
        if len(labels) != len(self._labels):
            raise ValueError(f"The {self._name} expects taking {len(self._labels)} labels")
        return self._cells.setdefault(labels, self.cell_class(self.initial))


class BoolGauge(_Metric):
    """A metric whose values are set, and are bools."""

    initial = False


class IntGauge(_Metric):
    """A metric whose values are set, and are ints."""

    initial = 0


class StringGauge(_Metric):
    """A metric whose values are set, and are strings."""

    initial = ""


class Counter(_Metric):
    """A metric whose values only increase."""

    initial = 0
    cell_class = _CounterCell


NAMES: dict[str, dict[str, Any]] = {
    "python.eager.monitoring": {
        "BoolGauge": BoolGauge,
        "Counter": Counter,
        "IntGauge": IntGauge,
        "StringGauge": StringGauge,
    }
}
