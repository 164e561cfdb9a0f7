"""Arguments of several dtypes and forms, as tensors, arrays and Python numbers: which one decides the result's dtype."""

import numpy as np

DTYPES = ("int8", "int32", "float16", "float32", "float64")
BANDS, RIGHT = np.arange(9.0).reshape(3, 3), np.arange(6.0).reshape(3, 2)
FORMS = {"array": np.array, "tensor": None, "list": np.ndarray.tolist}


def programs(tf):
    return (
        _losses(tf)
        | _products(tf)
        | _masks(tf)
        | _arrays_first(tf)
        | _lists(tf)
        | _arrays(tf)
        | _with_numbers(tf)
        | _saturated(tf)
        | _lists_of_tensors(tf)
    )


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


def _lists(tf):
    """Lists of NumPy scalars and arrays, whose dtype eager code and graphs infer differently."""
    uses = {
        "constant": lambda values: tf.constant(values),
        "stack": lambda values: tf.stack(values),
        "reduce_sum": lambda values: tf.reduce_sum(tf.reshape(values, [-1])),
    }
    lists = {}
    for dtype in ("int8", "uint8", "int16", "int64", "float16", "float64", "bool", "complex64"):
        one = np.dtype(dtype).type(1)
        lists |= {f"scalars of {dtype}": [one, one], f"rows of scalars of {dtype}": [[one], [one]]}
    lists |= {
        "one of int8 and an int": [np.int8(1), 1],
        "one of float16 and an int": [np.float16(1), 1],
        "a large one of int64": [np.int64(1 << 40), np.int64(1)],
    }
    programs = {
        f"{label} in {name}": lambda use=use, values=values: _outcome(tf, lambda: use(values))
        for label, values in lists.items()
        for name, use in uses.items()
        if label != "scalars of bool" or name != "reduce_sum"
    }
    arrays = [np.array([1, 2], np.int16)] * 2
    return programs | {"arrays of int16 in stack": lambda: _outcome(tf, lambda: tf.stack(arrays))}


def _arrays(tf):
    """NumPy arrays given to ops that prefer float32."""
    pictures = np.arange(12).reshape(1, 2, 2, 3) / 16.0
    uses = {
        "rgb_to_hsv": tf.image.rgb_to_hsv,
        "hsv_to_rgb": tf.image.hsv_to_rgb,
        "max_pool2d": lambda x: tf.nn.max_pool2d(x, 2, 1, "SAME"),
        "avg_pool2d": lambda x: tf.nn.avg_pool2d(x, 2, 1, "SAME"),
        "draw_bounding_boxes": lambda x: tf.image.draw_bounding_boxes(x, [[[0.0, 0.0, 1.0, 1.0]]], [[1.0, 0.0, 0.0]]),
    }
    return {
        f"{name} of an array of {dtype}": lambda use=use, dtype=dtype: _outcome(tf, lambda: use(pictures.astype(dtype)))
        for name, use in uses.items()
        for dtype in ("float16", "float32", "float64", "int32", "uint8")
        if (name, dtype) != ("hsv_to_rgb", "float16")  # whose rounding differs
    }


def _with_numbers(tf):
    """A Python number or array beside a tensor."""
    halves = np.array([0.5, 2.0])
    programs = {}
    for dtype in ("int32", "float32", "float64"):
        tensor = lambda dtype=dtype: tf.cast([0, 2], dtype)  # noqa: E731
        for label, value in {"int": 1, "fraction": 1.5, "array": halves, "bool": True}.items():
            programs[f"divide_no_nan of {label} by {dtype}"] = lambda v=value, t=tensor: _outcome(
                tf, lambda: tf.math.divide_no_nan(v, t())
            )
        programs[f"betainc of ints and {dtype}"] = lambda t=tensor: _outcome(
            tf, lambda: tf.math.betainc(2, 3, t() / t().dtype.as_numpy_dtype(4))
        )
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "int64"):
        programs[f"linspace of {dtype}"] = lambda dtype=dtype: _outcome(
            tf, lambda: tf.linspace(tf.cast(1, dtype), tf.cast(2, dtype), 3)
        )
    return programs | {
        "slice from an array of floats": lambda: _outcome(tf, lambda: tf.slice([1.0, 2.0], np.array([1.0]), [-1]))[1:],
        "in_top_k of ints": lambda: _outcome(tf, lambda: tf.math.in_top_k([1, 0], [[1, 2], [1, 2]], 1)),
    }


def _saturated(tf):
    numbers = [1e30, -1e30, 3.5, np.inf, -np.inf, 2.0**31, -(2.0**31), 300.0, -129.0]
    return {
        f"saturate_cast of {source} to {target}": lambda source=source, target=target: _outcome(
            tf, lambda: tf.saturate_cast(tf.constant(numbers, source), target)
        )
        for source in ("float16", "bfloat16", "float32", "float64")
        for target in ("int8", "uint8", "int32", "uint32")
    } | {
        f"saturate_cast of int32 to {target}": lambda target=target: _outcome(
            tf, lambda: tf.saturate_cast(tf.constant([-(2**31), 2**31 - 1, 7]), target)
        )
        for target in ("int8", "uint8", "uint32", "uint64")
    }


def _lists_of_tensors(tf):
    """Lists of tensors of several dtypes are cast where the first isn't of the dtype wanted, and are errors elsewhere."""
    calls = {
        "without a dtype": lambda a, b, v, w: tf.convert_to_tensor([a, b]),
        "of that dtype first": lambda a, b, v, w: tf.convert_to_tensor([a, b], tf.float64),
        "of another dtype first": lambda a, b, v, w: tf.convert_to_tensor([[b, a], [b, 1.0]], tf.float64),
        "hinted": lambda a, b, v, w: tf.convert_to_tensor([b, b], dtype_hint=tf.float64),
        "hinted, of that dtype first": lambda a, b, v, w: tf.convert_to_tensor([a, b], dtype_hint=tf.float64),
        "nested": lambda a, b, v, w: tf.reduce_sum([[a], [b]]),
        "with a number": lambda a, b, v, w: tf.reduce_sum([a, 1, b]),
        "added to": lambda a, b, v, w: a + [a, b],
        "added to another dtype": lambda a, b, v, w: a + [b, a],
        "added": lambda a, b, v, w: [a, b] + a,
        "stacked": lambda a, b, v, w: tf.stack([a, b]),
        "concatenated": lambda a, b, v, w: tf.concat([v, w], 0),
        "summed": lambda a, b, v, w: tf.add_n([a, b]),
        "multiplied": lambda a, b, v, w: tf.einsum("i,i->", v, w),
        "stitched": lambda a, b, v, w: tf.dynamic_stitch([[0, 1], [2, 3]], [v, w]),
    }

    def outcome(call):
        pair = [1.0, 2.0]
        arguments = [tf.constant(value, dtype) for value in (1.0, pair) for dtype in (tf.float64, tf.float32)]

        def f(a, b, v, w):
            return call(a, b, v, w)

        results = []
        for way in (f, tf.function(f, autograph=False)):
            try:
                result = way(*arguments)
            except (tf.errors.OpError, TypeError) as error:
                results.append((type(error).__name__, str(error).partition(" name: ")[0]))
            else:
                results.append((result.dtype.name, result.numpy().tolist()))
        return results

    return {f"a list {label}": lambda call=call: outcome(call) for label, call in calls.items()}
