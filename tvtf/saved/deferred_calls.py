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
    """Encodes a program's deferred calls, given by their keys, as JSON.

    Raises:
      NotPlain: an argument can't be stored in a file.
    """
    return {str(key): _describe(call) for key, call in (deferred or {}).items()}


def made_in(mod: ir.IRModule) -> dict[int, Call]:
    """Returns the deferred calls of a program by their keys.

    A program contains only the keys. The calls themselves are registered in ``calls``. An argument of a call may be a
    program, such as a branch. The deferred calls of that program are returned, too.
    """
    reachable: dict[int, Call] = {}
    unvisited = [mod]
    while unvisited:
        for key in _keys_in(unvisited.pop()) - reachable.keys():
            reachable[key] = calls[key]
            unvisited += [leaf.mod for leaf in calls[key].leaves if isinstance(leaf, Subfunction)]
    return reachable


def _keys_in(mod: ir.IRModule) -> set[int]:
    """Returns the keys of the deferred calls in a module; the IR has them as calls of the primitive ``waiting``."""
    all_calls: list[relax.Call] = []
    for function in mod.functions.values():
        structural_walk(function.body, (relax.Call, all_calls.append))
    bound_calls = [dialect.read(call) for call in all_calls if dialect.is_dialect(call)]
    return {int(bound.attrs["key"]) for bound in bound_calls if bound.primitive.name == "waiting"}


def read(data: Mapping[str, Any], module: Callable[[Any, Collection[int]], ir.IRModule]) -> dict[int, Call]:
    """Reads deferred calls from the JSON that `describe` wrote, and registers them. Returns the calls by their keys.

    The caller must keep references to the calls, because a key is valid only while its call is alive.

    Args:
      data: the calls in JSON, by key.
      module: reads a program among a call's arguments; it is also passed the keys of all calls.

    Raises:
      SavedModuleError: a call is not allowed, or its key is in use for another call.
    """
    keys = set(map(int, data))

    def read_program(program: Any) -> ir.IRModule:
        return module(program, keys)

    # All are read before one is registered: a damaged file must not leave calls behind.
    read_calls = {int(key): _read(call_data, read_program) for key, call_data in data.items()}
    return {key: _registered(key, call) for key, call in read_calls.items()}


def _registered(key: int, call: Call) -> Call:
    """Registers a deferred call under its key, and returns the registered call.

    If a model with the same call was loaded earlier, that model's call is returned.

    Raises:
      SavedModuleError: a different call has the key.
    """
    registered = calls.setdefault(key, call)
    if not _are_same(registered, call):
        raise SavedModuleError(f"it has another call by the key {key} than a model that was loaded before")
    return registered


def _are_same(first: Call, second: Call) -> bool:
    """Returns whether two deferred calls have the same function and arguments.

    Of tensors, only the positions among the arguments are compared. Their values are passed when the call is made.

    Args:
      first, second: the calls.
    """
    if first is second:
        return True
    if first.function != second.function or first.tensor_positions != second.tensor_positions:
        return False
    if nest.map_structure(_none, first.structure) != nest.map_structure(_none, second.structure):
        return False
    if len(first.leaves) != len(second.leaves):
        return False
    for position, (first_leaf, second_leaf) in enumerate(zip(first.leaves, second.leaves)):
        if position not in first.tensor_positions and not _are_same_leaves(first_leaf, second_leaf):
            return False
    return True


def _none(_: Any) -> None:
    """Replaces every leaf of a structure by None, so that only structures are compared."""
    return None


def _are_same_leaves(first: Any, second: Any) -> bool:
    """Returns whether two arguments of deferred calls are equal.

    Programs are compared by structure, because two traces of one function have different variables.

    Args:
      first, second: the arguments.
    """
    if type(first) is not type(second):
        return False
    if isinstance(first, Subfunction):
        return bool(tvm_ffi.structural_equal(first.mod, second.mod))
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    return bool(first == second)


