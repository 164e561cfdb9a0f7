"""Block diagonal and block lower triangular operators, whose blocks are operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tvtf.composites.linear import hints
from tvtf.composites.linear.algebra import (
    broadcast_batches,
    column,
    concat_columns,
    concat_rows,
    dims_of,
    maybe_adjoint,
    without_last_dim,
    zeros,
)
from tvtf.composites.linear.composed import (
    OperatorOfOperators,
    PartwiseOperator,
    added,
    as_operator_list,
    batch_of,
    multiplied,
)
from tvtf.composites.linear.dense import LinearOperatorFullMatrix
from tvtf.composites.linear.identity import LinearOperatorScaledIdentity
from tvtf.composites.linear.operator import LinearOperator, of_any_rank
from tvtf.composites.linear.sums import has_special_sum, sum_of
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, may_be_same, simplify_dim
from tvtf.core.tensor import Tensor, convert_to_tensor, is_tensor
from tvtf.ops.rules import bind


def _are_blocks(sizes: Sequence[Any], x: Any, axis: int) -> bool:
    """Returns whether an argument of a block operator is a list of blocks, as opposed to a tensor written as a list.

    ``sizes`` are the static sizes of the operator's blocks, which the blocks' dims at ``axis`` must have.

    Raises:
      ValueError: the argument could be a list of blocks or a tensor, or has the dims of neither.
    """
    if not isinstance(x, (list, tuple)) or len(x) != len(sizes):
        return False
    # Nested lists are the rows of one tensor.
    if any(isinstance(block, (list, tuple, dict)) for block in x):
        return False
    dims = [convert_to_tensor(block).shape[axis] for block in x]
    if all(size is None for size in sizes):
        if len(dims) == 1:
            return False
        if any(size != dims[0] for size in dims):
            return True
        raise ValueError(
            "Parsing of the input structure is ambiguous. Please input a blockwise iterable of `Tensor`s or a single `Tensor`."
        )
    if all(size in (None, dim) for size, dim in zip(sizes, dims)):
        return True
    # Items of one size are the rows of a tensor if there is room for all blocks.
    if all(dim == dims[0] for dim in dims) and dims[0] >= sum(size or 0 for size in sizes):
        return False
    raise ValueError("Input dimension does not match operator dimension.")


class _Blocks(OperatorOfOperators):
    """The base class of block operators, whose arguments may be lists of blocks."""

    def _diagonal_blocks(self) -> list[Any]:
        raise NotImplementedError

    def _sizes(self, axis: int) -> list[Dim]:
        return [each._dims()[axis] for each in self._diagonal_blocks()]

    def _static_sizes(self, axis: int) -> list[int | None]:
        return [each.shape[axis] for each in self._diagonal_blocks()]

    @of_any_rank
    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """Returns the product with a tensor, an operator, or a list of the argument's blocks."""
        blocks = self._blocks_of(x, -2 if adjoint else -1, -1 if adjoint_arg else -2)
        if blocks is None:
            return super().matmul(x, adjoint, adjoint_arg, name)
        return self._matmul_blocks(blocks, adjoint, adjoint_arg)

    @of_any_rank
    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        """Returns the product with vectors, or with a list of their blocks."""
        blocks = self._blocks_of(x, -2 if adjoint else -1, -1)
        if blocks is None:
            return super().matvec(x, adjoint, name)
        return list(map(without_last_dim, self._matmul_blocks(list(map(column, blocks)), adjoint, False)))

    @of_any_rank
    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """Returns the solution for a tensor, an operator, or a list of the argument's blocks."""
        blocks = self._blocks_of(rhs, -1 if adjoint else -2, -1 if adjoint_arg else -2)
        if blocks is None:
            return super().solve(rhs, adjoint, adjoint_arg, name)
        return self._solve_blocks(blocks, adjoint, adjoint_arg)

    @of_any_rank
    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        """Returns the solution for vectors, or for a list of their blocks."""
        blocks = self._blocks_of(rhs, -1 if adjoint else -2, -1)
        if blocks is None:
            return super().solvevec(rhs, adjoint, name)
        return list(map(without_last_dim, self._solve_blocks(list(map(column, blocks)), adjoint, False)))

    def _blocks_of(self, x: Any, operator_axis: int, axis: int) -> list[Tensor] | None:
        """Returns the checked blocks of an argument, or None for an operator or a tensor."""
        if not _are_blocks(self._static_sizes(operator_axis), x, axis):
            return None
        return [each._argument(block, operator_axis, axis) for each, block in zip(self._diagonal_blocks(), x)]

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        parts = _split_rows(maybe_adjoint(x, adjoint_arg), self._sizes(-2 if adjoint else -1))
        return concat_rows(self._matmul_blocks(parts, adjoint, False))

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        parts = _split_rows(maybe_adjoint(rhs, adjoint_arg), self._sizes(-1 if adjoint else -2))
        return concat_rows(self._solve_blocks(parts, adjoint, False))

    def _matmul_blocks(self, parts: Sequence[Any], adjoint: bool, adjoint_arg: bool) -> list[Tensor]:
        raise NotImplementedError

    def _solve_blocks(self, parts: Sequence[Any], adjoint: bool, adjoint_arg: bool) -> list[Tensor]:
        raise NotImplementedError

    def _determinant(self) -> Tensor:
        return multiplied(each.determinant() for each in self._diagonal_blocks())

    def _log_abs_determinant(self) -> Tensor:
        return added(each.log_abs_determinant() for each in self._diagonal_blocks())

    def _of_square_blocks(self, method: str, function: Callable[[Any], Tensor]) -> list[Tensor]:
        if not all(block.is_square for block in self._diagonal_blocks()):
            raise NotImplementedError(f"`{method}` not implemented for an operator whose blocks are not square.")
        return [function(block) for block in self._diagonal_blocks()]

    def _diag_part(self) -> Tensor:
        return without_last_dim(concat_rows(self._of_square_blocks("diag_part", lambda each: column(each.diag_part()))))

    def _eigvals(self) -> Tensor:
        return without_last_dim(concat_rows(self._of_square_blocks("eigvals", lambda each: column(each.eigvals()))))

    def _trace(self) -> Tensor:
        return added(self._of_square_blocks("trace", lambda each: each.trace()))

    def _assert_non_singular(self) -> None:
        for each in self._diagonal_blocks():
            each.assert_non_singular()


