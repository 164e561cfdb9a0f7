"""``tf.map_fn``, ``tf.foldl``, ``tf.foldr`` and ``tf.scan``: loops over the leading axis of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tvtf.core import nest
from tvtf.core.argument_error import incompatible_shapes
from tvtf.core.composite import CompositeTensor, is_ragged
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import export, hooks
from tvtf.core.shape import TensorType, agree_dim, assume_dim
from tvtf.core.specialization import UnknownRank
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import as_dtype
from tvtf.errors import InvalidArgumentError
from tvtf.frontend.control_flow.cond_while import repack, traced_while
from tvtf.ir.batching import EncodedFunction, encoding, is_encoded, rows, stacked
from tvtf.ops.control import call
from tvtf.ops.create import arange, zeros
from tvtf.ops.rules import bind, number
from tvtf.ops.stack import new_stack, stack_read, stack_write


def _elements(elems: Any) -> tuple[list[Tensor], Any]:
    """Returns a list of the tensors in ``elems``, and the leading size of the first one.

    The size is None if the first tensor's rank is unknown.

    Raises:
      ValueError: there are no tensors, one is a scalar, or their leading sizes differ.
    """
    flat = [convert_to_tensor(leaf) for leaf in nest.flatten(elems)]
    if not flat:
        raise ValueError(
            "elems must be a Tensor or (possibly nested) sequence of Tensors. "
            f"Got {elems}, which does not contain any Tensors."
        )
    for tensor in flat:
        if not isinstance(tensor._type.shape, AnyShape) and not tensor.ndim:
            raise ValueError(f"Elements in elems must be 1+ dimensional Tensors, not scalars: {tensor!r}")
    first_shape = flat[0]._type.shape
    if isinstance(first_shape, AnyShape):  # the rank is unknown
        return flat, None
    leading_size = first_shape[0]
    for tensor in flat[1:]:
        shape = tensor._type.shape
        if not isinstance(shape, AnyShape) and not agree_dim(leading_size, shape[0]):
            raise incompatible_shapes(ValueError(f"Dimensions {leading_size} and {shape[0]} are not compatible"))
    return flat, leading_size


def _slice_at(flat: Sequence[Tensor], elems: Any, index: Any) -> Any:
    """Returns the slices of the tensors at ``index`` along the first axis, in the structure of ``elems``."""
    position = convert_to_tensor(index)
    return nest.pack_sequence_as(elems, [stack_read.bind(x, position) for x in flat])


class _Stacks:
    """The stacked results of all iterations, one buffer per value."""

    def __init__(self, structure: Any, types: Sequence[TensorType], size: Any) -> None:
        self.structure = structure
        self.buffers = [new_stack(size, tensor_type) for tensor_type in types]

    def written(self, buffers: Sequence[Tensor], index: Tensor, results: Any) -> list[Tensor]:
        """Returns the buffers with the results of iteration ``index`` written, one result to each buffer."""
        tensors = [convert_to_tensor(result) for result in nest.flatten(results)]
        return [
            stack_write.bind(buffer, index, _of_shape(result, buffer._type.shape[1:]))
            for buffer, result in zip(buffers, tensors)
        ]


def _of_shape(x: Tensor, shape: Any) -> Tensor:
    """Returns an iteration's result in the shape that the results of all iterations must have.

    Sizes that are computed at run time are checked then.
    """
    dims = x._type.shape
    has_shape = len(dims) == len(shape) and all(map(assume_dim, shape, dims))
    return x if has_shape else bind.ensure_shape(state.trace.own(x), shape=shape)


def _stacked_results(results: Sequence[Any]) -> Any:
    """Stacks the results of all iterations along a new first axis, in the structure of one result."""
    return nest.map_structure(lambda *values: hooks.pack(list(values), None), *results)


def _structure_and_types(
    function: Callable[[Sequence[Tensor]], Any], flat: Sequence[Tensor]
) -> tuple[Any, list[TensorType]]:
    """Traces a function on the first row of the tensors, and returns the structure and the types of its results.

    Sizes that the function computes are those of the first row.
    """
    from tvtf.frontend.control_flow.abstract_trace import types_at_first

    structures: list[Any] = []

    def flat_results(tensors: Sequence[Tensor]) -> list[Tensor]:
        # `types_at_first` may trace the function several times: the last structure counts.
        structures[:] = [function(tensors)]
        return [convert_to_tensor(result) for result in nest.flatten(structures[0])]

    types = types_at_first(flat_results, flat)
    return structures[0], types


def _size_tensor(flat: Sequence[Tensor], size: Any) -> Tensor:
    """Returns the leading size as an int32 scalar.

    A size unknown while tracing is read from the first tensor's shape.
    """
    if isinstance(size, int):
        return convert_to_tensor(size)
    return stack_read.bind(bind.shape(flat[0], dtype=as_dtype("int32")), convert_to_tensor(0))


def _is_composite(elems: Any) -> bool:
    """Returns whether a structure contains a composite tensor, or a spec of one."""
    return any(map(nest.is_composite, nest.flatten(elems)))


def _map_composites_eagerly(fn: Callable[[Any], Any], elems: Any, signature: Any) -> Any:
    """Maps ``fn`` eagerly over the rows of composite tensors, such as ragged or sparse tensors.

    The results are stacked. Results of different lengths become a ragged tensor.

    Args:
      fn: the function of one row, in the structure of ``elems``.
      elems: a structure of tensors.
      signature: the declared dtypes or specs of the results, or None.
    """
    rows_of_tensors = [_rows(_tensor(leaf)) for leaf in nest.flatten(elems)]
    results = [fn(nest.pack_sequence_as(elems, rows)) for rows in zip(*rows_of_tensors)]
    if signature is not None and not _is_composite(signature):
        check_dtypes = _with_checked_dtypes(lambda result: result, signature)
        return _stacked_results([check_dtypes(result) for result in results])

    def stack_leaf(*row_leaves: Any) -> Any:
        return _stack_results(list(map(_tensor, row_leaves)))

    return nest.map_structure(stack_leaf, *results)


def _as_map_over_indices(fn: Callable[[Any], Any], elems: Any) -> tuple[Callable[[Any], Any], Any]:
    """Converts a map over composite tensors to a map over indices of their rows.

    A row of a composite tensor isn't made of rows of its components, so a loop can't slice the components.

    Args:
      fn: the function of an element.
      elems: the elements: tensors or composite tensors in a nested structure.

    Returns:
      a function that takes the row's index in place of the row of a composite tensor, and the elements to map it over.
    """
    leaves = [_tensor(leaf) for leaf in nest.flatten(elems)]
    specs: list[Any] = [leaf._type_spec if isinstance(leaf, CompositeTensor) else None for leaf in leaves]
    elements = [leaf if spec is None else arange(spec._size(leaf)) for spec, leaf in zip(specs, leaves)]

    def with_rows_at(rows_or_indices: Any) -> Any:
        """Calls ``fn`` on the rows at an index; an index in place of a composite row is replaced by the row."""
        rows = nest.flatten(rows_or_indices)
        for i, (spec, leaf) in enumerate(zip(specs, leaves)):
            if spec is not None:
                rows[i] = spec._row(leaf, rows[i])  # slices the composite tensor at the index
        return fn(nest.pack_sequence_as(elems, rows))

    return with_rows_at, nest.pack_sequence_as(elems, elements)


def _rows(value: Any) -> Iterable[Any]:
    """Returns the rows of an eager value. Gradient tapes record that the rows were read."""
    return (
        rows(value, value._type_spec) if isinstance(value, CompositeTensor) else (value[i] for i in range(len(value)))
    )


def _tensor(value: Any) -> Any:
    """Converts a value to a tensor, unless it is a composite tensor."""
    return value if isinstance(value, CompositeTensor) else convert_to_tensor(value)


def _stack_results(results: list[Any]) -> Any:
    """Stacks the results of all rows of a map along a new first axis. Results of different lengths become ragged."""
    if isinstance(results[0], CompositeTensor) and not is_ragged(results[0]):
        return stacked(results, results[0]._type_spec)
    if results[0].shape.rank == 0:
        return bind.stack(*results, axis=0)
    from tvtf.composites.ragged.joining import stack_all

    return stack_all(results, 0)


def defer_map(fn: Callable[[Any], Any], flat: Sequence[Tensor], elems: Any, run: Callable[..., Any]) -> Any:
    """Traces ``fn`` for rows of unknown rank, and defers the map until the rank is known. Returns the map's results.

    The user's Python runs once, while tracing, as in any other loop.

    Args:
      fn: the function to map, of one row in the structure of ``elems``.
      flat: the tensors in ``elems``.
      elems: the structure of tensors to map over.
      run: maps the traced function, when the rank is known.
    """
    from tvtf.frontend.control_flow.closure_conversion import TracedFunction, assigned_variables, lift

    types = [x._type._replace(shape=_row_shape(x._type.shape)) for x in flat]
    inner = TracedFunction("rows", lambda *rows: fn(nest.pack_sequence_as(elems, rows)), types, is_branch=True)
    if assigned_variables([inner]):
        raise UnknownRank("the rank of `elems` mapped by a function that assigns Variables")
    captured = lift([inner])
    results = hooks.defer_call(run, (list(flat), captured), {"function": inner.graph()})
    return repack(inner.structure, results)


def _row_shape(shape: Any) -> Any:
    """Returns the shape of a tensor's rows: without the first axis. A shape of unknown rank gives another one."""
    if not isinstance(shape, AnyShape):
        return shape[1:]
    return AnyShape(lambda index: (shape.example(index) or None) and shape.example(index)[1:])


