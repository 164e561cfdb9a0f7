"""Equations between symbolic dims: solves them, and puts the solutions into Relax functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tvm import relax, tirx

from tvtf.core.deferred_shape import AnyShape
from tvtf.core.shape import TensorType, fresh_dim, same_dim, substitute_dim


def solved_equations(pairs: Iterable[Sequence[Any]], symbols: Sequence[tirx.Var]) -> dict[tirx.Var, Any]:
    """Solves equations between symbolic dims for the given symbols. Equations without a solution are ignored.

    For example, the pair ``(n, m)`` can give ``{n: m}``.

    Args:
      pairs: the two sides of each equation.
      symbols: the symbols to solve for.

    Returns:
      A mapping from a symbol to a number or to an expression of other ``symbols``.
    """
    values: dict[tirx.Var, Any] = {}
    for left, right in pairs:
        left, right = substitute_dim(left, values), substitute_dim(right, values)
        # A side that is a symbol may be replaced by the other side, unless that contains the symbol.
        choices = []
        for symbol, value in ((right, left), (left, right)):
            if isinstance(symbol, tirx.Var) and not is_among(symbol, symbols_of(value)):
                choices.append((symbol, value))
        if choices:
            # A symbol that isn't in `symbols` is replaced first, as the solution may not contain any.
            symbol, value = min(choices, key=lambda choice: is_among(choice[0], symbols))
            values = {solved: substitute_dim(old_value, {symbol: value}) for solved, old_value in values.items()}
            values[symbol] = value
    solution = {}
    for symbol, value in values.items():
        if is_among(symbol, symbols) and all(is_among(used, symbols) for used in symbols_of(value)):
            solution[symbol] = value
    return solution


def is_among(symbol: tirx.Var, symbols: Sequence[tirx.Var]) -> bool:
    """Returns whether a symbol is one of ``symbols``."""
    # `in` would compare by `==`, which builds an expression in TVM.
    return any(symbol.same_as(other) for other in symbols)


def symbols_of(dim: Any) -> Sequence[tirx.Var]:
    """Returns the symbols that occur in a dim."""
    return [] if isinstance(dim, int) else list(tirx.analysis.undefined_vars(dim))


def with_dims(function: relax.Function, assumed: Mapping[tirx.Var, Any]) -> relax.Function:
    """Returns a copy of a Relax function with symbolic dims replaced by their values in ``assumed``.

    TVM's ``bind_symbolic_vars`` replaces only dims that occur in parameters. So a temporary last parameter, ``dims``,
    lists all symbols to replace, also symbols that the function computes. This parameter is removed afterwards.
    """
    free = list(relax.analysis.free_symbolic_vars(function))
    symbols = [*relax.analysis.defined_symbolic_vars(function), *free]
    values = {symbol: value for symbol, value in assumed.items() if is_among(symbol, symbols)}
    if not values:
        return function
    dims = relax.Var("dims", relax.TensorType([*values, *free], "int64"))
    extended = relax.Function([*function.params, dims], function.body, function.ret_ty, is_pure=function.is_pure)
    bound = extended.bind_symbolic_vars(values)
    return relax.Function(bound.params[:-1], bound.body, bound.ret_ty, is_pure=bound.is_pure)


def with_readable_dims(types: Sequence[TensorType]) -> list[TensorType]:
    """Returns the types of a function's parameters with a new symbol for each dim that the function couldn't compute.

    A compiled function reads sizes from the shapes of its arguments. From a dim such as ``m * n`` alone it can't compute
    ``m``, which TVM would refuse. Dims whose symbols are all dims of parameters themselves stay.
    """
    readable = []
    for ty in types:
        if not isinstance(ty.shape, AnyShape):
            readable += [dim for dim in ty.shape if isinstance(dim, tirx.Var)]
    renamed: list[tuple[Any, Any]] = []

    def readable_dim(dim: Any) -> Any:
        """Returns the dim, or the symbol that stands for all dims equal to it."""
        if all(is_among(symbol, readable) for symbol in symbols_of(dim)):
            return dim
        for renamed_dim, symbol in renamed:
            if same_dim(dim, renamed_dim):
                return symbol
        symbol = fresh_dim("size")
        renamed.append((dim, symbol))
        return symbol

    def readable_type(ty: TensorType) -> TensorType:
        return ty if isinstance(ty.shape, AnyShape) else ty._replace(shape=tuple(map(readable_dim, ty.shape)))

    return list(map(readable_type, types))
