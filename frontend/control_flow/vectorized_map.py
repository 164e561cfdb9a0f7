"""Mapping over a leading axis: ``vectorized_map``, and the mapped sweeps of jacobians.

A :class:`Batched` tensor stands for one element while it holds them all. Binding a primitive to one uses the
primitive's ``batch`` rule, or a loop over the elements if it has none. Levels nest: a batched tensor may hold batched
ones. A user's function is traced for one element first, so that its control flow becomes primitives too
(frontend/control_flow/batched_control_flow.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.log import logger
from tvtf.core.primitive import Primitive, as_tuple, export, hooks
from tvtf.core.shape import TensorType, agree_dim, same_dim, size_of
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import int32
from tvtf.errors import InvalidArgumentError
from tvtf.frontend.control_flow.map_scan_fold import defer_map, map_fn
from tvtf.ir.batching import EncodedFunction, is_encoded
from tvtf.ops.control import call
from tvtf.ops.rules import bind, stretch


class Batched(Tensor):
    """A tensor of a vectorized map: has the type of one element and holds all elements, stacked in ``inner``."""

    __slots__ = ("inner", "level", "_type")
    is_batched = True

    def __init__(self, inner: Tensor, level: int) -> None:
        self.inner = inner
        self.level = level
        self._type = TensorType(inner._type.shape[1:], inner._type.dtype)

    @property
    def size(self) -> Any:
        return self.inner._type.shape[0]

    def __repr__(self) -> str:
        return f"<tf.Tensor of a vectorized map: shape={self.shape} dtype={self.dtype.name}>"


def is_mapped(tensors: Sequence[Tensor]) -> bool:
    """Returns whether any of the tensors is batched: it stands for all elements of a vectorized map.

    Compiled functions can't have batched tensors as arguments.
    """
    return bool(state.batches) and any(tensor.is_batched for tensor in tensors)


def bind_batched(prim: Primitive[Any], inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
    """Applies a primitive to all elements of a vectorized map at once, and returns batched results.

    In nested maps, the elements are those of the innermost map (the highest level) that has batched an input.

    Args:
      prim: the primitive.
      inputs: the primitive's inputs, of which at least one is batched.
      attrs: the primitive's attributes.
    """
    level = max(x.level for x in inputs if x.is_batched)  # type: ignore[attr-defined]
    # Values of outer maps are the same for all elements of this one.
    are_batched = [x.is_batched and x.level == level for x in inputs]  # type: ignore[attr-defined]
    raw = [x.inner if is_batched else x for x, is_batched in zip(inputs, are_batched)]  # type: ignore[attr-defined]
    first_batch = raw[are_batched.index(True)]
    size = first_batch._type.shape[0]
    tapes = state.tapes
    # Tapes opened inside of the level record elements, as their users see them; others record whole batches.
    state.tapes = [tape for tape in tapes if tape.level < level]
    try:
        results = _apply(prim, size, raw, are_batched, attrs)
    finally:
        state.tapes = tapes
    outputs = _wrapped(results, level)
    for tape in tapes:
        if tape.level >= level:
            tape.record(prim, inputs, outputs, attrs)
    return outputs


def _apply(prim: Primitive[Any], size: Any, raw: list[Any], flags: list[bool], attrs: dict[str, Any]) -> Any:
    """Applies a primitive by its batching rule, or in a loop over the ``size`` elements if no rule applies.

    ``flags`` say which of the ``raw`` inputs are whole batches.
    """
    results = NotImplemented if prim.batch is None else prim.batch(size, raw, flags, **attrs)
    return loop_over_elements(prim, size, raw, flags, attrs) if results is NotImplemented else results


def _wrapped(results: Any, level: int) -> Any:
    """Returns the results of a batched primitive as batched tensors of a map's level: one tensor or a tuple."""
    if isinstance(results, (tuple, list)):
        return tuple(Batched(result, level) for result in results)
    return Batched(results, level)


