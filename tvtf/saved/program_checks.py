"""Whether the functions of a loaded program make sense: values defined before use, calls that their primitives take."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from tvm import ir, relax

from tvtf.core.primitive import as_tuple, table
from tvtf.core.shape import TensorType
from tvtf.ir import dialect
from tvtf.saved.allowed_ops import STREAMS
from tvtf.saved.schema import SchemaError

PYTHON = "call_python"
MSG_PYTHON = f"it calls {table[PYTHON].tf_name} ({PYTHON!r}), which no saved model may: it calls Python"


def tables(mod: ir.IRModule) -> list[int]:
    """The parameters of the main function that it calls Python by, which must stand for lookups in tables.

    Raises:
      Misfit: it calls Python otherwise.
    """
    params = {param: position for position, param in enumerate(mod["main"].params)}
    found: list[int] = []
    for gv, function in mod.functions.items():
        for block in function.body.blocks:
            for call in (binding.value for binding in block.bindings):
                if isinstance(call, relax.Call) and dialect.is_dialect(call) and call.op.name == f"tvtf.{PYTHON}":
                    bound = dialect.read(call)
                    if gv.name_hint != "main" or bound.inputs[0] not in params or _is_recorded(bound):
                        raise SchemaError(MSG_PYTHON)
                    found.append(params[bound.inputs[0]])
    return found


def _is_recorded(bound: Any) -> bool:
    return bool(bound.attrs.get("differentiable", True) or bound.attrs.get("backward", True))


def check(mod: ir.IRModule, keys: Collection[int]) -> None:
    """Refuses a module in which a value is used before it is defined, or a call has arguments that its primitive refuses.

    Args:
      mod: what TVM read; its graph was checked before.
      keys: of the calls that wait, which the program may make.

    Raises:
      Misfit: with the function and the value.
    """
    functions = {gv.name_hint: function for gv, function in mod.functions.items()}
    graphs = {name: _check_function(name, function, keys) for name, function in functions.items()}
    for name, used in graphs.items():
        if not used <= functions.keys():
            raise SchemaError(f"{name} calls {sorted(used - functions.keys())}, which it doesn't have")
    _check_calls_end(graphs)


def _check_calls_end(graphs: dict[str, set[str]]) -> None:
    """Functions of control flow call others; going on to take away those that call none left must take away all."""
    left = dict(graphs)
    while ended := [name for name, used in left.items() if not used & left.keys()]:
        for name in ended:
            del left[name]
    if left:
        raise SchemaError(f"{', '.join(sorted(left))} call themselves")


def _check_function(name: str, function: Any, keys: Collection[int]) -> set[str]:
    """The functions that it calls."""
    if len(set(function.params)) != len(function.params):
        raise SchemaError(f"{name} has a parameter twice")
    known, used = set(function.params), set()
    for block in function.body.blocks:
        for binding in block.bindings:
            try:
                _check_value(binding.value, known, keys)
                used |= _graphs_of(binding.value)
                _check_bound(binding)
            except SchemaError as why:
                raise SchemaError(f"{name}, value {binding.var.name!r:.40}: {why}") from None
            if binding.var in known:
                raise SchemaError(f"{name} defines {binding.var.name!r:.40} twice")
            known.add(binding.var)
    _check_defined([function.body.body], known)
    if not same_form(function.body.body.ty, function.ret_ty):
        raise SchemaError(f"{name} returns another type than it tells")
    return used


def _graphs_of(value: Any) -> set[str]:
    args = value.args if isinstance(value, relax.Call) else ()
    return {arg.name_hint for arg in args if isinstance(arg, ir.GlobalVar)}


def _check_value(value: Any, known: Collection[Any], keys: Collection[int]) -> None:
    if isinstance(value, relax.Call):
        _check_defined(value.args, known)
        _check_call(value, keys)
    elif isinstance(value, relax.TupleGetItem):
        _check_defined([value.tuple_value], known)
        of = value.tuple_value.ty
        if not isinstance(of, relax.TupleType) or value.index >= len(of.fields):
            raise SchemaError(f"it is item {value.index} of {of}")
        if not same_form(of.fields[value.index], value.ty):
            raise SchemaError("it is of another type than the item")
    else:
        _check_defined([value], known)


def _check_defined(values: Iterable[Any], known: Collection[Any]) -> None:
    for value in values:
        if isinstance(value, relax.Var) and value not in known:
            raise SchemaError(f"{value.name!r:.40} is used and not defined")
        if isinstance(value, relax.Tuple):
            _check_defined(value.fields, known)
            if not same_form(relax.TupleType([each.ty for each in value.fields]), value.ty):
                raise SchemaError("a tuple tells of other types than it holds")


def _check_bound(binding: Any) -> None:
    if not same_form(binding.value.ty, binding.var.ty):
        raise SchemaError(f"it is bound to a value of type {binding.value.ty}")


def _check_call(call: Any, keys: Collection[int]) -> None:
    try:
        bound = dialect.read(call)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as cause:
        raise SchemaError(f"its attributes can't be read: {cause}") from cause
    name = bound.primitive.name
    if name == "print_text" and bound.attrs.get("stream") not in STREAMS:
        raise SchemaError(f"it prints to {bound.attrs.get('stream')!r:.60}, and a saved model may print to {STREAMS}")
    if name == "waiting":
        if bound.attrs.keys() != {"key"} or bound.attrs["key"] not in keys:
            raise SchemaError("it waits for a call that the file doesn't have")
    elif _can_be_typed(call, bound):
        _check_typed(call, bound)


def _can_be_typed(call: Any, bound: Any) -> bool:
    """Types of unknown shape, and functions among the attributes, are known when the program is traced."""
    if any(isinstance(arg, ir.GlobalVar) for arg in call.args):
        return False
    return all(isinstance(x.ty, relax.TensorType) and x.ty.shape is not None for x in bound.inputs)


def _check_typed(call: Any, bound: Any) -> None:
    types = [dialect.from_relax_type(x.ty) for x in bound.inputs]
    try:
        found = bound.primitive.typed(*types, **bound.attrs)
    except Exception as cause:  # what a type rule makes of attributes that its front would have refused
        raise SchemaError(f"{bound.primitive.tf_name} can't take {call.attrs}: {cause}") from cause
    single = isinstance(found, TensorType)
    if single is isinstance(call.ty, relax.TupleType):
        raise SchemaError(f"{bound.primitive.tf_name} gives {found}, and it tells of {call.ty}")
    told = [call.ty] if single else list(call.ty.fields)
    results = as_tuple(found) if not single else (found,)
    if len(told) != len(results) or not all(map(_is_of_form, told, results)):
        raise SchemaError(f"{bound.primitive.tf_name} gives {found}, and it tells of {call.ty}")


def _is_of_form(told: Any, found: TensorType) -> bool:
    if not isinstance(told, relax.TensorType) or str(told.dtype) != dialect.relax_dtype(found.dtype):
        return False
    return told.ndim == -1 or not isinstance(found.shape, tuple) or told.ndim == len(found.shape)


def same_form(a: Any, b: Any) -> bool:
    """Whether two types are of the same structure, dtypes and ranks, as far as these are known."""
    if isinstance(a, relax.TupleType):
        if not isinstance(b, relax.TupleType) or len(a.fields) != len(b.fields):
            return False
        return all(map(same_form, a.fields, b.fields))
    if not isinstance(a, relax.TensorType) or not isinstance(b, relax.TensorType):
        return False
    return a.dtype == b.dtype and (-1 in (a.ndim, b.ndim) or a.ndim == b.ndim)