def run_deferred_map(flat: list[Tensor], captured: list[Tensor], function: Any) -> Any:
    """Runs a ``tf.map_fn`` that was deferred until the rank of its inputs is known.

    ``function`` was traced for one row of each tensor in ``flat``; all rows share the tensors that it captures.
    """
    return map_fn(lambda rows: list(call(function, [*rows, *captured])), flat)


@export("map_fn")
def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """Applies ``fn`` to each slice of ``elems`` along its first axis, and stacks the results.

    Args:
      fn: function of one slice (in the structure of ``elems``).
      elems: tensor of shape (n, ...), or a structure of such; called eagerly, ragged tensors too.
      fn_output_signature: dtypes of the results; inferred by tracing if left out. A ``RaggedTensorSpec`` if the results
        are rows of several lengths.

    Returns:
      Tensors of shape (n, ...) in the structure that ``fn`` returns.

    Raises:
      TypeError: ``fn`` is not callable.
      ValueError: an entry of ``elems`` is a scalar.

    >>> import tvtf as tf
    >>> tf.map_fn(lambda x: x * x, tf.constant([1, 2, 3])).numpy()
    array([1, 4, 9], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/map_fn
    """
    if not callable(fn):
        raise TypeError(f"The provided function {fn!r} is not callable.fn must be callable.")
    if is_encoded((elems, fn_output_signature)):
        inner = EncodedFunction(fn, elems)
        signature = encoding(fn_output_signature) if nest.is_composite(fn_output_signature) else None
        return inner.whole(map_fn(inner, inner.leaves, fn_output_signature=signature))
    if state.trace is None and _is_composite((elems, fn_output_signature)):
        return _map_composites_eagerly(fn, elems, dtype if fn_output_signature is None else fn_output_signature)
    if _is_composite(elems):
        fn, elems = _as_map_over_indices(fn, elems)
    flat, size = _elements(elems)
    signature = dtype if fn_output_signature is None else fn_output_signature  # `dtype` is the deprecated name
    fn = _with_checked_dtypes(fn, signature)
    if state.trace is None:
        return (
            _stacked_results([fn(_slice_at(flat, elems, i)) for i in range(size)])
            if size
            else _empty_map_results(elems, signature)
        )
    if size is None:
        return defer_map(fn, flat, elems, run_deferred_map)
    structure, types = _structure_and_types(lambda tensors: fn(_slice_at(tensors, elems, 0)), flat)
    if any(isinstance(tensor_type.shape, AnyShape) for tensor_type in types):
        return defer_map(fn, flat, elems, run_deferred_map)
    stacks = _Stacks(structure, types, size)
    limit = _size_tensor(flat, size)
    one = convert_to_tensor(1)

    def body(i: Tensor, buffers: Any) -> Any:
        return bind.add(i, one), stacks.written(buffers, i, fn(_slice_at(flat, elems, i)))

    start = (convert_to_tensor(0), stacks.buffers)
    _, buffers = traced_while(lambda i, _: bind.less(i, limit), body, start, bound=size)
    return nest.pack_sequence_as(stacks.structure, buffers)


