"""One signature of a saved model as a function of arrays, from which a library is compiled."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import ir

from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.dtypes import string
from tvtf.errors import UnimplementedError
from tvtf.frontend.function.concrete_function import ConcreteFunction
from tvtf.frontend.function.polymorphic_function import Function
from tvtf.ir.interpreter import evaluate
from tvtf.ir.trace import Trace, tracing
from tvtf.ops.rules import bind
from tvtf.passes.lower.reject_host_calls import IN_A_LIBRARY, reject_host_ops
from tvtf.saved.description import Description, Value
from tvtf.saved.program import NotSaveable
from tvtf.saved.signatures import SignatureFunction


def check_reads(concrete: ConcreteFunction) -> None:
    """Checks that a function only reads Variables. Raises NotSaveable if it updates one."""
    if concrete.results.updates:
        updated = ", ".join(sorted(variable.name for variable, _ in concrete.results.updates))
        raise NotSaveable(
            f"save: {concrete.name} updates {updated}; save a function that only reads its variables, with "
            "tf.saved_model.save one that updates, or export the step with tvtf.onnx.export"
        )


class SavedFunction:
    """A signature that only reads Variables; it is called with tensors or arrays by position."""

    def __init__(self, signature: SignatureFunction) -> None:
        """Wraps a signature, which takes tensors by name, as a function that takes them by position."""
        check_reads(signature)
        self.signature = signature
        self.variables = signature.variables
        inputs = [_value(name, param._type) for name, param in zip(signature.arguments.names, signature.graph.params)]
        outputs = [_value(name, tensor._type) for name, tensor in signature.results.traced.items()]
        # The signature's arguments are sorted by name; ``positions`` has the order of the saved function.
        ordered_inputs = [inputs[position] for position in signature.positions]
        name = signature.name.removeprefix("signature_wrapper_")
        self.description = Description(name, tuple(ordered_inputs), tuple(outputs))
        self.function = Function(self._python(), self._specs(), autograph=False, name=self.description.name)

    def _specs(self) -> list[TensorSpec]:
        """Returns the specs of the inputs, for tracing; unknown dims have names."""
        return [TensorSpec(list(input_.shape), input_.dtype, name=input_.name) for input_ in self.description.inputs]

    def _python(self) -> Any:
        """Returns a Python function that calls the signature with tensors by position, and returns a tensor or a tuple.

        Both are in the order of the description. :attr:`function` traces this Python function.
        """

        def run(*args: Any) -> Any:
            """Calls the signature with tensors in the order of the description."""
            argument_at = dict(zip(self.signature.positions, args))  # by position in the signature
            signature_args = [argument_at[position] for position in range(len(args))]
            results = self.signature.call_flat(signature_args)
            outputs = tuple(results[value.name] for value in self.description.outputs)
            return outputs[0] if len(outputs) == 1 else outputs

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        params = [inspect.Parameter(value.name, kind) for value in self.description.inputs]
        run.__signature__ = inspect.Signature(params)  # type: ignore[attr-defined]
        return run

    def __call__(self, *args: Any) -> Any:
        """Calls the function on tensors or arrays, and returns the outputs: a tensor, or a tuple of tensors.

        Raises:
          SavedModuleError: an argument's dtype or shape does not match.
        """
        arrays = [np.asarray(argument) for argument in args]
        if len(arrays) == len(self.description.inputs):
            arrays = [value.as_array(array) for value, array in zip(self.description.inputs, arrays)]
        self.description.check(arrays)
        return self.function(*map(EagerTensor, arrays))

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Calls the function on arrays, and returns the outputs as arrays, in the order of the description."""
        results = self(*arrays)
        return [result.numpy() for result in (results if isinstance(results, tuple) else (results,))]

    def self_contained_module(self) -> ir.IRModule:
        """Returns the function's program as an IR module of its inputs alone, to compile it as a library.

        The program that was traced also takes what the function captures: the Variables and large constants. Here their
        values become constants of the module, so that a program that loads the library passes only the inputs.

        Raises:
          UnimplementedError: the function uses a string that it holds; the text names the op.
        """
        concrete = self.function.get_concrete_function()
        graph = concrete.graph
        if any(outer.dtype == string for outer, _ in graph.captures):  # which can't be a constant of the module
            reject_host_ops(IN_A_LIBRARY)(graph.module())
            raise UnimplementedError(None, None, f"{self.description.name} returns a string, and {IN_A_LIBRARY}")
        # The traced program is traced anew, with constants as the arguments that are captured.
        with tracing(Trace(self.description.name)) as trace:
            inputs = [trace.add_param(param._type, param._var.name) for param in graph.params]
            captured_values = [trace.embed(EagerTensor(outer._array)) for outer, _ in graph.captures]
            arguments = [*inputs, *captured_values]
            computed = evaluate(graph.module(), "main", arguments)
            # A result is computed, or it is an argument or a Python value as it is; see `Results.leaves`.
            result_of_kind = {"computed": computed.__getitem__, "param": arguments.__getitem__, "value": trace.embed}
            # With `identity`, each output is a separate value of the module, also if it is an argument, a constant, or
            # the same as another output.
            outputs = [bind.identity(result_of_kind[kind](source)) for kind, source in concrete.results.leaves]
        return trace.finish(outputs).entry()


def _value(name: str, tensor_type: TensorType) -> Value:
    """Describes an input or output of a saved function; a symbolic dim becomes a name."""
    dims = tuple(dim if isinstance(dim, int) else str(dim) for dim in tensor_type.shape)
    return Value(name, tensor_type.dtype, dims)
