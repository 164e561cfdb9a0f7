"""What lay around a TensorFlow 1 program: files, flags, logs, ``app.run`` and the settings of sessions."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from tvtf.fileio.tfrecord import TFRecordOptions, records_of
from tvtf.v1.registry import Alias, names, v1

_FILES = {
    "Exists": "exists",
    "IsDirectory": "isdir",
    "ListDirectory": "listdir",
    "MakeDirs": "makedirs",
    "MkDir": "mkdir",
    "Remove": "remove",
    "DeleteRecursively": "rmtree",
    "Glob": "glob",
    "Copy": "copy",
    "Rename": "rename",
    "Walk": "walk",
    "Stat": "stat",
    "GFile": "GFile",
    "Open": "GFile",
    "FastGFile": "GFile",
}
for _name, _target in _FILES.items():
    names[f"gfile.{_name}"] = Alias(f"io.gfile.{_target}")


@v1("python_io.tf_record_iterator", "io.tf_record_iterator")
def tf_record_iterator(path: str, options: Any = None) -> Iterator[bytes]:
    """The records of a file."""
    return records_of(os.fspath(path), TFRecordOptions.get_compression_type_string(options))


# -- flags and the program


class _Flags:
    """``absl.flags``, which is imported when a flag is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return getattr(importlib.import_module("absl.flags"), name)
        except ImportError:
            raise ImportError("tf.compat.v1.flags are those of absl: pip install absl-py") from None


names["flags"] = names["app.flags"] = _Flags()


@v1("app.run")
def run(main: Any = None, argv: list[str] | None = None) -> None:
    """Reads flags, calls ``main`` with what they leave of the arguments, and exits."""
    given = list(sys.argv if argv is None else argv)
    if "absl.flags" in sys.modules:
        given = sys.modules["absl.flags"].FLAGS(given, known_only=True)
    sys.exit((main or sys.modules["__main__"].main)(given))


# -- settings of sessions


class _Settings:
    """Settings by name; those that have settings of their own are made when they are asked for."""

    def __init__(self, **settings: Any) -> None:
        vars(self).update(settings)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Settings()
        setattr(self, name, made)
        return made

    def __repr__(self) -> str:
        return "".join(f"{k}: {v}\n" for k, v in vars(self).items())


@v1("RunOptions")
class RunOptions(_Settings):
    """Accepted by ``Session.run``."""

    NO_TRACE, SOFTWARE_TRACE, HARDWARE_TRACE, FULL_TRACE = range(4)


for _name in (
    "ConfigProto",
    "GPUOptions",
    "GraphOptions",
    "OptimizerOptions",
    "RunMetadata",
    "MetaGraphDef",
    "SessionLog",
):
    names[_name] = type(_name, (_Settings,), {"__doc__": "Accepted; tvtf has its own settings (tf.config)."})