def _empty_map_results(elems: Any, signature: Any) -> Any:
    """Returns the results of an eager map over zero elements: empty vectors, because the function isn't called.

    The vectors have the dtypes declared in ``signature``, or those of ``elems`` if ``signature`` is None.
    """
    signature_or_elems = nest.map_structure(convert_to_tensor, elems) if signature is None else signature
    return nest.map_structure(lambda s: zeros([0], _dtype_of(s)), signature_or_elems)


def _dtype_of(spec: Any) -> Any:
    """Returns the dtype of a spec, a tensor, or the name of a dtype.

    NumPy's scalar classes have an attribute ``dtype`` too, which is not a dtype.
    """
    return as_dtype(spec if isinstance(spec, type) else getattr(spec, "dtype", spec))


def _with_checked_dtypes(fn: Callable[..., Any], signature: Any) -> Callable[..., Any]:
    """Wraps ``fn`` so that each call checks the results' dtypes against those declared in ``signature``.

    The results of all calls are stacked, so they must have one dtype. The error is the one that TensorFlow raises.
    """
    if signature is None:
        return fn
    declared_dtypes = nest.map_structure(_dtype_of, signature)

    def checked(value: Any) -> Any:
        """Applies the function. Raises InvalidArgumentError if a result has another dtype than declared."""
        results = nest.map_structure(convert_to_tensor, fn(value))
        nest.assert_same_structure(declared_dtypes, results)
        for dtype, result in zip(nest.flatten(declared_dtypes), nest.flatten(results)):
            if result.dtype is not dtype:
                message = f"TensorArray dtype is {dtype.name} but Op is trying to write dtype {result.dtype.name}"
                raise InvalidArgumentError(None, "TensorListSetItem", f"{message} [Op:TensorListSetItem] name: ")
        return results

    return checked


