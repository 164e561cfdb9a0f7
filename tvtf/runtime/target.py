"""Compilation targets: TVM targets for the CPU and for GPUs."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from tvtf.core.device_spec import DeviceSpec
from tvtf.core.thread_count import available_cores

CPU, GPU = "CPU", "GPU"
_ARCH = re.compile(r"sm_(\d{2,3})[af]?")
OLDEST = 80
HOPPER = "sm_90a"
"""The only architecture with the instructions of warpgroups: code for it runs on no later GPU."""


@lru_cache(maxsize=1)
def host_target() -> Any:
    """Returns TVM's target for this machine's CPU."""
    from tvm.target import Target, codegen

    return Target({"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu(), "num-cores": available_cores()})


@lru_cache(maxsize=16)
def cuda_target(arch: str, tf32: bool = True) -> Any:
    """Returns the TVM target to compile for NVIDIA GPUs of an architecture, such as ``sm_90``, with this CPU as host.

    Code for ``sm_90a`` multiplies 16-bit matrices in half the time of code for ``sm_90``, and runs on Hopper GPUs alone.

    With ``tf32``, float32 matrix products and convolutions round operands to TF32 (10 fraction bits), as in TensorFlow.

    Raises:
      ValueError: the architecture is not of the form ``sm_NN``, or older than sm_80.
    """
    from tvm import backend
    from tvm.target import Target

    backend.load("cuda")
    match = _ARCH.fullmatch(arch)
    if match is None or int(match[1]) < OLDEST:
        raise ValueError(f"a GPU's architecture must be sm_{OLDEST} or later, such as sm_90, but got {arch!r}")
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 48 * 1024, "thread_warp_size": 32}
    keys = ["cuda", "gpu", *_kinds_of_products(tf32, arch == HOPPER)]
    return Target({"kind": "cuda", "arch": arch, "keys": keys, "host": host_target(), **limits})


@lru_cache(maxsize=4)
def emulated_gpu_target(tf32: bool = False, warpgroups: bool = False) -> Any:
    """Returns a target whose kernels are scheduled for a GPU but run on the CPU, thread by thread, to test schedules.

    With ``warpgroups``, 16-bit products are those of a Hopper GPU's warpgroups.
    """
    from tvm.target import Target

    keys = ["cpu", "gpu", *_kinds_of_products(tf32, warpgroups)]
    return Target({"kind": "llvm", "mcpu": host_target().attrs["mcpu"], "keys": keys})


def _kinds_of_products(tf32: bool, warpgroups: bool) -> list[str]:
    """Returns the target keys that select how schedules multiply matrices: in TF32, by Hopper's warpgroup instructions."""
    return [key for key, is_used in (("tf32", tf32), ("warpgroups", warpgroups)) if is_used]


def device_kind(device: str) -> tuple[str, int]:
    """Parses a device's name, ``GPU:0`` or ``/job:localhost/replica:0/task:0/device:CPU:0``. Returns its type and index.

    Raises:
      ValueError: the name does not denote a local CPU or GPU.

    >>> device_kind("/GPU:1")
    ('GPU', 1)
    """
    spec = DeviceSpec.from_string(device)
    is_remote = spec.job not in (None, "localhost") or spec.replica or spec.task
    if is_remote or spec.device_type not in (None, CPU, GPU):
        raise ValueError(f"Failed to parse device name: {device!r}; it must be such as '/CPU:0' or '/GPU:0'")
    return spec.device_type or CPU, spec.device_index or 0


class products:  # noqa: N801 - a namespace for one process-wide setting
    """The precision of float32 matrix products on GPUs."""

    in_tf32 = True


def target_of(device: str | None) -> Any:
    """Returns the TVM target to compile for, given a device's name; None stands for the CPU.

    Raises:
      RuntimeError: the GPU does not exist.
    """
    device_type, index = device_kind(device) if device else (CPU, 0)
    return host_target() if device_type == CPU else cuda_target(gpu_arch(index), products.in_tf32)


@lru_cache(maxsize=16)
def gpu_arch(index: int) -> str:
    """Returns the CUDA architecture to compile for, such as ``sm_80``, of this machine's GPU number ``index``.

    A GPU of compute capability 8.0 has the architecture ``sm_80``. For a Hopper GPU (9.0) the result is ``sm_90a``
    instead of ``sm_90``: such code may use Hopper's own matrix instructions, and runs on no later GPU. That does no
    harm, because the code is compiled for this machine.

    Raises:
      RuntimeError: the GPU, its driver or the CUDA runtime is missing; the text says which.
    """
    import tvm

    from tvtf.passes.codegen.cuda import CudaError, load_runtime

    try:
        load_runtime()
    except CudaError as reason:
        raise RuntimeError(f"GPU:{index} unknown device: {reason}") from reason
    device = tvm.cuda(index)
    if not device.exist:
        raise RuntimeError(f"GPU:{index} unknown device: the CUDA driver finds no GPU of that number")
    arch = "sm_" + device.compute_version.replace(".", "")  # compute_version is such as "8.0"
    return HOPPER if HOPPER.startswith(arch) else arch
