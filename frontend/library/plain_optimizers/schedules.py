"""Learning rates as functions of the step, which the training step itself computes, eagerly or compiled.

Source: https://keras.io/api/optimizers/learning_rate_schedules/
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import DType
from tvtf.ops.cast import cast_tensor
from tvtf.ops.rules import bind, number


def _public(*names: str) -> Any:
    return export(*(f"optimizers.schedules.{name}" for name in names))


@_public("LearningRateSchedule")
class LearningRateSchedule:
    """A learning rate that depends on the step: subclasses define ``__call__(step) -> tensor`` and ``get_config()``.

    >>> import tvtf as tf
    >>> class Halving(tf.optimizers.schedules.LearningRateSchedule):
    ...     def __call__(self, step):
    ...         return 0.5 ** tf.cast(step, tf.float32)
    >>> optimizer = tf.optimizers.SGD(Halving())
    >>> optimizer.learning_rate.numpy()
    np.float32(1.0)

    Source: https://keras.io/api/optimizers/learning_rate_schedules/
    """

    def __call__(self, step: Any) -> Tensor:
        raise NotImplementedError(
            f"Learning rate schedule '{type(self).__name__}' must override `__call__(self, step)`."
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that create an equal schedule: the public attributes."""
        return dict(vars(self))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LearningRateSchedule:
        return cls(**config)


class _Decay(LearningRateSchedule):
    """A schedule that starts with an initial rate and has ``decay_steps``."""

    def __init__(self, initial_learning_rate: Any, decay_steps: int, name: str) -> None:
        if decay_steps <= 0:
            raise ValueError(f"Argument `decay_steps` must be > 0. Received: decay_steps={decay_steps}")
        self.initial_learning_rate = initial_learning_rate
        self.decay_steps = decay_steps
        self.name = name

    def _initial_rate_and_step(self, step: Any) -> tuple[Tensor, Tensor]:
        """Returns the initial rate, and the step in its dtype."""
        start = convert_to_tensor(self.initial_learning_rate)
        return start, cast_tensor(convert_to_tensor(step), start.dtype)


class _RateDecay(_Decay):
    """A decay by ``decay_rate`` per ``decay_steps`` steps; ``staircase`` counts only whole multiples."""

    def __init__(
        self,
        initial_learning_rate: Any,
        decay_steps: int,
        decay_rate: float,
        staircase: bool = False,
        name: str | None = None,
    ) -> None:
        """Creates a learning rate schedule that multiplies the rate by a factor, or divides it, every ``decay_steps`` steps."""
        super().__init__(initial_learning_rate, decay_steps, name or type(self).__name__)
        self.decay_rate, self.staircase = decay_rate, staircase

    def _progress(self, step: Any) -> tuple[Tensor, Tensor]:
        """Returns the initial rate, and the number of times that ``decay_steps`` have passed."""
        start, at = self._initial_rate_and_step(step)
        periods = at / number(self.decay_steps, at)
        return start, bind.floor(periods) if self.staircase else periods


@_public("ExponentialDecay")
class ExponentialDecay(_RateDecay):
    """``initial_learning_rate * decay_rate ** (step / decay_steps)``; ``staircase`` rounds the exponent down.

    >>> import tvtf as tf
    >>> schedule = tf.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)
    >>> schedule(10).numpy().round(4)
    np.float32(0.05)

    Raises:
      ValueError: ``decay_steps`` is not positive.

    Source: https://keras.io/api/optimizers/learning_rate_schedules/
    """

    def __call__(self, step: Any) -> Tensor:
        start, periods = self._progress(step)
        return start * bind.pow(number(self.decay_rate, start), periods)


@_public("InverseTimeDecay")
class InverseTimeDecay(_RateDecay):
    """``initial_learning_rate / (1 + decay_rate * step / decay_steps)``; ``staircase`` rounds the quotient down.

    >>> import tvtf as tf
    >>> tf.optimizers.schedules.InverseTimeDecay(0.1, decay_steps=10, decay_rate=1.0)(10).numpy().round(4)
    np.float32(0.05)

    Source: https://keras.io/api/optimizers/learning_rate_schedules/
    """

    def __call__(self, step: Any) -> Tensor:
        start, periods = self._progress(step)
        return start / (number(1, start) + number(self.decay_rate, start) * periods)


@_public("PolynomialDecay")
class PolynomialDecay(_Decay):
    """A decay from the initial to the end rate by ``(1 - step / decay_steps) ** power``.

    ``cycle`` extends ``decay_steps`` when passed.

    >>> import tvtf as tf
    >>> tf.optimizers.schedules.PolynomialDecay(0.1, decay_steps=10, end_learning_rate=0.0)(5).numpy().round(4)
    np.float32(0.05)

    Source: https://keras.io/api/optimizers/learning_rate_schedules/
    """

    def __init__(
        self,
        initial_learning_rate: Any,
        decay_steps: int,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        name: str = "PolynomialDecay",
    ) -> None:
        """Creates a schedule that decays the learning rate to ``end_learning_rate`` within ``decay_steps`` steps."""
        super().__init__(initial_learning_rate, decay_steps, name)
        self.end_learning_rate, self.power, self.cycle = end_learning_rate, power, cycle

    def __call__(self, step: Any) -> Tensor:
        """Returns the rate at a step, which decays polynomially to ``end_learning_rate``.

        With ``cycle``, the rate rises again after ``decay_steps`` and decays with a longer period.
        """
        initial_rate, step = self._initial_rate_and_step(step)
        end_rate = number(self.end_learning_rate, initial_rate)
        length = number(self.decay_steps, initial_rate)
        if self.cycle:
            is_start = bind.equal(step, number(0, step))  # step 0 is part of the first cycle
            cycles = bind.select(is_start, number(1, step), bind.ceil(step / length))
            length = length * cycles
        else:
            step = bind.minimum(step, length)
        remaining = number(1, initial_rate) - step / length
        return (initial_rate - end_rate) * bind.pow(remaining, number(self.power, remaining)) + end_rate


