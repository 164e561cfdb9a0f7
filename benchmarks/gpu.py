"""Compares kernels on a GPU with PyTorch and JAX on the same card: ``python -m benchmarks.gpu``.

Arguments and results stay on the GPU, and a batch of calls is queued before one waits for it: what is timed are the
kernels, unless launching them takes longer. Peers that aren't installed are left out. Float32 products are those of tf32
everywhere.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import tvtf as tf

ROUNDS, SECONDS, BATCH = 5, 0.1, 10


class Run(NamedTuple):
    """``start()`` queues a call of a kernel; ``wait(result)`` waits for a call, and so for those before it."""

    start: Callable[[], Any]
    wait: Callable[[Any], Any]


@dataclass(frozen=True)
class Kernel:
    """One workload as a function of a framework's module: ``tf``, ``torch`` or ``jax.numpy``."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    tvtf: Callable[..., Any]
    torch: Callable[..., Any]
    jax: Callable[..., Any]
    flops: int = 0
    torch_layout: Callable[[list[Any]], list[Any]] = list
    """Brings arguments into PyTorch's layout, which isn't timed."""

    def arrays(self) -> list[np.ndarray]:
        random = np.random.default_rng(0)
        kind = tf.as_dtype(self.dtype).as_numpy_dtype
        return [random.standard_normal(shape).astype(kind) for shape in self.shapes]


def _softmax_of_jax(x: Any) -> Any:
    import jax

    return jax.nn.softmax(x)


def _conv_of_torch(x: Any, w: Any) -> Any:
    import torch

    return torch.nn.functional.conv2d(x, w, padding=1)


def _channels_last(tensors: list[Any]) -> list[Any]:
    import torch

    x, w = tensors
    return [x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)]


def _conv_of_jax(x: Any, w: Any) -> Any:
    from jax import lax

    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _matmul(dtype: str, size: int) -> Kernel:
    shapes = ((size, size), (size, size))
    multiply = lambda x, y: x @ y  # noqa: E731
    return Kernel(f"matmul {size} {dtype}", shapes, dtype, tf.matmul, multiply, multiply, 2 * size**3)


def _conv(dtype: str) -> Kernel:
    shapes = ((32, 56, 56, 64), (3, 3, 64, 128))
    flops = 2 * 32 * 56 * 56 * 9 * 64 * 128
    run = lambda x, w: tf.nn.conv2d(x, w, 1, "SAME")  # noqa: E731
    return Kernel(f"conv 3x3 {dtype}", shapes, dtype, run, _conv_of_torch, _conv_of_jax, flops, _channels_last)


KERNELS = [
    *(_matmul(dtype, size) for dtype in ("float16", "bfloat16", "float32") for size in (512, 4096)),
    *(_conv(dtype) for dtype in ("float16", "float32")),
    Kernel(
        "softmax",
        ((8192, 4096),),
        "float32",
        tf.nn.softmax,
        lambda x: x.softmax(-1),
        _softmax_of_jax,
    ),
    Kernel("sum", ((1 << 26,),), "float32", tf.reduce_sum, lambda x: x.sum(), lambda x: x.sum()),
    Kernel(
        "x * y + x",
        ((1 << 26,), (1 << 26,)),
        "float32",
        lambda x, y: x * y + x,
        lambda x, y: x * y + x,
        lambda x, y: x * y + x,
    ),
]


def of_tvtf(kernel: Kernel) -> Run:
    """Returns a run of the kernel compiled by tvtf, on arguments in GPU memory."""
    import tvm

    from tvtf.runtime.executable import Executable

    specs = [tf.TensorSpec(shape, tf.as_dtype(kernel.dtype)) for shape in kernel.shapes]
    with tf.device("GPU:0"):
        code = tf.function(kernel.tvtf).get_concrete_function(*specs).code()
        executable = code.code().executable
    function = Executable.function(executable)
    handles = [tvm.runtime.tensor(a, tvm.cuda(0)) for a in kernel.arrays()]
    device = tvm.cuda(0)
    return Run(lambda: function(*handles), lambda _: device.sync())


def of_torch(kernel: Kernel, compiles: bool = False) -> Run:
    """Returns a run of the kernel in PyTorch, eager or compiled, on arguments in GPU memory."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    tensors = [torch.tensor(a.astype("float32")).to("cuda", getattr(torch, kernel.dtype)) for a in kernel.arrays()]
    function = torch.compile(kernel.torch) if compiles else kernel.torch
    tensors = kernel.torch_layout(tensors)
    return Run(lambda: function(*tensors), lambda _: torch.cuda.synchronize())


def of_jax(kernel: Kernel) -> Run:
    """Returns a run of the kernel jitted by JAX, on arguments in GPU memory."""
    import jax

    arrays = [jax.device_put(a) for a in kernel.arrays()]
    function = jax.jit(kernel.jax)
    return Run(lambda: function(*arrays), lambda result: result.block_until_ready())


PEERS: dict[str, Callable[[Kernel], Run]] = {
    "tvtf": of_tvtf,
    "torch": of_torch,
    "torch.compile": partial(of_torch, compiles=True),
    "JAX": of_jax,
}


def microseconds(run: Run) -> float:
    """Returns the mean time of a call, measured over a fraction of a second."""
    calls, started = 0, time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        for _ in range(BATCH):
            last = run.start()
        run.wait(last)
        calls += BATCH
    return (time.perf_counter() - started) / calls * 1e6


def measured(kernel: Kernel) -> dict[str, float]:
    """Returns the medians of interleaved rounds."""
    runs: dict[str, Run] = {}
    for name, make in PEERS.items():
        try:
            runs[name] = make(kernel)
        except ImportError:
            continue
        runs[name].wait(runs[name].start())
    rounds = [{name: microseconds(run) for name, run in runs.items()} for _ in range(ROUNDS)]
    return {name: statistics.median(r[name] for r in rounds) for name in runs}


def main() -> None:
    """Prints a table: microseconds of each peer, tvtf's rate, and its ratio to the best peer."""
    print("| kernel | " + " | ".join(PEERS) + " | TFLOP/s | best peer / tvtf |\n|" + "---|" * (len(PEERS) + 3))
    for kernel in KERNELS:
        times = measured(kernel)
        others = [t for name, t in times.items() if name != "tvtf"]
        cells = [f"{times[name]:,.0f}" if name in times else "" for name in PEERS]
        rate = f"{kernel.flops / times['tvtf'] / 1e6:,.1f}" if kernel.flops else ""
        ratio = f"{min(others) / times['tvtf']:.2f}" if others else ""
        print("| " + " | ".join([kernel.name, *cells, rate, ratio]) + " |", flush=True)


if __name__ == "__main__":
    main()
