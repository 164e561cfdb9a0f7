"""Defines ``tf.test``: unittest with tensors."""

from __future__ import annotations

import importlib
import random
import sys
import tempfile
import unittest
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvtf.api.namespaces import install as _install
from tvtf.core import nest
from tvtf.core.primitive import export
from tvtf.core.tensor import convert_to_tensor, is_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import as_dtype
from tvtf.errors import OpError
from tvtf.frontend.gradient.tape import GradientTape
from tvtf.ops.central_differences import central_differences
from tvtf.state.seeds import set_seed

SEED = 87654321


def _v1() -> Any:
    """Returns ``tf.compat.v1``, which is imported on its first use."""
    return sys.modules["tvtf"].compat.v1


def _absl_or_unittest() -> Any:
    """Returns the module ``absl.testing.absltest``, as TensorFlow uses it for ``tf.test``, or unittest without absl."""
    try:
        return importlib.import_module("absl.testing.absltest")
    except ModuleNotFoundError:
        return unittest


_BASE = _absl_or_unittest()
_Case: Any = _BASE.TestCase


@export("test.TestCase")
class TestCase(_Case):  # type: ignore[misc]
    """A test case with assertions that compare tensors, arrays and nested structures of these.

    Every test starts with the same random seed.

    If absl is installed, it also has absl's assertions, as in TensorFlow.

    >>> import tvtf as tf
    >>> class Squares(tf.test.TestCase):
    ...     def test(self):
    ...         self.assertAllClose(tf.square([1., 2.]), [1., 4.])
    >>> Squares("test").run().wasSuccessful()
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/test/TestCase
    """

    __test__ = False  # pytest collects only its subclasses

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__test__ = True

    def setUp(self) -> None:
        """Sets the random seeds of Python, NumPy and tvtf, and creates a new default graph, before each test.

        So a test neither finds variables that another one created, such as TensorFlow 1's global step, nor depends on the
        random numbers that it drew. Test runners take the method `test_session` for a test, by its name. It is skipped.
        """
        super().setUp()
        if self.id().endswith(".test_session"):
            self.skipTest("Not a test.")
        graphs = sys.modules.get("tvtf.v1.graph")
        if graphs is not None:  # a program that doesn't use graphs needn't import them
            graphs.reset_default_graph()
        random.seed(SEED)
        np.random.seed(SEED)
        set_seed(SEED)

    def get_temp_dir(self) -> str:
        """Returns the path of a temporary folder, one for each test, which is deleted after the test."""
        if not hasattr(self, "_folder"):
            self._folder = tempfile.TemporaryDirectory()
            self.addCleanup(self._folder.cleanup)
        return self._folder.name

    def evaluate(self, tensors: Any) -> Any:
        """Evaluates the tensors in a nested structure, and returns a structure of NumPy values.

        Tensors of a TensorFlow 1 graph are evaluated by the default session, or else by the test's cached session.

        Raises:
          ValueError: a value is not a tensor, and no graph is being built.
        """
        if state.trace is None:  # no graph is being built
            return nest.map_structure(_value, tensors)
        session = _v1().get_default_session()
        if session is not None:
            return session.run(tensors)
        with self.cached_session() as session:
            return session.run(tensors)

    @contextmanager
    def session(self, graph: Any = None, config: Any = None, **_: Any) -> Any:
        """Opens a TensorFlow 1 session for a ``with`` block, and closes the session afterwards.

        Outside of a graph, the block receives an object with the same method ``run``, which evaluates eager tensors.
        """
        if state.trace is None:  # no graph is being built
            yield _EagerSession(self)
        else:
            with _v1().Session(graph=graph, config=config) as session:
                yield session

    @contextmanager
    def cached_session(self, graph: Any = None, config: Any = None, **_: Any) -> Any:
        """Enters the TensorFlow 1 session that all calls in a test share, for a ``with`` block.

        Outside of a graph, the block receives an object with the same method ``run``, which evaluates eager tensors.
        """
        if state.trace is None:  # no graph is being built
            yield _EagerSession(self)
            return
        if not hasattr(self, "_cached_session"):
            self._cached_session = _v1().Session(graph=graph, config=config)
            self.addCleanup(self._cached_session.close)
        with self._cached_session.graph.as_default(), self._cached_session.as_default():
            yield self._cached_session

    test_session = cached_session

    # -- comparing

    def _GetNdArray(self, a: Any) -> np.ndarray:
        """Converts a compared value to an array. Libraries' test cases override this method."""
        return _array(self._values(a))

    def _values(self, structure: Any) -> Any:
        """Replaces the tensors of a TensorFlow 1 graph in a nested structure by their values, for comparisons.

        All tensors are evaluated in one run of the session.
        """
        leaves = nest.flatten(structure)
        symbolic_indices = [i for i, leaf in enumerate(leaves) if _is_symbolic(leaf)]
        if not symbolic_indices:
            return structure
        for i, value in zip(symbolic_indices, self.evaluate([leaves[i] for i in symbolic_indices])):
            leaves[i] = value
        return nest.pack_sequence_as(structure, leaves)

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Asserts that two values have equal shapes and elements. NaN equals NaN.

        A ragged tensor may be compared with nested lists.
        """
        if _is_ragged(a) or _is_ragged(b):
            self.assertEqual(_nested_lists(self._values(a)), _nested_lists(self._values(b)), msg)
            return
        first, second = _encode_strings(*_arrays_of_same_shape(self, a, b, msg))
        np.testing.assert_array_equal(first, second, err_msg=msg or "")

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Asserts that two values differ in their shapes or in at least one element."""
        self._assert_fails(self.assertAllEqual, a, b, msg, "The two values are equal at all elements.")

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:
        """Asserts that two values have the same structure and shapes, and nearly equal elements.

        Elements may differ by ``atol + rtol * abs(b)``. The values may be tensors, arrays, numbers or ragged tensors, and
        nested lists, tuples and dicts of these.
        """
        if isinstance(a, Mapping):
            self.assertIsInstance(b, Mapping, msg)
            self.assertCountEqual(a, b, msg)
            pairs = [(a[key], b[key]) for key in a]
        elif _is_ragged(a) or _is_ragged(b):
            self.assertAllClose(_nested_lists(self._values(a)), _nested_lists(self._values(b)), rtol, atol, msg)
            return
        elif isinstance(a, (list, tuple)) and not (_is_array_like(self._values(a)) and _is_array_like(self._values(b))):
            self.assertEqual(len(a), len(b), msg)
            pairs = list(zip(a, b))
        else:
            self._assert_close(a, b, rtol, atol, msg)
            return
        for x, y in pairs:
            self.assertAllClose(x, y, rtol, atol, msg)

    def _assert_close(self, a: Any, b: Any, rtol: Any, atol: Any, msg: str | None) -> None:
        """Asserts that the elements of two arrays or tensors differ by at most ``atol + rtol * abs(b)``."""
        first, second = map(_without_half_precision, _arrays_of_same_shape(self, a, b, msg))
        if not np.allclose(first, second, rtol, atol, equal_nan=True):  # also accepts tolerances per element
            np.testing.assert_allclose(first, second, rtol=rtol, atol=atol, err_msg=msg or "")

    def assertAllCloseAccordingToType(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, float_rtol: float = 1e-6, float_atol: float = 1e-6,
        half_rtol: float = 1e-3, half_atol: float = 1e-3, bfloat16_rtol: float = 1e-2, bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:  # fmt: skip
        """Asserts that elements are nearly equal, with the tolerances for the less precise dtype of the two values.

        The tolerances are relative (``rtol``) and absolute (``atol``), as in `assertAllClose`.
        """
        tolerances = {
            "float16": (half_rtol, half_atol), "bfloat16": (bfloat16_rtol, bfloat16_atol),
            "float32": (float_rtol, float_atol), "complex64": (float_rtol, float_atol),
        }  # fmt: skip
        for name in (self._GetNdArray(a).dtype.name, self._GetNdArray(b).dtype.name):
            dtype_rtol, dtype_atol = tolerances.get(name, (rtol, atol))
            rtol = max(rtol, dtype_rtol)
            atol = max(atol, dtype_atol)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertNotAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:
        """Asserts that two values differ by more than the tolerances in at least one element."""
        self._assert_fails(
            lambda x, y, text: self.assertAllClose(x, y, rtol, atol, text), a, b, msg,
            "The two values are close at all elements.",
        )  # fmt: skip

    def _assert_fails(self, check: Callable[..., None], a: Any, b: Any, msg: str | None, description: str) -> None:
        """Asserts that another assertion, ``check``, fails for two values; ``description`` is the text of the error."""
        try:
            check(a, b, msg)
        except AssertionError:
            return
        raise AssertionError(f"{description} {msg or ''}".rstrip())

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        self._assert_all(np.greater, "greater than {}", a, comparison_target)

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        self._assert_all(np.greater_equal, "{} or greater", a, comparison_target)

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        self._assert_all(np.less, "less than {}", a, comparison_target)

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        self._assert_all(np.less_equal, "{} or less", a, comparison_target)

    def assertAllInRange(
        self, target: Any, lower_bound: Any, upper_bound: Any,
        open_lower_bound: bool = False, open_upper_bound: bool = False,
    ) -> None:  # fmt: skip
        """Asserts that every element of ``target`` is between the bounds.

        Args:
          target: the tensor.
          lower_bound, upper_bound: the bounds.
          open_lower_bound, open_upper_bound: whether a bound itself is excluded.
        """

        def inside(x: Any, lower: Any, upper: Any) -> Any:
            above = x > lower if open_lower_bound else x >= lower
            return above & (x < upper if open_upper_bound else x <= upper)

        self._assert_all(inside, "between {} and {}", target, lower_bound, upper_bound)

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        self._assert_all(np.isin, "one of {}", target, list(expected_set))

    def _assert_all(self, holds: Callable[..., Any], description: str, a: Any, *operands: Any) -> None:
        """Asserts a condition on every element of ``a``.

        Args:
          holds: computes a bool for each element from the array ``a`` and the operands.
          description: the condition in words for the message, with ``{}`` for each operand.
          a: the values to check.
          operands: further arguments of ``holds``, such as bounds.
        """
        array, *others = map(self._GetNdArray, self._values([a, *operands]))
        wrong_elements = array[~np.broadcast_to(holds(array, *others), array.shape)]
        if wrong_elements.size:
            description = description.format(*others)
            self.fail(
                f"{wrong_elements.size} of {array.size} elements should be {description}, but are not: {wrong_elements[:10]}"
            )

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        self.assertEqual(tuple(_shape(input_a)), tuple(_shape(input_b)), msg)

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        self.assertEqual(as_dtype(self._GetNdArray(target).dtype), as_dtype(expected_dtype))

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        """Asserts that two numbers differ by at most ``err``."""
        self.assertTrue(f1 == f2 or abs(f1 - f2) <= err, f"{f1!r} != {f2!r} +/- {err!r} ({msg or ''})")

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: str | None = None) -> None:
        """Asserts that two sequences of numbers have the same length, and differ by at most ``err`` in each element."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for f1, f2 in zip(farray1, farray2):
            self.assertNear(float(f1), float(f2), err, msg)

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None) -> None:
        """Asserts that the norm of the difference of two arrays is at most ``err``."""
        self.assertLessEqual(np.linalg.norm(self._GetNdArray(ndarray1) - self._GetNdArray(ndarray2)), err, msg)

    # -- sizes, as Abseil's test case has them

    def assertLen(self, container: Any, expected_len: int, msg: str | None = None) -> None:
        self.assertEqual(len(container), expected_len, msg)

    def assertEmpty(self, container: Any, msg: str | None = None) -> None:
        self.assertLen(container, 0, msg)

    def assertNotEmpty(self, container: Any, msg: str | None = None) -> None:
        self.assertTrue(len(container), msg or f"{container!r} is empty")

    def assertBetween(self, value: Any, minv: Any, maxv: Any, msg: str | None = None) -> None:
        self.assertTrue(minv <= value <= maxv, msg or f"{value!r} is not between {minv!r} and {maxv!r}")

    def assertStartsWith(self, actual: Any, expected_start: Any, msg: str | None = None) -> None:
        self.assertTrue(actual.startswith(expected_start), msg or f"{actual!r} does not start with {expected_start!r}")

    # -- errors

    @contextmanager
    def assertRaisesWithPredicateMatch(self, exception_type: Any, expected_err_re_or_predicate: Any) -> Any:
        """Asserts that a ``with`` block raises an exception of a type, and checks the exception.

        The argument ``expected_err_re_or_predicate`` is a regular expression for the exception's text, or a function that
        returns whether the exception is the expected one.
        """
        expected = expected_err_re_or_predicate
        with self.assertRaises(exception_type) as raised:
            yield
        if callable(expected):
            self.assertTrue(
                expected(raised.exception), f"Exception of type {type(raised.exception)}: {raised.exception}"
            )
        else:
            self.assertRegex(str(raised.exception), expected)

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        return self.assertRaisesWithPredicateMatch(OpError, expected_err_re_or_predicate)

    def assertRaisesIncompatibleShapesError(
        self, exception_type: Any = OpError, expected_err_re_or_predicate: str = "Incompatible shapes"
    ) -> Any:
        return self.assertRaisesWithPredicateMatch((exception_type, ValueError), expected_err_re_or_predicate)


class _EagerSession:
    """Replaces a TensorFlow 1 session in tests that run both eagerly and in graphs."""

    def __init__(self, test_case: TestCase) -> None:
        self._test_case = test_case

    def run(self, fetches: Any, feed_dict: Any = None, **_: Any) -> Any:
        """Evaluates eager tensors. Raises RuntimeError if values are fed, because there are no placeholders."""
        if feed_dict:
            raise RuntimeError("sess.run() for eager mode does not support feed_dict")
        return self._test_case.evaluate(fetches)


def _value(tensor: Any) -> Any:
    """Returns the NumPy value of an eager tensor, for ``TestCase.evaluate``.

    A function is called, and its results are evaluated. A composite tensor is converted to the value that a TensorFlow 1
    session returns for it, such as a SparseTensorValue. None stays None.
    """
    if tensor is None:
        return None
    if nest.is_composite(tensor):
        components = nest.flatten(tensor, expand_composites=True)
        return importlib.import_module("tvtf.v1.composites").fetched(tensor, [_value(part) for part in components])
    if callable(tensor):
        return nest.map_structure(_value, tensor())
    if not hasattr(tensor, "numpy"):
        raise ValueError(f"Unsupported type {type(tensor).__name__!r}.")
    return tensor.numpy()


def _is_symbolic(value: Any) -> bool:
    """Returns whether a value is a tensor to be evaluated by a session, because a graph is being built."""
    return state.trace is not None and (is_tensor(value) or nest.is_composite(value))


def _is_ragged(value: Any) -> bool:
    """Returns whether a value is a ragged tensor, or the value of one."""
    return hasattr(value, "nested_row_splits")


def _nested_lists(value: Any) -> Any:
    """Converts a ragged tensor, an array or nested lists of tensors to nested lists of Python numbers."""
    if isinstance(value, (list, tuple)):
        return [_nested_lists(part) for part in value]
    return value.to_list() if hasattr(value, "to_list") else _array(value).tolist()


def _encode_strings(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Encodes the Python strings in two arrays as bytes, to compare them with the values of string tensors."""
    if object not in (first.dtype, second.dtype):  # the values of a string tensor are an array of objects
        return first, second
    encode = np.vectorize(lambda x: x.encode() if isinstance(x, str) else x, otypes=[object])
    # "O" is the kind of arrays of objects, "U" that of arrays of Python strings.
    return tuple(encode(x) if x.dtype.kind in "OU" and x.size else x for x in (first, second))  # type: ignore[return-value]


