"""Long sums of products in steps: all results take in a block of the terms before the next one, which a cache holds meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Var

from . import access, emit
from .emit import index, static
from .kernel import Axis, Stage, variables
from .plan import UNKNOWN_SIZE, has_reused_operand, terms_of
from .target import CpuTarget
from .tile import Range

# Each step loads and stores the sums of all results.
LEAST_TERMS_OF_A_STEP = 128
# Of the second-level cache, which holds sums beside what a step reads.
PART_FOR_OPERANDS = 2


@dataclass(frozen=True)
class Steps:
    """Points of the outermost reduction axes, the last of which goes in blocks; the axes `rest` are whole in each step."""

    axes: tuple[Axis, ...]
    block: int
    rest: tuple[Axis, ...]

    @property
    def extents(self) -> list[ir.Expr]:
        *outer, last = [axis.extent for axis in self.axes]
        return [*outer, emit.simplified(tirx.floordiv(last + (self.block - 1), index(self.block)))]

    @property
    def count(self) -> ir.Expr:
        return emit.volume(self.extents)

    @property
    def sizes(self) -> dict[Var, int]:
        """What one step covers of each axis."""
        single = {axis.var: 1 for axis in self.axes}
        return {**single, self.axes[-1].var: self.block, **{axis.var: _size(axis) for axis in self.rest}}

    def ranges(self, number: ir.Expr) -> list[Range]:
        *places, block = emit.unflatten(number, self.extents)
        points = [Range(axis, place, index(1)) for axis, place in zip(self.axes, places)]
        last, start = self.axes[-1], block * self.block
        is_even = last.size is not None and last.size % self.block == 0
        extent = index(self.block) if is_even else tirx.min(index(self.block), last.extent - start)
        return [*points, Range(last, start, extent), *map(Range.whole, self.rest)]


def steps_of(stage: Stage, target: CpuTarget) -> Steps | None:
    """The longest steps whose operands the second-level cache holds; None where single points of the outermost axis do."""
    options = list(_options(stage)) if has_reused_operand(stage) else []
    most = target.level2_bytes // PART_FOR_OPERANDS

    def fits(steps: Steps) -> bool:
        return sum(_bytes_read(stage, term, steps.sizes) for term in terms_of(stage)) <= most

    if len(options) < 2 or fits(options[0]):
        return None
    return next(filter(fits, options), options[-1])


def _options(stage: Stage) -> Iterator[Steps]:
    """Ever shorter steps, from single points of the outermost axis on."""
    for depth, axis in enumerate(stage.reduce[:-1]):
        outer, rest = stage.reduce[: depth + 1], stage.reduce[depth + 1 :]
        parts = range(2, _size(axis) + 1) if depth else []
        for block in sorted({-(-_size(axis) // count) for count in parts} | {1}, reverse=True):
            if depth == 0 or block * prod(map(_size, rest)) >= LEAST_TERMS_OF_A_STEP:
                yield Steps(outer, block, rest)


def _size(axis: Axis) -> int:
    return axis.size or UNKNOWN_SIZE


def _bytes_read(stage: Stage, term: TensorLoad, sizes: dict[Var, int]) -> int:
    """What a step reads of an operand for all results."""
    sizes = {**{axis.var: _size(axis) for axis in stage.spatial}, **sizes}
    total = stage.item_bytes
    for place, extent in zip(term.indices, term.source.ty.shape, strict=True):
        whole = static(extent) or UNKNOWN_SIZE
        steps = {var: access.stride(place, var) for var in variables(place)}
        reach = [whole if step is None else abs(static(step) or whole) * (sizes.get(var, whole) - 1)
                 for var, step in steps.items()]  # fmt: skip
        total *= min(whole, sum(reach) + 1)
    return total
