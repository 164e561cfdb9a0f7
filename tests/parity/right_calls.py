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


def _counts(tf):
    """Numbers counted in sparse and ragged tensors, and of other dtypes; segments of integers."""
    ids, flags = np.array([1, 0, 2], np.int32), np.array([True, False, True])
    sp, rows = tf.sparse.from_dense([[1, 0, 2], [0, 3, 0]]), tf.ragged.constant([[1, 2], [3]])
    shares, weights = tf.sparse.from_dense([[1.0, 0, 2], [0, 3, 0]]), tf.ragged.constant([[1.0, 2.0], [3.0]])
    bincount, splits = tf.math.bincount, tf.ragged.segment_ids_to_row_splits
    return {
        "sparse": _call(tf, lambda: (bincount(sp), bincount(sp, axis=-1), bincount(sp, shares, axis=-1, maxlength=3))),
        "ragged": _call(tf, lambda: (bincount(rows), bincount(rows, axis=-1), bincount(rows, weights, 6, axis=-1))),
        "matrix in rows": _call(tf, lambda x: bincount(x, axis=-1, binary_output=True), ids.reshape(1, 3)),
        "floats and flags": _call(tf, lambda x, y: (bincount(x), bincount(y)), _array(3) ** 2, flags),
        "nothing": _call(tf, lambda: bincount([])),
        "least computed": _call(tf, lambda x, n: bincount(x, minlength=n, maxlength=4), ids, np.int32(7)),
        "splits of ids": _call(tf, lambda x: (splits(x), splits(x, 5), splits(x, None, tf.int64)), ids),
        "known ids": _call(tf, lambda x: (tf.math.segment_sum(x, [0, 0, 2]), tf.math.segment_mean(x, [0, 0, 1])), ids),
        "mean": _call(tf, lambda x, at: tf.math.unsorted_segment_mean(x, at, 3), ids.reshape(1, 3), ids.reshape(1, 3)),
    }


def _dtypes(tf):
    """Arguments of other dtypes than one would think."""
    ids, complexes = np.array([2, 0, 1], np.int32), _array(2, 3) + 1j
    rows = tf.IndexedSlices(_array(3, 2), ids)
    return {
        "moments of integers": _call(tf, lambda x: tf.nn.moments(x, [0]), ids),
        "moments of complex numbers": _call(tf, lambda x: tf.nn.moments(x, [1], keepdims=True), complexes),
        "mask to a float": _call(tf, lambda x: (tf.sequence_mask(x, 2.5), tf.sequence_mask(1.5, 4)), ids),
        "mask to a computed size": _call(tf, lambda x, n: tf.sequence_mask(x, n), ids, np.int64(4)),
        "masked rows of arrays": _call(tf, lambda x: tf.sparse.mask(rows, x), ids[:2]),
        "a loss of integers": _call(tf, lambda x: tf.nn.scale_regularization_loss(x), ids),
        "ngrams by an array": _call(tf, lambda: tf.strings.ngrams(["a", "b", "c"], np.array(2))),
    }


def programs(tf):
    return _ranks(tf) | _counts(tf) | _dtypes(tf)
