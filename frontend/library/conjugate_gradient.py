"""Solves linear equations by conjugate gradients, which needs only products with the operator."""

from __future__ import annotations

from typing import Any, NamedTuple

from tvtf.composites.linear.algebra import broadcast, column, conjugate_if, dims_of, total, zeros
from tvtf.core.primitive import export, public_names
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.frontend.control_flow.cond_while import while_loop
from tvtf.ops.aggregate import norm
from tvtf.ops.cast import cast
from tvtf.ops.rules import bind


class CGState(NamedTuple):
    """The state of the conjugate gradient iteration, with TensorFlow's names.

    These are the index of the iteration, the solution, the residual, the search direction, and the product of the
    residual with the preconditioned residual.
    """

    i: Tensor
    x: Tensor
    r: Tensor
    p: Tensor
    gamma: Tensor


@export("linalg.experimental.conjugate_gradient")
def conjugate_gradient(
    operator: Any,
    rhs: Any,
    preconditioner: Any = None,
    x: Any = None,
    tol: float = 1e-5,
    max_iter: int = 20,
    name: str = "conjugate_gradient",
) -> CGState:
    """Solves ``operator @ x = rhs`` for a self-adjoint positive definite operator.

    Args:
      operator: a `tf.linalg.LinearOperator` with these two hints.
      rhs: tensor of shape (..., n).
      preconditioner: an operator that approximates the inverse.
      x: the initial solution; zeros by default.
      tol: the iteration ends if the residual's norm is at most this multiple of the norm of ``rhs``.
      max_iter: the largest number of steps.

    Returns:
      The last state: ``x`` is the solution.

    Raises:
      ValueError: the operator is not hinted to be self-adjoint and positive definite.

    >>> import tvtf as tf
    >>> operator = tf.linalg.LinearOperatorDiag([1., 4.], is_positive_definite=True)
    >>> tf.linalg.experimental.conjugate_gradient(operator, [1., 2.]).x.numpy().round(4)
    array([1. , 0.5], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/experimental/conjugate_gradient
    """
    if not (operator.is_self_adjoint and operator.is_positive_definite):
        raise ValueError("Expected a self-adjoint, positive definite operator.")
    b = convert_to_tensor(rhs)
    extra_batch = [] if preconditioner is None else [preconditioner._dims()[:-2]]
    batch = broadcast(dims_of(b)[:-1], operator._dims()[:-2], *extra_batch)
    full_rhs = bind.broadcast_to(b, shape=(*batch, dims_of(b)[-1]))
    limit = norm(full_rhs, axis=-1) * tol
    start = zeros(dims_of(full_rhs), full_rhs.dtype) if x is None else convert_to_tensor(x)
    residual = full_rhs if x is None else b - operator.matvec(start)
    first_direction = _preconditioned(residual, preconditioner)
    state = CGState(convert_to_tensor(0), start, residual, first_direction, _dot(residual, first_direction))

    def has_not_converged(i: Tensor, state: CGState) -> Tensor:
        """Returns whether to continue: fewer than ``max_iter`` iterations, and a residual of the batch is too large."""
        return public_names()["logical_and"](i < max_iter, public_names()["reduce_any"](norm(state.r, axis=-1) > limit))  # type: ignore[no-any-return]

    def step(i: Tensor, state: CGState) -> tuple[Tensor, CGState]:
        """Moves along the search direction to the minimum, and computes the next conjugate direction.

        Args:
          i: the number of iterations so far.
          state: the current solution and search direction.
        """
        image = operator.matvec(state.p)
        step_length = column(state.gamma / _dot(state.p, image))
        residual = state.r - step_length * image
        preconditioned = _preconditioned(residual, preconditioner)
        gamma = _dot(residual, preconditioned)
        direction = preconditioned + column(gamma / state.gamma) * state.p
        return i + 1, CGState(i + 1, state.x + step_length * state.p, residual, direction, gamma)

    _, result = while_loop(has_not_converged, step, [cast(0, "int32"), state])
    return result  # type: ignore[no-any-return]


def _preconditioned(x: Tensor, preconditioner: Any) -> Tensor:
    """Multiplies a vector by the preconditioner, if there is one."""
    return x if preconditioner is None else preconditioner.matvec(x)  # type: ignore[no-any-return]


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Computes the inner product of vectors along the last axis. Complex ``a`` is conjugated."""
    return total(conjugate_if(a, True) * b)
