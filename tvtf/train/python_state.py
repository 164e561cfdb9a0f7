"""Stores Python objects in checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tvtf.core.primitive import export
from tvtf.state.trackable import TensorSpecs, Trackable

KEY: Final = "py_state"


@export("train.experimental.PythonState")
class PythonState(Trackable, ABC):
    """An object whose `serialize` returns the string that a checkpoint stores.

    >>> import tempfile
    >>> import tvtf as tf
    >>> class Counter(tf.train.experimental.PythonState):
    ...     count = 3
    ...
    ...     def serialize(self):
    ...         return str(self.count)
    ...
    ...     def deserialize(self, string_value):
    ...         self.count = int(string_value)
    >>> counter = Counter()
    >>> checkpoint = tf.train.Checkpoint(counter=counter)
    >>> path = checkpoint.write(tempfile.mkdtemp() + "/ckpt")
    >>> counter.count = 7
    >>> _ = checkpoint.read(path)
    >>> counter.count
    3

    Source: https://www.tensorflow.org/api_docs/python/tf/train/experimental/PythonState
    """

    @abstractmethod
    def serialize(self) -> str | bytes:
        """Returns the object's state as a string."""

    @abstractmethod
    def deserialize(self, string_value: bytes) -> None:
        """Restores the state from a string that `serialize` returned."""

    def _serialize_to_tensors(self) -> dict[str, np.ndarray[Any, Any]]:
        text = self.serialize()
        return {KEY: np.array(text.encode() if isinstance(text, str) else text, dtype=object)}

    def _restore_from_tensors(self, tensors: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.deserialize(tensors[KEY].item())

    def _tensor_specs(self) -> TensorSpecs:
        return {KEY: ((), np.dtype(object))}
