"""Programs that tests write to files, since AutoGraph reads a function's source from its file."""

import importlib.util
from pathlib import Path
from types import ModuleType


def loaded(path: Path, source: str) -> ModuleType:
    """Writes a program to a new file, and returns its module."""
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
