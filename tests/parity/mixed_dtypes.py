"""Arguments of several dtypes and forms, as tensors, arrays and Python numbers: which one decides the result's dtype."""

import numpy as np

DTYPES = ("int8", "int32", "float16", "float32", "float64")
BANDS, RIGHT = np.arange(9.0).reshape(3, 3), np.arange(6.0).reshape(3, 2)
FORMS = {"array": np.array, "tensor": None, "list": np.ndarray.tolist}


def programs(tf):
    return _losses(tf) | _products(tf) | _masks(tf)


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
