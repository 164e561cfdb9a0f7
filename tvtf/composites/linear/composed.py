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


def as_operator_list(
    operators: Any, message: str = "Expected all operators to have the same dtype.  Found {kinds}"
) -> list[Any]:
    """Converts an argument to a list of operators of the same dtype.

    Raises:
      ValueError: the argument is empty.
      TypeError: the argument is not iterable, or the dtypes differ.
    """
    if not isinstance(operators, Iterable):
        raise TypeError(f"Expected argument 'values' to be a \"proper\" iterable.  Found: {type(operators)}")
    operator_list = list(operators)
    if not operator_list:
        raise ValueError(f"Expected a non-empty list of operators. Found: {operator_list}")
    if any(operator.dtype is not operator_list[0].dtype for operator in operator_list):
        names_and_dtypes = [str((operator.name, operator.dtype)) for operator in operator_list]
        raise TypeError(message.format(kinds="   ".join(names_and_dtypes), listed=names_and_dtypes))
    return operator_list


def shared_hint(operators: list[Any], name: str, user_hint: hints.Hint, message: str) -> hints.Hint:
    """Returns the hint ``name``, true if it is true for all operators; otherwise the user's hint, or None.

    Raises:
      ValueError: the user's hint is False, but all operators have it.
    """
    return hints.implied(all(getattr(operator, name) for operator in operators), user_hint, message)


def batch_of(operators: Iterable[Any]) -> tuple[Dim, ...]:
    return broadcast(*(each._dims()[:-2] for each in operators))


def added(numbers: Iterable[Tensor]) -> Tensor:
    return reduce(lambda a, b: a + b, numbers)


def multiplied(numbers: Iterable[Tensor]) -> Tensor:
    return reduce(lambda a, b: a * b, numbers)


def _are_adjoint(x: LinearOperator, y: LinearOperator) -> bool:
    """Returns whether one operator is the adjoint of the other."""
    if x is y and x.is_self_adjoint is not None:
        return x.is_self_adjoint
    return x.H is y or y.H is x