def _with_nonempty_check(flat: list[Any], limit: Any) -> list[Any]:
    """Returns the tensors with a run-time check that they have at least one row.

    ``limit`` is the number of rows. A fold without an initial value starts with the first row.
    """
    if not isinstance(limit, SymbolicTensor):  # the number is known while tracing
        return flat
    message = "Trying to access element 0 in a list with 0 elements."
    is_nonempty = bind.greater(limit, number(0, limit))
    return [bind.initialized(x, is_nonempty, message=message) for x in flat]


def _fold(fn: Callable[..., Any], elems: Any, initializer: Any, backwards: bool) -> Any:
    """Folds ``fn`` over the slices of ``elems`` along their first axis. In a trace, a while loop is emitted.

    Args:
      fn: takes the accumulator and a slice, and returns the next accumulator.
      elems: a tensor, or a structure of tensors.
      initializer: the initial accumulator; None for the first slice.
      backwards: whether to go from the last slice to the first.
    """
    if not callable(fn):
        raise TypeError(f"{fn.__class__.__name__} is not callable. Please provide a callable function.")
    flat, size = _elements(elems)
    limit = _size_tensor(flat, size)
    one = convert_to_tensor(1)
    if initializer is None:
        flat = _with_nonempty_check(flat, limit)

    def slice_of_iteration(i: Tensor) -> Any:
        index = bind.subtract(bind.subtract(limit, one), i) if backwards else i
        return _slice_at(flat, elems, index)

    # Without an initial value, the first slice is the start.
    first = 0 if initializer is not None else 1
    start = slice_of_iteration(convert_to_tensor(0)) if initializer is None else initializer
    if state.trace is None:
        value = nest.map_structure(convert_to_tensor, start)
        for i in range(first, size):
            value = fn(value, slice_of_iteration(convert_to_tensor(i)))
        return value

    def body(i: Tensor, value: Any) -> Any:
        return bind.add(i, one), fn(value, slice_of_iteration(i))

    loop_vars = (convert_to_tensor(first), start)
    _, result = traced_while(lambda i, _: bind.less(i, limit), body, loop_vars, bound=size)
    return result


