"""``tf.data``: input pipelines, eager and in traced loops.

A dataset gives *handles* and turns handles into elements: where elements are rows of arrays in memory, a handle is a row number,
so that shuffling moves numbers and batching is one gather. Functions that users pass are traced once, as TensorFlow's are.

Source: https://www.tensorflow.org/guide/data
"""

from tvtf.api.namespaces import install as _install
from tvtf.data import public

__all__ = ["public"]
_install()
