"""Finds the syntax tree of a Python function in its file, and notes in each node the user's position and function.

``inspect`` finds a function's last line with a tokenizer that is written in Python. Python's own parser is much faster.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tvtf.frontend.autograph.errors import code_objects
from tvtf.frontend.autograph.whole_malt import anno

_LAMBDA = "<lambda>"


class ConversionError(ValueError):
    """A function that can't be converted."""


class Origin(NamedTuple):
    """The position of a syntax tree's node in the user's program, and the name of the function around it.

    A statement has no columns (-1), only its first line: Python would print a whole ``if`` where it marks its call.
    """

    lineno: int
    col_offset: int
    end_lineno: int
    end_col_offset: int
    function: str | None

    @classmethod
    def of_line(cls, line: int, function: str | None) -> Origin:
        return cls(line, -1, line, -1, function)


def syntax_tree(function: types.FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda:
    """Returns the syntax tree of a function, with the lines that it has in its file. Each node's ORIGIN is noted.

    Raises:
      ConversionError: the source file is missing or has changed, or several lambdas in the line could be the function.
    """
    code = function.__code__
    try:
        lines, _ = inspect.findsource(function)
        _require_own_text(lines, code)
        tree = _lambda(lines, code) if code.co_name == _LAMBDA else _definition(lines, code)
    except (OSError, SyntaxError, ValueError) as error:
        raise ConversionError(
            f"Unable to locate the source code of {function}. Note that functions defined in certain environments, like the "
            "interactive Python shell, do not expose their source code. If that is the case, you should define them in a "
            ".py source file. If you are certain the code is graph-compatible, wrap the call using "
            f"@tf.autograph.experimental.do_not_convert. Original error: {error}"
        ) from error
    _note_origins(tree, None)
    return tree


def _require_own_text(lines: Sequence[str], code: types.CodeType) -> None:
    """Raises a ValueError if ``code`` was compiled from another source text than ``lines``.

    The file name "<string>" doesn't identify a text. Python gives this name to every text that ``exec`` runs, and Python
    3.13 also to the program of ``python -c``, whose lines it keeps.
    """
    if code.co_filename != "<string>":
        return
    program = compile("".join(lines), code.co_filename, "exec", dont_inherit=True)
    if code not in code_objects(program):
        raise ValueError("the function comes from a text that Python has not kept")


def _definition(lines: Sequence[str], code: types.CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """Parses the definition that starts in the line of ``code``, with its decorators.

    The definition ends before a line that is not indented more than its first line. Such a line may also be inside of the
    definition, in a string or a list of parameters. The lines before it can't be parsed then, and a later end is tried.
    """
    first = code.co_firstlineno - 1
    if not "".join(lines[first : first + 1]).lstrip().startswith(("@", "def ", "async ")):
        raise ValueError(f"line {first + 1} of {code.co_filename} defines no function")
    indentation = _indentation(lines[first])
    # A block is opened for indented lines. The empty lines before make the parser count as in the file.
    before = "\n" * (first - 1) + "if True:\n" if indentation else "\n" * first
    for end in range(first + 1, len(lines) + 1):
        if end < len(lines) and (_is_blank(lines[end]) or _indentation(lines[end]) > indentation):
            continue
        try:
            tree: ast.AST = ast.parse(before + "".join(lines[first:end]))
        except SyntaxError:
            continue
        while isinstance(tree, (ast.Module, ast.If)):
            [tree] = tree.body
        if isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)) and tree.name == code.co_name:
            return tree
        break
    raise ValueError(f"line {first + 1} of {code.co_filename} doesn't define {code.co_name}")


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _is_blank(line: str) -> bool:
    return line.lstrip()[:1] in ("", "#")


def _lambda(lines: Sequence[str], code: types.CodeType) -> ast.Lambda:
    """Returns the lambda that starts in the line of ``code``. If there are several, the one with the same parameters."""
    found = _lambdas_by_line("".join(lines)).get(code.co_firstlineno, [])
    if len(found) > 1:
        found = [node for node in found if _parameters(node.args) == inspect.getargs(code)]
    if len(found) != 1:
        raise ValueError(
            f"{len(found)} lambdas with these parameters start in line {code.co_firstlineno} of {code.co_filename}; "
            "define each one in a line of its own"
        )
    return _parsed_again(lines, found[0])


@lru_cache(maxsize=16)
def _lambdas_by_line(text: str) -> dict[int, list[ast.Lambda]]:
    """Returns all lambdas of a program by their first line. Nobody may change them: a long program is parsed once."""
    lambdas: dict[int, list[ast.Lambda]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Lambda):
            lambdas.setdefault(node.lineno, []).append(node)
    return lambdas


def _parsed_again(lines: Sequence[str], node: ast.Lambda) -> ast.Lambda:
    """Parses the source text of a lambda again, so that the new tree has the same line numbers and columns.

    A lambda may span several lines, which is valid Python only in parentheses. They are put in the
    line before, where they move nothing, or else at the start of the first line.
    """
    line, column, end_line, end_column = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
    lambda_lines = [text.encode() for text in lines[line - 1 : end_line]]  # columns count the bytes of UTF-8
    lambda_lines[-1] = lambda_lines[-1][:end_column]
    lambda_lines[0] = lambda_lines[0][column:]
    if line > 1:
        before = b"\n" * (line - 2) + b"(\n" + b" " * column
    else:
        before = b"(" + b" " * (column - 1)
    tree: Any = ast.parse(before + b"".join(lambda_lines) + b"\n)", mode="eval")
    return tree.body  # type: ignore[no-any-return]


def _parameters(arguments: ast.arguments) -> tuple[list[str], str | None, str | None]:
    """Returns the names of parameters as ``inspect.getargs`` does: those of single values, of the rest, of the keywords."""
    single = [parameter.arg for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return single, getattr(arguments.vararg, "arg", None), getattr(arguments.kwarg, "arg", None)


def _note_origins(node: ast.AST, function: str | None) -> None:
    """Annotates each node of a function's syntax tree with its source position.

    malt keeps annotations in copies and in replaced nodes.
    """
    if isinstance(node, ast.FunctionDef):
        function = node.name
    if isinstance(node, ast.expr) and node.end_lineno is not None and node.end_col_offset is not None:
        origin = Origin(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, function)
        anno.setanno(node, anno.Basic.ORIGIN, origin)
    elif isinstance(node, (ast.stmt, ast.ExceptHandler)):
        anno.setanno(node, anno.Basic.ORIGIN, Origin.of_line(node.lineno, function))
    for child in ast.iter_child_nodes(node):
        _note_origins(child, function)
