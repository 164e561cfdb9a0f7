"""Short functions that only TensorFlow 1 has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tvtf.api.compat import dimension_at_index
from tvtf.core import nest
from tvtf.core.primitive import public_names
from tvtf.core.shape import as_shape
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.tensorboard_protos import proto
from tvtf.core.thread_state import state
from tvtf.core.v1_dimension import Dimension, dimension_value
from tvtf.dtypes import as_dtype
from tvtf.fileio.protobuf import parsed
from tvtf.fileio.tfrecord import records_of
from tvtf.frontend.function.polymorphic_function import function
from tvtf.frontend.gradient.graph_gradients import gradients as gradients_in_trace
from tvtf.frontend.host.printing import print_ as _print
from tvtf.frontend.host.python_call import numpy_function
from tvtf.ops.operators import equality
from tvtf.ops.rules import bind
from tvtf.state.module import name_scope as _name_scope
from tvtf.v1 import logging
from tvtf.v1.body_graph import get_default_graph
from tvtf.v1.default_session import get_default_session
from tvtf.v1.graph import (
    Graph,
    GraphTrace,
    Operation,
    build_by_default,
    current_graph,
    reset_default_graph,
)
from tvtf.v1.registry import names, tf_, v1
from tvtf.v1.session import InteractiveSession, Session


@v1("placeholder")
def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SymbolicTensor:
    """Creates a tensor whose value is passed to ``Session.run`` in its ``feed_dict``.

    Unknown dims of ``shape`` are None.

    Raises:
      RuntimeError: no graph is being built.
    """
    if state.trace is None:
        raise RuntimeError("tf.placeholder() is not compatible with eager execution.")
    return current_graph().placeholder(as_dtype(dtype), shape, name)


@v1("placeholder_with_default")
def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:  # noqa: A002
    """Returns a tensor with the value ``input``, unless ``Session.run`` is fed another value of this shape.

    A ``tf.function`` is not fed. There the result is ``input``, and dims that are None in ``shape`` are unknown.
    """
    if state.trace is None:
        return bind.identity(convert_to_tensor(input))  # type: ignore[no-any-return]
    trace = state.trace.root
    if not isinstance(trace, GraphTrace):
        return _default_with_unknown_dims(state.trace, input, shape)  # type: ignore[no-any-return]
    with trace.without_op_names():
        tensor = _default_with_unknown_dims(trace, input, shape)
        tensor.known = None  # a fed value may differ from the default
        trace.fed.add(tensor._var)
    trace.name_results(tensor, name or "PlaceholderWithDefault", "PlaceholderWithDefault")
    return tensor  # type: ignore[no-any-return]


def _default_with_unknown_dims(trace: Any, default: Any, shape: Any) -> Any:
    """Copies a placeholder's default value. The dims of the copy that are None in ``shape`` are statically unknown."""
    default, static_shape = convert_to_tensor(default), as_shape(shape)
    copy = bind.identity(trace.own(default))
    if not static_shape.is_fully_defined() and default.shape.is_fully_defined():
        return _forget_dims(copy, static_shape)
    return copy


def _forget_dims(tensor: Any, shape: Any) -> Any:
    """Returns the same value with a static shape in which dims are unknown."""
    return numpy_function(lambda x: x, [tensor], TensorSpec(shape, tensor.dtype))


@v1("name_scope")
class name_scope:  # noqa: N801 - TensorFlow's name
    """Returns a context manager that prefixes names with ``name``, else with ``default_name``.

    In a graph the prefix is made unique.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/name_scope
    """

    def __init__(self, name: str | None = None, default_name: str | None = None, values: Any = None) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"`name` must be of type str. Received: {name!r}")
        self._name = default_name if name is None else name

    @property
    def name(self) -> str | None:
        return self._name

    def __enter__(self) -> str:
        in_graph = isinstance(state.trace, GraphTrace)
        self._scope = get_default_graph().name_scope(self._name) if in_graph else _name_scope(self._name or "")
        return self._scope.__enter__()  # type: ignore[no-any-return]

    def __exit__(self, *exception: Any) -> None:
        self._scope.__exit__(*exception)


@v1("op_scope")
def op_scope(values: Any, name: str | None, default_name: str | None = None) -> Any:
    """Same as ``name_scope``."""
    return name_scope(name, default_name, values)


