"""Programs whose sizes are arguments, run with impossible sizes: each ends in numbers or in tvtf's error.

``python size_programs.py NAME,NAME...`` prints a line for each program and size; it bounds its own memory.
"""

import resource
import sys

SIZES = (0, 3, 1 << 31, 1 << 33, 1 << 40, 1 << 61, (1 << 62) + 1, -1, -(1 << 40))
MOST = 4 << 30


def programs():
    import tvtf as tf

    def filled(n):
        return tf.fill([n, 2], 1.0)

    return {
        "shape_zeros": lambda n: tf.shape(tf.zeros([n, 2])),
        "shape_zeros64": lambda n: tf.shape(tf.zeros([n, 2]), tf.int64),
        "size_fill": lambda n: tf.size(filled(n)),
        "size_square": lambda n: tf.size(tf.fill([n, n], 1.0), tf.int64),
        "shape_tile": lambda n: tf.shape(tf.tile(tf.ones([2, 3]), [n, 1])),
        "shape_pad": lambda n: tf.shape(tf.pad(tf.ones([2, 3]), [[n, 0], [0, 0]])),
        "shape_random": lambda n: tf.shape(tf.random.uniform([n, 2])),
        "shape_broadcast": lambda n: tf.shape(tf.broadcast_to(1.0, [n, 2])),
        "shape_concat": lambda n: tf.shape(tf.concat([filled(n), tf.ones([3, 2])], 0)),
        "shape_of_sum": lambda n: tf.shape(tf.zeros([n, 1]) + tf.zeros([1, n])),
        "sum_zeros": lambda n: tf.reduce_sum(tf.zeros([n, 2])),
        "sum_range": lambda n: tf.reduce_sum(tf.range(n)),
        "sum_tile": lambda n: tf.reduce_sum(tf.tile(tf.ones([2, 3]), [n, 1])),
        "sum_product": lambda n: tf.reduce_sum(tf.range(10)[:, None] * tf.ones([10, n], tf.int32)),
        "sum_square": lambda n: tf.reduce_sum(tf.range(n)[:, None] + tf.range(n)),
        "zeros": lambda n: tf.zeros([n, 2]),
        "range": lambda n: tf.range(n),
        "eye": lambda n: tf.eye(n),
        "repeat": lambda n: tf.repeat([1, 2], n),
        "pad": lambda n: tf.pad(tf.ones([2, 3]), [[n, 0], [0, 0]]),
        "random": lambda n: tf.random.normal([n, 2]),
        "slice": lambda n: filled(n)[0],
        "gather": lambda n: tf.gather(filled(n), [0]),
        "sort": lambda n: tf.sort(filled(n), 0),
        "softmax": lambda n: tf.reduce_sum(tf.nn.softmax(filled(n), 0)),
        "moments": lambda n: tf.nn.moments(filled(n), [0])[1],
        "matmul": lambda n: tf.matmul(tf.fill([2, n], 1.0), filled(n)),
        "argmax": lambda n: tf.argmax(filled(n)),
        "top_k": lambda n: tf.math.top_k(tf.fill([n], 1.0), 2)[0],
        "einsum": lambda n: tf.einsum("ij,kj->ik", filled(n), filled(n)),
        "conv": lambda n: tf.nn.conv2d(tf.fill([1, n, 4, 1], 1.0), tf.ones([3, 3, 1, 2]), 1, "SAME"),
        "pool": lambda n: tf.nn.max_pool2d(tf.fill([1, n, 4, 1], 1.0), 2, 2, "SAME"),
        "cumsum": lambda n: tf.reduce_sum(tf.cumsum(filled(n))),
        "segments": lambda n: tf.math.unsorted_segment_sum([1.0, 2.0], [0, 1], n),
        "sequence_mask": lambda n: tf.sequence_mask([1, 2], n),
        "linspace": lambda n: tf.linspace(0.0, 1.0, n),
        "band_part": lambda n: tf.linalg.band_part(tf.ones([n, n]), 0, 0),
        "scatter": lambda n: tf.scatter_nd([[0]], [1.0], [n]),
        "in_a_loop": lambda n: tf.while_loop(lambda i: i < 3, lambda i: i + tf.size(filled(n)) * 0 + 1, [0])[0],
        "gradient": lambda n: tf.gradients(tf.reduce_sum(filled(n) * tf.cast(n, tf.float32)), [n]),
    }


def run(name, program):
    import tvtf as tf

    function = tf.function(program, input_signature=[tf.TensorSpec([], tf.int64)], autograph=False)
    for size in SIZES:
        try:
            found = [tuple(t.shape) for t in tf.nest.flatten(function(tf.constant(size, tf.int64))) if t is not None]
        except (tf.errors.OpError, ValueError) as error:
            found = f"{type(error).__name__}: {error}"
        print(f"{name} {size} {found}", flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST))
    every = programs()
    for chosen in sys.argv[1].split(",") if len(sys.argv) > 1 else every:
        run(chosen, every[chosen])
