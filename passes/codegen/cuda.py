"""Compiles CUDA code to machine code in the library: by nvcc, and with TVM's CUDA runtime even without a driver.

TVM 0.27 loads its CUDA runtime when it is imported. Where that fails (no driver, or the CUDA runtime library in a
folder that the loader doesn't search) it puts CUDA source into libraries instead. Here the runtime is loaded when it is
needed: from the folders of CUDA's Python packages, and, for compiling only, with a stub in place of the driver's
library.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import numpy as np
import tvm
import tvm_ffi
from tvm import IRModule, ir, s_tir, tirx
from tvm.target import Target
from tvm.tirx.build import codegen_build

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.codegen.flatten import FlattenBuffers
from tvtf.passes.codegen.memory_file import scratch_folder
from tvtf.passes.codegen.packed_entry import WithPackedEntry

REINTERPRET = ir.Op.get("tirx.reinterpret")
LOADS_CUDA = "ffi.Module.load_from_bytes.cuda"
COMPILES_CUDA = "tvm_callback_cuda_compile"
DRIVER, RUNTIME, OF_TVM = "libcuda.so.1", "libcudart.so.13", "libtvm_runtime_cuda.so"
CUDA_HOMES = ("/usr/local/cuda", "/opt/cuda")
NO_DEVICE = 100
STUB_FUNCTIONS = (
    "cuDeviceGetName",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuLaunchKernelEx",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuTensorMapEncodeTiled",
)
FLAGS = (
    "-O3",
    "-w",
    "--expt-relaxed-constexpr",
    "-U__CUDA_NO_HALF_OPERATORS__",
    "-U__CUDA_NO_HALF_CONVERSIONS__",
    "-U__CUDA_NO_BFLOAT16_OPERATORS__",
    "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
)


class CudaError(OSError):
    """CUDA code can't be compiled or run here; the text says what is missing, and how to install it."""


def gpu_passes() -> tvm.transform.Pass:
    """Returns the passes from scheduled functions to kernels and the functions that launch them.

    TVM's own list without passes that look for what our schedules don't leave (blocks, missing barriers), and without
    those that miscompile them: CompactBufferAllocation (on buffers of symbolic size that several kernels use),
    CommonSubexprElim (it takes the thread indices of two kernels for one; nvcc has its own), StorageRewrite (it reuses
    shared memory between two barriers, while some threads still read it).
    """
    tir, s_tir_passes = tirx.transform, s_tir.transform
    return tvm.transform.Sequential(
        [
            s_tir_passes.ConvertBlocksToOpaque(),
            s_tir_passes.UnifyThreadBinding(),
            tir.StmtSimplify(),
            s_tir_passes.LowerOpaqueBlock(),
            FlattenBuffers,
            tir.NarrowDataType(32),
            tir.VectorizeLoop(True),
            tir.UnrollLoop(),
            s_tir_passes.RenormalizeSplitPattern(),
            tir.StmtSimplify(),
            tir.RemoveNoOp(),
            s_tir_passes.RewriteUnsafeSelect(),
            tir.VerifyMemory(),
            tir.SplitHostDevice(),
            WithPackedEntry,
            tir.BF16StorageLegalize(),
        ]
    )


def build_device(part: IRModule, target: Target) -> tvm.runtime.Module:
    """Compiles kernels for a GPU, and returns the runtime module with their machine code.

    Raises:
        CudaError: there is no nvcc, or it rejects the code, or TVM's CUDA runtime can't be loaded.
    """
    nvcc()
    load_runtime(compile_only=True)

    def compile_source(source: str, *_: object) -> bytes:
        """Compiles CUDA source for the target's architecture; TVM also passes arguments that aren't needed."""
        return machine_code(source, str(target.attrs["arch"]))

    # TVM compiles by calling this global function.
    previous_compiler = tvm_ffi.get_global_func(COMPILES_CUDA, allow_missing=True)
    tvm_ffi.register_global_func(COMPILES_CUDA, compile_source, override=True)
    try:
        with target:
            return codegen_build(with_plain_bits(part), target)
    finally:
        if previous_compiler is not None:
            tvm_ffi.register_global_func(COMPILES_CUDA, previous_compiler, override=True)


