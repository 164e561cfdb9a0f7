"""LinearOperator, the base class: a batch of matrices that need not be stored; defaults use the dense matrix."""

from __future__ import annotations

import abc
import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tvtf.composites.linear import hints
from tvtf.composites.linear.algebra import (
    adjoint,
    broadcast_batches,
    column,
    declared_shape,
    dims_of,
    identity,
    magnitude,
    max_min_ratio,
    maybe_adjoint,
    shape_tensor,
    to_dtype,
    total,
    without_last_dim,
)
from tvtf.composites.linear.slicing import sliced
from tvtf.composites.linear.spec import LinearOperatorSpec, spec_type
from tvtf.core import nest
from tvtf.core.argument_error import incompatible_shapes
from tvtf.core.composite import CompositeTensor
from tvtf.core.log import logger
from tvtf.core.primitive import export, hooks, public_names
from tvtf.core.shape import Dim, TensorShape, agree_dim
from tvtf.core.specialization import UnknownRank, Unspecialized
from tvtf.core.tensor import Tensor, constant, convert_to_tensor
from tvtf.core.v1_dimension import is_dim
from tvtf.dtypes import as_dtype, int32
from tvtf.ops.lapack import diagonal
from tvtf.ops.rules import bind, static_dims, zeros_like
from tvtf.ops.solve import cholesky_solve, slogdet
from tvtf.ops.spectral import eigvalsh, svd
from tvtf.state.module import Module


