"""Access patterns: how an expression moves through memory when a loop variable steps (strides, reuse), and its cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir import Call, TensorLoad
from tvm.tirx import BufferStore, For, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu.emit import as_expr, simplified, static, with_serial_loops
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, substitute, variables

MAX_CACHED_STRIDES = 2048
"""Size of the caches of strides. Plans of one reduction need the same ones: 26,024 times for 1,523 in a U-Net's training
step."""
FREE_CALLS = {"prim.if_then_else", "tirx.if_then_else", "tirx.likely"}
CHEAP_CALLS = {"tirx.isnan"}
CALL_OPERATIONS = 12
"""Number of operations that a call of a math function counts as."""


def flat_offset(buffer: Var, indices: list[ir.Expr]) -> ir.Expr:
    """Returns the row-major offset, in elements, of the element of a buffer at some indices.

    If axes were merged into one loop, the indices are a quotient and a remainder of the same number, such as
    ``(task * 9 + i) // 64`` and ``(task * 9 + i) % 64``. Their sum ``64 * quotient + remainder`` is the number again.
    TVM simplifies it only if the number is a variable, and not a sum. So a variable replaces the number meanwhile.
    """
    number = _number_of_digits(indices)
    if number is None:
        return _row_major_offset(buffer, indices)
    number_var = Var("number", number.ty)
    digits_of_var = [_with_number(index, number_var) for index in indices]
    offset = _row_major_offset(buffer, digits_of_var)
    return simplified(substitute(offset, {number_var: number}))


def _row_major_offset(buffer: Var, indices: list[ir.Expr]) -> ir.Expr:
    """Returns the row-major offset of an element, as TVM itself computes it when it flattens buffers."""
    offset: ir.Expr = tirx.IntImm("int64", 0)
    for index, extent in zip(indices, buffer.ty.shape[:], strict=True):
        offset = offset * as_expr(extent) + index
    return simplified(offset)


def _number_of_digits(indices: list[ir.Expr]) -> ir.Expr | None:
    """Returns the sum of which all indices are digits, or None if there is none."""
    if len(indices) < 2 or not all(isinstance(index, (tirx.FloorDiv, tirx.FloorMod)) for index in indices):
        return None
    first, *others = (_without_divisions(index) for index in indices)
    is_same = all(tvm_ffi.structural_equal(first, other) for other in others)
    return first if is_same and not isinstance(first, Var) else None


def _without_divisions(index: ir.Expr) -> ir.Expr:
    """Returns the dividend ``x`` of an index such as ``x // 64 % 32``."""
    while isinstance(index, (tirx.FloorDiv, tirx.FloorMod)):
        index = index.a
    return index


def _with_number(index: ir.Expr, number: Var) -> ir.Expr:
    """Replaces the dividend of an index such as ``x // 64 % 32`` by a variable."""
    if not isinstance(index, (tirx.FloorDiv, tirx.FloorMod)):
        return number
    return type(index)(_with_number(index.a, number), index.b)


def stride(offset: ir.Expr, var: Var) -> ir.Expr | None:
    """Returns the stride of an offset along a variable: by how many elements it grows when the variable grows by one.

    Returns None if the offset isn't linear in the variable. For example, offset ``4 * i + j`` has stride 4 in ``i``.
    """
    if var not in variables(offset):
        return tirx.IntImm("int64", 0)
    slope_and_constant = sym.detect_linear_equation(offset, [var])
    is_linear = len(slope_and_constant) == 2  # TVM returns an empty list if the offset isn't linear
    return simplified(slope_and_constant[0]) if is_linear else None


@lru_cache(maxsize=MAX_CACHED_STRIDES)
def load_stride(load: TensorLoad, var: Var) -> int | None:
    """Returns the stride of a load along a loop variable, in elements, or None if the stride isn't constant.

    With a stride of 1, consecutive iterations can load a vector. With a stride of 0, all iterations load one element.
    """
    strides = _strides(load)
    if strides is not None:
        return strides.get(var, 0)
    step = stride(flat_offset(load.source, load.indices[:]), var)
    return None if step is None else static(step)


@lru_cache(maxsize=MAX_CACHED_STRIDES)
def _strides(load: TensorLoad) -> dict[Var, int | None] | None:
    """Returns the strides of a load along all variables in its offset, or None if the offset isn't linear in all of them.

    For example, a load at row ``i`` and column ``j`` of a matrix of 4 columns gives ``{i: 4, j: 1}``. A single stride is
    None if it isn't constant.
    """
    indices = load.indices[:]
    linear = linear_offset(load.source, indices)
    if linear is not None:
        return dict(linear.coefficients)
    offset = flat_offset(load.source, indices)
    scalar_vars = [var for var in variables(offset) if isinstance(var.ty, ir.PrimType)]  # not arrays that hold indices
    slopes_and_constant = sym.detect_linear_equation(offset, scalar_vars)
    if len(slopes_and_constant) != len(scalar_vars) + 1:  # TVM returns an empty list where the offset isn't linear
        return None
    return {var: static(simplified(slope)) for var, slope in zip(scalar_vars, slopes_and_constant)}


