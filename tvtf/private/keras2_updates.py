"""The updates of Keras 2's legacy optimizers: raw ops that assign Variables, whole or some of their rows.

Sources: https://github.com/keras-team/tf-keras/tree/master/tf_keras/optimizers/legacy,
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/training_ops.cc
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvtf

Update = Callable[..., dict[str, Any]]


def _gradient_descent(*, var: Any, alpha: Any, delta: Any) -> dict[str, Any]:
    return {"var": var - alpha * delta}


def _keras_momentum(
    *, var: Any, accum: Any, lr: Any, grad: Any, momentum: Any, use_nesterov: bool = False
) -> dict[str, Any]:
    step = accum * momentum - lr * grad
    return {"accum": step, "var": var + (step * momentum - lr * grad if use_nesterov else step)}


def _adagrad(*, var: Any, accum: Any, lr: Any, epsilon: Any, grad: Any, update_slots: bool = True) -> dict[str, Any]:
    total = accum + tvtf.square(grad) if update_slots else accum
    return {"accum": total, "var": var - lr * grad / (tvtf.sqrt(total) + epsilon)}


def _adadelta(*, var: Any, accum: Any, accum_update: Any, lr: Any, rho: Any, epsilon: Any, grad: Any) -> dict[str, Any]:
    squares = rho * accum + (1 - rho) * tvtf.square(grad)
    step = tvtf.sqrt(accum_update + epsilon) / tvtf.sqrt(squares + epsilon) * grad
    steps = rho * accum_update + (1 - rho) * tvtf.square(step)
    return {"accum": squares, "accum_update": steps, "var": var - lr * step}


def _adam(
    *, var: Any, m: Any, v: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any,
    grad: Any, vhat: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """Computes a step of the optimizer Adam; with ``vhat``, the largest second moment so far, one of AMSGrad.

    Returns the new values by the names of the arguments: the variable ``var`` and its moments.
    """
    learning_rate = lr * tvtf.sqrt(1 - beta2_power) / (1 - beta1_power)
    first_moment, second_moment = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * tvtf.square(grad)
    max_second_moment = {} if vhat is None else {"vhat": tvtf.maximum(vhat, second_moment)}
    step = learning_rate * first_moment / (tvtf.sqrt(max_second_moment.get("vhat", second_moment)) + epsilon)
    return {"m": first_moment, "v": second_moment, **max_second_moment, "var": var - step}


def _adamax(
    *, var: Any, m: Any, v: Any, beta1_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any, grad: Any
) -> dict[str, Any]:
    first, largest = beta1 * m + (1 - beta1) * grad, tvtf.maximum(beta2 * v, tvtf.abs(grad))
    return {"m": first, "v": largest, "var": var - lr / (1 - beta1_power) * first / (largest + epsilon)}


def _rms_prop(
    *, var: Any, ms: Any, mom: Any, lr: Any, rho: Any, momentum: Any, epsilon: Any, grad: Any, mg: Any = None
) -> dict[str, Any]:
    """Computes a step of the optimizer RMSProp; with ``mg``, the average gradient, one of its centered variant.

    Returns the new values by the names of the arguments: the variable ``var``, and the averages.
    """
    squares = rho * ms + (1 - rho) * tvtf.square(grad)
    average = {} if mg is None else {"mg": rho * mg + (1 - rho) * grad}
    variance = squares if mg is None else squares - tvtf.square(average["mg"])
    step = momentum * mom + lr * grad / tvtf.sqrt(variance + epsilon)
    return {"ms": squares, **average, "mom": step, "var": var - step}


def _ftrl(
    *, var: Any, accum: Any, linear: Any, grad: Any, lr: Any, l1: Any, l2: Any, lr_power: Any, l2_shrinkage: Any = 0.0
) -> dict[str, Any]:
    """Computes a step of the optimizer FTRL-Proximal (McMahan et al., Ad Click Prediction, 2013).

    Returns the new values by the names of the arguments. L1 regularization sets small weights to 0.
    """
    new_accum = accum + tvtf.square(grad)
    power, new_power = tvtf.pow(accum, -lr_power), tvtf.pow(new_accum, -lr_power)
    new_linear = linear + grad + 2 * l2_shrinkage * var - (new_power - power) / lr * var
    solution = (l1 * tvtf.sign(new_linear) - new_linear) / (new_power / lr + 2 * l2)
    return {
        "accum": new_accum,
        "linear": new_linear,
        "var": tvtf.where(tvtf.abs(new_linear) > l1, solution, tvtf.zeros_like(solution)),
    }


def _update_op(update: Update) -> Callable[..., None]:
    """Returns the raw op that assigns what an optimizer's ``update`` computes to Variables, given as its arguments."""

    def assign_updates(use_locking: bool = False, name: str | None = None, **arguments: Any) -> None:
        values = {key: value.read_value() if _is_variable(value) else value for key, value in arguments.items()}
        for key, value in update(**values).items():
            arguments[key].assign(value)

    return assign_updates


def _row_update_op(update: Update) -> Callable[..., None]:
    """Returns the raw op that applies an optimizer's ``update`` to the rows of Variables at ``indices``, which must be unique."""

    def assign_updates(*, indices: Any, use_locking: bool = False, name: str | None = None, **arguments: Any) -> None:
        values = {
            key: tvtf.gather(argument, indices) if _is_variable(argument) else argument
            for key, argument in arguments.items()
        }
        for key, value in update(**values).items():
            arguments[key].scatter_update(tvtf.IndexedSlices(value, indices))

    return assign_updates


def _is_variable(value: Any) -> bool:
    return isinstance(value, tvtf.Variable)


def _scatter_add(*, resource: Any, indices: Any, updates: Any, **_: Any) -> Any:
    return resource.scatter_add(tvtf.IndexedSlices(updates, indices))


def _scatter_update(*, resource: Any, indices: Any, updates: Any, **_: Any) -> Any:
    return resource.scatter_update(tvtf.IndexedSlices(updates, indices))


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
RAW_OPS: dict[str, Any] = {
    **{f"ResourceApply{name}": _update_op(update) for name, update in _UPDATES.items()},
    **{f"ResourceSparseApply{name}": _row_update_op(_UPDATES[name]) for name in _OF_ROWS},
    "ResourceScatterAdd": _scatter_add,
    "ResourceScatterUpdate": _scatter_update,
}
