"""The operators that converted code calls (``ag__.if_stmt`` and others), for tensors and for Python values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvtf.core import nest
from tvtf.core.tensor import convert_to_tensor
from tvtf.frontend.autograph.branches import if_exp, if_stmt
from tvtf.frontend.autograph.builtin import is_symbolic
from tvtf.frontend.autograph.loops import for_stmt, while_stmt
from tvtf.frontend.autograph.status import status
from tvtf.frontend.autograph.values import require_condition, with_run_time_check
from tvtf.frontend.autograph.whole_malt import Undefined, UndefinedReturnValue, ld, ldu
from tvtf.frontend.control_flow.cond_while import traced_cond
from tvtf.ops.rules import bind


class FunctionScope:
    """The scope of a converted function's body.

    Functions called in it are converted, even if conversion is off outside. ``loops`` counts the traced loops around
    the current statement. ``partial`` says whether one of these loops has a return statement. It is then known only at
    run time whether the function has returned.
    """

    def __init__(self, function_name: str, scope_name: str, options: Any) -> None:
        self.name = scope_name
        self.callopts = options.call_options()
        self.loops = 0
        self.partial = False

    def __enter__(self) -> FunctionScope:
        self.disabled, status.disabled = status.disabled, 0
        status.scopes.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        status.scopes.pop()
        status.disabled = self.disabled

    def ret(self, value: Any, did_return: Any) -> Any:
        """Returns the result of a converted function: ``value``, or None if no return statement was reached.

        If a return statement is in a traced loop, a run-time check is added: using the result fails unless
        ``did_return`` is true.
        """
        if isinstance(value, UndefinedReturnValue):
            return None
        if not self.partial or not is_symbolic(did_return):
            return value

        def with_check(leaf: Any) -> Any:
            return with_run_time_check(leaf, did_return, "the function must return a value after its loop, too")

        return nest.map_structure(with_check, value, expand_composites=True)


def with_function_scope(thunk: Callable[[FunctionScope], Any], scope_name: str, options: Any) -> Any:
    """Evaluates the body of a converted lambda in a new scope, and returns the result."""
    with FunctionScope("lambda_", scope_name, options) as scope:
        return thunk(scope)


def not_(a: Any) -> Any:
    """Returns ``not a``, as a boolean tensor if ``a`` is a tensor of the graph."""
    return bind.logical_not(convert_to_tensor(a)) if is_symbolic(a) else not a


def and_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """Returns ``a() and b()``.

    If ``a()`` is a tensor, a cond evaluates ``b`` only if the tensor is true at run time.
    """
    left = a()
    return _lazily(left, b, lambda: left) if is_symbolic(left) else left and b()


def or_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """Returns ``a() or b()``.

    If ``a()`` is a tensor, a cond evaluates ``b`` only if the tensor is false at run time.
    """
    left = a()
    return _lazily(left, lambda: left, b) if is_symbolic(left) else left or b()


def _lazily(pred: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """Emits a cond on the boolean tensor ``pred`` that evaluates one of the functions ``yes`` and ``no``."""
    return traced_cond(convert_to_tensor(pred), yes, no)


def eq(a: Any, b: Any) -> Any:
    return a == b


def not_eq(a: Any, b: Any) -> Any:
    return a != b


def assert_stmt(expression: Any, message: Callable[[], Any]) -> None:
    """Runs an ``assert`` statement. If the condition is a tensor of the graph, a run-time check is emitted.

    ``message`` evaluates the message, which Python does only if the assertion fails.
    """
    if not is_symbolic(expression):
        if not expression:
            raise AssertionError(message())
        return
    bind.guard(require_condition(expression, "assert"), message=f"assertion failed: [{message()}]")


OPERATORS: dict[str, Any] = {
    "FunctionScope": FunctionScope,
    "with_function_scope": with_function_scope,
    "Undefined": Undefined,
    "UndefinedReturnValue": UndefinedReturnValue,
    "ld": ld,
    "ldu": ldu,
    "if_stmt": if_stmt,
    "if_exp": if_exp,
    "while_stmt": while_stmt,
    "for_stmt": for_stmt,
    "and_": and_,
    "or_": or_,
    "not_": not_,
    "eq": eq,
    "not_eq": not_eq,
    "assert_stmt": assert_stmt,
}
