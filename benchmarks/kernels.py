"""Measures single kernels of the CPU schedules: GF/s and GB/s, as fractions of the machine's peak.

Run as `python benchmarks/kernels.py [name part ...]`. Each line gives the best time of many runs, the rate, and the
share of the roofline: the lower of the arithmetic peak and bandwidth times intensity. Both are measured in the same
process: by a kernel of fused multiply-adds that never leaves its registers, and by a scaled copy of as many bytes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log2

os.environ.setdefault("TVM_NUM_THREADS", str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1))
os.environ.setdefault("TVM_BIND_THREADS", "0")

import numpy as np
import tvm
from tvm import te, tirx
from tvm.target import Target, codegen

from tvtf.ops.kernels import conv, fastmath, pool
from tvtf.ops.kernels.common import compute, reduce_axis
from tvtf.ops.kernels.matmul import matmul
from tvtf.passes.schedule.cpu import emit, schedule
from tvtf.passes.schedule.cpu.target import CpuTarget

CORES = int(os.environ["TVM_NUM_THREADS"])
TARGET = Target({"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu(), "num-cores": CORES})
SECONDS_A_KERNEL = 0.3
MATMULS = [(64, 512, 784), (1024, 1024, 1024), (1, 512, 784), (100, 100, 100), (512, 10, 64)]
CONVOLUTIONS = [((64, 28, 28, 1), (3, 3, 1, 32)), ((64, 13, 13, 32), (3, 3, 32, 64)), ((8, 28, 28, 64), (3, 3, 64, 64))]


@dataclass(frozen=True)
class Kernel:
    """A kernel, with its number of operations and the minimum number of bytes that it moves."""

    name: str
    func: tirx.PrimFunc
    operations: float
    traffic: float


def tensor(shape: Sequence[int], name: str = "x") -> te.Tensor:
    return te.placeholder(tuple(tirx.IntImm("int64", extent) for extent in shape), "float32", name)


def kernel(name: str, operands: Sequence[te.Tensor], result: te.Tensor, operations: float = 0) -> Kernel:
    func = te.create_prim_func([*operands, result])
    traffic = 4.0 * sum(elements(each) for each in (*operands, result))
    return Kernel(name, schedule(func.with_attr("global_symbol", "main"), TARGET), operations, traffic)


def elements(x: te.Tensor) -> int:
    return int(np.prod([int(extent) for extent in x.shape]))


def matmuls() -> Iterator[Kernel]:
    """Yields kernels of matrix products, with either operand transposed."""
    for m, n, k in MATMULS:
        for left, right in ((False, False), (True, False), (False, True)):
            a, b = tensor((k, m) if left else (m, k), "a"), tensor((n, k) if right else (k, n), "b")
            form = f"{'T' if left else 'N'}{'T' if right else 'N'}"
            yield kernel(f"matmul {m}x{n}x{k} {form}", [a, b], matmul(a, b, left, right), 2.0 * m * n * k)


def convolutions() -> Iterator[Kernel]:
    """Yields kernels of convolutions and of their gradients by input and filter."""
    how = ((1, 1), [(0, 0), (0, 0)], (1, 1))
    for x_shape, w_shape in CONVOLUTIONS:
        x, w = tensor(x_shape), tensor(w_shape, "w")
        y = conv.conv_nd(x, w, *how)
        dy = tensor([int(extent) for extent in y.shape], "dy")
        work, name = 2.0 * elements(y) * np.prod(w_shape[:-1]), f"{'x'.join(map(str, x_shape))} to {w_shape[-1]}"
        yield kernel(f"conv {name}", [x, w], y, work)
        yield kernel(f"conv dx {name}", [dy, w], conv.conv_nd_input_grad(dy, w, x_shape, *how), work)
        yield kernel(f"conv dw {name}", [x, dy], conv.conv_nd_filter_grad(x, dy, w_shape, *how), work)


def elementwise() -> Iterator[Kernel]:
    """Yields elementwise kernels and a transpose."""
    x, y, b = tensor((4_000_003,)), tensor((4_000_003,), "y"), tensor((1003,), "b")
    yield kernel("w - lr * g, 4M", [x, y], compute(x.shape, lambda i: x[i] - y[i] * tirx.const(0.1, "float32"), "sgd"))
    m = tensor((1000, 1003))
    zero = tirx.const(0, "float32")
    yield kernel("relu(x + b)", [m, b], compute(m.shape, lambda i, j: tirx.max(m[i, j] + b[j], zero), "relu"))
    yield kernel("transpose", [m], compute((1003, 1000), lambda i, j: m[j, i], "transpose"))
    for name in ("exp", "log", "tanh", "sigmoid", "erf"):
        yield kernel(f"{name}, 1M", [m], applied(getattr(fastmath, name), m))


def applied(function: Callable, x: te.Tensor) -> te.Tensor:
    return compute(x.shape, lambda i, j: function(x[i, j]), "applied")


def reductions() -> Iterator[Kernel]:
    """Yields kernels of reductions, a softmax and a pooling."""
    x = tensor((1000, 1003))
    i, j = reduce_axis(1000, "i"), reduce_axis(1003, "j")
    yield kernel("sum of all", [x], te.compute((), lambda: te.sum(x(i, j), axis=[i, j])))
    yield kernel("sum of rows", [x], compute((1000,), lambda a: te.sum(x(a, j), axis=[j]), "rows"))
    yield kernel("sum of columns", [x], compute((1003,), lambda a: te.sum(x(i, a), axis=[i]), "columns"))
    yield kernel("softmax", [x], softmax(x))
    image = tensor((64, 26, 26, 32))
    yield kernel("max pool 2x2", [image], pool.max_pool_nd(image, (2, 2), (2, 2), [(0, 0), (0, 0)]))


def softmax(x: te.Tensor) -> te.Tensor:
    """Returns the softmax of each row, as separate stages: maximum, exponentials, sum and quotient."""
    k, j = reduce_axis(x.shape[1], "k"), reduce_axis(x.shape[1], "j")
    largest = compute((x.shape[0],), lambda a: te.max(x(a, k), axis=[k]), "largest")
    powers = compute(x.shape, lambda a, b: fastmath.exp(x(a, b) - largest(a)), "powers")
    total = compute((x.shape[0],), lambda a: te.sum(powers(a, j), axis=[j]), "total")
    return compute(x.shape, lambda a, b: powers(a, b) / total(a), "softmax")


def peak_kernel() -> Kernel:
    """Returns a kernel of multiply-adds on enough registers to hide their latency."""
    facts = CpuTarget.of(TARGET)
    lanes, chains, steps, tasks = facts.lanes(4), facts.vector_registers * 3 // 4, 4096, 4 * CORES
    factor = tirx.decl_buffer((2 * lanes,), "float32", "factor")
    result = tirx.decl_buffer((tasks, chains * lanes), "float32", "result")
    accumulators = emit.scratch([chains * lanes], "float32", "held", "local")

    def for_each_lane(body: Callable) -> tirx.Stmt:
        return emit.unrolled(chains, lambda u: emit.vectorized(lanes, lambda lane: body(u * lanes + lane, lane)))

    def emit_multiply_add(index, lane) -> tirx.Stmt:
        grown = emit.load(accumulators, [index]) * emit.load(factor, [lane]) + emit.load(factor, [lane + lanes])
        return emit.store(accumulators, grown, [index])

    def emit_task(task_index) -> tirx.Stmt:
        """Emits one task: loads the accumulators, runs chains of multiply-adds, and stores the accumulators."""
        return emit.sequence([
            emit.allocate(accumulators),
            for_each_lane(lambda index, _lane: emit.store(accumulators, emit.load(result, [task_index, index]), [index])),
            emit.loop(steps, lambda _step: for_each_lane(emit_multiply_add)),
            for_each_lane(lambda index, _lane: emit.store(result, emit.load(accumulators, [index]), [task_index, index])),
        ])  # fmt: skip

    body = emit.loop(tasks, emit_task, tirx.ForKind.PARALLEL)
    func = tirx.PrimFunc([factor, result], body).with_attr("global_symbol", "main").with_attr("s_tir", True)
    return Kernel("peak", func.with_attr("tirx.noalias", True), 2.0 * tasks * chains * lanes * steps, 0)


@lru_cache
def bandwidth(power: int) -> float:
    """Returns the bytes per second of a scaled copy of about 2**power bytes, which the smallest cache of that size serves."""
    x = tensor((2**power // 8,))
    copy = kernel("copy", [x], compute(x.shape, lambda i: x[i] * tirx.const(2, "float32"), "scaled"))
    return copy.traffic / best_seconds(copy)


def best_seconds(each: Kernel) -> float:
    """Compiles a kernel and returns the shortest time of its runs."""
    built = tvm.compile(tvm.IRModule({"main": each.func}), target=TARGET)["main"]
    rng = np.random.default_rng(0)
    shapes = [[int(extent) for extent in param.ty.shape] for param in each.func.params]
    arguments = [tvm.runtime.tensor(rng.random(shape, "float32")) for shape in shapes]
    built(*arguments)
    best, end = float("inf"), time.perf_counter() + SECONDS_A_KERNEL
    while time.perf_counter() < end:
        start = time.perf_counter()
        built(*arguments)
        best = min(best, time.perf_counter() - start)
    return best


def main(parts: Sequence[str]) -> None:
    """Prints a line for each kernel whose name contains one of ``parts``."""
    peak = peak_kernel().operations / best_seconds(peak_kernel())
    memory = bandwidth(27)
    print(f"{TARGET.attrs['mcpu']}, {CORES} threads: peak {peak / 1e9:.0f} GF/s, memory {memory / 1e9:.1f} GB/s")
    print(f"{'kernel':38} {'us':>9} {'GF/s':>7} {'GB/s':>7}  of roofline")
    for group in (matmuls, convolutions, elementwise, reductions):
        for each in group():
            if not parts or any(part in each.name for part in parts):
                print(line(each, peak), flush=True)


def line(each: Kernel, peak: float) -> str:
    seconds = best_seconds(each)
    least = max(each.operations / peak, each.traffic / bandwidth(round(log2(each.traffic))))
    rates = f"{each.operations / seconds / 1e9:7.1f} {each.traffic / seconds / 1e9:7.1f}"
    return f"{each.name:38} {seconds * 1e6:9.1f} {rates}  {least / seconds:5.0%}"


if __name__ == "__main__":
    main(sys.argv[1:])
