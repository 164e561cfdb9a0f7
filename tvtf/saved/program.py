"""Stores a concrete function as JSON: its arguments, its program in TVM's JSON, its captures and its results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import ir, relax, tirx

from tvtf.composites.value_json import CapturedDefault, NotPlain, decode, encode
from tvtf.core import nest
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import table
from tvtf.core.shape import TensorShape, TensorType
from tvtf.core.tensor import Tensor, convert_to_tensor, is_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.frontend.function.concrete_function import ConcreteFunction, named_spec, param_types
from tvtf.frontend.function.polymorphic_function import Function
from tvtf.frontend.function.signature import Arguments, Leaf, flatten_up_to
from tvtf.frontend.function.traced_program import VariableArgument
from tvtf.ir import dialect
from tvtf.ir.interpreter import Instance, evaluate
from tvtf.lookup.tables import TableRead
from tvtf.ops.host import HostFunction
from tvtf.saved import allowed_ops, deferred_calls, program_checks, schema
from tvtf.saved.description import checksum
from tvtf.state.variable import Variable

PYTHON = program_checks.PYTHON
OP_NAME = re.compile(r'"tvtf\.(\w+)"')


class NotSaveable(ValueError):
    """A concrete function that can't be stored in a file; the text gives the reason."""


# -- writing


def describe(concrete: ConcreteFunction, index_of: Callable[[Any], int]) -> dict[str, Any]:
    """Encodes a concrete function as JSON: its program, arguments, captures and results.

    ``index_of`` returns the index of a captured object in the file.

    Raises:
      NotSaveable: the function calls a Python function, or an argument is not a plain value.
    """
    results = concrete.results
    module = concrete.graph.module()
    program = json.loads(tvm.ir.save_json(module))
    _check_saveable(concrete.name, program)
    _check_tables(concrete, module)
    return {
        "name": concrete.name,
        "arguments": _arguments(concrete),
        "captures": [index_of(_checked_capture(concrete, capture)) for capture in concrete.captures],
        "structure": encode(results.structure, _form),
        "results": [_result(kind, reference, index_of) for kind, reference in results.leaves],
        "outputs": [_spec_of(leaf) for leaf in nest.flatten(results.traced, expand_composites=True)],
        "updates": [[_capture_index(concrete, variable), index] for variable, index in results.updates],
        "waiting": _deferred_calls(concrete),
        "sha256": checksum(program),
        "program": program,
    }


def _check_saveable(name: str, program: Any) -> None:
    """Checks that a loaded model would accept the program of a function that is being saved.

    Raises:
      NotSaveable: the program has an op or a value that a saved model may not contain.
    """
    try:
        # `_checked_capture` raises the error for a call of Python, because it can name the function.
        allowed_ops.check_ops(schema.check(program) - {PYTHON})
    except (schema.SchemaError, allowed_ops.NotAllowed) as error:
        raise NotSaveable(f"{name} can't be saved: {error}; do that outside the function") from error


def _check_tables(concrete: ConcreteFunction, module: ir.IRModule) -> None:
    """Checks that a function reads lookup tables only outside of branches and loops, as loaded programs can.

    Args:
      concrete: the function.
      module: its program.

    Raises:
      NotSaveable: the function reads a table in a branch or a loop.
    """
    if any(isinstance(captured, TableRead) for captured in concrete.captures):
        try:
            program_checks.tables(module)
        except schema.SchemaError as error:
            raise NotSaveable(
                f"{concrete.name} can't be saved: it looks things up in a table in a branch or a loop; do that outside"
            ) from error


def _checked_capture(concrete: ConcreteFunction, captured: Any) -> Any:
    """Returns an object that a function captures, after checking that a file can store the object.

    Args:
      concrete: the function.
      captured: the object.

    Raises:
      NotSaveable: the object is a Python function, which exists only in this process; or a Variable that is an
        argument, which may be a different Variable in each call.
    """
    if isinstance(captured, HostFunction) and not isinstance(captured, TableRead):
        raise NotSaveable(
            f"{concrete.name} calls a Python function (tf.py_function, tf.numpy_function), which a saved module does not "
            "hold; write it with TensorFlow's ops"
        )
    if isinstance(captured, VariableArgument):
        raise NotSaveable(
            f"{concrete.name} takes a tf.Variable as an argument; let it capture the Variable, or pass a tensor"
        )
    return captured


