"""Other parts of a TensorFlow 1 program: files, flags, ``app.run`` and the settings of sessions."""

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
    """Yields the records of a TFRecord file."""
    return records_of(os.fspath(path), TFRecordOptions.get_compression_type_string(options))


# -- flags and the program


class _Flags:
    """``absl.flags``, imported when one of its names is first used."""

    def __getattr__(self, name: str) -> Any:
        """Returns ``absl.flags.<name>``. absl is an optional package, so it is imported only here."""
        if name.startswith("__"):  # Python itself looks up such names
            raise AttributeError(name)
        try:
            return getattr(importlib.import_module("absl.flags"), name)
        except ImportError:
            raise ImportError("tf.compat.v1.flags are those of absl: pip install absl-py") from None


names["flags"] = names["app.flags"] = _Flags()


@v1("app.run")
def run(main: Any = None, argv: list[str] | None = None) -> None:
    """Parses the flags, calls ``main`` with the remaining arguments, and exits with its result."""
    arguments = list(sys.argv if argv is None else argv)
    if "absl.flags" in sys.modules:
        # FLAGS returns the arguments that are not flags
        arguments = sys.modules["absl.flags"].FLAGS(arguments, known_only=True)
    sys.exit((main or sys.modules["__main__"].main)(arguments))


# -- settings of sessions


class _Settings:
    """Settings by name. Reading one that was not set creates nested settings, so ``config.gpu_options.x = 1`` works."""

    def __init__(self, **settings: Any) -> None:
        vars(self).update(settings)

    def __getattr__(self, name: str) -> Any:
        """Creates nested settings on first access, as protocol buffer messages do."""
        if name.startswith("__"):
            raise AttributeError(name)
        nested_settings = _Settings()
        setattr(self, name, nested_settings)
        return nested_settings

    def __repr__(self) -> str:
        return "".join(f"{k}: {v}\n" for k, v in vars(self).items())


@v1("RunOptions")
class RunOptions(_Settings):
    """``Session.run`` accepts these options and ignores them."""

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
    names[_name] = type(
        _name, (_Settings,), {"__doc__": "Accepted and ignored: tvtf's settings are those of tf.config."}
    )
