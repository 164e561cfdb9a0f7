"""Arguments and forms that TensorFlow's API pages show."""

import os
import tempfile

import numpy as np


def programs(tf):
    made = {}
    for group in (_diagonals, _variables_in_gradients, _datasets, _optionals, _initializers, _types, _places):
        made |= group(tf)
    return made


def _diagonals(tf):
    linalg, grid = tf.linalg, np.arange(12).reshape(3, 4)
    band = [[0, 8, 9], [1, 2, 3], [4, 5, 0]]

    def gradient(function, x):
        def run():
            t = tf.constant(x)
            with tf.GradientTape() as tape:
                tape.watch(t)
                y = function(t) ** 2
            return tape.gradient(y, t)

        return run

    made = {
        "diag of a band": lambda: linalg.diag([[8, 9], [1, 2]], k=(0, 1), align="LEFT_LEFT"),
        "diag of a band around": lambda: linalg.diag(band, k=(-1, 1)),
        "diag of many bands": lambda: linalg.diag([band, band], k=(-1, 1)).shape,
        "diag with more rows": lambda: linalg.diag([1, 2], num_rows=3),
        "diag in a rectangle": lambda: linalg.diag([1, 2], k=1, num_rows=2, num_cols=3, padding_value=9),
        "diag in too large a square": lambda: linalg.diag([1, 2], num_rows=3, num_cols=3),
        "diag in too few rows": lambda: linalg.diag([1, 2], num_rows=1),
        "diag of nothing": lambda: linalg.diag(np.zeros([0], np.float32), k=1),
        "diag_part of one of many": lambda: linalg.diag_part(grid.reshape(1, 3, 4) * 1.0, k=[0, 1]),
        "diag_part by a tensor": lambda: linalg.diag_part([[1, 2], [3, 4]], k=tf.constant([-1, 0])),
        "diag_part out of bounds": lambda: linalg.diag_part([[1, 2]], k=5),
        "diag_part below the bounds": lambda: linalg.diag_part([[1, 2]], k=(-3, 0)),
        "set_diag of a band": lambda: linalg.set_diag(grid, band, k=(-1, 1)),
        "set_diag to the other side": lambda: linalg.set_diag(grid, band[::-1], k=(-1, 1), align="LEFT_RIGHT"),
        "set_diag above": lambda: linalg.set_diag([[1, 2], [3, 4]], [7], k=1),
        "set_diag of a band, traced": lambda: tf.function(lambda x: linalg.set_diag(x, band, k=(-1, 1)))(grid),
        "gradient of diag_part": gradient(lambda x: linalg.diag_part(x, k=(-1, 1)), grid * 1.0),
        "gradient of diag": gradient(lambda x: linalg.diag(x, k=(0, 1)), [[0.0, 8.0], [1.0, 2.0]]),
    }
    for align in ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"):
        made[f"diag_part {align}"] = lambda align=align: linalg.diag_part(
            grid, k=(-2, 3), padding_value=-1, align=align
        )
    return made


