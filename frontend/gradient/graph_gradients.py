"""``tf.gradients`` and ``tf.hessians`` of a traced program, and registration of gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tvtf.core import nest
from tvtf.core.primitive import export, table
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.control_flow.vectorized_map import Batched, level, one_hot_cotangents, unwrapped
from tvtf.frontend.gradient.custom_gradient import custom_gradient
from tvtf.frontend.gradient.tape import UnconnectedGradients, wants_zeros
from tvtf.ops.indexed_slices import as_dense
from tvtf.ops.rules import bind, ones_like, zeros_like
from tvtf.passes.autodiff.reverse_mode import Record, sweep
from tvtf.state.variable import Variable

if TYPE_CHECKING:
    from tvm import relax

    from tvtf.ir.trace import Trace


@export("AggregationMethod")
class AggregationMethod:
    """How gradients of several uses of a tensor are summed; all choices are equivalent here.

    >>> import tvtf as tf
    >>> tf.AggregationMethod.ADD_N
    0

    Source: https://www.tensorflow.org/api_docs/python/tf/AggregationMethod
    """

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


class _Program:
    """The ops of a trace and its enclosing traces, as the records of a gradient tape.

    Each IR variable has one tensor. A tensor that a branch or loop body captures is the same tensor as the original.
    """

    def __init__(self, trace: Trace) -> None:
        """Converts the bindings of the enclosing traces, and then those of the trace, to ``records``."""
        self.trace = trace
        enclosing = trace.parent or trace.caller
        self.outer = None if enclosing is None else _Program(enclosing)
        self.records: list[Record] = [] if self.outer is None else [*self.outer.records]
        self.tensors = _tensors_on_tapes(trace) | self._captured()
        self._tuples: dict[relax.Var, tuple[Any, list[Any]]] = {}
        self._aliases: dict[relax.Var, relax.Expr] = _aliases_of(trace.bindings)
        for binding in trace.bindings:
            self._read(binding)

    def _captured(self) -> dict[relax.Expr, SymbolicTensor]:
        """Maps variables of this trace that stand for captured tensors to the tensors of the enclosing program."""
        if self.outer is None:
            return {}
        uses = (*self.trace.captures.values(), *self.trace.constants.values())
        pairs = ((self.outer.tensor_of_capture(outer), inner) for outer, inner in uses)
        return {inner._var: outer for outer, inner in pairs if outer is not None}

    def tensor_of_capture(self, captured: Any) -> SymbolicTensor | None:
        """Returns the program's tensor for a tensor or Variable that an inner trace captures.

        Returns None for a Variable that this trace has assigned, because its value has changed, or not captured.
        """
        if isinstance(captured, (SymbolicTensor, EagerTensor)) and not isinstance(captured, Variable):
            return self.tensor_of_value(captured)
        capture = self.trace.captures.get(id(captured))
        is_assigned = any(variable is captured for variable, _ in self.trace.assigned())
        if capture is None or is_assigned:
            return None
        _, inner = capture  # the tensor that stands for the Variable in the trace
        return self.tensor_of(inner._var)

    def tensor_of(self, expr: Any) -> SymbolicTensor:
        """Returns the tensor of an IR variable or constant of the trace."""
        from tvtf.ir import dialect

        while expr in self._aliases:  # the results of a rewritten loop, or a constant
            expr = self._aliases[expr]
        tensor = self.tensors.get(expr)
        if tensor is None:
            tensor = self.trace.tensors.get(expr)
        if tensor is None:  # a constant
            tensor = SymbolicTensor(expr, dialect.from_relax_type(expr.ty), self.trace)
        self.tensors[expr] = tensor
        return tensor

    def tensor_of_value(self, value: Any) -> SymbolicTensor:
        """Returns the program's tensor for a value that the user passed to ``tf.gradients``.

        For a Variable, this is its value at the start of the program.
        """
        if isinstance(value, Variable):
            value._as_tensor()  # reading the Variable makes the trace capture it
            if self.outer is not None and id(value) not in self.trace.captures:
                return self.outer.tensor_of_value(value)
            _, captured_tensor = self.trace.captures[id(value)]
            return self.tensor_of(captured_tensor._var)
        if self.outer is not None and not (isinstance(value, SymbolicTensor) and value._trace is self.trace):
            return self.outer.tensor_of_value(value)
        return self.tensor_of(self.trace.own(convert_to_tensor(value))._var)

    def _read(self, binding: Any) -> None:
        """Appends the record of a binding of the trace.

        An op with several results is bound as a tuple. It is recorded after bindings have unpacked all of its results.
        """
        from tvm import relax

        from tvtf.ir import dialect

        value = binding.value
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in self._tuples:
            primitive_call, outputs = self._tuples[value.tuple_value]
            outputs.append(self.tensor_of(binding.var))
            if len(outputs) == len(value.tuple_value.ty.fields):
                self._record(primitive_call, tuple(outputs))
        elif dialect.is_dialect(value):
            primitive_call = dialect.read(value)
            if isinstance(binding.var.ty, relax.TupleType):
                self._tuples[binding.var] = primitive_call, []
            else:
                self._record(primitive_call, self.tensor_of(binding.var))

    def _record(self, primitive_call: Any, outputs: Any) -> None:
        """Appends the record of a primitive call.

        Attributes that are the names of branches or loop functions are replaced by the trace's graphs.
        """
        attrs = dict(primitive_call.attrs)
        for name, value in attrs.items():
            if _is_graph(value):
                attrs[name] = self.trace.subgraphs.get(value, value)
        inputs = tuple(map(self.tensor_of, primitive_call.inputs))
        self.records.append((primitive_call.primitive, inputs, outputs, attrs))


def _aliases_of(bindings: Iterable[Any]) -> dict[relax.Var, relax.Expr]:
    """Maps variables to other variables or constants of the same value, as a dict.

    A loop may have been replaced by another loop. The variables of the old results are then bound to the new results.
    A new result is mapped to the old variable, because the user's tensors and the gradient tapes have the old one.

    If several variables are bound to one variable, all but the first are mapped to that variable. A variable that is
    bound to a constant is mapped to the constant.
    """
    from tvm import relax

    aliases: dict[relax.Var, relax.Expr] = {}
    tuple_fields: dict[relax.Var, Any] = {}
    for binding in bindings:
        var, value = binding.var, binding.value
        if isinstance(value, relax.Tuple):
            tuple_fields[var] = value.fields
            continue
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in tuple_fields:
            value = tuple_fields[value.tuple_value][value.index]
        if isinstance(value, relax.Var) and value not in aliases:
            aliases[value] = var
        elif not isinstance(value, (relax.Call, relax.TupleGetItem)):  # a constant, or a variable that has an alias
            aliases[var] = value
    return aliases


def _tensors_on_tapes(trace: Trace) -> dict[relax.Expr, SymbolicTensor]:
    """Returns the trace's tensors that active gradient tapes have recorded, by variable.

    ``tf.gradients`` must use these tensors. The tapes know no other tensors for the same variables, and the gradient of
    a gradient would be None.
    """
    tensors: dict[relax.Expr, SymbolicTensor] = {}
    for tape in state.tapes:
        for tensor in tape.active_tensors():
            if type(tensor) is SymbolicTensor and tensor._trace is trace:
                tensors[tensor._var] = tensor
    return tensors


def _is_graph(value: Any) -> bool:
    """Returns whether an attribute is the global variable of a function, without an import of TVM."""
    return type(value).__name__ == "GlobalVar"


@export("gradients", waits=False)
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
) -> list[Any]:
    """Returns the gradients of the sum of ``ys`` with respect to each of ``xs``, in a function that is being traced.

    Args:
      ys: tensor or list of tensors.
      xs: tensor or list of tensors and Variables.
      grad_ys: the cotangents of ``ys``; ones where None.
      stop_gradients: tensors that are treated as constants.
      unconnected_gradients: "none" or "zero", for sources that no target depends on.
      name, gate_gradients, aggregation_method: accepted.

    Returns:
      A list, one for each of ``xs``.

    Raises:
      RuntimeError: the call is not traced.

    >>> import tvtf as tf
    >>> @tf.function
    ... def slope(x):
    ...     return tf.gradients(x * x, x)[0]
    >>> slope(tf.constant(3.)).numpy()
    np.float32(6.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/gradients
    """
    trace = state.trace
    if trace is None:
        raise RuntimeError(
            "tf.gradients is not supported when eager execution is enabled. Use tf.GradientTape instead."
        )
    targets = [convert_to_tensor(y) for y in nest.flatten(ys)]
    program = _Program(trace)
    sources = [program.tensor_of_value(x) for x in nest.flatten(xs)]
    stopped = {id(program.tensor_of_value(leaf)) for leaf in nest.flatten(stop_gradients or [])}
    records = [record for record in program.records if not any(id(y) in stopped for y in nest.flatten(record[2]))]
    seeds = [None] * len(targets) if grad_ys is None else nest.flatten(grad_ys)
    cotangents = [ones_like(y) if seed is None else convert_to_tensor(seed, y.dtype) for y, seed in zip(targets, seeds)]
    grads = sweep(records, zip(map(program.tensor_of_value, targets), cotangents), sources)
    if wants_zeros(unconnected_gradients):
        grads = [zeros_like(x) if grad is None else grad for grad, x in zip(grads, sources)]
    return grads


@export("hessians", waits=False)
def hessians(
    ys: Any,
    xs: Any,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    name: str = "hessians",
) -> list[Any]:
    """Returns the second derivatives of the sum of ``ys`` by each of ``xs``, in a function that is being traced.

    Returns:
      Tensors of shape x.shape + x.shape, one for each of ``xs``.

    Raises:
      RuntimeError: the call is not traced.

    >>> import tvtf as tf
    >>> hessian = tf.function(lambda x: tf.hessians(tf.reduce_sum(x ** 3), x)[0])
    >>> hessian(tf.constant([1., 2.])).numpy()
    array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/hessians
    """
    sources = nest.flatten(xs)
    first_derivatives = gradients(ys, sources)
    return [None if grad is None else _hessian(grad, x) for grad, x in zip(first_derivatives, sources)]


def _hessian(gradient: Tensor, x: Any) -> Tensor:
    """Computes the Hessian: the derivative of each element of ``gradient`` by each element of its source ``x``.

    One backward sweep is vectorized over the gradient's elements. A loop would sweep the program once per element.
    """
    program = _Program(state.trace)
    source = program.tensor_of_value(x)
    target = program.tensor_of_value(gradient)
    shape = source._type.shape
    with level() as map_level:
        cotangents = one_hot_cotangents(gradient._type)
        (row,) = sweep(program.records, [(target, Batched(cotangents, map_level))], [source])
        if row is None:  # the gradient doesn't depend on x
            row = zeros_like(source)
        rows = unwrapped(as_dense(row), map_level, cotangents._type.shape[0])
    return bind.reshape(rows, shape=(*shape, *shape))


@export("grad_pass_through")
def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that computes ``f``, but has the gradient of the identity.

    >>> import tvtf as tf
    >>> x = tf.Variable(1.7)
    >>> with tf.GradientTape() as tape:
    ...     y = tf.grad_pass_through(tf.round)(x)
    >>> y.numpy(), tape.gradient(y, x).numpy()
    (np.float32(2.0), np.float32(1.0))

    Source: https://www.tensorflow.org/api_docs/python/tf/grad_pass_through
    """

    @custom_gradient
    def with_identity_gradient(*args: Any, **kwargs: Any) -> Any:
        """Returns the result of ``f``, and a gradient function that passes the cotangents to the arguments."""

        def identity_gradient(*cotangents: Any) -> Any:
            return cotangents[0] if len(args) == 1 else cotangents

        return f(*args, **kwargs), identity_gradient

    return with_identity_gradient


@export("RegisterGradient")
class RegisterGradient:
    """Registers a gradient function ``f(op, *grads)`` for an op type.

    It only rejects names that are in use: in tvtf an op is declared with its gradient (see
    docs/extending.md).

    >>> import tvtf as tf
    >>> @tf.RegisterGradient("MyOpOfTheDocs")
    ... def my_gradient(op, grad):
    ...     return grad

    Raises:
      TypeError: the name is not a string.
      KeyError: the op type has a gradient already.

    Source: https://www.tensorflow.org/api_docs/python/tf/RegisterGradient
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        _register(self._op_type, f)
        return f


@export("no_gradient")
def no_gradient(op_type: str) -> None:
    """Declares that ops of a type have no gradient: gradients through them are None, instead of an error.

    >>> import tvtf as tf
    >>> tf.no_gradient("MyCountOfTheDocs")

    Raises:
      TypeError: the name is not a string.

    Source: https://www.tensorflow.org/api_docs/python/tf/no_gradient
    """
    if not isinstance(op_type, str):
        raise TypeError("op_type must be a string")
    _register(op_type, None)


_registered: dict[str, Callable[..., Any] | None] = {}


def _register(op_type: str, function: Callable[..., Any] | None) -> None:
    """Registers the gradient function of an op type, or None for no gradient. Raises KeyError if there is one."""
    if op_type in _registered or any(
        primitive.tf_name == op_type and primitive.vjp is not None for primitive in table.values()
    ):
        raise KeyError(f"Registering two gradient with name '{op_type}'!")
    _registered[op_type] = function