def _graph_method(method: str) -> None:
    """Declares the function ``tf.compat.v1.<method>``, which calls this method of the default graph."""

    def run(*args: Any, **kwargs: Any) -> Any:
        return getattr(get_default_graph(), method)(*args, **kwargs)

    run.__name__ = method
    v1(method)(run)


for _method in ("add_to_collection", "add_to_collections", "get_collection", "get_collection_ref"):
    _graph_method(_method)


@v1("colocate_with")
@contextmanager
def colocate_with(op: Any, ignore_existing: bool = False) -> Iterator[None]:
    """Accepted and ignored: all ops are on one device."""
    yield


@v1("container")
@contextmanager
def container(container_name: str) -> Iterator[None]:
    """Accepted and ignored."""
    yield


@v1("get_seed")
def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """Returns the two seeds of a random op: the graph's seed and the op's. Both are None if neither is set.

    If only one is set, TensorFlow's default replaces the other: 87654321 for the graph, 0 for the op.
    """
    graph_seed = get_default_graph().seed
    if graph_seed is None and op_seed is None:
        return None, None
    if graph_seed is None:
        graph_seed = 87654321
    return graph_seed, 0 if op_seed is None else op_seed


@v1("print")
def print(*inputs: Any, **kwargs: Any) -> Any:  # noqa: A001 - TensorFlow's name
    """Prints its inputs. In a graph, returns an op that prints when it runs."""
    if not isinstance(state.trace, GraphTrace):
        return _print(*inputs, **kwargs)
    graph = current_graph()
    with graph.trace.one_operation() as effects:
        _print(*inputs, **kwargs)
    # Inside a loop or branch there are no effects: the loop or branch itself runs the print.
    return Operation("PrintV2", None, graph, effects)


@v1("gradients")
def gradients(
    ys: Any, xs: Any, grad_ys: Any = None, name: str = "gradients", colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False, aggregation_method: Any = None, stop_gradients: Any = None, unconnected_gradients: Any = "none",
) -> list[Any]:  # fmt: skip
    """Returns the gradients of the sum of ``ys`` with respect to each of ``xs``, tensors of the graph.

    If ``ys`` do not depend on an ``x``, its gradient is None, or zero with ``unconnected_gradients="zero"``.

    Args:
      ys, xs: the tensors to differentiate, and those to differentiate with respect to.
      grad_ys: the cotangents of ``ys``; ones if it is None.
      name: the name scope of the gradients.
      stop_gradients: tensors that are taken for constants, or None.
      unconnected_gradients: "none" or "zero".
    """
    if state.trace is not None and not isinstance(state.trace, GraphTrace):
        # The trace is that of a function, branch or loop body: the graph does not record its ops.
        return gradients_in_trace(  # type: ignore[no-any-return]
            ys, xs, grad_ys, stop_gradients=stop_gradients, unconnected_gradients=unconnected_gradients
        )
    graph = current_graph()
    with graph.trace.without_op_names():
        flat_ys = [convert_to_tensor(y) for y in nest.flatten(ys)]
    sources = nest.flatten(xs)
    seeds = None if grad_ys is None else nest.flatten(grad_ys)
    stop = [] if stop_gradients is None else nest.flatten(stop_gradients)
    found = graph.gradients(flat_ys, sources, seeds, name, stop)
    unconnected = str(getattr(unconnected_gradients, "value", unconnected_gradients))
    if unconnected != "zero":
        return found
    zeros_like = public_names()["zeros_like"]
    return [zeros_like(x) if gradient is None else gradient for gradient, x in zip(found, sources)]


@v1("hessians")
def hessians(ys: Any, xs: Any, name: str = "hessians", **_: Any) -> list[Any]:
    """Returns the Hessian matrices of the sum of ``ys`` with respect to each of ``xs``."""
    sources = xs if isinstance(xs, (list, tuple)) else [xs]
    matrices = []
    for x in sources:
        (gradient,) = gradients(ys, [x])
        flat_gradient = tf_("reshape")(gradient, [-1])
        rows = []
        for i in range(flat_gradient.shape[0]):  # a row of the matrix is the gradient of one element of the gradient
            (row,) = gradients(flat_gradient[i], [x])
            rows.append(row)
        shape = x.shape.as_list()
        matrices.append(tf_("reshape")(tf_("stack")(rows), [*shape, *shape]))
    return matrices


