"""``tf.custom_gradient``: a function with a user-defined gradient, eager, traced and compiled.

The function runs as part of the surrounding program; its results pass through one more op, which has the gradient.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from tvtf.core import nest
from tvtf.core.composite import CompositeTensor
from tvtf.core.primitive import WrappedSignature, export, table
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.gradient.tape import gradient_parts
from tvtf.ops.custom import with_gradient
from tvtf.ops.indexed_slices import IndexedSlices
from tvtf.ops.rules import bind
from tvtf.passes.autodiff.reverse_mode import Recorder
from tvtf.state.variable import Variable


class _Call:
    """One call of a function with a custom gradient: its arguments, its results, and the Variables that it reads."""

    tf_name = with_gradient.tf_name
    assigns = False
    """Whether the gradient function assigns Variables."""

    def __init__(self, name: str, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Calls the user's function, which returns a result and a gradient function.

        ``variables`` becomes the list of trainable Variables that the function reads and that aren't its arguments.

        Raises:
          TypeError: the function reads Variables, and its gradient function doesn't take them.
        """
        self.name = name
        self.args = args
        # The code object identifies the function: a nested function is a new object each time that it is defined.
        self.function = getattr(f, "__code__", f)
        watcher = _VariableWatcher()
        outer_tapes = state.tapes
        state.tapes = [*outer_tapes, watcher]
        try:
            self.result, self.grad_fn = f(*args, **kwargs)
        finally:
            state.tapes = outer_tapes
        argument_ids = set(map(id, nest.flatten((args, kwargs))))
        self.variables = [variable for variable in watcher.variables.values() if id(variable) not in argument_ids]
        if self.variables and not _takes_variables(self.grad_fn):
            raise TypeError(
                "@tf.custom_gradient grad_fn must accept keyword argument 'variables', since function uses variables: "
                f"{self.variables}"
            )

    def inputs(self) -> list[Tensor]:
        """Returns the tensors that get gradients: those in the arguments, then the values of the Variables read."""
        return [*_parts(self.args), *(variable._as_tensor() for variable in self.variables)]

    def outputs(self) -> list[Tensor]:
        return _parts(self.result)

    def with_outputs(self, outputs: Sequence[Tensor]) -> Any:
        """Returns the function's result with its tensors replaced by ``outputs``."""
        return nest.pack_sequence_as(self.result, _with_tensors_replaced(nest.flatten(self.result), outputs))

    def backward(self, cotangents: Sequence[Any]) -> list[Any]:
        """Calls the user's gradient function, and returns the cotangents of the inputs.

        ``cotangents`` are those of the results.

        Raises:
          ValueError: the gradient function didn't return one cotangent per input.
        """
        result_cotangents = _with_tensors_replaced(nest.flatten(self.result), cotangents)
        if self.variables:
            argument_grads, variable_grads = self.grad_fn(*result_cotangents, variables=self.variables)
        else:
            argument_grads = self.grad_fn(*result_cotangents)
            variable_grads = []
        if len(variable_grads) != len(self.variables):
            raise ValueError("Must return gradient for each variable from @custom_gradient grad_fn.")
        input_cotangents = [part for grad in nest.flatten(argument_grads) for part in _parts_of_gradient(grad)]
        count = len(_parts(self.args))
        if len(input_cotangents) != count:
            raise ValueError(
                f"custom_gradient function {self.name!r} expected to return {count} gradients, one for each argument, "
                f"but returned {len(input_cotangents)}"
            )
        return [*input_cotangents, *variable_grads]

    def vjp(self, cotangents: Any, outputs: Any, *inputs: Any) -> list[Any]:
        """Computes the cotangents of the op that tapes record for a call.

        Its operands are the results and the inputs.
        """
        # The results, passed through, have no cotangents.
        return [*[None] * len(cotangents), *self.backward(cotangents)]


class _VariableWatcher(Recorder):
    """A tape that collects the trainable Variables that a function reads."""

    def __init__(self) -> None:
        super().__init__()
        self.variables: dict[int, Variable] = {}

    def read(self, variable: Variable, tensor: Tensor) -> None:
        if variable.trainable:
            self.variables[id(variable)] = variable


