"""Lists, tuples and dicts whose elements checkpoints track; attribute assignment wraps Python's containers in them.

They behave like the containers that they wrap. Replacing, deleting or moving a tracked element would change the names of
saved values, so the next save raises, as in TensorFlow (``tensorflow/python/trackable/data_structures.py``).
"""

from __future__ import annotations

import collections
import copy
import operator
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, SupportsIndex

from tvtf.state.trackable import NoDependency, Trackable
from tvtf.state.variable import Variable

if TYPE_CHECKING:
    from typing_extensions import Self

    _List = list[Any]
    _Dict = dict[Any, Any]
else:

    class _List(MutableSequence, list):
        """A list for ``isinstance``, whose methods are implemented by `MutableSequence`."""

    class _Dict(MutableMapping, dict):
        """A dict for ``isinstance``, whose methods are implemented by `MutableMapping`."""


MSG_LIST_MUTATED: Final = (
    "Unable to save the object {wrapper!r} (a list wrapper constructed to track trackable objects). A list element was "
    "replaced, deleted or moved. In order to support restoration on object creation, tracking is exclusively for "
    "append-only data structures.\n\nIf you don't need this list checkpointed, wrap it in a NoDependency object; it "
    "will be subsequently ignored."
)
MSG_CHANGED_OUTSIDE: Final = (
    "Unable to save the object {wrapper!r} (a {kind} wrapper constructed to track trackable objects). The wrapped "
    "{kind} was modified outside the wrapper (its final value was {now!r}, its value when a checkpoint dependency was "
    "added was {then!r}), which breaks restoration on object creation.\n\nIf you don't need this {kind} checkpointed, "
    "wrap it in a NoDependency object; it will be subsequently ignored."
)
MSG_KEY_NOT_STRING: Final = (
    "Unable to save the object {wrapper!r} (a dictionary wrapper constructed automatically on attribute assignment). "
    "The wrapped dictionary contains a non-string key which maps to a trackable object or mutable data structure.\n\n"
    "If you don't need this dictionary checkpointed, wrap it in a NoDependency object; it will be subsequently ignored."
)
_UNCHANGED: Any = object()


def wrap(value: Any) -> Any:
    """Wraps a list, dict or tuple so that a checkpoint finds the Variables in it. Returns other values unchanged.

    `NoDependency` marks a value that is not to be tracked. Such a value is returned itself, without a wrapper.

    >>> wrap([1, 2]), wrap({"a": 1}), wrap((1, [2]))
    (ListWrapper([1, 2]), DictWrapper({'a': 1}), _TupleWrapper((1, ListWrapper([2]))))
    """
    if isinstance(value, NoDependency):
        return value.value
    if isinstance(value, Trackable):
        return value
    if type(value) in (dict, collections.OrderedDict):
        return _DictWrapper(value)
    if type(value) is list:
        return ListWrapper(value)
    if isinstance(value, tuple) and _holds_trackable(value):
        return _wrap_tuple(value)
    return value


def wrap_and_track(owner: Trackable, name: str, value: Any) -> Any:
    """Wraps a list, dict or tuple, and tracks a trackable value under ``name`` as a child of ``owner``.

    Returns the wrapped value. A value in `NoDependency` is returned without being tracked.
    """
    wrapped = wrap(value)
    if isinstance(wrapped, Trackable) and not isinstance(value, NoDependency):
        owner._track(wrapped, name, overwrite=True)
    return wrapped


def _holds_trackable(values: tuple[Any, ...]) -> bool:
    """Returns whether a tuple has an element that `wrap` would wrap or that can be tracked, at any depth of tuples."""
    return any(
        isinstance(value, (NoDependency, Trackable))
        or type(value) in (dict, collections.OrderedDict, list)
        or (isinstance(value, tuple) and _holds_trackable(value))
        for value in values
    )


def _same_objects(left: Iterable[Any], right: Iterable[Any]) -> bool:
    """Returns whether two iterables yield identical objects in the same order."""
    left, right = list(left), list(right)
    return len(left) == len(right) and all(old is new for old, new in zip(left, right))


