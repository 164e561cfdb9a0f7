"""What the trace of a function consists of: its graph, captures and results, from which its code is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from tvm import ir

from tvtf.core import nest
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.variable_lock import cached_property
from tvtf.frontend.function.granularity import Granularity
from tvtf.frontend.function.retrace_log import RetraceLog
from tvtf.frontend.function.signature import Signature, aliases, spec_if_composite
from tvtf.ir.graph import Graph
from tvtf.ir.trace import Trace
from tvtf.ops.rules import bind
from tvtf.state.variable import Variable


class TraceableFunction(Protocol):
    """What a trace is made from: a ``tf.function``, whose module imports that of concrete functions."""

    name: str
    python_function: Callable[..., Any]
    signature: Signature
    granularity: Granularity
    log: RetraceLog

    def converted(self) -> Callable[..., Any]: ...


class TracedProgram(Protocol):
    """What executors and plans use of a concrete function, whose module imports theirs."""

    name: str
    graph: Graph
    captures: list[Any]
    """What the trace captures from outside: tensors, Variables and Python functions, in the order of the parameters."""
    variables: list[Variable]
    """The Variables among the captures."""
    streams: Any
    results: Results

    def code(self) -> Callable[..., Any]: ...


class VariableArgument(Variable):
    """Stands in for a Variable argument during tracing, so that calls with other Variables share the trace.

    ``is_traced`` says that the function whose argument it is is being traced.
    """

    is_argument = True
    is_traced = True

    def __init__(self, like: Variable, position: int) -> None:
        self.__dict__.update(like.__dict__)
        self.position, self.like = position, like

    @property
    def _identity(self) -> int:
        return self.like._identity


def stand_ins(variables: Sequence[Variable]) -> list[VariableArgument]:
    """Returns a stand-in for each Variable argument, to trace with.

    Arguments that are the same Variable share a stand-in.
    """
    arguments = {i: VariableArgument(variable, i) for i, variable in enumerate(variables)}
    return [arguments[first] for first in aliases(variables)]


def resolve_capture(captured: Any, variables: Sequence[Variable]) -> Any:
    """Returns the value of a capture in a call with the given Variable arguments.

    A stand-in for a Variable argument gives the Variable that the call passes. Other captures are returned as they are,
    also a stand-in of a function around this one, which is being traced: the call reads and assigns it in that trace.
    """
    is_of_call = isinstance(captured, VariableArgument) and not captured.is_traced
    return variables[captured.position] if is_of_call else captured


class Results:
    """The results of a trace: how their structure is built from computed values, arguments, Variables and constants.

    ``computed`` are the symbolic values that the compiled code returns, without repeats: first those that the user
    gets, then the new values of Variables (``updates``). ``written`` are the parameters for Variables whose memory
    the code writes. ``leaves`` has one pair (kind, source) per leaf of the result: ``("value", constant)``,
    ``("param", index of a parameter)`` or ``("computed", index in computed)``.
    """

    def __init__(self, trace: Trace, structure: Any) -> None:
        """Finds the source of each leaf in ``structure``, the value that the traced Python function returned."""
        self.structure = nest.map_structure(spec_if_composite, structure)
        self.computed: list[SymbolicTensor] = []
        self._index: dict[Any, int] = {}
        self._param_index = {param._var: i for i, param in enumerate(trace.all_params)}
        self.updates = [(variable, self._computed(value)) for variable, value in trace.assigned()]
        self.flushed = list(trace.root.python.flushed.values())
        self._find_written(trace)
        self.traced = nest.map_structure(lambda leaf: _result(trace, leaf), structure, expand_composites=True)
        self.leaves = [self._source(leaf) for leaf in nest.flatten(self.traced, expand_composites=True)]
        self.is_nested = nest.is_nested_or_composite(structure)
        self.is_flat_tuple = type(structure) is tuple and not any(map(nest.is_nested_or_composite, structure))
        # Whether the result is a single tensor that the code computes: it is returned as it is.
        self.is_single_tensor = self.leaves == [("computed", 0)] and not self.is_nested

    def _find_written(self, trace: Trace) -> None:
        """Determines the parameters whose memory the code writes, because they are values of Variables.

        Sets ``written``, their indices, and ``_may_change``, the Relax variables of the parameters that may have
        another value at the end of the program.
        """
        captures = trace.captures.values()
        variable_params = {id(outer): inner._var for outer, inner in captures if isinstance(outer, Variable)}
        updated_variables = [variable for variable, _ in self.updates]
        written_params = [variable_params[id(variable)] for variable in (*updated_variables, *self.flushed)]
        self.written = {self._param_index[var] for var in written_params}
        # Python that the code calls may assign any Variable.
        self._may_change = set(variable_params.values() if trace.root.python.is_called else written_params)

    @property
    def hidden(self) -> set[int]:
        """The indices of computed values that are not part of the result: only Variables get them."""
        return set(range(len(self.computed))) - {index for kind, index in self.leaves if kind == "computed"}

    def _computed(self, value: SymbolicTensor) -> int:
        """Returns the index of ``value`` in ``self.computed``. Appends the value if it is new."""
        index = self._index.get(value._var)
        if index is None:
            index = self._index[value._var] = len(self.computed)
            self.computed.append(value)
        return index

    def _source(self, leaf: Any) -> tuple[str, Any]:
        """Returns the pair (kind, source) of a leaf of the result, an entry of ``leaves``."""
        if not isinstance(leaf, SymbolicTensor):
            return "value", leaf
        if isinstance(leaf._var, ir.Constant):
            return "value", EagerTensor(np.array(leaf._var.value.numpy()))
        param_index = self._param_index.get(leaf._var)
        if param_index is None:
            return "computed", self._computed(leaf)
        if leaf._var in self._may_change:
            # The code may overwrite this parameter's memory, so it returns a copy of the value from before.
            return "computed", self._computed(bind.identity(leaf))
        return "param", param_index

    def arguments(self, identities: Mapping[Any, Any]) -> list[int | None]:
        """Returns the index of the argument that each leaf of the result is, or None; ``identities`` are copies of values."""

        def index(kind: str, source: Any) -> int | None:
            if kind == "computed":
                var = self.computed[source]._var
                return self._param_index.get(identities.get(var, var))
            return source if kind == "param" else None

        return [index(kind, source) for kind, source in self.leaves]

    def packed(self, flat: list[Any]) -> Any:
        """Packs a flat list of leaves into the structure that the Python function returned."""
        if self.is_flat_tuple:  # needs no general packer
            return tuple(flat)
        return self._packer(iter(flat)) if self.is_nested else flat[0]

    @cached_property
    def _packer(self) -> Callable[[Iterator[Any]], Any]:
        """The function that packs an iterator of leaves into the result's structure."""
        return nest.packer(self.structure)

    def assemble_values(
        self,
        computed: Sequence[Any],
        tensors: Sequence[Tensor],
        captured: Sequence[Any],
        variables: Sequence[Variable],
        replacements: Mapping[int, Variable] | None = None,
    ) -> Any:
        """Builds the function's result in another trace or under gradient tapes, and assigns the Variables' new values.

        Args:
          computed: the outputs of the graph.
          tensors: the tensor arguments of the call.
          captured: the values of the captures.
          variables: the Variable arguments of the call.
          replacements: the Variables that replace captured ones in the call, by the identity of the captured ones.
        """
        params = [*tensors, *captured]
        leaves = []
        for kind, source in self.leaves:
            if kind == "computed":
                leaves.append(computed[source])
            elif kind == "param":
                leaves.append(params[source])
            else:  # a constant
                leaves.append(source)
        result = self.packed(leaves)
        for variable, index in self.updates:
            assigned = resolve_capture(variable, variables)
            if replacements:
                assigned = replacements.get(id(assigned), assigned)
            assigned.assign(computed[index], read_value=False)
        return result


def _is_constant(leaf: Any) -> bool:
    """Returns whether a Python value that a traced function returns can be converted to a constant tensor."""
    if isinstance(leaf, TensorShape):
        return leaf.is_fully_defined()
    return isinstance(leaf, (bool, int, float, complex, str, bytes, np.ndarray, np.generic))


def _result(trace: Trace, leaf: Any) -> Any:
    """Converts a leaf of the Python function's result to a tensor of the trace. None stays None.

    Raises:
      TypeError: the leaf is neither a tensor nor a number, string or array.
    """
    if leaf is None:
        return None
    if not is_tensor(leaf) and not _is_constant(leaf):
        raise TypeError(
            "To be compatible with tf.function, Python functions must return zero or more Tensors or ExtensionTypes or "
            f"None values; in compilation of {trace.name}, found return value of type {type(leaf).__name__}, which is not "
            "a Tensor or ExtensionType."
        )
    tensor = convert_to_tensor(leaf)
    # A tensor of an enclosing trace becomes a capture of this one.
    return trace.own(tensor) if isinstance(tensor, SymbolicTensor) else tensor
