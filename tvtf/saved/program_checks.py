"""Checks the functions of a loaded program: values are defined before use, and calls match their primitives."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from tvm import ir, relax

from tvtf.core.primitive import as_tuple, table
from tvtf.core.shape import TensorType
from tvtf.ir import dialect
from tvtf.ir.dialect import bindings_of
from tvtf.saved.allowed_ops import STREAMS
from tvtf.saved.schema import SchemaError

PYTHON = "call_python"
MSG_PYTHON = f"it calls {table[PYTHON].tf_name} ({PYTHON!r}), which no saved model may: it calls Python"


def tables(mod: ir.IRModule) -> list[int]:
    """Finds the calls of Python functions in a loaded program.

    A Python function is a parameter of the main function. Returns the positions of these parameters. `program.bind`
    checks that each of them is a lookup in a table.

    Raises:
      SchemaError: Python is called outside the main function, or through anything but a parameter.
    """
    params = {param: position for position, param in enumerate(mod["main"].params)}
    positions: list[int] = []
    for name, function in mod.functions.items():
        for binding in bindings_of(function.body):
            call = binding.value
            if not isinstance(call, relax.Call) or not dialect.is_dialect(call) or call.op.name != f"tvtf.{PYTHON}":
                continue
            bound = dialect.read(call)
            callee = bound.inputs[0]
            if name.name_hint != "main" or callee not in params or _is_recorded(bound):
                raise SchemaError(MSG_PYTHON)
            positions.append(params[callee])
    return positions


def _is_recorded(bound: Any) -> bool:
    """Returns whether a call of a Python function has a gradient, which would call Python again.

    A missing attribute counts as true.
    """
    return bool(bound.attrs.get("differentiable", True) or bound.attrs.get("backward", True))


def check(mod: ir.IRModule, keys: Collection[int]) -> None:
    """Checks a loaded module: values are defined before their use, and primitives accept their arguments.

    Args:
      mod: the module that TVM read; `schema` has checked its graph.
      keys: the keys of the deferred calls that the program may make.

    Raises:
      SchemaError: a function is invalid; the text has its name and that of the value.
    """
    functions = {gv.name_hint: function for gv, function in mod.functions.items()}
    called_functions = {name: _check_function(name, function, keys) for name, function in functions.items()}
    for name, callees in called_functions.items():
        if not callees <= functions.keys():
            raise SchemaError(
                f"{name} calls {sorted(callees - functions.keys())}, but the program has no functions of these names"
            )
    _check_calls_end(called_functions)


def _check_calls_end(called_functions: dict[str, set[str]]) -> None:
    """Checks that no function of a loaded program is recursive, directly or through other functions.

    This is a topological sort of the call graph. A function that calls no remaining function is removed, until nothing
    changes. Every function left is part of a cycle, or calls a function in one.

    Args:
      called_functions: the functions that a function calls, by its name.
    """
    remaining = dict(called_functions)
    while True:
        without_calls = [name for name, callees in remaining.items() if not callees & remaining.keys()]
        if not without_calls:
            break
        for name in without_calls:
            del remaining[name]
    if remaining:
        raise SchemaError(
            f"{', '.join(sorted(remaining))} are recursive: they call themselves directly or through each other"
        )


def _check_function(name: str, function: Any, keys: Collection[int]) -> set[str]:
    """Checks that a loaded function's values are defined before their use, and have the declared types.

    TVM does not check this, and the file may be hostile. Returns the names of the functions that are called. ``keys``
    are the keys of the deferred calls in the file.
    """
    if len(set(function.params)) != len(function.params):
        raise SchemaError(f"{name} has a parameter twice")
    defined, callees = set(function.params), set()
    for binding in bindings_of(function.body):
        try:
            _check_value(binding.value, defined, keys)
            callees |= _graphs_of(binding.value)
            _check_bound(binding)
        except SchemaError as error:
            raise SchemaError(f"{name}, value {binding.var.name!r:.40}: {error}") from None
        if binding.var in defined:
            raise SchemaError(f"{name} defines {binding.var.name!r:.40} twice")
        defined.add(binding.var)
    _check_defined([function.body.body], defined)
    if not same_form(function.body.body.ty, function.ret_ty):
        raise SchemaError(f"{name} returns {function.body.body.ty}, but its type declares {function.ret_ty}")
    return callees


def _graphs_of(value: Any) -> set[str]:
    """Returns the names of the functions among the arguments of a call, such as the branches of a ``cond``."""
    args = value.args if isinstance(value, relax.Call) else ()
    return {arg.name_hint for arg in args if isinstance(arg, ir.GlobalVar)}


def _check_value(value: Any, defined: Collection[Any], keys: Collection[int]) -> None:
    """Checks the value of a binding: a call, an item of a tuple, or another expression. Raises SchemaError if invalid.

    ``defined`` are the variables defined before. ``keys`` are the keys of the deferred calls in the file.
    """
    if isinstance(value, relax.Call):
        _check_defined(value.args, defined)
        _check_call(value, keys)
    elif isinstance(value, relax.TupleGetItem):
        _check_defined([value.tuple_value], defined)
        tuple_type = value.tuple_value.ty
        if not isinstance(tuple_type, relax.TupleType) or value.index >= len(tuple_type.fields):
            raise SchemaError(f"it is item {value.index} of {tuple_type}")
        if not same_form(tuple_type.fields[value.index], value.ty):
            raise SchemaError("its type is not that of the tuple's item")
    else:
        _check_defined([value], defined)


def _check_defined(values: Iterable[Any], defined: Collection[Any]) -> None:
    """Checks that all variables in ``values``, also inside of tuples, are defined.

    Raises:
      SchemaError: a variable is not in ``defined``, or the declared type of a tuple is not that of its items.
    """
    for value in values:
        if isinstance(value, relax.Var) and value not in defined:
            raise SchemaError(f"{value.name!r:.40} is used, but never defined")
        if isinstance(value, relax.Tuple):
            _check_defined(value.fields, defined)
            if not same_form(relax.TupleType([item.ty for item in value.fields]), value.ty):
                raise SchemaError("the type of a tuple is not that of its items")


def _check_bound(binding: Any) -> None:
    """Raises SchemaError if a binding's variable and value have different types."""
    if not same_form(binding.value.ty, binding.var.ty):
        raise SchemaError(f"it is bound to a value of type {binding.value.ty}")


