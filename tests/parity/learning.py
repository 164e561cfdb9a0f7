"""Small functions of tf.nn and tf.quantization."""

import numpy as np
from parity_numbers import calls

IMAGE = ((np.arange(1 * 5 * 6 * 2) * 7) % 23).astype(np.float32).reshape(1, 5, 6, 2)
FILTER = np.array([[[0.5, 1.0], [-1.0, 0.25]], [[2.0, 0.0], [0.75, -3.0]]], np.float32)
X = [[-7.0, -0.3, 0.0], [0.4, 2.2, 9.0]]


def programs(tf):
    return calls(tf, _pooled(tf) | _summed(tf) | _quantized(tf)) | _errors(tf)


def _pooled(tf):
    nn = tf.nn
    return {
        "max_pool_with_argmax": (lambda x: nn.max_pool_with_argmax(x, 2, 2, "VALID"), IMAGE),
        "max_pool_with_argmax same": (lambda x: nn.max_pool_with_argmax(tf.stop_gradient(x), [3, 2], [2, 1], "SAME", output_dtype=tf.int32), IMAGE),
        "max_pool_with_argmax of a batch": (
            lambda x: nn.max_pool_with_argmax(tf.concat([x, -x], 0), 2, 2, "VALID", include_batch_in_index=True), IMAGE,
        ),
        "dilation2d": (lambda x, f: nn.dilation2d(x, f, [1, 1, 1, 1], "VALID", "NHWC", [1, 1, 1, 1]), IMAGE, FILTER),
        "dilation2d same": (lambda x, f: nn.dilation2d(x, f, [1, 2, 2, 1], "SAME", "NHWC", [1, 2, 1, 1]), IMAGE, FILTER),
        "erosion2d": (lambda x, f: nn.erosion2d(x, f, [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1]), IMAGE, FILTER),
    }  # fmt: skip


def _summed(tf):
    nn = tf.nn

    def moments(x):
        return nn.normalize_moments(*nn.sufficient_statistics(x, [0], shift=[1.0, 2.0, 3.0]))

    return {
        "sufficient_statistics": (lambda x: nn.sufficient_statistics(x, [1], keepdims=True)[:3], X),
        "normalize_moments": (moments, X),
        "crelu": (nn.crelu, X),
        "crelu of rows": (lambda x: nn.crelu(x, axis=0), X),
        "compute_average_loss": (lambda x: nn.compute_average_loss(x, [[1.0], [0.5]], 4), X),
        "compute_average_loss of all": (nn.compute_average_loss, [1.0, 2.0, 6.0]),
        "scale_regularization_loss": (nn.scale_regularization_loss, X),
    }


def _quantized(tf):
    quantization = tf.quantization
    by_args, by_vars = quantization.fake_quant_with_min_max_args, quantization.fake_quant_with_min_max_vars
    return {
        "fake_quant by args": (by_args, X),
        "fake_quant by other args": (lambda x: by_args(x, -1.5, 3.0, num_bits=3, narrow_range=True), X),
        "fake_quant by vars": (lambda x, low, high: by_vars(x, low, high, num_bits=4), X, -1.0, 2.5),
        "fake_quant by no range": (lambda x, low, high: by_vars(x, low, high), X, 0.0, 0.0),
        "fake_quant gradient by vars": (
            lambda: quantization.fake_quant_with_min_max_vars_gradient(X, X, -1.0, 2.5, 4),
        ),
        "fake_quant gradient by args": (lambda: quantization.fake_quant_with_min_max_args_gradient(X, X),),
        "fake_quant per channel": (
            quantization.fake_quant_with_min_max_vars_per_channel,
            X,
            [-1.0, 0.0, -2.0],
            [1.0, 2.0, 5.0],
        ),
    }


def _errors(tf):
    return {
        "max_pool_with_argmax of NCHW": lambda: tf.nn.max_pool_with_argmax(IMAGE, 2, 2, "VALID", "NCHW"),
        "fake_quant of nothing": lambda: tf.quantization.fake_quant_with_min_max_args(X, 2.0, 1.0),
    }
