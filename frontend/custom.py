"""``tf.custom_gradient``: a function with a gradient of the user's own, eager, traced and compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tvtf import nest
from tvtf.context import state
from tvtf.ops.custom import with_gradient
from tvtf.primitive import as_tuple, export
from tvtf.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor


class _Eager:
    """What tapes record of an eager call: its vjp is the function that the call returned."""

    def __init__(self, name: str, grad_fn: Callable[..., Any]) -> None:
        self.tf_name = name
        self.grad_fn = grad_fn

    def vjp(self, cts: tuple[Any, ...], outputs: Any, *inputs: Any) -> Any:
        return gradients_of(self.tf_name, self.grad_fn(*cts), len(inputs))


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


@export("custom_gradient")
def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates ``f(*tensors) -> (result, grad_fn)``: tapes use ``grad_fn(*cotangents)`` as its gradient.

    Args:
      f: takes tensors and returns a nest of tensors with a function from their cotangents to those of the arguments. In a
        ``tf.function`` it is traced once for the result and once, with the intermediates it needs, for the gradient.

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
    result, grad_fn = f(*tensors)
    outputs = tuple(EagerTensor(convert_to_tensor(t).eager_array()) for t in nest.flatten(result))
    for tape in state.tapes:
        tape.record(_Eager(name, grad_fn), tensors, outputs, {})
    return nest.pack_sequence_as(result, outputs)


def _call_traced(name: str, f: Callable[..., Any], tensors: list[Tensor]) -> Any:
    from tvtf.frontend.lift import Inner, lift

    types = [t._type for t in tensors]
    forward = Inner(name, lambda *xs: f(*xs)[0], types)
    cts = [t._type for t in forward.leaves]

    def way_back(*given: Tensor) -> Any:
        _, grad_fn = f(*given[: len(types)])
        return gradients_of(name, grad_fn(*given[len(types) :]), len(types))

    backward = Inner(f"{name}_gradient", way_back, types + cts)
    given = tuple(i for i, g in enumerate(backward.structure) if g is not None)
    captured = lift([forward, backward])
    attrs = {"forward": forward.graph(), "backward": backward.graph(), "arguments": len(types), "given": given}
    outputs = as_tuple(with_gradient.bind(*tensors, *captured, **attrs))
    return nest.pack_sequence_as(forward.structure, outputs)