def _describe(call: Call) -> dict[str, Any]:
    """Encodes a deferred call as JSON: the function, and the structure and leaves of the arguments.

    The file has only the position of a tensor, which is passed when the call is made.
    """
    leaves: list[Any] = []
    for position, leaf in enumerate(call.leaves):
        is_tensor = position in call.tensor_positions
        leaves.append({"tensor": None} if is_tensor else encode(leaf, _encoded_leaf))
    # Only specs of composite tensors stay in the structure: its other leaves are in `leaves`.
    structure = nest.map_structure(lambda value: value if nest.is_composite(value) else None, call.structure)
    return {"function": _encoded_function(call.function), "structure": encode(structure), "leaves": leaves}


def _read(data: Mapping[str, Any], module: Callable[[Any], ir.IRModule]) -> Call:
    """Decodes a deferred call from the JSON that `_describe` wrote.

    ``module`` reads a program among the call's arguments. A leaf with the entry "tensor" stands for a tensor, which is
    passed when the call is made.
    """
    tensor_positions = [position for position, leaf in enumerate(data["leaves"]) if "tensor" in leaf]

    def decode_special(kind: str, content: Any) -> Any:
        return Subfunction(module(content), "main") if kind == "graph" else _READERS[kind](content)

    leaves = [decode(encoded, decode_special) for encoded in data["leaves"]]
    return Call(_decoded_function(*data["function"]), decode(data["structure"]), leaves, tensor_positions)


# -- functions


def _encoded_function(function: Any) -> list[str]:
    """Encodes the function of a deferred call as a kind and a name.

    The kinds are "primitive", "bind" (the method ``bind`` of a primitive) and "function" (a public function). A file
    contains only names, no code. `_decoded_function` decides which functions a name may stand for.
    """
    if isinstance(function, Primitive):
        return ["primitive", function.name]
    method_owner = getattr(function, "__self__", None)
    if isinstance(method_owner, Primitive):
        return ["bind", method_owner.name]
    for path, public in allowed_ops.functions().items():
        if _undecorated(public) is function:
            return ["function", path]
    raise NotPlain(f"a call of {getattr(function, '__name__', function)}")


def _decoded_function(kind: str, name: str) -> Callable[..., Any]:
    """Returns the function that a file names by a kind and a name.

    A hostile file may name any function. Only functions without effects outside of the program are allowed.

    Raises:
      SavedModuleError: the kind is unknown, or a saved model may not call the function.
    """
    if kind not in ("function", "primitive", "bind"):
        raise SavedModuleError(f"it calls a {kind!r:.40}, which is not a kind of function")
    try:
        target = allowed_ops.function(name) if kind == "function" else allowed_ops.primitive(name)
    except allowed_ops.NotAllowed as error:
        raise SavedModuleError(str(error)) from None
    return target.bind if kind == "bind" else _undecorated(target)  # type: ignore[no-any-return]


def _undecorated(public: Any) -> Any:
    """Returns the function inside the decorators of a public function. Returns a primitive unchanged.

    Deferred calls call functions without their decorators.
    """
    return public if isinstance(public, Primitive) else inspect.unwrap(public)


# -- arguments that signatures can't have


def _encoded_leaf(value: Any) -> Any:
    """Encodes an argument of a deferred call as JSON if it is a program, a slice, an array or an ellipsis.

    Returns None for other values, which `encode` handles.
    """
    if isinstance(value, Subfunction):
        return {"graph": json.loads(tvm.ir.save_json(value.mod))}
    if isinstance(value, slice):
        return {"slice": [encode(bound, _encoded_leaf) for bound in (value.start, value.stop, value.step)]}
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.ascontiguousarray(value)
        return {"array": [array.dtype.name, list(value.shape), base64.b64encode(array.tobytes()).decode()]}
    return {"ellipsis": None} if value is ... else None


def _array(content: Any) -> np.ndarray:
    """Decodes an array from its dtype, shape and bytes in base64."""
    dtype, shape, data = content
    return np.frombuffer(base64.b64decode(data, validate=True), as_dtype(dtype).np).reshape(shape)


_READERS: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda _: None,
    "slice": lambda bounds: slice(*(decode(bound, lambda kind, content: _READERS[kind](content)) for bound in bounds)),
    "array": _array,
    "ellipsis": lambda _: ...,
}
