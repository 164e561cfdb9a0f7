"""Right calls that random arguments found (tests/oracle/random_calls.py): eager, of unknown dims, and of unknown rank."""

import numpy as np


def _shown(tf, result):
    leaves = [x for x in tf.nest.flatten(result, expand_composites=True) if x is not None]
    return [(x.dtype.name, tuple(x.shape), np.array2string(x.numpy(), precision=3)) for x in leaves]


def _call(tf, function, *arrays):
    """What a function of arrays gives: eagerly, as a graph of unknown dims, as one of unknown ranks."""

    def ways():
        given = [tf.constant(a) for a in arrays]
        yield lambda: function(*given)
        for shape in (lambda x: [None] * x.shape.rank, lambda x: None):
            specs = [tf.TensorSpec(shape(x), x.dtype) for x in given]
            yield lambda specs=specs: tf.function(function, input_signature=specs, autograph=False)(*given)

    return lambda: [_shown(tf, way()) for way in ways()]


def _array(*dims):
    return np.linspace(-1.5, 2.0, int(np.prod(dims)), dtype="float32").reshape(dims)


def _ranks(tf):
    """Functions that ask a shape for its dims."""
    images = _array(2, 3, 4, 1)
    one = [1] * 4
    return {
        "erosion2d": _call(tf, lambda x, w: tf.nn.erosion2d(x, w, one, "SAME", "NHWC", one), images, _array(2, 2, 1)),
        "fractional_avg_pool": _call(tf, lambda x: tf.nn.fractional_avg_pool(x, [1.0, 1.5, 1.5, 1.0], seed=1), images),
        "diagonal": _call(tf, lambda x: tf.experimental.numpy.diagonal(x), _array(2, 3)),
    }


def programs(tf):
    return _ranks(tf)
