"""Where a compiled function's time goes: seconds of each kernel beside what it has to do.

Kernels are timed where they run: an instrument of the virtual machine sees every call, so fusion, memory and threads are
those of the real call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tvtf.core.display import Column, Table, as_printed
from tvtf.core.dlpack_view import handle_of, to_handle
from tvtf.frontend.tuning.kernel_cost import KernelCost, costs
from tvtf.ir.provenance import show_lines
from tvtf.state.variable import Variable

if TYPE_CHECKING:
    from rich.console import RenderableType

RUN_KERNEL = 0
"""What an instrument returns, before and after a call, so that the machine goes on."""
NO_KERNELS = "A call runs no kernels: nothing is computed"
PROFILE_COLUMNS = [
    Column("kernel"),
    *(Column(title, is_number=True) for title in ("us", "share", "calls", "GFLOP/s", "GB/s")),
    Column("lines"),
]


class KernelTime(NamedTuple):
    """A kernel (or builtin of the virtual machine) in one call of the function: its calls and their seconds."""

    name: str
    calls: int
    seconds: float
    cost: KernelCost | None

    @property
    def gigaflops(self) -> float | None:
        """Floating-point operations per nanosecond."""
        return self._rate(self.cost.flops if self.cost else None)

    @property
    def gigabytes(self) -> float | None:
        """Bytes of operands and results per nanosecond."""
        return self._rate(self.cost.bytes if self.cost else None)

    def _rate(self, amount: int | None) -> float | None:
        return None if amount is None else amount * self.calls / self.seconds * 1e-9


class Profile(NamedTuple):
    """The parts of one call, slowest first; printed as a table."""

    kernels: tuple[KernelTime, ...]

    @property
    def seconds(self) -> float:
        """The seconds of all parts together."""
        return sum(k.seconds for k in self.kernels)

    @property
    def text(self) -> str:
        """The plain table, wherever it is printed."""
        head = f"{'us':>10} {'share':>6} {'calls':>6} {'GF/s':>7} {'GB/s':>7}  kernel"
        return "\n".join([head, *(self._line(k) for k in self.kernels)])

    def _line(self, k: KernelTime) -> str:
        rates = f"{_short(k.gigaflops):>7} {_short(k.gigabytes):>7}"
        places = "".join(f"  {place}" for place in _places(k.cost))
        return f"{k.seconds * 1e6:10.1f} {k.seconds / self.seconds:6.1%} {k.calls:6} {rates}  {k.name}{places}"

    def __str__(self) -> str:
        return as_printed(self.text, self.__rich__())

    def __rich__(self) -> RenderableType:
        return self._table().rich()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> Table:
        caption = f"A call took {self.seconds * 1e6:,.1f} us in these kernels and parts of the machine, slowest first:"
        return Table(caption if self.kernels else NO_KERNELS, PROFILE_COLUMNS, [self._row(k) for k in self.kernels])

    def _row(self, kernel: KernelTime) -> list[str]:
        """Returns the cells of a kernel's row in the table."""
        rates = _short(kernel.gigaflops), _short(kernel.gigabytes)
        share = f"{kernel.seconds / self.seconds:.1%}"
        return [
            kernel.name,
            f"{kernel.seconds * 1e6:,.1f}",
            share,
            str(kernel.calls),
            *rates,
            show_lines(kernel.cost.lines if kernel.cost else ()),
        ]


def _short(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.1f}"


def _places(cost: KernelCost | None) -> list[str]:
    return [f"{Path(file).name}:{line}" for file, line in (cost.lines if cost else ())]


class Stopwatch:
    """An instrument that adds up calls and seconds by kernel name."""

    def __init__(self) -> None:
        self.runs: list[dict[str, tuple[int, float]]] = []
        self._started = 0.0

    def start(self) -> None:
        """Starts a new run of the function."""
        self.runs.append({})

    def __call__(self, _function: Any, name: str, before: bool, *_: Any) -> int:
        now = time.perf_counter()
        if not before:
            calls, seconds = self.runs[-1].get(name, (0, 0.0))
            self.runs[-1][name] = calls + 1, seconds + now - self._started
        self._started = time.perf_counter()
        return RUN_KERNEL

    def best(self) -> dict[str, tuple[int, float]]:
        """Returns the calls of each kernel, and its seconds in its fastest run."""
        return {
            name: (self.runs[-1][name][0], min(r[name][1] for r in self.runs if name in r)) for name in self.runs[-1]
        }


def profile(code: Any, tensors: Sequence[Any], variables: Sequence[Variable], repeat: int) -> Profile:
    """Times the kernels of compiled code in ``repeat`` calls; Variables are copied, so none changes."""
    executable, handles = handles_of(code, tensors, variables)
    if executable is None:
        return Profile(())
    watch = Stopwatch()
    run = executable.instrumented(watch)
    for _ in range(repeat):
        watch.start()
        run(*handles)
    cost_by_name = {cost.name: cost for cost in costs(code.module())}
    kernels = [
        KernelTime(name, calls, seconds, cost_by_name.get(name))
        for name, (calls, seconds) in (watch.best() if watch.runs else {}).items()
    ]
    return Profile(tuple(sorted(kernels, key=lambda kernel: -kernel.seconds)))


def handles_of(code: Any, tensors: Sequence[Any], variables: Sequence[Variable]) -> tuple[Any, list[Any]]:
    """Returns the executable of compiled code (None if nothing is computed) and the arguments to call it with.

    Variables among them are copied.
    """
    captures = [code.bound(capture, variables) for capture in code.captures]
    handles = [
        *map(handle_of, tensors),
        *(_copied(capture) if isinstance(capture, Variable) else handle_of(capture) for capture in captures),
    ]
    leading_results = [] if code.leading is None else code.leading.run([*tensors, *captures])
    executable, prepared, _ = code.code()
    return executable, [*handles, *leading_results, *prepared]


def _copied(variable: Variable) -> Any:
    return to_handle(np.array(variable._array))
