"""The call path of functions: traces, errors, Variables, threads, processes."""

import copy
import gc
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest

import tvtf as tf
from tvtf.frontend.function import polymorphic_function as function_module
from tvtf.frontend.function import retrace_log


def rejected(error, program, *args, **kwargs):
    with pytest.raises(error) as caught:
        program(*args, **kwargs)
    return str(caught.value)


# -- what is refused, in full


def test_a_variable_made_on_a_later_call():
    @tf.function(autograph=False)
    def f(x):
        return tf.Variable(1.0) * x

    assert rejected(ValueError, f, tf.constant(1.0)) == (
        "tf.function only supports singleton tf.Variables created on the first call. Make sure the tf.Variable is only "
        "created once or created outside tf.function. See https://www.tensorflow.org/guide/function#creating_tfvariables "
        "for more information."
    )


def test_a_tensor_used_after_its_trace():
    leaked = []

    @tf.function
    def leaky(x):
        leaked.append(x + 1)
        return x

    leaky(tf.constant(1))
    assert rejected(TypeError, lambda: leaked[0] + 1) == (
        "<tf.Tensor 'add:0' shape=() dtype=int32> is out of scope and cannot be used here by AddV2. Use return values, "
        "explicit Python locals or TensorFlow collections to access it. It was defined while tracing 'leaky', which has ended."
    )


def test_a_tensor_used_in_another_trace():
    leaked = []
    tf.function(lambda x: leaked.append(x + 1))(tf.constant(1))

    @tf.function(autograph=False)
    def other(x):
        return x + leaked[0]

    assert rejected(TypeError, other, tf.constant(1)) == (
        "<tf.Tensor 'add:0' shape=() dtype=int32> is out of scope and cannot be used here. Use return values, explicit Python "
        "locals or TensorFlow collections to access it. It was defined while tracing '<lambda>' and is used in 'other'."
    )


def test_a_result_that_is_no_tensor():
    @tf.function(autograph=False)
    def f(x):
        return object()

    assert rejected(TypeError, f, tf.constant(1)) == (
        "To be compatible with tf.function, Python functions must return zero or more Tensors or ExtensionTypes or None "
        "values; in compilation of f, found return value of type object, which is not a Tensor or ExtensionType."
    )


def specified(*shapes):
    @tf.function(input_signature=[tf.TensorSpec(s) for s in shapes])
    def f(x, y=None):
        return x + 1.0

    return f


@pytest.mark.parametrize(
    "args, reason",
    [
        ((np.ones([2, 2], np.float32),), "Can not cast TensorSpec(shape=(2, 2), dtype=tf.float32, name=None) to "),
        ((tf.constant([1]),), "Can not cast TensorSpec(shape=(1,), dtype=tf.int32, name=None) to "),
        (("a",), "Can not cast TensorSpec(shape=(), dtype=tf.string, name=None) to "),
    ],
)
def test_an_argument_outside_the_signature(args, reason):
    text = rejected(TypeError, specified([None]), *args)
    assert text == (
        f"Binding inputs to tf.function failed due to `{reason}TensorSpec(shape=(None,), dtype=tf.float32, name=None)`. "
        f"Received args: {args} and kwargs: {{}} for signature: (x: TensorSpec(shape=(None,), dtype=tf.float32, name=None))."
    )


def test_too_many_arguments_for_the_signature():
    text = rejected(TypeError, specified([None]), tf.zeros([1]), 2, 3)
    assert text.startswith(
        "Binding inputs to tf.function failed due to `too many positional arguments`. Received args: ("
    )


def test_a_signature_of_something_else():
    assert rejected(TypeError, tf.function, lambda x: x, input_signature=[1]) == (
        "input_signature must be a possibly nested sequence of TensorSpec objects, got (1,)"
    )


def test_a_failed_cast_is_reported_before_a_wrong_structure():
    specs = [[tf.TensorSpec([])], tf.RaggedTensorSpec([None, None])]
    x = tf.constant(1.0)
    message = rejected(TypeError, tf.function(lambda xs, ragged: xs, input_signature=specs), [x, x], tf.ones([2, 2]))
    assert "`Can not cast TensorSpec(shape=(2, 2), dtype=tf.float32, name=None) to RaggedTensorSpec(" in message


