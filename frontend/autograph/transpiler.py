"""Converts a Python function with malt's passes to one that calls tvtf's operators."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from tvtf.core.variable_lock import Lock
from tvtf.frontend.autograph.converted_code import ConvertedCode, compile_tree
from tvtf.frontend.autograph.sources import ConversionError, syntax_tree
from tvtf.frontend.autograph.status import artifact, set_loop_options
from tvtf.frontend.autograph.whole_malt import (
    activity,
    ag_logging,
    anno,
    asserts,
    break_statements,
    call_trees,
    cfg,
    conditional_expressions,
    continue_statements,
    control_flow,
    converter,
    directives,
    errors,
    functions,
    inspect_utils,
    logical_expressions,
    malt_directives,
    naming,
    qual_names,
    reaching_definitions,
    return_statements,
    templates,
    transformer,
    unsupported_features_checker,
    variables,
)

OPTIONS = converter.ConversionOptions(recursive=True, user_requested=True, optional_features=())
_converting = Lock()
"""CPython 3.11 counts the parser's depth over all threads, and fails if two parse at once (gh-106905)."""


class _Unsupported(ast.NodeVisitor):
    """Visits a syntax tree, and raises an error for constructs that malt would convert wrongly."""

    CONSTRUCTS = {
        "Match": "match statement",
        "AsyncFunctionDef": "async function",
        "AsyncFor": "async for loop",
        "AsyncWith": "async with statement",
        "Await": "await expression",
        "TryStar": "except* clause",
        "TypeAlias": "type statement",
    }

    def __init__(self, source: str) -> None:
        self.source = source

    def visit(self, node: Any) -> Any:
        """Raises an error with name and line if a node is not supported. Otherwise visits the node's children."""
        construct = self.CONSTRUCTS.get(type(node).__name__)
        if isinstance(node, (ast.For, ast.While)) and node.orelse:
            construct = "else clause of a loop"
        # Python adds the class's name to a private one (name mangling), but converted code is outside of the class.
        if isinstance(node, ast.Attribute) and node.attr.startswith("__") and not node.attr.endswith("__"):
            construct = f"private name {node.attr}"
        if construct:
            raise errors.UnsupportedLanguageElementError(
                f"{construct} in line {node.lineno} of {self.source} is not supported by AutoGraph; write it with if and while"
            )
        return self.generic_visit(node)


class _ExceptName(str):
    """The name in ``except E as name`` as a syntax node. ``ast`` has a string, but malt expects a node."""

    _fields = ()


class _ExceptNames(ast.NodeTransformer):
    """Replaces the names of exception handlers by nodes, as malt expects them."""

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> Any:
        """Wraps the handler's name, annotated as a qualified name."""
        if node.name is not None:
            name = _ExceptName(node.name)
            anno.setanno(name, anno.Basic.QN, qual_names.QN(node.name))
            node.name = name
        return self.generic_visit(node)


class _Directives(directives.DirectivesTransformer):
    """Handles tvtf's own ``set_loop_options`` as malt handles its own."""

    def visit_Expr(self, node: ast.Expr) -> Any:
        """Converts a call of tvtf's ``set_loop_options`` to malt's directive with the options of the loop.

        malt itself recognizes only its own function of this name. Returns None, which removes the statement.
        """
        visited = super().visit_Expr(node)
        call = getattr(visited, "value", None)
        if not isinstance(call, ast.Call):
            return visited
        called = anno.getanno(call.func, directives.STATIC_VALUE, default=None)
        if called is not set_loop_options:
            return visited
        self._process_statement_directive(call, malt_directives.set_loop_options)
        return None


def _arg_of_its_function(
    self: Any, node: ast.arg, mark: Callable[[Any, ast.arg], Any] = activity.ActivityAnalyzer.visit_arg
) -> Any:
    """Visits a parameter; for the function around only its annotation, in which the parameter is no variable.

    malt marks the parameters of inner functions and lambdas as variables of the function around, too. One of the same
    name that a branch or loop assigns first then counts as defined before, and Python refuses the converted code.
    """
    return self.generic_visit(node) if self._track_annotations_only else mark(self, node)


activity.ActivityAnalyzer.visit_arg = _arg_of_its_function  # malt's passes make analyzers themselves


class _Asserts(asserts.AssertTransformer):  # type: ignore[misc] # malt has no types
    """Converts assertions to calls. A message may be any expression, which is evaluated only on failure."""

    def visit_Assert(self, node: ast.Assert) -> Any:  # noqa: N802 - malt's name
        """Converts ``assert test, msg`` to a call of ``ag__.assert_stmt``. malt converts only constant messages."""
        if node.msg is None or isinstance(node.msg, ast.Constant):
            return super().visit_Assert(node)
        self.generic_visit(node)
        return templates.replace("ag__.assert_stmt(test, lambda: msg)", test=node.test, msg=node.msg)


_CONTROL_FLOW = {ast.If, ast.For, ast.While}
_PASSES: Sequence[tuple[Callable[[Any, Any], Any], set[type[ast.AST]]]] = (
    (lambda node, ctx: _Directives(ctx).visit(node), {ast.Expr}),
    (break_statements.transform, {ast.Break}),
    (lambda node, ctx: _Asserts(ctx).visit(node), {ast.Assert}),
    (continue_statements.transform, {ast.Continue}),
    (return_statements.transform, {ast.Return}),
    (call_trees.transform, {ast.Call}),
    (control_flow.transform, _CONTROL_FLOW),
    (conditional_expressions.transform, {ast.IfExp}),
    (logical_expressions.transform, {ast.Not, ast.BoolOp, ast.Compare}),
    (variables.transform, _CONTROL_FLOW),
)
"""malt's passes in its order, each with the constructs that it rewrites; a directive is an expression that stands alone."""


