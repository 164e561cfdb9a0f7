"""Saves functions as folders that run, compile and export without the code that made them.

``tf.saved_model`` saves objects with all their functions; `save` and `load` here are its short forms for one function of
named inputs and outputs, which `tvtf run` and `tvtf compile` take. Either way it is one format: ``saved_model.json``
describes the objects, and the functions as TVM's JSON of the ``tvtf`` dialect, with checksums; the variables are next to it
in TensorFlow's V2 checkpoint format. All files are written before the first is renamed into place.

>>> import tempfile
>>> import tvtf as tf
>>> from tvtf import saved
>>> scale = tf.Variable([2.0, 3.0], name="scale")
>>> folder = saved.save(tempfile.mkdtemp(), lambda x: x * scale, tf.TensorSpec(["batch", 2], tf.float32))
>>> saved.load(folder)(tf.constant([[1.0, 1.0]]))
<tf.Tensor: shape=(1, 2), dtype=float32, numpy=array([[2., 3.]], dtype=float32)>
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvtf.fileio.saved_module_error import SavedModuleError

if TYPE_CHECKING:
    from tvtf.saved.function import SavedFunction, load, save

__all__ = ["SavedFunction", "SavedModuleError", "load", "save"]


def __getattr__(name: str) -> Any:
    """Imports functions that need the compiler when one is used: running a compiled library does not need it."""
    if name not in __all__:
        raise AttributeError(f"module 'tvtf.saved' has no attribute {name!r}")
    from tvtf.saved import function

    return getattr(function, name)
