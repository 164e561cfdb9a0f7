"""The updates of Keras 2's legacy optimizers: raw ops that assign Variables, whole or some of their rows.

Sources: https://github.com/keras-team/tf-keras/tree/master/tf_keras/optimizers/legacy,
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/training_ops.cc
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvtf

Update = Callable[..., dict[str, Any]]


# Each function computes one step of an optimizer. It returns the new values by the names of the arguments that they replace.


def _gradient_descent(*, var: Any, alpha: Any, delta: Any) -> dict[str, Any]:
    """Computes a step of gradient descent with learning rate ``alpha`` and gradient ``delta``. Returns the new ``var``."""
    return {"var": var - alpha * delta}


def _keras_momentum(
    *, var: Any, accum: Any, lr: Any, grad: Any, momentum: Any, use_nesterov: bool = False
) -> dict[str, Any]:
    """Computes a step of gradient descent with momentum, as Keras defines it: ``accum`` contains the learning rate.

    Returns the new values of the variable ``var`` and of the velocity ``accum``.

    Args:
      var, accum: the variable and its velocity.
      lr: the learning rate.
      grad: the gradient.
      momentum: the factor of the old velocity.
      use_nesterov: whether the step looks ahead along the new velocity.
    """
    velocity = accum * momentum - lr * grad
    step = velocity * momentum - lr * grad if use_nesterov else velocity
    return {"accum": velocity, "var": var + step}


def _adagrad(*, var: Any, accum: Any, lr: Any, epsilon: Any, grad: Any, update_slots: bool = True) -> dict[str, Any]:
    """Computes a step of the optimizer Adagrad. Returns the new ``var``, and ``accum``, the sum of squared gradients."""
    sum_of_squares = accum + tvtf.square(grad) if update_slots else accum
    return {"accum": sum_of_squares, "var": var - lr * grad / (tvtf.sqrt(sum_of_squares) + epsilon)}


def _adadelta(*, var: Any, accum: Any, accum_update: Any, lr: Any, rho: Any, epsilon: Any, grad: Any) -> dict[str, Any]:
    """Computes a step of the optimizer Adadelta.

    Returns the new values of the variable ``var``, and of two moving averages: of the squared gradients (``accum``), and of
    the squared steps (``accum_update``).

    Args:
      var, accum, accum_update: the variable and its two moving averages.
      lr: the learning rate.
      rho: the decay of the moving averages.
      epsilon: a small number that is added to the moving averages.
      grad: the gradient.
    """
    squared_gradients = rho * accum + (1 - rho) * tvtf.square(grad)
    rate = tvtf.sqrt(accum_update + epsilon) / tvtf.sqrt(squared_gradients + epsilon)
    step = rate * grad
    squared_steps = rho * accum_update + (1 - rho) * tvtf.square(step)
    return {"accum": squared_gradients, "accum_update": squared_steps, "var": var - lr * step}


def _adam(
    *, var: Any, m: Any, v: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any,
    grad: Any, vhat: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """Computes a step of the optimizer Adam, or of its variant AMSGrad if ``vhat`` is given.

    Returns the new values of the variable ``var``, of the moments ``m`` and ``v``, and of ``vhat``, the largest second moment
    so far.

    Args:
      var, m, v, vhat: the variable, its moments, and None or the largest second moment so far.
      beta1_power, beta2_power: the decays to the power of the step's number, which correct the moments' bias.
      lr: the learning rate.
      beta1, beta2: the decays of the moments.
      epsilon: a small number that is added to the root of the second moment.
      grad: the gradient.
    """
    learning_rate = lr * tvtf.sqrt(1 - beta2_power) / (1 - beta1_power)
    first_moment = beta1 * m + (1 - beta1) * grad
    second_moment = beta2 * v + (1 - beta2) * tvtf.square(grad)
    new_values = {"m": first_moment, "v": second_moment}
    if vhat is None:
        scale = second_moment
    else:
        scale = new_values["vhat"] = tvtf.maximum(vhat, second_moment)
    new_values["var"] = var - learning_rate * first_moment / (tvtf.sqrt(scale) + epsilon)
    return new_values


def _adamax(
    *, var: Any, m: Any, v: Any, beta1_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any, grad: Any
) -> dict[str, Any]:
    """Computes a step of the optimizer AdaMax, the variant of Adam with the infinity norm.

    Returns the new values of the variable ``var``, of the first moment ``m`` and of the norm ``v``.

    Args:
      var, m, v: the variable, its first moment and its norm.
      beta1_power: the decay of the moment to the power of the step's number.
      lr: the learning rate.
      beta1, beta2: the decays of the moment and of the norm.
      epsilon: a small number that is added to the norm.
      grad: the gradient.
    """
    moment = beta1 * m + (1 - beta1) * grad
    norm = tvtf.maximum(beta2 * v, tvtf.abs(grad))
    learning_rate = lr / (1 - beta1_power)  # corrects the bias of the moment, which starts at 0
    step = learning_rate * moment / (norm + epsilon)
    return {"m": moment, "v": norm, "var": var - step}


def _rms_prop(
    *, var: Any, ms: Any, mom: Any, lr: Any, rho: Any, momentum: Any, epsilon: Any, grad: Any, mg: Any = None
) -> dict[str, Any]:
    """Computes a step of the optimizer RMSProp, or of its centered variant if ``mg`` is given.

    Returns the new values of the variable ``var``, of the momentum ``mom``, and of the moving averages: of the squared
    gradients (``ms``), and of the gradients (``mg``).

    Args:
      var, ms, mom, mg: the variable, its mean squared gradient, its momentum, and None or its mean gradient.
      lr: the learning rate.
      rho: the decay of the moving averages.
      momentum: the factor of the old momentum.
      epsilon: a small number that is added to the variance.
      grad: the gradient.
    """
    mean_square = rho * ms + (1 - rho) * tvtf.square(grad)
    new_values = {"ms": mean_square}
    variance = mean_square
    if mg is not None:
        mean_gradient = rho * mg + (1 - rho) * grad
        new_values["mg"] = mean_gradient
        variance = mean_square - tvtf.square(mean_gradient)
    step = momentum * mom + lr * grad / tvtf.sqrt(variance + epsilon)
    return {**new_values, "mom": step, "var": var - step}


def _ftrl(
    *, var: Any, accum: Any, linear: Any, grad: Any, lr: Any, l1: Any, l2: Any, lr_power: Any, l2_shrinkage: Any = 0.0
) -> dict[str, Any]:
    """Computes a step of the optimizer FTRL-Proximal (McMahan et al., Ad Click Prediction, 2013).

    Returns the new values of the variable ``var``, of the sum of squared gradients ``accum``, and of ``linear``, the linear
    term of the minimized function. L1 regularization sets small weights to 0.

    Args:
      var, accum, linear: the variable and its slots.
      grad: the gradient.
      lr: the learning rate.
      l1, l2, l2_shrinkage: the strengths of L1 and L2 regularization.
      lr_power: the exponent of the sum of squared gradients in the learning rate.
    """
    new_accum = accum + tvtf.square(grad)
    power = tvtf.pow(accum, -lr_power)
    new_power = tvtf.pow(new_accum, -lr_power)
    new_linear = linear + grad + 2 * l2_shrinkage * var - (new_power - power) / lr * var
    solution = (l1 * tvtf.sign(new_linear) - new_linear) / (new_power / lr + 2 * l2)
    is_large = tvtf.abs(new_linear) > l1
    new_var = tvtf.where(is_large, solution, tvtf.zeros_like(solution))
    return {"accum": new_accum, "linear": new_linear, "var": new_var}


def _update_op(update: Update) -> Callable[..., Any]:
    """Returns a raw op that performs a step of an optimizer on whole Variables.

    ``update`` computes the new values from the current ones. It returns them by the names of the op's arguments.
    """

    def assign_updates(use_locking: bool = False, name: str | None = None, **arguments: Any) -> Any:
        """Calls ``update`` on the values of the arguments, and assigns the results to those Variables among them."""
        values = {key: value.read_value() if _is_variable(value) else value for key, value in arguments.items()}
        new_values = update(**values)
        assignments = [arguments[key].assign(value, read_value=False) for key, value in new_values.items()]
        return _as_one_op(assignments, name)

    return assign_updates


def _row_update_op(update: Update) -> Callable[..., Any]:
    """Returns a raw op that performs a step of an optimizer on some rows of Variables.

    ``update`` computes the new values of the rows from the current ones. It returns them by the names of the op's arguments.
    """

    def assign_updates(*, indices: Any, use_locking: bool = False, name: str | None = None, **arguments: Any) -> Any:
        """Updates the rows at ``indices`` of the Variables among the arguments. The indices must be unique."""
        values = dict(arguments)
        for key, argument in arguments.items():
            if _is_variable(argument):
                values[key] = tvtf.gather(argument, indices)
        new_rows = update(**values)
        assignments = []
        for key, rows in new_rows.items():
            assignments.append(arguments[key].scatter_update(tvtf.IndexedSlices(rows, indices)))
        return _as_one_op(assignments, name)

    return assign_updates


def _as_one_op(assignments: list[Any], name: str | None) -> Any:
    """Returns the op of a graph that performs assignments; eagerly, where they are performed already, None."""
    return None if tvtf.executing_eagerly() else tvtf.group(*assignments, name=name)


def _is_variable(value: Any) -> bool:
    return isinstance(value, tvtf.Variable)


def _scatter_op(operation: str) -> Any:
    """Returns the raw op that updates the rows of a Variable at ``indices``, such as "add", as TensorFlow declares it."""

    def scatter(*, resource: Any, indices: Any, updates: Any, name: str | None = None) -> Any:
        return _as_one_op([getattr(resource, f"scatter_{operation}")(tvtf.IndexedSlices(updates, indices))], name)

    return scatter


_UPDATES: dict[str, Update] = {
    "AdaMax": _adamax,
    "Adadelta": _adadelta,
    "AdagradV2": _adagrad,
    "Adam": _adam,
    "AdamWithAmsgrad": _adam,
    "CenteredRMSProp": _rms_prop,
    "Ftrl": _ftrl,
    "FtrlV2": _ftrl,
    "GradientDescent": _gradient_descent,
    "KerasMomentum": _keras_momentum,
    "RMSProp": _rms_prop,
}
_OF_ROWS = ("Adadelta", "AdagradV2", "CenteredRMSProp", "Ftrl", "FtrlV2", "KerasMomentum", "RMSProp")
_SCATTERED = ("add", "div", "max", "min", "mul", "sub", "update")
RAW_OPS: dict[str, Any] = {
    **{f"ResourceApply{name}": _update_op(update) for name, update in _UPDATES.items()},
    **{f"ResourceSparseApply{name}": _row_update_op(_UPDATES[name]) for name in _OF_ROWS},
    **{f"ResourceScatter{operation.capitalize()}": _scatter_op(operation) for operation in _SCATTERED},
}