def test_a_signature_without_a_rank_serves_all_ranks():
    total = tf.function(lambda x: tf.reduce_sum(x), input_signature=[tf.TensorSpec(None)])
    assert [total(tf.ones(shape)).numpy() for shape in ([], [2], [3, 2], [4, 1])] == [1.0, 2.0, 6.0, 4.0]
    assert total.experimental_get_tracing_count() == 1
    assert "Can not cast" in rejected(TypeError, total, tf.constant([1]))


def test_a_function_of_unknown_rank_is_compiled_when_a_call_has_the_rank():
    f = tf.function(lambda x: x + 1.0, input_signature=[tf.TensorSpec(None)])
    concrete = f.get_concrete_function()
    assert str(concrete.outputs[0].shape) == "<unknown>"
    assert concrete(tf.zeros([2, 1])).shape == [2, 1]
    assert rejected(ValueError, concrete.code) == (
        "<lambda> was traced for arguments of unknown rank; code is compiled for a known one: give tensors, or specs with their "
        "dims, None for unknown ones"
    )
    assert f.experimental_get_tracing_count() == 1


def test_a_function_that_needs_the_rank_has_a_trace_for_each():
    f = tf.function(lambda x: x * float(x.ndim), input_signature=[tf.TensorSpec(None)])
    assert [f(tf.ones(shape)).shape.as_list() for shape in ([2], [2, 3], [4])] == [[2], [2, 3], [4]]
    assert f.experimental_get_tracing_count() == 2
    assert f.explain_retraces().startswith(
        "trace 1: the rank of a tensor must be known, so each rank has its own trace"
    )


def test_a_function_that_needs_the_rank_and_then_a_size_has_a_trace_for_each_shape():
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.signal.irfft(tf.cast(x, tf.complex64)) * float(x.ndim)
        return tape.gradient(y, x)

    f = tf.function(gradient, input_signature=[tf.TensorSpec(None)])
    for shape in ([3, 3], [4], [3, 3]):
        assert np.array_equal(f(tf.ones(shape)), gradient(tf.ones(shape)))
    assert f.experimental_get_tracing_count() == 2
    rank, size, _ = f.explain_retraces().splitlines()
    assert "each rank has its own trace" in rank and "each shape has its own trace" in size


def test_gradients_of_a_tensor_passed_twice_to_a_deferred_call():
    @tf.function(input_signature=[tf.TensorSpec(None)])
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.concat([x, x], 0) ** 2.0)
        return tape.gradient(y, x)

    assert gradient(tf.constant([[1.0, 2.0]])).numpy().tolist() == [[4.0, 8.0]]


def test_instances_of_a_function_of_unknown_rank_are_compiled_once():
    f = tf.function(lambda x: tf.reduce_sum(x * x), input_signature=[tf.TensorSpec(None)])
    shapes = [2], [3], [2, 2], [4, 1]
    traced = f.get_concrete_function()
    assert all(f.get_concrete_function(tf.ones(shape)) is traced for shape in shapes)
    assert len({id(traced.instance([tf.ones(shape)])) for shape in shapes}) == 2
    assert [kernel.calls for kernel in f.profile(tf.ones([2, 2]), repeat=1).kernels if kernel.cost] == [1]


def test_kernels_with_buffers_of_unknown_size():
    """TVM's CompactBufferAllocation would size them by variables of their loops."""
    spread = tf.function(tf.math.reduce_std, input_signature=[tf.TensorSpec([None, None, None])])
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    np.testing.assert_allclose(spread(x), x.std(), rtol=1e-6)


def test_a_tensor_of_unknown_rank_outside_its_function():
    kept = []
    tf.function(lambda x: kept.append(x), input_signature=[tf.TensorSpec(None)])(tf.ones([2]))
    assert "is out of scope" in rejected(tf.errors.InaccessibleTensorError, tf.sin, kept[0])
    for use in (tf.reduce_sum, len, lambda x: x.ndim, tf.experimental.DynamicRaggedShape.from_tensor):
        assert "outside the function that it belongs to" in rejected(tf.errors.InaccessibleTensorError, use, kept[0])
    assert "outside the function" in rejected(tf.errors.InaccessibleTensorError, kept[0].set_shape, [2])


def test_an_unknown_rank_in_a_graph_of_tensorflow_1():
    def rank_of_unknown():
        with tf.compat.v1.Graph().as_default():
            return len(tf.compat.v1.placeholder(tf.float32))

    assert "the rank of a tensor must be known while tracing" in rejected(ValueError, rank_of_unknown)


