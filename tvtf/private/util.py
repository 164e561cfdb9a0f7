"""``tensorflow.python.util``: decorators that mark what is deprecated or public, and ``inspect`` that looks through them.

Source: https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/python/util
"""

from __future__ import annotations

import inspect
import re
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from tvtf.core import nest
from tvtf.core.log import logger
from tvtf.core.primitive import public_names
from tvtf.frontend.function.polymorphic_function import Function as GenericFunction
from tvtf.state.variable import Variable

Callee = TypeVar("Callee", bound=Callable[..., Any])

# -- deprecation


class _Printing:
    """Whether deprecated things say so, and which said it already: each does once."""

    is_on = True

    def __init__(self) -> None:
        self.said: set[Any] = set()

    def say(self, key: Any, text: str, *values: Any, once: bool = True) -> None:
        if self.is_on and not (once and key in self.said):
            self.said.add(key)
            logger.warning(text, *values)


_printing = _Printing()


@contextmanager
def silence() -> Iterator[None]:
    """Nothing inside says that it is deprecated."""
    before, _printing.is_on = _printing.is_on, False
    try:
        yield
    finally:
        _printing.is_on = before


def _when(date: str | None) -> str:
    return f"after {date}" if date else "in a future version"


def _warns(function: Callee, check: Callable[[Callable[..., Any], Any, Any], Any]) -> Callee:
    """``function``, which first has its arguments looked at."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        check(function, args, kwargs)
        return function(*args, **kwargs)

    return make_decorator(function, run)  # type: ignore[no-any-return]


def deprecated(date: str | None, instructions: str, warn_once: bool = True) -> Callable[[Any], Any]:
    """Decorates a function or class that says once that it is deprecated."""

    def decorate(function: Any) -> Any:
        def check(called: Any, args: Any, kwargs: Any) -> None:
            text = "%s (from %s) is deprecated and will be removed %s.\nInstructions for updating:\n%s"
            _printing.say(
                called, text, called.__qualname__, called.__module__, _when(date), instructions, once=warn_once
            )

        if not inspect.isclass(function):
            return _warns(function, check)
        made = {"__init__": _warns(function.__init__, lambda _, args, kwargs: check(function, args, kwargs))}
        return type(function)(  # type: ignore[misc] # a class, whose type makes classes
            function.__name__, (function,), {**made, "__module__": function.__module__}
        )

    return decorate


def deprecated_alias(deprecated_name: str, name: str, func_or_class: Any, warn_once: bool = True) -> Any:
    """What is called by another name now, under its old one."""
    return deprecated(None, f"Please use {name} instead of {deprecated_name}.", warn_once)(func_or_class)


def deprecated_args(
    date: str | None, instructions: str, *deprecated_arg_names_or_tuples: Any, **kwargs: Any
) -> Callable[[Callee], Callee]:
    """Decorates a function some of whose arguments are deprecated: names, or (name, value that says nothing).

    Raises:
      ValueError: no name is given, or the function has none of them.
    """
    if not deprecated_arg_names_or_tuples:
        raise ValueError("Specify which argument is deprecated.")
    once = kwargs.pop("warn_once", True)
    names = {each if isinstance(each, str) else each[0]: each for each in deprecated_arg_names_or_tuples}

    def decorate(function: Callee) -> Callee:
        signature = inspect.signature(function)
        missing = [name for name in names if name not in signature.parameters and not _takes_more(signature)]
        if missing:
            raise ValueError(
                f"The following deprecated arguments are not present in the function signature: {missing}. Expected "
                f"arguments from the following list: {list(signature.parameters)}."
            )

        def check(called: Any, args: Any, kwargs: Any) -> None:
            given = {**signature.bind_partial(*args, **kwargs).arguments, **kwargs}
            for name in names:
                if name in given and not _says_nothing(names[name], given[name]):
                    _printing.say(
                        (called, name),
                        "Calling %s (from %s) with %s is deprecated and will be removed %s.\n"
                        "Instructions for updating:\n%s",
                        *(called.__name__, called.__module__, name, _when(date), instructions),
                        once=once,
                    )

        return _warns(function, check)

    return decorate


def _takes_more(signature: inspect.Signature) -> bool:
    return any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in signature.parameters.values())


def _says_nothing(declared: Any, value: Any) -> bool:
    return not isinstance(declared, str) and len(declared) > 1 and declared[1] is value


def deprecated_arg_values(
    date: str | None, instructions: str, warn_once: bool = True, **deprecated_kwargs: Any
) -> Callable[[Callee], Callee]:
    """Decorates a function some values of whose arguments are deprecated."""
    if not deprecated_kwargs:
        raise ValueError("Specify which argument values are deprecated.")

    def decorate(function: Callee) -> Callee:
        signature = inspect.signature(function)

        def check(called: Any, args: Any, kwargs: Any) -> None:
            given = signature.bind_partial(*args, **kwargs).arguments
            for name, value in deprecated_kwargs.items():
                if name in given and given[name] is value:
                    _printing.say(
                        (called, name),
                        "Calling %s (from %s) with %s=%s is deprecated and will be removed %s.\n"
                        "Instructions for updating:\n%s",
                        *(called.__name__, called.__module__, name, value, _when(date), instructions),
                        once=warn_once,
                    )

        return _warns(function, check)

    return decorate


def deprecated_argument_lookup(new_name: str, new_value: Any, old_name: str, old_value: Any) -> Any:
    """The value of an argument that has a new name.

    Raises:
      ValueError: both are given.
    """
    if old_value is not None:
        if new_value is not None:
            raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'.")
        return old_value
    return new_value


def rewrite_argument_docstring(old_doc: str, old_argument: str, new_argument: str) -> str:
    """A docstring with an argument's new name."""
    return old_doc.replace(f"`{old_argument}`", f"`{new_argument}`").replace(f"{old_argument}:", f"{new_argument}:")