@v1("train.summary_iterator")
def summary_iterator(path: str) -> Iterator[Any]:
    """Yields the ``Event`` messages of an event file, as TensorBoard reads them.

    Raises:
      ImportError: the ``tensorboard`` extra is not installed.
    """
    decode = proto("compat.proto.event_pb2").Event.FromString
    for record in records_of(os.fspath(path)):
        yield parsed(decode, record, f"{path}: an event")


def _cast_function(dtype: str) -> Callable[..., Tensor]:
    def to(x: Any, name: str | None = None) -> Tensor:
        return public_names()["cast"](x, as_dtype(dtype), name)  # type: ignore[no-any-return]

    return to


def wrap_function(fn: Callable[..., Any], signature: Any, name: str | None = None) -> Any:
    """Traces a function once for arguments of ``signature`` and returns the concrete function.

    The function may create Variables. They are created once and kept, although tracing may call the function several
    times.
    """
    variables: list[Any] = []

    def run(*args: Any) -> Any:
        """Calls the function. The first call creates the function's Variables, and later calls reuse them."""
        existing = iter(list(variables))  # in the order in which each call of the function creates them

        def reuse_or_create(create: Callable[..., Any], **kwargs: Any) -> Any:
            """Returns the next Variable of the first call, or creates one in the first call."""
            variable = next(existing, None)
            if variable is None:
                variable = create(**kwargs)
                variables.append(variable)
            return variable

        with public_names()["variable_creator_scope"](reuse_or_create):
            return fn(*args)

    return function(run, autograph=False).get_concrete_function(*nest.flatten(signature))


def disable_eager_execution() -> None:
    """Makes this thread add its ops to a default graph, which a ``Session`` runs, instead of running them eagerly.

    Raises:
      ValueError: the call is inside a function or a graph.
    """
    if state.trace is None:
        build_by_default()
    elif not isinstance(state.trace, GraphTrace):
        raise ValueError("tf.disable_eager_execution must be called at program startup.")


def enable_eager_execution(config: Any = None, device_policy: Any = None, execution_mode: Any = None) -> None:
    """Has no effect: ops run eagerly by default.

    Raises:
      ValueError: a graph is being built by default.
    """
    if isinstance(state.trace, GraphTrace):
        raise ValueError("tf.enable_eager_execution must be called at program startup.")


def disable_v2_behavior() -> None:
    """Same as ``disable_eager_execution``; shapes, Variables and control flow stay those of TensorFlow 2."""
    disable_eager_execution()


def raise_unsupported() -> None:
    """Raises: tvtf does not have TensorFlow 1's own Variables, control flow and shapes."""
    raise NotImplementedError(
        "tvtf has Variables, control flow and shapes as TensorFlow 2 has them: tf.compat.v1.Dimension, dimension_value and "
        "TensorShape.dims give dims of TensorFlow 1"
    )


def enable_tensor_equality() -> None:
    """Makes ``==`` of tensors and Variables compare elements, as it does from the start."""
    equality.by_identity = False


def disable_tensor_equality() -> None:
    """Makes ``==`` of tensors and Variables test identity from now on, so that Variables can be keys of dicts."""
    equality.by_identity = True


names |= {
    **dict.fromkeys(("enable_resource_variables", "enable_v2_tensorshape", "enable_control_flow_v2"), lambda: None),
    **dict.fromkeys(("resource_variables_enabled", "control_flow_v2_enabled"), lambda: True),
    **dict.fromkeys(
        ("disable_resource_variables", "disable_control_flow_v2", "disable_v2_tensorshape"), raise_unsupported
    ),
    "executing_eagerly_outside_functions": lambda: state.trace is None or not isinstance(state.trace.root, GraphTrace),
    **{
        f"to_{dtype}": _cast_function(dtype)
        for dtype in ("bfloat16", "complex64", "complex128", "double", "int32", "int64")
    },
    "to_float": _cast_function("float32"),
    "logging": logging,
    **{
        each.__name__: each
        for each in (
            *(Dimension, dimension_at_index, dimension_value, disable_tensor_equality, enable_tensor_equality),
            *(Graph, InteractiveSession, Operation, Session, disable_eager_execution, enable_eager_execution),
            *(disable_v2_behavior, get_default_graph, get_default_session, reset_default_graph, wrap_function),
        )
    },
}
