"""Exponential moving averages of Variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import float16, float32, float64
from tvtf.ops.rules import bind
from tvtf.state.variable import Variable


class ExponentialMovingAverage:
    """Shadows of Variables that follow them: ``shadow -= (1 - decay) * (shadow - variable)`` with each :meth:`apply`.

    Args:
      decay: how much of a shadow stays.
      num_updates: how often the Variables were updated; the decay is then at most ``(1 + n) / (10 + n)``.
      zero_debias: accepted; Variables' shadows begin with their values, which leaves nothing to correct.
      name: ends the shadows' names.

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
        self._decay, self._num_updates, self._name = decay, num_updates, name
        self._shadows: dict[int, tuple[Variable, Variable]] = {}

    @property
    def name(self) -> str:
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> None:
        """Moves the shadow of each Variable; makes it at the first call.

        Raises:
          TypeError: something that is no Variable, or a Variable that is not of a real floating dtype.
          ValueError: no list: Variables are in no collection here.
        """
        if var_list is None:
            raise ValueError("apply needs the Variables to average: there is no collection of all of them")
        variables = list(var_list)
        for variable in variables:
            self._check(variable)
        for variable in variables:
            self._move(variable, self._shadow_of(variable))

    @staticmethod
    def _check(variable: Any) -> None:
        if not isinstance(variable, Variable):
            raise TypeError(
                "tf.train.ExponentialMovingAverage does not support non-Variable tensors when eager execution is enabled."
            )
        if variable.dtype not in (float16, float32, float64):
            raise TypeError(f"The variables must be half, float, or double: {variable.name}")

    def _shadow_of(self, variable: Variable) -> Variable:
        known = self._shadows.get(id(variable))
        if known is None:
            shadow = Variable(variable.read_value, trainable=False, name=self.average_name(variable))
            known = self._shadows[id(variable)] = variable, shadow
        return known[1]

    def _move(self, variable: Variable, shadow: Variable) -> None:
        kept = bind.cast(self._kept(), dtype=variable.dtype)
        shadow.assign_sub((shadow.value() - variable.value()) * kept, read_value=False)

    def _kept(self) -> Tensor:
        """How much of the way to the Variable a shadow goes."""
        decay = convert_to_tensor(self._decay, dtype_hint=float32)
        if self._num_updates is not None:
            count = bind.cast(convert_to_tensor(self._num_updates), dtype=decay.dtype)
            decay = bind.minimum(decay, (1.0 + count) / (10.0 + count))
        return 1.0 - decay

    def average(self, var: Any) -> Variable | None:
        """The shadow of a Variable; None for one that was never averaged."""
        known = self._shadows.get(id(var))
        return None if known is None else known[1]

    def average_name(self, var: Any) -> str:
        """What the shadow of a Variable is called."""
        return f"{var.name.removesuffix(':0')}/{self._name}"

    def variables_to_restore(self, moving_avg_variables: Iterable[Variable] | None = None) -> dict[str, Variable]:
        """The Variables by the names of their shadows: all that are averaged, or those that are given."""
        chosen = [v for v, _ in self._shadows.values()] if moving_avg_variables is None else moving_avg_variables
        return {self.average_name(v): v for v in chosen}
