"""Bytes that a call of a compiled function needs, as the compiler plans them."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import tvm

from tvtf.core.display import Column, Table, as_printed
from tvtf.passes.memory.memory_plan import ARENA_SIZE, PEAK_LIVE_BYTES, bytes_of, is_allocation
from tvtf.passes.pipeline import phases
from tvtf.runtime.target import host_target

if TYPE_CHECKING:
    from rich.console import RenderableType

UNITS = ("KiB", "MiB", "GiB", "TiB")
MEANINGS = {
    "arguments": "what it is passed, Variables among it",
    "results": "what it returns in memory of its own; Variables are updated where they lie",
    "arena": "the block for values in between, kept from call to call",
    "live": "the most of these that is needed at once: no arena can be smaller",
}


class Memory(NamedTuple):
    """The bytes of memory that one call of a compiled function needs.

    ``arguments`` includes Variables, ``results`` are results in memory of their own. ``arena`` is the block for
    intermediate values, kept from call to call. ``live`` is the largest sum of intermediates that are needed at once,
    and so the smallest possible arena. ``unplanned`` counts allocations of unknown size.
    """

    arguments: int
    results: int
    arena: int
    live: int
    unplanned: int

    @property
    def text(self) -> str:
        """The table as plain text, without rich formatting."""
        return self._table().text

    def __str__(self) -> str:
        return as_printed(self.text, self.__rich__())

    def __rich__(self) -> RenderableType:
        return self._table().rich()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> Table:
        """Returns a table of the sizes, one row for each kind of memory, with the sum in the caption."""
        total = _readable(self.arguments + self.results + self.arena)
        more = f", and more that is known only at a call: {self.unplanned} of unknown size" if self.unplanned else ""
        columns = [Column("part"), Column("size", is_number=True), Column("what it is")]
        rows = [[name, _readable(size), MEANINGS[name]] for name, size in zip(MEANINGS, self)]
        return Table(f"A call needs {total}{more}", columns, rows)


def _readable(size: int) -> str:
    """Formats a number of bytes in the largest unit of which there is at least one.

    >>> _readable(512), _readable(66560), _readable(3 << 30)
    ('512 B', '65.0 KiB', '3.0 GiB')
    """
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    unit = -1
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:,.1f} {UNITS[unit]}"


def memory(mod: tvm.IRModule) -> Memory:
    """Returns how many bytes a call of a traced module needs, read from the module's memory plan."""
    target = host_target()
    with target, tvm.transform.PassContext(opt_level=3):
        for phase in takewhile(lambda phase: phase.name != "memory", phases(target)):
            if phase.name != "schedule":  # the plan doesn't depend on schedules
                mod = phase.run(mod)
    main = mod["main"]
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    allocated_sizes = [bytes_of(binding.var.ty) for binding in bindings if is_allocation(binding.value)]
    known_sizes = [size for size in allocated_sizes if size is not None]  # None: the size is known only at a call
    argument_sizes = [bytes_of(param.ty) or 0 for param in main.params]
    attrs = dict(main.attrs)
    return Memory(
        arguments=sum(argument_sizes),
        results=sum(known_sizes),
        arena=int(attrs.get(ARENA_SIZE, 0)),
        live=int(attrs.get(PEAK_LIVE_BYTES, 0)),
        unplanned=len(allocated_sizes) - len(known_sizes),
    )
