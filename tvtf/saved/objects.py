"""Lists the objects of a saved model and their edges, and creates the objects that take their place in a loaded model.

Nodes have the same IDs as in the model's checkpoint, as in TensorFlow: breadth first, an object's functions after its
other children, and traces after the functions.
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
    """A node for a ``tf.function``; its children are its traces."""

    def __init__(self, function: Function) -> None:
        self.function = function
        for index, concrete in enumerate(function.concrete_functions):
            self._track(ConcreteNode(concrete), f"trace_{index}")


class ConcreteNode(Trackable):
    """A node for one trace of a function."""

    def __init__(self, concrete: ConcreteFunction) -> None:
        self.concrete = concrete


class ModelView(View):
    """The graph of objects reachable from a root, with their functions and signatures."""

    def __init__(self, root: Trackable, signatures: SignatureMap, parts: Mapping[str, Any] | None = None) -> None:
        """Creates the view; ``parts`` are functions and trackables of the root that are not attributes."""
        super().__init__(root)
        self.signatures = signatures
        self.parts = parts or {}
        self._function_nodes: dict[int, tuple[Any, Trackable]] = {}

    def children(self, trackable: Trackable) -> dict[str, Trackable]:
        """Returns an object's children in the saved object graph by name, including functions.

        The root also has the model's additional parts and its signatures. A variable of another library, such as Keras,
        is replaced by the Variable inside, because functions read that Variable.
        """
        functions: dict[str, Any] = {}
        if isinstance(trackable, AutoTrackable):
            functions = functions_of(trackable)
        elif isinstance(trackable, SignatureMap):
            functions = dict(trackable)
        tracked = {name: of_library(child) for name, child in trackable._trackable_children().items()}
        if trackable is not self.root:
            return tracked | {name: self.node_of(function) for name, function in functions.items()}
        tracked.pop(SIGNATURES, None)  # a loaded model has signatures of its own
        parts = {name: self._part(part) for name, part in {**functions, **self.parts}.items()}
        return tracked | parts | {SIGNATURES: self.signatures}

    def _part(self, part: Any) -> Trackable:
        """Returns the node of a part that is a function; another part is a node itself."""
        return self.node_of(part) if isinstance(part, (Function, ConcreteFunction)) else part

    def node_of(self, function: Any) -> Trackable:
        """Returns the node that represents a function in the saved object graph; it is created on the first call."""
        if id(function) not in self._function_nodes:
            node_class = FunctionNode if isinstance(function, Function) else ConcreteNode
            # The function is stored, too: while it is alive, no other object has its id.
            self._function_nodes[id(function)] = function, node_class(function)
        _, node = self._function_nodes[id(function)]
        return node


def functions_of(trackable: Any) -> dict[str, Any]:
    """Returns the functions among the attributes of an object and of its class, by name in alphabetical order."""
    # Attributes with the prefix ``BOUND`` are caches of the class's functions, bound to the object.
    names = {name for name in dir(type(trackable)) + list(vars(trackable)) if not name.startswith(BOUND)}
    names -= trackable._attributes_not_saved
    attributes = {name: getattr(trackable, name, None) for name in sorted(names) if _holds_function(trackable, name)}
    return {name: value for name, value in attributes.items() if isinstance(value, (Function, ConcreteFunction))}


def _holds_function(trackable: Any, name: str) -> bool:
    """Returns whether an attribute of an object or of its class is a function, without running a property's code."""
    value = vars(trackable).get(name, getattr(type(trackable), name, None))
    return isinstance(value, (Function, ConcreteFunction))


# -- writing


def describe(view: ModelView, function_index: Callable[[ConcreteFunction], Any]) -> list[dict[str, Any]]:
    """Encodes all objects of a model as JSON, in the order of their node IDs.

    ``function_index`` returns the index of a concrete function, or the reason why the function is not saved.
    """
    nodes = view.nodes()
    node_ids = {id(node.trackable): node_id for node_id, node in enumerate(nodes)}
    owned_count = len(view.paths())  # after these nodes come slot variables of optimizers, which have no children
    encoded_nodes = []
    for node_id, node in enumerate(nodes):
        encoded = dict(_encode_node(node.trackable, node.key, function_index))
        encoded["children"] = _edges(view, node.trackable, node_ids) if node_id < owned_count else []
        if node.slots:
            encoded["slots"] = [list(slot) for slot in node.slots]
        encoded_nodes.append(encoded)
    return encoded_nodes


def _edges(view: ModelView, trackable: Trackable, node_ids: Mapping[int, int]) -> list[list[Any]]:
    """Returns a pair of a name and a node ID for each child of an object."""
    return [[name, node_ids[id(child)]] for name, child in view.children(trackable).items()]


@functools.singledispatch
def _encode_node(trackable: Any, key: str, function_index: Callable[[ConcreteFunction], Any]) -> dict[str, Any]:
    """Encodes an object of a saved model as JSON: its kind, and the properties that loading needs.

    ``key`` is the prefix of the object's values in the checkpoint. ``function_index`` returns the index of a concrete
    function. An object of no registered class has only its children.
    """
    return {"kind": "object"}