class LinearSum(NamedTuple):
    """A sum of variables with constant coefficients, and a constant: ``4 * i + j + 2`` is ``{i: 4, j: 1}`` and 2."""

    coefficients: dict[Var, int]
    constant: int

    def plus(self, other: LinearSum, factor: int = 1) -> LinearSum:
        """Returns ``self + factor * other``."""
        coefficients = dict(self.coefficients)
        for var, coefficient in other.coefficients.items():
            coefficients[var] = coefficients.get(var, 0) + factor * coefficient
        return LinearSum(coefficients, self.constant + factor * other.constant)

    def without(self, variables: Sequence[Var]) -> LinearSum:
        """Returns the sum with some variables at 0."""
        return LinearSum({v: c for v, c in self.coefficients.items() if v not in variables}, self.constant)

    def as_expr(self) -> ir.Expr:
        """Returns the sum as an expression."""
        terms = (var * coefficient for var, coefficient in self.coefficients.items())
        return sum(terms, start=tirx.IntImm("int64", self.constant))

    def times(self, factor: int) -> LinearSum:
        """Returns ``factor * self``."""
        return LinearSum({var: factor * c for var, c in self.coefficients.items()}, factor * self.constant)


def linear_offset(buffer: Var, indices: Sequence[ir.Expr]) -> LinearSum | None:
    """Returns the row-major offset of an element as a sum of variables with constant coefficients, or None.

    It is None if an index isn't such a sum, or an extent isn't static. TVM's own analysis supports more forms, but
    takes 40 us. Most indices are the sum of a variable and a constant.
    """
    offset = LinearSum({}, 0)
    for index, extent in zip(indices, buffer.ty.shape[:], strict=True):
        size = static(extent)
        summand = _linear_sum(index)
        if size is None or summand is None:
            return None
        offset = offset.times(size).plus(summand)
    return offset


def _linear_sum(index: ir.Expr) -> LinearSum | None:
    """Returns an index as a sum of variables with constant coefficients, or None if it has another form."""
    if isinstance(index, Var):
        return LinearSum({index: 1}, 0)
    if isinstance(index, tirx.IntImm):
        return LinearSum({}, int(index))
    if isinstance(index, (tirx.Add, tirx.Sub)):
        first, second = _linear_sum(index.a), _linear_sum(index.b)
        if first is None or second is None:
            return None
        return first.plus(second, 1 if isinstance(index, tirx.Add) else -1)
    if isinstance(index, tirx.Mul) and isinstance(index.b, tirx.IntImm):
        first = _linear_sum(index.a)
        return None if first is None else first.times(int(index.b))
    return None


def constant_offset(first: TensorLoad, second: TensorLoad) -> int | None:
    """Returns the distance in elements from the first load to the second in memory, or None if it isn't constant."""
    first_offset, second_offset = (flat_offset(load.source, load.indices[:]) for load in (first, second))
    return static(simplified(second_offset - first_offset))


class LinearAccess(NamedTuple):
    """An array access whose offset is linear in the variables of loops: its offset at their start, and its strides."""

    source: Var
    indices: Sequence[ir.Expr]
    start: ir.Expr
    strides: tuple[int, ...]


def linear_access(source: Var, indices: Sequence[ir.Expr], loop_vars: Sequence[Var]) -> LinearAccess | None:
    """Describes an access to an array by its strides along loops, or returns None if a stride isn't constant.

    Args:
        source: the array.
        indices: the indices of the access.
        loop_vars: the variables of the loops around it.
    """
    offset = linear_offset(source, indices)
    if offset is not None:
        strides = tuple(offset.coefficients.get(var, 0) for var in loop_vars)
        return LinearAccess(source, indices, offset.without(loop_vars).as_expr(), strides)
    *slopes, start = sym.detect_linear_equation(flat_offset(source, list(indices)), list(loop_vars)) or [None]
    static_slopes = [static(simplified(slope)) for slope in slopes]
    strides = tuple(stride for stride in static_slopes if stride is not None)
    if start is None or len(strides) < len(loop_vars):
        return None
    return LinearAccess(source, indices, start, strides)