def _is_times_own_adjoint(operators: list[Any]) -> bool:
    """Returns whether a product is of the form ``A @ A.H``."""
    half = len(operators) // 2
    return len(operators) % 2 == 0 and all(map(_are_adjoint, operators[:half], operators[::-1]))


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
        """Infers the hints of a composed operator from hints that all its parts share; otherwise the user's hints count.

        ``known`` maps a hint's name to the user's hint and to an adjective for the error ``message``.
        """
        inferred = []
        for name, (user_hint, adjective) in known.items():
            error_text = message.format(adjective, name, user_hint)
            inferred.append(shared_hint(self._operators, name, user_hint, error_text))
        return inferred


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
        """Creates the product of operators; hints that follow from the operators, as from ``A @ A.H``, are implied."""
        operator_list = as_operator_list(operators)
        message = "The composition of non-singular operators is always non-singular."
        is_non_singular = shared_hint(operator_list, "is_non_singular", is_non_singular, message)
        is_a_times_adjoint = _is_times_own_adjoint(operator_list)
        must_be_self_adjoint = is_a_times_adjoint or (
            len(operator_list) == 1 and bool(operator_list[0].is_self_adjoint)
        )
        message = "The composition was determined to be self-adjoint but user provided incorrect `False` hint."
        is_self_adjoint = hints.implied(must_be_self_adjoint, is_self_adjoint, message)
        message = "The composition was determined %shave the form A @ A.H, hence it must be %s. The user provided an incorrect `False` hint."
        is_square = hints.implied(is_a_times_adjoint, is_square, message % ("", "square"))
        definite = message % ("to be non-singular and ", "positive-definite")
        is_positive_definite = hints.implied(
            is_a_times_adjoint and bool(is_non_singular), is_positive_definite, definite
        )
        self._operators = operator_list
        known = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(operator_list[0].dtype, None, *known, name or "_o_".join(each.name for each in operator_list))

    def _dims(self) -> tuple[Dim, ...]:
        """Returns the dims of the product, after checking that the inner dims of adjacent factors agree."""
        for left, right in zip(self.operators, self.operators[1:]):
            columns, rows = left._dims()[-1], right._dims()[-2]
            if not may_be_same(columns, rows):
                raise ValueError(f"Dimensions {columns} and {rows} are not compatible")
        return (*batch_of(self.operators), self.operators[0]._dims()[-2], self.operators[-1]._dims()[-1])

    def _linop_cholesky(self) -> LinearOperator:
        """Returns the Cholesky factor. For a product L L^H with a lower triangular L it is derived from L.

        A Cholesky factor has a positive diagonal. So each column of L is multiplied by the sign of its diagonal element.
        """
        factor = self.operators[0]
        is_l_times_adjoint = len(self.operators) == 2 and _is_times_own_adjoint(list(self.operators))
        if not is_l_times_adjoint or not isinstance(factor, LinearOperatorLowerTriangular):
            return super()._linop_cholesky()
        if factor.is_positive_definite:
            return factor
        # A diagonal matrix S of signs doesn't change the product: L S (L S)^H = L L^H.
        signs = bind.sign(factor.diag_part())
        known: hints.Known = {
            "is_non_singular": factor.is_non_singular,
            "is_self_adjoint": factor.is_self_adjoint,
            "is_square": True,
        }
        return LinearOperatorLowerTriangular(factor.tril / signs[..., None, :], **known)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        """Multiplies by the factors one after the other; the adjoint of a product has them in reverse order."""
        first, *others = self.operators if adjoint else reversed(self.operators)
        result = first.matmul(x, adjoint=adjoint, adjoint_arg=adjoint_arg)
        for operator in others:
            result = operator.matmul(result, adjoint=adjoint)
        return result

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        """Solves with the factors one after the other; the inverse of a product has them in reverse order."""
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
        if not all(operator.is_square for operator in self.operators):
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
        """Creates the Kronecker product of operators; a hint that all operators have is implied."""
        message = "Expected every operation in argument `operators` to have the same dtype. Received {listed}."
        operator_list = as_operator_list(operators, message)
        known = {
            "is_non_singular": (is_non_singular, "non-singular"),
            "is_self_adjoint": (is_self_adjoint, "self-adjoint"),
            "is_positive_definite": (is_positive_definite, "positive-definite"),
        }
        message = (
            "The Kronecker product of {0} operators is always {0}. Expected argument `{1}` to be True. Received: {2}."
        )
        self._operators = operator_list
        implied = self._hint_all(message, known)
        name = name or "_x_".join(each.name for each in operator_list)
        hinted: hints.Known = dict(zip(hints.NAMES, [*implied, is_square]))
        super().__init__(operator_list[0].dtype, None, **hinted, name=name)

    def _dims(self) -> tuple[Dim, ...]:
        shapes = [each._dims() for each in self.operators]
        row_count = size_of(shape[-2] for shape in shapes)
        column_count = size_of(shape[-1] for shape in shapes)
        return (*batch_of(self.operators), row_count, column_count)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._apply_to_each_axis("matmul", maybe_adjoint(x, adjoint_arg), adjoint)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._apply_to_each_axis("solve", maybe_adjoint(rhs, adjoint_arg), adjoint)

    def _apply_to_each_axis(self, method: str, x: Tensor, adjoint: bool) -> Tensor:
        """Multiplies a Kronecker product by the matrix ``x``, or solves, by one operator after the other.

        The rows of ``x`` are regarded as one axis for each operator. ``method`` ("matmul" or "solve") of an operator is
        applied along its axis, and the axis is moved to the end. At last the columns' axis is first, and is moved back.
        """
        column_count = dims_of(x)[-1]
        # A product takes vectors of an operator's domain, a solution those of its range; the adjoint swaps the two.
        takes_rows = adjoint is (method == "matmul")
        for operator in self.operators:
            *batch, rows, columns = dims_of(x)
            size = operator._dims()[-2 if takes_rows else -1]
            inner_size = simplify_dim(rows * columns // size)
            axis_first = bind.reshape(x, shape=(*batch, size, inner_size))
            applied = getattr(operator, method)(axis_first, adjoint=adjoint)
            x = swapped(applied)
        *batch, rows, columns = dims_of(x)
        row_count = simplify_dim(rows * columns // column_count)
        return swapped(bind.reshape(x, shape=(*batch, column_count, row_count)))

    def _multiplicities(self) -> list[tuple[Any, Tensor]]:
        """Returns each operator with the multiplicity of its eigenvalues in the Kronecker product."""
        size = self._dims()[-1]
        return [
            (operator, to_dtype(simplify_dim(size // operator._dims()[-1]), operator.dtype))
            for operator in self.operators
        ]

    def _determinant(self) -> Tensor:
        return multiplied(each.determinant() ** power for each, power in self._multiplicities())

    def _log_abs_determinant(self) -> Tensor:
        return added(each.log_abs_determinant() * power for each, power in self._multiplicities())

    def _trace(self) -> Tensor:
        return multiplied(each.trace() for each in self.operators)

    def _diag_part(self) -> Tensor:
        return _kronecker_of_vectors([each.diag_part() for each in self.operators])

    def _eigvals(self) -> Tensor:
        return _kronecker_of_vectors([each.eigvals() for each in self.operators])

    def _to_dense(self) -> Tensor:
        return reduce(_kronecker, [convert_to_tensor(each.to_dense()) for each in self.operators])

    def _assert_each(self, method: str) -> None:
        """Calls the assertion ``method`` of each Kronecker factor. Raises InvalidArgumentError if one isn't square."""
        if not all(factor.is_square for factor in self.operators):
            raise InvalidArgumentError(
                None,
                None,
                "All Kronecker factors must be square for the product to be invertible. Expected hint `is_square` to be "
                "True for every operator in argument `operators`.",
            )
        for factor in self.operators:
            getattr(factor, method)()

    def _assert_non_singular(self) -> None:
        self._assert_each("assert_non_singular")

    def _assert_self_adjoint(self) -> None:
        self._assert_each("assert_self_adjoint")


def _kronecker_of_vectors(vectors: list[Tensor]) -> Tensor:
    """Returns the Kronecker product of vectors, which may have batch dims; [a, b] and [c, d] give [ac, ad, bc, bd]."""

    def product_of_two(a: Any, b: Any) -> Tensor:
        products = a[..., :, None] * b[..., None, :]
        *batch, rows, columns = dims_of(products)
        return bind.reshape(products, shape=(*batch, simplify_dim(rows * columns)))  # type: ignore[no-any-return]

    return reduce(product_of_two, vectors)


def _kronecker(a: Any, b: Any) -> Tensor:
    products = a[..., :, None, :, None] * b[..., None, :, None, :]
    *batch, rows, inner_rows, columns, inner_columns = dims_of(products)
    shape = (*batch, simplify_dim(rows * inner_rows), simplify_dim(columns * inner_columns))
    return bind.reshape(products, shape=shape)  # type: ignore[no-any-return]
