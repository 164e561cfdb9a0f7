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
"""Maximum number of elements of a tensor that is computed to analyze it."""


class Triangle(NamedTuple):
    """A matrix that is ``inside`` in columns 0 to ``row + offset`` of each row, and ``outside`` after them."""

    offset: int
    inside: float
    outside: float

    def array(self, shape: tuple[int, ...]) -> np.ndarray:
        rows, columns = shape[-2:]
        return np.where(np.tri(rows, columns, self.offset, dtype=bool), self.inside, self.outside).reshape(shape)


def triangle_of(array: np.ndarray) -> Triangle | None:
    """Describes an array as a triangular matrix, such as a causal mask; returns None if it isn't one.

    Each row must have one value up to a diagonal, and another value after the diagonal. The first column must be within
    the diagonal. Leading dims must be 1.

    >>> import numpy as np
    >>> triangle_of(np.tri(3, dtype=bool))
    Triangle(offset=0, inside=1.0, outside=0.0)
    >>> triangle_of(np.eye(3)) is None
    True
    """
    if array.ndim < 2 or array.dtype.kind not in "bfiu" or array.size == 0 or array.size != np.prod(array.shape[-2:]):
        return None
    matrix: np.ndarray = array.reshape(array.shape[-2:])
    # The first row gives the diagonal and both values. The complete matrix is compared with this triangle at the end.
    first_row = matrix[0]
    outside_columns = np.flatnonzero(first_row != first_row[0])
    last_inside_column = int(outside_columns[0]) - 1 if len(outside_columns) else matrix.shape[1] - 1
    triangle = Triangle(offset=last_inside_column, inside=float(first_row[0]), outside=float(first_row[-1]))
    return triangle if np.array_equal(matrix, triangle.array(matrix.shape)) else None


def triangle_attribute(constants: dict[int, Any]) -> list[list[Any]]:
    """Returns the attribute :data:`TRIANGLES` for captured tensors, given by the positions of their parameters."""
    triangles = {position: _triangle_of_tensor(tensor) for position, tensor in constants.items()}
    return [[position, *triangle] for position, triangle in triangles.items() if triangle is not None]


def _triangle_of_tensor(tensor: Any) -> Triangle | None:
    is_matrix = len(tensor._type.shape) > 1 and min(tensor._type.shape[-2:]) > 1
    return triangle_of(tensor.eager_array()) if is_matrix and not tensor.dtype.is_complex else None


class ConstantValues:
    """The values of a function's variables that depend on constants only, computed on request."""

    def __init__(self, function: relax.Function, graph: Graph) -> None:
        """Starts with the values of constants that are triangular matrices, such as causal masks.

        The function's attribute `TRIANGLES` describes these matrices.
        """
        self.graph = graph
        self.values: dict[relax.Var, np.ndarray | None] = {}
        # Captured constants are parameters here, and only these descriptions say what their values are.
        for position, offset, inside, outside in (function.attrs or {}).get(TRIANGLES, []):
            param = function.params[int(position)]
            shape = tuple(map(int, param.ty.shape.values))
            array = Triangle(int(offset), float(inside), float(outside)).array(shape)
            self.values[param] = array.astype(str(param.ty.dtype))

    def of(self, x: Any) -> np.ndarray | None:
        """Returns the value of a variable or constant, or None if it depends on an argument, or is too large."""
        if isinstance(x, ir.Constant):
            return np.array(x.value.numpy())
        if x not in self.values:
            self.values[x] = self._computed(x)
        return self.values[x]

    def _computed(self, x: Any) -> np.ndarray | None:
        """Computes a variable's value with NumPy, by running the primitive that defines the variable.

        Returns None if an operand's value isn't known, or the primitive is costly or has effects.
        """
        producer = self.graph.producers.get(x)
        if producer is None or not _is_evaluable(x.ty) or any(map(_is_symbolic, producer.attrs.values())):
            return None
        prim = table[producer.name]
        values = [self.of(operand) for operand in producer.inputs]
        operands = [EagerTensor(value) for value in values if value is not None]
        is_known = len(operands) == len(values)
        # Compilation must not run the function's side effects, its Python callbacks or long computations.
        if not prim.pure or prim.host or prim.heavy or not is_known:
            return None
        result: np.ndarray = prim.run(operands, producer.attrs).eager_array()
        return result


def _is_evaluable(ty: Any) -> bool:
    """Returns whether NumPy can compute a value of this type: a single tensor of static shape and moderate size.

    The tensor may have at most ``MAX_ELEMENTS`` elements.
    """
    # NumPy has no bfloat16.
    if not isinstance(ty, relax.TensorType) or str(ty.dtype) == "bfloat16":
        return False
    dims = list(ty.shape.values)
    if not all(isinstance(dim, tirx.IntImm) for dim in dims):
        return False
    element_count = int(np.prod([int(dim) for dim in dims]))
    return element_count <= MAX_ELEMENTS


def _is_symbolic(attribute: Any) -> bool:
    """Returns whether an attribute of a call contains a symbolic dim or names a function."""
    if isinstance(attribute, tuple):
        return any(map(_is_symbolic, attribute))
    return isinstance(attribute, (ir.Expr, ir.GlobalVar))
