"""The calls of a function of unknown rank that wait for one, as JSON: a public function or a primitive, and its arguments."""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import ir, relax

from tvtf.composites.value_json import NotPlain, decode, encode
from tvtf.core import nest
from tvtf.core.primitive import Primitive
from tvtf.core.tvm_visitor import structural_walk
from tvtf.dtypes import as_dtype
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.frontend.function.deferred_call import Call, calls
from tvtf.ir import dialect
from tvtf.ir.interpreter import Subfunction
from tvtf.saved import allowed_ops


def describe(waiting: Mapping[int, Call] | None) -> dict[str, Any]:
    """The calls by their keys.

    Raises:
      NotPlain: one has an argument that no file holds.
    """
    return {str(key): _describe(call) for key, call in (waiting or {}).items()}


def made_in(mod: ir.IRModule) -> dict[int, Call]:
    """The calls that a program makes, and those that the programs among their arguments make, by their keys."""
    found: dict[int, Call] = {}
    left = [mod]
    while left:
        for key in _keys_in(left.pop()) - found.keys():
            found[key] = calls[key]
            left += [leaf.mod for leaf in calls[key].leaves if isinstance(leaf, Subfunction)]
    return found


def _keys_in(mod: ir.IRModule) -> set[int]:
    made: list[relax.Call] = []
    for function in mod.functions.values():
        structural_walk(function.body, (relax.Call, made.append))
    found = [dialect.read(call) for call in made if dialect.is_dialect(call)]
    return {int(bound.attrs["key"]) for bound in found if bound.primitive.name == "waiting"}


def read(data: Mapping[str, Any], module: Callable[[Any, Collection[int]], ir.IRModule]) -> dict[int, Call]:
    """What `describe` wrote; ``module`` reads the programs among the arguments. Who holds the calls keeps them bound to their keys.

    Raises:
      SavedModuleError: it is something else.
    """
    keys = set(map(int, data))
    found = {int(key): _read(each, lambda program: module(program, keys)) for key, each in data.items()}
    return {key: _known_as(key, call) for key, call in found.items()}


def _known_as(key: int, call: Call) -> Call:
    """The call, or the same one of a model that is loaded already: keys are random, and known in the whole process."""
    known = calls.setdefault(key, call)
    if not _are_same(known, call):
        raise SavedModuleError(f"it has another call by the key {key} than a model that is loaded already")
    return known


def _are_same(one: Call, other: Call) -> bool:
    return one is other or (
        one.function == other.function
        and one.places == other.places
        and nest.map_structure(_none, one.structure) == nest.map_structure(_none, other.structure)
        and len(one.leaves) == len(other.leaves)
        and all(i in one.places or _are_same_leaves(*pair) for i, pair in enumerate(zip(one.leaves, other.leaves)))
    )


def _none(_: Any) -> None:
    return None


def _are_same_leaves(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, Subfunction):
        return bool(tvm_ffi.structural_equal(one.mod, other.mod))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return bool(one == other)


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
    for path, public in allowed_ops.functions().items():
        if _bare(public) is function:
            return ["function", path]
    raise NotPlain(f"a call of {getattr(function, '__name__', function)}")


def _function(kind: str, name: str) -> Callable[..., Any]:
    if kind not in ("function", "primitive", "bind"):
        raise SavedModuleError(f"it calls a {kind!r:.40}, which is no kind of function")
    try:
        found = allowed_ops.function(name) if kind == "function" else allowed_ops.primitive(name)
    except allowed_ops.NotAllowed as refused:
        raise SavedModuleError(str(refused)) from None
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
