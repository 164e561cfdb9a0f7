"""Where a compiled function's time goes: seconds of each kernel, its arithmetic and bytes, and the user's lines.

Kernels are timed where they run: an instrument of the virtual machine sees every call, so fusion, memory and
threads are those of the real call. Arithmetic is counted in the kernels as written, before they are scheduled.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import relax, tirx

from tvtf.core.dlpack_view import handle_of, to_handle
from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.memory.memory_plan import LIVE, SIZE, bytes_of, is_allocation
from tvtf.passes.pipeline import phases
from tvtf.passes.schedule.cpu.access import FREE_CALLS
from tvtf.passes.schedule.cpu.kernel import Stage, read_kernel
from tvtf.runtime.target import host_target
from tvtf.state.variable import Variable

ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min, tvm.ir.Call)
RUN_KERNEL = 0
"""The value that an instrument returns, before and after a call, to let the machine go on."""


class KernelCost(NamedTuple):
    """The work of one call of a kernel; None if sizes are known only at run time, or if the kernel is no loop nest.

    ``flops`` counts floating-point arithmetic without comparisons and selects; ``bytes`` every operand and result once;
    ``lines`` are the user's ``(file, line)``.
    """

    name: str
    flops: int | None
    bytes: int | None
    lines: tuple[tuple[str, int], ...]


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

    def __str__(self) -> str:
        head = f"{'us':>10} {'share':>6} {'calls':>6} {'GF/s':>7} {'GB/s':>7}  kernel"
        return "\n".join([head, *(self._line(k) for k in self.kernels)])

    def _line(self, k: KernelTime) -> str:
        rates = f"{_short(k.gigaflops):>7} {_short(k.gigabytes):>7}"
        return f"{k.seconds * 1e6:10.1f} {k.seconds / self.seconds:6.1%} {k.calls:6} {rates}  {k.name}{_places(k.cost)}"


def _short(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.1f}"


def _places(cost: KernelCost | None) -> str:
    return "".join(f"  {Path(file).name}:{line}" for file, line in (cost.lines if cost else ()))


# -- costs


def costs(mod: tvm.IRModule) -> list[KernelCost]:
    """Returns the cost of each kernel that a traced module is compiled to, sorted by name."""
    kernels, lines = _kernels(mod)
    return [KernelCost(n, _flops(k), _bytes(k), tuple(sorted(lines.get(n, ())))) for n, k in sorted(kernels.items())]


def _kernels(mod: tvm.IRModule) -> tuple[dict[str, tirx.PrimFunc], dict[str, set[tuple[str, int]]]]:
    """Returns the unscheduled kernels, and their lines, which are read before fused kernels become one function."""
    lines: dict[str, set[tuple[str, int]]] = {}
    target = host_target()
    with target, tvm.transform.PassContext(opt_level=3):
        for phase in takewhile(lambda p: p.name != "schedule", phases(target)):
            mod = phase.run(mod)
            if phase.name == "fuse":
                lines = _lines(mod)
    return {n.name_hint: f for n, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}, lines


def _lines(mod: tvm.IRModule) -> dict[str, set[tuple[str, int]]]:
    """Returns the user's lines by kernel; those of a fused kernel are the lines of its parts."""
    lines: dict[str, set[tuple[str, int]]] = {}
    for name, func in mod.functions_items():
        for call in _calls(func) if isinstance(func, relax.Function) else ():
            fused = func.attrs is not None and "Primitive" in func.attrs
            kernel = name.name_hint if fused else getattr(call.args[0], "name_hint", None) if call.args else None
            if kernel is not None and call.span is not None:
                lines.setdefault(kernel, set()).add((call.span.source_name.name, call.span.line))
    return lines


def _calls(func: relax.Function) -> Iterator[relax.Call]:
    values = (binding.value for block in func.body.blocks for binding in block.bindings)
    return (value for value in values if isinstance(value, relax.Call))


def _flops(kernel: tirx.PrimFunc) -> int | None:
    """Returns a kernel's floating-point operations; None if they cannot be counted."""
    read = read_kernel(kernel)
    if read is None or not all(isinstance(stage, Stage) for stage in read.stages):
        return None
    return _total(_stage_flops(stage) for stage in read.stages if isinstance(stage, Stage))


