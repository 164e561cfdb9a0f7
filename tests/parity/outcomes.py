"""What random calls of public functions (tests/oracle/random_calls.py) gave otherwise under tvtf than under TensorFlow."""

import numpy as np
from parity.rejected import rejected


def _both(tf, call):
    def shown(result):
        return result.dtype.name, result.shape, np.round(result.numpy(), 5).tolist()

    return lambda: (shown(call()), shown(tf.function(call, autograph=False)()))


def _graphs(tf):
    """A Python value before a tensor: graphs infer dtypes from the first argument, eager ops from the first tensor."""
    floats, ints = tf.constant([1.5]), tf.constant([2])
    calls = {
        "equal": lambda: tf.equal(2, floats),
        "maximum": lambda: tf.maximum(0, floats),
        "where": lambda: tf.where([True], 0, floats),
        "pow": lambda: tf.pow(2, floats),
        "realdiv": lambda: tf.realdiv(2, floats),
        "truediv": lambda: tf.truediv(2, floats),
        "bitwise_and": lambda: tf.bitwise.bitwise_and(True, ints),
        "matmul": lambda: tf.matmul([[2]], floats[None]),
        "cross": lambda: tf.linalg.cross([1, 2, 3], [1.0, 2.0, 3.0]),
        "no sign": lambda: tf.negative(tf.constant([1], tf.uint8)),
        "no order": lambda: tf.argmax(tf.constant([1j])),
        "no square": lambda: tf.linalg.lu(tf.ones([2, 3])),
        "no policy": lambda: tf.tensor_scatter_nd_add(floats, [[0]], [1.0], bad_indices_policy="x"),
        "policy of a number": lambda: tf.gather_nd(floats, [[0]], bad_indices_policy=3),
        "axis out of bounds": lambda: tf.reduce_sum(tf.ragged.constant([[1], [2, 3]]), axis=2),
        "float for an axis": lambda: tf.reduce_sum(floats, axis=0.0),
        "sign with out": lambda: tf.experimental.numpy.sign([1.0], out=floats),
    }
    return {f"refused: {label}": rejected(tf, call) for label, call in calls.items()}


def _indices(tf):
    """Indices out of range, ignored."""
    floats, bad = tf.constant([1.0, 2.0]), [[5], [0]]
    return {
        "gather_nd": lambda: tf.gather_nd(floats, bad, bad_indices_policy="IGNORE"),
        "scatter_nd": lambda: tf.scatter_nd(bad, [3.0, 4.0], [3], bad_indices_policy="IGNORE"),
        "scatter add": lambda: tf.tensor_scatter_nd_add(floats, bad, [3.0, 4.0], bad_indices_policy="IGNORE"),
        "scatter sub": lambda: tf.tensor_scatter_nd_sub(floats, bad, [3.0, 4.0], bad_indices_policy="IGNORE"),
        "scatter max": lambda: tf.tensor_scatter_nd_max(floats, bad, [3.0, 4.0], bad_indices_policy="IGNORE"),
        "scatter min": lambda: tf.tensor_scatter_nd_min(floats, bad, [0.0, 0.0], bad_indices_policy="IGNORE"),
        "rows": lambda: tf.scatter_nd([[0], [-1]], [[1, 2], [3, 4]], [2, 2], bad_indices_policy="IGNORE"),
    }


def _call(function, *args):
    return lambda: function(*args)


def _reduced(tf):
    """Ragged tensors reduced over all axes, over several, and with dims kept."""
    rows = tf.ragged.constant([[1, 2], [4]])
    floats, flags = tf.cast(rows, tf.float32), tf.ragged.constant([[True, False], [True]])
    calls = {}
    for name, value in {
        **dict.fromkeys(("reduce_sum", "reduce_mean", "reduce_max", "reduce_any", "reduce_all"), rows),
        "math.reduce_variance": rows,
        "math.reduce_logsumexp": floats,
    }.items():
        function = getattr(tf.math, name.removeprefix("math."))
        for axis in (None, 0, 1, [0, 1]):
            if name != "math.reduce_logsumexp" or axis != 0:
                calls[f"{name} over {axis}"] = _call(function, value, axis, False)
                calls[f"{name} over {axis}, kept"] = _call(function, value, axis, True)
    return calls | {"flags": lambda: tf.reduce_all(flags, axis=0, keepdims=True)}


def _numbers(tf):
    floats, ints = tf.constant([1.5]), tf.constant([2])
    return {
        "divide": lambda: tf.divide(2, floats),
        "divide bools": lambda: tf.divide(True, ints),
        "loss of bytes": lambda: tf.nn.compute_average_loss(tf.constant([1, 2], tf.uint8)),
        "axis of a NumPy float": lambda: tf.reduce_sum([[1.0, 2.0]], axis=np.float32(1)),
        "complex numbers saturated": lambda: tf.saturate_cast(tf.constant([-1.5 + 1j, 300 + 0j]), tf.uint8),
        "flags by name": lambda: tf.experimental.numpy.logical_xor(x1=[True], x2=[False]),
        "parts by name": lambda: tf.experimental.numpy.imag(val=[1j]),
        "map of none": lambda: tf.map_fn(lambda x: x * 2, tf.zeros([0])),
    }


def programs(tf):
    values = _indices(tf) | _reduced(tf) | _numbers(tf)
    eager = {
        "add_n of rows": lambda: tf.add_n(tf.constant([1, 2])),
        "numbers for flags": lambda: tf.reduce_all(tf.constant([1, 2])),
    }
    return _graphs(tf) | {label: _both(tf, call) for label, call in values.items()} | eager
