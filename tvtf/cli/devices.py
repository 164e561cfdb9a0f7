"""``tvtf devices``: shows the devices that compiled code runs on."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import click

from tvtf.cli.failures import report_failures
from tvtf.core.thread_count import available_cores
from tvtf.core.thread_state import cache_folder
from tvtf.runtime.target import host_target

GPU_KINDS = ("cuda", "rocm", "vulkan", "metal", "opencl")
MAX_GPUS = 16


@click.command()
@report_failures
def devices() -> None:
    """Show the processor, its vector width, the cores used, GPUs, and the cache folder."""
    target = host_target()
    rows = {
        "processor": processor_name(),
        "compiled for": f"{target.attrs['mcpu']}, {vector_bits(target)}-bit vectors",
        "cores used": f"{available_cores()} (set TVTF_NUM_THREADS for another number)",
        "GPUs": ", ".join(gpus()) or "none that TVM sees",
        "cache": str(cache_folder()),
    }
    for name, value in rows.items():
        click.echo(f"{name + ':':14}{value}")


def processor_name() -> str:
    """Returns the name of the processor as the operating system reports it: on Linux, the name of the model.

    >>> bool(processor_name())
    True
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # the system is not Linux
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def vector_bits(target: Any) -> int:
    """Returns the width, in bits, of the vector registers that kernels are compiled for."""
    from tvtf.passes.schedule.cpu.target import CpuTarget

    return CpuTarget.of(target).vector_bits


def gpus() -> list[str]:
    """Lists the GPUs that TVM's runtimes can open, each as a text ``runtime:index name``."""
    import tvm

    names = []
    for runtime in GPU_KINDS:
        for index in range(MAX_GPUS):
            device = tvm.device(runtime, index)
            if not device.exist:
                break
            names.append(f"{runtime}:{index} {device.device_name}")
    return names