def test_text_is_kept_for_a_call_only():
    """Compiled code has numbers for strings, and nothing is left of them afterwards."""
    f = tf.function(lambda x: (tf.concat([x, [b"c"]], 0), tf.strings.length(x)), autograph=False)
    for texts in ([b"a"], [b"", b"dd"]):
        found, lengths = f(tf.constant(texts))
        assert (found.numpy().tolist(), lengths.numpy().tolist()) == ([*texts, b"c"], list(map(len, texts)))
    assert texts_kept() == []


def texts_kept():
    from tvtf.core import string_handles

    return string_handles._calls.tables


def test_tracing_errors_name_the_users_line():
    def body(x):
        y = x + 1
        return y + tf.constant(1.5)

    text = rejected(TypeError, tf.function(body), tf.constant(1))
    line = body.__code__.co_firstlineno + 2
    assert f'File "{__file__}", line {line}, in body' in text
    assert "return y + tf.constant(1.5)" in text
    assert "Input 'y' of 'AddV2' Op has type float32 that does not match type int32 of argument 'x'." in text


def test_runtime_errors_name_the_users_line():
    @tf.function
    def pick(i):
        return tf.gather(tf.constant([1.0, 2.0]), i)

    text = rejected(tf.errors.InvalidArgumentError, pick, tf.constant(5))
    assert text.startswith("indices")
    assert f"({__file__}, line {pick.python_function.__code__.co_firstlineno + 2})" in text


# -- arguments


def test_what_does_not_hash_is_distinguished_by_identity():
    f = tf.function(lambda x: 0)
    first, second = {1, 2}, {1, 2}
    for value in first, first, second, first:
        f(value)
    assert f.experimental_get_tracing_count() == 2


def test_objects_of_equal_value_share_a_trace():
    import dataclasses

    @dataclasses.dataclass(frozen=True)
    class Config:
        size: int

    f = tf.function(lambda config, x: x * config.size)
    assert f(Config(2), tf.constant(3)).numpy() == 6
    assert f(Config(2), tf.constant(4)).numpy() == 8
    assert f(Config(5), tf.constant(4)).numpy() == 20
    assert f.experimental_get_tracing_count() == 2


def test_methods_have_a_trace_each_and_see_their_own_state():
    class Scale:
        def __init__(self, factor):
            self.factor = tf.Variable(factor)

        @tf.function
        def __call__(self, x):
            return self.factor * x

        @tf.function(reduce_retracing=True)
        def sum(self, x):
            return self.factor * tf.reduce_sum(x)

    two, three = Scale(2.0), Scale(3.0)
    assert (two(tf.constant(1.0)).numpy(), three(tf.constant(1.0)).numpy()) == (2.0, 3.0)
    two.factor.assign(7.0)
    assert (two(tf.constant(1.0)).numpy(), three(tf.constant(1.0)).numpy()) == (7.0, 3.0)
    assert [two.sum(tf.ones([n])).numpy() for n in (1, 2, 3, 4)] == [7.0, 14.0, 21.0, 28.0]
    assert two.sum.experimental_get_tracing_count() == 2


def test_an_owner_is_not_kept_alive():
    class Owner:
        @tf.function
        def f(self, x):
            return x + 1

    owner = Owner()
    owner.f(tf.constant(1))
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


class Gain:
    def __init__(self, gain):
        self.gain = tf.Variable(gain)

    @tf.function(autograph=False)
    def __call__(self, x):
        return self.gain * x

    @classmethod
    @tf.function(autograph=False)
    def named(cls, x):
        return x + len(cls.__name__)


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy])
def test_a_copied_object_calls_its_own(make):
    first = Gain(2.0)
    assert first(tf.constant(1.0)).numpy() == 2.0
    second = make(first)
    second.gain = tf.Variable(10.0)
    assert (first(tf.constant(1.0)).numpy(), second(tf.constant(1.0)).numpy()) == (2.0, 10.0)


def test_a_deep_copied_module_has_variables_of_its_own():
    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.gain = tf.Variable(2.0)

        @tf.function(autograph=False)
        def __call__(self, x):
            return self.gain * x

    first = Model()
    first(tf.constant(1.0))
    second = copy.deepcopy(first)
    second.gain.assign(10.0)
    assert (first(tf.constant(1.0)).numpy(), second(tf.constant(1.0)).numpy()) == (2.0, 10.0)
    assert len(second.variables) == len(first.variables) == 1


