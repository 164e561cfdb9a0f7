"""Object code of subroutines and of common kernels that a wheel holds, so that first calls needn't compile them.

`tools/write_subroutines.py` compiles what the kernels of common layers call, when a wheel is built, for two models of
processors. A subroutine's name is a digest of its content, and the archive of a model holds the object code by name. It
also holds kernels of any size, such as a sum along columns, and kernels of scalars.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target, codegen
from tvm.tirx import IntImm, PrimFunc
from tvm.tirx.buffer import is_buffer_var

from tvtf.core import integers, tvm_visitor
from tvtf.ops.kernels import common
from tvtf.passes.codegen.processor_models import supported_model
from tvtf.passes.schedule.cpu.parallel_threshold import PARALLEL_SIZES
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.tuned_choices import choices_text

FOLDER = Path(__file__).parent
SOURCES = FOLDER.parent
"""The folder of the compiler's sources, on which all object code depends."""
OTHER_SOURCES = tuple(Path(module.__file__ or "") for module in (integers, tvm_visitor, common))
"""What the compiler uses of other folders in writing code."""


def target_of(model: str, cores: int = 1) -> Target:
    """Returns the target that the code of a model's archive is compiled for.

    Subroutines don't depend on the number of cores.
    """
    return Target({"kind": "llvm", "mcpu": model, "num-cores": cores})


def may_be_shipped(func: PrimFunc) -> bool:
    """Returns whether a kernel may be common to many programs: its sizes are parameters, or its arrays have one element."""
    arrays = [param for param in func.params if is_buffer_var(param)]
    if len(arrays) < len(func.params):
        return True
    return all(isinstance(extent, IntImm) and int(extent) == 1 for array in arrays for extent in array.ty.shape)


def shipped_kernel_name(func: PrimFunc, content: str, cores: int) -> str:
    """Returns the name of a kernel's code in an archive: a digest of its content, and of the number of cores.

    A parallel loop is split into a part for each core. The name of a kernel without parallel loops doesn't depend on
    the number of cores.

    Args:
      func: the kernel.
      content: its `content_of`.
      cores: the number of cores that the kernel is scheduled for.
    """
    takes_sizes = not all(map(is_buffer_var, func.params))
    is_serial = not takes_sizes or (PARALLEL_SIZES in func.attrs and len(func.attrs[PARALLEL_SIZES]) == 0)
    used_cores = 1 if is_serial else cores
    digest = hashlib.sha256(f"{used_cores}\0{content}".encode()).hexdigest()
    return f"kernel_{digest[:40]}"


def shipped_kernel_code(func: PrimFunc, content: str, target: Target, options: Mapping[str, Any]) -> bytes | None:
    """Returns the object code of a kernel that was compiled when tvtf was built, or None if there is none.

    There is none, too, if tuning chose another schedule for the kernel, or if schedules for the processor differ from
    those for its model.

    Args:
      func: the kernel, with common names.
      content: the kernel's `content_of`.
      target: the processor.
      options: the options of TVM's passes.
    """
    model = _model_of(target) if target.kind.name == "llvm" and may_be_shipped(func) else None
    if model is None or choices_text(func, target):
        return None
    facts = CpuTarget.of(target)
    if facts != CpuTarget.of(target_of(model, facts.cores)):
        return None
    return shipped_code(shipped_kernel_name(func, content, facts.cores), target, options)


def shipped_code(name: str, host: Target, options: Mapping[str, Any]) -> bytes | None:
    """Returns the object code of a subroutine or kernel that was compiled when tvtf was built.

    Returns None if there is none, if the environment's ``TVTF_SUBROUTINES`` is 0, or, with a warning, if the archive is
    damaged.

    Args:
      name: the name of the code in the archive.
      host: the processor.
      options: options of TVM's passes. The archive has only code that was compiled without options.
    """
    archive = None if options or os.environ.get("TVTF_SUBROUTINES") == "0" else archive_for(host)
    if archive is None or name not in archive.NameToInfo:
        return None
    try:
        return archive.read(name)
    except Exception as error:  # many kinds: damaged bytes may specify a wrong compression method, offset or encryption
        _warn_of_damage(str(archive.filename), error)
        return None


def write_archive(model: str, code: Mapping[str, bytes]) -> Path:
    """Writes the archive of subroutines for a model of processors, and returns its path."""
    path = _path(model, FOLDER)
    scratch = path.with_suffix(".new")
    with zipfile.ZipFile(scratch, "w") as archive:
        archive.comment = _digest_of_compiler().encode()
        for name in sorted(code):
            # A `ZipInfo` without a time, so that equal code gives equal wheels.
            archive.writestr(zipfile.ZipInfo(name), code[name], zipfile.ZIP_DEFLATED)
    os.replace(scratch, path)
    _open_archive.cache_clear()
    return path


def _path(model: str, folder: Path) -> Path:
    return folder / f"subroutines-{model}.zip"


def archive_for(host: Target) -> zipfile.ZipFile | None:
    """Returns the archive for a processor, or None if there is none or other sources than these wrote it."""
    return _open_archive(str(host), FOLDER)


@lru_cache(maxsize=16)
def _open_archive(host: str, folder: Path) -> zipfile.ZipFile | None:
    """Opens the archive for a processor, or returns None if it is missing, damaged, or from another version of tvtf.

    Args:
      host: the text of the processor's target.
      folder: the folder of the archives.
    """
    model = _model_of(Target(host))
    path = None if model is None else _path(model, folder)
    if path is None or not path.exists():
        return None
    try:
        # Read completely: forked processes would share an open file's position.
        archive = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
    except Exception as error:  # as above, or the file can't be read
        _warn_of_damage(str(path), error)
        return None
    archive.filename = str(path)
    return archive if archive.comment == _digest_of_compiler().encode() else None


def _warn_of_damage(path: str, error: Exception) -> None:
    warnings.warn(
        f"{path} is damaged ({error}): what it holds is compiled instead, which takes longer. Installing tvtf again mends it.",
        stacklevel=2,
    )


def _model_of(target: Target) -> str | None:
    """Returns the best model whose code runs on a processor, or None if there is none or the operating system differs.

    Code for a model with more instructions is faster, but must not run on a processor without them.
    """
    if "mtriple" in target.attrs or "mcpu" not in target.attrs:
        return None
    model = supported_model(target)
    return None if model is None else model.name


def _digest_of_compiler() -> str:
    """Returns a digest of what object code depends on: TVM, the system, and tvtf's compiler."""
    digest = hashlib.sha256(f"{tvm.__version__} {codegen.llvm_get_system_triple()}".encode())
    for path in [*sorted(SOURCES.rglob("*.py")), *OTHER_SOURCES]:
        digest.update(path.read_bytes())
    return digest.hexdigest()
