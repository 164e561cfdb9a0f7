"""Reverse-mode differentiation: one sweep over recorded primitives, eager or traced, and a pass over any Relax function.

The rules are the primitives' ``vjp`` columns, written with primitives; so the sweep's own steps can be recorded, traced and
differentiated again. Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

from tvtf.core.deferred_shape import UnknownRank, UnknownSizes
from tvtf.core.primitive import as_tuple, hooks
from tvtf.core.tensor import Tensor
from tvtf.ops.indexed_slices import IndexedSlices, as_dense, total
from tvtf.ops.rules import ones_like, zeros_like

Record = tuple[Any, tuple[Any, ...], Any, dict[str, Any]]
"""One primitive that ran, or anything else with a ``vjp``: itself, its inputs, its outputs and its attributes."""


class Recorder:
    """Records the primitives that depend on watched tensors; a tape is one of these.

    ``level`` is the level of vectorized mapping that it was opened in.
    """

    level = 0

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.active: dict[int, Any] = {}
        self.watched: set[int] = set()

    def watch(self, source: Any) -> None:
        self.watched.add(id(source))
        self.active[id(source)] = source

    def watches(self, source: Any) -> bool:
        return id(source) in self.active

    def followed(self) -> Iterable[Any]:
        """All that is watched, and what was computed from it."""
        return self.active.values()

    def read(self, variable: Any, tensor: Any) -> None:
        """A Variable was read: of interest to those alone that watch Variables."""

    def record(self, prim: Any, inputs: Sequence[Any], outputs: Any, attrs: dict[str, Any]) -> None:
        active = self.active
        for x in inputs:
            if id(x) in active:
                break
        else:
            return
        self.records.append((prim, tuple(inputs), outputs, attrs))
        for y in outputs if type(outputs) is tuple else (outputs,):
            if y.dtype.is_differentiable:
                active[id(y)] = y


def sweep(
    records: Sequence[Record],
    seeds: Iterable[tuple[Tensor, Any]],
    sources: Sequence[Any],
    needed: Collection[int] | None = None,
    zeros: bool = True,
) -> list[Any]:
    """The cotangent of each source, or None where no record connects it to a target and it is none itself.

    ``records`` are in program order; ``seeds`` are targets, each with its cotangent. ``needed`` are the ids of all that is
    computed from a source, where that is known. Without ``zeros`` none are given to what rules leave these to.
    """
    if needed is None:
        needed = needed_by(records, sources)
    asked = {id(s) for s in sources}
    found: dict[int, Any] = {}
    for target, ct in seeds:
        key = id(target)
        if (key in needed or key in asked) and target.dtype.is_differentiable:
            known = found.get(key)
            found[key] = ct if known is None else total(known, ct)
    for record in reversed(records):
        _, inputs, outputs, _ = record
        ct = _arrived(outputs, found) if type(outputs) is tuple else found.get(id(outputs))
        if ct is None or not any(id(x) in needed for x in inputs):
            continue
        given = _rows_through(record, ct) if type(ct) is IndexedSlices else _given(record, ct)
        for x, part in zip(inputs, given if isinstance(given, (tuple, list)) else (given,)):
            key = id(x)
            if part is not None and key in needed:
                known = found.get(key)
                if type(part) is partial:
                    if part.func is zeros_like and (known is not None or not zeros):
                        continue
                    part = _late(part)
                found[key] = part if known is None else total(known, part)
    return [found.get(id(s)) for s in sources]


def needed_by(records: Sequence[Record], sources: Sequence[Any]) -> set[int]:
    """The ids of everything computed from a source: where cotangents have to go."""
    needed = {id(s) for s in sources}
    for _, inputs, outputs, _ in records:
        if not needed.isdisjoint(map(id, inputs)):
            needed.update([id(y) for y in as_tuple(outputs) if y.dtype.is_differentiable])
    return needed


def _arrived(outputs: tuple[Any, ...], found: dict[int, Any]) -> Any:
    """The cotangents of a record's outputs, zeros filled in; None where none has come."""
    cts = [found.get(id(y)) for y in outputs]
    if all(ct is None for ct in cts):
        return None
    return tuple([zeros_like(y) if ct is None else as_dense(ct) for ct, y in zip(cts, outputs)])


ROW_BY_ROW = ("ReadVariableOp", "Identity", "Cast")
"""Ops whose gradient leaves rows what they are, as TensorFlow's do."""


def _given(record: Record, ct: Any) -> Any:
    """The cotangents of a record's inputs."""
    prim, inputs, outputs, attrs = record
    if prim.vjp is None:
        raise LookupError(f"gradient registry has no entry for: {prim.tf_name}")
    try:
        return prim.vjp(ct, outputs, *inputs, **attrs)
    except (UnknownRank, UnknownSizes) as needed:
        return hooks.defer_call(at_once(prim.vjp), (ct, outputs, *inputs), attrs, needed)


def at_once(vjp: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """A rule with all its cotangents computed, those too that it leaves to whoever needs them as a ``partial``."""

    def run(*args: Any, **attrs: Any) -> tuple[Any, ...]:
        parts = vjp(*args, **attrs)
        parts = parts if isinstance(parts, (tuple, list)) else (parts,)
        return tuple([part() if type(part) is partial else part for part in parts])

    return run


def _late(part: partial[Any]) -> Any:
    try:
        return part()
    except (UnknownRank, UnknownSizes) as needed:
        return hooks.defer_call(part.func, part.args, part.keywords, needed)


def _rows_through(record: Record, ct: IndexedSlices) -> Any:
    if record[0].tf_name not in ROW_BY_ROW:
        return _given(record, as_dense(ct))
    return IndexedSlices(_given(record, ct.values), ct.indices, ct.dense_shape)


def ones_for(targets: Sequence[Tensor]) -> list[Tensor]:
    """The seed of a gradient: one for each element of each target."""
    return [ones_like(t) for t in targets]
