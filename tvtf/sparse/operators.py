"""The operators that sparse tensors have: products and quotients with dense ones."""

from __future__ import annotations

from typing import Any

from tvtf.sparse.math import divided, times
from tvtf.sparse.tensor import SparseTensor
from tvtf.tensor import is_tensor


def _multiplied(other: SparseTensor, dense: Any) -> Any:
    """``dense * sparse``; numbers on the left are refused, as in TensorFlow."""
    return times(other, dense) if is_tensor(dense) else NotImplemented


for _name, _operator in {"mul": times, "rmul": _multiplied, "truediv": divided, "div": divided}.items():
    setattr(SparseTensor, f"__{_name}__", _operator)
