"""One trace of a function, compiled when first called: arguments in, Variables donated, tensors out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import ir

from tvtf import nest
from tvtf.context import state
from tvtf.emit import Graph, Trace, tracing
from tvtf.frontend import compiled
from tvtf.frontend.signature import Arguments
from tvtf.passes.interpret import evaluate
from tvtf.shape import TensorType, fresh_dim
from tvtf.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.variable import Variable

_creation = threading.local()


class ConcreteFunction:
    """A traced function with fixed argument types; callable on tensors."""

    def __init__(self, name: str, arguments: Arguments, graph: Graph, results: Results) -> None:
        self.name = name
        self.arguments = arguments
        self.graph = graph
        self.results = results
        self.captures = [outer for outer, _ in graph.captures]
        self.variables = [c for c in self.captures if isinstance(c, Variable)]
        self._compiled: compiled.Compiled | None = None
        self._pure: compiled.GraphFunction | None = None

    @classmethod
    def trace(cls, function: Any, arguments: Arguments) -> ConcreteFunction:
        """Runs the Python function on symbolic tensors."""
        trace = Trace(function.name)
        with tracing(trace), variables_allowed(function):
            params = [trace.add_param(t, n) for t, n in zip(param_types(arguments), arguments.names)]
            args, kwargs = arguments.rebuild(params)
            structure = function.converted()(*args, **kwargs)
            results = Results(trace, structure)
        return cls(function.name, arguments, trace.finish(results.computed), results)

    # -- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = [convert_to_tensor(a, s.dtype) for a, s in zip(nest.flatten((args, kwargs)), self.arguments.specs)]
        if len(tensors) != len(self.arguments.specs):
            raise TypeError(f"{self.name} takes {len(self.arguments.specs)} tensors, but got {len(tensors)}")
        return self.call_flat(tensors)

    def call_flat(self, tensors: Sequence[Any]) -> Any:
        """On tensors of any kind, in the order of the specs."""
        if state.trace is not None:
            return self.inline(tensors)
        if state.tapes:
            return self._call_recorded(tensors)
        return self.call(tensors)

    def call(self, tensors: Sequence[Any]) -> Any:
        """On eager tensors, outside tapes and traces."""
        code = self._compiled
        if code is None:
            code = self._compiled = compiled.Compiled(self)
        return code(tensors)

    def _call_recorded(self, tensors: Sequence[Any]) -> Any:
        """Under tapes: as a function of values, those of its Variables among them, which the tapes record as read."""
        if self._pure is None:
            self._pure = compiled.GraphFunction(self.graph)
        captured = self._captured_values()
        computed = self._pure(*tensors, *captured)
        return self.results.assemble_values(computed, tensors, captured)

    def _captured_values(self) -> list[Any]:
        return [c._as_tensor() if isinstance(c, Variable) else c for c in self.captures]

    def inline(self, tensors: Sequence[Any]) -> Any:
        """Into the active trace: its primitives are bound again."""
        captured = self._captured_values()
        computed = evaluate(self.graph.module(), "main", [*tensors, *captured])
        return self.results.assemble_values(computed, tensors, captured)

    # -- inspection

    def module(self) -> Any:
        return self.graph.module()

    @property
    def inputs(self) -> list[SymbolicTensor]:
        return self.graph.all_params

    @property
    def outputs(self) -> list[Any]:
        return [t for t in nest.flatten(self.results.traced) if isinstance(t, Tensor)]

    @property
    def structured_input_signature(self) -> Any:
        return self.arguments.rebuild(self.arguments.specs)

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        return tuple(v for v in self.variables if v.trainable)

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        shown = ", ".join(f"{s.name}: {s!r}" for s in self.arguments.specs)
        return f"{self.name}({shown})"


def param_types(arguments: Arguments) -> list[TensorType]:
    """The parameters' types: unknown dims become symbols, those of one name the same symbol."""
    named: dict[str, Any] = {}
    return [
        TensorType(tuple(_dim(d, n, f"{leaf_name}_{i}", named) for i, (d, n) in enumerate(_dims(spec))), spec.dtype)
        for leaf_name, spec in zip(arguments.names, arguments.specs)
    ]


