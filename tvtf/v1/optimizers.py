"""``tf.compat.v1.train``'s optimizers, by TensorFlow 1's formulas, with slots in variables of the graph.

Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/train/Optimizer and the kernels in
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/training_ops.cc
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from tvtf.core import nest
from tvtf.core.graph_operation import done
from tvtf.core.tensor import convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.gradient.tape import GradientTape
from tvtf.v1.graph import GraphTrace, Operation, current_graph, get_default_graph
from tvtf.v1.graph_variable import GraphKeys
from tvtf.v1.registry import called as _tf
from tvtf.v1.registry import v1
from tvtf.v1.variables import Variable, trainable_variables


def _graph_trace() -> GraphTrace | None:
    return state.trace if isinstance(state.trace, GraphTrace) else None


class Optimizer:
    """The base of optimizers: computes gradients and applies them, in two steps, so that callers can clip them in between.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/train/Optimizer
    """

    GATE_NONE, GATE_OP, GATE_GRAPH = range(3)

    def __init__(self, use_locking: bool = False, name: str = "") -> None:
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._name = name
        self._slots: dict[str, dict[int, Any]] = {}

    def get_name(self) -> str:
        return self._name

    # -- gradients

    def compute_gradients(
        self, loss: Any, var_list: Any = None, gate_gradients: int = 1, aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False, grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:  # fmt: skip
        """Returns pairs of a gradient and its variable.

        The gradient is None if ``loss`` does not depend on the variable. In a graph ``loss`` is a tensor; eagerly, a
        function of no arguments.

        Raises:
          ValueError: there are no variables.
          RuntimeError: ``loss`` is a tensor, outside a graph.
        """
        if callable(loss):
            with GradientTape() as tape:
                value = loss()
            variables = nest.flatten(tape.watched_variables() if var_list is None else var_list)
            return list(zip(tape.gradient(value, variables, grad_loss), variables))
        if _graph_trace() is None:
            raise RuntimeError(
                "`loss` passed to Optimizer.compute_gradients should be a function when eager execution is enabled."
            )
        variables = nest.flatten(trainable_variables() if var_list is None else var_list)
        if not variables:
            raise ValueError("No variables to optimize.")
        seeds = None if grad_loss is None else [grad_loss]
        return list(zip(current_graph().gradients([loss], variables, seeds, "gradients"), variables))

    def minimize(
        self, loss: Any, global_step: Any = None, var_list: Any = None, gate_gradients: int = 1, aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False, name: str | None = None, grad_loss: Any = None,
    ) -> Any:  # fmt: skip
        """Returns an op that performs one step of gradient descent on ``loss``. In eager execution, performs the step.

        Args:
          loss: the tensor to minimize, or in eager execution a function that returns it.
          global_step: a variable that counts the steps, or None.
          var_list: the variables to update; None for all trainable ones.
          gate_gradients, aggregation_method, colocate_gradients_with_ops: not used.
          name: the name of the op.
          grad_loss: the gradient of the loss; None for 1.

        Raises:
          ValueError: no variable has a gradient.
        """
        grads_and_vars = self.compute_gradients(loss, var_list, grad_loss=grad_loss)
        if all(gradient is None for gradient, _ in grads_and_vars):
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients, between "
                f"variables {[str(variable) for _, variable in grads_and_vars]} and loss {loss}."
            )
        return self.apply_gradients(grads_and_vars, global_step, name)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Returns an op that updates the variables by their gradients. In eager execution, updates the variables.

        Args:
          grads_and_vars: pairs of a gradient, or None, and a variable.
          global_step: a variable that counts the steps, or None.
          name: the name of the op.

        Raises:
          ValueError: there are no pairs, or all gradients are None.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("No variables provided.")
        with_gradient = [(convert_to_tensor(gradient), v) for gradient, v in pairs if gradient is not None]
        if not with_gradient:
            raise ValueError(f"No gradients provided for any variable: {[str(v) for _, v in pairs]}.")
        trace = _graph_trace()
        if trace is None:
            self._apply(with_gradient, global_step)
            return done("NoOp", name)
        with trace.without_op_names():
            self._create_slots([v for _, v in with_gradient])
            with trace.one_operation() as effects:
                self._apply(with_gradient, global_step)
        train_op = Operation("NoOp", name or self._name, trace.graph, effects)
        trace.graph.add_to_collection(GraphKeys.TRAIN_OP, train_op)
        return train_op

    def _apply(self, pairs: Sequence[tuple[Any, Any]], global_step: Any) -> None:
        """Updates variables by a step of the optimizer, then increments the global step, if there is one.

        ``pairs`` are pairs of a gradient and its variable.
        """
        self._create_slots([variable for _, variable in pairs])
        for gradient, variable in pairs:
            updated_value = self._updated_value(gradient, variable, variable._as_tensor())
            variable.assign(self._constrained(variable, updated_value))
        self._after_updates()
        if global_step is not None:
            global_step.assign_add(1)

    @staticmethod
    def _constrained(variable: Any, value: Any) -> Any:
        return value if variable.constraint is None else variable.constraint(value)

    # -- overridden by subclasses

    def _create_slots(self, variables: Sequence[Any]) -> None:
        """Creates the slots of the variables."""

    def _updated_value(self, gradient: Any, variable: Any, value: Any) -> Any:
        """Returns a variable's new value, computed from its gradient and its current value."""
        raise NotImplementedError

    def _after_updates(self) -> None:
        """Runs after all variables were updated."""

    # -- slots

    def _slot(self, variable: Any, slot: str, initial: Any = None, label: str = "") -> Any:
        """Returns an optimizer's slot variable, such as the momentum, of a trained variable.

        The first call creates the slot variable with the value ``initial`` and the name ``<variable>/<label>``.
        """
        by_variable = self._slots.setdefault(slot, {})
        if id(variable) not in by_variable:
            name = f"{variable._shared_name}/{label or self._name}"
            by_variable[id(variable)] = self._create_slot(name, variable, initial)
        return by_variable[id(variable)]

    @staticmethod
    def _create_slot(name: str, like: Any, initial: Any) -> Any:
        """Creates a slot: a variable as ``like``, filled with ``initial``, outside of all name scopes."""
        value = _tf("fill", like.shape.as_list(), convert_to_tensor(initial or 0.0, like.dtype))
        graph = get_default_graph()
        with graph.name_scope(None) if _graph_trace() else nullcontext():
            return Variable(value, trainable=False, name=name)

    def get_slot(self, var: Any, name: str) -> Any:
        """Returns a variable's slot of this name, or None."""
        return self._slots.get(name, {}).get(id(var))

    def get_slot_names(self) -> list[str]:
        """Returns the names of slots."""
        return sorted(self._slots)

    def variables(self) -> list[Any]:
        """Returns all slots."""
        return [slot for by_variable in self._slots.values() for slot in by_variable.values()]

    def _as_scalar(self, value: Any, dtype: Any) -> Any:
        """Returns a setting as a tensor; it is a number, a tensor, or a function that returns one."""
        return _tf("cast", convert_to_tensor(value() if callable(value) else value), dtype)


