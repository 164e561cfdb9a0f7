"""Differentiates any Relax function as a pass: stock ops or the tvtf dialect, whatever built the module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import ir, relax

from tvtf.core.thread_state import state
from tvtf.ir import dialect
from tvtf.ir.interpreter import evaluate
from tvtf.ir.trace import Trace, tracing
from tvtf.ops.indexed_slices import as_dense
from tvtf.ops.rules import zeros_like
from tvtf.passes.autodiff.reverse_mode import Recorder, ones_for, sweep
from tvtf.passes.graph.import_relax import Imported


def gradient(mod: tvm.IRModule, name: str = "main", wrt: Sequence[str | int] | None = None) -> tvm.IRModule:
    """Adds ``<name>_adjoint``: the function's outputs, then the gradient of their sum by each of ``wrt``.

    Args:
      mod: any module; stock Relax ops in the function are translated into the tvtf dialect.
      name: the function to differentiate.
      wrt: parameters by name or position; all floating-point ones where None.

    Returns:
      A module with ``<name>_adjoint(params) -> (*outputs, *gradients)`` and ``name`` in the dialect. A parameter that
      no output depends on has a gradient of zeros.

    >>> import tvtf as tf
    >>> from tvtf import passes
    >>> f = tf.function(lambda x: tf.reduce_sum(x * x))
    >>> mod = f.get_concrete_function(tf.TensorSpec([3], tf.float32)).module()
    >>> [g.name_hint for g in passes.gradient(mod).get_global_vars()]
    ['main', 'main_adjoint']

    Raises:
      ValueError: when ``wrt`` names no parameter.
      LookupError: an op on the way has no gradient.

    Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 3; the counterpart of ``relax.transform.Gradient``.
    """
    function = mod[name]
    chosen = (
        [_param_position(function, which) for which in wrt] if wrt is not None else _differentiable_positions(function)
    )
    forward, adjoint = _emit_function(mod, name, None), _emit_function(mod, name, chosen)
    functions = {ir.GlobalVar(name): forward.function, ir.GlobalVar(f"{name}_adjoint"): adjoint.function}
    named = {var: func.with_attr("global_symbol", var.name_hint) for var, func in functions.items()}
    return tvm.IRModule(named | forward.reachable() | adjoint.reachable())


def _param_position(function: relax.Function, which: str | int) -> int:
    """Returns the position of a function's parameter.

    Args:
      function: the function.
      which: the position or the name of the parameter.

    Raises:
      ValueError: the function has no such parameter.
    """
    names = [param.name for param in function.params]
    if isinstance(which, int) and 0 <= which < len(names):
        return which
    if which in names:
        return names.index(which)
    raise ValueError(f"wrt={which!r} is not a parameter of the function, whose parameters are {names}")


def _differentiable_positions(function: relax.Function) -> list[int]:
    return [i for i, param in enumerate(function.params) if dialect.from_relax_type(param.ty).dtype.is_differentiable]


def _emit_function(mod: tvm.IRModule, name: str, wrt: list[int] | None) -> Any:
    """Converts a function of a module to the ``tvtf`` dialect, by tracing the function's evaluation.

    In a trace, evaluation inlines the functions that are called.

    Args:
      mod: the module.
      name: the name of the function.
      wrt: the positions of parameters whose gradients the new function also returns, after its outputs; None for no
        gradients.
    """
    new_name = name if wrt is None else f"{name}_adjoint"
    with tracing(Trace(new_name)) as trace:
        params = [trace.add_param(dialect.from_relax_type(param.ty), param.name) for param in mod[name].params]
        if wrt is None:
            outputs = list(evaluate(mod, name, params, Imported))
        else:
            outputs = list(_with_gradients(mod, name, params, wrt))
    return trace.finish(outputs)


def _with_gradients(mod: tvm.IRModule, name: str, params: list[Any], wrt: list[int]) -> list[Any]:
    """Evaluates a function, and differentiates the sum of its outputs in reverse mode.

    A parameter that no output depends on has a gradient of zeros.

    Args:
      mod: the module.
      name: the name of the function.
      params: the values of the function's parameters.
      wrt: the positions of the parameters to differentiate with respect to.

    Returns:
      the outputs, then the gradient of each of these parameters.
    """
    recorder = Recorder()
    for i in wrt:
        recorder.watch(params[i])
    # These ops are the compiler's: no tape of the user's may record them.
    state.tapes = [recorder]
    outputs = evaluate(mod, name, params, Imported)
    state.tapes = []
    targets = [output for output in outputs if output.dtype.is_differentiable]
    cotangents = sweep(recorder.records, zip(targets, ones_for(targets)), [params[i] for i in wrt])
    gradients = []
    for i, cotangent in zip(wrt, cotangents):
        gradients.append(zeros_like(params[i]) if cotangent is None else as_dense(cotangent))
    return [*outputs, *gradients]
