"""Compiled libraries: one file with the code, the weights and, at its end, a description of inputs and outputs.

The description follows the image that the system's loader maps, and the loader ignores it: JSON, its length in eight bytes,
the digest of everything before, and a mark. The digest detects a damaged file before its code is loaded. It does not protect
against an attacker: a user who can write the file can replace the code and the digest. Running a library requires TVM's
runtime (3 MB) but not its compiler.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import os
import sys
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from tvtf.core.dlpack_view import to_array, to_handle
from tvtf.core.variable_lock import Lock
from tvtf.fileio.atomic_file import is_device_or_pipe
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.frontend.function.runtime_errors import raised_by
from tvtf.passes.codegen.temp_cleanup import locked_folder, remove_leftovers
from tvtf.runtime import finalize
from tvtf.runtime.loading import load_library
from tvtf.runtime.target import HOPPER, cuda_target, gpu_arch, host_target
from tvtf.saved.description import Description, parse

if TYPE_CHECKING:
    from tvtf.saved.saved_function import SavedFunction

MARK = b"tvtf-library 2\n"
LENGTH_BYTES, DIGEST_BYTES = 8, 32
_END = LENGTH_BYTES + DIGEST_BYTES + len(MARK)
_CHUNK_BYTES = 1 << 20
CPU, CUDA, POOLED = 1, 2, 2
RUNTIMES = ("libtvm_runtime.so", "libtvm_runtime.dylib", "tvm_runtime.dll")


def write(saved: SavedFunction, path: str | os.PathLike[str], gpu: str | None = None) -> None:
    """Compiles a saved function into one library, for this machine's processor or also for a GPU.

    The file appears atomically, with its whole content.

    Args:
      saved: the function.
      path: the file.
      gpu: the architecture of an NVIDIA GPU, such as ``sm_90``; None for the processor alone. Compiling for a GPU requires
        nvcc, but no GPU.

    Raises:
      ValueError: the architecture is malformed, or older than sm_80.
      CudaError: nvcc is not installed.
      UnimplementedError: an op has no native kernel.
      SavedModuleError: the path is that of a device or a pipe.
      OSError: the file can't be written.
    """
    from tvtf.passes.pipeline import compile_module

    target = cuda_target(gpu) if gpu else host_target()
    if is_device_or_pipe(path):
        raise SavedModuleError(f"{path} is a device or a pipe, and a library must be a file")
    library_path = Path(os.path.realpath(path) if os.path.islink(path) else path)
    remove_leftovers(library_path.parent)
    with locked_folder(library_path.parent) as scratch:
        scratch_file = scratch / "made.so"
        compile_module(saved.self_contained_module(), target, scratch_file, exported=True)
        _append_description(scratch_file, replace(saved.description, gpu=gpu))
        os.replace(scratch_file, library_path)


def _append_description(path: Path, description: Description) -> None:
    """Appends the description to a compiled library, then its length, a digest of all bytes before, and a mark.

    The file is flushed to disk before the caller renames it. Otherwise a crash after the rename could leave a file
    without content.
    """
    text = json.dumps(description.as_json()).encode()
    with path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(text + len(text).to_bytes(LENGTH_BYTES, "little"))
        digest = _digest(file, file.tell())
        file.write(digest + MARK)
        file.flush()
        os.fsync(file.fileno())


def _digest(file: Any, size: int) -> bytes:
    """Returns the digest of the first ``size`` bytes of a file, read in chunks, as it may be larger than memory."""
    file.seek(0)
    remaining = size
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    while remaining > 0 and (chunk := file.read(min(remaining, _CHUNK_BYTES))):
        digest.update(chunk)
        remaining -= len(chunk)
    return digest.digest()


def is_library(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file ends with the mark that `write` appends.

    The mark is at the end, because the file begins as a shared library, which the system's loader opens.
    """
    try:
        with open(path, "rb") as file:
            file.seek(-len(MARK), os.SEEK_END)
            return file.read() == MARK
    except OSError:
        return False


def read_description(path: str | os.PathLike[str]) -> Description:
    """Reads a library's description after verifying the file's digest.

    Raises:
      SavedModuleError: the file does not exist, is not a library of this version of tvtf, is truncated, or was changed.
    """
    library_path = Path(path)
    if not library_path.is_file():
        raise SavedModuleError(f"{library_path} does not exist")
    if not is_library(library_path):
        raise SavedModuleError(
            f"{library_path} is not a library made by `tvtf compile` of this version, or is truncated; compile it again"
        )
    with library_path.open("rb") as file:
        text = _description(file, library_path)
    return Description.from_json(parse(text, str(library_path)), str(library_path))


