"""Handlers of the functions of ``tf.linalg`` for operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvtf.composites.linear.operator import LinearOperator
from tvtf.core.primitive import add_handler, by_name
from tvtf.core.tensor import convert_to_tensor
from tvtf.ops.lapack import adjoint as adjoint_of


def _matmul(a: Any, b: Any, adjoint_a: bool, adjoint_b: bool, **options: Any) -> Any:
    """Implements ``tf.matmul`` for a linear operator and a matrix, in either order.

    If the matrix is on the left, the product is computed by adjoints: A B = (B^H A^H)^H.

    Args:
      a, b: a linear operator and a matrix, in either order.
      adjoint_a, adjoint_b: whether the conjugate transpose of an operand is multiplied.
      options: other arguments of ``tf.matmul``.
    """
    if options["transpose_a"] or options["transpose_b"]:
        raise ValueError("Transposing not supported at this time.")
    if options["a_is_sparse"] or options["b_is_sparse"]:
        raise ValueError("Sparse methods not supported at this time.")
    if isinstance(a, LinearOperator):
        return a.matmul(b, adjoint=adjoint_a, adjoint_arg=adjoint_b)
    return adjoint_of(b.matmul(convert_to_tensor(a), adjoint=not adjoint_b, adjoint_arg=not adjoint_a))


def _solve(matrix: Any, rhs: Any, adjoint: bool, **_: Any) -> Any:
    if isinstance(matrix, LinearOperator):
        return matrix.solve(rhs, adjoint=adjoint)
    raise ValueError("Passing in `matrix` as a Tensor and `rhs` as a LinearOperator is not supported.")


def _inverse(input: Any, adjoint: bool, **_: Any) -> Any:
    result = input.inverse()
    return result.adjoint() if adjoint else result


def _logdet(matrix: Any, **_: Any) -> Any:
    if matrix.is_positive_definite and matrix.is_self_adjoint:
        return matrix.log_abs_determinant()
    raise ValueError("Expected matrix to be self-adjoint positive definite.")


_HANDLERS: dict[str, Callable[..., Any]] = {
    "linalg.matmul": _matmul,
    "linalg.solve": _solve,
    "linalg.inv": _inverse,
    "linalg.logdet": _logdet,
    "linalg.adjoint": lambda matrix, **_: matrix.adjoint(),
    "linalg.cholesky": lambda input, **_: input.cholesky(),
    "linalg.det": lambda input, **_: input.determinant(),
    "linalg.diag_part": lambda input, **_: input.diag_part(),
    "linalg.trace": lambda x, **_: x.trace(),
}


for _path, _handler in _HANDLERS.items():
    add_handler(_path, lambda each: isinstance(each, LinearOperator), by_name(_handler))
