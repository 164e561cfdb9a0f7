"""Reverse-mode differentiation: one sweep over recorded primitives, eager or traced, and a pass over any Relax function.

The rules are the primitives' ``vjp`` columns, written with primitives; so the sweep's own steps can be recorded, traced and
differentiated again. Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tvtf.ops.rules import bind, ones_like, zeros_like
from tvtf.primitive import as_tuple
from tvtf.tensor import Tensor


class Record(NamedTuple):
    """One primitive that ran: what a vjp needs to go back over it. ``primitive`` is anything with a ``vjp``."""

    primitive: Any
    inputs: tuple[Any, ...]
    outputs: Any
    attrs: dict[str, Any]


class Recorder:
    """Records the primitives that depend on watched tensors; a tape is one of these.

    ``level`` is the level of vectorized mapping that it was opened in.
    """

    level = 0

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.active: dict[int, Any] = {}

    def watch(self, source: Any) -> None:
        self.active[id(source)] = source

    def watches(self, source: Any) -> bool:
        return id(source) in self.active

    def record(self, prim: Any, inputs: Sequence[Any], outputs: Any, attrs: dict[str, Any]) -> None:
        active = self.active
        for x in inputs:
            if id(x) in active:
                break
        else:
            return
        self.records.append(Record(prim, tuple(inputs), outputs, attrs))
        for y in as_tuple(outputs):
            if y._type.dtype.is_differentiable:
                active[id(y)] = y


def sweep(
    records: Sequence[Record], targets: Sequence[Tensor], cotangents: Sequence[Tensor], sources: Iterable[Any]
) -> list[Any]:
    """The cotangent of each source, or None where no record connects it to a target.

    ``records`` are in program order; ``cotangents`` belong to ``targets``, one each.
    """
    wanted = [*sources]
    needed = _needed(records, wanted)
    found: dict[int, Any] = {}
    for target, ct in zip(targets, cotangents):
        if id(target) in needed:
            _accumulate(found, target, ct)
    for record in reversed(records):
        cts = [found.get(id(y)) for y in as_tuple(record.outputs)]
        if [ct for ct in cts if ct is not None]:
            _propagate(record, cts, needed, found)
    return [found.get(id(s)) for s in wanted]


def _needed(records: Sequence[Record], sources: Sequence[Any]) -> set[int]:
    """The ids of everything computed from a source: where cotangents have to go."""
    needed = {id(s) for s in sources}
    for record in records:
        if not needed.isdisjoint(map(id, record.inputs)):
            needed.update(id(y) for y in as_tuple(record.outputs) if y._type.dtype.is_differentiable)
    return needed


def _propagate(record: Record, cts: list[Any], needed: set[int], found: dict[int, Any]) -> None:
    for x, ct in zip(record.inputs, as_cotangents(vjp_of(record, cts))):
        if ct is not None and id(x) in needed:
            _accumulate(found, x, ct)


def as_cotangents(found: Any) -> Sequence[Any]:
    """A rule's result as one cotangent per input; a bare one belongs to the only input."""
    return found if isinstance(found, (tuple, list)) else (found,)


def vjp_of(record: Record, cts: list[Any]) -> Any:
    """The record's rule applied to its cotangents; several outputs get theirs as a tuple, zeros filled in."""
    prim = record.primitive
    if prim.vjp is None:
        raise LookupError(f"gradient registry has no entry for: {prim.tf_name}")
    if isinstance(record.outputs, tuple):
        filled = tuple(_or_zeros(ct, y) for ct, y in zip(cts, record.outputs))
        return prim.vjp(filled, record.outputs, *record.inputs, **record.attrs)
    return prim.vjp(cts[0], record.outputs, *record.inputs, **record.attrs)


def _or_zeros(ct: Any, y: Tensor) -> Tensor:
    return zeros_like(y) if ct is None else ct


def _accumulate(found: dict[int, Any], x: Any, ct: Any) -> None:
    known = found.get(id(x))
    found[id(x)] = ct if known is None else bind.add(known, ct)


def ones_for(targets: Sequence[Tensor]) -> list[Tensor]:
    """The seed of a gradient: one for each element of each target."""
    return [ones_like(t) for t in targets]