def _arguments(concrete: ConcreteFunction) -> Any:
    """Encodes a function's arguments as JSON: their structure, and a name and a spec for each leaf.

    A leaf that is not a tensor has its value instead of a spec.
    """

    def spec_or_none(value: Any) -> Any:
        """Drops all leaves but the specs of composite tensors, which the structure needs."""
        return value if nest.is_composite(value) else None

    structure = nest.map_structure(spec_or_none, concrete.arguments.structure)
    try:
        leaves = [[leaf.name, encode(leaf.spec or leaf.value)] for leaf in concrete.arguments.leaves]
        return [encode(structure), leaves]
    except NotPlain as cause:
        raise NotSaveable(f"{concrete.name} was traced with {cause}, which can't be stored in a file") from None


def _deferred_calls(concrete: ConcreteFunction) -> Any:
    """Encodes the deferred calls of a function's program as JSON, including those in its branches and loop bodies.

    Raises:
      NotSaveable: an argument of a call can't be stored in a file.
    """
    calls = deferred_calls.made_in(concrete.graph.module())
    calls |= concrete.specialization.deferred or {}
    try:
        return deferred_calls.describe(calls)
    except NotPlain as cause:
        raise NotSaveable(
            f"{concrete.name} defers a call of unknown rank with {cause}, which can't be stored in a file"
        ) from None


def _form(value: Any) -> Any:
    """Encodes a leaf of a structure as a placeholder. Returns None for a value that is nested or composite."""
    return None if nest.is_nested_or_composite(value) else {"leaf": None}


def _result(kind: str, reference: Any, index_of: Callable[[Any], int]) -> Any:
    """Encodes a result: a computed value or parameter by its index, or a captured value by its index in the file."""
    if kind == "value":
        return [kind, None if reference is None else index_of(reference)]
    return [kind, reference]


def _spec_of(value: Any) -> Any:
    """Encodes the shape and dtype of a result as JSON; None for a result that is None."""
    return None if value is None else encode(TensorSpec(value.shape, value.dtype))


def _capture_index(concrete: ConcreteFunction, variable: Variable) -> int:
    """Returns the index of a Variable among the objects that a function captures."""
    return next(i for i, capture in enumerate(concrete.captures) if capture is variable)


# -- reading


