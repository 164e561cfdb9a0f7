"""Unknown sizes that must be equal or broadcast: one trace has code for equal sizes, and code for all."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.ops.rules import bind
from tvtf.passes.graph.simplify import simplify

VECTORS = [tf.TensorSpec([None]), tf.TensorSpec([None])]


def of(size):
    return tf.range(1.0, size + 1.0)


def test_code_for_equal_sizes_has_nothing_of_others():
    f = tf.function(lambda x, y: x * y + x, input_signature=VECTORS)
    names = simplify(f.get_concrete_function().code().module()).script()
    assert "tvtf.multiply" in names
    assert not any(f"tvtf.{op}" in names for op in ("common_dims", "broadcast_to", "guard"))


def test_one_trace_has_code_for_both():
    f = tf.function(lambda x, y: x * y, input_signature=VECTORS)
    assert [f(of(n), of(m)).shape[0] for n, m in ((2, 2), (1, 3), (3, 1), (4, 4))] == [2, 3, 3, 4]
    assert f.experimental_get_tracing_count() == 1


def test_what_fails_before_does_nothing():
    total = tf.Variable(0.0)

    @tf.function(input_signature=VECTORS)
    def f(x, y):
        total.assign_add(1.0)
        return x - y

    f(of(1), of(3))
    assert total.numpy() == 1.0
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Incompatible shapes: \[2\] vs. \[3\]"):
        f(of(2), of(3))
    assert total.numpy() == 2.0


def test_sizes_that_met_are_known_to_be_common():
    @tf.function(input_signature=VECTORS)
    def f(x, y):
        total = (x + y) * x - y * (y + x)
        assert total._type.shape[0].same_as((y - x)._type.shape[0])
        return total

    np.testing.assert_array_equal(f(of(1), of(2)).numpy(), [2.0 - 2.0, 3.0 - 6.0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (tf.broadcast_to(x, [3]), tf.broadcast_to(x, [4])),
        lambda x: (x + tf.ones([3]), x * tf.ones([2, 4])),
        lambda x: (tf.broadcast_to(x, [3]), tf.reshape(x, [1, 1])),
        lambda x: (tf.ensure_shape(x, [1]), x + tf.ones([4])),
        lambda x: tf.broadcast_to(x, [3]) + tf.concat([x, x, x], 0) + tf.concat([x, x], 0)[:1] + x[0],
    ],
)
def test_a_size_that_no_equal_size_fits_is_1(function):
    """Code for equal sizes can't be made of these: two sizes contradict each other."""
    f = tf.function(function, input_signature=VECTORS[:1], autograph=False)
    for result, want in zip(tf.nest.flatten(f(of(1))), tf.nest.flatten(function(of(1))), strict=True):
        np.testing.assert_array_equal(result, want)


def test_sums_undo_broadcasting():
    x = of(6)
    assert bind.sum_to(tf.reshape(x, [2, 3]), shape=(1, 3)).numpy().tolist() == [[5.0, 7.0, 9.0]]
    assert bind.common_dims(x, tf.ones([2, 1]), dims=(2, 6)).shape == [2, 6, 0]


def test_exported_with_gradient_for_equal_sizes():
    onnxruntime = pytest.importorskip("onnxruntime")

    @tf.function(input_signature=VECTORS)
    def f(x, y):
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = tf.reduce_sum(x * y * y)
        return z, tape.gradient(z, x)

    model = tf.onnx.export(f)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found = session.run(None, {"x": of(2).numpy(), "y": of(2).numpy()})
    assert found[0] == 9.0
    assert found[1].tolist() == [1.0, 4.0]
