"""Runs of a graph in which a variable has no value: only branches and loops' bodies that aren't run may read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tvtf.core.primitive import Primitive, as_tuple
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.control_flow.closure_conversion import TracedFunction, lift
from tvtf.frontend.control_flow.cond_while import bound_cond
from tvtf.frontend.function.sized_instance import SizedInstance
from tvtf.ir.graph import Graph
from tvtf.ir.interpreter import CONTROL, Subfunction
from tvtf.ir.trace import trace_graph, tracing
from tvtf.ops.control import own_dims, varying_dims
from tvtf.ops.control import while_ as while_primitive
from tvtf.ops.rules import bind

MSG_UNSET = "Attempting to use uninitialized value {name}"


class Unset(NamedTuple):
    """A tensor that may stand for the missing value of a variable: ``is_set`` is a bool tensor that says whether it doesn't."""

    tensor: Any
    is_set: Any
    name: str


def graph_with_unset(module: Any, types: Sequence[Any], names: Mapping[int, str], fetched: int) -> Graph:
    """Returns a graph for runs in which variables have no value; it fails where one is read.

    Args:
      module: the module of the run for variables that all have values.
      types: the types of the parameters of its ``main``.
      names: of the parameters that stand for variables without a value, the variables' names.
      fetched: how many results of ``main`` are fetched. The others are new values of variables.

    Returns:
      a graph with the results of ``main``, and a bool for each new value: whether the run assigned it.
    """

    def run(*arguments: Tensor) -> tuple[Tensor, ...]:
        """Evaluates the graph, and returns its results, then whether each new value of a variable is set."""
        evaluation = _Reads(module, module["main"], arguments)
        for position, name in names.items():
            evaluation.mark(arguments[position], convert_to_tensor(False), name)
        results = evaluation.run()
        for result in results[:fetched]:
            evaluation.require(result)
        return (*results, *map(evaluation.is_set, results[fetched:]))

    return trace_graph("run", run, types)


