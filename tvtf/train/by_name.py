"""Restoring what TensorFlow 1's ``Saver`` wrote: values that have the names of variables, and no objects.

Source: ``NameBasedSaverStatus`` in ``tensorflow/python/checkpoint/checkpoint.py``.
"""

from __future__ import annotations

from typing import Any

from tvtf.state.trackable import Trackable
from tvtf.train.bundle import Reader
from tvtf.train.object_graph import View, locked
from tvtf.train.restoration import Values, check_fit, outside_trace


class NameBasedStatus:
    """What `Checkpoint.read` gives for such a checkpoint: every variable whose name is in it has its value.

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
        self._optional: list[Trackable] = []
        named = [(found, name) for found in view.objects() if (name := getattr(found, "_shared_name", None))]
        self._missing = [(found, name) for found, name in named if name not in reader.entries]
        values = [(found, _value(reader, found, name)) for found, name in named if name in reader.entries]
        self._restored = [found for found, _ in values]
        with outside_trace(), locked(self._restored):
            for found, value in values:
                found._restore_from_tensors(value)

    def add_to_optionally_restored(self, var: Trackable) -> None:
        """Has the assertions pass over a variable that the checkpoint may lack."""
        self._optional.append(var)

    def assert_consumed(self) -> NameBasedStatus:
        """Raises AssertionError unless each variable was restored."""
        missing = [(found, name) for found, name in self._missing if all(found is not each for each in self._optional)]
        if missing:
            told = "".join(f"\n    {found}: {[name]}" for found, name in missing)
            raise AssertionError(f"Some objects had attributes which were not restored: {told}")
        return self

    assert_existing_objects_matched = assert_consumed
    assert_nontrivial_match = assert_consumed

    def expect_partial(self) -> NameBasedStatus:
        """Gives itself: nothing is logged of values that nobody asked for."""
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Puts the values of a graph's variables into a session."""
        for found in self._restored:
            found._settle(session)

    initialize_or_restore = run_restore_ops


def _value(reader: Reader, found: Trackable, name: str) -> Values:
    [(attribute, (shape, dtype))] = found._tensor_specs().items()
    check_fit(reader, found, name, shape, dtype)
    return {attribute: reader.read(name)}