def _constructs(node: ast.AST) -> set[type[ast.AST]]:
    """Returns the classes of the nodes in a function's syntax tree. A pass runs only if its constructs are among them.

    Classes of nodes that other passes will add are included. A ``return`` counts only if it isn't the last statement.
    """
    nodes = list(ast.walk(node))
    constructs = {type(child) for child in nodes} - {ast.Return}
    last_statements = {id(child.body[-1]) for child in nodes if isinstance(child, ast.FunctionDef)}
    if any(isinstance(child, ast.Return) and id(child) not in last_statements for child in nodes):
        # Early returns, as well as breaks and continues, become flags, which `if`, `not` and `and` test.
        constructs |= {ast.Return, ast.If, ast.Not}
    if ast.Break in constructs:
        constructs |= {ast.Continue, ast.BoolOp}
    if ast.Continue in constructs:
        constructs |= {ast.If, ast.Not}
    return constructs


class Transpiler:
    """Converts functions to ones that call tvtf's operators, as attributes of a module ``ag__``."""

    def __init__(self, operators: Mapping[str, Any]) -> None:
        """Creates the module ``ag__`` of converted code.

        It has the ``operators``, and names that malt expects in it.
        """
        self._operators = types.ModuleType("ag__")
        self._operators.__dict__.update(
            operators,
            autograph_artifact=artifact,
            ConversionOptions=converter.ConversionOptions,
            STD=converter.STANDARD_OPTIONS,
            Feature=converter.Feature,
        )
        self._codes: WeakKeyDictionary[types.CodeType, dict[str, ConvertedCode]] = WeakKeyDictionary()

    def converted(self, function: Callable[..., Any]) -> Any:
        """Converts a function to code that calls the operators of ``ag__``, and returns the converted function.

        Conversions are cached by code object, and by file: code objects are equal if two files have the same text at the
        same line.

        Raises:
          ConversionError: the function can't be converted.
        """
        original = _python_function(function)
        code = original.__code__
        with _converting:
            known = self._codes.setdefault(code, {})
            if code.co_filename not in known:
                tree, name = _converted_tree(original)
                if ag_logging.has_verbosity(2):
                    ag_logging.log(2, "Transformed %s:\n\n%s\n", original, _text(tree))
                known[code.co_filename] = compile_tree(tree, name, code)
            return known[code.co_filename].like(original, self._operators)


def source_of(function: Callable[..., Any]) -> str:
    """Returns the source code of a function as it is converted.

    Raises:
      ConversionError: the function can't be converted.
    """
    with _converting:
        tree, _ = _converted_tree(_python_function(function))
    return _text(tree)


def _text(tree: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(tree))  # malt's new nodes have no lines, which "unparse" reads


def _python_function(function: Any) -> types.FunctionType:
    """Returns the Python function to convert: the one that a ``tf.function`` wraps, or the given one."""
    function = inspect.unwrap(function) if hasattr(function, "python_function") else function
    if not hasattr(function, "__code__"):
        raise ConversionError(
            "Cannot apply autograph to a function that doesn't expose a __code__ object. If this is a @tf.function, "
            "try passing f.python_function instead."
        )
    return getattr(function, "__func__", function)  # a method's function


def _converted_tree(function: types.FunctionType) -> tuple[ast.stmt, str]:
    """Converts a function, and returns the statement that defines the converted function, and its name."""
    try:
        tree: Any = syntax_tree(function)
        _Unsupported(function.__code__.co_filename).visit(tree)
        namespace = inspect_utils.getnamespace(function)
        namer = naming.Namer(namespace)
        name = namer.new_symbol("tf__" + getattr(tree, "name", "lam"), ())
        info = transformer.EntityInfo(name, "", function.__code__.co_filename, (), namespace)
        tree = _transformed(tree, transformer.Context(info, namer, converter.ProgramContext(options=OPTIONS)))
    except (errors.PyCTError, AttributeError, KeyError, NameError, AssertionError, NotImplementedError) as error:
        raise ConversionError(f"converting {function}: {type(error).__name__}: {error}") from error
    if isinstance(tree, ast.Lambda):
        return ast.Assign([ast.Name(name, ast.Store())], tree), name
    tree.name = name
    return tree, name


def _transformed(node: Any, ctx: Any) -> Any:
    """Converts a function's syntax tree with malt's passes, in malt's order, and returns the new tree.

    Passes that have nothing to do are left out: each takes 1 to 5 ms, which is more than tracing most functions takes.

    Args:
      node: the function's definition.
      ctx: malt's context of the conversion.
    """
    unsupported_features_checker.verify(node)
    node = _ExceptNames().visit(node)
    _erase_defaults(node.args)
    constructs = _constructs(node)
    if constructs & _CONTROL_FLOW:
        node = _analyzed(node, ctx)
    node = functions.transform(node, ctx)
    for transform, handled in _PASSES:
        if constructs & handled:
            node = transform(node, ctx)
    return node


def _erase_defaults(parameters: ast.arguments) -> None:
    """Replaces the default values of parameters, which the converted function takes from the original one, by None."""
    parameters.defaults = [ast.Constant(None) for _ in parameters.defaults]
    parameters.kw_defaults = [default and ast.Constant(None) for default in parameters.kw_defaults]


def _analyzed(node: Any, ctx: Any) -> Any:
    """Annotates a syntax tree with scopes and reaching definitions, which the passes for control flow need."""
    graphs = cfg.build(node)
    node = activity.resolve(qual_names.resolve(node), ctx, None)
    node = reaching_definitions.resolve(node, ctx, graphs)
    anno.dup(node, {anno.Static.DEFINITIONS: anno.Static.ORIG_DEFINITIONS})
    return node
