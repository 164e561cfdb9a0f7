"""Composite tensors: users' own classes are accepted wherever TensorFlow's are."""

import pytest

import tvtf as tf
from tvtf.core.composite import CompositeTensor, TypeSpec


class Interval(CompositeTensor):
    def __init__(self, low, high):
        self.low, self.high = low, high

    @property
    def _type_spec(self):
        return IntervalSpec(self.low.shape, self.low.dtype)

    def _gradient_components(self):
        return self.low, self.high

    def _with_gradient(self, gradients):
        return Interval(*gradients)


class IntervalSpec(TypeSpec):
    value_type = Interval

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tf.TensorShape(shape), tf.as_dtype(dtype)

    @property
    def _component_specs(self):
        return {"low": tf.TensorSpec(self.shape, self.dtype), "high": tf.TensorSpec(self.shape, self.dtype)}

    def _to_components(self, value):
        return {"low": value.low, "high": value.high}

    def _from_components(self, components):
        return Interval(**components)

    def _serialize(self):
        return self.shape, self.dtype


def interval(low, high):
    return Interval(tf.constant(low), tf.constant(high))


def test_components_are_a_nest():
    flat = tf.nest.flatten([interval(1.0, 2.0)], expand_composites=True)
    assert [t.numpy() for t in flat] == [2.0, 1.0]
    packed = tf.nest.pack_sequence_as(IntervalSpec([], tf.float32), flat, expand_composites=True)
    assert (packed.low.numpy(), packed.high.numpy()) == (1.0, 2.0)


def test_functions_trace_once_for_each_type():
    @tf.function
    def widened(x, by):
        return {"wide": Interval(x.low - by, x.high + by)}

    for value in ([1.0, 2.0], [3.0, 4.0]):
        found = widened(interval(value, value), 1.0)["wide"]
        assert found.high.numpy().tolist() == [v + 1 for v in value]
    widened(interval([1.0], [2.0]), 1.0)
    assert widened.experimental_get_tracing_count() == 2


def test_reduced_retracing_widens_the_spec():
    @tf.function(reduce_retracing=True)
    def high(x):
        return x.high

    for size in (1, 2, 3, 4):
        assert high(interval([0.0] * size, [1.0] * size)).shape == [size]
    assert high.experimental_get_tracing_count() == 2


def test_gradients_by_a_composite_are_composites():
    x = interval([1.0, 2.0], [3.0, 5.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x.low * x.high)
    found = tape.gradient(y, {"x": x})["x"]
    assert found.low.numpy().tolist() == [3.0, 5.0] and found.high.numpy().tolist() == [1.0, 2.0]


def test_a_concrete_function_takes_what_fits_its_spec():
    concrete = tf.function(lambda x: x.low).get_concrete_function(IntervalSpec([None], tf.float32))
    assert concrete(interval([1.0, 2.0], [0.0, 0.0])).numpy().tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="Can not cast TensorSpec.* to IntervalSpec"):
        concrete(tf.constant([1.0]))


def test_input_signatures_reject_other_types():
    function = tf.function(lambda x: x.low, input_signature=[IntervalSpec([None], tf.float32)])
    with pytest.raises(TypeError, match="Can not cast IntervalSpec.* to IntervalSpec"):
        function(interval([1], [2]))


def test_branches_of_different_types_are_rejected():
    @tf.function
    def either(flag):
        return tf.cond(flag, lambda: interval(1.0, 2.0), lambda: interval(1, 2))

    with pytest.raises(TypeError, match="true_fn and false_fn arguments to tf.cond must have the same"):
        either(tf.constant(True))
