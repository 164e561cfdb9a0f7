"""Valid calls found with random arguments (tests/oracle/random_calls.py): eager, with unknown dims, and with unknown rank."""

import numpy as np
from parity_calls import ways


def _shown(tf, result):
    leaves = [x for x in tf.nest.flatten(result, expand_composites=True) if x is not None]
    return [(x.dtype.name, tuple(x.shape), np.array2string(x.numpy(), precision=3)) for x in leaves]


def _call(tf, function, *arrays):
    """What a function of arrays gives: eagerly, as a graph of unknown dims, as one of unknown ranks."""

    return lambda: [_shown(tf, way()) for way in ways(tf, function, *arrays)]


def _array(*dims):
    return np.linspace(-1.5, 2.0, int(np.prod(dims)), dtype="float32").reshape(dims)


def _ranks(tf):
    """Functions that ask a shape for its dims, and some that need few of them."""
    labels, frames, lengths = np.array([[1, 2], [2, 2]], np.int32), _array(4, 2, 4), ([2, 1], [4, 3])
    loss = tf.nn.ctc_loss
    images = _array(2, 3, 4, 1)
    one = [1] * 4
    return {
        "erosion2d": _call(tf, lambda x, w: tf.nn.erosion2d(x, w, one, "SAME", "NHWC", one), images, _array(2, 2, 1)),
        "fractional_avg_pool": _call(tf, lambda x: tf.nn.fractional_avg_pool(x, [1.0, 1.5, 1.5, 1.0], seed=1), images),
        "blank of unknown classes": _call(tf, lambda y, x: loss(y, x, *lengths, blank_index=0), labels, frames),
        "blank from their end": _call(tf, lambda y, x: loss(y, x, *lengths, blank_index=-1), labels, frames),
        "trace": _call(tf, lambda x, y: (tf.linalg.trace(x), tf.linalg.trace(y)), _array(2, 2, 3), _array(3, 3)),
        "expint below zero": _call(tf, lambda x: tf.math.special.expint(x), _array(4)),
        "diagonal": _call(tf, lambda x: tf.experimental.numpy.diagonal(x), _array(2, 3)),
    }


