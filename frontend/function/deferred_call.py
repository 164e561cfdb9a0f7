"""Deferred calls: calls in a trace that need a rank or sizes which the trace does not know.

They are part of the trace, and run when the function is instantiated for known ranks or sizes.

The result types of such a call are inferred by tracing it for example arguments of very different ranks: if two
examples give the same type, it holds for every rank; otherwise dims, or the rank, of the result are unknown too. An
example that needs sizes is traced with several (``frontend/function/sample_shapes.py``).
"""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from tvtf.core import nest
from tvtf.core.argument_error import is_of_any_size
from tvtf.core.deferred_shape import RANKS, AnyShape, AnyValue, Examples
from tvtf.core.graph_operation import Operation
from tvtf.core.indexed_slices import IndexedSlices
from tvtf.core.primitive import Primitive, as_tuple, hooks, name_errors, table
from tvtf.core.shape import TensorShape, TensorType, fresh_dim, is_static_shape, may_be_same, same_dim, substitute_dim
from tvtf.core.specialization import (
    Level,
    Specialization,
    UnknownDataset,
    UnknownRank,
    UnknownSize,
    Unspecialized,
    of_any_rank,
)
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.dtypes import DType
from tvtf.errors import InaccessibleTensorError, InvalidArgumentError
from tvtf.frontend.function.sample_shapes import (
    Sizes,
    common_type,
    common_value,
    is_small,
    samples_that_work,
    with_sizes,
)
from tvtf.frontend.function.signature import spec_if_composite
from tvtf.frontend.function.sized_instance import SizedInstance
from tvtf.ir.dialect import example_shape
from tvtf.ir.dim_equations import symbols_of
from tvtf.ir.interpreter import Subfunction
from tvtf.ir.trace import Trace, tracing
from tvtf.ops.array import ensure_shape
from tvtf.ops.rules import bind
from tvtf.passes.autodiff.reverse_mode import Recorder, sweep

HOLDABLE_TYPES = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    DType,
    TensorShape,
    np.ndarray,
    np.generic,
    np.dtype,
    type,
    type(None),
    type(...),
    range,
)
"""The types of Python values that a deferred call takes beside tensors."""


def argument_shape(name: str, tensor: Any) -> AnyShape:
    """Returns the shape of an argument of unknown rank: a function of the example (a sample rank that is traced).

    The first example has the rank of ``tensor`` if a tensor is given.
    """
    if tensor is None:
        return example_shape(name)
    shape = tensor._type.shape
    return shape if isinstance(shape, AnyShape) else example_shape(name, len(shape))


class Example(NamedTuple):
    """The result of a deferred call for one example of its arguments: structure, types, and known integer values."""

    structure: Any
    types: list[TensorType]
    known: list[Any]

    @classmethod
    def of(cls, structure: Any, tensors: Sequence[Any]) -> Example:
        return cls(structure, [tensor._type for tensor in tensors], [tensor.known for tensor in tensors])

    @classmethod
    def for_any_sizes(cls, examples: Sequence[tuple[Sizes, Example]]) -> Example | None:
        """Merges examples that were traced for several sample sizes into one example that holds for any sizes.

        Returns None if the dtypes of the results depend on the sizes, because a dtype must be known while tracing.
        """
        _, first = examples[0]
        first_dtypes = [tensor_type.dtype for tensor_type in first.types]
        for _sizes, example in examples:
            if [tensor_type.dtype for tensor_type in example.types] != first_dtypes:
                return None
        types, known = [], []
        for i in range(len(first.types)):
            types.append(common_type([(sizes, example.types[i]) for sizes, example in examples]))
            known.append(common_value([example.known[i] for _, example in examples]))
        return cls(first.structure, types, known)