def _parts_of_gradient(x: Any) -> list[Any]:
    """Returns a gradient as a list of tensors, one for each differentiable part. IndexedSlices are one gradient."""
    return [x] if isinstance(x, IndexedSlices) else nest.flatten(gradient_parts(x))


def _parts(structure: Any) -> list[Tensor]:
    """Returns the tensors in a structure that can have gradients. Of a composite tensor, these are some components."""
    return [convert_to_tensor(part) for x in nest.flatten(structure) for part in nest.flatten(gradient_parts(x))]


def _with_tensors_replaced(values: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
    """Returns the values with their differentiable tensors replaced by ``tensors``, in order.

    Of a composite tensor, only some components are differentiable.
    """
    remaining = iter(tensors)

    def replaced_value(value: Any) -> Any:
        """Takes as many of the remaining tensors as the value has differentiable parts."""
        if not isinstance(value, CompositeTensor):
            return next(remaining)
        components = value._gradient_components()
        new_components = [next(remaining) for _ in nest.flatten(components)]
        return value._with_gradient(nest.pack_sequence_as(components, new_components))

    return list(map(replaced_value, values))


def _takes_variables(grad_fn: Callable[..., Any]) -> bool:
    """Returns whether a gradient function has a parameter ``variables`` or ``**kwargs``."""
    parameters = inspect.signature(grad_fn).parameters
    return "variables" in parameters or any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    )