def _counts(tf):
    """Numbers counted in sparse and ragged tensors, and of other dtypes; segments of integers."""
    ids, flags = np.array([1, 0, 2], np.int32), np.array([True, False, True])
    sp, rows = tf.sparse.from_dense([[1, 0, 2], [0, 3, 0]]), tf.ragged.constant([[1, 2], [3]])
    shares, weights = tf.sparse.from_dense([[1.0, 0, 2], [0, 3, 0]]), tf.ragged.constant([[1.0, 2.0], [3.0]])
    line = tf.SparseTensor([[1], [3], [5]], [1, 1, 2], [16])
    bincount, splits = tf.math.bincount, tf.ragged.segment_ids_to_row_splits
    return {
        "sparse": _call(tf, lambda: (bincount(sp), bincount(sp, axis=-1), bincount(sp, shares, axis=-1, maxlength=3))),
        "ragged": _call(tf, lambda: (bincount(rows), bincount(rows, axis=-1), bincount(rows, weights, 6, axis=-1))),
        "a vector, as a sparse one": _call(tf, lambda x: tf.sparse.bincount(x, axis=-1, minlength=5), ids),
        "a sparse vector, as a sparse one": _call(
            tf, lambda: [tf.sparse.bincount(line, **k) for k in ({"axis": -1}, {"axis": -1, "binary_output": True}, {})]
        ),
        "a sparse vector": _call(tf, lambda: [bincount(line, w, minlength=4, axis=-1) for w in (None, line)]),
        "weights of a sparse vector": _call(tf, lambda: tf.sparse.bincount(line, line, axis=-1)),
        "ragged, as a sparse one": _call(tf, lambda: [tf.sparse.bincount(rows, **k) for k in ({}, {"axis": -1})]),
        "ragged weights, as a sparse one": _call(tf, lambda: tf.sparse.bincount(rows, weights, axis=-1, maxlength=3)),
        "ragged flags, as a sparse one": _call(tf, lambda: tf.sparse.bincount(rows, axis=-1, binary_output=True)),
        "ragged with other weights, as a sparse one": _call(
            tf, lambda: tf.sparse.bincount(rows, tf.constant(ids), axis=-1)
        ),
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


def _norms(tf):
    """Sums of squares in the dtype of what is squared."""
    complexes = (_array(2, 3) + 1j).astype("complex64")
    euclidean = tf.math.reduce_euclidean_norm
    return {
        "norm of complex numbers": _call(tf, lambda x: (tf.norm(x), tf.norm(x, axis=1, keepdims=True)), complexes),
        "other norms of them": _call(tf, lambda x: (tf.norm(x, 1), tf.norm(x, "fro", axis=[0, 1])), complexes),
        "euclidean norm of them": _call(tf, lambda x: euclidean(x, 0), complexes),
        "euclidean norm of bytes": _call(tf, lambda x: euclidean(x), np.array([200, 100, 3], np.uint8)),
        "euclidean norm of integers": _call(tf, lambda x: euclidean(x), np.array([2**20, 3, 4], np.int32)),
    }


def _defaults(tf):
    """Values that are no tensors, where ops have a default dtype."""
    image, line = np.full([1, 2, 3], 3, np.uint8), np.array([1, 2, 4])
    calls = {
        "fft": lambda: (tf.signal.fft(line), tf.signal.ifft2d(line[None] > 1), tf.signal.fft([1.0, 2.0])),
        "hsv": lambda: (tf.image.hsv_to_rgb(image), tf.image.rgb_to_hsv(image)),
        "normalized": lambda: tf.nn.lrn(np.ones([1, 1, 1, 2], np.int32)),
        "quantized": lambda: tf.quantization.fake_quant_with_min_max_args(np.array([-7, 3])),
        "no texts": lambda: (tf.constant(np.zeros([0, 2]), tf.string), tf.strings.length(np.zeros([0]))),
    }
    eager = {label: (lambda call=call: _shown(tf, call())) for label, call in calls.items()}
    quantize = tf.quantization.fake_quant_with_min_max_args
    return eager | {
        "a list transformed": _call(tf, lambda: tf.signal.fft([1.0, 2.0])),
        "a number quantized": _call(tf, lambda: quantize(-7)),
    }


def _made(tf):
    """Arrays made of others, of ranges, and steps between infinite ends."""
    numpy, line = tf.experimental.numpy, _array(3)
    shapes = lambda: (numpy.zeros(range(3)), numpy.ones(range(1, 3)), numpy.eye(0, dtype=tf.string))  # noqa: E731
    return {
        "diagonal of unknown size": _call(tf, lambda x: (numpy.diag(x, 1), numpy.diagflat(x)), line),
        "diagonal of nothing": _call(tf, lambda x: numpy.diag(x, 2), line[:0]),
        "ranges as arrays": _call(tf, lambda x: (numpy.flip(range(3)), *numpy.atleast_1d(x, range(2))), line),
        "sums of ranges": _call(tf, lambda: (numpy.sum(range(4)), numpy.max(range(3)), numpy.cumsum(range(3)))),
        "ranges as shapes": _call(tf, shapes),
        "steps from infinity": _call(tf, lambda x: tf.linspace(x, 1.0, 4), np.float32(-np.inf)),
        "steps to infinity": _call(tf, lambda x: tf.linspace(x, [np.inf, 2.0], 3, axis=1), line[:2]),
        "a count of steps": _call(tf, lambda x, n: (tf.linspace(x, x + 1, n), tf.linspace(1, 5, n)), line, np.int32(3)),
        "powers from zero": _call(tf, lambda: numpy.geomspace(0, 10, 4)),
        "powers across zero": _call(tf, lambda: (numpy.geomspace(-2.0, 5, 4), numpy.geomspace(-2.0, -8, 3))),
        "one tensor stacked": _call(tf, lambda x: tf.stack(x), line),
        "one array for a tuple": lambda: tf.tuple(line).shape,
    }


def _computed(tf):
    """Sizes and other numbers that functions take as tensors."""
    three, half, image = np.int32(3), np.float32(0.5), _array(4, 5, 2)
    boxes, scores = np.abs(_array(1, 3, 1, 4)), _array(1, 3, 2)
    windows = ("hann_window", "hamming_window", "kaiser_window", "vorbis_window")
    combined = tf.image.combined_non_max_suppression
    padded = tf.image.non_max_suppression_padded
    return {
        "lengths of windows": _call(tf, lambda n: [getattr(tf.signal, name)(n) for name in windows], three),
        "another window": _call(tf, lambda n, b: tf.signal.kaiser_bessel_derived_window(n + 1, b), three, half),
        "crop": _call(tf, lambda x, n: tf.image.crop_to_bounding_box(x, 1, 0, n, 2), image, three),
        "pad": _call(tf, lambda x, n: tf.image.pad_to_bounding_box(x, 1, n, n + n, 9), image[:2], three),
        "crop or pad": _call(tf, lambda x, n: tf.image.resize_with_crop_or_pad(x, n, n + n), image, three),
        "resize with pad": _call(tf, lambda x, n: tf.image.resize_with_pad(x, n, 7), image, three),
        "boxes of all classes": _call(tf, lambda b, s, n: combined(b, s, n, n), boxes, scores, three),
        "boxes filled up": _call(tf, lambda b, s, n: padded(b, s, n)[1], boxes[0, :, 0], scores[0, :, 0], three),
        "places by seed": _call(tf, lambda x: tf.image.stateless_random_crop(x, [2, 2, 2], [1, 2]), image),
        "checked shapes": _call(tf, lambda x: (tf.debugging.assert_shapes([(x, ("n", 5, 2))]), x)[1], image),
    }


def _rows(tf):
    """Tensors as rows of ragged ones, and vectors of planes and of space."""
    line, table, stack = _array(3), _array(2, 3), tf.ragged.stack
    calls = {
        "one vector": lambda x, y: stack(x),
        "vectors": lambda x, y: stack([x, x[:2]]),
        "one matrix": lambda x, y: (stack(y), stack(y, axis=1)),
        "matrices": lambda x, y: (stack([y, y[:1]]), stack([y, y], axis=1)),
        "deeper": lambda x, y: (stack([y[None], y[None]], axis=1), stack([y[None]], axis=2)),
        "crossed": lambda x, y: (tf.experimental.numpy.cross(y[:, :2], x), tf.experimental.numpy.cross(y, x)),
        "moved by ranges": lambda x, y: tf.experimental.numpy.moveaxis(y, range(1), range(1, 2)),
    }
    found = {}
    for label, call in calls.items():
        one = tf.function(call, autograph=False)
        sized = tf.function(call, input_signature=[tf.TensorSpec([None]), tf.TensorSpec([None, None])], autograph=False)
        found[label] = lambda ways=(call, one, sized): [
            _shown(tf, way(tf.constant(line), tf.constant(table))) for way in ways
        ]
    return found


def _drawn(tf):
    """Numbers drawn by rejection, the same as TensorFlow's for a seed."""
    binomial, between = tf.random.stateless_binomial, tf.random.stateless_parameterized_truncated_normal
    infinity = float("inf")
    calls = {
        "few successes": lambda: binomial([9], [1, 2], 30.0, [0.1] * 3 + [0.95] * 3 + [0.0, 1.0, 0.5]),
        "many successes": lambda: binomial([4, 3], [1, 2], [300.0, 4e4, 0.0], [0.3, 0.8, 0.5]),
        "successes as floats": lambda: binomial([3, 2, 1], [3, 4], [[9.0], [99.0]], 0.25, tf.float64),
        "normal numbers within": lambda: between([3, 2], [1, 2], [0.0, 10.0], 1.0, [-2.0, 7.0], [3.0, 12.0]),
        "between near limits": lambda: (
            between([6], [1, 2], 0.0, 1.0, -0.5, 0.5),
            between([3], [1, 2], 0.0, 2.0, 1.0, 1.2),
        ),
        "between limits of about 1.5 deviations": lambda: (
            between([3, 2], [1, 2], [0.0, 0.5], 1.0, [-1.25, -0.9], [1.25, 2.0]),
            between([3, 2], [1, 2], [0.0, 0.5], 1.0, [-1.4, -1.1], [1.4, 2.0]),
        ),
        "beyond a limit": lambda: (
            between([6], [1, 2], 0.0, 1.0, 3.0, 9.0),
            between([6], [1, 2], 0.0, 1.0, -infinity, -2.0),
        ),
        "in double precision": lambda: between(
            [6], [1, 2], np.float64(0), np.float64(1), np.float64(-1), np.float64(9)
        ),
    }
    return {label: _call(tf, call) for label, call in calls.items()} | {
        "no limits": lambda: between([1], [1, 2], 0.0, 1.0, 2.0, 1.0),
    }


def _of_reported_sizes(tf):
    """Numbers whose sizes the program tells, and shapes that broadcast to what it tells."""
    sizes, ones, many = np.array([2, 3], np.int32), np.ones((1, 3), np.float32), np.ones((2, 3), np.float32) * 5
    draw, wide = tf.random, tf.broadcast_dynamic_shape
    texts = np.array([["tensor", "flow"]])
    return {
        "gamma of told sizes": _call(tf, lambda n: draw.stateless_gamma(n, [1, 2], 3.0), sizes),
        "Poisson of told sizes": _call(tf, lambda n: draw.stateless_poisson(n, [1, 2], 3.0), sizes),
        "binomial of told sizes": _call(tf, lambda n: draw.stateless_binomial(n, [1, 2], 3.0, 0.5), sizes),
        "rows of gamma": _call(tf, lambda x: draw.stateless_gamma([tf.shape(x)[0], 2], [1, 2], 3.0), ones),
        "parameters apart": _call(
            tf, lambda x, y: draw.stateless_binomial(wide(tf.shape(x), tf.shape(y)), [1, 2], x * 9, y / 9), ones, many
        ),
        "gamma of two": _call(tf, lambda x, y: tf.shape(draw.gamma([2], x, y)), ones, many),
        "wide": _call(tf, lambda x, y: tf.broadcast_to(x, wide(tf.shape(x), tf.shape(y))), ones, many),
        "clip": _call(tf, lambda x, y: tf.experimental.numpy.clip(x, y - 3, y - 2), ones, many),
        "substr": _call(tf, lambda x, n: tf.strings.substr(x, n, n * 0 + 2), texts, np.array([[1], [2]], np.int32)),
        "substr of one length": lambda: tf.strings.substr(["abc"], [1], 2),
        "moments of ints": _call(tf, lambda x: tf.nn.sufficient_statistics(x, [0, 1]), many.astype(np.int32)),
        "points": _call(tf, lambda n: tf.math.sobol_sample(2, n), np.int32(3)),
        "powers": _call(tf, lambda x, n: tf.experimental.numpy.vander(x, n), _array(3), np.int32(2)),
        "seeds of a seed": lambda: [tf.random.split(np.array([1, 2], kind), 2) for kind in ("int32", "int64")],
        "axis in a list": _call(tf, lambda x: tf.expand_dims(x, [0]), ones),
        "state of a seed": _call(tf, lambda n: draw.create_rng_state(n, "philox"), sizes),
    }


def _empty(tf):
    """Scans and spectra without elements."""
    calls = {
        "scan": (lambda x: tf.math.cumulative_logsumexp(x, exclusive=True), (0, 3)),
        "halves": (tf.signal.rfft, (0, 3)),
        "halves of planes": (tf.signal.rfft2d, (2, 0, 3)),
        "half of nothing": (lambda x: tf.signal.rfft(tf.ensure_shape(x, [3, 0])), (3, 0)),
        "nothing of halves": (lambda x: tf.signal.irfft(tf.cast(tf.ensure_shape(x, [3, 0]), tf.complex64)), (3, 0)),
        "planes": (lambda x: tf.signal.irfft2d(tf.cast(tf.ensure_shape(x, [0, 3]), tf.complex64)), (0, 3)),
    }
    return {f"empty: {label}": _call(tf, call, np.ones(dims, np.float32)) for label, (call, dims) in calls.items()}


def _known(tf):
    """Values that tracing knows."""
    calls = {
        "identity": lambda: tf.identity(tf.constant([1.5, 2.0])),
        "cast": lambda: tf.cast(tf.constant([1.5, 2.0]), tf.int32),
        "stacked": lambda: tf.stack([tf.constant(1.5), tf.constant(2.0)]),
        "joined": lambda: tf.concat([tf.constant([1.5]), tf.constant([2.0])], 0),
        "filled": lambda: (tf.fill([2], 1.5), tf.zeros([2])),
        "compared": lambda: (tf.equal(tf.constant(1), tf.constant(1)), tf.not_equal(tf.constant(1), tf.constant(1))),
        "texts": lambda: tf.constant(["a", "b"]),
        "many": lambda: tf.constant(np.arange(20.0)),
        "stopped": lambda: tf.stop_gradient(tf.constant(2.5)),
        "not known": lambda: (tf.constant(1.5) + tf.constant(2.0), tf.sqrt(tf.constant(4.0))),
    }

    def message(call):
        found = []
        tf.function(lambda: found.extend(map(tf.get_static_value, tf.nest.flatten(call()))) or 0, autograph=False)()
        return [None if x is None else np.asarray(x).tolist() for x in found]

    return {f"known: {label}": (lambda call=call: message(call)) for label, call in calls.items()}


def _singular(tf):
    """Systems that have no solution, or many, of three diagonals, and differences of sets of unknown rank."""
    solve = tf.linalg.tridiagonal_solve
    flat = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], np.float64)
    unequal = np.array([[1, 0], [1, 1], [0, 1]], np.float64)
    systems = {"regular": np.eye(3) + 1.0, "singular": flat, "without rows": 0 * flat, "of two": unequal}
    right = np.array([[1.0], [2.0], [4.0]])
    found = {
        f"{label} system": _call(tf, lambda x, b: solve(x, b, perturb_singular=True), x, right[: len(x[0])])
        for label, x in systems.items()
    }
    return found | {
        "not pivoted": lambda: solve(flat, right, perturb_singular=True, partial_pivoting=False),
        "differences": _call(tf, lambda x: list(tf.compat.v1.setdiff1d(x, [1])), np.array([1, 2, 1, 3])),
    }


