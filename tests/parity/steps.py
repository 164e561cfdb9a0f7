"""Steps of pipelines in combinations that a random generator of pipelines found, and datasets in functions of elements."""

import numpy as np


def programs(tf):
    return _combined(tf) | _sliced(tf) | _in_functions(tf)


def _typed(tf, dataset):
    def value(leaf):
        return leaf.to_list() if isinstance(leaf, tf.RaggedTensor) else leaf.numpy().tolist()

    return dataset.element_spec, int(dataset.cardinality()), [tf.nest.map_structure(value, x) for x in dataset]


def _combined(tf):
    data = tf.data.Dataset

    def ragged_rows():
        return data.from_tensor_slices(tf.ragged.constant([[1], [2, 3], [], [4, 5, 6]], dtype=tf.int64))

    def texts():
        return data.from_tensor_slices({"a": [1, 2, 3], "b": ["x", "", "yz"]})

    def in_groups(dataset):
        return dataset.group_by_window(lambda x: x % 2, lambda _, group: group.batch(4), 2)

    def total(state, x):
        return state + tf.reduce_sum(x)

    def interleaved(**options):
        return data.range(3).interleave(lambda x: data.range(x), num_parallel_calls=2, **options)

    typed = {
        "padded batches of texts": lambda: texts().padded_batch(2),
        "buckets of texts": lambda: texts().bucket_by_sequence_length(lambda x: tf.size(x["a"]), [2], [2, 2]),
        "unbatched ragged rows": lambda: ragged_rows().unbatch(),
        "unbatched ragged rows in map": lambda: ragged_rows().unbatch().map(lambda x: x + 1),
        "rebatched ragged rows": lambda: ragged_rows().rebatch(2),
        "no rebatched ragged rows": lambda: ragged_rows().take(0).rebatch(2),
        "ragged batches of matrices": lambda: data.from_tensors(np.arange(3)).batch(2).ragged_batch(4),
        "ragged batches of matrices in map": lambda: (
            data.from_tensors(np.arange(3)).batch(2).ragged_batch(4).map(lambda x: x + 1)
        ),
        "rebatched to a divisor": lambda: data.range(6).batch(6, drop_remainder=True).rebatch(3),
        "rebatched to another size": lambda: data.range(6).batch(6, drop_remainder=True).rebatch(4),
        "rebatched to a repeated divisor": lambda: data.range(6).batch(6, drop_remainder=True).rebatch([3, 3]),
        "rebatched to sizes": lambda: data.range(6).batch(6, drop_remainder=True).rebatch([3, 2]),
        "rebatched from an unknown size": lambda: data.range(6).batch(6).rebatch(3),
        "interleaved by as many calls": lambda: interleaved(cycle_length=2),
        "interleaved by more calls than datasets": lambda: interleaved(cycle_length=1),
    }
    return {label: lambda make=make: _typed(tf, make()) for label, make in typed.items()} | {
        "reduced groups": lambda: in_groups(data.range(6)).reduce(np.int64(0), total),
    }


def _sliced(tf):
    slices = tf.data.Dataset.from_tensor_slices
    unknown = tf.TensorSpec([None], tf.int32)

    def in_function(*args):
        @tf.function(input_signature=[unknown] * len(args))
        def product(x, y=(1, 2, 3)):
            total = 0
            for a, b in slices((x, y)):
                total += a * b
            return total

        return lambda: int(product(*args))

    return {
        "slices of other sizes": lambda: slices((tf.constant([1, 2]), tf.constant([1, 2, 3]))),
        "slices of other sizes in a dict": lambda: slices({"a": [1, 2], "b": [1, 2, 3]}),
        "slices of other ragged sizes": lambda: slices((tf.ragged.constant([[1], [2, 3]]), [1, 2, 3])),
        "slices of other sparse sizes": lambda: slices((tf.sparse.from_dense([[1], [2]]), [1, 2, 3])),
        "slices of nothing": lambda: slices(()),
        "slices of unknown sizes": in_function([1, 2], [3, 4]),
        "slices of other unknown sizes": in_function([1, 2], [1, 2, 3]),
        "slices of another unknown size": in_function([1, 2]),
    }


def _in_functions(tf):
    data = tf.data.Dataset
    zero = tf.constant(0, tf.int64)

    def added(a, b):
        return a + b

    def up_to(n):
        return data.range(n).reduce(zero, added)

    def by_loop(n):
        total = zero
        for x in data.range(n):
            total += x
        return total

    def to_a_break(n):
        total = zero
        for x in data.range(10):
            if x > n:
                break
            total += x
        return total

    def first_two(n):
        iterator = iter(data.range(n, n + 3))
        return next(iterator) * 10 + next(iterator)

    def of_pairs(n):
        return data.zip(data.range(n), data.range(n)).reduce(zero, lambda total, pair: total + pair[0] * pair[1])

    def nested(n):
        return data.range(n).reduce(zero, lambda total, m: total + up_to(m + 1))

    def of_window(window):
        return window.reduce(zero, added)

    numbers = data.range(1, 5)
    typed = {
        "reduce in map": lambda: numbers.map(up_to),
        "reduce in parallel map": lambda: numbers.map(up_to, num_parallel_calls=2),
        "reduce in filter": lambda: numbers.filter(lambda n: up_to(n) > 2),
        "reduce in flat_map": lambda: numbers.flat_map(lambda n: data.range(up_to(n))),
        "reduce in scan": lambda: numbers.scan(zero, lambda state, n: (state + up_to(n), state)),
        "reduce in take_while": lambda: numbers.take_while(lambda n: up_to(n) < 3),
        "reduce of pairs in map": lambda: numbers.map(of_pairs),
        "reduce in reduce in map": lambda: numbers.map(nested),
        "reduce of windows": lambda: data.range(6).window(3).map(of_window),
        "reduce of windows in filter": lambda: (
            data.range(6).window(3).filter(lambda w: of_window(w) > 5).flat_map(lambda w: w)
        ),
        "a loop in map": lambda: numbers.map(by_loop),
        "a loop in flat_map": lambda: numbers.flat_map(lambda n: data.range(by_loop(n))),
        "a loop to a break in map": lambda: numbers.map(to_a_break),
        "next in map": lambda: numbers.map(first_two),
        "cardinality in map": lambda: numbers.map(lambda n: data.range(n).repeat(3).batch(2).cardinality()),
        "cardinality in flat_map": lambda: numbers.flat_map(lambda n: data.range(data.range(n).batch(2).cardinality())),
        "a single element in map": lambda: numbers.map(lambda n: data.range(n).batch(9).get_single_element()),
        "datasets from map": lambda: numbers.map(lambda n: (n, data.range(n))).flat_map(
            lambda n, d: d.map(lambda x: x * n)
        ),
    }
    return {label: lambda make=make: _typed(tf, make()) for label, make in typed.items()}
