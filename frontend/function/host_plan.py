"""Runs functions on strings as a list of NumPy kernels, without compiled code.

TVM has no strings, so compiled code calls Python for each op on them and passes numbers (handles) in their place. If
little else is left to compute, compiling gains nothing, and Python calls the kernels directly: otherwise input
pipelines of strings wait for the virtual machine.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import ir, relax, tirx

from tvtf.core.argument_error import MISTAKES, ArgumentError, public_error_for
from tvtf.core.primitive import Primitive, as_tuple, quietly
from tvtf.core.shape import size_of
from tvtf.core.tensor import EagerTensor
from tvtf.core.thread_state import debug_settings, state
from tvtf.frontend.function.traced_program import TracedProgram
from tvtf.ir import dialect
from tvtf.ir.dialect import bindings_of
from tvtf.ops import host
from tvtf.passes.analysis.dead_code import drop_dead

if TYPE_CHECKING:
    from tvtf.state.variable import Variable

MAX_FLOATS = 1024
"""The largest floating-point result that NumPy computes in the time that a call of compiled code takes."""
_LEAVES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "computed": lambda slot, values, tensors: EagerTensor(values[slot]),
    "param": lambda position, values, tensors: tensors[position],
    "value": lambda value, values, tensors: value,
}
"""How a leaf of the result is obtained from its source, all values and the arguments, by the kinds of ``Results.leaves``."""
NONBLOCKING_MODULES = ("tvtf.ops.strings", "tvtf.composites.ragged", "tvtf.examples")
"""Modules of string ops, which hold Python's lock; others (on images, say) release it, and threads help them."""
Values = list[Any]
Slots = Any
"""The index of a variable's value; a tuple of indices for a tuple."""


class NeedsCompilation(Exception):
    """Raised if a function, or a call of it, needs compiled code."""


def planned(concrete: TracedProgram) -> Plan | None:
    """Returns the plan by which NumPy runs a traced function on strings, or None if it has to be compiled.

    NumPy also computes the ops on strings that compiled code calls, so that little is lost without compilation.
    """
    graph = concrete.graph
    if (
        not graph.holds_texts
        or concrete.variables
        or graph.inferred_sizes
        or debug_settings.verify
        or debug_settings.dump
    ):
        return None
    try:
        return Plan(concrete, drop_dead(graph.module()))
    except NeedsCompilation:
        return None


