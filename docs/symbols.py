"""Writes ``docs/symbols.md``: each public symbol of TensorFlow's and tvtf's with its state, from the code and its tests.

``python docs/symbols.py`` writes the table; ``--tensorflow`` (where TensorFlow is installed) first takes TensorFlow's names anew.
A symbol counts as tested where the generated suite runs its primitive, or a test, a docstring example or a document's script
names it or another of its names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent
TABLE = Path(__file__).parent / "symbols.md"
NAMES = ROOT / "tvtf" / "api" / "tensorflow_names.txt"
LEFT_OUT = {
    *(
        "raw_ops",
        "compat",
        "keras",
        "__internal__",
        "lite",
        "mlir",
        "tpu",
        "xla",
        "tools",
        "distribute",
        "feature_column",
    ),
    *("dtensor", "tensorrt", "losses", "metrics", "optimizers", "initializers", "security", "service"),
}
"""Namespaces whose names are not counted: other programs' (lite, distribute), Keras's, generated or older ones."""
HEAD = """# Public symbols

TensorFlow 2.21's public names and tvtf's own, by `python docs/symbols.py`: *tested*, *refused* with a reason, or *not yet*.
{counts}

| symbol | state |
|---|---|
"""


def tensorflow_names(module: ModuleType, path: str = "", seen: frozenset[int] = frozenset()) -> Iterator[str]:
    """The dotted names below a module of TensorFlow's."""
    for name in sorted(n for n in dir(module) if not n.startswith("_") and n not in LEFT_OUT):
        value = getattr(module, name, None)
        if not isinstance(value, ModuleType):
            yield path + name
        elif id(value) not in seen:
            yield from tensorflow_names(value, f"{path}{name}.", seen | {id(module)})


def table() -> str:
    """The text of ``docs/symbols.md``."""
    states = {name: _state(name) for name in sorted({*NAMES.read_text().split(), *_own_names()})}
    kinds = [state.split(":")[0] for state in states.values()]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    return HEAD.format(counts=counts) + "".join(f"| `tf.{name}` | {state} |\n" for name, state in states.items())


def _own_names() -> set[str]:
    from tvtf.api.namespaces import all_names

    own = {name: getattr(value, "__module__", "tvtf") or "tvtf" for name, value in all_names().items()}
    return {name for name, module in own.items() if module.startswith(("tvtf", "builtins"))}


def _state(name: str) -> str:
    found = lookup(name)
    if isinstance(found, NotImplementedError):
        return "not yet" if " yet;" in str(found) else f"refused: {str(found).partition(': ')[2]}"
    if found is MISSING:
        return "not yet"
    return "tested" if _identity(found) in _tested() else "untested"


def lookup(name: str) -> Any:
    """What tvtf has under a name; MISSING for nothing, the error for a name that it refuses."""
    import tvtf
    from tvtf import dtypes
    from tvtf.api import unsupported

    if name in unsupported.SPACES:
        return unsupported.error("tvtf", name)
    found: Any = tvtf
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except NotImplementedError as error:
            return error
        except AttributeError:
            return MISSING
    return (
        unsupported.error("tvtf", name)
        if isinstance(found, (unsupported.UnsupportedClass, dtypes.UnsupportedDType))
        else found
    )


def _identity(found: Any) -> Any:
    """The same for all names of one thing; constants are what their names are."""
    return id(found) if callable(found) else repr(found)


MISSING = object()
_known: set[Any] = set()


def _tested() -> set[Any]:
    if not _known:
        from tvtf.api.namespaces import all_names
        from tvtf.core.primitive import table as primitives

        texts = [*(file.read_text() for file in _files()), *(str(value.__doc__) for value in all_names().values())]
        named = {name for text in texts for name in re.findall(r"\btf\.([A-Za-z_][\w.]*)", text)}
        _known.update(_identity(p) for p in primitives.values() if p.samples)
        _known.update(_identity(lookup(part)) for name in named for part in _prefixes(name))
    return _known


def _prefixes(name: str) -> Iterator[str]:
    parts = name.rstrip(".").split(".")
    return (".".join(parts[:n]) for n in range(1, len(parts) + 1))


def _files() -> Iterator[Path]:
    for folder in ("tests", "tvtf", "frontend", "passes"):
        yield from (ROOT / folder).rglob("*.py")


if __name__ == "__main__":
    if "--tensorflow" in sys.argv:
        import tensorflow

        NAMES.write_text("\n".join(sorted(set(tensorflow_names(tensorflow)))) + "\n")
    else:
        TABLE.write_text(table())