@export("foldl")
def foldl(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Folds a function over slices along the first axis, from the first slice to the last.

    For two slices the result is ``fn(fn(initializer, elems[0]), elems[1])``. Without ``initializer`` the first slice is
    the initial value. ``parallel_iterations``, ``back_prop`` and ``swap_memory`` are accepted.

    >>> import tvtf as tf
    >>> tf.foldl(lambda a, x: a + x, tf.constant([1, 2, 3])).numpy()
    np.int32(6)

    Source: https://www.tensorflow.org/api_docs/python/tf/foldl
    """
    return _fold(fn, elems, initializer, backwards=False)


@export("foldr")
def foldr(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Folds a function over slices along the first axis, from the last slice to the first.

    For two slices the result is ``fn(fn(initializer, elems[1]), elems[0])``. The arguments are those of ``tf.foldl``.

    >>> import tvtf as tf
    >>> tf.foldr(lambda a, x: a - x, tf.constant([1, 2, 9])).numpy()
    np.int32(6)

    Source: https://www.tensorflow.org/api_docs/python/tf/foldr
    """
    return _fold(fn, elems, initializer, backwards=True)


@export("scan")
def scan(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Folds as ``foldl`` does, and stacks every intermediate value: shape (n, ...).

    Args:
      fn: function of the carry and a slice of ``elems``; returns the next carry.
      elems: tensor of shape (n, ...), or a structure of such.
      initializer: the initial carry; by default the first slice, which is then the first of the results.
      reverse: go from the last slice to the first.

    >>> import tvtf as tf
    >>> tf.scan(lambda a, x: a + x, tf.constant([1, 2, 3])).numpy()
    array([1, 3, 6], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/scan
    """
    if not callable(fn):
        raise TypeError(f"{fn.__class__.__name__} is not callable. Please provide a callable function.")
    flat, size = _elements(elems)
    limit = _size_tensor(flat, size)
    one = convert_to_tensor(1)

    def slice_index(i: Tensor) -> Tensor:
        """Returns the index of the slice that iteration ``i`` reads, and of the result that it writes."""
        return bind.subtract(bind.subtract(limit, one), i) if reverse else i

    first = 0 if initializer is not None else 1
    if initializer is None:
        flat = _with_nonempty_check(flat, limit)
    zero = convert_to_tensor(0)
    start = nest.map_structure(
        convert_to_tensor, _slice_at(flat, elems, slice_index(zero)) if initializer is None else initializer
    )
    if state.trace is None:
        return _eager_scan(
            fn,
            start,
            [_slice_at(flat, elems, slice_index(convert_to_tensor(i))) for i in range(first, size)],
            first,
            reverse,
            infer_shape,
        )
    values = nest.flatten(start)
    if size is None or any(isinstance(x._type.shape, AnyShape) for x in values):
        return nest.pack_sequence_as(start, _scan_of_any_rank(fn, flat, elems, start, reverse, initializer is None))
    stacks = _Stacks(start, [x._type for x in values], size)
    buffers = stacks.written(stacks.buffers, slice_index(zero), start) if first else stacks.buffers

    def body(i: Tensor, value: Any, buffers: Any) -> Any:
        new = fn(value, _slice_at(flat, elems, slice_index(i)))
        return bind.add(i, one), new, stacks.written(buffers, slice_index(i), new)

    begin = (convert_to_tensor(first), start, buffers)
    *_, buffers = traced_while(lambda i, *_: bind.less(i, limit), body, begin, bound=size)
    return nest.pack_sequence_as(start, buffers)


def _scan_of_any_rank(
    fn: Callable[..., Any], flat: list[Tensor], elems: Any, start: Any, reverse: bool, from_first: bool
) -> Any:
    """Traces the function of a ``scan`` for slices of unknown rank, and defers the scan until the rank is known.

    Args:
      fn: the function of the carry and a slice.
      flat: the elements as a list of tensors.
      elems: the structure of the elements.
      start: the initial carry: with ``from_first``, the first slice.
      reverse: whether to scan from the last slice to the first.
      from_first: whether the scan has no initializer, and starts with the first slice.

    Returns:
      The scan's results as a list.

    Raises:
      UnknownRank: the function assigns Variables, which a deferred call can't.
    """
    from tvtf.frontend.control_flow.closure_conversion import TracedFunction, assigned_variables, lift

    values = nest.flatten(start)
    types = [value._type for value in values] + [x._type._replace(shape=_row_shape(x._type.shape)) for x in flat]

    def step(*tensors: Any) -> Any:
        """Calls the user's function on the flattened carry and slice."""
        values_so_far, row = tensors[: len(values)], tensors[len(values) :]
        return fn(nest.pack_sequence_as(start, values_so_far), nest.pack_sequence_as(elems, row))

    inner = TracedFunction("scanned", step, types, is_branch=True)
    if assigned_variables([inner]):
        raise UnknownRank("the rank of `elems` scanned by a function that assigns Variables")
    captured = lift([inner])
    options = {"function": inner.graph(), "reverse": reverse, "from_first": from_first}
    return hooks.defer_call(run_deferred_scan, (list(flat), values, captured), options)


def run_deferred_scan(
    flat: list[Tensor], start: list[Tensor], captured: list[Tensor], function: Any, reverse: bool, from_first: bool
) -> Any:
    """Runs a ``tf.scan`` that was deferred until the rank of its inputs is known.

    Args:
      flat: the tensors to scan along axis 0.
      start: the initial carry; ignored if ``from_first``.
      captured: the values of the function's free tensors.
      function: the traced body: (carry, row of each tensor, captured) -> next carry.
      reverse: whether to go from the last row to the first.
      from_first: whether the first row is the initial carry.
    """

    def step(values: list[Tensor], rows: list[Tensor]) -> list[Tensor]:
        return list(call(function, [*values, *rows, *captured]))

    return scan(step, flat, None if from_first else list(start), reverse=reverse)


def _eager_scan(
    fn: Callable[..., Any], start: Any, slices: Sequence[Any], first: int, reverse: bool, keeps_shapes: bool
) -> Any:
    """Runs a ``scan`` eagerly over a list of slices, and stacks the values after each slice.

    Args:
      fn: the function of the previous value and a slice.
      start: the initial value.
      slices: the slices, in the order of the scan.
      first: 1 if ``start`` is a slice itself, so that it is also the first of the stacked values; otherwise 0.
      reverse: whether to stack the values in reverse.
      keeps_shapes: whether all values must have the start's shape, as in compiled code.
    """
    values = [start]
    for slice_ in slices:
        values.append(fn(values[-1], slice_))
        if keeps_shapes:
            _require_shapes(values[-1], start)
    results = values if first else values[1:]
    if not results:  # no elements
        return nest.map_structure(lambda x: bind.stack_new(shape=(0, *x._type.shape), dtype=x.dtype), start)
    return _stacked_results(results[::-1] if reverse else results)


def _require_shapes(value: Any, start: Any) -> None:
    """Raises ValueError if a tensor of a scan's carry has another shape than it had at the start."""
    for new, initial in zip(nest.flatten(value), nest.flatten(start)):
        if isinstance(initial, Tensor) and (shape := convert_to_tensor(new).shape) != initial.shape:
            raise ValueError(f"Incompatible shape for value ({shape}), expected ({initial.shape})")
