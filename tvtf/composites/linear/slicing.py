"""Indexing of an operator's batch: slices the parameters that have the batch's dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.composites.linear.algebra import dims_of
from tvtf.core.shape import Dim
from tvtf.core.tensor import convert_to_tensor
from tvtf.ops.rules import bind


def sliced(operator: Any, slices: Any) -> Any:
    """Returns ``operator[slices]``; the slices index the batch dims."""
    given = slices if isinstance(slices, tuple) else (slices,)
    changed = {}
    if given != (Ellipsis,):
        batch = operator._dims()[:-2]
        ranks = {k: r for k, r in operator._matrix_ranks.items() if getattr(operator, k) is not None}
        changed = {name: _mapped(getattr(operator, name), rank, given, batch) for name, rank in ranks.items()}
    return type(operator)(**operator.parameters | changed)


def _mapped(parameter: Any, rank: Any, slices: tuple[Any, ...], batch: Sequence[Dim]) -> Any:
    if isinstance(parameter, (list, tuple)):
        ranks = rank if isinstance(rank, list) else [rank] * len(parameter)
        return [_mapped(each, r, slices, batch) for each, r in zip(parameter, ranks)]
    return _sliced(parameter, rank, slices, batch)


def _sliced(parameter: Any, rank: int, slices: tuple[Any, ...], batch: Sequence[Dim]) -> Any:
    """Slices the batch dims of one parameter, which may broadcast along some of the operator's batch dims."""
    is_operator = hasattr(parameter, "_matrix_ranks")
    dims = parameter._dims() if is_operator else dims_of(parameter)
    own = dims[: len(dims) - (2 if is_operator else rank)]
    if batch and not own:
        return parameter
    lifted = (1,) * (len(batch) - len(own)) + tuple(own)
    wide = _lifted(parameter, lifted, rank, is_operator)
    indices = _for(slices, batch, lifted)
    if is_operator:
        return wide[tuple(indices)]
    if rank and not any(each is Ellipsis for each in indices):
        indices.append(Ellipsis)
    indices += [slice(None)] * rank
    return wide[tuple(indices)]


def _lifted(parameter: Any, batch: Sequence[Dim], rank: int, is_operator: bool) -> Any:
    """Returns the parameter with dims of size 1 prepended, up to a given batch rank."""
    if not is_operator:
        tensor = convert_to_tensor(parameter)
        dims = dims_of(tensor)
        return bind.reshape(tensor, shape=(*batch, *dims[len(dims) - rank :]))
    parts = parameter._matrix_ranks.items()
    changed = {name: _lifted_part(getattr(parameter, name), rank, len(batch)) for name, rank in parts}
    return type(parameter)(**parameter.parameters | {k: v for k, v in changed.items() if v is not None})


def _lifted_part(part: Any, rank: Any, count: int) -> Any:
    """Prepends dims of size 1 to each operator in a nested parameter."""
    if part is None:
        return None
    if isinstance(part, (list, tuple)):
        ranks = rank if isinstance(rank, list) else [rank] * len(part)
        return [_lifted_part(each, r, count) for each, r in zip(part, ranks)]
    is_operator = hasattr(part, "_matrix_ranks")
    dims = part._dims()[:-2] if is_operator else dims_of(part)[: len(dims_of(part)) - rank]
    return _lifted(part, (1,) * (count - len(dims)) + tuple(dims), rank, is_operator)


def _for(slices: Sequence[Any], batch: Sequence[Dim], own: Sequence[Dim]) -> list[Any]:
    """Returns the slices for a parameter that broadcasts along some of the batch's dims."""
    indices: list[Any] = []
    axis = 0
    for i, each in enumerate(slices):
        if each is Ellipsis:
            axis = -sum(later is not None for later in slices[i + 1 :])
        if each is Ellipsis or each is None:
            indices.append(each)
            continue
        repeats = own[axis] == 1 and not (isinstance(batch[axis], int) and batch[axis] == 1)
        indices.append(_of_repeated(each) if repeats else each)
        axis += 1
    return indices


def _of_repeated(each: Any) -> Any:
    """Converts a slice of a broadcast dim to one of the parameter's dim of size 1."""
    if not isinstance(each, slice):
        return 0
    start, stop, step = (
        None if given is None else of for given, of in zip((each.start, each.stop, each.step), (0, 1, 1))
    )
    return slice(start, stop, step)
