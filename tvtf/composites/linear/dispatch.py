"""Handlers of the functions of ``tf.linalg`` for operators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tvtf.composites.linear.operator import LinearOperator
from tvtf.core.primitive import add_handler
from tvtf.core.tensor import convert_to_tensor
from tvtf.ops.lapack import adjoint as adjoint_of


def _matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: Any = None,
) -> Any:
    """Multiplies an operator by a matrix, on either side; a matrix on the left is multiplied by the adjoints."""
    if transpose_a or transpose_b:
        raise ValueError("Transposing not supported at this time.")
    if a_is_sparse or b_is_sparse:
        raise ValueError("Sparse methods not supported at this time.")
    if isinstance(a, LinearOperator):
        return a.matmul(b, adjoint=adjoint_a, adjoint_arg=adjoint_b)
    return adjoint_of(b.matmul(convert_to_tensor(a), adjoint=not adjoint_b, adjoint_arg=not adjoint_a))


def _solve(matrix: Any, rhs: Any, adjoint: bool = False, name: Any = None) -> Any:
    if isinstance(matrix, LinearOperator):
        return matrix.solve(rhs, adjoint=adjoint)
    raise ValueError("Passing in `matrix` as a Tensor and `rhs` as a LinearOperator is not supported.")


def _inverse(input: Any, adjoint: bool = False, name: Any = None) -> Any:
    result = input.inverse()
    return result.adjoint() if adjoint else result


def _logdet(matrix: Any, name: Any = None) -> Any:
    if matrix.is_positive_definite and matrix.is_self_adjoint:
        return matrix.log_abs_determinant()
    raise ValueError("Expected matrix to be self-adjoint positive definite.")


def _on_operators(handler: Callable[..., Any], _: Any, *args: Any, **kwargs: Any) -> Any:
    return handler(*args, **kwargs)


_HANDLERS: dict[str, Callable[..., Any]] = {
    "linalg.matmul": _matmul,
    "linalg.solve": _solve,
    "linalg.inv": _inverse,
    "linalg.logdet": _logdet,
    "linalg.adjoint": lambda matrix, name=None: matrix.adjoint(),
    "linalg.cholesky": lambda input, name=None: input.cholesky(),
    "linalg.det": lambda input, name=None: input.determinant(),
    "linalg.diag_part": lambda input, *_, **__: input.diag_part(),
    "linalg.trace": lambda x, name=None: x.trace(),
}


for _path, _handler in _HANDLERS.items():
    add_handler(_path, lambda each: isinstance(each, LinearOperator), functools.partial(_on_operators, _handler))
