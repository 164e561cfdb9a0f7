"""``e`` of the primitives' ``onnx`` columns: emits nodes into one graph of a model and keeps their element types.

Where onnxruntime has no kernel for a type, the node computes in a wider one that gives the same result and casts back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from tvtf import dtypes
from tvtf.core.shape import TensorType
from tvtf.dtypes import DType
from tvtf.errors import UnimplementedError
from tvtf.onnx.dims import Dims, DimValues
from tvtf.onnx.kernels import computed_in
from tvtf.onnx.prune import live_initializers, live_nodes
from tvtf.onnx.standard import DTYPE, ELEMENT, allowed, schema, type_variables

_DEFAULTS: Final[dict[str, dict[str, Any]]] = {"Reshape": {"allowzero": 1}}
"""A zero in a shape is a zero here, where ONNX would keep the input's dim."""


_WITHIN: Final = {"ReduceMax": "Max", "ReduceMin": "Min"}


class Model:
    """What all graphs of a model share: names, constants and dims."""

    def __init__(self) -> None:
        self.initializers: list[TensorProto] = []
        self.dtypes: dict[str, DType | None] = {}
        self.dims = Dims()
        self._taken: set[str] = set()
        self._constants: dict[Any, str] = {}

    def unique(self, name: str) -> str:
        """``name``, numbered where it is taken."""
        free, count = name, 0
        while free in self._taken:
            count += 1
            free = f"{name}_{count}"
        self._taken.add(free)
        return free

    def value(self, name: str, dtype: DType) -> str:
        """A new value of the model under a name like ``name``."""
        free = self.unique(name)
        self.dtypes[free] = dtype
        return free

    def constant(self, array: np.ndarray) -> str:
        """The initializer that holds ``array``; equal ones are one."""
        key = (array.shape, array.dtype.name, array.tobytes())
        known = self._constants.get(key)
        if known is None:
            known = self._constants[key] = self.stored("const", array)
        return known

    def stored(self, name: str, array: np.ndarray) -> str:
        """A new initializer that holds ``array``, under a name like ``name``."""
        own = self.value(name, dtypes.from_array(array))
        self.initializers.append(_tensor(own, array))
        return own


def _tensor(name: str, array: np.ndarray) -> TensorProto:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False) if array.dtype.kind != "V" else array
    element = ELEMENT[dtypes.from_array(array)]
    return TensorProto(name=name, data_type=element, dims=array.shape, raw_data=little.tobytes())