def _split_rows(x: Tensor, sizes: Sequence[Dim]) -> list[Tensor]:
    """Splits matrices into parts of given numbers of rows."""
    parts, start = [], 0
    for row_count in sizes:
        parts.append(x[..., start : simplify_dim(start + row_count), :])  # type: ignore[index]
        start = simplify_dim(start + row_count)
    return parts


def _dense_from_rows(rows: Sequence[Sequence[Any]], columns: Dim) -> Tensor:
    """Concatenates rows of dense blocks to a dense matrix; each row is padded on the right with zeros to ``columns``.

    The blocks' batch dims are broadcast first.
    """
    all_blocks = broadcast_batches(*(block for row in rows for block in row))
    remaining_blocks = iter(all_blocks)
    padded_rows = []
    for row in rows:
        blocks = [next(remaining_blocks) for _ in row]
        width = sum(dims_of(block)[-1] for block in blocks)
        *batch_and_rows, _ = dims_of(blocks[0])
        padding = zeros((*batch_and_rows, simplify_dim(columns - width)), blocks[0].dtype)
        padded_rows.append(concat_columns([*blocks, padding]))
    return concat_rows(padded_rows)


@export("linalg.LinearOperatorBlockDiag")
class LinearOperatorBlockDiag(_Blocks, PartwiseOperator):
    """The block diagonal operator of a list of operators.

    Args:
      operators: a list of `LinearOperator`s of the same dtype.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.

    Raises:
      TypeError: the operators' dtypes differ.
      ValueError: the list is empty, or a hint contradicts the operators'.

    >>> import tvtf as tf
    >>> a = tf.linalg.LinearOperatorFullMatrix([[1., 2.], [3., 4.]])
    >>> operator = tf.linalg.LinearOperatorBlockDiag([a, tf.linalg.LinearOperatorIdentity(1)])
    >>> operator.to_dense().numpy()
    array([[1., 2., 0.],
           [3., 4., 0.],
           [0., 0., 1.]], dtype=float32)
    >>> [part.numpy() for part in operator.matvec([tf.constant([1., 1.]), tf.constant([5.])])]
    [array([3., 7.], dtype=float32), array([5.], dtype=float32)]

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorBlockDiag
    """

    def __init__(
        self,
        operators: Any,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = True,
        name: str | None = None,
    ) -> None:
        """Creates the operator from its blocks; a hint that all blocks have is implied."""
        blocks = as_operator_list(operators)
        known = {
            "is_non_singular": (is_non_singular, "non-singular"),
            "is_self_adjoint": (is_self_adjoint, "self-adjoint"),
            "is_positive_definite": (is_positive_definite, "positive definite"),
        }
        message = "The direct sum of {0} operators is always {0}."
        self._operators = blocks
        implied = self._hint_all(message, known)
        name = name or "_ds_".join(each.name for each in blocks)
        hinted: hints.Known = dict(zip(hints.NAMES, [*implied, is_square]))
        super().__init__(blocks[0].dtype, None, **hinted, name=name)

    def _diagonal_blocks(self) -> list[Any]:
        return list(self.operators)

    def _dims(self) -> tuple[Dim, ...]:
        return (*batch_of(self.operators), simplify_dim(sum(self._sizes(-2))), simplify_dim(sum(self._sizes(-1))))

    def _linop_matmul(self, right: LinearOperator) -> LinearOperator:
        return self._combine_blockwise(right, "multiply two", "matmul") or super()._linop_matmul(right)

    def _linop_solve(self, right: LinearOperator) -> LinearOperator:
        return self._combine_blockwise(right, "solve", "solve") or super()._linop_solve(right)

    def _combine_blockwise(self, right: LinearOperator, action: str, method: str) -> LinearOperator | None:
        """Multiplies this operator, or its inverse, by a block diagonal operator, one pair of blocks at a time.

        The result is block diagonal: its blocks are the results of the pairs. If ``right`` isn't block diagonal, the
        result is None, and the caller uses the general method.

        Args:
          right: the operator on the right side.
          action: what errors call the operation, in TensorFlow's words: "multiply two" or "solve".
          method: the method of the blocks that is called with the other operator's block: "matmul" or "solve".

        Raises:
          ValueError: the operators have different numbers of blocks, or two blocks don't match in size.
        """
        if not isinstance(right, LinearOperatorBlockDiag):
            return None
        if len(self.operators) != len(right.operators):
            message_end = "s together when" if method == "matmul" else " when"
            raise ValueError(
                f"Can not efficiently {action} `LinearOperatorBlockDiag`{message_end} number of blocks differ."
            )
        block_pairs = list(zip(self.operators, right.operators))
        for left_block, right_block in block_pairs:
            # Columns on the left must be as many as rows on the right. Symbolic sizes are assumed to match.
            if not may_be_same(left_block._dims()[-1], right_block._dims()[-2]):
                sizes = f"{left_block.domain_dimension} but got {right_block.range_dimension}"
                raise ValueError(f"Blocks are incompatible. Expected `x` to have dimension {sizes}.")
        result_blocks = [getattr(left_block, method)(right_block) for left_block, right_block in block_pairs]
        return LinearOperatorBlockDiag(result_blocks, is_non_singular=hints.non_singular(self, right), is_square=True)

    def _matmul_blocks(self, parts: Sequence[Any], adjoint: bool, adjoint_arg: bool) -> list[Tensor]:
        return [
            each.matmul(part, adjoint=adjoint, adjoint_arg=adjoint_arg) for each, part in zip(self.operators, parts)
        ]

    def _solve_blocks(self, parts: Sequence[Any], adjoint: bool, adjoint_arg: bool) -> list[Tensor]:
        return [each.solve(part, adjoint=adjoint, adjoint_arg=adjoint_arg) for each, part in zip(self.operators, parts)]

    def _to_dense(self) -> Tensor:
        """Returns the dense block diagonal matrix: each block's rows are padded with zeros on both sides."""
        *batch, _, columns = self._dims()
        rows: list[list[Any]] = []
        columns_before: Dim = 0
        for block in self.operators:
            block_rows, block_columns = block._dims()[-2:]
            row = [block.to_dense()]
            if not _is_zero(columns_before):
                row.insert(0, zeros((*batch, block_rows, columns_before), self.dtype))
            rows.append(row)
            columns_before = simplify_dim(columns_before + block_columns)
        return _dense_from_rows(rows, columns)

    def _assert_self_adjoint(self) -> None:
        for each in self.operators:
            each.assert_self_adjoint()

    def _assert_positive_definite(self) -> None:
        for each in self.operators:
            each.assert_positive_definite()


