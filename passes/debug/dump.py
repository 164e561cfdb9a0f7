"""Watching the pipeline: seconds per pass, the IR after each, and the dump of all (TVTF_DEBUG, TVTF_DUMP)."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

import tvm

from tvtf.core.thread_state import debug_settings
from tvtf.ir.printer import print_module
from tvtf.ir.script import script

seconds: dict[str, float] = {}
"""Time spent in each phase by this process."""


def run_phase(phase: Any, position: int, mod: tvm.IRModule, folder: Path | None) -> tvm.IRModule:
    """Runs one phase of the compiler, and returns the resulting module.

    Debug settings make it also print the phase's time or result, write the result to a file, or verify the result.

    Args:
      phase: the phase.
      position: the position of the phase in the pipeline, which the dumped file's name starts with.
      mod: the module that the phase transforms.
      folder: the folder for the dumped file, or None for no dump.
    """
    started = time.perf_counter()
    result = phase.run(mod)
    elapsed = time.perf_counter() - started
    seconds[phase.name] = seconds.get(phase.name, 0.0) + elapsed
    if debug_settings.debug >= 2:
        print(f"tvtf: {phase.name:14s} {elapsed * 1e3:8.1f} ms", file=sys.stderr)
    if debug_settings.debug >= 3:
        print(f"# after {phase.name}\n{module_text(result)}", file=sys.stderr)
    if folder:
        dump(folder, position, phase.name, result)
    if debug_settings.verify:
        _verify(phase, mod, result)
    return result


def _verify(phase: Any, before: tvm.IRModule, after: tvm.IRModule) -> None:
    """Checks that a module computes the same numbers before and after a phase.

    Only phases on the dialect, which NumPy can interpret, and the scheduling of kernels are checked.
    """
    from tvtf.passes.debug import verify

    if phase.dialect:
        verify.check_pass(phase.name, before, after)
    elif phase.name == "schedule":
        verify.check_schedules(before, after, tvm.target.Target.current())


_compilations = itertools.count()


def dump_folder() -> Path | None:
    """Returns the folder for the dump of the next compilation, a number in TVTF_DUMP, or None without a dump."""
    return Path(debug_settings.dump) / f"{next(_compilations):03d}" if debug_settings.dump else None


def dump(folder: Path, position: int, name: str, mod: tvm.IRModule) -> None:
    """Writes the module after a phase to a file: a listing, or TVMScript once it has kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    suffix = "py" if has_kernels(mod) else "txt"
    (folder / f"{position:03d}_{name}.{suffix}").write_text(f"{module_text(mod)}\n")


def module_text(mod: tvm.IRModule) -> str:
    """Formats a module as a listing; loop nests, which the listing lacks, as TVMScript."""
    return script(mod) if has_kernels(mod) else print_module(mod).text


def has_kernels(mod: tvm.IRModule) -> bool:
    """Returns whether a module contains kernels (loop nests), as it does after the phase ``legalize``."""
    return any(isinstance(func, tvm.tirx.PrimFunc) for func in mod.functions.values())
