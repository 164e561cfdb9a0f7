"""Variables of graphs: named by their scopes, listed in collections, with a value for each session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from tvtf.core.primitive import public_names
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import as_dtype
from tvtf.errors import FailedPreconditionError
from tvtf.state.variable import Variable as _Variable
from tvtf.v1.default_session import running
from tvtf.v1.graph import Graph, GraphTrace, current_graph, get_default_graph
from tvtf.v1.graph_variable import GraphKeys, computed_when_run, create, new_variable
from tvtf.v1.initializers import GlorotUniform
from tvtf.v1.registry import v1


@v1("Variable", "VariableV1")
def Variable(  # noqa: N802
    initial_value: Any = None,
    trainable: bool | None = None,
    collections: Sequence[Any] | None = None,
    validate_shape: bool = True,
    caching_device: Any = None,
    name: str | None = None,
    variable_def: Any = None,
    dtype: Any = None,
    expected_shape: Any = None,
    import_scope: Any = None,
    constraint: Any = None,
    **_: Any,
) -> Any:
    """Creates a variable of the graph. Its initializer assigns the value. Outside a graph, this is ``tf.Variable``.

    Args:
      initial_value: the initial value, or a function that returns it.
      trainable: whether the variable is trained; None means True.
      collections: the graph's collections that get the variable; None for the usual ones.
      name: the name, to which a number is added if it is in use.
      dtype: the dtype; None for that of the initial value.
      constraint: a function of the value that optimizers apply after an update, or None.

    Raises:
      ValueError: there is no initial value.
    """
    if not isinstance(state.trace, GraphTrace):
        return _Variable(initial_value, trainable=trainable, name=name, dtype=dtype, constraint=constraint)
    return new_variable(current_graph(), initial_value, trainable, name, dtype, collections, constraint)


# -- get_variable and its scopes


class _Reuse:
    def __repr__(self) -> str:
        return "<_ReuseMode.AUTO_REUSE: 1>"


AUTO_REUSE = v1("AUTO_REUSE")(_Reuse())


@v1("VariableScope")
class VariableScope:
    """The settings that ``get_variable`` takes from its scope: a name prefix, whether to share variables, and defaults.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/VariableScope
    """

    def __init__(self, name: str, reuse: Any = None, name_scope: str = "", **defaults: Any) -> None:
        self.name, self.reuse, self.original_name_scope = name, reuse, name_scope
        self.defaults = {k: v for k, v in defaults.items() if v is not None}
        self._caching_device: Any = None
        self._partitioner: Any = None

    def reuse_variables(self) -> None:
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        self.defaults["initializer"] = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        self.defaults["regularizer"] = regularizer

    def set_dtype(self, dtype: Any) -> None:
        self.defaults["dtype"] = dtype

    def set_custom_getter(self, getter: Any) -> None:
        self.defaults["custom_getter"] = getter

    def set_caching_device(self, caching_device: Any) -> None:
        """Has no effect: Variables are read directly.

        Raises:
          NotImplementedError: called outside of graphs and functions.
        """
        if state.trace is None:
            raise NotImplementedError("Caching devices are not yet supported when eager execution is enabled.")
        self._caching_device = caching_device

    def set_partitioner(self, partitioner: Any) -> None:
        self._partitioner = partitioner

    def set_use_resource(self, use_resource: Any) -> None:
        """Has no effect: all Variables are resources."""

    @property
    def caching_device(self) -> Any:
        return self._caching_device

    @property
    def partitioner(self) -> Any:
        return self._partitioner

    @property
    def use_resource(self) -> bool:
        return True

    @property
    def constraint(self) -> Any:
        return self.defaults.get("constraint")

    @property
    def custom_getter(self) -> Any:
        return self.defaults.get("custom_getter")

    @property
    def initializer(self) -> Any:
        return self.defaults.get("initializer")

    @property
    def regularizer(self) -> Any:
        return self.defaults.get("regularizer")

    @property
    def dtype(self) -> Any:
        return as_dtype(self.defaults.get("dtype", "float32"))

    def global_variables(self) -> list[Any]:
        return global_variables(f"{self.name}/")

    def trainable_variables(self) -> list[Any]:
        return trainable_variables(f"{self.name}/")

    def get_collection(self, name: str) -> list[Any]:
        return get_default_graph().get_collection(name, f"{self.name}/" if self.name else None)

    def get_variable(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return get_variable(name, *args, **kwargs)


@v1("get_variable_scope")
def get_variable_scope() -> VariableScope:
    """Returns the graph's current variable scope. Outside of all scopes, returns the root scope."""
    graph = get_default_graph()
    if graph.variable_scope is None:
        graph.variable_scope = VariableScope("")
    return graph.variable_scope  # type: ignore[no-any-return]


