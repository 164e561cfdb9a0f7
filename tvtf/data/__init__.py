"""``tf.data``: input pipelines, eager and in traced loops.

A dataset yields *handles* and turns handles into elements: where elements are rows of arrays in memory, a handle is a row
index, so that shuffling permutes indices and batching is one gather. Functions that users pass are traced once, as in
TensorFlow.

Source: https://www.tensorflow.org/guide/data
"""

from tvtf.api.namespaces import install as _install
from tvtf.data import public

__all__ = ["public"]
_install()
