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
from tvtf.ops.host import plain, run_of_ranks, runs_on_host
from tvtf.passes.graph.runtime_checks import PYTHON, calls_python
from tvtf.state.variable import Variable


class LeadingCall:
    """A call of Python that ``main`` begins with; ``places`` are the parameters of ``main`` that it takes."""

    is_only: bool
    """Whether the program calls no other Python."""

    def __init__(self, call: relax.VarBinding, places: Sequence[int]) -> None:
        self.call = call
        self.key, *self.inputs = places
        self.ranks = [len(shape) for shape in dialect.read(call.value).attrs["shapes"]]

    def without(self, main: relax.Function) -> relax.Function:
        """Returns ``main`` with the call's results as its last parameters."""
        block, *other_blocks = main.body.blocks
        parts = [b for b in block.bindings if self._is_part(b.value)]
        rest = [b for b in block.bindings if not (b.var.same_as(self.call.var) or self._is_part(b.value))]
        body = relax.SeqExpr([relax.BindingBlock(rest), *other_blocks], main.body.body)
        # The last result is the number under which a gradient finds the recorded call; nothing is recorded here.
        params = [*main.params, *(b.var for b in parts[:-1])]
        return relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)

    def _is_part(self, value: Any) -> bool:
        return isinstance(value, relax.TupleGetItem) and value.tuple_value.same_as(self.call.var)

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """Calls Python on the arguments of ``main``; returns its results as compiled code takes them.

        Raises:
          OtherRanks: the results have other ranks than those that the code was compiled for.
        """
        key, *inputs = (arguments[place].eager_array() for place in (self.key, *self.inputs))
        return [to_handle(array) for array in run_of_ranks(key, inputs, plain, self.ranks)[:-1]]


def leading_call(graph: Any, captures: Sequence[Any]) -> LeadingCall | None:
    """Returns the call of Python that can run before the code of ``graph``, None if there is none.

    There is none if a gradient may need its record, if Variables are written before it (``tf.py_function``), if it
    takes a Variable's value, or if strings pass through it.
    """
    python, blocks = graph.root.python, graph.function.body.blocks
    if not python.any or python.barriers or graph.holds_texts or not blocks:
        return None
    call = next((b for b in blocks[0].bindings if not _is_harmless(b)), None)
    if call is None or not _is_plain(call.value):
        return None
    places = {param._var: place for place, param in enumerate(graph.all_params)}
    arguments = dialect.read(call.value).inputs
    operands = [places[argument] for argument in arguments if argument in places]
    variables = {len(graph.params) + i for i, capture in enumerate(captures) if isinstance(capture, Variable)}
    if len(operands) < len(arguments) or not variables.isdisjoint(operands):
        return None
    leading = LeadingCall(call, operands)
    main = leading.without(graph.function)
    if relax.analysis.free_vars(main):
        return None
    leading.is_only = not any(map(calls_python, (main, *graph.reachable().values())))
    return leading


def _is_harmless(binding: relax.Binding) -> bool:
    """Returns whether a binding may run before or after the call of Python: it can't fail and has no effects."""
    value = binding.value
    if not isinstance(value, relax.Call):
        return True
    if not dialect.is_dialect(value) or not isinstance(binding.var.ty, relax.TensorType):
        return False
    bound = dialect.read(value)
    prim, type_ = bound.primitive, binding.var.ty
    is_static = type_.shape is not None and all(isinstance(d, tirx.IntImm) for d in type_.shape.values)
    return is_static and prim.pure and prim.guard is None and not runs_on_host(prim, dialect.dtypes_of(value, bound))


def _is_plain(value: Any) -> bool:
    """Returns whether a value is a call of Python on numbers that needs no gradient."""
    if not dialect.is_dialect(value) or value.op.name != f"tvtf.{PYTHON}":
        return False
    attrs = dialect.read(value).attrs
    return not (attrs["differentiable"] or attrs["backward"] or any(dtype in ON_HOST for dtype in attrs["dtypes"]))


def without_leading(mod: ir.IRModule, call: LeadingCall | None) -> ir.IRModule:
    """Returns the module whose ``main`` takes the results of ``call``."""
    if call is None:
        return mod
    main = mod.get_global_var("main")
    return ir.IRModule(dict(mod.functions.items()) | {main: call.without(mod[main])})
