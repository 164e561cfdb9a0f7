"""Saving a traced function with its variables, and loading it as a function again."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax

from tvtf import nest
from tvtf.dialect import relax_op
from tvtf.emit import Graph, Trace, tracing
from tvtf.errors import DataLossError, NotFoundError
from tvtf.files import remove, replace
from tvtf.frontend.concrete import ConcreteFunction
from tvtf.frontend.function import Function, function
from tvtf.interpret import evaluate
from tvtf.ops.host import HostFunction
from tvtf.primitive import table
from tvtf.saved.description import Description, SavedModuleError, Value, checksum, entry, parse, values
from tvtf.shape import TensorType
from tvtf.spec import TensorSpec
from tvtf.tensor import EagerTensor
from tvtf.train import Checkpoint, load_checkpoint
from tvtf.variable import Variable

FILE = "module.json"
PREFIX = "variables-"
OP_NAME = re.compile(r'"tvtf\.(\w+)"')


def save(folder: str | os.PathLike[str], fn: Any, *args: Any) -> str:
    """Writes a function that only reads its variables, whole or not at all; an earlier one in the folder is replaced.

    Args:
      folder: made where it is missing.
      fn: a ``tf.function``, a concrete function, or a Python function to trace.
      *args: what to trace it with: ``TensorSpec`` objects, whose named dims stay unknown, or tensors.

    Returns:
      The folder.

    Raises:
      ValueError: the function updates variables, or calls Python.
      ResourceExhaustedError: the disk is full; what was in the folder is untouched.
    """
    concrete = _traced(fn, args)
    if concrete.results.updates:
        updated = ", ".join(sorted(v.name for v, _ in concrete.results.updates))
        raise ValueError(
            f"save: {concrete.name} updates {updated}; save a function that only reads its variables, "
            "or export the step with tvtf.onnx.export"
        )
    if any(isinstance(c, HostFunction) for c in concrete.captures):
        raise ValueError(
            f"save: {concrete.name} calls a Python function (tf.py_function, tf.numpy_function), which a saved module does not "
            "hold; write it with TensorFlow's ops"
        )
    place = Path(folder)
    captured = _named_captures(concrete)
    prefix = PREFIX + _digest(captured)
    Checkpoint(values=captured).write(place / prefix)
    replace(str(place / FILE), json.dumps(_document(concrete, captured, prefix), indent=1).encode())
    _forget_others(place, prefix)
    return os.fspath(folder)


def _traced(fn: Any, args: Sequence[Any]) -> ConcreteFunction:
    if isinstance(fn, ConcreteFunction):
        return fn
    own = fn if isinstance(fn, Function) else function(fn)
    return own.get_concrete_function(*args)


def _named_captures(concrete: ConcreteFunction) -> dict[str, Variable]:
    """The Variables and large constants that the function reads, by unique names."""
    named: dict[str, Variable] = {}
    for outer in concrete.captures:
        variable = outer if isinstance(outer, Variable) else Variable(outer, trainable=False, name="constant")
        name = variable.name.partition(":")[0].replace("/", "_")
        taken = sum(n == name or n.startswith(f"{name}__") for n in named)
        named[f"{name}__{taken}" if taken else name] = variable
    return named


def _digest(captured: Mapping[str, Variable]) -> str:
    digest = hashlib.sha256()
    for name, variable in captured.items():
        digest.update(f"{name}\0{variable.dtype.name}\0{tuple(variable.shape)}\0".encode())
        digest.update(np.ascontiguousarray(variable.numpy()).tobytes())
    return digest.hexdigest()[:12]


def _document(concrete: ConcreteFunction, captured: Mapping[str, Variable], prefix: str) -> dict[str, Any]:
    graph = _flat(concrete)
    program = json.loads(tvm.ir.save_json(graph.module()))
    inputs = [_value(n, p._type) for n, p in zip(concrete.arguments.names, graph.params)]
    outputs = [_value(n, t) for n, t in zip(_output_names(concrete.results.structure), graph.output_types)]
    description = Description(concrete.name, tuple(inputs), tuple(outputs))
    variables = [_value(n, v._type).as_json() for n, v in captured.items()]
    return description.as_json() | {
        "variables": variables,
        "checkpoint": prefix,
        "sha256": checksum(program),
        "program": program,
    }


def _flat(concrete: ConcreteFunction) -> Graph:
    """The function as a graph of arguments and captures whose results are what its caller gets, in order."""
    inner = concrete.graph
    with tracing(Trace(concrete.name)) as trace:
        params = [trace.add_param(p._type, p._var.name) for p in inner.params]
        captured = [trace.add_param(p._type, p._var.name) for _, p in inner.captures]
        computed = evaluate(inner.module(), "main", [*params, *captured])
        pick = {"computed": computed.__getitem__, "param": [*params, *captured].__getitem__, "value": trace.own}
        results = [pick[kind](which) for kind, which in concrete.results.leaves]
        graph = trace.finish(results)
    graph.params = params
    return graph


def _value(name: str, tensor_type: TensorType) -> Value:
    dims = tuple(d if isinstance(d, int) else str(d) for d in tensor_type.shape)
    return Value(name, tensor_type.dtype, dims)


def _output_names(structure: Any) -> list[str]:
    if not nest.is_nested(structure):
        return ["output"]
    if isinstance(structure, Mapping) and not any(nest.is_nested(v) for v in structure.values()):
        return [str(k) for k in nest.sorted_keys(structure)]
    return [f"output_{i}" for i in range(len(nest.flatten(structure)))]


def _forget_others(folder: Path, prefix: str) -> None:
    for path in folder.glob(f"{PREFIX}*"):
        if not path.name.startswith(f"{prefix}."):
            remove(str(path))


def load(folder: str | os.PathLike[str]) -> SavedFunction:
    """Reads a saved function; everything in it is checked before it can be called.

    Raises:
      SavedModuleError: the folder has none, or it is damaged, or of another version.
    """
    place = Path(folder) / FILE
    data = _read(place)
    description = Description.of_json(data, str(place))
    program = entry(data, "program", str(place))
    if entry(data, "sha256", str(place)) != checksum(program):
        raise SavedModuleError(f"{place} is damaged: its program is not the one that was saved; save the module again")
    captured = _variables(place.parent, values(data, "variables", str(place)), entry(data, "checkpoint", str(place)))
    return SavedFunction(description, _module(program, description, len(captured), place), captured)


def _read(place: Path) -> Any:
    try:
        return parse(place.read_bytes(), str(place))
    except (FileNotFoundError, NotADirectoryError) as cause:
        raise SavedModuleError(f"{place.parent} is not a saved module: there is no {place}") from cause
    except OSError as cause:
        raise SavedModuleError(f"{place} can't be read: {cause.strerror}") from cause


def _variables(folder: Path, wanted: Sequence[Value], prefix: Any) -> list[Variable]:
    try:
        reader = load_checkpoint(folder / str(prefix))
        reader.verify()
        return [_variable(reader, value, folder) for value in wanted]
    except (DataLossError, NotFoundError) as cause:
        raise SavedModuleError(f"the variables in {folder} can't be read: {cause}") from cause


def _variable(reader: Any, value: Value, folder: Path) -> Variable:
    array = reader.get_tensor(f"values/{value.name}/.ATTRIBUTES/VARIABLE_VALUE")
    if tuple(array.shape) != value.shape:
        raise SavedModuleError(
            f"the variables in {folder} don't fit its description: {value.name} must have shape {value.shape}, "
            f"but has {array.shape}; save the module again"
        )
    return Variable(array, trainable=False, dtype=value.dtype, name=value.name)


def _module(program: Any, description: Description, captured: int, place: Path) -> ir.IRModule:
    try:
        mod = _parse_program(json.dumps(program))
        main = mod["main"]
        count = len(main.params) if isinstance(main, relax.Function) else -1
    except Exception as cause:  # TVM raises many types for JSON that is not its own
        raise SavedModuleError(f"{place} is damaged: its program can't be read; save the module again") from cause
    if count != len(description.inputs) + captured:
        raise SavedModuleError(
            f"{place} is damaged: its program takes {count} values, and it lists {len(description.inputs)} inputs "
            f"and {captured} variables; save the module again"
        )
    return mod


def _parse_program(text: str) -> ir.IRModule:
    """TVM's JSON; the ops that it names must be known to TVM before it reads it."""
    for name in OP_NAME.findall(text):
        if name in table:
            relax_op(table[name])
    return tvm.ir.load_json(text)


