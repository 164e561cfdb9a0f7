"""What tf.math and its neighbours compute: special functions, counts, partitions, blocks."""

import numpy as np
from parity_numbers import calls

X = [0.25, 0.5, 1.0, 2.5]
V = [[3.0, 1.0, 2.0], [0.5, 4.0, -1.0]]


def programs(tf):
    return calls(tf, _special(tf) | _algebra(tf) | _arrangements(tf)) | _counts(tf) | _errors(tf)


def in_sweep(label):
    """Compiled gradients of partitions are those of vectors by default."""
    return label in ("dynamic_partition of rows, gradient, traced", "dynamic_partition of all, gradient, traced")


def _special(tf):
    one = ("dawsn", "expint", "fresnel_cos", "fresnel_sin", "spence")
    bessel = tuple(f"bessel_{n}" for n in ("i0", "i0e", "i1", "i1e", "j0", "j1", "k0", "k0e", "k1", "k1e", "y0", "y1"))
    special = {name: (getattr(tf.math.special, name), X) for name in (*one, *bessel)}
    return special | {
        "bessel_i0 of math": (tf.math.bessel_i0, [-1.0, 0.0, 2.0]),
        "bessel_i1e of math": (tf.math.bessel_i1e, [-1.0, 0.5, 2.0]),
        "erfcinv": (tf.math.erfcinv, [0.25, 0.5, 1.5]),
        "igamma": (tf.math.igamma, X, [1.0, 0.5, 2.0, 3.0]),
        "igammac": (tf.math.igammac, X, [1.0, 0.5, 2.0, 3.0]),
        "betainc": (lambda x: tf.math.betainc(2.0, [0.5, 1.0, 3.0], x), [0.25, 0.5, 0.75]),
        "zeta": (lambda q: tf.math.zeta([1.5, 2.0, 3.0, 4.0], q), X),
        "polygamma": (lambda x: tf.math.polygamma([0.0, 1.0, 2.0, 3.0], x), X),
        "lbeta": (tf.math.lbeta, [[1.0, 2.0], [3.0, 0.5]]),
    }


def _algebra(tf):
    return {
        "polyval": (lambda x: tf.math.polyval([2.0, 1.0, -1.0], x), X),
        "reciprocal_no_nan": (tf.math.reciprocal_no_nan, [2.0, 0.0, -4.0]),
        "softsign": (tf.math.softsign, X),
        "approx_max_k": (lambda x: tf.math.approx_max_k(x, 2), V),
        "identity_n": (lambda x: tf.identity_n([x, x * 2]), X),
        "sobol_sample": (lambda: tf.math.sobol_sample(3, 6, 2),),
    }


def _arrangements(tf):
    image = np.arange(1 * 4 * 6 * 2, dtype=np.float32).reshape(1, 4, 6, 2)
    volume = np.arange(1 * 3 * 4 * 3 * 2, dtype=np.float32).reshape(1, 3, 4, 3, 2)
    return {
        "dynamic_partition": (lambda x: tf.dynamic_partition(x, [1, 0, 1, 2], 3), X),
        "dynamic_partition of rows": (lambda x: tf.dynamic_partition(x, [1, 0], 2), V),
        "dynamic_partition of all": (lambda x: tf.dynamic_partition(x, [[1, 0, 1], [0, 0, 1]], 2), V),
        "dynamic_stitch": (lambda x, y: tf.dynamic_stitch([[0, 3], [1, 2, 1]], [x, y]), V, [[1.0] * 3, [2.0] * 3, [3.0] * 3]),
        "reverse_sequence": (lambda x: tf.reverse_sequence(x, [2, 3], seq_axis=1), V),
        "reverse_sequence of columns": (lambda x: tf.reverse_sequence(x, [0, 1, 2], seq_axis=0, batch_axis=1), V),
        "space_to_batch": (lambda x: tf.space_to_batch(x, [2, 3], [[0, 0], [1, 2]]), image),
        "batch_to_space": (lambda x: tf.batch_to_space(tf.space_to_batch(x, [2, 3], [[0, 0], [1, 2]]), [2, 3], [[0, 1], [1, 2]]), image),
        "extract_volume_patches": (lambda x: tf.extract_volume_patches(x, [1, 2, 2, 1, 1], [1, 1, 2, 1, 1], "VALID"), volume),
        "extract_volume_patches same": (lambda x: tf.extract_volume_patches(x, [1, 2, 3, 2, 1], [1, 2, 2, 1, 1], "SAME"), volume),
    }  # fmt: skip


