"""The objects of a saved model: which there are, how they hang together, and what takes their place when it is loaded.

Nodes are numbered as in the checkpoint beside them, as TensorFlow numbers them: breadth first, functions after the other
children of an object, their traces after them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from tvtf.composites.value_json import NotPlain, encode, encode_signature
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.frontend.function.concrete_function import ConcreteFunction
from tvtf.frontend.function.polymorphic_function import BOUND, Function
from tvtf.saved.asset import Asset
from tvtf.saved.description import entry
from tvtf.saved.signatures import SignatureMap
from tvtf.state.autotrackable import AutoTrackable
from tvtf.state.containers import ListWrapper, _DictWrapper, _TupleWrapper
from tvtf.state.trackable import Trackable
from tvtf.state.variable import Variable, of_library
from tvtf.train.object_graph import View

SIGNATURES, ALIASES = "signatures", "function_aliases"


class FunctionNode(Trackable):
    """A ``tf.function`` among the objects; its traces are its children."""

    def __init__(self, function: Function) -> None:
        self.function = function
        for number, concrete in enumerate(function.concrete_functions):
            self._track(ConcreteNode(concrete), f"trace_{number}")


class ConcreteNode(Trackable):
    """One trace of a function among the objects."""

    def __init__(self, concrete: ConcreteFunction) -> None:
        self.concrete = concrete


class ModelView(View):
    """What hangs from an object, its functions and signatures included."""

    def __init__(self, root: Trackable, signatures: SignatureMap, parts: Mapping[str, Any] | None = None) -> None:
        """``parts``: functions and trackables that the root has beside its attributes."""
        super().__init__(root)
        self.signatures = signatures
        self.parts = parts or {}
        self._wrapped: dict[int, tuple[Any, Trackable]] = {}

    def children(self, trackable: Trackable) -> dict[str, Trackable]:
        """By name; a variable of another library's is the Variable that it holds, which is what functions read."""
        functions = functions_of(trackable) if isinstance(trackable, AutoTrackable) else {}
        if isinstance(trackable, SignatureMap):
            functions = dict(trackable)
        own = {name: of_library(child) for name, child in trackable._trackable_children().items()}
        if trackable is not self.root:
            return own | {name: self.node_of(function) for name, function in functions.items()}
        own.pop(SIGNATURES, None)
        parts = {name: self._part(part) for name, part in {**functions, **self.parts}.items()}
        return own | parts | {SIGNATURES: self.signatures}

    def _part(self, part: Any) -> Trackable:
        return self.node_of(part) if isinstance(part, (Function, ConcreteFunction)) else part

    def node_of(self, function: Any) -> Trackable:
        """The node that stands for a function, the same for the same."""
        known = self._wrapped.get(id(function))
        if known is None:
            kind = FunctionNode if isinstance(function, Function) else ConcreteNode
            known = self._wrapped[id(function)] = (function, kind(function))
        return known[1]


def functions_of(trackable: Any) -> dict[str, Any]:
    """The functions among an object's attributes, those of its class included, by name in alphabetical order."""
    names = {name for name in dir(type(trackable)) + list(vars(trackable)) if not name.startswith(BOUND)}
    names -= trackable._attributes_not_saved
    found = {name: getattr(trackable, name, None) for name in sorted(names) if _holds_function(trackable, name)}
    return {name: value for name, value in found.items() if isinstance(value, (Function, ConcreteFunction))}


def _holds_function(trackable: Any, name: str) -> bool:
    """Without running properties."""
    held = vars(trackable).get(name, getattr(type(trackable), name, None))
    return isinstance(held, (Function, ConcreteFunction))


# -- writing


def describe(view: ModelView, function_number: Callable[[ConcreteFunction], Any]) -> list[dict[str, Any]]:
    """Every node as JSON, in the order of node ids."""
    nodes = view.nodes()
    numbers = {id(node.trackable): number for number, node in enumerate(nodes)}
    last_owned = len(view.paths())
    return [
        _kind(node.trackable, node.key, function_number)
        | {"children": _edges(view, node.trackable, numbers) if number < last_owned else []}
        | ({"slots": [list(slot) for slot in node.slots]} if node.slots else {})
        for number, node in enumerate(nodes)
    ]


def _edges(view: ModelView, trackable: Trackable, numbers: Mapping[int, int]) -> list[list[Any]]:
    return [[name, numbers[id(child)]] for name, child in view.children(trackable).items()]


@functools.singledispatch
def _kind(trackable: Any, key: str, function_number: Callable[[ConcreteFunction], Any]) -> dict[str, Any]:
    return {"kind": "object"}


