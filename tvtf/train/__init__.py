"""Saves and restores checkpoints in TensorFlow's V2 format, which both libraries can read.

A save replaces files atomically, after they are on the disk; a restore checks the whole checkpoint before it assigns the
first value. A crash, a full disk or a damaged file therefore costs at most the newest checkpoint, and
`CheckpointManager.restore_or_initialize` then restores the previous one:

>>> import os, tempfile
>>> from tvtf.state.variable import Variable
>>> step = Variable(0)
>>> manager = CheckpointManager(Checkpoint(step=step), tempfile.mkdtemp(), max_to_keep=3)
>>> for _ in range(2):
...     _ = step.assign_add(1)
...     path = manager.save()
>>> os.truncate(path + ".data-00000-of-00001", 5)
>>> load_variable(path, "step/.ATTRIBUTES/VARIABLE_VALUE")  # doctest: +IGNORE_EXCEPTION_DETAIL
Traceback (most recent call last):
tvtf.errors.DataLossError: ...: the file is truncated. Restore an older checkpoint.
>>> os.path.basename(manager.restore_or_initialize()), int(step.numpy())
('ckpt-1', 1)
"""

import sys as _sys

from tvtf.api.namespaces import install as _install
from tvtf.api.namespaces import make_lazy as _make_lazy
from tvtf.train import python_state as _python_state  # noqa: F401
from tvtf.train.checkpoint import Checkpoint, CheckpointOptions
from tvtf.train.checkpoint_state import get_checkpoint_state, latest_checkpoint
from tvtf.train.checkpoint_views import CheckpointView, TrackableView
from tvtf.train.coordinator import Coordinator
from tvtf.train.examples import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)
from tvtf.train.manager import CheckpointManager
from tvtf.train.moving_average import ExponentialMovingAverage
from tvtf.train.reader import list_variables, load_checkpoint, load_variable
from tvtf.train.wait_for_checkpoint import checkpoints_iterator

__all__ = [
    "BytesList",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "Int64List",
    "SequenceExample",
    "Checkpoint",
    "CheckpointManager",
    "CheckpointOptions",
    "CheckpointView",
    "Coordinator",
    "ExponentialMovingAverage",
    "TrackableView",
    "checkpoints_iterator",
    "get_checkpoint_state",
    "latest_checkpoint",
    "list_variables",
    "load_checkpoint",
    "load_variable",
]
_make_lazy(_sys.modules[__name__], "train")
_install()