def _is_zero(dim: Dim) -> bool:
    return isinstance(dim, int) and dim == 0


@export("linalg.LinearOperatorBlockLowerTriangular")
class LinearOperatorBlockLowerTriangular(_Blocks):
    """The block lower triangular operator of rows of operators.

    Args:
      operators: a list of rows: row ``i`` is a list of ``i + 1`` `LinearOperator`s, of which the last is square.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.

    Raises:
      TypeError: the operators' dtypes differ.
      ValueError: blocks don't fit, or a hint contradicts the operators'.

    >>> import tvtf as tf
    >>> full = tf.linalg.LinearOperatorFullMatrix
    >>> operator = tf.linalg.LinearOperatorBlockLowerTriangular([[full([[2.]])], [full([[3.]]), full([[4.]])]])
    >>> operator.to_dense().numpy()
    array([[2., 0.],
           [3., 4.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorBlockLowerTriangular
    """

    def __init__(
        self,
        operators: Any,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str = "LinearOperatorBlockLowerTriangular",
    ) -> None:
        """Creates the operator from its rows of blocks, after checks of their sizes and of the hints."""
        if not isinstance(operators, Iterable) or is_tensor(operators):
            raise TypeError(f"Expected argument 'values' to be a \"proper\" iterable.  Found: {type(operators)}")
        rows = [list(row) for row in operators]
        if not rows:
            raise ValueError(f"Argument `operators` must be a list of >=1 operators. Received: {rows}.")
        as_operator_list([operator for row in rows for operator in row])  # checks their types
        _check_triangular(rows)
        diagonal = [row[-1] for row in rows]
        is_non_singular = _infer_non_singular(diagonal, is_non_singular)
        message = f"`LinearOperatorBlockLowerTriangular` must be square. Expected argument `is_square` to be True. Received: {is_square}."
        is_square = hints.always(is_square, True, message)
        _check_square(diagonal)
        self._operators = rows
        known = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(rows[0][0].dtype, None, *known, name)

    def _diagonal_blocks(self) -> list[Any]:
        return [row[-1] for row in self.operators]

    def _dims(self) -> tuple[Dim, ...]:
        batch = batch_of(each for row in self.operators for each in row)
        return (*batch, simplify_dim(sum(self._sizes(-2))), simplify_dim(sum(self._sizes(-1))))

    def _matmul_blocks(self, parts: Sequence[Any], adjoint: bool, adjoint_arg: bool) -> list[Tensor]:
        """Multiplies a block lower triangular operator by a matrix, given as one part of rows for each block column.

        Part i of the result is the sum over j of ``L[i][j] @ parts[j]``, or of ``L[j][i]^H @ parts[j]`` for the adjoint.
        """
        count = len(self.operators)
        result = []
        for i in range(count):
            if adjoint:  # column i has blocks from the diagonal down
                blocks = {j: self.operators[j][i] for j in range(i, count)}
            else:  # row i has blocks up to the diagonal
                blocks = {j: self.operators[i][j] for j in range(i + 1)}
            products = [block.matmul(parts[j], adjoint=adjoint, adjoint_arg=adjoint_arg) for j, block in blocks.items()]
            result.append(added(products))
        return result

    def _solve_blocks(self, parts: Sequence[Any], adjoint: bool, adjoint_arg: bool) -> list[Tensor]:
        """Solves a block lower triangular system by forward substitution, or for the adjoint by backward substitution.

        ``parts`` are the right-hand side's rows for each block.
        """
        count = len(self.operators)
        order = range(count - 1, -1, -1) if adjoint else range(count)
        solution: dict[int, Tensor] = {}
        for i in order:
            remainder = maybe_adjoint(convert_to_tensor(parts[i]), adjoint_arg)
            for j, solved_part in solution.items():
                block = self.operators[j][i] if adjoint else self.operators[i][j]
                remainder = remainder - block.matmul(solved_part, adjoint=adjoint)
            solution[i] = self.operators[i][i].solve(remainder, adjoint=adjoint)
        return [solution[i] for i in range(count)]

    def _linop_inverse(self) -> LinearOperator:
        """Returns the inverse, a block lower triangular operator.

        The rows above the bottom row are inverted first. The bottom row of the inverse of ``[[A, 0], [b, c]]`` then is
        ``[-c^-1 b A^-1, c^-1]``.
        """
        *above, bottom = self.operators
        bottom_inverse = bottom[-1].inverse()
        if not above:
            return LinearOperatorBlockLowerTriangular([[bottom_inverse]], **hints.of(self))
        inverse_above: Any = LinearOperatorBlockLowerTriangular(above).inverse()
        minus_identity = LinearOperatorScaledIdentity(bottom_inverse._dims()[-1], convert_to_tensor(-1, self.dtype))
        bottom_row = []
        for i in range(len(above)):
            inverse_column = [inverse_row[i] for inverse_row in inverse_above.operators[i:]]  # from the diagonal down
            product = bottom_inverse.matmul(_sum_of_products(bottom[i:-1], inverse_column))
            bottom_row.append(minus_identity.matmul(product))
        return LinearOperatorBlockLowerTriangular(
            [*map(list, inverse_above.operators), [*bottom_row, bottom_inverse]], **hints.of(self)
        )

    def _determinant(self) -> Tensor:
        if all(each.is_positive_definite for each in self._diagonal_blocks()):
            return bind.exp(self._log_abs_determinant())  # type: ignore[no-any-return]
        return super()._determinant()

    def _to_dense(self) -> Tensor:
        return _dense_from_rows([[each.to_dense() for each in row] for row in self.operators], self._dims()[-1])


