"""Emits a dialect function as ONNX nodes, each binding by its primitive's ``onnx`` column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import ir, relax

from tvtf.core.primitive import all_static
from tvtf.core.shape import TensorType
from tvtf.errors import UnimplementedError
from tvtf.ir import dialect
from tvtf.ir.dialect import bindings_of
from tvtf.onnx.broadcasts import Broadcasts, emit_common_dims
from tvtf.onnx.emitter import Emitter
from tvtf.onnx.standard import ELEMENT

Values = Any
"""The name of a value, or a tuple of them."""
CONTROL: dict[str, Callable[..., None]] = {"common_dims": emit_common_dims}
"""The functions that emit primitives which need the program around them; ``control`` and ``stacks`` add theirs."""


class Program:
    """One function of a module, emitted into one graph; ``names`` are the values of its parameters."""

    def __init__(self, emitter: Emitter, mod: ir.IRModule, function: relax.Function, names: Sequence[str]) -> None:
        self.emitter = emitter
        self.mod = mod
        self.function = function
        self.broadcasts = Broadcasts()
        self.values: dict[relax.Var, Values] = dict(zip(function.params, names))
        for param, name in zip(function.params, names):
            emitter.model.dims.record(name, param.ty.shape.values)

    def run(self) -> tuple[str, ...]:
        """Emits all bindings and returns the names of the results."""
        for binding in bindings_of(self.function.body):
            self.values[binding.var] = self.value(binding.value, binding.var)
        result = self.value(self.function.body.body, None)
        return result if isinstance(result, tuple) else (result,)

    def value(self, expr: Any, var: Any) -> Values:
        """Returns the name of a Relax expression's value in the ONNX graph; for a tuple, returns a tuple of names.

        Emits nodes if the expression is a call. ``var`` is the variable that the call is bound to.
        """
        if isinstance(expr, relax.Var):
            return self.values[expr]
        if isinstance(expr, ir.Constant):
            return self.emitter.const(expr.value.numpy())
        if isinstance(expr, relax.Tuple):
            return tuple(self.value(field, None) for field in expr.fields)
        if isinstance(expr, relax.TupleGetItem):
            return self.value(expr.tuple_value, None)[expr.index]
        return self.call(expr, var)

    def call(self, expr: Any, var: Any) -> Values:
        """Emits ONNX nodes for a call of a primitive, and returns the name of the result, or a tuple of names.

        The results are named after ``var``, the variable that the call is bound to, or after the primitive.

        Raises:
          TypeError: the callee is not a primitive.
        """
        if not dialect.is_dialect(expr):
            raise TypeError(f"not an op of the tvtf dialect: {expr}; import the module into the dialect first")
        bound = dialect.read(expr)
        types = [dialect.from_relax_type(field) for field in _fields(expr.ty)]
        if var is not None:
            self.broadcasts.note(bound, var)
        inputs = [self.value(x, None) for x in self.broadcasts.operands(bound)]
        outputs = [self.result(bound.primitive.name if var is None else var.name, type_) for type_ in types]
        self.emit(bound, inputs, outputs, types, expr.span)
        return tuple(outputs) if isinstance(expr.ty, relax.TupleType) else outputs[0]

    def result(self, name: str, tensor_type: TensorType) -> str:
        """Reserves a unique name for a result of a type, and returns the name."""
        return self.emitter.model.value(name, tensor_type.dtype)

    def emit(
        self, bound: dialect.Bound, inputs: list[str], outputs: list[str], types: list[TensorType], span: Any
    ) -> None:
        """Emits the ONNX nodes of one call of a primitive.

        Intermediate values are named after the first output. An error names the primitive and the user's line.

        Args:
          bound: the primitive with its attributes.
          inputs, outputs: names of values in the ONNX graph.
          types: the types of the outputs.
          span: the user's line.
        """
        prim = bound.primitive
        control = CONTROL.get(prim.name)
        self.emitter.scope = f"{outputs[0]}/" if outputs else ""
        try:
            if control is not None:  # control flow and stacks need the program around them
                control(self, bound, inputs, outputs, types)
            else:
                self.column(bound, inputs, outputs, types)
        except UnimplementedError as error:
            raise export_error(prim, error.message, span) from error

    def column(self, bound: dialect.Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
        """Emits a call of a primitive as the primitive's attribute ``onnx`` declares.

        The attribute is the name of an ONNX operator, or a function that emits nodes.

        Raises:
          UnimplementedError: the primitive has no such attribute, or ONNX's operators take no tensors of a dtype.
        """
        prim = bound.primitive
        if prim.onnx is None:
            raise UnimplementedError(None, prim.tf_name, prim.why_not.get("onnx", "its primitive has no `onnx` column"))
        input_types = [dialect.from_relax_type(x.ty) for x in bound.inputs]
        for dtype in {type_.dtype for type_ in (*input_types, *types)} - ELEMENT.keys():
            if dtype.kind != "s":  # strings
                type_name = "complex" if dtype.is_complex else dtype.name
                raise UnimplementedError(None, prim.tf_name, f"ONNX's operators take no {type_name} tensors")
        # Runtimes disagree on ops whose results have no elements.
        if prim.pure and all(0 in type_.shape for type_ in types) and all_static(types):
            self.empty_results(outputs, types)
            return
        if isinstance(prim.onnx, str):
            self.emitter.node(prim.onnx, inputs, outputs)
            return
        prim.onnx(self.emitter, inputs, outputs, (input_types, types), **bound.attrs)

    def empty_results(self, outputs: list[str], types: list[TensorType]) -> None:
        """Emits results without elements as constants, because runtimes disagree on the ops that produce them."""
        for output, type_ in zip(outputs, types):
            self.emitter.node("Identity", [self.emitter.const(np.zeros(type_.shape, type_.dtype.np))], [output])

    def emit_function(self, function: ir.GlobalVar, names: Sequence[str], emitter: Emitter) -> tuple[str, ...]:
        """Emits another function of the module with ``emitter``, and returns the names of the results.

        ``names`` are the arguments: values of the emitter's graph, or of a graph around it.
        """
        return Program(emitter, self.mod, self.mod[function], names).run()


def _fields(ty: Any) -> Sequence[Any]:
    return ty.fields if isinstance(ty, relax.TupleType) else (ty,)


def export_error(prim: Any, reason: str, span: Any) -> UnimplementedError:
    """Returns the error that an op can't be exported; the text has the reason and the user's line."""
    if reason.startswith("ONNX export: "):  # the text is complete
        return UnimplementedError(None, prim.tf_name, reason)
    where = f" ({span.source_name.name}:{span.line})" if span is not None else ""
    return UnimplementedError(None, prim.tf_name, f"ONNX export: {prim.name} can't be exported: {reason}{where}")


def constant_of(tensor: Any) -> np.ndarray:
    """Returns the current value of a captured tensor or Variable."""
    return np.ascontiguousarray(tensor._array).reshape(tensor._array.shape)
