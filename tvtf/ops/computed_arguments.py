"""Functions whose sizes Python computes with, where the running program computes those: Python is called then."""

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
    """Lets a running program call a function where it computes one of the arguments ``names``.

    Args:
      names: of arguments that are scalars.
      gives: the specs of the results, of all arguments by name.
      kind: of what the results are put into; None for one alone.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            if not any(is_computed(bound.arguments.get(name)) for name in names):
                return function(*args, **kwargs)
            bound.apply_defaults()
            given = dict(bound.arguments)
            tensors = {name: convert_to_tensor(v) for name, v in given.items() if isinstance(v, Tensor)}
            if any(tensors[name].ndim for name in names if name in tensors):
                return function(*args, **kwargs)  # which refuses what is no scalar

            def eagerly(*values: Tensor) -> list[Any]:
                found = function(**{**given, **dict(zip(tensors, values))})  # type: ignore[call-arg]
                return [found] if kind is None else list(found)  # type: ignore[call-overload]

            found = hooks.call_python(eagerly, list(tensors.values()), gives(given))
            return found[0] if kind is None else kind(*found)  # type: ignore[no-any-return]

        return run

    return decorate
