"""Calls from compiled code into Python.

An op that only NumPy or another library of the host implements is declared with :func:`host_primitive`: compiled code
calls its ``numpy`` kernel by name, in any process. All ops on complex numbers and strings run this way, for TVM has
neither type. A user's own function is not part of the IR: a :class:`HostFunction` is a scalar tensor that holds an id, by which
the function is found while it lives. A trace that calls it gets it as a parameter, and calls happen in program order.
"""

from __future__ import annotations

import functools
import itertools
import json
import threading
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from tvtf import errors
from tvtf.core.primitive import Primitive, as_tuple, primitive, table
from tvtf.core.shape import Dim, TensorType, fresh_dim
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.core.variable_lock import Lock
from tvtf.dtypes import ON_HOST, DType, as_dtype, int64
from tvtf.ops.rules import bind, number, zeros_like

_numbers = itertools.count(1)
_alive: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class HostFunction(EagerTensor):
    """A scalar tensor that holds the id of a Python function on arrays.

    ``run`` computes the function's results. ``record`` exists for a differentiable function. It returns the results and
    a gradient function, which maps cotangents of the results to cotangents of the floating inputs.
    """

    __slots__ = ("run", "record", "is_nonblocking", "of_variable")
    has_identity = True

    def __init__(
        self,
        run: Callable[..., Any],
        record: Callable[..., Any] | None = None,
        is_nonblocking: bool = False,
        of_variable: bool = False,
    ) -> None:
        """Creates the tensor by which compiled code refers to a Python function: a scalar with the function's id.

        Args:
          run: the function, of arrays.
          record: a function that also returns the gradient function; None if it isn't differentiable.
          is_nonblocking, of_variable: see the attributes.
        """
        function_id = next(_numbers)
        super().__init__(np.array(function_id))
        self.run = run
        self.record = record
        self.is_nonblocking = is_nonblocking
        """Whether the function returns soon, without waiting for other threads. The executable then stays locked."""
        self.of_variable = of_variable
        """Whether the function reads or writes a Variable as compiled code does. A repeated call runs it again."""
        _alive[function_id] = self


def call(function: HostFunction, inputs: Sequence[Tensor], results: Sequence[TensorType]) -> tuple[Tensor, ...]:
    """Emits a call of a Python function at this point of the traced program, and returns the call's results.

    ``results`` are the types of the function's results.
    """
    return call_by(state.trace.pass_in(function), inputs, results, function.record is not None)


def call_by(key: Tensor, inputs: Sequence[Tensor], results: Sequence[TensorType], differentiable: bool) -> Any:
    """Emits a call of the Python function whose id the traced tensor ``key`` holds, and returns the call's results.

    ``results`` are the types of the function's results.
    """
    register_host_functions()
    shapes = tuple(result_type.shape for result_type in results)
    dtypes = tuple(result_type.dtype for result_type in results)
    outputs = bind.call_python(
        key, *inputs, shapes=shapes, dtypes=dtypes, differentiable=differentiable, backward=False
    )
    return outputs[:-1]  # without the id of the record for the gradient


def unknown_dim() -> Dim | None:
    """Returns a fresh symbol for a dim of a result that is known only at run time. Eager execution gets None."""
    return None if state.trace is None else fresh_dim(state.trace.root.unique("found"))


CALL_SYMBOL, RECORD_SYMBOL, GRADIENT_SYMBOL = "tvtf.call_python", "tvtf.record_python", "tvtf.call_python_gradient"
"""The names by which compiled code calls a Python function, the same with recording, and its gradient."""

FAILURE = "tvtf.guard:{kind}:{message}\x04"
"""The text of a kernel's error that names an exception type and message of tvtf; it ends with END OF TRANSMISSION."""

KERNEL_SYMBOL = "tvtf.call_host"
"""The name by which compiled code calls a primitive's NumPy kernel, with its name and attributes."""


