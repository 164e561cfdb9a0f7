"""The public namespaces (``tvtf.math``, ``tvtf.nn``, ...): modules built from the paths that ops declare.

Rooms that a program may not need are imported when they, or what they declare, are first named: TensorFlow's names cost
their import only where they are used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from tvtf import absent
from tvtf.primitive import public_names

OPERATORS = [
    "Adjoint",
    "BlockDiag",
    "BlockLowerTriangular",
    "Circulant",
    "Circulant2D",
    "Circulant3D",
    "Composition",
    "Diag",
    "FullMatrix",
    "Householder",
    "Identity",
    "Inversion",
    "Kronecker",
    "LowRankUpdate",
    "LowerTriangular",
    "Permutation",
    "ScaledIdentity",
    "Toeplitz",
    "Tridiag",
    "Zeros",
]
ROOMS = {
    **{name: name for name in ("data", "lookup", "onnx", "optimizers", "passes", "saved_model", "summary", "train")},
    **dict.fromkeys(("mixed_precision", "keras.Optimizer", "keras.mixed_precision", "keras.optimizers"), "optimizers"),
    "profiler": "summary",
    "distribute": "distribute",
    "queue": "queues",
    "experimental.numpy": "arrays",
    **dict.fromkeys(("OptionalSpec", "experimental.Optional"), "data"),
    **dict.fromkeys(("test.TestCase", "test.main", "test.compute_gradient"), "testing"),
    **{f"test.is_built_with_{what}": "testing" for what in ("cuda", "gpu_support", "rocm", "xla")},
    **dict.fromkeys(("io.TFRecordOptions", "io.TFRecordWriter"), "data"),
    **{f"linalg.LinearOperator{name}": "linear" for name in ("", *OPERATORS)},
}
"""Public path -> the room that declares it."""
_NOTHING = object()
_installed: dict[str, Any] = {}


def install() -> None:
    """Gives ``tvtf`` the public names declared, or taught something, since the last time; a dotted path goes into a submodule, made where missing.

    A room that is imported when it is first named does this at the end of its ``__init__``.
    """
    root = sys.modules["tvtf"]
    for path, value in public_names().items():
        if _installed.get(path, _NOTHING) is value:
            continue
        _installed[path] = value
        *folders, name = path.split(".")
        module = _module(root, folders)
        setattr(module, name, value)
        if module is not root:
            refusing(module, ".".join(folders))


def refusing(module: ModuleType, path: str) -> ModuleType:
    """Gives a module that is ``tf.path`` what its late rooms declare, and an error of its own for what TensorFlow has besides."""

    def find(name: str) -> Any:
        return late(module, f"{path}.{name}")

    vars(module).setdefault("__getattr__", find)
    return module


def late(module: ModuleType, path: str) -> Any:
    """What ``tf.path`` is, which ``module`` lacks until its room is imported.

    Raises:
      AttributeError: no room declares it; NotImplementedError too where TensorFlow has it.
    """
    if path not in ROOMS:
        raise absent.error(module.__name__, path)
    import_module(f"tvtf.{ROOMS[path]}")
    return vars(module)[path.rpartition(".")[2]]


def all_names() -> dict[str, Any]:
    """Every public path with what it names, those of all rooms too."""
    for room in sorted(set(ROOMS.values())):
        import_module(f"tvtf.{room}")
    return public_names()


def _module(root: ModuleType, folders: list[str]) -> ModuleType:
    module = root
    for folder in folders:
        found = vars(module).get(folder) or sys.modules.get(f"{module.__name__}.{folder}")
        module = found if isinstance(found, ModuleType) else _made(module, folder)
    return module


def _made(parent: ModuleType, name: str) -> ModuleType:
    full = f"{parent.__name__}.{name}"
    made = ModuleType(full, f"Public functions of ``{full}``, collected from the ops that declare them.")
    sys.modules[full] = made
    setattr(parent, name, made)
    return refusing(made, full.partition(".")[2])