def _variables_in_gradients(tf):
    weights = tf.Variable([1.0, 2.0], name="weights")

    @tf.custom_gradient
    def line(x):
        def grad_fn(ct, variables):
            return ct * 10.0, [tf.stack([tf.reduce_sum(ct), tf.reduce_sum(ct * x)]) * len(variables)]

        return weights[1] * x + weights[0], grad_fn

    @tf.custom_gradient
    def without_state(x):
        return x * weights[0], lambda ct: ct

    def gradients(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = line(x) * 2.0
        return [y, *tape.gradient(y, [x, weights])]

    @tf.function
    def by_name():
        x = tf.constant(1.0)
        y = x * 2.0
        return tf.gradients(y + y, [x, y])

    x = tf.constant([1.0, 2.0, 3.0])
    return {
        "custom_gradient by a Variable": lambda: gradients(x),
        "custom_gradient by a Variable, traced": lambda: tf.function(gradients)(x),
        "custom_gradient without its Variables": lambda: without_state(x),
        "gradients by a constant and what is made of it": by_name,
    }


def _datasets(tf):
    data = tf.data.Dataset

    def resampled():
        classes = data.from_tensor_slices(np.arange(900) % 3 // 2)
        chosen = classes.rejection_resample(lambda c: c, [0.5, 0.5], [2 / 3, 1 / 3], seed=1)
        kinds = [int(kind) for kind, _ in chosen]
        return 0.4 < sum(kinds) / len(kinds) < 0.6, chosen.element_spec

    eight = data.range(9).batch(4)
    return {
        "counter of a dtype": lambda: data.counter(2, 3, dtype=tf.float32),
        "counter of int32": lambda: list(data.counter(dtype=tf.int32).take(2)),
        "rebatch in turn": lambda: list(eight.rebatch([2, 1, 1]).as_numpy_iterator()),
        "rebatch in turn, whole": lambda: list(eight.rebatch([2, 1], drop_remainder=True).as_numpy_iterator()),
        "rebatch in turn, spec": lambda: [eight.rebatch([2, 2], drop).element_spec for drop in (True, False)],
        "rebatch of scalars": lambda: data.range(8).rebatch([2, 2]),
        "rejection_resample": resampled,
        "DatasetSpec of a dataset": lambda: tf.data.DatasetSpec.from_value(data.range(3)),
        "DatasetSpec fits": lambda: tf.data.DatasetSpec.from_value(data.range(3)).is_compatible_with(data.range(5)),
        "queue of scalars": lambda: tf.queue.FIFOQueue(10, tf.float32, ((),)).shapes,
    }


def _optionals(tf):
    made = tf.experimental.Optional.from_value({"a": tf.constant(1), "b": [2.0, 3.0]})
    empty = tf.experimental.Optional.empty(tf.TensorSpec([], tf.int32))

    def to_the_end():
        iterator = iter(tf.data.Dataset.from_tensors(42))
        first, second = iterator.get_next_as_optional(), iterator.get_next_as_optional()
        return first.has_value(), first.get_value(), second.has_value(), second.element_spec

    return {
        "optional": lambda: [made.has_value(), made.get_value(), made.element_spec],
        "optional of nothing": lambda: [empty.has_value(), empty.element_spec],
        "value of nothing": empty.get_value,
        "optionals of an iterator": to_the_end,
        "OptionalSpec": lambda: tf.OptionalSpec(tf.TensorSpec([], tf.int32)),
        "OptionalSpec of one": lambda: tf.OptionalSpec.from_value(made),
        "OptionalSpec equals": lambda: (
            tf.OptionalSpec(tf.TensorSpec([], tf.int32)) == tf.OptionalSpec.from_value(empty)
        ),
        "OptionalSpec fits": lambda: tf.OptionalSpec.from_value(empty).is_compatible_with(empty),
        "Optional itself": lambda: isinstance(made, tf.experimental.Optional),
    }


def _initializers(tf):
    constant = tf.constant_initializer

    def drawn(*made, dtype=tf.float32):
        def run():
            tf.random.set_seed(1)
            return [initializer([2], dtype) for initializer in made]

        return run

    normal, uniform = tf.random_normal_initializer, tf.random_uniform_initializer
    return {
        "constant_initializer of a list": lambda: [constant([1, 2, 3, 4])([2, 2], d) for d in (None, tf.float32)],
        "constant_initializer of too few": lambda: constant([1, 2])([2, 2]),
        "constant_initializer of a text": lambda: constant("a")([2], tf.string),
        "constant_initializer of a dict": lambda: constant({}),
        "constant_initializer's config": lambda: constant(3).get_config(),
        "initializers without a seed": lambda: drawn(normal(), uniform(), normal())(),
        "initializers with a seed": lambda: drawn(normal(seed=3), uniform(seed=3))(),
        "initializers of integers": lambda: drawn(uniform(1, 9, seed=3), dtype=tf.int32)(),
        "normal integers": lambda: normal()([2], tf.int32),
        "zeros of strings": lambda: tf.zeros_initializer()([2], tf.string),
        "ones of bools": lambda: tf.ones_initializer()([2], tf.bool),
        "another variable's numbers": lambda: drawn(*[uniform()] * 2)(),
    }


def _types(tf):
    sparse = tf.SparseTensor([[0, 1]], [7], [1, 2])
    ragged = tf.ragged.constant([[[1, 2], [3]], [[4, 5, 6]]])
    deep = tf.ragged.constant([[[[1], [2, 3]], [[]]], [[[4, 5, 6]], []], []])
    uniform = tf.RaggedTensor.from_row_splits(np.arange(12).reshape(3, 2, 2), [0, 2, 2, 3])
    return {
        "as_dtype by name": lambda: [tf.as_dtype(n) for n in ("float", "half", "double", "string")],
        "limits": lambda: [d.limits for d in (tf.float32, tf.uint8, tf.int64, tf.bool)],
        "limits of complex": lambda: tf.as_dtype("complex64").limits,
        "kinds": lambda: [tf.int8.is_quantized, tf.string.is_numpy_compatible, tf.int8.is_subtype_of(tf.int8)],
        "type of a sparse tensor": lambda: tf.debugging.assert_type(sparse, tf.int32),
        "other type of a sparse tensor": lambda: tf.debugging.assert_type(sparse, tf.float32),
        "merged inner dims": lambda: [ragged.merge_dims(0, 1), ragged.merge_dims(1, 2), ragged.merge_dims(0, 2)],
        "merged deep dims": lambda: [deep.merge_dims(a, b) for a, b in ((1, 2), (1, 3), (2, 3), (-2, -1))],
        "merged uniform dims": lambda: [uniform.merge_dims(a, b) for a, b in ((0, 1), (1, 2), (1, 3), (2, 3))],
    }


def _places(tf):
    def named():
        found = []
        for place in ("", "/job:localhost", "CPU", tf.DeviceSpec(job="localhost"), tf.DeviceSpec(device_type="CPU")):
            with tf.device(place):
                found.append((tf.constant(1) + 1).device)
        return found

    def uri():
        path = os.path.join(tempfile.mkdtemp(), "a.txt")
        with tf.io.gfile.GFile(f"file://{path}", "w") as file:
            file.write("one\ntwo\n")
        reader = tf.io.gfile.GFile(path)
        reader.seek(position=4)
        return [tf.io.gfile.exists(f"file://{path}"), reader.read(), tf.io.gfile.stat(f"file://{path}").length]

    def enter(place):
        with tf.device(place):
            return "entered"

    return {
        "devices by name and spec": named,
        "device of no form": lambda: enter("foo"),
        "device by number": lambda: enter(3),
        "device by function": lambda: enter(lambda op: "CPU:0"),
        "DeviceSpec": lambda: tf.DeviceSpec(job="localhost", device_index=1),
        "DeviceSpec of a kind": lambda: tf.DeviceSpec.from_string("cpu"),
        "file URIs": uri,
        "offset to seek": lambda: tf.io.gfile.GFile("x").seek(),
    }