@dataclass
class Program:
    """A concrete function read from a file and checked; `bind` connects it to its captures."""

    name: str
    arguments: Arguments
    captures: list[int]
    structure: Any
    results: list[tuple[str, Any]]
    outputs: list[TensorSpec | None]
    updates: list[tuple[int, int]]
    mod: ir.IRModule
    waiting: dict[int, Any]
    bound: list[Any]
    constants: dict[int, Tensor]
    tables: list[int]
    """The positions of captures that are lookups in tables."""

    @property
    def inputs(self) -> list[TensorType]:
        """The types of the tensor arguments; unknown dims have names."""
        return param_types(self.arguments)

    @property
    def count(self) -> int:
        """The number of values that the program computes."""
        return len(self.mod["main"].ret_ty.fields)

    @property
    def structured_outputs(self) -> Any:
        return nest.pack_sequence_as(self.structure, self.outputs, expand_composites=True)

    def described(self) -> Any:
        """Returns the arguments as a pair ``(args, kwargs)``, with a spec in place of each tensor."""
        return self.arguments.described(named_spec)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluates the program on arguments, whose tensors belong to the active trace, and returns the results.

        Raises:
          SavedModuleError: the program can't be evaluated although it matches the schema.
        """
        try:
            return self._run(args, kwargs)
        except NotImplementedError:  # a subclass of RuntimeError, raised for valid programs
            raise
        except (AttributeError, LookupError, AssertionError, RuntimeError) as cause:
            message = f"function {self.name} can't run as it was saved ({type(cause).__name__}: {cause})"
            raise SavedModuleError(f"{message}; the model is damaged, or another version of tvtf wrote it") from cause

    def _run(self, args: Any, kwargs: Any) -> Any:
        """Evaluates the program, assigns the Variables that it updates, and returns the results as a structure.

        A result is a computed value, a parameter of the program, or a constant.
        """
        argument_leaves = nest.flatten((args, kwargs), expand_composites=True)
        tensors = [value for value, leaf in zip(argument_leaves, self.arguments.leaves) if leaf.spec is not None]
        captured = [value.read_value() if isinstance(value, Variable) else value for value in self.bound]
        params = [*tensors, *captured]
        computed = evaluate(self.mod, "main", params, Instance)
        leaves: list[Any] = []
        for kind, reference in self.results:
            if kind == "computed":
                leaves.append(computed[reference])
            elif kind == "param":
                leaves.append(params[reference])
            elif reference is None:
                leaves.append(None)
            else:
                leaves.append(self.constants[reference])
        for position, index in self.updates:
            self.bound[position].assign(computed[index], read_value=False)
        return nest.pack_sequence_as(self.structure, leaves, expand_composites=True)

    def trace(self, concrete_class: type[ConcreteFunction] = ConcreteFunction) -> ConcreteFunction:
        """Traces the program for its own arguments, and returns the trace as an object of ``concrete_class``."""
        return concrete_class.trace(Function(self.run, autograph=False, name=self.name), self.arguments)

    def fit(self, args: Any, kwargs: Any, convert: bool) -> list[Any] | None:
        """Matches the arguments of a call to the arguments for which the program was traced.

        Returns the tensors among the call's arguments, or None if the arguments don't match. ``convert`` allows other
        values to be converted to tensors.
        """
        try:
            flat = flatten_up_to(self.arguments.structure, (args, kwargs))
        except TypeError:  # another value in place of a composite tensor
            return None
        if flat is None:  # another structure
            return None
        matched = [_matching_value(leaf, value, convert) for leaf, value in zip(self.arguments.leaves, flat)]
        if any(value is _MISMATCH for value in matched):
            return None
        return [value for value, leaf in zip(matched, self.arguments.leaves) if leaf.spec is not None]


_MISMATCH = object()


def _matching_value(leaf: Leaf, value: Any, convert: bool) -> Any:
    """Matches an argument of a call to a leaf of the arguments for which a program was traced.

    Returns the value to pass to the program, or `_MISMATCH`. A leaf that is not a tensor matches only an equal Python
    value. ``convert`` allows conversion to a tensor.
    """
    if leaf.spec is None:
        # The value of a `CapturedDefault` could not be saved, so any value matches it.
        is_equal = isinstance(leaf.value, CapturedDefault) or Leaf(leaf.name, value).key == leaf.key
        return leaf.value if is_equal else _MISMATCH
    if isinstance(value, TensorSpec):
        is_match = leaf.spec.dtype is value.dtype and leaf.spec.shape.is_compatible_with(value.shape)
        return value if is_match else _MISMATCH
    if not convert and not is_tensor(value):
        return _MISMATCH
    try:
        tensor = convert_to_tensor(value, dtype_hint=leaf.spec.dtype)
    except (TypeError, ValueError):
        return _MISMATCH
    return tensor if leaf.spec.is_compatible_with(tensor) else _MISMATCH


def read(data: Any) -> Program:
    """Reads a concrete function from the JSON that `describe` wrote, and checks it.

    The program is not connected to its captures yet; see `bind`.

    Raises:
      SavedModuleError: the data is damaged.
    """
    try:
        return _read(data)
    except SavedModuleError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as cause:
        raise SavedModuleError(f"a function of it can't be read ({type(cause).__name__}: {cause})") from cause


def _read(data: Mapping[str, Any]) -> Program:
    """Reads a program, its arguments and results from JSON.

    Raises:
      SavedModuleError: the program's checksum differs, or the program is invalid.
    """
    name = str(data["name"])
    if data["sha256"] != checksum(data["program"]):
        raise SavedModuleError(f"the program of {name} is not the one that was saved")
    deferred = deferred_calls.read(data.get("waiting", {}), lambda program, keys: _module(program, name, keys))
    program = Program(
        name=name,
        arguments=_read_arguments(*data["arguments"]),
        captures=[int(index) for index in data["captures"]],
        structure=decode(data["structure"], lambda *_: None),
        results=[(str(kind), None if index is None else int(index)) for kind, index in data["results"]],
        outputs=[None if spec is None else decode(spec) for spec in data["outputs"]],
        updates=[(int(position), int(index)) for position, index in data["updates"]],
        mod=_module(data["program"], name, deferred, reads_tables=True),
        waiting=deferred,
        bound=[],
        constants={},
        tables=[],
    )
    _check(program)
    # The parameters for captures follow those for inputs.
    program.tables = [position - len(program.inputs) for position in program_checks.tables(program.mod)]
    return program


def _read_arguments(structure: Any, leaves: Any) -> Arguments:
    """Reads a function's arguments from JSON: their structure, and a name and a spec or value for each leaf.

    Raises:
      ValueError: the number of leaves of the structure is wrong.
    """
    decoded_leaves = [_read_leaf(*leaf) for leaf in leaves]
    decoded_structure = decode(structure)
    if len(nest.flatten(decoded_structure, expand_composites=True)) != len(decoded_leaves):
        raise ValueError("the number of its arguments is not that of their structure")
    return Arguments(decoded_structure, decoded_leaves)


def _read_leaf(name: str, content: Any) -> Leaf:
    """Reads one argument from JSON: a spec for a tensor, or another Python value."""
    value = decode(content)
    return Leaf(name, value).with_spec(value) if isinstance(value, TensorSpec) else Leaf(name, value)


def _module(program: Any, name: str, keys: Collection[int], reads_tables: bool = False) -> ir.IRModule:
    """Reads a program from TVM's JSON, after checking the JSON against `schema` and the allowed ops.

    Args:
      program: the JSON.
      name: the function's name, for errors.
      keys: the keys of the deferred calls in the file.
      reads_tables: whether to allow calls of Python; `bind` then checks that each such call looks up a table.
    """
    try:
        ops = schema.check(program)
        allowed_ops.check_ops(ops - {PYTHON} if reads_tables else ops)
        for op in ops:
            dialect.relax_op(table[op])  # registers the op with TVM
        mod = _load_module(json.dumps(program))
        if PYTHON in ops:
            program_checks.tables(mod)
        program_checks.check(mod, keys)
    except (schema.SchemaError, allowed_ops.NotAllowed) as error:
        raise SavedModuleError(f"the program of {name} can't be run: {error}") from error
    return mod


def _load_module(text: str) -> ir.IRModule:
    """Reads a module from TVM's JSON, and checks that it has a main function."""
    try:
        mod = tvm.ir.load_json(text)
        main = mod["main"]
    except Exception as cause:  # TVM raises many types for JSON that is not its own
        raise schema.SchemaError(f"TVM does not read it ({type(cause).__name__})") from cause
    if not isinstance(main, relax.Function):
        raise schema.SchemaError("it has no main function")
    return mod


