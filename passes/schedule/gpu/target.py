"""The facts of a GPU that schedules depend on, and whether kernels run on it or are emulated on the CPU."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.target import Target

VECTOR_BYTES = 16
SWIZZLED_BYTES, SWIZZLED_LINES = 128, 8
"""The bytes of a line in which vectors are permuted, and the number of lines after which the permutations repeat (PTX ISA,
"Shared Memory Matrix Layout", 128-Byte swizzling mode)."""
TENSOR_CORES_FROM = 80
"""The lowest compute capability (times ten) with which kernels use tensor cores."""
WARPGROUPS = "warpgroups"
"""The key of a target whose warps multiply in groups."""
TF32 = "tf32"
"""The key of a target that allows tf32 for float32 products."""


@dataclass(frozen=True)
class GpuTarget:
    """Facts of a GPU from which launches and tiles are derived.

    ``emulated`` kernels run block by block and thread by thread on the CPU, so that schedules are tested without a GPU.
    Example:
        >>> from tvm.target import Target
        >>> facts = GpuTarget.of(Target({"kind": "cuda", "arch": "sm_90"}))
        >>> facts.capability, facts.has_tensor_cores, facts.threads
        (90, True, 256)
    """

    capability: int = TENSOR_CORES_FROM
    emulated: bool = False
    threads: int = 256
    warp: int = 32
    shared_bytes: int = 48 * 1024
    has_tf32: bool = False
    has_warpgroup_products: bool = False
    resident_threads: int = 1 << 17

    @staticmethod
    def of(target: Target) -> GpuTarget:
        """Reads the properties of a GPU from a TVM target of kind ``cuda``.

        Any other kind of target stands for the emulation of a GPU with the smallest supported capability.
        """
        tf32, warpgroups = (key in target.keys for key in (TF32, WARPGROUPS))
        if target.kind.name != "cuda":
            return GpuTarget(emulated=True, has_tf32=tf32, has_warpgroup_products=warpgroups)
        capability = capability_of(str(target.attrs["arch"]))
        return GpuTarget(capability, has_tf32=tf32, has_warpgroup_products=warpgroups)

    @property
    def has_tensor_cores(self) -> bool:
        return self.capability >= TENSOR_CORES_FROM

    def lanes(self, item_bytes: int) -> int:
        """Returns the number of elements of a vector that one thread moves at once."""
        return max(1, VECTOR_BYTES // item_bytes)


def capability_of(arch: str) -> int:
    """Returns the compute capability times ten from an architecture's name: 90 for ``sm_90`` and ``sm_90a``."""
    return int("".join(filter(str.isdigit, arch)))