@v1("variable_scope")
@contextmanager
def variable_scope(
    name_or_scope: Any = None,
    default_name: str | None = None,
    values: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: Any = None,
    constraint: Any = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[VariableScope]:
    """Enters a scope, in which ``get_variable`` prefixes names and shares variables according to ``reuse``.

    Args:
      name_or_scope: the name below the enclosing scope, or an earlier scope to enter again.
      default_name: a name that is made unique, if there is no other.
      initializer, regularizer, custom_getter, dtype, constraint: defaults of ``get_variable``.
      reuse: True to share existing variables, ``AUTO_REUSE`` to share or create them; None as in the enclosing scope.

    Raises:
      ValueError: there is neither a name nor a default name.
    """
    graph = get_default_graph()
    outer = get_variable_scope()
    if name_or_scope is None and default_name is None:
        raise ValueError("If default_name is None then name_or_scope is required")
    defaults = {
        "initializer": initializer,
        "regularizer": regularizer,
        "custom_getter": custom_getter,
        "dtype": dtype,
        "constraint": constraint,
    }
    entered = name_or_scope if isinstance(name_or_scope, VariableScope) else None
    base = entered or outer
    if entered is not None:
        name = label = entered.name
    else:
        label = _unused_name(graph, outer, str(default_name)) if name_or_scope is None else name_or_scope
        name = f"{outer.name}/{label}" if outer.name and label else outer.name or label
    overrides = {k: v for k, v in defaults.items() if v is not None}
    shared = reuse if reuse or entered is None or not entered.reuse else entered.reuse
    scope = VariableScope(name, shared or (None if entered else outer.reuse) or False, **(base.defaults | overrides))
    scope._caching_device = caching_device if caching_device is not None else base._caching_device
    scope._partitioner = partitioner if partitioner is not None else base._partitioner
    op_scope = label.rpartition("/")[2] if entered is not None else label
    counts = dict(graph.scope_counts)
    graph.scope_counts[name] = graph.scope_counts.get(name, 0) + 1
    for nested in [other for other in graph.scope_counts if other.startswith(f"{name}/")]:
        graph.scope_counts.pop(nested)
    graph.variable_scope = scope
    try:
        if op_scope and auxiliary_name_scope and isinstance(state.trace, GraphTrace):
            with graph.name_scope(op_scope) as inner:
                scope.original_name_scope = entered.original_name_scope if entered is not None else inner
                yield scope
        else:
            yield scope
    finally:
        graph.variable_scope = outer
        graph.scope_counts = counts | {name: graph.scope_counts.get(name, 1)}


def _unused_name(graph: Graph, outer: VariableScope, name: str) -> str:
    """Returns ``name``, with a number if a scope has already had it."""
    prefix = f"{outer.name}/" if outer.name else ""
    numbered = [name, *(f"{name}_{i}" for i in range(1, len(graph.scope_counts) + 2))]
    return next(n for n in numbered if not graph.scope_counts.get(prefix + n))


@v1("variable_op_scope")
def variable_op_scope(values: Any, name_or_scope: Any, default_name: Any = None, **kwargs: Any) -> Any:
    """Same as ``variable_scope``."""
    return variable_scope(name_or_scope, default_name, values, **kwargs)


@v1("get_variable")
def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Sequence[Any] | None = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: Any = None,
    custom_getter: Any = None,
    constraint: Any = None,
    **_: Any,
) -> Any:
    """Returns the variable of a name in the current scope: an existing one if the scope shares it, or a new one.

    Raises:
      ValueError: the variable exists but the scope does not share it, or is shared but does not exist; or its shape or
        dtype differs; or there is neither a shape nor an initial value.
    """
    scope = get_variable_scope()
    settings = {
        "shape": shape,
        "dtype": dtype,
        "initializer": initializer,
        "regularizer": regularizer,
        "trainable": trainable,
    }
    settings |= {"collections": collections, "constraint": constraint}
    for key, value in scope.defaults.items():
        if key in settings and settings[key] is None:
            settings[key] = value
    whole = f"{scope.name}/{name}" if scope.name else name
    getter = custom_getter or scope.defaults.get("custom_getter")
    if getter is not None:
        return getter(lambda name, *a, **k: _get(scope, name, **(settings | k)), whole, **settings)
    return _get(scope, whole, **settings)


