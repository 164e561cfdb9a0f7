"""Learning rates that decrease with the step (``tf.compat.v1.train.exponential_decay`` ...), the step, and moving averages."""

from __future__ import annotations

import math
from typing import Any

from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.v1.graph import GraphTrace, Operation, get_default_graph
from tvtf.v1.graph_variable import GraphKeys
from tvtf.v1.registry import called as _tf
from tvtf.v1.registry import v1
from tvtf.v1.variables import Variable, get_variable, global_variables, trainable_variables


def _declare_rate(name: str, rate: Any) -> None:
    """Declares the learning rate decay ``tf.compat.v1.train.<name>``. The function ``rate`` computes the decayed rate.

    In a graph, the declared function returns a tensor. Eagerly, it returns a function that computes the current rate.
    """

    def decayed(*args: Any, **kwargs: Any) -> Any:
        """Returns the decayed rate: a tensor in a graph, otherwise a function that computes it."""
        kwargs.pop("name", None)  # TensorFlow's argument, which is not used
        if not isinstance(state.trace, GraphTrace):
            return lambda: rate(*args, **kwargs)
        with state.trace.without_op_names():
            return rate(*args, **kwargs)

    decayed.__name__ = name
    v1(f"train.{name}")(decayed)


def _numbers(learning_rate: Any, global_step: Any, *more: Any) -> list[Any]:
    """Converts the rate to a tensor, and the step and other numbers to its dtype."""
    if global_step is None:
        raise ValueError("Argument `global_step` must not be None.")
    rate = convert_to_tensor(learning_rate)
    return [rate, *(_tf("cast", convert_to_tensor(x), rate.dtype) for x in (global_step, *more))]


