"""Compiles a converted function's syntax tree to code with the file and lines of the user's function.

Tracebacks, warnings, debuggers and coverage tools so show the user's own code.
"""

from __future__ import annotations
import __future__

import ast
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from tvtf.frontend.autograph.errors import code_objects
from tvtf.frontend.autograph.sources import Origin
from tvtf.frontend.autograph.whole_malt import anno

_FACTORY = "<factory>"
"""The name of the function around a converted one. Converted code can't refer to it, as it isn't an identifier."""


class ConvertedCode(NamedTuple):
    """The code of a converted function, which all functions with the same original code share.

    ``factory`` is the code of a function that takes the module ``ag__`` and returns the converted function.
    ``functions`` has the name of the user's function (maybe a nested one) by line.
    """

    factory: types.CodeType
    functions: Mapping[int, str | None]

    def like(self, original: types.FunctionType, operators: types.ModuleType) -> Any:
        """Creates the converted function with the closure, globals and defaults of the user's ``original``.

        Its attribute ``ag_functions`` has the name of the user's function for each line.
        """
        cells = dict(zip(original.__code__.co_freevars, original.__closure__ or (), strict=True))
        closure = tuple(cells[name] for name in self.factory.co_freevars)
        converted = types.FunctionType(self.factory, original.__globals__, closure=closure)(operators)
        converted.__defaults__ = original.__defaults__
        converted.__kwdefaults__ = original.__kwdefaults__
        converted.ag_functions = self.functions
        return converted


def compile_tree(tree: ast.stmt, name: str, original: types.CodeType) -> ConvertedCode:
    """Compiles the definition of a converted function, and returns the code of a factory that creates the function.

    Two functions are wrapped around the definition. The parameters of the outer one are the variables of the user's
    closure. The inner one, the factory, takes the module ``ag__``, and reads those variables from its own closure.

    Args:
      tree: the statement that defines the converted function.
      name: the name that the statement defines.
      original: the code of the user's function.

    Raises:
      SyntaxError: the syntax tree is not a valid program, because the converter (the library malt) made a mistake.
    """
    closure_names = ", ".join(original.co_freevars)
    module = ast.parse(f"def outer({closure_names}):\n def inner(ag__):\n  return {name}")
    inner = module.body[0].body[0]  # type: ignore[attr-defined]
    inner.name = _FACTORY
    inner.body.insert(0, tree)  # before the return statement
    functions: dict[int, str | None] = {}
    _set_positions(tree, Origin.of_line(original.co_firstlineno, None), functions)
    flags = original.co_flags & __future__.annotations.compiler_flag
    try:
        code = compile(module, original.co_filename, "exec", flags, dont_inherit=True)
    except (TypeError, ValueError) as error:  # the tree is invalid: for example, the converter emptied a block
        raise SyntaxError(str(error)) from None
    _, _, factory, *_ = code_objects(code)  # after the module's and the outer function's
    return ConvertedCode(factory, functions)


def _set_positions(node: ast.AST, origin: Origin, functions: dict[int, str | None]) -> None:
    """Sets the source positions of all nodes to the user's, with which they are annotated.

    A new node has the position of the node that encloses it.

    Also completes what Python's compiler needs and malt leaves out, and fills ``functions``.
    """
    origin = anno.getanno(node, anno.Basic.ORIGIN, default=origin)
    functions[origin.lineno] = origin.function
    if "lineno" in node._attributes:
        node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, _ = origin  # type: ignore[attr-defined]
    if isinstance(node, ast.Call):
        node.args = list(node.args)  # malt has a tuple
    elif isinstance(node, ast.ExceptHandler) and node.name is not None:
        node.name = str(node.name)
    for child in ast.iter_child_nodes(node):
        _set_positions(child, origin, functions)
