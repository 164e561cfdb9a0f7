"""The graph of trackable objects as a checkpoint stores it: nodes in breadth-first order, named edges, slot variables.

Source: ``tensorflow/python/checkpoint/save_util.py`` and ``tensorflow/python/trackable/trackable_utils.py``.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import DecodeError

from tvtf.errors import DataLossError
from tvtf.state.trackable import Trackable
from tvtf.train.checkpoint_protos import TrackableObjectGraph

GRAPH_KEY: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
TABLE_SUFFIXES: Final = ("-keys", "-values")
"""A lookup table is one attribute of two tensors, which are its key with these."""
ATTRIBUTES: Final = ".ATTRIBUTES"
OPTIMIZER_SLOT: Final = ".OPTIMIZER_SLOT"


@dataclass
class View:
    """What hangs from a root: its own children and those that a `Checkpoint` attaches to it."""

    root: Trackable
    attached: dict[str, Trackable] = field(default_factory=dict)

    def children(self, trackable: Trackable) -> dict[str, Trackable]:
        own = trackable._trackable_children()
        return own if trackable is not self.root else own | self.attached

    def paths(self) -> dict[int, tuple[Trackable, tuple[str, ...]]]:
        """Every object with the names on a shortest way to it, breadth first, by ``id``."""
        found: dict[int, tuple[Trackable, tuple[str, ...]]] = {id(self.root): (self.root, ())}
        waiting = deque([self.root])
        while waiting:
            parent = waiting.popleft()
            path = found[id(parent)][1]
            for name, child in self.children(parent).items():
                if id(child) not in found:
                    found[id(child)] = (child, (*path, name))
                    waiting.append(child)
        return found

    def objects(self) -> list[Trackable]:
        """Every object, slot variables included, in the order of node ids."""
        return [node.trackable for node in self.nodes()]

    def nodes(self) -> list[Node]:
        """Every object as a node, with the key its values are saved under."""
        nodes = [Node(found, "/".join(map(escape, path))) for found, path in self.paths().values()]
        slots = list(_slots(nodes))
        for owner, original, name, variable in slots:
            nodes[owner].slots.append((original, name, len(nodes)))
            nodes.append(Node(variable, f"{nodes[original].key}/{OPTIMIZER_SLOT}/{nodes[owner].key}/{escape(name)}"))
        return nodes


@dataclass
class Node:
    """One object of a graph to be saved; ``slots`` holds (original node, slot name, slot node)."""

    trackable: Trackable
    key: str
    slots: list[tuple[int, str, int]] = field(default_factory=list)


def _slots(nodes: list[Node]) -> Iterator[tuple[int, int, str, Trackable]]:
    """(owner, original, slot name, slot variable) for each object that keeps variables about others."""
    known = {id(node.trackable) for node in nodes}
    for owner, node in enumerate(nodes):
        for name in getattr(node.trackable, "get_slot_names", list)():
            for original, other in enumerate(nodes):
                variable = find_slot(node.trackable, other.trackable, name)
                if variable is not None and id(variable) not in known:
                    yield owner, original, name, variable


def find_slot(owner: Any, variable: Trackable, name: str) -> Trackable | None:
    """The slot variable ``name`` that ``owner`` keeps for ``variable``, as TensorFlow's optimizers are asked for it."""
    try:
        found = owner.get_slot(variable, name)
    except (AttributeError, KeyError):
        return None
    return found if isinstance(found, Trackable) else None


def escape(name: str) -> str:
    """Write an edge's name as part of a key, in which ``/`` separates names and ``.`` starts a word of TensorFlow's.

    >>> escape("a/b.c")
    'a.Sb..c'
    """
    return name.replace(".", "..").replace("/", ".S")


@contextlib.contextmanager
def locked(trackables: Iterable[Trackable]) -> Iterator[None]:
    """Hold the locks of all Variables among ``trackables``, so that no training step is seen half done.

    A Variable whose array is held by others is given a new one when it is next updated, so values that were taken under
    the locks stay as they are.
    """
    locks = {id(lock): lock for found in trackables if (lock := getattr(found, "lock", None)) is not None}
    with contextlib.ExitStack() as held:
        for _, lock in sorted(locks.items()):
            held.enter_context(lock)
        yield


