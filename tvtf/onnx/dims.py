"""Names symbolic dims in a model's signature, and computes their values where the program needs them at run time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np
from tvm import tirx

from tvtf.core.shape import substitute_dim
from tvtf.dtypes import as_dtype
from tvtf.errors import UnimplementedError

_INT64: Final = as_dtype("int64")
_ARITHMETIC: Final[dict[type, str]] = {
    tirx.Add: "Add",
    tirx.Sub: "Sub",
    tirx.Mul: "Mul",
    tirx.Min: "Min",
    tirx.Max: "Max",
    tirx.FloorMod: "Mod",
    tirx.Div: "Div",
}


_TYPED_INT: Final = re.compile(r"T\.int64\((-?\d+)\)")


class Dims:
    """The symbolic dims of one model: their names, and a value from whose shape each can be read."""

    def __init__(self) -> None:
        self._names: dict[tirx.Var, str] = {}
        self._sources: dict[tirx.Var, tuple[str, int]] = {}

    def record(self, value: str, shape: Sequence[Any]) -> None:
        """Records that the symbolic dims in ``shape`` can be read from the model's value ``value``."""
        for axis, dim in enumerate(shape):
            if isinstance(dim, tirx.Var):
                self._sources.setdefault(dim, (value, axis))

    def text(self, dim: Any) -> int | str:
        """Returns a dim as the model's signature shows it: a static dim as an int, a symbolic dim as text.

        The text is the symbol's name in the model, or an expression of such names.
        """
        if isinstance(dim, int):
            return dim
        symbols = {var: tirx.Var(self._name(var), "int64") for var in tirx.analysis.undefined_vars(dim)}
        return _TYPED_INT.sub(r"\1", str(substitute_dim(dim, symbols)))  # TVM prints the constant 2 as T.int64(2)

    def _name(self, symbol: tirx.Var) -> str:
        """Returns the unique name of a symbolic dim in the model.

        It is the name of the dim's symbol. If another symbol uses this name already, a number is appended.
        """
        unique = self._names.get(symbol)
        if unique is None:
            used = set(self._names.values())
            name, count = symbol.name, 0
            while name in used:
                count += 1
                name = f"{symbol.name}_{count}"
            unique = self._names[symbol] = name
        return unique

    def source(self, symbol: tirx.Var) -> tuple[str, int]:
        """Returns where the model can read the size of a symbolic dim at run time.

        Returns:
          The name of a value in the model, and the axis of this value that has the dim.

        Raises:
          UnimplementedError: no value is known to have the dim.
        """
        source = self._sources.get(symbol)
        if source is None:
            raise UnimplementedError(
                None,
                "Shape",
                f"the dim {symbol.name} can't be read from the shape of any input of the model: add an argument with "
                "this dim",
            )
        return source


class Nodes(Protocol):
    """The methods of `emitter.Emitter` with which dims are computed."""

    def const(self, array: Any) -> str:
        """Returns the name of a constant."""

    def computed(self, op: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Adds a node with one result, and returns the result's name."""


class DimValues:
    """Emits nodes that compute dims as int64 vectors of one element; each dim is computed once per scope."""

    def __init__(self, emitter: Nodes, dims: Dims, outer: DimValues | None = None) -> None:
        self.emitter = emitter
        self.dims = dims
        self.outer = outer
        self._cache: dict[str, str] = {}

    def vector(self, shape: Sequence[Any]) -> str:
        """Emits a shape as an int64 vector, and returns the vector's name.

        A static shape becomes a constant. Otherwise nodes compute the vector at run time, once per scope.
        """
        if all(isinstance(dim, int) for dim in shape):
            return self.emitter.const(np.array(shape, np.int64))
        return self._cached(f"({', '.join(map(self._key, shape))})", lambda: self._concatenated(shape))

    def _concatenated(self, shape: Sequence[Any]) -> str:
        """Emits nodes that concatenate the dims of a shape to a vector, and returns the vector's name."""
        parts = [self.single(dim) for dim in shape]
        return parts[0] if len(parts) == 1 else self.emitter.computed("Concat", parts, axis=0)

    def single(self, dim: Any) -> str:
        """Emits one dim as an int64 vector of one element, and returns the vector's name."""
        if isinstance(dim, (int, tirx.IntImm)):
            return self.emitter.const(np.array([int(dim)], np.int64))
        return self._cached(self._key(dim), lambda: self._emit_expression(dim))

    def _key(self, dim: Any) -> str:
        return str(self.dims.text(dim))

    def _cached(self, key: str, compute: Callable[[], str]) -> str:
        """Returns the name of the value of an expression of dims.

        ``key`` is the expression's text. If neither this scope nor an outer one has its value, ``compute`` emits nodes
        for the value.
        """
        value = self.find(key)
        if value is None:
            value = self._cache[key] = compute()
        return value

    def find(self, key: str) -> str | None:
        """Returns the name of an expression's value in this scope or an outer one, or None if there is none."""
        return self._cache.get(key) or (self.outer.find(key) if self.outer else None)

    def _emit_expression(self, dim: Any) -> str:
        """Emits ONNX nodes that compute a symbolic dim's expression at run time, and returns the result's name.

        Raises:
          UnimplementedError: the expression has an operation that ONNX lacks.
        """
        if isinstance(dim, tirx.Var):
            return self._read(dim)
        if isinstance(dim, tirx.Cast):
            return self.single(dim.value)  # the nodes compute all dims in int64
        if isinstance(dim, tirx.FloorDiv):
            return self._floor_divided(dim)
        op = _ARITHMETIC.get(type(dim))
        if op is None:
            reason = f"ONNX has no integer operator for the dim {dim}: compute it before the call"
            raise UnimplementedError(None, "Shape", reason)
        return self.emitter.computed(op, [self.single(dim.a), self.single(dim.b)])

    def _floor_divided(self, dim: tirx.FloorDiv) -> str:
        """Emits ``(a - a mod b) / b`` because ONNX's integer division truncates."""
        multiple = self.emitter.computed("Sub", [self.single(dim.a), self.single(tirx.FloorMod(dim.a, dim.b))])
        return self.emitter.computed("Div", [multiple, self.single(dim.b)])

    def _read(self, symbol: tirx.Var) -> str:
        """Emits a node that reads a symbolic dim from the shape of a value, and returns the result's name."""
        value, axis = self.dims.source(symbol)
        return self.emitter.computed("Shape", [value], start=axis, end=axis + 1)
