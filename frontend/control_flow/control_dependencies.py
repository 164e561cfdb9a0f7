"""``tf.control_dependencies``, ``tf.group``, ``tf.init_scope`` and others: the order and scope of traced ops.

A compiled function runs effects in program order, so control dependencies hold by themselves. In a TensorFlow 1 graph
they are recorded (``Trace.after``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvtf.core import nest
from tvtf.core.composite import CompositeTensor
from tvtf.core.deferred_shape import AnyValue
from tvtf.core.graph_operation import Operation, done
from tvtf.core.primitive import export
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor, is_tensor, static_value
from tvtf.core.thread_state import state
from tvtf.ops.rules import bind, listed


@export("control_dependencies")
@contextmanager
def control_dependencies(control_inputs: Any) -> Iterator[None]:
    """Has ops created in the context run after ``control_inputs``, as program order does anyway.

    Args:
      control_inputs: list of tensors and operations; None for none.

    Raises:
      TypeError: while tracing, an entry of ``control_inputs`` is neither a tensor nor an operation.

    >>> import tvtf as tf
    >>> @tf.function
    ... def f(x):
    ...     with tf.control_dependencies([tf.debugging.assert_positive(x)]):
    ...         return tf.identity(x)
    >>> f(tf.constant(1)).numpy()
    np.int32(1)

    Source: https://www.tensorflow.org/api_docs/python/tf/control_dependencies
    """
    dependencies = nest.flatten(list(control_inputs or ()))
    if state.trace is None:
        yield
        return
    for each in dependencies:
        _require_node(each)
    with state.trace.after(dependencies):
        yield


def _require_node(each: Any) -> None:
    """Raises TensorFlow's TypeError if a control input is neither a tensor nor a graph operation."""
    if not isinstance(each, (Operation, Tensor)) and not is_tensor(each):
        kind = type(each)
        raise TypeError(
            f"The op type must be an Operation, Tensor or Variable, but control_dependencies got {each!r} of type {kind}"
        )


@export("group")
def group(*inputs: Any, **kwargs: Any) -> Operation | None:
    """Returns one operation that is done when all ``inputs`` are.

    Args:
      *inputs: tensors, operations and structures of them.
      name: of the operation.

    Returns:
      None; while tracing, an ``Operation``.

    Raises:
      TypeError: an input is neither a tensor nor an operation.
      ValueError: a keyword argument is not ``name``.

    >>> import tvtf as tf
    >>> tf.group(tf.constant(1), [tf.constant(2)])

    Source: https://www.tensorflow.org/api_docs/python/tf/group
    """
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError(f"Unknown keyword arguments: {', '.join(kwargs)}")
    if state.trace is None:
        return None
    for each in nest.flatten(inputs):
        # In a function, whose effects all run, an op without a result may be None.
        is_none = each is None and not state.trace.has_keys
        if not is_none and not isinstance(each, Operation) and not is_tensor(each):
            raise TypeError(
                f"'inputs' should be zero or more (nested) Tensors. Received '{each}' with type '{type(each)}'."
            )
    return done("NoOp", name or "group_deps", *inputs)


@export("tuple")
def tuple_(tensors: Sequence[Any], control_inputs: Any = None, name: str | None = None) -> list[Any]:
    """Returns the tensors, none of which is used before all are computed.

    Args:
      tensors: list of tensors; None stays.
      control_inputs: tensors and operations that must be done before.

    Returns:
      A list of tensors of the same values.

    Raises:
      ValueError: while tracing, ``tensors`` has no tensor.

    >>> import tvtf as tf
    >>> [t.numpy() for t in tf.tuple([tf.constant(1), tf.constant(2)])]
    [np.int32(1), np.int32(2)]

    Source: https://www.tensorflow.org/api_docs/python/tf/tuple
    """
    if state.trace is None:
        return tensors  # type: ignore[return-value]
    if all(tensor is None for tensor in tensors):
        raise ValueError(f"'tensors' must have at least one Tensor. Received: {tensors}.")
    with control_dependencies(control_inputs):
        return [
            tensor if tensor is None or isinstance(tensor, Operation) else bind.identity(convert_to_tensor(tensor))
            for tensor in tensors  # an identity runs after the control inputs
        ]


@export("no_op")
def no_op(name: str | None = None) -> Operation | None:
    """Does nothing. While a function is traced, an operation that does nothing is returned.

    >>> import tvtf as tf
    >>> tf.no_op()

    Source: https://www.tensorflow.org/api_docs/python/tf/no_op
    """
    return done("NoOp", name)


@export("identity_n")
def identity_n(input: Any, name: str | None = None) -> list[Tensor]:  # noqa: A002 - TensorFlow's name
    """Returns a list of tensors with the same values; gradients pass through.

    >>> import tvtf as tf
    >>> [t.numpy() for t in tf.identity_n([1, 2.])]
    [np.int32(1), np.float32(2.0)]

    Source: https://www.tensorflow.org/api_docs/python/tf/identity_n
    """
    # In eager execution TensorFlow takes whatever can be iterated.
    tensors = input if state.trace is None else listed(input, "input", "IdentityN")
    return [bind.identity(convert_to_tensor(x)) for x in tensors]


@export("init_scope")
@contextmanager
def init_scope() -> Iterator[None]:
    """Runs the code in the context eagerly, even while a function is traced. Variables may be created there.

    Gradient tapes that are open outside don't record the code. Name scopes stay open.

    >>> import tvtf as tf
    >>> @tf.function
    ... def f():
    ...     with tf.init_scope():
    ...         return tf.executing_eagerly()
    >>> f().numpy()
    np.True_

    Source: https://www.tensorflow.org/api_docs/python/tf/init_scope
    """
    outer, tapes = state.trace, state.tapes
    # Observers see every op, eager or traced.
    state.trace = None
    state.tapes = list(state.observers)
    try:
        yield
    finally:
        state.trace, state.tapes = outer, tapes


# -- where one is


@export("inside_function")
def inside_function() -> bool:
    """Returns whether a function is being traced. Building a TensorFlow 1 graph is not.

    >>> import tvtf as tf
    >>> tf.inside_function(), tf.function(tf.inside_function)().numpy()
    (False, np.True_)

    Source: https://www.tensorflow.org/api_docs/python/tf/inside_function
    """
    return state.trace is not None and state.trace.builds_function


@export("get_current_name_scope")
def get_current_name_scope() -> str:
    """Returns the names of the open name scopes, outermost first, joined by slashes.

    >>> import tvtf as tf
    >>> with tf.name_scope("a"), tf.name_scope("b"):
    ...     print(tf.get_current_name_scope())
    a/b

    Source: https://www.tensorflow.org/api_docs/python/tf/get_current_name_scope
    """
    return "/".join(state.name_scopes)


@export("get_static_value", waits=False)
def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """Returns a tensor's value if it is known without running anything, as a NumPy array or scalar; otherwise None.

    A value that is not a tensor is returned unchanged.

    Args:
      partial: accepted; partially known arrays are not returned.

    >>> import tvtf as tf
    >>> tf.get_static_value(tf.constant([1, 2]))
    array([1, 2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/get_static_value
    """
    if not is_tensor(tensor) and not isinstance(tensor, CompositeTensor):
        return tensor
    if isinstance(tensor, SymbolicTensor) and isinstance(tensor.known, AnyValue):
        return None
    value = static_value(tensor)
    if value is None and isinstance(tensor, SymbolicTensor):
        from tvtf.ir.computed_constants import folded  # it needs TVM, which tracing has loaded

        value = folded(tensor)
    if value is None:
        return None
    return value.copy() if value.ndim else value[()]
