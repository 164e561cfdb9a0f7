"""Python operators of sparse tensors, and handlers of the public functions that TensorFlow dispatches on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.composites.sparse.counts import sparse_weights
from tvtf.composites.sparse.math import divided, times
from tvtf.composites.sparse.tensor import SparseTensor, as_sparse, is_sparse, rank_of
from tvtf.core.primitive import by_name
from tvtf.core.tensor import EagerTensor, is_tensor
from tvtf.dtypes import as_dtype, int32
from tvtf.ops.bincount import counts
from tvtf.ops.rules import bind, static_dims


def _multiplied(other: SparseTensor, dense: Any) -> Any:
    """Computes ``dense * sparse``; a number on the left raises, as in TensorFlow."""
    return times(other, dense) if is_tensor(dense) else NotImplemented


for _name, _operator in {"mul": times, "rmul": _multiplied, "truediv": divided, "div": divided}.items():
    setattr(SparseTensor, f"__{_name}__", _operator)

ON_VALUES = (
    *(
        "abs",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cast",
        "math.bessel_i0e",
        "math.bessel_i1e",
        "math.erf",
        "math.negative",
    ),
    *("math.sign", "math.sin", "math.sqrt", "math.square", "math.tan", "math.tanh", "identity", "stop_gradient"),
)


def on_values(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Applies ``function`` to the values of its first argument."""
    if args:
        return args[0].with_values(function(args[0].values, *args[1:], **kwargs))
    name = next(keyword for keyword, value in kwargs.items() if is_sparse(value))
    sp = kwargs.pop(name)
    return sp.with_values(function(**{name: sp.values}, **kwargs))


def _divide(function: Any, x: Any, y: Any, name: str | None = None) -> Any:
    return divided(x, y) if is_sparse(x) else function(x, y)


def _shape(function: Any, input: Any, out_type: Any = int32, name: str | None = None) -> Any:
    return bind.cast(as_sparse(input).dense_shape, dtype=as_dtype(out_type))


def _size(function: Any, input: Any, out_type: Any = int32, name: str | None = None) -> Any:
    return bind.reduce_prod(_shape(function, input, out_type), axis=(0,), keepdims=False)


def _rank(function: Any, input: Any, name: str | None = None) -> Any:
    return EagerTensor(np.array(rank_of(as_sparse(input)), np.int32))


@by_name
def _bincount(arr: Any, weights: Any, axis: int | None, name: Any, **options: Any) -> Any:
    """Counts the values of a sparse tensor, in total or for each row."""
    sp = as_sparse(arr)
    element_weights = None if weights is None else sparse_weights(sp, weights)
    row_ids = sp.indices[:, 0] if axis == -1 and rank_of(sp) != 1 else None
    row_count = None if row_ids is None else static_dims(sp.dense_shape[:1])[0]
    return counts(sp.values, element_weights, row_ids, row_count, axis, **options)


HANDLERS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(ON_VALUES, on_values),
    "divide": _divide,
    "shape": _shape,
    "size": _size,
    "rank": _rank,
    "math.bincount": _bincount,
}
"""What public functions do on sparse tensors (see ``tvtf/api/late_dispatch.py``)."""
takes = is_sparse