def _exponential(
    learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Tensor:
    """Computes the exponentially decayed learning rate ``learning_rate * decay_rate ** (global_step / decay_steps)``.

    ``staircase`` rounds the exponent down.
    """
    rate, step, steps, decay = _numbers(learning_rate, global_step, decay_steps, decay_rate)
    exponent = step / steps
    if staircase:
        exponent = _tf("floor", exponent)
    return rate * _tf("pow", decay, exponent)  # type: ignore[no-any-return]


def _natural(
    learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Tensor:
    """Computes the decayed learning rate ``learning_rate * exp(-decay_rate * global_step / decay_steps)``.

    ``staircase`` rounds ``global_step / decay_steps`` down.
    """
    # exp(-decay_rate) ** t is exp(-decay_rate * t)
    base = _tf("exp", -convert_to_tensor(float(decay_rate)))
    return _exponential(learning_rate, global_step, decay_steps, base, staircase)


def _inverse(
    learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Tensor:
    """Computes the decayed learning rate ``learning_rate / (1 + decay_rate * global_step / decay_steps)``.

    ``staircase`` rounds ``global_step / decay_steps`` down.
    """
    rate, step, steps, decay = _numbers(learning_rate, global_step, decay_steps, decay_rate)
    periods = step / steps
    if staircase:
        periods = _tf("floor", periods)
    return rate / (1 + decay * periods)  # type: ignore[no-any-return]


def _polynomial(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
) -> Tensor:
    """Computes a learning rate that decays polynomially to ``end_learning_rate`` after ``decay_steps`` steps.

    Args:
      learning_rate: the rate at the start.
      global_step: the number of the training step.
      decay_steps: the number of steps of the decay.
      end_learning_rate: the rate at the end.
      power: the exponent of the remaining share of steps.
      cycle: whether the decay restarts: the period is extended to the next multiple of ``decay_steps``.
    """
    rate, step, steps, end, power = _numbers(learning_rate, global_step, decay_steps, end_learning_rate, power)
    if cycle:
        is_start = _tf("equal", step, 0)  # step 0 belongs to the first period
        periods = _tf("where", is_start, _tf("ones_like", step), _tf("math.ceil", step / steps))
        steps = steps * periods
    else:
        step = _tf("minimum", step, steps)
    remaining = 1 - step / steps
    return (rate - end) * _tf("pow", remaining, power) + end  # type: ignore[no-any-return]


def _cosine(learning_rate: Any, global_step: Any, decay_steps: Any, alpha: Any = 0.0) -> Tensor:
    rate, step, steps = _numbers(learning_rate, global_step, decay_steps)
    part = _tf("minimum", step, steps) / steps
    return rate * ((1 - alpha) * (0.5 * (1.0 + _tf("cos", math.pi * part))) + alpha)  # type: ignore[no-any-return]


def _piecewise(x: Any, boundaries: Any, values: Any) -> Tensor:
    """Computes a piecewise constant learning rate at the step ``x``.

    The rate is ``values[i]`` up to the step ``boundaries[i]``, inclusive, and ``values[-1]`` after the last boundary.
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the length of values")
    step = convert_to_tensor(x)
    result = convert_to_tensor(values[-1])
    # The last boundary comes first, so that the first one that the step does not exceed decides.
    for boundary, value in reversed(list(zip(boundaries, values))):
        result = _tf("where", step <= boundary, convert_to_tensor(value), result)
    return result  # type: ignore[no-any-return]


for _name, _function in (
    *(("exponential_decay", _exponential), ("natural_exp_decay", _natural), ("inverse_time_decay", _inverse)),
    *(("polynomial_decay", _polynomial), ("cosine_decay", _cosine), ("piecewise_constant", _piecewise)),
    ("piecewise_constant_decay", _piecewise),
):
    _declare_rate(_name, _function)


# -- the step


@v1("train.get_global_step")
def get_global_step(graph: Any = None) -> Any:
    """Returns the graph's global step, or None if it has none."""
    graph = graph or get_default_graph()
    in_collection = graph.get_collection(GraphKeys.GLOBAL_STEP)
    by_name = [variable for variable, _ in graph.variables.values() if variable.name == "global_step:0"]
    return next(iter([*in_collection, *by_name]), None)


@v1("train.create_global_step")
def create_global_step(graph: Any = None) -> Any:
    """Creates the graph's global step: a variable, initially 0, that counts the training steps.

    Raises:
      ValueError: the graph has a global step already.
    """
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    collections = [GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP]
    zero = convert_to_tensor(0, "int64")
    step = get_variable("global_step", initializer=zero, trainable=False, collections=collections)
    if state.trace is None:  # variables outside of graphs are in no collection, but the step is found in one
        (graph or get_default_graph()).add_to_collection(GraphKeys.GLOBAL_STEP, step)
    return step


@v1("train.get_or_create_global_step")
def get_or_create_global_step(graph: Any = None) -> Any:
    """Returns the graph's global step, which is created if there is none."""
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


@v1("train.global_step")
def global_step(sess: Any, global_step_tensor: Any) -> int:
    """Returns the global step's value in a session."""
    return int(sess.run(global_step_tensor))


# -- averages


@v1("train.ExponentialMovingAverage")
class ExponentialMovingAverage:
    """Moving averages of variables or tensors, in which older values count exponentially less.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/train/ExponentialMovingAverage
    """

    def __init__(
        self, decay: Any, num_updates: Any = None, zero_debias: bool = False, name: str = "ExponentialMovingAverage"
    ) -> None:
        self._decay, self._num_updates, self._name = decay, num_updates, name
        self._averages: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        return self._name

    def apply(self, var_list: Any = None) -> Any:
        """Creates a moving average for each variable or tensor of ``var_list``, and returns the op that updates them.

        The default are all trainable variables.
        """
        if not isinstance(state.trace, GraphTrace):
            return _eager_average(self).apply(var_list)
        averaged_values = trainable_variables() if var_list is None else list(var_list)
        trace = state.trace
        with trace.without_op_names():
            for value in averaged_values:
                self._create_average(value)
            decay = self._current_decay()
            with trace.one_operation() as effects:
                for value in averaged_values:
                    _, average = self._averages[id(value)]
                    factor = _tf("cast", decay, average.dtype)
                    old = average._as_tensor()
                    difference = old - convert_to_tensor(value)
                    average.assign(old - difference * (1 - factor))  # old * factor + value * (1 - factor)
        return Operation("NoOp", self._name, trace.graph, effects)

    def _create_average(self, value: Any) -> None:
        """Creates the variable that holds the moving average of a variable or tensor, unless the average exists.

        The average of a variable begins with the variable's initial value. The average of a tensor begins with zero.
        """
        if id(value) in self._averages:
            return
        graph = get_default_graph()
        is_variable = hasattr(value, "assign")
        initial_value = value.initialized_value() if is_variable else _tf("zeros_like", value)
        # The average's name is complete, so the current name scope must not be added.
        with graph.name_scope(None):
            average = Variable(initial_value, trainable=False, name=self.average_name(value))
        self._averages[id(value)] = value, average
        graph.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, value)

    def _current_decay(self) -> Any:
        """Returns the decay, at most ``(1 + n) / (10 + n)`` after n updates if ``num_updates`` is set."""
        decay = convert_to_tensor(self._decay)
        if self._num_updates is None:
            return decay
        updates = _tf("cast", convert_to_tensor(self._num_updates), decay.dtype)
        return _tf("minimum", decay, (1.0 + updates) / (10.0 + updates))

    def average(self, var: Any) -> Any:
        """Returns the variable with the average of ``var``, or None if there is none."""
        _, average = self._averages.get(id(var), (None, None))
        return average

    def average_name(self, var: Any) -> str:
        """Returns the name of the variable with the average of ``var``."""
        return f"{var.name.partition(':')[0]}/{self._name}"

    def variables_to_restore(self, moving_avg_variables: Any = None) -> dict[str, Any]:
        """Returns a dict from names in a checkpoint to the variables that receive the values.

        A variable that has a moving average receives the value of the average. The averages themselves are not restored.
        """
        averages = [average for _, average in self._averages.values()]
        if moving_avg_variables is None:
            averaged = [value for value, _ in self._averages.values()]
        else:
            averaged = list(moving_avg_variables)
        restored = {self.average_name(variable): variable for variable in averaged}
        excluded_ids = {*map(id, averaged), *map(id, averages)}
        for variable in global_variables():
            if id(variable) not in excluded_ids:
                restored[variable._shared_name] = variable
        return restored


def _eager_average(average: ExponentialMovingAverage) -> Any:
    from tvtf.train import ExponentialMovingAverage as Eager

    return Eager(average._decay, average._num_updates, name=average._name)
