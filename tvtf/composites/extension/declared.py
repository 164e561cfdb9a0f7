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

_OF_FRAMEWORK = "_tf_extension_type_do_not_transform_this_class"


class ExtensionTypeMetaclass(abc.ABCMeta):
    """The metaclass that gives a class with annotated fields its constructor and its spec."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        if not namespace.get(_OF_FRAMEWORK, False):
            _check_declared(cls)
            _add_constructor(cls, Stage.VALUE)
            _add_spec(cls)
        super().__init__(name, bases, namespace)


def _check_declared(cls: Any) -> None:
    """Checks that a class's fields have annotations and no reserved names."""
    annotations = cls.__dict__.get("__annotations__", {})
    invalid = f"The field annotations for {cls.__name__} are invalid. Field"
    for name, value in cls.__dict__.items():
        if name == "Spec":
            _check_spec(cls, value)
        elif is_reserved(name):
            raise ValueError(f"{invalid} '{name}' is reserved.")
    for name in annotations:
        if is_reserved(name):
            raise ValueError(f"{invalid} '{name}' is reserved.")
    for name, value in cls.__dict__.items():
        if name not in annotations and not _is_no_field(name, value):
            raise ValueError(f"{invalid} {name} is missing a type annotation.")


def _is_no_field(name: str, value: Any) -> bool:
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
    cls.__init__ = (_own_constructor if "__init__" in cls.__dict__ else _constructor)(cls, stage)


def _own_constructor(cls: Any, stage: Stage) -> Callable[..., None]:
    """Wraps a class's own constructor, which may set fields, to check and convert them afterwards."""
    own = cls.__init__

    @functools.wraps(own)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        self.__dict__[CONSTRUCTING] = True
        own(self, *args, **kwargs)
        del self.__dict__[CONSTRUCTING]
        _finish(self, stage)

    return construct


def _constructor(cls: Any, stage: Stage) -> Callable[..., None]:
    """Returns a constructor that takes the fields as parameters."""
    parameters = _parameters(cls._tf_extension_type_fields(), stage)
    signature = inspect.Signature(parameters, return_annotation=cls.__name__)

    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        self.__dict__.update(bound.arguments)
        _finish(self, stage)

    construct.__name__ = "__init__"
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    construct.__signature__ = inspect.Signature([own, *parameters], return_annotation=cls)  # type: ignore[attr-defined]
    return construct


def _finish(self: Any, stage: Stage) -> None:
    convert_all(self._tf_extension_type_fields(), self.__dict__, stage)
    self.__validate__()


def _parameters(fields: Sequence[Field], stage: Stage) -> list[inspect.Parameter]:
    """Returns a parameter for each field; after a default, a field without one and all later fields are keyword-only."""
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    had_default, result = False, []
    for each in fields:
        default = inspect.Parameter.empty if stage is Stage.SPEC or each.default is REQUIRED else each.default
        had_default |= default is not inspect.Parameter.empty
        if had_default and default is inspect.Parameter.empty:
            kind = inspect.Parameter.KEYWORD_ONLY
        annotation = inspect.Parameter.empty if stage is Stage.SPEC else each.annotation
        result.append(inspect.Parameter(each.name, kind, default=default, annotation=annotation))
    return result


def _add_spec(cls: Any) -> None:
    """Creates the nested class ``Spec`` from the fields and the user's own ``Spec``, if there is one."""
    name = f"{cls.__qualname__}.Spec"
    own = {"value_type": cls, "__module__": cls.__module__, **_customized(cls, name)}
    is_batchable = cls._spec_base is BatchableExtensionTypeSpec
    if is_batchable and hasattr(cls, "__batch_encoder__"):
        own.setdefault("__batch_encoder__", cls.__batch_encoder__)
    if not is_batchable and (hasattr(cls, "__batch_encoder__") or "__batch_encoder__" in own):
        raise ValueError("__batch_encoder__ should only be defined for BatchableExtensionType classes.")
    spec: Any = abc.ABCMeta(f"{cls.__name__}.Spec", (cls._spec_base,), own)
    spec.__qualname__ = name
    _add_constructor(spec, Stage.SPEC)
    cls.Spec = spec
    if "__name__" in cls.__dict__:
        register(f"{cls.__dict__['__name__']}.Spec", spec)


def _customized(cls: Any, name: str) -> dict[str, Any]:
    """Returns the attributes that a user's nested class ``Spec`` defines."""
    fields = {f.name for f in cls._tf_extension_type_fields()}
    result = dict(vars(cls.__dict__["Spec"])) if "Spec" in cls.__dict__ else {}
    for each in result:
        if is_reserved(each):
            raise ValueError(f"TypeSpec {name} uses reserved name '{each}'.")
        if each in fields:
            raise ValueError(f"TypeSpec {name} defines a variable '{each}' which shadows a field in {cls.__qualname__}")
    return {k: v for k, v in result.items() if k not in ("__module__", "__dict__", "__weakref__")}
