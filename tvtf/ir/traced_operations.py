"""The operations of a trace, as TensorFlow lists them: what computes a tensor, and what takes it as an input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from tvtf.core.graph_operation import Operation
from tvtf.core.tensor import SymbolicTensor
from tvtf.ir import dialect


class TracedOperations:
    """The part of a trace that lists its operations, which are read from the bindings when they are asked for."""

    bindings: list[relax.VarBinding]
    """What the trace has computed, in the order of tracing."""
    tensors: dict[relax.Var, SymbolicTensor]
    """The trace's tensors by Relax variable."""
    params: list[SymbolicTensor]
    results_of_calls: dict[relax.Var, tuple[str, list[Any]]]
    """The results of functions that were called, and so inlined: the type of TensorFlow's op, and the call's arguments."""

    def stand_for(self, tensor: SymbolicTensor, result: SymbolicTensor) -> None:
        """Makes a tensor that the program has already the result of a later call: later uses of it are of this result."""
        before = self.tensors[tensor._var] = tensor.alias()
        self.params = [before if param is tensor else param for param in self.params]
        self.tensors[result._var] = tensor
        tensor._var, tensor._type = result._var, result._type

    def note_call(self, kind: str, arguments: Sequence[Any], results: Sequence[Any], binding_count: int) -> None:
        """Records that what was bound since there were ``binding_count`` bindings is a call of a function.

        Args:
          kind: the type of the op that is the call in TensorFlow.
          arguments: the call's tensors.
          results: the function's results; those that are arguments are no results of the op.
          binding_count: how many bindings the trace had before the call.
        """
        bound = {binding.var for binding in self.bindings[binding_count:]}
        for result in results:
            if isinstance(result, SymbolicTensor) and result._var in bound:
                self.results_of_calls[result._var] = (kind, list(arguments))

    def name_of(self, tensor: SymbolicTensor) -> str:
        return f"{getattr(tensor._var, 'name', 'Const')}:0"

    def operation_of(self, tensor: SymbolicTensor) -> Operation:
        """Returns the op that computes a tensor."""
        values = {binding.var: binding.value for binding in self.bindings}
        return self._operation(tensor, values)

    def consumers_of(self, tensor: SymbolicTensor) -> list[Operation]:
        """Returns the ops that take a tensor as an input, in the order of tracing."""
        consumers: dict[int, Operation] = {}
        dependent = {tensor._var}
        for binding in self.bindings:
            if dependent.isdisjoint(dialect.operands(binding.value)):
                continue
            operation = self._operation_binding(binding)
            if operation is None:  # a part of an op
                dependent.add(binding.var)
            else:
                consumers[id(operation)] = operation
        return list(consumers.values())

    def _operation_binding(self, binding: relax.VarBinding) -> Operation | None:
        """Returns the op that computes a binding, or None if the binding is only a part of an op."""
        if not dialect.is_dialect(binding.value):
            return None
        outputs = []
        for other in self.bindings:
            if other.var in self.tensors and _is_result(other, binding.var):
                outputs.append(self.tensors[other.var])
        kind = dialect.read(binding.value).primitive.tf_name
        name = self.name_of(outputs[0]).removesuffix(":0") if outputs else kind
        return Operation.of(name, kind, self, [], outputs)

    def operations(self) -> list[Operation]:
        """Returns the ops that compute the trace's tensors, in the order of tracing."""
        values = {binding.var: binding.value for binding in self.bindings}
        return [self._operation(tensor, values) for tensor in self.tensors.values()]

    def _operation(self, tensor: SymbolicTensor, values: Mapping[relax.Var, Any]) -> Operation:
        """Returns the op that computes ``tensor``, given the expressions by bound variable (parameters have none)."""
        name = self.name_of(tensor).removesuffix(":0")
        called = self.results_of_calls.get(tensor._var)
        if called is not None:
            kind, arguments = called
            return Operation.of(name, kind, self, arguments, [tensor])
        value = values.get(tensor._var)
        if isinstance(value, relax.TupleGetItem):  # one of several results
            value = values.get(value.tuple_value)
        if value is None or not dialect.is_dialect(value):
            return Operation.of(name, "Placeholder", self, [], [tensor])
        call = dialect.read(value)
        return Operation.of(name, call.primitive.tf_name, self, list(map(self._tensor_of, call.inputs)), [tensor])

    def _tensor_of(self, operand: Any) -> SymbolicTensor:
        """Returns the tensor that an operand of a call stands for, a variable or a constant."""
        known = self.tensors.get(operand)
        return SymbolicTensor(operand, dialect.from_relax_type(operand.ty), self) if known is None else known


def _is_result(binding: relax.VarBinding, call_var: relax.Var) -> bool:
    """Returns whether a binding is that of a call, or of one of the results in the call's tuple."""
    value = binding.value
    return (
        binding.var.same_as(call_var) or isinstance(value, relax.TupleGetItem) and value.tuple_value.same_as(call_var)
    )
