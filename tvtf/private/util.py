"""Names of ``tensorflow.python.util``: decorators for deprecated or public functions, and an ``inspect`` that unwraps them.

Source: https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/python/util
"""

from __future__ import annotations

import inspect
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSet, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ClassVar, NamedTuple, TypeVar

from tvtf.core import nest
from tvtf.core.composite import CompositeTensor
from tvtf.core.log import logger
from tvtf.core.primitive import public_names
from tvtf.frontend.function.polymorphic_function import Function as GenericFunction
from tvtf.state.variable import Variable

Callee = TypeVar("Callee", bound=Callable[..., Any])

# -- deprecation


class _DeprecationLog:
    """Logs deprecation warnings, each only once, unless the user has silenced them."""

    is_on = True

    def __init__(self) -> None:
        self.logged: set[Any] = set()

    def warn(self, key: Any, text: str, *values: Any, once: bool = True) -> None:
        """Logs a warning. With ``once``, it is not logged again for the same ``key``, such as the deprecated function.

        ``text`` is a format string for ``values``, as of Python's ``logging``.
        """
        if self.is_on and not (once and key in self.logged):
            self.logged.add(key)
            logger.warning(text, *values)


_deprecation_log = _DeprecationLog()


@contextmanager
def silence() -> Iterator[None]:
    """Suppresses deprecation warnings in the ``with`` block."""
    was_on, _deprecation_log.is_on = _deprecation_log.is_on, False
    try:
        yield
    finally:
        _deprecation_log.is_on = was_on


def _removal_time(date: str | None) -> str:
    """Returns when a deprecated name will be removed, in words for a warning."""
    return f"after {date}" if date else "in a future version"


def _with_check(function: Callee, check: Callable[[Callable[..., Any], Any, Any], Any]) -> Callee:
    """Wraps a function so that each call first calls ``check(function, args, kwargs)``, which may log deprecation warnings."""

    @wraps(function)
    def checked_call(*args: Any, **kwargs: Any) -> Any:
        check(function, args, kwargs)
        return function(*args, **kwargs)

    return make_decorator(function, checked_call)  # type: ignore[no-any-return]


def deprecated(date: str | None, instructions: str, warn_once: bool = True) -> Callable[[Any], Any]:
    """Returns a decorator for a deprecated function or class. A call of the function or class logs a warning.

    ``date`` is None or the date after which the function will be removed. ``instructions`` say what to use instead. With
    ``warn_once``, only the first call logs the warning.
    """

    def decorate(function: Any) -> Any:
        """Returns a wrapper of a deprecated function, or a subclass of a deprecated class, that logs a warning."""

        def check(called: Any, args: Any, kwargs: Any) -> None:
            text = "%s (from %s) is deprecated and will be removed %s.\nInstructions for updating:\n%s"
            _deprecation_log.warn(
                called, text, called.__qualname__, called.__module__, _removal_time(date), instructions, once=warn_once
            )

        if not inspect.isclass(function):
            return _with_check(function, check)
        members = {"__init__": _with_check(function.__init__, lambda _, args, kwargs: check(function, args, kwargs))}
        return type(function)(  # type: ignore[misc] # a class, whose type makes classes
            function.__name__, (function,), {**members, "__module__": function.__module__}
        )

    return decorate


def deprecated_alias(deprecated_name: str, name: str, func_or_class: Any, warn_once: bool = True) -> Any:
    """Returns a function or class for its old name. A call logs a warning with the new name."""
    return deprecated(None, f"Please use {name} instead of {deprecated_name}.", warn_once)(func_or_class)


