"""``tf.gradients`` and ``tf.hessians`` of a traced program, and gradients that users give or pass on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tvtf.core import nest
from tvtf.core.primitive import export, table
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.control_flow.vectorized_map import Batched, basis, level, unwrapped
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
    """How gradients that meet are summed; every choice means the same here.

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
    """The bindings of a trace, and of those around it, as records, with one tensor for each of their variables.

    A branch or loop body uses tensors of the traces around it by captures: these are the same tensors here.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        around = trace.parent or trace.caller
        self.outer = None if around is None else _Program(around)
        self.records: list[Record] = [] if self.outer is None else [*self.outer.records]
        self.tensors = _recorded(trace) | self._captured()
        self._tuples: dict[relax.Var, tuple[Any, list[Any]]] = {}
        self._names: dict[relax.Var, relax.Expr] = _last_names(trace.bindings)
        for binding in trace.bindings:
            self._read(binding)

    def _captured(self) -> dict[relax.Expr, SymbolicTensor]:
        """The outer tensors, by the variables that stand for them in this trace."""
        if self.outer is None:
            return {}
        uses = (*self.trace.captures.values(), *self.trace.constants.values())
        pairs = ((self.outer.outer_of(outer), inner) for outer, inner in uses)
        return {inner._var: outer for outer, inner in pairs if outer is not None}

    def outer_of(self, captured: Any) -> SymbolicTensor | None:
        """The tensor here of what a trace within captures; None for a Variable that has been assigned by then."""
        if isinstance(captured, (SymbolicTensor, EagerTensor)) and not isinstance(captured, Variable):
            return self.of(captured)
        known = self.trace.captures.get(id(captured))
        is_assigned = any(variable is captured for variable, _ in self.trace.assigned())
        return None if known is None or is_assigned else self.tensor(known[1]._var)

    def tensor(self, expr: Any) -> SymbolicTensor:
        """The tensor that stands for a variable or constant."""
        from tvtf.ir import dialect

        while expr in self._names:
            expr = self._names[expr]
        found = self.tensors.get(expr)
        if found is None:
            found = self.trace.tensors.get(expr)
        if found is None:  # a constant
            found = SymbolicTensor(expr, dialect.from_relax_type(expr.ty), self.trace)
        self.tensors[expr] = found
        return found

    def of(self, value: Any) -> SymbolicTensor:
        """The tensor of what the user holds: a Variable's is its value when the program begins."""
        if isinstance(value, Variable):
            value._as_tensor()
            if self.outer is not None and id(value) not in self.trace.captures:
                return self.outer.of(value)
            return self.tensor(self.trace.captures[id(value)][1]._var)
        if self.outer is not None and not (isinstance(value, SymbolicTensor) and value._trace is self.trace):
            return self.outer.of(value)
        return self.tensor(self.trace.own(convert_to_tensor(value))._var)

    def _read(self, binding: Any) -> None:
        from tvm import relax

        from tvtf.ir import dialect

        value = binding.value
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in self._tuples:
            outputs = self._tuples[value.tuple_value]
            outputs[1].append(self.tensor(binding.var))
            if len(outputs[1]) == len(value.tuple_value.ty.fields):
                self._record(outputs[0], tuple(outputs[1]))
        elif dialect.is_dialect(value):
            bound = dialect.read(value)
            if isinstance(binding.var.ty, relax.TupleType):
                self._tuples[binding.var] = bound, []
            else:
                self._record(bound, self.tensor(binding.var))

    def _record(self, bound: Any, outputs: Any) -> None:
        attrs = {k: self.trace.subgraphs.get(v, v) if _is_graph(v) else v for k, v in bound.attrs.items()}
        self.records.append((bound.primitive, tuple(map(self.tensor, bound.inputs)), outputs, attrs))


def _last_names(bindings: Iterable[Any]) -> dict[relax.Var, relax.Expr]:
    """The other variable of what is bound twice, as results of loops are that were written anew: the one bound last."""
    from tvm import relax

    names: dict[relax.Var, relax.Expr] = {}
    tuples: dict[relax.Var, Any] = {}
    for binding in bindings:
        var, value = binding.var, binding.value
        if isinstance(value, relax.Tuple):
            tuples[var] = value.fields
            continue
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in tuples:
            value = tuples[value.tuple_value][value.index]
        if isinstance(value, relax.Var) and value not in names:
            names[value] = var
        elif not isinstance(value, (relax.Call, relax.TupleGetItem)):
            names[var] = value
    return names


def _recorded(trace: Trace) -> dict[relax.Expr, SymbolicTensor]:
    """The tensors that open tapes have recorded, by variable: a gradient made of these can be differentiated by a tape."""
    tensors = (t for tape in state.tapes for t in tape.followed() if type(t) is SymbolicTensor)
    return {t._var: t for t in tensors if t._trace is trace}


