"""What hangs from an object, what a checkpoint holds, and where the two differ."""

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
    """The objects that a checkpoint of ``root`` holds. The view does not keep ``root`` alive.

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
        """The objects that hang from ``obj`` itself, by name."""
        return obj._trackable_children()

    @property
    def root(self) -> Trackable:
        """The object that is looked at.

        Raises:
          ReferenceError: it is no more.
        """
        found = self._root()
        if found is None:
            raise ReferenceError("TrackableView: its root is no more; keep a reference to it while you look at it.")
        return found

    def descendants(self) -> list[Trackable]:
        """``root`` and all that hangs from it, breadth first."""
        return [found for found, _ in View(self.root).paths().values()]


class CheckpointView:
    """The objects of a checkpoint by number; 0 is the root.

    Args:
      save_path: what `tf.train.Checkpoint.save` returned.

    Raises:
      ValueError: it was saved by name, without its objects.
      NotFoundError: there is no such checkpoint.
      DataLossError: it is damaged.

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
        """The numbers of the objects that hang from object ``node_id``, by name."""
        return {child.local_name: child.node_id for child in self._graph.nodes[node_id].children}

    def descendants(self) -> list[int]:
        """The root and all that hangs from it, breadth first."""
        found, waiting = {0: None}, deque([0])
        while waiting:
            for child in self.children(waiting.popleft()).values():
                if child not in found:
                    found[child] = None
                    waiting.append(child)
        return list(found)

    def match(self, obj: Trackable) -> Matches:
        """The objects below ``obj`` that have the names of the checkpoint's, by the checkpoint's numbers."""
        if not isinstance(obj, Trackable):
            raise ValueError(f"Expected a Trackable, got {obj} of type {type(obj)}.")
        found, waiting = {0: obj}, deque([0])
        while waiting:
            number = waiting.popleft()
            named = found[number]._trackable_children()
            for name, child in self.children(number).items():
                if name not in named or child == 0:
                    continue
                if child not in found:
                    found[child] = named[name]
                    waiting.append(child)
                elif found[child] is not named[name]:
                    _warn_of_two(found[child], named[name])
        return found

    def diff(self, obj: Trackable) -> tuple[Matches, list[int], list[Trackable]]:
        """What `match` finds, the numbers that only the checkpoint has, and the objects that only ``obj`` has."""
        matched = self.match(obj)
        known = {id(found) for found in matched.values()}
        only_there = [number for number in self.descendants() if number not in matched]
        return matched, only_there, [found for found in TrackableView(obj).descendants() if id(found) not in known]


def _warn_of_two(first: Trackable, second: Trackable) -> None:
    logger.warning(
        "Inconsistent references when matching the checkpoint into this object graph. The referenced objects are: "
        f"({first} and {second})."
    )
