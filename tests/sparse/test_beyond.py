"""Sparse tensors beyond TensorFlow: gradients that it lacks, and functions of unknown sizes."""

import tvtf as tf

AT = [[0, 0], [0, 2], [1, 0]]


def _gradient(function):
    values = tf.constant([1.0, -2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(values)
        found = function(tf.SparseTensor(AT, values, [2, 4]))
        y = tf.reduce_sum(found.values * tf.range(1.0, 1.0 + len(found.values)))
    return tape.gradient(y, values).numpy().tolist()


def test_concat_has_a_gradient():
    assert _gradient(lambda s: tf.sparse.concat(0, [s, s])) == [5.0, 7.0, 9.0]


def test_split_has_a_gradient():
    assert _gradient(lambda s: tf.sparse.split(s, 2, 1)[0]) == [1.0, 0.0, 2.0]


def test_extremes_have_gradients():
    other = tf.SparseTensor([[0, 0], [1, 3]], [5.0, 1.0], [2, 4])
    assert _gradient(lambda s: tf.sparse.maximum(s, other)) == [0.0, 0.0, 3.0]
    assert _gradient(lambda s: tf.sparse.minimum(s, other)) == [1.0, 2.0, 0.0]


def test_shapes_known_while_tracing_stay_known():
    shapes = []

    @tf.function
    def f(s):
        shapes.extend([(s * 2.0).shape, tf.sparse.maximum(s, s).shape, tf.sparse.to_dense(s).shape])
        return s

    f(tf.sparse.from_dense([[1.0, 0.0]]))
    assert shapes == [[1, 2]] * 3
