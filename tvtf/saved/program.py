"""One concrete function as JSON: its arguments, its program in TVM's JSON, what it captures, and what it returns."""

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
from tvtf.frontend.function.concrete_function import ConcreteFunction, VariableArgument, named_spec, param_types
from tvtf.frontend.function.polymorphic_function import Function
from tvtf.frontend.function.signature import Arguments, Leaf, flatten_up_to
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
    """A concrete function that no file holds, or not this one; the text says why."""


# -- writing


def describe(concrete: ConcreteFunction, number_of: Callable[[Any], int]) -> dict[str, Any]:
    """A concrete function as JSON; ``number_of`` names what it captures.

    Raises:
      NotSaveable: it calls a Python function, or takes what is no plain value.
    """
    results = concrete.results
    module = concrete.graph.module()
    program = json.loads(tvm.ir.save_json(module))
    _check_saveable(concrete.name, program)
    _check_tables(concrete, module)
    return {
        "name": concrete.name,
        "arguments": _arguments(concrete),
        "captures": [number_of(_saveable(concrete, c)) for c in concrete.captures],
        "structure": encode(results.structure, _form),
        "results": [_result(kind, which, number_of) for kind, which in results.leaves],
        "outputs": [_spec_of(t) for t in nest.flatten(results.traced, expand_composites=True)],
        "updates": [[_position(concrete, variable), index] for variable, index in results.updates],
        "waiting": _waiting(concrete),
        "sha256": checksum(program),
        "program": program,
    }


def _check_saveable(name: str, program: Any) -> None:
    """What could not be loaded again is told when it is saved."""
    try:
        allowed_ops.check_ops(schema.check(program) - {PYTHON})  # told of with its Python function
    except (schema.SchemaError, allowed_ops.NotAllowed) as why:
        raise NotSaveable(f"{name} can't be saved: {why}; do that outside the function") from why


def _check_tables(concrete: ConcreteFunction, module: ir.IRModule) -> None:
    """Whether tables are read where a loaded program may read them: in no branch and no loop."""
    if any(isinstance(captured, TableRead) for captured in concrete.captures):
        try:
            program_checks.tables(module)
        except schema.SchemaError as why:
            raise NotSaveable(
                f"{concrete.name} can't be saved: it looks things up in a table in a branch or a loop; do that outside"
            ) from why


def _saveable(concrete: ConcreteFunction, captured: Any) -> Any:
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
    """The form of the arguments, with the specs of composite tensors, and the leaves."""
    form = nest.map_structure(lambda each: each if nest.is_composite(each) else None, concrete.arguments.structure)
    try:
        return [encode(form), [[leaf.name, encode(leaf.spec or leaf.value)] for leaf in concrete.arguments.leaves]]
    except NotPlain as cause:
        raise NotSaveable(f"{concrete.name} was traced with {cause}, which is no value that a file holds") from None


def _waiting(concrete: ConcreteFunction) -> Any:
    """The calls that the program makes, in its branches and bodies, and in those of such calls, too."""
    try:
        return deferred_calls.describe(
            deferred_calls.made_in(concrete.graph.module()) | (concrete.graph.root.waiting or {})
        )
    except NotPlain as cause:
        raise NotSaveable(f"{concrete.name} waits for a rank with {cause}, which no file holds") from None


def _form(value: Any) -> Any:
    return None if nest.is_nested_or_composite(value) else {"leaf": None}


def _result(kind: str, which: Any, number_of: Callable[[Any], int]) -> Any:
    if kind == "value":
        return [kind, None if which is None else number_of(which)]
    return [kind, which]


def _spec_of(value: Any) -> Any:
    return None if value is None else encode(TensorSpec(value.shape, value.dtype))


def _position(concrete: ConcreteFunction, variable: Variable) -> int:
    return next(i for i, c in enumerate(concrete.captures) if c is variable)


# -- reading


