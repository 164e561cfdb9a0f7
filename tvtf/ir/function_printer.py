"""The printed lines of one function of the IR: its signature, its bindings with what they use, its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvm import ir, relax

from tvtf.ir.entry import MAIN, Entry, Result
from tvtf.ir.listing import Line, Token
from tvtf.ir.printed_calls import ValuePrinter
from tvtf.ir.printed_signature import commas, signature, typed, unique
from tvtf.ir.provenance import calls_in, show_lines, user_line
from tvtf.ir.short_types import short_type
from tvtf.ir.tuple_items import outputs_of, unpacked

NO_RESULT = "()"
"""The type of calls that write into memory that they are given."""


@dataclass
class Page:
    """What the functions of a module are printed on; ``printed`` are the names of those that are."""

    mod: ir.IRModule
    entry: Entry
    lines: list[Line] = field(default_factory=list)
    printed: set[str] = field(default_factory=set)


class Returned(NamedTuple):
    """A result: its label in the returned structure, its name and type in the signature, its value, the variable of that."""

    label: str
    name: str
    type: str
    value: list[Token]
    var: Any


class FunctionPrinter:
    """Collects the lines of one function, in which every value has a name of its own."""

    def __init__(self, page: Page, name: str, func: relax.Function, depth: int) -> None:
        """Prepares to print a Relax function, named ``name`` in its module, with an indentation of ``depth`` levels."""
        self.page = page
        self.name = name
        self.func = func
        self.depth = depth
        self.is_main = name == MAIN
        self.names: dict[Any, str] = {}
        self.used: set[str] = set()
        self.values = ValuePrinter(page.mod, self.name_of)
        page.printed.add(name)

    def write(self, title: str) -> None:
        """Appends the function's listing to the page: its signature, bindings, updated Variables and results."""
        outputs, bindings = outputs_of(self.func)
        params = [self._param(p) for p in self.func.params]
        first_line = len(self.page.lines)
        self._bindings(bindings, self.func.body.body, self.depth + 1)
        self._print_updates(outputs)
        returned = self.returned(outputs)
        header = signature(title, params, [typed(r.label or r.name, r.type) for r in returned])
        # The signature is made last: variables are named in the order in which bindings use them.
        header_lines = [Line(self.depth + 2 * (i > 0), tokens) for i, tokens in enumerate(header)]
        self.page.lines[first_line:first_line] = header_lines
        values = [[*([Token(f"{r.label}=", "attribute")] if r.label else []), *r.value] for r in returned]
        self._line(self.depth + 1, [Token("return", "keyword"), Token(" " if values else ""), *commas(values)])

    # -- names

    def name_of(self, var: Any) -> str:
        """Returns the variable's name in this function: passes may leave two of one name."""
        if var not in self.names:
            is_input = self.is_main and any(var.same_as(p) for p in self.func.params)
            name = self.page.entry.inputs.get(var.name, var.name) if is_input else var.name
            self.names[var] = unique(name, self.used)
        return self.names[var]

    def _param(self, param: Any) -> list[Token]:
        line_tokens = typed(self.name_of(param), short_type(param.ty))
        return [*line_tokens, Token(" donated", "keyword")] if self.is_donated(param) else line_tokens

    def is_donated(self, param: Any) -> bool:
        """Returns whether the function writes its result into a parameter's memory."""
        by_attribute = any(param.same_as(p) for p in self._donated().values())
        return by_attribute or (self.is_main and param.name in self.page.entry.donated)

    def _donated(self) -> dict[int, Any]:
        """Returns the parameters that take an output's memory, by output."""
        pairs = (self.func.attrs or {}).get("tvtf.donate", ()) if self.is_main else ()
        return {int(output): self.func.params[int(place)] for output, place in pairs}

    # -- bindings

    def _bindings(self, bindings: Sequence[Any], result: Any, depth: int) -> None:
        """Prints a line for each binding; a tuple is unpacked where it is bound, as in ``a, b = call(x)``.

        ``result`` is what the function or branch returns.
        """
        unpacked_items = unpacked(bindings, result)
        for binding in bindings:
            value = getattr(binding, "value", None)
            items = unpacked_items.get(binding.var)
            if isinstance(value, relax.TupleGetItem) and value.tuple_value in unpacked_items:
                continue  # printed with the binding of its tuple
            if isinstance(value, relax.If):
                self._branches(binding.var, value, items, depth)
            else:
                self._binding(binding, items, depth)

    def _binding(self, binding: Any, items: list[Any] | None, depth: int) -> None:
        value = self.values.value(binding.value)
        target = self._target(binding.var, items, value.operands)
        self._line(depth, [*target, *value.tokens], self.source(binding.value))
        for label, var in value.functions:
            self._nested(label, var, depth + 1)

    def _target(self, var: Any, items: list[Any] | None, operands: Sequence[Any]) -> list[Token]:
        """Formats the left side of a binding: the name, its type, and the equals sign.

        ``items`` are the variables that a tuple is unpacked into, None for those that nothing uses. The type is left out of
        the text if the first operand that is a variable has the same one.
        """
        if items is not None:
            names = [[Token("_")] if item is None else typed(self.name_of(item), short_type(item.ty)) for item in items]
            return [*commas(names), Token(" = ")]
        ty = short_type(var.ty)
        if ty == NO_RESULT:  # a call that writes its results into memory that it is given
            return []
        first = next((x for x in operands if isinstance(x, relax.Var)), None)
        is_type_omitted = first is not None and short_type(first.ty) == ty
        name = self.name_of(var)
        return [*([Token(name, "name", ty)] if is_type_omitted else typed(name, ty)), Token(" = ")]

    def _branches(self, var: Any, value: relax.If, items: list[Any] | None, depth: int) -> None:
        """Prints a Relax ``if`` bound to ``var``: the condition, then both branches, each ending in the value it yields."""
        condition = self.values.operand(value.cond)
        self._line(depth, [*self._target(var, items, ()), Token("if ", "keyword"), *condition])
        for keyword, branch in (("then", value.true_branch), ("else", value.false_branch)):
            self._line(depth + 1, [Token(keyword, "keyword")])
            bindings = [b for block in branch.blocks for b in block.bindings]
            self._bindings(bindings, branch.body, depth + 2)
            self._line(depth + 2, [Token("yield ", "keyword"), *self.values.operand(branch.body)])

    def _nested(self, label: str, var: ir.GlobalVar, depth: int) -> None:
        """Prints a function that a binding uses, below its first use."""
        name = var.name_hint
        if name not in self.page.printed:
            FunctionPrinter(self.page, name, self.page.mod[var], depth).write(label or name)
        elif label:
            self._line(depth, [Token(label, "function"), Token(f" is {name}, above")])

    # -- results

    def updates(self, outputs: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Returns the parameters of Variables with the outputs that are their new values."""
        return [(param, outputs[output]) for output, param in self._donated().items()]

    def _print_updates(self, outputs: Sequence[Any]) -> None:
        for param, new in self.updates(outputs):
            arrow = Token(" <- ", "keyword")
            self._line(self.depth + 1, [*self.values.operand(param), arrow, *self.values.operand(new)])

    def returned(self, outputs: Sequence[Any]) -> list[Returned]:
        """Returns the results that the user gets of the compiled function, for printing.

        These are all outputs but new values of Variables, if no user calls the function or a pass changed the outputs.
        """
        # Where a pass dropped outputs, the attribute has the original indices of those that are left.
        original_indices = (self.func.attrs or {}).get("tvtf.given", range(len(outputs)))
        by_index = dict(zip(map(int, original_indices), outputs))
        results = self.page.entry.results if self.is_main else None
        if results is None or any(r.kind == "computed" and r.which not in by_index for r in results):
            donated = self._donated()
            results = [Result("", "computed", i) for i in by_index if i not in donated]
        return [self._result(r, by_index) for r in results]

    def _result(self, result: Result, by_index: Mapping[int, Any]) -> Returned:
        if result.kind == "value":
            return Returned(result.label, "", "", [Token(str(result.which), "literal")], None)
        expr = by_index[result.which] if result.kind == "computed" else self.func.params[result.which]
        var = expr if isinstance(expr, relax.Var) else None
        name = "" if var is None else self.name_of(var)
        return Returned(result.label, name, short_type(expr.ty), self.values.operand(expr), var)

    # -- lines

    def source(self, value: Any) -> str:
        """Returns the lines of the user's program that a call comes from, as text; "" if they aren't known.

        A fused kernel has those of all ops in it.
        """
        if not isinstance(value, relax.Call):
            return ""
        line = user_line(value)
        if line is not None:
            return show_lines([line])
        callee = value.op if isinstance(value.op, ir.GlobalVar) else next(iter(value.args), None)
        if not isinstance(callee, ir.GlobalVar):
            return ""
        func = self.page.mod[callee] if callee in self.page.mod.functions else None
        lines = map(user_line, calls_in(func)) if isinstance(func, relax.Function) else ()
        return show_lines([*filter(None, lines)] or self.page.entry.lines.get(callee.name_hint, ()))

    def _line(self, depth: int, tokens: Sequence[Token], source: str = "") -> None:
        self.page.lines.append(Line(depth, tokens, source))
