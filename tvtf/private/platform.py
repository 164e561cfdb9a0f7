"""Names of ``tensorflow.python.platform`` and ``training``: files of a program, tracking of attributes.

Source: https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/python/platform
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tvtf.public.internal import no_automatic_dependency_tracking
from tvtf.state.containers import wrap, wrap_and_track
from tvtf.state.trackable import NoDependency


def get_data_files_path() -> str:
    """Returns the folder of the source file that calls this function."""
    return os.path.dirname(sys._getframe(1).f_globals["__file__"])  # frame 1 is the caller's


def load_resource(path: str) -> bytes:
    """Reads a whole file; returns its content as bytes."""
    return Path(path).read_bytes()


def sticky_attribute_assignment(trackable: Any, name: str, value: Any) -> Any:
    """Tracks a value that is assigned to an attribute of a trackable object; returns the value to store.

    A list or dict is replaced by a trackable container.
    """
    return wrap_and_track(trackable, name, value)


NAMES: dict[str, dict[str, Any]] = {
    "python.platform.resource_loader": {
        "get_data_files_path": get_data_files_path,
        "load_resource": load_resource,
        "readahead_file_path": lambda path, readahead="128M": path,
    },
    "python.trackable.base": {"no_automatic_dependency_tracking": no_automatic_dependency_tracking},
    "python.trackable.data_structures": {
        "NoDependency": NoDependency,
        "sticky_attribute_assignment": sticky_attribute_assignment,
        "wrap_or_unwrap": wrap,
    },
}
