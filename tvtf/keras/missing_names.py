"""Lists the names of TensorFlow that the installed Keras uses and tvtf lacks: ``python -m tvtf.keras.missing_names``.

Run it when a new Keras comes out. It reads Keras's source and imports none of it.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tvtf.public.tensorflow_view import find

ROOTS = {"tf", "tensorflow"}
# Code for other backends, which runs TensorFlow's side of exchanges with them.
OTHERS = ("backend/jax", "backend/torch", "backend/openvino", "backend/numpy")


def names_in(source: str) -> Iterator[str]:
    """Yields the dotted names of TensorFlow in the source code of a Python module, without the prefix "tensorflow.".

    For example, the code ``tf.nn.relu(x)`` gives "nn.relu".
    """
    tree = ast.parse(source)
    parts_of_longer_names = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names, level=0) if module.partition(".")[0] == "tensorflow":
                yield from (f"{module}.{alias.name}".removeprefix("tensorflow.") for alias in names)
            case ast.Attribute() if id(node) not in parts_of_longer_names:
                root, *path = _chain(node)
                if root in ROOTS:
                    yield ".".join(path)


def _chain(node: ast.expr) -> list[str]:
    """Splits an attribute expression into its names.

    For example, ``tf.nn.relu`` gives ``["tf", "nn", "relu"]``. In place of another expression the first name is "", such as
    for ``f(x).y``.
    """
    match node:
        case ast.Attribute(value=value, attr=attr):
            return [*_chain(value), attr]
        case ast.Name(id=name):
            return [name]
    return [""]


def missing(folder: Path) -> dict[str, list[str]]:
    """Finds the names of TensorFlow that Keras's source files in a folder use, but tvtf does not have.

    Returns for each name the files that use it.
    """
    users: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        file = path.relative_to(folder).as_posix()
        # Tests and code for other backends are left out.
        if not file.endswith("_test.py") and not any(other in file for other in OTHERS):
            for name in {*names_in(path.read_text(encoding="utf-8"))}:
                if not _has_name(name):
                    users[name].append(file)
    return dict(sorted(users.items()))


def _has_name(name: str) -> bool:
    """Returns whether tvtf has a dotted name of TensorFlow, given without the prefix "tensorflow."."""
    value: Any = find("tensorflow")
    for attribute_name in name.split("."):
        try:
            value = getattr(value, attribute_name)
        except AttributeError:
            # Only modules can lack names. An attribute of another value, such as of an instance, may exist at run time.
            return not isinstance(value, type(sys))
    return True


def main() -> None:
    """Prints the names of TensorFlow that the installed Keras uses and tvtf lacks, with the files that use them."""
    spec = importlib.util.find_spec("keras")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("keras isn't installed: pip install 'tvtf[keras]'")
    for name, places in missing(Path(spec.submodule_search_locations[0])).items():
        print(f"tf.{name:60} {', '.join(places)}")


if __name__ == "__main__":
    main()
