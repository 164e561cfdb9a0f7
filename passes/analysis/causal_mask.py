"""Recognizes causal masks: evaluates tensors that depend on constants only, and describes triangular matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from tvm import ir, relax, tirx

from tvtf.core.primitive import table
from tvtf.core.tensor import EagerTensor
from tvtf.passes.analysis.use_def import Graph

TRIANGLES = "tvtf.triangles"
"""Attribute of ``main``: the captured constants that are triangles, as (position, offset, inside, outside)."""
MAX_ELEMENTS = 2**26
"""Elements up to which a tensor is computed in order to look at it."""


class Triangle(NamedTuple):
    """A matrix that is ``inside`` in columns 0 to ``row + offset`` of each row, and ``outside`` after them."""

    offset: int
    inside: float
    outside: float

    def array(self, shape: tuple[int, ...]) -> np.ndarray:
        rows, columns = shape[-2:]
        return np.where(np.tri(rows, columns, self.offset, dtype=bool), self.inside, self.outside).reshape(shape)


def triangle_of(array: np.ndarray) -> Triangle | None:
    """Returns the triangle that an array is (with any leading dims of 1), or None; each row has an element inside.

    >>> import numpy as np
    >>> triangle_of(np.tri(3, dtype=bool))
    Triangle(offset=0, inside=1.0, outside=0.0)
    >>> triangle_of(np.eye(3)) is None
    True
    """
    if array.ndim < 2 or array.dtype.kind not in "bfiu" or array.size == 0 or array.size != np.prod(array.shape[-2:]):
        return None
    matrix: np.ndarray = array.reshape(array.shape[-2:])
    hidden = np.flatnonzero(matrix[0] != matrix[0, 0])
    offset = int(hidden[0]) - 1 if len(hidden) else matrix.shape[1] - 1
    triangle = Triangle(offset, float(matrix[0, 0]), float(matrix[0, -1]))
    return triangle if np.array_equal(matrix, triangle.array(matrix.shape)) else None


def described(constants: dict[int, Any]) -> list[list[Any]]:
    """Returns :data:`TRIANGLES` for captured tensors, given by the positions of their parameters."""
    triangles = {place: _triangle_of_tensor(tensor) for place, tensor in constants.items()}
    return [[place, *triangle] for place, triangle in triangles.items() if triangle is not None]


def _triangle_of_tensor(tensor: Any) -> Triangle | None:
    is_matrix = len(tensor._type.shape) > 1 and min(tensor._type.shape[-2:]) > 1
    return triangle_of(tensor.eager_array()) if is_matrix and not tensor.dtype.is_complex else None


class Known:
    """The values of a function's variables that depend on constants only, computed on request."""

    def __init__(self, function: relax.Function, graph: Graph) -> None:
        self.graph = graph
        self.values: dict[relax.Var, np.ndarray | None] = {}
        # Constants are parameters here: only these descriptions tell their values.
        for place, offset, inside, outside in (function.attrs or {}).get(TRIANGLES, []):
            param = function.params[int(place)]
            shape = tuple(map(int, param.ty.shape.values))
            array = Triangle(int(offset), float(inside), float(outside)).array(shape)
            self.values[param] = array.astype(str(param.ty.dtype))

    def of(self, x: Any) -> np.ndarray | None:
        """Returns the value, or None where it isn't known or is too large."""
        if isinstance(x, ir.Constant):
            return np.array(x.value.numpy())
        if x not in self.values:
            self.values[x] = self._computed(x)
        return self.values[x]

    def _computed(self, x: Any) -> np.ndarray | None:
        """Evaluates a pure, cheap primitive on known operands; None for any other value."""
        producer = self.graph.producers.get(x)
        if producer is None or not _is_evaluable(x.ty) or any(map(_is_symbolic, producer.attrs.values())):
            return None
        prim, inputs = table[producer.name], [self.of(i) for i in producer.inputs]
        known = [EagerTensor(i) for i in inputs if i is not None]
        # Compiling must not run what a call runs: effects, Python or long computations.
        if not prim.pure or prim.host or prim.heavy or len(known) < len(inputs):
            return None
        result: np.ndarray = prim.run(known, producer.attrs).eager_array()
        return result


def _is_evaluable(ty: Any) -> bool:
    """Returns whether a type is one tensor of static, moderate size, in a dtype that NumPy has."""
    if not isinstance(ty, relax.TensorType) or str(ty.dtype) in ("bfloat16",):
        return False
    dims = list(ty.shape.values)
    return all(isinstance(d, tirx.IntImm) for d in dims) and int(np.prod(list(map(int, dims)))) <= MAX_ELEMENTS


def _is_symbolic(attribute: Any) -> bool:
    if isinstance(attribute, tuple):
        return any(map(_is_symbolic, attribute))
    return isinstance(attribute, (ir.Expr, ir.GlobalVar))
