"""Restores one checkpoint: matches its graph to Python objects, checks all values, then assigns them.

The restore of an object that doesn't exist yet is deferred: its parent stores the name of the edge to it, and restores the
object when that edge is created. The matching is TensorFlow's (``tensorflow/python/checkpoint/restore.py``).
"""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvtf import dtypes
from tvtf.core import thread_state
from tvtf.core.log import logger
from tvtf.errors import InvalidArgumentError, NotFoundError
from tvtf.state.trackable import Dims, Trackable
from tvtf.train.bundle import Entry, Reader
from tvtf.train.object_graph import find_slot, locked, node_names

_uids = itertools.count(1)

Values = dict[str, np.ndarray[Any, Any]]


@dataclass
class RestorePlan:
    """What a restore will do, found by matching a checkpoint's nodes to Python objects.

    Nothing of it has been done yet.
    """

    matched: dict[int, Trackable] = field(default_factory=dict)
    """The Python objects, by the numbers of their nodes in the checkpoint."""
    deferred: list[tuple[Trackable, str, int]] = field(default_factory=list)
    """The parent, attribute name and node of each object that does not exist yet."""
    unused: dict[int, list[str]] = field(default_factory=dict)
    """The attributes of nodes that their objects don't have."""
    values: list[tuple[Trackable, Values]] = field(default_factory=list)
    """The objects, with the values to assign to them."""
    read_keys: set[str] = field(default_factory=set)


class Position:
    """A node of the checkpoint whose Python object does not exist yet; see `tvtf.state.trackable.DeferredRestore`."""

    def __init__(self, restoration: Restoration, node: int) -> None:
        self.restoration, self.node = restoration, node
        self.restore_uid = restoration.uid

    def restore(self, trackable: Trackable) -> None:
        self.restoration.restore(trackable, self.node)


