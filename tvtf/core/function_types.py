"""``tf.types.experimental``: the types of functions, for annotations and ``isinstance``."""

from __future__ import annotations

from typing import Any

from tvtf.core.primitive import exports


class Callable:
    """The base type of ``tf.function`` objects and of their traces.

    >>> import tvtf as tf
    >>> isinstance(tf.function(lambda x: x), tf.types.experimental.Callable)
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/types/experimental/Callable
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what calling it does")


class PolymorphicFunction(Callable):
    """The type of the objects that ``tf.function`` creates.

    >>> import tvtf as tf
    >>> isinstance(tf.function(lambda x: x), tf.types.experimental.GenericFunction)
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/types/experimental/PolymorphicFunction
    """


class ConcreteFunction(Callable):
    """The type of a traced function with one signature.

    >>> import tvtf as tf
    >>> traced = tf.function(lambda x: x).get_concrete_function(1.)
    >>> isinstance(traced, tf.types.experimental.ConcreteFunction)
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/types/experimental/ConcreteFunction
    """


for _kind in (Callable, PolymorphicFunction, ConcreteFunction):
    exports[f"types.experimental.{_kind.__name__}"] = _kind
exports["types.experimental.GenericFunction"] = PolymorphicFunction
