"""Compiles kernels to native code, several LLVM modules in parallel, and links them with the bytecode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tvm
import tvm_ffi
from tvm import IRModule, ir, relax, s_tir, tirx
from tvm.relax import _ffi_api as relax_api
from tvm.runtime import _ffi_api as runtime_api
from tvm.target import Target
from tvm.tirx.build import split_host_device_mods

from tvtf.core.thread_count import compiler_threads
from tvtf.core.tvm_visitor import structural_walk
from tvtf.core.variable_lock import Lock
from tvtf.passes.analysis.loop_op import has_symbol
from tvtf.passes.codegen.cuda import build_device, gpu_passes
from tvtf.passes.codegen.elf import with_symbol_renamed
from tvtf.passes.codegen.flatten import FlattenBuffers
from tvtf.passes.codegen.hooks import Stored
from tvtf.passes.codegen.kernel_key import SYMBOL, common_name, content_of, kernel_key, with_common_names
from tvtf.passes.codegen.linker import link_code
from tvtf.passes.codegen.memory_file import object_code, scratch_folder
from tvtf.passes.codegen.native_code import HAS_ELF, native, native_code, with_less_unrolling
from tvtf.passes.codegen.packed_entry import PREFIX, WithPackedEntry
from tvtf.passes.codegen.selective_passes import (
    has_blocks_to_lower,
    has_invariant_branches,
    has_vector_indices,
    run_again,
    run_only_where,
)
from tvtf.passes.codegen.shipped_subroutines import may_be_shipped, shipped_kernel_code
from tvtf.passes.codegen.stack_buffers import with_local_stack
from tvtf.passes.codegen.subroutines import SubroutineCompiler, names_in
from tvtf.passes.codegen.vm import generate
from tvtf.passes.codegen.workspace import with_checked_workspace
from tvtf.passes.debug.compile_progress import CompileProgress
from tvtf.passes.debug.kernel_costs import KernelCost
from tvtf.passes.schedule.cpu import subroutine

Finish = Callable[[IRModule], IRModule]
Functions = Mapping[ir.GlobalVar, tirx.PrimFunc]
_EMISSION = Lock()


def build_library(
    mod: IRModule,
    target: Target,
    out: Path,
    *,
    check_arguments: bool = False,
    poll_signals: bool = True,
    threads: int | None = None,
    finish: Finish | None = None,
    stored: Stored | None = None,
    subroutines: SubroutineCompiler | None = None,
    progress: CompileProgress | None = None,
) -> list[KernelCost]:
    """Compiles a scheduled and finalized module into the shared library `out`; returns what each kernel took.

    Kernels are compiled one by one, in several threads. Any process that has TVM's runtime, but not its compiler, loads
    the library by `tvm_ffi.load_module(out)["vm_load_executable"]()`.

    Args:
      mod: the module after TVM's finalize passes; its functions with a `global_symbol` are the entries.
      target: the device that runs the kernels.
      out: the path of the library.
      check_arguments, poll_signals: those of `tvtf.passes.codegen.vm.generate`. An exported library, which is called
        without tvtf and outside Python, needs True and False.
      threads: the number of threads, by default `compiler_threads()`.
      finish: schedules and lowers each kernel before it is compiled.
      stored: finds the code of kernels that were compiled before.
      subroutines: may have begun to compile what kernels call.
      progress: counts the kernels that are compiled.

    Raises:
        NotImplementedError: an expression that the virtual machine can't run.
        tvtf.passes.codegen.linker.LinkError: the objects need a system linker and there is none.
    """
    builder = relax.ExecBuilder()
    on_gpu = target.kind.name == "cuda"
    with _EMISSION:
        kernels = generate(builder, mod, check_arguments=check_arguments, poll_signals=poll_signals, on_gpu=on_gpu)
    objects = _Objects(target, finish, None if on_gpu else stored, subroutines, progress)
    # One call of nvcc compiles everything that runs on a GPU.
    objects.compile(kernels, threads or compiler_threads(), one_by_one=not on_gpu)
    objects.add_executable(builder, mod)
    link_code(objects.code, out)
    return objects.costs + objects.subroutines.costs


def kernel_module(kernels: IRModule, target: Target) -> tvm.runtime.Module:
    """Compiles scheduled kernels and the subroutines that they call; returns a runtime module with these functions."""
    objects = _Objects(target, None, None)
    objects.compile(kernels, compiler_threads(), one_by_one=True)
    # A file in memory can't be used: the loader would confuse two such files of the same name.
    with scratch_folder() as folder:
        path = folder / "kernels.so"
        link_code(objects.code, path)
        return tvm_ffi.get_global_func("ffi.Module.load_from_file.so")(str(path), "so")


def kernels_to_ship(mod: IRModule) -> dict[str, tirx.PrimFunc]:
    """Returns the kernels of a module that may be common to many programs, by the content that they are found by.

    The module has been lowered without scheduling its kernels.
    """
    kernels = _with_global_symbols(generate(relax.ExecBuilder(), mod))
    named = []
    for _var, func in kernels.functions_items():
        symbol = str(func.attrs[SYMBOL])
        named.append(with_common_names(func, common_name(symbol)))
    return {content_of(func): func for func in named if may_be_shipped(func)}


def kernel_object_code(func: tirx.PrimFunc, target: Target, finish: Finish) -> bytes:
    """Schedules and compiles a kernel with common names, and returns its object code, which may call subroutines."""
    part = {ir.GlobalVar(str(func.attrs[SYMBOL])): func}
    return _Objects(target, finish, None)._compile_part(part, KernelCost("kernel"))


def lower_kernels(kernels: IRModule, target: Target) -> tuple[IRModule, dict[Target, IRModule]]:
    """Lowers scheduled kernels by TVM's passes, for code generation.

    Returns the module of functions that run on the host (the CPU), and a module of functions for each device.
    """
    with_symbols = _with_global_symbols(kernels)
    with_target = tirx.transform.BindTarget(target.with_host(host_target(target)))(with_symbols)
    _module_passes, finish_host, finish_device = tirx.get_default_tir_pipeline(target)
    if target.kind.name == "cuda":
        host, devices = split_host_device_mods(gpu_passes()(with_target))
    else:
        host, devices = cpu_passes()(with_target), {}
    host = with_local_stack(host)
    host = with_checked_workspace(host)
    return finish_host()(host), {device: finish_device()(part) for device, part in devices.items()}


@cache
def cpu_passes() -> tvm.transform.Pass:
    """Returns the passes from scheduled functions, or unscheduled blocks, to functions that take packed arguments.

    This is TVM's own list without passes that don't change our kernels, or do harm. Lowering in parallel with fewer
    passes takes 0.41 s for an autoencoder's kernels on two cores instead of 0.69. Left out are:

    - passes for a GPU's threads, memory and code, for float8 and for bfloat16 arithmetic, none of which occurs here
      (bfloat16 storage does: LLVM's back end crashes on some of it);
    - RemoveNoOp and CommonSubexprElim, since LLVM does the same in less time, RenormalizeSplitPattern, and StmtSimplify
      before buffers are flattened: without the last three a U-Net's kernels take 8 % less time, LLVM's included;
    - NarrowDataType, but where vectors of indices are computed, of which a register holds twice as many at 32 bits:
      LLVM takes up to a fourth longer for scalar indices that it has to extend to 64 bits. It runs before loops are vectorized:
      it would also narrow vectors of int64 data;
    - CompactBufferAllocation: it would remove the padding that keeps rows of a copy from conflicting in the cache,
      and give buffers of symbolic size a size in terms of loop variables.
    """
    tir, s_tir_passes = tirx.transform, s_tir.transform
    lower_blocks = tvm.transform.Sequential(
        [
            s_tir_passes.CanonicalizeLoop(),
            s_tir_passes.LowerInitBlock(),
            s_tir_passes.PlanAndUpdateBufferAllocationLocation(),
            s_tir_passes.ConvertBlocksToOpaque(),
            s_tir_passes.LowerMatchBuffer(),
        ],
        name="lower_blocks",
    )
    vectorize = tvm.transform.Sequential([s_tir_passes.LoopPartition(), tir.VectorizeLoop(True)], name="vectorize")
    return tvm.transform.Sequential(
        [
            run_only_where(lower_blocks, has_blocks_to_lower),
            s_tir_passes.LowerOpaqueBlock(),
            FlattenBuffers,
            run_again(vectorize, has_vector_indices, before=NarrowIndices),
            tir.StorageRewrite(),
            run_only_where(s_tir_passes.HoistIfThenElse(), has_invariant_branches),
            tir.UnrollLoop(),
            tir.StmtSimplify(),
            s_tir_passes.RewriteUnsafeSelect(),
            WithPackedEntry,
            tir.BF16StorageLegalize(),
        ]
    )


@tvm.transform.module_pass(opt_level=0, name="NarrowIndices")
def NarrowIndices(mod: IRModule, _context: tvm.transform.PassContext) -> IRModule:
    """Narrows indices to 32 bits, except the integer arguments of subroutines, which are int64."""
    functions = {}
    for name, func in tirx.transform.NarrowDataType(32)(mod).functions_items():
        if isinstance(func, tirx.PrimFunc):
            func = func.with_body(subroutine.with_int64_numbers(func.body))
        functions[name] = func
    return IRModule(functions, attrs=mod.attrs)


def host_target(target: Target) -> Target:
    """Returns the target of the code that runs on the CPU."""
    if target.host is not None:
        return target.host
    return target if target.kind.name == "llvm" else Target("llvm")


def split_functions(functions: Functions) -> list[Functions]:
    """Splits functions into parts that can be compiled separately, on several threads.

    All functions that call another function, or are called by one, form a single part.
    """
    callees = {name: _called_functions(func) for name, func in functions.items()}
    called = set().union(*callees.values())
    connected = {name: func for name, func in functions.items() if callees[name] or name in called}
    single_functions: list[Functions] = [{name: func} for name, func in functions.items() if name not in connected]
    return [connected, *single_functions] if connected else single_functions


@dataclass(frozen=True)
class _PendingCode:
    """Object code that a thread may still be compiling, for this program or for an equal kernel under `stored_name`."""

    future: Future[bytes]
    stored_name: str = ""
    symbol: str = ""

    def wait(self) -> bytes:
        """Waits for the object code, and returns it with the kernel's symbol in this program."""
        code = self.future.result()
        if self.stored_name == self.symbol:
            return code
        return with_symbol_renamed(code, PREFIX + self.stored_name, PREFIX + self.symbol)


class _Objects:
    """The object files of one library by name, and the runtime modules that it is linked with."""

    def __init__(
        self,
        target: Target,
        finish: Finish | None,
        stored: Stored | None,
        subroutines: SubroutineCompiler | None = None,
        progress: CompileProgress | None = None,
    ) -> None:
        """Prepares the compilation of kernels, without object files yet.

        Args:
          target: the target of the kernels, whose host runs the library.
          finish: schedules and lowers kernels whose code isn't stored; None if they are lowered already.
          stored: the store of object code from earlier compilations, or None.
          subroutines: compiles the subroutines, or finds their code; by default a new one.
          progress: shows how many parts are compiled; by default nothing is shown.
        """
        self.target = target
        self.host = host_target(target)
        self.finish = finish
        self.stored = stored
        self.options = dict(tvm.transform.PassContext.current().config)
        """TVM's options of this thread, which the pool's threads use, too."""
        self.subroutines = subroutines or SubroutineCompiler(self.host, self.options, stored)

        self.modules: list[tvm.runtime.Module] = []
        self.code: dict[str, bytes] = {}
        """The object files, by name."""
        self.costs: list[KernelCost] = []

        self.subroutine_code: dict[str, bytes] = {}
        """The object code of subroutines that kernels share, by name."""

        self.claims = Lock()
        """Guards the following attributes, which the threads share."""
        self.progress = progress or CompileProgress()
        self.claimed: set[str] = set()
        """The names of subroutines that a thread compiles or has compiled."""
        self.kernel_code: dict[str, Future[bytes]] = {}
        """The object code of kernels by their keys, from the moment at which a thread begins to compile it."""

    def compile(self, kernels: IRModule, threads: int, one_by_one: bool) -> None:
        """Compiles kernels on several threads, and stores their object files in `code`.

        Args:
          kernels: the module of the kernels.
          threads: the number of threads.
          one_by_one: whether to compile each kernel separately, instead of all together.
        """
        functions = dict(_with_global_symbols(kernels).functions_items())
        parts = split_functions(functions) if one_by_one else [functions]
        # TVM's virtual machine looks for kernels in its library only if a module of native code is linked to it.
        self.modules = [native(IRModule(), self.host)]
        self.progress.total = len(parts)
        # The largest parts are compiled first. Otherwise one thread might begin a large part when the others have
        # ended.
        sizes = [sum(map(_statement_count, part.values())) for part in parts]
        largest_first = sorted(range(len(parts)), key=lambda index: -sizes[index])
        with ThreadPoolExecutor(threads) as pool:
            jobs = {index: pool.submit(self._object_code_of, parts[index]) for index in largest_first}
            try:
                for index in range(len(parts)):
                    pending_code = jobs[index].result()
                    self.code[f"kernels{index}.o"] = pending_code.wait()  # another job may compile an equal kernel
            except BaseException:  # an error in one part, or Ctrl-C: the remaining parts are cancelled
                pool.shutdown(cancel_futures=True)
                raise
        for name in sorted(self.subroutine_code):
            self.code[f"{name}.o"] = self.subroutine_code[name]

    def _object_code_of(self, part: Functions) -> _PendingCode:
        """Compiles the functions of one part, or finds their code, and returns their object code.

        The code is pending if another thread compiles an equal kernel. Only the thread that links waits for it, so that
        threads of the pool don't wait for one another. The subroutines that the functions call are compiled, too, and
        added to `subroutine_code`.
        """
        cost = KernelCost(", ".join(name.name_hint for name in part))
        self.costs.append(cost)
        with tvm.transform.PassContext(config=self.options):
            if len(part) == 1 and self.stored is not None:
                (func,) = part.values()
                code = self._load_or_compile(self.stored, func, cost)
            else:
                code = _PendingCode(Future())
                code.future.set_result(self._with_subroutines(part, self._compile_part(part, cost)))
        with self.claims:
            self.progress.done += 1
        return code

    def _with_subroutines(self, part: Functions, code: bytes) -> bytes:
        """Compiles the subroutines that the object code of some functions calls, and returns the object code."""
        for name in names_in(code):
            self._add_subroutine(name, part)
        return code

    def _add_subroutine(self, name: str, part: Functions) -> None:
        """Compiles a subroutine and the subroutines that it calls, unless another thread has begun to compile it.

        Args:
          name: the name of the subroutine.
          part: kernels that call the subroutine.
        """
        with self.claims:
            if name in self.claimed:
                return
            self.claimed.add(name)

        def find() -> tirx.PrimFunc | None:
            """Returns the subroutine's function, which is made when a kernel that calls it is scheduled."""
            # A kernel whose code was found in the cache hasn't been scheduled.
            if subroutine.function(name) is None and self.finish is not None:
                self.finish(IRModule(part))
            return subroutine.function(name)

        self.subroutine_code[name] = self._with_subroutines(part, self.subroutines.code(name, find))

    def _load_or_compile(self, stored: Stored, func: tirx.PrimFunc, cost: KernelCost) -> _PendingCode:
        """Loads a kernel's object code from the store, or compiles the kernel, unless another thread does so already.

        The stored code has a name that is the same in all programs; the kernel's symbol in this program replaces it.

        Args:
          stored: returns the stored code of a key, or stores the code that a function compiles.
          func: the kernel.
          cost: records the time that compilation takes.
        """
        symbol = str(func.attrs[SYMBOL])
        stored_name = common_name(symbol) if HAS_ELF else symbol
        kernel = with_common_names(func, stored_name)
        content = content_of(kernel)
        key = kernel_key(kernel, self.target, self.options, content)
        with self.claims:
            is_first = key not in self.kernel_code
            shared = self.kernel_code.setdefault(key, Future())
        if is_first:
            part = {ir.GlobalVar(stored_name): kernel}
            try:
                code = shipped_kernel_code(kernel, content, self.target, self.options)
                if code is None:
                    code = stored(key, lambda: self._compile_part(part, cost))
                shared.set_result(self._with_subroutines(part, code))
            except BaseException as error:
                shared.set_exception(error)
                raise
        return _PendingCode(shared, stored_name, symbol)

    def _compile_part(self, part: Functions, cost: KernelCost) -> bytes:
        """Schedules, lowers and compiles functions, and returns the object code that runs on the host (the CPU).

        Code for a GPU is compiled to a runtime module, which is later linked into the library.

        Args:
          part: the functions by name.
          cost: records the time that each step takes.
        """
        kernels = IRModule(part)
        with cost.step("schedule"):
            kernels = self.finish(kernels) if self.finish else kernels
        with cost.step("lower"):
            host, devices = lower_kernels(kernels, self.target)
        with cost.step("LLVM"):
            if not devices:
                return native_code(host, with_less_unrolling(self.host))
            module = native(host, self.host)
            code = object_code(module)
        for target, device_part in devices.items():
            if device_part.functions:
                module.import_module(build_device(device_part, target))
                self.modules.append(module)
        return code

    def add_executable(self, builder: relax.ExecBuilder, mod: IRModule) -> None:
        """Adds the object file with the program's bytecode, its constants and the code for a GPU to `code`.

        ``builder`` has the bytecode. The attributes of ``mod`` have the constants and external libraries.
        """
        attrs = dict(mod.attrs) if mod.attrs else {}
        libraries = [*self.modules[1:], *attrs.get("external_mods", [])]
        constants = dict(attrs.get("const_name_to_constant", {}))
        linked = relax_api.VMLink(builder, self.target, self.modules[0], libraries, constants)
        packed = runtime_api.ModulePackImportsToLLVM(linked, False, str(self.host), "")
        self.code["executable.o"] = object_code(packed)


def _with_global_symbols(kernels: IRModule) -> IRModule:
    """Returns kernels with their names as symbols, where they have none."""
    with_symbols = {
        name: func if has_symbol(func) else func.with_attr("global_symbol", name.name_hint)
        for name, func in kernels.functions_items()
    }
    return IRModule(with_symbols, attrs=kernels.attrs)


def _statement_count(func: tirx.PrimFunc) -> int:
    """Counts a function's statements, as an estimate of how long compiling the function takes."""
    statements = 0

    def count(_node: object) -> None:
        nonlocal statements
        statements += 1

    structural_walk(func.body, (tirx.Stmt, count))
    return statements


def _called_functions(func: tirx.PrimFunc) -> list[ir.GlobalVar]:
    """Returns the names of the functions that a function mentions."""
    names: list[ir.GlobalVar] = []
    structural_walk(func.body, (ir.GlobalVar, names.append))
    return names
