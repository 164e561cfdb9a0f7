"""How the printed IR writes one value: calls of primitives, kernels and functions, with attributes that are no defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tvm import ir, relax

from tvtf import dtypes
from tvtf.core.primitive import Primitive, table
from tvtf.ir import dialect
from tvtf.ir.listing import Token
from tvtf.ir.short_types import cut, dims_text, literal, short_dtype, short_type

HIDDEN = ("carried", "key")
"""Attributes that count what is printed below, or number calls otherwise in each process."""


class Printed(NamedTuple):
    """A formatted value: its tokens, its operands, and its functions (branches, loop bodies), each with a label."""

    tokens: list[Token]
    operands: list[Any]
    functions: list[tuple[str, ir.GlobalVar]]


class ValuePrinter:
    """Formats values; ``name_of`` returns the printed name of a variable, ``mod`` distinguishes kernels from functions."""

    def __init__(self, mod: ir.IRModule, name_of: Callable[[Any], str]) -> None:
        self.mod = mod
        self.name_of = name_of

    def value(self, expr: Any) -> Printed:
        """Formats the value of a binding: a call, an item of a tuple, or another expression."""
        if isinstance(expr, relax.Call):
            return self._formatted_relax_call(expr)
        operands = [expr.tuple_value] if isinstance(expr, relax.TupleGetItem) else [expr]
        return Printed(self.operand(expr), operands, [])

    def operand(self, expr: Any) -> list[Token]:
        """Formats an operand of a call as tokens: a name, a literal, a tuple of operands, or an item of a tuple."""
        if isinstance(expr, ir.GlobalVar):
            return [Token(expr.name_hint, "function")]
        if isinstance(expr, relax.Var):
            return [Token(self.name_of(expr), "name", short_type(expr.ty))]
        if isinstance(expr, ir.Constant):
            return [Token(literal(expr), "literal", short_type(expr.ty))]
        if isinstance(expr, relax.TupleGetItem):
            return [*self.operand(expr.tuple_value), Token(f"[{expr.index}]")]
        if isinstance(expr, relax.Tuple):
            return [Token("("), *_joined(map(self.operand, expr.fields)), Token(")")]
        return [Token(_compact_text(expr), "literal")]

    def _formatted_relax_call(self, call: relax.Call) -> Printed:
        """Formats a Relax call of a primitive, kernel or function.

        Functions among the arguments, such as a loop's body, are not operands: their lines are printed below the call.
        """
        if dialect.is_dialect(call) and call.op.name.removeprefix("tvtf.") in table:
            return self._formatted_primitive(call)
        callee, args = _callee(call)
        functions = [(arg.name_hint, arg) for arg in args if self._is_function(arg)]
        operands = [arg for arg in args if not self._is_function(arg)]
        attributes = [] if call.attrs is None else list(_items(call.attrs))
        if self._is_function(callee):
            functions.insert(0, ("", callee))  # no label: the line of the call has the callee's name
        name = Token(_name(callee), "kernel" if self._is_kernel(callee) else "op")
        return self._formatted_call(name, operands, attributes, functions)

    def _formatted_primitive(self, call: relax.Call) -> Printed:
        """Formats a call of a primitive, without attributes that have their default values."""
        decoded = dialect.read(call)
        functions = [(k, v) for k, v in decoded.attrs.items() if isinstance(v, ir.GlobalVar)]
        others = [(k, v) for k, v in decoded.attrs.items() if not isinstance(v, ir.GlobalVar)]
        printed_attrs = [(k, v) for k, v in others if not _is_default(decoded.primitive, k, v)]
        return self._formatted_call(Token(decoded.primitive.name, "op"), decoded.inputs, printed_attrs, functions)

    def _formatted_call(self, name: Token, operands: Sequence[Any], attributes: Any, functions: Any) -> Printed:
        """Formats ``name(operands, key=value, ...)``; ``functions`` are only passed on to the result."""
        parts = [self.operand(operand) for operand in operands]
        parts += [[Token(f"{k}=", "attribute"), Token(_attribute(v), "literal")] for k, v in attributes]
        return Printed([name, Token("("), *_joined(parts), Token(")")], list(operands), functions)

    def _is_function(self, expr: Any) -> bool:
        return isinstance(expr, ir.GlobalVar) and isinstance(self._definition(expr), relax.Function)

    def _is_kernel(self, expr: Any) -> bool:
        return isinstance(expr, ir.GlobalVar) and not self._is_function(expr)

    def _definition(self, var: ir.GlobalVar) -> Any:
        return self.mod[var] if var in self.mod.functions else None


def _callee(call: relax.Call) -> tuple[Any, list[Any]]:
    """Returns the callee to print for a Relax call, and the callee's operands.

    For example, ``call_tir(kernel, (a, b))`` is printed as ``kernel(a, b)``: only TVM needs to know how a kernel is called.
    """
    args = list(call.args)
    if not (isinstance(call.op, ir.Op) and args and isinstance(args[0], (ir.GlobalVar, relax.ExternFunc))):
        return call.op, args
    if not call.op.name.startswith("relax.call_"):
        return call.op, args
    kernel, *operands = args
    if operands and isinstance(operands[0], relax.Tuple):  # the kernel's inputs; symbolic dims may follow
        operands = [*operands[0].fields, *operands[1:]]
    return kernel, operands


def _name(callee: Any) -> str:
    """Returns the printed name of an op, function, kernel or external function."""
    if isinstance(callee, ir.Op):
        return str(callee.name).removeprefix("relax.").removeprefix("tvtf.")
    return str(getattr(callee, "name_hint", None) or getattr(callee, "global_symbol", None) or callee)


def _items(attrs: Any) -> Iterator[tuple[str, Any]]:
    """Yields the names and values of a call's attributes, in alphabetical order, without those that are None or hidden."""
    # Attributes of TVM's own operators have no `items`. They are not printed: there are few such calls in tvtf's IR.
    for key, value in sorted(attrs.items()) if hasattr(attrs, "items") else ():
        if value is not None and key not in HIDDEN:
            yield str(key), value