def test_a_copied_function_has_traces_of_its_own():
    f = tf.function(lambda x: x + 1, autograph=False)
    f(tf.constant(1))
    copied = copy.deepcopy(f)
    assert copied(tf.constant(1)).numpy() == 2
    assert copied.experimental_get_tracing_count() == 1


def test_objects_that_hold_nothing_more():
    class Slotted:
        __slots__ = ("gain",)
        traces = 0

        @tf.function(autograph=False)
        def scaled(self, x):
            Slotted.traces += 1
            return self.gain * x

    first, second = Slotted(), Slotted()
    first.gain, second.gain = 2.0, 3.0
    assert [s.scaled(tf.constant(1.0)).numpy() for s in (first, second, first)] == [2.0, 3.0, 2.0]
    assert Slotted.traces == 2
    assert Gain.named(tf.constant(1)).numpy() == 5


def test_nested_functions_are_inlined():
    v = tf.Variable(1.0)

    @tf.function
    def inner(x):
        v.assign_add(x)
        return v * 2.0

    @tf.function
    def outer(x):
        return inner(x) + inner(x)

    assert outer(tf.constant(1.0)).numpy() == 10.0
    assert v.numpy() == 3.0
    assert inner.experimental_get_tracing_count() == 1


def test_captured_tensors_of_any_size_are_the_values_they_had():
    small, large = tf.constant([1.0, 2.0]), tf.random.stateless_normal([100], [1, 2])
    f = tf.function(lambda x: (x + small, x + large[:2], tf.reduce_sum(large)))
    a, b, total = f(tf.zeros([2]))
    assert a.numpy().tolist() == [1.0, 2.0]
    np.testing.assert_allclose(b.numpy(), large.numpy()[:2])
    np.testing.assert_allclose(total.numpy(), large.numpy().sum(), rtol=1e-4)
    assert str(float(large.numpy()[0]))[:6] not in f.relax(tf.zeros([2]))


def test_named_dims_are_one_dim():
    spec = tf.TensorSpec
    f = tf.function(lambda x, y: x * y, input_signature=[spec(["batch", 2]), spec(["batch", 1])])
    assert f(tf.ones([3, 2]), tf.ones([3, 1])).shape == (3, 2)
    assert f(tf.ones([5, 2]), tf.ones([5, 1])).shape == (5, 2)
    assert f.experimental_get_tracing_count() == 1
    text = rejected(tf.errors.InvalidArgumentError, f, tf.ones([3, 2]), tf.ones([4, 1]))
    assert "batch" in text
    assert text.startswith("<lambda>: Incompatible shapes: the sizes of 'y' do not fit those of the arguments before")


def test_unknown_dims_broadcast_only_where_the_call_fits():
    f = tf.function(lambda x, y: x + y, input_signature=[tf.TensorSpec([None]), tf.TensorSpec([None])])
    assert f(tf.ones([3]), tf.ones([3])).numpy().tolist() == [2.0, 2.0, 2.0]
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        f(tf.ones([3]), tf.ones([4]))


# -- retraces


def test_explained_retraces():
    f = tf.function(lambda x, scale=1: x)
    for x, scale in [
        (tf.zeros([2]), 1),
        (tf.zeros([3]), 1),
        (tf.zeros([3], tf.int32), 1),
        (tf.zeros([3]), 2),
        ([tf.zeros([3])], 2),
    ]:
        f(x, scale)
    assert f.explain_retraces().splitlines() == [
        "trace 2: argument `x`: shape (2,) -> (3,)",
        "trace 3: argument `x`: dtype float32 -> int32",
        "trace 4: argument `scale`: 1 -> 2",
        "trace 5: the structure of the arguments changed",
    ]


def test_nothing_to_explain():
    f = tf.function(lambda x: x, autograph=False)
    assert f.explain_retraces() == "'<lambda>' was not traced yet"
    f(1)
    f(1)
    assert f.explain_retraces() == "'<lambda>' was traced 1 time(s), never again"


@pytest.mark.parametrize(
    "values, text",
    [
        (
            [1, 2, 3, 4, 5, 6, 7],
            "The last one: argument `x`: 4 -> 5. Pass the value as a tensor (tf.constant) instead of a Python value, or make "
            "the object once, outside the loop.",
        ),
        (
            [np.zeros(n, np.float32) for n in range(1, 8)],
            "The last one: argument `x`: shape (4,) -> (5,). Use reduce_retracing=True, or an input_signature with None for "
            "the dims that vary.",
        ),
    ],
)
def test_a_warning_about_too_many_retraces_says_what_to_do(values, text, caplog, monkeypatch):
    monkeypatch.setattr(retrace_log, "_calls", weakref.WeakKeyDictionary())

    def churn(x):
        return 0

    f = tf.function(churn)
    with caplog.at_level(logging.WARNING, "tensorflow"):
        for value in values[:5]:
            f(value)
    (record,) = caplog.records
    assert record.getMessage().startswith(
        f"5 out of the last 5 calls to {churn} triggered tf.function retracing. Tracing is"
    )
    assert record.getMessage().endswith(text)


