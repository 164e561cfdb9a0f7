"""Candidate samplers and the losses over sampled classes; other functions of tf.nn, tf.quantization, tf.linalg.experimental."""

import numpy as np
from parity_numbers import calls

TRUE = np.array([[1, 2], [0, 3], [7, 5]])
TABLE, OFFSETS = np.random.RandomState(0).randn(10, 4).astype("float32"), np.arange(10, dtype="float32") / 10
INPUTS = np.random.RandomState(1).randn(3, 4).astype("float32")
NUMBERS = [[1.234, -2.5, 0.1], [9.0, -0.75, 2.9]]


def programs(tf):
    return _samplers(tf) | calls(tf, _losses(tf) | _numbers(tf)) | _errors(tf)


def _shown(found):
    return [[float(f"{x:.4g}") for x in part.numpy().ravel().tolist()] for part in found]


def _samplers(tf):
    true = tf.constant(TRUE, tf.int64)
    made = {}
    for kind in ("uniform", "log_uniform", "learned_unigram"):
        sampler = getattr(tf.random, f"{kind}_candidate_sampler")
        for unique in (False, True):

            def twice(sampler=sampler, unique=unique):
                tf.random.set_seed(3)
                return [_shown(sampler(true, 2, 5, unique, 10, seed=7)) for _ in range(2)]

            made[f"{kind}, {'unique' if unique else 'any'}"] = twice

    def fixed(**options):
        tf.random.set_seed(3)
        return _shown(tf.random.fixed_unigram_candidate_sampler(true, 2, 5, True, 10, seed=7, **options))

    def without_seed():
        tf.random.set_seed(3)
        return [_shown(tf.random.log_uniform_candidate_sampler(true, 2, 5, True, 10)) for _ in range(2)]

    def traced():
        tf.random.set_seed(3)
        sampler = tf.function(
            lambda: tf.random.uniform_candidate_sampler(true, 2, 5, True, 10, seed=7), autograph=False
        )
        return [_shown(sampler()) for _ in range(2)]

    def learned():
        sampler = tf.function(lambda: tf.random.learned_unigram_candidate_sampler(true, 2, 5, True, 10, seed=7))
        return [_shown(sampler()[1:2]) for _ in range(2)]

    return made | {
        "fixed": lambda: fixed(unigrams=[float(i + 1) for i in range(10)]),
        "fixed, distorted": lambda: fixed(
            unigrams=[float(i + 1) for i in range(8)], num_reserved_ids=2, distortion=0.5
        ),
        "without a seed": without_seed,
        "traced": traced,
        "learned, traced": learned,
        "all": lambda: _shown(tf.random.all_candidate_sampler(true, 2, 10, True)),
        "hits": lambda: _shown(tf.nn.compute_accidental_hits(true, [2, 3, 0, 9], 2)),
        "hits, traced": lambda: _shown(tf.function(lambda: tf.nn.compute_accidental_hits(true, [2, 3, 0, 9], 2))()),
    }


def _losses(tf):
    def drawn():
        return tf.constant([1, 2, 3, 9, 4], tf.int64), tf.fill([3, 2], 0.3), tf.fill([5], 0.4)

    def loss(name, **options):
        function = getattr(tf.nn, name)
        shared = {"num_sampled": 5, "num_classes": 10, "num_true": 2}
        return lambda w, b, x: function(w, b, tf.constant(TRUE), x, **shared, sampled_values=drawn(), **options)

    return {
        "nce_loss": (loss("nce_loss"), TABLE, OFFSETS, INPUTS),
        "nce_loss without hits": (loss("nce_loss", remove_accidental_hits=True), TABLE, OFFSETS, INPUTS),
        "sampled_softmax_loss": (loss("sampled_softmax_loss"), TABLE, OFFSETS, INPUTS),
        "sampled_softmax_loss with hits": (
            loss("sampled_softmax_loss", remove_accidental_hits=False), TABLE, OFFSETS, INPUTS,
        ),
    }  # fmt: skip


