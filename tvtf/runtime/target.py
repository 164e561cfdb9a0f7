"""Targets: what code is generated for."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from tvtf.core.device_spec import DeviceSpec
from tvtf.core.thread_count import available_cores

CPU, GPU = "CPU", "GPU"
_ARCH = re.compile(r"sm_(\d{2,3})[af]?")
OLDEST = 80


@lru_cache(maxsize=1)
def host_target() -> Any:
    """TVM's target for the processor this process runs on."""
    from tvm.target import Target, codegen

    return Target({"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu(), "num-cores": available_cores()})


@lru_cache(maxsize=16)
def cuda_target(arch: str, tf32: bool = True) -> Any:
    """TVM's target for NVIDIA's GPUs of an architecture, such as ``sm_90``, beside this processor.

    With ``tf32``, float32 products of matrices and convolutions have 10 bits of their operands' fractions, as TensorFlow's have.

    Raises:
      ValueError: the architecture has another form, or is older than sm_80.
    """
    from tvm import backend
    from tvm.target import Target

    backend.load("cuda")
    named = _ARCH.fullmatch(arch)
    if named is None or int(named[1]) < OLDEST:
        raise ValueError(f"a GPU's architecture must be sm_{OLDEST} or later, such as sm_90, but got {arch!r}")
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 48 * 1024, "thread_warp_size": 32}
    return Target(
        {"kind": "cuda", "arch": arch, "keys": ["cuda", "gpu", *_precision(tf32)], "host": host_target(), **limits}
    )


@lru_cache(maxsize=2)
def emulated_gpu_target(tf32: bool = False) -> Any:
    """A target whose kernels are scheduled for a GPU and run on this processor, thread by thread: to check schedules."""
    from tvm.target import Target

    return Target({"kind": "llvm", "mcpu": host_target().attrs["mcpu"], "keys": ["cpu", "gpu", *_precision(tf32)]})


def _precision(tf32: bool) -> list[str]:
    return ["tf32"] if tf32 else []


def device_kind(device: str) -> tuple[str, int]:
    """The kind and number in a device's name: ``GPU:0``, ``/gpu:0``, ``/job:localhost/replica:0/task:0/device:CPU:0``.

    Raises:
      ValueError: for another name.

    >>> device_kind("/GPU:1")
    ('GPU', 1)
    """
    spec = DeviceSpec.from_string(device)
    elsewhere = spec.job not in (None, "localhost") or spec.replica or spec.task
    if elsewhere or spec.device_type not in (None, CPU, GPU):
        raise ValueError(f"Failed to parse device name: {device!r}; it must be such as '/CPU:0' or '/GPU:0'")
    return spec.device_type or CPU, spec.device_index or 0


class products:  # noqa: N801 - the one place where it is kept
    """How a GPU multiplies matrices of float32."""

    in_tf32 = True


def target_of(device: str | None) -> Any:
    """The target for a device by its name.

    Raises:
      RuntimeError: it names a GPU that isn't there.
    """
    kind, number = device_kind(device) if device else (CPU, 0)
    return host_target() if kind == CPU else cuda_target(gpu_arch(number), products.in_tf32)


@lru_cache(maxsize=16)
def gpu_arch(number: int) -> str:
    """The architecture of a GPU of this machine, such as ``sm_90``.

    Raises:
      RuntimeError: there is no such GPU, or its driver or the CUDA runtime is missing; the text says which.
    """
    import tvm

    from tvtf.passes.codegen.cuda import CudaError, load_runtime

    try:
        load_runtime()
    except CudaError as reason:
        raise RuntimeError(f"GPU:{number} unknown device: {reason}") from reason
    device = tvm.cuda(number)
    if not device.exist:
        raise RuntimeError(f"GPU:{number} unknown device: the CUDA driver finds no GPU of that number")
    return "sm_" + device.compute_version.replace(".", "")
