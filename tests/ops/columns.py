"""The four ways to compute a program, side by side: eager, compiled, ONNX, native library; many programs in one module each.

A module of many programs costs little more than one of a few: kernels of equal structure are compiled once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_support
from library_support import run_library
from table_support import arrays_of, mismatch, spec_of, tensor

import tvtf as tf
from tvtf.ir.interpreter import evaluate
from tvtf.onnx import export

FIXED = ("compiled", "library for unknown dims", "ONNX")
UNKNOWN = ("compiled for unknown dims", "library", "ONNX for unknown dims", "interpreted")
"""Either holds all four columns; one of them compiles in the process for fixed dims, the other in the library."""


@dataclass(frozen=True)
class Program:
    """A Python function of tensors, what to call it on, the dims that may be unknown, and how far apart results may lie."""

    name: str
    python: Any
    arrays: tuple[np.ndarray, ...]
    dims: tuple[tuple[str | None, ...], ...]
    tolerance: float

    def eager(self):
        return arrays_of(tuple(tf.nest.flatten(self.python(*map(tensor, self.arrays)))))

    def specs(self, unknown):
        return [spec_of(a, names if unknown else None) for a, names in zip(self.arrays, self.dims)]


def differences(programs, ways=(*FIXED, *UNKNOWN)):
    """What is wrong with any program in any way, one line each; what fails as a whole is taken apart."""
    expected = [program.eager() for program in programs]
    return [line for way in ways for line in _in_one_way(programs, expected, way)]


def _in_one_way(programs, expected, way):
    try:
        found = _results(programs, way)
    except Exception as error:  # whatever breaks in one program must be told with its name
        if len(programs) == 1:
            return [f"{programs[0].name}: {way} fails: {type(error).__name__}: {str(error)[:400]}"]
        return [line for one, values in zip(programs, expected) for line in _in_one_way([one], [values], way)]
    lines = []
    for program, values in zip(programs, expected):
        own, found = found[: len(values)], found[len(values) :]
        lines += [f"{program.name}: {way} {message}" for message in map(_difference(program), own, values) if message]
    return lines


def _difference(program):
    def message(found, expected):
        if found.dtype != expected.dtype or found.shape != expected.shape:
            return f"has {found.dtype}{found.shape}, expected {expected.dtype}{expected.shape}"
        return mismatch(found, expected, program.tolerance if expected.dtype.kind in "fcV" else 0)

    return message


def _results(programs, way):
    """All results of all programs, in a row."""
    specs = [spec for p in programs for spec in p.specs(unknown=way.endswith("unknown dims"))]
    arrays = [a for p in programs for a in p.arrays]
    function = tf.function(_one_after_another(programs), autograph=False)
    if way.startswith("ONNX"):
        return onnx_support.run_model(export(function, *specs), arrays)
    if way.startswith("library"):
        return run_library(function, specs, arrays)
    concrete = function.get_concrete_function(*specs)
    inputs = list(map(tensor, arrays))
    if way == "interpreted":
        return arrays_of(tuple(evaluate(concrete.module(), "main", [*inputs, *concrete.captures])))
    return arrays_of(tuple(tf.nest.flatten(concrete.call_flat(inputs))))


def _one_after_another(programs):
    def run(*inputs):
        rest, results = list(inputs), []
        for program in programs:
            own, rest = rest[: len(program.arrays)], rest[len(program.arrays) :]
            results += tf.nest.flatten(program.python(*own))
        return tuple(results)

    return run
