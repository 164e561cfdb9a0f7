"""A dialect module as TVMScript, ``R.tvtf.matmul(x, w)``, and back.

TVM prints a call of an op as ``R.name(...)`` only where the op's name begins with ``relax.``; others become
``T.Call("tvtf.matmul", ..., ret_ty=metadata[...])``, which can't be read back without its metadata. So a module is printed in terms
of ops of such names, which are registered for that alone, and which nothing else sees.
"""

from __future__ import annotations

import keyword
from typing import Any, TypeVar

from tvm import ir, relax
from tvm.ir import _ffi_api as ir_ffi

from tvtf.core.primitive import table
from tvtf.core.tvm_visitor import structural_map
from tvtf.core.variable_lock import Lock
from tvtf.ir import dialect

PREFIX = "tvtf."
PRINTED = "relax.tvtf."
_registering = Lock()
_printed: dict[str, ir.Op] = {}


def script(mod: ir.IRModule) -> str:
    """Formats a module of the dialect as TVMScript, with calls of primitives as ``R.tvtf.<name>(...)``.

    >>> import tvtf as tf
    >>> mod = tf.function(lambda x: tf.nn.relu(x)).get_concrete_function(tf.TensorSpec([2])).module()
    >>> [line.strip() for line in script(mod).splitlines() if "R.tvtf" in line]
    ['relu: R.Tensor((2,), dtype="float32") = R.tvtf.relu(x)']
    """
    renamed: dict[Any, Any] = {}
    functions = {var: _printable(func, renamed) for var, func in mod.functions_items()}
    return str(ir.IRModule(functions, attrs=mod.attrs).script())


def _printable(func: Any, renamed: dict[Any, Any]) -> Any:
    """Returns a copy of a Relax function that TVM can print as TVMScript and parse again.

    Primitives are replaced by ops that are registered for printing. Variables named like a Python keyword are renamed, since
    TVMScript is parsed as Python. ``renamed`` maps old variables to new ones, for all functions of a module.
    """
    if not isinstance(func, relax.Function):
        return func  # a kernel, which TVM can print

    def call(node: relax.Call) -> relax.Call:
        if not (isinstance(node.op, ir.Op) and node.op.name.startswith(PREFIX)):
            return node
        op = _printed_op(node.op.name.removeprefix(PREFIX))
        return relax.Call(op, node.args, node.attrs, node.ty_args, node.span, ret_ty=node.ty)

    def var(node: relax.Var) -> relax.Var:
        """Returns a variable whose name is not a Python keyword, which TVMScript can't parse."""
        if not keyword.iskeyword(node.name):
            return node
        if node not in renamed:
            renamed[node] = type(node)(_no_keyword(node.name), node.ty)
        return renamed[node]

    return structural_map(func, [(relax.Call, call), (relax.Var, var)])


def _no_keyword(name: str) -> str:
    """Returns a name that Python can parse: a keyword is followed by an underscore, such as ``while_``."""
    return f"{name}_" if keyword.iskeyword(name) else name


def _printed_op(name: str) -> ir.Op:
    """Returns the op that replaces the primitive ``name`` in printed TVMScript; registers the op on its first use.

    TVM prints a call as ``R.tvtf.name(...)`` only if the op's name begins with ``relax.``.
    """
    with _registering:
        if name not in _printed:
            op_name = PRINTED + _no_keyword(name)
            # If Ctrl-C interrupted an earlier call here, the op may be registered already.
            if op_name not in ir.Op.list_op_names():
                ir_ffi.RegisterOp(op_name, f"How {PREFIX}{name} is printed.")
            _printed[name] = ir.Op.get(op_name)
        return _printed[name]


# -- and back


class _Namespace:
    """The namespace ``R`` of a TVMScript text: TVM's own builders of Relax, and ``R.tvtf`` for the dialect."""

    def __init__(self, builders: Any) -> None:
        self.builders = builders
        self.tvtf = _Dialect()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.builders, name)


class _Dialect:
    """The namespace ``R.tvtf``: ``R.tvtf.matmul(x, w, transpose_a=True)`` builds a Relax call of a primitive."""

    def __getattr__(self, name: str) -> Any:
        """Returns a function that builds a Relax call of the primitive ``name``, for TVM's parser of TVMScript.

        A primitive whose name is a Python keyword has an underscore after it: ``R.tvtf.while_``.
        """
        bare_name = name.removesuffix("_")
        primitive_name = bare_name if keyword.iskeyword(bare_name) else name
        if name.startswith("__") or not table.among({primitive_name}):
            raise AttributeError(f"R.tvtf.{name}: the dialect has no primitive of that name")
        primitive = table[primitive_name]

        def call(*operands: Any, **attributes: Any) -> relax.Call:
            """Builds a call of the primitive; the type of the result is inferred later."""
            attrs = ir.make_node("ir.DictAttrs", **attributes)
            return relax.Call(dialect.relax_op(primitive), list(operands), attrs)

        return call


def parse(text: str) -> ir.IRModule:
    """Parses TVMScript that :func:`script` returned, and returns the module. It has no lines of the user's program.

    The text is code: TVM's parser evaluates expressions in it. Don't parse a text that you would not run.

    >>> import tvtf as tf
    >>> mod = tf.function(lambda x: tf.nn.relu(x)).get_concrete_function(tf.TensorSpec([2])).module()
    >>> ir.assert_structural_equal(parse(script(mod)), mod)

    Raises:
      tvm.error.DiagnosticError: the text can't be parsed.
    """
    from tvm import script as tvm_script  # its parser takes 0.1 s to import, which compiling needn't wait for
    from tvm.script import relax, tirx

    names = {"I": tvm_script.ir, "R": _Namespace(relax), "T": tirx, "TypeVar": TypeVar}
    return tvm_script.from_source(text, extra_vars=names)
