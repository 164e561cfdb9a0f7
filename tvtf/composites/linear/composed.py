"""Compositions and Kronecker products of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from tvtf.composites.linear import hints
from tvtf.composites.linear.algebra import broadcast, dims_of, maybe_adjoint, to_dtype
from tvtf.composites.linear.dense import LinearOperatorLowerTriangular
from tvtf.composites.linear.operator import LinearOperator
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, may_be_same, simplify_dim, size_of
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.errors import InvalidArgumentError
from tvtf.ops.lapack import swapped
from tvtf.ops.rules import bind


def listed(operators: Any, message: str = "Expected all operators to have the same dtype.  Found {kinds}") -> list[Any]:
    """Converts an argument to a list of operators of the same dtype.

    Raises:
      ValueError: the argument is empty, or not iterable.
      TypeError: the dtypes differ.
    """
    if not isinstance(operators, Iterable):
        raise TypeError(f"Expected argument 'values' to be a \"proper\" iterable.  Found: {type(operators)}")
    value = list(operators)
    if not value:
        raise ValueError(f"Expected a non-empty list of operators. Found: {value}")
    if any(each.dtype is not value[0].dtype for each in value):
        kinds = [str((each.name, each.dtype)) for each in value]
        raise TypeError(message.format(kinds="   ".join(kinds), listed=kinds))
    return value


def shared(operators: list[Any], name: str, given: hints.Hint, message: str) -> hints.Hint:
    """Returns a hint that is true if it is true for all operators."""
    return hints.implied(all(getattr(each, name) for each in operators), given, message)


def batch_of(operators: Iterable[Any]) -> tuple[Dim, ...]:
    return broadcast(*(each._dims()[:-2] for each in operators))


def added(numbers: Iterable[Tensor]) -> Tensor:
    return reduce(lambda a, b: a + b, numbers)


def multiplied(numbers: Iterable[Tensor]) -> Tensor:
    return reduce(lambda a, b: a * b, numbers)


def _is_pair(x: LinearOperator, y: LinearOperator) -> bool:
    """Returns whether one operator is the adjoint of the other."""
    if x is y and x.is_self_adjoint is not None:
        return x.is_self_adjoint
    return x.H is y or y.H is x


def _is_times_own_adjoint(operators: list[Any]) -> bool:
    """Returns whether a product is of the form ``A @ A.H``."""
    half = len(operators) // 2
    return len(operators) % 2 == 0 and all(map(_is_pair, operators[:half], operators[::-1]))


class OperatorOfOperators(LinearOperator):
    """The base class of operators that are made of a list of operators."""

    _matrix_ranks: dict[str, Any] = {"operators": 0}
    _operators: Any

    @property
    def operators(self) -> Any:
        return self._operators


class PartwiseOperator(OperatorOfOperators):
    """The base class of those whose adjoint, inverse and Cholesky factor are made of their parts' ones."""

    def _of_each(self, function: Callable[[Any], Any], **known: Any) -> LinearOperator:
        return type(self)([function(each) for each in self.operators], **{"is_square": True} | known)

    def _linop_adjoint(self) -> LinearOperator:
        return self._of_each(lambda each: each.adjoint(), **hints.of(self) | {"is_square": self.is_square})

    def _linop_inverse(self) -> LinearOperator:
        return self._of_each(lambda each: each.inverse(), **hints.of(self))

    def _linop_cholesky(self) -> LinearOperator:
        return self._of_each(lambda each: each.cholesky(), is_non_singular=True)

    def _hint_all(self, message: str, known: Mapping[str, tuple[hints.Hint, str]]) -> list[hints.Hint]:
        """Returns the hints that all parts share; ``message`` is formatted with a hint's word, its name and its value."""
        parts = self._operators
        return [shared(parts, name, hint, message.format(word, name, hint)) for name, (hint, word) in known.items()]


