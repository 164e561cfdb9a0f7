"""Encodes the graph of trackable objects in a checkpoint: nodes in breadth-first order, named edges, slot variables.

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
"""A lookup table is one attribute with two tensors, whose keys are the attribute's with these suffixes."""
ATTRIBUTES: Final = ".ATTRIBUTES"
OPTIMIZER_SLOT: Final = ".OPTIMIZER_SLOT"


@dataclass
class View:
    """The objects reachable from a root, including children that a `Checkpoint` attaches to it."""

    root: Trackable
    attached: dict[str, Trackable] = field(default_factory=dict)

    def children(self, trackable: Trackable) -> dict[str, Trackable]:
        tracked = trackable._trackable_children()
        return tracked if trackable is not self.root else tracked | self.attached

    def paths(self) -> dict[int, tuple[Trackable, tuple[str, ...]]]:
        """Finds all objects reachable from the root, breadth first.

        Returns each object with the attribute names on a shortest path to the object, by the object's ``id``. These
        paths become the keys in the checkpoint, which must be the same in each save.
        """
        paths: dict[int, tuple[Trackable, tuple[str, ...]]] = {id(self.root): (self.root, ())}
        queue = deque([self.root])
        while queue:
            parent = queue.popleft()
            _, path = paths[id(parent)]
            for name, child in self.children(parent).items():
                if id(child) not in paths:
                    paths[id(child)] = (child, (*path, name))
                    queue.append(child)
        return paths

    def objects(self) -> list[Trackable]:
        """Returns every object, slot variables included, in the order of node ids."""
        return [node.trackable for node in self.nodes()]

    def nodes(self) -> list[Node]:
        """Returns the nodes of the checkpoint's object graph, each with the key prefix of its values.

        An optimizer's slot variables (such as momentum) come last.
        """
        nodes = [Node(trackable, "/".join(map(escape, path))) for trackable, path in self.paths().values()]
        slots = list(_slots(nodes))
        for optimizer_index, variable_index, name, slot in slots:
            optimizer, variable = nodes[optimizer_index], nodes[variable_index]
            optimizer.slots.append((variable_index, name, len(nodes)))
            nodes.append(Node(slot, f"{variable.key}/{OPTIMIZER_SLOT}/{optimizer.key}/{escape(name)}"))
        return nodes


@dataclass
class Node:
    """One object of a graph to save; ``slots`` holds (original node, slot name, slot node)."""

    trackable: Trackable
    key: str
    slots: list[tuple[int, str, int]] = field(default_factory=list)


def _slots(nodes: list[Node]) -> Iterator[tuple[int, int, str, Trackable]]:
    """Yields the slot variables of all optimizers, such as the momentum of each trained variable.

    Yields the optimizer's index in ``nodes``, the trained variable's index, the slot's name, and the slot variable.
    """
    tracked_ids = {id(node.trackable) for node in nodes}
    for optimizer_index, node in enumerate(nodes):
        # Only optimizers with slots have this method. For other objects, `list()` gives no names.
        get_slot_names = getattr(node.trackable, "get_slot_names", list)
        for name in get_slot_names():
            for variable_index, variable_node in enumerate(nodes):
                slot = find_slot(node.trackable, variable_node.trackable, name)
                # A slot variable that is also tracked has a node already.
                if slot is not None and id(slot) not in tracked_ids:
                    yield optimizer_index, variable_index, name, slot


def find_slot(owner: Any, variable: Trackable, name: str) -> Trackable | None:
    """Returns the slot variable ``name`` that the optimizer ``owner`` has for ``variable``, or None.

    Optimizers with slot variables have the method ``get_slot``, as in TensorFlow; other objects have none.
    """
    try:
        slot = owner.get_slot(variable, name)
    except (AttributeError, KeyError):
        return None
    return slot if isinstance(slot, Trackable) else None


def escape(name: str) -> str:
    """Escapes a name in a checkpoint's key, in which ``/`` separates names and ``.`` starts reserved words.

    >>> escape("a/b.c")
    'a.Sb..c'
    """
    return name.replace(".", "..").replace("/", ".S")


@contextlib.contextmanager
def locked(trackables: Iterable[Trackable]) -> Iterator[None]:
    """Acquires the locks of all Variables among ``trackables`` for the ``with`` block.

    A training step assigns its Variables under these locks, so a checkpoint never contains an incomplete step. Values
    that were read under the locks stay valid, because an update doesn't overwrite an array to which others still refer.
    """
    locks = {id(lock): lock for trackable in trackables if (lock := getattr(trackable, "lock", None)) is not None}
    with contextlib.ExitStack() as stack:
        for _, lock in sorted(locks.items()):
            stack.enter_context(lock)
        yield