class Emitter:
    """Emits into one graph; a branch or loop body is a graph within it, that sees its values."""

    def __init__(self, model: Model, outer: Emitter | None = None) -> None:
        self.model = model
        self.nodes: list[NodeProto] = []
        self.dims: DimValues = DimValues(self, model.dims, outer.dims if outer else None)
        self.scope = ""

    # -- what columns use

    def node(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> None:
        """One node; an output of another element type than declared is cast."""
        if op in ("If", "Loop", "Cast"):
            self._append(op, inputs, outputs, attrs)
            return
        attrs = _DEFAULTS.get(op, {}) | attrs
        bound = self._bound(op, inputs)
        wide = {variable: self._wide(op, variable, dtype) for variable, dtype in bound.items()}
        casts = [self._as(x, wide.get(v or "")) for x, v in zip(inputs, _variables(schema(op).inputs, inputs))]
        roles = _variables(schema(op).outputs, outputs)
        results = [self._result(op, y, v, bound, wide, attrs) for y, v in zip(outputs, roles)]
        self._append(op, casts, [own for own, _ in results], attrs)
        for own, steps in results:
            self._cast_through(own, steps)

    def computed(self, op: str, inputs: Sequence[str], **attrs: Any) -> str:
        """The one result of a node, under a new name."""
        result = self.temp()
        self.node(op, inputs, [result], **attrs)
        return result

    def temp(self) -> str:
        """A new name for an intermediate value."""
        return self.model.unique(f"{self.scope}value")

    def const(self, array: Any) -> str:
        """The name of a constant; its dtype is the array's."""
        return self.model.constant(np.asarray(array))

    def shape(self, dims: Sequence[Any]) -> str:
        """The name of an int64 vector that holds the dims, read from the inputs' shapes where they are symbolic."""
        return self.dims.vector(dims)

    def element(self, dtype: DType) -> int:
        """ONNX's number of a dtype, which attributes take."""
        return ELEMENT[dtype]

    def cast(self, name: str, dtype: DType) -> str:
        """``name`` as ``dtype``; itself where it has it."""
        if self.model.dtypes.get(name) is dtype:
            return name
        result = self._new(dtype)
        self._append("Cast", [name], [result], {"to": ELEMENT[dtype]})
        return result

    def reduce(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], axis: Sequence[int], keepdims: bool
    ) -> None:
        """A ``Reduce...`` node; over no axes it runs along a new axis of one element, which is right for all."""
        x, axes, keep = inputs[0], tuple(axis), int(keepdims)
        if not axes:
            x, axes, keep = self.computed("Unsqueeze", [x, self.const(np.array([0], np.int64))]), (0,), 0
        operands, dtype = [x, self.const(np.array(axes, np.int64))], self.model.dtypes.get(x)
        if op not in _WITHIN or dtype is None or not dtype.is_integer or dtype.is_unsigned:
            self.node(op, operands, outputs, keepdims=keep)
        else:
            self._limited(op, operands, outputs, dtype, keep)

    def _limited(self, op: str, operands: list[str], outputs: Sequence[str], dtype: DType, keepdims: int) -> None:
        """A maximum or minimum, of nothing the limit of the dtype; that of a wider one ends in it for unsigned ones only."""
        wide = self._wide(op, "T", dtype)
        if wide is dtype:
            return self.node(op, operands, outputs, keepdims=keepdims)
        within, limit = _WITHIN[op], dtype.min if op == "ReduceMax" else dtype.max
        found = self.computed(op, [self.cast(operands[0], wide), operands[1]], keepdims=keepdims)
        limited = self.computed(within, [found, self.const(np.array(limit, wide.np))])
        self.node("Cast", [limited], outputs, to=ELEMENT[dtype])

    # -- element types

    def _bound(self, op: str, inputs: Sequence[str]) -> dict[str, DType]:
        """The element type of each type variable: that of the first input of the variable."""
        bound: dict[str, DType] = {}
        for name, variable in zip(inputs, _variables(schema(op).inputs, inputs)):
            dtype = self.model.dtypes.get(name)
            if variable is not None and dtype is not None:
                bound.setdefault(variable, dtype)
        return bound

    def _wide(self, op: str, variable: str, dtype: DType) -> DType:
        wide = computed_in(op, variable, dtype)
        if wide is None:
            known = ", ".join(sorted(d.name for d in allowed(op)[variable]))
            reason = f"ONNX's {op} has no {dtype.name} (only {known}); cast to one of these before it"
            raise UnimplementedError(None, op, reason)
        return wide

    def _as(self, name: str, dtype: DType | None) -> str:
        return name if dtype is None or name not in self.model.dtypes else self.cast(name, dtype)

    def _result(
        self, op: str, name: str, variable: str | None, bound: Any, wide: Any, attrs: Any
    ) -> tuple[str, list[Any]]:
        """The node's own output, and the (name, dtype) steps that lead from it to ``name`` as declared."""
        own = wide.get(variable) or _given(op, variable, attrs)
        wanted = self.model.dtypes.get(name)
        narrow = bound.get(variable, own)
        if own is None or (own is narrow and wanted in (own, None)):
            self.model.dtypes.setdefault(name, own or wanted)
            return name, []
        self.model.dtypes.setdefault(name, narrow)
        return self._new(own), [*self._between(own, narrow, wanted), (name, wanted or narrow)]

    def _between(self, own: DType, narrow: DType, wanted: DType | None) -> list[tuple[str, DType]]:
        return [] if narrow in (own, wanted or narrow) else [(self._new(narrow), narrow)]

    def _new(self, dtype: DType) -> str:
        return self.model.value(f"{self.scope}{dtype.name}", dtype)

    def _cast_through(self, source: str, steps: Sequence[tuple[str, DType]]) -> None:
        for name, dtype in steps:
            self._append("Cast", [source], [name], {"to": ELEMENT[dtype]})
            source = name

    def _append(self, op: str, inputs: Sequence[str], outputs: Sequence[str], attrs: dict[str, Any]) -> None:
        node = helper.make_node(op, list(inputs), list(outputs), self.model.unique(f"{self.scope}{op}"))
        node.attribute.extend(_attribute(op, key, value) for key, value in attrs.items() if value is not None)
        self.nodes.append(node)
        if op == "Cast":
            self.model.dtypes[outputs[0]] = DTYPE[attrs["to"]]

    # -- the graph as a whole

    def within(self) -> Emitter:
        """An emitter for a graph inside this one."""
        inner = Emitter(self.model, self)
        inner.scope = self.scope
        return inner

    def graph(
        self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto], own: bool = False
    ) -> GraphProto:
        """The finished graph; ``own`` for the outermost, which holds the initializers."""
        nodes = live_nodes(self.nodes, [o.name for o in outputs])
        initializers = live_initializers(self.model.initializers, nodes) if own else []
        return helper.make_graph(nodes, name, list(inputs), list(outputs), initializers)

    def info(self, name: str, tensor_type: TensorType) -> ValueInfoProto:
        """The signature's entry of a value, unknown dims by name."""
        if tensor_type.dtype not in ELEMENT:
            raise UnimplementedError(
                None,
                name,
                f"ONNX export: {name} is {tensor_type.dtype.name}, and ONNX's operators take no such tensors",
            )
        dims = [self.model.dims.text(d) for d in tensor_type.shape]
        return helper.make_tensor_value_info(name, ELEMENT[tensor_type.dtype], dims)


def _attribute(op: str, key: str, value: Any) -> AttributeProto:
    """An attribute of the type that the standard gives it, which an empty list does not show."""
    value = list(value) if isinstance(value, tuple) else value
    return helper.make_attribute(key, value, attr_type=schema(op).attributes[key].type.value)  # type: ignore[attr-defined]


def _variables(parameters: Sequence[Any], names: Sequence[str]) -> list[str | None]:
    return list(type_variables(parameters, len(names)))


def _given(op: str, variable: str | None, attrs: dict[str, Any]) -> DType | None:
    """The type of an output that no input decides: the only one allowed, or that of an attribute."""
    for key in ("to", "dtype"):
        if key in attrs:
            return DTYPE[attrs[key]]
    value = attrs.get("value")
    if isinstance(value, TensorProto):
        return DTYPE[value.data_type]
    choices = allowed(op).get(variable or "", frozenset())
    return next(iter(choices)) if len(choices) == 1 else None
