"""What `Checkpoint.restore` returns: assertions about how much was restored.

Source: https://www.tensorflow.org/api_docs/python/tf/train/Checkpoint#restore
"""

from __future__ import annotations

from typing import Any, Final

from tvtf.state.autotrackable import Trackable, TrackableDataStructure
from tvtf.train.object_graph import View, node_names
from tvtf.train.restoration import Restoration

SHOWN: Final = 10
MSG_NO_CHECKPOINT: Final = "No checkpoint specified (save_path=None); nothing is being restored."


class CheckpointLoadStatus:
    """The state of a restore that may still go on as objects are made.

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
        """Raise AssertionError unless every value of the checkpoint and every Python object found the other."""
        self.assert_existing_objects_matched()
        names = node_names(self._restoration.graph)
        for node in self._restoration.unmatched():
            raise AssertionError(
                f"Unresolved object in checkpoint {names[node]}: {self._restoration.graph.nodes[node]}"
            )
        if self._restoration.unused_attributes:
            told = [f"{names[n]} ({self._restoration.objects[n]}): {a}" for n, a in self._unused()]
            raise AssertionError(
                "Unused attributes in these objects (the attributes exist in the checkpoint but were not restored):\n"
                + "\n".join(told)
            )
        return self

    def _unused(self) -> list[tuple[int, list[str]]]:
        return sorted(self._restoration.unused_attributes.items())

    def assert_existing_objects_matched(self) -> CheckpointLoadStatus:
        """Raise AssertionError if an object that exists has values of its own but none in the checkpoint."""
        unmatched = self._unmatched_objects()
        if unmatched:
            shown = unmatched[:SHOWN]
            raise AssertionError(
                f"Found {len(unmatched)} Python objects that were not bound to checkpointed values, likely due to "
                f"changes in the Python program. Showing {len(shown)} of {len(unmatched)} unmatched objects: {shown}"
            )
        return self

    def assert_nontrivial_match(self) -> CheckpointLoadStatus:
        """Raise AssertionError if nothing but the root was matched."""
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
        matched = {id(trackable) for trackable in self._restoration.objects.values()}
        return [found for found in self._view.objects() if id(found) not in matched and _has_values(found)]

    def expect_partial(self) -> CheckpointLoadStatus:
        """Log nothing about values that were never asked for."""
        self._restoration.report.silent = True
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Puts the values of a graph's variables into a session; those of others were assigned when they were matched."""
        for found in self._restoration.objects.values():
            found._settle(session)

    def initialize_or_restore(self, session: Any = None) -> None:
        """As `run_restore_ops`, after it has initialized what was not restored."""
        matched = {id(found) for found in self._restoration.objects.values()}
        for found in self._view.objects():
            if id(found) not in matched:
                found._initialize(session)
        self.run_restore_ops(session)


def _has_values(trackable: Trackable) -> bool:
    return not isinstance(trackable, TrackableDataStructure) and bool(trackable._tensor_specs())


class InitializationOnlyStatus:
    """What `Checkpoint.restore` returns for None: there is nothing to restore, so all assertions fail."""

    def __init__(self, view: View) -> None:
        self._view = view

    def assert_consumed(self) -> InitializationOnlyStatus:
        """Raise AssertionError."""
        raise AssertionError(MSG_NO_CHECKPOINT)

    assert_existing_objects_matched = assert_consumed
    assert_nontrivial_match = assert_consumed

    def expect_partial(self) -> InitializationOnlyStatus:
        """Return itself."""
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Raise AssertionError."""
        raise AssertionError(MSG_NO_CHECKPOINT)

    def initialize_or_restore(self, session: Any = None) -> None:
        """Initializes the variables of a graph in a session; others were as they were made."""
        for found in self._view.objects():
            found._initialize(session)