def loop_over_elements(
    prim: Primitive[Any], size: Any, inputs: Sequence[Any], batched: Sequence[bool], attrs: dict[str, Any]
) -> Any:
    """Applies a primitive without a batching rule to each element in a loop, and stacks the results.

    Args:
      prim: the primitive.
      size: the number of elements.
      inputs: the operands.
      batched: for each operand, whether its leading axis is over the elements.
      attrs: the attributes of the primitive.

    Raises:
      ValueError: ``fallback_to_while_loop=False`` was passed.
    """
    _require_loop(prim.tf_name, inputs)
    elements = [x for x, is_mapped in zip(inputs, batched) if is_mapped]

    def apply_to_one(rows: Sequence[Any]) -> Any:
        """Applies the primitive to one element: to the ``rows`` of the batched operands, and the other operands."""
        remaining_rows = iter(rows)
        operands = [next(remaining_rows) if is_mapped else x for x, is_mapped in zip(inputs, batched)]
        return list(as_tuple(prim.bind(*operands, **attrs)))

    # Without elements, `map_fn` would not know the shapes of the results.
    stacked = tuple(_empty_results(apply_to_one, elements) if size == 0 else map_fn(apply_to_one, elements))
    return stacked if len(stacked) > 1 else stacked[0]


def _empty_results(function: Callable[[Sequence[Any]], Any], elements: Sequence[Any]) -> list[Any]:
    """Returns the results of mapping ``function`` over zero elements: tensors with a leading size of 0.

    There is no element to call the function with, so it is traced to find the types of its results.
    """
    from tvtf.ir.trace import temporary_trace, tracing

    with tracing(temporary_trace()) as abstract:
        rows = []
        for batch in elements:
            row_type = batch._type._replace(shape=batch._type.shape[1:])
            rows.append(abstract.add_param(row_type))
        result_types = [result._type for result in function(rows)]
    return [bind.stack_new(shape=(0, *result_type.shape), dtype=result_type.dtype) for result_type in result_types]


hooks.batch = bind_batched

MSG_LOOP = "Using a while_loop for converting %s cause there is no registered converter for this op."
MSG_NO_RULE = (
    "No pfor vectorization defined for {op}\n inputs: {inputs}.Consider enabling the fallback_to_while_loop option to "
    "pfor, which may run slower."
)
LOOPED_BY_RULE = frozenset(
    {
        *("If", "While", "DecodeCSV", "ParseExampleV2", "ParseSequenceExampleV2", "StringFormat", "PrintV2"),
        *("StatelessParameterizedTruncatedNormal", "StatelessRandomBinomial", "StatelessRandomGammaV3"),
        *("StatelessRandomNormalV2", "StatelessRandomPoisson", "StatelessRandomUniformFullIntV2"),
        *("StatelessRandomUniformIntV2", "StatelessRandomUniformV2", "StatelessTruncatedNormalV2"),
    }
)
"""Ops that TensorFlow has batching rules for; they run one by one here, without its warning."""


