"""``tf.custom_gradient``: a function with a gradient of the user's own, eager, traced and compiled."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tvtf import nest
from tvtf.context import state
from tvtf.frontend.tape import GradientTape
from tvtf.ops.custom import with_gradient
from tvtf.primitive import as_tuple, export
from tvtf.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor


class _Eager:
    """What tapes record of an eager call: its vjp is the function that the call returned."""

    def __init__(self, name: str, grad_fn: Callable[..., Any], variables: list[Any]) -> None:
        self.tf_name = name
        self.grad_fn = grad_fn
        self.variables = variables

    def vjp(self, cts: tuple[Any, ...], outputs: Any, *inputs: Any) -> Any:
        return _way_back(self.tf_name, self.grad_fn, cts, len(inputs), self.variables)


def gradients_of(name: str, found: Any, count: int) -> list[Any]:
    """What a ``grad_fn`` returned, one for each argument.

    Raises:
      ValueError: when their number differs.
    """
    flat = nest.flatten(found)
    if len(flat) != count:
        raise ValueError(
            f"custom_gradient function {name!r} expected to return {count} gradients, one for each argument, but returned {len(flat)}"
        )
    return flat


def _way_back(
    name: str, grad_fn: Callable[..., Any], cts: Sequence[Any], count: int, variables: list[Any]
) -> list[Any]:
    """The cotangents of the arguments and, after them, of the Variables that the function reads."""
    if not variables:
        return gradients_of(name, grad_fn(*cts), count)
    of_inputs, of_variables = grad_fn(*cts, variables=variables)
    found = gradients_of(name, of_inputs, count - len(variables))
    return [*found, *gradients_of(name, of_variables, len(variables))]


def _read(function: Callable[[], Any]) -> tuple[Any, Callable[..., Any], list[Any]]:
    """What a decorated function gives, and the Variables that it reads.

    Raises:
      TypeError: it reads some, and its ``grad_fn`` does not take them.
    """
    with GradientTape() as tape:
        result, grad_fn = function()
    variables = list(tape.watched_variables())
    if variables and not _takes_variables(grad_fn):
        raise TypeError(
            "@tf.custom_gradient grad_fn must accept keyword argument 'variables', since function uses variables: "
            f"{variables}"
        )
    return result, grad_fn, variables


def _takes_variables(grad_fn: Callable[..., Any]) -> bool:
    parameters = inspect.signature(grad_fn).parameters
    return "variables" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


@export("custom_gradient")
def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates ``f(*tensors) -> (result, grad_fn)``: tapes use ``grad_fn(*cotangents)`` as its gradient.

    Args:
      f: takes tensors and returns a nest of tensors with a function from their cotangents to those of the arguments. In a
        ``tf.function`` it is traced once for the result and once, with the intermediates it needs, for the gradient.
        Where it reads Variables, the function takes them as ``variables=`` and returns a second list, their cotangents.

    Returns:
      A function that gives the result alone.

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
      ValueError: ``grad_fn`` returned another number of gradients than ``f`` has arguments.
      TypeError: ``f`` reads Variables and ``grad_fn`` does not take them.

    Source: https://www.tensorflow.org/api_docs/python/tf/custom_gradient
    """
    name = getattr(f, "__name__", "custom_gradient")

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        tensors = [a if is_tensor(a) and not hasattr(a, "_as_tensor") else convert_to_tensor(a) for a in args]
        run = _call_eagerly if state.trace is None else _call_traced
        return run(name, functools.partial(f, **kwargs), tensors)

    return decorated


def _call_eagerly(name: str, f: Callable[..., Any], tensors: list[Tensor]) -> Any:
    """Tapes see ``f`` at work, for the second order, but its outputs come from the recorded call alone."""
    result, grad_fn, variables = _read(lambda: f(*tensors))
    outputs = tuple(EagerTensor(convert_to_tensor(t).eager_array()) for t in nest.flatten(result))
    for tape in state.tapes:
        tape.record(_Eager(name, grad_fn, variables), (*tensors, *variables), outputs, {})
    return nest.pack_sequence_as(result, outputs)


def _call_traced(name: str, f: Callable[..., Any], tensors: list[Tensor]) -> Any:
    from tvtf.frontend.lift import Inner, lift

    variables: list[Any] = []
    count = len(tensors)

    def there(*xs: Tensor) -> Any:
        result, _, read = _read(lambda: f(*xs[:count]))
        variables[:] = read
        return result

    forward = Inner(name, there, [t._type for t in tensors])
    tensors = [*tensors, *(v.read_value() for v in variables)]
    types = [t._type for t in tensors]
    if variables:
        forward = Inner(name, there, types)
    cts = [t._type for t in forward.leaves]

    def way_back(*given: Tensor) -> Any:
        _, grad_fn = f(*given[:count])
        return _way_back(name, grad_fn, given[len(types) :], len(types), variables)

    backward = Inner(f"{name}_gradient", way_back, types + cts)
    given = tuple(i for i, g in enumerate(backward.structure) if g is not None)
    captured = lift([forward, backward])
    attrs = {"forward": forward.graph(), "backward": backward.graph(), "arguments": len(types), "given": given}
    outputs = as_tuple(with_gradient.bind(*tensors, *captured, **attrs))
    return nest.pack_sequence_as(forward.structure, outputs)