def test_a_warning_about_a_function_made_in_a_loop(caplog):
    with caplog.at_level(logging.WARNING, "tensorflow"):
        for _ in range(5):
            tf.function(lambda x: x)(1)
    (record,) = caplog.records
    assert record.getMessage().endswith("a function made anew. Make it once, outside the loop.")


def test_traces_are_bounded(monkeypatch):
    monkeypatch.setattr(function_module, "MAX_TRACES", 3)
    f = tf.function(lambda x: x)
    for n in range(6):
        f(n)
    assert len(f._concrete) == 3
    f(5)
    assert f.experimental_get_tracing_count() == 6
    f(0)
    assert f.experimental_get_tracing_count() == 7


def test_dropped_traces_leave_the_short_way_too(monkeypatch):
    monkeypatch.setattr(function_module, "MAX_TRACES", 2)
    f = tf.function(lambda x: x + 1)
    for n in 1, 2, 3, 4, 1, 2, 3:
        assert f(tf.zeros([n])).shape == (n,)
        assert f(tf.zeros([n])).shape == (n,)
    assert len(f._fast) <= 2


def test_run_functions_eagerly():
    ran = []

    @tf.function
    def f(x):
        ran.append(type(x).__name__)
        return x + 1

    f(tf.constant(1))
    tf.config.run_functions_eagerly(True)
    try:
        assert tf.config.functions_run_eagerly()
        assert f(tf.constant(1)).numpy() == 2
        assert f(tf.constant(1)).numpy() == 2
    finally:
        tf.config.run_functions_eagerly(False)
    f(tf.constant(1))
    assert ran == ["SymbolicTensor", "EagerTensor", "EagerTensor"]


def test_concrete_functions_take_exactly_their_arguments():
    concrete = tf.function(lambda x, y: x + y).get_concrete_function(tf.TensorSpec([None]), tf.TensorSpec([]))
    assert concrete(tf.ones([2]), 1.0).numpy().tolist() == [2.0, 2.0]
    assert concrete(y=1.0, x=[1.0, 2.0]).numpy().tolist() == [2.0, 3.0]
    vector = "TensorSpec(shape=(None,), dtype=tf.float32, name=None)"
    signature = f"(x: {vector}, y: TensorSpec(shape=(), dtype=tf.float32, name=None)) -> {vector}"
    flat = "\nFallback to flat signature also failed due to: <lambda>(x, y)"
    for args, kwargs, reason, then in [
        ((1,), {}, "missing a required argument: 'y'", f"{flat} missing required arguments: y."),
        ((1, 2, 3), {}, "too many positional arguments", f"{flat} takes 2 positional arguments, got 3."),
        ((1,), {"z": 2}, "got an unexpected keyword argument 'z'", f"{flat} missing required arguments: y."),
    ]:
        args = (tf.ones([2]), *args[1:])
        assert rejected(TypeError, concrete, *args, **kwargs) == (
            f"Binding inputs to tf.function failed due to `{reason}`. Received args: {args} and kwargs: {kwargs} for "
            f"signature: {signature}.{then}"
        )
    assert rejected(tf.errors.InvalidArgumentError, concrete, tf.constant([1]), 1.0) == (
        "cannot compute <lambda> as input #0(zero-based) was expected to be a float tensor but is a int32 tensor [Op:<lambda>]"
    )


def test_concrete_functions_keep_their_python_values():
    concrete = tf.function(lambda x, y: x * y).get_concrete_function(tf.TensorSpec([None]), 2.0)
    assert concrete(tf.ones([1])).numpy().tolist() == [2.0]
    assert concrete(tf.ones([1]), 2.0).numpy().tolist() == [2.0]
    assert "Can not cast 3.0 to Literal[2.0]" in rejected(TypeError, concrete, tf.ones([1]), 3.0)


