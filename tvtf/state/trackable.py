"""`Trackable`, the base class of objects in checkpoints: named edges to other objects, own values, and deferred restores.

Edge names, their order and restore-on-creation follow TensorFlow's object-based checkpoints:
https://www.tensorflow.org/guide/checkpoint
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

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


class TrackableReference(NamedTuple):
    """A trackable object that another one depends on, and the name of the dependency."""

    name: str
    ref: Any


class Tracking:
    """The tracked children of one object.

    ``children`` has them by name, in the order of their creation. ``deferred`` has restores of children that don't
    exist yet, by name. ``update_uid`` is the ID of the newest restore that assigned the object; IDs ascend in time.
    """

    __slots__ = ("children", "deferred", "update_uid")

    def __init__(self) -> None:
        self.children: dict[str, Trackable] = {}
        self.deferred: dict[str, list[DeferredRestore]] = {}
        self.update_uid = -1

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracking:
        """Copies the tracked children. Deferred restores are not copied: they belong to the original object."""
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
        """The object's tracked children and deferred restores, created at the first use.

        Subclasses need not call a constructor for it.
        """
        tracking = self.__dict__.get("_self_tracking")
        if tracking is None:
            tracking = Tracking()
            object.__setattr__(self, "_self_tracking", tracking)  # a subclass's `__setattr__` tracks values
        return tracking

    @property
    def _setattr_tracking(self) -> bool:
        """Whether attributes that are assigned are tracked. Keras 2's layers read and set it by this name, TensorFlow's."""
        return getattr(self, "_self_setattr_tracking", True)

    @_setattr_tracking.setter
    def _setattr_tracking(self, value: bool) -> None:
        self._self_setattr_tracking = value

    @property
    def _deferred_dependencies(self) -> dict[str, list[DeferredRestore]]:
        return self._tracking.deferred

    @property
    def _unconditional_checkpoint_dependencies(self) -> list[TrackableReference]:
        """The tracked children with their names. Libraries read them by this name, TensorFlow's."""
        return [TrackableReference(name, child) for name, child in self._tracking.children.items()]

    @property
    def _unconditional_dependency_names(self) -> dict[str, Trackable]:
        """The tracked children by name. Libraries read and add to them by this name, TensorFlow's."""
        return self._tracking.children

    def _trackable_children(self, save_type: str = "checkpoint", **_: Any) -> dict[str, Trackable]:
        """Returns the tracked child objects by name. A checkpoint numbers them in this order.

        Args:
          save_type: "checkpoint", or "savedmodel", for which a subclass may return more objects.
        """
        return dict(self._tracking.children)

    def _lookup_dependency(self, name: str) -> Trackable | None:
        return self._trackable_children().get(name)

    def _serialize_to_tensors(self) -> dict[str, np.ndarray[Any, Any]]:
        """Returns the values that a checkpoint stores for this object itself, without its children, by name.

        For a Variable they are ``{"VARIABLE_VALUE": array}``. The caller holds the object's ``lock``, if the object has
        one. The arrays must not change after the lock is released.
        """
        return {}

    _value_suffixes: tuple[str, ...] = ("",)
    """Suffixes of value names that belong to the same checkpoint attribute, such as a table's keys and values."""

    def _restore_from_tensors(self, tensors: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Restores the values that `_serialize_to_tensors` returned when a checkpoint was saved.

        The caller has checked the shapes and dtypes.
        """
        raise NotImplementedError(
            f"{type(self).__name__} received {sorted(tensors)} from a checkpoint but has no _restore_from_tensors; "
            "implement it next to _serialize_to_tensors."
        )

    def _settle(self, session: Any) -> None:
        """Writes restored values into a session of TensorFlow 1. Nothing to do outside its graphs."""

    def _initialize(self, session: Any) -> None:
        """Sets a graph's Variable to its initial value in a session. Nothing to do for others."""

    def _tensor_specs(self) -> TensorSpecs:
        """Returns the shape and dtype of each value of `_serialize_to_tensors`, by name.

        Values in a checkpoint must match them. None stands for an unknown dim or rank. A subclass overrides the method
        if the shape may change, or to avoid reading the values.
        """
        arrays = {name: np.asarray(value) for name, value in self._serialize_to_tensors().items()}
        return {name: (array.shape, array.dtype) for name, array in arrays.items()}

    def _track(self, trackable: AnyTrackable, name: str, overwrite: bool = False) -> AnyTrackable:
        """Adds ``trackable`` as a child under ``name``, and returns it.

        If a checkpoint was restored before the child existed, the child's values are restored now.

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
        """Calls :meth:`_track`. Other libraries' subclasses call and override the method by this name, TensorFlow's."""
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
        """Creates a variable by calling ``getter``, and tracks a trackable variable as a child under ``name``.

        Other libraries' subclasses call the method by this name, TensorFlow's.
        """
        variable = getter(name=name, shape=shape, dtype=dtype, initializer=initializer, **options)
        return self._track_trackable(variable, name, overwrite) if isinstance(variable, Trackable) else variable

    def _maybe_initialize_trackable(self) -> None:
        """Does nothing. Other libraries' subclasses call it, as TensorFlow needs it."""

    def _handle_deferred_dependencies(self, name: str, trackable: Trackable) -> None:
        """Restores a child's values from a checkpoint that was restored before the child existed.

        A subclass that stores its children itself calls the method.
        """
        self._restore_deferred(trackable, name)

    def _untrack(self, name: str) -> None:
        self._tracking.children.pop(name, None)

    def _delete_tracking(self, name: str) -> None:
        """Calls :meth:`_untrack`. Keras 2's models call the method by this name, TensorFlow's."""
        self._untrack(name)

    def _restore_deferred(self, trackable: Trackable, name: str) -> None:
        """Runs the restores that waited for the child ``name``, on ``trackable``.

        The newest restore runs first. Older restores leave objects alone that a newer one has assigned.
        """
        deferred_restores = self._deferred_dependencies.pop(name, [])
        for deferred in sorted(deferred_restores, key=lambda restore: restore.restore_uid, reverse=True):
            deferred.restore(trackable)


class NoDependency:
    """A wrapper for assigning a value to an attribute without tracking it; the attribute gets the value itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value
