"""Datasets that functions return for elements: their sizes differ from element to element, or there are no elements."""

import numpy as np


def programs(tf):
    return _of_other_sizes(tf) | _without_elements(tf) | _buckets(tf) | _of_computed_sizes(tf)


def _typed(tf, dataset):
    elements = [tf.nest.map_structure(lambda t: np.asarray(t).tolist(), element) for element in dataset]
    return dataset.element_spec, elements


def _all_typed(tf, datasets):
    return {label: lambda make=make: _typed(tf, make()) for label, make in datasets.items()}


def _of_other_sizes(tf):
    data = tf.data.Dataset

    def zeros(n):
        return data.from_tensors(tf.zeros([n]))

    def rows(n):
        return data.range(2).map(lambda x: tf.fill([n], x))

    def in_group(key, _):
        return data.from_tensors(tf.fill([key + 1], key))

    def matrices(n):
        def matrix(m):
            return data.from_tensors(tf.zeros([n, m]))

        return data.range(n).flat_map(matrix)

    def chunks(n):
        return data.range(2 * n).window(2).flat_map(lambda window: window.batch(2))

    def parity(x):
        return x % 2

    def failing(x):
        return tf.debugging.check_numerics(1 / x, "no number")

    def doubled(x):
        return tf.concat([x, x], 0)

    pairs = data.zip(data.range(5), data.range(5))
    numbers = data.range(1, 4)
    datasets = {
        "sizes of flat_map": lambda: numbers.flat_map(zeros),
        "sizes of flat_map, in map": lambda: numbers.flat_map(zeros).map(lambda x: tf.shape(x)[0]),
        "sizes of flat_map, concatenated": lambda: numbers.flat_map(zeros).map(doubled),
        "sizes of flat_map, padded": lambda: numbers.flat_map(zeros).padded_batch(3),
        "sizes of interleave, padded": lambda: numbers.interleave(rows, cycle_length=2).padded_batch(3),
        "sizes of parallel interleave": lambda: numbers.interleave(rows, cycle_length=2, num_parallel_calls=2),
        "sizes of group_by_window": lambda: data.range(1, 5).group_by_window(parity, in_group, 2),
        "batches of group_by_window": lambda: data.range(1, 5).group_by_window(parity, lambda k, w: w.batch(k + 1), 2),
        "sizes of nested flat_map": lambda: data.range(1, 3).flat_map(matrices),
        "windows in flat_map": lambda: data.range(1, 3).flat_map(chunks),
        "shapes of elements": lambda: data.from_tensor_slices([[1, 2], [3, 1]]).flat_map(
            lambda shape: data.from_tensors(tf.ones(shape))
        ),
        "windows of pairs": lambda: pairs.window(2).flat_map(lambda a, b: data.zip(a.batch(2), b.batch(2))),
        "rows of a dict": lambda: data.from_tensor_slices({"a": [[1, 2], [3, 4]]}).flat_map(
            lambda d: data.from_tensor_slices(d["a"])
        ),
        "rows of ragged tensors": lambda: data.from_tensor_slices(tf.ragged.constant([[[1], [2, 3]], [[4]]])).flat_map(
            data.from_tensor_slices
        ),
        "elements after an error": lambda: (
            data.from_tensor_slices([1.0, 0.0, 2.0]).map(failing).flat_map(data.from_tensors).ignore_errors()
        ),
        "rows after an error": lambda: (
            data.from_tensor_slices([[1.0, 2.0], [0.0, 1.0], [4.0, 2.0]]).map(failing).unbatch().ignore_errors()
        ),
    }
    total = {
        "sizes of flat_map, reduced": lambda: numbers.flat_map(zeros).reduce(
            0.0, lambda found, x: found + tf.reduce_sum(x + 1)
        )
    }
    return _all_typed(tf, datasets) | total


