"""The names that TensorFlow 1 has for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvtf import nest
from tvtf.context import state
from tvtf.dimension import Dimension, dimension_at_index, dimension_value
from tvtf.dtypes import as_dtype
from tvtf.frontend.control import while_loop as _while_loop
from tvtf.frontend.function import function
from tvtf.frontend.order import no_op
from tvtf.frontend.printing import print_ as _print
from tvtf.ops.operators import equality
from tvtf.primitive import public_names
from tvtf.records import unframed
from tvtf.tensor import SymbolicTensor, Tensor, convert_to_tensor
from tvtf.v1 import logging
from tvtf.v1.graph import Graph, GraphTrace, Operation, current_graph, get_default_graph
from tvtf.v1.session import InteractiveSession, Session, get_default_session
from tvtf.variable import Variable as _Variable


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SymbolicTensor:
    """A tensor that ``Session.run`` must be fed; unknown dims are None.

    Raises:
      RuntimeError: outside a graph.
    """
    return current_graph().placeholder(as_dtype(dtype), shape, name)


def Variable(initial_value: Any, trainable: bool = True, name: str | None = None, dtype: Any = None, **_: Any) -> Any:  # noqa: N802
    """A variable of the graph, which its initializer gives the value; outside a graph as ``tf.Variable``."""
    if not isinstance(state.trace, GraphTrace):
        return _Variable(initial_value, trainable=trainable, name=name, dtype=dtype)
    graph = current_graph()
    first = convert_to_tensor(initial_value() if callable(initial_value) else initial_value, dtype)
    symbol = graph.trace.own(first)
    outer, state.trace = state.trace, None
    try:
        made = _Variable(np.zeros(first.shape.as_list(), first.dtype.np), trainable=trainable, name=name)
    finally:
        state.trace = outer
    graph.variables[id(made)] = made, symbol
    return made


def get_variable(
    name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, trainable: bool = True, **_: Any
) -> Any:
    """The graph's variable of this name, made where there is none.

    Raises:
      ValueError: neither a shape nor an initial value is given.
    """
    from tvtf.initial import GlorotUniform

    for known in global_variables():
        if known.name == f"{name}:0":
            return known
    if initializer is not None and not callable(initializer):
        return Variable(initializer, trainable, name, dtype)
    if shape is None:
        raise ValueError(f"Shape of a new variable ({name}) must be fully defined, but instead was <unknown>.")
    make = initializer or GlorotUniform()
    return Variable(lambda: make(shape, as_dtype(dtype or "float32")), trainable, name)


def global_variables() -> list[Any]:
    """The graph's variables, in the order in which they were made."""
    return [v for v, _ in get_default_graph().variables.values()]


def trainable_variables(scope: str | None = None) -> list[Any]:
    """Those of them that are trained."""
    return [v for v in global_variables() if v.trainable]


def global_variables_initializer() -> Operation:
    """The op that gives each variable its initial value."""
    return variables_initializer(global_variables())


def variables_initializer(var_list: Sequence[Any], name: str = "init") -> Operation:
    """The op that gives some variables their initial values."""
    return get_default_graph().initializer(var_list, name)


def assign(
    ref: Any, value: Any, validate_shape: Any = None, use_locking: Any = None, name: str | None = None
) -> Tensor:
    """The new value of a variable; it is assigned when this is run."""
    return ref.assign(value)  # type: ignore[no-any-return]