@_kind.register
def _(variable: Variable, key: str, function_number: Any) -> dict[str, Any]:
    shape = variable.shape
    return {
        "kind": "variable",
        "name": variable._shared_name,
        "dtype": variable.dtype.name,
        "shape": None if shape.rank is None else list(shape),
        "trainable": variable.trainable,
        "key": f"{key}/.ATTRIBUTES/VARIABLE_VALUE",
    }


@_kind.register
def _(node: FunctionNode, key: str, function_number: Any) -> dict[str, Any]:
    function = node.function
    traces = [function_number(concrete) for concrete in function.concrete_functions]
    return {
        "kind": "function",
        "name": function.name,
        "signature": encode_signature(function.signature.python),
        "specs": _specs(function),
        "functions": [number for number in traces if isinstance(number, int)],
        "left_out": [why for why in traces if isinstance(why, str)],
    }


def _specs(function: Function) -> Any:
    try:
        return None if function.input_signature is None else encode(tuple(function.input_signature))
    except NotPlain:
        return None


@_kind.register
def _(node: ConcreteNode, key: str, function_number: Any) -> dict[str, Any]:
    return {
        "kind": "concrete",
        "function": function_number(node.concrete),
        "signature": encode_signature(node.concrete._signature),
    }


@_kind.register
def _(asset: Asset, key: str, function_number: Any) -> dict[str, Any]:
    return {"kind": "asset"}


@_kind.register(SignatureMap)
def _(signatures: Any, key: str, function_number: Any) -> dict[str, Any]:
    return {"kind": "signatures"}


@_kind.register(ListWrapper)
def _(value: Any, key: str, function_number: Any) -> dict[str, Any]:
    return {"kind": "list"}


@_kind.register(_DictWrapper)
def _(value: Any, key: str, function_number: Any) -> dict[str, Any]:
    return {"kind": "dict"}


@_kind.register(_TupleWrapper)
def _(value: Any, key: str, function_number: Any) -> dict[str, Any]:
    return {"kind": "tuple"}


# -- reading


class _UserObject(AutoTrackable):
    """An object of a loaded model: what the saved one tracked, and its functions."""

    @property
    def variables(self) -> tuple[Any, ...]:
        """All Variables that are reached from it, breadth first."""
        return tuple(t for t in View(self).objects() if isinstance(t, Variable))

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those of `variables` that tapes watch by themselves."""
        return tuple(v for v in self.variables if v.trainable)


def user_object() -> _UserObject:
    """An object of a class of its own, which `adopt` may make callable and give attributes of any name."""
    return type("_UserObject", (_UserObject,), {"__module__": __name__})()  # type: ignore[no-any-return]


def adopt(parent: Any, name: str, child: Any) -> None:
    """Makes ``child`` what ``name`` refers to in an object, list or dict that is being loaded.

    Raises:
      SavedModuleError: no object can have such a name.
    """
    if isinstance(parent, ListWrapper):
        while len(parent) <= int(name):
            parent.append(None)
        parent[int(name)] = child
    elif isinstance(parent, _DictWrapper):
        parent[name] = child
    else:
        _set_attribute(parent, name, child)


def _set_attribute(parent: Any, name: str, child: Any) -> None:
    if name == "__call__":
        type(parent).__call__ = lambda self, *args, **kwargs: child(*args, **kwargs)
        vars(parent)[name] = child
    elif name in ("variables", "trainable_variables"):
        setattr(type(parent), name, None)
        setattr(parent, name, child)
    elif name.startswith("__") or hasattr(_UserObject, name):
        raise SavedModuleError(f"{name!r} can't be the name of an attribute")
    else:
        setattr(parent, name, child)


CONTAINERS: dict[str, Callable[[], Any]] = {"object": user_object, "list": ListWrapper, "dict": _DictWrapper}


def check_nodes(nodes: Any, place: str) -> None:
    """Whether every edge leads from a node that has children to one that is there.

    Raises:
      SavedModuleError: otherwise.
    """
    if not isinstance(nodes, list) or not nodes or not all(isinstance(node, dict) for node in nodes):
        raise SavedModuleError(f"{place} is damaged: it lists no objects")
    for number, node in enumerate(nodes):
        for edge in entry(node, "children", place):
            if not _is_edge(edge, len(nodes)):
                raise SavedModuleError(f"{place} is damaged: object {number} has the edge {edge!r:.60}")


def _is_edge(edge: Any, count: int) -> bool:
    if not isinstance(edge, list) or len(edge) != 2:
        return False
    name, number = edge
    return isinstance(name, str) and type(number) is int and 0 <= number < count
