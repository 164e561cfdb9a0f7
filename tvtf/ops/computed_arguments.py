"""Functions that need Python ints as arguments, called at run time where the program computes these arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tvtf.core.primitive import hooks
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.ops.rules import is_computed

P = ParamSpec("P")
R = TypeVar("R")


def computed(
    *names: str, gives: Callable[[Mapping[str, Any]], Sequence[Any]], kind: Callable[..., Any] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Returns a decorator for functions that need Python ints, so that traced programs may pass computed scalars.

    A call with a computed scalar is traced as a call of Python, which the program makes with the scalar's value.

    Args:
      names: the scalar arguments that the program may compute.
      gives: returns the specs of the results from all arguments by name.
      kind: the tuple type of the results; None for a single result.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        """Wraps ``function`` so that calls with computed scalars are made when the program runs."""
        signature = inspect.signature(function)

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            """Calls the function, or traces a call of it with eager tensors if the program computes an argument."""
            bound = signature.bind(*args, **kwargs)
            if not any(is_computed(bound.arguments.get(name)) for name in names):
                return function(*args, **kwargs)
            bound.apply_defaults()
            arguments = dict(bound.arguments)
            tensors = {name: convert_to_tensor(value) for name, value in arguments.items() if isinstance(value, Tensor)}
            if any(tensors[name].ndim for name in names if name in tensors):
                return function(*args, **kwargs)  # the function itself raises the error for a non-scalar

            def call_eagerly(*values: Tensor) -> list[Any]:
                eager_arguments = arguments | dict(zip(tensors, values))
                results = function(**eager_arguments)  # type: ignore[call-arg]
                return [results] if kind is None else list(results)  # type: ignore[call-overload]

            results = hooks.call_python(call_eagerly, list(tensors.values()), gives(arguments))
            return results[0] if kind is None else kind(*results)  # type: ignore[no-any-return]

        return run

    return decorate
