"""What a Variable may be told beside its value: how replicas agree about it, and who makes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from tvtf.core.primitive import export
from tvtf.core.thread_state import state


@export("VariableSynchronization")
class VariableSynchronization(Enum):
    """When the replicas of a Variable are made to agree; there is one replica, so every choice means the same.

    >>> import tvtf as tf
    >>> tf.VariableSynchronization.ON_READ
    <VariableSynchronization.ON_READ: 3>

    Source: https://www.tensorflow.org/api_docs/python/tf/VariableSynchronization
    """

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


@export("VariableAggregation")
class VariableAggregationV2(Enum):
    """How the replicas' values of a Variable become one; there is one replica, so every choice means the same.

    >>> import tvtf as tf
    >>> tf.VariableAggregation.MEAN
    <VariableAggregationV2.MEAN: 2>

    Source: https://www.tensorflow.org/api_docs/python/tf/VariableAggregation
    """

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


def checked_options(
    name: str | None, synchronization: Any, aggregation: Any, constraint: Any
) -> tuple[VariableSynchronization, VariableAggregationV2]:
    """The two choices, the defaults where None.

    Raises:
      ValueError: no member of its enumeration, or a constraint that cannot be called.
    """
    sync = VariableSynchronization.AUTO if synchronization is None else synchronization
    agg = VariableAggregationV2.NONE if aggregation is None else aggregation
    for value, kind, what in (
        (sync, VariableSynchronization, "synchronization"),
        (agg, VariableAggregationV2, "aggregation"),
    ):
        if not isinstance(value, kind):
            raise ValueError(f"Invalid variable {what} mode: {value} for variable: {name}")
    if constraint is not None and not callable(constraint):
        raise ValueError(
            f"Argument `constraint` must be None or a callable. a callable. Got a {type(constraint)}:  {constraint}"
        )
    return sync, agg


@export("variable_creator_scope")
@contextmanager
def variable_creator_scope(variable_creator: Callable[..., Any]) -> Iterator[None]:
    """Inside, ``tf.Variable(...)`` is ``variable_creator(next_creator, **its arguments)``; the innermost scope comes first.

    Args:
      variable_creator: calls ``next_creator`` with arguments of its own, or makes something else.

    >>> import tvtf as tf
    >>> def frozen(next_creator, **arguments):
    ...     return next_creator(**(arguments | {"trainable": False}))
    >>> with tf.variable_creator_scope(frozen):
    ...     tf.Variable(1.).trainable
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/variable_creator_scope
    """
    outer = state.creators
    state.creators = [*outer, variable_creator]
    try:
        yield
    finally:
        state.creators = outer


class MadeByCreators(type):
    """The type of Variable: its call goes through the creators around it, innermost first."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        make: Callable[..., Any] = super().__call__
        if "asks_creators" not in vars(cls):
            return make(*args, **kwargs)
        if state.trace is not None and state.trace.make_variable is not None:
            make = state.trace.make_variable
        if not state.creators:
            return make(*args, **kwargs)
        bound = inspect.signature(vars(cls)["__init__"]).bind(None, *args, **kwargs)
        bound.apply_defaults()
        for creator in state.creators:
            make = _through(creator, make)
        return make(**{k: v for k, v in bound.arguments.items() if k != "self"})


def _through(creator: Callable[..., Any], make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **arguments: creator(make, **arguments)
