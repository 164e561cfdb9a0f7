"""Rarely used functions: windows of images, index shuffles, filled rows, views of checkpoints."""

import tempfile

import numpy as np
from parity_numbers import calls

IMAGES = np.arange(64, dtype=np.float32).reshape(2, 4, 8, 1)
VALUES = [1.0, 2.0, 3.0]


def programs(tf):
    return calls(tf, _filled(tf)) | _glimpses(tf) | _shuffled(tf) | _views(tf) | _drawn_in_turn(tf) | _errors(tf)


def _glimpses(tf):
    def glimpse(size, offsets, centered, normalized):
        def cut(x):
            return tf.image.extract_glimpse(x, size, offsets, centered, normalized, "zero")

        return lambda: [str(run(IMAGES).numpy().tolist()) for run in (cut, tf.function(cut))]

    shares, pixels = [[1.0, -1.0], [0.3, -0.6]], [[2.0, 3.0], [-1.0, 1.0]]
    return {
        f"glimpse {size} {centered} {normalized}": glimpse(size, shares if normalized else pixels, centered, normalized)
        for size in ((3, 3), (6, 9))
        for centered in (True, False)
        for normalized in (True, False)
    }


def _filled(tf):
    def fill(rows, count):
        return lambda x: tf.ragged_fill_empty_rows(tf.constant(rows, tf.int64), x, count, 9.0).output_values

    return {
        "rows in order": (fill([0, 2, 2], 4), VALUES),
        "rows in disorder": (fill([2, 0, 2], 4), VALUES),
        "rows all there": (fill([0, 1, 2], 3), VALUES),
    }


def _shuffled(tf):
    places = tf.random.experimental.index_shuffle
    sizes = (0, 3, 9, 1000, 65535, 65536, 70000, 2**31 - 1)
    many = {
        f"index_shuffle of {size}": lambda size=size: places(tf.range(min(size + 1, 4)), [5, 9], size) for size in sizes
    }
    back = tf.ragged_fill_empty_rows_grad
    return many | {
        "gradient of filled": lambda: back(tf.constant([0, 2], tf.int64), VALUES),
        "random_index_shuffle": lambda: tf.random_index_shuffle(tf.range(9), [1, -2, 3], 8, rounds=6),
        "a seed each": lambda: tf.random_index_shuffle([0, 1], [[1, 2, 3], [4, 5, 6]], [3, 9]),
        "traced": lambda: tf.function(lambda i: places(i, tf.constant([5, 9]), 9))(tf.range(10)),
        "approx_top_k": lambda: tf.approx_top_k([1.0, 3.0, 2.0], k=2),
        "parallel_stack": lambda: tf.function(tf.parallel_stack)([[1, 2], [3, 4]]),
    }


class _Counter:
    """Added to `tf.train.experimental.PythonState` when a program runs."""

    count = 3

    def serialize(self):
        return str(self.count)

    def deserialize(self, string_value):
        self.count = int(string_value)


def _model(tf, **more):
    model = tf.Module()
    model.a, model.layers = tf.Variable(1.0), [tf.Variable(2.0), tf.Variable(3.0)]
    for name, value in more.items():
        setattr(model, name, value)
    return model


def _saved(tf, **objects):
    return tf.train.Checkpoint(**objects).write(tempfile.mkdtemp() + "/ckpt")


def _views(tf):
    def state():
        counter = type("Counter", (_Counter, tf.train.experimental.PythonState), {})()
        checkpoint = tf.train.Checkpoint(counter=counter)
        path = checkpoint.write(tempfile.mkdtemp() + "/ckpt")
        counter.count = 7
        checkpoint.read(path).assert_consumed()
        return counter.count, tf.train.list_variables(path)

    def children():
        model = _model(tf, leaf=_model(tf))
        view = tf.train.TrackableView(model)
        return list(view.children(model)), len(view.descendants())

    def kept():
        view = tf.train.CheckpointView(_saved(tf, model=_model(tf, leaf=_model(tf))))
        return view.children(0), view.children(1), view.descendants()

    def compared():
        view = tf.train.CheckpointView(_saved(tf, model=_model(tf, old=tf.Variable(5.0))))
        matched, there, here = view.diff(tf.train.Checkpoint(model=_model(tf, new=tf.Variable(6.0))))
        return list(matched), [v.numpy() for n, v in matched.items() if n in (2, 5, 6)], there, here

    def twice():
        shared = tf.Variable(1.0)
        view = tf.train.CheckpointView(_saved(tf, a=shared, b=shared))
        return list(view.match(tf.train.Checkpoint(a=tf.Variable(2.0), b=tf.Variable(3.0))))

    return {"shared no more": twice, "python state": state, "children": children, "kept": kept, "compared": compared}


def _drawn_in_turn(tf):
    """An initializer without a seed takes one when it draws, not when it is made."""

    def drawn():
        tf.random.set_seed(3)
        normal, uniform = tf.random_normal_initializer(), tf.random_uniform_initializer()
        numbers = [normal((2,)), normal((2,)), uniform((2,)), tf.random.normal([2])]
        return [x.numpy().round(5).tolist() for x in numbers]

    return {"initializers drawn in turn": drawn}


def _errors(tf):
    fill, rows = tf.ragged_fill_empty_rows, lambda *r: tf.constant(r, tf.int64)
    return {
        "a row too far": lambda: fill(rows(5), [1.0], 2, 9.0),
        "a row before": lambda: fill(rows(-1), [1.0], 2, 9.0),
        "more rows than values": lambda: fill(rows(0, 1), [1.0], 2, 9.0),
        "values of rank 2": lambda: fill(rows(0), [[1.0]], 2, 9.0),
        "a default of rank 1": lambda: fill(rows(0), [1.0], 2, [9.0]),
        "an index beyond": lambda: tf.random_index_shuffle(5, [1, 2, 3], 3),
        "no such checkpoint": lambda: tf.train.CheckpointView("/nowhere/ckpt"),
        "no trackable": lambda: tf.train.CheckpointView(_saved(tf, v=tf.Variable(1.0))).match(3),
        "eager parallel_stack": lambda: tf.parallel_stack([1, 2]),
    }
