"""Names of ``tensorflow.python.platform`` and ``training``: files of a program, tracking of attributes.

Source: https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/python/platform
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tvtf.composites.value_proto import NotEncodableError, encode_structure
from tvtf.public.internal import no_automatic_dependency_tracking
from tvtf.state.containers import wrap, wrap_and_track
from tvtf.state.trackable import NoDependency, TrackableReference


def get_data_files_path() -> str:
    """Returns the folder of the source file that calls this function."""
    return os.path.dirname(sys._getframe(1).f_globals["__file__"])  # frame 1 is the caller's


def load_resource(path: str) -> bytes:
    """Reads a whole file, and returns its content as bytes."""
    return Path(path).read_bytes()


def sticky_attribute_assignment(trackable: Any, name: str, value: Any) -> Any:
    """Tracks a value that is assigned to an attribute of a trackable object, and returns the value to store.

    A list or dict is replaced by a trackable container.
    """
    return wrap_and_track(trackable, name, value)


@contextmanager
def no_automatic_dependency_tracking_scope(obj: Any) -> Iterator[None]:
    """Stores attributes that are set in the ``with`` block as they are: they are neither tracked nor saved in checkpoints."""
    was_tracking = getattr(obj, "_self_setattr_tracking", True)
    obj._self_setattr_tracking = False
    try:
        yield
    finally:
        obj._self_setattr_tracking = was_tracking


def can_encode(nested_structure: Any) -> bool:
    """Returns whether a nest consists of values that a ``StructuredValue`` message can hold."""
    try:
        encode_structure(nested_structure)
    except NotEncodableError:
        return False
    return True


NAMES: dict[str, dict[str, Any]] = {
    "python.platform.resource_loader": {
        "get_data_files_path": get_data_files_path,
        "load_resource": load_resource,
        "readahead_file_path": lambda path, readahead="128M": path,
    },
    "python.saved_model.nested_structure_coder": {
        "NotEncodableError": NotEncodableError,
        "can_encode": can_encode,
    },
    "python.trackable.base": {
        "TrackableReference": TrackableReference,
        "no_automatic_dependency_tracking": no_automatic_dependency_tracking,
        "no_automatic_dependency_tracking_scope": no_automatic_dependency_tracking_scope,
    },
    "python.trackable.data_structures": {
        "NoDependency": NoDependency,
        "sticky_attribute_assignment": sticky_attribute_assignment,
        "wrap_or_unwrap": wrap,
    },
}
