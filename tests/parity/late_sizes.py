"""Functions traced once for unknown sizes, in every way to trace one, whose ops need sizes known only at a call."""

import tempfile

import numpy as np


def programs(tf):
    found = {}
    for label, (body, *given) in (_indexed(tf) | _factored(tf) | _pooled(tf)).items():
        found[label] = _called(tf, body, given)
    found |= {f"squeezed from {shape}": _squeezed(tf, shape) for shape in ((1, 3), (3, 1), (2, 3), (1, 1), (0, 1))}
    found |= {f"{name} of unknown rank": _measured(tf, name) for name in ("psnr", "ssim")}
    return found | _gradients(tf) | _ways(tf) | _computed(tf) | _in_control(tf)


def _grid(*shape):
    return (np.arange(np.prod(shape)) % 7 + 1).reshape(shape).astype("float32")


def _rounded(value):
    return np.round(np.asarray(value), 3).tolist()


def _shown(tf, results):
    return [_rounded(r) for r in tf.nest.flatten(results)]


def _specs(tf, given):
    return [tf.TensorSpec([None] * x.shape.rank, x.dtype) for x in given]


def _called(tf, body, given):
    """A concrete function's result, and that of one of another shape where there is one."""

    def run():
        tensors = [tf.convert_to_tensor(x) for x in given]
        concrete = tf.function(body, autograph=False).get_concrete_function(*_specs(tf, tensors))
        return _shown(tf, concrete(*tensors))

    return run


def _squeezed(tf, shape):
    def facts(x):
        y = tf.squeeze(x)
        return y, tf.rank(y), tf.shape(y), y + 1.0

    def run():
        f = tf.function(facts, input_signature=[tf.TensorSpec([None, None])], autograph=False)
        alone = tf.function(
            lambda x: tf.rank(tf.squeeze(x)), input_signature=[tf.TensorSpec([None, None])], autograph=False
        )
        x = tf.ones(shape)
        return [str(r) for r in f(x)], alone(x).numpy(), str(f.get_concrete_function().structured_outputs[0].shape)

    return run


def _measured(tf, name):
    def run():
        measure = getattr(tf.image, name)
        f = tf.function(lambda x, y: measure(x, y, 7.0), input_signature=[tf.TensorSpec(None)] * 2, autograph=False)
        x = _grid(2, 12, 12, 1)
        return [_rounded(f(x, x[:, ::-1])), _rounded(f(x[0], x[1]))]

    return run


def _indexed(tf):
    return {
        "gather_nd of elements": (tf.gather_nd, _grid(3, 3), [[0, 1], [1, 2]]),
        "gather_nd of rows": (tf.gather_nd, _grid(3, 3), [[0], [2]]),
        "updates at elements": (tf.tensor_scatter_nd_update, _grid(3), [[0], [1]], [9.0, 8.0]),
        "additions to rows": (tf.tensor_scatter_nd_add, _grid(2, 2), [[1]], [[1.0, 2.0]]),
        "numbers of a seed": (lambda s: tf.random.stateless_uniform([2], s, 0, 9, tf.int32), [1, 2]),
        "as many rows as a vector says": (lambda x, n: tf.tile(x, n), [[1, 2]], [2, 1]),
        "rows of a list by a mask": (lambda m: tf.boolean_mask([[1, 2], [3, 4]], m), [False, True]),
    }


def _factored(tf):
    square = _grid(3, 3) + 5 * np.eye(3, dtype="float32")
    return {
        "singular values": (lambda x: tf.linalg.svd(x, compute_uv=False), _grid(2, 3)),
        "lu": (lambda x: tf.linalg.lu(x)[0], square),
        "qr": (lambda x: tf.abs(tf.linalg.qr(x)[1]), square),
        "a square root": (tf.linalg.sqrtm, np.eye(2, dtype="float32") * 4),
        "a tridiagonal system": (tf.linalg.tridiagonal_solve, _grid(3, 4) + np.float32([[0], [9], [0]]), _grid(4, 2)),
        "a tridiagonal product": (tf.linalg.tridiagonal_matmul, _grid(3, 4), _grid(4, 2)),
        "what is made of singular values": (
            lambda x: tf.reduce_sum(tf.linalg.svd(x, compute_uv=False)) + x[:, 0], _grid(2, 3),
        ),
    }  # fmt: skip


def _pooled(tf):
    return {
        "filters": (lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), _grid(1, 4, 4, 2), _grid(2, 2, 2, 3)),
        "filters and sizes of what they give": (
            lambda x, w: tf.reshape(tf.nn.conv2d(x, w, 2, "VALID"), [tf.shape(x)[0], -1]),
            _grid(2, 4, 4, 2), _grid(2, 2, 2, 1),
        ),
        "windows": (lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME"), _grid(1, 3, 5, 1)),
        "likeness": (lambda x, y: tf.image.ssim(x, y, 7.0), _grid(1, 12, 12, 1), _grid(1, 12, 12, 1)[:, ::-1]),
        "the middle": (lambda x: tf.image.central_crop(x, 0.5), _grid(4, 6, 1)),
    }  # fmt: skip


