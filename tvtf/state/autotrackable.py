"""`AutoTrackable`, whose attribute assignments checkpoints track; and the public names of all tracking classes."""

from __future__ import annotations

from typing import Any

from tvtf.state.containers import ListWrapper, TrackableDataStructure, _DictWrapper, _TupleWrapper, wrap, wrap_and_track
from tvtf.state.trackable import (
    TRACKING_ATTRIBUTES,
    VARIABLE_VALUE,
    DeferredRestore,
    NoDependency,
    TensorSpecs,
    Trackable,
)

__all__ = [
    "TRACKING_ATTRIBUTES",
    "VARIABLE_VALUE",
    "AutoTrackable",
    "DeferredRestore",
    "ListWrapper",
    "NoDependency",
    "TensorSpecs",
    "Trackable",
    "TrackableDataStructure",
    "_DictWrapper",
    "_TupleWrapper",
    "wrap",
    "wrap_and_track",
]

_UNSET = object()


class AutoTrackable(Trackable):
    """An object whose trackable attributes are tracked under their names; lists, tuples and dicts are wrapped.

    >>> from tvtf.track import AutoTrackable
    >>> root = AutoTrackable()
    >>> root.child, root.layers, root.count = AutoTrackable(), [AutoTrackable()], 3
    >>> list(root._trackable_children()), list(root.layers._trackable_children())
    (['child', 'layers'], ['0'])

    Source: https://www.tensorflow.org/api_docs/python/tf/Module (``tf.__internal__.tracking.AutoTrackable``)
    """

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute, and tracks a trackable value under the attribute's name.

        A list, tuple or dict is assigned in a wrapper, which tracks the elements.
        """
        if getattr(self, name, _UNSET) is value:
            return
        if getattr(self, "_self_setattr_tracking", True):
            value = wrap_and_track(self, name, value)
        super().__setattr__(name, value)

    def _no_dependency(self, value: Any) -> NoDependency:
        """Returns a wrapper of a value, for assigning it to an attribute without tracking."""
        return NoDependency(value)

    def __delattr__(self, name: str) -> None:
        self._untrack(name)
        super().__delattr__(name)

    _attributes_not_saved: frozenset[str] = frozenset()
    """The attributes whose functions are not saved in a saved model."""

    def _parts_of_saved_model(self) -> dict[str, Any]:
        """Returns the additional parts of a saved model of this object: functions and trackables by name.

        A subclass may override it to save functions that are not among the object's attributes.
        """
        return {}