def _check_call(call: Any, keys: Collection[int]) -> None:
    """Checks a call in a loaded program: the attributes, and the declared type if it can be inferred.

    ``keys`` are the keys of the deferred calls in the file.
    """
    try:
        bound = dialect.read(call)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as cause:
        raise SchemaError(f"its attributes can't be read: {cause}") from cause
    name = bound.primitive.name
    if name == "print_text" and bound.attrs.get("stream") not in STREAMS:
        raise SchemaError(f"it prints to {bound.attrs.get('stream')!r:.60}, and a saved model may print to {STREAMS}")
    if name == "waiting":  # a deferred call
        if bound.attrs.keys() != {"key"} or bound.attrs["key"] not in keys:
            raise SchemaError("it refers to a deferred call that the file doesn't have")
    elif _can_be_typed(call, bound):
        _check_result_type(call, bound)


def _can_be_typed(call: Any, bound: Any) -> bool:
    """Returns whether the result type of a call can be inferred before the program is traced.

    It can't if an argument is a function, or has an unknown shape.
    """
    if any(isinstance(arg, ir.GlobalVar) for arg in call.args):
        return False
    return all(isinstance(x.ty, relax.TensorType) and x.ty.shape is not None for x in bound.inputs)


def _check_result_type(call: Any, bound: Any) -> None:
    """Checks that the declared type of a call fits the type that the called primitive infers.

    With a wrong type, compiled code would access memory outside of the result's array.
    """
    types = [dialect.from_relax_type(value.ty) for value in bound.inputs]
    try:
        inferred = bound.primitive.typed(*types, **bound.attrs)
    except Exception as cause:  # type rules assume attributes that the public function has validated
        raise SchemaError(f"{bound.primitive.tf_name} can't take {call.attrs}: {cause}") from cause
    is_single = isinstance(inferred, TensorType)
    is_declared_single = not isinstance(call.ty, relax.TupleType)
    fits = is_single == is_declared_single
    if fits:
        declared_types = [call.ty] if is_single else list(call.ty.fields)
        inferred_types = (inferred,) if is_single else as_tuple(inferred)
        fits = len(declared_types) == len(inferred_types) and all(map(_matches, declared_types, inferred_types))
    if not fits:
        raise SchemaError(f"{bound.primitive.tf_name} gives {inferred}, but its declared type is {call.ty}")


def _matches(declared: Any, inferred: TensorType) -> bool:
    """Returns whether a declared type has the dtype and, if known, the rank of the inferred one."""
    if not isinstance(declared, relax.TensorType) or str(declared.dtype) != dialect.relax_dtype(inferred.dtype):
        return False
    # TVM's number for an unknown rank is -1.
    return declared.ndim == -1 or not isinstance(inferred.shape, tuple) or declared.ndim == len(inferred.shape)


def same_form(a: Any, b: Any) -> bool:
    """Returns whether two types have the same structure and dtypes, and the same ranks where both are known.

    Sizes aren't compared: they may be expressions, or known on one side only.
    """
    if isinstance(a, relax.TupleType):
        if not isinstance(b, relax.TupleType) or len(a.fields) != len(b.fields):
            return False
        return all(map(same_form, a.fields, b.fields))
    if not isinstance(a, relax.TensorType) or not isinstance(b, relax.TensorType):
        return False
    has_unknown_rank = -1 in (a.ndim, b.ndim)
    return a.dtype == b.dtype and (has_unknown_rank or a.ndim == b.ndim)
