"""No module imports another that imports it, neither at the top nor in a function; imports for type checkers don't count."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = {"tvtf": "tvtf", "frontend": "tvtf.frontend", "passes": "tvtf.passes", "models": "tvtf.models"}


def modules():
    """The files of the package by the names under which they are imported."""
    for folder, package in PACKAGES.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            yield ".".join([package, *(part for part in parts if part != "__init__")]), path


def statements(node):
    """What a statement, a handler of exceptions or a case holds in its blocks: expressions have no imports."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        yield from getattr(node, field, ())


def imported(node):
    """The dotted names that a file imports; of ``from a import b`` both ``a.b`` and ``a``, as ``b`` may be a module."""
    for child in statements(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, alias.name) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from ((f"{child.module}.{alias.name}", child.module) for alias in child.names)
        elif not (isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"):
            yield from imported(child)


def graph_of(files):
    graph = {}
    for name, text in files.items():
        found = ({each for each in names if each in files} for names in imported(ast.parse(text)))
        graph[name] = {max(each, key=len) for each in found if each} - {name}
    return graph


def test_no_modules_import_each_other():
    list(TopologicalSorter(graph_of({name: path.read_text() for name, path in modules()})).static_order())


def test_a_circle_through_a_function_is_found():
    late = "def run():\n    from tvtf import b\n"
    typed = "if TYPE_CHECKING:\n    from tvtf.a import run\n"
    assert graph_of({"tvtf.a": late, "tvtf.b": "from tvtf.a import run\n"}) == {
        "tvtf.a": {"tvtf.b"},
        "tvtf.b": {"tvtf.a"},
    }
    assert graph_of({"tvtf.a": late, "tvtf.b": typed}) == {"tvtf.a": {"tvtf.b"}, "tvtf.b": set()}
