"""``tf.case`` and ``tf.switch_case``: run one of several functions, as nested conds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvtf.core import nest
from tvtf.core.primitive import export
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.thread_state import state
from tvtf.errors import InvalidArgumentError
from tvtf.frontend.control_flow.cond_while import check_branches, traced_cond, with_operations_as
from tvtf.ops.rules import bind

MSG_NONE_TRUE = "Input error: None of conditions evaluated as True:"
MSG_MANY_TRUE = "Input error: more than one condition evaluated as True but exclusive=True:"


@export("switch_case")
def switch_case(
    branch_index: Any, branch_fns: Any, default: Callable[[], Any] | None = None, name: str = "switch_case"
) -> Any:
    """Runs the function with this index; for an index out of range the default, or the last one.

    Args:
      branch_index: integer scalar tensor.
      branch_fns: list of functions, or dict or pairs of index and function; the indices are 0 to n - 1.
      default: runs for any other index.

    Returns:
      What the chosen function returns; all return the same structure, dtypes and shapes.

    Raises:
      TypeError: the index is not an integer, or a branch is not callable; while tracing, the branches' results differ
        in type.
      ValueError: the branches are empty, or the indices have gaps.

    >>> import tvtf as tf
    >>> tf.switch_case(tf.constant(1), [lambda: 10, lambda: 20]).numpy()
    np.int32(20)

    Source: https://www.tensorflow.org/api_docs/python/tf/switch_case
    """
    branches = _ordered_functions(branch_index, branch_fns, default)
    if isinstance(branch_index, EagerTensor):
        index = int(branch_index)
        chosen = branches[index if 0 <= index < len(branches) else -1]
        return nest.map_structure(_as_tensor, chosen(), expand_composites=True)
    branches = [with_operations_as(branch_index, branch) for branch in branches]
    return _nested_switch(branch_index, list(enumerate(branches)), [])


def _ordered_functions(index: Any, fns: Any, default: Any) -> list[Callable[[], Any]]:
    """Checks the arguments of a ``switch_case``, and returns the functions in the order of their indices.

    The default function, if there is one, comes last.
    """
    if hasattr(index, "_as_tensor") and not isinstance(index, Tensor):  # such as a Variable
        index = index._as_tensor()
    if not isinstance(index, Tensor):
        raise TypeError(f"'branch_index' must be a Tensor, got {type(index)}")
    if not index.dtype.is_integer:
        raise TypeError(f"'branch_index' must be an integer Tensor, got {index.dtype!r}")
    if not fns:
        raise ValueError("Must provide at least one item in 'branch_fns'")
    if not isinstance(fns, (list, tuple, dict)):
        raise TypeError("'branch_fns' must be a list, tuple, or dict")
    pairs = list(fns.items()) if isinstance(fns, dict) else list(fns)
    if all(callable(fn) for fn in pairs):  # functions without indices are numbered from 0
        pairs = list(enumerate(pairs))
    _check_pairs(pairs)
    ordered = [fn for _, fn in sorted(pairs, key=lambda pair: pair[0])]
    return ordered if default is None else [*ordered, default]


def _check_pairs(pairs: Sequence[Any]) -> None:
    """Checks that the branches of a ``tf.switch_case`` are pairs of index and function with the indices 0 to n - 1.

    Raises TensorFlow's errors otherwise.
    """
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"Each entry in 'branch_fns' must be a 2-tuple. Received {pair}.")
        key, fn = pair
        if not isinstance(key, int):
            raise TypeError(f"key must be a Python `int`, got {type(key)}")
        if not callable(fn):
            raise TypeError(f"fn for key {key} must be callable.")
    keys = [key for key, _ in pairs]
    if min(keys) < 0 or max(keys) >= len(keys) or len(set(keys)) != len(keys):
        sorted_keys = ",".join(map(str, sorted(keys)))
        raise ValueError(
            f"branch indices (keys) must form contiguous range of [0 to {len(keys)}) but found {{{sorted_keys}}}"
        )


def _as_tensor(value: Any) -> Tensor | None:
    return None if value is None else convert_to_tensor(value)


def _traced_tensor(value: Any) -> Tensor | None:
    return None if value is None else state.trace.own(convert_to_tensor(value))


def _nested_switch(index: Tensor, branches: Sequence[tuple[int, Any]], results: list[Any]) -> Any:
    """Traces a ``tf.switch_case`` as nested conds, one per function except the last, and returns the result.

    Args:
      index: the scalar index at run time.
      branches: pairs of an index and a function.
      results: the results of the functions traced so far. All must have the structure of the first.
    """
    (branch_index, function), *others = branches

    def checked() -> Any:
        """Runs the function, checks that the result has the structure of the first function's, and returns it."""
        result = nest.map_structure(_traced_tensor, function(), expand_composites=True)
        if results:
            check_branches(
                results[0], result, ("branches[0]", f"branches[{branch_index}]"), "switch_case", branch_index
            )
        results.append(result)
        return result

    if not others:  # as in TensorFlow, the last function runs for every other index
        return checked()
    pred = bind.equal(index, convert_to_tensor(branch_index, index.dtype))
    return traced_cond(pred, checked, lambda: _nested_switch(index, others, results))


