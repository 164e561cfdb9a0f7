"""Reverse-mode differentiation: one sweep over recorded primitives, eager or traced.

The rules are the primitives' ``vjp`` columns. They are written with primitives, so the sweep itself can be recorded,
traced and differentiated again. Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

from tvtf.core.primitive import as_tuple, hooks
from tvtf.core.specialization import Unspecialized
from tvtf.core.tensor import Tensor
from tvtf.ops.indexed_slices import IndexedSlices, as_dense, total
from tvtf.ops.rules import ones_like, zeros_like

Record = tuple[Any, tuple[Any, ...], Any, dict[str, Any]]
"""A primitive that ran, or anything else with a ``vjp``: itself, its inputs, its outputs and its attributes."""


class Recorder:
    """Records the primitives that depend on watched tensors; tapes derive from it.

    ``level`` is the nesting level of ``vectorized_map`` in which it was opened.
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

    def records_uses_of(self, source: Any) -> bool:
        """Returns whether a user's tape records ops of a tensor or Variable."""
        return False

    def active_tensors(self) -> Iterable[Any]:
        """Returns all tensors that are watched or computed from watched ones."""
        return self.active.values()

    def read(self, variable: Any, tensor: Any) -> None:
        """Does nothing when a Variable is read; tapes that watch Variables override this."""

    def record(self, prim: Any, inputs: Sequence[Any], outputs: Any, attrs: dict[str, Any]) -> None:
        """Records a primitive that ran, if an input is active: watched, or computed from a watched tensor.

        The primitive's differentiable outputs then are active, too. Other primitives aren't recorded, since a record
        would keep their inputs in memory.

        Args:
          prim: the primitive.
          inputs: its input tensors.
          outputs: its output tensor, or a tuple of its output tensors.
          attrs: its attributes.
        """
        active = self.active
        # A loop instead of `any` with a generator: this is run for each op, and a generator takes longer to create.
        for tensor in inputs:
            if id(tensor) in active:
                break
        else:  # no input is active
            return
        self.records.append((prim, tuple(inputs), outputs, attrs))
        for output in outputs if type(outputs) is tuple else (outputs,):
            if output.dtype.is_differentiable:
                active[id(output)] = output


def sweep(
    records: Sequence[Record],
    seeds: Iterable[tuple[Tensor, Any]],
    sources: Sequence[Any],
    needed: Collection[int] | None = None,
    zeros: bool = True,
) -> list[Any]:
    """Returns the cotangent of each source, or None where no record connects it to a target and it isn't one itself.

    Args:
      records: in program order.
      seeds: targets, each with its cotangent.
      needed: the ids of all tensors computed from a source, if they are known.
      zeros: whether a lazy zero, ``partial(zeros_like, ...)``, counts as a cotangent; if not, such a tensor has None.
    """
    if needed is None:
        needed = needed_by(records, sources)
    source_ids = {id(source) for source in sources}
    cotangents: dict[int, Any] = {}
    for target, cotangent in seeds:
        if (id(target) in needed or id(target) in source_ids) and target.dtype.is_differentiable:
            _accumulate(cotangents, target, cotangent)
    for record in reversed(records):
        _, inputs, outputs, _ = record
        cotangent = _output_cotangents(outputs, cotangents) if type(outputs) is tuple else cotangents.get(id(outputs))
        if cotangent is None or not any(id(x) in needed for x in inputs):
            continue
        compute = _sparse_input_cotangents if type(cotangent) is IndexedSlices else _input_cotangents
        parts = compute(record, cotangent)
        if not isinstance(parts, (tuple, list)):
            parts = (parts,)
        for x, part in zip(inputs, parts):
            if part is None or id(x) not in needed:
                continue
            if type(part) is partial:
                if part.func is zeros_like and (id(x) in cotangents or not zeros):
                    continue
                part = _evaluate_lazy(part)
            _accumulate(cotangents, x, part)
    return [cotangents.get(id(source)) for source in sources]


def _accumulate(cotangents: dict[int, Any], tensor: Any, cotangent: Any) -> None:
    """Adds ``cotangent`` to the cotangent of a tensor; ``cotangents`` has the sums so far, by the tensors' ids."""
    known = cotangents.get(id(tensor))
    cotangents[id(tensor)] = cotangent if known is None else total(known, cotangent)


