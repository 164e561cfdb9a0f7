"""What people call the inputs and results of a traced function: their own names for Variables, fields of composite tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tvtf.core import nest
from tvtf.core.composite import TypeSpec
from tvtf.core.tensor import Tensor
from tvtf.frontend.function.signature import Arguments
from tvtf.state.module import Module
from tvtf.state.variable import Variable

DEFAULT_NAMES = ("Variable", "constant", "watched", "captured")
"""Names that tracing gives what has none of its own."""
MOST_LEVELS = 3
"""``self.encoder.w`` is found, deeper ones keep their default names: looking costs each object a look at its attributes."""


def captured_names(function: Callable[..., Any] | None, captures: Mapping[str, Any]) -> dict[str, str]:
    """Returns the Python function's names of its captures, by their names in the IR; Variables with a name keep it."""
    unnamed = {id(value): name for name, value in captures.items() if _is_default(name)}
    if function is None or not unnamed:
        return {}
    found: dict[str, str] = {}
    for path, value in _reachable(function):
        name = unnamed.pop(id(value), None)
        if name is not None:
            found[name] = path
    return found


def _is_default(name: str) -> bool:
    base, _, number = name.rpartition("_")
    return name in DEFAULT_NAMES or (base in DEFAULT_NAMES and number.isdigit())


def _reachable(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yields the tensors and Variables that a function can name, with the names: shorter paths first."""
    python: Any = inspect.unwrap(function)
    owner = getattr(python, "__self__", None)
    try:
        used = inspect.getclosurevars(getattr(python, "__func__", python))
    except (TypeError, ValueError):  # no function of Python's, or one whose closure isn't filled yet
        return
    names: dict[str, Any] = {**used.globals, **used.nonlocals}
    level = list(names.items()) if owner is None else [("self", owner), *names.items()]
    seen: set[int] = set()
    for _ in range(MOST_LEVELS):
        yield from ((path, value) for path, value in level if isinstance(value, (Tensor, Variable)))
        level = [part for path, value in level for part in _parts(path, value, seen)]


def _parts(path: str, value: Any, seen: set[int]) -> list[tuple[str, Any]]:
    """Returns a container's elements or a module's attributes with their paths; nothing on a second visit."""
    if isinstance(value, (Tensor, Variable)) or id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, Mapping):
        return [(f"{path}[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return [(f"{path}[{i}]", part) for i, part in enumerate(value)]
    if not isinstance(value, Module):
        return []
    return [(f"{path}.{key}", part) for key, part in vars(value).items()]


def argument_names(arguments: Arguments, names: list[str]) -> dict[str, str]:
    """Returns the names of composite arguments' components, such as ``x.values``, by their names in the IR."""
    flat = iter([leaf.spec is not None for leaf in arguments.leaves])
    left = iter(names)
    found: dict[str, str] = {}
    for each in nest.flatten(arguments.structure):
        count = len(nest.flatten(each, expand_composites=True)) if nest.is_composite(each) else 1
        own = [next(left) for _ in range(count) if next(flat)]
        if nest.is_composite(each) and len(own) == count:
            found.update(zip(own, (f"{own[0]}.{field}" for field in component_names(each))))
    return found


def variable_argument_names(arguments: Arguments, captures: Mapping[str, Any]) -> dict[str, str]:
    """Returns the names of Variables that are arguments: those of the parameters."""
    names = [leaf.name for leaf in arguments.leaves if isinstance(leaf.value, Variable)]
    positions = {name: value.position for name, value in captures.items() if getattr(value, "is_argument", False)}
    return {name: names[position] for name, position in positions.items()}


def result_labels(structure: Any) -> list[str]:
    """Returns a name for each flat result: its key or field, "" where it only has a place in a tuple.

    >>> result_labels({"loss": 1, "parts": (2, 3)}), result_labels((1, 2)), result_labels(1)
    (['loss', 'parts[0]', 'parts[1]'], ['', ''], [''])
    """
    return [
        label if any(c != "]" and not c.isdigit() and c != "[" for c in label) else ""
        for label in _leaf_paths("", structure)
    ]


def _leaf_paths(path: str, structure: Any) -> Iterator[str]:
    """Yields the paths of a structure's leaves and of composite tensors' components, such as ``[0].values``."""
    if nest.is_composite(structure):
        yield from (f"{path}.{field}".removeprefix(".") for field in component_names(structure))
    elif nest.is_nested(structure):
        for key, part in nest.named_parts(structure):
            step = f"[{key}]" if isinstance(key, int) else f".{key}"
            yield from _leaf_paths(f"{path}{step}".removeprefix("."), part)
    else:
        yield path


def component_names(spec: TypeSpec) -> list[str]:
    """Returns the fields of a composite tensor's flat components; numbers where its type names none."""
    count = len(nest.flatten(spec, expand_composites=True))
    names = list(spec._component_names())
    return names if len(names) == count else [str(i) for i in range(count)]
