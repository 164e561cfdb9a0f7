"""Compiles lowered functions to object code with LLVM."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache

import tvm
import tvm_ffi
from tvm import IRModule, ir
from tvm.target import Target, codegen
from tvm.tirx import AttrStmt, BufferStore
from tvm.tirx.build import codegen_build

from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.codegen.elf import without_unused
from tvtf.passes.codegen.memory_file import object_code
from tvtf.passes.codegen.processor_models import model_of_vector_width
from tvtf.passes.schedule.cpu.subroutine import has_calls

LEVEL, SAFE_LEVEL = 2, 1
"""LLVM's optimization level, and the one for code that it fails on there. Level 3 mostly unrolls more loops, and takes 1.4
times as long for a convolution, whose schedule has unrolled what is profitable: none of 45 kernels became faster by more than
noise. At level 1, without loops turned to selections, arg max and max pooling take four to seven times as long."""
LEVEL_WITHOUT_STORES = 0
"""The level for functions that only call subroutines, whose loops are what takes time: LLVM takes a quarter of the time. Also
for a module without functions, which takes 0.7 ms instead of 3.3."""
HAS_ELF = sys.platform not in ("darwin", "win32")
"""Whether object files are ELF, in which symbols can be renamed."""
_CONVERSIONS = ("__truncsfhf2", "__extendhfsf2")
_NO_CONVERSIONS = "@tvtf_unused = weak hidden global i8 0\n" + "\n".join(
    f"@{name} = alias i8, ptr @tvtf_unused" for name in _CONVERSIONS
)


def native(part: IRModule, host: Target) -> tvm.runtime.Module:
    """Compiles lowered functions with LLVM to a runtime module.

    Sometimes (one kernel in a thousand at level 3) LLVM 22 produces code that LLVM's own verifier rejects, such as
    float16 sums on AVX2. Such functions are compiled again with one optimization level less.

    Args:
      part: the lowered functions.
      host: the CPU to compile for.
    """
    level = LEVEL_WITHOUT_STORES if _stores_nothing(part) else LEVEL
    try:
        return codegen_build(part, _at_level(host, level))
    except tvm.error.InternalError as error:
        if "module verification failed" not in str(error):
            raise
        return codegen_build(part, _at_level(host, SAFE_LEVEL))


def _stores_nothing(part: IRModule) -> bool:
    """Returns whether functions store nothing themselves, but call subroutines that do; or whether there are none."""
    bodies = [func.body for func in part.functions.values()]
    store = (BufferStore, tvm_ffi.VisitInterrupt)
    calls_subroutines = any(map(has_calls, bodies)) or not bodies
    return calls_subroutines and all(structural_walk(body, store) is None for body in bodies)


def native_code(part: IRModule, host: Target) -> bytes:
    """Compiles functions to object code, without TVM's float16 conversion functions if the code doesn't call them.

    TVM adds two such functions to every LLVM module (`CodeGenLLVM::Init`), for processors without a conversion
    instruction. Compiling them takes 7 ms, longer than a kernel that adds two tensors. To avoid this, a linked module
    defines their names as aliases of a byte, which LLVM prefers to weak functions. The definitions are removed from the
    object afterwards. If the code calls the functions, it is compiled again with them.

    Args:
      part: the lowered functions.
      host: the CPU to compile for.
    """
    if HAS_ELF and part.functions:
        linked = object_code(native(_without_conversions(part), host))
        code = without_unused(linked, _CONVERSIONS)
        if code is not None:
            return code
    return object_code(native(part, host))


@lru_cache(maxsize=16)
def with_less_unrolling(host: Target) -> Target:
    """Returns a target with the same instructions, for which LLVM unrolls loops to 50 operations instead of 512.

    The target names a generic processor model, and lists how the actual processor's features differ from the model's.

    LLVM unrolls loops up to the buffer size in its processor model: 512 operations since Zen 3 and Alder Lake. The
    schedules have unrolled what is profitable. With more copies, kernels compile 5 % slower and run no faster (25
    kernels, all within 2 %). A register tile uses nearly all registers in one iteration: two unrolled iterations need
    more than there are, so that LLVM spills some to the stack.
    """
    model = model_of_vector_width(host)
    if model is None or "mcpu" not in host.attrs:
        return host
    own_features = set(map(str, codegen.llvm_get_cpu_features(host)))
    model_features = set(map(str, codegen.llvm_get_cpu_features(_of_model(host, model.name))))
    added = [f"+{name}" for name in sorted(own_features - model_features)]
    removed = [f"-{name}" for name in sorted(model_features - own_features)]
    return _of_model(host, model.name, added + removed)


def _of_model(host: Target, model: str, features: Sequence[str] = ()) -> Target:
    """Returns a target for another processor model, with features added to it or taken away."""
    attrs = {name: value for name, value in host.attrs.items() if name not in ("mcpu", "mattr")}
    return Target({"kind": host.kind.name, **attrs, "mcpu": model, "mattr": list(features)})


def _without_conversions(part: IRModule) -> IRModule:
    """Returns functions in a module that defines the names of TVM's float16 conversions as aliases of a byte."""
    name, func = next(iter(part.functions.items()))
    unused_node = tvm.tirx.const(0, "int32")
    body = AttrStmt(unused_node, "pragma_import_llvm", ir.StringImm(_NO_CONVERSIONS), func.body)
    return IRModule({**part.functions, name: func.with_body(body)}, attrs=part.attrs)


def _at_level(host: Target, level: int) -> Target:
    """Returns a target with LLVM's optimization level."""
    return Target({"kind": host.kind.name, "opt-level": level, **host.attrs})
