"""Sample sizes for inferring the result types of a call that needs known sizes.

The call is traced for several sizes. First all unknown sizes are equal, which suits most ops on operands that belong
together; then each is changed alone. A result dim that never changes holds for every size; others are unknown, and so
is a rank that changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tvtf.core.deferred_shape import AnyShape
from tvtf.core.shape import TensorType, fresh_dim, is_static_shape, same_dim, substitute_dim

SIZES = (2, 3, 1, 4, 5, 8, 16)
"""The sizes that all unknown dims are given in turn; as many as there are examples of ranks."""
BIG_STEP = 17
"""How much a size is changed alone: more than windows move by, so that their number changes too."""
MAX_INTEGERS = 64
"""The largest integer tensor in a sample: each of its elements may become a dim."""
Sizes = Mapping[Any, int]


def symbols_of(inputs: Sequence[tuple[TensorType, Any]]) -> list[Any]:
    """Returns the symbolic sizes in the types and known values of tensors, without duplicates."""
    from tvm import tirx

    symbols: list[Any] = []
    for dim in _dims(inputs):
        if isinstance(dim, int):
            continue
        for symbol in tirx.analysis.undefined_vars(dim):
            # `same_as` compares TVM's objects, as one object can have several Python wrappers.
            if not any(symbol.same_as(known_symbol) for known_symbol in symbols):
                symbols.append(symbol)
    return symbols


def _dims(inputs: Sequence[tuple[TensorType, Any]]) -> Iterator[Any]:
    for (shape, _), known in inputs:
        yield from shape
        if known is not None:
            yield from known.flat


def with_sizes(typed: tuple[TensorType, Any], sizes: Sizes) -> tuple[TensorType, Any]:
    """Substitutes sizes for symbolic dims in a tensor's type and known value, which are given as a pair."""
    (shape, dtype), known = typed
    dims = tuple(substitute_dim(dim, sizes) for dim in shape)
    value = None if known is None else np.array([substitute_dim(element, sizes) for element in known.flat], object)
    return TensorType(dims, dtype), None if value is None else value.reshape(known.shape)


def is_small(inputs: Sequence[tuple[TensorType, Any]]) -> bool:
    """Returns whether the integer tensors are small."""
    return all(math.prod(shape) <= MAX_INTEGERS for (shape, dtype), _ in inputs if dtype.is_integer)


def samples_that_work(
    inputs: Sequence[tuple[TensorType, Any]], attempt: Callable[[Sizes], Any]
) -> list[tuple[Sizes, Any]]:
    """Returns the sample sizes that a call accepts, each with the call's result for these sizes.

    ``attempt`` runs the call for some sizes, and returns None if it fails.
    """
    symbols = symbols_of(inputs)
    known_sizes = {dim for (shape, _), _ in inputs for dim in shape if isinstance(dim, int) and dim > 0}
    # The known sizes are tried, too: the call may need an unknown size to equal a known one.
    sizes_to_try = (*SIZES, *sorted(known_sizes - set(SIZES)))
    samples = []
    for size in sizes_to_try:
        sizes = dict.fromkeys(symbols, size)  # the same size for all symbols
        result = attempt(sizes)
        if result:
            samples.append((sizes, result))
    if not samples:
        return []
    base, _ = samples[0]
    return samples + list(_samples_with_one_change(base, attempt))


def _samples_with_one_change(base: Sizes, attempt: Callable[[Sizes], Any]) -> Iterator[tuple[Sizes, Any]]:
    """Yields, for each unknown size, up to two samples in which it alone is changed.

    Args:
      base: the size of each symbol in the first sample.
      attempt: returns the result for sizes, or a false value if they are rejected.
    """
    for symbol, size in base.items():
        accepted = 0
        for other_size in (size + BIG_STEP, size + 1, 2 * size + 1, size + 2, size - 1):
            sizes = {**base, symbol: other_size}
            result = attempt(sizes)
            if result:
                yield sizes, result
                accepted += 1
            if accepted == 2:
                break


def common_type(samples: Sequence[tuple[Sizes, TensorType]]) -> TensorType:
    """Returns the type that a result has for any sizes, given its types for the sample sizes."""
    base, first = samples[0]
    shapes = [sample_type.shape for _, sample_type in samples]
    have_one_rank = all(not isinstance(shape, AnyShape) and len(shape) == len(first.shape) for shape in shapes)
    if len(shapes) < 2 or not have_one_rank:
        return first._replace(shape=_any_shape(samples))

    def is_varied_alone(symbol: Any) -> bool:
        return any(_changes_only(sizes, base, symbol) for sizes, _ in samples)

    are_all_varied = all(map(is_varied_alone, base))
    return first._replace(shape=tuple(_common_dim(dims, are_all_varied) for dims in zip(*shapes)))


def _changes_only(sizes: Sizes, base: Sizes, symbol: Any) -> bool:
    """Returns whether only this symbol's size differs from the base."""
    return all((sizes[other] != base[other]) == other.same_as(symbol) for other in base)


def _common_dim(sample_dims: Sequence[Any], are_all_varied: bool) -> Any:
    """Returns a result's dim for any sizes, given the dim in all samples.

    It is their common value if each unknown size was also changed alone; otherwise a new symbol.

    Args:
      sample_dims: the result's dim in each sample.
      are_all_varied: whether each unknown size was changed alone in a sample.
    """
    first = sample_dims[0]
    is_constant = are_all_varied and isinstance(first, int) and all(same_dim(first, dim) for dim in sample_dims)
    return first if is_constant else fresh_dim("any")


def _any_shape(samples: Sequence[tuple[Sizes, TensorType]]) -> AnyShape:
    """Returns the shape of a result whose rank varies between samples: an example of it per size in ``SIZES``."""
    # Samples in which all symbols have one size come first.
    shape_by_size = {}
    for sizes, sample_type in samples:
        if len(set(sizes.values())) < 2:
            size = next(iter(sizes.values()), 0)
            shape_by_size[size] = sample_type.shape
    shapes = [shape_by_size.get(size) for size in SIZES]
    if shapes[0] is None or shapes[1] is None:  # the call accepts none of these: the samples come in any order
        all_shapes = [sample_type.shape for _, sample_type in samples]
        padding = [None] * len(SIZES)
        shapes = [*all_shapes, *padding][: len(SIZES)]
    shapes = _distinct_ranks_first(shapes)
    return AnyShape(lambda index: _with_unknown_sizes(shapes[index], index))


def _distinct_ranks_first(shapes: list[Any]) -> list[Any]:
    """Moves a shape whose rank differs from the first to the second position: two examples are compared."""
    if any(isinstance(shape, AnyShape) for shape in shapes):
        return shapes
    other_index = next((i for i, shape in enumerate(shapes) if shape is not None and len(shape) != len(shapes[0])), 1)
    shapes[1], shapes[other_index] = shapes[other_index], shapes[1]
    return shapes


def _with_unknown_sizes(shape: Any, index: int) -> Any:
    """Returns a shape of the same rank with unknown sizes."""
    if isinstance(shape, AnyShape):
        return shape.example(index)
    return shape and tuple(fresh_dim("any") for _ in shape)


def common_value(values: Sequence[Any]) -> Any:
    """Returns the known value that holds for any sizes, or None if it depends on them."""
    first = values[0]
    if first is None or not is_static_shape(first.flat):
        return None
    are_equal = all(
        value is not None and value.shape == first.shape and all(map(same_dim, first.flat, value.flat))
        for value in values
    )
    return first if are_equal else None