def deprecated_args(
    date: str | None, instructions: str, *deprecated_arg_names_or_tuples: Any, **kwargs: Any
) -> Callable[[Callee], Callee]:
    """Returns a decorator for a function with deprecated arguments. A call that passes one of them logs a warning.

    Args:
      date: the date after which the arguments will be removed, or None.
      instructions: tells users what to use instead.
      deprecated_arg_names_or_tuples: the arguments' names. A tuple is a name and a value that causes no warning.
      kwargs: ``warn_once``, whether only the first call logs the warning.

    Raises:
      ValueError: there are no names.
    """
    if not deprecated_arg_names_or_tuples:
        raise ValueError("Specify which argument is deprecated.")
    once = kwargs.pop("warn_once", True)
    names = {each if isinstance(each, str) else each[0]: each for each in deprecated_arg_names_or_tuples}

    def decorate(function: Callee) -> Callee:
        """Wraps a function so that a call which passes a deprecated argument logs a warning.

        Raises:
          ValueError: the function has no argument of one of the deprecated names.
        """
        signature = inspect.signature(function)
        missing = [name for name in names if name not in signature.parameters and not _takes_more(signature)]
        if missing:
            raise ValueError(
                f"The following deprecated arguments are not present in the function signature: {missing}. Expected "
                f"arguments from the following list: {list(signature.parameters)}."
            )

        def check(called: Any, args: Any, kwargs: Any) -> None:
            """Logs a warning for each deprecated argument that a call passes."""
            # ``bind_partial`` lists arguments for ``**kwargs`` of the function only together.
            passed = {**signature.bind_partial(*args, **kwargs).arguments, **kwargs}
            for name in names:
                if name in passed and not _is_exempt(names[name], passed[name]):
                    _warn_of_argument(called, name, name, date, instructions, once)

        return _with_check(function, check)

    return decorate


def _warn_of_argument(called: Any, name: str, passed: str, date: str | None, instructions: str, once: bool) -> None:
    """Logs a warning that an argument of the function ``called``, or a value of the argument, is deprecated.

    Args:
      called: the function.
      name: the name of the argument.
      passed: the argument in words for the warning, such as "axis" or "axis=None".
      date: the date after which the argument will be removed, or None.
      instructions: what to do instead.
      once: whether the warning is logged only once for this function and argument.
    """
    text = "Calling %s (from %s) with %s is deprecated and will be removed %s.\nInstructions for updating:\n%s"
    values = called.__name__, called.__module__, passed, _removal_time(date), instructions
    _deprecation_log.warn((called, name), text, *values, once=once)


def _takes_more(signature: inspect.Signature) -> bool:
    """Returns whether a function accepts arguments that the signature doesn't name, as ``*args`` or ``**kwargs``."""
    return any(
        parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        for parameter in signature.parameters.values()
    )


def _is_exempt(declared: Any, value: Any) -> bool:
    """Returns whether a value of a deprecated argument causes no warning.

    ``declared`` is the argument's name, or a tuple of the name and the value that causes no warning.
    """
    return not isinstance(declared, str) and len(declared) > 1 and declared[1] is value


def deprecated_arg_values(
    date: str | None, instructions: str, warn_once: bool = True, **deprecated_kwargs: Any
) -> Callable[[Callee], Callee]:
    """Returns a decorator for a function with deprecated values of arguments. A call that passes one logs a warning.

    ``date`` is None or the date after which the values will be rejected. ``instructions`` say what to use instead.
    ``deprecated_kwargs`` are the deprecated values by the names of the arguments.

    Raises:
      ValueError: there are no deprecated values.
    """
    if not deprecated_kwargs:
        raise ValueError("Specify which argument values are deprecated.")

    def decorate(function: Callee) -> Callee:
        """Wraps a function so that a call which passes a deprecated value logs a warning."""
        signature = inspect.signature(function)

        def check(called: Any, args: Any, kwargs: Any) -> None:
            """Logs a warning for each argument that has its deprecated value."""
            passed = signature.bind_partial(*args, **kwargs).arguments
            for name, value in deprecated_kwargs.items():
                if name in passed and passed[name] is value:
                    _warn_of_argument(called, name, f"{name}={value}", date, instructions, warn_once)

        return _with_check(function, check)

    return decorate


def deprecated_argument_lookup(new_name: str, new_value: Any, old_name: str, old_value: Any) -> Any:
    """Returns the value of a renamed argument, which may be passed by its new or its old name.

    An argument that is not passed has the value None.

    Args:
      new_name, old_name: the argument's names.
      new_value, old_value: the values that were passed by these names.

    Raises:
      ValueError: the argument is passed by both names.
    """
    if old_value is not None:
        if new_value is not None:
            raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'.")
        return old_value
    return new_value


def rewrite_argument_docstring(old_doc: str, old_argument: str, new_argument: str) -> str:
    """Replaces the old name of an argument in a docstring by the new name."""
    return old_doc.replace(f"`{old_argument}`", f"`{new_argument}`").replace(f"{old_argument}:", f"{new_argument}:")


# -- decorators


