"""Attribute assignment that checkpoints follow: `AutoTrackable`, and the names of the rest of the family."""

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
    """An object whose trackable attributes become named edges; lists, tuples and dicts are wrapped on assignment.

    >>> from tvtf.track import AutoTrackable
    >>> root = AutoTrackable()
    >>> root.child, root.layers, root.count = AutoTrackable(), [AutoTrackable()], 3
    >>> list(root._trackable_children()), list(root.layers._trackable_children())
    (['child', 'layers'], ['0'])

    Source: https://www.tensorflow.org/api_docs/python/tf/Module (``tf.__internal__.tracking.AutoTrackable``)
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, name, _UNSET) is value:
            return
        if getattr(self, "_self_setattr_tracking", True):
            value = wrap_and_track(self, name, value)
        super().__setattr__(name, value)

    def _no_dependency(self, value: Any) -> NoDependency:
        """A value that may be assigned to an attribute without being tracked."""
        return NoDependency(value)

    def __delattr__(self, name: str) -> None:
        self._untrack(name)
        super().__delattr__(name)

    _attributes_not_saved: frozenset[str] = frozenset()
    """Attributes whose functions a saved model leaves out."""

    def _parts_of_saved_model(self) -> dict[str, Any]:
        """What a saved model has of this object, its root, beside its attributes: functions and trackables by name."""
        return {}