v1("get_local_variable")(
    lambda name, *args, **kwargs: cast(Any, get_variable)(
        name, *args, **({"trainable": False, "collections": [GraphKeys.LOCAL_VARIABLES]} | kwargs)
    )
)


def _get(
    scope: VariableScope, name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
    trainable: Any = None, collections: Any = None, constraint: Any = None, **_: Any,
) -> Any:  # fmt: skip
    """Returns an existing variable after checking its shape and dtype, or creates it."""
    graph = get_default_graph()
    existing = made_by_name(graph).get(name)
    if state.trace is None and not scope.reuse:
        existing = None  # outside of graphs a name may be taken again, by another variable
    requested = None if shape is None else TensorShape([shape] if isinstance(shape, int) else shape)
    if existing is not None:
        if not scope.reuse:
            raise ValueError(
                f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in VarScope?"
            )
        if requested is not None and not requested.is_compatible_with(existing.shape):
            raise ValueError(
                f"Trying to share variable {name}, but specified shape {requested} and found shape {existing.shape}."
            )
        if dtype is not None and as_dtype(dtype) is not existing.dtype:
            raise ValueError(
                f"Trying to share variable {name}, but specified dtype {as_dtype(dtype).name} and found dtype "
                f"{existing.dtype.name}."
            )
        return existing
    if scope.reuse is True:
        raise ValueError(
            f"Variable {name} does not exist, or was not created with tf.get_variable(). Did you mean to set "
            "reuse=tf.AUTO_REUSE in VarScope?"
        )
    initial = _initial_value(name, requested, dtype, initializer)
    if isinstance(state.trace, GraphTrace):
        graph._used.setdefault(name.lower(), 1)
        variable: Any = create(graph, name, initial, None, trainable is not False, collections, constraint)
    else:
        variable = _Variable(initial, trainable=trainable, name=name, constraint=constraint)
    made_by_name(graph)[name] = variable
    if regularizer is not None:
        with graph.name_scope(f"{name}/Regularizer/"):
            loss = regularizer(variable)
        if loss is not None:
            graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return variable


def made_by_name(graph: Graph) -> dict[str, Any]:
    """Returns the variables that ``get_variable`` created by name: the graph's, or outside of graphs the last of each name."""
    key = ("get_variable", isinstance(state.trace, GraphTrace))
    return graph.collections.setdefault(key, {})  # type: ignore[arg-type, return-value]


def _initial_value(name: str, shape: TensorShape | None, dtype: Any, initializer: Any) -> Any:
    """Returns the initial value of the variable ``name``, or a function that computes it.

    ``initializer`` is a class, a function of the shape and dtype or of nothing, a constant, or None for the default.
    """
    if isinstance(initializer, type):
        initializer = initializer()
    if initializer is not None and not callable(initializer):
        if shape is not None:
            raise ValueError("If initializer is a constant, do not specify shape.")
        return convert_to_tensor(initializer, dtype)
    if initializer is not None and shape is None:
        try:
            return convert_to_tensor(initializer(), dtype)
        except TypeError:
            raise ValueError(
                f"Variable {name} did not get an initializer, so its `shape` argument must be specified."
                if initializer is None
                else "The initializer passed is not valid. It should be a callable with no arguments and the shape should "
                "not be provided or an instance of `tf.keras.initializers.*' and `shape` should be fully defined."
            ) from None
    if shape is None:
        raise ValueError(f"Variable {name} did not get an initializer, so its `shape` argument must be specified.")
    if not shape.is_fully_defined():
        raise ValueError(f"The shape of variable {name} must be fully defined, but instead was {shape}.")
    known_dtype = as_dtype(dtype or "float32")
    if initializer is None:
        initializer = _default_initializer(known_dtype)
    return lambda: _call_initializer(initializer, cast(Any, shape.as_list()), known_dtype)