@export("linalg.LinearOperatorComposition")
class LinearOperatorComposition(OperatorOfOperators):
    """The product of operators; the last is applied first.

    Args:
      operators: a list of `LinearOperator`s of the same dtype with matching dims.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.

    Raises:
      TypeError: the operators' dtypes differ.
      ValueError: the list is empty, or a hint contradicts the operators'.

    >>> import tvtf as tf
    >>> twice = tf.linalg.LinearOperatorDiag([2., 2.])
    >>> full = tf.linalg.LinearOperatorFullMatrix([[1., 2.], [3., 4.]])
    >>> product = tf.linalg.LinearOperatorComposition([twice, full])
    >>> product.name, product.matvec([1., 1.]).numpy()
    ('LinearOperatorDiag_o_LinearOperatorFullMatrix', array([ 6., 14.], dtype=float32))

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorComposition
    """

    def __init__(
        self,
        operators: Any,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str | None = None,
    ) -> None:
        value = listed(operators)
        message = "The composition of non-singular operators is always non-singular."
        is_non_singular = shared(value, "is_non_singular", is_non_singular, message)
        is_aat = _is_times_own_adjoint(value)
        must_be_self_adjoint = is_aat or (len(value) == 1 and bool(value[0].is_self_adjoint))
        message = "The composition was determined to be self-adjoint but user provided incorrect `False` hint."
        is_self_adjoint = hints.implied(must_be_self_adjoint, is_self_adjoint, message)
        message = "The composition was determined %shave the form A @ A.H, hence it must be %s. The user provided an incorrect `False` hint."
        is_square = hints.implied(is_aat, is_square, message % ("", "square"))
        definite = message % ("to be non-singular and ", "positive-definite")
        is_positive_definite = hints.implied(is_aat and bool(is_non_singular), is_positive_definite, definite)
        self._operators = value
        known = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(value[0].dtype, None, *known, name or "_o_".join(each.name for each in value))

    def _dims(self) -> tuple[Dim, ...]:
        for left, right in zip(self.operators, self.operators[1:]):
            columns, rows = left._dims()[-1], right._dims()[-2]
            if not may_be_same(columns, rows):
                raise ValueError(f"Dimensions {columns} and {rows} are not compatible")
        return (*batch_of(self.operators), self.operators[0]._dims()[-2], self.operators[-1]._dims()[-1])

    def _linop_cholesky(self) -> LinearOperator:
        """Returns L for a product L L^H of a lower triangular L, with columns scaled to a positive diagonal."""
        left = self.operators[0]
        is_llt = len(self.operators) == 2 and _is_times_own_adjoint(list(self.operators))
        if not is_llt or not isinstance(left, LinearOperatorLowerTriangular):
            return super()._linop_cholesky()
        if left.is_positive_definite:
            return left
        signs = bind.sign(left.diag_part())
        known: hints.Known = {
            "is_non_singular": left.is_non_singular,
            "is_self_adjoint": left.is_self_adjoint,
            "is_square": True,
        }
        return LinearOperatorLowerTriangular(left.tril / signs[..., None, :], **known)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        first, *others = self.operators if adjoint else reversed(self.operators)
        result = first.matmul(x, adjoint=adjoint, adjoint_arg=adjoint_arg)
        for operator in others:
            result = operator.matmul(result, adjoint=adjoint)
        return result

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        first, *others = reversed(self.operators) if adjoint else self.operators
        solution = first.solve(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)
        for operator in others:
            solution = operator.solve(solution, adjoint=adjoint)
        return solution

    def _determinant(self) -> Tensor:
        return multiplied(each.determinant() for each in self.operators)

    def _log_abs_determinant(self) -> Tensor:
        return added(each.log_abs_determinant() for each in self.operators)

    def _assert_non_singular(self) -> Any:
        if not all(each.is_square for each in self.operators):
            return super()._assert_non_singular()
        for each in self.operators:
            each.assert_non_singular()