v1("train.Optimizer")(Optimizer)


@v1("train.GradientDescentOptimizer")
class GradientDescentOptimizer(Optimizer):
    """Gradient descent."""

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name)
        self._rate = learning_rate

    def _updated_value(self, gradient: Any, variable: Any, value: Any) -> Any:
        return value - self._as_scalar(self._rate, value.dtype) * gradient


@v1("train.ProximalGradientDescentOptimizer")
class ProximalGradientDescentOptimizer(GradientDescentOptimizer):
    """Gradient descent with a proximal step, which applies L1 and L2 regularization exactly."""

    def __init__(
        self, learning_rate: Any, l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
        use_locking: bool = False, name: str = "ProximalGradientDescent",
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, use_locking, name)
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength

    def _updated_value(self, gradient: Any, variable: Any, value: Any) -> Any:
        rate = self._as_scalar(self._rate, value.dtype)
        return _proximal(value - rate * gradient, rate, self._l1, self._l2)


def _proximal(value: Any, rate: Any, l1: float, l2: float) -> Any:
    """Applies the proximal operator of L1 and L2 regularization."""
    if l1 > 0:
        value = _tf("sign", value) * _tf("maximum", _tf("abs", value) - rate * l1, _tf("zeros_like", value))
    return value / (1.0 + rate * l2)