def _dims(spec: Any) -> list[tuple[Any, Any]]:
    if spec.shape.rank is None:
        raise ValueError(f"the rank of {spec!r} must be known to compile for it; give its dims, None for unknown ones")
    return list(zip(spec.shape, spec.dim_names))


def _dim(size: int | None, name: str | None, default: str, named: dict[str, Any]) -> Any:
    if size is not None:
        return size
    symbol = name or default
    if symbol not in named:
        named[symbol] = fresh_dim(symbol)
    return named[symbol]


class variables_allowed:
    """While a function is traced for the first time it may create Variables; later it may not."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __enter__(self) -> None:
        self.outer = getattr(_creation, "function", None)
        _creation.function = self.function

    def __exit__(self, kind: Any, *_: Any) -> None:
        _creation.function = self.outer
        if kind is None:
            self.function._variables_made = True


def check_variable_creation(_: Variable) -> None:
    """Raises ValueError where a Variable is made in a later trace of a function."""
    from tvtf.frontend.function import MSG_VARIABLES

    function = getattr(_creation, "function", None)
    if state.trace is not None and function is not None and function._variables_made:
        raise ValueError(MSG_VARIABLES)


class Results:
    """What a trace returns: how its structure is made from computed values, arguments, Variables and constants.

    ``computed`` are the symbolic values that the compiled code returns: each once, first those the user gets, then the new
    values of Variables (``updates``).
    """

    def __init__(self, trace: Trace, structure: Any) -> None:
        self.structure = structure
        self.computed: list[SymbolicTensor] = []
        self._index: dict[Any, int] = {}
        self._params = {p._var: i for i, p in enumerate([*trace.params, *(inner for _, inner in trace.captures.values())])}
        self.updates = [(v, self._computed(value)) for v, value in trace.assigned()]
        self.traced = nest.map_structure(lambda leaf: _result(trace, leaf), structure)
        self.leaves = [self._source(leaf) for leaf in nest.flatten(self.traced)]

    def _computed(self, value: SymbolicTensor) -> int:
        known = self._index.get(value._var)
        if known is None:
            known = self._index[value._var] = len(self.computed)
            self.computed.append(value)
        return known

    def _source(self, leaf: Any) -> tuple[str, Any]:
        if not isinstance(leaf, SymbolicTensor):
            return "value", leaf
        if isinstance(leaf._var, ir.Constant):
            return "value", EagerTensor(np.array(leaf._var.value.numpy()))
        param = self._params.get(leaf._var)
        return ("computed", self._computed(leaf)) if param is None else ("param", param)

    def assemble(self, pick: dict[str, Callable[[Any], Any]]) -> Any:
        flat = [pick[kind](which) for kind, which in self.leaves]
        if not nest.is_nested(self.structure):
            return flat[0]
        return nest.pack_sequence_as(self.structure, flat)

    def assemble_values(self, computed: Sequence[Any], tensors: Sequence[Any], captured: Sequence[Any]) -> Any:
        """The result from values, in another trace or under tapes; Variables get their new values by assignment."""
        params = [*tensors, *captured]
        result = self.assemble({"computed": computed.__getitem__, "param": params.__getitem__, "value": lambda v: v})
        for variable, index in self.updates:
            variable.assign(computed[index], read_value=False)
        return result




def _result(trace: Trace, leaf: Any) -> Any:
    """A returned leaf as a tensor of the trace; None stays."""
    if leaf is None:
        return None
    if not is_tensor(leaf) and not isinstance(leaf, (bool, int, float, complex, str, bytes, np.ndarray, np.generic)):
        raise TypeError(
            "To be compatible with tf.function, Python functions must return zero or more Tensors or ExtensionTypes or "
            f"None values; in compilation of {trace.name}, found return value of type {type(leaf).__name__}, which is not "
            "a Tensor or ExtensionType."
        )
    tensor = convert_to_tensor(leaf)
    return tensor if not isinstance(tensor, SymbolicTensor) else trace.own(tensor)


