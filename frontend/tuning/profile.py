"""Where a compiled function's time goes: seconds of each kernel, compared with the work that it has to do.

Kernels are timed where they run: an instrument of the virtual machine sees every call, so fusion, memory and threads are
those of the real call.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tvtf.core.display import Column, Table, as_printed
from tvtf.core.dlpack_view import handle_of, to_handle
from tvtf.errors import OutOfRangeError
from tvtf.frontend.function.runtime_errors import raised_by
from tvtf.frontend.function.traced_program import resolve_capture
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
    """The time of a kernel, or builtin of the virtual machine, in one call of a function.

    ``calls`` is how often the kernel runs, ``seconds`` the time of all these runs. ``cost`` is None for builtins.
    """

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
        """Returns the rate of an amount per call, in billions per second. None stays None."""
        return None if amount is None else amount * self.calls / self.seconds * 1e-9


class Profile(NamedTuple):
    """The parts of one call, slowest first; printed as a table."""

    kernels: tuple[KernelTime, ...]

    @property
    def seconds(self) -> float:
        """The seconds of all parts together."""
        return sum(kernel.seconds for kernel in self.kernels)

    @property
    def text(self) -> str:
        """The table as plain text, without rich formatting."""
        head = f"{'us':>10} {'share':>6} {'calls':>6} {'GF/s':>7} {'GB/s':>7}  kernel"
        return "\n".join([head, *(self._line(kernel) for kernel in self.kernels)])

    def _line(self, kernel: KernelTime) -> str:
        """Formats a kernel's row of the plain table."""
        rates = f"{_short(kernel.gigaflops):>7} {_short(kernel.gigabytes):>7}"
        lines = "".join(f"  {line}" for line in _lines(kernel.cost))
        share = f"{kernel.seconds / self.seconds:6.1%}"
        return f"{kernel.seconds * 1e6:10.1f} {share} {kernel.calls:6} {rates}  {kernel.name}{lines}"

    def __str__(self) -> str:
        return as_printed(self.text, self.__rich__())

    def __rich__(self) -> RenderableType:
        return self._table().rich()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> Table:
        caption = f"A call took {self.seconds * 1e6:,.1f} us in these kernels and parts of the machine, slowest first:"
        return Table(
            caption if self.kernels else NO_KERNELS, PROFILE_COLUMNS, [self._row(kernel) for kernel in self.kernels]
        )

    def _row(self, kernel: KernelTime) -> list[str]:
        """Returns the cells of a kernel's row, in the order of ``PROFILE_COLUMNS``."""
        microseconds = f"{kernel.seconds * 1e6:,.1f}"
        share = f"{kernel.seconds / self.seconds:.1%}"
        lines = show_lines(kernel.cost.lines if kernel.cost else ())
        rates = _short(kernel.gigaflops), _short(kernel.gigabytes)
        return [kernel.name, microseconds, share, str(kernel.calls), *rates, lines]


def _short(rate: float | None) -> str:
    """Formats a rate, or an unknown rate (None) as an empty text."""
    return "" if rate is None else f"{rate:.1f}"


def _lines(cost: KernelCost | None) -> list[str]:
    """Formats the user's lines of a kernel, such as ``model.py:12``."""
    return [f"{Path(file).name}:{line}" for file, line in (cost.lines if cost else ())]


class Stopwatch:
    """An instrument of TVM's virtual machine that adds up calls and seconds by kernel name.

    The machine calls the instrument before and after each kernel.
    """

    def __init__(self) -> None:
        self.runs: list[dict[str, tuple[int, float]]] = []
        self._started = 0.0

    def start(self) -> None:
        """Starts a new run of the function."""
        self.runs.append({})

    def __call__(self, _function: Any, name: str, before: bool, *_: Any) -> int:
        """Starts the clock before a kernel, and adds the kernel's time to the present run after it."""
        now = time.perf_counter()
        if not before:
            calls, seconds = self.runs[-1].get(name, (0, 0.0))
            self.runs[-1][name] = calls + 1, seconds + now - self._started
        self._started = time.perf_counter()
        return RUN_KERNEL

    def best(self) -> dict[str, tuple[int, float]]:
        """Returns, by kernel name, the number of calls in a run of the function and the seconds in the fastest run."""
        return {
            name: (calls, min(run[name][1] for run in self.runs if name in run))
            for name, (calls, _) in self.runs[-1].items()
        }


def profile(code: Any, tensors: Sequence[Any], variables: Sequence[Variable], repeat: int) -> Profile:
    """Times the kernels of compiled code in ``repeat`` calls, and returns the fastest time of each kernel.

    The calls run on copies of the Variables, so that their values don't change.

    Args:
      code: a traced function, which can be compiled.
      tensors: the arguments of the function.
      variables: the Variables that the function uses.
      repeat: the number of calls.
    """
    executable, handles = handles_of(code, tensors, variables)
    if executable is None:
        return Profile(())
    watch = Stopwatch()
    run = executable.instrumented(watch)
    for _ in range(repeat):
        watch.start()
        with failures_of(code):
            run(*handles)
    best_times = watch.best() if watch.runs else {}
    cost_by_name = {cost.name: cost for cost in costs(code.module())}
    kernels = [
        KernelTime(name, *calls_and_seconds, cost_by_name.get(name)) for name, calls_and_seconds in best_times.items()
    ]
    return Profile(tuple(sorted(kernels, key=lambda kernel: -kernel.seconds)))


def handles_of(code: Any, tensors: Sequence[Any], variables: Sequence[Variable]) -> tuple[Any, list[Any]]:
    """Returns the executable of compiled code, and the arguments for a call of it. Variables are copied.

    The executable is None if the code computes nothing.

    Raises:
      TypeError: an argument is a TensorSpec.
    """
    if any(tensor is None for tensor in tensors):
        raise TypeError(f"{code.name} is run in order to be timed: pass it tensors in place of tf.TensorSpecs")
    captures = [resolve_capture(capture, variables) for capture in code.captures]
    tensor_handles = [handle_of(tensor) for tensor in tensors]
    capture_handles = [
        _copied(capture) if isinstance(capture, Variable) else handle_of(capture) for capture in captures
    ]
    with failures_of(code):
        leading_results = [] if code.leading is None else code.leading.run([*tensors, *captures])
    executable, prepared, _ = code.code()
    return executable, [*tensor_handles, *capture_handles, *leading_results, *prepared]


@contextmanager
def failures_of(code: Any) -> Iterator[None]:
    """Returns a context in which an error of compiled code gets the type and text that a call of the function would give it."""
    try:
        yield
    except Exception as error:  # TVM raises many types; `raised_by` translates each
        named = raised_by(code.name, error, code.module)
        if isinstance(named, OutOfRangeError):  # an iterator that is read in each of the calls
            advice = f"{code.name} is called several times: pass it an iterator over `dataset.repeat()`"
            named = OutOfRangeError(None, None, f"{named.message}. {advice}")
        raise named from error


def _copied(variable: Variable) -> Any:
    """Returns a handle of a copy of the Variable's value, because compiled code updates Variables in place."""
    return to_handle(np.array(variable._array))
