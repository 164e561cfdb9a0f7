"""Python called by compiled code.

An op that only NumPy or another library of the host has is declared with :func:`host_primitive`: compiled code calls its
``numpy`` kernel by name, in any process. So are all ops on complex numbers and on strings, for TVM has none. A user's own function is no
part of the IR: a :class:`HostFunction` is a scalar tensor whose number names it while it lives; a trace that calls it gets it
as a parameter, and calls happen in program order.
"""

from __future__ import annotations

import functools
import itertools
import json
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

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
    """A scalar that stands for a function ``run`` on arrays, and for its recorded run, if it has a gradient.

    ``record`` gives the results, and the function from their cotangents to those of the floating inputs.
    """

    __slots__ = ("run", "record", "is_brief", "of_variable")
    has_identity = True

    def __init__(
        self,
        run: Callable[..., Any],
        record: Callable[..., Any] | None = None,
        is_brief: bool = False,
        of_variable: bool = False,
    ) -> None:
        number = next(_numbers)
        super().__init__(np.array(number))
        self.run = run
        self.record = record
        self.is_brief = is_brief
        """Whether it waits for nothing and nobody."""
        self.of_variable = of_variable
        """Whether it reads or writes a Variable as compiled code does: done again where a call is repeated."""
        _alive[number] = self


def call(function: HostFunction, inputs: Sequence[Tensor], results: Sequence[TensorType]) -> tuple[Tensor, ...]:
    """Calls ``function`` where the traced program is now, whenever it runs; the results have the given types."""
    return call_by(state.trace.pass_in(function), inputs, results, function.record is not None)


def call_by(key: Tensor, inputs: Sequence[Tensor], results: Sequence[TensorType], differentiable: bool) -> Any:
    """As ``call``, of the function that a tensor of the trace stands for."""
    tell_machine()
    shapes, dtypes = tuple(r.shape for r in results), tuple(r.dtype for r in results)
    found = bind.call_python(key, *inputs, shapes=shapes, dtypes=dtypes, differentiable=differentiable, backward=False)
    return found[: len(results)]


def unknown_dim() -> Dim | None:
    """A dim of a result that only running tells: a symbol in a trace, nothing to know in eager execution."""
    return None if state.trace is None else fresh_dim(state.trace.root.unique("found"))


CALL_SYMBOL, RECORD_SYMBOL, GRADIENT_SYMBOL = "tvtf.call_python", "tvtf.record_python", "tvtf.call_python_gradient"
"""The names by which compiled code calls a function, also where it will want its gradient, and that gradient."""

FAILURE = "tvtf.guard:{kind}:{message}\x04"
"""The text by which the error of a kernel says which error of ours it is, up to ASCII's END OF TRANSMISSION."""

KERNEL_SYMBOL = "tvtf.call_host"
"""The name by which compiled code calls a primitive's NumPy kernel, with its name and attributes."""


@functools.cache
def tell_machine() -> None:
    """Registers what compiled code calls by name."""
    import tvm_ffi

    from tvtf.core.dlpack_view import to_array, to_handle

    def called(way: Callable[..., Any], ranks: Any, key: Any, *inputs: Any) -> list[Any]:
        with kept_failure():
            arrays = [to_array(x) for x in inputs]
            return [to_handle(a) for a in run_of_ranks(to_array(key), arrays, way, json.loads(str(ranks)))]

    def kernel(name: Any, attrs: Any, *inputs: Any) -> list[Any]:
        """Arrays are not copied: kernels keep none, and what they give shares no memory with them."""
        dims = tuple(inputs[-1]) if inputs and isinstance(inputs[-1], tvm_ffi.Shape) else ()
        arrays = [to_array(x) for x in (inputs[:-1] if dims else inputs)]
        with kept_failure():
            return [to_handle(a) for a in run_kernel(table[str(name)], _read(str(attrs), dims), arrays)]

    for symbol, way in ((CALL_SYMBOL, plain), (RECORD_SYMBOL, recorded), (GRADIENT_SYMBOL, way_back)):
        tvm_ffi.register_global_func(symbol, functools.partial(called, way), override=True)
    tvm_ffi.register_global_func(KERNEL_SYMBOL, kernel, override=True)


def run(key: np.ndarray, inputs: Sequence[np.ndarray], way: Callable[..., Any]) -> tuple[np.ndarray, ...]:
    """Runs the function that ``key`` stands for in a way, eagerly, whatever is traced or recorded around.

    The last result is the number by which the call's gradient finds what was recorded; zero where nothing was.
    """
    function = _alive.get(int(key))
    if function is None:
        raise errors.NotFoundError(
            None, "PyFunc", "this program calls a Python function of the process that traced it, which is not this one"
        )
    if function.of_variable:
        return tuple(way(function, inputs))
    if function.is_brief or not state.released_for_python:
        return once(lambda: way(function, inputs))
    with without_locks():
        return once(lambda: way(function, inputs))


