"""The calls of a function of unknown rank that wait for one, as JSON: a public function or a primitive, and its arguments."""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
from tvm import ir

from tvtf import nest
from tvtf.dtypes import as_dtype
from tvtf.frontend import functional, vectorize
from tvtf.frontend.control import one_of
from tvtf.frontend.waiting import Call, calls, of_shape
from tvtf.interpret import Subfunction
from tvtf.namespaces import all_names
from tvtf.ops import operators
from tvtf.ops.getitem import getitem
from tvtf.ops.rules import filled_like
from tvtf.primitive import Primitive, table
from tvtf.saved.description import SavedModuleError
from tvtf.saved.structure import NotPlain, decode, encode


def describe(waiting: Mapping[int, Call] | None) -> dict[str, Any]:
    """The calls by their keys.

    Raises:
      NotPlain: one has an argument that no file holds.
    """
    return {str(key): _describe(call) for key, call in (waiting or {}).items()}


def read(data: Mapping[str, Any], module: Callable[[Any], ir.IRModule]) -> dict[int, Call]:
    """What `describe` wrote; ``module`` reads the programs among the arguments. Who holds the calls keeps them bound to their keys.

    Raises:
      SavedModuleError: it is something else.
    """
    found = {int(key): _read(each, module) for key, each in data.items()}
    return {key: calls.setdefault(key, call) for key, call in found.items()}


def _describe(call: Call) -> dict[str, Any]:
    leaves = [{"tensor": None} if i in call.places else encode(leaf, _leaf) for i, leaf in enumerate(call.leaves)]
    form = nest.map_structure(lambda each: each if nest.is_composite(each) else None, call.structure)
    return {"function": _path(call.function), "structure": encode(form), "leaves": leaves}


def _read(data: Mapping[str, Any], module: Callable[[Any], ir.IRModule]) -> Call:
    places = [i for i, leaf in enumerate(data["leaves"]) if "tensor" in leaf]

    def leaf(kind: str, content: Any) -> Any:
        return Subfunction(module(content), "main") if kind == "graph" else _READERS[kind](content)

    leaves = [decode(each, leaf) for each in data["leaves"]]
    return Call(_function(*data["function"]), decode(data["structure"]), leaves, places)


# -- functions


def _path(function: Any) -> list[str]:
    if isinstance(function, Primitive):
        return ["primitive", function.name]
    if isinstance(owner := getattr(function, "__self__", None), Primitive):
        return ["bind", owner.name]
    for path, public in _functions().items():
        if _bare(public) is function:
            return ["function", path]
    raise NotPlain(f"a call of {getattr(function, '__name__', function)}")


def _functions() -> dict[str, Any]:
    """The functions that may wait: the public ones, and what operators on tensors call."""
    return (
        all_names()
        | {
            "[]": getitem,
            "==": operators.equals,
            "!=": operators.differs,
            "filled_like": filled_like,
            "set_shape": of_shape,
            "one_of": one_of,
        }
        | ROWS
    )


ROWS = {"rows mapped": functional.mapped_rows, "rows mapped at once": vectorize.mapped_rows}


def _function(kind: str, name: str) -> Callable[..., Any]:
    found = _functions().get(name) if kind == "function" else table.get(name)
    if found is None:
        raise SavedModuleError(f"it calls {name!r}, which isn't there")
    return found.bind if kind == "bind" else _bare(found)  # type: ignore[no-any-return]


def _bare(public: Any) -> Any:
    """A public function as it is called where it waits."""
    return public if isinstance(public, Primitive) else inspect.unwrap(public)


# -- arguments that no signature has


def _leaf(value: Any) -> Any:
    if isinstance(value, Subfunction):
        return {"graph": json.loads(tvm.ir.save_json(value.mod))}
    if isinstance(value, slice):
        return {"slice": [encode(each, _leaf) for each in (value.start, value.stop, value.step)]}
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.ascontiguousarray(value)
        return {"array": [array.dtype.name, list(value.shape), base64.b64encode(array.tobytes()).decode()]}
    return {"ellipsis": None} if value is ... else None


def _array(content: Any) -> np.ndarray:
    dtype, shape, data = content
    return np.frombuffer(base64.b64decode(data, validate=True), as_dtype(dtype).np).reshape(shape)


_READERS: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda _: None,
    "slice": lambda bounds: slice(*(decode(each, lambda kind, content: _READERS[kind](content)) for each in bounds)),
    "array": _array,
    "ellipsis": lambda _: ...,
}
