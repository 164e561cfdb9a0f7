"""In-place updates of stacks that a loop carries: finds those that may be overwritten, and builds the kernels that do.

A loop's body may overwrite a carried stack if its only uses are one ``stack_write`` or ``stack_add`` and any
``stack_read`` before that. The loop then starts from a copy of its operand, which the caller may still read.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import tvm
from tvm import relax, tirx

from tvtf.ir import dialect
from tvtf.ir.dialect import bindings_of
from tvtf.ops.kernels.common import INDEPENDENT

READ = "stack_read"
WRITES = ("stack_write", "stack_add", "stack_add_rows")
LOOPS = ("while", "effect_while")


class InPlace:
    """The stacks that loops of a module may overwrite: variables in ``owned``, and carried positions by loop body."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.owned: set[relax.Var] = set()
        self.carried: dict[str, set[int]] = {}
        bodies = {loop.attrs["body"].name_hint: loop.attrs["carried"] for loop in _loops(mod)}
        for name, count in bodies.items():
            self._find_overwritable(name, mod[name], count)

    def _find_overwritable(self, name: str, body: relax.Function, count: int) -> None:
        """Finds the stacks that writes in a loop's body may overwrite, and adds them to ``owned`` and ``carried``.

        A write may overwrite a carried stack, or the result of an earlier write, if nothing else uses this value later.

        Args:
          name: the name of the body.
          body: the loop's body. Its first ``count`` parameters are the carried values.
        """
        uses = _uses(body)  # the number of uses of each variable that are still to come
        params = {param: position for position, param in enumerate(body.params[:count])}
        overwritable = set(params)
        self.carried[name] = set()
        for binding in bindings_of(body.body):
            if not dialect.is_dialect(binding.value):
                continue
            bound = dialect.read(binding.value)
            if bound.primitive.name == READ:
                # A read before the write does no harm: it has copied the row by then.
                stack, *_ = bound.inputs
                uses[stack] -= 1
            elif bound.primitive.name in WRITES:
                stack, *_ = bound.inputs
                if stack in overwritable and uses[stack] == 1:
                    self.owned.add(stack)
                    if stack in params:
                        self.carried[name].add(params[stack])
                    overwritable.add(binding.var)


def _loops(mod: tvm.IRModule) -> list[dialect.Bound]:
    """Returns the loops of a module."""
    functions = [func for func in mod.functions.values() if isinstance(func, relax.Function)]
    calls = [
        binding.value for func in functions for binding in bindings_of(func.body) if dialect.is_dialect(binding.value)
    ]
    return [bound for bound in map(dialect.read, calls) if bound.primitive.name in LOOPS]


def _uses(func: relax.Function) -> Counter[relax.Var]:
    """Counts how often each variable of a function is used, in bindings and in the function's result.

    A stack that is used once can be overwritten in place.
    """
    counts: Counter[relax.Var] = Counter()

    def count(expr: Any) -> None:
        """Counts the use if an expression is a variable."""
        if isinstance(expr, relax.Var):
            counts[expr] += 1

    for binding in bindings_of(func.body):
        relax.analysis.post_order_visit(binding.value, count)
    relax.analysis.post_order_visit(func.body.body, count)
    return counts


def slice_kernel(name: str, buffer: relax.TensorType, index: relax.TensorType) -> tirx.PrimFunc:
    """Builds ``kernel(buffer, index, value)``, which writes ``value`` to ``buffer[index]`` in place.

    With the name "stack_add", the kernel adds ``value``. The time is proportional to the size of ``value``, and not to
    the size of the buffer.

    Args:
      name: the name of the primitive.
      buffer: the type of the buffer.
      index: the type of the index, a scalar.
    """
    dtype = str(buffer.dtype)
    shape = [_extent(dim, i) for i, dim in enumerate(buffer.shape.values)]
    target = tirx.decl_buffer(shape, dtype, "buffer")
    index_buffer = tirx.decl_buffer((), str(index.dtype), "index")
    value = tirx.decl_buffer(shape[1:], dtype, "value")
    axes = [tirx.Var(f"i{i}", "int64") for i in range(len(shape) - 1)]
    indices = [tirx.Cast("int64", tirx.BufferLoad(index_buffer, [])), *axes]
    new_element = tirx.BufferLoad(value, axes)
    if name == "stack_add":
        new_element = tirx.BufferLoad(target, indices) + new_element
    store = tirx.BufferStore(target, new_element, indices)
    return _scheduled([target, index_buffer, value], _loops_over(axes, shape[1:], store))


def _loops_over(axes: list[tirx.Var], extents: list[Any], body: Any) -> Any:
    """Returns a nest of serial loops, outermost first, whose iterations are independent of each other."""
    for axis, extent in reversed(list(zip(axes, extents, strict=True))):
        body = tirx.For(axis, tirx.IntImm("int64", 0), extent, tirx.ForKind.SERIAL, body, annotations=INDEPENDENT)
    return body


def rows_kernel(buffer: relax.TensorType, row_indices: relax.TensorType) -> tirx.PrimFunc:
    """Builds ``kernel(buffer, row_indices, values)``, which adds ``values[i]`` to ``buffer[row_indices[i]]`` in place.

    Negative indices are skipped. The arguments are the types of ``buffer`` and ``row_indices``.
    """
    dtype = str(buffer.dtype)
    zero = tirx.IntImm("int64", 0)
    shape = [_extent(dim, i) for i, dim in enumerate(buffer.shape.values)]
    rows = _extent(row_indices.shape.values[0], len(shape))
    target = tirx.decl_buffer(shape, dtype, "buffer")
    row_index_buffer = tirx.decl_buffer([rows], str(row_indices.dtype), "places")
    values = tirx.decl_buffer([rows, *shape[1:]], dtype, "values")
    row = tirx.Var("row", "int64")
    axes = [tirx.Var(f"i{i}", "int64") for i in range(len(shape) - 1)]
    target_row = tirx.Cast("int64", tirx.BufferLoad(row_index_buffer, [row]))
    indices = [target_row, *axes]
    new_element = tirx.BufferLoad(target, indices) + tirx.BufferLoad(values, [row, *axes])
    add_row = _loops_over(axes, shape[1:], tirx.BufferStore(target, new_element, indices))
    add_if_valid = tirx.IfThenElse(tirx.GE(target_row, zero), add_row, None)
    # Rows are added serially, since several may have the same index.
    add_rows = tirx.For(row, zero, rows, tirx.ForKind.SERIAL, add_if_valid)
    return _scheduled([target, row_index_buffer, values], add_rows)


def _scheduled(params: list[Any], body: Any) -> tirx.PrimFunc:
    """Builds a kernel that is marked as scheduled, and as ``noalias`` to let LLVM vectorize it.

    No operand shares the stack's memory.
    """
    return tirx.PrimFunc(params, body).with_attrs({"tirx.is_scheduled": True, "tirx.noalias": True})


def _extent(dim: Any, axis: int) -> Any:
    """Returns a static dim as a constant, and a symbolic one as a variable of the kernel's own."""
    return tirx.IntImm("int64", int(dim.value)) if isinstance(dim, tirx.IntImm) else tirx.Var(f"n{axis}", "int64")
