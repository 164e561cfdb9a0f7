"""Initialization of variables from checkpoints.

Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/train/init_from_checkpoint
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from tvtf.core.tensor import convert_to_tensor
from tvtf.state.variable import Variable
from tvtf.train.reader import load_checkpoint
from tvtf.v1.graph import get_default_graph
from tvtf.v1.graph_variable import GraphVariable
from tvtf.v1.registry import v1
from tvtf.v1.variables import made_by_name


@v1("train.init_from_checkpoint")
def init_from_checkpoint(ckpt_dir_or_file: str | os.PathLike[str], assignment_map: Any) -> None:
    """Initializes variables from a checkpoint: when their initializers run, or at once outside of graphs.

    Args:
      assignment_map: maps names in the checkpoint to a variable, or to the name of one that ``get_variable`` created; or scopes of the
        checkpoint (``"scope/"``, or ``"/"`` for all) to scopes of the graph, for all variables in these.

    Raises:
      ValueError: the checkpoint lacks one, or has it with another shape. No variable has changed then.
    """
    reader = load_checkpoint(ckpt_dir_or_file)
    shapes = reader.get_variable_to_shape_map()
    pairs = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    known = made_by_name(get_default_graph())
    found = [
        pair
        for name, wanted in sorted(pairs, key=lambda pair: pair[0])
        for pair in _pairs(name, wanted, known, shapes, ckpt_dir_or_file)
    ]
    for name, variable in found:
        _start_with(variable, reader.get_tensor(name))


def _pairs(name: str, wanted: Any, known: Mapping[str, Any], shapes: Any, place: Any) -> Iterator[tuple[str, Any]]:
    """Yields the names in the checkpoint with the variables to initialize from them."""
    variable = wanted if isinstance(wanted, Variable) else known.get(wanted)
    if variable is None:
        yield from _of_scope(name, wanted, known, shapes, place)
        return
    if name not in shapes:
        raise ValueError(f"Tensor {name} is not found in {place} checkpoint {shapes}")
    if not variable.shape.is_compatible_with(shapes[name]):
        raise ValueError(
            f"Shape of variable {variable.name} ({variable.shape}) doesn't match with shape of tensor {name} "
            f"({shapes[name]}) from checkpoint reader."
        )
    yield name, variable


def _of_scope(scope: str, wanted: str, known: Mapping[str, Any], shapes: Any, place: Any) -> Iterator[tuple[str, Any]]:
    """Yields the pairs for all variables in a scope."""
    inside = wanted.rpartition("/")[0]
    if not scope.endswith("/"):
        raise ValueError(
            f"Assignment map with scope only name {inside} should map to scope only {scope}. Should be 'scope/': "
            "'other_scope/'."
        )
    for name in sorted(known):
        if inside and not name.startswith(f"{inside}/"):
            continue
        own = name[len(inside) :].removeprefix("/") if inside else name
        full = own if scope == "/" else scope + own
        if full not in shapes:
            raise ValueError(f"Tensor {full} ({own} in {scope}) is not found in {place} checkpoint")
        yield full, known[name]


def _start_with(variable: Any, value: Any) -> None:
    if not isinstance(variable, GraphVariable):
        variable.assign(value)
        return
    graph = variable.graph
    with graph.trace.unnamed():
        graph.variables[id(variable)] = variable, graph.trace.own(convert_to_tensor(value, variable.dtype))
