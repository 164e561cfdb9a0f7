"""Lowers the subroutines of kernels to functions that LLVM compiles, and finds them in object code."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import IRModule, ir, tirx
from tvm.target import Target
from tvm.tirx import PrimFunc

from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.codegen.kernel_key import SYMBOL
from tvtf.passes.codegen.selective_passes import only
from tvtf.passes.codegen.stack_buffers import with_local_stack
from tvtf.passes.schedule.cpu.subroutine import PREFIX

_NAME = re.compile(PREFIX.encode() + rb"[0-9a-f]{40}")


def names_in(code: bytes) -> list[str]:
    """Returns the names of the subroutines that object code of any format mentions."""
    return sorted({name.decode() for name in _NAME.findall(code)})


def subroutine_key(name: str, host: Target, options: Mapping[str, Any]) -> str:
    """Returns the key of a subroutine's code in the cache; the name is a digest of what it does."""
    settings = sorted((option, str(value)) for option, value in options.items())
    return hashlib.sha256("\0".join((name, str(host), str(settings))).encode()).hexdigest()[:40]


def _has_strides(func: PrimFunc) -> bool:
    """Returns whether a subroutine declares a buffer with strides."""
    declarations: list[tirx.DeclBuffer] = []
    structural_walk(func.body, (tirx.DeclBuffer, declarations.append))
    return any(len(declaration.buffer.ty.strides) for declaration in declarations)


def lowered(name: str, func: PrimFunc, host: Target) -> IRModule:
    """Lowers a subroutine of a kernel to a function for LLVM.

    The function takes its arguments in registers. A kernel's arguments, in contrast, are packed in an array.
    """
    tir = tirx.transform
    passes = tvm.transform.Sequential(
        [
            only(tir.FlattenBuffer(), _has_strides),
            tir.VectorizeLoop(True),
            tir.StorageRewrite(),
            tir.UnrollLoop(),
            tir.StmtSimplify(),
        ]
    )
    private = passes(IRModule({ir.GlobalVar(name): func.with_attr("target", host)}))
    public = IRModule({ir.GlobalVar(name): private[name].with_attr(SYMBOL, name)})
    _, finish_host, _ = tirx.get_default_tir_pipeline(host)
    return finish_host()(with_local_stack(public))