def _gradients(tf):
    def of(body):
        def run(*given):
            with tf.GradientTape() as tape:
                tape.watch(given)
                y = body(*given)
            return tape.gradient(y, given)

        return run

    bodies = {
        "windows with the greatest": (lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME"), _grid(1, 5, 5, 1)),
        "windows' means": (lambda x: tf.nn.avg_pool2d(x, 2, 2, "SAME"), _grid(1, 5, 5, 1)),
        "filters": (lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), _grid(1, 4, 4, 1), _grid(2, 2, 1, 2)),
        "cut boxes": (
            lambda x: tf.image.crop_and_resize(x, [[0.0, 0.0, 0.5, 0.5]], [0], [2, 2]), _grid(1, 4, 4, 1),
        ),
        "singular values": (lambda x: tf.linalg.svd(x, compute_uv=False), np.diag([3.0, 2.0]).astype("float32")),
    }  # fmt: skip
    return {f"the gradient of {label}": _called(tf, of(body), given) for label, (body, *given) in bodies.items()}


def _ways(tf):
    body = lambda x: tf.linalg.svd(x, compute_uv=False)  # noqa: E731
    inputs = [_grid(2, 3), _grid(3, 1), _grid(2, 3) + 1]

    def traces():
        count = []

        def counted(x):
            count.append(1)
            return body(x)

        f = tf.function(counted, input_signature=[tf.TensorSpec([None, None])], autograph=False)
        return [_rounded(f(x)) for x in inputs], len(count), f.experimental_get_tracing_count()

    def relaxed():
        f = tf.function(body, reduce_retracing=True, autograph=False)
        return [_rounded(f(tf.constant(x))) for x in inputs], f.experimental_get_tracing_count()

    def dataset():
        elements = tf.data.Dataset.from_generator(lambda: inputs, output_signature=tf.TensorSpec([None, None]))
        return [_rounded(y) for y in elements.map(body)]

    def saved():
        module = tf.Module()
        module.f = tf.function(body, input_signature=[tf.TensorSpec([None, None])], autograph=False)
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(module, folder)
            loaded = tf.saved_model.load(folder)
            by_signature = loaded.signatures["serving_default"](tf.constant(inputs[1]))
            return [_rounded(loaded.f(x)) for x in inputs], _shown(tf, by_signature)

    def nested():
        inner = tf.function(body, autograph=False)
        f = tf.function(lambda x: inner(x) + 1.0, input_signature=[tf.TensorSpec([None, None])], autograph=False)
        return [_rounded(f(x)) for x in inputs]

    def variable():
        v = tf.Variable(inputs[0], shape=[None, None])
        f = tf.function(lambda: body(v), autograph=False)
        found = [_rounded(f())]
        v.assign(inputs[1])
        return [*found, _rounded(f())]

    def misfit():
        f = tf.function(
            lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), input_signature=[tf.TensorSpec([None] * 4)] * 2, autograph=False
        )
        try:
            f(_grid(1, 3, 3, 2), _grid(1, 1, 3, 1))
        except tf.errors.InvalidArgumentError:
            return "refused when it runs", f.experimental_get_tracing_count()

    def ranks():
        f = tf.function(tf.gather_nd, autograph=False)
        unknown, known = [None, None], [None, 2]
        return [
            str(
                f.get_concrete_function(
                    tf.TensorSpec([None, None]), tf.TensorSpec(s, tf.int32)
                ).structured_outputs.shape
            )
            for s in (unknown, known)
        ]

    found = {"traced once": traces, "of varying shapes": relaxed, "elements of a dataset": dataset, "saved": saved}
    return found | {"in a function": nested, "of a Variable": variable, "misfits": misfit, "ranks of results": ranks}


def _computed(tf):
    """Sizes that the program itself computes."""

    def picked(x):
        return tf.boolean_mask(x, x[:, 0] > 2.0)

    def late():
        f = tf.function(lambda x: tf.linalg.svd(picked(x), compute_uv=False) + 1.0, autograph=False)
        return [_rounded(f(tf.constant(x))) for x in (_grid(3, 3), _grid(4, 2))]

    def gradient():
        @tf.function(autograph=False)
        def f(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.nn.max_pool2d(picked(x)[None, ..., None], 2, 2, "SAME")
            return tape.gradient(y, x)

        return _rounded(f(tf.constant(_grid(4, 3))))

    return {"of rows that a mask picks": late, "the gradient of rows that a mask picks": gradient}


def _in_control(tf):
    x, w = _grid(1, 3, 3, 1), _grid(2, 2, 1, 1)

    def branch(x, w):
        return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.nn.conv2d(x, w, 1, "SAME"), lambda: x)

    def loop(x, w):
        return tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, tf.nn.conv2d(y, w, 1, "SAME")), (0, x))[1]

    def rows(x):
        return tf.map_fn(lambda m: tf.linalg.svd(m, compute_uv=False), x)

    def at_once(x):
        return tf.vectorized_map(lambda m: tf.linalg.svd(m, compute_uv=False), x)

    return {
        "a branch": _called(tf, branch, (x, w)), "a loop": _called(tf, loop, (x, w)),
        "rows mapped": _called(tf, rows, (_grid(2, 2, 3),)), "rows at once": _called(tf, at_once, (_grid(2, 2, 3),)),
    }  # fmt: skip