def of_any_rank(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a method of a linear operator so that a traced call is deferred if it needs the rank of the operator's tensors.

    Some calls can't be deferred, for example if a user's operator can't be created again from its tensors. The whole
    function is then traced again for each rank.
    """

    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        """Calls the method, or defers the call until ranks are known."""
        try:
            return method(*args, **kwargs)
        except UnknownRank as signal:
            # The deferred call makes the operator again from its tensors, where a size of this trace has no value.
            if _holds_symbolic_size(args[0]):
                raise
            try:
                return hooks.defer_call(method, args, kwargs, signal)
            except (Exception, Unspecialized):  # any op's error
                raise signal from None

    return run


def _holds_symbolic_size(value: Any) -> bool:
    """Returns whether a symbolic size is among the attributes of an operator, or of the operators that it is made of."""
    if isinstance(value, (list, tuple)):
        return any(map(_holds_symbolic_size, value))
    if isinstance(value, LinearOperator):
        return any(map(_holds_symbolic_size, vars(value).values()))
    return is_dim(value)


def _warn_of_dense(method: str, costs: str = " and O(N^3) operations") -> None:
    text = "Using (possibly slow) default implementation of %s.  Requires conversion to a dense matrix%s."
    logger.warning(text, method, costs)


@export("linalg.LinearOperator")
class LinearOperator(Module, CompositeTensor):
    """The base class of operators: a batch of matrices of shape (..., range, domain), defined by its products.

    A subclass defines ``_shape`` and ``_matmul``, and overrides what it can do faster than the dense matrix: ``_solve``,
    ``_determinant`` ... Hints, its own or the user's, select algorithms; they are not checked.

    Args:
      dtype: the dtype of the elements.
      graph_parents: ignored.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices: True, False, or None for unknown.
      name: a name.
      parameters: the arguments of the subclass; recorded automatically.

    Raises:
      ValueError: two hints contradict each other.

    >>> import tvtf as tf
    >>> class Doubling(tf.linalg.LinearOperator):
    ...     def __init__(self):
    ...         super().__init__(tf.float32, is_self_adjoint=True)
    ...     def _shape(self):
    ...         return tf.TensorShape([2, 2])
    ...     def _matmul(self, x, adjoint=False, adjoint_arg=False):
    ...         return 2. * (tf.linalg.adjoint(x) if adjoint_arg else x)
    >>> twice = Doubling()
    >>> twice.matvec([1., 2.]).numpy(), twice.trace().numpy()
    (array([2., 4.], dtype=float32), np.float32(4.0))

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperator
    """

    _TF_MODULE_IGNORED_PROPERTIES = frozenset({*Module._TF_MODULE_IGNORED_PROPERTIES, "_parameters"})
    _static_fields: ClassVar[tuple[str, ...]] = ()
    _matrix_ranks: dict[str, Any] = {}
    """The parameters that have batches, with how many of their last dims make one matrix: 0 for an operator."""
    _parameters: dict[str, Any]
    _spec_type: ClassVar[type[LinearOperatorSpec]]
    is_batched = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._spec_type = spec_type(cls)
        if "__init__" in vars(cls):
            cls.__init__ = _recording_arguments(cls.__init__)  # type: ignore[method-assign]

    def __init__(
        self,
        dtype: Any,
        graph_parents: Any = None,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        """Stores dtype, name and hints, and the hints that they imply: a non-singular operator is square, for example."""
        if is_positive_definite:
            is_non_singular = hints.always(is_non_singular, True, "A positive definite matrix is always non-singular.")
        if is_non_singular:
            is_square = hints.always(is_square, True, "A non-singular matrix is always square.")
        if is_self_adjoint:
            is_square = hints.always(is_square, True, "A self-adjoint matrix is always square.")
        self._dtype = as_dtype(dtype)
        self._is_non_singular, self._is_self_adjoint = is_non_singular, is_self_adjoint
        self._is_positive_definite, self._is_square = is_positive_definite, is_square
        self._name = name or type(self).__name__
        if parameters is not None:
            vars(self)["_parameters"] = parameters

    # -- properties

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return dict(self._parameters)

    @property
    def dtype(self) -> Any:
        return self._dtype

    @property
    def name(self) -> str:
        return self._name

    @property
    def graph_parents(self) -> list[Any]:
        """Deprecated: always empty."""
        return []

    @property
    def is_non_singular(self) -> hints.Hint:
        return self._is_non_singular

    @property
    def is_self_adjoint(self) -> hints.Hint:
        return self._is_self_adjoint

    @property
    def is_positive_definite(self) -> hints.Hint:
        return self._is_positive_definite

    @property
    def is_square(self) -> hints.Hint:
        """Whether the operator is square: the user's hint, or else known from the static shape, or else None.

        Raises ValueError if the hint is False but the shape is square.
        """
        rows, columns = self.range_dimension, self.domain_dimension
        is_known_square = rows is not None and rows == columns
        if self._is_square is False and is_known_square:
            raise ValueError("User set is_square hint to False, but the operator was square.")
        if self._is_square is not None or None in (rows, columns):
            return self._is_square
        return is_known_square

    def _dims(self) -> tuple[Dim, ...]:
        """Returns the shape as dims; a subclass defines this, or ``_shape`` and, for unknown sizes, ``_shape_tensor``."""
        shape = self._shape()
        if shape.is_fully_defined() or type(self)._shape_tensor is LinearOperator._shape_tensor:
            return tuple(shape)
        return static_dims(self._shape_tensor())

    def _shape_tensor(self) -> Tensor:
        """Returns the shape of a user's operator as a vector, for sizes that are unknown while tracing."""
        raise NotImplementedError("_shape_tensor is not implemented.")

    def _shape(self) -> TensorShape:
        return declared_shape(self._dims)

    @property
    def shape(self) -> TensorShape:
        return self._shape()

    @property
    def batch_shape(self) -> TensorShape:
        return self.shape[:-2]  # type: ignore[no-any-return]

    @property
    def tensor_rank(self) -> int | None:
        return self.shape.rank  # type: ignore[no-any-return]

    @property
    def domain_dimension(self) -> int | None:
        return self.shape[-1]  # type: ignore[no-any-return]

    @property
    def range_dimension(self) -> int | None:
        return self.shape[-2]  # type: ignore[no-any-return]

    @of_any_rank
    def shape_tensor(self, name: str = "shape_tensor") -> Tensor:
        """Returns the shape as a vector."""
        return shape_tensor(self._dims())

    @of_any_rank
    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """Returns the batch shape as a vector."""
        return shape_tensor(self._dims()[:-2])

    @of_any_rank
    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Tensor:
        """Returns the rank as a tensor."""
        return constant(len(self._dims()), int32)

    @of_any_rank
    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Tensor:
        """Returns the number of columns as a tensor."""
        return self.shape_tensor()[-1]

    @of_any_rank
    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Tensor:
        """Returns the number of rows as a tensor."""
        return self.shape_tensor()[-2]

    # -- products and solutions

    @of_any_rank
    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """Returns the product of the operator with matrices, or with another operator.

        Args:
          x: matrices of shape (..., domain, k), or an operator.
          adjoint: whether the operator's conjugate transpose is multiplied.
          adjoint_arg: whether the conjugate transpose of ``x`` is multiplied.

        Raises:
          ValueError: the dims don't fit.
          TypeError: the dtypes of ``x`` and the operator differ.
        """
        if isinstance(x, LinearOperator):
            left = self._or_adjoint(adjoint)
            right = x._or_adjoint(adjoint_arg)
            left._check_operator(right, "x")
            return left._linop_matmul(right)
        # The axes of the columns of the operator and of the rows of x, after taking the adjoints.
        operator_axis = -2 if adjoint else -1
        argument_axis = -1 if adjoint_arg else -2
        return self._matmul(self._argument(x, operator_axis, argument_axis), adjoint, adjoint_arg)

    def __matmul__(self, other: Any) -> Any:
        return self.matmul(other)

    @of_any_rank
    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        """Returns the product with vectors of shape (..., domain)."""
        return self._matvec(self._argument(x, -2 if adjoint else -1, -1), adjoint)

    @of_any_rank
    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """Returns the exact solution ``x`` of ``self @ x = rhs``.

        Args:
          rhs: matrices of shape (..., range, k), or an operator.
          adjoint: whether to solve with the operator's conjugate transpose.
          adjoint_arg: whether to solve for the conjugate transpose of ``rhs``.

        Raises:
          NotImplementedError: the operator is known to be singular, or not square.
        """
        for hint, text in ((self.is_non_singular, "be singular"), (self.is_square, "not be square")):
            if hint is False:
                raise NotImplementedError(f"Exact solve not implemented for an operator that is expected to {text}.")
        if isinstance(rhs, LinearOperator):
            left = self._or_adjoint(adjoint)
            right = rhs._or_adjoint(adjoint_arg)
            left._check_operator(right, "rhs")
            return left._linop_solve(right)
        # The axes of the rows of the operator and of rhs, after taking the adjoints.
        operator_axis = -1 if adjoint else -2
        argument_axis = -1 if adjoint_arg else -2
        return self._solve(self._argument(rhs, operator_axis, argument_axis), adjoint, adjoint_arg)

    @of_any_rank
    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        """Returns the exact solution for vectors of shape (..., range)."""
        return self._solvevec(self._argument(rhs, -1 if adjoint else -2, -1), adjoint)

    def _argument(self, x: Any, operator_axis: int, axis: int) -> Tensor:
        """Converts the argument of a product or solve to a tensor of the operator's dtype.

        Raises an error unless its dim at ``axis`` equals the operator's dim at ``operator_axis``.
        """
        tensor = convert_to_tensor(x)
        if tensor.dtype is not self.dtype:
            raise TypeError(
                f"Expected argument to have dtype {self.dtype}.  Found: {tensor.dtype} in tensor {tensor!s}"
            )
        expected = self._dims()[operator_axis]
        dims = dims_of(tensor)
        if len(dims) < -axis:
            raise IndexError(f"{self.name}: expected a tensor of at least {-axis} dims, but got shape {tensor.shape}")
        if expected is not None and not agree_dim(expected, dims[axis]):
            raise incompatible_shapes(ValueError(f"Dimensions {expected} and {dims[axis]} are not compatible"))
        return tensor

    def _check_operator(self, right: LinearOperator, name: str) -> None:
        rows, columns = right.range_dimension, self.domain_dimension
        if None not in (rows, columns) and rows != columns:
            text = f"Operators are incompatible. Expected `{name}` to have dimension {columns} but got {rows}."
            raise ValueError(text)

    @abc.abstractmethod
    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        """Returns the product with a tensor."""

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        return without_last_dim(self.matmul(column(x), adjoint=adjoint))

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        _warn_of_dense("solve")
        return self._dense_solve(rhs, adjoint, adjoint_arg)

    def _dense_solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        """Solves with the dense matrix, by Cholesky decomposition if the hints allow it.

        Args:
          rhs: the right-hand sides, of shape (..., domain, k).
          adjoint: whether to solve with the operator's conjugate transpose.
          adjoint_arg: whether to solve for the conjugate transpose of ``rhs``.
        """
        if self.is_square is False:
            raise NotImplementedError("Solve is not yet implemented for non-square operators.")
        matrix, rhs = broadcast_batches(self.to_dense(), maybe_adjoint(rhs, adjoint_arg))
        if self._can_use_cholesky():
            return cholesky_solve(bind.cholesky(matrix), rhs)
        return bind.matrix_solve(maybe_adjoint(matrix, adjoint), rhs)  # type: ignore[no-any-return]

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Any:
        return without_last_dim(self.solve(column(rhs), adjoint=adjoint))

    def _can_use_cholesky(self) -> bool:
        return bool(self.is_self_adjoint and self.is_positive_definite)

    # -- other operators

    def _or_adjoint(self, adjoint: bool) -> LinearOperator:
        return self.adjoint() if adjoint else self

    @of_any_rank
    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        """Returns the conjugate transpose."""
        return self if self.is_self_adjoint is True else self._linop_adjoint()

    H = property(adjoint, None)

    @of_any_rank
    def inverse(self, name: str = "inverse") -> LinearOperator:
        """Returns the inverse as a linear operator.

        Raises:
          ValueError: the operator is known to be singular, or not square.
        """
        for holds, text in ((self.is_square, "non square"), (self.is_non_singular, "singular")):
            if holds is False:
                raise ValueError(f"Cannot take the Inverse: This operator represents a {text} matrix.")
        return self._linop_inverse()

    @of_any_rank
    def cholesky(self, name: str = "cholesky") -> LinearOperator:
        """Returns the lower triangular Cholesky factor as a linear operator.

        Raises:
          ValueError: the operator is not hinted to be self-adjoint and positive definite.
        """
        if not self._can_use_cholesky():
            raise ValueError("Cannot take the Cholesky decomposition: Not a positive definite self adjoint matrix.")
        return self._linop_cholesky()

    def _linop_adjoint(self) -> LinearOperator:
        return public("LinearOperatorAdjoint")(self, **hints.of(self) | {"is_square": self.is_square})  # type: ignore[no-any-return]

    def _linop_inverse(self) -> LinearOperator:
        return public("LinearOperatorInversion")(self, **hints.of(self) | {"is_square": self.is_square})  # type: ignore[no-any-return]

    def _linop_cholesky(self) -> LinearOperator:
        factor = bind.cholesky(convert_to_tensor(self.to_dense()))
        lower = public("LinearOperatorLowerTriangular")
        return lower(factor, is_non_singular=True, is_self_adjoint=False, is_square=True)  # type: ignore[no-any-return]

    def _linop_matmul(self, right: LinearOperator) -> LinearOperator:
        """Returns the product with another operator; the other's specialized product is tried first."""
        result = right._linop_matmul_of(self)
        return self._composed(self, right) if result is None else result

    def _linop_matmul_of(self, left: LinearOperator) -> LinearOperator | None:
        """Returns the product ``left @ self`` if this class has a special form for it."""
        return None

    def _linop_solve(self, right: LinearOperator) -> LinearOperator:
        """Returns the product of the inverse with another operator."""
        if right._is_identity:
            return self.inverse()
        return self._composed(public("LinearOperatorInversion")(self), right)

    _is_identity = False

    def _composed(self, left: LinearOperator, right: LinearOperator) -> LinearOperator:
        return public("LinearOperatorComposition")([left, right], **hints.of_product(self, right))  # type: ignore[no-any-return]

    # -- numbers

    @of_any_rank
    def to_dense(self, name: str = "to_dense") -> Tensor:
        """Returns the matrices, shape (..., range, domain)."""
        return self._to_dense()

    def _to_dense(self) -> Tensor:
        *batch, _, columns = self._dims()
        return self.matmul(identity(batch, columns, self.dtype))  # type: ignore[no-any-return]

    @of_any_rank
    def diag_part(self, name: str = "diag_part") -> Tensor:
        """Returns the main diagonals, shape (..., the smaller dim)."""
        return self._diag_part()

    def _diag_part(self) -> Tensor:
        return diagonal(convert_to_tensor(self.to_dense()))

    @of_any_rank
    def trace(self, name: str = "trace") -> Tensor:
        """Returns the sum of the main diagonal."""
        return self._trace()

    def _trace(self) -> Tensor:
        return total(self.diag_part())

    @of_any_rank
    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Tensor:
        """Returns the dense sum of the operator and ``x``, matrices of the same dtype."""
        tensor = convert_to_tensor(x)
        if tensor.dtype is not self.dtype:
            raise TypeError(
                f"Expected argument to have dtype {self.dtype}.  Found: {tensor.dtype} in tensor {tensor!s}"
            )
        return self._add_to_tensor(tensor)

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return self.to_dense() + x

    @of_any_rank
    def determinant(self, name: str = "det") -> Tensor:
        """Returns the determinants of the operator's matrices.

        Raises:
          NotImplementedError: the operator is known not to be square.
        """
        self._check_has_determinant()
        return self._determinant()

    @of_any_rank
    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        """Returns the logarithms of the determinants' magnitudes."""
        self._check_has_determinant()
        return self._log_abs_determinant()

    def _check_has_determinant(self) -> None:
        if self.is_square is False:
            raise NotImplementedError("Determinant not implemented for an operator that is expected to not be square.")

    def _determinant(self) -> Tensor:
        _warn_of_dense("determinant")
        if self._can_use_cholesky():
            return bind.exp(self.log_abs_determinant())  # type: ignore[no-any-return]
        return bind.matrix_determinant(convert_to_tensor(self.to_dense()))  # type: ignore[no-any-return]

    def _log_abs_determinant(self) -> Tensor:
        _warn_of_dense("determinant")
        if self._can_use_cholesky():
            return 2 * total(bind.log(diagonal(bind.cholesky(convert_to_tensor(self.to_dense())))))
        return slogdet(self.to_dense()).log_abs_determinant

    @of_any_rank
    def eigvals(self, name: str = "eigvals") -> Tensor:
        """Returns the eigenvalues of a self-adjoint operator.

        Raises:
          NotImplementedError: the operator's ``is_self_adjoint`` hint is not True.
        """
        if not self.is_self_adjoint:
            raise NotImplementedError("Only self-adjoint matrices are supported.")
        return self._eigvals()

    def _eigvals(self) -> Tensor:
        return eigvalsh(self.to_dense())

    @of_any_rank
    def cond(self, name: str = "cond") -> Tensor:
        """Returns the condition numbers: the ratio of the largest to the smallest singular value."""
        return self._cond()

    def _cond(self) -> Tensor:
        return max_min_ratio(
            magnitude(self._eigvals()) if self.is_self_adjoint else svd(self.to_dense(), compute_uv=False)
        )

    # -- checks

    def assert_non_singular(self, name: str = "assert_non_singular") -> Any:
        """Checks at run time that the operator is not singular up to rounding errors."""
        return self._assert_non_singular()

    def _assert_non_singular(self) -> Any:
        """Asserts at run time that the matrices are not singular, by their condition number.

        The limit is the inverse of the dtype's rounding error, divided by the matrices' size (at least 100).
        """
        _warn_of_dense("assert_non_singular")
        if self._can_use_cholesky():
            return self.assert_positive_definite()
        singular_values = svd(self.to_dense(), compute_uv=False)
        condition_number = max_min_ratio(singular_values)
        row_count = to_dtype(self.range_dimension_tensor(), condition_number.dtype)
        column_count = to_dtype(self.domain_dimension_tensor(), condition_number.dtype)
        size = bind.maximum(bind.maximum(row_count, column_count), constant(100.0, condition_number.dtype))
        epsilon = float(np.finfo(self.dtype.np).eps)
        limit = 1.0 / (size * epsilon)
        return checked("less", condition_number, limit, message="Singular matrix up to precision epsilon.")

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Any:
        """Checks at run time that a self-adjoint operator is positive definite.

        Raises:
          NotImplementedError: the operator's ``is_self_adjoint`` hint is not True.
        """
        return self._assert_positive_definite()

    def _assert_positive_definite(self) -> Any:
        """Checks the dense matrix by a Cholesky decomposition, whose diagonal is positive only then."""
        _warn_of_dense("assert_positive_definite")
        if not self.is_self_adjoint:
            raise NotImplementedError("assert_positive_definite is not implemented.")
        result = diagonal(bind.cholesky(convert_to_tensor(self.to_dense())))
        return checked("positive", result, message="Matrix was not positive definite.")

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Any:
        """Checks at run time that the operator equals its conjugate transpose."""
        return self._assert_self_adjoint()

    def _assert_self_adjoint(self) -> Any:
        _warn_of_dense("assert_self_adjoint", "")
        dense = convert_to_tensor(self.to_dense())
        return checked("equal", dense, adjoint(dense), message="Matrix was not equal to its adjoint.")

    # -- as a tensor made of tensors

    @property
    def _type_spec(self) -> LinearOperatorSpec:
        return self._spec_type.from_operator(self)

    def _gradient_components(self) -> Any:
        return nest.flatten(self, expand_composites=True)

    def _with_gradient(self, gradients: Any) -> Any:
        """Returns an operator whose tensors are the gradients of this operator's tensors, zeros for missing ones."""
        dense_gradients = []
        for gradient, x in zip(gradients, self._gradient_components()):
            dense_gradients.append(zeros_like(convert_to_tensor(x)) if gradient is None else gradient)
        return nest.pack_sequence_as(self, dense_gradients, expand_composites=True)

    def __getitem__(self, slices: Any) -> LinearOperator:
        return sliced(self, slices)


def checked(kind: str, *values: Any, message: str = "") -> Any:
    """Calls ``tf.debugging.assert_<kind>``."""
    return public_names()[f"debugging.assert_{kind}"](*values, message=message)


def public(name: str) -> Any:
    """Returns a class of operators by its public name."""
    return public_names()[f"linalg.{name}"]


def _recording_arguments(init: Callable[..., None]) -> Callable[..., None]:
    """Wraps an operator's constructor to record the call's arguments as ``_parameters``.

    A constructor may call its base class's constructor. Only the arguments of the outermost call are recorded.
    """
    signature = inspect.signature(init)

    @functools.wraps(init)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        if "_parameters" not in vars(self):
            vars(self)["_parameters"] = _arguments_by_name(signature, (self, *args), kwargs)
        init(self, *args, **kwargs)

    return construct


def _arguments_by_name(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a constructor's call by name, with defaults and without ``self``, the first of ``args``."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # the constructor raises a better error
        return {}
    bound.apply_defaults()
    _, *named = bound.arguments.items()
    return dict(named)
