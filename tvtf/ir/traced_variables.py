"""Variables in a trace: parameters of the outermost trace, whose values are passed on to the inner ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvtf.core.graph_operation import Operation
from tvtf.core.primitive import hooks
from tvtf.core.shape import TensorType
from tvtf.core.specialization import Level
from tvtf.core.tensor import SymbolicTensor
from tvtf.ir.dialect import example_shape, filled_in
from tvtf.ir.python_calls import PythonCalls
from tvtf.ir.traced_inputs import TracedInputs


class TracedVariables(TracedInputs):
    """The part of a trace that knows the values of Variables at the point of the program that is traced."""

    parent: TracedVariables | None
    root: TracedVariables
    python: PythonCalls
    variables: dict[int, tuple[Any, SymbolicTensor]]
    """Variables that were read or assigned, each with its present value, by the Variable's ``id``."""
    barriers_at_start: int
    """The number of barriers (calls of Python) when the trace was begun."""
    barriers_at_access: dict[int, int]
    """The number of barriers at a Variable's last read or assignment, by the Variable's ``id``."""
    stored: set[int]
    """The ``id`` of each Variable whose memory already holds the value last assigned here."""
    reads: dict[int, tuple[Any, SymbolicTensor]]
    """Each Variable that was read with the tensor read, by the tensor's ``id``; also reads before a call of Python."""
    memories: dict[int, SymbolicTensor]
    operation: Callable[..., Operation]

    def read_variable(self, variable: Any) -> SymbolicTensor:
        """Returns the Variable's value at this point of the program, as a new tensor for tapes to watch."""
        self.root.python.record_use(variable)
        return self._value_of(variable).alias()

    def _value_of(self, variable: Any) -> SymbolicTensor:
        """Returns the Variable's value at this point of the program; reads the Variable if the value isn't known."""
        known = self.variables.get(id(variable))
        if known is None or self._is_stale(variable):
            return self._read_now(variable)
        return known[1]

    def _is_stale(self, variable: Any) -> bool:
        """Returns whether called Python may have assigned the Variable since this trace last read or assigned it."""
        return self.barriers_at_access[id(variable)] < self.root.python.barriers and not variable.is_argument

    def _read_now(self, variable: Any) -> SymbolicTensor:
        """Reads a Variable and records the value as the Variable's known value in this trace.

        If this trace has called Python, which may have assigned the Variable, the value is loaded from the Variable's
        memory. Otherwise the value is taken from the enclosing trace, or is a parameter of the outermost function.
        """
        is_reloaded = self.root.python.barriers > self.barriers_at_start and not variable.is_argument
        if is_reloaded:
            self.flush_assignments()
        value = hooks.variables.reload(variable, self) if is_reloaded else self._first_read(variable)
        self._record_value(variable, value, is_reloaded)
        self.reads[id(value)] = variable, value
        return value

    def _record_value(self, variable: Any, value: SymbolicTensor, is_stored: bool) -> None:
        """Records a Variable's value in this trace. ``is_stored``: the Variable's memory already holds the value."""
        self.variables[id(variable)] = (variable, value)
        self.barriers_at_access[id(variable)] = self.root.python.barriers
        (self.stored.add if is_stored else self.stored.discard)(id(variable))

    def _first_read(self, variable: Any) -> SymbolicTensor:
        return self.value_at_entry(variable) if self.parent is None else self.own(self.parent._value_of(variable))

    def value_at_entry(self, variable: Any) -> SymbolicTensor:
        """Returns the Variable's value at the start of the outermost function: a parameter of that function."""
        # The last part of a name in scopes, "dense/kernel".
        name = variable._shared_name.rpartition("/")[2] or "variable"
        return self.root.capture(variable, self._type_of(variable, name), name)

    def value_before(self, variable: Any) -> SymbolicTensor:
        """Returns the Variable's value as an input of the control-flow op that is bound next.

        The barriers (calls of Python) inside this op are counted already but run later. So the known value isn't stale.
        """
        known = self.variables.get(id(variable))
        return self._value_of(variable) if known is None else known[1]

    def read_before(self, variable: Any, value: SymbolicTensor) -> SymbolicTensor:
        """Returns ``value``, the Variable's value here, as a new tensor for the inputs of a control-flow op.

        A TensorFlow 1 graph reads ``variable`` again instead.
        """
        return value.alias()

    def take_variables(self, other: TracedVariables, values: Sequence[SymbolicTensor]) -> None:
        """Copies what the trace ``other`` recorded of its Variables, after its bindings were emitted again in this trace.

        ``values`` are the Variables' values in this trace, in the order of ``other.variables``.
        """
        for (variable, _), value in zip(other.variables.values(), values):
            self.variables[id(variable)] = (variable, value)
        self.barriers_at_access = dict(other.barriers_at_access)
        self.stored = set(other.stored)
        self.barriers_at_start = other.barriers_at_start

    # -- Variables around calls of Python

    def flush_assignments(self) -> None:
        """Emits stores of all assigned values to the Variables' memory, where a call of Python that follows reads them."""
        for variable, value in self.assigned():
            if not variable.is_argument:
                hooks.variables.store(variable, value, self)
                self.root.python.flushed[id(variable)] = variable
                self.stored.add(id(variable))

    @property
    def is_after_python(self) -> bool:
        """Whether this trace has called the user's Python. If so, Variables are read from their memory."""
        return self.root.python.barriers > self.barriers_at_start

    def _type_of(self, variable: Any, name: str) -> TensorType:
        """Returns the type of the parameter that holds a Variable's value.

        Assignments may change dims, or the rank, that the Variable's declaration leaves open. So these are unknown in the
        type, unless the function is traced for the shapes or the ranks of one call. ``name`` is the prefix of the names of
        new symbolic dims.
        """
        declared, (present_shape, dtype) = variable.shape, variable._type
        level = self.specialization.level
        if level is Level.SHAPES:  # traced for the shapes of one call
            return variable._type  # type: ignore[no-any-return]
        if declared.rank is not None:
            return TensorType(filled_in(name, declared), dtype)
        if level is Level.RANKS:  # traced for the ranks of one call
            return TensorType(filled_in(name, [None] * len(present_shape)), dtype)
        return TensorType(example_shape(name, len(present_shape)), dtype)  # of unknown rank

    def memory_of(self, variable: Any) -> SymbolicTensor:
        """Returns a tensor that stands for the Variable's memory, as the destination of assignments.

        The tensor's value need not be the Variable's present value.
        """
        if id(variable) not in self.memories:
            self.memories[id(variable)] = self._first_read(variable).alias()
        return self.memories[id(variable)]

    def assign_variable(self, variable: Any, value: SymbolicTensor, is_stored: bool = False) -> None:
        self._record_value(variable, self.own(value), is_stored)

    def updates(self, value: SymbolicTensor) -> None:
        """Records that ``value``, the next value assigned, was computed from the Variable's value (``assign_add``)."""

    def assigned_value(self, variable: Any, read_value: bool) -> Any:
        """Returns the result of the assignment that was just bound: the new value if ``read_value``, else the operation."""
        return variable._as_tensor() if read_value else self.operation("AssignVariableOp", None, ())

    def assigned(self) -> list[tuple[Any, SymbolicTensor]]:
        """Returns the Variables to write back at the end of the trace, each paired with its last assigned value.

        A Variable is left out if its value is still a parameter, or if its memory already holds the value.
        """
        param_ids = set(map(id, self.all_params))
        assigned = []
        for variable, last_value in self.variables.values():
            is_new = id(last_value) not in param_ids
            if is_new and id(variable) not in self.stored:
                assigned.append((variable, last_value))
        return assigned
