"""AutoGraph's transpiler malt, imported whole or not at all.

Its modules import each other in circles, which only the order of its package resolves. If Ctrl-C interrupts the import,
Python forgets the modules that were being imported, but not those that were complete, and the next import would enter the
circles elsewhere and fail. So here it forgets all of them.
"""

import importlib.util  # noqa: F401 - malt reads it as an attribute without importing it
import sys

try:
    import malt  # noqa: F401 - the order that its package has
    from malt.converters import (
        asserts,
        break_statements,
        call_trees,
        conditional_expressions,
        continue_statements,
        control_flow,
        directives,
        functions,
        logical_expressions,
        return_statements,
        variables,
    )
    from malt.core import converter, unsupported_features_checker
    from malt.lang import directives as malt_directives
    from malt.operators import py_builtins
    from malt.operators.variables import Undefined, UndefinedReturnValue, ld, ldu
    from malt.pyct import (
        anno,
        cfg,
        errors,
        inspect_utils,
        naming,
        qual_names,
        templates,
        transformer,
    )
    from malt.pyct.static_analysis import activity, reaching_definitions
    from malt.utils import ag_logging
except BaseException:
    for name in [name for name in sys.modules if name == "malt" or name.startswith("malt.")]:
        del sys.modules[name]
    raise

__all__ = [
    "Undefined",
    "UndefinedReturnValue",
    "activity",
    "ag_logging",
    "anno",
    "asserts",
    "break_statements",
    "call_trees",
    "cfg",
    "conditional_expressions",
    "continue_statements",
    "control_flow",
    "converter",
    "directives",
    "errors",
    "functions",
    "inspect_utils",
    "ld",
    "ldu",
    "logical_expressions",
    "malt_directives",
    "naming",
    "py_builtins",
    "qual_names",
    "reaching_definitions",
    "return_statements",
    "templates",
    "transformer",
    "unsupported_features_checker",
    "variables",
]
