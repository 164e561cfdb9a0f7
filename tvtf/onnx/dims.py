"""Dims in a model: their names in its signature, and their values where the program needs them at run time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from tvm import tirx

from tvtf.core.shape import substitute_dim
from tvtf.dtypes import as_dtype
from tvtf.errors import UnimplementedError

if TYPE_CHECKING:
    from tvtf.onnx.emitter import Emitter

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
    """The symbols of one model: a name for each, and the value whose shape it can be read from."""

    def __init__(self) -> None:
        self._names: dict[tirx.Var, str] = {}
        self._places: dict[tirx.Var, tuple[str, int]] = {}

    def learn(self, value: str, shape: Sequence[Any]) -> None:
        """Takes the symbols of ``shape`` as dims of the model's value ``value``."""
        for axis, dim in enumerate(shape):
            if isinstance(dim, tirx.Var):
                self._places.setdefault(dim, (value, axis))

    def text(self, dim: Any) -> int | str:
        """An int as it is, else the name or the expression that stands in the signature."""
        if isinstance(dim, int):
            return dim
        symbols = {v: tirx.Var(self._name(v), "int64") for v in tirx.analysis.undefined_vars(dim)}
        return _TYPED_INT.sub(r"\1", str(substitute_dim(dim, symbols)))

    def _name(self, symbol: tirx.Var) -> str:
        known = self._names.get(symbol)
        if known is None:
            taken = set(self._names.values())
            name, count = symbol.name, 0
            while name in taken:
                count += 1
                name = f"{symbol.name}_{count}"
            known = self._names[symbol] = name
        return known

    def place(self, symbol: tirx.Var) -> tuple[str, int]:
        found = self._places.get(symbol)
        if found is None:
            raise UnimplementedError(
                None,
                "Shape",
                f"the dim {symbol.name} can't be read from the shape of any input of the model: give an argument that "
                "has it as a dim of its own",
            )
        return found


class DimValues:
    """Emits nodes that compute dims as int64 vectors of one element; each dim once per scope."""

    def __init__(self, emitter: Emitter, dims: Dims, outer: DimValues | None = None) -> None:
        self.emitter = emitter
        self.dims = dims
        self.outer = outer
        self._known: dict[str, str] = {}

    def vector(self, shape: Sequence[Any]) -> str:
        """The name of an int64 vector that holds ``shape``."""
        if all(isinstance(d, int) for d in shape):
            return self.emitter.const(np.array(shape, np.int64))
        return self._once(f"({', '.join(map(self._key, shape))})", lambda: self._concatenated(shape))

    def _concatenated(self, shape: Sequence[Any]) -> str:
        parts = [self.single(d) for d in shape]
        return parts[0] if len(parts) == 1 else self.emitter.computed("Concat", parts, axis=0)

    def single(self, dim: Any) -> str:
        if isinstance(dim, (int, tirx.IntImm)):
            return self.emitter.const(np.array([int(dim)], np.int64))
        return self._once(self._key(dim), lambda: self._computed(dim))

    def _key(self, dim: Any) -> str:
        return str(self.dims.text(dim))

    def _once(self, key: str, compute: Callable[[], str]) -> str:
        known = self.find(key)
        if known is None:
            known = self._known[key] = compute()
        return known

    def find(self, key: str) -> str | None:
        return self._known.get(key) or (self.outer.find(key) if self.outer else None)

    def _computed(self, dim: Any) -> str:
        if isinstance(dim, tirx.Var):
            return self._read(dim)
        if isinstance(dim, tirx.Cast):
            return self.single(dim.value)
        if isinstance(dim, tirx.FloorDiv):
            return self._floor_divided(dim)
        op = _ARITHMETIC.get(type(dim))
        if op is None:
            reason = f"ONNX has no integer operator for the dim {dim}: compute it before the call"
            raise UnimplementedError(None, "Shape", reason)
        return self.emitter.computed(op, [self.single(dim.a), self.single(dim.b)])

    def _floor_divided(self, dim: tirx.FloorDiv) -> str:
        """``(a - a mod b) / b``: ONNX's own division truncates."""
        multiple = self.emitter.computed("Sub", [self.single(dim.a), self.single(tirx.FloorMod(dim.a, dim.b))])
        return self.emitter.computed("Div", [multiple, self.single(dim.b)])

    def _read(self, symbol: tirx.Var) -> str:
        value, axis = self.dims.place(symbol)
        return self.emitter.computed("Shape", [value], start=axis, end=axis + 1)
