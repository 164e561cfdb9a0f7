"""Calls Python that a program begins with before its compiled code: ``next(iterator)`` of a training step.

A call out of compiled code copies its operands: 25 us a call, against 15 us if Python is called first and its results
are arguments of the code. That is valid if nothing before the call can fail or be observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import ir, relax, tirx

from tvtf.core.dlpack_view import to_handle
from tvtf.dtypes import ON_HOST
from tvtf.ir import dialect
from tvtf.ops.host import run_of_ranks, run_plain, runs_on_host
from tvtf.passes.graph.runtime_checks import PYTHON, calls_python
from tvtf.state.variable import Variable


class LeadingCall:
    """A call of Python at the start of ``main``, to be run before the compiled code."""

    is_only_call: bool
    """Whether the program calls no other Python."""

    def __init__(self, call: relax.VarBinding, positions: Sequence[int]) -> None:
        """Builds the record of ``call``; ``positions`` are the indices of its operands among the parameters of ``main``."""
        self.call = call
        self.key, *self.inputs = positions  # the first operand says which Python function is called
        self.ranks = [len(shape) for shape in dialect.read(call.value).attrs["shapes"]]

    def without(self, main: relax.Function) -> relax.Function:
        """Returns ``main`` without the call of Python, whose results become the last parameters of ``main``."""
        block, *other_blocks = main.body.blocks
        results = []
        other_bindings = []
        for binding in block.bindings:
            if self._is_result(binding.value):  # an element of the tuple that the call returns
                results.append(binding.var)
            elif not binding.var.same_as(self.call.var):
                other_bindings.append(binding)
        body = relax.SeqExpr([relax.BindingBlock(other_bindings), *other_blocks], main.body.body)
        # The last result is the id under which a gradient finds the recorded call; nothing is recorded here.
        params = [*main.params, *results[:-1]]
        return relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)

    def _is_result(self, value: relax.Expr) -> bool:
        """Returns whether ``value`` is an element of the tuple that the call returns."""
        return isinstance(value, relax.TupleGetItem) and value.tuple_value.same_as(self.call.var)

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """Calls Python with the arguments of ``main``, and returns the results as handles for compiled code.

        Raises:
          OtherRanks: the results don't have the ranks that the code was compiled for.
        """
        key, *inputs = (arguments[position].eager_array() for position in (self.key, *self.inputs))
        # The last result is the id of a recorded call; nothing is recorded here.
        return [to_handle(array) for array in run_of_ranks(key, inputs, run_plain, self.ranks)[:-1]]


def leading_call(graph: Any, captures: Sequence[Any]) -> LeadingCall | None:
    """Returns the call of Python that can run before the compiled code of ``graph``, or None if there is none.

    The first call of Python in the graph can't run before the code in four cases: a gradient may need the record of
    the call, the code must write Variables first (``tf.py_function``), an operand is a Variable, or the program has strings.

    Args:
      graph: the traced graph.
      captures: the captured tensors and Variables of the graph.
    """
    python, blocks = graph.root.python, graph.function.body.blocks
    if not python.any or python.barriers or graph.holds_texts or not blocks:
        return None
    call = next((binding for binding in blocks[0].bindings if not _is_harmless(binding)), None)
    if call is None or not _is_plain(call.value):
        return None
    positions = {param._var: position for position, param in enumerate(graph.all_params)}
    arguments = dialect.read(call.value).inputs
    operands = [positions[argument] for argument in arguments if argument in positions]
    variables = {len(graph.params) + i for i, capture in enumerate(captures) if isinstance(capture, Variable)}
    # Operands that the code computes don't exist before the code runs.
    if len(operands) < len(arguments) or not variables.isdisjoint(operands):
        return None
    leading = LeadingCall(call, operands)
    main = leading.without(graph.function)
    if relax.analysis.free_vars(main):  # the code uses the tuple of results as a whole, or the id of the record
        return None
    leading.is_only_call = not any(map(calls_python, (main, *graph.reachable().values())))
    return leading


def _is_harmless(binding: relax.Binding) -> bool:
    """Returns whether a binding can't fail and has no side effects, so that a call of Python may move ahead of it.

    In the program's order the op runs before Python: if it failed, Python must not have been called.
    """
    value = binding.value
    if not isinstance(value, relax.Call):  # a constant, a variable or an element of a tuple
        return True
    if not dialect.is_dialect(value) or not isinstance(binding.var.ty, relax.TensorType):
        return False
    shape = binding.var.ty.shape
    # Ops on unknown sizes may find at run time that the sizes don't match.
    if shape is None or not all(isinstance(dim, tirx.IntImm) for dim in shape.values):
        return False
    bound = dialect.read(value)
    prim = bound.primitive
    return prim.pure and prim.guard is None and not runs_on_host(prim, dialect.dtypes_of(value, bound))


def _is_plain(value: relax.Expr) -> bool:
    """Returns whether a value is a call of Python that no gradient needs, without string operands and results."""
    if not dialect.is_dialect(value) or value.op.name != f"tvtf.{PYTHON}":
        return False
    attrs = dialect.read(value).attrs
    return not (attrs["differentiable"] or attrs["backward"] or any(dtype in ON_HOST for dtype in attrs["dtypes"]))


def without_leading(mod: ir.IRModule, call: LeadingCall | None) -> ir.IRModule:
    """Removes the call of Python with which the program begins from a module: ``main`` takes the call's results instead.

    Such a call, for example ``next(iterator)``, is made before the compiled code runs. It then takes 15 us instead of 25.
    If ``call`` is None, the module is returned unchanged.
    """
    if call is None:
        return mod
    main = mod.get_global_var("main")
    return ir.IRModule(dict(mod.functions.items()) | {main: call.without(mod[main])})
