"""What compiling single kernels takes, and the lines that TVTF_DEBUG=2 prints of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

COSTLIEST = 10
"""Kernels that are listed one by one."""


@dataclass
class KernelCost:
    """A kernel, and the processor seconds of each step of its compilation; no step if its code was found."""

    name: str
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measures the processor time of a ``with`` block, and adds it to a step of the kernel's compilation."""
        started = time.thread_time()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.thread_time() - started


def lines(costs: Sequence[KernelCost]) -> Iterator[str]:
    """Yields lines of text about the kernels of a compilation: a summary, then the costliest kernels.

    >>> costs = [KernelCost("conv", {"schedule": 0.03, "LLVM": 0.25}), KernelCost("add", {"LLVM": 0.01}), KernelCost("mean")]
    >>> print(*lines(costs), sep="\\n")
    3 kernels, 1 of them found in the cache; processor seconds: schedule 0.030, LLVM 0.260
       0.280 s  conv (schedule 0.030, LLVM 0.250)
       0.010 s  add (LLVM 0.010)
    """
    compiled = sorted((cost for cost in costs if cost.seconds), key=lambda cost: -cost.total)
    seconds_by_step: dict[str, float] = {}
    for cost in compiled:
        for step, seconds in cost.seconds.items():
            seconds_by_step[step] = seconds_by_step.get(step, 0.0) + seconds
    summary = f"{len(costs)} kernels, {len(costs) - len(compiled)} of them found in the cache"
    yield f"{summary}; processor seconds: {_steps(seconds_by_step)}" if compiled else summary
    for cost in compiled[:COSTLIEST]:
        yield f"{cost.total:8.3f} s  {cost.name} ({_steps(cost.seconds)})"


def _steps(seconds: dict[str, float]) -> str:
    return ", ".join(f"{step} {took:.3f}" for step, took in seconds.items())
