"""Programs that run in TensorFlow and in tvtf alike, and the files TensorFlow wrote for them, as base64."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import Any

import goldens
import numpy as np

SUFFIXES = (".index", ".data-00000-of-00001")
DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128"),
)


def nested_net(module: Any, variable: Any) -> Any:
    """Modules in a list, a dict and a tuple, one of them reached twice, a name that needs escaping."""

    class Dense(module):
        def __init__(self, rows: int) -> None:
            super().__init__()
            self.w = variable(np.arange(rows * 2, dtype=np.float32).reshape(rows, 2), name="w")
            self.b = variable(np.ones(2, np.float32), name="b", trainable=False)

    class Net(module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [Dense(2), Dense(3)]
            self.heads = {"a": Dense(1), "b/c.d": variable(np.int8(3), name="x")}
            self.pair = (variable(np.float64(1.5), name="p"), [variable(np.bool_(True), name="q")])
            self.first = self.layers[0]

    return Net()


class SlotOwner:
    """Mix-in: an optimizer that keeps slot variables, asked for as TensorFlow's."""

    def get_slot_names(self) -> list[str]:
        return ["m", "v"]

    def get_slot(self, variable: Any, name: str) -> Any:
        return vars(self)["slots"].get((id(variable), name))


def slot_owner(base: Any, variable: Any, variables: list[Any], fill: float) -> Any:
    owner = type("Owner", (SlotOwner, base), {})()
    vars(owner)["slots"] = {}
    owner.rate = variable(np.float32(fill), name="rate")
    for name in owner.get_slot_names():
        for other in variables:
            value = np.full(tuple(other.shape), fill, np.float32)
            owner.slots[id(other), name] = variable(value, name=f"{name}_slot", trainable=False)
    return owner


def all_dtypes() -> dict[str, Any]:
    """One array of each dtype, strings with NUL and beyond one-byte lengths, an empty array."""
    import ml_dtypes

    types = {name: getattr(ml_dtypes, name, None) or np.dtype(name) for name in DTYPES}
    arrays: dict[str, Any] = {name: np.array([[0, 1, 2], [3, 4, 1]]).astype(kind) for name, kind in types.items()}
    arrays["string"] = np.array([b"", b"a\0", b"x" * 300], object)
    return arrays | {"empty": np.zeros((0, 3), np.float32)}


def golden(name: str, suffix: str) -> bytes:
    return base64.b64decode(goldens.read("checkpoints")[name + suffix])


def labels() -> list[str]:
    return [name + suffix for name in ("net", "dtypes") for suffix in SUFFIXES]


def written_by_tensorflow(tf: Any) -> dict[str, str]:
    """The bytes of a checkpoint of the net and of a bundle with all dtypes, in base64."""
    folder = tempfile.mkdtemp()
    net = tf.train.Checkpoint(net=nested_net(tf.Module, tf.Variable)).save(f"{folder}/ckpt")
    prefixes = [net, write_raw(tf, f"{folder}/dtypes", all_dtypes())]
    files = [prefix + suffix for prefix in prefixes for suffix in SUFFIXES]
    return {label: base64.b64encode(Path(file).read_bytes()).decode() for label, file in zip(labels(), files)}


def write_raw(tf: Any, prefix: str, arrays: dict[str, Any]) -> str:
    tensors = [tf.constant(list(a), tf.string) if a.dtype == object else tf.constant(a) for a in arrays.values()]
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=list(arrays), shape_and_slices=[""] * len(arrays), tensors=tensors)
    return prefix


def place_golden(name: str, folder: Path) -> str:
    """Put a golden checkpoint into ``folder`` and return its prefix."""
    for suffix in SUFFIXES:
        (folder / f"{name}{suffix}").write_bytes(golden(name, suffix))
    return str(folder / name)
