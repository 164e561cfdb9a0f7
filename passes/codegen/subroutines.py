"""Compiles the subroutines of kernels, and finds the names of subroutines in object code."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import tvm
from tvm import IRModule, ir, tirx
from tvm.target import Target
from tvm.tirx import PrimFunc

from tvtf.core.thread_count import compiler_threads
from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.codegen.hooks import Stored
from tvtf.passes.codegen.kernel_key import SYMBOL
from tvtf.passes.codegen.native_code import native_code, with_less_unrolling
from tvtf.passes.codegen.selective_passes import run_only_where
from tvtf.passes.codegen.shipped_subroutines import shipped_code
from tvtf.passes.codegen.stack_buffers import with_local_stack
from tvtf.passes.debug.kernel_costs import KernelCost
from tvtf.passes.schedule.cpu.subroutine import PREFIX, function

_NAME = re.compile(PREFIX.encode() + rb"[0-9a-f]{40}")


def names_in(code: bytes) -> list[str]:
    """Returns the names of the subroutines that object code of any format mentions."""
    return sorted({name.decode() for name in _NAME.findall(code)})


def subroutine_key(name: str, host: Target, options: Mapping[str, Any]) -> str:
    """Returns the key of a subroutine's code in the cache; the name is a digest of the subroutine's content."""
    settings = sorted((option, str(value)) for option, value in options.items())
    return hashlib.sha256("\0".join((name, str(host), str(settings))).encode()).hexdigest()[:40]


class SubroutineCompiler:
    """Compiles subroutines to object code for a host: early in threads, or when the object code of a kernel calls them.

    The caller requests the code of each subroutine once.

    Args:
      host: the target of the code.
      options: the options of TVM's passes.
      stored: finds the code of subroutines that were compiled before.
    """

    def __init__(self, host: Target, options: Mapping[str, Any], stored: Stored | None) -> None:
        self.host, self.options, self.stored = host, options, stored
        self.costs: list[KernelCost] = []
        self._early: dict[str, Future[bytes]] = {}
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, name: str) -> None:
        """Begins to compile a subroutine in another thread, if there is a core for it.

        Scheduling kernels is Python code, which keeps one core busy; LLVM runs on another meanwhile.
        """
        if name not in self._early and compiler_threads() > 1:
            self._pool = self._pool or ThreadPoolExecutor(compiler_threads() - 1)
            self._early[name] = self._pool.submit(self._compile, name, lambda: function(name))

    def code(self, name: str, find: Callable[[], PrimFunc | None]) -> bytes:
        """Returns the object code of a subroutine; ``find`` returns the subroutine, if the code isn't stored."""
        early = self._early.get(name)
        return self._compile(name, find) if early is None else early.result()

    def _compile(self, name: str, find: Callable[[], PrimFunc | None]) -> bytes:
        """Returns the object code of a subroutine: shipped with tvtf, stored in the cache, or compiled now."""
        cost = KernelCost(name)
        self.costs.append(cost)
        shipped = shipped_code(name, self.host, self.options)
        if shipped is not None:
            return shipped

        def build() -> bytes:
            """Lowers the subroutine and compiles it with LLVM."""
            func = find()
            if func is None:
                raise RuntimeError(f"compiling: no subroutine is called {name}")
            with tvm.transform.PassContext(config=self.options):
                with cost.step("lower"):
                    host = lower_subroutine(name, func, self.host)
                with cost.step("LLVM"):
                    return native_code(host, with_less_unrolling(self.host))

        return build() if self.stored is None else self.stored(subroutine_key(name, self.host, self.options), build)

    def __enter__(self) -> SubroutineCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for the threads, and cancels the compilation of subroutines that they haven't begun."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _has_strides(func: PrimFunc) -> bool:
    """Returns whether a subroutine declares a buffer with strides."""
    declarations: list[tirx.DeclBuffer] = []
    structural_walk(func.body, (tirx.DeclBuffer, declarations.append))
    return any(len(declaration.buffer.ty.strides) for declaration in declarations)


def lower_subroutine(name: str, func: PrimFunc, host: Target) -> IRModule:
    """Lowers a subroutine of a kernel to a function for LLVM, by TVM's passes.

    Its arguments are passed in registers, unlike those of a kernel, which are packed in an array.

    Args:
      name: the name of the subroutine.
      func: the subroutine.
      host: the CPU to compile for.
    """
    tir = tirx.transform
    passes = tvm.transform.Sequential(
        [
            run_only_where(tir.FlattenBuffer(), _has_strides),
            tir.VectorizeLoop(True),
            tir.StorageRewrite(),
            tir.UnrollLoop(),
            tir.StmtSimplify(),
        ]
    )
    private = passes(IRModule({ir.GlobalVar(name): func.with_attr("target", host)}))
    public = IRModule({ir.GlobalVar(name): private[name].with_attr(SYMBOL, name)})
    _module_passes, finish_host, _finish_device = tirx.get_default_tir_pipeline(host)
    return finish_host()(with_local_stack(public))