def assign_add(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """As ``assign`` of the sum."""
    return ref.assign_add(value)  # type: ignore[no-any-return]


def assign_sub(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """As ``assign`` of the difference."""
    return ref.assign_sub(value)  # type: ignore[no-any-return]


def print(*inputs: Any, **kwargs: Any) -> Operation:  # noqa: A001 - TensorFlow's name
    """The op that prints when it is run."""
    graph = current_graph()
    with graph.trace.one_operation() as effects:
        _print(*inputs, **kwargs)
    return Operation("PrintV2", None, graph, effects)  # within a loop or branch it has none: it runs with that


def gradients(ys: Any, xs: Any, grad_ys: Any = None, name: str = "gradients", **_: Any) -> list[Any]:
    """The gradients of the sum of ``ys`` by each of ``xs``, as tensors of the graph; None where they don't depend."""
    flat = [convert_to_tensor(y) for y in nest.flatten(ys)]
    return current_graph().gradients(flat, nest.flatten(xs), grad_ys and nest.flatten(grad_ys))


def while_loop(cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, *args: Any, **kwargs: Any) -> Any:
    """As ``tf.while_loop``; one variable comes back bare."""
    found = _while_loop(cond, lambda *v: _listed(body(*v)), loop_vars, *args, **kwargs)
    return found[0] if isinstance(found, (list, tuple)) and len(found) == 1 else found


def _listed(found: Any) -> Any:
    return found if isinstance(found, (list, tuple)) else [found]


def string_join(inputs: Sequence[Any], separator: str = "", name: str | None = None) -> Tensor:
    """As ``tf.strings.join``."""
    return public_names()["strings.join"](inputs, separator)  # type: ignore[no-any-return]


class _Optimizer:
    """An optimizer of TensorFlow 1 by the one of ``tf.keras.optimizers`` that it became."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def compute_gradients(self, loss: Any, var_list: Any = None) -> list[tuple[Any, Any]]:
        """Pairs of a gradient and its variable."""
        variables = list(trainable_variables() if var_list is None else var_list)
        return list(zip(gradients(loss, variables), variables))

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Operation:
        """The op that does a step."""
        graph = current_graph()
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients."
            )
        if not self._made.built:
            outer, state.trace = state.trace, None
            try:
                self._made.build([v for _, v in pairs])
            finally:
                state.trace = outer
        with graph.trace.one_operation() as effects:
            self._made.apply_gradients(pairs)
            if global_step is not None:
                global_step.assign_add(1)
        return Operation("NoOp", name or type(self._made).__name__, graph, effects)

    def minimize(
        self, loss: Any, global_step: Any = None, var_list: Any = None, name: str | None = None, **_: Any
    ) -> Operation:
        """The op that does a step down the gradient of ``loss``."""
        return self.apply_gradients(self.compute_gradients(loss, var_list), global_step, name)


class _Train(type):
    """What ``tf.train`` has, besides."""

    def __getattr__(cls, name: str) -> Any:
        import tvtf

        return getattr(tvtf.train, name)


class train(metaclass=_Train):  # noqa: N801 - a namespace of TensorFlow's
    """``tf.compat.v1.train``."""

    @staticmethod
    def summary_iterator(path: str) -> Iterator[Any]:
        """The events in a file of TensorBoard's.

        Raises:
          ImportError: without the ``tensorboard`` extra.
        """
        from tvtf.summary.protos import proto

        with open(path, "rb") as file:
            yield from map(proto("compat.proto.event_pb2").Event.FromString, unframed(file))

    @staticmethod
    def GradientDescentOptimizer(learning_rate: float, use_locking: bool = False, name: str = "") -> _Optimizer:  # noqa: N802
        from tvtf.optimizers import SGD

        return _Optimizer(SGD(learning_rate))

    @staticmethod
    def MomentumOptimizer(
        learning_rate: float, momentum: float, use_locking: bool = False, name: str = ""
    ) -> _Optimizer:  # noqa: N802
        from tvtf.optimizers import SGD

        return _Optimizer(SGD(learning_rate, momentum=momentum))

    @staticmethod
    def AdamOptimizer(  # noqa: N802
        learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, **_: Any
    ) -> _Optimizer:
        from tvtf.optimizers import Adam

        return _Optimizer(Adam(learning_rate, beta1, beta2, epsilon))


@contextmanager
def colocate_with(op: Any, ignore_existing: bool = False) -> Iterator[None]:
    """Ops on the device of another: there is one."""
    yield


def _to(dtype: str) -> Callable[..., Tensor]:
    def to(x: Any, name: str | None = None) -> Tensor:
        return public_names()["cast"](x, as_dtype(dtype), name)  # type: ignore[no-any-return]

    return to


def wrap_function(fn: Callable[..., Any], signature: Any, name: str | None = None) -> Any:
    """A function traced once, for tensors as ``signature`` says; the Variables that it makes are its own.

    Returns:
      The concrete function.
    """
    return function(fn).get_concrete_function(*nest.flatten(signature))


def disable_eager_execution() -> None:
    """Refused: build ops in ``with tf.compat.v1.Graph().as_default():`` instead."""
    raise NotImplementedError(
        "tvtf runs ops eagerly outside graphs: build yours in `with tf.compat.v1.Graph().as_default():` and run it in a Session"
    )


def refuse_v1() -> None:
    """Refused: what TensorFlow 1 did by default."""
    raise NotImplementedError(
        "tvtf has Variables, control flow and shapes as TensorFlow 2 has them: tf.compat.v1.Dimension, dimension_value and "
        "TensorShape.dims give dims of TensorFlow 1"
    )


def enable_tensor_equality() -> None:
    """``==`` of tensors and Variables compares elements: so it does from the start."""
    equality.by_identity = False


def disable_tensor_equality() -> None:
    """``==`` of tensors and Variables tells whether they are one object; Variables can be keys of dicts."""
    equality.by_identity = True


PUBLIC = {
    "disable_v2_behavior": disable_eager_execution,
    "initialize_all_variables": global_variables_initializer,
    "local_variables_initializer": no_op,
    **dict.fromkeys(("enable_eager_execution", "enable_v2_behavior", "enable_resource_variables"), lambda: None),
    **dict.fromkeys(("enable_v2_tensorshape", "enable_control_flow_v2"), lambda: None),
    **dict.fromkeys(("resource_variables_enabled", "control_flow_v2_enabled"), lambda: True),
    **dict.fromkeys(("disable_resource_variables", "disable_control_flow_v2", "disable_v2_tensorshape"), refuse_v1),
    "executing_eagerly_outside_functions": lambda: True,
    **{f"to_{dtype}": _to(dtype) for dtype in ("bfloat16", "complex64", "complex128", "double", "int32", "int64")},
    "to_float": _to("float32"),
    "logging": logging,
    **{
        each.__name__: each
        for each in (
            *(Dimension, dimension_at_index, dimension_value, disable_tensor_equality, enable_tensor_equality),
            *(Graph, InteractiveSession, Operation, Session, Variable, assign, assign_add, assign_sub),
            *(disable_eager_execution, get_default_graph, get_default_session, get_variable, global_variables),
            *(global_variables_initializer, gradients, placeholder, print, string_join, train, trainable_variables),
            *(colocate_with, variables_initializer, while_loop, wrap_function),
        )
    },
}
