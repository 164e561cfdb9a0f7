"""TensorBoard's protobuf messages, from the optional package ``tensorboard``."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any


def proto(name: str) -> Any:
    """Imports and returns a module of the package ``tensorboard`` that defines protocol buffer messages.

    ``name`` is the module's name in the package, such as ``"compat.proto.graph_pb2"``.

    Raises:
      ImportError: ``tensorboard`` is not installed.
    """
    try:
        return importlib.import_module(f"tensorboard.{name}")
    except ModuleNotFoundError as error:
        if error.name != "tensorboard":  # another module is missing: a bug, or a broken installation
            raise
        raise ImportError("tf.summary writes TensorBoard's messages: pip install 'tvtf[tensorboard]'") from None


def shape_proto(dims: Iterable[int | None] | None) -> Any:
    """Converts dims to a TensorShapeProto message. The rank is unknown if ``dims`` is None."""
    message = proto("compat.proto.tensor_shape_pb2").TensorShapeProto(unknown_rank=dims is None)
    for dim in dims or ():  # an unknown dim is -1 in the message
        message.dim.add(size=-1 if dim is None else dim)
    return message
