"""Causal masks: leaves out columns of a block that are masked in all of its rows.

A masked stage has the form `Select(column <= row + offset, value, 0)`. In a block, sums over such values end at the
last column that counts for its last row, and so does everything that only they read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Var

from tvtf.passes.schedule.cpu import access
from tvtf.passes.schedule.cpu.emit import index, simplified, static
from tvtf.passes.schedule.cpu.kernel import Axis, Stage

Ends = dict[Var, int]
"""The ends of axes, by their variables."""


def without_masked_columns(
    stages: Sequence[Stage], rows: Sequence[Var], last_row: int, local: Sequence[Var], added: Sequence[Var] = ()
) -> list[Stage]:
    """Shortens the axes of stages that compute a block of rows under a causal mask: later columns are masked.

    Args:
        stages: the stages of the block.
        rows: the variable of each stage's axis of rows.
        last_row: the block's last row.
        local: the buffers that nothing outside of the block reads.
        added: the buffers whose values are only added to others, so that zeros needn't be computed.
    """
    ends = _needed_ends(stages, rows, last_row, local, added)
    return [_with_ends(stage, ends) for stage in stages]


def has_masked_columns(stages: Sequence[Stage], rows: Sequence[Var]) -> bool:
    """Returns whether a causal mask zeroes columns of some stage, which blocks of rows can leave out."""
    return bool(_zero_columns(stages, rows, 0)[0])


def _with_ends(stage: Stage, ends: Ends) -> Stage:
    """Shortens the axes of a stage (loop nest) to the given ends: later columns are masked in all rows of the block."""

    def shortened(axis: Axis) -> Axis:
        """Returns an axis with its needed end, or the same axis if all of it is needed."""
        end = ends.get(axis.var)
        return axis if end is None else replace(axis, extent=index(min(int(axis.extent), end)))

    return replace(stage, spatial=tuple(map(shortened, stage.spatial)), reduce=tuple(map(shortened, stage.reduce)))


def _needed_ends(
    stages: Sequence[Stage], rows: Sequence[Var], last_row: int, local: Sequence[Var], added: Sequence[Var]
) -> Ends:
    """Returns the ends to which a causal mask lets axes of the stages (loop nests) be shortened.

    Reductions end where all terms are neutral, results where their readers end. The last stage is visited first, since
    readers determine how much of a result is needed.

    Args:
        stages: the stages of a block of rows.
        rows: the variable of each stage's axis of rows.
        last_row: the block's last row.
        local: the buffers that nothing outside of the block reads.
        added: the buffers whose values are only added to others, so that zeros needn't be computed.
    """
    ends, zeros = _zero_columns(stages, rows, last_row)

    def end_of_result(stage: Stage, dim: int) -> int | None:
        """Returns the end of the needed part of a result along a dim, or None if all of it is needed."""
        if any(stage.buffer.same_as(buffer) for buffer in added):
            return zeros.get((stage.buffer, dim))
        if any(stage.buffer.same_as(buffer) for buffer in local):
            return _end_of_reads(stage, dim, stages, ends)
        return None

    for stage in reversed(stages):
        for dim, axis in enumerate(stage.spatial):
            end = end_of_result(stage, dim)
            if end is not None:
                ends[axis.var] = end
    return ends


def _end_of_reads(stage: Stage, dim: int, stages: Sequence[Stage], ends: Ends) -> int | None:
    """Returns the end of the range that other stages read along a dim of a stage's result, or None if it isn't known."""
    indices = [
        load.indices[dim] for other in stages if other is not stage for load in access.reads_of(other, stage.buffer)
    ]
    reader_ends = [ends.get(at) if isinstance(at, Var) else None for at in indices]
    return None if not reader_ends or None in reader_ends else max(end for end in reader_ends if end is not None)


def _zero_columns(
    stages: Sequence[Stage], rows: Sequence[Var], last_row: int
) -> tuple[Ends, dict[tuple[Var, int], int]]:
    """Finds the columns that a causal mask hides in all rows of a block.

    These are the columns after the last one that the block's last row needs. Returns the ends to which reduction axes
    can be shortened, and, for each buffer and dim, the first index after which all elements are zeros.

    Args:
        stages: the stages of the block.
        rows: the variable of each stage's axis of rows.
        last_row: the block's last row.
    """
    ends: Ends = {}
    zeros: dict[tuple[Var, int], int] = {}
    for stage, row in zip(stages, rows, strict=True):
        term, neutral = _term_and_neutral(stage)
        if term is None:
            continue
        for axis in stage.axes:
            if axis.var.same_as(row):
                continue
            end = _first_neutral_column(term, neutral, row, axis.var, last_row, zeros)
            if end is None or end >= (axis.size or 0):
                continue
            if any(axis is reduce_axis for reduce_axis in stage.reduce):
                ends[axis.var] = end  # the terms after it change no result
            elif is_zero(neutral):
                zeros[stage.buffer, stage.spatial.index(axis)] = end
    return ends, zeros


def _term_and_neutral(stage: Stage) -> tuple[ir.Expr | None, ir.Expr]:
    """Returns the term that a stage (loop nest) adds or takes the maximum of, and the neutral value of this operation.

    A term that is neutral doesn't change the result, and needn't be computed. The term is None for another operation.
    For an elementwise stage, the result is its value and 0.
    """
    update, neutral = stage.value, stage.init
    if not stage.reduce:
        return update, tirx.const(0, stage.dtype)
    if not isinstance(update, (tirx.Add, tirx.Max)) or neutral is None:
        return None, update
    if isinstance(update, tirx.Add) and not is_zero(neutral):
        return None, neutral
    terms = [side for side in (update.a, update.b) if not _is_load_of(side, stage.buffer)]
    return (terms[0] if len(terms) == 1 else None), neutral


def _is_load_of(value: ir.Expr, buffer: Var) -> bool:
    """Returns whether an expression is a load from a buffer."""
    return isinstance(value, TensorLoad) and value.source.same_as(buffer)


def _first_neutral_column(
    value: ir.Expr, neutral: ir.Expr, row: Var, column: Var, last_row: int, zeros: dict[tuple[Var, int], int]
) -> int | None:
    """Returns the first of the trailing columns in which an expression is neutral in all rows up to `last_row`, or None.

    `zeros` holds where results of earlier stages are zero, by buffer and dim.
    """
    if isinstance(value, tirx.Select):
        is_masked_to_neutral = tvm_ffi.structural_equal(value.false_value, neutral)
        return _first_masked_column(value.condition, row, column, last_row) if is_masked_to_neutral else None
    if not is_zero(neutral):
        return None
    if isinstance(value, tirx.Cast):
        return _first_neutral_column(value.value, tirx.const(0, value.value.ty.dtype), row, column, last_row, zeros)
    # One factor that is zero makes the product zero.
    if isinstance(value, tirx.Mul):
        factor_ends = [
            _first_neutral_column(factor, neutral, row, column, last_row, zeros) for factor in (value.a, value.b)
        ]
        return min((end for end in factor_ends if end is not None), default=None)
    if isinstance(value, TensorLoad):
        indices = list(value.indices)
        if not any(isinstance(at, Var) and at.same_as(row) for at in indices):
            return None
        dims = [dim for dim, at in enumerate(indices) if isinstance(at, Var) and at.same_as(column)]
        return min((zeros[value.source, dim] for dim in dims if (value.source, dim) in zeros), default=None)
    return None


def _first_masked_column(condition: ir.Expr, row: Var, column: Var, last_row: int) -> int | None:
    """Returns the first column in which a causal mask's condition is false for all rows up to `last_row`.

    It is then false in all later columns, too. The condition has the form ``column <= row + offset``. Returns None for
    another condition.

    Args:
        condition: the condition.
        row: the variable of the row.
        column: the variable of the column.
        last_row: the last row of a block.
    """
    if isinstance(condition, (tirx.LE, tirx.LT)):
        smaller, larger = condition.a, condition.b
    elif isinstance(condition, (tirx.GE, tirx.GT)):
        smaller, larger = condition.b, condition.a
    else:
        return None
    coefficients = sym.detect_linear_equation(simplified(smaller - larger), [column, row])
    if len(coefficients) != 3:  # TVM returns an empty list if the expression isn't linear
        return None
    column_factor, row_factor, constant = (static(simplified(coefficient)) for coefficient in coefficients)
    # The condition must be `column - row + constant <= 0`, or `< 0`.
    if (column_factor, row_factor) != (1, -1) or constant is None:
        return None
    # The condition holds in the most columns for the last row: up to `last_row - constant`, which is excluded for `<`.
    is_strict = isinstance(condition, (tirx.LT, tirx.GT))
    return last_row - constant if is_strict else last_row - constant + 1


def is_zero(value: ir.Expr) -> bool:
    """Returns whether a constant is zero."""
    return isinstance(value, (tirx.IntImm, tirx.FloatImm)) and value.value == 0