class Plan:
    """The steps of a function without compiled code.

    The function is compiled only for arguments that don't fit, so that the error is the compiled code's.
    """

    def __init__(self, concrete: TracedProgram, mod: ir.IRModule) -> None:
        """Builds the steps of a traced function's main function, in which each value gets a slot.

        Raises:
          NeedsCompilation: a part of the function needs compiled code.
        """
        self.concrete = concrete
        self.constants = [capture.eager_array() for capture in concrete.captures]
        self.initial_values: Values = []
        self.slots: dict[Any, Slots] = {}
        self.dims: dict[Any, int] = {}
        if len(mod.functions) > 1:  # the others are of branches and loops, which NumPy doesn't run
            raise NeedsCompilation
        main = mod["main"]
        argument_count = len(main.params) - len(self.constants)  # the captures follow the arguments
        argument_types = [param.ty for param in main.params[:argument_count]]
        for param in main.params:
            self.slots[param] = self._new_slot()
        self.params = [_Param(ty) for ty in argument_types]
        self.equal_sizes = _equal_sizes(argument_types)
        self._build_steps(main)
        self.is_pure = all(step.prim.pure for step in self.steps)
        self.is_single_tensor = concrete.results.is_single_tensor
        self.is_nonblocking = all(self._is_nonblocking(step) for step in self.steps)
        outputs = as_tuple(self._slots(main.body.body))
        self.leaves = [self._leaf(kind, source, outputs) for kind, source in concrete.results.leaves]
        self.values_after_arguments = [*self.constants, *self.initial_values[len(main.params) :]]

    def _build_steps(self, main: Any) -> None:
        """Builds the steps of the function ``main``, and lists the sizes that attributes of the steps use.

        The sizes are listed last, because only the attributes of all steps show which dims are used.
        """
        steps = map(self._step, bindings_of(main.body))
        self.steps = [step for step in steps if step is not None]
        self.sizes: list[tuple[int, int, int]] = []
        for param in main.params:
            self.sizes += self._sizes(param.ty, self.slots[param])
        for step in self.steps:
            step.sizes = []
            for result_type, slot in zip(step.types, step.outputs):
                step.sizes += self._sizes(result_type, slot)

    def _leaf(self, kind: str, source: Any, outputs: Sequence[Slots]) -> tuple[str, Any]:
        """Returns the kind of a leaf of the result, as in ``Results.leaves``, and its slot, position or value in the plan."""
        if kind == "param" and source >= len(self.params):  # a capture
            return "value", EagerTensor(self.constants[source - len(self.params)])
        return kind, outputs[source] if kind == "computed" else source

    def __call__(self, tensors: Sequence[EagerTensor], variables: Sequence[Variable] = ()) -> Any:
        """Runs the plan's steps on tensors; runs compiled code instead if an argument doesn't fit or a check fails."""
        arrays = [tensor._array for tensor in tensors]
        fits = all(param.fits(array) for param, array in zip(self.params, arrays))
        for (first, first_axis), (second, second_axis) in self.equal_sizes:
            fits = fits and arrays[first].shape[first_axis] == arrays[second].shape[second_axis]
        if not fits:
            return self.concrete.code()(tensors, variables)
        try:
            values = quietly(self._run, arrays, {})
        except NeedsCompilation:
            return self.concrete.code()(tensors, variables)
        except Exception:  # raised again, after callbacks that unwind the stack of open calls
            for callback in host.on_failure:
                callback(state.depth)
            raise
        if self.is_single_tensor:
            _, slot = self.leaves[0]
            return EagerTensor(values[slot])
        return self.concrete.results.packed([_LEAVES[kind](source, values, tensors) for kind, source in self.leaves])

    def _run(self, *arrays: np.ndarray) -> Values:
        """Runs the steps on the argument arrays, and returns the values of all slots."""
        values = [*arrays, *self.values_after_arguments]
        for dim, slot, axis in self.sizes:
            values[dim] = values[slot].shape[axis]
        for step in self.steps:
            try:
                step(values)
            except ArgumentError as error:
                raise error.for_op(step.prim.tf_name) from None
            except MISTAKES as error:
                # Nothing had effects, so that compiled code can begin again, and report the mistake by its own checks.
                if self.is_pure and not step.is_on_host:
                    raise NeedsCompilation from None
                raise public_error_for(error, step.prim.tf_name, [values[i] for i in step.inputs], None) from None
        return values

    def _is_nonblocking(self, step: Step) -> bool:
        """Returns whether a step holds Python's global interpreter lock and never waits: threads would gain nothing."""
        if isinstance(step, PythonStep):
            return getattr(self.concrete.captures[step.inputs[0] - len(self.params)], "is_nonblocking", False)
        return step.prim.pure and (not step.prim.host or step.prim.front.__module__.startswith(NONBLOCKING_MODULES))

    # -- building it from a Relax function

    def _new_slot(self, value: Any = None) -> int:
        """Adds a slot for a value, and returns its index."""
        self.initial_values.append(value)
        return len(self.initial_values) - 1

    def _slots(self, expr: Any) -> Slots:
        """Returns the slot of an expression's value, or a tuple of slots; a constant gets a new one.

        Raises:
          NeedsCompilation: the expression is not a variable, a constant or a tuple.
        """
        if isinstance(expr, relax.Var):
            return self.slots[expr]
        if isinstance(expr, ir.Constant):
            return self._new_slot(np.array(expr.value.numpy()))
        if isinstance(expr, relax.Tuple):
            return tuple(map(self._slots, expr.fields))
        if isinstance(expr, relax.TupleGetItem):
            return self._slots(expr.tuple_value)[expr.index]
        raise NeedsCompilation

    def _step(self, binding: Any) -> Step | None:
        """Builds the step that computes a binding, or returns None if the binding only names other values.

        Raises:
          NeedsCompilation: NumPy can't compute the binding, or would be slower than compiled code.
        """
        if not dialect.is_dialect(binding.value):
            self.slots[binding.var] = self._slots(binding.value)
            return None
        primitive_call = dialect.read(binding.value)
        result_type = binding.var.ty
        has_many_results = isinstance(result_type, relax.TupleType)
        result_types = list(result_type.fields) if has_many_results else [result_type]
        input_slots = [self._slots(x) for x in primitive_call.inputs]
        dtypes = dialect.dtypes_of(binding.value, primitive_call)  # of the inputs, then of the results
        result_dtypes = [dtype.np for dtype in dtypes[len(input_slots) :]]
        calls_python = primitive_call.primitive.name == "call_python"
        step_class = PythonStep if calls_python else Step
        step = step_class(primitive_call, input_slots, result_dtypes, result_types)
        step.is_on_host = calls_python or host.runs_on_host(primitive_call.primitive, dtypes)
        if not step.is_on_host:
            _require_small(primitive_call, result_types)  # compiled code is faster on large tensors
        step.attrs = {name: self._attribute(value) for name, value in primitive_call.attrs.items()}
        step.computed = {name: value for name, value in step.attrs.items() if callable(value)}
        step.outputs = [self._new_slot() for _ in result_types]
        self.slots[binding.var] = tuple(step.outputs) if has_many_results else step.outputs[0]
        return step

    def _attribute(self, value: Any) -> Any:
        """Returns an attribute of a step, such as a shape, or a function that computes it if it has symbolic dims.

        The function takes the values of all slots: sizes are known when the plan runs.
        """
        if isinstance(value, ir.GlobalVar):  # a function, such as the body of a loop
            raise NeedsCompilation
        if isinstance(value, ir.Expr):
            return self._dim(value)
        if not isinstance(value, tuple):
            return value
        parts = tuple(self._attribute(part) for part in value)
        if not any(map(callable, parts)):
            return parts

        def compute(values: Values) -> tuple[Any, ...]:
            return tuple(part(values) if callable(part) else part for part in parts)

        return compute

    def _dim(self, dim: Any) -> Callable[[Values], Any]:
        """Returns a function that computes a symbolic dim from the slots' values.

        The function returns None until there is a tensor that has the dim.
        """
        if isinstance(dim, tirx.IntImm):
            return lambda values: int(dim.value)
        if isinstance(dim, tirx.Var):
            if dim not in self.dims:
                self.dims[dim] = self._new_slot()
            return operator.itemgetter(self.dims[dim])
        compute = _OPERATORS.get(type(dim).__name__)
        if compute is None:
            raise NeedsCompilation
        left = self._dim(dim.a)
        right = self._dim(dim.b)
        return lambda values: _computed_if_known(compute, left(values), right(values))

    def _sizes(self, ty: Any, slot: int) -> list[tuple[int, int, int]]:
        """Returns, for each dim of a tensor that attributes use: the dim's slot, the tensor's slot, and the axis."""
        return [(self.dims[dim], slot, axis) for axis, dim in enumerate(ty.shape.values) if dim in self.dims]


