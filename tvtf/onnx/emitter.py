"""Emits nodes into a graph and tracks the values' dtypes: the argument ``emitter`` of the primitives' ``onnx`` columns.

If onnxruntime has no kernel for a dtype, the node computes in a wider dtype with the same result, and casts back.
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
"""Default attributes. A zero in a shape means zero here; without ``allowzero`` ONNX would copy the input's dim."""


_LIMITING: Final = {"ReduceMax": "Max", "ReduceMin": "Min"}
"""The elementwise op that limits the result of a reduction to a narrower dtype."""


class Model:
    """The names, constants and dims that all graphs of a model share."""

    def __init__(self) -> None:
        self.initializers: list[TensorProto] = []
        self.dtypes: dict[str, DType | None] = {}
        self.dims = Dims()
        self._used: set[str] = set()
        self._constants: dict[Any, str] = {}

    def unique(self, name: str) -> str:
        """Returns ``name``, with a number appended if the model has a value of this name already.

        ONNX requires names that are unique in a graph and all graphs around it.
        """
        candidate, count = name, 0
        while candidate in self._used:
            count += 1
            candidate = f"{name}_{count}"
        self._used.add(candidate)
        return candidate

    def value(self, name: str, dtype: DType) -> str:
        """Reserves a unique name for a value of a dtype, and returns the name: ``name``, or ``name`` with a number."""
        unique_name = self.unique(name)
        self.dtypes[unique_name] = dtype
        return unique_name

    def constant(self, array: np.ndarray) -> str:
        """Returns the name of an initializer (a constant in the model) that holds ``array``.

        Equal arrays share one initializer.
        """
        key = (array.shape, array.dtype.name, array.tobytes())
        initializer = self._constants.get(key)
        if initializer is None:
            initializer = self._constants[key] = self.stored("const", array)
        return initializer

    def stored(self, name: str, array: np.ndarray) -> str:
        """Adds an initializer (a constant in the model) that holds ``array``. Returns the initializer's unique name."""
        initializer = self.value(name, dtypes.from_array(array))
        self.initializers.append(_tensor(initializer, array))
        return initializer


def _tensor(name: str, array: np.ndarray) -> TensorProto:
    """Converts an array to ONNX's tensor message, whose raw data are little-endian bytes."""
    # bfloat16 has kind "V": with another byte order, NumPy would take it for raw bytes.
    little_endian = array.astype(array.dtype.newbyteorder("<"), copy=False) if array.dtype.kind != "V" else array
    element_type = ELEMENT[dtypes.from_array(array)]
    return TensorProto(name=name, data_type=element_type, dims=array.shape, raw_data=little_endian.tobytes())


