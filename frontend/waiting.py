"""Calls that wait for a rank: part of a trace of unknown rank, done when the function is instantiated for one.

What such a call gives, it tells from two examples of its arguments, of ranks far apart: where both give one type, that is
it for every rank; else its dims, or its rank, are unknown too.
"""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf import nest
from tvtf.anyrank import AnyShape, AnyValue, UnknownRank, of_any_rank
from tvtf.context import state
from tvtf.dtypes import DType
from tvtf.emit import example_shape
from tvtf.errors import InaccessibleTensorError
from tvtf.frontend.signature import spec_if_composite
from tvtf.passes.autodiff import Recorder, sweep
from tvtf.primitive import Primitive, as_tuple, hooks, table
from tvtf.shape import TensorShape, TensorType, fresh_dim, is_static_shape, same_dim
from tvtf.tensor import Tensor, convert_to_tensor, is_tensor

PLAIN = (bool, int, float, complex, str, bytes, DType, TensorShape, np.ndarray, np.generic, type(None), type(...))
"""What may stand among the arguments of a waiting call beside tensors."""


def argument_shape(name: str, tensor: Any) -> AnyShape:
    """The shape of an argument of unknown rank: the first example is of the rank of the tensor given for it, if any."""
    shape = (None, None) if tensor is None else tensor._type.shape
    return shape if isinstance(shape, AnyShape) else example_shape(name, len(shape))


class Example:
    """What a waiting call gave for one example: structure, types, and known values of integers."""

    def __init__(self, structure: Any, tensors: Sequence[Any]) -> None:
        self.structure = structure
        self.types = [t._type for t in tensors]
        self.known = [t.known for t in tensors]


class Call:
    """A call of a public function, as a function of the tensors among its arguments: the leaves at ``places``."""

    def __init__(self, function: Callable[..., Any], structure: Any, leaves: list[Any], places: list[int]) -> None:
        self.function = function
        self.structure = structure
        self.leaves = leaves
        self.places = places
        self.types: list[TensorType] = []  # none before it learnt what it gives

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

    def tensors(self) -> list[Tensor]:
        return [convert_to_tensor(self.leaves[i]) for i in self.places]

    def learn(self, inputs: Sequence[Any]) -> None:
        """Finds out what the call gives.

        Raises:
          what the function raises for the first example.
        """
        first = self._tried(inputs, 0)
        second = self._tried_apart(inputs)
        self.result = first.structure
        self.types = [_common(a, b) for a, b in zip(first.types, second.types if second else [None] * len(first.types))]
        self.known = [_common_value(a, b) for a, b in zip(first.known, second.known if second else first.known)]

    def _tried_apart(self, inputs: Sequence[Any]) -> Example | None:
        """The second example; None where the function is not for its rank."""
        try:
            return self._tried(inputs, 1)
        except (Exception, UnknownRank):  # any op's refusal
            return None

    def _tried(self, inputs: Sequence[Any], example: int) -> Example:
        from tvtf.emit import Trace, tracing

        with tracing(Trace("example")) as trace:
            given = [_exemplified(trace, x, example) for x in inputs]
            leaves, structure = self._run(given)
            return Example(structure, [trace.own(leaf) for leaf in leaves])

    def _run(self, inputs: Sequence[Any]) -> tuple[list[Tensor], Any]:
        """The tensors that the function returns, its result, and which leaves of it are tensors, not None."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, inputs):
            leaves[place] = tensor
        args, kwargs = nest.pack_sequence_as(self.structure, leaves, expand_composites=True)
        result = self.function(*args, **kwargs)
        flat = nest.flatten(result, expand_composites=True)
        return [convert_to_tensor(x) for x in flat if x is not None], (result, [x is not None for x in flat])

    def __call__(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        return tuple(self._run(inputs)[0])

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
    from tvtf.interpret import Subfunction

    return Subfunction(leaf.module(), "main")


def _exemplified(trace: Any, tensor: Any, example: int) -> Any:
    shape, dtype = tensor._type
    if isinstance(shape, AnyShape):
        shape = shape.examples[example]
        if shape is None:
            raise UnknownRank("a second example")
    param = trace.add_param(TensorType(shape, dtype))
    known = getattr(tensor, "known", None)
    param.known = known.examples[example] if isinstance(known, AnyValue) else known
    return param


def _common(first: TensorType, second: TensorType | None) -> TensorType:
    """The type for every rank."""
    if second is None or len(first.shape) != len(second.shape):
        return TensorType(AnyShape((first.shape, second and second.shape)), first.dtype)
    dims = [a if same_dim(a, b) else fresh_dim(f"any_{i}") for i, (a, b) in enumerate(zip(first.shape, second.shape))]
    return TensorType(tuple(dims), first.dtype)


def _common_value(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return None
    same = first.shape == second.shape and is_static_shape(first.flat) and all(map(same_dim, first.flat, second.flat))
    return first if same else AnyValue((first, second))


class Waiting(Primitive[Any]):
    """The primitive of a waiting call: bound in a trace of unknown rank, done in every other."""

    def bind(self, *inputs: Any, key: int) -> Any:
        if not of_any_rank():
            return _bare(calls[key](inputs))
        if not calls[key].types:
            calls[key].learn([state.trace.own(convert_to_tensor(x)) for x in inputs])
        return super().bind(*inputs, key=key)

    def typed(self, *types: TensorType, key: int) -> Any:  # type: ignore[override]
        state.trace.root.waiting[key] = calls[key]
        return _bare(calls[key].types)


def _bare(outputs: Sequence[Any]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _vjp(ct: Any, y: Any, *inputs: Any, key: int) -> list[Any]:
    if of_any_rank():
        raise UnknownRank("a gradient")
    recorder = Recorder()
    inputs = tuple(state.trace.own(x).alias() if x.dtype.is_differentiable else x for x in inputs)
    for x in inputs:
        recorder.watch(x)
    outer, state.tapes = state.tapes, [*state.tapes, recorder]
    try:
        outputs = calls[key](inputs)
    finally:
        state.tapes = outer
    return sweep(recorder.records, zip(outputs, as_tuple(ct)), inputs)


def _front(*inputs: Any, key: int) -> Any:
    """A call that runs when the rank of its arguments is known."""
    return inputs, {"key": key}


INSTANCES = "only instances of a function of unknown rank are compiled"
table["waiting"] = waiting = Waiting(
    _front,
    "waiting",
    {
        "type": lambda *types, key: _bare(calls[key].types),
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
    key = secrets.randbits(62)  # no other's, in a file neither
    calls[key] = call
    outputs = as_tuple(waiting.bind(*inputs, key=key) if recorded else state.trace.emit(waiting, inputs, {"key": key}))
    for output, known in zip(outputs, call.known):
        output.known = known
    return call.packed(outputs)


def _left_over(tensors: Sequence[Tensor]) -> Exception:
    """What to say of tensors of unknown rank where no function of unknown rank is traced."""
    name = next((str(t) for t in tensors if isinstance(t._type.shape, AnyShape)), "a tensor of unknown rank")
    return InaccessibleTensorError(f"{name} is used outside the function that it belongs to: return it from there")


hooks.wait = wait
