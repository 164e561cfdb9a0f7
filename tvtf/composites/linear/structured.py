"""Operators with few parameters: Householder reflections, permutations, and tridiagonal matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.composites.linear import hints
from tvtf.composites.linear.algebra import adjoint as adjoint_of
from tvtf.composites.linear.algebra import (
    as_parameter,
    broadcast,
    column,
    conjugate_if,
    dims_of,
    full,
    identity,
    matmul,
    maybe_adjoint,
    numbers,
    ones,
    require_rank,
    to_dtype,
    with_batch,
)
from tvtf.composites.linear.diagonal import assert_real
from tvtf.composites.linear.operator import LinearOperator, checked
from tvtf.core.primitive import export, public_names
from tvtf.core.shape import Dim
from tvtf.core.tensor import Tensor, convert_to_tensor, static_value
from tvtf.dtypes import float32
from tvtf.errors import InvalidArgumentError
from tvtf.ops.batch_norm import l2_normalize
from tvtf.ops.cast import cast
from tvtf.ops.indexing import gather
from tvtf.ops.rules import bind
from tvtf.ops.sort import argsort
from tvtf.ops.tridiagonal import tridiagonal_matmul, tridiagonal_solve


@export("linalg.LinearOperatorHouseholder")
class LinearOperatorHouseholder(LinearOperator):
    """Householder reflections: ``I - 2 v v^H`` with ``v`` normalized.

    Args:
      reflection_axis: floating or complex tensor of shape (..., n): ``v``, which need not be normalized.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.

    Raises:
      ValueError: ``reflection_axis`` is a scalar, or a hint contradicts the form.

    >>> import tvtf as tf
    >>> tf.linalg.LinearOperatorHouseholder([0., 5.]).to_dense().numpy()
    array([[ 1.,  0.],
           [ 0., -1.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorHouseholder
    """

    _matrix_ranks = {"reflection_axis": 1}

    def __init__(
        self,
        reflection_axis: Any,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str = "LinearOperatorHouseholder",
    ) -> None:
        """Creates Householder reflections, which are always self-adjoint and never positive definite."""
        self._reflection_axis = as_parameter(reflection_axis)
        message = f"Argument reflection_axis must have at least 1 dimension.  Found: {self._reflection_axis!s}"
        require_rank(self._reflection_axis, 1, message)
        message = "A Householder operator is always %s."
        is_self_adjoint = hints.always(is_self_adjoint, True, message % "self adjoint")
        is_positive_definite = hints.always(is_positive_definite, False, message % "non-positive definite")
        is_square = hints.always(is_square, True, message % "square")
        known = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(self._reflection_axis.dtype, None, *known, name)

    @property
    def reflection_axis(self) -> Any:
        return self._reflection_axis

    def _dims(self) -> tuple[Dim, ...]:
        dims = dims_of(self._reflection_axis)
        return (*dims, dims[-1])

    def _full_batch(self, value: float) -> Tensor:
        return full(value, self._dims()[:-2], self.dtype)

    def _unit_vector(self) -> Tensor:
        return l2_normalize(convert_to_tensor(self.reflection_axis), axis=-1)

    def _assert_non_singular(self) -> None: ...
    def _assert_self_adjoint(self) -> None: ...

    def _assert_positive_definite(self) -> None:
        raise InvalidArgumentError(None, None, "Householder operators are always non-positive definite.")

    def _linop_adjoint(self) -> LinearOperator:
        return self

    def _linop_inverse(self) -> LinearOperator:
        return self

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        x, unit = maybe_adjoint(x, adjoint_arg), column(self._unit_vector())
        return x - 2 * unit * matmul(unit, x, adjoint_a=True)  # type: ignore[no-any-return]

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._matmul(rhs, adjoint, adjoint_arg)

    def _to_dense(self) -> Tensor:
        unit = column(self._unit_vector())
        return identity((), self._dims()[-1], self.dtype) - 2 * matmul(unit, unit, adjoint_b=True)

    def _diag_part(self) -> Tensor:
        unit = self._unit_vector()
        return 1.0 - 2 * unit * conjugate_if(unit, True)  # type: ignore[no-any-return]

    def _trace(self) -> Tensor:
        return to_dtype(self.domain_dimension_tensor() - 2, self.dtype) * self._full_batch(1)

    def _determinant(self) -> Tensor:
        return self._full_batch(-1)

    def _log_abs_determinant(self) -> Tensor:
        return self._full_batch(0)

    def _eigvals(self) -> Tensor:
        every = ones(self._dims()[:-1], self.dtype)
        return bind.concat(-every[..., :1], every[..., 1:], axis=every.ndim - 1)  # type: ignore[no-any-return,index]

    def _cond(self) -> Tensor:
        return self._full_batch(1)


@export("linalg.LinearOperatorPermutation")
class LinearOperatorPermutation(LinearOperator):
    """Permutation matrices: row ``i`` of a product is row ``perm[i]`` of the operand.

    Args:
      perm: integer tensor of shape (..., n), in each vector the numbers below n.
      dtype: the dtype of the operands.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.

    Raises:
      TypeError: the dtype of ``perm`` is not an integer type.
      ValueError: ``perm`` is a scalar or not a permutation, or a hint contradicts the form.

    >>> import tvtf as tf
    >>> tf.linalg.LinearOperatorPermutation([0, 2, 1]).matvec([1., 2., 3.]).numpy()
    array([1., 3., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorPermutation
    """

    _matrix_ranks = {"perm": 1}

    def __init__(
        self,
        perm: Any,
        dtype: Any = float32,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str = "LinearOperatorPermutation",
    ) -> None:
        """Creates permutation matrices, which are always square and non-singular."""
        self._perm = as_parameter(perm)
        _check_permutation(self._perm)
        message = "A Permutation operator is always %s. Expected argument `%s` to be True. Received: %s."
        if is_non_singular is False:
            raise ValueError(message % ("non-singular", "is_non_singular", is_non_singular))
        is_square = hints.always(is_square, True, message % ("square", "is_square", is_square))
        super().__init__(dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, is_square, name)

    @property
    def perm(self) -> Any:
        return self._perm

    def _dims(self) -> tuple[Dim, ...]:
        dims = dims_of(self._perm)
        return (*dims, dims[-1])

    def _full_batch(self, value: float) -> Tensor:
        return full(value, self._dims()[:-2], self.dtype)

    def _assert_non_singular(self) -> None: ...

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        """Gathers the rows of ``x`` by the permutation; its inverse is the adjoint."""
        x, perm = maybe_adjoint(x, adjoint_arg), convert_to_tensor(self.perm)
        if adjoint and not self.is_self_adjoint:
            perm = argsort(perm, axis=-1)
        batch = broadcast(dims_of(x)[:-2], dims_of(perm)[:-1])
        rows = bind.broadcast_to(perm, shape=(*batch, dims_of(perm)[-1]))
        return gather(with_batch(x, batch), rows, axis=-2, batch_dims=len(batch))

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._matmul(rhs, not adjoint, adjoint_arg)

    def _column_numbers(self) -> Tensor:
        return cast(numbers(self._dims()[-1]), self.perm.dtype)  # type: ignore[no-any-return]

    def _to_dense(self) -> Tensor:
        return cast(bind.equal(self._column_numbers(), column(self.perm)), self.dtype)  # type: ignore[no-any-return]

    def _diag_part(self) -> Tensor:
        return cast(bind.equal(self._column_numbers(), convert_to_tensor(self.perm)), self.dtype)  # type: ignore[no-any-return]

    def _log_abs_determinant(self) -> Tensor:
        return self._full_batch(0)

    def _cond(self) -> Tensor:
        return self._full_batch(1)


def _check_permutation(perm: Any) -> None:
    """Checks that the argument ``perm`` is an integer tensor of vectors that are permutations, or raises an error."""
    require_rank(perm, 1, f"Argument `perm` must have at least 1 dimension. Received: {perm}.")
    if not perm.dtype.is_integer:
        raise TypeError(f"Argument `perm` must be integer dtype. Received: {perm}.")
    static_perm = static_value(perm)
    if static_perm is None:  # as in TensorFlow, a value that is unknown while tracing is not checked
        return
    size = static_perm.shape[-1]
    if (np.sort(static_perm, axis=-1) != np.arange(size)).any():
        raise ValueError(f"Argument `perm` must be a vector of unique integers from 0 to {size - 1}.")


@export("linalg.LinearOperatorTridiag")
class LinearOperatorTridiag(LinearOperator):
    """Tridiagonal matrices.

    Args:
      diagonals: as `tf.linalg.tridiagonal_solve` takes them: a tensor of shape (..., 3, n) for "compact", three of shape (..., n) for
        "sequence", one of shape (..., n, n) for "matrix".
      diagonals_format: which of them.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.

    Raises:
      ValueError: ``diagonals_format`` is not one of the three formats.

    >>> import tvtf as tf
    >>> operator = tf.linalg.LinearOperatorTridiag([[3., 4., 0.], [1., -1., 2.], [0., 6., 7.]])
    >>> operator.to_dense().numpy()
    array([[ 1.,  3.,  0.],
           [ 6., -1.,  4.],
           [ 0.,  7.,  2.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorTridiag
    """

    def __init__(
        self,
        diagonals: Any,
        diagonals_format: str = "compact",
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str = "LinearOperatorTridiag",
    ) -> None:
        """Creates tridiagonal matrices from their diagonals: one compact tensor, matrices, or three tensors."""
        if diagonals_format not in ("compact", "matrix", "sequence"):
            message = "Argument `diagonals_format` must be one of compact, matrix, or sequence."
            raise ValueError(f"{message} Received : {diagonals_format}.")
        self._diagonals_format = diagonals_format
        if diagonals_format == "sequence":
            self._diagonals: Any = [as_parameter(each) for each in diagonals]
        else:
            self._diagonals = as_parameter(diagonals)
        first = self._diagonals[0] if diagonals_format == "sequence" else self._diagonals
        known = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(first.dtype, None, *known, name)

    @property
    def diagonals(self) -> Any:
        return self._diagonals

    @property
    def diagonals_format(self) -> str:
        return self._diagonals_format

    @property
    def _matrix_ranks(self) -> dict[str, Any]:  # type: ignore[override]
        return {"diagonals": [1, 1, 1] if self.diagonals_format == "sequence" else 2}

    def _dims(self) -> tuple[Dim, ...]:
        """Returns the dims of the tridiagonal matrices; how the diagonals are stored depends on ``diagonals_format``."""
        if self.diagonals_format == "matrix":
            return dims_of(self.diagonals)
        if self.diagonals_format == "compact":
            *batch, _, size = dims_of(self.diagonals)
        else:
            batch_shapes = [dims_of(diagonal)[:-1] for diagonal in self.diagonals]
            batch = list(broadcast(*batch_shapes))
            size = dims_of(self.diagonals[1])[-1]
        return (*batch, size, size)

    def _bands(self) -> list[Tensor]:
        """Returns the upper, main and lower diagonal, each with n elements."""
        *batch, size, _ = self._dims()
        if self.diagonals_format == "sequence":
            return [bind.broadcast_to(convert_to_tensor(each), shape=(*batch, size)) for each in self.diagonals]
        return [self.diagonals[..., i, :] for i in range(3)]

    def _compact_diagonals(self, adjoint: bool) -> Tensor:
        """Returns the three diagonals in a format for functions such as `tf.linalg.tridiagonal_matmul`.

        With ``adjoint``, they are the diagonals of the conjugate transpose.
        """
        if self.diagonals_format == "matrix":
            return maybe_adjoint(convert_to_tensor(self.diagonals), adjoint)
        upper, main, lower = self._bands()
        if adjoint:
            # The upper diagonal has a padding element at its end, the lower one at its beginning.
            roll = public_names()["roll"]
            rolled_lower = roll(lower, -1, axis=-1)
            rolled_upper = roll(upper, 1, axis=-1)
            upper = conjugate_if(rolled_lower, True)
            main = conjugate_if(main, True)
            lower = conjugate_if(rolled_upper, True)
        return public_names()["stack"]([upper, main, lower], axis=-2)  # type: ignore[no-any-return]

    @property
    def _compact_format(self) -> str:
        return "matrix" if self.diagonals_format == "matrix" else "compact"

    def _assert_self_adjoint(self) -> Any:
        """Asserts at run time that the tridiagonal matrices are self-adjoint.

        The main diagonal must be real, and the lower diagonal the conjugate of the upper one.
        """
        if self.diagonals_format == "matrix":
            dense = convert_to_tensor(self.diagonals)
            return checked("equal", dense, adjoint_of(dense), message="Matrix was not equal to its adjoint.")
        upper, main, lower = self._bands()
        assert_real(main, "This tridiagonal operator contained non-zero imaginary values on the diagonal.")
        message = "This tridiagonal operator has non-conjugate subdiagonal and superdiagonal."
        return checked("equal", conjugate_if(lower[..., 1:], True), upper[..., :-1], message=message)  # type: ignore[index]

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        x = maybe_adjoint(x, adjoint_arg)
        return tridiagonal_matmul(self._compact_diagonals(adjoint), x, diagonals_format=self._compact_format)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        """Solves the tridiagonal systems, after broadcasting the batches of matrices and right-hand sides."""
        rhs, bands = maybe_adjoint(rhs, adjoint_arg), self._compact_diagonals(adjoint)
        batch = broadcast(dims_of(rhs)[:-2], dims_of(bands)[:-2])
        return tridiagonal_solve(
            with_batch(bands, batch), with_batch(rhs, batch), diagonals_format=self._compact_format
        )

    def _diag_part(self) -> Tensor:
        if self.diagonals_format == "matrix":
            return super()._diag_part()
        _, main_diagonal, _ = self._bands()
        return main_diagonal

    def _to_dense(self) -> Tensor:
        if self.diagonals_format == "matrix":
            return self.diagonals  # type: ignore[no-any-return]
        diagonal_matrix, (upper, main, lower) = public_names()["linalg.diag"], self._bands()
        return diagonal_matrix(main) + diagonal_matrix(upper[..., :-1], k=1) + diagonal_matrix(lower[..., 1:], k=-1)  # type: ignore[no-any-return,index]