def _description(file: Any, library_path: Path) -> bytes:
    """Verifies the digest of a compiled library, and returns the bytes of its description.

    The file ends with the description, its length, the digest and a mark. The last three have fixed sizes, so the file
    is read from the end. The digest is verified before the length is used.
    """
    end = file.seek(0, os.SEEK_END) - _END + LENGTH_BYTES
    if end < LENGTH_BYTES:
        raise SavedModuleError(f"{library_path} is truncated; compile it again")
    digest = _digest(file, end)  # leaves the file's position at the stored digest
    if file.read(DIGEST_BYTES) != digest:
        raise SavedModuleError(f"{library_path} is damaged: its digest does not match its content; compile it again")
    file.seek(end - LENGTH_BYTES)
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if length > end - LENGTH_BYTES:
        raise SavedModuleError(f"{library_path} is damaged: its description has an impossible length; compile it again")
    file.seek(end - LENGTH_BYTES - length)
    return bytes(file.read(length))


class Library:
    """A loaded library; several threads may use it, but calls run one at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Verifies the digest of a library, loads the library, and creates the virtual machine that runs its code."""
        self.description = read_description(path)
        load_runtime()
        devices = self._devices()
        try:
            self._module = _load_under_new_name(path)
            machine = self._module["vm_load_executable"]()
        except (RuntimeError, OSError, AttributeError) as cause:
            raise SavedModuleError(f"{path} can't be loaded ({cause}); compile it again on this machine") from cause
        machine["vm_initialization"](*devices)
        self._main = machine["main"]
        self._lock = Lock()

    def _devices(self) -> list[int]:
        """Returns the devices for TVM's virtual machine: the type, number and allocator of each, in one flat list.

        If the library needs a GPU, the GPU comes first.
        """
        if self.description.gpu is None:
            return [CPU, 0, POOLED]
        from tvtf.passes.codegen import cuda

        cuda.load_runtime()
        if self.description.gpu == HOPPER and gpu_arch(0) != HOPPER:
            raise SavedModuleError(
                f"the library has code for {HOPPER}, which runs on no other GPU, but this machine's is {gpu_arch(0)}; "
                "compile it for sm_80 or sm_90"
            )
        return [CUDA, 0, POOLED, CPU, 0, POOLED]

    def _to_device(self, tensor: Any, device_type: int) -> Any:
        """Copies a tensor to the GPU or the CPU, if the library is for a GPU; otherwise returns the tensor itself."""
        if self.description.gpu is None:
            return tensor
        return tvm_ffi.get_global_func("vm.builtin.to_device")(tensor, device_type, 0)

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs the function on arrays, and returns the outputs as new arrays, in the order of the description.

        Raises:
          SavedModuleError: an array's dtype or shape does not match the library's inputs.
          OpError: the function itself raises it, such as InvalidArgumentError for an index out of range.
        """
        arrays = [np.asarray(array) for array in arrays]
        self.description.check(arrays)
        with self._lock:
            try:
                results = self._main(*(self._to_device(to_handle(array), CUDA) for array in arrays))
            except (RuntimeError, ValueError, TypeError) as error:
                raise raised_by(self.description.name, error) from error
            if len(self.description.outputs) == 1:
                results = [results]  # the machine returns a single output by itself
            return [to_array(self._to_device(result, CPU)).copy() for result in results]


finalize.entered_by(Library, "run")


def _load_under_new_name(path: str | os.PathLike[str]) -> Any:
    """Loads a shared library through a symbolic link with a unique name.

    The system's loader caches libraries by name. If a file was loaded in this process and then compiled again, the
    loader would return the old code.
    """
    with tempfile.TemporaryDirectory(prefix="tvtf-load-") as folder:
        link = Path(folder) / f"{uuid.uuid4().hex}.so"
        link.symlink_to(os.path.abspath(path))
        return load_library(link)


def load_runtime() -> None:
    """Loads TVM's runtime, whose symbols compiled libraries need, unless the whole of TVM is loaded already.

    Raises:
      SavedModuleError: TVM is not installed.
    """
    if "tvm" in sys.modules:
        return
    spec = importlib.util.find_spec("tvm")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    for name in RUNTIMES:  # the names on Linux, macOS and Windows
        for path in (folder / name, folder / "lib" / name):
            if path.is_file():
                ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)  # global, so that libraries loaded later find the symbols
                return
    raise SavedModuleError("TVM's runtime isn't installed; install it with: pip install tvtf")
