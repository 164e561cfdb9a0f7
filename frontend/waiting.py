"""Calls that wait for a rank: part of a trace of unknown rank, done when the function is instantiated for one.

What such a call gives, it tells from two examples of its arguments, of ranks far apart: where both give one type, that is
it for every rank; else its dims, or its rank, are unknown too.
"""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tvtf import nest
from tvtf.anyrank import RANKS, AnyShape, AnyValue, Examples, UnknownRank, UnknownSizes, of_any_rank
from tvtf.context import state
from tvtf.dtypes import DType
from tvtf.emit import example_shape
from tvtf.errors import InaccessibleTensorError, InvalidArgumentError
from tvtf.frontend.signature import spec_if_composite
from tvtf.interpret import Subfunction
from tvtf.ops.array import ensure_shape
from tvtf.ops.rules import bind
from tvtf.passes.autodiff import Recorder, sweep
from tvtf.primitive import Primitive, as_tuple, hooks, refusing, table
from tvtf.shape import TensorShape, TensorType, fresh_dim, is_static_shape, same_dim
from tvtf.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor, is_tensor

PLAIN = (bool, int, float, complex, str, bytes, DType, TensorShape, np.ndarray, np.generic, type(None), type(...))
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
        self.calls_tell = False
        self.needed: UnknownSizes | None = None

    @classmethod
    def of(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Raises UnknownRank where an argument is nothing that may wait."""
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
        self.calls_tell = state.trace.root.calls_tell
        self.tries = Examples(lambda index: self._tried(given, index))
        first, second = self._tried_first(), self._tried_if_possible(1)
        self.result = first.structure
        places = range(len(first.types))
        self.types = [self._type(i, first.types[i], second.types[i] if second else None) for i in places]
        self.known = [self._value(i, first.known[i], (second or first).known[i]) for i in places]

    def _tried_first(self) -> Example:
        try:
            return self.tries.example(0)
        except (Exception, UnknownRank) as refused:  # any op's refusal
            found = next(filter(None, map(self._tried_if_possible, range(2, len(RANKS)))), None)
            if found is None:
                raise (self.needed or refused) from None
            return found

    def _tried_if_possible(self, index: int) -> Example | None:
        """An example; None where the function is not for its rank."""
        try:
            return self.tries.example(index)
        except (Exception, UnknownRank):  # any op's refusal
            return None

    def _type(self, place: int, first: TensorType, second: TensorType | None) -> TensorType:
        """The type for every rank."""
        if second is not None and len(first.shape) == len(second.shape):
            return first._replace(shape=tuple(map(_common_dim, first.shape, second.shape)))
        return first._replace(shape=AnyShape(lambda index: self._of(index, lambda each: each.types[place].shape)))

    def _value(self, place: int, first: Any, second: Any) -> Any:
        if first is None or second is None:
            return None
        same = (
            first.shape == second.shape and is_static_shape(first.flat) and all(map(same_dim, first.flat, second.flat))
        )
        return first if same else AnyValue(lambda index: self._of(index, lambda each: each.known[place]))

    def _of(self, index: int, pick: Callable[[Example], Any]) -> Any:
        found = self._tried_if_possible(index)
        return found and pick(found)

    def _tried(self, given: Sequence[tuple[TensorType, Any]], example: int) -> Example:
        from tvtf.emit import Trace, tracing

        with tracing(Trace("example")) as trace:
            trace.example = example
            trace.calls_tell = self.calls_tell
            try:
                leaves, structure = self._run([_exemplified(trace, *each, example) for each in given])
            except UnknownSizes as needed:
                if needed.meant:
                    raise
                self.needed = needed
                raise needed.error from None
            return Example(structure, [trace.own(leaf) for leaf in leaves])

    def _run(self, inputs: Sequence[Any], kind: Any = None) -> tuple[list[Tensor], Any]:
        """The tensors that the function returns, its result, and which leaves of it are tensors, not None."""
        args, kwargs = self.arguments(inputs, kind)
        result = self._refusing(*args, **kwargs)
        flat = nest.flatten(result, expand_composites=True)
        return [convert_to_tensor(x) for x in flat if x is not None], (result, [x is not None for x in flat])

    def arguments(self, inputs: Sequence[Any], kind: Any = None) -> Any:
        """What the function is called with for these tensors; functions among them are evaluated as ``kind`` does."""
        leaves = [Subfunction(f.mod, f.name, kind) if kind and isinstance(f, Subfunction) else f for f in self.leaves]
        for place, tensor in zip(self.places, inputs):
            leaves[place] = tensor
        return nest.pack_sequence_as(self.structure, leaves, expand_composites=True)

    def __call__(self, inputs: Sequence[Any], kind: Any = None) -> tuple[Tensor, ...]:
        return tuple(self._run(inputs, kind)[0])

    def packed(self, tensors: Sequence[Tensor]) -> Any:
        structure, is_given = self.result
        left = iter(tensors)
        return nest.pack_sequence_as(structure, [next(left) if g else None for g in is_given], expand_composites=True)


def _is_plain(leaf: Any) -> bool:
    if isinstance(leaf, slice):
        return all(map(_is_plain, (leaf.start, leaf.stop, leaf.step)))
    return isinstance(leaf, PLAIN) or hasattr(leaf, "all_params")


def _constant(leaf: Any) -> Any:
    """A graph of the trace as a function on tensors of any trace."""
    if not hasattr(leaf, "all_params"):
        return leaf
    return Subfunction(leaf.module(), "main")


def _exemplified(trace: Any, given: TensorType, known: Any, example: int) -> Any:
    shape, dtype = given
    if isinstance(shape, AnyShape):
        shape = shape.example(example)
        if shape is None:
            raise UnknownRank("another example")
    param = trace.add_param(TensorType(shape, dtype))
    param.known = known.example(example) if isinstance(known, AnyValue) else known
    return param


def _common_dim(a: Any, b: Any) -> Any:
    return a if same_dim(a, b) else fresh_dim("any")


class Waiting(Primitive[Any]):
    """The primitive of a waiting call: bound in a trace of unknown rank, done in every other."""

    def bind(self, *inputs: Any, key: int) -> Any:
        if not of_any_rank():
            return bare(calls[key](inputs))
        key = calls[key].key_here(key)
        if not calls[key].types:
            calls[key].learn([state.trace.own(convert_to_tensor(x)) for x in inputs])
        return super().bind(*inputs, key=key)

    def typed(self, *types: TensorType, key: int) -> Any:  # type: ignore[override]
        state.trace.root.waiting[key] = calls[key]
        return bare(calls[key].types)


def bare(outputs: Sequence[Any]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


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
table["waiting"] = waiting = Waiting(
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


def wait(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], recorded: bool = True) -> Any:
    """The results of a call that runs when the rank is known; a tape sees it unless it is ``recorded`` otherwise."""
    call = Call.of(function, args, kwargs)
    inputs = call.tensors()
    if not of_any_rank():
        raise _left_over(inputs)
    call.learn([state.trace.own(t) for t in inputs])
    key = new_key(call)
    outputs = as_tuple(waiting.bind(*inputs, key=key) if recorded else state.trace.emit(waiting, inputs, {"key": key}))
    for output, known in zip(outputs, call.known):
        output.known = known
    return call.packed(outputs)


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


hooks.wait = wait
hooks.tell_rank = tell_rank