@export("vectorized_map")
def vectorized_map(fn: Callable[..., Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """Applies ``fn`` to each element along the leading axis of ``elems``, all at once.

    ``fn`` is traced once, for one element. For a condition that depends on the element both branches are computed,
    and loops run until the last element is done.

    Args:
      fn: takes one element (in the structure of ``elems``) and returns tensors.
      elems: tensor or nest of tensors of equal leading size; those of size 1 serve all elements.
      fallback_to_while_loop: run ops without batching rule element by element, instead of raising an error.
      warn: log each op that runs element by element.

    Returns:
      The results, stacked along a new leading axis.

    >>> import tvtf as tf
    >>> tf.vectorized_map(lambda row: tf.reduce_sum(row * row), tf.constant([[1., 2.], [3., 4.]])).numpy()
    array([ 5., 25.], dtype=float32)

    Raises:
      ValueError: ``elems`` is empty, or an op has no batching rule and ``fallback_to_while_loop`` is False.
      InvalidArgumentError: the leading sizes differ.

    Source: https://www.tensorflow.org/api_docs/python/tf/vectorized_map
    """
    if is_encoded(elems):
        inner = EncodedFunction(fn, elems)
        return inner.whole(vectorized_map(inner, inner.leaves, fallback_to_while_loop, warn))
    tensors = [convert_to_tensor(leaf) for leaf in nest.flatten(elems)]
    if any(isinstance(tensor._type.shape, AnyShape) for tensor in tensors):
        return defer_map(fn, tensors, elems, run_deferred_map)
    outer = state.one_by_one
    state.one_by_one = (fallback_to_while_loop, warn)
    try:
        size = _common_size(tensors)
        with level() as map_level:
            rows = [
                Batched(tensor, map_level) if same_dim(tensor._type.shape[0], size) else tensor[0] for tensor in tensors
            ]
            element_index = Batched(bind.range(size=size, start=0, delta=1, dtype=int32), map_level)
            results = by_element(lambda *leaves: fn(nest.pack_sequence_as(elems, leaves)), rows, element_index)
            return nest.map_structure(
                lambda result: result if result is None else unwrapped(result, map_level, size),
                results,
                expand_composites=True,
            )
    except _CallsPython:
        return _map_by_loop(fn, tensors, elems)
    finally:
        state.one_by_one = outer


class _CallsPython(NotImplementedError):
    """Raised if a mapped function calls Python whose results have unknown ranks."""

    def __init__(self) -> None:
        super().__init__(
            "the gradient of a loop needs the ranks of the results of Python calls in it: pass a tf.TensorSpec as Tout"
        )


def _map_by_loop(fn: Callable[..., Any], tensors: Sequence[Tensor], elems: Any) -> Any:
    """Maps a function that calls Python over the elements in a loop, because Python can't be called on whole batches.

    ``tensors`` are the tensors in ``elems``. A tensor of leading size 1 serves all elements.
    """
    _require_loop("EagerPyFunc", tensors)
    size = _common_size(tensors)
    elements = [tensor for tensor in tensors if same_dim(tensor._type.shape[0], size)]

    def apply_to_one(rows: Sequence[Tensor]) -> Any:
        """Calls the function on one element: on ``rows`` of the tensors, or their single row."""
        remaining = iter(rows)
        flat = [next(remaining) if same_dim(tensor._type.shape[0], size) else tensor[0] for tensor in tensors]
        return fn(nest.pack_sequence_as(elems, flat))

    return map_fn(apply_to_one, elements)


def _require_loop(op: str, inputs: Sequence[Any]) -> None:
    """Logs a warning that an op runs element by element. Raises ValueError if the user has not allowed the loop.

    TensorFlow has batching rules for some of these ops, and no warning is logged for them.
    """
    allowed, warns = state.one_by_one
    if not allowed:
        raise ValueError(MSG_NO_RULE.format(op=op, inputs=list(inputs)))
    if warns and op not in LOOPED_BY_RULE:
        logger.warning(MSG_LOOP, op)


def _common_size(tensors: Sequence[Tensor]) -> Any:
    """Returns the leading size that all tensors have, except for tensors of leading size 1.

    For example, leading sizes 1 and 3 give 3.

    Raises:
      ValueError: there are no tensors, or one is a scalar.
      InvalidArgumentError: the sizes differ.
    """
    if not tensors or not all(tensor._type.shape for tensor in tensors):
        raise ValueError(f"vectorized_map needs elements with a leading size, but got shapes {_shapes(tensors)}")
    sizes = [tensor._type.shape[0] for tensor in tensors]
    # A tensor of leading size 1 serves all elements. If all have size 1, there is one element.
    sizes_to_agree = [each for each in sizes if each != 1] or sizes[:1]
    size = sizes_to_agree[0]
    if not all(agree_dim(each, size) for each in sizes_to_agree):
        raise InvalidArgumentError(
            None, None, f"vectorized_map needs elements of one leading size, but got shapes {_shapes(tensors)}"
        )
    return size


def _shapes(tensors: Sequence[Tensor]) -> list[tuple[Any, ...]]:
    """Returns the shapes of tensors as tuples, for error messages."""
    return [tuple(tensor.shape) for tensor in tensors]


def by_element(function: Callable[..., Any], tensors: Sequence[Tensor], element_index: Tensor | None = None) -> Any:
    """Traces ``function`` for one element of batched tensors, runs the trace for all elements, and returns the results.

    In the trace, control flow is primitives, which have batching rules. Assigned Variables get the first element's
    value, as in TensorFlow. ``element_index`` is the batch of the elements' indices, on which the random numbers of a
    user's function depend.
    """
    from tvtf.frontend.control_flow.closure_conversion import (
        TracedFunction,
        assigned_variables,
        capture_dims,
        lift,
        variable_value,
    )

    operands = [*tensors] if element_index is None else [*tensors, element_index]

    def traced(*rows: Tensor) -> Any:
        """Calls the function on one element.

        The last of ``rows`` is the element's index, if ``element_index`` is given.
        """
        state.trace.is_part_of_parent = True  # type: ignore[union-attr]
        if element_index is not None:
            state.trace.element = rows[-1], element_index.size  # type: ignore[attr-defined]
        return function(*rows[: len(tensors)])

    deferred_before = len(state.trace.specialization.deferred or ()) if state.trace else 0
    inner = TracedFunction("element", traced, [operand._type for operand in operands])
    if len(inner.trace.specialization.deferred or ()) > deferred_before:
        raise _CallsPython
    capture_dims(inner.trace)  # the trace may use the number of elements, which no element has in its shape
    variables = assigned_variables([inner])
    values = [variable_value(inner, variable) for variable in variables]
    # The batched operands make `call` run the graph for all elements.
    results = call(inner.graph(values), [*operands, *lift([inner])])
    for variable, value in zip(variables, results[len(inner.leaves) :]):
        variable.assign(value.inner[0] if value.is_batched else value, read_value=False)
    remaining = iter(results)
    return nest.map_structure(
        lambda leaf: leaf if leaf is None else next(remaining), inner.structure, expand_composites=True
    )


def run_deferred_map(flat: list[Tensor], captured: list[Tensor], function: Any) -> Any:
    """Maps a traced function over the rows of ``flat`` by ``vectorized_map``, when the ranks of the rows are known.

    ``captured`` are the tensors that the function captures. They are the same for all rows.
    """
    return vectorized_map(lambda rows: list(call(function, [*rows, *captured])), flat)


class level:
    """A context in which tensors can be batched.

    Contexts nest, and entering one returns its number: 1 for the first.
    """

    def __enter__(self) -> int:
        state.batches += 1
        return state.batches

    def __exit__(self, *_: Any) -> None:
        state.batches -= 1


def unwrapped(result: Any, map_level: int, size: Any) -> Tensor:
    """Returns a result of a vectorized map as a plain tensor: the results of all elements along a new first axis.

    A result that is the same for all elements is repeated ``size`` times.
    """
    result = convert_to_tensor(result)
    is_batched_here = result.is_batched and result.level == map_level  # type: ignore[attr-defined]
    return result.inner if is_batched_here else stretch(size, result, False)  # type: ignore[attr-defined]


def one_hot_cotangents(tensor_type: TensorType) -> Tensor:
    """Returns the one-hot cotangents of all elements of a tensor, stacked along a new first axis.

    Mapping a backward sweep over these cotangents gives a jacobian. For example, shape ``(2,)`` gives the identity
    matrix of size 2.
    """
    shape, dtype = tensor_type
    count = size_of(shape)
    if isinstance(count, int):
        return convert_to_tensor(np.eye(count, dtype=dtype.np).reshape(count, *shape))
    # The number of elements is known only at run time.
    indices = bind.range(start=0, size=count, delta=1, dtype=int32)
    rows = bind.reshape(indices, shape=(count, 1))
    columns = bind.reshape(indices, shape=(1, count))
    return bind.reshape(bind.cast(bind.equal(rows, columns), dtype=dtype), shape=(count, *shape))  # type: ignore[no-any-return]