class TrackableDataStructure(Trackable):
    """The base class of the wrappers, by which the checkpoint's assertions recognise them.

    A layer of Keras 2 takes a wrapper for a container of layers: it finds the layers in `_values`, and the weights of its own
    attribute by the wrapper's properties.
    """

    trainable = True

    @property
    def _values(self) -> Iterable[Any]:
        """The elements; of a dict the values, in the order of the keys' texts."""
        return self  # type: ignore[return-value]

    def _collected(self, attribute: str) -> list[Any]:
        """Returns the elements of an attribute, a list, of all elements that have it, in one list."""
        tracked = [value for value in self._values if isinstance(value, Trackable)]
        return [each for value in tracked for each in getattr(value, attribute, ())]

    def _own_variables(self, *, trainable: bool) -> list[Any]:
        """Returns the Variables among the elements that are trainable, or those that are not."""
        return [value for value in self._values if isinstance(value, Variable) and value.trainable is trainable]

    @property
    def trainable_weights(self) -> list[Any]:
        """The trainable Variables of the layers among the elements, then those that are elements themselves."""
        if not self.trainable:
            return []
        return self._collected("trainable_variables") + self._own_variables(trainable=True)

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The Variables that are not trained: all of them if the container is not trainable."""
        frozen = self._collected("non_trainable_variables") + self._own_variables(trainable=False)
        if self.trainable:
            return frozen
        return self._collected("trainable_variables") + self._own_variables(trainable=True) + frozen

    @property
    def weights(self) -> list[Any]:
        return self.trainable_weights + self.non_trainable_weights

    @property
    def trainable_variables(self) -> list[Any]:
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[Any]:
        return self.non_trainable_weights

    @property
    def variables(self) -> list[Any]:
        return self.weights

    @property
    def layers(self) -> list[Any]:
        """The layers among the elements, and in containers among them, without duplicates."""
        layers: dict[int, Any] = {}
        for value in self._values:
            if isinstance(value, TrackableDataStructure):
                layers.update((id(layer), layer) for layer in value.layers)
            elif hasattr(value, "_is_layer") and not isinstance(value, type):
                layers.setdefault(id(value), value)
        return list(layers.values())

    @property
    def losses(self) -> list[Any]:
        return [loss for layer in self.layers for loss in getattr(layer, "losses", ())]

    @property
    def updates(self) -> list[Any]:
        return [update for layer in self.layers for update in getattr(layer, "updates", ())]


class _Wrapper(TrackableDataStructure):
    """The base of wrappers of a list or dict. The wrapped container remains the storage."""

    _storage: Any
    _before_change: Any
    """The content before code changed the storage directly, or `_UNCHANGED`."""

    def _require_unchanged(self, kind: str) -> None:
        """Raises ValueError if code changed the wrapped container, a list or dictionary (``kind``), directly."""
        if self._before_change is not _UNCHANGED:
            then = self._before_change
            raise ValueError(MSG_CHANGED_OUTSIDE.format(wrapper=self, kind=kind, now=self._storage, then=then))

    def __getitem__(self, key: Any) -> Any:
        return self._storage[key]

    def __len__(self) -> int:
        return len(self._storage)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._storage)


class ListWrapper(_Wrapper, _List):
    """A list whose trackable elements are tracked as ``"0"``, ``"1"``, ...; the wrapped list remains the storage.

    >>> layers = ListWrapper([Trackable()])
    >>> layers.append(Trackable())
    >>> list(layers._trackable_children())
    ['0', '1']
    """

    __hash__ = None

    def __init__(self, wrapped: Iterable[Any] = ()) -> None:
        """Wraps a list, which stays the storage; the items of another iterable are copied to a new list."""
        self._storage = wrapped if type(wrapped) is list else list(wrapped)
        self._moved, self._before_change = False, _UNCHANGED
        for index, value in enumerate(self._storage):
            self._storage[index] = wrap_and_track(self, str(index), value)
        self._update_base_list()

    def _trackable_children(self, save_type: str = "checkpoint", **_: Any) -> dict[str, Trackable]:
        """Returns the list's trackable items by index, as text.

        Raises:
          ValueError: an element was moved, or the wrapped list was changed directly. Checkpoints can't follow that.
        """
        self._detect_outside_change()
        if self._moved:
            raise ValueError(MSG_LIST_MUTATED.format(wrapper=self))
        self._require_unchanged("list")
        return super()._trackable_children()

    def _detect_outside_change(self) -> None:
        """Records that code changed the wrapped list directly, without this wrapper.

        The base class's list has the items after the wrapper's last change.
        """
        last_known = list(list.__iter__(self))
        if not self._moved and self._before_change is _UNCHANGED and not _same_objects(self._storage, last_known):
            self._before_change = last_known

    def _update_base_list(self) -> None:
        """Copies the storage into the base class's list, which C code reads, and `_detect_outside_change` compares."""
        list.__setitem__(self, slice(None), self._storage)

    def _before_move(self, *involved: Any) -> None:
        """Marks a list with trackable elements as not saveable, before elements move or are replaced.

        ``involved`` are elements that will be added.
        """
        self._detect_outside_change()
        if any(isinstance(value, Trackable) for value in (*self._storage, *involved)):
            self._moved = True

    def append(self, value: Any) -> None:
        self._detect_outside_change()
        self._storage.append(wrap_and_track(self, str(len(self._storage)), value))
        self._update_base_list()

    def insert(self, index: SupportsIndex, value: Any) -> None:
        """Inserts a value before ``index``. This moves later elements, unless the index is the end of the list."""
        if operator.index(index) >= len(self._storage):
            return self.append(value)
        self._before_move(value)
        self._storage.insert(index, wrap(value))
        return self._update_base_list()

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        self._before_move()
        self._storage.sort(key=key, reverse=reverse)
        self._update_base_list()

    def __setitem__(self, key: Any, value: Any) -> None:
        """Replaces an element or a slice, and tracks the new element under its index.

        A list whose trackable element was replaced can't be saved, as a checkpoint can't follow that.
        """
        if isinstance(key, slice):
            return self._set_slice(key, value)
        if isinstance(self._storage[key], Trackable):
            self._before_move()
        index = range(len(self._storage))[key]  # a negative index becomes positive
        self._storage[index] = wrap_and_track(self, str(index), value)
        return self._update_base_list()

    def _set_slice(self, key: slice, values: Iterable[Any]) -> None:
        """Replaces a slice of the list. A slice that starts at the list's end appends the values, and moves nothing."""
        values = [wrap(value) for value in values]
        start, _, _ = key.indices(len(self._storage))
        if start == len(self._storage):
            return self.extend(values)
        self._before_move(*values)
        self._storage[key] = values
        return self._update_base_list()

    def __delitem__(self, key: Any) -> None:
        self._before_move()
        del self._storage[key]
        self._update_base_list()

    def __imul__(self, times: int) -> Self:  # type: ignore[override,misc]
        """Repeats the list in place, as Python's ``*=`` does."""
        others = self._storage * (times - 1)
        if times <= 0:
            self.clear()
        self.extend(others)
        return self

    def __contains__(self, value: object) -> bool:
        return value in self._storage

    def copy(self) -> ListWrapper:
        return ListWrapper(list(self._storage))

    def __copy__(self) -> ListWrapper:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> ListWrapper:
        return ListWrapper(copy.deepcopy(self._storage, memo))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return ListWrapper, (self._storage,)

    def __add__(self, other: Any) -> Any:
        return self._storage + _unwrapped(other)

    def __radd__(self, other: Any) -> Any:
        return other + self._storage

    def __mul__(self, times: Any) -> Any:
        return self._storage * times

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return bool(self._storage == _unwrapped(other))

    def __ne__(self, other: object) -> bool:
        return bool(self._storage != _unwrapped(other))

    def __lt__(self, other: Any) -> bool:
        return bool(self._storage < _unwrapped(other))

    def __le__(self, other: Any) -> bool:
        return bool(self._storage <= _unwrapped(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self._storage > _unwrapped(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self._storage >= _unwrapped(other))

    def __repr__(self) -> str:
        return f"ListWrapper({self._storage!r})"


class _DictWrapper(_Wrapper, _Dict):
    """A dict whose trackable values are tracked under their keys; the wrapped dict remains the storage."""

    __hash__ = None

    @property
    def _values(self) -> Iterable[Any]:
        return [self._storage[key] for key in sorted(self._storage, key=str)]

    def __init__(self, wrapped: Any = ()) -> None:
        """Wraps a dict, which stays the storage; key-value pairs are copied to a new dict."""
        self._storage = wrapped if isinstance(wrapped, dict) else dict(wrapped)
        self._has_other_keys, self._before_change = False, _UNCHANGED
        for key, value in self._storage.items():
            self._storage[key] = self._wrap_value(key, value)
        self._update_base_dict()

    def _wrap_value(self, key: Any, value: Any) -> Any:
        """Wraps a value, and tracks it under a string key; with one under another key, the dict can't be saved."""
        if isinstance(key, str):
            return wrap_and_track(self, key, value)
        wrapped = wrap(value)
        if isinstance(wrapped, Trackable) and not isinstance(value, NoDependency):
            self._has_other_keys = True
        return wrapped

    def _trackable_children(self, save_type: str = "checkpoint", **_: Any) -> dict[str, Trackable]:
        """Returns the dict's trackable values by key.

        Raises:
          ValueError: a key of a trackable value is not a string, or the wrapped dict was changed directly.
        """
        self._detect_outside_change()
        if self._has_other_keys:
            raise ValueError(MSG_KEY_NOT_STRING.format(wrapper=self))
        self._require_unchanged("dictionary")
        return super()._trackable_children()

    def _detect_outside_change(self) -> None:
        """Records that code changed the wrapped dict directly, without this wrapper.

        The base class's dict has the items after the wrapper's last change.
        """
        last_known = dict(dict.items(self))
        same_keys = _same_objects(self._storage, last_known)
        unchanged = same_keys and _same_objects(self._storage.values(), last_known.values())
        if self._before_change is _UNCHANGED and not unchanged:
            self._before_change = last_known

    def _update_base_dict(self) -> None:
        """Copies the storage into the base class's dict, which C code reads, and `_detect_outside_change` compares."""
        dict.clear(self)
        dict.update(self, self._storage)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._detect_outside_change()
        self._storage[key] = self._wrap_value(key, value)
        self._update_base_dict()

    def __delitem__(self, key: Any) -> None:
        """Deletes a key; its value is no longer tracked."""
        self._detect_outside_change()
        del self._storage[key]
        if isinstance(key, str):
            self._untrack(key)
        self._update_base_dict()

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self._storage)

    def copy(self) -> _DictWrapper:
        return _DictWrapper(copy.copy(self._storage))

    def __copy__(self) -> _DictWrapper:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> _DictWrapper:
        return _DictWrapper(copy.deepcopy(self._storage, memo))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _DictWrapper, (self._storage,)

    def __or__(self, other: Any) -> Any:
        return self._storage | _unwrapped(other)

    def __ror__(self, other: Any) -> Any:
        return other | self._storage

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def __eq__(self, other: object) -> bool:
        return bool(self._storage == _unwrapped(other))

    def __repr__(self) -> str:
        return f"DictWrapper({self._storage!r})"

    def __str__(self) -> str:
        return str(self._storage)


class _TupleWrapper(TrackableDataStructure, tuple):  # type: ignore[type-arg]
    """A tuple or named tuple whose trackable elements are tracked under their index, and under their field name."""

    _wrapped_type: ClassVar[type] = tuple
    """The class of the tuples that are wrapped, by which nests compare them."""

    def _track_elements(self, is_tracked: Iterable[bool]) -> None:
        """Tracks the trackable elements under their indices and, in a named tuple, also under their field names.

        ``is_tracked`` says for each element whether it may be tracked.
        """
        fields = getattr(self, "_fields", ())
        elements = [(index, value) for index, (value, tracks) in enumerate(zip(self, is_tracked)) if tracks]
        names_and_values = [(fields[index], value) for index, value in elements] if fields else []
        names_and_values += [(str(index), value) for index, value in elements]
        for name, value in names_and_values:
            if isinstance(value, Trackable):
                self._track(value, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _wrap_tuple, (self._unwrapped_tuple(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _wrap_tuple(copy.deepcopy(self._unwrapped_tuple(), memo))

    def _unwrapped_tuple(self) -> tuple[Any, ...]:
        """Returns the elements as a tuple, or named tuple, of the class that was wrapped."""
        return _make_tuple(self._wrapped_type, tuple(self))

    def __repr__(self) -> str:
        return f"_TupleWrapper({self._unwrapped_tuple()!r})"

    def __str__(self) -> str:
        return str(self._unwrapped_tuple())


_TUPLE_WRAPPERS: dict[type, type] = {tuple: _TupleWrapper}


def _wrap_tuple(values: tuple[Any, ...]) -> Any:
    """Wraps a tuple or named tuple, and tracks its trackable elements.

    The wrapper of a named tuple has a class that inherits from the named tuple's class, created at the first use.
    """
    wrapper_class = _TUPLE_WRAPPERS.get(type(values))
    if wrapper_class is None:
        wrapper_class = _TUPLE_WRAPPERS[type(values)] = _wrapper_of(type(values))
    # Not by the class's constructor, because that of a named tuple takes the fields one by one.
    wrapper: Any = tuple.__new__(wrapper_class, [wrap(value) for value in values])
    wrapper._track_elements(not isinstance(value, NoDependency) for value in values)
    return wrapper


def _wrapper_of(tuple_class: Any) -> type:
    """Creates the class of the wrappers of a class of tuples.

    Methods of a named tuple such as ``_replace`` make tuples of its own class. Its fields may have names of the wrapper's
    properties.
    """
    names = ("_make", *tuple_class._fields) if hasattr(tuple_class, "_fields") else ()
    members = {name: getattr(tuple_class, name) for name in names}
    return type("_TupleWrapper", (_TupleWrapper, tuple_class), {**members, "_wrapped_type": tuple_class})


def _make_tuple(tuple_class: type, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Creates a tuple of a class, which may be that of a named tuple, from the elements."""
    return tuple.__new__(tuple_class, values)


def _unwrapped(value: Any) -> Any:
    """Returns the list or dict inside a wrapper; other values unchanged."""
    return getattr(value, "_storage", value) if isinstance(value, Mapping | MutableSequence) else value
