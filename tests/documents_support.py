"""The source documents' scripts, cell by cell as a notebook runs them, and TensorFlow's output as committed text.

A document is a file of ``tests/documents``; ``# %%`` and a name begin a cell. The documents' typos are mended, random numbers
seeded, sizes made small, and what differs from run to run (addresses, paths, times) is not printed.
"""

import ast
import contextlib
import logging
import os
import re
import sys
import tempfile
import types
from pathlib import Path
from unittest import mock

import golden_filters
import goldens
import numpy as np
import parity_support

FOLDER = Path(__file__).parent / "documents"
DOCUMENTS = tuple(sorted(path.stem for path in FOLDER.glob("*.py")))
_CELL = re.compile(r"^# %% (.*)$", re.MULTILINE)


def cells(document):
    """Name -> the statements of the cell, with the lines they have in the file."""
    path = FOLDER / f"{document}.py"
    text = path.read_text()
    starts = [(text.count("\n", 0, match.start()) + 1, match[1]) for match in _CELL.finditer(text)]
    ends = [line for line, _ in starts[1:]] + [text.count("\n") + 2]
    body = ast.parse(text, str(path)).body
    return {
        name: [node for node in body if start < _first_line(node) < end]
        for (start, name), end in zip(starts, ends, strict=True)
    }


def _first_line(node):
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])


def run(document, tf):
    """Name -> what each cell writes to stdout and stderr, the value of its last line, and what it raises."""
    module = types.ModuleType(document)
    module.__file__ = str(FOLDER / f"{document}.py")
    with _imported("tensorflow", tf), _imported(document, module):
        return {name: _output(body, vars(module)) for name, body in cells(document).items()}


@contextlib.contextmanager
def _imported(name, module):
    before, sys.modules[name] = sys.modules.get(name), module
    try:
        yield
    finally:
        sys.modules[name] = before
        if before is None:
            del sys.modules[name]


def _output(body, namespace):
    with tempfile.TemporaryFile("w+") as file:
        with _written_to(file):
            _execute(body, namespace)
        file.seek(0)
        return golden_filters.clean(file.read())


def _execute(body, namespace):
    """As a notebook does: the value of a last line that is an expression is shown."""
    shown = body.pop() if isinstance(body[-1], ast.Expr) else None
    try:
        exec(compile(ast.Module(body, []), namespace["__file__"], "exec"), namespace)
        if (
            shown
            and (value := eval(compile(ast.Expression(shown.value), namespace["__file__"], "eval"), namespace))
            is not None
        ):
            print(repr(value))
    except Exception as error:
        print(parity_support.error_text(error))


@contextlib.contextmanager
def _written_to(file):
    """File descriptors 1 and 2, where TensorFlow's kernels write, and Python's own streams."""
    saved = os.dup(1), os.dup(2)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    try:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        with (
            open(file.fileno(), "w", buffering=1, closefd=False) as stream,
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(stream),
            mock.patch.object(logging.getLogger(), "handlers", []),  # pytest's own
            _logged_as_alone(stream),
        ):
            yield
    finally:
        for target, descriptor in enumerate(saved, 1):
            os.dup2(descriptor, target)
            os.close(descriptor)


@contextlib.contextmanager
def _logged_as_alone(stream):
    """TensorFlow's logger writes as it does in a program: it takes no handler where pytest had given the root one."""
    logger = logging.getLogger("tensorflow")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
    with mock.patch.object(logger, "handlers", logger.handlers or [handler]):
        yield


_LOOSER = golden_filters.LOOSER["documents"]
_NUMBER = re.compile(r"-?\d+\.\d*(?:e[-+]\d+)?")
_TARGETS = re.compile(r"^( *)\((\w+(?:, \w+)+)\) = ", re.MULTILINE)
"""How Python 3.10 writes what later ones write without parentheses: ``ast.unparse`` of ``a, b = c``."""


def same(found, expected):
    """Equal but for the last digits of floating-point numbers: kernels add and round in other orders."""
    found, expected = (_TARGETS.sub(r"\1\2 = ", text) for text in (found, expected))
    return _NUMBER.sub("#", found).split() == _NUMBER.sub("#", expected).split() and np.allclose(
        *([float(number) for number in _NUMBER.findall(text)] for text in (found, expected)),
        rtol=_LOOSER.relative,
        atol=_LOOSER.absolute,
    )


def golden(document):
    return goldens.read(f"document_{document}")