@dataclass
class Program:
    """A concrete function as it was read, checked, and tied to what it captures by `bind`."""

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
    """Which of the captures are lookups in tables."""

    @property
    def inputs(self) -> list[TensorType]:
        """The types of the tensors it takes; unknown dims have names."""
        return param_types(self.arguments)

    @property
    def count(self) -> int:
        """How many values the program computes."""
        return len(self.mod["main"].ret_ty.fields)

    @property
    def structured_outputs(self) -> Any:
        return nest.pack_sequence_as(self.structure, self.outputs, expand_composites=True)

    def described(self) -> Any:
        """``(args, kwargs)`` with the spec of each tensor."""
        return self.arguments.described(named_spec)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """What the function does, on tensors of the active trace.

        Raises:
          SavedModuleError: its graph, which fits the schema, does what can't be done.
        """
        try:
            return self._run(args, kwargs)
        except NotImplementedError:
            raise
        except (AttributeError, LookupError, AssertionError, RuntimeError) as cause:
            told = f"function {self.name} can't run as it was saved ({type(cause).__name__}: {cause})"
            raise SavedModuleError(f"{told}; the model is damaged, or another version of tvtf wrote it") from cause

    def _run(self, args: Any, kwargs: Any) -> Any:
        flat = nest.flatten((args, kwargs), expand_composites=True)
        tensors = [value for value, leaf in zip(flat, self.arguments.leaves) if leaf.spec is not None]
        captured = [c.read_value() if isinstance(c, Variable) else c for c in self.bound]
        computed = evaluate(self.mod, "main", [*tensors, *captured], Instance)
        pick: dict[str, Callable[[Any], Any]] = {
            "computed": computed.__getitem__,
            "param": [*tensors, *captured].__getitem__,
            "value": lambda number: None if number is None else self.constants[number],
        }
        leaves = [pick[kind](which) for kind, which in self.results]
        for position, index in self.updates:
            self.bound[position].assign(computed[index], read_value=False)
        return nest.pack_sequence_as(self.structure, leaves, expand_composites=True)

    def trace(self, kind: type[ConcreteFunction] = ConcreteFunction) -> ConcreteFunction:
        """The concrete function again."""
        return kind.trace(Function(self.run, autograph=False, name=self.name), self.arguments)

    def fit(self, args: Any, kwargs: Any, convert: bool) -> list[Any] | None:
        """The tensors among the arguments of a call, if these are what it was traced for; with ``convert``, made tensors."""
        try:
            flat = flatten_up_to(self.arguments.structure, (args, kwargs))
        except TypeError:
            return None
        fitted = [] if flat is None else [_fitted(leaf, v, convert) for leaf, v in zip(self.arguments.leaves, flat)]
        if flat is None or any(value is _MISFIT for value in fitted):
            return None
        return [value for value, leaf in zip(fitted, self.arguments.leaves) if leaf.spec is not None]


_MISFIT = object()


def _fitted(leaf: Leaf, value: Any, convert: bool) -> Any:
    if leaf.spec is None:
        same = isinstance(leaf.value, CapturedDefault) or Leaf(leaf.name, value).key == leaf.key
        return leaf.value if same else _MISFIT
    if isinstance(value, TensorSpec):
        return value if leaf.spec.dtype is value.dtype and leaf.spec.shape.is_compatible_with(value.shape) else _MISFIT
    if not convert and not is_tensor(value):
        return _MISFIT
    try:
        tensor = convert_to_tensor(value, dtype_hint=leaf.spec.dtype)
    except (TypeError, ValueError):
        return _MISFIT
    return tensor if leaf.spec.is_compatible_with(tensor) else _MISFIT


def read(data: Any) -> Program:
    """What `describe` wrote; nothing is built of it yet.

    Raises:
      SavedModuleError: it is damaged.
    """
    try:
        return _read(data)
    except SavedModuleError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as cause:
        raise SavedModuleError(f"a function of it can't be read ({type(cause).__name__}: {cause})") from cause


def _read(data: Mapping[str, Any]) -> Program:
    name = str(data["name"])
    if data["sha256"] != checksum(data["program"]):
        raise SavedModuleError(f"the program of {name} is not the one that was saved")
    deferred = deferred_calls.read(data.get("waiting", {}), lambda program, keys: _module(program, name, keys))
    program = Program(
        name=name,
        arguments=_read_arguments(*data["arguments"]),
        captures=[int(number) for number in data["captures"]],
        structure=decode(data["structure"], lambda *_: None),
        results=[(str(kind), which if which is None else int(which)) for kind, which in data["results"]],
        outputs=[None if spec is None else decode(spec) for spec in data["outputs"]],
        updates=[(int(position), int(index)) for position, index in data["updates"]],
        mod=_module(data["program"], name, deferred, reads_tables=True),
        waiting=deferred,
        bound=[],
        constants={},
        tables=[],
    )
    _check(program)
    program.tables = [position - len(program.inputs) for position in program_checks.tables(program.mod)]
    return program


def _read_arguments(structure: Any, leaves: Any) -> Arguments:
    read = [_read_leaf(*leaf) for leaf in leaves]
    decoded = decode(structure)
    if len(nest.flatten(decoded, expand_composites=True)) != len(read):
        raise ValueError("its arguments don't have the form that it tells")
    return Arguments(decoded, read)


def _read_leaf(name: str, content: Any) -> Leaf:
    value = decode(content)
    return Leaf(name, value).with_spec(value) if isinstance(value, TensorSpec) else Leaf(name, value)