def _is_graph(value: Any) -> bool:
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
    """The gradients of the sum of ``ys`` by each of ``xs``, in a function that is being traced.

    Args:
      ys: tensor or list of tensors.
      xs: tensor or list of tensors and Variables.
      grad_ys: the cotangents of ``ys``; ones where None.
      stop_gradients: tensors that are taken for constants.
      unconnected_gradients: "none" or "zero", for what no target depends on.
      name, gate_gradients, aggregation_method: accepted.

    Returns:
      A list, one for each of ``xs``.

    Raises:
      RuntimeError: outside a function.

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
    given = [convert_to_tensor(y) for y in nest.flatten(ys)]
    program = _Program(trace)
    sources = [program.of(x) for x in nest.flatten(xs)]
    stopped = {id(program.of(s)) for s in nest.flatten(stop_gradients or [])}
    records = [r for r in program.records if not any(id(y) in stopped for y in nest.flatten(r[2]))]
    seeds = [None] * len(given) if grad_ys is None else nest.flatten(grad_ys)
    cotangents = [ones_like(y) if g is None else convert_to_tensor(g, y.dtype) for y, g in zip(given, seeds)]
    found = sweep(records, zip(map(program.of, given), cotangents), sources)
    if wants_zeros(unconnected_gradients):
        found = [zeros_like(x) if g is None else g for g, x in zip(found, sources)]
    return found


@export("hessians", waits=False)
def hessians(
    ys: Any,
    xs: Any,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    name: str = "hessians",
) -> list[Any]:
    """The second derivatives of the sum of ``ys`` by each of ``xs``, in a function that is being traced.

    Returns:
      Tensors of shape x.shape + x.shape, one for each of ``xs``.

    Raises:
      RuntimeError: outside a function.

    >>> import tvtf as tf
    >>> hessian = tf.function(lambda x: tf.hessians(tf.reduce_sum(x ** 3), x)[0])
    >>> hessian(tf.constant([1., 2.])).numpy()
    array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/hessians
    """
    sources = nest.flatten(xs)
    return [None if g is None else _hessian(g, x) for g, x in zip(gradients(ys, sources), sources)]


def _hessian(first: Tensor, x: Any) -> Tensor:
    """The derivative of a gradient by what it is one by: one sweep for all its elements, mapped over them."""
    program = _Program(state.trace)
    source = program.of(x)
    shape = source._type.shape
    with level() as own:
        cotangents = basis(first._type)
        found = sweep(program.records, [(program.of(first), Batched(cotangents, own))], [source])[0]
        rows = zeros_like(source) if found is None else as_dense(found)
        rows = unwrapped(rows, own, cotangents._type.shape[0])
    return bind.reshape(rows, shape=(*shape, *shape))


@export("grad_pass_through")
def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """``f``, with the identity's gradient.

    >>> import tvtf as tf
    >>> x = tf.Variable(1.7)
    >>> with tf.GradientTape() as tape:
    ...     y = tf.grad_pass_through(tf.round)(x)
    >>> y.numpy(), tape.gradient(y, x).numpy()
    (np.float32(2.0), np.float32(1.0))

    Source: https://www.tensorflow.org/api_docs/python/tf/grad_pass_through
    """

    @custom_gradient
    def passed(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs), lambda *cts: cts[0] if len(args) == 1 else cts

    return passed


@export("RegisterGradient")
class RegisterGradient:
    """Decorates the gradient function of an op type of the user's own: ``f(op, *grads)``.

    Ops are declared with their gradients here (see docs/extending.md), so a registered function is kept, and refused for
    names that are taken, but nothing asks for it.

    >>> import tvtf as tf
    >>> @tf.RegisterGradient("MyOpOfTheDocs")
    ... def my_gradient(op, grad):
    ...     return grad

    Raises:
      TypeError: the name is no string.
      KeyError: it has a gradient already.

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
    """Says that ops of a type have no gradient: None, not an error, is what tapes give.

    >>> import tvtf as tf
    >>> tf.no_gradient("MyCountOfTheDocs")

    Raises:
      TypeError: the name is no string.

    Source: https://www.tensorflow.org/api_docs/python/tf/no_gradient
    """
    if not isinstance(op_type, str):
        raise TypeError("op_type must be a string")
    _register(op_type, None)


_registered: dict[str, Callable[..., Any] | None] = {}


def _register(op_type: str, function: Callable[..., Any] | None) -> None:
    if op_type in _registered or any(p.tf_name == op_type and p.vjp is not None for p in table.values()):
        raise KeyError(f"Registering two gradient with name '{op_type}'!")
    _registered[op_type] = function