def test_concrete_functions_take_variables():
    a, b = tf.Variable(1.0), tf.Variable(10.0)
    concrete = tf.function(lambda v, x: v.assign_add(x)).get_concrete_function(a, tf.TensorSpec([]))
    assert concrete(b, 1.0).numpy() == 11.0
    assert (a.numpy(), b.numpy()) == (1.0, 11.0)


# -- under tapes and maps


def test_gradient_through_a_call():
    v = tf.Variable(3.0)
    f = tf.function(lambda x: v * x * x)
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert [g.numpy() for g in tape.gradient(y, [x, v])] == [12.0, 4.0]


def test_second_order_through_a_call():
    f = tf.function(lambda x: tf.reduce_sum(x * x * x))
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        first = inner.gradient(y, x)
    assert first.numpy().tolist() == [3.0, 12.0]
    assert outer.gradient(first, x).numpy().tolist() == [6.0, 12.0]


def test_an_update_under_a_tape():
    v = tf.Variable(1.0)

    @tf.function
    def step(x):
        v.assign_add(x)
        return v * x

    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = step(x)
    assert (y.numpy(), v.numpy(), tape.gradient(y, x).numpy()) == (6.0, 3.0, 3.0)


def test_a_call_within_a_map():
    f = tf.function(lambda x: tf.reduce_sum(x * x))
    rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    assert tf.vectorized_map(f, rows).numpy().tolist() == [5.0, 25.0]


def test_a_jacobian_through_a_call():
    f = tf.function(lambda x: x * x)
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert tape.jacobian(y, x).numpy().tolist() == [[2.0, 0.0], [0.0, 4.0]]


# -- Variables


def test_an_update_takes_no_memory():
    v = tf.Variable(tf.zeros([1000]))

    @tf.function
    def step(x):
        v.assign_add(x)

    step(tf.ones([1000]))
    before = v._array.ctypes.data
    for _ in range(3):
        step(tf.ones([1000]))
    assert v._array.ctypes.data == before
    assert v.numpy()[0] == 4.0


def test_an_argument_assigned_stays_what_it_was():
    v, w = tf.Variable(tf.zeros([4])), tf.Variable(tf.zeros([4]))

    @tf.function
    def store(x):
        v.assign(x)
        w.assign(x)

    step = tf.function(lambda: (v.assign_add(tf.ones([4])), w.assign_sub(tf.ones([4])))[:0])
    x = tf.function(lambda: tf.fill([4], 5.0) * 1.0)()
    store(x)
    step()
    step()
    assert x.numpy().tolist() == [5.0] * 4
    assert v.numpy().tolist() == [7.0] * 4
    assert w.numpy().tolist() == [3.0] * 4


def test_a_result_that_was_assigned_keeps_its_value():
    v, w = tf.Variable(tf.zeros([4])), tf.Variable(tf.zeros([4]))

    @tf.function
    def both(x):
        y = x + 1.0
        v.assign(y)
        w.assign(y)
        return y

    results = [both(tf.fill([4], float(n))) for n in range(3)]
    v.assign_add(tf.ones([4]))
    assert [r.numpy()[0] for r in results] == [1.0, 2.0, 3.0]
    assert (v.numpy()[0], w.numpy()[0]) == (4.0, 3.0)


def test_variables_exchange_their_values():
    a, b = tf.Variable([1.0]), tf.Variable([2.0])

    @tf.function
    def swap():
        old = a.read_value()
        a.assign(b)
        b.assign(old)

    for n in range(4):
        swap()
        assert (a.numpy()[0], b.numpy()[0]) == ((2.0, 1.0) if n % 2 == 0 else (1.0, 2.0))


# -- threads and processes


def test_eight_threads_trace_and_call():
    v = tf.Variable(0.0)

    @tf.function
    def step(x):
        v.assign_add(tf.reduce_sum(x))
        return x * 2.0

    start, wrong = threading.Barrier(8), []

    def work():
        start.wait()
        for n in range(1, 20):
            found = step(tf.fill([n % 3 + 1], float(n))).numpy().tolist()
            if found != [2.0 * n] * (n % 3 + 1):
                wrong.append((n, found))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert step.experimental_get_tracing_count() == 3
    assert v.numpy() == 8 * sum(n * (n % 3 + 1) for n in range(1, 20))


