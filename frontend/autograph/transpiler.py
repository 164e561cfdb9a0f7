"""Converts a Python function: malt's passes, tvtf's operators, and a map from new lines to old ones."""

from __future__ import annotations

import ast
import inspect
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any

from tvtf.core.variable_lock import Lock
from tvtf.frontend.autograph.status import artifact, set_loop_options
from tvtf.frontend.autograph.whole_malt import (
    anno,
    api,
    asserts,
    break_statements,
    call_trees,
    conditional_expressions,
    continue_statements,
    control_flow,
    converter,
    directives,
    errors,
    functions,
    logical_expressions,
    malt_directives,
    parser,
    qual_names,
    return_statements,
    templates,
    unsupported_features_checker,
    variables,
)
from tvtf.ir import trace

OPTIONS = converter.ConversionOptions(recursive=True, user_requested=True, optional_features=())
_converting = Lock()
"""CPython 3.11 counts the parser's depth over all threads, and fails if two parse at once (gh-106905)."""


class ConversionError(ValueError):
    """A function that can't be converted."""


class _Unsupported(ast.NodeVisitor):
    """Raises for constructs that malt would convert wrongly, with their name and line."""

    CONSTRUCTS = {
        "Match": "match statement",
        "AsyncFunctionDef": "async function",
        "AsyncFor": "async for loop",
        "AsyncWith": "async with statement",
        "Await": "await expression",
        "TryStar": "except* clause",
        "TypeAlias": "type statement",
    }

    def __init__(self, source: str, first_line: int) -> None:
        self.source = source
        self.first_line = first_line

    def visit(self, node: ast.AST) -> Any:
        """Raises for an unsupported node, else visits its children."""
        construct = self.CONSTRUCTS.get(type(node).__name__)
        if isinstance(node, (ast.For, ast.While)) and node.orelse:
            construct = "else clause of a loop"
        # Python mangles such a name by its class, which converted code isn't in.
        if isinstance(node, ast.Attribute) and node.attr.startswith("__") and not node.attr.endswith("__"):
            construct = f"private name {node.attr}"
        if construct:
            line = self.first_line + node.lineno - 1  # type: ignore[attr-defined]
            raise errors.UnsupportedLanguageElementError(
                f"{construct} in line {line} of {self.source} is not supported by AutoGraph; write it with if and while"
            )
        return self.generic_visit(node)


class _ExceptName(str):
    """The name in ``except E as name`` as a node: malt expects one, while ``ast`` has a string."""

    _fields = ()


class _ExceptNames(ast.NodeTransformer):
    """Wraps the names of exception handlers for malt."""

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> Any:
        if node.name is not None:
            name = _ExceptName(node.name)
            anno.setanno(name, anno.Basic.QN, qual_names.QN(node.name))
            node.name = name
        return self.generic_visit(node)


class _Directives(directives.DirectivesTransformer):
    """Handles tvtf's own ``set_loop_options`` as malt handles its own."""

    def visit_Expr(self, node: ast.Expr) -> Any:
        """Turns a call of ``set_loop_options`` into malt's directive of the loop.

        malt knows the directive only by its own name.
        """
        visited = super().visit_Expr(node)
        call = getattr(visited, "value", None)
        if (
            isinstance(call, ast.Call)
            and anno.getanno(call.func, directives.STATIC_VALUE, default=None) is set_loop_options
        ):
            self._process_statement_directive(call, malt_directives.set_loop_options)
            return None
        return visited


class _Asserts(asserts.AssertTransformer):  # type: ignore[misc] # malt has no types
    """Converts assertions to calls; a message may be any expression, evaluated only on failure."""

    def visit_Assert(self, node: ast.Assert) -> Any:  # noqa: N802 - malt's name
        if node.msg is None or isinstance(node.msg, ast.Constant):
            return super().visit_Assert(node)
        self.generic_visit(node)
        return templates.replace("ag__.assert_stmt(test, lambda: msg)", test=node.test, msg=node.msg)


