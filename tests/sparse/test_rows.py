"""Rows of sparse and ragged tensors, and static shapes of sparse ones, in traced functions."""

import numpy as np
import pytest

import tvtf as tf

DENSE = np.arange(3 * 2 * 4, dtype=np.float32).reshape(3, 2, 4)


def sparse():
    return tf.SparseTensor([[0, 0, 1], [0, 2, 0], [2, 1, 1]], [1.0, 2.0, 3.0], [3, 3, 2])


@pytest.mark.parametrize("shape", [(3, 3, 2), (None, 3, 2), (None, None, None)])
def test_functions_are_mapped_over_rows_of_sparse_tensors(shape):
    def products(sp, dense):
        return tf.map_fn(
            lambda x: tf.sparse.sparse_dense_matmul(x[0], x[1]), (sp, dense), fn_output_signature=tf.float32
        )

    signature = [tf.SparseTensorSpec(shape, tf.float32), tf.TensorSpec([*shape[:1], 2, 4], tf.float32)]
    traced = tf.function(products, input_signature=signature)
    expected = tf.sparse.to_dense(sparse()).numpy() @ DENSE
    np.testing.assert_allclose(products(sparse(), DENSE), expected)
    np.testing.assert_allclose(traced(sparse(), tf.constant(DENSE)), expected)


def test_a_map_over_rows_of_a_sparse_tensor_alone():
    @tf.function
    def sums(sp):
        return tf.map_fn(lambda row: tf.sparse.reduce_sum(row), sp, fn_output_signature=tf.float32)

    np.testing.assert_array_equal(sums(sparse()), [3.0, 0.0, 3.0])
    none = tf.SparseTensor(np.zeros((0, 3), np.int64), np.zeros(0, np.float32), [2, 3, 2])
    np.testing.assert_array_equal(sums(none), [0.0, 0.0])


@pytest.mark.parametrize("lengths", [[2, 0, 3], [4], [1, 1]])
def test_a_map_over_rows_of_a_ragged_tensor_of_any_size(lengths):
    any_size = [tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.int64)]

    @tf.function(input_signature=any_size)
    def squares(values, row_lengths):
        with tf.GradientTape() as tape:
            tape.watch(values)
            rows = tf.RaggedTensor.from_row_lengths(values, row_lengths)
            sums = tf.map_fn(lambda row: tf.reduce_sum(row * row), rows, fn_output_signature=tf.float32)
        return sums, tape.gradient(sums, values)

    values = np.arange(1, sum(lengths) + 1, dtype=np.float32)
    sums, gradient = squares(values, np.array(lengths))
    expected = [np.sum(row * row) for row in np.split(values, np.cumsum(lengths)[:-1])]
    np.testing.assert_allclose(sums, expected)
    np.testing.assert_allclose(gradient, 2 * values)


def test_gradients_go_by_way_of_rows_to_the_values():
    @tf.function
    def gradient(values):
        with tf.GradientTape() as tape:
            tape.watch(values)
            sp = tf.SparseTensor(sparse().indices, values, [3, 3, 2])
            rows = tf.map_fn(lambda row: tf.sparse.reduce_sum(row) ** 2, sp, fn_output_signature=tf.float32)
            loss = tf.reduce_sum(rows)
        return tape.gradient(loss, values)

    np.testing.assert_allclose(gradient(tf.constant([1.0, 2.0, 3.0])), [6.0, 6.0, 6.0])


def test_sizes_in_a_list_of_which_the_program_computes_some_are_known():
    shapes = []

    @tf.function(input_signature=[tf.SparseTensorSpec([None, 3, 1], tf.float32)])
    def squeezed(sp):
        made = tf.SparseTensor(sp.indices[:, :2], sp.values, (sp.dense_shape[0], 3))
        shapes.append(made.shape.as_list())
        return made

    made = squeezed(tf.SparseTensor([[1, 2, 0]], [5.0], [2, 3, 1]))
    assert shapes == [[None, 3]]
    np.testing.assert_array_equal(tf.sparse.to_dense(made), [[0, 0, 0], [0, 0, 5]])