def needed_by(records: Sequence[Record], sources: Sequence[Any]) -> set[int]:
    """Returns the ids of the sources and of everything computed from them: only these need cotangents."""
    needed = {id(source) for source in sources}
    for _, inputs, outputs, _ in records:
        if not needed.isdisjoint(map(id, inputs)):
            needed.update([id(y) for y in as_tuple(outputs) if y.dtype.is_differentiable])
    return needed


def _output_cotangents(outputs: tuple[Any, ...], cotangents: dict[int, Any]) -> Any:
    """Returns the cotangents of a recorded primitive's outputs, with zeros for outputs that no cotangent has reached.

    Returns None if no output has a cotangent. Gradient rules expect a cotangent for each output.

    Args:
      outputs: the output tensors.
      cotangents: the known cotangents, by the `id` of the tensor.
    """
    known = [cotangents.get(id(output)) for output in outputs]
    if all(cotangent is None for cotangent in known):
        return None
    return tuple(
        [zeros_like(output) if cotangent is None else as_dense(cotangent) for cotangent, output in zip(known, outputs)]
    )


ROW_BY_ROW = ("ReadVariableOp", "Identity", "Cast")
"""Ops whose gradient passes IndexedSlices through unchanged, as TensorFlow's do; for others these are made dense."""


def _input_cotangents(record: Record, cotangent: Any) -> Any:
    """Applies the gradient rule of a recorded primitive: computes the cotangents of its inputs.

    If the rule needs a value that isn't known while tracing, the rule becomes a deferred call.

    Args:
      record: the primitive with its inputs, outputs and attributes.
      cotangent: the cotangent of the output, or a tuple with those of all outputs.

    Raises:
      LookupError: the primitive has no gradient rule.
    """
    prim, inputs, outputs, attrs = record
    if prim.vjp is None:
        raise LookupError(f"gradient registry has no entry for: {prim.tf_name}")
    try:
        return prim.vjp(cotangent, outputs, *inputs, **attrs)
    except Unspecialized as unspecialized:
        return hooks.defer_call(with_all_cotangents(prim.vjp), (cotangent, outputs, *inputs), attrs, unspecialized)


def with_all_cotangents(vjp: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """Wraps a gradient rule so that it computes every cotangent at once.

    A rule may return a cotangent lazily, as a ``partial``, so that an unused one costs nothing. The results of a
    deferred call must be tensors, so they are all computed.
    """

    def run(*args: Any, **attrs: Any) -> tuple[Any, ...]:
        """Applies the rule, and evaluates its lazy results."""
        cotangents = vjp(*args, **attrs)
        if not isinstance(cotangents, (tuple, list)):
            cotangents = (cotangents,)
        return tuple([cotangent() if type(cotangent) is partial else cotangent for cotangent in cotangents])

    return run


def _evaluate_lazy(cotangent: partial[Any]) -> Any:
    """Computes a cotangent that a gradient rule returned lazily, as a ``partial``.

    If this needs a value that isn't known while tracing, the call is deferred.
    """
    try:
        return cotangent()
    except Unspecialized as unspecialized:
        return hooks.defer_call(cotangent.func, cotangent.args, cotangent.keywords, unspecialized)


def _sparse_input_cotangents(record: Record, cotangent: IndexedSlices) -> Any:
    """Computes the cotangents of a recorded primitive's inputs from an output cotangent that is IndexedSlices.

    Ops in ``ROW_BY_ROW`` keep the indices; for other ops, the cotangent is converted to a dense tensor.
    """
    primitive, *_ = record
    if primitive.tf_name not in ROW_BY_ROW:
        return _input_cotangents(record, as_dense(cotangent))
    input_values = _input_cotangents(record, cotangent.values)
    return IndexedSlices(input_values, cotangent.indices, cotangent.dense_shape)


def ones_for(targets: Sequence[Tensor]) -> list[Tensor]:
    """Returns the seeds of a gradient: ones of each target's shape."""
    return [ones_like(target) for target in targets]