def test_functions_that_share_some_variables_wait_for_each_other():
    a, b, c = (tf.Variable(tf.zeros([512])) for _ in range(3))
    one = tf.ones([512])
    first = tf.function(lambda: (a.assign_add(one), b.assign_add(one))[:0])
    second = tf.function(lambda: (b.assign_add(one), c.assign_add(one))[:0])
    third = tf.function(lambda: (c.assign_add(one), a.assign_add(one))[:0])
    start = threading.Barrier(6)

    def work(f):
        start.wait()
        for _ in range(200):
            f()

    threads = [threading.Thread(target=work, args=(f,)) for f in (first, second, third) * 2]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [v.numpy().tolist() for v in (a, b, c)] == [[800.0] * 512] * 3


def test_a_call_waits_for_whoever_holds_one_of_its_variables():
    a, b, c = tf.Variable(0.0), tf.Variable(0.0), tf.Variable(0.0)
    first = tf.function(lambda: (a.assign_add(1.0), b.assign_add(1.0))[:0])
    second = tf.function(lambda: (c.assign_add(1.0), a.assign_add(1.0))[:0])
    first()
    second()
    for variable in a, b:
        with variable.lock:
            waiting = threading.Thread(target=first)
            waiting.start()
            waiting.join(0.2)
            assert waiting.is_alive()
        waiting.join()
    assert (a.numpy(), b.numpy(), c.numpy()) == (4.0, 3.0, 1.0)


def python(program, **options):
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_after_a_parallel_kernel():
    process = python(
        """
        import os
        import tvtf as tf
        f = tf.function(lambda x: tf.reduce_sum(tf.matmul(x, x)), autograph=False)
        x = tf.ones([512, 512])
        expected = f(x).numpy()
        child = os.fork()
        if child == 0:
            os._exit(0 if f(x).numpy() == expected else 3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), f(x).numpy() == expected)
        """
    )
    out, err = process.communicate(timeout=60)
    assert (out, err) == ("0 True\n", "")


def test_ctrl_c_ends_a_long_loop():
    process = python(
        """
        import signal
        import tvtf as tf

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

        @tf.function(autograph=False)
        def forever(x):
            return tf.while_loop(lambda i: i >= 0, lambda i: [i * 1], [x])

        g = tf.function(lambda x: x + 1, autograph=False)
        g(tf.constant(1))
        forever.get_concrete_function(tf.constant(1)).code()  # compiled before the signal comes
        try:
            print("ready", flush=True)
            forever(tf.constant(1))
        except KeyboardInterrupt:
            print("interrupted", g(tf.constant(1)).numpy())
        """
    )
    assert process.stdout.readline() == "ready\n"
    timer = threading.Timer(1.0, process.send_signal, [signal.SIGINT])
    timer.start()
    out, err = process.communicate(timeout=60)
    assert (out, err) == ("interrupted 2\n", "")


# -- devices


def test_a_device_of_another_form_is_rejected():
    with (
        pytest.raises(
            ValueError, match="Failed to parse device name: 'TPU:0'; it must be such as '/CPU:0' or '/GPU:0'"
        ),
        tf.device("TPU:0"),
    ):
        pass


def test_a_gpu_that_is_not_there_is_reported(monkeypatch):
    from tvtf.runtime import target

    def no_gpu(number):
        raise RuntimeError(f"GPU:{number} unknown device: none here")

    monkeypatch.setattr(target, "gpu_arch", no_gpu)
    with tf.device("GPU:7"):
        assert tf.function(lambda x: x + 1, autograph=False)(tf.constant(1)).numpy() == 2
    tf.config.set_soft_device_placement(False)
    try:
        named = tf.device("/job:localhost/replica:0/task:0/device:GPU:7")
        with pytest.raises(RuntimeError, match="GPU:7 unknown device"), named:
            pass
    finally:
        tf.config.set_soft_device_placement(True)


def test_one_trace_serves_several_devices(own_cache, monkeypatch):
    from tvtf.core.thread_state import state
    from tvtf.frontend.function import executor
    from tvtf.runtime.target import emulated_gpu_target, host_target

    monkeypatch.setattr(executor, "target_of", lambda device: emulated_gpu_target() if device else host_target())
    count = tf.Variable(0.0)

    @tf.function
    def add(x):
        count.assign_add(tf.reduce_sum(x))
        return count.read_value()

    results = []
    for device in (None, "GPU:0", None, "GPU:0"):
        monkeypatch.setattr(state, "device", device)
        results.append(float(add(tf.constant([1.0, 2.0]))))
    assert results == [3.0, 6.0, 9.0, 12.0]
    assert add.experimental_get_tracing_count() == 1


