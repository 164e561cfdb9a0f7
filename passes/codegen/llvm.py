"""Kernels become native code, several LLVM modules at a time, and one library together with the bytecode."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tvm
import tvm_ffi
from tvm import IRModule, ir, relax, tirx
from tvm.relax import _ffi_api as relax_api
from tvm.runtime import _ffi_api as runtime_api
from tvm.target import Target
from tvm.tirx.build import codegen_build, split_host_device_mods

from tvtf.passes.codegen.checks import without_needless_checks
from tvtf.passes.codegen.cuda import build_device, kernel_passes
from tvtf.passes.codegen.linker import link
from tvtf.passes.codegen.loop import has_symbol
from tvtf.passes.codegen.stack import with_local_stack
from tvtf.passes.codegen.vm import generate
from tvtf.threads import available_cores

_EMISSION = threading.Lock()
SMALLEST_GROUP = 100
SAFE_LEVEL = 2
COMPACTION = "s_tir.CompactBufferAllocation"


def build_library(
    mod: IRModule,
    target: Target,
    out: Path,
    *,
    check_arguments: bool = False,
    poll_signals: bool = True,
    groups: int | None = None,
) -> None:
    """Compile a scheduled and finalized module into the shared library `out`.

    `mod` has been through TVM's finalize passes; its functions with a `global_symbol` are the entries. The library
    is loaded by `tvm_ffi.load_module(out)["vm_load_executable"]()` in any process that has TVM's runtime, compiler
    or not. `groups` is the number of LLVM modules compiled at once (default: `tvtf.threads.available_cores`).
    `check_arguments` and `poll_signals` are those of `tvtf.passes.codegen.vm.generate`; an exported library, to be
    called without tvtf and outside Python, wants True and False.

    Raises:
        NotImplementedError: an expression that the virtual machine can't run.
        tvtf.passes.codegen.linker.LinkError: the objects need a system linker and there is none.
    """
    builder = relax.ExecBuilder()
    with _EMISSION:
        on_gpu = target.kind.name == "cuda"
        kernels = generate(builder, mod, check_arguments=check_arguments, poll_signals=poll_signals, on_gpu=on_gpu)
        host, devices = lower_kernels(kernels, target)
    with tempfile.TemporaryDirectory(prefix="tvtf-build-") as folder:
        objects = _Objects(Path(folder), target)
        objects.compile(host, groups or available_cores())
        objects.add_devices(devices)
        objects.add_executable(builder, mod)
        link(objects.paths, out)


def lower_kernels(kernels: IRModule, target: Target) -> tuple[IRModule, dict[Target, IRModule]]:
    """Run TVM's kernel pipeline; returns the host's functions and those of each device."""
    named = _with_symbols(kernels)
    bound = tirx.transform.BindTarget(target.with_host(host_target(target)))(named)
    pipeline, finish_host, finish_device = tirx.get_default_tir_pipeline(target)
    lowered = kernel_passes()(bound) if target.kind.name == "cuda" else _lowered_on_cpu(pipeline, bound)
    host, devices = split_host_device_mods(lowered)
    finished = finish_host()(with_local_stack(without_needless_checks(host)))
    return finished, {kind: finish_device()(part) for kind, part in devices.items()}


def _lowered_on_cpu(pipeline: tvm.transform.Pass, kernels: IRModule) -> IRModule:
    """TVM's pipeline without the pass that makes buffers smaller.

    It would take away the lines that keep rows of a copy from meeting in the cache, and size by loop variables what
    has a size that only the call tells.
    """
    context = tvm.transform.PassContext.current()
    with tvm.transform.PassContext(context.opt_level, disabled_pass=[COMPACTION], config=context.config):
        return pipeline(kernels)


def host_target(target: Target) -> Target:
    """The target of the code that runs on the CPU."""
    if target.host is not None:
        return target.host
    return target if target.kind.name == "llvm" else Target("llvm")


def split_by_size(functions: Mapping[ir.GlobalVar, tirx.PrimFunc], groups: int) -> list[dict]:
    """Deal functions into at most `groups` parts of about equal size; functions that call each other stay together."""
    sizes = {name: _size(func) for name, func in functions.items()}
    groups = max(1, min(groups, sum(sizes.values()) // SMALLEST_GROUP))
    if groups == 1 or any(_mentions(func) for func in functions.values()):
        return [dict(functions)]
    parts: list[dict] = [{} for _ in range(groups)]
    filled = [0] * groups
    for name in sorted(sizes, key=lambda name: (-sizes[name], name.name_hint)):
        emptiest = filled.index(min(filled))
        parts[emptiest][name] = functions[name]
        filled[emptiest] += sizes[name]
    return [part for part in parts if part]


def native(part: IRModule, host: Target) -> tvm.runtime.Module:
    """LLVM's code for some functions.

    At its highest level LLVM 22 may write code that its own verifier refuses (float16 sums on AVX2): once in a
    thousand kernels these are then optimized one level less.
    """
    try:
        return codegen_build(part, host)
    except tvm.error.InternalError as error:
        if "module verification failed" not in str(error):
            raise
        return codegen_build(part, Target({"kind": host.kind.name, **host.attrs, "opt-level": SAFE_LEVEL}))


class _Objects:
    """The object files of one library, and the runtime modules they come from."""

    def __init__(self, folder: Path, target: Target) -> None:
        self.folder, self.target, self.host = folder, target, host_target(target)
        self.modules: list[tvm.runtime.Module] = []
        self.paths: list[Path] = []

    def compile(self, host: IRModule, groups: int) -> None:
        parts = [IRModule(part, attrs=host.attrs) for part in split_by_size(dict(host.functions_items()), groups)]
        self.paths = [self.folder / f"kernels{index}.o" for index in range(len(parts))]
        settings = dict(tvm.transform.PassContext.current().config)
        with ThreadPoolExecutor(len(parts)) as pool:
            jobs = [pool.submit(self._compile, part, path, settings) for part, path in zip(parts, self.paths)]
            self.modules = [job.result() for job in jobs]

    def _compile(self, part: IRModule, path: Path, settings: dict) -> tvm.runtime.Module:
        with tvm.transform.PassContext(config=settings):
            module = native(part, self.host)
        module.write_to_file(str(path))
        return module

    def add_devices(self, devices: dict[Target, IRModule]) -> None:
        for target, part in devices.items():
            if part.functions:
                self.modules[0].import_module(build_device(part, target))

    def add_executable(self, builder: relax.ExecBuilder, mod: IRModule) -> None:
        attrs = dict(mod.attrs) if mod.attrs else {}
        libraries = [*self.modules[1:], *attrs.get("external_mods", [])]
        constants = dict(attrs.get("const_name_to_constant", {}))
        whole = relax_api.VMLink(builder, self.target, self.modules[0], libraries, constants)
        packed = runtime_api.ModulePackImportsToLLVM(whole, False, str(self.host), "")
        self.paths.append(self.folder / "executable.o")
        packed.write_to_file(str(self.paths[-1]))


def _with_symbols(kernels: IRModule) -> IRModule:
    named = {
        name: func if has_symbol(func) else func.with_attr("global_symbol", name.name_hint)
        for name, func in kernels.functions_items()
    }
    return IRModule(named, attrs=kernels.attrs)


def _size(func: tirx.PrimFunc) -> int:
    nodes = 0

    def count(_node: object) -> None:
        nonlocal nodes
        nodes += 1

    tvm_ffi.structural_walk(func.body, (tirx.Stmt, count))
    return nodes


def _mentions(func: tirx.PrimFunc) -> bool:
    found: list[ir.GlobalVar] = []
    tvm_ffi.structural_walk(func.body, (ir.GlobalVar, found.append))
    return bool(found)
