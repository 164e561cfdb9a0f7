"""Functions of unknown sizes or ranks whose ops need sizes known only at a call."""

import numpy as np


def programs(tf):
    found = {}
    for label, (body, *calls) in (_convolved(tf) | _windows(tf) | _counted(tf)).items():
        found[label] = _called(tf, body, calls, of_rank=True)
    for label in ("filters", "tiles by a vector", "frames"):
        body, *calls = (_convolved(tf) | _windows(tf) | _counted(tf))[label]
        found[f"{label} of unknown rank"] = _called(tf, body, calls, of_rank=False)
    return found | _nested(tf)


def _called(tf, body, calls, of_rank):
    def run():
        given = [[tf.convert_to_tensor(x) for x in call] for call in calls]
        specs = [tf.TensorSpec([None] * x.shape.rank if of_rank else None, x.dtype) for x in given[0]]
        f = tf.function(body, input_signature=specs, autograph=False)
        return [_answer(f, call) for call in given]

    return run


def _answer(f, call):
    try:
        return np.round(f(*call).numpy(), 3).tolist()
    except Exception as error:
        return type(error).__name__


def _grid(*shape):
    return (np.arange(np.prod(shape)) % 7).reshape(shape).astype("float32")


def _convolved(tf):
    image = _grid(1, 4, 4, 2)
    return {
        "filters": (
            lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"),
            (image, _grid(2, 2, 2, 1)), (image, _grid(1, 1, 2, 2)), (image, _grid(1, 1, 3, 1)),
        ),
        "filters of each channel": (
            lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID"),
            (image, _grid(2, 2, 2, 1)), (image, _grid(2, 2, 3, 1)),
        ),
        "separable filters": (
            lambda x, w, v: tf.nn.separable_conv2d(x, w, v, [1, 1, 1, 1], "VALID"),
            (image, _grid(2, 2, 2, 1), _grid(1, 1, 2, 1)),
        ),
        "transposed filters": (
            lambda x, w: tf.nn.conv1d_transpose(x, w, [1, 4, 1], 2), (_grid(1, 2, 1), _grid(2, 1, 1)),
        ),
        "windows that fit": (
            lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME"), (_grid(1, 3, 3, 1),), (_grid(1, 4, 2, 1),),
        ),
    }  # fmt: skip


def _windows(tf):
    return {
        "frames": (lambda x: tf.signal.frame(x, 3, 2), (_grid(7),), (_grid(2),)),
        "spectra": (lambda x: tf.abs(tf.signal.stft(x, 4, 2)), (_grid(8),)),
        "the middle": (lambda x: tf.image.central_crop(x, 0.5), (_grid(4, 4, 1),), (_grid(6, 2, 1),)),
        "cut or padded": (
            lambda x: tf.image.resize_with_crop_or_pad(x, 3, 3), (_grid(4, 4, 1),), (_grid(2, 5, 1),),
        ),
        "resized with padding": (lambda x: tf.image.resize_with_pad(x, 2, 2), (_grid(4, 2, 1),)),
        "patches": (
            lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID"),
            (_grid(1, 3, 3, 1),),
        ),
    }  # fmt: skip


def _counted(tf):
    return {
        "masked rows of a list": (
            lambda m: tf.boolean_mask([[1, 2], [3, 4], [5, 6]], m), ([True, False, True],), ([False] * 3,),
        ),
        "tiles by a vector": (lambda x, n: tf.tile(x, n), ([[1, 2]], [2, 1]), ([[1], [2]], [1, 2])),
        "slices by vectors": (lambda x, b, n: tf.slice(x, b, n), (_grid(3, 3), [1, 0], [2, -1])),
        "updates": (
            lambda x, i, u: tf.tensor_scatter_nd_update(x, i, u),
            (_grid(4), [[1], [3]], [9.0, 8.0]), (_grid(4), [[5]], [9.0]),
        ),
        "seeds": (
            lambda s: tf.random.stateless_uniform([2], s, 0, 9, tf.int32), ([1, 2],), ([1, 2, 3],),
        ),
    }  # fmt: skip


def _nested(tf):
    def nested():
        inner = tf.function(lambda x, w: tf.nn.conv2d(x, w, 1, "VALID"), autograph=False)
        f = tf.function(lambda x, w: inner(x, w) + 1.0, autograph=False, reduce_retracing=True)
        return [f(_grid(1, 3, 3, 1), tf.constant(_grid(k, k, 1, 1))).numpy().tolist() for k in (1, 2, 3)]

    def gradient():
        f = tf.function(
            lambda x, w: tf.nn.conv2d(x, w, 1, "VALID"),
            input_signature=[tf.TensorSpec([None] * 4), tf.TensorSpec([None] * 4)],
            autograph=False,
        )
        w = tf.constant(_grid(2, 2, 1, 1))
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = f(tf.constant(_grid(1, 3, 3, 1)), w)
        return tape.gradient(y, w).numpy().tolist()

    return {"filters in a function in a function": nested, "the gradient of filters": gradient}
