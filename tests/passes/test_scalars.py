"""Kernels that take a dim as a scalar, fused with kernels of tensors whose dims are sums."""

import tvtf as tf
from tvtf.ops.dims import scalar_of


@tf.function(input_signature=[tf.TensorSpec([None], tf.int64)] * 3)
def below_length(a, b, c):
    joined = tf.concat([a, b], 0)
    return joined < scalar_of(c._type.shape[0])


def test_a_dim_of_one_tensor_beside_the_sum_of_two_others():
    found = below_length(*(tf.range(n, dtype=tf.int64) for n in (1, 4, 2)))
    assert found.numpy().tolist() == [True, True, True, False, False]
