"""A function's syntax tree is found in its file, however the function is written, and never another function's."""

import ast
import linecache
import os
import types

import pytest
from program_files import loaded

from tvtf.frontend.autograph.sources import ConversionError, syntax_tree

PROGRAM = r'''
def decorated(*given):
    return lambda function: function


def first(x): return x


class Layer:
    @decorated(
        1,
)
    @decorated(2)
    def call(
        self, x, *rest,
    ):  # text after it
        """Text that starts

in the first column, \
with a line that goes on.
    def no_function(x):
    """
# a comment in the first column
        y = (x +
1)
        z = y \
+ 2

        def inner(x):
            return x

        return z
    # a comment after it

    @staticmethod
    async def later(x): return x

<tab>
    def tabs(x):
    <tab>if x:
    <tab><tab>return x
    <tab>return 1


def one(): return lambda x: x, lambda y: y
def same(): return lambda x: x, lambda x: -x
def several_lines():
    return dict(key=
        lambda x: (x
        + 1)
        + 2)
@decorated(lambda x: x * 3)
def of_decorator(): return 1
def last(x):
    return x'''.replace("<tab>", "\t")  # fmt: skip


@pytest.fixture
def program(tmp_path):
    """The module of PROGRAM."""
    return loaded(tmp_path / "program.py", PROGRAM)


def plain(tree):
    """The text of a tree without the origins in it."""
    for node in ast.walk(tree):
        node.__dict__.pop("___pyct_anno", None)
    return ast.dump(tree, include_attributes=False)


def test_definitions(program):
    definitions = {
        node.name: node
        for node in ast.walk(ast.parse(PROGRAM))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    functions = [program.decorated, program.first, program.one, program.of_decorator, program.last]
    functions += [program.Layer.call, program.Layer.later, program.Layer.tabs]
    for function in functions:
        tree = syntax_tree(function)
        assert tree.lineno == definitions[function.__name__].lineno
        assert plain(tree) == plain(definitions[function.__name__])


def inner_function(function, *path):
    """A function that another one defines, by its place among the code objects."""
    code = function.__code__
    for place in path:
        code = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)][place]
    return types.FunctionType(code, function.__globals__)


def test_a_definition_within_a_method(program):
    tree = syntax_tree(inner_function(program.Layer.call, 0))
    assert ast.unparse(tree).splitlines()[0] == "def inner(x):"


def test_lambdas(program):
    assert [ast.unparse(syntax_tree(function)) for function in program.one()] == ["lambda x: x", "lambda y: y"]
    assert ast.unparse(syntax_tree(program.several_lines()["key"])) == "lambda x: x + 1 + 2"
    code = next(
        constant for constant in compile(PROGRAM, program.__file__, "exec").co_consts
        if isinstance(constant, types.CodeType) and constant.co_name == "<lambda>"
    )  # fmt: skip
    assert ast.unparse(syntax_tree(types.FunctionType(code, {}))) == "lambda x: x * 3"
    for function in program.same():
        with pytest.raises(ConversionError, match="2 lambdas with these parameters"):
            syntax_tree(function)


@pytest.mark.parametrize(
    "text",
    [
        "def other(x):\n    return -x\n",
        "x = 1\n",
        "class last: pass\n",
        "def last(x:\n    return x\n",
        '"""\ndef last(x):\n    return x\n',
        "",
    ],
)
def test_a_file_that_has_changed_gives_no_source(program, text):
    lines = PROGRAM.splitlines(keepends=True)
    with open(program.__file__, "w") as file:
        file.write("".join(lines[: program.last.__code__.co_firstlineno - 1]) + text)
    os.utime(program.__file__, (1, 1))
    with pytest.raises(ConversionError, match="Unable to locate the source code of <function last"):
        syntax_tree(program.last)


def test_a_text_that_exec_runs_is_not_taken_for_another_of_the_same_name(monkeypatch):
    """Python 3.13 keeps the program of ``python -c`` by the name "<string>", which other texts have, too."""
    text = "same = lambda x: x\ndef twice(x): return x * 2\n"
    monkeypatch.setitem(linecache.cache, "<string>", (len(text), None, text.splitlines(keepends=True), "<string>"))
    own, others = {}, {}
    exec(text, own)
    exec("same = lambda x: -x\ndef twice(x): return x + x\n", others)
    for name, found in (("same", "lambda x: x"), ("twice", "def twice(x):\n    return x * 2")):
        assert ast.unparse(syntax_tree(own[name])) == found
        with pytest.raises(ConversionError, match="a text that Python has not kept"):
            syntax_tree(others[name])
