"""Calls in converted code: user functions are converted in turn, libraries are called unconverted."""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
import types
from collections.abc import Set
from typing import Any

from tvtf.core.log import logger
from tvtf.core.specialization import Unspecialized
from tvtf.errors import OperatorNotAllowedInGraphError
from tvtf.frontend.autograph.builtin import OVERLOADS
from tvtf.frontend.autograph.errors import attach, to_user_error
from tvtf.frontend.autograph.operators import OPERATORS
from tvtf.frontend.autograph.status import ARTIFACT, do_not_convert, status
from tvtf.frontend.autograph.transpiler import ConversionError, Transpiler
from tvtf.frontend.autograph.whole_malt import errors as malt_errors
from tvtf.frontend.autograph.whole_malt import py_builtins
from tvtf.ir.user_lines import PROGRAMS

LIBRARIES = sys.stdlib_module_names | {
    "tvtf", "tvm", "tvm_ffi", "malt", "numpy", "scipy", "ml_dtypes", "onnx", "pandas", "matplotlib", "PIL", "absl",
    "tensorflow", "keras", "torch", "jax", "sklearn", "onnxruntime", "pytest", "_pytest", "mock", "ipdb", "wrapt",
    "tensorflow_probability", "tensorflow_datasets", "tf_keras",
}  # fmt: skip
"""Packages whose functions are not converted: malt's list, the standard library, and array libraries."""
OWN = frozenset(("tvtf", "tvm", "tvm_ffi", "malt"))
"""Packages whose functions are not converted even if passed to ``tf.function``; TensorFlow converts the others'."""

MSG_AS_IS = (
    "AutoGraph could not transform %s and will run it as-is.\nCause: %s\n"
    "To silence this warning, decorate the function with @tf.autograph.experimental.do_not_convert"
)
_warned: set[Any] = set()


def call_converted(function: Any, args: Any, kwargs: Any, is_explicit: bool) -> Any:
    """Calls a function of the user's, converted; see `converted_call`. Errors are raised with the user's lines."""
    try:
        return converted_call(function, args, kwargs, is_explicit=is_explicit)
    except Exception as error:  # any error is raised again with the user's lines
        raise to_user_error(error) from None


def converted_call(
    f: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    scope: Any = None,
    options: Any = None,
    is_explicit: bool = False,
) -> Any:
    """Calls ``f`` for converted code. If ``f`` is the user's Python code, it is converted first.

    Args:
      f: the function.
      args, kwargs: its arguments.
      scope: the scope of the converted function that calls it, for builtins such as ``super`` and ``locals``.
      options: passed by converted code, and not used.
      is_explicit: whether ``f`` was itself passed to ``tf.function``. A library's function is then converted, too.
    """
    kwargs = kwargs or {}
    if isinstance(f, functools.partial):  # the function in it may be the user's
        return converted_call(f.func, (*f.args, *args), {**f.keywords, **kwargs}, scope, options, is_explicit)
    replacement = _builtin_replacement(f, scope)
    if replacement is not None:
        return replacement(*args, **kwargs)
    target, bound = _python_function(f)
    if status.disabled or target is None or not _is_user_code(target, OWN if is_explicit else LIBRARIES):
        return f(*args, **kwargs)
    return _call_python(f, target, (*bound, *args), kwargs)


def _builtin_replacement(f: Any, scope: Any) -> Any:
    """Returns the function that converted code calls in place of a builtin such as ``len``.

    Returns None if the builtin itself is called.

    Args:
      f: the function to be called.
      scope: the scope of the user's function that calls it.
    """
    if not isinstance(f, (types.BuiltinFunctionType, type, types.FunctionType)):
        return None
    # These builtins look at the frame of their caller, which in converted code isn't the user's function.
    if f is builtins.super:
        return lambda *args: py_builtins.super_in_original_context(f, args, scope)
    if f is builtins.eval:
        return lambda *args: py_builtins.eval_in_original_context(f, args, scope)
    if f is builtins.globals:
        return lambda: py_builtins.globals_in_original_context(scope)
    if f is builtins.locals:
        return lambda: py_builtins.locals_in_original_context(scope)
    return OVERLOADS.get(f)


def _python_function(f: Any) -> tuple[Any, tuple[Any, ...]]:
    """Returns the Python function that a callable runs, and a tuple of the arguments bound to it.

    For a method, the bound argument is ``self``. Returns (None, ()) for constructors and native code, which can't be
    converted.
    """
    if isinstance(f, types.FunctionType):
        return f, ()
    if isinstance(f, type):  # a constructor
        return None, ()
    function: Any
    if isinstance(f, types.MethodType):
        function, bound_self = f.__func__, f.__self__
    else:  # an object with `__call__` runs the one that its class defines or inherits
        definitions = [vars(base)["__call__"] for base in type(f).__mro__ if "__call__" in vars(base)]
        function = definitions[0] if definitions else None
        bound_self = f
    if not isinstance(function, types.FunctionType):  # native code
        return None, ()
    return function, (bound_self,)


def _is_user_code(function: types.FunctionType, libraries: Set[str] = LIBRARIES) -> bool:
    """Returns whether AutoGraph converts a function.

    Functions of the top-level packages in ``libraries`` aren't converted, nor are generators, coroutines, and functions
    that are marked.
    """
    if hasattr(function, ARTIFACT) or inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        return False
    if function.__code__.co_filename.startswith("<doctest "):  # examples in a library's docstrings are for its users
        return True
    modules = (function.__globals__.get("__name__"), function.__module__)
    return all(_is_user_module(module, libraries) for module in modules)


def _is_user_module(module: str | None, libraries: Set[str]) -> bool:
    """Returns whether a module belongs to the user, and not to one of the ``libraries``, which are top-level packages.

    ``_is_user_code`` checks two modules of a function, because a decorator may give its wrapper the module of the
    wrapped function.
    """
    return (module or "").partition(".")[0] not in libraries or f"{module}.".startswith(f"{PROGRAMS}.")


def _call_python(f: Any, target: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Converts a Python function with AutoGraph and calls it. If the conversion fails, calls it unconverted.

    Args:
      f: the user's callable, such as a method.
      target: the Python function that ``f`` runs.
      args, kwargs: the arguments of ``target``.
    """
    try:
        converted = transpiled(target)
    except (ConversionError, malt_errors.PyCTError, OSError, SyntaxError) as error:
        return _call_as_is(target, args, kwargs, error.__cause__ or error)
    try:
        return converted(*args, **kwargs)
    except (Exception, Unspecialized) as error:  # the user's line is added to any error
        attach(error, converted)
        raise


def _call_as_is(target: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], cause: Any) -> Any:
    """Logs a warning that a function can't be converted, and calls the function unconverted.

    ``cause`` is the error of the conversion. If the function uses a tensor as a Python condition, the error that this
    raises names the cause.
    """
    if target.__code__ not in _warned:  # one warning for each function
        _warned.add(target.__code__)
        logger.warning(MSG_AS_IS, target, cause)
    try:
        return do_not_convert(target)(*args, **kwargs)
    except OperatorNotAllowedInGraphError as error:
        raise OperatorNotAllowedInGraphError(f"{error} AutoGraph could not transform {target}: {cause}") from error


transpiled = Transpiler(OPERATORS | {"converted_call": converted_call}).converted
"""Returns a function converted."""