def _counts(tf):
    labels, predictions = [1, 2, 4, 0], [2, 2, 4, 1]
    spread = [-1.0, 0.0, 1.5, 2.0, 5.0, 15.0]
    both = {
        "confusion_matrix with classes": lambda: tf.math.confusion_matrix(labels, predictions, 6),
        "confusion_matrix weighed": lambda: tf.math.confusion_matrix(
            labels, predictions, 5, [1.0, 0.5, 2.0, 1.0], tf.float32
        ),
        "histogram_fixed_width": lambda: tf.histogram_fixed_width(spread, [0.0, 5.0], 5),
        "histogram_fixed_width of int64": lambda: tf.histogram_fixed_width([1, 2, 5, 9], [0, 10], 4, tf.int64),
        "histogram_fixed_width_bins": lambda: tf.histogram_fixed_width_bins([spread, spread], [0.0, 5.0], 5),
        "zero_fraction": lambda: tf.math.zero_fraction([0.0, 1.0, 0.0]),
        "is_non_decreasing": lambda: (tf.math.is_non_decreasing([1, 1, 2]), tf.math.is_non_decreasing([2, 1])),
        "is_strictly_increasing": lambda: (
            tf.math.is_strictly_increasing([1, 1, 2]),
            tf.math.is_strictly_increasing([]),
        ),
        "unravel_index": lambda: tf.unravel_index([22, 7, 0], [4, 6]),
        "unravel_index of one": lambda: tf.unravel_index(7, [2, 2, 3]),
        "required_space_to_batch_paddings": lambda: tf.required_space_to_batch_paddings(
            [5, 7], [2, 3], [[1, 0], [0, 1]]
        ),
        "required_space_to_batch_paddings of sizes that the call has": lambda: _padded_to_blocks(tf)(
            tf.ones([5, 7]), [2, 3], [[1, 0], [0, 1]]
        ),
    }
    eager = {
        "confusion_matrix": lambda: tf.math.confusion_matrix(labels, predictions),
        "get_static_value": lambda: tf.get_static_value(tf.constant([1.0, 2.0])),
    }
    return both | {f"{label}, traced": tf.function(program, autograph=False) for label, program in both.items()} | eager


def _padded_to_blocks(tf):
    """Pads rows of unknown sizes, as Keras pads the tokens of a text that it splits."""

    @tf.function(
        input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([2], tf.int32), tf.TensorSpec([2, 2], tf.int32)]
    )
    def padded(rows, blocks, base):
        paddings, crops = tf.required_space_to_batch_paddings(tf.shape(rows), blocks, base)
        plain, _ = tf.required_space_to_batch_paddings(tf.shape(rows), [2, 3])
        return tf.pad(rows, paddings), crops, tf.shape(tf.pad(rows, plain))

    return padded


def _errors(tf):
    return {
        "polyval without a list": lambda: tf.math.polyval(1.0, X),
        "dynamic_partition beyond": lambda: tf.dynamic_partition([1, 2], [0, 3], 2),
        "dynamic_partition of other shape": lambda: tf.dynamic_partition([1, 2], [0, 1, 1], 2),
        "reverse_sequence too long": lambda: tf.reverse_sequence(V, [2, 5], seq_axis=1),
        "unravel_index beyond": lambda: tf.unravel_index([9], [3, 3]),
        "get_static_value of text": lambda: tf.get_static_value("text"),
    }
