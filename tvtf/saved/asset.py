"""Files that belong to a model: `save` copies them into its folder, `load` finds them there."""

from __future__ import annotations

import os
from typing import Any

from tvtf.core.tensor import EagerTensor, register_tensor_conversion_function, to_array
from tvtf.fileio.atomic_file import named_failures
from tvtf.state.trackable import Trackable


class AssetPath(EagerTensor):
    """The path of an asset as a string scalar that refers to its asset."""

    __slots__ = ("asset",)
    has_identity = True

    def __init__(self, asset: Asset) -> None:
        super().__init__(to_array(asset.path, None))
        self.asset = asset


class Asset(Trackable):
    """A file that a model needs, such as a vocabulary; functions read its path from ``asset_path``.

    Args:
      path: the file; it must exist when the model is saved.

    >>> import tvtf as tf
    >>> tf.saved_model.Asset("vocabulary.txt").asset_path
    <tf.Tensor: shape=(), dtype=string, numpy=b'vocabulary.txt'>

    Source: https://www.tensorflow.org/api_docs/python/tf/saved_model/Asset
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.asset_path = AssetPath(self)

    @staticmethod
    def of(tensor: Any) -> Asset | None:
        """Returns the asset to which a tensor belongs as the asset's path, or None for other tensors."""
        return tensor.asset if isinstance(tensor, AssetPath) else None

    def content(self) -> bytes:
        """Reads the asset's file, and returns its bytes.

        Raises:
          NotFoundError: the file does not exist.
        """
        with named_failures(self.path, "read"), open(self.path, "rb") as file:
            return file.read()


register_tensor_conversion_function(Asset, lambda asset, **_: asset.asset_path)