def make_decorator(
    target: Any,
    decorator_func: Any,
    decorator_name: str | None = None,
    decorator_doc: str = "",
    decorator_argspec: Any = None,
) -> Any:
    """Gives ``decorator_func`` the name, docstring and signature of ``target``, the function that it wraps. Returns it.

    The target is stored, so that :func:`unwrap` finds it. ``decorator_name`` and ``decorator_doc`` are not used.
    """
    decorated: Any = wraps(target)(decorator_func)
    decorated._tf_decorator = target
    if isinstance(decorator_argspec, inspect.Signature):
        decorated.__signature__ = decorator_argspec
    return decorated


class Decorator(NamedTuple):
    """One of the decorators of a function: the wrapper that it returned, and the function in this wrapper."""

    decorator_func: Any
    decorated_target: Any

    @property
    def decorator_argspec(self) -> Any:
        """None, because the wrapper has the same arguments as the function."""
        return None

    @property
    def decorator_name(self) -> str:
        return getattr(self.decorator_func, "__name__", type(self.decorator_func).__name__)


def unwrap(maybe_tf_decorator: Any) -> tuple[list[Decorator], Any]:
    """Finds the function within TensorFlow's decorators.

    Returns the decorators, outermost first, and the innermost function.
    """
    decorators: list[Decorator] = []
    function = maybe_tf_decorator
    while (wrapped := _wrapped(function)) is not None:
        decorators.append(Decorator(function, wrapped))
        function = wrapped
    return decorators, function


def _wrapped(function: Any) -> Any:
    """Returns the function in a wrapper that a decorator of TensorFlow or tvtf made, or None.

    Wrappers of other decorators are not unwrapped.
    """
    if isinstance(function, GenericFunction):  # a tf.function
        return function.python_function
    target = getattr(function, "_tf_decorator", None)
    return getattr(function, "__wrapped__", None) if target is None and _is_own(function) else target


def _is_own(function: Any) -> bool:
    """Returns whether a function is defined in tvtf."""
    return str(getattr(function, "__module__", "")).partition(".")[0] == "tvtf"


def getfullargspec(obj: Any) -> inspect.FullArgSpec:
    """Returns the ``inspect.getfullargspec`` of the function within decorators, or of the ``__init__`` of a class.

    Annotations of tvtf's functions are removed: TensorFlow's functions have none, and libraries compare these specs with those
    of their own functions.
    """
    function = unwrap(obj)[1]
    if inspect.isclass(function):
        function = function.__init__
    spec = inspect.getfullargspec(function)
    return spec._replace(annotations={}) if _is_own(function) else spec


class ArgSpec(NamedTuple):
    """The arguments of a function as Python 2's ``inspect.getargspec`` told them: ``keywords`` names ``**kwargs``."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def getargspec(obj: Any) -> ArgSpec:
    """Returns :func:`getfullargspec` in the form of Python 2, with keyword-only arguments among the positional ones."""
    spec = getfullargspec(obj)
    defaults = (*(spec.defaults or ()), *(spec.kwonlydefaults or {}).values())
    return ArgSpec(spec.args + spec.kwonlyargs, spec.varargs, spec.varkw, defaults or None)


def getcallargs(*func_and_positional: Any, **named: Any) -> dict[str, Any]:
    """Returns the arguments of a call by name, with defaults, for the function within decorators.

    Unlike Python's function of this name, arguments that the function lacks raise no error: they are among the results.
    """
    function, *positional = func_and_positional
    spec = getfullargspec(function)
    if inspect.ismethod(function):
        positional = [function.__self__, *positional]
    defaults = dict(zip(reversed(spec.args), reversed(spec.defaults or ())))
    passed = dict(zip([name for name in spec.args if name not in named], positional))
    return {**defaults, **(spec.kwonlydefaults or {}), **named, **passed}


# -- the rest


_exported: dict[str, Any] = {}
"""The functions and classes that libraries have exported by `Export`, by name."""


class Export:
    """TensorFlow's decorator of public names, as libraries use it: ``tf_export``, or ``keras_export`` of the package tf_keras.

    The package tf_keras writes these names into saved models, and finds classes by them.
    """

    api_name = "tensorflow"

    def __init__(self, *names: str, v1: Sequence[str] | None = None, **_: Any) -> None:
        self._names = names
        self._names_v1 = names if v1 is None else v1

    def __call__(self, symbol: Any) -> Any:
        """Remembers the symbol's names, and returns the symbol."""
        setattr(unwrap(symbol)[1], f"_{self.api_name}_api_names", [*self._names, *self._names_v1])
        _exported.update(dict.fromkeys(self._names, symbol))
        _exported.update({f"compat.v1.{name}": symbol for name in self._names_v1})
        return symbol

    def export_constant(self, module_name: str, name: str) -> None:
        """Does nothing. TensorFlow registers a constant as a public name."""


