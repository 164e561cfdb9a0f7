"""The metaclass of extension types: checks the fields, and generates the constructor and the spec."""

from __future__ import annotations

import abc
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tvtf.composites.extension.fields import REQUIRED, Field, Stage, convert_all, is_reserved
from tvtf.composites.extension.specs import CONSTRUCTING, BatchableExtensionTypeSpec
from tvtf.core.composite import TypeSpec, register

_IS_BASE_CLASS = "_tf_extension_type_do_not_transform_this_class"


class ExtensionTypeMetaclass(abc.ABCMeta):
    """The metaclass that gives a class with annotated fields its constructor and its spec."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        """Adds the constructor and the type spec to a subclass of ``ExtensionType``, from its annotated fields."""
        if not namespace.get(_IS_BASE_CLASS, False):
            _check_fields(cls)
            _add_constructor(cls, Stage.VALUE)
            _add_spec(cls)
        super().__init__(name, bases, namespace)


def _check_fields(cls: Any) -> None:
    """Checks the declaration of an extension type, or raises ValueError.

    Each field needs a type annotation and a name that isn't reserved. The nested class ``Spec`` is checked, too.
    """
    annotations = cls.__dict__.get("__annotations__", {})
    error_start = f"The field annotations for {cls.__name__} are invalid. Field"
    for name, value in cls.__dict__.items():
        if name == "Spec":
            _check_spec(cls, value)
        elif is_reserved(name):
            raise ValueError(f"{error_start} '{name}' is reserved.")
    for name in annotations:
        if is_reserved(name):
            raise ValueError(f"{error_start} '{name}' is reserved.")
    for name, value in cls.__dict__.items():
        if name not in annotations and not _is_method_or_internal(name, value):
            raise ValueError(f"{error_start} {name} is missing a type annotation.")


def _is_method_or_internal(name: str, value: Any) -> bool:
    if name.startswith("_abc_") or (name.startswith("__") and name.endswith("__")):
        return True
    return callable(value) or isinstance(value, (property, classmethod, staticmethod))


def _check_spec(cls: Any, spec: Any) -> None:
    if not isinstance(spec, type):
        raise ValueError(f"{cls.__qualname__}.Spec must be a nested class; got {spec}.")
    if spec.__bases__ not in ((TypeSpec,), (object,)):
        raise ValueError(f"{cls.__qualname__}.Spec must be directly subclassed from tf.TypeSpec.")


def _add_constructor(cls: Any, stage: Stage) -> None:
    """Adds a constructor from the fields, or wraps the class's own, to convert and check the fields."""
    cls.__init__ = (_wrap_constructor if "__init__" in cls.__dict__ else _make_constructor)(cls, stage)


def _wrap_constructor(cls: Any, stage: Stage) -> Callable[..., None]:
    """Wraps the constructor that a user's class defines: the fields that it sets are then converted and checked.

    While the constructor runs, the flag CONSTRUCTING permits assignments.
    """
    user_constructor = cls.__init__

    @functools.wraps(user_constructor)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        self.__dict__[CONSTRUCTING] = True
        user_constructor(self, *args, **kwargs)
        del self.__dict__[CONSTRUCTING]
        _convert_and_validate(self, stage)

    return construct


def _make_constructor(cls: Any, stage: Stage) -> Callable[..., None]:
    """Builds the constructor of an extension type, or of its spec: it has a parameter for each field."""
    parameters = _parameters(cls._tf_extension_type_fields(), stage)
    signature = inspect.Signature(parameters, return_annotation=cls.__name__)

    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        self.__dict__.update(bound.arguments)
        _convert_and_validate(self, stage)

    construct.__name__ = "__init__"
    self_parameter = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    construct.__signature__ = inspect.Signature([self_parameter, *parameters], return_annotation=cls)  # type: ignore[attr-defined]
    return construct


def _convert_and_validate(self: Any, stage: Stage) -> None:
    convert_all(self._tf_extension_type_fields(), self.__dict__, stage)
    self.__validate__()


def _parameters(fields: Sequence[Field], stage: Stage) -> list[inspect.Parameter]:
    """Returns the parameters of an extension type's constructor, one for each field.

    Python permits no positional parameter without a default after one with a default. So a field without a default
    becomes keyword-only there, and so do all later fields. A spec's constructor has neither defaults nor annotations.
    """
    parameter_kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    had_default, parameters = False, []
    for field_ in fields:
        default = inspect.Parameter.empty if stage is Stage.SPEC or field_.default is REQUIRED else field_.default
        had_default |= default is not inspect.Parameter.empty
        if had_default and default is inspect.Parameter.empty:
            parameter_kind = inspect.Parameter.KEYWORD_ONLY
        annotation = inspect.Parameter.empty if stage is Stage.SPEC else field_.annotation
        parameters.append(inspect.Parameter(field_.name, parameter_kind, default=default, annotation=annotation))
    return parameters


def _add_spec(cls: Any) -> None:
    """Creates the type spec of an extension type, its nested class ``Spec``.

    It has the type's fields, and the attributes of the user's own ``Spec`` if there is one.

    Raises:
      ValueError: the type has a batch encoder, but its values can't be batched.
    """
    name = f"{cls.__qualname__}.Spec"
    attributes = {"value_type": cls, "__module__": cls.__module__, **_user_spec_attributes(cls, name)}
    is_batchable = cls._spec_base is BatchableExtensionTypeSpec
    if is_batchable and hasattr(cls, "__batch_encoder__"):
        attributes.setdefault("__batch_encoder__", cls.__batch_encoder__)
    if not is_batchable and (hasattr(cls, "__batch_encoder__") or "__batch_encoder__" in attributes):
        raise ValueError("__batch_encoder__ should only be defined for BatchableExtensionType classes.")
    spec: Any = abc.ABCMeta(f"{cls.__name__}.Spec", (cls._spec_base,), attributes)
    spec.__qualname__ = name
    _add_constructor(spec, Stage.SPEC)
    cls.Spec = spec
    if "__name__" in cls.__dict__:
        register(f"{cls.__dict__['__name__']}.Spec", spec)


def _user_spec_attributes(cls: Any, spec_name: str) -> dict[str, Any]:
    """Returns the attributes of a user's nested class ``Spec``.

    Raises ValueError for a reserved name, and for the name of a field.
    """
    fields = {field_.name for field_ in cls._tf_extension_type_fields()}
    attributes = dict(vars(cls.__dict__["Spec"])) if "Spec" in cls.__dict__ else {}
    for name in attributes:
        if is_reserved(name):
            raise ValueError(f"TypeSpec {spec_name} uses reserved name '{name}'.")
        if name in fields:
            raise ValueError(
                f"TypeSpec {spec_name} defines a variable '{name}' which shadows a field in {cls.__qualname__}"
            )
    return {key: value for key, value in attributes.items() if key not in ("__module__", "__dict__", "__weakref__")}
