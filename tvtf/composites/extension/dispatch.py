"""Dispatch of public functions on users' types, which functions registered for these types replace.

A public function tries its ``overrides`` before it does anything itself (``tvtf/core/primitive.py``).

Source: https://www.tensorflow.org/guide/extension_type#tensor_api_dispatch
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from tvtf.api.namespaces import LATE_MODULES
from tvtf.composites.extension.elementwise import ASSERTIONS, BINARY, UNARY
from tvtf.composites.extension.fields import is_union
from tvtf.core.composite import CompositeTensor
from tvtf.core.primitive import export, public_names
from tvtf.core.tvm_import import import_whole
from tvtf.state.module import name_scope

Target = Callable[..., Any]
Annotation = Any


class Match(IntEnum):
    """How an argument matches an annotation; an override applies only if some argument matches as a composite tensor."""

    NONE = 0
    PLAIN = 1
    COMPOSITE = 2


TypeCheck = Callable[[Any], Match]
_targets: dict[Any, list[tuple[Target, Sequence[Callable[[Sequence[Any]], bool]]]]] = {}
"""Public function -> what replaces it, with the signatures for which it does."""
_overrides: dict[Any, Callable[..., Any]] = {}
"""Public function -> the rule among its ``overrides`` that selects one of its targets."""
_elementwise: dict[tuple[Any, ...], tuple[Target, list[Target]]] = {}
"""Annotations -> handler and the targets that call it."""


@export("experimental.dispatch_for_api")
def dispatch_for_api(api: Any, *signatures: Any) -> Callable[[Target], Target]:
    """Returns a decorator that registers a function as a replacement of ``api`` for arguments of given types.

    Args:
      api: a public function.
      *signatures: dicts from parameters, by name or position, to a type, ``List[...]`` or a union; default: the function's
        annotations. One must match, with at least one composite tensor among the arguments.

    Raises:
      ValueError: ``api`` takes any number of arguments, or is no public function; the decorated function has other
        parameters; a signature names an unknown parameter; there are neither signatures nor annotations.
      TypeError: a signature is no dict.

    >>> import tvtf as tf
    >>> class Masked(tf.experimental.ExtensionType):
    ...     values: tf.Tensor
    ...     mask: tf.Tensor
    >>> @tf.experimental.dispatch_for_api(tf.reverse)
    ... def reversed_masked(tensor: Masked, axis):
    ...     return Masked(tf.reverse(tensor.values, axis), tf.reverse(tensor.mask, axis))
    >>> tf.reverse(Masked([1, 2], [True, False]), [0]).values.numpy()
    array([2, 1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/dispatch_for_api
    """
    if not _supports_dispatch(api):
        raise ValueError(f"{api} does not support dispatch.")
    signature = _signature_of(api)
    checks = [_signature_check(signature, each) for each in signatures]

    def decorate(target: Target) -> Target:
        """Registers ``target`` for calls of the API that match the signatures. Returns it with a ``name`` parameter."""
        if not callable(target):
            raise TypeError(f"Expected dispatch_target to be callable; got {target!r}")
        named = _accepting_name(target, signature)
        _check_same_parameters(signature, named)
        _register(api, named, checks or [_signature_check(signature, _annotations(named))])
        return named

    return decorate


def _signature_of(api: Any) -> inspect.Signature:
    """Returns a public function's signature without annotations, as TensorFlow's has none."""
    signature = inspect.signature(api)
    parameters = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)


def _supports_dispatch(api: Any) -> bool:
    """Returns whether a value is a public function with a fixed number of parameters."""
    if not hasattr(api, "overrides"):
        return False
    kinds = {parameter.kind for parameter in inspect.signature(api).parameters.values()}
    return not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


def _register(api: Any, target: Target, checks: Sequence[Callable[[Sequence[Any]], bool]]) -> None:
    """Registers a target for a public function; the first one also adds the override that selects among them."""
    registered = _targets.setdefault(api, [])
    if not registered:
        _overrides[api] = functools.partial(_call_matching_target, api, _signature_of(api))
        api.overrides.append(_overrides[api])
    registered.append((target, checks))


def _call_matching_target(api: Any, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the dispatch target (a registered replacement) of a public function that matches the arguments' types.

    Returns NotImplemented if none matches or the arguments are invalid; then the public function itself runs.

    Args:
      api: the public function.
      signature: its signature.
      args, kwargs: the arguments of the call.

    Raises:
      ValueError: more than one target matches.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return NotImplemented
    bound.apply_defaults()
    arguments = list(bound.arguments.values())
    matching = []
    for target, checks in _targets[api]:
        if any(check(arguments) for check in checks):
            matching.append(target)
    if len(matching) > 1:
        raise ValueError(
            f"Multiple dispatch targets that were registered with tf.dispatch_for ({matching[0]} and {matching[1]}) match the "
            f"arguments to {api.__name__}"
        )
    return matching[0](*args, **kwargs) if matching else NotImplemented


@export("experimental.unregister_dispatch_for")
def unregister_dispatch_for(dispatch_target: Target) -> None:
    """Removes a function that a ``dispatch_for_...`` decorator registered.

    Raises:
      ValueError: the function is not registered.

    >>> import tvtf as tf
    >>> class Value(tf.experimental.ExtensionType):
    ...     value: tf.Tensor
    >>> @tf.experimental.dispatch_for_api(tf.abs)
    ... def absolute(x: Value):
    ...     return Value(tf.abs(x.value))
    >>> tf.abs(Value(-5)).value.numpy()
    np.int32(5)
    >>> tf.experimental.unregister_dispatch_for(absolute)
    >>> try:
    ...     tf.abs(Value(-5))
    ... except ValueError as error:
    ...     print(str(error)[:26])
    Attempt to convert a value

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/unregister_dispatch_for
    """
    elementwise_keys = [key for key, (handler, _) in _elementwise.items() if handler is dispatch_target]
    targets = [dispatch_target]
    for key in elementwise_keys:
        _handler, targets_of_handler = _elementwise.pop(key)
        targets += targets_of_handler
    entries = []
    for api, entries_of_api in _targets.items():
        entries += [(api, entry) for entry in entries_of_api if any(entry[0] is target for target in targets)]
    if not entries and not elementwise_keys:
        raise ValueError(f"Function {dispatch_target} was not registered using a `@dispatch_for_*` decorator.")
    for api, entry in entries:
        _targets[api].remove(entry)
        if not _targets[api]:
            api.overrides.remove(_overrides.pop(api))


# -- signatures


def _accepting_name(target: Target, api: inspect.Signature) -> Target:
    """Wraps a dispatch target to accept the argument ``name`` if the public function accepts it.

    The target then runs in a name scope of that name. A target that has the parameter itself is returned unchanged.
    """
    target_signature = inspect.signature(target)
    has_var_keyword = any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in target_signature.parameters.values()
    )
    if "name" not in api.parameters or "name" in target_signature.parameters or has_var_keyword:
        return target
    name_position = list(api.parameters).index("name")

    @functools.wraps(target)
    def call_in_scope(*args: Any, **kwargs: Any) -> Any:
        """Calls the target without the argument ``name``, inside of a name scope of this name."""
        name = args[name_position] if name_position < len(args) else kwargs.pop("name", None)
        positional = args[:name_position] + args[name_position + 1 :]
        if name is None:
            return target(*positional, **kwargs)
        with name_scope(name):
            return target(*positional, **kwargs)

    call_in_scope.__signature__ = target_signature.replace(  # type: ignore[attr-defined]
        parameters=[*target_signature.parameters.values(), api.parameters["name"]]
    )
    return call_in_scope


def _check_same_parameters(api: inspect.Signature, target: Target) -> None:
    """Checks that a dispatch target has the same parameters as the public function, or raises ValueError.

    Names, order and kinds must agree. A target with only ``*args, **kwargs`` accepts all arguments.
    """
    target_signature = inspect.signature(target)
    target_parameters = [(parameter.name, parameter.kind) for parameter in target_signature.parameters.values()]
    target_kinds = [kind for _, kind in target_parameters]
    if target_kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return
    api_parameters = [(parameter.name, parameter.kind) for parameter in api.parameters.values()]
    if target_parameters != api_parameters:
        raise ValueError(f"Dispatch function's signature {target_signature} does not match API's signature {api}.")


def _annotations(target: Target) -> dict[str, Annotation]:
    """Returns the type annotations of a dispatch target's parameters by name. Raises ValueError if there are none."""
    parameters = inspect.signature(target).parameters
    annotations_by_name = {
        name: parameter.annotation
        for name, parameter in parameters.items()
        if parameter.annotation is not inspect.Parameter.empty
    }
    if not annotations_by_name:
        raise ValueError(
            "The dispatch_for_api decorator must be called with at least one signature, or applied to a function that has "
            "type annotations on its parameters."
        )
    return annotations_by_name


def _signature_check(api: inspect.Signature, signature: Any) -> Callable[[Sequence[Any]], bool]:
    """Returns a predicate for the arguments of a call: do their types match a dispatch signature?

    ``signature`` maps parameters (names or positions) to type annotations. At least one annotated argument must match as a
    composite tensor.
    """
    if not isinstance(signature, dict) or not all(isinstance(key, (str, int)) for key in signature):
        raise TypeError("signatures must be dictionaries mapping parameter names to type annotations.")
    checks = [
        (_position_of_parameter(api, parameter), type_check(annotation)) for parameter, annotation in signature.items()
    ]

    def matches(arguments: Sequence[Any]) -> bool:
        argument_matches = [check(arguments[position]) for position, check in checks]
        return Match.NONE not in argument_matches and Match.COMPOSITE in argument_matches

    return matches


def _position_of_parameter(api: inspect.Signature, parameter: str | int) -> int:
    """Returns the position of a parameter that is given by name or position. Raises ValueError if it isn't positional."""
    names = list(api.parameters)
    if isinstance(parameter, int) and parameter < len(names):
        parameter = names[parameter]
    if parameter not in names:
        raise ValueError(f"signature includes annotation for unknown parameter {parameter!r}.")
    parameter_kind = api.parameters[str(parameter)].kind
    if parameter_kind not in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
        raise ValueError(
            "Dispatch currently only supports type annotations for positional parameters; can't handle annotation for "
            f"{parameter_kind!r} parameter {parameter}."
        )
    return names.index(str(parameter))


def type_check(annotation: Annotation) -> TypeCheck:
    """Returns a function that computes how a value matches a type annotation, as a ``Match``.

    The annotation is a class, a list type or a union. The match with a union is that of its best option.
    """
    if is_union(annotation):
        option_checks = [type_check(option) for option in typing.get_args(annotation)]
        return lambda value: max(check(value) for check in option_checks)
    if typing.get_origin(annotation) is list:
        (element_annotation,) = typing.get_args(annotation)
        element_check = type_check(element_annotation)
        return lambda value: _match_list(value, element_check)
    annotated_type = type(None) if annotation is None else annotation
    if not isinstance(annotated_type, type) or typing.get_origin(annotated_type) is not None:
        raise ValueError(
            f"Type annotation {annotation} is not currently supported by dispatch.  Supported annotations: type objects, "
            " List[...], and Union[...]"
        )
    return lambda value: _match_type(value, annotated_type)


def _match_type(value: Any, annotated_type: type) -> Match:
    if not isinstance(value, annotated_type):
        return Match.NONE
    return Match.COMPOSITE if isinstance(value, CompositeTensor) else Match.PLAIN


def _match_list(value: Any, match_element: TypeCheck) -> Match:
    if not isinstance(value, (list, tuple)):
        return Match.NONE
    matches = [match_element(item) for item in value]
    return Match.NONE if Match.NONE in matches else max(matches, default=Match.PLAIN)


# -- elementwise functions


@export("experimental.dispatch_for_unary_elementwise_apis")
def dispatch_for_unary_elementwise_apis(x_type: Annotation) -> Callable[[Target], Target]:
    """Returns a decorator: ``handler(api_func, x)`` replaces all unary elementwise functions for ``x`` of type ``x_type``.

    ``api_func`` is the function with its other arguments bound.

    Raises:
      ValueError: the type has a handler already.

    >>> import tvtf as tf
    >>> class Masked(tf.experimental.ExtensionType):
    ...     values: tf.Tensor
    ...     mask: tf.Tensor
    >>> @tf.experimental.dispatch_for_unary_elementwise_apis(Masked)
    ... def elementwise(api_func, x):
    ...     return Masked(api_func(x.values), x.mask)
    >>> tf.abs(Masked([1, -2], [True, False])).values.numpy()
    array([1, 2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/dispatch_for_unary_elementwise_apis
    """
    return _handler_decorator("unary elementwise", (x_type,), f"{x_type}", UNARY)


@export("experimental.dispatch_for_binary_elementwise_apis")
def dispatch_for_binary_elementwise_apis(x_type: Annotation, y_type: Annotation) -> Callable[[Target], Target]:
    """Returns a decorator: ``handler(api_func, x, y)`` replaces all binary elementwise functions for these types.

    Raises:
      ValueError: the types have a handler already.

    >>> import tvtf as tf
    >>> class Masked(tf.experimental.ExtensionType):
    ...     values: tf.Tensor
    ...     mask: tf.Tensor
    >>> @tf.experimental.dispatch_for_binary_elementwise_apis(Masked, Masked)
    ... def elementwise(api_func, x, y):
    ...     return Masked(api_func(x.values, y.values), x.mask & y.mask)
    >>> tf.add(Masked([1, 2], [True, False]), Masked([3, 4], [True, True])).values.numpy()
    array([4, 6], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/dispatch_for_binary_elementwise_apis
    """
    return _handler_decorator("binary elementwise", (x_type, y_type), f"({x_type}, {y_type})", BINARY)


@export("experimental.dispatch_for_binary_elementwise_assert_apis")
def dispatch_for_binary_elementwise_assert_apis(x_type: Annotation, y_type: Annotation) -> Callable[[Target], Target]:
    """Returns a decorator: ``handler(assert_func, x, y)`` replaces all assertions about two tensors for these types.

    Raises:
      ValueError: the types have a handler already.

    >>> import tvtf as tf
    >>> class Masked(tf.experimental.ExtensionType):
    ...     values: tf.Tensor
    ...     mask: tf.Tensor
    >>> @tf.experimental.dispatch_for_binary_elementwise_assert_apis(Masked, Masked)
    ... def asserting(assert_func, x, y):
    ...     both = x.mask & y.mask
    ...     assert_func(x.values[both], y.values[both])
    >>> tf.debugging.assert_equal(Masked([1, 2], [True, False]), Masked([1, 3], [True, True]))

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/dispatch_for_binary_elementwise_assert_apis
    """
    return _handler_decorator("binary elementwise assert", (x_type, y_type), f"({x_type}, {y_type})", ASSERTIONS)


def _handler_decorator(
    function_group: str, types: tuple[Any, ...], type_text: str, paths: Sequence[str]
) -> Callable[[Target], Target]:
    """Returns a decorator that registers a function as the handler of elementwise functions for tensors of ``types``.

    ``paths`` are the public functions of ``function_group``. ``type_text`` names the types in errors.
    """
    key = (function_group, *types)

    def decorate(handler: Target) -> Target:
        """Registers the handler for the types, with each op of the group."""
        if key in _elementwise:
            registered_handler, _ = _elementwise[key]
            raise ValueError(
                f"A {function_group} dispatch handler ({registered_handler}) has already been registered for {type_text}."
            )
        _elementwise[key] = handler, [_register_handler(api, types, handler) for api in functions(paths)]
        return handler

    return decorate


def functions(paths: Sequence[str]) -> list[Any]:
    """Returns the public functions that exist at the given paths, without duplicates."""
    for module_name in {LATE_MODULES[path] for path in paths if path in LATE_MODULES}:
        import_whole(f"tvtf.{module_name}")
    names = public_names()
    return list({id(names[path]): names[path] for path in paths if _supports_dispatch(names.get(path))}.values())


def _register_handler(api: Any, types: tuple[Any, ...], handler: Target) -> Target:
    """Registers ``handler`` for one elementwise function and tensors of ``types``. Returns the new dispatch target."""
    signature = _signature_of(api)
    names = list(signature.parameters)
    operand_names = names[: len(types)]
    has_other_arguments = len(names) > len(types) + 1 or "name" not in names

    def target(*args: Any, **kwargs: Any) -> Any:
        """Calls ``handler(function, *tensors)``; the call's other arguments are bound to ``function`` beforehand."""
        other_arguments = dict(signature.bind(*args, **kwargs).arguments)
        name = other_arguments.pop("name", None)
        tensors = [other_arguments.pop(operand_name, None) for operand_name in operand_names]

        def with_other_arguments(*operands: Any) -> Any:
            return api(*operands, **other_arguments)

        function = with_other_arguments if has_other_arguments else api
        if name is None:
            return handler(function, *tensors)
        with name_scope(name):
            return handler(function, *tensors)

    _register(api, target, [_signature_check(signature, dict(zip(operand_names, types)))])
    return target


del annotations  # else doctest runs the examples with this module's __future__ import, which makes annotations strings
