"""Compiles heavy primitives that are called eagerly, once per kind of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tvtf.core.primitive import Primitive, hooks, quietly, table
from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor, wrap
from tvtf.core.thread_state import debug_settings
from tvtf.runtime.heap import keep_freed_memory

WORTH_COMPILING = 1 << 15
"""Minimum number of operand elements for which the compiled kernel's speed outweighs its compilation.

Compilation takes about 0.1 s, and its result is cached on disk."""
WORTH_WHEN_REPEATED = 1 << 16
"""The same for primitives that NumPy runs well enough: they are compiled only when the call repeats."""
_NUMPY_CALLS = 2
"""How many such calls NumPy runs before the kernel is compiled."""


def run_heavy(prim: Primitive[Any], inputs: Sequence[EagerTensor], attrs: dict[str, Any], expected: Any) -> Any:
    """Runs a primitive on eager tensors: the compiled kernel for large operands, NumPy for small ones."""
    if _is_worth_compiling(prim, inputs, attrs):
        results = _compiled(*_call_key(prim, inputs, attrs))._run(inputs)
        return results[0] if type(expected) is TensorType else results
    arrays = quietly(prim.numpy, [x._array for x in inputs], attrs)
    return wrap(arrays, expected) if type(expected) is TensorType else tuple(map(wrap, arrays, expected))


def _is_worth_compiling(prim: Primitive[Any], inputs: Sequence[EagerTensor], attrs: dict[str, Any]) -> bool:
    """Returns whether an eager op should run as compiled code rather than in NumPy.

    Compilation takes longer than a few calls in NumPy, so it is worthwhile for large operands and repeated calls.

    Args:
      prim: the primitive.
      inputs: its inputs.
      attrs: its attributes.
    """
    if debug_settings.verify:  # verification compares compiled code with what NumPy computes in eager calls
        return False
    element_count = sum([x._array.size for x in inputs])
    if prim.heavy == "always":
        return element_count >= WORTH_COMPILING
    if element_count < WORTH_WHEN_REPEATED:
        return False
    if any(x._array.dtype.kind not in "biuf" for x in inputs):  # bool, int, uint and float
        return False
    counter = _call_counter(*_call_key(prim, inputs, attrs))
    counter[0] += 1
    return counter[0] > _NUMPY_CALLS


def _call_key(prim: Primitive[Any], inputs: Sequence[EagerTensor], attrs: dict[str, Any]) -> Any:
    return prim.name, tuple([x._type for x in inputs]), tuple(attrs.items())


@lru_cache(maxsize=512)
def _call_counter(name: str, types: tuple[TensorType, ...], attrs: tuple[Any, ...]) -> list[int]:
    """Returns the counter of such calls; the cache keeps it."""
    return [0]


@lru_cache(maxsize=512)
def _compiled(name: str, types: tuple[TensorType, ...], attrs: tuple[Any, ...]) -> Any:
    """Returns a primitive as a compiled function for operands of these types; the cache keeps it for later calls."""
    from tvtf.frontend.function.executor import GraphFunction
    from tvtf.ir.trace import trace_graph

    keep_freed_memory()  # page faults for freed and allocated tensors took a fifth of a step
    graph = trace_graph(name, lambda *xs: table[name].bind(*xs, **dict(attrs)), types)
    return GraphFunction(graph)


hooks.run_compiled = run_heavy
