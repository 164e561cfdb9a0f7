"""The variable of a graph, which has a value for each session, and its creation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tvtf.core.graph_operation import Operation
from tvtf.core.shape import TensorShape, as_shape
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.dtypes import DType, as_dtype, string
from tvtf.errors import FailedPreconditionError
from tvtf.frontend.host.python_call import numpy_function
from tvtf.ops.rules import bind
from tvtf.state.trackable import TensorSpecs
from tvtf.state.variable import ResourceVariable
from tvtf.state.variable_options import checked_options
from tvtf.v1.default_session import current, running
from tvtf.v1.registry import v1


class VariableGraph(Protocol):
    """What a variable uses of its graph (`tvtf.v1.graph.Graph`, whose module imports this one)."""

    trace: Any
    variables: dict[int, tuple[Any, SymbolicTensor]]
    operations: Any

    def unique_name(self, name: str) -> str: ...

    def initializer(self, variables: Sequence[Any], name: str) -> Operation: ...

    def add_variable(self, variable: Any, initial_value: SymbolicTensor, name: str) -> None: ...

    def add_to_collections(self, names: Any, value: Any) -> None: ...


@v1("GraphKeys")
class GraphKeys:
    """The names of TensorFlow 1's collections.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/GraphKeys
    """

    GLOBAL_VARIABLES = VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    METRIC_VARIABLES = "metric_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    SUMMARIES = "summaries"
    QUEUE_RUNNERS = "queue_runners"
    TABLE_INITIALIZERS = "table_initializer"
    ASSET_FILEPATHS = "asset_filepaths"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    REGULARIZATION_LOSSES = "regularization_losses"
    CONCATENATED_VARIABLES = "concatenated_variables"
    SAVERS = "savers"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"
    UPDATE_OPS = "update_ops"
    LOSSES = "losses"
    SAVEABLE_OBJECTS = "saveable_objects"
    RESOURCES = "resources"
    LOCAL_RESOURCES = "local_resources"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    READY_OP = "ready_op"
    READY_FOR_LOCAL_INIT_OP = "ready_for_local_init_op"
    SUMMARY_OP = "summary_op"
    GLOBAL_STEP = "global_step"
    EVAL_STEP = "eval_step"
    TRAIN_OP = "train_op"
    COND_CONTEXT = "cond_context"
    WHILE_CONTEXT = "while_context"


class GraphVariable(ResourceVariable):
    """A variable of a graph, whose value each session has separately."""

    graph: VariableGraph
    _requested_name: str

    @property
    def initializer(self) -> Operation:  # type: ignore[override]
        return self.graph.initializer([self], f"{self._shared_name}/Assign")

    @property
    def initial_value(self) -> SymbolicTensor:
        return self.graph.variables[id(self)][1]

    def initialized_value(self) -> Tensor:
        return self.initial_value

    @property
    def op(self) -> Any:
        return self.graph.operations[self._shared_name]

    def eval(self, session: Any = None) -> Any:
        return (session or current("Cannot evaluate tensor using `eval()`")).run(self)

    def load(self, value: Any, session: Any = None) -> None:
        (session or current("Cannot evaluate tensor using `eval()`")).set_value(self, value)

    def is_initialized(self, name: str | None = None) -> Tensor:
        return is_variable_initialized(self)

    def value(self) -> Tensor:
        """Reads the value; inside ``tf.control_dependencies``, a run of the read runs the control inputs, too."""
        trace = self.graph.trace
        with trace.without_op_names():
            tensor = self._as_tensor()
            # The value itself is computed before the block, or by an op that needs none of the other control inputs.
            return bind.identity(tensor) if state.trace is trace and trace.required else tensor  # type: ignore[no-any-return]

    read_value = value

    # -- in checkpoints of objects

    _restored: np.ndarray | None = None

    def _serialize_to_tensors(self) -> dict[str, np.ndarray]:
        return {"VARIABLE_VALUE": value_in(current("Cannot evaluate tensor using `eval()`"), self)}

    def _restore_from_tensors(self, tensors: Mapping[str, np.ndarray]) -> None:
        self._restored = tensors["VARIABLE_VALUE"]

    def _settle(self, session: Any) -> None:
        if self._restored is not None:
            self.load(self._restored, session)

    def _initialize(self, session: Any) -> None:
        (session or current("Cannot execute operation using `run()`")).run(self.initializer)

    def _tensor_specs(self) -> TensorSpecs:
        dims = None if self.shape.rank is None else tuple(self.shape.as_list())
        return {"VARIABLE_VALUE": (dims, self.dtype.np)}

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    def __iter__(self) -> Any:
        raise TypeError("'Variable' object is not iterable.")


def variable_of_graph(
    graph: VariableGraph,
    initial_value: Any = None,
    trainable: bool | None = None,
    validate_shape: bool = True,
    caching_device: Any = None,
    name: str | None = None,
    variable_def: Any = None,
    dtype: Any = None,
    import_scope: str | None = None,
    constraint: Any = None,
    synchronization: Any = None,
    aggregation: Any = None,
    shape: Any = None,
    experimental_enable_variable_lifting: bool = True,
) -> Any:
    """Creates a variable for ``tf.Variable`` in a graph.

    The arguments after ``graph`` are those of ``tf.Variable``. Those without effect in tvtf are ``validate_shape``,
    ``caching_device``, ``variable_def``, ``import_scope`` and ``experimental_enable_variable_lifting``.

    Raises:
      ValueError: the initial value's shape is not compatible with ``shape``.
    """
    variable = new_variable(graph, initial_value, trainable, name, dtype, None, constraint)
    variable.synchronization, variable.aggregation = checked_options(name, synchronization, aggregation, constraint)
    if shape is not None:
        requested = as_shape(shape)
        if not requested.is_compatible_with(variable.shape):
            raise ValueError(
                f"In this `tf.Variable` creation, the initial value's shape ({variable.shape}) is not compatible "
                f"with the explicitly supplied `shape` argument ({shape})."
            )
        variable._static_shape = requested
    return variable


def new_variable(
    graph: VariableGraph,
    initial_value: Any,
    trainable: bool | None,
    name: str | None,
    dtype: Any,
    collections: Any,
    constraint: Any,
) -> GraphVariable:
    """Creates a variable of a graph.

    Args:
      graph: the graph.
      initial_value: the initial value, or a function that returns it.
      trainable: whether the variable is trained; None means True.
      name: the name, to which a number is added if it is in use.
      dtype: the dtype; None for that of the initial value.
      collections: the graph's collections that get the variable; None for the usual ones.
      constraint: a function of the value that optimizers apply after an update, or None.

    Raises:
      ValueError: there is no initial value.
    """
    if initial_value is None:
        raise ValueError("The `initial_value` arg to `tf.Variable` must be specified.")
    full_name = graph.unique_name(name or "Variable")
    return create(graph, full_name, initial_value, dtype, trainable is not False, collections, constraint)


def create(
    graph: VariableGraph, name: str, initial: Any, dtype: Any, trainable: bool, collections: Any, constraint: Any = None
) -> GraphVariable:
    """Creates a graph's variable with a placeholder value, and adds it to the graph and its collections.

    Args:
      graph: the graph.
      name: the name of the variable.
      initial: the initial value, or a function that returns it.
      dtype: the dtype; None for that of the initial value.
      trainable: whether optimizers train the variable.
      collections: the graph's collections to add it to; None for that of all global variables.
      constraint: a function that projects the value after each step of an optimizer, or None.
    """
    with graph.trace.without_op_names():
        initial_value = initial() if callable(initial) else initial
        initial_tensor = convert_to_tensor(initial_value, dtype)
        symbol = graph.trace.own(initial_tensor)
    shape, value_dtype = initial_tensor.shape, initial_tensor.dtype
    placeholder = _placeholder_value(shape, value_dtype)
    outer, scopes = state.trace, state.name_scopes
    state.trace, state.name_scopes = None, []
    try:
        variable = GraphVariable(placeholder, trainable=trainable, name=name, dtype=value_dtype, constraint=constraint)
    finally:
        state.trace, state.name_scopes = outer, scopes
    if not shape.is_fully_defined():
        variable._static_shape = shape
    variable.graph = graph
    graph.add_variable(variable, symbol, name)
    keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
    if variable.trainable and GraphKeys.TRAINABLE_VARIABLES not in keys:
        keys.append(GraphKeys.TRAINABLE_VARIABLES)
    graph.add_to_collections(keys, variable)
    return variable


def _placeholder_value(shape: TensorShape, dtype: DType) -> np.ndarray:
    """Returns an array that stands for a variable's value outside of sessions: zeros, with unknown dims of size 1."""
    dims = [] if shape.rank is None else shape.as_list()
    sizes = [1 if dim is None else dim for dim in dims]
    return np.full(sizes, b"", object) if dtype is string else np.zeros(sizes, dtype.np)


def computed_when_run(function: Callable[[], np.ndarray], dtype: str, shape: Any) -> Tensor:
    """Returns a tensor whose value a Python function computes when the graph runs."""
    return numpy_function(function, [], TensorSpec(shape, as_dtype(dtype)))  # type: ignore[no-any-return]


@v1("is_variable_initialized")
def is_variable_initialized(variable: Any) -> Tensor:
    """Returns a bool tensor: whether the variable has a value in the session."""
    return computed_when_run(lambda: np.array(running().has_value(variable)), "bool", [])


def value_in(session: Any, variable: Any) -> np.ndarray:
    """Returns a variable's value in a session as an array. If the session is None, it is the eager value.

    Raises:
      FailedPreconditionError: the variable has no value.
    """
    if session is None:
        return variable.numpy()
    if not session.has_value(variable):
        raise FailedPreconditionError(None, None, f"Attempting to use uninitialized value {variable._shared_name}")
    session_value = session._values.get(id(variable))  # None for an eager variable that no run has assigned
    return variable.numpy() if session_value is None else session_value.numpy()
