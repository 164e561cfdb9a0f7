"""``tvtf.extend``: the public API for extensions: ops, gradients and passes of users.

Everything here keeps its name and meaning when the inside of tvtf changes. docs/extending.md shows how it is used.

>>> from tvtf import extend
>>> extend.table["sin"].tf_name
'Sin'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tvtf.core.primitive import Primitive, Sample, export, primitive, table
from tvtf.core.shape import TensorType, broadcast_shapes
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import COMPLEX, FLOATING, INTEGER
from tvtf.ops.rules import (
    batch_axes,
    batch_elementwise,
    binary,
    bind,
    full_like,
    kernel,
    number,
    ones_like,
    reduction,
    require_dtype,
    require_rank,
    require_same_dtype,
    scalar,
    unary,
    unbroadcast,
    zeros_like,
)

if TYPE_CHECKING:
    from tvtf.ir.interpreter import Evaluation, evaluate, reemit
    from tvtf.passes import add_pass, remove_pass

__all__ = [
    "COMPLEX",
    "FLOATING",
    "INTEGER",
    "Evaluation",
    "Primitive",
    "Sample",
    "Tensor",
    "TensorType",
    "add_pass",
    "batch_axes",
    "batch_elementwise",
    "binary",
    "bind",
    "broadcast_shapes",
    "convert_to_tensor",
    "evaluate",
    "export",
    "full_like",
    "kernel",
    "number",
    "ones_like",
    "primitive",
    "reduction",
    "reemit",
    "remove_pass",
    "require_dtype",
    "require_rank",
    "require_same_dtype",
    "scalar",
    "table",
    "unary",
    "unbroadcast",
    "zeros_like",
]
_OF_THE_COMPILER = {
    "Evaluation": "tvtf.ir.interpreter",
    "evaluate": "tvtf.ir.interpreter",
    "reemit": "tvtf.ir.interpreter",
    "add_pass": "tvtf.passes",
    "remove_pass": "tvtf.passes",
}
"""Name -> its module, which imports TVM."""


def __getattr__(name: str) -> Any:
    """Imports a name that needs the compiler, on its first use: declaring a primitive does not need it."""
    if name not in _OF_THE_COMPILER:
        raise AttributeError(f"module 'tvtf.extend' has no attribute {name!r}")
    return getattr(import_module(_OF_THE_COMPILER[name]), name)
