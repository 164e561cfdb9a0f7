"""``tf.py_function`` and ``tf.numpy_function``: calls of Python in a traced program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from tvtf import errors
from tvtf.core import nest
from tvtf.core.primitive import export, hooks
from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.dtypes import DType, as_dtype
from tvtf.frontend.gradient.tape import GradientTape
from tvtf.ops import host
from tvtf.state.random_streams import drawn_by

_ERROR_CLASSES = {
    ValueError: errors.InvalidArgumentError,
    TypeError: errors.InvalidArgumentError,
    StopIteration: errors.OutOfRangeError,
    MemoryError: errors.ResourceExhaustedError,
    NotImplementedError: errors.UnimplementedError,
}


@export("py_function")
def py_function(func: Any = None, inp: Any = None, Tout: Any = None, name: str | None = None) -> Any:
    """Calls a Python function on eager tensors at this point of the program; gradients flow through it.

    It sees Variables as assigned before it, and the program sees its assignments. It may wait for threads that use
    them. Compiled code reads and writes Variables one by one around such calls, so a training step is faster without.

    Args:
      func: takes as many tensors as ``inp`` has; returns tensors, or values that become tensors of ``Tout``.
      inp: list of tensors.
      Tout: a dtype or ``TensorSpec``, or a list of them; empty or None if ``func`` returns nothing. While tracing, a dtype
        alone leaves the rank unknown: the function is compiled after a call has returned it, and again for other ranks.
        ``TensorSpec([None, 3], dtype)`` declares the rank beforehand.
      name: accepted.

    Returns:
      The results, in the structure of ``Tout``; None if that is empty. Without ``func``, a decorator; the decorated
      function takes the tensors as arguments.

    Raises:
      InvalidArgumentError: ``func`` raised TypeError or ValueError, or its results don't fit ``Tout``.
      UnknownError: ``func`` raised another exception.
      UnimplementedError: ``func`` assigns a Variable that is an argument of the ``tf.function`` which calls ``func``.

    >>> import tvtf as tf
    >>> @tf.function
    ... def f(x):
    ...     return tf.py_function(lambda t: t.numpy() * 2.0, [x], tf.TensorSpec([2]))
    >>> f(tf.constant([1., 2.])).numpy()
    array([2., 4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/py_function
    """
    if func is None:

        def decorated(func: Any) -> Any:
            return wraps(func)(lambda *inp: py_function(func, inp, Tout, name))

        return decorated
    return _call_or_bind(func, inp, Tout, _on_tensors(func), "EagerPyFunc", _with_gradient)


@export("numpy_function")
def numpy_function(
    func: Any = None, inp: Any = None, Tout: Any = None, stateful: bool = True, name: str | None = None
) -> Any:
    """Calls a function on NumPy arrays at this point of the program; no gradient flows through it.

    Args:
      func: takes as many arrays as ``inp`` has; returns arrays of the dtypes of ``Tout``.
      inp, Tout, name: as for ``py_function``.
      stateful: accepted; the function runs each time the program reaches this point.

    Returns:
      The results, in the structure of ``Tout`` (outside traces whatever ``func`` returns, as in TensorFlow); without
      ``func`` a decorator, as ``py_function``.

    Raises:
      InvalidArgumentError, UnknownError: as ``py_function``; outside traces the exception of ``func``.

    >>> import tvtf as tf
    >>> f = tf.function(lambda x: tf.numpy_function(lambda a: a[::-1], [x], tf.TensorSpec([3])))
    >>> f(tf.constant([1., 2., 3.])).numpy()
    array([3., 2., 1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/numpy_function
    """
    if func is None:

        def decorated(func: Any) -> Any:
            return wraps(func)(lambda *inp: numpy_function(func, inp, Tout, stateful, name))

        return decorated
    return _call_or_bind(func, inp, Tout, _on_arrays(func), "PyFunc", None)


def _call_or_bind(func: Any, inp: Any, out_types: Any, run: Any, op: str, record: Any) -> Any:
    """Calls a Python function eagerly, or emits a call in the active trace. Returns the results in a structure.

    Args:
      func: the function.
      inp: the list of arguments.
      out_types: a structure of the results' dtypes or specs.
      run: ``func`` as a function of NumPy arrays.
      op: the op's name in error messages.
      record: creates a function that runs ``func`` under a gradient tape; None if the call has no gradient.
    """
    if not callable(func):
        if state.trace is None and record is None:
            raise TypeError(f"{type(func).__name__!r} object is not callable")
        raise ValueError(f"Expected func to be callable. Received func={func} of type {type(func)}.")
    inp = list(inp or ())
    if any(map(nest.is_composite, nest.flatten([inp, out_types]))):
        return _call_on_components(func, inp, out_types, run, op, record)
    if state.trace is None and record is None:  # `numpy_function`, which TensorFlow calls directly
        with drawn_by(None):
            return _unchecked_results(func(*map(np.array, inp)))
    inputs = [convert_to_tensor(x) for x in nest.flatten(inp)]
    specs = [_spec(out_type) for out_type in nest.flatten([] if out_types is None else out_types)]
    if state.trace is None:
        with raises_op_errors(op):
            results: Sequence[Tensor] = _results(func(*inputs), specs, op)
    else:
        results = traced(_checked(run, specs, op), inputs, specs, record and record(func, specs, op), is_barrier=True)
    if out_types is None or not specs:
        return None
    return nest.pack_sequence_as(out_types, list(results)) if nest.is_nested(out_types) else results[0]


def _call_on_components(func: Any, inp: list[Any], out_types: Any, run: Any, op: str, record: Any) -> Any:
    """Calls a function of composite tensors through a function of their component tensors, and returns the results.

    A traced call can only pass tensors. The arguments are those of :func:`_call_or_bind`.
    """

    def on_components(*flat: Any) -> list[Any]:
        """Packs the components into composite tensors, calls the function, and flattens the results to components."""
        arguments = nest.pack_sequence_as(inp, flat, expand_composites=True)
        results = func(*nest.flatten(arguments))
        return nest.flatten([] if results is None else results, expand_composites=True)

    if op == "PyFunc":
        raise TypeError(
            f"{op} takes and returns arrays, but there is a composite tensor among them: use tf.py_function"
        )
    component_types = nest.flatten(out_types, expand_composites=True) if out_types is not None else None
    flat = nest.flatten(inp, expand_composites=True)
    results = _call_or_bind(on_components, flat, component_types, _on_tensors(on_components), op, record)
    return None if out_types is None else nest.pack_sequence_as(out_types, results, expand_composites=True)


def _spec(out_type: Any) -> TensorSpec:
    """Returns the spec of a declared result. A dtype alone leaves the rank unknown."""
    return out_type if isinstance(out_type, TensorSpec) else TensorSpec(None, as_dtype(out_type))


def by_python(func: Callable[..., Any], inputs: Sequence[Tensor], specs: Sequence[TensorSpec]) -> Sequence[Tensor]:
    """Emits a call of ``func`` in the active trace, and returns the results, of the types in ``specs``.

    ``func`` takes and returns tensors. Gradients flow through the call.
    """
    op = "EagerPyFunc"
    return traced(_checked(_on_tensors(func), specs, op), inputs, specs, _with_gradient(func, specs, op))


def traced(
    run: Callable[..., Any],
    inputs: Sequence[Tensor],
    specs: Sequence[TensorSpec],
    record: Callable[..., Any] | None = None,
    is_barrier: bool = False,
) -> Sequence[Tensor]:
    """Emits a call of a Python function in the active trace, and returns the results, of the types in ``specs``.

    A barrier is a call that may use Variables. Pending assignments are written to the Variables' memory before it, and
    Variables are read again after it. After the first barrier every call is treated as a barrier, because values
    assigned later are not where other calls look for them. TensorFlow 1 graphs (``has_keys``) have no barriers.

    Args:
      run: the function, from NumPy arrays to NumPy arrays.
      inputs: the arguments.
      specs: the specs of the results.
      record: runs the function under a gradient tape; None if the call has no gradient.
      is_barrier: whether the function may use Variables.
    """
    trace = state.trace
    python = state.trace.root.python
    if trace.root.has_keys or not (is_barrier or python.barriers):
        python.add(trace.parent is not None)
        return bound_call(host.HostFunction(run, record), inputs, specs)
    trace.flush_assignments()
    barrier = host.HostFunction(host.as_barrier(run), record and host.as_barrier(record))
    results = bound_call(barrier, inputs, specs)
    python.barriers += 1
    return results


def bound_call(function: host.HostFunction, inputs: Sequence[Tensor], specs: Sequence[TensorSpec]) -> Sequence[Tensor]:
    """Emits a call of a host function (Python that a compiled program calls), and returns the results.

    If the rank of a result is unknown, the call is deferred until the rank is known.
    """
    if any(spec.shape.rank is None for spec in specs):
        from tvtf.frontend.host import host_rank as ranks

        key = state.trace.pass_in(function)
        return ranks.PythonCall(specs, function.record is not None).bound([key, *inputs])  # type: ignore[no-any-return]
    return host.call(function, inputs, [_type_of(spec) for spec in specs])


def _type_of(spec: TensorSpec) -> TensorType:
    """Returns the type of a result of known rank, with a new symbolic dim for each unknown size."""
    return TensorType(tuple(host.unknown_dim() if size is None else size for size in spec.shape), spec.dtype)


# -- running it


def _unchecked_results(results: Any) -> Any:
    """Converts the results of a ``tf.numpy_function`` that was called eagerly to tensors: one tensor, or a list.

    Eagerly, TensorFlow doesn't check the results against the declared types.
    """
    values = [None if value is None else convert_to_tensor(value) for value in nest.flatten(results)]
    return values[0] if len(values) == 1 else values


def _on_tensors(func: Any) -> Callable[..., Any]:
    """Wraps a function of eager tensors as a function of NumPy arrays."""
    return lambda *arrays: func(*map(EagerTensor, arrays))


def _on_arrays(func: Any) -> Callable[..., Any]:
    """Wraps a function as TensorFlow's graphs call it: zero-dimensional arrays are passed as NumPy scalars or bytes."""
    return lambda *arrays: func(*(array[()] for array in arrays))  # [()] converts such an array to its element


def _checked(run: Any, specs: Sequence[TensorSpec], op: str) -> Callable[..., tuple[np.ndarray, ...]]:
    """Wraps ``run``: the wrapper checks that the results have the declared types (``specs``), and returns arrays.

    Compiled code reads the arrays by the declared types, and doesn't check them.
    """

    def checked(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        with raises_op_errors(op):
            return tuple(tensor.eager_array() for tensor in _results(run(*arrays), specs, op))

    return checked


def _results(returned: Any, specs: Sequence[TensorSpec], op: str) -> list[Tensor]:
    """Converts the value that a Python function returned to a list of tensors of the declared types (``specs``).

    Raises TensorFlow's errors if the number of values, or their types, differ.
    """
    values = nest.flatten([] if returned is None and not specs else returned)
    if op == "EagerPyFunc":  # TensorFlow ignores surplus values
        values = values[: len(specs)]
    if not specs:  # nothing is declared: what the function returned is ignored
        return []
    if len(values) != len(specs):
        raise errors.InvalidArgumentError(
            None, op, f"{op} returned {len(values)} values, but expects to see {len(specs)} values."
        )
    return [_result(value, spec, index, op) for index, (value, spec) in enumerate(zip(values, specs))]


def _result(value: Any, spec: TensorSpec, index: int, op: str) -> Tensor:
    """Converts one value that Python returned to a tensor, and checks its dtype and shape against the declared spec.

    Args:
      value: the value.
      spec: the declared spec.
      index: the value's index among the results, for errors.
      op: the name of TensorFlow's op, which also determines what is converted.

    Raises:
      InvalidArgumentError: the value has another dtype, or an incompatible shape.
    """
    dtype: DType = spec.dtype
    is_array = isinstance(value, (np.ndarray, np.generic))
    if is_array and op == "EagerPyFunc":
        value = convert_to_tensor(value, dtype)  # TensorFlow casts arrays
    tensor = convert_to_tensor(value, dtype_hint=None if is_array else dtype)
    if tensor.dtype is not dtype:
        raise errors.InvalidArgumentError(
            None, op, f"{index}-th value returned by {op} is {tensor.dtype.name}, but expects {dtype.name}"
        )
    if not spec.shape.is_compatible_with(tensor.shape):
        raise errors.InvalidArgumentError(
            None, op, f"{index}-th value returned by {op} has shape {tensor.shape}, but expects {spec.shape}"
        )
    return tensor


class raises_op_errors:  # noqa: N801 - a context manager
    """A context that converts exceptions of the user's Python to TensorFlow's errors.

    The message has the type and the text of the exception. ``op`` is the op's name in the error. In the context random ops
    draw for the program, not for a function of a dataset that calls the Python.
    """

    def __init__(self, op: str) -> None:
        self.op = op
        self._drawn_by_program = drawn_by(None)

    def __enter__(self) -> None:
        self._drawn_by_program.__enter__()

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        """Raises the error of TensorFlow for an exception. TensorFlow's own errors, and interrupts, pass unchanged."""
        self._drawn_by_program.__exit__(None, None, None)
        if error is None or not isinstance(error, Exception) or isinstance(error, errors.OpError):
            return
        error_class = next((new for old, new in _ERROR_CLASSES.items() if isinstance(error, old)), errors.UnknownError)
        raise error_class(None, self.op, f"{type(error).__name__}: {error}") from error


def _with_gradient(func: Any, specs: Sequence[TensorSpec], op: str) -> Callable[..., Any]:
    """Returns a function of NumPy arrays that runs ``func`` under a gradient tape.

    The function returns the results of ``func``, and a function for the backward pass. The latter takes the results'
    cotangents, and returns the cotangents of the floating-point inputs.

    Args:
      func: the user's function of tensors.
      specs: the specs of its results.
      op: the name of the op in error messages.
    """

    def record(*arrays: np.ndarray) -> tuple[tuple[np.ndarray, ...], Callable[..., Any]]:
        """Calls ``func`` under a gradient tape, and returns its results and the function for the backward pass."""
        inputs = list(map(EagerTensor, arrays))
        floating = [x for x in inputs if x.dtype.is_floating]
        with raises_op_errors(op), GradientTape(persistent=True) as tape:
            tape.watch(floating)
            results = _results(func(*inputs), specs, op)

        def backward(*cotangents: np.ndarray) -> tuple[np.ndarray, ...]:
            """Computes the cotangents of the floating-point inputs. A persistent tape can do so several times."""
            grads = tape.gradient(results, floating, list(map(EagerTensor, cotangents)), unconnected_gradients="zero")
            return tuple(grad.eager_array() for grad in grads)

        return tuple(result.eager_array() for result in results), backward

    return record


hooks.call_python = by_python
