"""Calls that wait for a rank, or for sizes: part of a trace of unknown ones, done when the function is instantiated for some.

What such a call gives, it tells from two examples of its arguments, of ranks far apart: where both give one type, that is
it for every rank; else its dims, or its rank, are unknown too. Where an example needs sizes, it is one for several
(``frontend/function/sample_shapes.py``).
"""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from tvtf.core import nest
from tvtf.core.argument_error import is_of_any_size
from tvtf.core.deferred_shape import RANKS, AnyShape, AnyValue, Examples, UnknownRank, UnknownSizes, of_any_rank
from tvtf.core.graph_operation import Operation
from tvtf.core.primitive import Primitive, as_tuple, hooks, refusing, table
from tvtf.core.shape import TensorShape, TensorType, fresh_dim, is_static_shape, may_be_same, same_dim, substitute_dim
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.dtypes import DType
from tvtf.errors import InaccessibleTensorError, InvalidArgumentError
from tvtf.frontend.function.sample_shapes import Sizes, common_type, common_value, found_for, is_small, with_sizes
from tvtf.frontend.function.signature import spec_if_composite
from tvtf.frontend.host.python_call import by_python
from tvtf.ir.dialect import example_shape
from tvtf.ir.interpreter import Subfunction
from tvtf.ir.trace import Trace, tracing
from tvtf.ops.array import ensure_shape
from tvtf.ops.extents import symbols_in
from tvtf.ops.rules import bind
from tvtf.passes.autodiff.reverse_mode import Recorder, sweep