class Restoration:
    """The state of one restore, alive as long as an object's restore is deferred or a status refers to it."""

    def __init__(self, graph: Any, reader: Reader, skip_slots: bool = False) -> None:
        """Prepares the restore of a checkpoint with an object graph.

        ``skip_slots`` leaves out optimizers' slot variables.
        """
        self.graph = graph
        self.reader = reader
        self.uid = next(_uids)
        self.objects: dict[int, Trackable] = {}
        self.unused_attributes: dict[int, list[str]] = {}
        slots = [(owner, slot) for owner, node in enumerate(graph.nodes) for slot in node.slot_variables]
        self.open_slots = [] if skip_slots else slots
        self.skipped = {slot.slot_variable_node_id for _, slot in slots} if skip_slots else set()
        self.report = _Report(self)

    def restore(self, trackable: Trackable, node: int = 0, attached: dict[str, Trackable] | None = None) -> None:
        """Restores a Python object from a node, and all objects reachable from both by the same names.

        ``attached`` are further children of the root, by name.

        Raises:
          ValueError: a shape differs; nothing was assigned.
          InvalidArgumentError: a dtype differs; nothing was assigned.
          DataLossError: a value doesn't match its checksum; nothing was assigned.
        """
        if node in self.objects:
            return self._warn_of_duplicate(trackable, node)
        plan = RestorePlan()
        self._match(plan, deque([(trackable, node)]), attached or {})
        self._match_slot_variables(plan)
        for matched_node, matched_object in plan.matched.items():
            self._plan_values(plan, matched_node, matched_object)
        if not self.objects:
            # The first call verifies the rest of the checkpoint, too, as later objects may need any of it.
            self.reader.verify(known=plan.read_keys)
        return self._execute(plan)

    def _warn_of_duplicate(self, trackable: Trackable, node: int) -> None:
        """Logs a warning if ``trackable`` matches a node that another Python object has matched before."""
        if self.objects[node] is not trackable:
            logger.warning(
                "Inconsistent references when loading the checkpoint into this object graph: %s is one object in the "
                "checkpoint and two here, %r and %r. The second keeps its values.",
                node_names(self.graph)[node],
                self.objects[node],
                trackable,
            )

    def _match(self, plan: RestorePlan, queue: deque[tuple[Trackable, int]], attached: dict[str, Trackable]) -> None:
        """Matches nodes of the checkpoint's object graph to Python objects, breadth first.

        ``queue`` holds the pairs of object and node to start from. ``attached`` holds further children of the root, by
        name.
        """
        plan.matched.update((node, trackable) for trackable, node in queue)
        while queue:
            trackable, node = queue.popleft()
            children = trackable._trackable_children() | (attached if node == 0 else {})
            for edge in self.graph.nodes[node].children:
                self._match_child(plan, queue, trackable, children.get(edge.local_name), edge)

    def _match_child(
        self, plan: RestorePlan, queue: Any, parent: Trackable, child: Trackable | None, edge: Any
    ) -> None:
        """Matches a node of the object graph to the attribute of an object, by an edge of the graph.

        Keras, for example, creates variables only when a layer is first called.

        Without such an attribute, the restore of the node is deferred.

        Args:
          plan: what is matched and deferred so far.
          queue: pairs of an object and its node, whose children are matched later.
          parent: the object.
          child: the attribute with the edge's name, or None.
          edge: the edge, which has a name and leads to a node.
        """
        is_matched = edge.node_id in self.objects or edge.node_id in plan.matched
        if child is None:
            if not is_matched and self._has_values(edge.node_id):
                plan.deferred.append((parent, edge.local_name, edge.node_id))
        elif edge.node_id in self.objects:
            self._warn_of_duplicate(child, edge.node_id)
        elif not is_matched:
            plan.matched[edge.node_id] = child
            queue.append((child, edge.node_id))

    def _has_values(self, node: int) -> bool:
        """Returns whether a node or anything below it has values in the checkpoint."""
        proto = self.graph.nodes[node]
        if proto.HasField("has_checkpoint_values"):
            return bool(proto.has_checkpoint_values.value)
        return bool(proto.children or proto.attributes or proto.slot_variables)

    def _match_slot_variables(self, plan: RestorePlan) -> None:
        """Matches optimizers' slot variables (such as momentum) whose optimizer and trained variable are both matched.

        No edge of the object graph leads to a slot variable. All other slot variables remain in ``open_slots``.
        """
        matched = self.objects | plan.matched
        still_open = []
        for owner, slot in self.open_slots:
            original = slot.original_variable_node_id
            if owner in matched and original in matched:
                self._match_slot_variable(plan, matched[owner], matched[original], slot)
            else:
                still_open.append((owner, slot))
        self.open_slots = still_open

    def _match_slot_variable(self, plan: RestorePlan, owner: Trackable, original: Trackable, slot: Any) -> None:
        """Matches an optimizer's slot variable for a variable, or defers it until the optimizer creates it."""
        variable = find_slot(owner, original, slot.slot_name)
        if variable is None:
            plan.deferred.append((owner, slot_edge(original, slot.slot_name), slot.slot_variable_node_id))
        elif slot.slot_variable_node_id not in self.objects:
            plan.matched[slot.slot_variable_node_id] = variable

    def _plan_values(self, plan: RestorePlan, node: int, trackable: Trackable) -> None:
        """Reads and checks the checkpoint's values for ``trackable``, and adds the values to the plan.

        The plan assigns nothing before all values are checked. Objects that a newer restore has assigned are left
        alone.
        """
        keys = {
            attribute.name + suffix: attribute.checkpoint_key + suffix
            for attribute in self.graph.nodes[node].attributes
            for suffix in trackable._value_suffixes
        }
        if trackable._tracking.update_uid >= self.uid or not keys:
            return
        specs = trackable._tensor_specs()
        unused = [name for name in keys if name not in specs]
        if unused:
            plan.unused[node] = unused
        missing = [name for name in specs if keys.get(name) not in self.reader.entries]
        if missing:
            raise NotFoundError(None, None, self._error_text(trackable, f"the checkpoint has no {missing[0]} for it"))
        for name, (shape, dtype) in specs.items():
            check_fit(self.reader, trackable, keys[name], shape, dtype)
        if specs:
            plan.values.append((trackable, {name: self.reader.read(keys[name]) for name in specs}))
            plan.read_keys.update(keys[name] for name in specs)

    def _error_text(self, trackable: Trackable, what: str) -> str:
        name = getattr(trackable, "name", type(trackable).__name__)
        return f"Restoring {name} from {self.reader.prefix}: {what}. Nothing was restored."

    def _execute(self, plan: RestorePlan) -> None:
        """Assigns all values of a restore. They have been checked before, so a failed check changes nothing.

        Also marks the matched objects as restored, and stores in their parents which children to restore later.
        """
        with outside_trace(), locked(trackable for trackable, _ in plan.values):
            for trackable, values in plan.values:
                trackable._restore_from_tensors(values)
        for trackable in plan.matched.values():
            trackable._tracking.update_uid = max(trackable._tracking.update_uid, self.uid)
        self.objects |= plan.matched
        self.unused_attributes |= plan.unused
        for parent, name, node in plan.deferred:
            parent._deferred_dependencies.setdefault(name, []).append(Position(self, node))

    def unmatched(self) -> list[int]:
        """Returns the nodes with values that no Python object was bound to."""
        nodes = enumerate(self.graph.nodes)
        return [n for n, node in nodes if node.attributes and n not in self.objects and n not in self.skipped]