def _without_elements(tf):
    data = tf.data.Dataset
    nothing, floats = data.range(0), np.zeros([0, 2], np.float32)
    datasets = {
        "no elements of flat_map": lambda: nothing.flat_map(lambda n: data.range(n).batch(2)),
        "no elements of flat_map, of another type": lambda: nothing.flat_map(lambda n: data.from_tensors((n, "a"))),
        "no elements of interleave": lambda: nothing.interleave(lambda n: data.from_tensors((n, 1.5))).batch(2),
        "no rows": lambda: data.from_tensor_slices(floats).flat_map(data.from_tensor_slices),
        "no windows": lambda: nothing.window(2, drop_remainder=True).flat_map(lambda w: w.batch(2)).batch(2),
        "no whole windows": lambda: (
            data.range(2).window(3, drop_remainder=True).flat_map(lambda window: window.batch(3).unbatch())
        ),
        "no windows, reduced": lambda: nothing.window(2).map(lambda w: w.reduce(0, lambda n, _: n + 1)).batch(2),
        "no windows, batched": lambda: nothing.window(2).map(lambda w: w.batch(2)).flat_map(lambda batches: batches),
        "no windows of rows": lambda: (
            data.from_tensor_slices(floats).window(3).flat_map(lambda w: w.batch(3)).unbatch()
        ),
        "no elements after a filter": lambda: (
            data.range(3).filter(lambda x: x > 5).flat_map(lambda n: data.from_tensors(tf.cast(n, tf.float32)))
        ),
    }
    return _all_typed(tf, datasets)


def _buckets(tf):
    data = tf.data.Dataset

    def rows(n):
        return data.range(1, n).map(lambda x: tf.fill([x], x))

    def in_buckets(dataset, **options):
        return dataset.bucket_by_sequence_length(lambda *row: tf.shape(row[0])[0], [3, 5], [2, 3, 1], **options)

    pairs = data.zip(rows(5), data.range(6))
    datasets = {
        "buckets without the rest": lambda: in_buckets(rows(9), drop_remainder=True),
        "buckets without the rest, in map": lambda: in_buckets(rows(9), drop_remainder=True).map(tf.shape),
        "buckets to their boundary": lambda: in_buckets(rows(5), pad_to_bucket_boundary=True),
        "buckets to their boundary, in map": lambda: in_buckets(rows(5), pad_to_bucket_boundary=True).map(tf.shape),
        "buckets of a shape": lambda: in_buckets(rows(7), padded_shapes=[10]),
        "buckets without padding": lambda: in_buckets(
            data.range(6).map(lambda x: tf.fill([2], x)), no_padding=True, drop_remainder=True
        ),
        "buckets of pairs": lambda: in_buckets(pairs, pad_to_bucket_boundary=True),
    }
    return _all_typed(tf, datasets)


def _of_computed_sizes(tf):
    """Datasets whose sizes are computed in a function, or fed to a graph."""
    data, v1 = tf.data.Dataset, tf.compat.v1

    def fives(n):
        return tf.fill([n], 5)

    makers = {
        "map": lambda data, n: data.range(2).map(lambda _: fives(n)),
        "batches": lambda data, n: data.range(12).batch(n, drop_remainder=True),
        "elements": lambda data, n: data.from_tensors(fives(n)),
        "padded batches": lambda data, n: data.range(1, 3).map(fives).padded_batch(2, padded_shapes=[n]),
        "flat_map": lambda data, n: data.range(1, n).flat_map(lambda x: data.from_tensors(fives(x))),
    }

    def added_up(make):
        def run():
            @tf.function
            def total(n):
                found = tf.constant(0, tf.int64)
                for x in make(data, n):
                    found = 10 * found + tf.reduce_sum(tf.cast(x, tf.int64) + 1)
                return found

            return [int(total(tf.constant(n, tf.int64))) for n in (3, 4)]

        return run

    def fed(make):
        def run():
            with tf.Graph().as_default():
                size = v1.placeholder(tf.int64, [])
                iterator = v1.data.make_initializable_iterator(make(v1.data.Dataset, size))
                element, found = iterator.get_next(), []
                with v1.Session() as session:
                    for n in (3, 4):
                        session.run(iterator.initializer, {size: n})
                        found.append(session.run(tf.shape(element)).tolist())
                return element.shape, found

        return run

    return {f"{label} of computed size": added_up(make) for label, make in makers.items()} | {
        f"{label} of fed size": fed(make) for label, make in makers.items()
    }