def with_plain_bits(part: IRModule) -> IRModule:
    """Folds `reinterpret` of constants, which TVM 0.27 writes as the cast of an address."""
    return IRModule(
        {name: func.with_body(_without_reinterpret(func.body)) for name, func in part.functions_items()},
        attrs=part.attrs,
    )


def _without_reinterpret(body: tirx.Stmt) -> tirx.Stmt:
    """Rewrites constants in a kernel's body so that TVM's CUDA source has exactly their value.

    Each `reinterpret` of a constant is folded to a constant.
    """

    def folded(call: ir.Call) -> ir.Expr:
        """Folds a `reinterpret` of a constant; returns other calls unchanged."""
        return _fold_reinterpret(call) if call.op.same_as(REINTERPRET) else call

    body = structural_map(body, (ir.Call, _without_likely))
    body = structural_map(body, (ir.Call, folded))
    return structural_map(body, (tirx.FloatImm, _exact_float64))


def _without_likely(call: ir.Call) -> ir.Expr:
    """Drops the mark by which CPU schedules find slow paths (`tvtf.ops.kernels.approx.with_slow_path`); CUDA has none."""
    return call.args[0] if isinstance(call.op, ir.Op) and call.op.name in ("prim.likely", "tirx.likely") else call


def _exact_float64(value: tirx.FloatImm) -> ir.Expr:
    """Writes a float64 constant by its bits, if the 15 decimals that TVM 0.27 prints aren't exact."""
    number = float(value.value)
    if str(value.ty.dtype) != "float64" or not np.isfinite(number) or float(f"{number:.15f}") == number:
        return value
    bits = tirx.const(int(np.float64(number).view(np.int64)), "int64")
    return tirx.call_pure_extern("float64", "__longlong_as_double", bits)


def _fold_reinterpret(call: ir.Call) -> ir.Expr:
    """Folds ``reinterpret(dtype, constant)`` to the constant of this dtype with the same bits."""
    (value,) = call.args
    if not isinstance(value, (tirx.FloatImm, tirx.IntImm)):
        return call
    value_dtype = np.dtype(str(value.ty.dtype))
    result_dtype = np.dtype(str(call.ty.dtype))
    array = np.asarray(value.value).astype(value_dtype)
    return tirx.const(array.view(result_dtype).item(), str(result_dtype))


def machine_code(source: str, arch: str, form: str = "fatbin") -> bytes:
    """Compiles CUDA source to a ``fatbin`` (machine code, and PTX for later GPUs), a ``cubin`` or ``ptx``.

    Args:
      source: the CUDA source of the kernels.
      arch: the GPU architecture, such as "sm_90".
      form: "fatbin", "cubin" or "ptx".

    Raises:
        CudaError: there is no nvcc, or it rejects the code.
    """
    with scratch_folder() as folder:
        source_path = folder / "kernels.cu"
        output_path = folder / f"kernels.{form}"
        source_path.write_text(source)
        command = [nvcc(), *_architecture_flags(arch, form), *FLAGS, "-o", str(output_path), str(source_path)]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        if completed.returncode != 0:
            message = completed.stderr.strip() or completed.stdout.strip()
            raise CudaError(f"nvcc can't compile the code for {arch}: {message}")
        return output_path.read_bytes()


def _architecture_flags(arch: str, form: str) -> list[str]:
    """Returns the flags of nvcc for the GPU architecture, such as ``sm_90``, and the form of the output.

    PTX is made for a virtual architecture, such as ``compute_90``, and machine code for a real one.
    """
    virtual = arch.replace("sm_", "compute_")
    codes = {"fatbin": f"[{arch},{virtual}]", "ptx": virtual, "cubin": arch}
    return [f"--{form}", "-gencode", f"arch={virtual},code={codes[form]}"]