class Emitter:
    """Emits nodes into one graph; branches and loop bodies are inner graphs, which see its values."""

    def __init__(self, model: Model, outer: Emitter | None = None) -> None:
        self.model = model
        self.nodes: list[NodeProto] = []
        self.dims: DimValues = DimValues(self, model.dims, outer.dims if outer else None)
        self.scope = ""

    # -- what columns use

    def node(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> None:
        """Adds an ONNX node to the graph.

        If onnxruntime has no kernel for the inputs' dtypes, the inputs are cast to wider dtypes. The results are then
        cast back to the dtypes that ``outputs`` were declared with.

        Args:
          op: the ONNX operator.
          inputs, outputs: names of values.
          **attrs: the node's attributes.
        """
        # These have kernels for every dtype.
        if op in ("If", "Loop", "Cast"):
            self._append(op, inputs, outputs, attrs)
            return
        attrs = _DEFAULTS.get(op, {}) | attrs
        input_dtypes = self._type_bindings(op, inputs)
        compute_dtypes = {
            type_variable: self._compute_dtype(op, type_variable, dtype)
            for type_variable, dtype in input_dtypes.items()
        }
        cast_inputs = [
            self._cast_if_typed(x, compute_dtypes.get(type_variable or ""))  # None for a variadic input of mixed types
            for x, type_variable in zip(inputs, _variables(schema(op).inputs, inputs))
        ]
        output_variables = _variables(schema(op).outputs, outputs)
        results = [
            self._result_and_casts(op, output, type_variable, input_dtypes, compute_dtypes, attrs)
            for output, type_variable in zip(outputs, output_variables)
        ]
        self._append(op, cast_inputs, [result for result, _ in results], attrs)
        for result, casts_to_output in results:
            self._add_casts(result, casts_to_output)

    def computed(self, op: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Adds a node with one result, and returns the result's new name."""
        result = self.temp()
        self.node(op, inputs, [result], **attrs)
        return result

    def reduced(self, op: str, inputs: Sequence[str], axis: Sequence[int], keepdims: bool) -> str:
        """Adds a reduction node as `reduce` does, and returns the result's new name."""
        result = self.temp()
        self.reduce(op, inputs, [result], axis, keepdims)
        return result

    def temp(self) -> str:
        """Returns a new name for an intermediate value."""
        return self.model.unique(f"{self.scope}value")

    def const(self, array: Any) -> str:
        """Returns the name of a constant with the array's dtype."""
        return self.model.constant(np.asarray(array))

    def shape(self, dims: Sequence[Any]) -> str:
        """Returns the name of an int64 vector with the dims; the model reads symbolic dims from its inputs' shapes."""
        return self.dims.vector(dims)

    def element(self, dtype: DType) -> int:
        """Returns ONNX's enum value of a dtype, by which attributes of nodes refer to the dtype."""
        return ELEMENT[dtype]

    def cast(self, name: str, dtype: DType) -> str:
        """Adds a node that casts the value ``name``, and returns the result's name.

        A value that has the dtype already is returned itself.
        """
        if self.model.dtypes.get(name) is dtype:
            return name
        result = self._new(dtype)
        self._append("Cast", [name], [result], {"to": ELEMENT[dtype]})
        return result

    def reduce(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], axis: Sequence[int], keepdims: bool
    ) -> None:
        """Adds a reduction node, such as ``ReduceSum``.

        ONNX reduces all axes if none are given. An empty ``axis`` must leave each element as it is. The node then
        reduces a new axis of one element.

        Args:
          op: ONNX's operator.
          inputs, outputs: the names of the input and of the output.
          axis: the axes to reduce.
          keepdims: whether reduced axes are kept with size 1.
        """
        x = inputs[0]
        axes = tuple(axis)
        keep = int(keepdims)
        if not axes:
            x = self.computed("Unsqueeze", [x, self.const(np.array([0], np.int64))])
            axes = (0,)
            keep = 0
        operands = [x, self.const(np.array(axes, np.int64))]
        dtype = self.model.dtypes.get(x)
        if op in _LIMITING and dtype is not None and dtype.is_integer and not dtype.is_unsigned:
            # The maximum or minimum of no signed integers needs care.
            self._limited_reduction(op, operands, outputs, dtype, keep)
        else:
            self.node(op, operands, outputs, keepdims=keep)

    def _limited_reduction(
        self, op: str, operands: list[str], outputs: Sequence[str], dtype: DType, keepdims: int
    ) -> None:
        """Adds a ``ReduceMax`` or ``ReduceMin`` node for a signed integer dtype.

        If onnxruntime has no kernel for ``dtype``, the node computes in a wider dtype. The maximum of no elements is
        the lowest value of a dtype. To get that of ``dtype``, the wider result is limited to the range of ``dtype``.

        Args:
          op: "ReduceMax" or "ReduceMin".
          operands: the names of the input and of the axes.
          outputs: the name of the output.
          dtype: the dtype of the input.
          keepdims: 1 if reduced axes are kept with size 1; otherwise 0.
        """
        wider_dtype = self._compute_dtype(op, "T", dtype)
        if wider_dtype is dtype:
            return self.node(op, operands, outputs, keepdims=keepdims)
        limiting_op = _LIMITING[op]
        limit = dtype.min if op == "ReduceMax" else dtype.max
        reduced = self.computed(op, [self.cast(operands[0], wider_dtype), operands[1]], keepdims=keepdims)
        limited = self.computed(limiting_op, [reduced, self.const(np.array(limit, wider_dtype.np))])
        self.node("Cast", [limited], outputs, to=ELEMENT[dtype])

    # -- element types

    def _type_bindings(self, op: str, inputs: Sequence[str]) -> dict[str, DType]:
        """Returns the dtype of each type variable (such as ``T``) in an operator's signature, for the given inputs."""
        bindings: dict[str, DType] = {}
        for name, variable in zip(inputs, _variables(schema(op).inputs, inputs)):
            dtype = self.model.dtypes.get(name)
            if variable is not None and dtype is not None:
                bindings.setdefault(variable, dtype)  # the first input decides, and others are cast
        return bindings

    def _compute_dtype(self, op: str, variable: str, dtype: DType) -> DType:
        """Returns the dtype in which an ONNX operator is computed for inputs of ``dtype``.

        It is ``dtype`` itself, or a wider dtype for which onnxruntime has a kernel. ``variable`` is the type variable
        of the inputs in the operator's signature, such as ``T``.

        Raises:
          UnimplementedError: the ONNX standard allows neither ``dtype`` nor a wider one.
        """
        compute_dtype = computed_in(op, variable, dtype)
        if compute_dtype is None:
            supported_names = sorted(supported.name for supported in allowed(op)[variable])
            reason = (
                f"ONNX's {op} has no {dtype.name} (only {', '.join(supported_names)}); cast to one of these before it"
            )
            raise UnimplementedError(None, op, reason)
        return compute_dtype

    def _cast_if_typed(self, name: str, dtype: DType | None) -> str:
        return name if dtype is None or name not in self.model.dtypes else self.cast(name, dtype)

    def _result_and_casts(
        self, op: str, name: str, variable: str | None, input_dtypes: Any, compute_dtypes: Any, attrs: Any
    ) -> tuple[str, list[Any]]:
        """Returns a name for a node's result, and the casts that convert the result to the output ``name``.

        A cast is a pair: the name and the dtype of the value after the cast.

        Args:
          name: the output, which may have a declared dtype.
          variable: the output's type variable in the operator's signature, such as ``T``.
          input_dtypes: the dtypes of the node's inputs, by type variable.
          compute_dtypes: the dtypes in which the node computes, by type variable.
        """
        computed = compute_dtypes.get(variable) or _attribute_dtype(op, variable, attrs)
        declared = self.model.dtypes.get(name)
        input_dtype = input_dtypes.get(variable, computed)
        # The dtype is unknown, or no cast is needed.
        if computed is None or (computed is input_dtype and declared in (computed, None)):
            self.model.dtypes.setdefault(name, computed or declared)
            return name, []
        self.model.dtypes.setdefault(name, input_dtype)
        return self._new(computed), [
            *self._intermediate_cast(computed, input_dtype, declared),
            (name, declared or input_dtype),
        ]

    def _intermediate_cast(
        self, computed: DType, input_dtype: DType, declared: DType | None
    ) -> list[tuple[str, DType]]:
        """Returns the cast of a node's result to the inputs' dtype, as a list of at most one pair (name, dtype).

        The list is empty if the result is computed in that dtype, or the output has no other declared dtype.
        """
        if input_dtype == computed or declared in (None, input_dtype):
            return []
        return [(self._new(input_dtype), input_dtype)]

    def _new(self, dtype: DType) -> str:
        """Returns a new name for an intermediate value of a dtype."""
        return self.model.value(f"{self.scope}{dtype.name}", dtype)

    def _add_casts(self, source: str, casts: Sequence[tuple[str, DType]]) -> None:
        """Casts a value several times, each time from the result before. A cast is a pair of a new name and a dtype."""
        for name, dtype in casts:
            self._append("Cast", [source], [name], {"to": ELEMENT[dtype]})
            source = name

    def _append(self, op: str, inputs: Sequence[str], outputs: Sequence[str], attrs: dict[str, Any]) -> None:
        """Adds a node as it is, without casts of inputs and results; the node gets a unique name."""
        node = helper.make_node(op, list(inputs), list(outputs), self.model.unique(f"{self.scope}{op}"))
        node.attribute.extend(_attribute(op, key, value) for key, value in attrs.items() if value is not None)
        self.nodes.append(node)
        if op == "Cast":
            self.model.dtypes[outputs[0]] = DTYPE[attrs["to"]]

    # -- the graph as a whole

    def subgraph_emitter(self) -> Emitter:
        """Returns an emitter for a graph inside this one, such as a branch or a loop body."""
        inner = Emitter(self.model, self)
        inner.scope = self.scope
        return inner

    def graph(
        self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto], outermost: bool = False
    ) -> GraphProto:
        """Returns the finished graph, without nodes that no output depends on.

        Only the ``outermost`` graph contains the initializers (constants). The graphs inside it read them by name.
        """
        nodes = live_nodes(self.nodes, [output.name for output in outputs])
        initializers = live_initializers(self.model.initializers, nodes) if outermost else []
        return helper.make_graph(nodes, name, list(inputs), list(outputs), initializers)

    def info(self, name: str, tensor_type: TensorType) -> ValueInfoProto:
        """Returns the declaration of a graph's input or output: name, dtype and shape. Symbolic dims appear as names.

        Raises:
          UnimplementedError: ONNX's operators take no tensors of this dtype.
        """
        if tensor_type.dtype not in ELEMENT:
            raise UnimplementedError(
                None,
                name,
                f"ONNX export: {name} is {tensor_type.dtype.name}, and ONNX's operators take no such tensors",
            )
        dims = [self.model.dims.text(dim) for dim in tensor_type.shape]
        return helper.make_tensor_value_info(name, ELEMENT[tensor_type.dtype], dims)