def run_of_ranks(
    key: np.ndarray, inputs: Sequence[np.ndarray], way: Callable[..., Any], ranks: list[int]
) -> tuple[np.ndarray, ...]:
    """As :func:`run`, on copies: their memory is used again, and Python may keep what it is given.

    Raises:
      OtherRanks: results are of other ranks than ``ranks``.
    """
    results = run(key, [x.copy() for x in inputs], way)
    if [r.ndim for r in results[:-1]] != ranks:
        raise OtherRanks(None, "PyFunc", "a Python function gave a tensor of another rank than it gave before")
    return results


def plain(function: HostFunction, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    return *function.run(*inputs), np.array(0)


def recorded(function: HostFunction, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    results, back = function.record(*inputs)  # type: ignore[misc]
    return *results, np.array(_records.keep(back))


def way_back(function: HostFunction, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The gradient of a call by its number, results' cotangents and inputs; it is called again if its record is gone."""
    number, count, *rest = inputs
    cotangents, given = rest[: int(count)], rest[int(count) :]
    back = _records.find(int(number))
    if back is None:
        _, back = function.record(*given)  # type: ignore[misc]
    return *back(*cotangents), np.array(0)


class _Records:
    """What calls recorded, by number, for gradients to come: those that had theirs go when the next call comes."""

    MOST = 256

    def __init__(self) -> None:
        self.lock = Lock()
        self.numbers = itertools.count(1)
        self.waiting: dict[int, Any] = {}
        self.used: dict[int, Any] = {}

    def keep(self, back: Callable[..., Any]) -> int:
        with self.lock:
            self.used.clear()
            number = next(self.numbers)
            self.waiting[number] = back
            if len(self.waiting) > self.MOST:
                del self.waiting[next(iter(self.waiting))]
            return number

    def find(self, number: int) -> Any:
        with self.lock:
            if number in self.waiting:
                self.used[number] = self.waiting.pop(number)
            return self.used.get(number)


_records = _Records()


class OtherRanks(errors.InvalidArgumentError):
    """Code was compiled for other ranks than a Python function gave now."""


class Effects:
    """What Python gave in a call of compiled code: if that is called again, with other ranks, this is not done again."""

    def __init__(self) -> None:
        self.results: list[tuple[np.ndarray, ...]] = []
        self.ranks: dict[int, set[tuple[int, ...]]] = {}
        self.again()

    def again(self) -> None:
        """From the beginning."""
        self.place = 0

    def next(self, run: Callable[[], Any]) -> tuple[np.ndarray, ...]:
        if self.place == len(self.results):
            self.results.append(tuple(run()))
        self.place += 1
        return tuple(np.array(a) for a in self.results[self.place - 1])


def once(run: Callable[[], Any]) -> tuple[np.ndarray, ...]:
    """The results of something with effects; of what it was before, where a call is repeated."""
    with _OutsideTraces() as effects:
        return tuple(run()) if effects is None else effects.next(run)


class _OutsideTraces:
    """Outside every trace and tape, and of what a call has done, which it gives."""

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
    """A call of compiled code that holds ``lock``, but not while it calls Python, which may wait for others who want it."""
    state.released_for_python.append(lock)
    try:
        yield
    finally:
        state.released_for_python.pop()


@contextmanager
def without_locks() -> Iterator[None]:
    """While Python runs that compiled code called, which holds a lock."""
    lock = state.released_for_python[-1]
    state.released_for_python.append(nullcontext())
    lock.__exit__(None, None, None)
    try:
        yield
    finally:
        lock.__enter__()
        state.released_for_python.pop()


class AssignmentsForbidden:
    """A context in which compiled code runs: Python that it calls may not assign these Variables."""

    __slots__ = ("variables",)

    def __init__(self, variables: list[Any]) -> None:
        self.variables = variables

    def __enter__(self) -> None:
        state.unassignable.append(self.variables)

    def __exit__(self, *_: Any) -> None:
        state.unassignable.pop()


on_failure: list[Callable[[int], None]] = []
"""Told of each failure of compiled code, with the depth of the calls that go on: what was begun deeper will not be ended."""


def run_kernel(prim: Primitive[Any], attrs: dict[str, Any], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a primitive's NumPy kernel, in memory of their own.

    Raises:
      InvalidArgumentError: the kernel refused, in the op's name.
    """

    def computed() -> list[np.ndarray]:
        results = as_tuple(prim.run([EagerTensor(a) for a in inputs], attrs))
        return [_own(t.eager_array(), inputs) for t in results]

    if not prim.pure:
        return list(once(computed))
    with _OutsideTraces():
        return computed()


def _own(array: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    return array.copy() if any(np.may_share_memory(array, other) for other in others) else array


_DTYPE, _DIM = "dtype", "dim"


def written(attrs: dict[str, Any], is_known: Callable[[Any], bool] = lambda dim: False) -> tuple[str, list[Any]]:
    """A primitive's attributes as text, and the dims in them that are known before it runs; others are left out.

    >>> from tvtf.dtypes import int64
    >>> text, _ = written({"out_type": int64, "pieces": ("a", 1)})
    >>> _read(text, ())
    {'out_type': tf.int64, 'pieces': ('a', 1)}
    """
    dims: list[Any] = []

    def special(value: Any) -> Any:
        if isinstance(value, DType):
            return {_DTYPE: value.name}
        if not is_known(value):
            return None
        dims.append(value)
        return {_DIM: len(dims) - 1}

    return json.dumps(attrs, default=special), dims


@functools.lru_cache(maxsize=1024)
def _read(text: str, dims: tuple[int, ...]) -> dict[str, Any]:
    return {k: _plain(v, dims) for k, v in json.loads(text).items()}


def _plain(value: Any, dims: tuple[int, ...]) -> Any:
    if isinstance(value, list):
        return tuple(_plain(v, dims) for v in value)
    if not isinstance(value, dict):
        return value
    return as_dtype(value[_DTYPE]) if _DTYPE in value else dims[value[_DIM]]


def runs_on_host(prim: Primitive[Any], dtypes: Sequence[DType]) -> bool:
    """Whether compiled code has the ``numpy`` kernel compute a primitive between tensors of these dtypes."""
    return prim.host or any(d in ON_HOST for d in dtypes)


def host_primitive(*, why_not: dict[str, str] | None = None, **columns: Any) -> Callable[..., Any]:
    """Declares a primitive whose only kernel is ``numpy``; compiled code calls it."""
    reasons = {
        "onnx": "it is computed by Python, and no ONNX node does it",
        "samples": "its results are compared with TensorFlow's: tests/parity",
    }
    return primitive(host=True, why_not=reasons | (why_not or {}), **columns)


class _Failure(threading.local):
    """What a function called by compiled code raised in this thread: the machine passes on no exception of ours."""

    error: Exception | None = None


_failure = _Failure()
MARK = "tvtf: a Python function failed"


@contextmanager
def kept_failure() -> Iterator[None]:
    """Keeps what is raised inside for :func:`take_failure`, and raises a plain error in its stead."""
    try:
        yield
    except errors.OpError as error:
        _failure.error = error
        raise RuntimeError(MARK) from error


def take_failure(text: str) -> Exception | None:
    """The exception of the function that failed in this thread, where the text of the machine's error says that one did."""
    error, _failure.error = _failure.error, None
    return error if MARK in text else None


def _types(*inputs: TensorType, shapes: Any, dtypes: Any, **_: Any) -> tuple[TensorType, ...]:
    return (*(TensorType(tuple(s), d) for s, d in zip(shapes, dtypes)), TensorType((), int64))


def _vjp(ct: Any, y: Any, key: Tensor, *inputs: Tensor, differentiable: bool, backward: bool, **_: Any) -> Any:
    if not differentiable or backward:
        return (None,) * (1 + len(inputs))
    *outputs, token = y
    cotangents = [zeros_like(o) if c is None else c for c, o in zip(ct, outputs)]
    wanted = [x for x in inputs if x.dtype.is_floating]
    found = bind.call_python(
        key, token, number(len(outputs), token), *cotangents, *inputs,
        shapes=tuple(x._type.shape for x in wanted), dtypes=tuple(x.dtype for x in wanted),
        differentiable=True, backward=True,
    )  # fmt: skip
    gradients = iter(found)
    return (None, *(next(gradients) if x.dtype.is_floating else None for x in inputs))


_CALL: dict[str, Any] = {
    "tf_name": "EagerPyFunc",
    "type": _types,
    "numpy": lambda key, *inputs, shapes, dtypes, differentiable, backward: run(
        key, inputs, way_back if backward else recorded if differentiable else plain
    ),
    "vjp": _vjp,
    "why_not": {
        "lower": "lowered to a call of Python by passes/lower/legalize.py",
        "batch": "a Python function of one example is no function of a batch",
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
    """The results of a Python function, and the number of what was recorded for its gradient."""
    attrs = {"shapes": shapes, "dtypes": dtypes, "differentiable": differentiable, "backward": backward}
    return (key, *inputs), attrs


def _recalled_vjp(ct: Any, y: Any, *inputs: Tensor, **attrs: Any) -> Any:
    last = len(inputs) - len(y)
    return (*_vjp(ct, y, *inputs[:last], **attrs), *(None for _ in y))


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
    """What ``call_python`` gave before: its results are the last inputs."""
    attrs = {"shapes": shapes, "dtypes": dtypes, "differentiable": differentiable, "backward": backward}
    return (key, *inputs), attrs
