"""Extension types: users' classes whose annotated fields are tensors, nests of them, and plain values.

Source: https://www.tensorflow.org/guide/extension_type
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Any

from tvtf.composites.extension.declared import ExtensionTypeMetaclass
from tvtf.composites.extension.fields import REQUIRED, Field, field
from tvtf.composites.extension.specs import BatchableExtensionTypeSpec, ExtensionTypeSpec, Immutable, as_dict, listed
from tvtf.core import nest
from tvtf.core.composite import CompositeTensor
from tvtf.core.primitive import add_handler, export
from tvtf.core.shape import agree_shape
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.ops.rules import bind


@export("experimental.ExtensionType")
class ExtensionType(Immutable, CompositeTensor, metaclass=ExtensionTypeMetaclass):
    """The base class of users' composite tensors, which functions, control flow and datasets accept as values.

    A subclass annotates its fields: ``int``, ``float``, ``str``, ``bool``, ``None``, ``tf.Tensor``, ``tf.TensorShape``,
    ``tf.DType``, extension types and other composite tensors, ``tuple[...]``, ``Mapping[...]`` and unions of these. It
    gets a constructor that checks and converts them, ``__repr__``, ``__eq__``, and a nested ``Spec``; values don't change.

    Raises:
      TypeError: when made, a value does not fit its field; when declared, an annotation is not supported.
      ValueError: when declared, a field has a reserved name or no annotation.
      AttributeError: an attribute is set or deleted.

    >>> import tvtf as tf
    >>> class Masked(tf.experimental.ExtensionType):
    ...     values: tf.Tensor
    ...     mask: tf.Tensor
    >>> @tf.function
    ... def twice(x):
    ...     return Masked(x.values * 2, x.mask)
    >>> twice(Masked([1, 2], [True, False])).values.numpy()
    array([2, 4], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/ExtensionType
    """

    _tf_extension_type_do_not_transform_this_class = True
    _kind_name = "ExtensionType"
    _spec_base = ExtensionTypeSpec
    if typing.TYPE_CHECKING:
        Spec: Any
        _tf_extension_type_cached_fields: tuple[Field, ...]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if type(self) is ExtensionType:
            raise AssertionError(
                "Cannot create an instance of ExtensionType because ExtensionType is an abstract base class."
            )

    @classmethod
    def _tf_extension_type_fields(cls) -> Sequence[Field]:
        """Returns the extension type's fields; they are cached as soon as all annotations can be resolved."""
        if "_tf_extension_type_cached_fields" not in cls.__dict__:
            hints, are_all_known = _annotations(cls)
            fields = tuple(field(name, hint, getattr(cls, name, REQUIRED)) for name, hint in hints.items())
            if not are_all_known:
                return fields
            cls._tf_extension_type_cached_fields = fields
        return cls._tf_extension_type_cached_fields

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({listed(as_dict(self))})"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __eq__(self, other: object) -> Any:
        if type(self) is not type(other) or self._type_spec != other._type_spec:  # type: ignore[attr-defined]
            return False
        pairs = zip(nest.flatten(self, expand_composites=True), nest.flatten(other, expand_composites=True))
        return bind.reduce_all(bind.stack(*(_all_equal(*pair) for pair in pairs), axis=0), axis=(0,), keepdims=False)

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return bind.logical_not(equal) if isinstance(equal, Tensor) else not equal

    __hash__ = None  # type: ignore[assignment]

    @property
    def _type_spec(self) -> Any:
        if "_tf_extension_type_cached_type_spec" not in self.__dict__:
            self.__dict__["_tf_extension_type_cached_type_spec"] = self.Spec.from_value(self)
        return self.__dict__["_tf_extension_type_cached_type_spec"]


def _all_equal(a: Tensor, b: Tensor) -> Tensor:
    """Returns whether two tensors have the same shape and equal elements."""
    if not agree_shape(a._type.shape, b._type.shape):
        return convert_to_tensor(False)
    same = bind.equal(a, b)
    return bind.reduce_all(same, axis=tuple(range(same.ndim)), keepdims=False)


def _annotations(cls: type) -> tuple[dict[str, Any], bool]:
    """Returns the type annotations of a class's fields by name, and whether all of them could be resolved.

    An annotation that is a string may refer to a class that is defined later. Then all annotations are returned
    unresolved.
    """
    try:
        return typing.get_type_hints(cls), True
    except (NameError, AttributeError):
        unresolved: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            unresolved.update(base.__dict__.get("__annotations__", {}))
        return unresolved, False


def apply_to_components(path: str) -> None:
    """Makes a public function of one tensor accept extension types, by applying it to each tensor that they consist of.

    The result is a value of the same extension type. ``path`` is the function's name below ``tf``, such as "identity".
    """

    def handler(function: Any, *args: Any, **kwargs: Any) -> Any:
        """Applies the function to the components of the first argument; others, such as a name, have no effect."""
        value, *_ = (*args, *kwargs.values())
        return nest.map_structure(function, value, expand_composites=True)

    add_handler(path, lambda value: isinstance(value, ExtensionType), handler)


@export("experimental.BatchableExtensionType")
class BatchableExtensionType(ExtensionType):
    """An extension type whose values can be batched, in ``tf.data`` and ``tf.map_fn``.

    >>> import tvtf as tf
    >>> class Vehicle(tf.experimental.BatchableExtensionType):
    ...     top_speed: tf.Tensor
    ...     mpg: tf.Tensor
    >>> batch = Vehicle([120, 150, 80], [30, 40, 12])
    >>> tf.map_fn(lambda v: v.top_speed * v.mpg, batch, fn_output_signature=tf.int32).numpy()
    array([3600, 6000,  960], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/BatchableExtensionType
    """

    _tf_extension_type_do_not_transform_this_class = True
    _spec_base = BatchableExtensionTypeSpec


del annotations  # else doctest runs the examples with this module's __future__ import, which makes annotations strings
