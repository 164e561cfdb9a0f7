"""What depends on constants only is computed while tracing, if it is small."""

import tracemalloc

import tvtf as tf


def test_large_tensors_are_not_computed_for_their_sizes():
    """A tensor whose size is computed, too, has 80 MB here; the function is traced without it."""

    @tf.function
    def count():
        kept = tf.shape(tf.where(tf.constant([True, False, True])))[0]
        small = tf.where(tf.range(kept * 10_000_000) < 3)
        return tf.ones([tf.shape(small)[0]]), tf.ones([kept])

    tracemalloc.start()
    try:
        shapes = count.get_concrete_function().output_shapes
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30_000_000
    assert [shape.as_list() for shape in shapes] == [[None], [2]]
