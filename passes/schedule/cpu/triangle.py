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


def shortened(
    stages: Sequence[Stage], rows: Sequence[Var], last_row: int, local: Sequence[Var], added: Sequence[Var] = ()
) -> list[Stage]:
    """Returns the stages of a block with axes that end where all later values are zero, given the block's last row.

    `rows` holds each stage's axis of rows. `local` are the buffers that nothing else reads, `added` those whose values
    are only added to others, so that zeros needn't be computed either.
    """
    ends = _ends(stages, rows, last_row, local, added)
    return [_cut(stage, ends) for stage in stages]


def has_triangle(stages: Sequence[Stage], rows: Sequence[Var]) -> bool:
    """Returns whether there is something to leave out."""
    return bool(_zeros(stages, rows, 0)[0])


def _cut(stage: Stage, ends: Ends) -> Stage:
    def axes(old_axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(
            replace(a, extent=index(min(int(a.extent), ends[a.var]))) if a.var in ends else a for a in old_axes
        )

    return replace(stage, spatial=axes(stage.spatial), reduce=axes(stage.reduce))


def _ends(
    stages: Sequence[Stage], rows: Sequence[Var], last_row: int, local: Sequence[Var], added: Sequence[Var]
) -> Ends:
    """Returns where axes of stages may end: reductions over zeros, and results whose readers end there.

    The last stage comes first: readers determine how much of a result is needed.
    """
    ends, zeros = _zeros(stages, rows, last_row)
    for stage in reversed(stages):
        for place, axis in enumerate(stage.spatial):
            if any(stage.buffer.same_as(buffer) for buffer in added):
                end = zeros.get((stage.buffer, place))
            else:
                end = _needed(stage, place, stages, ends) if any(stage.buffer.same_as(b) for b in local) else None
            if end is not None:
                ends[axis.var] = end
    return ends


def _needed(stage: Stage, place: int, stages: Sequence[Stage], ends: Ends) -> int | None:
    """Returns the end of what a stage's readers read along an axis, or None."""
    indices = [
        load.indices[place] for other in stages if other is not stage for load in access.reads_of(other, stage.buffer)
    ]
    reader_ends = [ends.get(at) if isinstance(at, Var) else None for at in indices]
    return None if not reader_ends or None in reader_ends else max(end for end in reader_ends if end is not None)


def _zeros(stages: Sequence[Stage], rows: Sequence[Var], last_row: int) -> tuple[Ends, dict[tuple[Var, int], int]]:
    """Returns the ends of reduction axes, and where results are zero from some place on along a dim.

    A row of a masked matrix ends where the mask of the last row does.
    """
    ends: Ends = {}
    zeros: dict[tuple[Var, int], int] = {}
    for stage, row in zip(stages, rows, strict=True):
        term, neutral = _term_and_neutral(stage)
        for axis in stage.axes:
            end = (
                None
                if axis.var.same_as(row) or term is None
                else _first_neutral_column(term, neutral, row, axis.var, last_row, zeros)
            )
            if end is None or end >= (axis.size or 0):
                continue
            if any(axis is own for own in stage.reduce):
                ends[axis.var] = end
            elif is_zero(neutral):
                zeros[stage.buffer, stage.spatial.index(axis)] = end
    return ends, zeros


def _term_and_neutral(stage: Stage) -> tuple[ir.Expr | None, ir.Expr]:
    """Returns what a stage adds (or takes the maximum of), and the neutral value of that.

    Terms that are neutral can be left out.
    """
    if not stage.reduce:
        return stage.value, tirx.const(0, stage.dtype)
    value = stage.value
    if not isinstance(value, (tirx.Add, tirx.Max)) or stage.init is None:
        return None, stage.value
    sides = [side for side in (value.a, value.b) if not _is_load_of(side, stage.buffer)]
    fits = len(sides) == 1 and (isinstance(value, tirx.Max) or is_zero(stage.init))
    return (sides[0] if fits else None), stage.init


def _is_load_of(value: ir.Expr, buffer: Var) -> bool:
    return isinstance(value, TensorLoad) and value.source.same_as(buffer)


def _first_neutral_column(
    value: ir.Expr, neutral: ir.Expr, row: Var, column: Var, last_row: int, zeros: dict[tuple[Var, int], int]
) -> int | None:
    """Returns the column from which on an expression is neutral in all rows up to the last, or None."""
    if isinstance(value, tirx.Select):
        same = tvm_ffi.structural_equal(value.false_value, neutral)
        return _first_masked_column(value.condition, row, column, last_row) if same else None
    if not is_zero(neutral):
        return None
    if isinstance(value, tirx.Cast):
        return _first_neutral_column(value.value, tirx.const(0, value.value.ty.dtype), row, column, last_row, zeros)
    # One factor that is zero makes the product zero.
    if isinstance(value, tirx.Mul):
        sides = [_first_neutral_column(side, neutral, row, column, last_row, zeros) for side in (value.a, value.b)]
        return min((end for end in sides if end is not None), default=None)
    if isinstance(value, TensorLoad):
        indices = list(value.indices)
        if not any(isinstance(at, Var) and at.same_as(row) for at in indices):
            return None
        places = [place for place, at in enumerate(indices) if isinstance(at, Var) and at.same_as(column)]
        return min((zeros[value.source, place] for place in places if (value.source, place) in zeros), default=None)
    return None


def _first_masked_column(condition: ir.Expr, row: Var, column: Var, last_row: int) -> int | None:
    """Returns the first column for which `column <= row + offset` holds in no row; None for tests of another form."""
    if isinstance(condition, (tirx.LE, tirx.LT)):
        small, large = condition.a, condition.b
    elif isinstance(condition, (tirx.GE, tirx.GT)):
        small, large = condition.b, condition.a
    else:
        return None
    coefficients = sym.detect_linear_equation(simplified(small - large), [column, row])
    numbers = [static(simplified(part)) for part in coefficients]
    if len(numbers) != 3 or numbers[:2] != [1, -1] or numbers[2] is None:
        return None
    is_strict = isinstance(condition, (tirx.LT, tirx.GT))
    return last_row - numbers[2] + (0 if is_strict else 1)


def is_zero(value: ir.Expr) -> bool:
    """Returns whether a constant is zero."""
    return isinstance(value, (tirx.IntImm, tirx.FloatImm)) and value.value == 0
