"""`Module`: a named container of Variables, submodules and functions; and `name_scope`."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from tvtf.core import thread_state
from tvtf.core.nest import is_record, named_parts
from tvtf.state.autotrackable import TRACKING_ATTRIBUTES, AutoTrackable
from tvtf.state.variable import Variable

_HUMP: Final = re.compile(r"((?<=[a-z0-9])[A-Z]|(?!^)[A-Z](?=[a-z]))")
_IDENTIFIER: Final = re.compile(r"^[a-zA-Z_]([a-zA-Z0-9_])*$")

Path = tuple[Any, ...]
Method = TypeVar("Method", bound=Callable[..., Any])


class name_scope:
    """A context manager that prefixes the names of Variables and ops created inside it.

    A name that ends in ``/`` is an absolute scope; the empty name is the root scope.

    >>> with name_scope("outer"), name_scope("inner") as scope:
    ...     print(scope)
    outer/inner/

    Source: https://www.tensorflow.org/api_docs/python/tf/name_scope
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise ValueError(f"name_scope: expected a string for `name`, got {type(name).__name__}.")
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def __enter__(self) -> str:
        """Opens the name scope, and returns the scope's full name with a slash at the end.

        The scope is nested in the current one. A scope whose name is empty or ends in a slash is absolute instead.
        """
        outer_scopes = thread_state.state.name_scopes
        _outer.scopes.append(outer_scopes)
        # The trace of a TensorFlow 1 graph: such a graph makes the names of its scopes unique.
        if thread_state.state.trace is not None and thread_state.state.trace.has_keys:
            thread_state.state.name_scopes = thread_state.state.trace.graph.scope_of(self._name)
            return current_scope()
        is_absolute = not self._name or self._name.endswith("/")
        own_name = self._name.rstrip("/")
        names = [own_name] if is_absolute else [*outer_scopes, own_name]
        thread_state.state.name_scopes = [name for name in names if name]
        return current_scope()

    def __exit__(self, *exception: object) -> None:
        thread_state.state.name_scopes = _outer.scopes.pop()


class _OuterScopes(threading.local):
    """The scopes to restore on exit, per thread: several threads may enter the same `name_scope` object."""

    def __init__(self) -> None:
        self.scopes: list[list[str]] = []


_outer = _OuterScopes()


def current_scope() -> str:
    """Returns this thread's current name prefix, with a trailing slash; ``""`` outside every `name_scope`."""
    return "".join(f"{name}/" for name in thread_state.state.name_scopes)


