"""Checkpoints in TensorFlow's V2 format: what TensorFlow saved tvtf restores, and the other way round."""

from tvtf.train.checkpoint import Checkpoint, CheckpointOptions
from tvtf.train.manager import CheckpointManager
from tvtf.train.reader import list_variables, load_checkpoint, load_variable
from tvtf.train.state import get_checkpoint_state, latest_checkpoint

__all__ = [
    "Checkpoint",
    "CheckpointManager",
    "CheckpointOptions",
    "get_checkpoint_state",
    "latest_checkpoint",
    "list_variables",
    "load_checkpoint",
    "load_variable",
]
