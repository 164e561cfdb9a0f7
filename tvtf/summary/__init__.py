"""Defines ``tf.summary``: data for TensorBoard, written eagerly or by traced functions.

Event files are TensorBoard's own protos (the ``tensorboard`` extra) in TFRecord framing.

Source: https://www.tensorflow.org/api_docs/python/tf/summary
"""

from tvtf.api.namespaces import install as _install
from tvtf.summary import profiler, trace

__all__ = ["profiler", "trace"]
_install()