def test_a_dim_that_turns_out_to_be_squeezed():
    """TensorFlow's result has one dim less then, but compiled code has one rank."""
    f = tf.function(tf.squeeze, input_signature=[tf.TensorSpec([None, 3])])
    assert f(tf.ones([1, 3])).shape == (3,)
    assert f(tf.ones([2, 3])).shape == [2, 3]


def test_what_a_concrete_function_gives_and_is_made_of():
    @tf.function
    def scaled(x, y):
        return {"a": tf.sin(x) * y, "b": [x, None]}

    concrete = scaled.get_concrete_function(tf.TensorSpec([None]), tf.TensorSpec([]))
    assert concrete.output_shapes == {"a": tf.TensorShape([None]), "b": [tf.TensorShape([None]), tf.TensorShape(None)]}
    assert concrete.output_dtypes == {"a": tf.float32, "b": [tf.float32, None]}
    graph = concrete.graph
    assert [tensor.shape for tensor in graph.inputs] == [[None], []]
    kinds = [operation.type for operation in graph.get_operations()]
    assert kinds[:3] == ["Placeholder", "Placeholder", "Sin"] and "Mul" in kinds
    sine = graph.get_operation_by_name("sin")
    assert sine.inputs[0].name == "x:0" and sine.outputs[0].shape == [None]
    with pytest.raises(KeyError, match="The name 'cos' refers to an Operation not in the graph"):
        graph.get_operation_by_name("cos")


class Mutating:
    @tf.function
    def method(self, items, x):
        items.append(x)
        return x


def mutate(change):
    def function(items, x, *more, **named):
        change(items)
        return x

    return tf.function(function)


@pytest.mark.parametrize(
    "items, change",
    [
        ([], lambda items: items.append(1)),
        ({}, lambda items: items.update(a=1)),
        ({"a": 1}, lambda items: items.pop("a")),
        ([[1], 2], lambda items: items[0].append(3)),
        ([3, 1], lambda items: items.sort()),
        ([tf.ones([])], lambda items: items.__setitem__(0, tf.identity(items[0]))),
    ],
)
def test_arguments_that_python_modifies_are_rejected(items, change):
    before = tf.nest.map_structure(lambda leaf: leaf, items)
    with pytest.raises(
        ValueError, match=r"function\(items, x, \*more, \*\*named\) should not modify .* modified: items$"
    ):
        mutate(change)(items, tf.ones([]))
    assert items == before


def test_modified_arguments_are_named():
    @tf.function
    def function(x, *more, items, **named):
        more[0].append(x)
        named["other"]["key"] = x
        named["own"] = items
        return x

    with pytest.raises(ValueError, match="The following parameter.s. were modified: more, named$"):
        function(tf.ones([]), [1], items=[], other={})
    with pytest.raises(ValueError, match=r"^Mutating\.method\(items, x\) should not modify"):
        Mutating().method([], tf.ones([]))


def test_copies_of_arguments_may_be_modified():
    @tf.function
    def function(items, x):
        items = [*items, x]
        items.append(x)
        return tf.add_n(items)

    assert function([tf.ones([])], tf.ones([])).numpy() == 3.0
    assert mutate(lambda items: (items.append(1), items.pop()))([], tf.ones([])).numpy() == 1.0


def test_a_variable_argument_that_the_function_also_reads_itself_is_one_variable():
    w, u = tf.Variable(2.0), tf.Variable(5.0)

    def doubled(p):
        w.assign(w * 2.0)
        p.assign_add(1.0)
        return w * p

    def nested(inner):
        def outer(p):
            before = inner(p)
            w.assign_add(1.0)
            return before + inner(w) + p

        return outer

    def results(function):
        w.assign(2.0)
        u.assign(5.0)
        found = []
        for variable in (w, u, w, tf.Variable(1.0), u):
            with tf.GradientTape() as tape:
                result = function(variable)
            found += [float(each) for each in (result, w, u, tape.gradient(result, w))]
        return found

    compiled = tf.function(doubled)
    assert results(compiled) == results(doubled)
    assert compiled.experimental_get_tracing_count() == 2
    assert results(tf.function(nested(compiled))) == results(nested(doubled))
    concrete = compiled.get_concrete_function(w)
    w.assign(2.0)
    assert float(concrete(w)) == float(concrete()) - 96.0 == 25.0
    product = tf.function(lambda p: p * w)
    assert float(product(w)) == 121.0
    assert product.experimental_get_tracing_count() == 1  # nothing is assigned