@v1("train.MomentumOptimizer")
class MomentumOptimizer(Optimizer):
    """Gradient descent with momentum, optionally Nesterov's."""

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        """Stores the settings of gradient descent with momentum."""
        super().__init__(use_locking, name)
        self._rate = learning_rate
        self._momentum = momentum
        self._nesterov = use_nesterov

    def _create_slots(self, variables: Sequence[Any]) -> None:
        for variable in variables:
            self._slot(variable, "momentum")

    def _updated_value(self, gradient: Any, variable: Any, value: Any) -> Any:
        """Computes a variable's new value by gradient descent with momentum, or with Nesterov's momentum.

        Also updates the slot variable with the accumulated gradients.
        """
        rate = self._as_scalar(self._rate, value.dtype)
        momentum = self._as_scalar(self._momentum, value.dtype)
        slot = self._slot(variable, "momentum")
        accumulated = slot._as_tensor() * momentum + gradient
        slot.assign(accumulated)
        if self._nesterov:
            return value - (gradient * rate + accumulated * momentum * rate)
        return value - accumulated * rate


@v1("train.AdagradOptimizer")
class AdagradOptimizer(Optimizer):
    """Adagrad: rates divided by the root of the sum of squared gradients."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        """Stores the settings of Adagrad. The sums of squared gradients start at ``initial_accumulator_value``."""
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._rate = learning_rate
        self._initial_accumulator = initial_accumulator_value

    def _create_slots(self, variables: Sequence[Any]) -> None:
        for variable in variables:
            self._slot(variable, "accumulator", self._initial_accumulator)

    def _accumulated(self, gradient: Any, variable: Any) -> Any:
        slot = self._slot(variable, "accumulator")
        total = slot._as_tensor() + gradient * gradient
        slot.assign(total)
        return total

    def _updated_value(self, gradient: Any, variable: Any, value: Any) -> Any:
        rate = self._as_scalar(self._rate, value.dtype)
        return value - gradient * rate * _tf("math.rsqrt", self._accumulated(gradient, variable))


@v1("train.ProximalAdagradOptimizer")
class ProximalAdagradOptimizer(AdagradOptimizer):
    """Adagrad with a proximal step, which applies L1 and L2 regularization exactly."""

    def __init__(
        self, learning_rate: Any, initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0, use_locking: bool = False, name: str = "ProximalAdagrad",
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength

    def _updated_value(self, gradient: Any, variable: Any, value: Any) -> Any:
        rate = self._as_scalar(self._rate, value.dtype)
        own = rate * _tf("math.rsqrt", self._accumulated(gradient, variable))
        return _proximal(value - gradient * own, own, self._l1, self._l2)


@v1("train.AdagradDAOptimizer")
class AdagradDAOptimizer(Optimizer):
    """Adagrad with dual averaging: values are computed from the sums of all gradients, for sparse models."""

    def __init__(
        self, learning_rate: Any, global_step: Any, initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0, use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:  # fmt: skip
        """Stores the settings of AdagradDA (Adagrad with dual averaging), with the strengths of L1 and L2 regularization."""
        super().__init__(use_locking, name)
        self._rate = learning_rate
        self._global_step = global_step
        self._initial_accumulator = initial_gradient_squared_accumulator_value
        self._l1 = l1_regularization_strength
        self._l2 = l2_regularization_strength

    def _create_slots(self, variables: Sequence[Any]) -> None:
        for variable in variables:
            self._slot(variable, "gradient_accumulator", 0.0, f"{self._name}")
            self._slot(variable, "gradient_squared_accumulator", self._initial_accumulator, f"{self._name}_1")

    def _updated_value(self, gradient: Any, variable: Any, value: Any) -> Any:
        """Computes a variable's new value by AdagradDA, from the sums of gradients and of squared gradients.

        L1 and L2 penalties are included. Dual averaging doesn't use the variable's current value.
        """
        rate = self._as_scalar(self._rate, value.dtype)
        step = _tf("cast", self._global_step._as_tensor() + 1, value.dtype)  # the number of this step, counted from 1
        sum_slot = self._slot(variable, "gradient_accumulator")
        square_sum_slot = self._slot(variable, "gradient_squared_accumulator")
        total = sum_slot._as_tensor() + gradient
        square_total = square_sum_slot._as_tensor() + gradient * gradient
        sum_slot.assign(total)
        square_sum_slot.assign(square_total)
        if self._l1 > 0:  # soft thresholding
            magnitude = _tf("maximum", _tf("abs", total) - self._l1 * step, _tf("zeros_like", total))
            total = _tf("sign", total) * magnitude
        return -rate * total / (self._l2 * step * rate + _tf("sqrt", square_total))


@v1("train.AdadeltaOptimizer")
class AdadeltaOptimizer(Optimizer):
    """Adadelta: rates are ratios of moving averages of squared updates and gradients."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        """Stores the settings of Adadelta. ``rho`` is the decay of the moving averages."""
        super().__init__(use_locking, name)
        self._rate = learning_rate
        self._rho = rho
        self._epsilon = epsilon

    def _create_slots(self, variables: Sequence[Any]) -> None:
        for variable in variables:
            self._slot(variable, "accum")
            self._slot(variable, "accum_update")

    def _updated_value(self, gradient: Any, variable: Any, value: Any) -> Any:
        """Computes a variable's new value by Adadelta, and updates the slots.

        The gradient is multiplied by the root mean square of earlier updates and divided by that of gradients.
        """
        rate = self._as_scalar(self._rate, value.dtype)
        rho = self._as_scalar(self._rho, value.dtype)
        epsilon = self._as_scalar(self._epsilon, value.dtype)
        gradient_slot = self._slot(variable, "accum")
        update_slot = self._slot(variable, "accum_update")
        mean_square = gradient_slot._as_tensor() * rho + gradient * gradient * (1 - rho)
        root_of_updates = _tf("sqrt", update_slot._as_tensor() + epsilon)
        update = root_of_updates * _tf("math.rsqrt", mean_square + epsilon) * gradient
        gradient_slot.assign(mean_square)
        update_slot.assign(update_slot._as_tensor() * rho + update * update * (1 - rho))
        return value - update * rate


@v1("train.RMSPropOptimizer")
class RMSPropOptimizer(Optimizer):
    """RMSProp: rates divided by the root of a moving average of squared gradients."""

    def __init__(
        self, learning_rate: Any, decay: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-10, use_locking: bool = False,
        centered: bool = False, name: str = "RMSProp",
    ) -> None:  # fmt: skip
        """Stores the settings of RMSProp. The moving average of squared gradients decays by the factor ``decay``."""
        super().__init__(use_locking, name)
        self._rate = learning_rate
        self._decay = decay
        self._momentum = momentum
        self._epsilon = epsilon
        self._centered = centered

    def _create_slots(self, variables: Sequence[Any]) -> None:
        """Creates the slots: the mean squares, which start with 1, the means if centered, and the momentum."""
        for variable in variables:
            self._slot(variable, "rms", 1.0)
            if self._centered:
                self._slot(variable, "mg")
            self._slot(variable, "momentum")

    def _updated_value(self, gradient: Any, variable: Any, value: Any) -> Any:
        """Computes a variable's new value by RMSProp, and updates the slots.

        The gradient is divided by the root of its moving mean square, or of its moving variance if centered. A multiple
        of the previous update, the momentum, is added.
        """
        settings = (self._rate, self._decay, self._momentum, self._epsilon)
        rate, decay, momentum, epsilon = (self._as_scalar(setting, value.dtype) for setting in settings)
        square_slot = self._slot(variable, "rms")
        momentum_slot = self._slot(variable, "momentum")
        mean_square = square_slot._as_tensor() + (gradient * gradient - square_slot._as_tensor()) * (1 - decay)
        square_slot.assign(mean_square)
        denominator_squared = mean_square + epsilon
        if self._centered:
            mean_slot = self._slot(variable, "mg")
            mean = mean_slot._as_tensor() + (gradient - mean_slot._as_tensor()) * (1 - decay)
            mean_slot.assign(mean)
            denominator_squared = mean_square - mean * mean + epsilon
        update = momentum_slot._as_tensor() * momentum + rate * gradient * _tf("math.rsqrt", denominator_squared)
        momentum_slot.assign(update)
        return value - update


@v1("train.AdamOptimizer")
class AdamOptimizer(Optimizer):
    """Adam: moving averages of gradients and squared gradients, corrected for their start at zero."""

    def __init__(
        self, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-8, use_locking: bool = False,
        name: str = "Adam",
    ) -> None:  # fmt: skip
        super().__init__(use_locking, name)
        self._rate, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon
        self._powers: dict[Any, tuple[Any, Any]] = {}

    def _create_slots(self, variables: Sequence[Any]) -> None:
        self._beta_powers(min(variables, key=lambda v: v.name))
        for variable in variables:
            self._slot(variable, "m")
            self._slot(variable, "v")

    def _beta_powers(self, first: Any = None) -> tuple[Any, Any]:
        """Returns two variables: Adam's beta1 and beta2 to the power of the step's index, counted from 1.

        The first call for a graph creates the variables, with the dtype of the variable ``first``.
        """
        graph = get_default_graph() if _graph_trace() else None
        if graph not in self._powers:
            # The names don't depend on the current name scope.
            with graph.name_scope(None) if graph else nullcontext():
                beta1_power = self._new_power("beta1_power", self._beta1, first.dtype)
                beta2_power = self._new_power("beta2_power", self._beta2, first.dtype)
            self._powers[graph] = beta1_power, beta2_power
        return self._powers[graph]

    @staticmethod
    def _new_power(name: str, beta: Any, dtype: Any) -> Any:
        """Creates the variable for the powers of ``beta``, a number or a function that returns it."""
        initial_value = convert_to_tensor(beta() if callable(beta) else beta, dtype)
        return Variable(initial_value, trainable=False, name=name)

    def _updated_value(self, gradient: Any, variable: Any, value: Any) -> Any:
        """Computes a variable's new value by Adam, and updates the moments ``m`` and ``v`` of the gradient.

        The learning rate ``alpha`` includes the bias correction of both moments.
        """
        settings = (self._rate, self._beta1, self._beta2, self._epsilon)
        rate, beta1, beta2, epsilon = (self._as_scalar(setting, value.dtype) for setting in settings)
        power1, power2 = (_tf("cast", power._as_tensor(), value.dtype) for power in self._beta_powers())
        m_slot, v_slot = self._slot(variable, "m"), self._slot(variable, "v")
        alpha = rate * _tf("sqrt", 1 - power2) / (1 - power1)
        m = m_slot._as_tensor() + (gradient - m_slot._as_tensor()) * (1 - beta1)
        v = v_slot._as_tensor() + (gradient * gradient - v_slot._as_tensor()) * (1 - beta2)
        m_slot.assign(m)
        v_slot.assign(v)
        return value - (m * alpha) / (_tf("sqrt", v) + epsilon)

    def _after_updates(self) -> None:
        for power, beta in zip(self._beta_powers(), (self._beta1, self._beta2)):
            power.assign(power._as_tensor() * self._as_scalar(beta, power.dtype))

    def variables(self) -> list[Any]:
        return [*(slot for pair in self._powers.values() for slot in pair), *super().variables()]


@v1("train.FtrlOptimizer")
class FtrlOptimizer(Optimizer):
    """FTRL-Proximal ("follow the regularized leader"), with L1 and L2 regularization."""

    def __init__(
        self, learning_rate: Any, learning_rate_power: float = -0.5, initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0, use_locking: bool = False,
        name: str = "Ftrl", accum_name: str | None = None, linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0, beta: float | None = None,
    ) -> None:  # fmt: skip
        """Stores the settings of FTRL-Proximal.

        ``accum_name`` and ``linear_name`` are the names of its slot variables.
        """
        super().__init__(use_locking, name)
        self._rate = learning_rate
        self._power = learning_rate_power
        self._initial_accumulator = initial_accumulator_value
        self._l1 = l1_regularization_strength
        self._l2 = l2_regularization_strength
        self._beta = beta or 0.0
        self._shrinkage = l2_shrinkage_regularization_strength
        self._names = (accum_name, linear_name)

    def _create_slots(self, variables: Sequence[Any]) -> None:
        for variable in variables:
            self._slot(variable, "accum", self._initial_accumulator, self._names[0] or self._name)
            self._slot(variable, "linear", 0.0, self._names[1] or f"{self._name}_1")

    def _updated_value(self, gradient: Any, variable: Any, value: Any) -> Any:
        """Computes a variable's new value by FTRL-Proximal, with L1 and L2 regularization, and updates the slots.

        ``accum`` is the sum of the squared gradients. ``linear`` is called z in the paper on FTRL.
        """
        rate = self._as_scalar(self._rate, value.dtype)
        exponent = convert_to_tensor(-self._power, value.dtype)
        accum = self._slot(variable, "accum")
        linear = self._slot(variable, "linear")
        old_total = accum._as_tensor()
        new_total = old_total + gradient * gradient
        old_power = _tf("pow", old_total, exponent)
        new_power = _tf("pow", new_total, exponent)
        shrunk = gradient + 2 * self._shrinkage * value
        z = linear._as_tensor() + shrunk - (new_power - old_power) / rate * value
        accum.assign(new_total)
        linear.assign(z)
        l2 = self._l2 + self._beta / (2.0 * rate)
        soft_thresholded = _tf("clip_by_value", z, -self._l1, self._l1) - z
        return soft_thresholded / (new_power / rate + 2 * l2)


@v1("train.SyncReplicasOptimizer")
def sync_replicas(*_: Any, **__: Any) -> None:
    """Not supported."""
    raise NotImplementedError("tvtf runs in one process: use the optimizer itself")
