"""Arithmetic on dims for slices and ranges: minimum, maximum and division, exact for ints, else symbolic."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.shape import Dim, same_dim, simplify_dim
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.text_format import HOLE
from tvtf.dtypes import int64
from tvtf.ops.rules import bind


def _analyzer(*dims: Dim) -> Any:
    """Creates TVM's arithmetic analyzer, which may assume that the variables in ``dims`` are not negative.

    The variables are sizes.
    """
    from tvm import sym, tirx

    from tvtf.core.tvm_visitor import structural_walk

    analyzer = sym.Analyzer()
    non_negative = sym.ConstIntBound(0, sym.ConstIntBound.POS_INF)
    for dim in dims:
        if not isinstance(dim, int):
            structural_walk(dim, (tirx.Var, lambda var: analyzer.update(var, non_negative, override=True)))
    return analyzer


def proves(condition: Any, *dims: Dim) -> bool:
    """Returns whether a comparison of dims is provable for all values of the symbolic ones."""
    return condition if isinstance(condition, bool) else bool(_analyzer(*dims).can_prove(condition))


def dim_min(a: Dim, b: Dim) -> Dim:
    """Returns the smaller of two dims, or the symbolic minimum if neither is provably smaller.

    >>> dim_min(2, 3)
    2
    """
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if proves(a <= b, a, b):
        return a
    return b if proves(b <= a, a, b) else _tirx().min(_long(a), _long(b))


def dim_max(a: Dim, b: Dim) -> Dim:
    """Returns the larger of two dims, or the symbolic maximum if neither is provably larger.

    >>> dim_max(2, 3)
    3
    """
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    if proves(a >= b, a, b):
        return a
    return b if proves(b >= a, a, b) else _tirx().max(_long(a), _long(b))


def at_least_zero(dim: Dim) -> Dim:
    return simplify_dim(dim_max(dim, 0))


def ceil_div(dim: Dim, step: int) -> Dim:
    """Divides a dim by a positive int, rounding up.

    >>> ceil_div(7, 2)
    4
    """
    return dim if step == 1 else simplify_dim((dim + (step - 1)) // step)


def from_end(index: Dim, extent: Dim) -> Dim:
    """Converts a Python index to one that counts from the start. For example, -1 and extent 3 give 2.

    The sign of a symbolic index may be known only at run time, which then selects the result.
    """
    if proves(index >= 0, index):
        return index
    if proves(index < 0, index):
        return simplify_dim(index + extent)
    return _tirx().Select(index < 0, _long(index) + extent, _long(index))


def scalar_of(dim: Dim) -> Tensor:
    """Returns a dim as an int64 scalar tensor."""
    if isinstance(dim, int):
        return EagerTensor(np.array(dim))
    return bind.reshape(bind.range(size=1, start=dim, delta=1, dtype=int64), shape=())


def _long(dim: Dim) -> Any:
    return _tirx().IntImm("int64", dim) if isinstance(dim, int) else dim


def _tirx() -> Any:
    from tvm import tirx

    return tirx


def stretching_guard(own: Sequence[Dim], wide: Sequence[Dim]) -> list[Any]:
    """Returns the run-time check that a shape broadcasts to another: each dim is 1 or the other's dim.

    No check is needed if tracing proves that. The check is a tuple of the condition, the error's message, and the dims
    that fill the message's placeholders.

    Args:
      own: the shape to broadcast.
      wide: the shape to which it is broadcast.
    """
    trailing = wide[len(wide) - len(own) :]  # broadcasting aligns shapes at their last axes
    conditions = []
    for dim, wide_dim in zip(own, trailing):
        is_proven = (isinstance(dim, int) and dim == 1) or same_dim(dim, wide_dim)
        if not is_proven:
            are_equal = bind.equal(scalar_of(dim), scalar_of(wide_dim))
            is_one = bind.equal(scalar_of(dim), scalar_of(1))
            conditions.append(bind.logical_or(are_equal, is_one))
    if not conditions:
        return []
    own_text = ",".join([HOLE] * len(own))
    wide_text = ",".join([HOLE] * len(wide))
    message = f"Incompatible shapes: [{own_text}] vs. [{wide_text}]"
    all_hold = functools.reduce(bind.logical_and, conditions)
    message_dims = map(scalar_of, (*own, *wide))
    return [(all_hold, message, *message_dims)]
