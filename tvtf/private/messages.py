"""The modules of ``tensorflow.core``: TensorFlow's protocol buffers, which TensorBoard's package contains.

Source: https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/core
"""

from __future__ import annotations

from typing import Any

from tvtf.core.tensorboard_protos import proto
from tvtf.public.tensorflow_view import View


class _Messages(View):
    """A package below ``tensorflow.core``. Its modules, of protocol buffer messages, are imported when first used."""

    def __getattr__(self, name: str) -> Any:
        """Imports a module of messages, such as ``event_pb2``, from TensorBoard's package.

        Raises:
          AttributeError: no message module has this name.
        """
        if not name.endswith("_pb2"):
            return super().__getattr__(name)
        try:
            return proto(f"compat.proto.{name}")
        except ModuleNotFoundError as error:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}: {error}") from None


NAMES: dict[str, dict[str, Any]] = {
    "core": {folder: _Messages(f"tensorflow.core.{folder}") for folder in ("framework", "protobuf", "util")}
}