def _sum_of_products(left_operators: Sequence[Any], right_operators: Sequence[Any]) -> LinearOperator:
    """Returns the sum of the products of corresponding operators in two lists.

    A product without a special form for sums is converted to a dense matrix first.

    Args:
      left_operators, right_operators: the left and the right factors.
    """
    products = []
    for left, right in zip(left_operators, right_operators):
        product = left.matmul(right)
        if not has_special_sum(product):
            product = LinearOperatorFullMatrix(product.to_dense())
        products.append(product)
    return sum_of(products)


def _check_triangular(rows: list[list[Any]]) -> None:
    """Checks the blocks of a lower triangular operator, or raises ValueError.

    Row ``i`` must have ``i + 1`` blocks. Blocks in a row must have the same number of rows, and blocks in a column the
    same number of columns.
    """
    for i, row in enumerate(rows):
        if len(row) != i + 1:
            raise ValueError(f"Argument `operators[{i}]` must contain `{i + 1}` blocks. Received: {len(row)} blocks.")
        for j in range(i):
            _check_equal_dims((i, j), (i - 1, j), rows, "domain_dimension")
            _check_equal_dims((i, j), (i, j + 1), rows, "range_dimension")


def _check_equal_dims(first: tuple[int, int], second: tuple[int, int], rows: list[list[Any]], dimension: str) -> None:
    sizes = [getattr(rows[i][j], dimension) for i, j in (first, second)]
    if None not in sizes and sizes[0] != sizes[1]:
        texts = [f"`operators[{i}][{j}].{dimension}` ({size})" for (i, j), size in zip((first, second), sizes)]
        raise ValueError(f"Argument {texts[0]} must be the same as {texts[1]}.")


def _infer_non_singular(diagonal: list[Any], hint: hints.Hint) -> hints.Hint:
    """Infers the hint ``is_non_singular`` of a block lower triangular operator from the blocks on its diagonal.

    Returns None if these don't determine it. Raises ValueError if the user's ``hint`` contradicts them.
    """
    block_hints = [block.is_non_singular for block in diagonal]
    if all(block_hints):
        subject, fact = "non-singular operators", True
    elif any(block_hint is False for block_hint in block_hints):
        subject, fact = "a singular operator", False
    else:
        return None
    message = (
        f"A blockwise lower-triangular operator with {subject} on the main diagonal is always "
        f"{'non-singular' if fact else 'singular'}. Expected argument `is_non_singular` to be True. Received: {hint}."
    )
    return hints.always(hint, fact, message)


def _check_square(diagonal: list[Any]) -> None:
    """Checks that no operator on the diagonal is hinted to be non-square."""
    for i, each in enumerate(diagonal):
        if each.is_square is False:
            raise ValueError(
                "Matrices on the diagonal (the final elements of each row-partition in the `operators` list) must be square. "
                f"Expected argument `operators[{i}][-1].is_square` to be True. Received: {each.is_square}."
            )