# -- decorators


def make_decorator(
    target: Any,
    decorator_func: Any,
    decorator_name: str | None = None,
    decorator_doc: str = "",
    decorator_argspec: Any = None,
) -> Any:
    """``decorator_func`` under the name and docs of the ``target`` that it wraps."""
    made: Any = wraps(target)(decorator_func)
    made._tf_decorator = target
    if isinstance(decorator_argspec, inspect.Signature):
        made.__signature__ = decorator_argspec
    return made


class Decorator(NamedTuple):
    """One of the decorators of a function: what it gave, and what it was given."""

    decorator_func: Any
    decorated_target: Any

    @property
    def decorator_argspec(self) -> Any:
        """None: what it gave has the arguments of what it was given."""
        return None

    @property
    def decorator_name(self) -> str:
        return getattr(self.decorator_func, "__name__", type(self.decorator_func).__name__)


def unwrap(maybe_tf_decorator: Any) -> tuple[list[Decorator], Any]:
    """The decorators of a function, and what they wrap."""
    layers: list[Decorator] = []
    found = maybe_tf_decorator
    while (inner := _wrapped(found)) is not None:
        layers.append(Decorator(found, inner))
        found = inner
    return layers, found


def _wrapped(function: Any) -> Any:
    """What a decorator of TensorFlow's wraps; those of others are functions of their own."""
    if isinstance(function, GenericFunction):
        return function.python_function
    inner = getattr(function, "_tf_decorator", None)
    return getattr(function, "__wrapped__", None) if inner is None and _is_own(function) else inner


def _is_own(function: Any) -> bool:
    """Whether it is a function of tvtf's, which may have wrapped it."""
    return str(getattr(function, "__module__", "")).partition(".")[0] == "tvtf"


def getfullargspec(obj: Any) -> inspect.FullArgSpec:
    """``inspect.getfullargspec`` of what decorators wrap; of a class, of what makes its objects.

    Public functions of TensorFlow's have no annotations, and libraries compare theirs with them.
    """
    found = unwrap(obj)[1]
    if inspect.isclass(found):
        found = found.__init__
    spec = inspect.getfullargspec(found)
    return spec._replace(annotations={}) if _is_own(found) else spec


# -- the rest


class Export:
    """Decorates what TensorFlow has in public; here it does nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __call__(self, symbol: Any) -> Any:
        return symbol

    def export_constant(self, module_name: str, name: str) -> None:
        """The same of a constant."""


def get_canonical_name_for_symbol(
    symbol: Any, api_name: str = "tensorflow", add_prefix_to_v1_names: bool = False
) -> str | None:
    """The public path of a function or class; the shortest where it has several."""
    paths = [path for path, value in public_names().items() if value is symbol]
    return min(paths, key=lambda path: (path.count("."), path), default=None)


def remove_undocumented(
    module_name: str, allowed_exception_list: Sequence[str] | None = None, doc_string_modules: Any = None
) -> None:
    """Removes from a module the names that neither the list nor a line ``@@name`` of a docstring has."""
    module = sys.modules[module_name]
    texts = "\n".join(each.__doc__ or "" for each in doc_string_modules or [module])
    keep = {*(allowed_exception_list or ()), *re.findall(r"^\s*@@([a-zA-Z_]\w*)\s*$", texts, re.MULTILINE)}
    for name in [name for name in dir(module) if not name.startswith("_") and name not in keep]:
        delattr(module, name)


class Reference:
    """An object as a key: equal to another one of the same object alone."""

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
    """A key that does not keep its object alive."""

    def __init__(self, wrapped: Any) -> None:
        self._id, self._weak = id(wrapped), weakref.ref(wrapped)

    @property
    def _wrapped(self) -> Any:
        return self._weak()

    @property
    def unwrapped(self) -> Any:
        return self._weak()

    def __hash__(self) -> int:
        return self._id


def convert_variables_to_tensors(values: Any) -> Any:
    """A structure with what Variables hold in their place."""
    return nest.map_structure(lambda x: x._as_tensor() if isinstance(x, Variable) else x, values)


def _inspect_names() -> dict[str, Any]:
    return {name: getattr(inspect, name) for name in dir(inspect) if not name.startswith("__")}


NAMES: dict[str, dict[str, Any]] = {
    "python.util.all_util": {"remove_undocumented": remove_undocumented},
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
        "Reference": Reference,
        "WeakReference": WeakReference,
        "_ObjectIdentityWrapper": Reference,
    },
    "python.util.tf_decorator": {"make_decorator": make_decorator, "unwrap": unwrap},
    "python.util.tf_export": {
        "get_canonical_name_for_symbol": get_canonical_name_for_symbol,
        "keras_export": Export,
        "tf_export": Export,
    },
    "python.util.tf_inspect": {
        **_inspect_names(),
        "_inspect": inspect,
        "getargspec": getfullargspec,
        "getfullargspec": getfullargspec,
    },
    "python.util.variable_utils": {"convert_variables_to_tensors": convert_variables_to_tensors},
}
