"""Defines the results of `Checkpoint.restore`: assertions about how much was restored.

Source: https://www.tensorflow.org/api_docs/python/tf/train/Checkpoint#restore
"""

from __future__ import annotations

from typing import Any, Final

from tvtf.state.autotrackable import Trackable, TrackableDataStructure
from tvtf.train.object_graph import View, node_names
from tvtf.train.restoration import Restoration

MAX_LISTED: Final = 10
MSG_NO_CHECKPOINT: Final = "No checkpoint specified (save_path=None); nothing is being restored."


class CheckpointLoadStatus:
    """The state of a restore, which may continue as objects are created.

    >>> import tempfile
    >>> from tvtf.train import Checkpoint
    >>> from tvtf.state.variable import Variable
    >>> path = Checkpoint(w=Variable(1.0)).write(tempfile.mkdtemp() + "/ckpt")
    >>> status = Checkpoint(w=Variable(0.0), extra=Variable(2.0)).read(path)
    >>> status.assert_nontrivial_match() is status
    True
    >>> status.assert_existing_objects_matched()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: Found 1 Python objects that were not bound to checkpointed values, ...
    """

    def __init__(self, restoration: Restoration, view: View) -> None:
        self._restoration, self._view = restoration, view

    def assert_consumed(self) -> CheckpointLoadStatus:
        """Raises AssertionError unless every value of the checkpoint and every Python object was matched."""
        self.assert_existing_objects_matched()
        names = node_names(self._restoration.graph)
        for node in self._restoration.unmatched():  # the first one is reported
            raise AssertionError(
                f"Unresolved object in checkpoint {names[node]}: {self._restoration.graph.nodes[node]}"
            )
        if self._restoration.unused_attributes:
            unused = [
                f"{names[node]} ({self._restoration.objects[node]}): {attribute}" for node, attribute in self._unused()
            ]
            raise AssertionError(
                "Unused attributes in these objects (the attributes exist in the checkpoint but were not restored):\n"
                + "\n".join(unused)
            )
        return self

    def _unused(self) -> list[tuple[int, list[str]]]:
        return sorted(self._restoration.unused_attributes.items())

    def assert_existing_objects_matched(self) -> CheckpointLoadStatus:
        """Raises AssertionError if a Python object with values has none in the checkpoint."""
        unmatched = self._unmatched_objects()
        if unmatched:
            listed = unmatched[:MAX_LISTED]
            raise AssertionError(
                f"Found {len(unmatched)} Python objects that were not bound to checkpointed values, likely due to "
                f"changes in the Python program. Showing {len(listed)} of {len(unmatched)} unmatched objects: {listed}"
            )
        return self

    def assert_nontrivial_match(self) -> CheckpointLoadStatus:
        """Raises AssertionError if the restore matched no object but the root."""
        if len(self._restoration.objects) > 1:
            return self
        unmatched = self._unmatched_objects()
        if not unmatched:
            raise AssertionError(f"Nothing to load. No dependencies have been added to {self._view.root} yet.")
        raise AssertionError(
            "Nothing except the root object matched a checkpointed value. Typically this means that the checkpoint "
            "does not match the Python program. The following objects have no matching checkpointed value: "
            f"{unmatched}"
        )

    def _unmatched_objects(self) -> list[Trackable]:
        """Returns the Python objects with values that were not matched."""
        matched = {id(trackable) for trackable in self._restoration.objects.values()}
        return [
            trackable for trackable in self._view.objects() if id(trackable) not in matched and _has_values(trackable)
        ]

    def expect_partial(self) -> CheckpointLoadStatus:
        """Turns off the warnings about unused values of the checkpoint."""
        self._restoration.report.silent = True
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Sets a graph's variables in a session to their values; other variables have theirs already."""
        for trackable in self._restoration.objects.values():
            trackable._settle(session)

    def initialize_or_restore(self, session: Any = None) -> None:
        """Initializes the variables that were not restored, then does the same as `run_restore_ops`."""
        matched = {id(trackable) for trackable in self._restoration.objects.values()}
        for trackable in self._view.objects():
            if id(trackable) not in matched:
                trackable._initialize(session)
        self.run_restore_ops(session)


def _has_values(trackable: Trackable) -> bool:
    return not isinstance(trackable, TrackableDataStructure) and bool(trackable._tensor_specs())


class InitializationOnlyStatus:
    """The status of restoring None: nothing is restored, so that all assertions fail."""

    def __init__(self, view: View) -> None:
        self._view = view

    def assert_consumed(self) -> InitializationOnlyStatus:
        """Raises AssertionError."""
        raise AssertionError(MSG_NO_CHECKPOINT)

    assert_existing_objects_matched = assert_consumed
    assert_nontrivial_match = assert_consumed

    def expect_partial(self) -> InitializationOnlyStatus:
        """Returns this status."""
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Raises AssertionError."""
        raise AssertionError(MSG_NO_CHECKPOINT)

    def initialize_or_restore(self, session: Any = None) -> None:
        """Initializes a graph's variables in a session; other variables are initialized already."""
        for trackable in self._view.objects():
            trackable._initialize(session)
