"""Builds the kernel that computes a call of a primitive, from the function that describes it with TE tensors.

Relax's `gen_call_tir_inputs` does the same for arguments of any kind. For the operands and attributes of the dialect it
takes three times as long as making the kernel itself, and gives the parameters for sizes in an order that changes from
run to run.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tvm import ir, relax, te, tirx
from tvm.relax.expr import te_tensor
from tvm.te import create_prim_func

from tvtf.core.tvm_visitor import structural_map, structural_walk


class BuiltKernel(NamedTuple):
    """A kernel, the arguments that a call passes to it, and the types of its results."""

    function: tirx.PrimFunc
    arguments: list[ir.Expr]
    result_types: list[relax.TensorType]


def build_kernel(compute: Callable[..., Any], *inputs: ir.Expr, **attrs: Any) -> BuiltKernel:
    """Builds the kernel of a primitive's call.

    The kernel has its own symbolic sizes in place of the caller's. Sizes that aren't a dim of any tensor, for example
    the size of a new tensor, become parameters of the kernel after its tensors.

    Args:
      compute: returns the TE tensor or tensors that the kernel computes, for TE tensors and attributes.
      inputs: the call's operands: tensors, or a shape, for which `compute` gets a list of sizes.
      attrs: the attributes; sizes in them, also in nested tuples, may be symbolic.
    """
    builder = _Builder()
    operands = [builder.operand(value) for value in inputs]
    results = compute(*operands, **{name: builder.attribute(value) for name, value in attrs.items()})
    return builder.kernel([results] if isinstance(results, te.Tensor) else list(results))


class _Builder:
    """The tensors and symbolic sizes of one kernel."""

    def __init__(self) -> None:
        """Starts a kernel without operands.

        Attributes:
          sizes: the kernel's symbolic size for each one of the caller.
          tensors: the kernel's operands that are tensors.
          arguments: the values that the caller passes for these operands.
          used: the sizes in shape operands and attributes, which may occur in no tensor's shape.
        """
        self.sizes: dict[ir.Var, tirx.Var] = {}
        self.tensors: list[te.Tensor] = []
        self.arguments: list[ir.Expr] = []
        self.used: list[ir.Expr] = []

    def operand(self, value: ir.Expr) -> te.Tensor | list[ir.Expr]:
        """Converts an operand of the call for the kernel: returns a TE tensor, or the sizes of a shape."""
        if isinstance(value.ty, relax.ShapeType):
            return [self.size(size) for size in value.values]
        for size in value.ty.shape.values:
            self._rename_symbols(size)
        position = len(self.tensors)
        letters = string.ascii_uppercase
        default_name = letters[position] if position < len(letters) else f"tensor_input_{position}"
        name = value.name if isinstance(value, relax.Var) else default_name
        tensor = te_tensor(value, self.sizes, name)
        self.tensors.append(tensor)
        self.arguments.append(value)
        return tensor

    def attribute(self, value: Any) -> Any:
        """Returns an attribute with the kernel's own symbolic sizes."""
        if isinstance(value, tuple | list):
            return type(value)(map(self.attribute, value))
        return self.size(value) if isinstance(value, ir.Expr) else value

    def size(self, value: ir.Expr) -> ir.Expr:
        """Returns a size of the caller in terms of the kernel's own sizes, which the call then has to pass."""
        self._rename_symbols(value)
        own = _replaced(value, self.sizes)
        self.used.append(own)
        return own

    def _rename_symbols(self, size: ir.Expr) -> None:
        """Makes a new variable for each symbol of a size that has none."""
        for symbol in _symbols([size]):
            self.sizes.setdefault(symbol, ir.Var(symbol.name, symbol.ty))

    def kernel(self, results: list[te.Tensor]) -> BuiltKernel:
        """Returns the kernel that computes TE tensors, and what its caller passes to it."""
        sizes_of_tensors = [size for tensor in (*self.tensors, *results) for size in tensor.shape]
        # The kernel can read these symbols from the shapes of its tensors. The results are passed as tensors, too.
        dims_of_tensors = {size for size in sizes_of_tensors if isinstance(size, ir.Var)}
        passed = [symbol for symbol in _symbols([*sizes_of_tensors, *self.used]) if symbol not in dims_of_tensors]
        function = create_prim_func([*self.tensors, *passed, *results], "int64").without_attr("global_symbol")
        # `compute` may also use symbols of the caller that no operand or attribute has. These aren't renamed.
        callers_sizes = {own: symbol for symbol, own in self.sizes.items()}
        arguments = [*self.arguments, *(callers_sizes.get(symbol, symbol) for symbol in passed)]
        types = []
        for result in results:
            shape = relax.ShapeExpr([_replaced(size, callers_sizes) for size in result.shape])
            types.append(relax.TensorType(shape, result.dtype))
        return BuiltKernel(function, arguments, types)


def _symbols(sizes: Iterable[ir.Expr]) -> list[ir.Var]:
    """Returns the symbols that occur in sizes, each once, in the order of their first occurrences."""
    symbols: dict[ir.Var, None] = {}
    for size in sizes:
        if isinstance(size, ir.Var):
            symbols[size] = None
        elif not isinstance(size, tirx.IntImm):
            structural_walk(size, (ir.Var, lambda symbol: symbols.setdefault(symbol)))
    return list(symbols)


def _replaced(size: ir.Expr, replacements: dict[ir.Var, ir.Var]) -> ir.Expr:
    """Returns a size with other symbols."""
    if isinstance(size, tirx.IntImm):
        return size
    return structural_map(size, (ir.Var, lambda symbol: replacements.get(symbol, symbol)))