class _Reads(SizedInstance):
    """An evaluation that fails where it reads a variable without a value, but not where branches pass it on."""

    unset: dict[int, Unset]
    """By identity, the tensors that may stand for a missing value."""

    def __init__(self, mod: Any, function: Any, args: Sequence[Tensor]) -> None:
        super().__init__(mod, function, args)
        self.unset = {}

    def mark(self, tensor: Tensor, is_set: Tensor, name: str) -> None:
        self.unset[id(tensor)] = Unset(tensor, is_set, name)

    def is_set(self, tensor: Tensor) -> Tensor:
        """Returns a bool tensor: whether a tensor is a value, not the missing one of a variable."""
        return self.unset[id(tensor)].is_set if id(tensor) in self.unset else convert_to_tensor(True)

    def require(self, tensor: Tensor) -> None:
        """Emits the check that a tensor that is read now is a value."""
        if id(tensor) in self.unset:
            _, is_set, name = self.unset[id(tensor)]
            bind.guard(is_set, message=MSG_UNSET.format(name=name), kind="FailedPreconditionError")

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Binds a primitive again, after checks of what it reads; an assignment doesn't read the old value."""
        if not any(id(x) in self.unset for x in inputs):
            return super().bind(prim, inputs, attrs)
        if prim.name == "assign":
            result = super().bind(prim, inputs, attrs)
            if id(inputs[1]) in self.unset:
                self.unset[id(result)] = self.unset[id(inputs[1])]._replace(tensor=result)
            return result
        if prim.name in CONTROL:
            is_cond = prim.name.removeprefix("effect_") == "cond"
            return self._cond(inputs, **attrs) if is_cond else self._while(inputs, **attrs)
        for x in inputs:
            self.require(x)
        return super().bind(prim, inputs, attrs)

    def _nested(self, function: Subfunction, arguments: Sequence[Tensor]) -> _Reads:
        nested = _Reads(function.mod, function.mod[function.name], arguments)
        nested.unset = self.unset
        return nested

    def _cond(self, inputs: list[Any], then_branch: Subfunction, else_branch: Subfunction, shapes: Any = ()) -> Any:
        """Binds a cond whose branches also return whether each result that may be missing is set.

        Args:
          inputs: the predicate, then the operands of the branches.
          then_branch, else_branch: the functions of the branches.
          shapes: the declared shapes of the results; not used.
        """
        pred, *captured = inputs
        self.require(pred)
        branches = [_Branch(self._nested(function, captured)) for function in (then_branch, else_branch)]
        names = {}  # of the variables whose values may be missing, by the position of the result
        for branch in branches:
            for position, unset in branch.missing.items():
                names[position] = unset.name
        flags = [branch.flags(names) for branch in branches]
        lifted = lift([branch.traced for branch in branches])
        graphs = [branch.traced.graph(own_flags) for branch, own_flags in zip(branches, flags)]
        outputs = as_tuple(bound_cond(pred, lifted, graphs))
        results = outputs[: len(outputs) - len(names)]
        for position, is_set in zip(names, outputs[len(results) :]):
            self.mark(results[position], is_set, names[position])
        return results

    def _while(
        self, inputs: list[Any], condition: Subfunction, body: Subfunction, carried: int, shapes: Any = (), **attrs: Any
    ) -> Any:
        """Binds a loop that also carries, for each loop variable that may be missing at first, whether it is a value."""
        missing = [i for i in range(carried) if id(inputs[i]) in self.unset]
        names = {i: self.unset[id(inputs[i])].name for i in missing}
        entry = [state.trace.own(x) for x in (*inputs[:carried], *(self.is_set(inputs[i]) for i in missing))]
        if shapes:
            shapes = (*shapes, *[()] * len(missing))
        types = []
        for i, x in enumerate(entry):
            types.append(x._type._replace(shape=own_dims(x._type, varying_dims(x._type, shapes, i))))

        def evaluation(function: Subfunction, values: Sequence[Tensor]) -> _Reads:
            nested = self._nested(function, [*values[:carried], *inputs[carried:]])
            for i, is_set in zip(missing, values[carried:]):
                nested.mark(values[i], is_set, names[i])
            return nested

        def run_condition(*values: Tensor) -> Tensor:
            nested = evaluation(condition, values)
            (holds,) = nested.run()
            nested.require(holds)
            return holds

        def run_body(*values: Tensor) -> list[Tensor]:
            """Evaluates the loop's body, and returns its results, then whether each optional value is set."""
            nested = evaluation(body, values)
            results = nested.run()
            for i, result in enumerate(results):
                if i not in names:
                    nested.require(result)
            return [*results, *(nested.is_set(results[i]) for i in missing)]

        traced_condition = TracedFunction("while_cond", run_condition, types)
        traced_body = TracedFunction("while_body", run_body, types, is_branch=True)
        captured = lift([traced_condition, traced_body])
        outputs = while_primitive.bind(
            *entry, *captured, condition=traced_condition.graph(), body=traced_body.graph(), carried=len(entry),
            shapes=shapes, **attrs,
        )  # fmt: skip
        for i, is_set in zip(missing, outputs[carried:]):
            self.mark(outputs[i], is_set, names[i])
        return outputs[:carried]


class _Branch:
    """A branch of a cond, traced with the checks; ``missing`` are its results that may be missing values."""

    def __init__(self, evaluation: _Reads) -> None:
        """Traces the branch, which ``evaluation`` runs, and finds the results that may be missing."""
        self.missing: dict[int, Unset] = {}
        """The results that may be missing, by position."""

        def run() -> tuple[Tensor, ...]:
            results = evaluation.run()
            self.missing = {}
            for position, result in enumerate(results):
                if id(result) in evaluation.unset:
                    self.missing[position] = evaluation.unset[id(result)]
            return results

        self.traced = TracedFunction("branch", run, is_branch=True)

    def flags(self, positions: Iterable[int]) -> list[Tensor]:
        """Returns, for the results at some positions, bool tensors of the branch: whether they are values."""
        trace = self.traced.trace
        with tracing(trace):
            return [
                trace.own(self.missing[i].is_set if i in self.missing else convert_to_tensor(True)) for i in positions
            ]