def _default_initializer(kind: Any) -> Any:
    if kind.is_floating:
        return GlorotUniform()
    return lambda shape, dtype=None: public_names()["zeros"](shape, dtype)


def _call_initializer(initializer: Callable[..., Any], shape: list[int], dtype: Any) -> Any:
    """Calls an initializer for a variable of the given shape and dtype. Returns the result as a tensor.

    An initializer without an argument ``dtype`` is passed only the shape.
    """
    try:
        return convert_to_tensor(initializer(shape, dtype=dtype), dtype)
    except TypeError as error:
        if "dtype" not in str(error):
            raise
        return convert_to_tensor(initializer(shape), dtype)


@v1("make_template")
def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    **kwargs: Any,
) -> Callable[..., Any]:
    """Wraps ``func_`` in a function that shares variables between calls.

    The first call creates the variables with ``get_variable``. Later calls reuse them.

    Args:
      name_: the default name of the variable scope.
      func_: the function, which creates variables with ``get_variable``.
      create_scope_now_: not used.
      unique_name_: the name of the variable scope, or None.
      kwargs: arguments that each call passes to the function.
    """
    scopes: list[VariableScope] = []

    def run(*args: Any, **call_kwargs: Any) -> Any:
        """Calls the function. A later call enters the variable scope of the first one, and reuses its variables."""
        if scopes:  # a later call
            with variable_scope(scopes[0], reuse=True):
                return func_(*args, **(kwargs | call_kwargs))
        with variable_scope(unique_name_, default_name=name_) as scope:
            result = func_(*args, **(kwargs | call_kwargs))
        scopes.append(scope)
        return result

    return run


# -- lists of variables, and what initializes them


def _declare_collection(key: str, *paths: str) -> Callable[..., list[Any]]:
    """Declares a function, under TensorFlow 1's ``paths``, that returns the graph's collection ``key``."""

    def collected(scope: str | None = None) -> list[Any]:
        return get_default_graph().get_collection(key, scope)

    return v1(*paths)(collected)


global_variables = _declare_collection(GraphKeys.GLOBAL_VARIABLES, "global_variables", "all_variables")
local_variables = _declare_collection(GraphKeys.LOCAL_VARIABLES, "local_variables")
trainable_variables = _declare_collection(GraphKeys.TRAINABLE_VARIABLES, "trainable_variables")
_declare_collection(GraphKeys.MODEL_VARIABLES, "model_variables")
_declare_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, "moving_average_variables")


@v1("variables_initializer", "initialize_variables")
def variables_initializer(var_list: Sequence[Any], name: str = "init") -> Any:
    """Returns an op that initializes variables; outside a graph they are initialized already."""
    if not isinstance(state.trace, GraphTrace):
        return public_names()["no_op"]()
    return get_default_graph().initializer(var_list, name)


@v1("global_variables_initializer", "initialize_all_variables")
def global_variables_initializer() -> Any:
    """Returns an op that initializes all global variables."""
    return variables_initializer(global_variables())


@v1("local_variables_initializer", "initialize_local_variables")
def local_variables_initializer() -> Any:
    """Returns an op that initializes all local variables, which are not saved."""
    return variables_initializer(local_variables(), "init_1")


@v1("report_uninitialized_variables")
def report_uninitialized_variables(var_list: Any = None, name: str = "report_uninitialized_variables") -> Tensor:
    """Returns a tensor with the names of the uninitialized variables: those without a value in the running session.

    The default of ``var_list`` are all global and local variables.
    """
    variables = [*global_variables(), *local_variables()] if var_list is None else list(var_list)

    def names() -> np.ndarray:
        session = running()
        uninitialized = [variable for variable in variables if not session.has_value(variable)]
        return np.array([variable._shared_name.encode() for variable in uninitialized], object)

    return computed_when_run(names, "string", [None])


