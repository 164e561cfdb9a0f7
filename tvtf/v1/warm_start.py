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
      assignment_map: maps names in the checkpoint to variables, or to names of variables that ``get_variable`` created.
        It may also map scopes of the checkpoint (``"scope/"``, or ``"/"`` for all) to scopes of the graph.

    Raises:
      ValueError: the checkpoint lacks a variable, or has it with another shape. Then no variable has changed.
    """
    reader = load_checkpoint(ckpt_dir_or_file)
    shapes = reader.get_variable_to_shape_map()
    pairs = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    known = made_by_name(get_default_graph())
    names_and_variables: list[tuple[str, Any]] = []
    for name, target in sorted(pairs, key=lambda pair: pair[0]):
        names_and_variables += _checked_assignments(name, target, known, shapes, ckpt_dir_or_file)
    # All pairs have been found and checked before the first variable changes.
    for name, variable in names_and_variables:
        _set_initial_value(variable, reader.get_tensor(name))


def _checked_assignments(
    name: str, target: Any, known: Mapping[str, Any], shapes: Any, checkpoint: Any
) -> Iterator[tuple[str, Any]]:
    """Yields pairs of a name in the checkpoint and a variable to initialize, for one entry of the assignment map.

    Args:
      name: the entry's key: the name of a tensor or a scope in the checkpoint.
      target: the entry's value: a variable, the name of one of the ``known`` variables, or a scope.
      known: the graph's variables by name.
      shapes: the shapes of the checkpoint's tensors by name.
      checkpoint: the checkpoint's folder or prefix, for errors.

    Raises:
      ValueError: the checkpoint lacks a tensor, or has it with another shape.
    """
    variable = target if isinstance(target, Variable) else known.get(target)
    if variable is None:
        yield from _assignments_of_scope(name, target, known, shapes, checkpoint)
        return
    if name not in shapes:
        raise ValueError(f"Tensor {name} is not found in {checkpoint} checkpoint {shapes}")
    if not variable.shape.is_compatible_with(shapes[name]):
        raise ValueError(
            f"Shape of variable {variable.name} ({variable.shape}) doesn't match with shape of tensor {name} "
            f"({shapes[name]}) from checkpoint reader."
        )
    yield name, variable


def _assignments_of_scope(
    scope: str, target_scope: str, known: Mapping[str, Any], shapes: Any, checkpoint: Any
) -> Iterator[tuple[str, Any]]:
    """Pairs the variables of a graph's scope with a checkpoint's names in another scope.

    Yields a name in the checkpoint and a variable for each variable in ``known``, a dict by names, whose name begins
    with ``target_scope``. The checkpoint's name begins with ``scope`` instead. Raises ValueError if ``shapes``, the
    checkpoint's dict of shapes, lacks the name.
    """
    graph_scope = target_scope.rpartition("/")[0]
    if not scope.endswith("/"):
        raise ValueError(
            f"Assignment map with scope only name {graph_scope} should map to scope only {scope}. Should be 'scope/': "
            "'other_scope/'."
        )
    for name in sorted(known):
        if graph_scope and not name.startswith(f"{graph_scope}/"):
            continue
        name_in_scope = name[len(graph_scope) :].removeprefix("/") if graph_scope else name
        checkpoint_name = name_in_scope if scope == "/" else scope + name_in_scope
        if checkpoint_name not in shapes:
            raise ValueError(
                f"Tensor {checkpoint_name} ({name_in_scope} in {scope}) is not found in {checkpoint} checkpoint"
            )
        yield checkpoint_name, known[name]


def _set_initial_value(variable: Any, value: Any) -> None:
    """Sets the value that a variable's initializer assigns. Assigns at once if the variable is in no graph."""
    if not isinstance(variable, GraphVariable):
        variable.assign(value)
        return
    graph = variable.graph
    with graph.trace.without_op_names():
        graph.variables[id(variable)] = variable, graph.trace.own(convert_to_tensor(value, variable.dtype))
