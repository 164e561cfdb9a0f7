"""Stores deferred calls as JSON: calls of public functions or primitives whose arguments have unknown rank while tracing."""

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


def describe(deferred: Mapping[int, Call] | None) -> dict[str, Any]:
    """Encodes calls by their keys.

    Raises:
      NotPlain: an argument can't be stored in a file.
    """
    return {str(key): _describe(call) for key, call in (deferred or {}).items()}


def made_in(mod: ir.IRModule) -> dict[int, Call]:
    """Returns the deferred calls that a program makes, and those made by programs among their arguments, by their keys.

    A program refers to a call by its key alone.
    """
    reachable: dict[int, Call] = {}
    modules = [mod]
    while modules:
        for key in _keys_in(modules.pop()) - reachable.keys():
            reachable[key] = calls[key]
            modules += [leaf.mod for leaf in calls[key].leaves if isinstance(leaf, Subfunction)]
    return reachable


def _keys_in(mod: ir.IRModule) -> set[int]:
    """Returns the keys of a module's deferred calls."""
    all_calls: list[relax.Call] = []
    for function in mod.functions.values():
        structural_walk(function.body, (relax.Call, all_calls.append))
    bound_calls = [dialect.read(call) for call in all_calls if dialect.is_dialect(call)]
    return {int(bound.attrs["key"]) for bound in bound_calls if bound.primitive.name == "waiting"}


def read(data: Mapping[str, Any], module: Callable[[Any, Collection[int]], ir.IRModule]) -> dict[int, Call]:
    """Reads what `describe` wrote; ``module`` reads the programs among the arguments.

    The caller must hold the calls: their keys are valid as long as they are alive.

    Raises:
      SavedModuleError: a call is not allowed, or its key is in use for another call.
    """
    keys = set(map(int, data))
    read_calls = {int(key): _read(each, lambda program: module(program, keys)) for key, each in data.items()}
    return {key: _registered(key, call) for key, call in read_calls.items()}


def _registered(key: int, call: Call) -> Call:
    """Returns the call, or the same call of a model loaded earlier; keys are random and unique in the process."""
    registered = calls.setdefault(key, call)
    if not _are_same(registered, call):
        raise SavedModuleError(f"it has another call by the key {key} than a model that was loaded before")
    return registered


def _are_same(one: Call, other: Call) -> bool:
    """Returns whether two calls have the same function and arguments.

    Tensors among the arguments are passed in each call, so that they aren't compared.
    """
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
    """Returns whether two leaves of calls are equal; functions are compared by structure.

    Two traces of one function have equal programs with variables of their own.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, Subfunction):
        return bool(tvm_ffi.structural_equal(one.mod, other.mod))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return bool(one == other)


def _describe(call: Call) -> dict[str, Any]:
    """Encodes a call: its function, the structure of its arguments, and the leaves."""
    leaves = [
        {"tensor": None} if i in call.places else encode(leaf, _encoded_leaf) for i, leaf in enumerate(call.leaves)
    ]
    form = nest.map_structure(lambda each: each if nest.is_composite(each) else None, call.structure)
    return {"function": _encoded_function(call.function), "structure": encode(form), "leaves": leaves}


def _read(data: Mapping[str, Any], module: Callable[[Any], ir.IRModule]) -> Call:
    """Reads a deferred call; its tensors are passed when it is called."""
    places = [i for i, leaf in enumerate(data["leaves"]) if "tensor" in leaf]

    def leaf(kind: str, content: Any) -> Any:
        return Subfunction(module(content), "main") if kind == "graph" else _READERS[kind](content)

    leaves = [decode(each, leaf) for each in data["leaves"]]
    return Call(_decoded_function(*data["function"]), decode(data["structure"]), leaves, places)


# -- functions


def _encoded_function(function: Any) -> list[str]:
    """Encodes a function by its kind and name.

    A file holds names only: whoever reads it decides what a name may stand for.
    """
    if isinstance(function, Primitive):
        return ["primitive", function.name]
    if isinstance(owner := getattr(function, "__self__", None), Primitive):
        return ["bind", owner.name]
    for path, public in allowed_ops.functions().items():
        if _undecorated(public) is function:
            return ["function", path]
    raise NotPlain(f"a call of {getattr(function, '__name__', function)}")


def _decoded_function(kind: str, name: str) -> Callable[..., Any]:
    """Returns the function of a kind and name, if a saved model may call it.

    A file that is not trusted may name anything; only what has no effects outside of the program is called.
    """
    if kind not in ("function", "primitive", "bind"):
        raise SavedModuleError(f"it calls a {kind!r:.40}, which is not a kind of function")
    try:
        target = allowed_ops.function(name) if kind == "function" else allowed_ops.primitive(name)
    except allowed_ops.NotAllowed as error:
        raise SavedModuleError(str(error)) from None
    return target.bind if kind == "bind" else _undecorated(target)  # type: ignore[no-any-return]


def _undecorated(public: Any) -> Any:
    """Returns the undecorated function, which a deferred call calls."""
    return public if isinstance(public, Primitive) else inspect.unwrap(public)


# -- arguments that signatures can't have


def _encoded_leaf(value: Any) -> Any:
    """Encodes an argument that is a program, a slice, an array or an ellipsis."""
    if isinstance(value, Subfunction):
        return {"graph": json.loads(tvm.ir.save_json(value.mod))}
    if isinstance(value, slice):
        return {"slice": [encode(each, _encoded_leaf) for each in (value.start, value.stop, value.step)]}
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