@export("linalg.LinearOperatorKronecker")
class LinearOperatorKronecker(PartwiseOperator):
    """The Kronecker product of operators.

    Args:
      operators: a list of `LinearOperator`s of the same dtype.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.

    Raises:
      TypeError: the operators' dtypes differ.
      ValueError: the list is empty, or a hint contradicts the operators'.

    >>> import tvtf as tf
    >>> a = tf.linalg.LinearOperatorFullMatrix([[1., 2.], [3., 4.]])
    >>> tf.linalg.LinearOperatorKronecker([a, tf.linalg.LinearOperatorDiag([1., 10.])]).to_dense().numpy()
    array([[ 1.,  0.,  2.,  0.],
           [ 0., 10.,  0., 20.],
           [ 3.,  0.,  4.,  0.],
           [ 0., 30.,  0., 40.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorKronecker
    """

    def __init__(
        self,
        operators: Any,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str | None = None,
    ) -> None:
        message = "Expected every operation in argument `operators` to have the same dtype. Received {listed}."
        value = listed(operators, message)
        known = {
            "is_non_singular": (is_non_singular, "non-singular"),
            "is_self_adjoint": (is_self_adjoint, "self-adjoint"),
            "is_positive_definite": (is_positive_definite, "positive-definite"),
        }
        message = (
            "The Kronecker product of {0} operators is always {0}. Expected argument `{1}` to be True. Received: {2}."
        )
        self._operators = value
        implied = self._hint_all(message, known)
        name = name or "_x_".join(each.name for each in value)
        hinted: hints.Known = dict(zip(hints.NAMES, [*implied, is_square]))
        super().__init__(value[0].dtype, None, **hinted, name=name)

    def _dims(self) -> tuple[Dim, ...]:
        shapes = [each._dims() for each in self.operators]
        return (*batch_of(self.operators), size_of(s[-2] for s in shapes), size_of(s[-1] for s in shapes))

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._applied("matmul", maybe_adjoint(x, adjoint_arg), adjoint)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._applied("solve", maybe_adjoint(rhs, adjoint_arg), adjoint)

    def _applied(self, method: str, x: Tensor, adjoint: bool) -> Tensor:
        """Applies each operator to its axis of the rows and moves that axis to the end; so the columns' axis ends up first."""
        count = dims_of(x)[-1]
        takes_rows = adjoint is (method == "matmul")
        for each in self.operators:
            *batch, rows, columns = dims_of(x)
            size = each._dims()[-2 if takes_rows else -1]
            rest = simplify_dim(rows * columns // size)
            x = swapped(getattr(each, method)(bind.reshape(x, shape=(*batch, size, rest)), adjoint=adjoint))
        *batch, rows, columns = dims_of(x)
        return swapped(bind.reshape(x, shape=(*batch, count, simplify_dim(rows * columns // count))))

    def _powers(self) -> list[tuple[Any, Tensor]]:
        """Yields each operator with the multiplicity of its eigenvalues."""
        total = self._dims()[-1]
        return [(each, to_dtype(simplify_dim(total // each._dims()[-1]), each.dtype)) for each in self.operators]

    def _determinant(self) -> Tensor:
        return multiplied(each.determinant() ** power for each, power in self._powers())

    def _log_abs_determinant(self) -> Tensor:
        return added(each.log_abs_determinant() * power for each, power in self._powers())

    def _trace(self) -> Tensor:
        return multiplied(each.trace() for each in self.operators)

    def _diag_part(self) -> Tensor:
        return _outer([each.diag_part() for each in self.operators])

    def _eigvals(self) -> Tensor:
        return _outer([each.eigvals() for each in self.operators])

    def _to_dense(self) -> Tensor:
        return reduce(_kronecker, [convert_to_tensor(each.to_dense()) for each in self.operators])

    def _assert_each(self, method: str) -> None:
        """Calls an assertion of each factor, all of which must be square."""
        if not all(each.is_square for each in self.operators):
            raise InvalidArgumentError(
                None,
                None,
                "All Kronecker factors must be square for the product to be invertible. Expected hint `is_square` to be "
                "True for every operator in argument `operators`.",
            )
        for each in self.operators:
            getattr(each, method)()

    def _assert_non_singular(self) -> None:
        self._assert_each("assert_non_singular")

    def _assert_self_adjoint(self) -> None:
        self._assert_each("assert_self_adjoint")


def _outer(vectors: list[Tensor]) -> Tensor:
    """Returns the Kronecker product of vectors."""

    def two(a: Any, b: Any) -> Tensor:
        value = a[..., :, None] * b[..., None, :]
        *batch, rows, columns = dims_of(value)
        return bind.reshape(value, shape=(*batch, simplify_dim(rows * columns)))  # type: ignore[no-any-return]

    return reduce(two, vectors)


def _kronecker(a: Any, b: Any) -> Tensor:
    value = a[..., :, None, :, None] * b[..., None, :, None, :]
    *batch, rows, inner_rows, columns, inner_columns = dims_of(value)
    shape = (*batch, simplify_dim(rows * inner_rows), simplify_dim(columns * inner_columns))
    return bind.reshape(value, shape=shape)  # type: ignore[no-any-return]