def _attribute(op: str, key: str, value: Any) -> AttributeProto:
    """Returns an attribute of a node as ONNX's message.

    The type of the attribute comes from the standard, because it can't be inferred from an empty list.
    """
    value = list(value) if isinstance(value, tuple) else value
    return helper.make_attribute(key, value, attr_type=schema(op).attributes[key].type.value)  # type: ignore[attr-defined]


def _variables(parameters: Sequence[Any], names: Sequence[str]) -> list[str | None]:
    """Returns the type variable, such as ``T``, of each value in ``names``, from an operator's declared parameters."""
    return list(type_variables(parameters, len(names)))


def _attribute_dtype(op: str, variable: str | None, attrs: dict[str, Any]) -> DType | None:
    """Returns the dtype of an operator's output if the inputs don't determine the dtype.

    An attribute of the node may determine it, or the standard allows only one dtype. Otherwise returns None.

    Args:
      op: the name of the operator.
      variable: the standard's name for the output's type, or None.
      attrs: the attributes of the node.
    """
    for key in ("to", "dtype"):
        if key in attrs:
            return DTYPE[attrs[key]]
    value = attrs.get("value")  # ConstantOfShape has a tensor as an attribute
    if isinstance(value, TensorProto):
        return DTYPE[value.data_type]
    choices = allowed(op).get(variable or "", frozenset())
    return next(iter(choices)) if len(choices) == 1 else None
