"""Saved functions: a folder that runs, compiles and exports without the code that made it.

``module.json`` describes the function: format version, inputs and outputs by name, dtype and dims, the variables'
names, and the program as TVM's JSON of the ``tvtf`` dialect, with a checksum. The variables lie beside it in
TensorFlow's V2 checkpoint format, under a name made from their content: the description is replaced last, so that a
folder always holds a description and the values that belong to it.

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

from tvtf.saved.description import SavedModuleError

if TYPE_CHECKING:
    from tvtf.saved.function import SavedFunction, load, save

__all__ = ["SavedFunction", "SavedModuleError", "load", "save"]


def __getattr__(name: str) -> Any:
    """What needs the compiler is imported when it is first asked for: running a library doesn't."""
    if name not in __all__:
        raise AttributeError(f"module 'tvtf.saved' has no attribute {name!r}")
    from tvtf.saved import function

    return getattr(function, name)