def check_fit(reader: Reader, trackable: Trackable, key: str, shape: Dims, dtype: Any) -> None:
    """Raises an error if the stored value ``key`` does not have the dtype and shape that ``trackable`` expects.

    Raises:
      InvalidArgumentError: the dtype differs.
      ValueError: the shape differs.
    """
    entry: Entry = reader.entries[key]
    expected_dtype = dtypes.as_dtype(dtype)
    if expected_dtype != entry.dtype:
        raise InvalidArgumentError(
            None,
            None,
            f"tensor_name = {key}; expected dtype {expected_dtype.name} does not equal original dtype "
            f"{entry.dtype.name}. Nothing was restored from {reader.prefix}; make the variable with the dtype "
            "it was saved with.",
        )
    if not (_is_compatible(entry.shape, shape) or _static_shape_allows(trackable, entry.shape)):
        raise ValueError(
            f"Received incompatible tensor with shape {entry.shape} when attempting to restore variable with "
            f"shape {shape} and name {getattr(trackable, 'name', key)}. Nothing was restored from "
            f"{reader.prefix}; make the variable with the shape it was saved with."
        )


def _is_compatible(stored: tuple[int, ...], expected: Dims) -> bool:
    """Returns whether a stored shape matches an expected one, in which None is an unknown dim or rank."""
    if expected is None:
        return True
    return len(stored) == len(expected) and all(
        expected_dim is None or dim == expected_dim for dim, expected_dim in zip(stored, expected)
    )


def _static_shape_allows(trackable: Any, stored: tuple[int, ...]) -> bool:
    """Returns whether a Variable's static shape, which may be wider than its value's, admits a stored shape."""
    shape: Any = getattr(trackable, "shape", None)
    return hasattr(shape, "is_compatible_with") and bool(shape.is_compatible_with(stored))


@contextlib.contextmanager
def outside_trace() -> Iterator[None]:
    """Runs the ``with`` block eagerly: values are restored now, even while a function is traced."""
    outer_trace, thread_state.state.trace = thread_state.state.trace, None
    try:
        yield
    finally:
        thread_state.state.trace = outer_trace


def slot_edge(variable: Trackable, slot_name: str) -> str:
    """Returns the edge name under which a slot variable's restore is deferred; no attribute can have it."""
    return f".slot/{id(variable)}/{slot_name}"


def restore_slot(owner: Trackable, variable: Trackable, slot_name: str, slot: Trackable) -> None:
    """Restores a slot variable that ``owner`` (an optimizer) has just created, if a checkpoint holds its value.

    >>> restore_slot(Trackable(), Trackable(), "momentum", Trackable())
    """
    owner._restore_deferred(slot, slot_edge(variable, slot_name))


class _Report:
    """Logs the unused parts of a checkpoint when its restore is garbage collected, as TensorFlow does."""

    def __init__(self, restoration: Restoration) -> None:
        self.graph, self.skipped = restoration.graph, restoration.skipped
        self.objects, self.unused, self.silent = restoration.objects, restoration.unused_attributes, False

    def __del__(self) -> None:
        if not self.silent:
            self._log(node_names(self.graph))

    def _log(self, names: dict[int, str]) -> None:
        """Logs a warning for each value that no Python object took, and for each attribute that an object lacks.

        ``names`` holds the nodes' readable names.
        """
        for node, proto in enumerate(self.graph.nodes):
            if proto.attributes and node not in self.objects and node not in self.skipped:
                logger.warning("Value in checkpoint could not be found in the restored object: %s", names[node])
        for node, attributes in self.unused.items():
            text = "An attribute of the checkpoint could not be found in the restored object. Object: %s, attribute: %s"
            logger.warning(text, names[node], attributes)
