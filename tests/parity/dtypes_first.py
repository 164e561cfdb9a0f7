"""Dtypes that ops reject before they check shapes: the type of the exception eagerly, with unknown dims and ranks."""

import numpy as np
from parity_calls import ways


def _rejected(tf, function, *arrays):
    return lambda: [_kind(way) for way in ways(tf, function, *arrays)]


def _kind(call):
    try:
        return f"gives {call()}"
    except Exception as error:
        return type(error).__name__


FLOATS, MATRIX = np.array([0.5, 1.0, 2.0], np.float32), np.ones((2, 2), np.float32)
INTS, BYTES, TEXTS = np.array([0, 1, 1], np.int32), np.ones((2, 2), np.uint8), np.array([b"a", b"b"], object)


def _segments(tf):
    math, sparse = tf.math, tf.sparse
    return {
        "ids of floats": _rejected(tf, math.segment_prod, np.float32(1), np.float32(0.5)),
        "ids of text": _rejected(tf, math.segment_mean, MATRIX, np.array(b"a", object)),
        "ids of doubles": _rejected(tf, math.segment_max, np.ones((2, 2, 3), np.float32), np.float64(np.nan)),
        "rows of text": _rejected(tf, lambda x: math.segment_sum(x, -7), TEXTS),
        "ids of bytes": _rejected(tf, sparse.segment_sqrt_n, MATRIX, INTS[:2], BYTES),
        "mean of named ints": _rejected(tf, lambda x: sparse.segment_mean(x, [0, 1], [0, 0]), BYTES.astype(np.int32)),
        "rows named by floats": _rejected(tf, lambda x, at: sparse.segment_sum(x, at, [0, 0]), MATRIX, FLOATS[:2]),
    }


def _axes(tf):
    return {
        "permutation of bytes": _rejected(tf, tf.transpose, MATRIX, BYTES),
        "permutation of floats": _rejected(tf, tf.transpose, MATRIX, FLOATS[:2]),
        "axis of floats": _rejected(tf, tf.cumsum, MATRIX, np.float32(0)),
        "gathered along floats": _rejected(tf, lambda x, a: tf.gather(x, [0], axis=a), MATRIX, np.float32(0)),
        "rolled by floats": _rejected(tf, lambda x, n: tf.roll(x, n, 0), MATRIX, np.float32(1)),
        "rolled along floats": _rejected(tf, lambda x, a: tf.roll(x, 1, a), MATRIX, np.float32(0)),
        "rolled by flags": _rejected(tf, lambda x, n: tf.roll(x, n, [0]), MATRIX, BYTES > 0),
    }


def _others(tf):
    image, linalg = tf.image, tf.linalg
    sp = tf.sparse.from_dense([[1.0, 0.0]])
    boxes = np.ones((3, 4), np.float32)
    return {
        "permutation to invert": _rejected(tf, tf.math.invert_permutation, MATRIX),
        "records": _rejected(tf, lambda x: tf.io.deserialize_many_sparse(x, tf.string), MATRIX),
        "diagonal of text": _rejected(tf, linalg.tensor_diag_part, TEXTS),
        "text that is sparse": _rejected(tf, lambda x: tf.sparse.add(sp, x), np.array(b"a", object)),
        "number of boxes": _rejected(tf, image.non_max_suppression, boxes, FLOATS, np.float32(0.5)),
        "bytes of floats": lambda: _kind(tf.function(lambda: tf.strings.bytes_split(np.ones((2, 2))))),
        "product of flags": _rejected(tf, lambda x: tf.matmul(x, x, output_type=tf.bool), MATRIX),
        "product of bytes": _rejected(tf, lambda x: tf.matmul(x, x, output_type=tf.uint8), MATRIX),
        "norm of ints": _rejected(tf, tf.norm, INTS),
        "norm of ints along an axis": _rejected(tf, lambda x: tf.norm(x, axis=0), INTS),
        "grid of two dtypes": _rejected(tf, tf.meshgrid, INTS, FLOATS),
        "splits of flags": _rejected(tf, tf.ragged.row_splits_to_segment_ids, INTS > 0),
        "text from ints": lambda: _kind(tf.function(lambda: tf.strings.strip(np.int64(3)))),
        "text from ints, eagerly": lambda: _kind(lambda: tf.strings.strip(np.int64(3))),
        "shape of gamma's numbers": _rejected(tf, lambda n: tf.random.gamma(n, 0.5), np.float32([2])),
        "shape of Poisson's numbers": _rejected(tf, lambda n: tf.random.poisson(n, 0.5), np.int64([2])),
        "shape in rows of floats": _rejected(tf, lambda x: tf.experimental.numpy.random.randn([x, x], [x, x]), MATRIX),
        "bytes that are ints": _rejected(tf, tf.io.decode_compressed, np.int32(2)),
        "largest of ints": _rejected(tf, lambda x: tf.math.approx_max_k(x, 1), INTS),
        "sizes to pad": _rejected(tf, lambda n: tf.required_space_to_batch_paddings(n, 2), FLOATS),
        "runs of floats": _rejected(tf, lambda x: tf.strings.ngrams(x, 1), FLOATS),
        "shape of random numbers": _rejected(tf, tf.experimental.numpy.random.randn, MATRIX, MATRIX),
    }


