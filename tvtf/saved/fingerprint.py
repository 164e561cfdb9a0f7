"""Defines ``tf.saved_model.experimental``: fingerprints, which identify a saved model, and policies on Variables' devices.

Source: https://www.tensorflow.org/guide/saved_model#fingerprinting
"""

from __future__ import annotations

import enum
from dataclasses import astuple, dataclass
from typing import Any

from tvtf.core.primitive import export
from tvtf.saved import layout
from tvtf.saved.description import checksum


@export("saved_model.experimental.VariablePolicy")
class VariablePolicy(enum.Enum):
    """What is saved of Variables' devices; as there is one device, all policies save the same.

    >>> import tvtf as tf
    >>> tf.saved_model.experimental.VariablePolicy.from_obj("save_variable_devices")
    <VariablePolicy.SAVE_VARIABLE_DEVICES: 'save_variable_devices'>

    Source: https://www.tensorflow.org/api_docs/python/tf/saved_model/experimental/VariablePolicy
    """

    NONE = None
    SAVE_VARIABLE_DEVICES = "save_variable_devices"
    EXPAND_DISTRIBUTED_VARIABLES = "expand_distributed_variables"

    @staticmethod
    def from_obj(obj: Any) -> VariablePolicy:
        """Converts a policy, its value such as "save_variable_devices", or None to a policy.

        Raises:
          ValueError: no policy has this value.
        """
        if obj is None or isinstance(obj, VariablePolicy):
            return obj or VariablePolicy.NONE
        try:
            return VariablePolicy(str(obj).lower())
        except ValueError:
            raise ValueError(f"Received invalid VariablePolicy value: {obj}.") from None


@export("saved_model.experimental.Fingerprint")
@dataclass(eq=False, repr=False)
class Fingerprint:
    """Hashes that identify a saved model: of its functions, signatures, objects and Variables.

    ``saved_model_checksum`` covers all of ``saved_model.json``, including the version of tvtf that wrote it.

    >>> import tvtf as tf
    >>> one = tf.saved_model.experimental.Fingerprint(1, 2, 3, 4, 5)
    >>> one
    Fingerprint(1, 2, 3, 4, 5)
    >>> one.singleprint()
    '2/3/4/5'

    Source: https://www.tensorflow.org/api_docs/python/tf/saved_model/experimental/Fingerprint
    """

    saved_model_checksum: int | None = None
    graph_def_program_hash: int | None = None
    signature_def_hash: int | None = None
    saved_object_graph_hash: int | None = None
    checkpoint_hash: int | None = None
    version: int | None = None

    def _hashes(self) -> tuple[int | None, ...]:
        """Returns the five hashes, without the version."""
        return astuple(self)[:5]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and self._hashes() == other._hashes()

    def __hash__(self) -> int:
        return hash(self._hashes())

    def __str__(self) -> str:
        names = list(self.__dataclass_fields__)[:5]
        return "\n".join(["SavedModel Fingerprint", *(f"  {name}: {getattr(self, name)}" for name in names)])

    def __repr__(self) -> str:
        return f"Fingerprint({', '.join(map(str, self._hashes()))})"

    def singleprint(self) -> str:
        """Returns the hashes in one string, without the checksum of the file.

        Raises:
          ValueError: a hash is missing.
        """
        _checksum, *hashes = self._hashes()
        if not all(isinstance(value, int) for value in hashes):
            raise ValueError(f"Encountered invalid fingerprint values when constructing singleprint: {self!r}")
        return "/".join(map(str, hashes))


@export("saved_model.experimental.read_fingerprint")
def read_fingerprint(export_dir: Any) -> Fingerprint:
    """Computes the fingerprint of the saved model in a folder, after verifying the files.

    Raises:
      FileNotFoundError: the folder holds no model.
      SavedModuleError: the model has another version, is damaged, or was saved by TensorFlow.

    >>> import tempfile
    >>> import tvtf as tf
    >>> model, folder = tf.Module(), tempfile.mkdtemp()
    >>> model.v = tf.Variable(1.)
    >>> tf.saved_model.save(model, folder)
    >>> before = tf.saved_model.experimental.read_fingerprint(folder)
    >>> _ = model.v.assign(2.)
    >>> tf.saved_model.save(model, folder)
    >>> after = tf.saved_model.experimental.read_fingerprint(folder)
    >>> before.checkpoint_hash == after.checkpoint_hash, before.graph_def_program_hash == after.graph_def_program_hash
    (False, True)

    Source: https://www.tensorflow.org/api_docs/python/tf/saved_model/experimental/read_fingerprint
    """
    try:
        data = layout.read(export_dir)
    except layout.SavedModuleError:
        raise
    except OSError as cause:
        raise FileNotFoundError(f"SavedModel Fingerprint Error: {cause}") from None
    with layout.damage_named(export_dir):
        files = {name: digest for name, digest in data["files"].items() if not name.startswith(layout.COMPILED)}
        signatures = [node for node in data["objects"] if node.get("kind") == "signatures"]
        parts = (data, data["functions"], signatures, data["objects"], files)
        whole, functions, served, objects, checkpoint = map(_hash, parts)
        return Fingerprint(whole, functions, served, objects, checkpoint, data["version"])


def _hash(part: Any) -> int:
    """Returns the first 64 bits of the SHA-256 of a JSON value."""
    return int(checksum(part)[:16], 16)