def _module(program: Any, name: str, keys: Collection[int], reads_tables: bool = False) -> ir.IRModule:
    """TVM's JSON as a module, which only reads what `schema` found to be a program of allowed ops.

    The ops that it names must be known to TVM before. One that may read tables calls Python for that, which is looked into when
    it is bound.
    """
    try:
        ops = schema.check(program)
        allowed_ops.check_ops(ops - {PYTHON} if reads_tables else ops)
        for op in ops:
            dialect.relax_op(table[op])
        mod = _loaded(json.dumps(program))
        if PYTHON in ops:
            program_checks.tables(mod)
        program_checks.check(mod, keys)
    except (schema.SchemaError, allowed_ops.NotAllowed) as why:
        raise SavedModuleError(f"the program of {name} can't be run: {why}") from why
    return mod


def _loaded(text: str) -> ir.IRModule:
    try:
        mod = tvm.ir.load_json(text)
        main = mod["main"]
    except Exception as cause:  # TVM raises many types for JSON that is not its own
        raise schema.SchemaError(f"TVM does not read it ({type(cause).__name__})") from cause
    if not isinstance(main, relax.Function):
        raise schema.SchemaError("it has no main function")
    return mod


def _check(program: Program) -> None:
    """Whether numbers refer to what is there, and the program takes and gives what is told."""
    name, main = program.name, program.mod["main"]
    wanted = len(program.inputs) + len(program.captures)
    if len(main.params) != wanted:
        raise SavedModuleError(f"the program of {name} takes {len(main.params)} values, and it tells of {wanted}")
    for param, told in zip(main.params, program.inputs):
        _check_param(name, param.ty, told)
    limits = {"computed": program.count, "param": wanted, "value": None}
    for kind, which in program.results:
        limit = limits[kind]
        if limit is not None and not 0 <= which < limit:
            raise SavedModuleError(f"{name} returns {kind} value {which} of {limit}")
    for position, index in program.updates:
        if not (0 <= position < len(program.captures) and 0 <= index < program.count):
            raise SavedModuleError(f"{name} updates capture {position} with value {index}, which isn't there")
    counts = {len(program.results), len(program.outputs), len(nest.flatten(program.structure, expand_composites=True))}
    if len(counts) != 1:
        raise SavedModuleError(f"{name} returns another number of values than it tells")


def _check_param(name: str, found: relax.TensorType, told: TensorType) -> None:
    if not isinstance(told.shape, AnyShape):
        _check_type(name, dialect.from_relax_type(found), told)
    elif found.ndim != -1 or found.dtype != told.dtype.name:
        raise SavedModuleError(
            f"the program of {name} takes {found}, and it tells of a {told.dtype.name} tensor of unknown rank"
        )


def _check_capture(name: str, found: relax.TensorType, thing: Any) -> None:
    """The program takes any size, or rank, that the Variable may have."""
    declared = TensorSpec(thing.shape, thing.dtype)
    sizes = None if found.ndim == -1 else [int(d) if isinstance(d, tirx.IntImm) else None for d in found.shape.values]
    if dialect.relax_dtype(thing.dtype) != str(found.dtype) or not TensorShape(sizes).is_compatible_with(thing.shape):
        raise SavedModuleError(f"the program of {name} takes {found}, and it tells of {declared}")


def _check_type(name: str, found: TensorType, told: TensorType) -> None:
    same = found.dtype is told.dtype and len(found.shape) == len(told.shape)
    if not same or any(isinstance(d, int) and d != e for d, e in zip(told.shape, found.shape)):
        raise SavedModuleError(f"the program of {name} takes {found}, and it tells of {told}")


def bind(program: Program, things: Sequence[Any], place: str) -> None:
    """Ties a program to the Variables and constants of its file.

    Raises:
      SavedModuleError: one isn't there, or has another type.
    """
    params = program.mod["main"].params[len(program.inputs) :]
    program.bound = [_thing(things, number, place) for number in program.captures]
    for position in program.tables:
        if position < 0 or not isinstance(program.bound[position], TableRead):
            raise SavedModuleError(f"the program of {program.name} can't be run: {program_checks.MSG_PYTHON}")
    for thing, param in zip(program.bound, params):
        _check_capture(program.name, param.ty, thing)
    for kind, which in program.results:
        if kind == "value" and which is not None:
            program.constants[which] = _thing(things, which, place)
    for position, _ in program.updates:
        if not isinstance(program.bound[position], Variable):
            raise SavedModuleError(f"{place}: {program.name} updates what is no Variable")


def _thing(things: Sequence[Any], number: int, place: str) -> Any:
    if not 0 <= number < len(things) or things[number] is None:
        raise SavedModuleError(f"{place} refers to value {number}, which isn't there")
    return things[number]
