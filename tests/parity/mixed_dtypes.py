"""Arguments of several dtypes and forms, as tensors, arrays and Python numbers: which one decides the result's dtype."""

import numpy as np

DTYPES = ("int8", "int32", "float16", "float32", "float64")
BANDS, RIGHT = np.arange(9.0).reshape(3, 3), np.arange(6.0).reshape(3, 2)
FORMS = {"array": np.array, "tensor": None, "list": np.ndarray.tolist}


def programs(tf):
    return _losses(tf) | _products(tf) | _masks(tf) | _arrays_first(tf)


def _outcome(tf, call):
    """The result eagerly and traced, or the kind of error."""
    results = []
    for way in (call, tf.function(call, autograph=False)):
        try:
            result = way()
        except (tf.errors.OpError, ValueError, TypeError) as error:
            results.append(type(error).__name__)
            continue
        values = result.to_list() if isinstance(result, tf.RaggedTensor) else np.round(result.numpy(), 2).tolist()
        results.append((result.dtype.name, values))
    return results


def _losses(tf):
    weights = {
        "a fraction": 2.5,
        "doubles": tf.constant([1.5, 2.5, 0.3], tf.float64),
        "ints": [1, 2, 3],
        "a column": [[1.5], [2.5], [0.3]],
    }
    loss = tf.nn.compute_average_loss
    vectors = {
        f"loss of {dtype} weighted by {label}": lambda dtype=dtype, w=w: _outcome(
            tf, lambda: loss(tf.cast([1, 2, 4], dtype), w)
        )
        for dtype in DTYPES
        for label, w in weights.items()
    }
    matrices = {
        f"loss of rows weighted by {label}": lambda w=w: _outcome(tf, lambda: loss(tf.constant(RIGHT), w))
        for label, w in weights.items()
    }
    return vectors | matrices


def _products(tf):
    def operand(values, dtype, form):
        array = values.astype(dtype)
        return tf.constant(array) if form == "tensor" else FORMS[form](array)

    return {
        f"product of tridiagonal {one} of {dtype} with {other} of {right}": lambda a=(dtype, one), b=(right, other): (
            _outcome(tf, lambda: tf.linalg.tridiagonal_matmul(operand(BANDS, *a), operand(RIGHT, *b)))
        )
        for dtype, right in (("float32", "float64"), ("float64", "float32"))
        for one in ("array", "tensor")
        for other in FORMS
    }


def _masks(tf):
    masks = {
        "ints": [1, 0, 1],
        "an array of ints": np.array([1, 0, 2]),
        "an array of fractions": np.array([0.5, 0.0, 1.0]),
        "bools": [True, False, True],
    }
    rows = tf.ragged.constant([[1, 2], [3], []])
    return {
        f"{data_label} masked by {label}": lambda data=data, mask=mask: _outcome(
            tf, lambda: tf.ragged.boolean_mask(data, mask)
        )
        for data_label, data in {"values": [1, 2, 3], "rows": rows}.items()
        for label, mask in masks.items()
    } | {
        "values masked by a matrix of numbers": lambda: _outcome(
            tf, lambda: tf.ragged.boolean_mask(RIGHT, np.array([[1, 0], [2, 1], [0, 0]]))
        ),
        "rows masked by ragged ints": lambda: _outcome(
            tf, lambda: tf.ragged.boolean_mask(rows, tf.ragged.constant([[1, 0], [1], []]))
        ),
    }


def _arrays_first(tf):
    """Ops of a NumPy array of doubles and a tensor of float32, which decides the dtype though it comes second."""
    images = np.arange(18.0).reshape(1, 3, 3, 2)
    vector, matrix, square = np.arange(2.0), np.arange(6.0).reshape(3, 2), np.eye(3) * 2

    def single(*shape):
        return tf.ones(shape, tf.float32)

    calls = {
        "conv2d": lambda: tf.nn.conv2d(images, single(2, 2, 2, 1), 1, "VALID"),
        "conv2d_transpose": lambda: tf.nn.conv2d_transpose(images, single(2, 2, 1, 2), [1, 4, 4, 1], 1, "VALID"),
        "dilation2d": lambda: tf.nn.dilation2d(images, single(2, 2, 2), [1] * 4, "VALID", "NHWC", [1] * 4),
        "cholesky_solve": lambda: tf.linalg.cholesky_solve(square, single(3, 2)),
        "set_diag": lambda: tf.linalg.set_diag(square, single(3)),
        "pad": lambda: tf.pad(vector, [[1, 1]], constant_values=single()),
        "einsum": lambda: tf.einsum("ij,jk->ik", matrix, single(2, 3)),
        "einsum of ints": lambda: tf.einsum("ij,jk->ik", matrix.astype(np.int64), single(2, 3)),
        "einsum of three": lambda: tf.einsum("ij,jk,kl->il", matrix, single(2, 3), matrix),
        "dynamic_stitch": lambda: tf.dynamic_stitch([[0], [1]], [matrix[:1], single(1, 2)]),
        "divide_no_nan": lambda: tf.math.divide_no_nan(vector, single(2)),
    }
    eagerly = {
        "bias_add": lambda: tf.nn.bias_add(matrix, single(2)),
        "betainc": lambda: tf.math.betainc(vector + 1, single(2), vector / 4),
        "histogram": lambda: tf.histogram_fixed_width(vector, tf.constant([0.0, 2.0]), 2),
        "einsum of arrays": lambda: tf.einsum("ij,jk->ik", matrix, np.float32(matrix.T)),
        "einsum and a variable": lambda: tf.einsum("ij,jk->ik", matrix, tf.Variable(single(2, 3))),
    }
    return {f"array first: {label}": lambda call=call: _outcome(tf, call) for label, call in calls.items()} | {
        f"array first, eagerly: {label}": call for label, call in eagerly.items()
    }