PLAIN = (
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
"""What may stand among the arguments of a waiting call beside tensors."""


def argument_shape(name: str, tensor: Any) -> AnyShape:
    """The shape of an argument of unknown rank: the first example is of the rank of the tensor given for it, if any."""
    if tensor is None:
        return example_shape(name)
    shape = tensor._type.shape
    return shape if isinstance(shape, AnyShape) else example_shape(name, len(shape))


class Example:
    """What a waiting call gave for one example: structure, types, and known values of integers."""

    def __init__(self, structure: Any, tensors: Sequence[Any]) -> None:
        self.structure = structure
        self.types = [t._type for t in tensors]
        self.known = [t.known for t in tensors]

    @classmethod
    def for_any_sizes(cls, found: Sequence[tuple[Sizes, Example]]) -> Example | None:
        """What those for some sizes tell of any; None where they have not one form."""
        made = cls.__new__(cls)
        made.structure = found[0][1].structure
        dtypes = {tuple(t.dtype for t in each.types) for _, each in found}
        if len(dtypes) > 1:
            return None
        places = range(len(found[0][1].types))
        made.types = [common_type([(sizes, each.types[i]) for sizes, each in found]) for i in places]
        made.known = [common_value([each.known[i] for _, each in found]) for i in places]
        return made


class Call:
    """A call of a public function, as a function of the tensors among its arguments: the leaves at ``places``."""

    vjp: Callable[..., Any] | None = None
    """Its gradient, where that is not the gradient of what it does."""

    def __init__(self, function: Callable[..., Any], structure: Any, leaves: list[Any], places: list[int]) -> None:
        self.function = function
        self._refusing = refusing(function) if type(function) is FunctionType else function
        self.structure = structure
        self.leaves = leaves
        self.places = places
        self.types: list[TensorType] = []  # none before it learnt what it gives
        self.has_effects = False
        self.may_specialize = False
        self.may_wait = False
        self.needs_sizes = False
        self.needed: UnknownSizes | None = None
        self.mistyped: BaseException | None = None

    @classmethod
    def of(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Raises UnknownRank where an argument is nothing that may wait."""
        args, kwargs = nest.map_structure(_bounds_of_slice, (args, kwargs))
        leaves = nest.flatten((args, kwargs), expand_composites=True)
        places = [i for i, leaf in enumerate(leaves) if is_tensor(leaf)]
        if not all(is_tensor(leaf) or _is_plain(leaf) for leaf in leaves):
            raise UnknownRank(f"{getattr(function, '__name__', function)} of a tensor of unknown rank")
        return cls(
            function,
            nest.map_structure(spec_if_composite, (args, kwargs)),
            [_constant(leaf) for leaf in leaves],
            places,
        )

    def key_here(self, key: int) -> int:
        """The key under which it is bound once more."""
        return key

    def tensors(self) -> list[Tensor]:
        return [convert_to_tensor(self.leaves[i]) for i in self.places]

    def learn(self, inputs: Sequence[Any]) -> None:
        """Finds out what the call gives.

        Raises:
          what the function raises for the first example, where it does for every other.
        """
        given = [(x._type, x.known) for x in inputs]
        root = state.trace.root
        self.may_specialize, self.may_wait = root.may_specialize, root.may_wait
        given = [_as_assumed(*each) for each in given]
        self.dim_examples = root.dim_examples
        self.tries = Examples(lambda index: self._tried(given, index))
        vary = any(isinstance(known, AnyValue) or self._varies(shape) for (shape, _), known in given)
        self.has_examples = vary or self._calls_functions
        first = self._tried_first()
        second = self._tried_if_possible(1) if self.has_examples else first
        self.result = first.structure
        places = range(len(first.types))
        self.types = [self._type(i, first.types[i], second.types[i] if second else None) for i in places]
        self.known = [self._value(i, first.known[i], (second or first).known[i]) for i in places]

    def _varies(self, shape: Any) -> bool:
        """Whether a shape depends on a rank that is not known."""
        return isinstance(shape, AnyShape) or any(dim in self.dim_examples for dim in _symbols(shape))

    @property
    def _calls_functions(self) -> bool:
        """Whether functions are among the arguments: Python in them may give any rank."""
        return any(isinstance(leaf, Subfunction) for leaf in self.leaves)

    def _tried_first(self) -> Example:
        try:
            return self.tries.example(0)
        except (Exception, UnknownRank) as refused:  # any op's refusal
            needed = self.needed
            others = range(2, len(RANKS)) if self.has_examples else ()
            found = next(filter(None, map(self._tried_if_possible, others)), None)
            if found is None:
                raise (self.mistyped or needed or refused) from None
            return found

    def _tried_if_possible(self, index: int) -> Example | None:
        """An example; None where the function is not for its rank."""
        try:
            return self.tries.example(index)
        except (Exception, UnknownRank) as refused:  # any op's refusal
            self.mistyped = refused if is_of_any_size(refused) else self.mistyped
            return None

    def _type(self, place: int, first: TensorType, second: TensorType | None) -> TensorType:
        """The type for every rank."""
        if second is not None and _have_one_rank(first.shape, second.shape):
            dims = tuple(map(_common_dim, first.shape, second.shape))
            self._exemplify(place, [axis for axis, dim in enumerate(dims) if dim is not first.shape[axis]], dims)
            return first._replace(shape=dims)
        return first._replace(shape=AnyShape(lambda index: self._of(index, lambda each: each.types[place].shape)))

    def _exemplify(self, place: int, axes: Sequence[int], dims: Sequence[Any]) -> None:
        """Tells what the sizes that differ from rank to rank are in each example."""
        for axis in axes:
            state.trace.root.dim_examples[dims[axis]] = self._size_of(place, axis)

    def _size_of(self, place: int, axis: int) -> Examples:
        return Examples(lambda index: self._of(index, lambda each: each.types[place].shape[axis]))

    def _value(self, place: int, first: Any, second: Any) -> Any:
        if first is None or second is None:
            return None
        same = (
            first.shape == second.shape and is_static_shape(first.flat) and all(map(same_dim, first.flat, second.flat))
        )
        return first if same else AnyValue(lambda index: self._of(index, lambda each: each.known[place]))

    def _of(self, index: int, pick: Callable[[Example], Any]) -> Any:
        found = self._tried_if_possible(index)
        picked = found and pick(found)
        return picked.example(index) if isinstance(picked, Examples) else picked

    def _tried(self, given: Sequence[tuple[TensorType, Any]], example: int) -> Example:
        inputs = [_exemplified(*each, example, self.dim_examples) for each in given]
        try:
            return self._example(inputs, example, self.may_specialize)
        except UnknownSizes as needed:
            found = self._for_any_sizes(inputs, example) if self.may_wait else None
            if found is not None:
                return found
            if needed.is_required and not self.may_wait:
                raise
            self.needed = needed
            raise needed.error from None

    def _example(self, inputs: Sequence[tuple[TensorType, Any]], example: int, may_specialize: bool = False) -> Example:
        with tracing(Trace("example")) as trace:
            trace.example = example
            trace.may_specialize = may_specialize
            params = [trace.add_param(tensor_type) for tensor_type, _ in inputs]
            for param, (_, known) in zip(params, inputs):
                param.known = known
            leaves, structure = self._run(params)
            self.has_effects = self.has_effects or not trace.pure
            return Example(structure, [trace.own(leaf) for leaf in leaves])

    def _for_any_sizes(self, inputs: Sequence[tuple[TensorType, Any]], example: int) -> Example | None:
        """What examples of several sizes have in common; None where the function is for none of them."""
        refusals: list[BaseException] = []

        def attempt(sizes: Sizes) -> Example | None:
            sized = [with_sizes(each, sizes) for each in inputs]
            if not is_small(sized):
                return None
            try:
                return self._example(sized, example)
            except (Exception, UnknownRank) as refused:  # any op's refusal
                refusals.append(refused)
                return None

        found = found_for(inputs, attempt)
        if refusals and not found and all(map(is_of_any_size, refusals)):
            raise refusals[0]
        self.needs_sizes = self.needs_sizes or bool(found)
        return Example.for_any_sizes(found) if found else None

    def _run(self, inputs: Sequence[Any], kind: Any = None) -> tuple[list[Tensor], Any]:
        """The tensors that the function returns, its result, and which leaves of it are tensors, not None."""
        args, kwargs = self.arguments(inputs, kind)
        result = self._refusing(*args, **kwargs)
        flat = nest.flatten(result, expand_composites=True)
        given = [x is not None and not isinstance(x, Operation) for x in flat]
        return [convert_to_tensor(x) for x, is_given in zip(flat, given) if is_given], (result, given)

    def arguments(self, inputs: Sequence[Any], kind: Any = None) -> Any:
        """What the function is called with for these tensors; functions among them are evaluated as ``kind`` does."""
        leaves = [Subfunction(f.mod, f.name, kind) if kind and isinstance(f, Subfunction) else f for f in self.leaves]
        for place, tensor in zip(self.places, inputs):
            leaves[place] = tensor
        return _with_slices(nest.pack_sequence_as(self.structure, leaves, expand_composites=True))

    def __call__(self, inputs: Sequence[Any], kind: Any = None) -> tuple[Tensor, ...]:
        return tuple(self._run(inputs, kind)[0])

    def checked(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        """What it gives now, which must be what its examples told."""
        outputs = self(inputs)
        for told, output in zip(self.types, outputs) if self.needs_sizes else ():
            if not _may_be(told.shape, output._type.shape):
                name = getattr(self.function, "__name__", self.function)
                raise ValueError(f"{name} gives shape {output.shape} where tracing took it for {_shown(told.shape)}")
        return outputs

    def packed(self, tensors: Sequence[Tensor], operation: Operation | None = None) -> Any:
        """The result of these tensors, with an op of this trace in place of an example's."""
        structure, is_given = self.result
        left = iter(tensors)
        others = nest.flatten(structure, expand_composites=True)
        own = [operation if isinstance(other, Operation) else other for other in others]
        leaves = [next(left) if g else other for g, other in zip(is_given, own)]
        return nest.pack_sequence_as(structure, leaves, expand_composites=True)


class _Bounds(NamedTuple):
    """A slice as a structure, whose tensors are found among its leaves."""

    start: Any
    stop: Any
    step: Any


def _bounds_of_slice(leaf: Any) -> Any:
    if not isinstance(leaf, slice):
        return leaf
    bounds = _Bounds(leaf.start, leaf.stop, leaf.step)
    return bounds if any(map(is_tensor, bounds)) else leaf


def _with_slices(structure: Any) -> Any:
    """The structure with the slices that :class:`_Bounds` stand for."""
    if isinstance(structure, _Bounds):
        return slice(*structure)
    if type(structure) in (tuple, list):
        return type(structure)(map(_with_slices, structure))
    if type(structure) is dict:
        return {key: _with_slices(each) for key, each in structure.items()}
    return structure


def _is_plain(leaf: Any) -> bool:
    if isinstance(leaf, slice):
        return all(map(_is_plain, (leaf.start, leaf.stop, leaf.step)))
    return isinstance(leaf, PLAIN) or hasattr(leaf, "all_params")


def _constant(leaf: Any) -> Any:
    """A graph of the trace as a function on tensors of any trace."""
    if not hasattr(leaf, "all_params"):
        return leaf
    return Subfunction(leaf.module(), "main")


def _as_assumed(given: TensorType, known: Any) -> tuple[TensorType, Any]:
    """With the sizes that were assumed to be equal by now."""
    shape, dtype = given
    own = state.trace.root.known_dim
    if not isinstance(shape, AnyShape):
        given = TensorType(tuple(map(own, shape)), dtype)
    if isinstance(known, np.ndarray):
        known = np.array([own(d) for d in known.flat], object).reshape(known.shape)
    return given, known


def _symbols(shape: Sequence[Any]) -> set[Any]:
    """The symbols in the dims of a shape of known rank."""
    return {symbol for dim in shape if not isinstance(dim, int) for symbol in symbols_in(dim)}


def _exemplified(given: TensorType, known: Any, example: int, dims: Mapping[Any, Examples]) -> tuple[TensorType, Any]:
    shape, dtype = given
    if isinstance(shape, AnyShape):
        shape = shape.example(example)
        if shape is None:
            raise UnknownRank("another example")
    else:
        found = {symbol: dims[symbol].example(example) for symbol in _symbols(shape) if symbol in dims}
        if None in found.values():
            raise UnknownRank("another example")
        shape = tuple(substitute_dim(dim, found) for dim in shape)
    known = known.example(example) if isinstance(known, AnyValue) else known
    return TensorType(known.shape if isinstance(known, np.ndarray) else shape, dtype), known


def _have_one_rank(a: Any, b: Any) -> bool:
    return not isinstance(a, AnyShape) and not isinstance(b, AnyShape) and len(a) == len(b)


def _may_be(told: Any, found: Any) -> bool:
    if isinstance(told, AnyShape) or isinstance(found, AnyShape):
        return True
    return len(told) == len(found) and all(map(may_be_same, told, found))


def _shown(shape: Any) -> TensorShape:
    return TensorShape([d if isinstance(d, int) else None for d in shape])


def _common_dim(a: Any, b: Any) -> Any:
    return a if same_dim(a, b) else fresh_dim("any")


class DeferredCall(Primitive[Any]):
    """The primitive of a waiting call: bound in a trace of unknown rank, done in every other."""

    def bind(self, *inputs: Any, key: int) -> Any:
        if not of_any_rank():
            try:
                return bare(calls[key].checked(inputs))
            except UnknownSizes as needed:
                if state.trace.root.has_sizes:
                    return bare(_by_python(calls[key], inputs, needed))
                take_up(needed)
        key = calls[key].key_here(key)
        if not calls[key].types:
            calls[key].learn([state.trace.own(convert_to_tensor(x)) for x in inputs])
        begin(calls[key])
        return super().bind(*inputs, key=key)

    def typed(self, *types: TensorType, key: int) -> Any:  # type: ignore[override]
        state.trace.root.waiting[key] = calls[key]
        return bare(calls[key].types)


def bare(outputs: Sequence[Any]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _by_python(call: Call, inputs: Sequence[Any], needed: UnknownSizes) -> Sequence[Tensor]:
    """A call done eagerly when the program runs: only then the sizes are known that it needs."""
    if all(is_static_shape(x._type.shape) for x in inputs) or any(isinstance(t.shape, AnyShape) for t in call.types):
        raise needed.error
    specs = [TensorSpec(_shown(t.shape), t.dtype) for t in call.types]
    return by_python(lambda *tensors: list(call(tensors)), inputs, specs)


def _vjp(ct: Any, y: Any, *inputs: Any, key: int) -> list[Any]:
    if of_any_rank():
        raise UnknownRank("a gradient")
    if (own := calls[key].vjp) is not None:
        return own(ct, y, inputs)
    recorder = Recorder()
    inputs = tuple(_itself(x) if x.dtype.is_differentiable else x for x in inputs)
    for x in inputs:
        recorder.watch(x)
    outer, state.tapes = state.tapes, [*state.tapes, recorder]
    try:
        outputs = calls[key](inputs)
    finally:
        state.tapes = outer
    return sweep(recorder.records, zip(outputs, as_tuple(ct)), inputs)


def _itself(x: Tensor) -> Tensor:
    """The same value as a tensor of its own identity, for tapes."""
    return EagerTensor(x.eager_array()) if state.trace is None else state.trace.own(x).alias()


def _front(*inputs: Any, key: int) -> Any:
    """A call that runs when the rank of its arguments is known."""
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
"""By key; the traces in whose IR they stand keep them."""


def take_up(needed: UnknownSizes) -> None:
    """Raises it where nothing is traced whose calls may wait for sizes."""
    if state.trace is None or not state.trace.root.may_wait:
        raise needed


def begin(call: Call) -> None:
    """Has the active trace be one whose calls wait."""
    root = state.trace.root
    root.waiting = {} if root.waiting is None else root.waiting
    root.needs_shape_instances = root.needs_shape_instances or call.needs_sizes


def wait(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    needed: BaseException | None = None,
    recorded: bool = True,
) -> Any:
    """The results of a call that runs when the rank, or sizes, are known, which it ``needed``.

    A tape sees it unless it is ``recorded`` otherwise.

    Raises:
      UnknownSizes: it can't wait for sizes.
    """
    if isinstance(needed, UnknownSizes):
        return _waiting_for_sizes(function, args, kwargs, needed, recorded)
    call = Call.of(function, args, kwargs)
    inputs = call.tensors()
    if not of_any_rank():
        raise _left_over(inputs)
    call.learn([state.trace.own(t) for t in inputs])
    return _bound(call, inputs, recorded)


def _waiting_for_sizes(function: Any, args: Any, kwargs: Any, needed: UnknownSizes, recorded: bool) -> Any:
    take_up(needed)
    try:
        call = Call.of(function, args, kwargs)
        inputs = call.tensors()
        call.learn([state.trace.own(t) for t in inputs])
    except (Exception, UnknownRank, UnknownSizes) as refused:  # any op's refusal: what is around it may wait
        raise (refused if is_of_any_size(refused) else needed) from None
    return _bound(call, inputs, recorded)


def _bound(call: Call, inputs: Sequence[Tensor], recorded: bool) -> Any:
    begin(call)
    key = new_key(call)
    outputs: list[Any] = []

    def work() -> None:
        bound = waiting.bind if recorded else lambda *given, key: state.trace.emit(waiting, given, {"key": key})
        outputs.extend(as_tuple(bound(*inputs, key=key)))

    operation = _done_by(call, work)
    for output, known in zip(outputs, call.known):
        output.known = known
    return call.packed(outputs, operation)


def _done_by(call: Call, work: Callable[[], None]) -> Operation | None:
    """Binds a call; where its result has an op that gives nothing, that stands for it here."""
    done = next((x for x in nest.flatten(call.result[0], expand_composites=True) if isinstance(x, Operation)), None)
    if done is not None:
        return state.trace.doing(done.type, None, work)  # type: ignore[no-any-return]
    work()
    return None


def new_key(call: Call) -> int:
    """The key of a new call: no other's, in a file neither."""
    key = secrets.randbits(62)
    calls[key] = call
    return key


def _left_over(tensors: Sequence[Tensor]) -> Exception:
    """What to say of tensors of unknown rank where no function of unknown rank is traced."""
    name = next((str(t) for t in tensors if isinstance(t._type.shape, AnyShape)), "a tensor of unknown rank")
    return InaccessibleTensorError(f"{name} is used outside the function that it belongs to: return it from there")


def of_shape(x: Tensor, shape: TensorShape) -> Tensor:
    """``x``, which has this shape.

    Raises:
      InvalidArgumentError: it has not.
    """
    told = bind.identity(x) if isinstance(x, SymbolicTensor) else x  # tapes see that it is the same
    try:
        told.set_shape(shape)
    except ValueError as error:
        raise InvalidArgumentError(None, "set_shape", str(error)) from error
    return told


def checked_to_be(tensor: Tensor, shape: TensorShape) -> Any:
    """A tensor of unknown rank with a known one, which its instances check as ``tf.ensure_shape`` does."""
    call = Call.of(ensure_shape, (tensor, shape), {})
    call.types = [_told_type(shape, tensor.dtype)]
    return waiting.bind(*call.tensors(), key=new_key(call))


def _told_type(shape: TensorShape, dtype: DType) -> TensorType:
    return TensorType(tuple(fresh_dim("any") if d is None else d for d in shape), dtype)


def tell_rank(tensor: SymbolicTensor, shape: TensorShape) -> None:
    """Takes a tensor of unknown rank for one of this shape: its instances check the rank."""
    if shape.rank is None:
        return
    if not of_any_rank():
        raise _left_over([tensor])
    call = Call.of(of_shape, (tensor, shape), {})
    call.types = [_told_type(shape, tensor.dtype)]
    trace = tensor._trace
    trace.params = [p.alias() if p is tensor else p for p in trace.params]
    made = trace.emit(waiting, [tensor], {"key": new_key(call)})
    tensor._var, tensor._type = made._var, made._type


hooks.defer_call = wait
hooks.set_rank = tell_rank
