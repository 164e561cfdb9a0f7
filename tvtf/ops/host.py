"""Python called by compiled code, in program order.

The function itself is no part of the IR: a :class:`HostFunction` is a scalar tensor whose number names it while it lives; a
trace that calls it gets it as a parameter.
"""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvtf import errors
from tvtf.context import state
from tvtf.dtypes import DType
from tvtf.ops.rules import bind
from tvtf.primitive import primitive
from tvtf.shape import Dim, TensorType, fresh_dim
from tvtf.tensor import EagerTensor, Tensor

_numbers = itertools.count(1)
_alive: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class HostFunction(EagerTensor):
    """A scalar that stands for a function ``run`` on arrays, and for its gradient, if it has one."""

    __slots__ = ("run", "gradient")

    def __init__(self, run: Callable[..., Any], gradient: Callable[..., Any] | None = None) -> None:
        number = next(_numbers)
        super().__init__(np.array(number))
        self.run = run
        self.gradient = gradient
        _alive[number] = self


def call(function: HostFunction, inputs: Sequence[Tensor], results: Sequence[TensorType]) -> tuple[Tensor, ...]:
    """Calls ``function`` where the traced program is now, whenever it runs; the results have the given types."""
    _tell_machine()
    key = state.trace.pass_in(function)
    shapes, dtypes = tuple(r.shape for r in results), tuple(r.dtype for r in results)
    found = bind.call_python(
        key, *inputs, shapes=shapes, dtypes=dtypes, differentiable=function.gradient is not None, backward=False
    )
    return found[: len(results)]


def found_by(run: Callable[..., Any], x: Tensor, *results: TensorType) -> tuple[Tensor, ...]:
    """What ``run`` makes of the value of a traced ``x``: for results of a size that only the value tells."""
    return call(HostFunction(run), [x], results)


def unknown_dim() -> Dim:
    """A dim of a result of :func:`call` that the function tells when it runs."""
    return fresh_dim(state.trace.root.unique("found"))


SYMBOLS = ("tvtf.call_python", "tvtf.call_python_gradient")
"""The names by which compiled code calls a function, and its gradient, with tensors."""


@functools.cache
def _tell_machine() -> None:
    import tvm_ffi

    from tvtf.memory import to_array, to_handle

    def called(backward: bool, key: Any, *inputs: Any) -> list[Any]:
        """Arrays are copied: the machine's memory is used again, and Python may keep what it is given."""
        with kept_failure():
            return [to_handle(a) for a in run(to_array(key), [to_array(x).copy() for x in inputs], backward)]

    for backward, symbol in enumerate(SYMBOLS):
        tvm_ffi.register_global_func(symbol, functools.partial(called, bool(backward)), override=True)


def run(key: np.ndarray, inputs: Sequence[np.ndarray], backward: bool) -> tuple[np.ndarray, ...]:
    """Runs the function that ``key`` stands for: eagerly, whatever is traced or recorded around; then a zero."""
    function = _alive.get(int(key))
    if function is None:
        raise errors.NotFoundError(
            None, "PyFunc", "this program calls a Python function of the process that traced it, which is not this one"
        )
    work = function.gradient if backward else function.run
    trace, tapes, state.trace, state.tapes = state.trace, state.tapes, None, []
    try:
        return (*work(*inputs), np.zeros((), np.int32))  # type: ignore[misc]
    finally:
        state.trace, state.tapes = trace, tapes


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
    from tvtf.dtypes import int32

    return (*(TensorType(tuple(s), d) for s, d in zip(shapes, dtypes)), TensorType((), int32))


def _vjp(ct: Any, y: Any, key: Tensor, *inputs: Tensor, differentiable: bool, backward: bool, **_: Any) -> Any:
    if not differentiable or backward:
        return (None,) * (1 + len(inputs))
    outputs = y[:-1]
    cotangents = [bind.zeros_like(o) if c is None else c for c, o in zip(ct, outputs)]
    wanted = [x for x in inputs if x.dtype.is_floating]
    found = bind.call_python(
        key, *inputs, *cotangents,
        shapes=tuple(x._type.shape for x in wanted), dtypes=tuple(x.dtype for x in wanted),
        differentiable=True, backward=True,
    )  # fmt: skip
    gradients = iter(found)
    return (None, *(next(gradients) if x.dtype.is_floating else None for x in inputs))


@primitive(
    tf_name="EagerPyFunc",
    type=_types,
    numpy=lambda key, *inputs, shapes, dtypes, differentiable, backward: run(key, inputs, backward),
    vjp=_vjp,
    pure=False,
    why_not={
        "lower": "lowered to a call of Python by passes/legalize.py",
        "batch": "a Python function of one example is no function of a batch",
        "onnx": "a file holds no Python function",
        "samples": "it runs what it is given: tests/frontend/test_host.py",
    },
)
def call_python(
    key: Tensor,
    *inputs: Tensor,
    shapes: tuple[tuple[Dim, ...], ...],
    dtypes: tuple[DType, ...],
    differentiable: bool,
    backward: bool,
) -> Any:
    """The results of a Python function, and a zero, so that there is one at least."""
    attrs = {"shapes": shapes, "dtypes": dtypes, "differentiable": differentiable, "backward": backward}
    return (key, *inputs), attrs