class Step:
    """One call of a primitive's NumPy kernel, with the slots of its inputs and outputs."""

    attrs: dict[str, Any]
    computed: dict[str, Callable[[Values], Any]]
    outputs: list[int]
    sizes: list[tuple[int, int, int]]
    is_on_host: bool

    def __init__(self, primitive_call: dialect.Bound, inputs: list[int], dtypes: list[Any], types: list[Any]) -> None:
        """Stores a call of a primitive, the slots of its inputs, and the dtypes and types of its results."""
        self.prim: Primitive[Any] = primitive_call.primitive
        self.inputs = inputs
        self.dtypes = dtypes
        self.types = types
        has_checks = self.prim.host or self.prim.guard is not None
        # Operands of static types were checked at trace time.
        self.is_checked = has_checks and not all(_is_static(x.ty) for x in primitive_call.inputs)

    def __call__(self, values: Values) -> None:
        """Runs the step: reads its inputs from slots, and writes its outputs and their sizes to slots."""
        attrs = self.attrs
        if self.computed:
            attrs = attrs | {name: compute(values) for name, compute in self.computed.items()}
        results = self.results([values[i] for i in self.inputs], attrs)
        for slot, dtype, result in zip(self.outputs, self.dtypes, as_tuple(results)):
            if type(result) is not np.ndarray or result.dtype != dtype:  # NumPy returns scalars for rank 0
                result = np.asarray(result, dtype)
            values[slot] = result
        for dim_slot, slot, axis in self.sizes:
            values[dim_slot] = values[slot].shape[axis]

    def results(self, arrays: list[np.ndarray], attrs: dict[str, Any]) -> Any:
        """Runs the primitive's NumPy kernel; checks its arguments first if they weren't checked while tracing."""
        if not self.prim.pure:
            return tuple(host.run_kernel(self.prim, attrs, arrays))
        if self.is_checked:
            self.prim.infer(tuple([(array.shape, array.dtype) for array in arrays]), tuple(attrs.items()))
        return self.prim.numpy(*arrays, **attrs)