def _check(program: Program) -> None:
    """Checks that a loaded function's description fits its program: numbers of values, and types of parameters.

    TVM runs a program without such checks. With a wrong number or type it would read outside of its memory.
    """
    name, main = program.name, program.mod["main"]
    count = len(program.inputs) + len(program.captures)
    if len(main.params) != count:
        raise SavedModuleError(
            f"the program of {name} takes {len(main.params)} values, but its description has {count}"
        )
    for param, input_type in zip(main.params, program.inputs):
        _check_param(name, param.ty, input_type)
    limits = {"computed": program.count, "param": count, "value": None}
    for kind, index in program.results:
        limit = limits[kind]
        if limit is not None and not 0 <= index < limit:
            raise SavedModuleError(f"{name} returns the {kind} value {index}, but has only {limit} (counted from 0)")
    for position, index in program.updates:
        if not (0 <= position < len(program.captures) and 0 <= index < program.count):
            raise SavedModuleError(
                f"{name} updates capture {position} with value {index}, but has {len(program.captures)} captures and {program.count} values"
            )
    counts = {len(program.results), len(program.outputs), len(nest.flatten(program.structure, expand_composites=True))}
    if len(counts) != 1:
        raise SavedModuleError(
            f"{name} returns {len(program.results)} values, but its structure has another number of them"
        )


