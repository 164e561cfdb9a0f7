"""Compiles lowered functions to object code with LLVM."""

from __future__ import annotations

import sys

import tvm
from tvm import IRModule, ir
from tvm.target import Target
from tvm.tirx import AttrStmt
from tvm.tirx.build import codegen_build

from tvtf.passes.codegen.elf import without_unused
from tvtf.passes.codegen.memory_file import object_code

LEVEL, SAFE_LEVEL = 2, 1
"""LLVM's optimization level, and the one for code that it fails on there. Level 3 mostly unrolls more loops, and takes 1.4
times as long for a convolution, whose schedule unrolled what pays: of 45 kernels none got faster by more than noise. At
level 1, without loops turned to selections, arg max and max pooling take four to seven times as long."""
HAS_ELF = sys.platform not in ("darwin", "win32")
"""Whether object files are ELF, in which symbols can be renamed."""
_CONVERSIONS = ("__truncsfhf2", "__extendhfsf2")
_NO_CONVERSIONS = "@tvtf_unused = weak hidden global i8 0\n" + "\n".join(
    f"@{name} = alias i8, ptr @tvtf_unused" for name in _CONVERSIONS
)


def native(part: IRModule, host: Target) -> tvm.runtime.Module:
    """Compiles functions with LLVM.

    Sometimes (one kernel in a thousand at level 3) LLVM 22 produces code that its own verifier rejects, such as float16
    sums on AVX2. These are then compiled with one optimization level less.
    """
    try:
        return codegen_build(part, _at_level(host, LEVEL))
    except tvm.error.InternalError as error:
        if "module verification failed" not in str(error):
            raise
        return codegen_build(part, _at_level(host, SAFE_LEVEL))


def native_code(part: IRModule, host: Target) -> bytes:
    """Returns the object code of functions, without TVM's conversions of float16 if they aren't called.

    TVM puts two functions between float16 and float32 into every LLVM module (`CodeGenLLVM::Init`), for processors
    without such an instruction. They are weak, and compiling them takes 7 ms, longer than a kernel that adds two tensors.
    So a module that is linked in defines their names as aliases of a byte, which LLVM prefers to weak functions, and the
    definitions are taken out of the object afterwards. Code that calls the functions is compiled again with them.
    """
    if HAS_ELF and part.functions:
        code = without_unused(object_code(native(_without_conversions(part), host)), _CONVERSIONS)
        if code is not None:
            return code
    return object_code(native(part, host))


def _without_conversions(part: IRModule) -> IRModule:
    name, func = next(iter(part.functions.items()))
    node = tvm.tirx.const(0, "int32")
    body = AttrStmt(node, "pragma_import_llvm", ir.StringImm(_NO_CONVERSIONS), func.body)
    return IRModule({**part.functions, name: func.with_body(body)}, attrs=part.attrs)


def _at_level(host: Target, level: int) -> Target:
    return Target({"kind": host.kind.name, "opt-level": level, **host.attrs})
