"""Saves, loads and runs one function of a saved model, with named inputs and outputs; libraries are compiled from it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import ir

from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.frontend.function.concrete_function import ConcreteFunction
from tvtf.frontend.function.polymorphic_function import Function, function
from tvtf.ir.interpreter import evaluate
from tvtf.ir.trace import Trace, tracing
from tvtf.ops.rules import bind
from tvtf.saved.description import Description, Value
from tvtf.saved.program import NotSaveable
from tvtf.saved.reader import load as load_model
from tvtf.saved.signatures import DEFAULT, SignatureFunction
from tvtf.saved.writer import save as save_model
from tvtf.state.autotrackable import AutoTrackable
from tvtf.state.variable import Variable


def save(folder: str | os.PathLike[str], fn: Any, *args: Any) -> str:
    """Writes a saved model whose default signature is a function that only reads Variables.

    Args:
      folder: created if missing.
      fn: a ``tf.function``, a concrete function, or a Python function to trace.
      *args: the arguments to trace it with: ``TensorSpec`` objects, whose named dims stay unknown, or tensors.

    Returns:
      The folder.

    Raises:
      ValueError: the function updates Variables, or calls Python.
      ResourceExhaustedError: the disk is full; the folder's old content is unchanged.
    """
    concrete = _traced(fn, args)
    _check_reads(concrete)
    holder = AutoTrackable()
    holder.values = _named_variables(concrete)
    save_model(holder, folder, concrete)
    return os.fspath(folder)


def _traced(fn: Any, args: Sequence[Any]) -> ConcreteFunction:
    """Returns a function's trace for the arguments."""
    if isinstance(fn, ConcreteFunction):
        return fn
    polymorphic = fn if isinstance(fn, Function) else function(fn)
    return polymorphic.get_concrete_function(*args)


def _check_reads(concrete: ConcreteFunction) -> None:
    """Checks that a function does not update Variables."""
    if concrete.results.updates:
        updated = ", ".join(sorted(v.name for v, _ in concrete.results.updates))
        raise NotSaveable(
            f"save: {concrete.name} updates {updated}; save a function that only reads its variables, with "
            "tf.saved_model.save one that updates, or export the step with tvtf.onnx.export"
        )


def _named_variables(concrete: ConcreteFunction) -> dict[str, Variable]:
    """Returns the Variables that a function reads, by unique names."""
    named: dict[str, Variable] = {}
    for variable in concrete.variables:
        name = variable.name.partition(":")[0].replace("/", "_")
        count = sum(n == name or n.startswith(f"{name}__") for n in named)
        named[f"{name}__{count}" if count else name] = variable
    return named


def load(folder: str | os.PathLike[str], signature: str = DEFAULT) -> SavedFunction:
    """Reads one signature of a saved model after checking everything in the folder.

    Raises:
      OSError: the folder holds no saved model.
      SavedModuleError: the model is damaged, has another version, or no such signature.
    """
    signatures = load_model(folder).signatures
    if signature not in signatures:
        named = ", ".join(signatures) or "none"
        raise SavedModuleError(f"{folder} has no signature {signature!r}; it has: {named}")
    return SavedFunction(signatures[signature])


def of_signature(signature: SignatureFunction) -> SavedFunction:
    """Returns a signature that is being saved as a SavedFunction, from which a library can be compiled."""
    return SavedFunction(signature)


class SavedFunction:
    """A signature that only reads Variables; it is called with tensors or arrays by position."""

    def __init__(self, signature: SignatureFunction) -> None:
        _check_reads(signature)
        self.signature = signature
        self.variables = signature.variables
        outputs = signature.results.traced
        inputs = [_value(n, p._type) for n, p in zip(signature.arguments.names, signature.graph.params)]
        self.description = Description(
            signature.name.removeprefix("signature_wrapper_"),
            tuple(inputs[position] for position in signature.positions),
            tuple(_value(name, t._type) for name, t in outputs.items()),
        )
        self.function = Function(self._python(), self._specs(), autograph=False, name=self.description.name)

    def _specs(self) -> list[TensorSpec]:
        return [TensorSpec(list(v.shape), v.dtype, name=v.name) for v in self.description.inputs]

    def _python(self) -> Any:
        """Returns the function that :attr:`function` traces: the signature with arguments in the order of the description."""

        def run(*args: Any) -> Any:
            by_position = dict(zip(self.signature.positions, args))
            results = self.signature.call_flat([by_position[position] for position in range(len(args))])
            listed = tuple(results[value.name] for value in self.description.outputs)
            return listed[0] if len(listed) == 1 else listed

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        params = [inspect.Parameter(value.name, kind) for value in self.description.inputs]
        run.__signature__ = inspect.Signature(params)  # type: ignore[attr-defined]
        return run

    def __call__(self, *args: Any) -> Any:
        """Returns the outputs: a tensor, or a tuple of tensors.

        Raises:
          SavedModuleError: an argument's dtype or shape does not match.
        """
        arrays = [np.asarray(a) for a in args]
        self.description.check(arrays)
        return self.function(*map(EagerTensor, arrays))

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the outputs as arrays, in the order of the description."""
        results = self(*arrays)
        return [r.numpy() for r in (results if isinstance(results, tuple) else (results,))]

    def closed(self) -> ir.IRModule:
        """Returns the program with the Variables' values as constants, from which a library is compiled.

        Every output is a separate value, also if it is an argument, a constant, or equal to another output.
        """
        concrete = self.function.get_concrete_function()
        graph = concrete.graph
        with tracing(Trace(self.description.name)) as trace:
            params = [trace.add_param(p._type, p._var.name) for p in graph.params]
            values = [*params, *(trace.embed(EagerTensor(outer._array)) for outer, _ in graph.captures)]
            computed = evaluate(graph.module(), "main", values)
            pick = {"computed": computed.__getitem__, "param": values.__getitem__, "value": trace.embed}
            outputs = [bind.identity(pick[kind](which)) for kind, which in concrete.results.leaves]
        return trace.finish(outputs).entry()


def _value(name: str, tensor_type: TensorType) -> Value:
    dims = tuple(d if isinstance(d, int) else str(d) for d in tensor_type.shape)
    return Value(name, tensor_type.dtype, dims)