def _check_param(name: str, actual: relax.TensorType, described: TensorType) -> None:
    """Checks that a parameter of the program ``name`` has the type of the argument in the program's description.

    Args:
      name: the name of the program.
      actual: the type of the program's parameter.
      described: the type of the argument in the description.
    """
    if not isinstance(described.shape, AnyShape):
        _check_type(name, dialect.from_relax_type(actual), described)
    elif actual.ndim != -1 or actual.dtype != described.dtype.name:  # TVM's number for an unknown rank is -1
        raise SavedModuleError(
            f"the program of {name} takes {actual}, but its description has a {described.dtype.name} tensor of unknown rank"
        )


def _check_capture(name: str, actual: relax.TensorType, captured: Any) -> None:
    """Checks that a program's parameter accepts the value of a captured Variable or constant.

    The program reads the Variable's memory. A later value may have any size or rank that the Variable's declared shape
    allows.
    """
    dims = None  # of unknown rank
    if actual.ndim != -1:
        dims = [int(dim) if isinstance(dim, tirx.IntImm) else None for dim in actual.shape.values]
    has_dtype = dialect.relax_dtype(captured.dtype) == str(actual.dtype)
    if not has_dtype or not TensorShape(dims).is_compatible_with(captured.shape):
        declared = TensorSpec(captured.shape, captured.dtype)
        raise SavedModuleError(f"the program of {name} takes {actual}, but its captured Variable is {declared}")


def _check_type(name: str, actual: TensorType, described: TensorType) -> None:
    """Checks that a parameter of the program ``name`` has the dtype, rank and static dims of the described type."""
    same = actual.dtype is described.dtype and len(actual.shape) == len(described.shape)
    if not same or any(
        isinstance(dim, int) and dim != actual_dim for dim, actual_dim in zip(described.shape, actual.shape)
    ):
        raise SavedModuleError(f"the program of {name} takes {actual}, but its description has {described}")


def bind(program: Program, captures: Sequence[Any], source: str) -> None:
    """Connects a loaded program to the Variables, constants and tables that the program captures.

    ``captures`` are all captured objects of the file, by index. ``source`` names the file in errors.

    Raises:
      SavedModuleError: a captured object is missing, or has the wrong type.
    """
    # Parameters for captures follow those for inputs.
    params = program.mod["main"].params[len(program.inputs) :]
    program.bound = [_capture(captures, index, source) for index in program.captures]
    for position in program.tables:
        if position < 0 or not isinstance(program.bound[position], TableRead):
            raise SavedModuleError(f"the program of {program.name} can't be run: {program_checks.MSG_PYTHON}")
    for capture, param in zip(program.bound, params):
        _check_capture(program.name, param.ty, capture)
    for kind, index in program.results:
        if kind == "value" and index is not None:
            program.constants[index] = _capture(captures, index, source)
    for position, _ in program.updates:
        if not isinstance(program.bound[position], Variable):
            raise SavedModuleError(f"{source}: {program.name} updates a capture that is not a Variable")


def _capture(captures: Sequence[Any], index: int, source: str) -> Any:
    """Returns the captured object at an index, or raises SavedModuleError if the file has none."""
    if not 0 <= index < len(captures) or captures[index] is None:
        raise SavedModuleError(f"{source} refers to value {index}, but the file has no value of this number")
    return captures[index]