def serialize(view: View) -> dict[str, Any]:
    """Returns what a checkpoint stores, by key: the objects' values, and last the serialized object graph."""
    nodes = view.nodes()
    graph = TrackableObjectGraph()
    tensors = {}
    node_ids = {id(node.trackable): node_id for node_id, node in enumerate(nodes)}
    owned_count = len(view.paths())  # the nodes after these are slot variables, which have no children
    # Locked together, so that all values are of one moment.
    with locked(node.trackable for node in nodes):
        values = [node.trackable._serialize_to_tensors() for node in nodes]
    for node_id, node in enumerate(nodes):
        proto = graph.nodes.add()
        children = view.children(node.trackable) if node_id < owned_count else {}
        for name, child in children.items():
            proto.children.add(node_id=node_ids[id(child)], local_name=name)
        for original, name, slot in node.slots:
            proto.slot_variables.add(original_variable_node_id=original, slot_name=name, slot_variable_node_id=slot)
        for name, value in values[node_id].items():
            # The values of one attribute, such as a table's keys and values, differ in the suffix of the key.
            suffix = next(
                value_suffix for value_suffix in node.trackable._value_suffixes if name.endswith(value_suffix)
            )
            attribute = escape(name.removesuffix(suffix))
            key = f"{node.key}/{ATTRIBUTES}/{attribute}"
            full_name = getattr(node.trackable, "_shared_name", "")
            if all(other.name != attribute for other in proto.attributes):
                proto.attributes.add(name=attribute, full_name=full_name, checkpoint_key=key)
            tensors[key + suffix] = value
    _mark_nodes_with_values(graph)
    return tensors | {GRAPH_KEY: graph.SerializeToString(deterministic=True)}


def _mark_nodes_with_values(graph: Any) -> None:
    """Sets ``has_checkpoint_values`` in each node of an object graph from which a stored value is reachable.

    A restore can skip all other nodes (see trackable_object_graph.proto).
    """
    parents: dict[int, list[int]] = {}
    for node_id, node in enumerate(graph.nodes):
        for child in node.children:
            parents.setdefault(child.node_id, []).append(node_id)
    queue = [node_id for node_id, node in enumerate(graph.nodes) if node.attributes or node.slot_variables]
    marked = set(queue)
    while queue:
        unmarked = set(parents.get(queue.pop(), ())) - marked
        marked |= unmarked
        queue += unmarked
    for node_id, node in enumerate(graph.nodes):
        node.has_checkpoint_values.value = node_id in marked


def parse(serialized: bytes, entries: Any, source: str) -> Any:
    """Parses a checkpoint's object graph, and checks that every node ID and key in it exists.

    ``entries`` are the entries of the checkpoint's index; ``source`` names the checkpoint in errors.

    Raises:
      DataLossError: the message can't be parsed, has no node, or refers to a missing node or key.
    """
    try:
        graph = TrackableObjectGraph.FromString(serialized)
    except DecodeError as cause:
        raise _broken(source, "it is not a valid protocol buffer") from cause
    if not graph.nodes:
        raise _broken(source, "it has no node")
    for node_id, node in enumerate(graph.nodes):
        _check_node(node_id, node, len(graph.nodes), entries, source)
    return graph


def _check_node(node_id: int, node: Any, count: int, entries: Any, source: str) -> None:
    """Raises DataLossError if a node of a checkpoint's object graph refers to a node or key that does not exist.

    Args:
      node_id: the ID of the node.
      node: the node.
      count: the number of nodes.
      entries: the keys of the checkpoint's arrays.
      source: the name of the checkpoint in errors.
    """
    references = [child.node_id for child in node.children]
    references += [slot.original_variable_node_id for slot in node.slot_variables]
    references += [slot.slot_variable_node_id for slot in node.slot_variables]
    missing = next((other for other in references if not 0 <= other < count), None)
    if missing is not None:
        raise _broken(source, f"node {node_id} refers to node {missing} of {count}")
    for attribute in node.attributes:
        key = attribute.checkpoint_key
        if key not in entries and f"{key}{TABLE_SUFFIXES[0]}" not in entries:
            raise _broken(source, f"node {node_id} refers to the key {key}, which isn't in the index")


def _broken(source: str, reason: str) -> DataLossError:
    return DataLossError(None, None, f"{source}, object graph: {reason}. Restore an older checkpoint.")


def node_names(graph: Any) -> dict[int, str]:
    """Returns a readable name for each node of a checkpoint's object graph, by node ID.

    The name is the path from the root, for example ``(root).model.w``. The name of a slot variable contains its
    optimizer and its trained variable.
    """
    names = {0: "(root)"}
    queue = deque([0])
    while queue:
        parent = queue.popleft()
        for child in graph.nodes[parent].children:
            if child.node_id not in names:
                names[child.node_id] = f"{names[parent]}.{child.local_name}"
                queue.append(child.node_id)
    for node_id, node in enumerate(graph.nodes):
        for slot in node.slot_variables:
            owner = names.get(node_id, node_id)
            original = names.get(slot.original_variable_node_id)
            names[slot.slot_variable_node_id] = f"{owner}'s state '{slot.slot_name}' for {original}"
    return {node_id: names.get(node_id, f"(node {node_id})") for node_id in range(len(graph.nodes))}
