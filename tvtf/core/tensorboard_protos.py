"""TensorBoard's messages: its package is an extra."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any


def proto(name: str) -> Any:
    """A module of ``tensorboard`` by its name within the package.

    Raises:
      ImportError: the extra is not installed.
    """
    try:
        return importlib.import_module(f"tensorboard.{name}")
    except ModuleNotFoundError as error:
        if error.name != "tensorboard":
            raise
        raise ImportError("tf.summary writes TensorBoard's messages: pip install 'tvtf[tensorboard]'") from None


def shape_proto(dims: Iterable[int | None] | None) -> Any:
    """A TensorShapeProto; of any rank without dims."""
    made = proto("compat.proto.tensor_shape_pb2").TensorShapeProto(unknown_rank=dims is None)
    for dim in dims or ():
        made.dim.add(size=-1 if dim is None else dim)
    return made
