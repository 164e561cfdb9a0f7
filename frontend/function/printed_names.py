"""What people call the inputs and results of a traced function: their own names for Variables, fields of composite tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from tvtf.core import nest
from tvtf.core.composite import TypeSpec
from tvtf.core.tensor import Tensor
from tvtf.frontend.function.signature import Arguments
from tvtf.state.module import Module
from tvtf.state.variable import Variable

DEFAULT_NAMES = ("Variable", "constant", "watched", "captured")
"""Names that tracing gives what has none of its own."""
MAX_PATH_LENGTH = 3
"""``self.encoder.w`` is found, deeper ones keep their default names: looking costs each object a look at its attributes."""


def captured_names(function: Callable[..., Any] | None, captures: Mapping[str, Any]) -> dict[str, str]:
    """Returns the expressions by which a Python function refers to its captures, by the captures' names in the IR.

    For example, ``{"captured_1": "self.w"}``. Captures that have a name of their own aren't in the result, nor are
    those that the function reaches by no path.

    Args:
      function: the Python function that was traced, or None if it no longer exists.
      captures: the captured tensors and Variables, by name.
    """
    default_names = {id(value): name for name, value in captures.items() if _is_default(name)}
    if function is None or not default_names:
        return {}
    paths: dict[str, str] = {}
    for path, value in _reachable(function):
        default_name = default_names.pop(id(value), None)
        if default_name is not None:
            paths[default_name] = path
    return paths


def _is_default(name: str) -> bool:
    """Returns whether tracing made up a name, such as ``Variable`` or ``captured_2``."""
    base, _, number = name.rpartition("_")
    return name in DEFAULT_NAMES or (base in DEFAULT_NAMES and number.isdigit())


def _reachable(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yields the tensors and Variables that a function's code can refer to, as pairs of a path and the object.

    A breadth-first search of the function's globals, free variables and ``self``, so shorter paths come first.
    """
    method_or_function: Any = inspect.unwrap(function)
    owner = getattr(method_or_function, "__self__", None)
    try:
        closure_vars = inspect.getclosurevars(getattr(method_or_function, "__func__", method_or_function))
    except (TypeError, ValueError):  # no function of Python's, or one whose closure isn't filled yet
        return
    level: list[tuple[str, Any]] = [] if owner is None else [("self", owner)]
    level += {**closure_vars.globals, **closure_vars.nonlocals}.items()
    seen: set[int] = set()
    for _ in range(MAX_PATH_LENGTH):
        next_level = []
        for path, value in level:
            if isinstance(value, (Tensor, Variable)):
                yield path, value
            next_level += _children(path, value, seen)
        level = next_level


def _children(path: str, value: Any, seen: set[int]) -> list[tuple[str, Any]]:
    """Returns a container's elements, or a module's attributes, as pairs of a path and a value.

    Returns nothing on a second visit (``seen`` has the ids of visited objects), because objects may refer to each other.
    """
    if isinstance(value, (Tensor, Variable)) or id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, Mapping):
        return [(f"{path}[{key!r}]", child) for key, child in value.items()]
    if isinstance(value, (list, tuple)):
        return [(f"{path}[{i}]", child) for i, child in enumerate(value)]
    if isinstance(value, Module):
        return [(f"{path}.{name}", child) for name, child in vars(value).items()]
    return []


def argument_names(arguments: Arguments, names: list[str]) -> dict[str, str]:
    """Returns readable names for the components of composite arguments, by the components' names in the IR.

    For example, the components of a ragged argument ``x`` are printed as ``x.values`` and ``x.row_splits``.

    Args:
      arguments: the arguments of a trace.
      names: the names in the IR of all tensors among the arguments.
    """
    remaining_leaves = iter(arguments.leaves)
    remaining_names = iter(names)
    readable_names: dict[str, str] = {}
    for argument in nest.flatten(arguments.structure):
        is_composite = nest.is_composite(argument)
        leaf_count = len(nest.flatten(argument, expand_composites=True)) if is_composite else 1
        leaves = list(islice(remaining_leaves, leaf_count))
        ir_names = [next(remaining_names) for leaf in leaves if leaf.spec is not None]
        if is_composite and len(ir_names) == leaf_count:
            for ir_name, field in zip(ir_names, component_names(argument)):
                readable_names[ir_name] = f"{ir_names[0]}.{field}"  # the first component has the argument's name
    return readable_names


def variable_argument_names(arguments: Arguments, captures: Mapping[str, Any]) -> dict[str, str]:
    """Returns the parameters' names of Variables that are arguments, by the Variables' names in the IR."""
    parameter_names = [leaf.name for leaf in arguments.leaves if leaf.is_variable]
    positions = {name: value.position for name, value in captures.items() if getattr(value, "is_argument", False)}
    return {name: parameter_names[position] for name, position in positions.items()}


def result_labels(structure: Any) -> list[str]:
    """Returns a name for each flat result: its key or field, "" where it only has a position in a tuple.

    >>> result_labels({"loss": 1, "parts": (2, 3)}), result_labels((1, 2)), result_labels(1)
    (['loss', 'parts[0]', 'parts[1]'], ['', ''], [''])
    """

    def has_only_indices(path: str) -> bool:
        """Returns whether a path such as "[0][1]" has no key or field that could name the result."""
        return all(character in "[]" or character.isdigit() for character in path)

    return ["" if has_only_indices(path) else path for path in _leaf_paths("", structure)]


def _leaf_paths(path: str, structure: Any) -> Iterator[str]:
    """Yields the paths of a structure's leaves and of composite tensors' components, such as ``[0].values``."""
    if nest.is_composite(structure):
        yield from (f"{path}.{field}".removeprefix(".") for field in component_names(structure))
    elif nest.is_nested(structure):
        for key, part in nest.named_parts(structure):
            key_text = f"[{key}]" if isinstance(key, int) else f".{key}"
            yield from _leaf_paths(f"{path}{key_text}".removeprefix("."), part)
    else:
        yield path


def component_names(spec: TypeSpec) -> list[str]:
    """Returns the fields of a composite tensor's flat components; numbers where its type names none."""
    count = len(nest.flatten(spec, expand_composites=True))
    names = list(spec._component_names())
    return names if len(names) == count else [str(i) for i in range(count)]