def _numbers(tf):
    rounded, kept = tf.quantization.quantize_and_dequantize_v2, tf.quantization.quantize_and_dequantize
    iso, conv = tf.nn.isotonic_regression, [1, 1, 1, 1]
    images, filters = (
        np.arange(32, dtype="float32").reshape(1, 4, 4, 2) / 8,
        np.arange(8, dtype="float32").reshape(2, 2, 2, 1),
    )

    def operator(m):
        return tf.linalg.LinearOperatorFullMatrix(m, is_self_adjoint=True, is_positive_definite=True)

    def solved(m, b, **options):
        return tf.linalg.experimental.conjugate_gradient(operator(m), b, **options).x

    definite = [[4.0, 1.0], [1.0, 3.0]]
    return {
        "isotonic": (lambda x: iso(x)[0], [[1.0, 3.0, 2.0, 5.0, 0.0], [5.0, 4.0, 3.0, 2.0, 6.0]]),
        "isotonic, rising": (lambda x: iso(x, decreasing=False)[0], [[1.0, 3.0, 2.0, 5.0, 0.0]]),
        "isotonic by the first axis": (lambda x: iso(x, axis=0)[0], NUMBERS),
        "isotonic segments": (lambda x: iso(x)[1], [[1, 3, 2, 5, 0]]),
        "quantized in a range": (lambda x: rounded(x, -3.0, 3.0, range_given=True), NUMBERS),
        "quantized by its own range": (lambda x: rounded(x, -3.0, 3.0, num_bits=4), NUMBERS),
        "quantized, narrow": (lambda x: rounded(x, -2.0, 3.0, num_bits=4, range_given=True, narrow_range=True), NUMBERS),
        "quantized without sign": (lambda x: rounded(x, -3.0, 3.0, signed_input=False), NUMBERS),
        "quantized by slices": (
            lambda x: rounded(x, [-2.0, -1.0, -3.0], [2.0, 5.0, 4.0], num_bits=4, axis=1, round_mode="HALF_UP"), NUMBERS,
        ),
        "quantized by columns": (lambda x: rounded(x, [-9.0] * 3, [9.0] * 3, num_bits=4, axis=-1), NUMBERS),
        "quantized, gradient kept": (lambda x: kept(x, -2.0, 2.0, num_bits=4, range_given=True), NUMBERS),
        "depthwise gradient by images": (
            lambda w, y: tf.nn.depthwise_conv2d_backprop_input([1, 4, 4, 2], w, y, conv, "SAME"), filters, images,
        ),
        "depthwise gradient by filter": (
            lambda x, y: tf.nn.depthwise_conv2d_backprop_filter(x, [2, 2, 2, 1], y, conv, "SAME"), images, images + 1,
        ),
        "conjugate_gradient": (lambda m: tf.stop_gradient(solved(m, tf.constant([1.0, 2.0]))), definite),
        "conjugate_gradient from a start": (
            lambda m: tf.stop_gradient(
                solved(m, tf.constant([1.0, 2.0]), x=tf.constant([0.5, 0.5]), preconditioner=operator(tf.linalg.inv(m)))
            ),
            definite,
        ),
    }  # fmt: skip


def _errors(tf):
    true = tf.constant(TRUE, tf.int64)
    uniform, fixed = tf.random.uniform_candidate_sampler, tf.random.fixed_unigram_candidate_sampler
    return {
        "more unique than there are": lambda: uniform(true, 2, 15, True, 10),
        "another number of true ones": lambda: uniform(true, 3, 5, True, 10),
        "no probabilities": lambda: fixed(true, 2, 5, True, 10),
        "isotonic of no axis": lambda: tf.nn.isotonic_regression([[1.0]], axis=2),
        "conjugate_gradient of any matrix": lambda: tf.linalg.experimental.conjugate_gradient(
            tf.linalg.LinearOperatorFullMatrix([[1.0]]), [1.0]
        ),
    }
