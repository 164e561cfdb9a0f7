"""Indexing of an operator's batch: slices the parameters that have the batch's dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.composites.linear.algebra import dims_of
from tvtf.core.shape import Dim
from tvtf.core.tensor import convert_to_tensor
from tvtf.ops.rules import bind


def sliced(operator: Any, slices: Any) -> Any:
    """Implements ``operator[slices]`` for linear operators: slices the batch dims of all parameters."""
    indices = slices if isinstance(slices, tuple) else (slices,)
    parameters = dict(operator.parameters)
    if indices != (Ellipsis,):
        batch_shape = operator._dims()[:-2]
        for name, rank in operator._matrix_ranks.items():  # the rank of a parameter without batch dims
            parameter = getattr(operator, name)
            if parameter is not None:
                parameters[name] = _slice_parameter(parameter, rank, indices, batch_shape)
    return type(operator)(**parameters)


def _slice_parameter(parameter: Any, rank: Any, slices: tuple[Any, ...], batch: Sequence[Dim]) -> Any:
    """Slices the batch dims of a parameter: a tensor or operator, or a list of these; ``rank`` is that of one of them."""
    if isinstance(parameter, (list, tuple)):
        ranks = rank if isinstance(rank, list) else [rank] * len(parameter)
        return [_slice_parameter(part, part_rank, slices, batch) for part, part_rank in zip(parameter, ranks)]
    return _slice_batch_dims(parameter, rank, slices, batch)


def _slice_batch_dims(parameter: Any, rank: int, slices: tuple[Any, ...], batch: Sequence[Dim]) -> Any:
    """Slices the batch dims of one parameter of a linear operator: a tensor, or an operator.

    Args:
      parameter: the tensor or operator, which may broadcast along some batch dims.
      rank: the number of the parameter's dims after the batch dims, if it is a tensor.
      slices: what is between the brackets of ``operator[...]``: it indexes the batch dims of the whole operator.
      batch: the batch dims of the whole operator.
    """
    is_operator = hasattr(parameter, "_matrix_ranks")
    parameter_batch = _batch_dims(parameter, rank)
    # A parameter without batch dims is the same in the whole batch.
    if batch and not parameter_batch:
        return parameter
    missing_count = len(batch) - len(parameter_batch)
    expanded_batch = (1,) * missing_count + parameter_batch
    expanded = _expand_batch_rank(parameter, expanded_batch, rank, is_operator)
    indices = _slices_of_parameter(slices, batch, expanded_batch)
    if is_operator:
        return expanded[tuple(indices)]
    # The slices may index the first batch dims only.
    if rank and not any(index is Ellipsis for index in indices):
        indices.append(Ellipsis)
    indices += [slice(None)] * rank
    return expanded[tuple(indices)]


def _batch_dims(parameter: Any, rank: int) -> tuple[Dim, ...]:
    """Returns the batch dims of an operator, or those of a tensor whose last ``rank`` dims are no batch dims."""
    if hasattr(parameter, "_matrix_ranks"):  # an operator
        return tuple(parameter._dims()[:-2])
    dims = dims_of(parameter)
    return tuple(dims[: len(dims) - rank])


def _expand_batch_rank(parameter: Any, batch: Sequence[Dim], rank: int, is_operator: bool) -> Any:
    """Prepends batch dims of size 1 to a tensor or operator.

    Args:
      parameter: the tensor or operator.
      batch: its new batch dims.
      rank: the number of a tensor's dims after the batch dims.
      is_operator: whether the parameter is an operator.
    """
    if not is_operator:
        tensor = convert_to_tensor(parameter)
        dims = dims_of(tensor)
        return bind.reshape(tensor, shape=(*batch, *dims[len(dims) - rank :]))
    parameters = dict(parameter.parameters)
    for name, part_rank in parameter._matrix_ranks.items():
        part = _expand_part(getattr(parameter, name), part_rank, len(batch))
        if part is not None:
            parameters[name] = part
    return type(parameter)(**parameters)


def _expand_part(part: Any, rank: Any, count: int) -> Any:
    """Prepends batch dims of size 1, up to ``count``, to each tensor or operator in a nested parameter.

    ``rank`` is the number of a part's other dims, or a list of such numbers.
    """
    if part is None:
        return None
    if isinstance(part, (list, tuple)):
        ranks = rank if isinstance(rank, list) else [rank] * len(part)
        return [_expand_part(child, child_rank, count) for child, child_rank in zip(part, ranks)]
    batch = _batch_dims(part, rank)
    missing_count = count - len(batch)
    return _expand_batch_rank(part, (1,) * missing_count + batch, rank, hasattr(part, "_matrix_ranks"))


def _slices_of_parameter(slices: Sequence[Any], batch: Sequence[Dim], parameter_batch: Sequence[Dim]) -> list[Any]:
    """Converts slices of the ``batch`` dims to slices of a parameter's batch dims, some of which have size 1.

    Along a dim of size 1 the parameter is broadcast. So an index becomes 0, and a slice keeps the dim.

    Args:
      slices: ints, slices, Nones and at most one Ellipsis, as between the brackets of ``operator[...]``.
      batch: the operator's batch dims.
      parameter_batch: the parameter's batch dims, as many as ``batch`` has.
    """
    indices: list[Any] = []
    axis = 0
    for i, index in enumerate(slices):
        if index is Ellipsis:
            # The slices after the Ellipsis belong to the last dims, so their axes count from the end. None has no dim.
            sliced_dims_after = sum(later is not None for later in slices[i + 1 :])
            axis = -sliced_dims_after
        if index is Ellipsis or index is None:
            indices.append(index)
            continue
        # If the operator's dim is 1, too, the parameter has the whole dim, and the index applies as it is.
        is_size_1 = isinstance(batch[axis], int) and batch[axis] == 1
        is_broadcast = parameter_batch[axis] == 1 and not is_size_1
        indices.append(_slice_of_broadcast_dim(index) if is_broadcast else index)
        axis += 1
    return indices


def _slice_of_broadcast_dim(index: Any) -> Any:
    """Converts an index or slice of a broadcast dim to an index or slice of the parameter's dim of size 1.

    For example, 5 becomes 0, and ``2:9`` becomes ``0:1``.
    """
    if not isinstance(index, slice):
        return 0
    start = None if index.start is None else 0
    stop = None if index.stop is None else 1
    step = None if index.step is None else 1
    return slice(start, stop, step)
