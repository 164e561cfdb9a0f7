"""The IR as people read it: one line a binding, short types, the user's line at its end; ``fn.ir(...)`` (docs/ir.md).

A value's type is written unless it is that of its first named operand. Functions that a binding uses (branches, loop bodies, fused
kernels before they are one) are indented under it. TVM's own text of the same module is ``fn.relax(...)``.
"""

from __future__ import annotations

from tvm import ir, relax, tirx

from tvtf.ir.entry import MAIN, Entry
from tvtf.ir.function_printer import FunctionPrinter, Page
from tvtf.ir.listing import Line, Listing, Token
from tvtf.ir.printed_signature import kernel_signature


def print_module(mod: ir.IRModule, entry: Entry | None = None) -> Listing:
    """Formats an IRModule for reading: ``main`` with the functions that it uses, then one line for each kernel.

    ``entry`` has the user's names of the function, its arguments and its results.
    """
    page = Page(mod, entry or Entry())
    functions: dict[str, relax.Function] = {}
    kernels: dict[str, tirx.PrimFunc] = {}
    for var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            functions[var.name_hint] = func
        elif isinstance(func, tirx.PrimFunc):
            kernels[var.name_hint] = func
    for name in sorted(functions, key=lambda name: (name != MAIN, name)):  # `main` first, as False sorts before True
        # A function that `page.printed` has is printed already, below its first use.
        if name not in page.printed:
            FunctionPrinter(page, name, functions[name], 0).write(page.entry.name if name == MAIN else name)
    if kernels:
        page.lines.append(Line(0, [Token("kernels", "keyword")]))
    for name in sorted(kernels):
        page.lines.append(Line(1, list(kernel_signature(name, kernels[name]))))
    return Listing(page.lines)