class SavedFunction:
    """A function with its variables, loaded; call it on tensors or arrays, by position."""

    def __init__(self, description: Description, mod: ir.IRModule, variables: list[Variable]) -> None:
        self.description = description
        self.variables = variables
        self._mod = mod
        specs = [TensorSpec(list(v.shape), v.dtype, name=v.name) for v in description.inputs]
        self.function = Function(self._python(), specs, autograph=False, name=description.name)

    def _python(self) -> Any:
        """What :attr:`function` traces: the program over the arguments, by their names, and the variables."""

        def run(*args: Any) -> Any:
            results = evaluate(self._mod, "main", [*args, *(v.read_value() for v in self.variables)])
            return results[0] if len(results) == 1 else results

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        params = [inspect.Parameter(value.name, kind) for value in self.description.inputs]
        run.__signature__ = inspect.Signature(params)  # type: ignore[attr-defined]
        return run

    def __call__(self, *args: Any) -> Any:
        """The outputs: a tensor, or a tuple of them.

        Raises:
          SavedModuleError: an argument has another dtype or shape than the function takes.
        """
        arrays = [np.asarray(a) for a in args]
        self.description.check(arrays)
        return self.function(*map(EagerTensor, arrays))

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs as arrays, in the order of the description."""
        results = self(*arrays)
        return [r.numpy() for r in (results if isinstance(results, tuple) else (results,))]

    def closed(self) -> ir.IRModule:
        """The program with the variables' values in it as constants: what a library is compiled from."""
        graph = self.function.get_concrete_function().graph
        with tracing(Trace(self.description.name)) as trace:
            params = [trace.add_param(p._type, p._var.name) for p in graph.params]
            constants = [trace.embed(EagerTensor(outer._array)) for outer, _ in graph.captures]
            results = evaluate(graph.module(), "main", [*params, *constants])
        return trace.finish(results).entry()