def serialize(view: View) -> dict[str, Any]:
    """All values to save by key, in the order of their nodes, the graph itself last."""
    nodes, graph, tensors = view.nodes(), TrackableObjectGraph(), {}
    numbers = {id(node.trackable): number for number, node in enumerate(nodes)}
    last_owned = len(view.paths())
    with locked(node.trackable for node in nodes):
        values = [node.trackable._serialize_to_tensors() for node in nodes]
    for number, node in enumerate(nodes):
        proto = graph.nodes.add()
        children = view.children(node.trackable) if number < last_owned else {}
        for name, child in children.items():
            proto.children.add(node_id=numbers[id(child)], local_name=name)
        for original, name, slot in node.slots:
            proto.slot_variables.add(original_variable_node_id=original, slot_name=name, slot_variable_node_id=slot)
        for name, value in values[number].items():
            suffix = next(s for s in node.trackable._value_suffixes if name.endswith(s))
            attribute = escape(name.removesuffix(suffix))
            key = f"{node.key}/{ATTRIBUTES}/{attribute}"
            full_name = getattr(node.trackable, "_shared_name", "")
            if all(a.name != attribute for a in proto.attributes):
                proto.attributes.add(name=attribute, full_name=full_name, checkpoint_key=key)
            tensors[key + suffix] = value
    _mark_nodes_with_values(graph)
    return tensors | {GRAPH_KEY: graph.SerializeToString(deterministic=True)}


def _mark_nodes_with_values(graph: Any) -> None:
    parents: dict[int, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        for child in node.children:
            parents.setdefault(child.node_id, []).append(number)
    waiting = [number for number, node in enumerate(graph.nodes) if node.attributes or node.slot_variables]
    marked = set(waiting)
    while waiting:
        above = set(parents.get(waiting.pop(), ())) - marked
        marked |= above
        waiting += above
    for number, node in enumerate(graph.nodes):
        node.has_checkpoint_values.value = number in marked


def parse(serialized: bytes, entries: Any, place: str) -> Any:
    """Return the graph of a checkpoint after checking that every number and key in it exists.

    Raises:
      DataLossError: it doesn't parse, has no node, or refers to a node or key that isn't there.
    """
    try:
        graph = TrackableObjectGraph.FromString(serialized)
    except DecodeError as cause:
        raise _broken(place, "it is no valid protocol buffer") from cause
    if not graph.nodes:
        raise _broken(place, "it has no node")
    for number, node in enumerate(graph.nodes):
        _check_node(number, node, len(graph.nodes), entries, place)
    return graph


def _check_node(number: int, node: Any, count: int, entries: Any, place: str) -> None:
    named = [child.node_id for child in node.children]
    named += [slot.original_variable_node_id for slot in node.slot_variables]
    named += [slot.slot_variable_node_id for slot in node.slot_variables]
    missing = next((other for other in named if not 0 <= other < count), None)
    if missing is not None:
        raise _broken(place, f"node {number} refers to node {missing} of {count}")
    for attribute in node.attributes:
        key = attribute.checkpoint_key
        if key not in entries and f"{key}{TABLE_SUFFIXES[0]}" not in entries:
            raise _broken(place, f"node {number} refers to the key {key}, which isn't in the index")


def _broken(place: str, what: str) -> DataLossError:
    return DataLossError(None, None, f"{place}, object graph: {what}. Restore an older checkpoint.")


def node_names(graph: Any) -> dict[int, str]:
    """A readable name for each node: ``(root).model.w``, or whose slot it is."""
    names, waiting = {0: "(root)"}, deque([0])
    while waiting:
        parent = waiting.popleft()
        for child in graph.nodes[parent].children:
            if child.node_id not in names:
                names[child.node_id] = f"{names[parent]}.{child.local_name}"
                waiting.append(child.node_id)
    for number, node in enumerate(graph.nodes):
        for slot in node.slot_variables:
            owner, original = names.get(number, number), names.get(slot.original_variable_node_id)
            names[slot.slot_variable_node_id] = f"{owner}'s state '{slot.slot_name}' for {original}"
    return {number: names.get(number, f"(node {number})") for number in range(len(graph.nodes))}