class KerasExport(Export):
    """The decorator ``keras_export``. It changes the functions in `changes`, by name, before it remembers them."""

    api_name = "keras"
    changes: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    def __call__(self, symbol: Any) -> Any:
        change = next((self.changes[name] for name in self._names if name in self.changes), None)
        return super().__call__(symbol if change is None else change(symbol))


def get_symbol_from_name(name: str) -> Any:
    """Returns the function or class ``tf.<name>``, or that a library exported by this name; None if there is none."""
    return _exported.get(name, public_names().get(name))


def get_canonical_name_for_symbol(
    symbol: Any, api_name: str = "tensorflow", add_prefix_to_v1_names: bool = False
) -> str | None:
    """Returns the name by which a library exported a function or class for ``api_name``, or None.

    For the API "tensorflow", public functions and classes have names, too: the path in the fewest namespaces, such as
    "nn.relu".

    Args:
      symbol: the function or class.
      api_name: the name of the API, such as "tensorflow" or "estimator".
      add_prefix_to_v1_names: not used.
    """
    _, original = unwrap(symbol)
    attributes = getattr(original, "__dict__", {})
    names = attributes.get(f"_{api_name}_api_names")
    if names or api_name != "tensorflow":
        return next(iter(names or ()), None)
    paths = [path for path, value in public_names().items() if value is symbol]
    return min(paths, key=lambda path: (path.count("."), path), default=None)


def make_all(module_name: str, doc_string_modules: Any = None) -> list[str]:
    """Returns the names of a module that its docstring, or those of other modules, have in lines ``@@name``."""
    module = sys.modules[module_name]
    return sorted(_documented(doc_string_modules or [module]) & set(dir(module)))


def _documented(modules: Iterable[Any]) -> set[str]:
    """Returns the names in the lines ``@@name`` of modules' docstrings."""
    docstrings = "\n".join(each.__doc__ or "" for each in modules)
    return set(re.findall(r"^\s*@@([a-zA-Z_]\w*)\s*$", docstrings, re.MULTILINE))


def remove_undocumented(
    module_name: str, allowed_exception_list: Sequence[str] | None = None, doc_string_modules: Any = None
) -> None:
    """Removes the undocumented public names from a module.

    Args:
      module_name: the name of an imported module.
      allowed_exception_list: names to keep.
      doc_string_modules: modules whose docstrings contain lines ``@@name`` for more names to keep; by default the module.
    """
    module = sys.modules[module_name]
    documented_names = {*(allowed_exception_list or ()), *_documented(doc_string_modules or [module])}
    for name in [name for name in dir(module) if not name.startswith("_") and name not in documented_names]:
        delattr(module, name)


class Reference:
    """A dictionary key for any object. Two keys are equal if they refer to the same object."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    @property
    def unwrapped(self) -> Any:
        return self._wrapped

    def deref(self) -> Any:
        return self._wrapped

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._wrapped is other._wrapped

    def __hash__(self) -> int:
        return id(self._wrapped)


class WeakReference(Reference):
    """A dictionary key that compares objects by identity, and does not keep its object alive."""

    def __init__(self, wrapped: Any) -> None:
        self._id = id(wrapped)
        self._weak = weakref.ref(wrapped)

    @property
    def _wrapped(self) -> Any:
        return self._weak()

    @property
    def unwrapped(self) -> Any:
        return self._weak()

    def __hash__(self) -> int:
        return self._id


class ObjectIdentityDictionary(MutableMapping[Any, Any]):
    """A dict that compares its keys by identity, so that they need not be hashable."""

    key_class: type[Reference] = Reference

    def __init__(self) -> None:
        self._values: dict[Reference, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        return self._values[self.key_class(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[self.key_class(key)] = value

    def __delitem__(self, key: Any) -> None:
        del self._values[self.key_class(key)]

    def __iter__(self) -> Iterator[Any]:
        return iter(_alive(self._values))

    def __len__(self) -> int:
        return len(_alive(self._values))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self._values)!r})"


class ObjectIdentityWeakKeyDictionary(ObjectIdentityDictionary):
    """A dict that compares its keys by identity, and doesn't keep them alive."""

    key_class = WeakReference


