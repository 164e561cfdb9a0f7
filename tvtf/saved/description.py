"""Describes the inputs and outputs of a saved function, in ``module.json`` and at the end of a compiled library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tvtf import dtypes
from tvtf.core.tensor import convert_to_tensor
from tvtf.dtypes import DType
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.version import __version__

FORMAT = "tvtf-module"
VERSION = 1
Item = TypeVar("Item")


@dataclass(frozen=True)
class Value:
    """An input, output or variable: its name, dtype and dims; unknown dims are names."""

    name: str
    dtype: DType
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.name} ({', '.join(map(str, self.shape))})"

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "dtype": self.dtype.name, "shape": list(self.shape)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Value:
        """Reads a value's name, dtype and dims from the JSON that `as_json` wrote.

        Raises:
          TypeError, ValueError, KeyError: the data is damaged.
        """
        name, dims = data["name"], data["shape"]
        if not isinstance(name, str) or not isinstance(dims, list):
            raise TypeError(f"not a name with dims: {data}")
        if not all(isinstance(dim, str) or (type(dim) is int and dim >= 0) for dim in dims):
            raise ValueError(f"dims must be names or sizes, but are {dims}")
        return cls(name, dtypes.as_dtype(data["dtype"]), tuple(dims))

    def as_array(self, argument: Any) -> np.ndarray:
        """Returns an argument for this input as an array, texts for a string as bytes.

        >>> Value("x", dtypes.string, ("batch",)).as_array(["a", "bc"])
        array([b'a', b'bc'], dtype=object)
        """
        array = np.asarray(argument)
        is_text = self.dtype == dtypes.string and array.dtype.kind in "USO"
        return convert_to_tensor(array, dtypes.string).eager_array() if is_text else array

    def check(self, array: np.ndarray, dims: dict[str, int]) -> None:
        """Checks that an array has this input's dtype and shape.

        ``dims`` has the sizes of named dims in earlier inputs. New named dims are added to it.

        Raises:
          SavedModuleError: the dtype or shape differs; the text has the input's name, and both dtypes or shapes.

        >>> Value("x", dtypes.float32, ("batch", 2)).check(np.zeros((3, 5), np.float32), {})
        Traceback (most recent call last):
        tvtf.saved.SavedModuleError: input 'x' must have shape (batch, 2), but got (3, 5)
        """
        if array.dtype != self.dtype.np:
            raise SavedModuleError(
                f"input {self.name!r} must be {self.dtype.name}, but got {array.dtype}; convert it first"
            )
        known_dims = dict(dims)
        if len(array.shape) != len(self.shape) or not all(map(_fits(dims), self.shape, array.shape)):
            raise SavedModuleError(
                f"input {self.name!r} must have shape {self._dims(known_dims)}, but got {array.shape}"
            )

    def _dims(self, known: Mapping[str, int]) -> str:
        """Returns the shape as text; ``known`` has sizes of named dims. For example, "(batch=3, 2)"."""
        listed = [f"{dim}={known[dim]}" if isinstance(dim, str) and dim in known else str(dim) for dim in self.shape]
        return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def _fits(dims: dict[str, int]) -> Callable[[int | str, int], bool]:
    """Returns a function that returns whether a size fits a dim.

    A named dim fits the size in ``dims``. If it has none there yet, it is set to the size.
    """
    return lambda dim, size: size == (dims.setdefault(dim, size) if isinstance(dim, str) else dim)


@dataclass(frozen=True)
class Description:
    """A function's name, inputs and outputs; for a GPU library also its architecture (``sm_90``)."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    gpu: str | None = None

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.inputs))}) -> {', '.join(map(str, self.outputs))}"

    def as_json(self) -> dict[str, Any]:
        """Returns the description as a JSON object. Only a library for a GPU has the entry "gpu"."""
        data = {
            "format": FORMAT,
            "version": VERSION,
            "producer": f"tvtf {__version__}",
            "name": self.name,
            "inputs": [value.as_json() for value in self.inputs],
            "outputs": [value.as_json() for value in self.outputs],
        }
        if self.gpu:
            data["gpu"] = self.gpu
        return data

    @classmethod
    def from_json(cls, data: Any, source: str) -> Description:
        """Reads a description from the JSON that `as_json` wrote; ``source`` names the file in errors.

        Raises:
          SavedModuleError: the format or version is not that of this version of tvtf, or the data is damaged.
        """
        check_header(data, source)
        inputs, outputs = values(data, "inputs", source), values(data, "outputs", source)
        gpu = data.get("gpu")
        return cls(str(entry(data, "name", source)), inputs, outputs, None if gpu is None else str(gpu))

    def check(self, arrays: Sequence[np.ndarray]) -> dict[str, int]:
        """Checks the number, dtypes and shapes of arrays for the inputs, and returns the sizes of the named dims.

        Raises:
          SavedModuleError: an array does not match; the text has what is expected, and what it got.
        """
        if len(arrays) != len(self.inputs):
            named = ", ".join(value.name for value in self.inputs)
            raise SavedModuleError(f"{self.name} takes {len(self.inputs)} inputs ({named}), but got {len(arrays)}")
        dims: dict[str, int] = {}
        for value, array in zip(self.inputs, arrays):
            value.check(array, dims)
        return dims


def check_header(data: Any, source: str) -> None:
    """Checks that ``data`` is a description of a saved function, in the version that this tvtf reads.

    Raises:
      SavedModuleError: the format or version is not the expected one; ``source`` names the file in the text.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise SavedModuleError(f"{source} is not a description of a saved module: its format is not {FORMAT!r}")
    if data.get("version") != VERSION:
        raise SavedModuleError(
            f"{source} has version {data.get('version')!r} of the format, and tvtf {__version__} reads version "
            f"{VERSION}; save the module again with this tvtf, or install the one that wrote it"
        )


def entry(data: Mapping[str, Any], key: str, source: str) -> Any:
    """Returns the entry ``key`` of a description; ``source`` names the file in errors.

    Raises:
      SavedModuleError: the entry is missing.
    """
    if key not in data:
        raise SavedModuleError(f"{source} is damaged: it has no {key!r}; save the module again")
    return data[key]


def values(data: Mapping[str, Any], key: str, source: str) -> tuple[Value, ...]:
    """Reads the list ``key`` of a description: its inputs, outputs or variables.

    Raises:
      SavedModuleError: the list is missing or damaged.
    """
    listed = entry(data, key, source)
    try:
        return tuple(map(Value.from_json, listed))
    except (TypeError, ValueError, KeyError) as cause:
        raise SavedModuleError(
            f"{source} is damaged: its {key!r} can't be read ({cause}); save the module again"
        ) from cause


def parse(text: bytes, source: str) -> Any:
    """Parses the JSON of a file; ``source`` names the file in errors.

    Raises:
      SavedModuleError: the text is not valid JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise SavedModuleError(f"{source} is damaged: it is not valid JSON ({cause}); save the module again") from cause


def checksum(program: Any) -> str:
    """Returns the SHA-256 of a JSON value, which does not depend on spaces and the order of keys in a file."""
    text = json.dumps(program, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