def _array(value: Any) -> np.ndarray:
    """Converts an eager tensor, a number, or nested lists of numbers to an array."""
    return convert_to_tensor(value).numpy() if is_tensor(value) else np.asarray(value)


def _without_half_precision(array: np.ndarray) -> np.ndarray:
    """Converts an array of 16-bit floats to float32, for NumPy's comparison with tolerances; others are unchanged."""
    return array.astype(np.float32) if array.dtype.name in ("bfloat16", "float16") else array


def _shape(value: Any) -> Any:
    return value.shape if hasattr(value, "shape") else np.shape(value)


def _is_array_like(value: Any) -> bool:
    """Returns whether a value can be converted to one array, as a tensor or nested lists with rows of equal length can."""
    if any(isinstance(x, Mapping) for x in nest.flatten(value)):
        return False
    try:
        return _array(nest.map_structure(_array, value)).dtype != object
    except ValueError:  # the rows have different lengths
        return False


def _arrays_of_same_shape(test_case: TestCase, a: Any, b: Any, msg: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Converts two values to arrays, and asserts that the arrays have the same shape.

    Tensors of a graph are evaluated in one run of the session, because random ops draw new numbers in each run.

    Args:
      test_case: the test, which evaluates tensors.
      a, b: the values.
      msg: the message of the failure, or None.
    """
    first, second = map(test_case._GetNdArray, test_case._values([a, b]))
    test_case.assertEqual(
        first.shape, second.shape, msg or f"Shape mismatch: expected {first.shape}, got {second.shape}."
    )
    return first, second


@export("test.main")
def main(argv: Sequence[str] | None = None) -> None:
    """Runs the program's test cases and exits.

    >>> import tvtf as tf
    >>> tf.test.main  # doctest: +ELLIPSIS
    <function main at 0x...>

    Source: https://www.tensorflow.org/api_docs/python/tf/test/main
    """
    _BASE.main(argv=list(sys.argv if argv is None else argv))


@export("test.compute_gradient")
def compute_gradient(
    f: Callable[..., Any], x: Sequence[Any], delta: float | None = None
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Computes the Jacobians of ``f`` with respect to each argument, by gradients and by central differences.

    Args:
      f: a function of ``len(x)`` tensors.
      x: a list or tuple of values.
      delta: the step of the differences, 1/1024 by default.

    Returns:
      Two tuples of arrays of shape (elements of the result, elements of the argument).

    Raises:
      ValueError: ``x`` is not a list or tuple.

    >>> import tvtf as tf
    >>> by_gradient, by_difference = tf.test.compute_gradient(lambda x: x * x, [[1., 3.]])
    >>> by_gradient[0]
    array([[2., 0.],
           [0., 6.]], dtype=float32)
    >>> float(abs(by_gradient[0] - by_difference[0]).max()) < 1e-3
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/test/compute_gradient
    """
    if not isinstance(x, (list, tuple)):
        raise ValueError(
            f"`x` must be a list or tuple of values convertible to a Tensor (arguments to `f`), not a {type(x)}"
        )
    values = [convert_to_tensor(value) for value in x]
    numerical = tuple(_numerical_jacobian(f, values, i, delta or 1 / 1024) for i in range(len(values)))
    return _tape_jacobians(f, values), numerical


def _tape_jacobians(f: Callable[..., Any], values: list[Any]) -> tuple[np.ndarray, ...]:
    """Computes the Jacobian of ``f`` with respect to each of its arguments by a gradient tape.

    A Jacobian is an array of shape (elements of the result, elements of the argument).
    """
    with GradientTape() as tape:
        tape.watch(values)
        y = f(*values)
    jacobians = tape.jacobian(y, values, unconnected_gradients="zero")
    return tuple(
        jacobian.numpy().reshape(y.numpy().size, value.numpy().size) for jacobian, value in zip(jacobians, values)
    )


def _numerical_jacobian(f: Callable[..., Any], values: list[Any], index: int, delta: float) -> np.ndarray:
    """Computes the Jacobian of ``f`` with respect to the argument at ``index`` by central differences.

    ``values`` are the arguments at which the Jacobian is computed, and ``delta`` is the step of the differences.
    """
    argument = values[index].numpy()

    def result_at(elements: np.ndarray) -> np.ndarray:
        """Returns the result of ``f`` as a vector, for the elements of the argument as a vector."""
        arguments = list(values)
        arguments[index] = convert_to_tensor(elements.reshape(argument.shape))
        return f(*arguments).numpy().reshape(-1).astype(np.float64)

    columns = central_differences(result_at, argument.reshape(-1), delta)
    return np.stack(columns, axis=1).astype(argument.dtype)


@export("test.is_built_with_cuda")
def is_built_with_cuda() -> bool:
    """Returns True: functions can be compiled for NVIDIA's GPUs if nvcc and a driver are installed.

    >>> import tvtf as tf
    >>> tf.test.is_built_with_cuda()
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/test/is_built_with_cuda
    """
    return True


@export("test.is_built_with_gpu_support")
def is_built_with_gpu_support() -> bool:
    """Returns True: the compiler supports GPUs.

    >>> import tvtf as tf
    >>> tf.test.is_built_with_gpu_support() == tf.test.is_built_with_cuda()
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/test/is_built_with_gpu_support
    """
    return is_built_with_cuda()


@export("test.is_built_with_rocm")
def is_built_with_rocm() -> bool:
    """Returns False: AMD's GPUs are not supported.

    >>> import tvtf as tf
    >>> tf.test.is_built_with_rocm()
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/test/is_built_with_rocm
    """
    return False


@export("test.is_built_with_xla")
def is_built_with_xla() -> bool:
    """Returns False: functions are compiled by TVM.

    >>> import tvtf as tf
    >>> tf.test.is_built_with_xla()
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/test/is_built_with_xla
    """
    return False


_install()
