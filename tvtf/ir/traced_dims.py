"""What a trace knows of symbolic dims: which are equal, and what they broadcast to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tvm import tirx

from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import hooks
from tvtf.core.shape import same_dim, solve_for_symbol, substitute_dim
from tvtf.core.tensor import SymbolicTensor
from tvtf.ir.dim_equations import is_among, symbols_of


class TracedDims:
    """The part of a trace that infers equalities of symbolic dims, and the results of their broadcasts."""

    params: list[SymbolicTensor]
    root: TracedDims
    """The outermost trace, which has the assumptions of all."""
    assumptions: dict[tirx.Var, Any]
    """Dims that symbols are assumed to equal. Compiled code checks these equalities."""
    speculated_equalities: list[tuple[Any, Any]]
    """Pairs of dims that broadcast unless they are equal."""
    broadcasts: list[tuple[list[Any], Any]]
    """The dims of one axis of operands, and the dim that they broadcast to."""
    is_in_branch: bool
    """Whether a call may leave the trace's code out."""
    compared_dims: list[tuple[Any, Any]]
    """Pairs of dims that the program has compared at this point."""
    with_parents: Callable[[], Iterator[TracedDims]]

    def known_dim(self, dim: Any) -> Any:
        """Returns ``dim`` with its symbols replaced by the dims that they are assumed to equal so far."""
        return substitute_dim(dim, self.assumptions)

    def require_equal(self, a: Any, b: Any) -> bool:
        """Makes two symbolic dims equal, such as those of the operands of a product, and returns whether they can be.

        Dims of arguments are assumed to be equal. A dim that the program computes is compared at run time, where the
        trace now stands. An assumption would be checked where the dim is computed, and not at all if nothing else needs
        what computes it. In a branch or a loop's body all dims are compared: it may not run.
        """
        a = self.root.known_dim(a)
        b = self.root.known_dim(b)
        is_computed = self.root.computes(a) or self.root.computes(b)
        is_compared_at_run_time = self.is_in_branch or is_computed or _has_zero(a, b)
        if not is_compared_at_run_time:
            return self.root.assume_equal(a, b)
        for trace in self.with_parents():
            if any(_is_dim_among(a, pair) and _is_dim_among(b, pair) for pair in trace.compared_dims):
                return True  # they have been compared already
        hooks.compare_dims(a, b)
        return True

    def computes(self, dim: Any) -> bool:
        """Returns whether the program computes a dim, instead of reading it from the shapes of the arguments."""
        return not self._argument_symbols().issuperset(symbols_of(dim))

    def _argument_symbols(self) -> set[tirx.Var]:
        shapes = [param._type.shape for param in self.params if not isinstance(param._type.shape, AnyShape)]
        return {symbol for shape in shapes for dim in shape for symbol in symbols_of(dim)}

    def assume_equal(self, a: Any, b: Any) -> bool:
        """Assumes that two symbolic dims are equal, such as those of the operands of an addition.

        The equation is solved for one symbol, which the rest of the trace replaces by its value: after ``n == m + 1``,
        ``n`` is ``m + 1``. The compiled function checks the assumption at each call. The symbol is one of the two dims;
        if neither dim is a symbol, it is one with the factor 1 or -1 in the equation, as ``m`` in ``2 * n + m == 10``.

        Returns:
          Whether the equation could be solved. If not, nothing is assumed. That a size is 0 is never assumed: what the
          program divides by it elsewhere could not be written down.
        """
        a, b = self.known_dim(a), self.known_dim(b)
        if _has_zero(a, b):
            return False
        argument_symbols = self._argument_symbols()
        for symbol, value in ((b, a), (a, b)):
            if not isinstance(symbol, tirx.Var) or is_among(symbol, symbols_of(value)):  # `n == n + 1` has no solution
                continue
            # At run time the arguments' symbols are bound first. So the value of one of them must not contain a symbol
            # that the program computes, which is bound later. Of two symbols, either can stand for both.
            is_bound_in_time = (
                symbol not in argument_symbols
                or isinstance(value, tirx.Var)
                or argument_symbols.issuperset(symbols_of(value))
            )
            if is_bound_in_time:
                self._assume(symbol, value)
                return True
        # The general solution may be for any of the symbols, so all of them must be bound at the start.
        has_only_argument_symbols = argument_symbols.issuperset([*symbols_of(a), *symbols_of(b)])
        solution = solve_for_symbol(a, b) if has_only_argument_symbols else None
        if solution is not None:
            self._assume(*solution)
        return solution is not None

    def _assume(self, symbol: tirx.Var, value: Any) -> None:
        """Records that a symbol equals ``value``, and puts ``value`` into the earlier assumptions."""
        earlier = {other: substitute_dim(dim, {symbol: value}) for other, dim in self.assumptions.items()}
        self.assumptions = earlier | {symbol: value}

    # -- broadcasting of symbolic dims, any of which may be 1 at run time

    def common_dim(self, dims: Sequence[Any]) -> Any:
        """Returns the result of an earlier broadcast of the same dims, or None if there was no such broadcast.

        Reusing this dim avoids computing it again. ``dims`` are the operands' dims along one axis.
        """
        operands = self._operand_dims(dims)
        for trace in self.with_parents():
            for earlier_operands, result in trace.broadcasts:
                if len(earlier_operands) != len(operands):
                    continue
                if all(_is_dim_among(operand, earlier_operands) for operand in operands):
                    return result
        return None

    def note_broadcast(self, dims: Sequence[Any], dim: Any) -> None:
        """Records that operands with the sizes ``dims`` along an axis broadcast to the size ``dim``."""
        self.broadcasts.append((self._operand_dims(dims), dim))

    def _operand_dims(self, dims: Sequence[Any]) -> list[Any]:
        """Returns the distinct dims among ``dims``.

        A dim that an earlier broadcast resulted in is replaced by the operands of that broadcast.
        """
        broadcasts: list[Any] = []
        for trace in self.with_parents():
            broadcasts += trace.broadcasts
        distinct: list[Any] = []
        for dim in dims:
            operand_dims = [dim]
            for broadcast_dims, result in broadcasts:
                if same_dim(result, dim):
                    operand_dims = broadcast_dims
                    break
            distinct += [operand_dim for operand_dim in operand_dims if not _is_dim_among(operand_dim, distinct)]
        return distinct


def _has_zero(*dims: Any) -> bool:
    return any(isinstance(dim, int) and dim == 0 for dim in dims)


def _is_dim_among(dim: Any, dims: Iterable[Any]) -> bool:
    return any(same_dim(dim, other) for other in dims)
