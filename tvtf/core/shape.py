"""Shapes: TensorFlow's TensorShape for users, tuples of dims for the compiler.

A *dim* is an ``int`` or a TVM integer expression over symbols (``n``, ``2*n + 1``). Type rules compute with dims by plain
arithmetic and compare them with :func:`same_dim`, which imports TVM only for symbolic dims.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tvtf import dtypes
from tvtf.core.deferred_shape import AnyShape, NoRank
from tvtf.core.tensorboard_protos import shape_proto
from tvtf.core.thread_state import state
from tvtf.core.v1_dimension import Dimension, visible_dim

Dim = Any


class TensorType(NamedTuple):
    """The dims and element type of one tensor, as type rules take and return them."""

    shape: Any
    """A tuple of dims; an ``AnyShape`` where the rank is unknown."""
    dtype: dtypes.DType


def is_static(dim: Dim) -> bool:
    return isinstance(dim, int)


def is_static_shape(shape: Iterable[Dim]) -> bool:
    return all(isinstance(dim, int) for dim in shape)


def same_dim(a: Dim, b: Dim) -> bool:
    """Returns whether two dims, ints or symbolic expressions, are provably equal.

    While tracing, this takes the equalities into account that the trace assumes.

    >>> same_dim(3, 3), same_dim(3, 4)
    (True, False)
    """
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if a is b:
        return True
    if a is None or b is None:  # an unknown dim
        return False
    from tvm import sym

    if state.trace is not None:
        a, b = state.trace.root.known_dim(a), state.trace.root.known_dim(b)
        if isinstance(a, int) and isinstance(b, int):
            return a == b
    return bool(sym.Analyzer().can_prove_equal(a, b))


def may_be_same(a: Dim, b: Dim) -> bool:
    """Returns whether two dims may be equal in some call of the traced function: False only for different ints.

    >>> may_be_same(3, 3), may_be_same(3, 4)
    (True, False)
    """
    return same_dim(a, b) or not (isinstance(a, int) and isinstance(b, int))


def agree_dim(a: Dim, b: Dim) -> bool:
    """Returns whether two dims are equal, or will be checked to be equal when the program runs.

    While tracing, this function adds that check to the program. Dims of the function's arguments are assumed to be equal
    in the whole trace, and each call of the compiled function checks this. Dims that the program computes are compared by
    an op at the current position of the trace. So are all dims in a branch, because it may not be taken.

    >>> agree_dim(3, 3), agree_dim(3, 4)
    (True, False)
    """
    if same_dim(a, b):
        return True
    if a is None or b is None or (isinstance(a, int) and isinstance(b, int)):
        return False
    # Where TVM infers the type of a call, the call is in the program already, after the comparison.
    if state.trace is None or state.infers_type:
        return True
    return bool(state.trace.require_equal(a, b))


def assume_dim(a: Dim, b: Dim) -> bool:
    """Assumes that two dims are equal in the whole trace, if possible. Returns whether they are equal or assumed to be.

    An assumption is possible for dims of the function's arguments only, which each call of the compiled function checks. It
    isn't possible in a branch, because the branch may not be taken.
    """
    if same_dim(a, b):
        return True
    if state.trace is None or state.trace.is_in_branch or state.infers_type:
        return False
    root = state.trace.root
    return not (root.computes(a) or root.computes(b)) and _are_assumed_equal(a, b)


def claim_dim(dim: Dim, size: int, is_parameter: bool) -> bool:
    """Assumes that a dim has the ``size`` that ``set_shape`` declares, if possible. Returns whether it has, or is assumed to.

    A dim that the program computes can be assumed only if it belongs to a loop variable, which ``is_parameter`` says.
    """
    root = state.trace and state.trace.root
    if root is None or not root.computes(dim):
        return assume_dim(dim, size)
    return same_dim(dim, size) or (is_parameter and _are_assumed_equal(dim, size))


def is_calculated(dim: Dim) -> bool:
    """Returns whether a dim is an expression of other dims: neither a number nor the size of a value itself."""
    if isinstance(dim, int) or dim is None:
        return False
    from tvm import tirx

    return not isinstance(dim, tirx.Var)


def _are_assumed_equal(a: Dim, b: Dim) -> bool:
    """Assumes that two different dims are equal for the whole trace, and returns whether that is possible."""
    if state.trace is None or a is None or b is None or (isinstance(a, int) and isinstance(b, int)):
        return False
    return bool(state.trace.root.assume_equal(a, b))


def agree_shape(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Returns whether two shapes are equal or can be assumed to be equal (see :func:`agree_dim`).

    A shape of unknown rank agrees with any other shape: the check is repeated when the function is traced for a known rank.
    """
    if isinstance(a, AnyShape) or isinstance(b, AnyShape):
        return True
    return len(a) == len(b) and all(map(agree_dim, a, b))


