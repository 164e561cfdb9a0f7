"""Digests of users' functions that take part in compilation, so that a change of them invalidates cached code."""

from __future__ import annotations

import hashlib
import inspect
import marshal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tvtf.core.primitive import table


def digest_of(functions: Iterable[Callable[..., Any]]) -> str:
    """Returns a digest of the functions' code, of the variables they close over, and of their source files' time stamps."""
    seen: dict[int, Any] = {}
    parts = [part for function in functions for part in _digested_parts(function, seen)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _digested_parts(function: Callable[..., Any], seen: dict[int, Any]) -> Iterator[bytes]:
    """Yields bytes that change when a function's code, its module's file, or a value in its closure changes.

    Args:
      function: the function to digest, with all functions in its closure.
      seen: the visited functions by id; functions that refer to each other would not end otherwise.
    """
    if id(function) in seen:
        return
    seen[id(function)] = function
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    yield marshal.dumps(code) if code else name.encode()
    yield _file_stamp(getattr(function, "__module__", None) or "")
    if not code:
        return
    for value in inspect.getclosurevars(function).nonlocals.values():
        yield from _digested_parts(value, seen) if callable(value) else _literal_bytes(value)


def _literal_bytes(value: Any) -> Iterator[bytes]:
    if isinstance(value, (bool, int, float, complex, str, bytes, tuple)):
        yield repr(value).encode()


def _file_stamp(module: str) -> bytes:
    """Returns bytes that change when the file of a module changes: its name, size and modification time."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or not Path(file).is_file():
        return module.encode()
    stat = Path(file).stat()
    return f"{module}:{stat.st_size}:{stat.st_mtime_ns}".encode()


def foreign_kernels(structure: str | None = None) -> list[Callable[..., Any]]:
    """Returns the functions by which users' primitives are compiled.

    ``structure`` is a module in JSON, whose primitives count. None means all primitives that users declared.
    """
    functions = []
    for name, primitive in table.items():
        is_used = structure is None or f"tvtf.{name}" in structure
        if not primitive.is_own and is_used:
            functions += [primitive.front, primitive.type, primitive.lower, primitive.guard]
    return [function for function in functions if function is not None]