class Call:
    """A call of a public function, as a function of the tensors among its arguments (the leaves at ``tensor_positions``)."""

    vjp: Callable[..., Any] | None = None
    """A gradient rule that replaces the gradient of the called function."""

    def __init__(
        self, function: Callable[..., Any], structure: Any, leaves: list[Any], tensor_positions: list[int]
    ) -> None:
        """Creates a deferred call. The types of its results aren't known until `infer_types` has inferred them.

        Args:
          function: the public function to call.
          structure: the nested structure of the arguments: a pair of positional and keyword arguments.
          leaves: the arguments, flattened.
          tensor_positions: the indices of the leaves that are tensors.
        """
        self.function = function
        self._naming_errors = name_errors(function) if type(function) is FunctionType else function
        self.structure = structure
        self.leaves = leaves
        self.tensor_positions = tensor_positions
        self.types: list[TensorType] = []  # empty until `infer_types` has inferred them
        self.has_effects = False
        self.needs_sizes = False
        self.needed: UnknownSize | None = None
        self.mistyped: BaseException | None = None
        self.gives_dense = False
        self._sparse_parts: set[tuple[bool, ...]] = set()

    @classmethod
    def of(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Makes a deferred call of ``function`` from its arguments.

        Raises:
          UnknownRank: an argument has a type that a deferred call can't hold.
        """
        arguments = nest.map_structure(_bounds_of_slice, (args, kwargs))
        leaves = nest.flatten(arguments, expand_composites=True)
        if not all(is_tensor(leaf) or _is_holdable(leaf) for leaf in leaves):
            raise UnknownRank(f"{getattr(function, '__name__', function)} of a tensor of unknown rank")
        structure = nest.map_structure(spec_if_composite, arguments)
        constants = [_constant(leaf) for leaf in leaves]
        tensor_positions = [i for i, leaf in enumerate(leaves) if is_tensor(leaf)]
        return cls(function, structure, constants, tensor_positions)

    def key_here(self, key: int) -> int:
        """Returns the key to bind the call with when it is bound again."""
        return key

    def tensors(self) -> list[Tensor]:
        return [convert_to_tensor(self.leaves[i]) for i in self.tensor_positions]

    def infer_types(self, inputs: Sequence[Any]) -> None:
        """Infers the types of the call's results by tracing the call for examples (sample ranks) of its arguments.

        A type or value that is the same in two examples of different ranks is taken to hold for every rank. If a result
        is IndexedSlices only for some ranks or sizes, such as the gradient of ``tf.gather_nd``, it becomes a tensor.

        Raises:
          The function's error for the first example, if every other example fails too.
        """
        try:
            self._infer_types(inputs)
        except (Exception, UnknownRank):  # any op's error, or one of merging results of other structures
            if len(self._sparse_parts) < 2:
                raise
        if len(self._sparse_parts) > 1 and not self.gives_dense:
            self.gives_dense = True
            self._infer_types(inputs)
        result, _ = self.result
        # Sizes that no example has may give IndexedSlices, too.
        self.gives_dense = not any(map(_is_indexed_slices, nest.flatten(result)))

    def _infer_types(self, inputs: Sequence[Any]) -> None:
        """Infers the types of the results from examples, whose results have one structure."""
        self.specialization = state.trace.specialization
        arguments = [_with_known_dims(x._type, x.known) for x in inputs]
        self.examples = Examples(lambda index: self._traced_example(arguments, index))
        has_unknown_rank = any(
            isinstance(known, AnyValue) or self._varies(tensor_type.shape) for tensor_type, known in arguments
        )
        self.has_examples = has_unknown_rank or self._calls_functions
        first = self._first_example()
        second = self._example_or_none(1) if self.has_examples else first
        self.result = first.structure
        self.types, self.known = [], []
        for i, first_type in enumerate(first.types):
            second_type = second.types[i] if second else None
            self.types.append(self._type(i, first_type, second_type))
            self.known.append(self._value(i, first, second))

    def _varies(self, shape: Any) -> bool:
        """Returns whether a shape depends on an unknown rank."""
        return isinstance(shape, AnyShape) or any(dim in self.specialization.dim_examples for dim in _symbols(shape))

    @property
    def _calls_functions(self) -> bool:
        """Whether the arguments include functions: their Python may return any rank."""
        return any(isinstance(leaf, Subfunction) for leaf in self.leaves)

    def _first_example(self) -> Example:
        """Returns the example of the first sample rank that the function accepts. Raises an error if it accepts none."""
        try:
            return self.examples.example(0)
        except (Exception, UnknownRank) as error:  # any op's error
            size_error = self.needed
            # Example 1 is skipped: it is traced anyway, to be compared with the one returned here.
            later_indices = range(2, len(RANKS)) if self.has_examples else ()
            for index in later_indices:
                example = self._example_or_none(index)
                if example is not None:
                    return example
            raise (self.mistyped or size_error or error) from None

    def _example_or_none(self, index: int) -> Example | None:
        """Returns the example at ``index``, or None if the function fails for the rank of that example."""
        try:
            return self.examples.example(index)
        except (Exception, UnknownRank) as error:  # any op's error
            self.mistyped = error if is_of_any_size(error) else self.mistyped
            return None

    def _type(self, index: int, first: TensorType, second: TensorType | None) -> TensorType:
        """Returns the type of the result at ``index`` for arguments of any rank.

        ``first`` and ``second`` are the result's types in two examples of very different ranks. A dim that differs
        between the two depends on the rank of the arguments, and so does the result's rank if it differs.
        """
        if second is not None and _have_one_rank(first.shape, second.shape):
            dims = tuple(map(_common_dim, first.shape, second.shape))
            varying_axes = [axis for axis, dim in enumerate(dims) if dim is not first.shape[axis]]
            for axis in varying_axes:
                self.specialization.dim_examples[dims[axis]] = self._size_of(index, axis)
            return first._replace(shape=dims)

        def shape_in(example: Example) -> Any:
            return example.types[index].shape

        return first._replace(shape=AnyShape(lambda example_index: self._from_example(example_index, shape_in)))

    def _size_of(self, index: int, axis: int) -> Examples:
        """Returns, for each example, the size that the result at ``index`` has along ``axis``."""

        def size_in(example: Example) -> Any:
            return example.types[index].shape[axis]

        return Examples(lambda example_index: self._from_example(example_index, size_in))

    def _value(self, index: int, first: Example, second: Example | None) -> Any:
        """Returns the value of the integer result at ``index`` for arguments of any rank, or None if tracing has no value.

        For example, the result of ``tf.rank`` is known while tracing, but is another value in each example.

        Args:
          index: the position of the result.
          first: the results of the traced function for one example of ranks.
          second: the results for another example, or None if there is none.
        """
        value = first.known[index]
        if value is None:
            return None
        if second is not None:
            second_value = second.known[index]
            if second_value is None:
                return None
            if _are_same_ints(value, second_value):
                return value  # it doesn't depend on the rank

        def value_in(example: Example) -> Any:
            return example.known[index]

        return AnyValue(lambda example_index: self._from_example(example_index, value_in))

    def _from_example(self, index: int, pick: Callable[[Example], Any]) -> Any:
        """Returns ``pick(example)`` for the example at ``index``, or None if the function fails for that example."""
        example = self._example_or_none(index)
        if example is None:
            return None
        picked = pick(example)
        # If the function itself deferred a call, what is picked may have a value for each example, too.
        return picked.example(index) if isinstance(picked, Examples) else picked

    def _traced_example(self, arguments: Sequence[tuple[TensorType, Any]], example: int) -> Example:
        """Traces the call for one example of the arguments' ranks. If the call needs sizes, sample sizes are tried.

        Args:
          arguments: the types and known values of the tensor arguments.
          example: the index of the example.
        """
        specialization = self.specialization
        inputs = [
            _argument_in_example(tensor_type, known, example, specialization.dim_examples)
            for tensor_type, known in arguments
        ]
        try:
            is_refinable = specialization.may_know_more or specialization.runs_eagerly
            return self._example(inputs, example, is_refinable)
        except UnknownSize as needed:
            if specialization.defers_sizes:
                merged = self._for_any_sizes(inputs, example)
                if merged is not None:
                    return merged
            elif needed.is_required:
                raise
            if not specialization.runs_eagerly:  # a graph can't be traced again
                self.needed = needed
            raise needed.error from None

    def _example(self, inputs: Sequence[tuple[TensorType, Any]], example: int, is_refinable: bool = False) -> Example:
        """Traces the function in a temporary trace, for inputs of these types and known values.

        Args:
          inputs: the type and the known value of each input.
          example: the number of the example.
          is_refinable: whether the function can be traced again with more known.
        """
        specialization = Specialization(example=example, is_refinable=is_refinable)
        with tracing(Trace("example", specialization=specialization)) as trace:
            params = [trace.add_param(tensor_type) for tensor_type, _ in inputs]
            for param, (_, known) in zip(params, inputs):
                param.known = known
            leaves, structure = self._run(params)
            self.has_effects = self.has_effects or not trace.pure
            return Example.of(structure, [trace.own(leaf) for leaf in leaves])

    def _for_any_sizes(self, inputs: Sequence[tuple[TensorType, Any]], example: int) -> Example | None:
        """Traces the function for several sample sizes, and returns an example with what the traces have in common.

        Returns None if the function fails for all sample sizes.
        """
        errors: list[BaseException] = []

        def try_sizes(sizes: Sizes) -> Example | None:
            """Returns the example for some sizes; None if it would be large, or the function fails."""
            sized_inputs = [with_sizes(typed, sizes) for typed in inputs]
            if not is_small(sized_inputs):
                return None
            try:
                return self._example(sized_inputs, example)
            except (Exception, UnknownRank) as error:  # any op's error
                errors.append(error)
                return None

        examples = samples_that_work(inputs, try_sizes)
        if errors and not examples and all(map(is_of_any_size, errors)):
            raise errors[0]
        self.needs_sizes = self.needs_sizes or bool(examples)
        return Example.for_any_sizes(examples) if examples else None

    def _run(self, inputs: Sequence[Any], evaluation_class: Any = None) -> tuple[list[Tensor], Any]:
        """Calls the function with the tensors ``inputs`` among its arguments.

        Returns a list of the tensors in the result, and a pair: the result, and for each leaf whether it is a tensor.
        """
        args, kwargs = self.arguments(inputs, evaluation_class)
        result = self._naming_errors(*args, **kwargs)
        self._sparse_parts.add(tuple(map(_is_indexed_slices, nest.flatten(result))))
        if self.gives_dense:
            result = nest.map_structure(_densified, result)
        leaves = nest.flatten(result, expand_composites=True)
        are_tensors = [leaf is not None and not isinstance(leaf, Operation) for leaf in leaves]
        tensors = [convert_to_tensor(leaf) for leaf, is_tensor_leaf in zip(leaves, are_tensors) if is_tensor_leaf]
        return tensors, (result, are_tensors)

    def arguments(self, inputs: Sequence[Any], evaluation_class: Any = None) -> Any:
        """Returns the call's ``(args, kwargs)``, with the tensors ``inputs`` at the positions of its tensor arguments.

        ``evaluation_class``, if not None, is the interpreter that runs the functions among the arguments.
        """
        leaves = list(self.leaves)
        if evaluation_class is not None:
            for i, leaf in enumerate(leaves):
                if isinstance(leaf, Subfunction):
                    leaves[i] = Subfunction(leaf.mod, leaf.name, evaluation_class)
        for position, tensor in zip(self.tensor_positions, inputs):
            leaves[position] = tensor
        return _with_slices(nest.pack_sequence_as(self.structure, leaves, expand_composites=True))

    def __call__(self, inputs: Sequence[Any], kind: Any = None) -> tuple[Tensor, ...]:
        return tuple(self._run(inputs, kind)[0])

    def checked(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        """Runs the call and checks that its results have the inferred types.

        Types that were inferred from several sample sizes may not hold for all sizes; other types need no check.

        Raises:
          ValueError: a result has another shape.
        """
        outputs = self(inputs)
        if not self.needs_sizes:
            return outputs
        for expected, output in zip(self.types, outputs):
            if not _may_be_same_shape(expected.shape, output._type.shape):
                name = getattr(self.function, "__name__", self.function)
                raise ValueError(
                    f"{name} returned shape {output.shape}, but tracing inferred {_visible_shape(expected.shape)}"
                )
        return outputs

    def packed(self, tensors: Sequence[Tensor], operation: Operation | None = None) -> Any:
        """Packs the result tensors into the structure of the traced example's result.

        ``operation`` takes the place of an operation in the example's result: that one belongs to the example's trace.
        """
        example_result, are_tensors = self.result
        remaining_tensors = iter(tensors)
        leaves: list[Any] = []
        for example_leaf, is_tensor_leaf in zip(nest.flatten(example_result, expand_composites=True), are_tensors):
            if is_tensor_leaf:
                leaves.append(next(remaining_tensors))
            elif isinstance(example_leaf, Operation):
                leaves.append(operation)
            else:
                leaves.append(example_leaf)  # None
        return nest.pack_sequence_as(example_result, leaves, expand_composites=True)


def _is_indexed_slices(part: Any) -> bool:
    return isinstance(part, IndexedSlices)


def _densified(part: Any) -> Any:
    return convert_to_tensor(part) if _is_indexed_slices(part) else part


class _Bounds(NamedTuple):
    """The bounds of a slice as a structure, so that tensors among them are leaves."""

    start: Any
    stop: Any
    step: Any


def _bounds_of_slice(leaf: Any) -> Any:
    if not isinstance(leaf, slice):
        return leaf
    bounds = _Bounds(leaf.start, leaf.stop, leaf.step)
    return bounds if any(map(is_tensor, bounds)) else leaf


def _with_slices(structure: Any) -> Any:
    """Returns a nested structure with each :class:`_Bounds` in it turned back into a slice."""
    if isinstance(structure, _Bounds):
        return slice(*structure)
    if type(structure) in (tuple, list):
        return type(structure)(map(_with_slices, structure))
    if type(structure) is dict:
        return {key: _with_slices(part) for key, part in structure.items()}
    return structure


def _is_holdable(leaf: Any) -> bool:
    """Returns whether a leaf is a Python value, or a graph, that a deferred call may hold."""
    if isinstance(leaf, slice):
        return all(map(_is_holdable, (leaf.start, leaf.stop, leaf.step)))
    return isinstance(leaf, HOLDABLE_TYPES) or hasattr(leaf, "all_params")


def _constant(leaf: Any) -> Any:
    """Returns a graph of the trace as a function that any trace can call."""
    if not hasattr(leaf, "all_params"):
        return leaf
    return Subfunction(leaf.module(), "main", SizedInstance)


def _with_known_dims(tensor_type: TensorType, known: Any) -> tuple[TensorType, Any]:
    """Returns an argument's type and known value, with one symbol for all dims that the trace assumes to be equal."""
    shape, dtype = tensor_type
    known_dim = state.trace.root.known_dim
    if not isinstance(shape, AnyShape):
        tensor_type = TensorType(tuple(map(known_dim, shape)), dtype)
    if isinstance(known, np.ndarray):
        known = np.array([known_dim(dim) for dim in known.flat], object).reshape(known.shape)
    return tensor_type, known


def _symbols(shape: Sequence[Any]) -> set[Any]:
    """Returns the symbols in the dims of a shape of known rank."""
    return {symbol for dim in shape for symbol in symbols_of(dim)}


def _argument_in_example(
    tensor_type: TensorType, known: Any, example: int, dim_examples: Mapping[Any, Examples]
) -> tuple[TensorType, Any]:
    """Returns the type and the known value of an argument in an example (a sample of unknown ranks).

    Args:
      tensor_type: the type, with a shape or dims that may depend on the example.
      known: the known value of an integer tensor, or None.
      example: the number of the example.
      dim_examples: the sizes of symbolic dims in each example.

    Raises:
      UnknownRank: the argument has no such example.
    """
    shape, dtype = tensor_type
    if isinstance(shape, AnyShape):
        shape = shape.example(example)
        if shape is None:
            raise UnknownRank("another example")
    else:
        sizes = {symbol: dim_examples[symbol].example(example) for symbol in _symbols(shape) if symbol in dim_examples}
        if None in sizes.values():
            raise UnknownRank("another example")
        shape = tuple(substitute_dim(dim, sizes) for dim in shape)
    known = known.example(example) if isinstance(known, AnyValue) else known
    return TensorType(known.shape if isinstance(known, np.ndarray) else shape, dtype), known


def _are_same_ints(a: np.ndarray, b: np.ndarray) -> bool:
    """Returns whether two arrays of dims hold the same ints."""
    return a.shape == b.shape and is_static_shape(a.flat) and all(map(same_dim, a.flat, b.flat))


def _have_one_rank(a: Any, b: Any) -> bool:
    return not isinstance(a, AnyShape) and not isinstance(b, AnyShape) and len(a) == len(b)


def _may_be_same_shape(inferred: Any, actual: Any) -> bool:
    """Returns whether two shapes may be the same, as far as their dims are known."""
    if isinstance(inferred, AnyShape) or isinstance(actual, AnyShape):
        return True
    return len(inferred) == len(actual) and all(map(may_be_same, inferred, actual))


def _visible_shape(shape: Any) -> TensorShape:
    return TensorShape([dim if isinstance(dim, int) else None for dim in shape])


def _common_dim(a: Any, b: Any) -> Any:
    return a if same_dim(a, b) else fresh_dim("any")


class DeferredCall(Primitive[Any]):
    """The primitive of a deferred call: bound while ranks or sizes are unknown, run when they are known."""

    def bind(self, *inputs: Any, key: int) -> Any:
        """Runs the call if ranks and sizes are known, in this trace or as Python; otherwise binds it as deferred."""
        if not of_any_rank():
            try:
                return bare(calls[key].checked(inputs))
            except UnknownSize as needed:
                if state.trace.specialization.level is Level.SHAPES:  # only the running program knows the sizes
                    return bare(_run_as_python(calls[key], inputs, needed))
                require_deferrable(needed)
        key = calls[key].key_here(key)
        if not calls[key].types:
            calls[key].infer_types([state.trace.own(convert_to_tensor(x)) for x in inputs])
        mark_deferring(calls[key])
        return super().bind(*inputs, key=key)

    def typed(self, *types: TensorType, key: int) -> Any:  # type: ignore[override]
        state.trace.specialization.start_deferring()[key] = calls[key]
        return bare(calls[key].types)


def bare(outputs: Sequence[Any]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _run_as_python(call: Call, inputs: Sequence[Any], needed: UnknownSize) -> Sequence[Tensor]:
    """Binds a call of Python that runs the deferred call in the program, where the sizes that it needs are known."""
    inputs_are_static = all(is_static_shape(x._type.shape) for x in inputs)
    if inputs_are_static or any(isinstance(tensor_type.shape, AnyShape) for tensor_type in call.types):
        raise needed.error
    specs = [TensorSpec(_visible_shape(tensor_type.shape), tensor_type.dtype) for tensor_type in call.types]
    return hooks.call_python(lambda *tensors: list(call(tensors)), inputs, specs)


def _vjp(cotangent: Any, y: Any, *inputs: Any, key: int) -> list[Any]:
    """Returns the cotangents of a deferred call's inputs: runs the function under a tape, and sweeps the tape backward.

    Args:
      cotangent: the cotangent of the result, or those of the results.
      y: the results; unused, because the function runs again.
      inputs: the operands.
      key: the key of the call.
    """
    if of_any_rank():
        raise UnknownRank("a gradient")
    call = calls[key]
    if call.vjp is not None:
        return call.vjp(cotangent, y, inputs)  # type: ignore[no-any-return]
    recorder = Recorder()
    # One tensor may be several operands, each with a cotangent of its own.
    operands = tuple(_with_new_identity(x) if x.dtype.is_differentiable else x for x in inputs)
    for x in operands:
        recorder.watch(x)
    outer_tapes = state.tapes
    state.tapes = [*outer_tapes, recorder]
    try:
        with nullcontext() if state.effects is None else state.effects.rerun():
            outputs = call(operands)
    finally:
        state.tapes = outer_tapes
    return sweep(recorder.records, zip(outputs, as_tuple(cotangent)), operands)


def _with_new_identity(x: Tensor) -> Tensor:
    """Returns a new tensor object with the value of ``x``, so that a gradient tape can tell the two apart.

    An enclosing tape must record that the new tensor comes from ``x``, or a second derivative would be None. So under a
    tape the new tensor is made by an op, and otherwise, at less cost, as an alias.
    """
    if state.tapes:
        return bind.identity(x)
    if state.trace is None:
        return EagerTensor(x.eager_array())
    return state.trace.own(x).alias()


def _front(*inputs: Any, key: int) -> Any:
    """Returns the inputs and the attributes of a call: the primitive's Python signature."""
    return inputs, {"key": key}


INSTANCES = "only instances of a function of unknown rank are compiled"
table["waiting"] = waiting = DeferredCall(
    _front,
    "waiting",
    {
        "type": lambda *types, key: bare(calls[key].types),
        "numpy": None,
        "vjp": _vjp,
        "why_not": dict.fromkeys(("lower", "onnx", "samples", "batch"), INSTANCES),
    },
)
calls: weakref.WeakValueDictionary[int, Call] = weakref.WeakValueDictionary()
"""The calls by key; a trace keeps the calls in its IR alive."""


def require_deferrable(needed: UnknownSize) -> None:
    """Raises ``needed`` unless the active trace may defer calls that need sizes."""
    if state.trace is None or not state.trace.specialization.defers_sizes:
        raise needed


def mark_deferring(call: Call) -> None:
    """Marks the active trace as one with deferred calls."""
    specialization = state.trace.specialization
    specialization.start_deferring()
    specialization.needs_shapes |= call.needs_sizes


def defer(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    needed: Unspecialized | None = None,
    recorded: bool = True,
) -> Any:
    """Defers a call until the needed ranks or sizes are known, and returns symbolic results of the call.

    Args:
      function, args, kwargs: the call.
      needed: the error that says what is unknown; None for an unknown rank.
      recorded: whether gradient tapes record the call.

    Raises:
      UnknownSize: the active trace cannot defer calls that need sizes.
      UnknownDataset: only the whole function can be traced again for a dataset.
    """
    if isinstance(needed, UnknownDataset):
        raise needed
    if isinstance(needed, UnknownSize):
        return _deferred_for_sizes(function, args, kwargs, needed, recorded)
    call = Call.of(function, args, kwargs)
    inputs = call.tensors()
    # A captured input may be the first tensor of unknown rank in this trace.
    own_inputs = [] if state.trace is None else [state.trace.own(tensor) for tensor in inputs]
    if not of_any_rank():
        raise _rank_error(inputs)
    call.infer_types(own_inputs)
    return _bind_deferred(call, inputs, recorded)


def _deferred_for_sizes(function: Any, args: Any, kwargs: Any, needed: UnknownSize, recorded: bool) -> Any:
    """Defers a call that needs sizes, and returns its results. Raises ``needed`` if that is impossible."""
    require_deferrable(needed)
    try:
        call = Call.of(function, args, kwargs)
        inputs = call.tensors()
        call.infer_types([state.trace.own(tensor) for tensor in inputs])
    except (Exception, Unspecialized) as error:  # any op's error; an enclosing call may be deferred instead
        raise (error if is_of_any_size(error) else needed) from None
    return _bind_deferred(call, inputs, recorded)


def _bind_deferred(call: Call, inputs: Sequence[Tensor], recorded: bool) -> Any:
    """Binds the primitive of a deferred call in the active trace, and returns its results in their structure.

    If not ``recorded``, gradient tapes don't record the call.
    """
    mark_deferring(call)
    key = new_key(call)
    outputs: list[Any] = []

    def emit_call() -> None:
        # `bind` records the call on tapes, `emit` only adds it to the trace.
        results = waiting.bind(*inputs, key=key) if recorded else state.trace.emit(waiting, inputs, {"key": key})
        outputs.extend(as_tuple(results))

    operation = _bind_as_operation(call, emit_call)
    for output, known in zip(outputs, call.known):
        output.known = known
    return call.packed(outputs, operation)


def _bind_as_operation(call: Call, emit_call: Callable[[], None]) -> Operation | None:
    """Emits a deferred call, and returns the graph operation for it, or None if the call returns only tensors.

    Ops without results, such as ``tf.group``, return an Operation, which the program may use as a control dependency.
    """
    example_result, _ = call.result
    for leaf in nest.flatten(example_result, expand_composites=True):
        if isinstance(leaf, Operation):
            return state.trace.doing(leaf.type, None, emit_call)  # type: ignore[no-any-return]
    emit_call()
    return None


def new_key(call: Call) -> int:
    """Returns a random key for a new call; saved programs contain keys, which must not collide with new ones."""
    key = secrets.randbits(62)
    calls[key] = call
    return key


def _rank_error(tensors: Sequence[Tensor]) -> Exception:
    """Returns the error for a tensor of unknown rank that is used outside of its function."""
    of_unknown_rank = (str(tensor) for tensor in tensors if isinstance(tensor._type.shape, AnyShape))
    name = next(of_unknown_rank, "a tensor of unknown rank")
    return InaccessibleTensorError(f"{name} is used outside the function that it belongs to: return it from there")


def with_shape(x: Tensor, shape: TensorShape) -> Tensor:
    """Returns ``x`` with its static shape set, as ``set_shape`` does.

    Raises:
      InvalidArgumentError: ``x`` has another shape.
    """
    result = bind.identity(x) if isinstance(x, SymbolicTensor) else x  # so that gradients pass through
    try:
        result.set_shape(shape)
    except ValueError as error:
        raise InvalidArgumentError(None, "set_shape", str(error)) from error
    return result


def with_checked_shape(tensor: Tensor, shape: TensorShape) -> Any:
    """Returns a tensor of unknown rank with a known shape. When the rank is known, ``tf.ensure_shape`` checks the shape."""
    call = Call.of(ensure_shape, (tensor, shape), {})
    call.types = [_type_of_shape(shape, tensor.dtype)]
    return waiting.bind(*call.tensors(), key=new_key(call))


def _type_of_shape(shape: TensorShape, dtype: DType) -> TensorType:
    return TensorType(tuple(fresh_dim("any") if dim is None else dim for dim in shape), dtype)


def set_rank(tensor: SymbolicTensor, shape: TensorShape) -> None:
    """Gives a symbolic tensor of unknown rank the rank of ``shape`` in place; it is checked when the rank is known."""
    if shape.rank is None:
        return
    if not of_any_rank():
        raise _rank_error([tensor])
    call = Call.of(with_shape, (tensor, shape), {})
    call.types = [_type_of_shape(shape, tensor.dtype)]
    trace = tensor._trace
    # The function's parameter stays of unknown rank; the user's tensor becomes the result of the deferred call.
    trace.params = [param.alias() if param is tensor else param for param in trace.params]
    shaped = trace.emit(waiting, [tensor], {"key": new_key(call)})
    tensor._var, tensor._type = shaped._var, shaped._type


hooks.defer_call = defer
hooks.set_rank = set_rank