def _shapes(tf):
    """Shapes, and what is no sequence."""
    image, signal, linalg = tf.image, tf.signal, tf.linalg
    return {
        "adjoint of a vector": _rejected(tf, linalg.adjoint, FLOATS),
        "spectrum of a vector": lambda: _kind(lambda: signal.rfft2d(FLOATS)),
        "signal of a vector": lambda: _kind(lambda: signal.irfft3d(-7)),
        "colours of a number": _rejected(tf, lambda: image.hsv_to_rgb(3.0)),
        "picture of a vector": _rejected(tf, lambda: image.encode_jpeg([1, 2])),
        "picture of three qualities": _rejected(
            tf, lambda n: image.adjust_jpeg_quality(np.ones((6, 4, 1), np.uint8), n), INTS
        ),
        "sound of no rate": _rejected(tf, lambda x: tf.audio.encode_wav(x, -7), MATRIX),
        "sum along no axis": lambda: [
            _kind(call) for call in (lambda: tf.cumsum(3), tf.function(lambda: tf.cumsum(3)))
        ],
        "product along no axis": lambda: _kind(tf.function(lambda: tf.math.cumprod([1], 4))),
        "places in a number": _rejected(tf, tf.where, np.float32(1.5)),
        "filled with a vector": lambda: _kind(
            lambda: tf.function(lambda x: tf.fill([2, 3], x), autograph=False).get_concrete_function(
                tf.TensorSpec([None])
            )
        ),
        "stitched rows": _rejected(tf, lambda x: tf.dynamic_stitch([[0, 2], [1]], x), FLOATS),
        "shown at an assertion": lambda: _kind(tf.function(lambda: tf.Assert(True, tf.ones([2])))),
        "cases of Python": lambda: [
            _kind(lambda: tf.case([(True, lambda: 1)])),
            _kind(lambda: tf.case([(np.bool_(True), lambda: 1)])),
        ],
        "function that is none": lambda: _kind(lambda: tf.numpy_function(FLOATS, [FLOATS], tf.float32)),
        "half of an odd number": lambda: _kind(lambda: signal.inverse_mdct(np.ones((2, 2, 3), np.float32))),
        "spectrum of a vector's cosines": lambda: _kind(lambda: signal.inverse_mdct(FLOATS)),
        "sizes in rows": lambda: _kind(
            tf.function(lambda n: tf.zeros(n), input_signature=[tf.TensorSpec([2, 3], tf.int32)])
        ),
        "map in a matrix": lambda: _kind(lambda: tf.ragged_fill_empty_rows_grad([[0]], [1.0])),
        "factors of two dtypes": _rejected(tf, tf.math.multiply_no_nan, INTS, FLOATS),
    }


def programs(tf):
    return _segments(tf) | _axes(tf) | _others(tf) | _shapes(tf)
