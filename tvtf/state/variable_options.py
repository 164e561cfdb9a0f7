"""Options of Variables: synchronization and aggregation between replicas, and creator scopes."""

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
    """When replicas of a Variable are synchronized. There is only one replica, so the choice has no effect.

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
    """How replicas' values of a Variable are combined. There is only one replica, so the choice has no effect.

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
    """Checks the options of ``tf.Variable``, and returns the synchronization and aggregation modes.

    An option that is None is set to its default.

    Raises:
      ValueError: an option is not a member of its enumeration, or ``constraint`` is not callable.
    """
    synchronization_mode = VariableSynchronization.AUTO if synchronization is None else synchronization
    aggregation_mode = VariableAggregationV2.NONE if aggregation is None else aggregation
    for value, enumeration, option in (
        (synchronization_mode, VariableSynchronization, "synchronization"),
        (aggregation_mode, VariableAggregationV2, "aggregation"),
    ):
        if not isinstance(value, enumeration):
            raise ValueError(f"Invalid variable {option} mode: {value} for variable: {name}")
    if constraint is not None and not callable(constraint):
        raise ValueError(
            f"Argument `constraint` must be None or a callable. a callable. Got a {type(constraint)}:  {constraint}"
        )
    return synchronization_mode, aggregation_mode


@export("variable_creator_scope")
@contextmanager
def variable_creator_scope(variable_creator: Callable[..., Any]) -> Iterator[None]:
    """Opens a scope in which ``tf.Variable(...)`` calls ``variable_creator(next_creator, **arguments)``.

    In nested scopes, the creator of the innermost scope is called first.

    Args:
      variable_creator: returns the Variable, usually by calling ``next_creator`` with changed arguments.

    >>> import tvtf as tf
    >>> def frozen(next_creator, **arguments):
    ...     return next_creator(**(arguments | {"trainable": False}))
    >>> with tf.variable_creator_scope(frozen):
    ...     tf.Variable(1.).trainable
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/variable_creator_scope
    """
    outer_creators = state.creators
    state.creators = [*outer_creators, variable_creator]
    try:
        yield
    finally:
        state.creators = outer_creators


class MadeByCreators(type):
    """The metaclass of Variable, by which ``tf.Variable(...)`` calls the creators of open creator scopes."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Creates a Variable by the creators of the open ``variable_creator_scope`` blocks.

        The creator of the innermost block is called first. Each creator is passed the next one as its argument. The last
        one creates the Variable.
        """
        create: Callable[..., Any] = super().__call__
        if "calls_creators" not in vars(cls):  # a subclass, which is created directly
            return create(*args, **kwargs)
        if state.trace is not None and state.trace.make_variable is not None:  # a TensorFlow 1 graph
            create = state.trace.make_variable
        if not state.creators:
            return create(*args, **kwargs)
        # Creators are passed all arguments by name, including defaults. None stands for ``self``.
        bound = inspect.signature(vars(cls)["__init__"]).bind(None, *args, **kwargs)
        bound.apply_defaults()
        for creator in state.creators:  # from the outermost to the innermost
            create = _bound_creator(creator, create)
        return create(**{name: value for name, value in bound.arguments.items() if name != "self"})


def _bound_creator(creator: Callable[..., Any], next_creator: Callable[..., Any]) -> Callable[..., Any]:
    """Returns ``creator`` with its first argument bound to ``next_creator``.

    A lambda in the caller's loop would refer to the loop's variables, and call the last creator each time.
    """
    return lambda **arguments: creator(next_creator, **arguments)
