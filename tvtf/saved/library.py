"""Compiled libraries: one file with the code, the weights and, at its end, a description of what it takes and gives.

The description follows the image that the system's loader maps, which ignores it: JSON, its length in eight bytes, the
digest of all before, and a mark. A file that was damaged is refused before its code is loaded; who may write it may put any
code there, with its digest. Running a library takes TVM's runtime (3 MB) and not its compiler.
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
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.frontend.function.runtime_errors import raised_by
from tvtf.runtime import finalize
from tvtf.runtime.loading import load_library
from tvtf.saved.description import Description, parse

if TYPE_CHECKING:
    from tvtf.saved.function import SavedFunction

MARK = b"tvtf-library 2\n"
LENGTH_BYTES, DIGEST_BYTES = 8, 32
_END = LENGTH_BYTES + DIGEST_BYTES + len(MARK)
_AT_ONCE = 1 << 20
CPU, CUDA, POOLED = 1, 2, 2
RUNTIMES = ("libtvm_runtime.so", "libtvm_runtime.dylib", "tvm_runtime.dll")


def write(saved: SavedFunction, path: str | os.PathLike[str], gpu: str | None = None) -> None:
    """Compiles a saved function into one library, which appears whole or not at all: for this machine, or for its GPU too.

    Args:
      saved: the function.
      path: the file.
      gpu: the architecture of an NVIDIA GPU, such as ``sm_90``; None for the processor alone. It takes nvcc, and no GPU.

    Raises:
      ValueError: the architecture has another form, or is older than sm_80.
      CudaError: nvcc is not installed.
      UnimplementedError: for an op that has no native kernel.
      OSError: the file can't be written.
    """
    from tvtf.passes.codegen.temp_cleanup import locked_folder, remove_leftovers
    from tvtf.passes.pipeline import compile_module
    from tvtf.runtime.target import cuda_target, host_target

    target = cuda_target(gpu) if gpu else host_target()
    place = Path(path)
    remove_leftovers(place.parent)
    with locked_folder(place.parent) as scratch:
        made = scratch / "made.so"
        compile_module(saved.closed(), target, made, exported=True)
        _finish(made, replace(saved.description, gpu=gpu))
        os.replace(made, place)


def _finish(path: Path, description: Description) -> None:
    """Appends the description and sees to it that all is on the disk."""
    text = json.dumps(description.as_json()).encode()
    with path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(text + len(text).to_bytes(LENGTH_BYTES, "little"))
        digest = _digest(file, file.tell())
        file.write(digest + MARK)
        file.flush()
        os.fsync(file.fileno())


def _digest(file: Any, size: int) -> bytes:
    """Of the first bytes of a file, read in pieces."""
    file.seek(0)
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    while size > 0 and (piece := file.read(min(size, _AT_ONCE))):
        found.update(piece)
        size -= len(piece)
    return found.digest()


def is_library(path: str | os.PathLike[str]) -> bool:
    """Whether a file ends as `write` ends it."""
    try:
        with open(path, "rb") as file:
            file.seek(-len(MARK), os.SEEK_END)
            return file.read() == MARK
    except OSError:
        return False


def read_description(path: str | os.PathLike[str]) -> Description:
    """What a library takes and gives.

    Raises:
      SavedModuleError: the file isn't there, is no library of this version of tvtf, is cut short, or was changed.
    """
    place = Path(path)
    if not place.is_file():
        raise SavedModuleError(f"{place} is not there")
    if not is_library(place):
        raise SavedModuleError(
            f"{place} is no library that `tvtf compile` of this version made, or is cut short; compile it again"
        )
    with place.open("rb") as file:
        text = _description(file, place)
    return Description.of_json(parse(text, str(place)), str(place))


def _description(file: Any, place: Path) -> bytes:
    """The bytes of the description of a whole library."""
    end = file.seek(0, os.SEEK_END) - _END + LENGTH_BYTES
    if end < LENGTH_BYTES:
        raise SavedModuleError(f"{place} is cut short; compile it again")
    digest = _digest(file, end)
    if file.read(DIGEST_BYTES) != digest:
        raise SavedModuleError(f"{place} is damaged: its content has another digest than it had; compile it again")
    file.seek(end - LENGTH_BYTES)
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if length > end - LENGTH_BYTES:
        raise SavedModuleError(f"{place} is damaged: its description has an impossible length; compile it again")
    file.seek(end - LENGTH_BYTES - length)
    return bytes(file.read(length))


class Library:
    """A compiled library, loaded; safe to use from several threads, one call at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.description = read_description(path)
        load_runtime()
        devices = self._devices()
        try:
            self._module = _loaded(path)
            machine = self._module["vm_load_executable"]()
        except (RuntimeError, OSError, AttributeError) as cause:
            raise SavedModuleError(f"{path} can't be loaded ({cause}); compile it again on this machine") from cause
        machine["vm_initialization"](*devices)
        self._main = machine["main"]
        self._lock = Lock()

    def _devices(self) -> list[int]:
        """What the virtual machine runs on: a GPU first, where the library is for one."""
        if self.description.gpu is None:
            return [CPU, 0, POOLED]
        from tvtf.passes.codegen import cuda

        cuda.load_runtime()
        return [CUDA, 0, POOLED, CPU, 0, POOLED]

    def _moved(self, tensor: Any, kind: int) -> Any:
        if self.description.gpu is None:
            return tensor
        return tvm_ffi.get_global_func("vm.builtin.to_device")(tensor, kind, 0)

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs as arrays of their own, in the order of the description.

        Raises:
          SavedModuleError: an array has another dtype or shape than the library takes.
          OpError: what the function itself raises, such as InvalidArgumentError for an index out of range.
        """
        arrays = [np.asarray(array) for array in arrays]
        self.description.check(arrays)
        with self._lock:
            try:
                results = self._main(*(self._moved(to_handle(array), CUDA) for array in arrays))
            except (RuntimeError, ValueError, TypeError) as error:
                raise raised_by(self.description.name, error) from error
            single = len(self.description.outputs) == 1
            return [to_array(self._moved(r, CPU)).copy() for r in ([results] if single else results)]


finalize.entered_by(Library, "run")


def _loaded(path: str | os.PathLike[str]) -> Any:
    """The module in a file, by a name that no module was loaded by before.

    The system's loader knows libraries by their names first: of a file that was compiled anew since it was loaded in this
    process, it would give the old code.
    """
    with tempfile.TemporaryDirectory(prefix="tvtf-load-") as folder:
        link = Path(folder) / f"{uuid.uuid4().hex}.so"
        link.symlink_to(os.path.abspath(path))
        return load_library(link)


def load_runtime() -> None:
    """Loads TVM's runtime for libraries to link to, unless the whole of TVM is there already.

    Raises:
      SavedModuleError: TVM isn't installed.
    """
    if "tvm" in sys.modules:
        return
    spec = importlib.util.find_spec("tvm")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    found = next((path for name in RUNTIMES for path in (folder / name, folder / "lib" / name) if path.is_file()), None)
    if found is None:
        raise SavedModuleError("TVM's runtime isn't installed; install it with: pip install tvtf")
    ctypes.CDLL(str(found), ctypes.RTLD_GLOBAL)
