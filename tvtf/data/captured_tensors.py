"""Finds the symbolic tensors that functions capture, and replaces them by the values of a run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

from tvtf.core.tensor import SymbolicTensor
from tvtf.frontend.function.polymorphic_function import Function


def is_function(value: Any) -> bool:
    """Returns whether a value is a kind of function whose captures are searched."""
    return isinstance(value, (FunctionType, Function, partial, MethodType))


def captured_tensors(value: Any) -> list[SymbolicTensor]:
    """Returns the distinct tensors in a function's cells and defaults, and in the functions and containers there."""
    return list({id(tensor): tensor for tensor in _tensors(value, set())}.values())


def _tensors(value: Any, seen: set[int]) -> Iterator[SymbolicTensor]:
    """Yields the symbolic tensors to which a function or container refers, also through others."""
    if isinstance(value, SymbolicTensor):
        yield value
    elif id(value) not in seen:  # functions and containers may refer to themselves
        seen.add(id(value))
        for part in _parts(value):
            yield from _tensors(part, seen)


def _parts(value: Any) -> Iterator[Any]:
    """Yields what a function or container refers to directly: a closure's values and defaults, or elements.

    A captured tensor may be in any of these. :meth:`_CaptureReplacer.replaced` handles the same types.
    """
    if isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            if _is_filled(cell):
                yield cell.cell_contents
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
    elif isinstance(value, Function):
        yield value.python_function
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, MethodType):
        yield value.__func__
    elif type(value) in (list, tuple):
        yield from value
    elif type(value) is dict:
        yield from value.values()


def _is_filled(cell: CellType) -> bool:
    """Returns whether a closure's cell has a value; reading an empty one raises ValueError."""
    try:
        return cell.cell_contents is cell.cell_contents
    except ValueError:
        return False


def with_values(function: Any, values: dict[int, Any]) -> Any:
    """Returns a function that has ``values``, keyed by the identity of tensors, in place of the tensors it captures.

    Objects that refer to none of these tensors are shared, not copied, so that the function's side effects on them
    last.
    """
    return _CaptureReplacer(values).replaced(function)


class _CaptureReplacer:
    """Copies functions and containers with other values for tensors."""

    def __init__(self, values: dict[int, Any]) -> None:
        self.values = values
        self.copies: dict[int, FunctionType] = {}

    def replaced(self, value: Any) -> Any:
        """Returns ``value`` with the captured tensors in it, also in closures, replaced by their values."""
        if isinstance(value, SymbolicTensor):
            return self.values[id(value)]
        if not captured_tensors(value):
            return value
        if isinstance(value, FunctionType):
            return self.function(value)
        if isinstance(value, Function):
            return value.of_python(self.replaced(value.python_function))
        if isinstance(value, partial):
            return partial(self.replaced(value.func), *self.replaced(value.args), **self.replaced(value.keywords))
        if isinstance(value, MethodType):
            return MethodType(self.replaced(value.__func__), value.__self__)
        if type(value) is dict:
            return {key: self.replaced(item) for key, item in value.items()}
        return type(value)(map(self.replaced, value))

    def function(self, function: FunctionType) -> FunctionType:
        """Returns a copy of a function with the captured tensors in its closure and defaults replaced by their values.

        Functions that refer to each other get copies that refer to each other.
        """
        if id(function) in self.copies:
            return self.copies[id(function)]
        old_cells = function.__closure__ or ()
        cells = []
        for old_cell in old_cells:
            has_captured_tensors = _is_filled(old_cell) and captured_tensors(old_cell.cell_contents)
            cells.append(CellType() if has_captured_tensors else old_cell)
        copy = FunctionType(function.__code__, function.__globals__, function.__name__, None, tuple(cells))
        # Registered before the new cells are filled: functions in them that refer to this one then get the copy.
        self.copies[id(function)] = copy
        for cell, old_cell in zip(cells, old_cells):
            if cell is not old_cell:
                cell.cell_contents = self.replaced(old_cell.cell_contents)
        copy.__defaults__ = self.replaced(function.__defaults__)
        copy.__kwdefaults__ = self.replaced(function.__kwdefaults__)
        copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
        vars(copy).update(vars(function))
        return copy