def _values(tf):
    """What a call gives where a sum is nothing, an axis is named in a vector, or a dtype is another's."""
    png = tf.io.encode_png(np.arange(12, dtype=np.uint8).reshape(2, 2, 3))
    along = tf.experimental.numpy.take_along_axis
    fake = tf.quantization.fake_quant_with_min_max_args
    ones = np.array([0, 1, 1], np.int32)
    return {
        "moments of no weight": _call(tf, lambda x: tf.nn.weighted_moments(x, [0], range(3)), _array(2, 3)),
        "default that nobody took": _call(tf, tf.ragged_fill_empty_rows_grad, np.int64([1, 0, 0]), _array(3)),
        "one row of places": _call(tf, lambda x, at: along(x, at, 0), _array(2, 3), ones),
        "one row of places from the end": _call(tf, lambda x, at: along(x, at, -2), _array(2, 3), ones),
        "places in rows of their own": _call(tf, lambda x, at: along(x, at, 1), _array(2, 3), ones[:2, None]),
        "picture of longs": lambda: tf.io.decode_image(png, dtype=tf.int64).numpy().tolist(),
        "picture of ints": lambda: tf.io.decode_image(png, dtype=tf.int32).numpy().tolist(),
        "rank of ints": lambda: [
            int(tf.linalg.matrix_rank(ones[None])),
            int(tf.linalg.matrix_rank(np.eye(2, dtype="uint8"))),
        ],
        "a level number": _call(tf, tf.nn.isotonic_regression, np.float32(1.5)),
        "a reversed number": lambda: int(tf.reverse(-7, [0])),
        "diagonal of a number": lambda: float(tf.linalg.tensor_diag_part(1.5)),
        "levels of ints in a list": _call(tf, lambda x, y: fake([x, y]), ones, ones),
        "sums of ints": _call(tf, lambda x: tf.norm(x, ord=1), ones),
    }