@export("custom_gradient")
def custom_gradient(f: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Decorates ``f(*tensors) -> (result, grad_fn)``: tapes use ``grad_fn(*cotangents)`` as its gradient.

    Args:
      f: takes tensors and returns a nest of tensors with a function from their cotangents to those of the arguments.
        Where it reads Variables, that function takes them as ``variables=`` and returns a second list, their cotangents.
        In a ``tf.function`` both are traced once; effects of the gradient function happen when a gradient is taken.
        The object of a method is not among the arguments.

    Returns:
      A function that returns the result alone; without ``f``, the decorator.

    >>> import tvtf as tf
    >>> @tf.custom_gradient
    ... def clipped(x):
    ...     return x, lambda ct: tf.clip_by_value(ct, -1., 1.)
    >>> x = tf.constant(2.)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = 5. * clipped(x)
    >>> tape.gradient(y, x).numpy()
    np.float32(1.0)

    Raises:
      ValueError: ``grad_fn`` didn't return one gradient per argument of ``f``.
      TypeError: ``f`` reads Variables and ``grad_fn`` does not take them.

    Source: https://www.tensorflow.org/api_docs/python/tf/custom_gradient
    """
    if f is None:
        return custom_gradient
    return CustomGradient(f)


class CustomGradient:
    """A function whose gradient tapes take from its result; as a method, ``self`` is no argument of it."""

    __signature__ = WrappedSignature()

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.__original_wrapped__ = function  # as TensorFlow's decorators have it
        self.function = function

    def __get__(self, instance: Any, owner: Any = None) -> CustomGradient:
        bind_to = getattr(type(self.function), "__get__", None)
        return self if bind_to is None else CustomGradient(bind_to(self.function, instance, owner))

    def __reduce__(self) -> str:
        """Pickles it as functions are pickled: by name."""
        return self.function.__qualname__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, and records its custom gradient on the tapes or in the trace."""
        # From Python 3.13 on, a classmethod passes the class itself, where it asked `__get__` for a method before.
        if args and isinstance(args[0], type):
            return self.__get__(args[0], type(args[0]))(*args[1:], **kwargs)
        name = getattr(self.function, "__name__", "custom_gradient")
        if state.trace is None:
            return _eager_result(_Call(name, self.function, args, kwargs))
        args = nest.map_structure(convert_to_tensor, args, expand_composites=True)
        return _traced_result(_Call(name, self.function, args, kwargs))


def _eager_result(call: _Call) -> Any:
    """Returns the result of an eager call, and records the call on the gradient tapes as one op.

    The tapes have also recorded the function's own ops. First-order gradients don't use them, because they start at the
    recorded call, but second-order gradients do. A tape that watches no input records identities of the results, as in
    TensorFlow.
    """
    inputs = call.inputs()
    results = call.outputs()
    outputs = _without_recording(lambda: tuple(map(bind.identity, results)))
    for tape in state.tapes:
        if any(map(tape.watches, inputs)):
            tape.record(call, (*results, *inputs), outputs, {})
        else:
            for result, output in zip(results, outputs):
                tape.record(table["identity"], (result,), output, {})
    return call.with_outputs(outputs)


def _without_recording(run: Callable[[], Any]) -> Any:
    """Runs a function while no gradient tape records its ops, and returns the function's result.

    Observers, which see every op, stay active.
    """
    tapes = state.tapes
    state.tapes = list(state.observers)
    try:
        return run()
    finally:
        state.tapes = tapes


def _traced_result(call: _Call) -> Any:
    """Returns the result of a call in a trace, passed through the op ``with_gradient``.

    The op returns its first operands, the results, and has the user's gradient. Its other operands are the inputs, and
    the tensors that the traced gradient function captures.
    """
    results = [state.trace.own(output) for output in call.outputs()]
    inputs = call.inputs()
    try:
        captured, attrs = _gradient_function(call, results)
    except Exception as error:  # raised when a gradient is taken, as in TensorFlow
        captured, attrs = _raising_backward(
            f"the gradient function of {call.name!r} raised {type(error).__name__}: {error}"
        )
    operands = (*results, *inputs, *captured)
    attrs = attrs | {"count": len(results)}
    if not call.assigns:
        return call.with_outputs(with_gradient.bind(*operands, **attrs))
    # The gradient function assigns Variables. Only tapes in this trace can run it, so they record the call itself.
    outputs = _without_recording(lambda: with_gradient.bind(*operands, **attrs))
    for tape in state.tapes:
        tape.record(call, (*results, *inputs), outputs, {})
    return call.with_outputs(outputs)


MAX_GRADIENT_ORDER = 2
"""How deep a gradient function that calls its own function is traced: each trace would require another one."""

_tracing: ContextVar[tuple[Any, ...]] = ContextVar("_tracing", default=())


def _gradient_function(call: _Call, outputs: Sequence[Tensor]) -> tuple[list[Tensor], dict[str, Any]]:
    """Traces the user's gradient function, a function of the results' cotangents.

    Args:
      call: the call of the function with a custom gradient.
      outputs: the results of the call.

    Returns:
      the tensors that the gradient function captures, and the attributes of the op ``with_gradient``. If the gradient
      function can't be compiled, the attributes hold the text of the error that taking the gradient raises.
    """
    from tvtf.frontend.control_flow.closure_conversion import TracedFunction, assigned_variables, lift

    functions_being_traced = _tracing.get()
    # Each gradient of a function that calls the function itself needs a gradient again: stop at some order.
    if functions_being_traced.count(call.function) == MAX_GRADIENT_ORDER:
        return _raising_backward(
            f"{call.name!r} is called by its own gradient: compiled code has gradients of such functions up to order {MAX_GRADIENT_ORDER}"
        )
    token = _tracing.set((*functions_being_traced, call.function))
    try:
        types = [x._type for x in outputs]
        inner = TracedFunction(
            f"{call.name}_gradient", lambda *cotangents: call.backward(cotangents), types, is_branch=True
        )
    finally:
        _tracing.reset(token)
    assigned = assigned_variables([inner])
    if assigned:
        call.assigns = True
        names = ", ".join(variable.name for variable in assigned)
        return _raising_backward(
            f"the gradient function of {call.name!r} assigns {names}: only tapes in the same "
            "tf.function, and in the same branch or loop body, can compute this gradient"
        )
    tensors, given = [], []
    for position, grad in enumerate(inner.structure):
        if grad is None:
            continue
        # A graph returns tensors only: IndexedSlices are returned as two tensors.
        is_sparse = isinstance(grad, IndexedSlices)
        tensors += [grad.values, grad.indices] if is_sparse else [grad]
        # Among the operands of the op, the inputs follow the results.
        given.append((len(outputs) + position, is_sparse))
    return lift([inner]), {"backward": inner.trace.finish(tensors), "given": tuple(given), "error_text": ""}


def _raising_backward(reason: str) -> tuple[list[Tensor], dict[str, Any]]:
    """Returns the captured tensors (none) and the attributes of a ``with_gradient`` op whose gradient raises an error.

    ``reason`` is the text of the error.
    """
    return [], {"backward": None, "given": (), "error_text": reason}
