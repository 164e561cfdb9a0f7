"""The operations of a trace, as TensorFlow lists them: what computes a tensor, and what takes it as an input."""

from __future__ import annotations

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

    def stand_for(self, tensor: SymbolicTensor, result: SymbolicTensor) -> None:
        """Makes a tensor that the program has already the result of a later call: later uses of it are of this result."""
        before = self.tensors[tensor._var] = tensor.alias()
        self.params = [before if param is tensor else param for param in self.params]
        self.tensors[result._var] = tensor
        tensor._var, tensor._type = result._var, result._type

    def name_of(self, tensor: SymbolicTensor) -> str:
        return f"{getattr(tensor._var, 'name', 'Const')}:0"

    def operation_of(self, tensor: SymbolicTensor) -> Operation:
        """Returns the op that computes a tensor."""
        values = {binding.var: binding.value for binding in self.bindings}
        return self._operation(tensor, values.get(tensor._var))

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
        return [self._operation(tensor, values.get(var)) for var, tensor in self.tensors.items()]

    def _operation(self, tensor: SymbolicTensor, value: Any) -> Operation:
        """Returns the op that computes ``tensor``, given the expression bound to it (None for a parameter)."""
        name = self.name_of(tensor).removesuffix(":0")
        is_call = value is not None and dialect.is_dialect(value)
        kind = dialect.read(value).primitive.tf_name if is_call else "Placeholder"
        return Operation.of(name, kind, self, [], [tensor])


def _is_result(binding: relax.VarBinding, call_var: relax.Var) -> bool:
    """Returns whether a binding is that of a call, or of one of the results in the call's tuple."""
    value = binding.value
    return (
        binding.var.same_as(call_var) or isinstance(value, relax.TupleGetItem) and value.tuple_value.same_as(call_var)
    )