@functools.cache
def register_host_functions() -> None:
    """Registers the global functions that compiled code calls by name.

    The cache makes this happen once per process.
    """
    import tvm_ffi

    from tvtf.core.dlpack_view import to_array, to_handle

    def call_function(mode: Callable[..., Any], ranks: Any, key: Any, *inputs: Any) -> list[Any]:
        """Runs a user's Python function; ``ranks`` is a JSON list of the ranks that its results must have."""
        with storing_failure():
            arrays = [to_array(x) for x in inputs]
            return [to_handle(array) for array in run_of_ranks(to_array(key), arrays, mode, json.loads(str(ranks)))]

    def call_kernel(name: Any, attrs_json: Any, *inputs: Any) -> list[Any]:
        """Runs the NumPy kernel of a primitive. Arrays are not copied: kernels keep none.

        Args:
          name: the primitive's name.
          attrs_json: its attributes, as :func:`attrs_to_json` wrote them.
          inputs: its operands. A shape may follow them: the values of the dims that the attributes refer to.
        """
        operands = list(inputs)
        dims = ()
        if operands and isinstance(operands[-1], tvm_ffi.Shape):
            dims = tuple(operands.pop())
        arrays = [to_array(x) for x in operands]
        with storing_failure():
            results = run_kernel(table[str(name)], _attrs_from_json(str(attrs_json), dims), arrays)
            return [to_handle(result) for result in results]

    modes = {CALL_SYMBOL: run_plain, RECORD_SYMBOL: run_and_record, GRADIENT_SYMBOL: run_gradient}
    for symbol, mode in modes.items():
        tvm_ffi.register_global_func(symbol, functools.partial(call_function, mode), override=True)
    tvm_ffi.register_global_func(KERNEL_SYMBOL, call_kernel, override=True)


def run(key: np.ndarray, inputs: Sequence[np.ndarray], mode: Callable[..., Any]) -> tuple[np.ndarray, ...]:
    """Runs the Python function with the id ``key``, eagerly even inside a trace or tape.

    Args:
      key: The id of a :class:`HostFunction`.
      inputs: The function's arguments.
      mode: :func:`run_plain`, :func:`run_and_record` or :func:`run_gradient`.

    Returns:
      The function's results, then the id under which the call's gradient function is kept, or zero.
    """
    function = _alive.get(int(key))
    if function is None:
        raise errors.NotFoundError(
            None, "PyFunc", "this program calls a Python function of the process that traced it, which is not this one"
        )
    if function.of_variable:
        return tuple(mode(function, inputs))
    called = mode is run_gradient, int(key)  # a repetition may record what was not recorded before, and the reverse
    if function.is_nonblocking or not state.released_for_python:
        return once(called, mode, function, inputs)
    with without_locks():
        return once(called, mode, function, inputs)


def run_of_ranks(
    key: np.ndarray, inputs: Sequence[np.ndarray], mode: Callable[..., Any], ranks: list[int]
) -> tuple[np.ndarray, ...]:
    """Runs a Python function on copies of its inputs and returns the results of :func:`run`.

    The function may keep its arguments, but compiled code reuses the memory of the inputs.

    Args:
      key: the number under which the Python function is registered.
      inputs: the arguments of the function.
      mode: how to call the function, such as :func:`run_plain`.
      ranks: the ranks of the results that the code was compiled for.

    Raises:
      OtherRanks: the results' ranks differ from ``ranks``, which the code was compiled for.
    """
    *results, record_id = run(key, [x.copy() for x in inputs], mode)
    if [result.ndim for result in results] != ranks:
        raise OtherRanks(None, "PyFunc", "a Python function gave a tensor of another rank than it gave before")
    return *results, record_id