class Module(AutoTrackable):
    """The base class of layers and models; it collects Variables and submodules from its attributes.

    Args:
      name: a Python identifier; default: the class name in snake case.

    Raises:
      ValueError: ``name`` isn't an identifier.

    >>> class TwoLayers(Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layers = [Module(name="first"), Module(name="second")]
    >>> model = TwoLayers()
    >>> model.name, [layer.name for layer in model.submodules]
    ('two_layers', ['first', 'second'])

    Source: https://www.tensorflow.org/api_docs/python/tf/Module
    """

    _TF_MODULE_IGNORED_PROPERTIES = TRACKING_ATTRIBUTES

    def __init__(self, name: str | None = None) -> None:
        """Names the module, by default after its class, and creates its name scope inside the current one."""
        name = camel_to_snake(type(self).__name__) if name is None else name
        if not _IDENTIFIER.match(name):
            raise ValueError(
                f"{name!r} is not a valid module name. Module names must be valid Python identifiers "
                "(e.g. a valid class name)."
            )
        self._name = name
        with name_scope(name) as scope:
            self._name_scope = name_scope(scope)  # the full name: the scope is absolute when it is opened again

    @property
    def name(self) -> str:
        """The module's name, without its parents' names, which `name_scope` has."""
        return self._name

    @property
    def name_scope(self) -> name_scope:
        """A context manager that prefixes names with this module's."""
        return self._name_scope

    @property
    def variables(self) -> tuple[Any, ...]:
        """All Variables: this module's in the order of attribute names, then those of submodules, breadth first."""
        return tuple(self._flatten(predicate=_is_variable))

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """The Variables whose ``trainable`` is true, in the order of `variables`."""
        return tuple(self._flatten(predicate=lambda leaf: _is_variable(leaf) and leaf.trainable))

    @property
    def non_trainable_variables(self) -> tuple[Any, ...]:
        """The Variables whose ``trainable`` is false, in the order of `variables`."""
        return tuple(self._flatten(predicate=lambda leaf: _is_variable(leaf) and not leaf.trainable))

    @property
    def submodules(self) -> tuple[Module, ...]:
        """All modules reachable through attributes, breadth first, without this one."""
        return tuple(self._flatten(predicate=_is_module))

    def _flatten(
        self,
        recursive: bool = True,
        predicate: Callable[[Any], bool] = lambda leaf: True,
        attribute_traversal_key: Callable[[str], Any] | None = None,
        with_path: bool = False,
        expand_composites: bool = False,
    ) -> Iterator[Any]:
        """Yields the values in the module's attributes that match ``predicate``.

        Lists, tuples and dicts are searched, too. Each value is yielded once.

        Args:
          recursive: whether to search the submodules' attributes, too.
          attribute_traversal_key: a function of an attribute's name, by which attributes are sorted.
          with_path: yield pairs of a path and a value, and a value once for each path that leads to it.
          expand_composites: accepted without effect.

        Source: https://www.tensorflow.org/api_docs/python/tf/Module (``_flatten``)
        """
        traversal = _Traversal(recursive, predicate, attribute_traversal_key, with_path)
        return traversal.walk(self, ())

    def _attributes_to_walk(self, key: Callable[[str], Any] | None) -> dict[str, Any]:
        """Returns the attributes to search for Variables and modules, by name.

        They are sorted by their names, or by the results of ``key`` for their names.
        """
        attributes = vars(self)
        names = sorted(attributes.keys() - self._TF_MODULE_IGNORED_PROPERTIES, key=key)  # type: ignore[type-var,arg-type]
        return {name: attributes[name] for name in names}

    @classmethod
    def with_name_scope(cls, method: Method) -> Method:
        """Decorates a method to run inside the module's name scope.

        >>> class Named(Module):
        ...     @Module.with_name_scope
        ...     def scope(self):
        ...         return current_scope()
        >>> Named().scope()
        'named/'
        """

        @functools.wraps(method)
        def run_in_scope(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return run_in_scope  # type: ignore[return-value]


class _Traversal:
    """A traversal of a module: its attributes' leaves in order, then its submodules recursively, with paths.

    A leaf is a value that is not a list, tuple, dict or record.
    """

    def __init__(self, recursive: bool, predicate: Callable[[Any], bool], key: Any, with_path: bool) -> None:
        self.recursive, self.predicate, self.key, self.with_path = recursive, predicate, key, with_path
        self.visited: set[int] = set()
        self.ancestors: list[int] = []

    def walk(self, module: Module, path: Path) -> Iterator[Any]:
        """Yields the leaves of a module's attributes that satisfy the predicate, then those of its submodules.

        ``path`` is the path to the module. With ``with_path``, yields pairs of a leaf's path and the leaf.
        """
        self.visited.add(id(module))
        submodules: list[tuple[Path, Module]] = []
        for leaf_path, leaf in self._new_leaves(module):
            if self.predicate(leaf):
                yield (path + leaf_path, leaf) if self.with_path else leaf
            # A module may contain itself. Inside itself it is not walked deeper, as the paths would never end.
            if self.recursive and _is_module(leaf) and id(module) not in self.ancestors:
                submodules.append((path + leaf_path, leaf))
        self.ancestors.append(id(module))
        for submodule_path, submodule in submodules:
            yield from self.walk(submodule, submodule_path)
        self.ancestors.pop()

    def _new_leaves(self, module: Module) -> Iterator[tuple[Path, Any]]:
        """Yields the leaves of a module's attributes with their paths; without ``with_path``, each leaf only once."""
        for name, value in module._attributes_to_walk(self.key).items():
            for path, leaf in _leaves(value, (name,)):
                if self.with_path or id(leaf) not in self.visited:
                    self.visited.add(id(leaf))
                    yield path, leaf


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yields the leaves of a nested structure with their paths.

    Elements of lists and tuples come by index, those of dicts by sorted key, as in tf.nest.

    Args:
      value: the structure.
      path: the path to the structure; its first part is the name of an attribute.
    """
    attribute = path[0]
    for key, element in _elements(value, attribute):
        yield from _leaves(element, (*path, key))
    if not isinstance(value, (list, tuple, dict)) and not is_record(value):
        yield path, value


def _elements(value: Any, attribute: str) -> Iterator[tuple[Any, Any]]:
    """Returns pairs of a key and an element of a list, tuple, dict or record; none for another value.

    The key is an index, a dict's key or a field's name. ``attribute`` names the value in errors.
    """
    if isinstance(value, dict):
        return iter([(key, value[key]) for key in _sorted_keys(value, attribute)])
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple
        return zip(value._fields, value)
    return iter(named_parts(value) if isinstance(value, (list, tuple)) or is_record(value) else ())


def _sorted_keys(value: dict[Any, Any], attribute: str) -> list[Any]:
    """Returns a dict's keys in sorted order. Raises ValueError, which names the attribute, if they can't be sorted."""
    try:
        return sorted(value)
    except TypeError as cause:
        raise ValueError(
            f"Error processing property {attribute!r} of {value!r}: its keys can't be sorted; use keys of one type."
        ) from cause


def _is_variable(leaf: Any) -> bool:
    """Returns whether a value is a Variable, or a variable of Keras, which has TensorFlow's marker attribute."""
    return isinstance(leaf, Variable) or getattr(type(leaf), "_should_act_as_resource_variable", False) is True


def _is_module(leaf: Any) -> bool:
    return isinstance(leaf, Module)


def camel_to_snake(name: str) -> str:
    """Converts a class name to snake case, as TensorFlow names modules.

    >>> camel_to_snake("MyHTTPLayer")
    'my_http_layer'
    """
    return _HUMP.sub(r"_\1", name).lower()