@lru_cache(maxsize=1)
def nvcc() -> str:
    """Returns the path of nvcc.

    Raises:
        CudaError: it is not installed.
    """
    folders = [str(home / "bin") for home in cuda_homes()]
    path = shutil.which("nvcc") or shutil.which("nvcc", path=os.pathsep.join(folders))
    if path is None:
        raise CudaError(
            "compiling for a GPU needs NVIDIA's compiler nvcc, which is neither on PATH nor in "
            f"{', '.join(folders)}; install the CUDA toolkit 13, or set CUDA_HOME to where it is"
        )
    return path


def cuda_homes() -> list[Path]:
    """Returns folders that may contain the CUDA toolkit; those that the environment names come first."""
    from_environment = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return [Path(home) for home in (*from_environment, *CUDA_HOMES)]


def load_runtime(compile_only: bool = False) -> None:
    """Loads TVM's CUDA runtime.

    Raises:
        CudaError: the driver (unless ``compile_only``) or the CUDA runtime library isn't there.
    """
    if tvm_ffi.get_global_func(LOADS_CUDA, allow_missing=True) is None:
        _load_driver(compile_only)
        _load_first(
            RUNTIME, _runtime_paths(), "the CUDA 13 runtime library; install it with: pip install nvidia-cuda-runtime"
        )
        _load_first(OF_TVM, _tvm_runtime_paths(), "TVM's CUDA runtime, which apache-tvm's wheel for Linux holds")


def _load_driver(compile_only: bool) -> None:
    """Loads NVIDIA's driver library. If code is only compiled, and there is no driver, a stub is loaded instead.

    Raises:
        CudaError: there is no driver, and code is to be run.
    """
    try:
        ctypes.CDLL(DRIVER, ctypes.RTLD_GLOBAL)
    except OSError:
        if not compile_only:
            raise CudaError(f"no GPU can be used here: NVIDIA's driver ({DRIVER}) is not installed") from None
        _load_stub()


def _load_stub() -> None:
    """Compiles a stub of NVIDIA's driver library, and loads it into this process; all functions of the stub fail."""
    with scratch_folder() as folder:
        code = folder / "driver.c"
        out = folder / DRIVER
        code.write_text("".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in STUB_FUNCTIONS))
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            raise CudaError("compiling for a GPU needs a C compiler, which nvcc also uses: install gcc")
        command = [compiler, "-shared", "-fPIC", f"-Wl,-soname,{DRIVER}", "-o", str(out), str(code)]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        if completed.returncode != 0:
            raise CudaError(
                f"`{' '.join(command)}` failed with exit status {completed.returncode}: {completed.stderr.strip()}"
            )
        ctypes.CDLL(str(out), ctypes.RTLD_GLOBAL)


def _runtime_paths() -> list[str]:
    """Returns the paths at which CUDA's runtime library may be.

    These are the bare name, for which the loader searches, then Python packages and the CUDA toolkit.
    """
    packages = Path(tvm.__file__).parent.parent / "nvidia"
    paths = [
        *packages.glob(f"*/lib/{RUNTIME}"),
        *(home / lib / RUNTIME for home in cuda_homes() for lib in ("lib64", "lib")),
    ]
    return [RUNTIME, *map(str, paths)]


def _tvm_runtime_paths() -> list[str]:
    """Returns where TVM's CUDA runtime may be in the Python package of TVM."""
    folder = Path(tvm.__file__).parent
    return [str(folder / "lib" / OF_TVM), str(folder / OF_TVM)]


def _load_first(name: str, paths: list[str], requirement: str) -> None:
    """Loads a shared library from the first of several paths that works.

    The library may come from a package, the toolkit or the system.

    Args:
        name: the name of the library, for the text of an error.
        paths: the paths to try, in order.
        requirement: the package to install, for the text of an error.

    Raises:
        CudaError: no path works.
    """
    reasons = []
    for path in paths:
        try:
            ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
            return
        except OSError as error:
            reasons.append(str(error))
    raise CudaError(f"{name} can't be loaded ({reasons[0]}): GPUs need {requirement}")