@export("case")
def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Runs the function of the first predicate that holds, else the default.

    Args:
      pred_fn_pairs: pairs of a boolean scalar and a function of no arguments.
      default: runs if none holds.
      exclusive: at most one may hold.

    Returns:
      What the chosen function returns; all return the same structure, dtypes and shapes.

    Raises:
      TypeError: an entry of ``pred_fn_pairs`` is not a pair of a predicate and a function.
      InvalidArgumentError: at run time, no predicate holds and there is no default, or several hold with ``exclusive``.

    >>> import tvtf as tf
    >>> x = tf.constant(5)
    >>> tf.case([(tf.less(x, 3), lambda: 1), (tf.less(x, 9), lambda: 2)], default=lambda: 3)
    2

    Source: https://www.tensorflow.org/api_docs/python/tf/case
    """
    pairs = _checked_pairs(pred_fn_pairs)
    if state.trace is None:
        return _eager_case(pairs, default, exclusive)
    preds = [state.trace.own(convert_to_tensor(pred)) for pred, _ in pairs]
    if exclusive:
        _require_one(preds)
    branches = [with_operations_as(preds[-1], fn) for fn in (*(fn for _, fn in pairs), default) if fn is not None]
    if default is None:
        bind.guard(_any(preds), message=f"assertion failed: [{MSG_NONE_TRUE}]")
        preds = preds[:-1]
    return _nested_case(list(zip(preds, branches)), branches[-1])


def _checked_pairs(pairs: Any) -> list[tuple[Any, Any]]:
    """Returns the arguments of a ``tf.case`` as a list of pairs of a predicate and a function.

    Raises TensorFlow's errors if a pair isn't a tuple of a boolean tensor and a callable.
    """
    if not isinstance(pairs, (list, tuple, dict)):
        raise TypeError(f"'pred_fn_pairs' must be a list, tuple, or dict. Received: {type(pairs)}")
    entries = list(pairs.items()) if isinstance(pairs, dict) else list(pairs)
    for pair in entries:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"Each entry in 'pred_fn_pairs' must be a 2-tuple. Received {pair}.")
        pred, fn = pair
        if not is_tensor(pred):
            raise TypeError(f"pred must be a Tensor, got: {pred!r}")
        if not convert_to_tensor(pred).dtype.is_bool:
            raise TypeError(f"pred must be Tensor of type bool: {pred!r}")
        if not callable(fn):
            raise TypeError(f"fn for pred {pred!r} must be callable.")
    return entries


def _eager_case(pairs: Sequence[tuple[Any, Any]], default: Any, exclusive: bool) -> Any:
    """Runs a ``tf.case`` eagerly: calls the function of the first predicate that holds, else the default.

    Args:
      pairs: pairs of a predicate and a function.
      default: the function to call if no predicate holds, or None.
      exclusive: whether only one predicate may hold.
    """
    # All predicates are evaluated: with `exclusive`, a second one that holds is an error.
    chosen = [fn for pred, fn in pairs if pred]
    if exclusive and len(chosen) > 1:
        raise InvalidArgumentError(None, "Assert", MSG_MANY_TRUE)
    if chosen:
        return chosen[0]()
    if default is None:
        raise InvalidArgumentError(None, "Assert", MSG_NONE_TRUE)
    return default()


def _any(preds: Sequence[Tensor]) -> Tensor:
    """Emits the logical or of the predicates."""
    result = preds[0]
    for pred in preds[1:]:
        result = bind.logical_or(result, pred)
    return result


def _require_one(preds: Sequence[Tensor]) -> None:
    """Emits run-time checks that at most one predicate holds. The program fails if a second one holds."""
    for i, pred in enumerate(preds[1:], 1):
        both = bind.logical_and(pred, _any(preds[:i]))
        bind.guard(bind.logical_not(both), message=f"assertion failed: [{MSG_MANY_TRUE}]")


def _nested_case(pairs: Sequence[tuple[Tensor, Any]], default: Any) -> Any:
    """Traces a ``tf.case`` as nested conds: each cond's else branch holds the remaining pairs, the last ``default``."""
    if not pairs:
        return default()
    (pred, fn), *others = pairs
    return traced_cond(pred, fn, lambda: _nested_case(others, default))
