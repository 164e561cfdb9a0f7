"""Calls that find their trace by a cheap key give what full binding of their arguments gives."""

import math

import numpy as np
import pytest

import tvtf as tf
from tvtf.frontend.function import call_key, polymorphic_function
from tvtf.frontend.function.call_key import nested_key

A, B = tf.constant([1.0, 2.0]), tf.constant([30.0, 40.0])


@pytest.fixture
def only_keys(monkeypatch):
    """Returns a function that calls another with the slow path barred."""

    def call(function, *args, **kwargs):
        with monkeypatch.context() as patched:
            patched.setattr(type(function), "_call_slow_path", lambda *_: pytest.fail("the slow path was taken"))
            return function(*args, **kwargs)

    return call


CALLS = {
    "keyword": (lambda x, training=False: x + (1 if training else 0), (A,), {"training": True}),
    "value": (lambda x, n: x * n, (A, 3), {}),
    "text": (lambda x, how: x if how == "same" else -x, (A, "other"), {}),
    "complex": (lambda x, z: x * abs(z), (A, 3 + 4j), {}),
    "bytes": (lambda x, b: x * len(b), (A, b"abc"), {}),
    "keywords out of order": (lambda x, y: x - y, (), {"y": A, "x": B}),
    "keyword only": (lambda x, *, y, n=2: (x - y) * n, (A,), {"y": B}),
    "keywords beyond the signature": (lambda x, **rest: x - rest["b"] / rest["a"], (A,), {"b": B, "a": A}),
    "positions beyond the signature": (lambda *xs, n: xs[0] * n - xs[1], (A, B), {"n": 2}),
    "tensor as default": (lambda x, y=B, *, n=1: x - y * n, (A,), {"n": 3}),
    "dict": (lambda d: d["x"] - d["a"], ({"x": A, "a": B},), {}),
    "dict in a keyword": (lambda x, d: x - d["b"]["c"], (A,), {"d": {"b": {"c": B}, "a": None}}),
    "array": (lambda x, y: x - y, (A, np.array([5.0, 6.0], "float32")), {}),
    "array in a list": (lambda xs: xs[0] - xs[1], ([A, np.array([5.0, 6.0], "float32")],), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_second_call_goes_by_its_key(name, only_keys):
    python, args, kwargs = CALLS[name]
    function = tf.function(python, autograph=False)
    expected = python(*args, **kwargs)
    for result in (function(*args, **kwargs), only_keys(function, *args, **kwargs)):
        np.testing.assert_array_equal(result, expected)
    other = (
        [tf.constant([7.0, 8.0]) if x is A else x for x in args],
        {k: tf.constant([7.0, 8.0]) if x is A else x for k, x in kwargs.items()},
    )
    np.testing.assert_array_equal(only_keys(function, *other[0], **other[1]), python(*other[0], **other[1]))


def test_keywords_differ_from_positions_and_from_each_other():
    function = tf.function(lambda x, y: x - y, autograph=False)
    for _ in range(3):
        assert function(A, B).numpy().tolist() == [-29, -38]
        assert function(x=A, y=B).numpy().tolist() == [-29, -38]
        assert function(y=A, x=B).numpy().tolist() == [29, 38]
        assert function(A, y=A).numpy().tolist() == [0, 0]
    nested = tf.function(lambda xs, rest=None: tf.add_n([*xs, *(rest or {}).values()]), autograph=False)
    for _ in range(3):
        assert nested((A,), {"rest": B}).numpy().tolist() == [31, 42]
        assert nested(xs=(A,), rest={"rest": B, "b": B}).numpy().tolist() == [61, 82]
        assert nested((A,), rest={}).numpy().tolist() == [1, 2]


@pytest.mark.parametrize("values", [(1, 2, -3), (0.5, math.inf, -math.inf), ("a", "b", ""), (True, False), (b"a", b"")])
def test_each_value_has_its_trace(values):
    seen = []

    @tf.function(autograph=False)
    def function(x, value):
        seen.append(value)
        return x + values.index(value)

    for _ in range(3):
        for number, value in enumerate(values):
            assert function(A, value).numpy().tolist() == [1 + number, 2 + number]
            assert function(x=A, value=value).numpy().tolist() == [1 + number, 2 + number]
    assert seen == list(values)


def test_arrays_differ_by_shape_and_dtype():
    function = tf.function(
        lambda x: tf.reduce_sum(x) if x.dtype is tf.float64 else tf.cast(x, tf.float64), autograph=False
    )
    for _ in range(3):
        assert function(np.ones([2, 2])).numpy() == 4
        assert function(np.ones([3])).numpy() == 3
        assert function(np.array(["1"])[:0].astype("int8")).shape == [0]
        assert function(np.ones([2, 2], "float32")).shape == [2, 2]


def test_arrays_of_texts_go_by_the_slow_path():
    assert nested_key(np.array(["a"]), []) is None and nested_key(np.array([b"a", None]), []) is None
    function = tf.function(tf.strings.length)
    assert [function(np.array(["a", "bcd"])).numpy().tolist() for _ in range(2)] == [[1, 3]] * 2


@pytest.mark.parametrize("value", [np.array([1.0, 2.0]), [1.0, 2.0], [tf.constant(1.0), tf.constant(2.0)]], ids=type)
def test_an_input_signature_converts_at_each_call(value):
    function = tf.function(lambda x: x * 2, input_signature=[tf.TensorSpec([2], tf.float32)])
    for _ in range(3):
        result = function(value)
        assert (result.dtype, result.numpy().tolist()) == (tf.float32, [2, 4])


def test_an_argument_in_a_list_that_a_signature_packs():
    function = tf.function(lambda x: x * 2, input_signature=[tf.TensorSpec([1, 2])])
    assert [function([A]).numpy().tolist() for _ in range(3)] == [[[2, 4]]] * 3


def test_wrong_keywords_raise_at_each_call():
    function = tf.function(lambda x, n=1: x * n, autograph=False)
    for _ in range(2):
        assert function(A, n=2).numpy().tolist() == [2, 4]
        with pytest.raises(TypeError, match="Binding inputs to tf.function failed.*unexpected keyword argument 'm'"):
            function(A, m=2)


def test_keys_of_dicts_that_cannot_be_ordered_go_by_the_slow_path():
    assert nested_key({1: A, "a": B}, []) is None
    assert nested_key({1: A}, []) is not None


def test_gradients_are_recorded_through_keywords():
    function = tf.function(lambda x, n: x * n, autograph=False)
    for _ in range(2):
        assert function(A, n=3).numpy().tolist() == [3, 6]
        with tf.GradientTape() as tape:
            tape.watch(A)
            result = function(A, n=3)
        assert tape.gradient(result, A).numpy().tolist() == [3, 3]


@pytest.mark.parametrize("name", CALLS)
def test_calls_under_tapes_go_by_their_key_and_are_recorded(name, only_keys):
    python, args, kwargs = CALLS[name]
    function = tf.function(python, autograph=False)
    function(*args, **kwargs)
    watched = [x for x in tf.nest.flatten([args, kwargs]) if isinstance(x, tf.Tensor)]
    gradients = []
    for call in (python, lambda *args, **kwargs: only_keys(function, *args, **kwargs)):
        with tf.GradientTape() as tape:
            tape.watch(watched)
            result = tf.reduce_sum(call(*args, **kwargs) ** 2)
        gradients.append(tape.gradient(result, watched))
    for expected, gradient in zip(*gradients):
        np.testing.assert_array_equal(gradient, expected)


def test_a_call_whose_trace_holds_a_tensor_as_a_constant_is_traced_again_for_a_tape_that_watches_it():
    scale = tf.constant([2.0, 3.0])
    function = tf.function(lambda x: x * scale)
    function(A)
    for _ in range(2):
        with tf.GradientTape() as tape:
            tape.watch(scale)
            result = function(A)
        np.testing.assert_array_equal(tape.gradient(result, scale), A)
    assert function.experimental_get_tracing_count() == 2


def test_forward_mode_sees_a_call_found_by_its_key(only_keys):
    function = tf.function(lambda x: x * x)
    function(A)
    with tf.autodiff.ForwardAccumulator(A, tf.ones_like(A)) as accumulator:
        result = only_keys(function, A)
    np.testing.assert_array_equal(accumulator.jvp(result), 2 * A)


def test_a_default_that_changes_is_read_at_each_call():
    factors, offset = [1], tf.Variable(0.0)
    function = tf.function(lambda x, n, m=factors, v=offset: x * (n * m[0]) + v, autograph=False)
    tensors_only = tf.function(lambda x, m=factors, v=offset: x * m[0] + v, autograph=False)
    for factor in (1, 1, 3, 3):
        factors[0] = factor
        offset.assign(factor * 100.0)
        for result in (function(A, 1), function(A, n=1), tensors_only(A), tensors_only(x=A)):
            assert result.numpy().tolist() == [101 * factor, 102 * factor]


def test_calls_in_a_trace_leave_no_keys():
    @tf.function
    def inner(elements, k=1):
        total = tf.constant(0, tf.int64)
        for each in elements:
            total += each * k
        return total

    @tf.function
    def outer(n):
        elements = tf.data.Dataset.range(n).map(lambda x: x + 1)
        return inner(elements), inner(elements, 2), inner(elements=elements), inner(elements=elements, k=2)

    assert [int(total) for total in outer(tf.constant(3, tf.int64))] == [6, 12, 6, 12]


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble])
def test_arrays_that_cannot_be_tensors_raise_as_before(dtype):
    function = tf.function(lambda x, y=None: x * 2, input_signature=[tf.TensorSpec([2])], autograph=False)
    for _ in range(2):
        assert function(x=A).numpy().tolist() == [2, 4]
        with pytest.raises(TypeError, match="Binding inputs to tf.function failed"):
            function(np.array([1, 2], dtype))


def test_arrays_are_converted_only_where_the_key_is_known(monkeypatch):
    converted = []
    monkeypatch.setattr(call_key, "convert_to_tensor", lambda x: converted.append(x) or tf.convert_to_tensor(x))
    function = tf.function(lambda x, m=None: x * 2, autograph=False)
    array = np.array([1.0, 2.0], "float32")
    for other in (None, object(), tf.Variable(1.0)):
        function(array, other)
        function(array, other)
    assert len(converted) == 1


def test_traces_for_values_leave_room_for_those_of_tensors(only_keys, monkeypatch):
    monkeypatch.setattr(polymorphic_function, "MAX_TRACES", 4)
    function = tf.function(lambda x, n=1: x * n, autograph=False)
    for n in range(6):
        function(A, n)
    function(A)
    assert only_keys(function, A).numpy().tolist() == [1, 2]
