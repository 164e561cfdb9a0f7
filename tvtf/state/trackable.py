"""The base of everything a checkpoint can hold: named edges to other objects, values of its own, and waiting restores.

The rules (edge names, their order, restore on creation) are those of TensorFlow's object-based checkpoints:
https://www.tensorflow.org/guide/checkpoint
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

import numpy as np

VARIABLE_VALUE: Final = "VARIABLE_VALUE"
DEFAULT_FUNCTION: Final = "_default_save_signature"
"""The function of an object that is its saved model's signature where none is asked for."""
TRACKING_ATTRIBUTES: Final = frozenset({"_self_tracking", "_self_setattr_tracking"})

Dims = tuple[int | None, ...] | None
TensorSpecs = dict[str, tuple[Dims, Any]]
AnyTrackable = TypeVar("AnyTrackable", bound="Trackable")


class DeferredRestore(Protocol):
    """A checkpointed object that waits for its Python object to be created."""

    restore_uid: int

    def restore(self, trackable: Trackable) -> None: ...


class Tracking:
    """The edges of one object, in the order they were first made, and the restores that wait for further ones."""

    __slots__ = ("children", "deferred", "update_uid")

    def __init__(self) -> None:
        self.children: dict[str, Trackable] = {}
        self.deferred: dict[str, list[DeferredRestore]] = {}
        self.update_uid = -1

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracking:
        """What is waited for is not copied: a checkpoint's value goes to the object it was restored into."""
        copied = Tracking()
        copied.children = copy.deepcopy(self.children, memo)
        copied.update_uid = self.update_uid
        return copied


class Trackable:
    """An object that checkpoints follow.

    A subclass that owns values overrides `_serialize_to_tensors` and `_restore_from_tensors`; one that owns other
    trackables calls `_track` (`tvtf.state.autotrackable.AutoTrackable` does so on attribute assignment).

    >>> from tvtf.trackable import Trackable
    >>> root, leaf = Trackable(), Trackable()
    >>> root._track(leaf, "leaf") is leaf, list(root._trackable_children())
    (True, ['leaf'])

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/trackable/base.py
    """

    @property
    def _tracking(self) -> Tracking:
        found = self.__dict__.get("_self_tracking")
        if found is None:
            found = Tracking()
            object.__setattr__(self, "_self_tracking", found)
        return found

    @property
    def _deferred_dependencies(self) -> dict[str, list[DeferredRestore]]:
        return self._tracking.deferred

    def _trackable_children(self, save_type: str = "checkpoint", **_: Any) -> dict[str, Trackable]:
        """The edges out of this object by local name; their order is the order of node ids in a checkpoint.

        Args:
          save_type: "checkpoint" or "savedmodel", which may have more of them.
        """
        return dict(self._tracking.children)

    def _lookup_dependency(self, name: str) -> Trackable | None:
        return self._trackable_children().get(name)

    def _serialize_to_tensors(self) -> dict[str, np.ndarray[Any, Any]]:
        """This object's own values by attribute name; a variable returns ``{"VARIABLE_VALUE": array}``.

        It is called with the object's ``lock``, if it has one, held; the arrays must not change after that.
        """
        return {}

    _value_suffixes: tuple[str, ...] = ("",)
    """How the names of own values end that belong to one attribute of the checkpoint, as a table's keys and values do."""

    def _restore_from_tensors(self, tensors: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take values that `_serialize_to_tensors` once gave; shapes and dtypes were compared before the call."""
        raise NotImplementedError(
            f"{type(self).__name__} received {sorted(tensors)} from a checkpoint but has no _restore_from_tensors; "
            "implement it next to _serialize_to_tensors."
        )

    def _settle(self, session: Any) -> None:
        """Puts what was restored where a session of TensorFlow 1 finds it; outside of graphs it is there already."""

    def _initialize(self, session: Any) -> None:
        """Gives a variable of a graph its initial value in a session; others have theirs."""

    def _tensor_specs(self) -> TensorSpecs:
        """Shape (None for an unknown dim or rank) and dtype of each own value, which a restored one must fit.

        Override it where a shape may change, or where that is cheaper than a read.
        """
        arrays = {name: np.asarray(value) for name, value in self._serialize_to_tensors().items()}
        return {name: (array.shape, array.dtype) for name, array in arrays.items()}

    def _track(self, trackable: AnyTrackable, name: str, overwrite: bool = False) -> AnyTrackable:
        """Add an edge called ``name``, and restore what a checkpoint holds in wait for it.

        Raises:
          TypeError: ``trackable`` isn't a `Trackable`.
          ValueError: another object has this name and ``overwrite`` is false.
        """
        if not isinstance(trackable, Trackable):
            raise TypeError(
                f"{type(self).__name__}._track: expected a Trackable for {name!r}, got {type(trackable).__name__}."
            )
        current = self._tracking.children.get(name)
        if current is not None and current is not trackable and not overwrite:
            raise ValueError(
                f"{type(self).__name__}._track: {name!r} already names another object; "
                "choose another name or pass overwrite=True."
            )
        self._tracking.children[name] = trackable
        if current is None:
            self._restore_deferred(trackable, name)
        return trackable

    def _track_trackable(self, trackable: AnyTrackable, name: str, overwrite: bool = False) -> AnyTrackable:
        """:meth:`_track` by TensorFlow's name, which subclasses of other libraries call and override."""
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
        """A variable that ``getter`` makes, tracked: what other libraries' objects call for their own."""
        made = getter(name=name, shape=shape, dtype=dtype, initializer=initializer, **options)
        return self._track_trackable(made, name, overwrite) if isinstance(made, Trackable) else made

    def _maybe_initialize_trackable(self) -> None:
        """There is nothing to prepare; of that name since other libraries' objects call it."""

    def _handle_deferred_dependencies(self, name: str, trackable: Trackable) -> None:
        """Restores what a checkpoint holds in wait for an edge that a subclass keeps by itself."""
        self._restore_deferred(trackable, name)

    def _untrack(self, name: str) -> None:
        self._tracking.children.pop(name, None)

    def _restore_deferred(self, trackable: Trackable, name: str) -> None:
        waiting = self._deferred_dependencies.pop(name, [])
        for position in sorted(waiting, key=lambda p: p.restore_uid, reverse=True):
            position.restore(trackable)


class NoDependency:
    """Marks a value that is assigned to an attribute but not tracked; the attribute holds the bare value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value