def is_contiguous(load: TensorLoad, var: Var) -> bool:
    """Returns whether a load has stride 0 or 1 along a variable. Vectors along the variable can then be loaded."""
    return load_stride(load, var) in (0, 1)


def free_variables(value: ir.Expr) -> set[Var]:
    """Returns the variables that an expression uses outside of the indices of loads, as in bounds checks or an iota."""
    zero = tirx.IntImm("int64", 0)
    without_indices = structural_map(
        value, (TensorLoad, lambda load: tirx.BufferLoad(load.source, [zero] * len(load.indices)))
    )
    return variables(without_indices)


def operations(value: ir.Expr, limit: int | None = None) -> int:
    """Counts the arithmetic operations of evaluating an expression once.

    A math function counts as a dozen operations.

    Args:
        value: the expression.
        limit: the number at which counting stops. Callers pass the number that they compare the count with, since an
            expression with hundreds of inlined stages is large.
    """
    count = 0

    def add_operations(node: ir.Expr) -> Any:
        """Adds the operations of a node, and ends the walk at the limit."""
        nonlocal count
        count += _operations_of(node)
        return tvm_ffi.VisitInterrupt(None) if limit is not None and count >= limit else None

    # The type of a buffer's variable contains the shape, whose arithmetic isn't evaluated here.
    structural_walk(value, [(Var, lambda var: tvm_ffi.WalkResult.SKIP), (ir.Expr, add_operations)], order="pre")
    return max(1, count)


def _operations_of(node: ir.Expr) -> int:
    """Returns the number of operations of one expression node, without its operands.

    A division counts half as much as a math function. Loads, constants and `if_then_else` count as none.
    """
    if isinstance(node, Call):
        name = str(getattr(node.op, "name", ""))
        if name in FREE_CALLS:
            return 0
        return 1 if name in CHEAP_CALLS else CALL_OPERATIONS
    if isinstance(node, tirx.Div):
        return CALL_OPERATIONS // 2
    is_operand = isinstance(node, (Var, tirx.IntImm, tirx.FloatImm, TensorLoad))
    return 0 if is_operand else 1


def iteration_count(axes: tuple[Axis, ...]) -> int | None:
    """Returns the number of iterations of nested loops over some axes, or None if an extent isn't static."""
    sizes = [axis.size for axis in axes if axis.size is not None]
    return prod(sizes) if len(sizes) == len(axes) else None


def reads_of(stage: Stage, buffer: Var) -> list[TensorLoad]:
    """Returns a stage's loads of one buffer."""
    return [load for load in stage.loads if load.source.same_as(buffer)]


def moves_as_one_axis(offset: ir.Expr, outer: Axis, inner: Axis) -> bool:
    """Returns whether an offset in memory allows to merge two nested axes into one.

    The stride of the outer axis must be the stride of the inner axis times its extent. For example, the rows and the
    columns of a dense matrix of 4 columns have strides 4 and 1, and ``4 == 1 * 4``.

    Args:
        offset: the offset of an access, an expression of the axes' variables.
        outer: the outer axis.
        inner: the inner axis.
    """
    outer_stride, inner_stride = stride(offset, outer.var), stride(offset, inner.var)
    if outer_stride is None or inner_stride is None:
        return False
    return bool(sym.Analyzer().can_prove_equal(outer_stride, inner_stride * inner.extent))


def with_scalar_pairs(body: Stmt) -> Stmt:
    """Makes vectorized loops serial that access scattered elements of a buffer of pairs, which complex numbers are.

    TVM generates code only for vectors of pairs that follow each other in memory.
    """
    return with_serial_loops(body, _scatters_pairs)


def _scatters_pairs(node: For) -> bool:
    """Returns whether a loop loads or stores pairs (vectors of two, for complex numbers) that are scattered in memory.

    They aren't scattered if all iterations access one pair (a stride of 0), or consecutive pairs (a stride of 1).
    """
    accesses: list[tuple[Var, list[ir.Expr]]] = []

    def add_load(load: TensorLoad) -> None:
        accesses.append((load.source, load.indices[:]))

    def add_store(store: BufferStore) -> None:
        accesses.append((store.buffer, store.indices[:]))

    structural_walk(node.body, [(TensorLoad, add_load), (BufferStore, add_store)])
    for buffer, indices in accesses:
        holds_pairs = "x" in str(buffer.ty.dtype)  # such as float32x2
        if not holds_pairs:
            continue
        step = stride(_row_major_offset(buffer, indices), node.loop_var)
        # TVM treats an access as scattered if it doesn't know that it is contiguous.
        if step is None or static(step) not in (0, 1):
            return True
    return False
