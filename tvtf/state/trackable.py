"""`Trackable`, the base class of objects in checkpoints: named edges to other objects, own values, and deferred restores.

Edge names, their order and restore-on-creation follow TensorFlow's object-based checkpoints:
https://www.tensorflow.org/guide/checkpoint
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

import numpy as np

VARIABLE_VALUE: Final = "VARIABLE_VALUE"
DEFAULT_FUNCTION: Final = "_default_save_signature"
"""The name of an object's function that is its saved model's signature if none is given."""
TRACKING_ATTRIBUTES: Final = frozenset({"_self_tracking", "_self_setattr_tracking"})

Dims = tuple[int | None, ...] | None
TensorSpecs = dict[str, tuple[Dims, Any]]
AnyTrackable = TypeVar("AnyTrackable", bound="Trackable")


class DeferredRestore(Protocol):
    """An object in a checkpoint whose Python object does not exist yet; it is restored when that is created."""

    restore_uid: int

    def restore(self, trackable: Trackable) -> None: ...


class Tracking:
    """The edges of one object, in the order of their creation, and the deferred restores by the name of a future edge."""

    __slots__ = ("children", "deferred", "update_uid")

    def __init__(self) -> None:
        self.children: dict[str, Trackable] = {}
        self.deferred: dict[str, list[DeferredRestore]] = {}
        self.update_uid = -1

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracking:
        """Copies the edges without the deferred restores, which belong to the original object."""
        copied = Tracking()
        copied.children = copy.deepcopy(self.children, memo)
        copied.update_uid = self.update_uid
        return copied


class Trackable:
    """An object that checkpoints can save and restore.

    A subclass with values of its own overrides `_serialize_to_tensors` and `_restore_from_tensors`; one with other
    trackables calls `_track` (`tvtf.state.autotrackable.AutoTrackable` does so on attribute assignment).

    >>> from tvtf.trackable import Trackable
    >>> root, leaf = Trackable(), Trackable()
    >>> root._track(leaf, "leaf") is leaf, list(root._trackable_children())
    (True, ['leaf'])

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/trackable/base.py
    """

    @property
    def _tracking(self) -> Tracking:
        tracking = self.__dict__.get("_self_tracking")
        if tracking is None:
            tracking = Tracking()
            object.__setattr__(self, "_self_tracking", tracking)
        return tracking

    @property
    def _deferred_dependencies(self) -> dict[str, list[DeferredRestore]]:
        return self._tracking.deferred

    def _trackable_children(self, save_type: str = "checkpoint", **_: Any) -> dict[str, Trackable]:
        """Returns the tracked objects by edge name; their order is the order of node ids in a checkpoint.

        Args:
          save_type: "checkpoint", or "savedmodel", which may include more objects.
        """
        return dict(self._tracking.children)

    def _lookup_dependency(self, name: str) -> Trackable | None:
        return self._trackable_children().get(name)

    def _serialize_to_tensors(self) -> dict[str, np.ndarray[Any, Any]]:
        """Returns this object's own values by attribute name; for a Variable ``{"VARIABLE_VALUE": array}``.

        The caller holds the object's ``lock``, if it has one; the arrays must not change after it is released.
        """
        return {}

    _value_suffixes: tuple[str, ...] = ("",)
    """Suffixes of value names that belong to the same checkpoint attribute, such as a table's keys and values."""

    def _restore_from_tensors(self, tensors: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Restores values that `_serialize_to_tensors` returned; the caller has checked shapes and dtypes."""
        raise NotImplementedError(
            f"{type(self).__name__} received {sorted(tensors)} from a checkpoint but has no _restore_from_tensors; "
            "implement it next to _serialize_to_tensors."
        )

    def _settle(self, session: Any) -> None:
        """Writes restored values into a session of TensorFlow 1. Nothing to do outside its graphs."""

    def _initialize(self, session: Any) -> None:
        """Sets a graph's Variable to its initial value in a session. Nothing to do for others."""

    def _tensor_specs(self) -> TensorSpecs:
        """Returns shape (None for an unknown dim or rank) and dtype of each own value, to check restored ones against.

        A subclass overrides it if the shape may change, or to avoid reading the values.
        """
        arrays = {name: np.asarray(value) for name, value in self._serialize_to_tensors().items()}
        return {name: (array.shape, array.dtype) for name, array in arrays.items()}

    def _track(self, trackable: AnyTrackable, name: str, overwrite: bool = False) -> AnyTrackable:
        """Adds ``trackable`` as a child under ``name``; values that a checkpoint has for it are restored now.

        Raises:
          TypeError: ``trackable`` isn't a `Trackable`.
          ValueError: another object has this name and ``overwrite`` is false.
        """
        if not isinstance(trackable, Trackable):
            raise TypeError(
                f"{type(self).__name__}._track: expected a Trackable for {name!r}, got {type(trackable).__name__}."
            )
        known = self._tracking.children.get(name)
        if known is not None and known is not trackable and not overwrite:
            raise ValueError(
                f"{type(self).__name__}._track: {name!r} already names another object; "
                "choose another name or pass overwrite=True."
            )
        self._tracking.children[name] = trackable
        if known is None:
            self._restore_deferred(trackable, name)
        return trackable

    def _track_trackable(self, trackable: AnyTrackable, name: str, overwrite: bool = False) -> AnyTrackable:
        """Calls :meth:`_track`: TensorFlow's name for it, which other libraries' subclasses call and override."""
        return self._track(trackable, name, overwrite)

    def _add_variable_with_custom_getter(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        *,
        getter: Callable[..., Any],
        overwrite: bool = False,
        **options: Any,
    ) -> Any:
        """Creates a variable by calling ``getter``, and tracks it as a child; other libraries' subclasses call this."""
        variable = getter(name=name, shape=shape, dtype=dtype, initializer=initializer, **options)
        return self._track_trackable(variable, name, overwrite) if isinstance(variable, Trackable) else variable

    def _maybe_initialize_trackable(self) -> None:
        """Does nothing. Other libraries' subclasses call it, as TensorFlow needs it."""

    def _handle_deferred_dependencies(self, name: str, trackable: Trackable) -> None:
        """Runs the deferred restores for an edge that a subclass stores itself."""
        self._restore_deferred(trackable, name)

    def _untrack(self, name: str) -> None:
        self._tracking.children.pop(name, None)

    def _restore_deferred(self, trackable: Trackable, name: str) -> None:
        positions = self._deferred_dependencies.pop(name, [])
        for position in sorted(positions, key=lambda p: p.restore_uid, reverse=True):
            position.restore(trackable)


class NoDependency:
    """A wrapper for assigning a value to an attribute without tracking it; the attribute gets the value itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value
