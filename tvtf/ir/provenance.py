"""Provenance of the IR: the files and lines of the user's program that calls, and the kernels fused from them, come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

from tvm import relax

from tvtf.ir.dialect import bindings_of

UserLine = tuple[str, int]
MAX_LINES = 4
"""A kernel of more lines is shown with the first of them."""


def user_line(call: Any) -> UserLine | None:
    """Returns the file and line of the user's program that a call comes from, or None if the call has no span."""
    span = getattr(call, "span", None)
    return None if span is None else (str(span.source_name.name), int(span.line))


def show_lines(lines: Iterable[UserLine]) -> str:
    """Formats files and lines of the user's program as a short text, grouped by file.

    Only the first ``MAX_LINES`` lines are shown.

    >>> show_lines([("/src/train.py", 12), ("/src/train.py", 14), ("/src/model.py", 3)])
    'model.py:3, train.py:12,14'
    """
    distinct = sorted(set(lines), key=lambda line: (PurePath(line[0]).name, line))
    by_file: dict[str, list[str]] = {}
    for file, line in distinct[:MAX_LINES]:
        by_file.setdefault(PurePath(file).name, []).append(str(line))
    texts = ", ".join(f"{file}:{','.join(numbers)}" for file, numbers in by_file.items())
    return texts + (", ..." if len(distinct) > MAX_LINES else "")


def calls_in(func: relax.Function) -> Iterator[relax.Call]:
    """Returns the calls that a Relax function binds, without the calls inside its branches."""
    values = (binding.value for binding in bindings_of(func.body))
    return (value for value in values if isinstance(value, relax.Call))


def kernel_lines(mod: Any) -> dict[str, set[UserLine]]:
    """Returns, by the name of each kernel, the lines of the user's program that the kernel computes.

    ``mod`` is the module after the pass ``fuse``. A fused kernel has the lines of all ops in it.
    """
    lines_by_kernel: dict[str, set[UserLine]] = {}
    for var, func in mod.functions_items():
        if not isinstance(func, relax.Function):
            continue
        is_fused = func.attrs is not None and "Primitive" in func.attrs  # such a function becomes one kernel
        for call in calls_in(func):
            if is_fused:
                kernel = var.name_hint
            else:  # `call_tir(kernel, ...)`: the first argument is the kernel
                kernel = getattr(call.args[0], "name_hint", None) if call.args else None
            line = user_line(call)
            if kernel is not None and line is not None:
                lines_by_kernel.setdefault(kernel, set()).add(line)
    return lines_by_kernel


def kernel_parts(mod: Any) -> dict[str, list[str]]:
    """Returns, by the name of each fused kernel, the names of its ops in order. ``mod`` is the module after ``fuse``."""
    # A fused function, which has the attribute "Primitive", becomes one kernel.
    fused = {v.name_hint: f for v, f in mod.functions_items() if f.attrs is not None and "Primitive" in f.attrs}
    return {name: [_op_name(call) for call in calls_in(func) if call.args] for name, func in fused.items()}


def _op_name(call: relax.Call) -> str:
    """Returns the name of the op that a call's kernel computes: the kernel's name without its number, as in ``add_1``."""
    return re.sub(r"_\d+$", "", str(getattr(call.args[0], "name_hint", call.op)))
