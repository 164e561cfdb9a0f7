"""The facts of the machine that schedules depend on: vectors, registers, cores, caches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tvm.target import Target, codegen

BITS_PER_BYTE = 8
HALF_WIDTH_PROCESSORS = {"znver4"}
"""Processors that execute a 512-bit vector as two halves: rows that end in a short vector are a tenth faster there."""


@dataclass(frozen=True)
class CpuTarget:
    """Facts of a CPU from which every tile size is derived.

    Example:
        >>> from tvm.target import Target
        >>> facts = CpuTarget.of(Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 4}))
        >>> facts.vector_bits, facts.vector_registers, facts.cores, facts.lanes(4)
        (256, 16, 4, 8)
    """

    vector_bits: int
    vector_registers: int
    cores: int
    level1_bytes: int = 32 * 1024
    level2_bytes: int = 1024 * 1024
    is_halved: bool = False
    """Whether a full vector takes twice as long as a half, as on processors that execute its halves in turn."""

    @staticmethod
    def of(target: Target) -> CpuTarget:
        """Derives a CPU's properties from a TVM target of kind `llvm`; cache sizes are those of a small server core."""
        bits = _vector_bits(str(target))
        is_halved = bits == 512 and str(target.attrs.get("mcpu", "")) in HALF_WIDTH_PROCESSORS
        return CpuTarget(bits, _vector_registers(target, bits), _cores(target), is_halved=is_halved)

    def lanes(self, item_bytes: int) -> int:
        """Returns how many elements of a given size fit one vector register."""
        return max(1, self.vector_bits // (BITS_PER_BYTE * max(1, item_bytes)))


@lru_cache(maxsize=16)
def _vector_bits(described: str) -> int:
    """Returns the width of a processor's vector registers in bits, by its features.

    LLVM's width can't be used: for levels such as x86-64-v3, LLVM returns the width of the host's registers.

    Args:
        described: the text of the processor's target.
    """
    target = Target(described)
    if codegen.target_has_features("avx512f", target):
        return 512
    return 256 if codegen.target_has_features("avx2", target) else 128


def _vector_registers(target: Target, bits: int) -> int:
    """Returns the number of vector registers: 32 with AVX-512 and on AArch64, else 16."""
    has_32 = bits >= 512 or "aarch64" in str(target.attrs.get("mtriple", ""))
    return 32 if has_32 else 16


def _cores(target: Target) -> int:
    """Returns the number of cores in a target's attributes; 1 if it has none."""
    return max(1, int(target.attrs.get("num-cores", 1)))