def _is_default(prim: Primitive[Any], key: str, value: Any) -> bool:
    """Returns whether an attribute need not be printed, because it has its default value in the op's public function.

    For a parameter without a default, None and False count as defaults. For an attribute that isn't a parameter, () does,
    too.

    Args:
      prim: the primitive.
      key: the name of the attribute.
      value: its value.
    """
    parameter = inspect.signature(prim.front).parameters.get(key)
    if parameter is not None and parameter.default is not parameter.empty:
        return type(value) is type(parameter.default) and bool(value == parameter.default)
    if key in HIDDEN or value is None or value is False:
        return True
    return parameter is None and value == ()


def _attribute(value: Any) -> str:
    """Formats the value of a primitive's attribute. Long texts are shortened.

    >>> _attribute((1, None, "SAME", dtypes.float32))
    "(1, None, 'SAME', f32)"
    """
    if isinstance(value, dtypes.DType):
        return short_dtype(value.name)
    if isinstance(value, str):
        return cut(repr(str(value)))
    is_iterable = hasattr(value, "__iter__") and not isinstance(value, (bytes, ir.Expr))
    if isinstance(value, (tuple, list)) or is_iterable:
        parts = [_attribute(item) for item in value]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    return _compact_text(value)


def _compact_text(expr: Any) -> str:
    """Formats an expression in one line: a shape, or a number, text or type among the operands of a lowered call."""
    if isinstance(expr, relax.ShapeExpr):
        return f"[{dims_text(expr)}]"
    if isinstance(expr, relax.ExternFunc):
        return str(expr.global_symbol)
    return cut(" ".join(str(expr).split()))


def _joined(parts: Iterable[Sequence[Token]]) -> Iterator[Token]:
    """Yields the tokens of all parts, with a comma between parts."""
    for number, part in enumerate(parts):
        if number:
            yield Token(", ")
        yield from part
