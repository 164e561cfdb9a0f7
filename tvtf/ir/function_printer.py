"""The printed lines of one function of the IR: its signature, its bindings with what they use, its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvm import ir, relax

from tvtf.ir.dialect import bindings_of
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
    """The printed lines of a module. ``printed`` are the names of the functions that are printed already."""

    mod: ir.IRModule
    entry: Entry
    lines: list[Line] = field(default_factory=list)
    printed: set[str] = field(default_factory=set)


class Returned(NamedTuple):
    """A result: its label in the returned structure, name and type in the signature, value as tokens, and Relax variable.

    ``var`` is None for a result that isn't a variable.
    """

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
        """Appends the function's lines to the page: its signature, bindings, updated Variables and results.

        ``title`` is the function's name in the signature.
        """
        outputs, bindings = outputs_of(self.func)
        params = [self._formatted_param(param) for param in self.func.params]
        first_line = len(self.page.lines)
        self._print_bindings(bindings, self.func.body.body, self.depth + 1)
        self._print_updates(outputs)
        results = self.returned(outputs)
        # The signature, the first line, is made last: variables are named in the order in which bindings use them.
        result_types = [typed(result.label or result.name, result.type) for result in results]
        first, *others = signature(title, params, result_types)
        header_lines = [Line(self.depth, first), *(Line(self.depth + 2, tokens) for tokens in others)]
        self.page.lines[first_line:first_line] = header_lines
        values = []
        for result in results:
            label = [Token(f"{result.label}=", "attribute")] if result.label else []
            values.append([*label, *result.value])
        self._add_line(self.depth + 1, [Token("return", "keyword"), Token(" " if values else ""), *commas(values)])

    # -- names

    def name_of(self, var: Any) -> str:
        """Returns the printed name of a variable, with a number appended if another variable has the same name."""
        if var not in self.names:
            is_input = self.is_main and any(var.same_as(param) for param in self.func.params)
            name = self.page.entry.inputs.get(var.name, var.name) if is_input else var.name
            self.names[var] = unique(name, self.used)
        return self.names[var]

    def _formatted_param(self, param: Any) -> list[Token]:
        """Formats a parameter in the signature: its name, type, and the word "donated" if its memory is overwritten."""
        line_tokens = typed(self.name_of(param), short_type(param.ty))
        return [*line_tokens, Token(" donated", "keyword")] if self.is_donated(param) else line_tokens

    def is_donated(self, param: Any) -> bool:
        """Returns whether the function writes its result into a parameter's memory."""
        by_attribute = any(param.same_as(donated) for donated in self._donated_params().values())
        return by_attribute or (self.is_main and param.name in self.page.entry.donated)

    def _donated_params(self) -> dict[int, Any]:
        """Returns, by the index of an output, the parameter whose memory the output may overwrite."""
        # Pairs of the indices of an output and a parameter. Only `main` has the attribute.
        pairs = (self.func.attrs or {}).get("tvtf.donate", ()) if self.is_main else ()
        return {int(output): self.func.params[int(param)] for output, param in pairs}

    # -- bindings

    def _print_bindings(self, bindings: Sequence[Any], result: Any, depth: int) -> None:
        """Prints a line for each binding. A tuple is unpacked in the line of its binding, as in ``a, b = call(x)``.

        Args:
          bindings: the bindings, in order.
          result: the expression that the function or branch returns.
          depth: the depth of indentation.
        """
        unpacked_items = unpacked(bindings, result)
        for binding in bindings:
            value = getattr(binding, "value", None)
            items = unpacked_items.get(binding.var)
            if isinstance(value, relax.TupleGetItem) and value.tuple_value in unpacked_items:
                continue  # an item, printed with the binding of its tuple
            if isinstance(value, relax.If):
                self._print_branches(binding.var, value, items, depth)
            else:
                self._print_binding(binding, items, depth)

    def _print_binding(self, binding: Any, items: list[Any] | None, depth: int) -> None:
        """Prints a binding, and below it the functions that its call uses. ``items`` are as in :meth:`_formatted_target`."""
        value = self.values.value(binding.value)
        target = self._formatted_target(binding.var, items, value.operands)
        self._add_line(depth, [*target, *value.tokens], self.source(binding.value))
        for label, var in value.functions:
            self._print_function(label, var, depth + 1)

    def _formatted_target(self, var: Any, items: list[Any] | None, operands: Sequence[Any]) -> list[Token]:
        """Formats the left side of a binding: the variable's name, its type, and the equals sign.

        The type is left out if the first variable among the operands has the same type.

        Args:
          var: the variable that is bound.
          items: the variables that a tuple is unpacked into, each None if nothing uses the item; None for no tuple.
          operands: the operands of the bound call.
        """
        if items is not None:
            names = [[Token("_")] if item is None else typed(self.name_of(item), short_type(item.ty)) for item in items]
            return [*commas(names), Token(" = ")]
        ty = short_type(var.ty)
        if ty == NO_RESULT:  # a call that writes its results into memory that it is given
            return []
        name = self.name_of(var)
        first_variable = next((operand for operand in operands if isinstance(operand, relax.Var)), None)
        if first_variable is not None and short_type(first_variable.ty) == ty:
            return [Token(name, "name", ty), Token(" = ")]
        return [*typed(name, ty), Token(" = ")]

    def _print_branches(self, var: Any, value: relax.If, items: list[Any] | None, depth: int) -> None:
        """Prints a Relax ``if``: the condition, then each branch with the value that it yields.

        Args:
          var: the variable that is bound to the ``if``.
          value: the ``if``.
          items: the variables that a tuple is unpacked into, each None if nothing uses the item; None for no tuple.
          depth: the indentation.
        """
        condition = self.values.operand(value.cond)
        self._add_line(depth, [*self._formatted_target(var, items, ()), Token("if ", "keyword"), *condition])
        for keyword, branch in (("then", value.true_branch), ("else", value.false_branch)):
            self._add_line(depth + 1, [Token(keyword, "keyword")])
            bindings = bindings_of(branch)
            self._print_bindings(bindings, branch.body, depth + 2)
            self._add_line(depth + 2, [Token("yield ", "keyword"), *self.values.operand(branch.body)])

    def _print_function(self, label: str, var: ir.GlobalVar, depth: int) -> None:
        """Prints a function below the binding that uses it, or a reference if the function is printed already.

        Args:
          label: what the binding uses the function for, such as "body"; empty for the callee itself.
          var: the variable of the function.
          depth: the depth of indentation.
        """
        name = var.name_hint
        if name not in self.page.printed:
            FunctionPrinter(self.page, name, self.page.mod[var], depth).write(label or name)
        elif label:
            self._add_line(depth, [Token(label, "function"), Token(f" is {name}, above")])

    # -- results

    def updates(self, outputs: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Returns pairs of a Variable's parameter and the output that is the Variable's new value."""
        return [(param, outputs[output]) for output, param in self._donated_params().items()]

    def _print_updates(self, outputs: Sequence[Any]) -> None:
        """Prints a line ``variable <- value`` for each Variable's new value."""
        for param, new in self.updates(outputs):
            arrow = Token(" <- ", "keyword")
            self._add_line(self.depth + 1, [*self.values.operand(param), arrow, *self.values.operand(new)])

    def returned(self, outputs: Sequence[Any]) -> list[Returned]:
        """Returns the results to print for the function.

        For ``main`` these are the results that the user's function returns. If they aren't known, or for another function,
        they are all outputs except the new values of Variables.
        """
        # If a pass dropped outputs, the attribute has the original indices of the remaining outputs.
        original_indices = (self.func.attrs or {}).get("tvtf.given", range(len(outputs)))
        output_by_index = dict(zip(map(int, original_indices), outputs))
        results = self.page.entry.results if self.is_main else None
        if results is not None:
            computed_indices = {result.which for result in results if result.kind == "computed"}
            if not computed_indices <= output_by_index.keys():  # a pass has dropped an output that the user gets
                results = None
        if results is None:
            donated = self._donated_params()
            results = [Result("", "computed", i) for i in output_by_index if i not in donated]
        return [self._formatted_result(result, output_by_index) for result in results]

    def _formatted_result(self, result: Result, by_index: Mapping[int, Any]) -> Returned:
        """Formats a result of the user's function; ``by_index`` has the outputs of ``main`` by their original index."""
        if result.kind == "value":  # a Python value, not a tensor
            return Returned(result.label, "", "", [Token(str(result.which), "literal")], None)
        expr = by_index[result.which] if result.kind == "computed" else self.func.params[result.which]
        var = expr if isinstance(expr, relax.Var) else None
        name = "" if var is None else self.name_of(var)
        return Returned(result.label, name, short_type(expr.ty), self.values.operand(expr), var)

    # -- lines

    def source(self, value: Any) -> str:
        """Formats the lines of the user's program that a call comes from. Returns "" if they aren't known.

        A fused kernel comes from the lines of all ops in it.
        """
        if not isinstance(value, relax.Call):
            return ""
        line = user_line(value)
        if line is not None:
            return show_lines([line])
        # The function of a direct call, or the kernel of `call_tir(kernel, ...)`.
        callee = value.op if isinstance(value.op, ir.GlobalVar) else next(iter(value.args), None)
        if not isinstance(callee, ir.GlobalVar):
            return ""
        lines: Sequence[Any] = ()
        func = self.page.mod[callee] if callee in self.page.mod.functions else None
        if isinstance(func, relax.Function):
            lines = [line for line in map(user_line, calls_in(func)) if line is not None]
        # Kernels have no lines; `entry.lines` has those from before lowering.
        return show_lines(lines or self.page.entry.lines.get(callee.name_hint, ()))

    def _add_line(self, depth: int, tokens: Sequence[Token], source: str = "") -> None:
        self.page.lines.append(Line(depth, tokens, source))
