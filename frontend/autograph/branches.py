"""``if`` statements and expressions in converted code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvtf.core import nest
from tvtf.frontend.autograph.builtin import is_symbolic
from tvtf.frontend.autograph.status import status
from tvtf.frontend.autograph.values import (
    Places,
    as_tensors,
    for_each,
    placeholder,
    require_condition,
    require_same_form,
    require_same_structure,
    with_objects,
)
from tvtf.frontend.autograph.whole_malt import Undefined, UndefinedReturnValue
from tvtf.frontend.control_flow.abstract_trace import AbstractTrace
from tvtf.frontend.control_flow.cond_while import traced_cond
from tvtf.frontend.control_flow.tensor_array import with_array_buffers
from tvtf.ir.trace import tracing

MSG_STRUCTURE = "'{name}' must have the same nested structure in the main and else branches:\n\n{error}"
BRANCHES = Places(
    "in the main branch",
    "in the else branch",
    "only tensors, numbers and strings may differ between the branches of an if on a tensor",
    "; compiled branches must give equal ranks",
    shapes_may_differ=True,
)


def if_stmt(
    cond: Any,
    body: Callable[[], None],
    orelse: Callable[[], None],
    get_state: Callable[[], tuple[Any, ...]],
    set_state: Callable[[tuple[Any, ...]], None],
    symbol_names: tuple[str, ...],
    nouts: int,
) -> None:
    """Runs an ``if`` statement: one branch if the condition is a Python value; traces both if it is a tensor.

    Args:
      cond: the condition.
      body, orelse: run the statements of the two branches.
      get_state, set_state: read and write the user's variables that a branch assigns.
      symbol_names: the names of these variables.
      nouts: the number of variables that are read after the statement; they come first.
    """
    if is_symbolic(cond):
        # Only the first `nouts` symbols are read afterwards; the others may differ between the branches.
        branching = _Branching(get_state, set_state, symbol_names[:nouts], nouts)
        branching.run(require_condition(cond, "if statement"), body, orelse)
    elif cond:
        body()
    else:
        orelse()


class _Branching:
    """An ``if`` on a tensor: the user's variables that its branches assign, before it and after each branch."""

    def __init__(self, get_state: Any, set_state: Any, names: tuple[str, ...], nouts: int) -> None:
        self.get_state, self.set_state = get_state, set_state
        self.names, self.nouts = names, nouts
        self.before = get_state()
        self.after: dict[str, tuple[Any, ...]] = {}

    def run(self, pred: Any, body: Callable[[], None], orelse: Callable[[], None]) -> None:
        """Traces both branches into a ``cond``, and sets the user's variables to the results of the ``cond``.

        Args:
          pred: the condition, a boolean scalar.
          body, orelse: run the branches, which set the user's variables.
        """
        # TensorArrays get their buffers before the cond, so that both branches have them.
        for run_branch in (body, orelse):
            self.before = with_array_buffers(self.before, partial(self.symbols_after, run_branch))
        self.return_placeholders = self.zeros_for_missing_returns(body, orelse)
        main_branch = partial(self.branch, "main", body)
        else_branch = partial(self.branch, "else", orelse)
        try:
            tensors = traced_cond(pred, main_branch, else_branch)
        except BaseException:  # restores the user's variables, whatever interrupts the branch
            self.set_state(self.before)
            raise
        merged = with_objects(tensors, self.after["main"])
        self.set_state((*merged, *self.before[self.nouts :]))

    def branch(self, branch_name: str, run: Callable[[], None]) -> Any:
        """Traces one branch ("main" or "else"), and returns the user's variables after the branch as tensors.

        After "else", the second branch, checks that both branches gave each variable the same structure, dtype and rank.

        Args:
          branch_name: "main" or "else".
          run: runs the branch's statements on the user's variables.
        """
        self.set_state(self.before)
        run()
        values: tuple[Any, ...] = ()
        for name, value in zip(self.names, self.get_state()):
            if _is_unset_return(value):  # only the other branch returns
                value = self.return_placeholders.get(name, value)
            values += (value,)
        self.after[branch_name] = values
        for_each(self.names, lambda name, value: _require_defined(name, value, branch_name), values)
        if branch_name == "else":
            for_each(self.names, _require_agreement, self.after["main"], values)
        return as_tensors(values)

    def zeros_for_missing_returns(self, body: Callable[[], None], orelse: Callable[[], None]) -> dict[str, Any]:
        """Returns zeros, by variable name, for return values that only one branch sets.

        In a loop, one branch may return while the other continues the loop. A ``cond`` needs a value from both.

        Args:
          body: runs the statements of the main branch.
          orelse: runs the statements of the other branch.
        """
        is_in_loop = status.scopes and status.scopes[-1].loops
        outputs_before = self.before[: self.nouts]
        if not is_in_loop or not any(map(_is_unset_return, outputs_before)):
            return {}
        after_body = self.abstract_symbols_after(body)
        after_orelse = self.abstract_symbols_after(orelse)
        zeros = {}
        for name, value_before, *branch_values in zip(self.names, self.before, after_body, after_orelse):
            if not _is_unset_return(value_before):
                continue
            returned = [value for value in branch_values if not _is_unset_return(value)]
            zeros[name] = placeholder(returned[0]) if returned else None
        return zeros

    def abstract_symbols_after(self, run: Callable[[], None]) -> tuple[Any, ...]:
        """Traces a branch temporarily, and returns the user's variables that are read after the ``if``."""
        with tracing(AbstractTrace("if_aside")) as abstract:
            return self.symbols_after(run, abstract)[: self.nouts]

    def symbols_after(self, run: Callable[[], None], _trace: AbstractTrace) -> tuple[Any, ...]:
        """Runs a branch only to find the types of its results, and returns the user's variables after the branch.

        ``_trace`` is unused: the branch runs in the active trace. ``with_array_buffers`` passes the trace.
        """
        self.set_state(self.before)
        try:
            run()
            # Symbols starting at `nouts` aren't read after the statement.
            return (*self.get_state()[: self.nouts], *self.before[self.nouts :])
        finally:
            self.set_state(self.before)