class PythonStep(Step):
    """One call of a Python function."""

    def __init__(self, primitive_call: dialect.Bound, *slots_and_types: Any) -> None:
        super().__init__(primitive_call, *slots_and_types)
        if primitive_call.attrs["backward"]:
            raise NeedsCompilation
        self.ranks = [len(shape) for shape in primitive_call.attrs["shapes"]]

    def results(self, arrays: list[np.ndarray], attrs: dict[str, Any]) -> Any:
        return host.run_of_ranks(arrays[0], arrays[1:], host.run_plain, self.ranks)


class _Param:
    """A parameter's rank and static sizes, checked against the arguments."""

    def __init__(self, ty: Any) -> None:
        self.rank = ty.ndim
        self.shape = tuple(int(dim.value) for dim in ty.shape.values) if _is_static(ty) else None
        self.sizes = [
            (axis, int(dim.value)) for axis, dim in enumerate(ty.shape.values) if isinstance(dim, tirx.IntImm)
        ]

    def fits(self, array: np.ndarray) -> bool:
        if self.shape is not None:
            return array.shape == self.shape
        return array.ndim == self.rank and all(array.shape[axis] == size for axis, size in self.sizes)


def _equal_sizes(types: Sequence[Any]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Returns pairs of ``(argument, axis)`` whose sizes tracing assumed to be equal: they have the same symbol.

    Raises:
      NeedsCompilation: a size is an expression of others, which compiled code checks.
    """
    first_place: dict[Any, tuple[int, int]] = {}  # by symbol
    pairs = []
    for argument, ty in enumerate(types):
        for axis, dim in enumerate(ty.shape.values):
            if isinstance(dim, tirx.IntImm):
                continue
            if not isinstance(dim, tirx.Var):
                raise NeedsCompilation
            place = (argument, axis)
            if dim in first_place:
                pairs.append((first_place[dim], place))
            else:
                first_place[dim] = place
    return pairs


def _is_static(ty: Any) -> bool:
    return all(isinstance(dim, tirx.IntImm) for dim in ty.shape.values)


def _require_small(primitive_call: dialect.Bound, types: Sequence[Any]) -> None:
    """Raises NeedsCompilation if NumPy would be slower than compiled code, or would check less.

    ``types`` are the Relax types of the call's results.
    """
    prim = primitive_call.primitive
    result_types = [dialect.from_relax_type(ty) for ty in types]
    float_counts = [size_of(tensor_type.shape) for tensor_type in result_types if tensor_type.dtype.is_floating]
    are_small = all(isinstance(count, int) and count <= MAX_FLOATS for count in float_counts)
    if prim.heavy == "always" or not prim.pure or not are_small:
        raise NeedsCompilation


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Min": min,
    "Max": max,
}


def _computed_if_known(compute: Callable[[int, int], int], a: int | None, b: int | None) -> int | None:
    """Applies ``compute`` unless an operand is unknown (None)."""
    return None if a is None or b is None else compute(a, b)
