"""Shows which objects are reachable from a root, which a checkpoint holds, and where the two differ."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

from tvtf.core.log import logger
from tvtf.errors import NotFoundError
from tvtf.state.trackable import Trackable
from tvtf.train import bundle
from tvtf.train.checkpoint_state import PathLike
from tvtf.train.object_graph import GRAPH_KEY, View, parse

Matches = dict[int, Trackable]


class TrackableView:
    """The objects that a checkpoint of ``root`` would hold; the view has only a weak reference to ``root``.

    >>> import tvtf as tf
    >>> root = tf.Module()
    >>> root.w = tf.Variable(5.0)
    >>> list(tf.train.TrackableView(root).children(root)), len(tf.train.TrackableView(root).descendants())
    (['w'], 2)

    Source: https://www.tensorflow.org/api_docs/python/tf/train/TrackableView
    """

    def __init__(self, root: Trackable | weakref.ref[Trackable]) -> None:
        self._root = root if isinstance(root, weakref.ref) else weakref.ref(root)

    @classmethod
    def children(cls, obj: Trackable, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Trackable]:
        """Returns the direct children of ``obj`` by name."""
        return obj._trackable_children()

    @property
    def root(self) -> Trackable:
        """The object at which the view starts.

        Raises:
          ReferenceError: the object was deleted.
        """
        root = self._root()
        if root is None:
            raise ReferenceError(
                "TrackableView: its root was deleted; keep a reference to it as long as you use the view."
            )
        return root

    def descendants(self) -> list[Trackable]:
        """Returns ``root`` and everything reachable from it, breadth first."""
        return [trackable for trackable, _ in View(self.root).paths().values()]


class CheckpointView:
    """The objects of a checkpoint by node ID; the root is 0.

    Args:
      save_path: the result of `tf.train.Checkpoint.save`.

    Raises:
      ValueError: the checkpoint was saved by name, without a graph of objects.
      NotFoundError: the checkpoint does not exist.
      DataLossError: the checkpoint is damaged.

    >>> import tempfile
    >>> import tvtf as tf
    >>> path = tf.train.Checkpoint(w=tf.Variable(5.0)).write(tempfile.mkdtemp() + "/ckpt")
    >>> view = tf.train.CheckpointView(path)
    >>> view.children(0), view.descendants()
    ({'w': 1}, [0, 1])
    >>> view.diff(tf.Module())[1]
    [1]

    Source: https://www.tensorflow.org/api_docs/python/tf/train/CheckpointView
    """

    def __init__(self, save_path: PathLike) -> None:
        """Reads the object graph of a checkpoint.

        Raises ValueError if the checkpoint has no object graph, for example because TensorFlow 1 wrote it.
        """
        reader = bundle.Reader(save_path)
        try:
            serialized = reader.get_tensor(GRAPH_KEY)
        except NotFoundError as cause:
            raise ValueError(
                f'The specified checkpoint "{save_path}" does not appear to be object-based (saved with TF2) since it '
                f'is missing the key "{GRAPH_KEY}". Likely it was created with the TF1 name-based saver and does not '
                "contain an object dependency graph."
            ) from cause
        self._graph = parse(serialized, reader.entries, reader.prefix)

    def children(self, node_id: int) -> dict[str, int]:
        """Returns the node IDs of the direct children of object ``node_id``, by name."""
        return {child.local_name: child.node_id for child in self._graph.nodes[node_id].children}

    def descendants(self) -> list[int]:
        """Returns the node IDs of the root and everything reachable from it, breadth first."""
        node_ids = {0: None}  # a dict, because it keeps the order
        queue = deque([0])
        while queue:
            for child_id in self.children(queue.popleft()).values():
                if child_id not in node_ids:
                    node_ids[child_id] = None
                    queue.append(child_id)
        return list(node_ids)

    def match(self, obj: Trackable) -> Matches:
        """Matches ``obj`` to the root of the checkpoint's object graph, and attributes to the nodes of the same names.

        Returns the matched objects by node ID. Logs a warning if two objects match the same node.
        """
        if not isinstance(obj, Trackable):
            raise ValueError(f"Expected a Trackable, got {obj} of type {type(obj)}.")
        matched = {0: obj}
        queue = deque([0])
        while queue:
            node_id = queue.popleft()
            attributes = matched[node_id]._trackable_children()
            for name, child_id in self.children(node_id).items():
                if name not in attributes or child_id == 0:
                    continue
                if child_id not in matched:
                    matched[child_id] = attributes[name]
                    queue.append(child_id)
                elif matched[child_id] is not attributes[name]:
                    _warn_of_two(matched[child_id], attributes[name])
        return matched

    def diff(self, obj: Trackable) -> tuple[Matches, list[int], list[Trackable]]:
        """Compares the checkpoint's object graph with the objects reachable from ``obj``.

        Returns the matched objects by node ID, the IDs of unmatched nodes, and the list of unmatched objects.
        """
        matched = self.match(obj)
        matched_ids = {id(trackable) for trackable in matched.values()}
        unmatched_nodes = [node_id for node_id in self.descendants() if node_id not in matched]
        unmatched_objects = [
            trackable for trackable in TrackableView(obj).descendants() if id(trackable) not in matched_ids
        ]
        return matched, unmatched_nodes, unmatched_objects


def _warn_of_two(first: Trackable, second: Trackable) -> None:
    logger.warning(
        "Inconsistent references when matching the checkpoint into this object graph. The referenced objects are: "
        f"({first} and {second})."
    )
