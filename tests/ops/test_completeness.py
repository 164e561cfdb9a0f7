"""Primitives without a column have a written reason, and they are few."""

import ast
import re
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

import tvtf as tf
from tvtf.api.namespaces import all_names
from tvtf.core.primitive import table, types_tuple
from tvtf.core.shape import TensorType
from tvtf.dtypes import TRACED, from_array
from tvtf.onnx import control
from tvtf.passes.lower import legalize

ROOT = Path(__file__).parents[2]
LEAST = 110
GAP_SHARE = 0.1
COLUMNS = ("lower", "onnx", "samples")
all_names()
BUILT_IN = [p for p in table.values() if p.front.__module__.startswith("tvtf.")]


ELSEWHERE = {"lower": legalize.CONTROL, "onnx": control.CONTROL}
"""What whole-program passes lower and export, because it has subgraphs or dims of its own."""


def attributes_of(prim):
    """The names that the type rule of a primitive takes, without the tensors' only if these are positional; None for any."""
    parameters = signature(prim.type).parameters.values()
    return None if any(p.kind is p.VAR_KEYWORD for p in parameters) else {p.name for p in parameters}


def bound_calls():
    """Yields the place, the primitive and the attributes' names of each call of ``bind.name(...)`` in the source."""
    for file in (path for folder in ("tvtf", "frontend", "passes") for path in sorted((ROOT / folder).rglob("*.py"))):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if "bind." in text else ():
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if is_call and isinstance(node.func.value, ast.Name) and node.func.value.id == "bind":
                names = {keyword.arg for keyword in node.keywords} - {None}
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node.func.attr, names


def test_calls_pass_attributes_that_the_primitive_has():
    calls = list(bound_calls())
    wrong = [
        f"{place}: {name} has no {sorted(unknown)}"
        for place, name, names in calls
        if (known := attributes_of(table[name])) is not None and (unknown := names - known)
    ]
    assert len(calls) > 2000
    assert not wrong


def gaps(prim):
    """The columns a primitive lacks."""
    missing = [column for column in COLUMNS if not getattr(prim, column) and prim.name not in ELSEWHERE.get(column, ())]
    if prim.host:
        missing.remove("lower")
    return missing + (["vjp"] if prim.vjp is None and is_floating(prim) else [])


def runs_eagerly_only(prim):
    """Strings have no type in the compiler, so their primitives can't have its columns."""
    samples = prim.samples() if callable(prim.samples) else prim.samples
    return bool(samples) and not any(d in TRACED for s in samples for d in s.dtypes)


def is_floating(prim):
    """Whether some sample goes from floats to floats."""
    samples = prim.samples() if callable(prim.samples) else prim.samples
    return any(has_floats(prim, s, d) for s in samples for d in s.dtypes if d.is_floating)


def has_floats(prim, sample, dtype):
    arrays = [np.asarray(x(dtype) if callable(x) else x) for x in sample.inputs]
    types = [TensorType(a.shape, from_array(a)) for a in arrays]
    results = types_tuple(prim.typed(*types, **sample.attrs))
    return any(t.dtype.is_floating for t in types) and any(t.dtype.is_floating for t in results)


def test_there_are_enough_primitives():
    assert len(BUILT_IN) >= LEAST


@pytest.mark.parametrize("prim", BUILT_IN, ids=lambda p: p.name)
def test_every_gap_has_a_reason(prim):
    silent = [column for column in gaps(prim) if not prim.why_not.get(column)]
    assert not silent, f"{prim.name} has no {', '.join(silent)}: add the column, or the reason to why_not"


def test_gaps_are_few():
    """Samples are left out: what has subgraphs is tested by whole programs."""
    native = [p for p in BUILT_IN if not p.host and not runs_eagerly_only(p)]
    lacking = [p for p in native if set(gaps(p)) - {"samples"}]
    incomplete = sorted(p.name for p in lacking)
    assert len(incomplete) <= GAP_SHARE * len(BUILT_IN), f"{len(incomplete)} of {len(BUILT_IN)}: {incomplete}"


def test_reasons_are_for_gaps_of_known_columns():
    """``onnx`` may also tell of single dtypes that the standard lacks."""
    unknown = {p.name: sorted(set(p.why_not) - {*COLUMNS, "vjp", "batch", "guard"}) for p in BUILT_IN}
    assert not {name: columns for name, columns in unknown.items() if columns}


GENERIC_BATCH_SHARE = 0.15


def test_few_primitives_batch_by_a_loop():
    looped = sorted(p.name for p in BUILT_IN if p.batch is None and not p.host)
    assert len(looped) <= GENERIC_BATCH_SHARE * len(BUILT_IN), f"{len(looped)} of {len(BUILT_IN)}: {looped}"


@pytest.mark.parametrize("prim", [p for p in BUILT_IN if p.public], ids=lambda p: p.name)
def test_every_public_primitive_is_documented(prim):
    text = prim.__doc__ or ""
    wanted = {"an example": ">>> ", "its source": "Source: http"}
    missing = [what for what, mark in wanted.items() if mark not in text]
    assert not missing, f"the docstring of {prim.name} lacks {' and '.join(missing)}"
    assert re.match(r"\S", text), f"the docstring of {prim.name} does not start with its summary"


@pytest.mark.parametrize("path", sorted({path for p in BUILT_IN for path in p.public}))
def test_every_public_path_is_reachable(path):
    found = tf
    for part in path.split("."):
        found = getattr(found, part)
    assert callable(found)
