"""Links relocatable objects to a shared library, without a C toolchain where possible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from tvtf.passes.codegen.elf import UnsupportedObjectError, parse_object
from tvtf.passes.codegen.elf_image import shared_library
from tvtf.passes.codegen.memory_file import in_memory, scratch_folder

SYSTEM_LINKERS = ("cc", "gcc", "clang", "ld")
# Apple's linker rejects symbols that only the running process defines, unless a flag defers them to run time.
PLATFORM_FLAGS = {"darwin": ("-undefined", "dynamic_lookup")}


class LinkError(RuntimeError):
    """Objects couldn't be linked; the text says which, why, and what helps."""


def link(objects: list[Path], out: Path) -> None:
    """Links relocatable objects into the shared library `out`, which is written atomically.

    x86-64 ELF objects as LLVM emits them for TVM are linked here in Python, in milliseconds. Other machines, and
    objects with relocations that this linker doesn't do, go to the system's linker (cc, gcc, clang or ld).

    Raises:
        LinkError: the objects need the system's linker, and there is none, or it failed.
        ValueError: a symbol is defined twice, or there is nothing to link.

    Source: System V ABI, AMD64 supplement 1.0.
    """
    link_code({str(path): path.read_bytes() for path in objects}, out)


def link_code(objects: Mapping[str, bytes], out: Path) -> None:
    """Links object files, given as their contents by name, into the shared library `out`, as `link` does.

    `out` may be a file in memory.
    """
    if not objects:
        raise ValueError(f"link: expected at least one object for {out}, received none")
    try:
        image = shared_library([parse_object(Path(name), code) for name, code in objects.items()])
    except UnsupportedObjectError as reason:
        image = _link_with_system_linker(objects, reason)
    _write_atomically(image, out)


def export_linker(out: str, objects: Iterable[str], **_options: object) -> None:
    """`link` in the form that the `fcompile` argument of TVM's `Executable.export_library` expects."""
    link([Path(path) for path in objects], Path(out))


def _write_atomically(image: bytes, out: Path) -> None:
    """Writes a library to `out` atomically: a temporary file in the same folder is written and renamed."""
    if in_memory(out):  # no other process can see it half written
        out.write_bytes(image)
        return
    temporary = _temporary_path(out)
    try:
        temporary.write_bytes(image)
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)


def _temporary_path(out: Path) -> Path:
    """Returns a new path in a file's folder, from which a rename to the file's path is atomic."""
    return out.with_name(f".{out.name}.{uuid.uuid4().hex}.part")


def _link_with_system_linker(objects: Mapping[str, bytes], reason: UnsupportedObjectError) -> bytes:
    """Links object files with the system's linker, and returns the content of the shared library.

    Args:
      objects: the contents of the object files, by name.
      reason: why the built-in linker can't link them, for the text of an error.
    """
    linker = _system_linker(reason)
    with scratch_folder() as folder:
        paths = [folder / f"{index}-{Path(name).name}" for index, name in enumerate(objects)]
        for path, code in zip(paths, objects.values()):
            path.write_bytes(code)
        library = folder / "library.so"
        _run_linker(
            [linker, "-shared", *PLATFORM_FLAGS.get(sys.platform, ()), "-o", str(library), *map(str, paths), "-lm"]
        )
        return library.read_bytes()


def _system_linker(reason: UnsupportedObjectError) -> str:
    """Returns the path of the first system linker on PATH; raises LinkError if there is none."""
    for name in SYSTEM_LINKERS:
        path = shutil.which(name)
        if path:
            return path
    raise LinkError(
        f"link: {reason}; this needs the system's linker, but none of {', '.join(SYSTEM_LINKERS)} is on PATH. "
        "Install one (Debian, Ubuntu: apt install gcc; Fedora: dnf install gcc; macOS: xcode-select --install)."
    ) from reason


def _run_linker(command: list[str]) -> None:
    """Runs the system's linker; raises LinkError with what it says if it fails."""
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        raise LinkError(
            f"link: `{' '.join(command)}` failed with exit status {completed.returncode}: {completed.stderr.strip()}"
        )