def _is_unset_return(value: Any) -> bool:
    """Returns whether a variable is the return value of a function that has not reached a return statement."""
    return isinstance(value, UndefinedReturnValue)


def _require_defined(name: str, value: Any, branch_name: str) -> None:
    """Raises TensorFlow's error if a branch of an ``if`` leaves a variable, or the return value, undefined."""
    if isinstance(value, Undefined):
        raise ValueError(f"'{name}' must also be initialized in the {branch_name} branch")
    if isinstance(value, UndefinedReturnValue):
        raise ValueError(f"the {branch_name} branch must also have a return statement.")


def _require_agreement(name: str, main: Any, other: Any) -> None:
    """Checks that a variable has the same structure, dtype and rank after both branches, and raises an error if not."""
    require_same_structure(name, main, other, MSG_STRUCTURE)
    flat = (nest.flatten(values, expand_composites=True) for values in (main, other))
    for first_leaf, second_leaf in zip(*flat):
        _require_same_leaf(name, first_leaf, second_leaf)


def _require_same_leaf(name: str, main: Any, other: Any) -> None:
    """Checks that a variable's leaf has the same dtype and rank after both branches of an ``if``.

    Raises an error otherwise, also if the leaf is None after one branch only.

    Args:
      name: the name of the variable.
      main, other: the leaf after the main branch and after the other one.
    """
    if main is None and other is None:
        return
    for value, branch_name in ((main, "main"), (other, "else")):
        if value is None:
            raise ValueError(f"'{name}' is None at the end of the {branch_name} branch.")
    require_same_form(name, main, other, BRANCHES)


def if_exp(cond: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], expr_repr: str) -> Any:
    """Evaluates the expression ``if_true() if cond else if_false()``, as a ``cond`` if the condition is a tensor.

    ``expr_repr`` is the source text of the expression, for error messages.
    """
    if not is_symbolic(cond):
        return if_true() if cond else if_false()
    results: list[Any] = []

    def branch(run: Callable[[], Any]) -> Any:
        """Evaluates one branch, and returns the result as tensors."""
        result = run()
        results.append(result)
        if len(results) > 1:  # both branches have been traced
            _require_agreement(expr_repr, *results)
        return as_tensors(result)

    pred = require_condition(cond, "conditional expression")
    tensors = traced_cond(pred, lambda: branch(if_true), lambda: branch(if_false))
    return with_objects(tensors, results[0])