def _axes(tf):
    """Axes and shifts that the program computes."""
    matrix, zero, two = _array(2, 3), np.int32(0), np.array([1, 2], np.int32)
    return {
        "joined along a computed axis": _call(tf, lambda x, a: tf.concat([x, x], a), matrix, zero),
        "lifted at a computed axis": _call(tf, tf.expand_dims, matrix, zero),
        "cut along a computed axis": _call(tf, lambda x, a: tf.split(x, 2, a), matrix, zero),
        "rolled along computed axes": _call(tf, tf.roll, matrix, two, np.array([0, 1], np.int32)),
        "rolled along a computed axis": _call(tf, tf.roll, matrix, two[0], zero),
        "rolled by too few shifts": _call(tf, lambda x, n: tf.roll(x, [1], n), matrix, np.array([0, 1], np.int32)),
        "rolled by computed shifts": _call(tf, lambda x, n: tf.roll(x, n, [0, 1]), matrix, two),
    }


def programs(tf):
    found = _ranks(tf) | _counts(tf) | _dtypes(tf) | _norms(tf) | _defaults(tf) | _made(tf)
    return (
        found
        | _computed(tf)
        | _rows(tf)
        | _drawn(tf)
        | _of_reported_sizes(tf)
        | _empty(tf)
        | _known(tf)
        | _singular(tf)
        | _values(tf)
        | _axes(tf)
    )


def in_sweep(label):
    """Other programs here, and the rooms ``ctc`` and ``computed``, have the same mechanism."""
    return label in (
        "blank of unknown classes",
        "matrices",
        "ragged weights, as a sparse one",
        "joined along a computed axis",
        "lifted at a computed axis",
        "cut along a computed axis",
        "rolled along computed axes",
    )
