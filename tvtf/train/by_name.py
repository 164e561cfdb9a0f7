"""Restores name-based checkpoints, which TensorFlow 1's ``Saver`` wrote: values by variables' names, without objects.

Source: ``NameBasedSaverStatus`` in ``tensorflow/python/checkpoint/checkpoint.py``.
"""

from __future__ import annotations

from typing import Any

from tvtf.state.trackable import Trackable
from tvtf.train.bundle import Reader
from tvtf.train.object_graph import View, locked
from tvtf.train.restoration import Values, check_fit, outside_trace


class NameBasedStatus:
    """The status of restoring a name-based checkpoint, which sets every variable whose name it contains.

    >>> import tempfile
    >>> import tvtf as tf
    >>> a, b = tf.Variable(1., name="a"), tf.Variable(2., name="b")
    >>> path = tf.compat.v1.train.Saver([a]).save(None, tempfile.mkdtemp() + "/old")
    >>> _ = a.assign(0.)
    >>> status = tf.train.Checkpoint(variables=[a, b]).read(path)
    >>> a.numpy(), b.numpy()
    (np.float32(1.0), np.float32(2.0))
    >>> status.assert_consumed()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: Some objects had attributes which were not restored: ...
    """

    def __init__(self, reader: Reader, view: View) -> None:
        """Restores the variables of a checkpoint of TensorFlow 1, which stores values under the variables' names.

        ``view`` gives the Python objects. All values are read and checked before the first is assigned.
        """
        self._optional: list[Trackable] = []
        self._missing: list[tuple[Trackable, str]] = []
        values = []
        for trackable in view.objects():
            name = getattr(trackable, "_shared_name", None)
            if not name:  # not a variable
                continue
            if name in reader.entries:
                values.append((trackable, _value(reader, trackable, name)))
            else:
                self._missing.append((trackable, name))
        self._restored = [trackable for trackable, _ in values]
        with outside_trace(), locked(self._restored):
            for trackable, value in values:
                trackable._restore_from_tensors(value)

    def add_to_optionally_restored(self, var: Trackable) -> None:
        """Excludes a variable from the assertions."""
        self._optional.append(var)

    def assert_consumed(self) -> NameBasedStatus:
        """Raises AssertionError unless each variable was restored."""
        missing = [
            (trackable, name)
            for trackable, name in self._missing
            if all(trackable is not optional for optional in self._optional)
        ]
        if missing:
            listed = "".join(f"\n    {trackable}: {[name]}" for trackable, name in missing)
            raise AssertionError(f"Some objects had attributes which were not restored: {listed}")
        return self

    assert_existing_objects_matched = assert_consumed
    assert_nontrivial_match = assert_consumed

    def expect_partial(self) -> NameBasedStatus:
        """Returns this status; unused values are never logged."""
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Sets a graph's variables in a session to their values."""
        for trackable in self._restored:
            trackable._settle(session)

    initialize_or_restore = run_restore_ops


def _value(reader: Reader, trackable: Trackable, name: str) -> Values:
    """Reads the value of a variable after checking its dtype and shape."""
    [(attribute, (shape, dtype))] = trackable._tensor_specs().items()
    check_fit(reader, trackable, name, shape, dtype)
    return {attribute: reader.read(name)}
