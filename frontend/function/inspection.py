"""The IR of a traced function as people read and draw it (docs/ir.md): as it was traced, or after a phase of the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.frontend.function.executor import donations, entry_module
from tvtf.frontend.function.printed_names import (
    argument_names,
    captured_names,
    result_labels,
    variable_argument_names,
)
from tvtf.frontend.host.leading_python import leading_call
from tvtf.ir.drawing import Drawing, draw_module
from tvtf.ir.entry import Entry, Result
from tvtf.ir.listing import Listing
from tvtf.ir.printer import print_module
from tvtf.ir.provenance import UserLine, kernel_lines, kernel_parts
from tvtf.ir.short_types import MAX_ELEMENTS, cut, numbers
from tvtf.passes.pipeline import lower_through, phases
from tvtf.runtime.target import target_of

FUSED = "fuse"
"""The phase after which kernels have their names and calls still their lines."""
DRAWN = "in-place"
"""The phase after which kernels are drawn: they have the names under which they are timed, and no loops yet."""
DRAWN_BEFORE = "native-loops"


def traced_ir(concrete: Any, function: Callable[..., Any] | None) -> Listing:
    """Returns the printed IR of a function as it was traced."""
    pairs = [list(pair) for pair in donations(concrete.graph, concrete.results.updates)]
    mod = concrete.graph.with_attributes({"tvtf.donate": pairs}, bare=False)
    return print_module(mod, entry_of(concrete, function))


def lowered_ir(concrete: Any, function: Callable[..., Any] | None, phase: str) -> Listing:
    """Returns the printed IR of a function after a phase of its compilation; no machine code is generated or run.

    Raises:
      ValueError: no compiler phase has that name.
    """
    mod, lines, _ = module_after(concrete, phase)
    return print_module(mod, entry_of(concrete, function, lines))


def module_after(concrete: Any, phase: str) -> tuple[Any, dict[str, set[UserLine]], dict[str, list[str]]]:
    """Returns a traced function's module after a phase of the pipeline.

    Also returns the user's lines and the ops of each kernel, by its name; these are empty before fusion.
    """
    concrete.require_known_ranks()
    leading = leading_call(concrete.graph, concrete.captures)
    mod = entry_module(concrete, leading, bool(concrete.graph.speculated_equalities))
    lines: dict[str, set[UserLine]] = {}
    ops_of_kernels: dict[str, list[str]] = {}
    for name, lowered in lower_through(mod, target_of(state.device), phase):
        mod = lowered
        if name == FUSED:
            lines = kernel_lines(mod)
            ops_of_kernels = kernel_parts(mod)
    return mod, lines, ops_of_kernels


def draw(
    concrete: Any, function: Callable[..., Any] | None, seconds: Mapping[str, float] | None, phase: str
) -> Drawing:
    """Draws a function's kernels and the values that flow between them; ``seconds`` are the kernels' times, if known.

    Raises:
      ValueError: no compiler phase has that name, or after the phase calls write into memory, so that no edges are
        left.
    """
    if phase in names_after(DRAWN_BEFORE):
        raise ValueError(f"after {phase!r} values are places in memory: draw after {DRAWN!r}, or a phase before it")
    mod, lines, ops_of_kernels = module_after(concrete, phase)
    return draw_module(mod, entry_of(concrete, function, lines), ops_of_kernels, seconds)


def kernel_seconds(profile: Any) -> dict[str, float] | None:
    """Returns the seconds of each kernel in a profile, by name, or None without a profile."""
    return {kernel.name: kernel.seconds for kernel in profile.kernels} if profile else None


def names_after(first: str) -> list[str]:
    """Returns the names of a phase and of all that follow it."""
    names = [phase.name for phase in phases(target_of(state.device))]
    return names[names.index(first) :]


def entry_of(
    concrete: Any, function: Callable[..., Any] | None, lines: dict[str, set[UserLine]] | None = None
) -> Entry:
    """Returns the user's names of a compiled function's inputs and results, and its donated Variables, for printed IR.

    The IR has only generated names such as ``captured_1``, which mean nothing to a user.

    Args:
      concrete: the traced function.
      function: its Python function, from which names of captures are found; None if it no longer exists.
      lines: the user's lines of each kernel.
    """
    graph, results = concrete.graph, concrete.results
    param_names = [param._var.name for param in graph.all_params]
    captured = {inner._var.name: outer for outer, inner in graph.captures}
    names = argument_names(concrete.arguments, param_names[: len(graph.params)])
    names |= captured_names(function, captured)
    names |= variable_argument_names(concrete.arguments, captured)
    donated = frozenset(param_names[position] for _, position in donations(graph, results.updates))
    labels = result_labels(results.structure)
    printed_results = [Result(label, kind, _printable(source)) for label, (kind, source) in zip(labels, results.leaves)]
    return Entry(concrete.name, names, donated, printed_results, lines or {})


def _printable(which: Any) -> Any:
    """Returns the number of an output or a parameter; of a constant result, what it is."""
    if isinstance(which, EagerTensor) and which._array.size <= MAX_ELEMENTS:
        return cut(numbers(which._array.tolist(), which._array.dtype))
    return f"a constant of shape {which.shape}" if isinstance(which, Tensor) else which