def run_plain(function: HostFunction, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Returns the results of a function, and 0 as the id: nothing is recorded."""
    return *function.run(*inputs), np.array(0)


def run_and_record(function: HostFunction, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Returns the results of a function, and the id under which its gradient function is kept."""
    results, gradient_function = function.record(*inputs)  # type: ignore[misc]
    return *results, np.array(_records.keep(_Record(function, inputs, gradient_function)))


def run_gradient(function: HostFunction, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Returns the cotangents of the floating inputs of a recorded call, and 0 as the id: nothing is recorded.

    If the record was dropped, the function is recorded again from the call's arguments.

    Args:
      function: The recorded function.
      inputs: The number of the record, the number of results, their cotangents, and the arguments of the call.
    """
    record_number, result_count, *cotangents_and_arguments = inputs
    cotangents = cotangents_and_arguments[: int(result_count)]
    arguments = cotangents_and_arguments[int(result_count) :]
    gradient_function = _records.find(int(record_number), function, arguments)
    if gradient_function is None:
        _, gradient_function = function.record(*arguments)  # type: ignore[misc]
    return *gradient_function(*cotangents), np.array(0)


class _Record(NamedTuple):
    """A recorded call of a function."""

    function: HostFunction
    arguments: Sequence[np.ndarray]
    gradient_function: Callable[..., Any]

    def is_of(self, function: HostFunction, arguments: Sequence[np.ndarray]) -> bool:
        """Returns whether this is a call of a function with these arguments."""
        return self.function is function and are_same(self.arguments, arguments)


def are_same(arrays: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    """Returns whether two lists of arrays have the same types and bits, so that NaN is the same as NaN."""
    return len(arrays) == len(others) and all(map(_is_same, arrays, others))


def _is_same(array: np.ndarray, other: np.ndarray) -> bool:
    if (array.dtype, array.shape) != (other.dtype, other.shape):
        return False
    return np.array_equal(array, other) if array.dtype == object else array.tobytes() == other.tobytes()


class _Records:
    """The gradient functions of recorded calls, by number.

    A gradient function that was used stays until the next call is recorded. Until then it can be used again.
    """

    MAX_UNUSED = 256  # older ones are dropped: a call whose gradient never comes would keep its record for ever

    def __init__(self) -> None:
        self.lock = Lock()
        self.numbers = itertools.count(1)
        self.unused: dict[int, _Record] = {}
        self.used: dict[int, _Record] = {}

    def keep(self, record: _Record) -> int:
        """Keeps the record of a call and returns its number.

        Used gradient functions are dropped. So is the oldest unused one if there are more than MAX_UNUSED.
        """
        with self.lock:
            self.used.clear()
            number = next(self.numbers)
            self.unused[number] = record
            if len(self.unused) > self.MAX_UNUSED:
                oldest = next(iter(self.unused))
                del self.unused[oldest]
            return number

    def find(self, number: int, function: HostFunction, arguments: Sequence[np.ndarray]) -> Any:
        """Returns the gradient function of record ``number`` and marks it as used; returns None if it was dropped.

        The number is 0 if a branch ran again for its gradient, where the first run's numbers aren't known: then that of the
        latest call of the function with the same arguments is returned.
        """
        with self.lock:
            if number == 0:
                number = self._latest_of(function, arguments)
            if number in self.unused:
                self.used[number] = self.unused.pop(number)
            record = self.used.get(number)
            return None if record is None else record.gradient_function

    def _latest_of(self, function: HostFunction, arguments: Sequence[np.ndarray]) -> int:
        """Returns the number of the latest call of a function with these arguments, or 0."""
        for records in (self.unused, self.used):
            for record_number, record in reversed(records.items()):
                if record.is_of(function, arguments):
                    return record_number
        return 0


_records = _Records()


class OtherRanks(errors.InvalidArgumentError):
    """Raised where a Python function returned tensors of other ranks than the code was compiled for."""


class Effects:
    """A log of the results of Python calls made by compiled code.

    The code may be compiled and called again for other ranks. The log then provides the results of the calls that
    already happened, and the effects of these calls happen once.
    """

    def __init__(self) -> None:
        self.results: dict[Hashable, list[tuple[np.ndarray, ...]]] = defaultdict(list)
        """The results by what was called: a repetition need not call functions in the same order, as in a gradient."""
        self.ranks: dict[int, set[tuple[int, ...]]] = {}
        self.is_rerun = False
        """Whether a part of the program runs again for its gradient."""
        self.again()

    @contextmanager
    def rerun(self) -> Iterator[None]:
        """Marks what runs in a ``with`` block as a rerun for a gradient."""
        outer, self.is_rerun = self.is_rerun, True
        try:
            yield
        finally:
            self.is_rerun = outer

    def again(self) -> None:
        """Starts replaying from the first call."""
        self.positions: Counter[Hashable] = Counter()

    def next(self, called: Hashable, run: Callable[[], Any]) -> tuple[np.ndarray, ...]:
        """Returns copies of the results of the next call of ``called``: logged ones if it already ran, else those of ``run``."""
        logged = self.results[called]
        position = self.positions[called]
        if position == len(logged):
            logged.append(tuple(run()))
        self.positions[called] += 1
        return tuple(np.array(array) for array in logged[position])


def once(called: Hashable, run: Callable[..., Any], *args: Any) -> tuple[np.ndarray, ...]:
    """Calls ``run(*args)``, which has effects, outside traces and tapes, and returns its results.

    If compiled code repeats the call, the results come from the effect log instead, where ``called`` identifies it.
    """
    with _OutsideTraces() as effects:
        return tuple(run(*args)) if effects is None else effects.next(called, lambda: run(*args))


class _OutsideTraces:
    """A context without trace, tapes and effect log. ``__enter__`` returns the effect log that was active before."""

    __slots__ = ("before",)

    def __enter__(self) -> Any:
        self.before = state.trace, state.tapes, state.effects
        state.trace, state.tapes, state.effects = None, [], None
        state.depth += 1
        return self.before[-1]

    def __exit__(self, *_: Any) -> None:
        state.trace, state.tapes, state.effects = self.before
        state.depth -= 1


@contextmanager
def released_for_python(lock: Any) -> Iterator[None]:
    """Returns a context in which compiled code releases ``lock`` while it calls Python.

    The called Python function may wait for another thread that needs the lock.
    """
    state.released_for_python.append(lock)
    try:
        yield
    finally:
        state.released_for_python.pop()


@contextmanager
def without_locks() -> Iterator[None]:
    """Returns a context in which the lock of the running compiled code is released, for a Python function it calls."""
    lock = state.released_for_python[-1]
    state.released_for_python.append(nullcontext())  # a nested call of Python has no lock to release
    lock.__exit__(None, None, None)
    try:
        yield
    finally:
        lock.__enter__()
        state.released_for_python.pop()


class AssignmentsForbidden:
    """A context in which compiled code runs. Python functions that the code calls may not assign some Variables.

    Barriers may assign ``used_later``, which the code reads again after a barrier, but not ``arguments``.
    """

    __slots__ = ("arguments", "used_later")

    def __init__(self, used_later: Sequence[Any], arguments: Sequence[Any]) -> None:
        self.used_later, self.arguments = used_later, arguments

    def __enter__(self) -> None:
        state.unassignable.append((*self.used_later, *self.arguments))
        state.unassignable_in_barriers.append(self.arguments)

    def __exit__(self, *_: Any) -> None:
        state.unassignable.pop()
        state.unassignable_in_barriers.pop()


def as_barrier(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a Python function that compiled code calls as a barrier: it may assign what the code uses later."""

    def barrier(*arguments: Any) -> Any:
        """Runs the function, for which the innermost running code forbids fewer assignments."""
        if not state.unassignable:
            return run(*arguments)
        forbidden = state.unassignable[-1]
        state.unassignable[-1] = state.unassignable_in_barriers[-1]
        try:
            return run(*arguments)
        finally:
            state.unassignable[-1] = forbidden

    return barrier


on_failure: list[Callable[[int], None]] = []
"""Called for each failure of compiled code with the depth of calls still active: deeper ones will not be ended."""


def run_kernel(prim: Primitive[Any], attrs: dict[str, Any], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Runs a primitive's NumPy kernel and returns results that share no memory with the inputs.

    Args:
      prim: the primitive.
      attrs: its attributes.
      inputs: its inputs.

    Raises:
      InvalidArgumentError: the kernel rejected its inputs; the error names the op.
    """

    def computed() -> list[np.ndarray]:
        """Runs the kernel and copies each result that may share memory with an input."""
        results = as_tuple(prim.run([EagerTensor(input_) for input_ in inputs], attrs))
        return [_unshared(result.eager_array(), inputs) for result in results]

    if not prim.pure:
        return list(once(prim, computed))
    with _OutsideTraces():
        return computed()


def _unshared(array: np.ndarray, inputs: Sequence[np.ndarray]) -> np.ndarray:
    return array.copy() if any(np.may_share_memory(array, each) for each in inputs) else array


_DTYPE, _DIM = "dtype", "dim"


def attrs_to_json(attrs: dict[str, Any], is_known: Callable[[Any], bool] = lambda dim: False) -> tuple[str, list[Any]]:
    """Converts a primitive's attributes to JSON, and returns the text, and a list of the dims that it refers to.

    ``is_known`` tells whether a dim is known before the primitive runs. Other dims become null.

    >>> from tvtf.dtypes import int64
    >>> text, _ = attrs_to_json({"out_type": int64, "pieces": ("a", 1)})
    >>> _attrs_from_json(text, ())
    {'out_type': tf.int64, 'pieces': ('a', 1)}
    """
    dims: list[Any] = []

    def special(value: Any) -> Any:
        """Converts a dtype, or a symbolic dim, to an object with one key, which JSON can represent.

        A dim is represented by its index in the list of dims, a dim that isn't known by null.
        """
        if isinstance(value, DType):
            return {_DTYPE: value.name}
        if not is_known(value):
            return None
        dims.append(value)
        return {_DIM: len(dims) - 1}

    return json.dumps(attrs, default=special), dims


@functools.lru_cache(maxsize=1024)
def _attrs_from_json(text: str, dims: tuple[int, ...]) -> dict[str, Any]:
    """Parses a primitive's attributes from the JSON of :func:`attrs_to_json`, with ``dims`` as the values of its dims."""
    return {name: _attr_from_json(value, dims) for name, value in json.loads(text).items()}


def _attr_from_json(value: Any, dims: tuple[int, ...]) -> Any:
    """Converts a parsed JSON value to an attribute's value: lists to tuples, objects to dtypes or dims."""
    if isinstance(value, list):
        return tuple(_attr_from_json(item, dims) for item in value)
    if not isinstance(value, dict):
        return value
    return as_dtype(value[_DTYPE]) if _DTYPE in value else dims[value[_DIM]]


def runs_on_host(prim: Primitive[Any], dtypes: Sequence[DType]) -> bool:
    """Returns whether compiled code calls the ``numpy`` kernel of a primitive for tensors of these dtypes."""
    return prim.host or any(dtype in ON_HOST for dtype in dtypes)


def host_primitive(*, why_not: dict[str, str] | None = None, **columns: Any) -> Callable[..., Any]:
    """Returns a decorator that declares a primitive with a ``numpy`` kernel only, which compiled code calls.

    Args:
      why_not: Reasons for missing columns, by column. They replace the usual reasons.
      columns: The other arguments of :func:`tvtf.core.primitive.primitive`.
    """
    reasons = {
        "onnx": "it is computed by Python, and no ONNX node does it",
        "samples": "its results are compared with TensorFlow's: tests/parity",
    }
    return primitive(host=True, why_not=reasons | (why_not or {}), **columns)


class _Failure(threading.local):
    """The exception that a called Python function raised in this thread.

    TVM's virtual machine passes on only its text.
    """

    error: Exception | None = None


_failure = _Failure()
MARK = "tvtf: a Python function failed"


@contextmanager
def storing_failure() -> Iterator[None]:
    """Returns a context that stores an OpError for :func:`take_failure` and raises a plain RuntimeError instead."""
    try:
        yield
    except errors.OpError as error:
        _failure.error = error
        raise RuntimeError(MARK) from error


def take_failure(text: str) -> Exception | None:
    """Returns this thread's stored exception and clears it.

    Returns None if ``text``, the error message of TVM's virtual machine, doesn't contain the mark of a Python failure.
    """
    error, _failure.error = _failure.error, None
    return error if MARK in text else None


def _types(*inputs: TensorType, shapes: Any, dtypes: Any, **_: Any) -> tuple[TensorType, ...]:
    """Returns the result types of a call of Python: those in the attributes, and int64 for the record's id."""
    return (*(TensorType(tuple(shape), dtype) for shape, dtype in zip(shapes, dtypes)), TensorType((), int64))


def _vjp(cotangent: Any, y: Any, key: Tensor, *inputs: Tensor, differentiable: bool, backward: bool, **_: Any) -> Any:
    """Returns the cotangents of ``call_python``'s inputs, by a call of the recorded gradient function.

    The cotangents of the key and of inputs that aren't floating are None. A gradient call is itself not differentiable.
    """
    if not differentiable or backward:
        return (None,) * (1 + len(inputs))  # the key and the inputs
    *outputs, record_id = y
    output_count = number(len(outputs), record_id)
    cotangents = []
    for output_cotangent, output in zip(cotangent, outputs):
        cotangents.append(zeros_like(output) if output_cotangent is None else output_cotangent)
    floating = [x for x in inputs if x.dtype.is_floating]
    shapes = tuple(x._type.shape for x in floating)
    dtypes = tuple(x.dtype for x in floating)
    results = bind.call_python(
        key, record_id, output_count, *cotangents, *inputs,
        shapes=shapes, dtypes=dtypes, differentiable=True, backward=True,
    )  # fmt: skip
    gradients = iter(results)  # of the floating inputs, in order
    input_cotangents = [next(gradients) if x.dtype.is_floating else None for x in inputs]
    return None, *input_cotangents


def _run_call(key: Any, *inputs: Any, differentiable: bool, backward: bool, **_: Any) -> Any:
    """Calls the Python function in eager mode, or its gradient function."""
    if backward:
        return run(key, inputs, run_gradient)
    return run(key, inputs, run_and_record if differentiable else run_plain)


_CALL: dict[str, Any] = {
    "tf_name": "EagerPyFunc",
    "type": _types,
    "numpy": _run_call,
    "vjp": _vjp,
    "why_not": {
        "lower": "lowered to a call of Python by passes/lower/legalize.py",
        "batch": "a Python function of one example is not a function of a batch",
        "onnx": "a file holds no Python function",
        "samples": "it runs what it is given: tests/frontend/test_host.py",
    },
}


@primitive(pure=False, **_CALL)
def call_python(
    key: Tensor,
    *inputs: Tensor,
    shapes: tuple[tuple[Dim, ...], ...],
    dtypes: tuple[DType, ...],
    differentiable: bool,
    backward: bool,
) -> Any:
    """Calls a Python function, or its gradient function.

    Args:
      key: the number of the function, a scalar.
      inputs: the arguments of the function.
      shapes, dtypes: the shapes and dtypes of the function's results.
      differentiable: whether the call's gradient function is kept.
      backward: whether to call the gradient function.
    """
    attrs = {"shapes": shapes, "dtypes": dtypes, "differentiable": differentiable, "backward": backward}
    return (key, *inputs), attrs


def _recalled_vjp(cotangent: Any, y: Any, *inputs: Tensor, **attrs: Any) -> Any:
    """Returns the cotangents of ``recall_python``'s inputs.

    The last inputs are the results of the repeated call. They get None, the others the cotangents of that call.
    """
    last = len(inputs) - len(y)
    return (*_vjp(cotangent, y, *inputs[:last], **attrs), *(None for _ in y))


@primitive(
    **_CALL
    | {
        "type": lambda *inputs, shapes, **_: inputs[-len(shapes) - 1 :],
        "numpy": lambda *inputs, shapes, **_: inputs[-len(shapes) - 1 :],
        "vjp": _recalled_vjp,
    }
)
def recall_python(
    key: Tensor,
    *inputs: Tensor,
    shapes: tuple[tuple[Dim, ...], ...],
    dtypes: tuple[DType, ...],
    differentiable: bool,
    backward: bool,
) -> Any:
    """Replaces a ``call_python`` in recomputed code, where the call already ran. It returns its last inputs.

    These inputs are the results of the first call.

    Args:
      key, shapes, dtypes, differentiable, backward: the operand and attributes of the first call.
      inputs: the arguments of the first call, and its results.
    """
    attrs = {"shapes": shapes, "dtypes": dtypes, "differentiable": differentiable, "backward": backward}
    return (key, *inputs), attrs