@_public("CosineDecay")
class CosineDecay(_Decay):
    """Half a cosine from the initial rate to ``alpha`` times it, optionally after a linear warm-up to ``warmup_target``.

    >>> import tvtf as tf
    >>> tf.optimizers.schedules.CosineDecay(0.1, decay_steps=10)(5).numpy().round(4)
    np.float32(0.05)

    Source: Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2017.
    """

    def __init__(
        self,
        initial_learning_rate: Any,
        decay_steps: int,
        alpha: float = 0.0,
        name: str = "CosineDecay",
        warmup_target: Any = None,
        warmup_steps: int = 0,
    ) -> None:
        """Creates a schedule that decays the learning rate along half a cosine to ``alpha`` times the initial rate."""
        super().__init__(initial_learning_rate, decay_steps, name)
        self.alpha, self.warmup_target, self.warmup_steps = alpha, warmup_target, warmup_steps

    def __call__(self, step: Any) -> Tensor:
        """Returns the rate at a step: it rises linearly during the warm-up, then decays along the cosine."""
        initial_rate, step = self._initial_rate_and_step(step)
        length = number(self.decay_steps, initial_rate)
        if self.warmup_target is None:
            return self._decayed(bind.minimum(step, length), length, initial_rate)
        warmup_steps = number(self.warmup_steps, initial_rate)
        target = number(self.warmup_target, initial_rate)
        step = bind.minimum(step, length + warmup_steps)
        rising = (target - initial_rate) * (step / warmup_steps) + initial_rate
        is_warming_up = bind.less(step, warmup_steps)
        return bind.select(is_warming_up, rising, self._decayed(step - warmup_steps, length, target))

    def _decayed(self, at: Tensor, length: Tensor, top: Tensor) -> Tensor:
        """Returns the rate at a step of the cosine."""
        wave = number(0.5, at) * (number(1, at) + bind.cos(number(pi, at) * (at / length)))
        return top * (number(1 - self.alpha, at) * wave + number(self.alpha, at))


@_public("PiecewiseConstantDecay")
class PiecewiseConstantDecay(LearningRateSchedule):
    """``values[0]`` up to step ``boundaries[0]``, ``values[1]`` up to ``boundaries[1]``, and so on.

    >>> import tvtf as tf
    >>> schedule = tf.optimizers.schedules.PiecewiseConstantDecay([10, 20], [1.0, 0.5, 0.1])
    >>> [float(schedule(step)) for step in (10, 11)]
    [1.0, 0.5]

    Raises:
      ValueError: the number of values is not the number of boundaries plus one.

    Source: https://keras.io/api/optimizers/learning_rate_schedules/
    """

    def __init__(self, boundaries: Sequence[Any], values: Sequence[Any], name: str = "PiecewiseConstant") -> None:
        if len(boundaries) != len(values) - 1:
            raise ValueError(
                "The length of boundaries should be 1 less than the length of values. Received: "
                f"boundaries={boundaries} of length {len(boundaries)}, and values={values} of length {len(values)}."
            )
        self.boundaries, self.values, self.name = boundaries, values, name

    def __call__(self, step: Any) -> Tensor:
        """Returns the learning rate at a step: ``values[i]`` for the first ``boundaries[i]`` that is not below the step.

        After the last boundary, returns the last value.
        """
        step = convert_to_tensor(step)
        values = [convert_to_tensor(value) for value in self.values]
        rate = values[-1]
        for boundary, value in zip(reversed(self.boundaries), reversed(values[:-1])):
            rate = bind.select(bind.less_equal(step, _boundary(boundary, step.dtype)), value, rate)
        return rate


def _boundary(value: Any, dtype: DType) -> Tensor:
    return cast_tensor(convert_to_tensor(value), dtype)


@_public("serialize")
def serialize(learning_rate_schedule: LearningRateSchedule) -> dict[str, Any]:
    """Returns a dict of a schedule's class and configuration.

    >>> import tvtf as tf
    >>> tf.optimizers.schedules.serialize(tf.optimizers.schedules.CosineDecay(0.1, 10))["class_name"]
    'CosineDecay'

    Source: https://keras.io/api/optimizers/learning_rate_schedules/
    """
    return {"class_name": type(learning_rate_schedule).__name__, "config": learning_rate_schedule.get_config()}


@_public("deserialize")
def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> LearningRateSchedule:
    """Creates a schedule from the class and configuration in a dict of :func:`serialize`.

    >>> import tvtf as tf
    >>> config = {"initial_learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.5}
    >>> tf.optimizers.schedules.deserialize({"class_name": "ExponentialDecay", "config": config}).decay_rate
    0.5

    Raises:
      ValueError: the class is unknown and not in ``custom_objects``.

    Source: https://keras.io/api/optimizers/learning_rate_schedules/
    """
    known_classes = {
        schedule_class.__name__: schedule_class
        for schedule_class in (ExponentialDecay, InverseTimeDecay, PolynomialDecay, CosineDecay, PiecewiseConstantDecay)
    }
    cls = (known_classes | (custom_objects or {})).get(config["class_name"])
    if cls is None:
        raise ValueError(f"Unknown schedule {config['class_name']!r}: expected one of {sorted(known_classes)}")
    return cls.from_config(config["config"])