def keeps_shape(before: Sequence[Dim], after: Sequence[Dim]) -> bool:
    """Returns whether a loop variable has the same shape ``before`` and ``after`` an iteration, or is assumed to have.

    A loop variable whose rank is known before must have a known rank after the iteration.
    """
    if isinstance(before, AnyShape):
        return True
    if isinstance(after, AnyShape) or len(before) != len(after):
        return False
    return all(
        same_dim(old_dim, new_dim) or _are_assumed_equal(old_dim, new_dim) for old_dim, new_dim in zip(before, after)
    )


def agree_rank(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Returns whether two shapes have the same rank; True if a rank is unknown.

    In that case the check is repeated when the function is traced for a known rank.
    """
    return isinstance(a, AnyShape) or isinstance(b, AnyShape) or len(a) == len(b)


def same_shape(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    return len(a) == len(b) and all(map(same_dim, a, b))


def simplify_dim(dim: Dim) -> Dim:
    """Simplifies the expression of a symbolic dim with TVM. Returns an ``int`` if the expression is constant.

    An int, or None for an unknown dim, is returned unchanged.
    """
    # TVM is imported only for symbolic dims, as its import takes long.
    if isinstance(dim, int) or dim is None:
        return dim
    from tvm import sym, tirx

    simplified = sym.Analyzer().simplify(dim)
    return int(simplified.value) if isinstance(simplified, tirx.IntImm) else simplified


def substitute_dim(dim: Dim, values: Mapping[Any, Dim]) -> Dim:
    """Returns a dim with symbols replaced by ``values``, simplified. For example, ``n + 1`` and ``{n: 2}`` give 3."""
    if isinstance(dim, int) or not values:
        return dim
    from tvm import ir, tirx

    from tvtf.core.tvm_visitor import structural_map

    def value(symbol: Any) -> Any:
        """Returns the replacement of a symbol as an expression of TVM; the symbol itself if it has none."""
        dim = values.get(symbol, symbol)
        return tirx.IntImm("int64", dim) if isinstance(dim, int) else dim

    return simplify_dim(structural_map(dim, (ir.Var, value)))


def solve_for_symbol(a: Dim, b: Dim) -> tuple[Any, Dim] | None:
    """Solves the equation ``a == b`` between two dims for a symbol that has the coefficient 1 or -1 in it.

    Returns the symbol and its value, or None if no symbol has such a coefficient.

    >>> n, m = fresh_dim("n"), fresh_dim("m")
    >>> str(solve_for_symbol(10, m + 10 - n)), solve_for_symbol(2 * n, 3), solve_for_symbol(n, n + 1)
    ('(n, m)', None, None)
    """
    from tvm import sym, tirx

    difference = simplify_dim(a - b)
    if isinstance(difference, int):  # no symbol is left
        return None
    for symbol in tirx.analysis.undefined_vars(difference):
        coefficients = sym.detect_linear_equation(difference, [symbol])
        # The difference is `factor * symbol + offset`, with coefficients `[factor, offset]`, if it is linear.
        factor = simplify_dim(coefficients[0]) if coefficients else 0
        # The difference is zero for `symbol = -offset / factor`. Other factors than 1 and -1 may leave a remainder.
        if factor in (1, -1):
            return symbol, simplify_dim(-factor * coefficients[1])
    return None


def size_of(shape: Iterable[Dim]) -> Dim:
    """Returns the number of elements of a shape: the product of the dims.

    >>> size_of((2, 3)), size_of(())
    (6, 1)
    """
    return simplify_dim(math.prod(shape))


def fresh_dim(name: str) -> Dim:
    """Returns a new symbolic dim: a TVM variable that differs from all others, also from those of the same name."""
    from tvm import tirx

    return tirx.Var(name, "int64")


def broadcast_dim(a: Dim, b: Dim, fit: Callable[[Dim, Dim], bool] = agree_dim) -> Dim | None:
    """Returns the dim that two dims of one axis broadcast to, or None if they can't be broadcast.

    ``fit`` returns whether two dims are equal.
    """
    if isinstance(a, int) and a == 1:
        return b
    if (isinstance(b, int) and b == 1) or fit(a, b):
        return a
    return None


def broadcast_shapes(
    a: Sequence[Dim], b: Sequence[Dim], fit: Callable[[Dim, Dim], bool] = agree_dim
) -> tuple[Dim, ...] | None:
    """Returns the shape that two shapes broadcast to by NumPy's rules, or None if they can't be broadcast.

    ``fit`` returns whether two dims are equal.

    >>> broadcast_shapes((8, 1, 3), (4, 1))
    (8, 4, 3)
    """
    rank = max(len(a), len(b))
    padded_a = (1,) * (rank - len(a)) + tuple(a)
    padded_b = (1,) * (rank - len(b)) + tuple(b)
    dims = tuple(broadcast_dim(a_dim, b_dim, fit) for a_dim, b_dim in zip(padded_a, padded_b))
    return None if any(dim is None for dim in dims) else dims


def brackets(shape: Iterable[Any]) -> str:
    """Formats a shape as TensorFlow's kernels print it.

    >>> brackets((2, 3)), brackets((None,))
    ('[2,3]', '[?]')
    """
    return f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"


def show_shape(shape: Iterable[Dim]) -> str:
    """Formats a shape as Python writes a tuple, for messages. Symbolic dims are printed by name.

    >>> show_shape((2, 3)), show_shape((4,))
    ('(2, 3)', '(4,)')
    """
    parts = [str(dim) for dim in shape]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


class TensorShape:
    """The shape of a tensor as TensorFlow shows it; unknown dims are None, an unknown rank is ``TensorShape(None)``.

    >>> TensorShape([None, 3]), TensorShape([2, 3]).num_elements()
    (TensorShape([None, 3]), 6)

    Source: https://www.tensorflow.org/api_docs/python/tf/TensorShape
    """

    __slots__ = ("_dims",)

    def __init__(self, dims: Any) -> None:
        """Creates a shape from a shape, an int or an iterable of dims; from None, a shape of unknown rank."""
        unknown = dims is None or isinstance(dims, AnyShape) or (isinstance(dims, TensorShape) and dims.rank is None)
        self._dims = None if unknown else tuple(map(visible_dim, dims_of(dims)))

    @property
    def rank(self) -> int | None:
        return None if self._dims is None else len(self._dims)

    @property
    def ndims(self) -> int | None:
        return self.rank

    @property
    def dims(self) -> list[Any] | None:
        return None if self._dims is None else [Dimension(dim) for dim in self._dims]

    def as_list(self) -> list[int | None]:
        if self._dims is None:
            raise NoRank("as_list() is not defined on an unknown TensorShape.")
        return list(self._dims)

    def as_proto(self) -> Any:
        """Converts the shape to a TensorShapeProto message.

        Raises:
          ImportError: the ``tensorboard`` extra is not installed.
        """
        return shape_proto(self._dims)

    def is_fully_defined(self) -> bool:
        return self._dims is not None and None not in self._dims

    def num_elements(self) -> int | None:
        return math.prod(self._dims) if self.is_fully_defined() else None  # type: ignore[arg-type]

    def is_compatible_with(self, other: Any) -> bool:
        """Returns whether some concrete shape matches both shapes: an unknown dim matches any size."""
        own_dims, other_dims = self._dims, as_shape(other)._dims
        if own_dims is None or other_dims is None:  # an unknown rank
            return True
        if len(own_dims) != len(other_dims):
            return False
        return all(
            own_dim is None or other_dim is None or own_dim == other_dim
            for own_dim, other_dim in zip(own_dims, other_dims)
        )

    def assert_is_compatible_with(self, other: Any) -> None:
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are incompatible")

    def assert_has_rank(self, rank: int) -> None:
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_same_rank(self, other: Any) -> None:
        other = as_shape(other)
        if None not in (self.rank, other.rank) and self.rank != other.rank:
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def assert_is_fully_defined(self) -> None:
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """Returns this shape with each dim that differs from ``other`` replaced by an unknown dim."""
        return self.most_specific_common_supertype([as_shape(other)]) or TensorShape(None)

    def with_rank_at_least(self, rank: int) -> TensorShape:
        if self.rank is not None and self.rank < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        if self.rank is not None and self.rank > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def merge_with(self, other: Any) -> TensorShape:
        """Combines two shapes: returns a shape with each dim known that is known in this shape or in ``other``.

        Raises:
          ValueError: the shapes differ in rank or in a known dim.
        """
        other = as_shape(other)
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are not compatible")
        if self._dims is None or other._dims is None:
            return other if self._dims is None else self
        if None not in self._dims:  # all dims are known already
            return self
        dims = [other_dim if own_dim is None else own_dim for own_dim, other_dim in zip(self._dims, other._dims)]
        return TensorShape(dims)

    def is_subtype_of(self, other: Any) -> bool:
        """Returns whether every concrete shape that matches this shape matches ``other``, too."""
        if not isinstance(other, TensorShape):
            return False
        if other._dims is None:  # a shape of unknown rank includes all shapes
            return True
        if self._dims is None or len(self) != len(other):
            return False
        return all(other_dim is None or own_dim == other_dim for own_dim, other_dim in zip(self._dims, other._dims))

    def most_specific_common_supertype(self, others: Sequence[Any]) -> TensorShape | None:
        """Returns the most specific shape that includes this shape and all ``others``, or None for a non-shape among them.

        A dim in which the shapes differ is unknown in the result: ``(2, 3)`` and ``(4, 3)`` give ``(None, 3)``.
        """
        if not all(isinstance(other, TensorShape) for other in others):
            return None
        if self._dims is None or any(other.rank != self.rank for other in others):
            return TensorShape(None)
        common_dims = list(self._dims)
        for axis, dim in enumerate(self._dims):
            if any(other[axis] != dim for other in others):
                common_dims[axis] = None
        return TensorShape(common_dims)

    def concatenate(self, other: Any) -> TensorShape:
        other = as_shape(other)
        return TensorShape(None if self._dims is None or other._dims is None else self._dims + other._dims)

    def with_rank(self, rank: int) -> TensorShape:
        self.assert_has_rank(rank)
        return self.merge_with(TensorShape([None] * rank))

    def __len__(self) -> int:
        if self._dims is None:
            raise NoRank("Cannot take the length of shape with unknown rank.")
        return len(self._dims)

    def __iter__(self) -> Iterator[int | None]:
        if self._dims is None:
            raise NoRank("Cannot iterate over a shape with unknown rank.")
        return iter(self._dims)

    def __getitem__(self, key: Any) -> Any:
        if self._dims is None:  # unknown rank: each dim is unknown, and so is the rank of a slice
            return TensorShape(None) if isinstance(key, slice) else None
        return TensorShape(self._dims[key]) if isinstance(key, slice) else self._dims[key]

    def __bool__(self) -> bool:
        return self._dims is not None

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return as_shape(other).concatenate(self)

    def __eq__(self, other: object) -> bool:
        try:
            return self._dims == as_shape(other)._dims
        except TypeError:
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self._dims)

    def __repr__(self) -> str:
        return f"TensorShape({'None' if self._dims is None else list(self._dims)})"

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        return f"({self._dims[0]},)" if len(self._dims) == 1 else f"({', '.join(map(str, self._dims))})"


def dims_of(dims: Any) -> Sequence[Any]:
    """Returns the dims of a value that TensorShape's constructor accepts: a shape, an int, or an iterable, but not None."""
    if isinstance(dims, TensorShape):
        return dims.as_list()
    if isinstance(dims, (int, np.integer)):
        return (dims,)
    if isinstance(dims, str):  # an iterable, too, but of characters
        raise TypeError(f"Dimension value must be integer or None or have an __index__ method, got value {dims!r}")
    return list(dims)


def as_shape(value: Any) -> TensorShape:
    """Converts a shape, None, an int or an iterable of dims to a TensorShape."""
    return value if isinstance(value, TensorShape) else TensorShape(value)
