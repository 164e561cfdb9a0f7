"""``tf.types.experimental``: what functions are, for annotations and ``isinstance``."""

from __future__ import annotations

from typing import Any

from tvtf.core.primitive import exports


class Callable:
    """What ``tf.function`` and its traces are.

    >>> import tvtf as tf
    >>> isinstance(tf.function(lambda x: x), tf.types.experimental.Callable)
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/types/experimental/Callable
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what calling it does")


class PolymorphicFunction(Callable):
    """What ``tf.function`` makes.

    >>> import tvtf as tf
    >>> isinstance(tf.function(lambda x: x), tf.types.experimental.GenericFunction)
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/types/experimental/PolymorphicFunction
    """


class ConcreteFunction(Callable):
    """One trace of a function.

    >>> import tvtf as tf
    >>> traced = tf.function(lambda x: x).get_concrete_function(1.)
    >>> isinstance(traced, tf.types.experimental.ConcreteFunction)
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/types/experimental/ConcreteFunction
    """


for _kind in (Callable, PolymorphicFunction, ConcreteFunction):
    exports[f"types.experimental.{_kind.__name__}"] = _kind
exports["types.experimental.GenericFunction"] = PolymorphicFunction
