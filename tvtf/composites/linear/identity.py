"""Multiples of the identity: the identity, scaled identities, and zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.composites.linear import hints
from tvtf.composites.linear.algebra import (
    as_parameter,
    broadcast,
    column,
    conjugate_if,
    dims_of,
    full,
    magnitude,
    maybe_adjoint,
    ones,
    real,
    to_dtype,
    with_batch,
    zeros,
)
from tvtf.composites.linear.diagonal import LinearOperatorDiag, added_to_diagonal
from tvtf.composites.linear.operator import LinearOperator, checked
from tvtf.core.primitive import export
from tvtf.core.shape import Dim
from tvtf.core.tensor import Tensor, convert_to_tensor, is_tensor
from tvtf.core.v1_dimension import is_dim
from tvtf.dtypes import float32
from tvtf.errors import InvalidArgumentError
from tvtf.ops.create import ones as ones_of
from tvtf.ops.dims import dim_min
from tvtf.ops.rules import bind, static_dims
from tvtf.state.variable import Variable


def _as_size(value: Any, name: str) -> Dim:
    """Converts the argument ``name``, a non-negative integer scalar, to a dim.

    Raises:
      TypeError: the value is a Variable ("reference type" in TensorFlow's text), or not an integer.
      ValueError: the value is not a scalar, or is negative.
    """
    if is_dim(value):
        return value  # type: ignore[no-any-return]
    if isinstance(value, Variable):
        raise TypeError(f"Argument {name} cannot be reference type. Found: {type(value)}.")
    tensor = convert_to_tensor(value) if not is_tensor(value) else value
    if not tensor.dtype.is_integer:
        raise TypeError(f"Argument {name} must be integer type.  Found: {tensor!s}")
    if tensor.ndim:
        raise ValueError(f"Argument {name} must be a 0-D Tensor.  Found: {tensor.numpy()}")
    (size,) = static_dims([tensor], name)
    if isinstance(size, int) and size < 0:
        raise ValueError(f"Argument {name} must be non-negative.  Found: {size}")
    return size


def _as_batch_dims(value: Any) -> tuple[Dim, ...] | None:
    """Converts the argument ``batch_shape``, a vector of non-negative integers, to dims; None stays None.

    Raises:
      TypeError: the value is a Variable ("reference type" in TensorFlow's text), or not of integers.
      ValueError: the value is not a vector, or has a negative element.
    """
    if value is None:
        return None
    if isinstance(value, Variable):
        raise TypeError(f"Argument batch_shape cannot be reference type. Found: {type(value)}.")
    if is_tensor(value):
        rank, is_integer = value.ndim, value.dtype.is_integer
    else:
        array = np.asarray(value)
        rank = array.ndim
        is_integer = array.dtype.kind in "iu" or not array.size
    if not is_integer:
        raise TypeError(f"Argument batch_shape must be integer type.  Found: {convert_to_tensor(value)!s}")
    if rank != 1:
        raise ValueError(f"Argument batch_shape must be a 1-D Tensor.  Found: {value}")
    dims = static_dims(value, "batch_shape")
    if any(isinstance(dim, int) and dim < 0 for dim in dims):
        raise ValueError(f"Argument batch_shape must be non-negative.  Found:{np.array(dims)}")
    return tuple(dims)


class _SizedOperator(LinearOperator):
    """The base class of operators that are determined by their sizes."""

    _num_rows: Dim
    _num_columns: Dim
    _batch_shape: tuple[Dim, ...] | None

    def _dims(self) -> tuple[Dim, ...]:
        return (*(self._batch_shape or ()), self._num_rows, self._num_columns)

    def _broadcast_to_batch(self, x: Tensor) -> Tensor:
        return with_batch(x, broadcast(dims_of(x)[:-2], self._batch_shape or ()))

    def _full_batch(self, value: float) -> Tensor:
        return full(value, self._dims()[:-2], self.dtype)

    def __getitem__(self, slices: Any) -> Any:
        batch = ones_of(list(self._batch_shape or ()))[slices].shape
        return type(self)(**self.parameters | {"batch_shape": batch.as_list()})


@export("linalg.LinearOperatorIdentity")
class LinearOperatorIdentity(_SizedOperator):
    """A batch of identity matrices.

    Args:
      num_rows: an integer.
      batch_shape: integers, or None for one matrix.
      dtype: default: float32.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: True.
      assert_proper_shapes: ignored; shapes are always checked.

    >>> import tvtf as tf
    >>> eye = tf.linalg.LinearOperatorIdentity(2)
    >>> eye.to_dense().numpy()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    >>> eye @ tf.linalg.LinearOperatorDiag([1., 2.])  # doctest: +ELLIPSIS
    <...LinearOperatorDiag object at 0x...>

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorIdentity
    """

    _static_fields = ("num_rows", "batch_shape")
    _is_identity = True

    def __init__(
        self,
        num_rows: Any,
        batch_shape: Any = None,
        dtype: Any = None,
        is_non_singular: hints.Hint = True,
        is_self_adjoint: hints.Hint = True,
        is_positive_definite: hints.Hint = True,
        is_square: hints.Hint = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorIdentity",
    ) -> None:
        """Creates identity matrices. Raises ValueError for hints that don't hold for them."""
        message = "An identity operator is always %s."
        for hint, property_name in (
            (is_self_adjoint, "self adjoint"),
            (is_non_singular, "non-singular"),
            (is_positive_definite, "positive-definite"),
            (is_square, "square"),
        ):
            if not hint:
                raise ValueError(message % property_name)
        super().__init__(dtype or float32, None, True, True, True, True, name)
        self._num_rows = self._num_columns = _as_size(num_rows, "num_rows")
        self._batch_shape = _as_batch_dims(batch_shape)

    def _linop_cholesky(self) -> LinearOperator:
        return LinearOperatorIdentity(self._num_rows, self._batch_shape, self.dtype)

    def _linop_inverse(self) -> LinearOperator:
        return self

    def _linop_matmul(self, right: LinearOperator) -> LinearOperator:
        return right

    def _linop_matmul_of(self, left: LinearOperator) -> LinearOperator:
        return left

    def _linop_solve(self, right: LinearOperator) -> LinearOperator:
        return right

    def _assert_non_singular(self) -> None: ...
    def _assert_positive_definite(self) -> None: ...
    def _assert_self_adjoint(self) -> None: ...

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._broadcast_to_batch(maybe_adjoint(x, adjoint_arg))

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._matmul(rhs, adjoint, adjoint_arg)

    def _determinant(self) -> Tensor:
        return self._full_batch(1)

    def _log_abs_determinant(self) -> Tensor:
        return self._full_batch(0)

    def _cond(self) -> Tensor:
        return self._full_batch(1)

    def _diag_part(self) -> Tensor:
        return ones(self._dims()[:-1], self.dtype)

    def _eigvals(self) -> Tensor:
        return self._diag_part()

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return added_to_diagonal(x, ones((), self.dtype))


@export("linalg.LinearOperatorScaledIdentity")
class LinearOperatorScaledIdentity(LinearOperator):
    """A batch of multiples of the identity matrix.

    Args:
      num_rows: an integer.
      multiplier: tensor, whose shape is the batch shape.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.
      assert_proper_shapes: ignored; shapes are always checked.

    >>> import tvtf as tf
    >>> tf.linalg.LinearOperatorScaledIdentity(2, multiplier=3.).to_dense().numpy()
    array([[3., 0.],
           [0., 3.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorScaledIdentity
    """

    _static_fields = ("num_rows",)
    _matrix_ranks = {"multiplier": 0}

    def __init__(
        self,
        num_rows: Any,
        multiplier: Any,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorScaledIdentity",
    ) -> None:
        """Creates multiples of the identity; real multipliers imply that the operator is self-adjoint."""
        self._multiplier = as_parameter(multiplier)
        is_real = not self._multiplier.dtype.is_complex
        message = "A real diagonal operator is always self adjoint."
        is_self_adjoint = hints.implied(is_real, is_self_adjoint, message)
        if not is_square:
            raise ValueError("A ScaledIdentity operator is always square.")
        known = (is_non_singular, is_self_adjoint, is_positive_definite, True)
        super().__init__(self._multiplier.dtype, None, *known, name)
        self._num_rows = _as_size(num_rows, "num_rows")

    @property
    def multiplier(self) -> Any:
        return self._multiplier

    def _dims(self) -> tuple[Dim, ...]:
        return (*dims_of(self._multiplier), self._num_rows, self._num_rows)

    def _like(self, multiplier: Any, **known: hints.Hint) -> LinearOperator:
        return LinearOperatorScaledIdentity(self._num_rows, multiplier, **known)  # type: ignore[arg-type]

    def _linop_adjoint(self) -> LinearOperator:
        return self._like(conjugate_if(self.multiplier, True), **hints.of(self))

    def _linop_cholesky(self) -> LinearOperator:
        return self._like(bind.sqrt(convert_to_tensor(self.multiplier)), **hints.every(True))

    def _linop_inverse(self) -> LinearOperator:
        return self._like(1.0 / self.multiplier, **hints.of(self) | {"is_self_adjoint": True})

    def _linop_matmul(self, right: LinearOperator) -> LinearOperator:
        """Multiplies by an operator; the product with an identity or a diagonal operator stays structured."""
        known = hints.of_commuting(self, right)
        if isinstance(right, LinearOperatorScaledIdentity):
            return self._like(self.multiplier * right.multiplier, **known)
        if isinstance(right, LinearOperatorDiag):
            return LinearOperatorDiag(right.diag * column(self.multiplier), **known)  # type: ignore[arg-type]
        return super()._linop_matmul(right)

    def _linop_solve(self, right: LinearOperator) -> LinearOperator:
        """Solves for an operator; the solution for an identity or a diagonal operator stays structured."""
        known = hints.of_commuting(self, right)
        if isinstance(right, LinearOperatorScaledIdentity):
            return self._like(right.multiplier / self.multiplier, **known)
        if isinstance(right, LinearOperatorDiag):
            return LinearOperatorDiag(right.diag / column(self.multiplier), **known)  # type: ignore[arg-type]
        return super()._linop_solve(right)

    def _assert_non_singular(self) -> Any:
        return checked("positive", magnitude(self.multiplier), message="LinearOperator was singular")

    def _assert_positive_definite(self) -> Any:
        return checked("positive", real(self.multiplier), message="LinearOperator was not positive definite.")

    def _assert_self_adjoint(self) -> Any:
        multiplier = convert_to_tensor(self.multiplier)
        message = "LinearOperator was not self-adjoint"
        return checked("equal", multiplier, conjugate_if(multiplier, True), message=message)

    def _factor(self, adjoint: bool) -> Tensor:
        return column(column(conjugate_if(self.multiplier, adjoint)))

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return maybe_adjoint(x, adjoint_arg) * self._factor(adjoint)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return maybe_adjoint(rhs, adjoint_arg) / self._factor(adjoint)

    def _size(self, dtype: Any) -> Tensor:
        return to_dtype(self.domain_dimension_tensor(), dtype)

    def _determinant(self) -> Tensor:
        return self.multiplier ** self._size(self.dtype)  # type: ignore[no-any-return]

    def _log_abs_determinant(self) -> Tensor:
        size = magnitude(self.multiplier)
        return self._size(size.dtype) * bind.log(size)

    def _trace(self) -> Tensor:
        return self.multiplier * self._size(self.dtype)  # type: ignore[no-any-return]

    def _diag_part(self) -> Tensor:
        return column(self.multiplier) * ones((self._num_rows,), self.dtype)

    def _eigvals(self) -> Tensor:
        return self._diag_part()

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return added_to_diagonal(x, column(self.multiplier))

    def _cond(self) -> Tensor:
        multiplier = convert_to_tensor(self.multiplier)
        one, undefined = full(1, (), self.dtype), full(np.nan, (), self.dtype)
        return bind.select(bind.equal(multiplier, full(0, (), self.dtype)), undefined, one)  # type: ignore[no-any-return]


@export("linalg.LinearOperatorZeros")
class LinearOperatorZeros(_SizedOperator):
    """A batch of zero matrices.

    Args:
      num_rows, num_columns: integers; default: as many columns as rows.
      batch_shape: integers, or None for one matrix.
      dtype: default: float32.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: False, True, False and whether both numbers are one.
      assert_proper_shapes: ignored; shapes are always checked.

    >>> import tvtf as tf
    >>> tf.linalg.LinearOperatorZeros(2).matvec([1., 2.]).numpy()
    array([0., 0.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorZeros
    """

    _static_fields = ("num_rows", "num_columns", "batch_shape")

    def __init__(
        self,
        num_rows: Any,
        num_columns: Any = None,
        batch_shape: Any = None,
        dtype: Any = None,
        is_non_singular: hints.Hint = False,
        is_self_adjoint: hints.Hint = True,
        is_positive_definite: hints.Hint = False,
        is_square: hints.Hint = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorZeros",
    ) -> None:
        """Creates the operator from its sizes.

        Raises:
          TypeError: a size is not an integer.
          ValueError: a size is negative or not a scalar, or a hint isn't true for a zero matrix of these sizes.
        """
        if not is_self_adjoint and is_square:
            raise ValueError("A zero operator is always self adjoint.")
        if is_non_singular:
            raise ValueError("A zero operator is always singular.")
        if is_positive_definite:
            raise ValueError("A zero operator is always not positive-definite.")
        known = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(dtype or float32, None, *known, name)
        self._num_rows = _as_size(num_rows, "num_rows")
        self._num_columns = self._num_rows if num_columns is None else _as_size(num_columns, "num_columns")
        rows, columns = self._num_rows, self._num_columns
        if is_square and isinstance(rows, int) and isinstance(columns, int) and rows != columns:
            message = f"num_rows({rows}) != num_columns({columns})"
            raise ValueError(f"LinearOperatorZeros initialized as is_square=True, but got {message}")
        self._batch_shape = _as_batch_dims(batch_shape)

    def _assert_non_singular(self) -> None:
        raise InvalidArgumentError(None, None, "Zero operators are always non-invertible.")

    def _assert_positive_definite(self) -> None:
        raise InvalidArgumentError(None, None, "Zero operators are always non-positive definite.")

    def _assert_self_adjoint(self) -> None: ...

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        *batch, columns, rows = dims_of(x)
        size = self._num_columns if adjoint else self._num_rows
        return self._broadcast_to_batch(zeros((*batch, size, columns if adjoint_arg else rows), self.dtype))

    def _linop_matmul(self, right: LinearOperator) -> LinearOperator:
        return self._of_square(self, right)

    def _linop_matmul_of(self, left: LinearOperator) -> LinearOperator:
        return self._of_square(left, self)

    def _of_square(self, *operands: LinearOperator) -> LinearOperator:
        """Returns this zero operator as the result of an operation, after checking that all operands are square."""
        if all(operator.is_square for operator in operands):
            return self
        raise ValueError(
            "Matmul with non-square `LinearOperator`s or non-square `LinearOperatorZeros` not supported at this time."
        )

    def _determinant(self) -> Tensor:
        return self._full_batch(0)

    def _trace(self) -> Tensor:
        return self._full_batch(0)

    def _diag_part(self) -> Tensor:
        *batch, rows, columns = self._dims()
        return zeros((*batch, dim_min(rows, columns)), self.dtype)

    def _eigvals(self) -> Tensor:
        return self._diag_part()

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return self._broadcast_to_batch(x)
