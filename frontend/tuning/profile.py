"""Where a compiled function's time goes: seconds of each kernel, its arithmetic and bytes, and the user's lines.

Kernels are timed where they run: an instrument of the virtual machine sees every call, so fusion, memory and threads are
those of the real call. Arithmetic is counted in the kernels as written, before they are scheduled.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import takewhile
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import tirx

from tvtf.core.dlpack_view import handle_of, to_handle
from tvtf.core.tvm_visitor import structural_walk
from tvtf.ir.provenance import kernel_lines
from tvtf.passes.memory.memory_plan import LIVE, SIZE, bytes_of, is_allocation
from tvtf.passes.pipeline import phases
from tvtf.passes.schedule.cpu.access import FREE_CALLS
from tvtf.passes.schedule.cpu.kernel import Stage, read_kernel
from tvtf.runtime.target import host_target
from tvtf.state.variable import Variable

ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min, tvm.ir.Call)
RUN_KERNEL = 0
"""What an instrument answers, before and after a call, to let the machine go on."""


class KernelCost(NamedTuple):
    """What one call of a kernel has to do; None where only the run knows the sizes, or the kernel is no loop nest.

    ``flops`` counts arithmetic on floats, but no comparisons and choices; ``bytes`` is every operand and result once;
    ``lines`` are the user's ``(file, line)``.
    """

    name: str
    flops: int | None
    bytes: int | None
    lines: tuple[tuple[str, int], ...]


class KernelTime(NamedTuple):
    """A kernel (or builtin of the machine) in one call of the function: how often it ran, and all its seconds."""

    name: str
    calls: int
    seconds: float
    cost: KernelCost | None

    @property
    def gigaflops(self) -> float | None:
        """Floating-point operations a nanosecond."""
        return self._rate(self.cost.flops if self.cost else None)

    @property
    def gigabytes(self) -> float | None:
        """Bytes of operands and results a nanosecond."""
        return self._rate(self.cost.bytes if self.cost else None)

    def _rate(self, amount: int | None) -> float | None:
        return None if amount is None else amount * self.calls / self.seconds * 1e-9


class Profile(NamedTuple):
    """The parts of one call, slowest first; printed as a table."""

    kernels: tuple[KernelTime, ...]

    @property
    def seconds(self) -> float:
        """All parts together."""
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
    """The cost of each kernel that a traced module becomes, in the order of their names."""
    kernels, lines = _kernels(mod)
    return [KernelCost(n, _flops(k), _bytes(k), tuple(sorted(lines.get(n, ())))) for n, k in sorted(kernels.items())]


def _kernels(mod: tvm.IRModule) -> tuple[dict[str, tirx.PrimFunc], dict[str, set[tuple[str, int]]]]:
    """The kernels before they are scheduled; lines are read before fused kernels become one."""
    lines: dict[str, set[tuple[str, int]]] = {}
    target = host_target()
    with target, tvm.transform.PassContext(opt_level=3):
        for phase in takewhile(lambda p: p.name != "schedule", phases(target)):
            mod = phase.run(mod)
            if phase.name == "fuse":
                lines = kernel_lines(mod)
    return {n.name_hint: f for n, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}, lines


def _flops(kernel: tirx.PrimFunc) -> int | None:
    read = read_kernel(kernel)
    if read is None or not all(isinstance(stage, Stage) for stage in read.stages):
        return None
    return _total(_stage_flops(stage) for stage in read.stages if isinstance(stage, Stage))


def _stage_flops(stage: Stage) -> int | None:
    sizes = [axis.size for axis in stage.axes]
    return None if None in sizes else prod(s for s in sizes if s is not None) * _arithmetic(stage.value)


def _arithmetic(value: Any) -> int:
    """Floating-point operations of an expression; those that compute indices are on integers."""
    found: list[Any] = []
    structural_walk(value, (tvm.ir.Expr, lambda node: found.append(node)))
    return sum(isinstance(node, ARITHMETIC) and "float" in str(node.ty.dtype) and not _is_free(node) for node in found)


def _is_free(node: Any) -> bool:
    """Calls that choose or reinterpret values."""
    return isinstance(node, tvm.ir.Call) and str(getattr(node.op, "name", "")) in FREE_CALLS


def _bytes(kernel: tirx.PrimFunc) -> int | None:
    return _total(_buffer_bytes(p.ty) for p in kernel.params if hasattr(p.ty, "shape"))


def _buffer_bytes(buffer: Any) -> int | None:
    if not all(isinstance(d, tirx.IntImm) for d in buffer.shape):
        return None
    return prod(int(d) for d in buffer.shape) * max(1, buffer.dtype.dtype.bits // 8)


def _total(amounts: Iterable[int | None]) -> int | None:
    known = list(amounts)
    return None if None in known else sum(a for a in known if a is not None)


# -- memory


class Memory(NamedTuple):
    """Bytes that one call needs: those of its arguments and Variables, of results in memory of their own, and of the arena.

    ``arena`` is the block in which intermediates lie, kept from call to call; ``live`` the largest sum of intermediates that
    are needed at once, below which no arena can be. ``unplanned`` counts allocations of unknown size.
    """

    arguments: int
    results: int
    arena: int
    live: int
    unplanned: int


def memory(mod: tvm.IRModule) -> Memory:
    """What the memory plan of a traced module comes to."""
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
    """An instrument: adds up calls and seconds by name."""

    def __init__(self) -> None:
        self.runs: list[dict[str, tuple[int, float]]] = []
        self._started = 0.0

    def start(self) -> None:
        """A new run of the function."""
        self.runs.append({})

    def __call__(self, _function: Any, name: str, before: bool, *_: Any) -> int:
        now = time.perf_counter()
        if not before:
            calls, seconds = self.runs[-1].get(name, (0, 0.0))
            self.runs[-1][name] = calls + 1, seconds + now - self._started
        self._started = time.perf_counter()
        return RUN_KERNEL

    def best(self) -> dict[str, tuple[int, float]]:
        """The calls of each name, and its seconds in its quickest run."""
        return {
            name: (self.runs[-1][name][0], min(r[name][1] for r in self.runs if name in r)) for name in self.runs[-1]
        }


def profile(code: Any, tensors: Sequence[Any], variables: Sequence[Variable], repeat: int) -> Profile:
    """Times the kernels of compiled code on these arguments; Variables are copied, so that none changes."""
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
    """Compiled code (None where nothing is computed), and the memory that it takes, with copies of Variables."""
    captures = [code.bound(c, variables) for c in code.captures]
    handles = [*map(handle_of, tensors), *(_copied(c) if isinstance(c, Variable) else handle_of(c) for c in captures)]
    led = [] if code.leading is None else code.leading.run([*tensors, *captures])
    executable, prepared, _ = code.code()
    return executable, [*handles, *led, *prepared]


def _copied(variable: Variable) -> Any:
    return to_handle(np.array(variable._array))