def _stage_flops(stage: Stage) -> int | None:
    sizes = [axis.size for axis in stage.axes]
    return None if None in sizes else prod(s for s in sizes if s is not None) * _arithmetic(stage.value)


def _arithmetic(value: Any) -> int:
    """Returns the floating-point operations of an expression; index arithmetic is on integers and not counted."""
    nodes: list[Any] = []
    structural_walk(value, (tvm.ir.Expr, lambda node: nodes.append(node)))
    return sum(isinstance(node, ARITHMETIC) and "float" in str(node.ty.dtype) and not _is_free(node) for node in nodes)


def _is_free(node: Any) -> bool:
    """Whether a call only selects or reinterprets values."""
    return isinstance(node, tvm.ir.Call) and str(getattr(node.op, "name", "")) in FREE_CALLS


def _bytes(kernel: tirx.PrimFunc) -> int | None:
    """Returns the bytes of a kernel's operands and results; None if a size is unknown."""
    return _total(_buffer_bytes(p.ty) for p in kernel.params if hasattr(p.ty, "shape"))


def _buffer_bytes(buffer: Any) -> int | None:
    if not all(isinstance(d, tirx.IntImm) for d in buffer.shape):
        return None
    return prod(int(d) for d in buffer.shape) * max(1, buffer.dtype.dtype.bits // 8)


def _total(amounts: Iterable[int | None]) -> int | None:
    """Returns the sum; None if an amount is unknown."""
    known = list(amounts)
    return None if None in known else sum(a for a in known if a is not None)


# -- memory


class Memory(NamedTuple):
    """The bytes of one call: of arguments and Variables, of results that are allocated, and of the arena.

    ``arena`` is the block that holds the intermediates, kept from call to call. ``live`` is the largest sum of
    intermediates that are live at once: no arena can be smaller. ``unplanned`` counts allocations of unknown size.
    """

    arguments: int
    results: int
    arena: int
    live: int
    unplanned: int


def memory(mod: tvm.IRModule) -> Memory:
    """Returns the bytes of a traced module, according to its memory plan."""
    target = host_target()
    with target, tvm.transform.PassContext(opt_level=3):
        for phase in takewhile(lambda p: p.name != "memory", phases(target)):
            mod = mod if phase.name == "schedule" else phase.run(mod)
    main = mod["main"]
    attrs = dict(main.attrs)
    allocated = [bytes_of(b.var.ty) for block in main.body.blocks for b in block.bindings if is_allocation(b.value)]
    known = [size for size in allocated if size is not None]
    arguments = sum(bytes_of(p.ty) or 0 for p in main.params)
    arena, live = (int(attrs.get(name, 0)) for name in (SIZE, LIVE))
    return Memory(arguments, sum(known), arena, live, len(allocated) - len(known))


# -- times


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
    """Times the kernels of compiled code on these arguments; Variables are copied, so none changes."""
    executable, handles = handles_of(code, tensors, variables)
    if executable is None:
        return Profile(())
    watch = Stopwatch()
    run = executable.instrumented(watch)
    for _ in range(repeat):
        watch.start()
        run(*handles)
    known = {c.name: c for c in costs(code.module())}
    parts = [KernelTime(n, calls, s, known.get(n)) for n, (calls, s) in (watch.best() if watch.runs else {}).items()]
    return Profile(tuple(sorted(parts, key=lambda k: -k.seconds)))


def handles_of(code: Any, tensors: Sequence[Any], variables: Sequence[Variable]) -> tuple[Any, list[Any]]:
    """Returns compiled code (None if nothing is computed) and its arguments, with copies of Variables."""
    captures = [code.bound(c, variables) for c in code.captures]
    handles = [*map(handle_of, tensors), *(_copied(c) if isinstance(c, Variable) else handle_of(c) for c in captures)]
    leading_results = [] if code.leading is None else code.leading.run([*tensors, *captures])
    executable, prepared, _ = code.code()
    return executable, [*handles, *leading_results, *prepared]


def _copied(variable: Variable) -> Any:
    return to_handle(np.array(variable._array))