class ObjectIdentitySet(MutableSet[Any]):
    """A set that compares its elements by identity, so that they need not be hashable."""

    key_class: type[Reference] = Reference

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        self._keys = dict.fromkeys(map(self.key_class, elements))

    def __contains__(self, element: object) -> bool:
        return self.key_class(element) in self._keys

    def __iter__(self) -> Iterator[Any]:
        return iter(_alive(self._keys))

    def __len__(self) -> int:
        return len(_alive(self._keys))

    def add(self, value: Any) -> None:
        self._keys[self.key_class(value)] = None

    def discard(self, value: Any) -> None:
        self._keys.pop(self.key_class(value), None)

    def update(self, items: Iterable[Any]) -> None:
        """Adds elements."""
        for item in items:
            self.add(item)

    def intersection(self, items: Iterable[Any]) -> set[Reference]:
        """Returns references to the elements that are among ``items``."""
        return {key for key in map(self.key_class, items) if key in self._keys}

    def difference(self, items: Iterable[Any]) -> ObjectIdentitySet:
        """Returns the set of the elements that are not among ``items``."""
        others = ObjectIdentitySet(items)
        return ObjectIdentitySet(element for element in self if element not in others)


class ObjectIdentityWeakSet(ObjectIdentitySet):
    """A set that compares its elements by identity, and doesn't keep them alive."""

    key_class = WeakReference


def _alive(references: dict[Reference, Any]) -> list[Any]:
    """Returns the objects behind references; drops those whose objects are gone."""
    objects = {key: key.unwrapped for key in references}
    for key, value in objects.items():
        if value is None and isinstance(key, WeakReference):
            references.pop(key, None)
    return [value for key, value in objects.items() if value is not None or not isinstance(key, WeakReference)]


def convert_variables_to_tensors(values: Any) -> Any:
    """Replaces the Variables in a nested structure, and in composite tensors in it, by tensors of their values."""

    def converted(value: Any) -> Any:
        if isinstance(value, CompositeTensor):
            return value._convert_variables_to_tensors()
        return value._as_tensor() if isinstance(value, Variable) else value

    return nest.map_structure(converted, values)


def _inspect_names() -> dict[str, Any]:
    """Returns the names of Python's module ``inspect`` with their values."""
    return {name: getattr(inspect, name) for name in dir(inspect) if not name.startswith("__")}


NAMES: dict[str, dict[str, Any]] = {
    "python.util.all_util": {"make_all": make_all, "remove_undocumented": remove_undocumented},
    "python.util.deprecation": {
        "deprecated": deprecated,
        "deprecated_alias": deprecated_alias,
        "deprecated_arg_values": deprecated_arg_values,
        "deprecated_args": deprecated_args,
        "deprecated_argument_lookup": deprecated_argument_lookup,
        "rewrite_argument_docstring": rewrite_argument_docstring,
        "silence": silence,
    },
    "python.util.object_identity": {
        "ObjectIdentityDictionary": ObjectIdentityDictionary,
        "ObjectIdentitySet": ObjectIdentitySet,
        "ObjectIdentityWeakKeyDictionary": ObjectIdentityWeakKeyDictionary,
        "ObjectIdentityWeakSet": ObjectIdentityWeakSet,
        "Reference": Reference,
        "WeakReference": WeakReference,
        "_ObjectIdentityWrapper": Reference,
    },
    "python.util.tf_decorator": {"make_decorator": make_decorator, "unwrap": unwrap},
    "python.util.tf_export": {
        "get_canonical_name_for_symbol": get_canonical_name_for_symbol,
        "get_symbol_from_name": get_symbol_from_name,
        "keras_export": KerasExport,
        "tf_export": Export,
    },
    "python.util.tf_inspect": {
        **_inspect_names(),
        "_inspect": inspect,
        "ArgSpec": ArgSpec,
        "getargspec": getargspec,
        "getcallargs": getcallargs,
        "getfullargspec": getfullargspec,
    },
    "python.util.variable_utils": {"convert_variables_to_tensors": convert_variables_to_tensors},
}
