"""Exponential moving averages of Variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import float16, float32, float64
from tvtf.ops.rules import bind
from tvtf.state.variable import Variable


class ExponentialMovingAverage:
    """Moving averages (shadows) of Variables.

    Each :meth:`apply` computes ``shadow -= (1 - decay) * (shadow - variable)``.

    Args:
      decay: the fraction of a shadow that each update keeps.
      num_updates: the number n of updates so far; the decay is then at most ``(1 + n) / (10 + n)``.
      zero_debias: accepted without effect: shadows start with the Variables' values, so that there is no bias.
      name: the suffix of the shadows' names.

    >>> import tvtf as tf
    >>> w = tf.Variable(1.)
    >>> average = tf.train.ExponentialMovingAverage(0.5)
    >>> average.apply([w])
    >>> _ = w.assign(3.)
    >>> average.apply([w])
    >>> average.average(w).numpy()
    np.float32(2.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/train/ExponentialMovingAverage
    """

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        """Stores the decay; if ``num_updates`` is set, the decay is smaller in the first updates."""
        self._decay, self._num_updates, self._name = decay, num_updates, name
        self._averages: dict[int, tuple[Variable, Variable]] = {}

    @property
    def name(self) -> str:
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> None:
        """Updates the moving average of each Variable; the first call creates it, with the Variable's value.

        Raises:
          TypeError: an element is not a Variable of a real floating dtype.
          ValueError: ``var_list`` is None: Variables are in no collection here.
        """
        if var_list is None:
            raise ValueError(
                "ExponentialMovingAverage.apply: pass the Variables to average in var_list; there is no collection of them"
            )
        variables = list(var_list)
        for variable in variables:
            self._check(variable)
        for variable in variables:
            self._update_average(variable, self._average_of(variable))

    @staticmethod
    def _check(variable: Any) -> None:
        """Raises TypeError unless an object is a Variable of a real floating dtype."""
        if not isinstance(variable, Variable):
            raise TypeError(
                "tf.train.ExponentialMovingAverage does not support non-Variable tensors when eager execution is enabled."
            )
        if variable.dtype not in (float16, float32, float64):
            raise TypeError(f"The variables must be half, float, or double: {variable.name}")

    def _average_of(self, variable: Variable) -> Variable:
        """Returns the Variable with the moving average of a Variable; the first call creates it."""
        if id(variable) not in self._averages:
            average = Variable(variable.read_value, trainable=False, name=self.average_name(variable))
            self._averages[id(variable)] = variable, average
        _, average = self._averages[id(variable)]
        return average

    def _update_average(self, variable: Variable, average: Variable) -> None:
        step = bind.cast(self._fraction_of_change(), dtype=variable.dtype)
        average.assign_sub((average.value() - variable.value()) * step, read_value=False)

    def _fraction_of_change(self) -> Tensor:
        """Returns ``1 - decay``, the fraction of the difference to the Variable that an update adds to the average.

        With ``num_updates``, the decay is at most ``(1 + num_updates) / (10 + num_updates)``. Early averages follow the
        Variable faster then.
        """
        decay = convert_to_tensor(self._decay, dtype_hint=float32)
        if self._num_updates is not None:
            count = bind.cast(convert_to_tensor(self._num_updates), dtype=decay.dtype)
            decay = bind.minimum(decay, (1.0 + count) / (10.0 + count))
        return 1.0 - decay

    def average(self, var: Any) -> Variable | None:
        """Returns the shadow of a Variable, or None if it was never averaged."""
        entry = self._averages.get(id(var))
        if entry is None:
            return None
        _, average = entry
        return average

    def average_name(self, var: Any) -> str:
        """Returns the name of a Variable's shadow."""
        return f"{var.name.removesuffix(':0')}/{self._name}"

    def variables_to_restore(self, moving_avg_variables: Iterable[Variable] | None = None) -> dict[str, Variable]:
        """Returns the given Variables, or all averaged ones, by the names of their shadows."""
        if moving_avg_variables is None:
            moving_avg_variables = [variable for variable, _ in self._averages.values()]
        return {self.average_name(variable): variable for variable in moving_avg_variables}