@v1("assert_variables_initialized")
def assert_variables_initialized(var_list: Any = None) -> Any:
    """Returns an op that fails if a variable has no value in the session that runs it.

    Raises:
      FailedPreconditionError: the op runs, and the variable has no value.
    """
    variables = [*global_variables(), *local_variables()] if var_list is None else list(var_list)

    def checked() -> np.ndarray:
        """Raises FailedPreconditionError if a variable has no value in the running session."""
        for variable in variables:
            if not running().has_value(variable):
                raise FailedPreconditionError(
                    None, None, f"Attempting to use uninitialized value {variable._shared_name}"
                )
        return np.array(True)  # an op needs a result

    return computed_when_run(checked, "bool", [])


# -- assignments


def _assign_function(method: str) -> Callable[..., Any]:
    """Returns TensorFlow 1's function that calls a variable's method ``assign``, ``assign_add`` or ``assign_sub``."""

    def assign(ref: Any, value: Any, *_: Any, name: str | None = None, **__: Any) -> Tensor:
        return getattr(ref, method)(value)  # type: ignore[no-any-return]

    assign.__name__ = method
    return assign


for _method in ("assign", "assign_add", "assign_sub"):
    v1(_method)(_assign_function(_method))


def _scatter_function(op: str, nd: bool, update: Callable[..., Any] | None) -> Callable[..., Any]:
    """Returns TensorFlow 1's scatter function, such as ``scatter_add``, which updates rows of a variable.

    With ``nd`` it updates elements or slices at index vectors. The op ``tensor_scatter_nd_<op>`` computes the new
    value, or ``update(variable, positions, values)``, if ``update`` is passed.
    """

    def scatter(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Assigns to the variable ``ref`` its value with updated rows or elements at ``indices``.

        ``use_locking`` and ``name`` are TensorFlow's and unused.
        """
        names = public_names()
        positions = convert_to_tensor(indices)
        values = convert_to_tensor(updates, ref.dtype)
        if not nd:
            positions, values = _row_updates(positions, values, ref)
        if update is None:
            updated = names[f"tensor_scatter_nd_{op}"](ref, positions, values)
        else:
            updated = update(ref, positions, values)
        return ref.assign(updated)  # type: ignore[no-any-return]

    return scatter


def _row_updates(positions: Any, values: Any, ref: Any) -> tuple[Any, Any]:
    """Converts an update of rows of the variable ``ref`` to the arguments of ``scatter_nd``.

    Returns the row indices, of shape (n, 1), and the n rows. A scalar value fills all rows.
    """
    names = public_names()
    row_shape = ref.shape.as_list()[1:]
    flat = names["reshape"](positions, [-1, 1])
    if values.shape.rank == 0:
        return flat, names["fill"]([positions.shape.num_elements(), *row_shape], values)
    return flat, names["reshape"](values, [-1, *row_shape])


def _scale_function(power: float) -> Callable[..., Any]:
    """Returns a function that multiplies rows of a tensor by values (``power`` 1), or divides them (``power`` -1)."""

    def scale(tensor: Any, positions: Any, values: Any) -> Any:
        """Scales the rows one after the other. Thus a row whose position is repeated is scaled several times."""
        names = public_names()
        for i in range(positions.shape[0]):
            position = positions[i : i + 1]  # keeps the axis: a list of one position
            old_row = names["gather_nd"](tensor, position)
            factor = values[i : i + 1]
            new_row = old_row * factor if power > 0 else old_row / factor
            tensor = names["tensor_scatter_nd_update"](tensor, position, new_row)
        return tensor

    return scale


for _name, _op, _by in (
    *(
        ("update", "update", None),
        ("add", "add", None),
        ("sub", "sub", None),
        ("max", "max", None),
        ("min", "min", None),
    ),
    *(("mul", "", _scale_function(1.0)), ("div", "", _scale_function(-1.0))),
):
    v1(f"scatter_{_name}")(_scatter_function(_op, False, _by))
    if _by is None:
        v1(f"scatter_nd_{_name}")(_scatter_function(_op, True, None))


def stored(value: Any, variable: Any) -> EagerTensor:
    """Converts a value to the form in which a session stores it."""
    return EagerTensor(np.array(value, variable.dtype.np))