@_encode_node.register
def _(variable: Variable, key: str, function_index: Any) -> dict[str, Any]:
    """Encodes a Variable as JSON: its name and type, and the key of its value in the checkpoint."""
    shape = variable.shape
    return {
        "kind": "variable",
        "name": variable._shared_name,
        "dtype": variable.dtype.name,
        "shape": None if shape.rank is None else list(shape),
        "trainable": variable.trainable,
        "key": f"{key}/.ATTRIBUTES/VARIABLE_VALUE",
    }


@_encode_node.register
def _(node: FunctionNode, key: str, function_index: Any) -> dict[str, Any]:
    """Encodes a ``tf.function`` as JSON: its signature, its traces, and the reasons why some traces can't be saved."""
    function = node.function
    traces = [function_index(concrete) for concrete in function.concrete_functions]
    return {
        "kind": "function",
        "name": function.name,
        "signature": encode_signature(function.signature.python),
        "specs": _specs(function),
        "functions": [index for index in traces if isinstance(index, int)],
        "left_out": [reason for reason in traces if isinstance(reason, str)],
    }


def _specs(function: Function) -> Any:
    """Encodes a function's input signature as JSON; None if it has none, or one that JSON can't hold."""
    try:
        return None if function.input_signature is None else encode(tuple(function.input_signature))
    except NotPlain:
        return None


@_encode_node.register
def _(node: ConcreteNode, key: str, function_index: Any) -> dict[str, Any]:
    """Encodes one trace of a function as JSON: its index and its signature."""
    return {
        "kind": "concrete",
        "function": function_index(node.concrete),
        "signature": encode_signature(node.concrete._signature),
    }


_NAMED: dict[type, str] = {
    Asset: "asset",
    SignatureMap: "signatures",
    ListWrapper: "list",
    _DictWrapper: "dict",
    _TupleWrapper: "tuple",
}
"""The objects of which the kind is all that is saved."""
for _type, _name in _NAMED.items():
    _encode_node.register(_type, lambda value, key, function_index, name=_name: {"kind": name})


# -- reading


class _UserObject(AutoTrackable):
    """An object of a loaded model, with the attributes that the saved object tracked, and its functions."""

    @property
    def variables(self) -> tuple[Any, ...]:
        """All Variables reachable from it, breadth first."""
        return tuple(trackable for trackable in View(self).objects() if isinstance(trackable, Variable))

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """The Variables that tapes watch automatically."""
        return tuple(variable for variable in self.variables if variable.trainable)


def user_object() -> _UserObject:
    """Creates an object of a loaded model. The object has a class of its own, because `adopt` may change the class."""
    return type("_UserObject", (_UserObject,), {"__module__": __name__})()  # type: ignore[no-any-return]


def adopt(parent: Any, name: str, child: Any) -> None:
    """Stores ``child`` as the attribute, item or value ``name`` of an object, list or dict of a loaded model.

    Raises:
      SavedModuleError: the name is not allowed for an attribute.
    """
    if isinstance(parent, ListWrapper):
        while len(parent) <= int(name):  # items may come in any order
            parent.append(None)
        parent[int(name)] = child
    elif isinstance(parent, _DictWrapper):
        parent[name] = child
    else:
        _set_attribute(parent, name, child)


def _set_attribute(parent: Any, name: str, child: Any) -> None:
    """Sets an attribute of an object of a loaded model. Each such object has a class of its own.

    Args:
      parent: the object.
      name: the name of the attribute.
      child: its value.

    Raises:
      SavedModuleError: Python or the class itself uses the name.
    """
    if name == "__call__":  # Python looks up this method in the class
        type(parent).__call__ = lambda self, *args, **kwargs: child(*args, **kwargs)
        vars(parent)[name] = child
    elif name in ("variables", "trainable_variables"):
        # The class has a property of this name, which would make the attribute read-only.
        setattr(type(parent), name, None)
        setattr(parent, name, child)
    elif name.startswith("__") or hasattr(_UserObject, name):
        raise SavedModuleError(f"{name!r} can't be the name of an attribute")
    else:
        setattr(parent, name, child)


CONTAINERS: dict[str, Callable[[], Any]] = {"object": user_object, "list": ListWrapper, "dict": _DictWrapper}


def check_nodes(nodes: Any, source: str) -> None:
    """Checks the list of objects in a saved model's description: every edge must lead to an existing object.

    An edge is a pair of a child's name and node ID. ``source`` names the file in errors.

    Raises:
      SavedModuleError: the list of nodes or an edge is invalid.
    """
    if not isinstance(nodes, list) or not nodes or not all(isinstance(node, dict) for node in nodes):
        raise SavedModuleError(f"{source} is damaged: it lists no objects")
    for node_id, node in enumerate(nodes):
        for edge in entry(node, "children", source):
            if not _is_edge(edge, len(nodes)):
                raise SavedModuleError(f"{source} is damaged: object {node_id} has the edge {edge!r:.60}")


def _is_edge(edge: Any, count: int) -> bool:
    """Returns whether a value is a pair of a name and the ID of one of ``count`` objects."""
    if not isinstance(edge, list) or len(edge) != 2:
        return False
    name, node_id = edge
    return isinstance(name, str) and type(node_id) is int and 0 <= node_id < count