class Transpiler(api.PyToPy):
    """malt's transpiler; converted code calls ``operators`` as the attributes of a module ``ag__``."""

    _converted = threading.local()

    def __init__(self, operators: Mapping[str, Any]) -> None:
        super().__init__()
        module = types.ModuleType("ag__")
        module.__dict__.update(
            operators,
            autograph_artifact=artifact,
            ConversionOptions=converter.ConversionOptions,
            STD=converter.STANDARD_OPTIONS,
            Feature=converter.Feature,
        )
        self._extra_locals = {"ag__": module}

    def get_caching_key(self, ctx: Any) -> Any:
        """Returns the options and the file of the function that is converted.

        malt looks code objects up, which are equal where two files have the same text at the same line.
        """
        return super().get_caching_key(ctx), getattr(self._converted, "file", None)

    def get_transformed_name(self, node: Any) -> str:
        return "tf__" + super().get_transformed_name(node).removeprefix("ag__")

    def get_extra_locals(self) -> dict[str, Any]:
        """Returns the globals of converted code beside the function's own."""
        return self._extra_locals

    def transform_ast(self, node: Any, ctx: Any) -> Any:
        """Applies malt's passes in its order, with tvtf's replacements among them."""
        unsupported_features_checker.verify(node)
        node = functions.transform(self.initial_analysis(_ExceptNames().visit(node), ctx), ctx)
        node = _Directives(ctx).visit(node)
        node = break_statements.transform(node, ctx)
        node = _Asserts(ctx).visit(node)
        for step in (continue_statements, return_statements, call_trees, control_flow, conditional_expressions):
            node = step.transform(node, ctx)
        return variables.transform(logical_expressions.transform(node, ctx), ctx)

    def transform_function(self, fn: Any, user_context: Any) -> Any:
        self._converted.file = fn.__code__.co_filename if hasattr(fn, "__code__") else None
        if not self._cache.has(fn, self.get_caching_key(user_context)):
            require_supported(fn)
        return super().transform_function(fn, user_context)

    def converted(self, function: Callable[..., Any]) -> Any:
        """Returns the converted function, with malt's source map as ``ag_source_map``; cached by code object.

        Raises:
          ConversionError: the function can't be converted.
        """
        function = inspect.unwrap(function) if hasattr(function, "python_function") else function
        if not hasattr(function, "__code__"):
            raise ConversionError(
                "Cannot apply autograph to a function that doesn't expose a __code__ object. If this is a @tf.function, "
                "try "
                "passing f.python_function instead."
            )
        try:
            with _converting:
                result, module, source_map = self.transform(function, converter.ProgramContext(options=OPTIONS))
        except (errors.PyCTError, AttributeError, KeyError, NameError, AssertionError, NotImplementedError) as error:
            raise ConversionError(f"converting {function}: {type(error).__name__}: {error}") from error
        result.ag_module = module
        result.ag_source_map = source_map
        _remember_lines(source_map, module.__file__)
        return result


def require_supported(fn: Any) -> None:
    """Raises for constructs that can't be converted.

    Raises:
      UnsupportedLanguageElementError: with the construct and its line.
    """
    _Unsupported(fn.__code__.co_filename, fn.__code__.co_firstlineno).visit(_parsed(fn))


def _parsed(fn: Any) -> ast.AST:
    """Returns the function's syntax tree, after checking that the source lines are its own.

    Python 3.13 returns the lines of ``-c`` for any function from "<string>".
    """
    try:
        node, _ = parser.parse_entity(fn, future_features=())
    except ValueError as error:
        raise _without_source(fn) from error
    if getattr(node, "name", "<lambda>") != fn.__code__.co_name:
        raise _without_source(fn)
    return node


def _without_source(fn: Any) -> ConversionError:
    return ConversionError(f"Unable to locate the source code of {fn}")


def _remember_lines(source_map: Any, file: str) -> None:
    """Maps lines of the generated ``file`` to the user's, for recorded spans.

    malt's map has lines of other files too, which are skipped.
    """
    for generated, origin in source_map.items():
        if generated.filename != file:
            continue
        trace.user_lines.setdefault(generated.filename, {})[generated.lineno] = (origin.loc.filename, origin.loc.lineno)
