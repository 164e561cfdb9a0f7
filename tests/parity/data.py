"""Input pipelines: elements, specs, cardinalities, orders and errors."""

import os
import tempfile

import numpy as np


def programs(tf):
    made = {}
    for label, (make, *rest) in _pipelines(tf).items():
        made[label] = lambda make=make: _shown(make())
        if "order" not in rest:
            made[f"{label}, type"] = lambda make=make: _typed(make())
    return made | _errors(tf) | _protocol(tf) | _files(tf)


def _shown(dataset):
    return [_plain(element) for element in dataset.as_numpy_iterator()]


def _plain(x):
    if isinstance(x, tuple):
        return tuple(_plain(v) for v in x)
    if isinstance(x, dict):
        return {k: _plain(x[k]) for k in sorted(x)}
    return x.tolist() if hasattr(x, "tolist") else x


def _typed(dataset):
    return repr(dataset), int(dataset.cardinality())


def _pipelines(tf):
    data = tf.data.Dataset

    def seeded(make, seed=7):
        def run():
            tf.random.set_seed(seed)
            return make()

        return run

    pairs = {"a": [1, 2, 3], "b": ([[1.0], [2.0], [3.0]], ["x", "y", "z"])}

    def generator(n=3):
        for i in range(n):
            yield i, [float(i)] * i

    three = [data.from_tensors(name).repeat() for name in "abc"]
    signature = (tf.TensorSpec([], tf.int32), tf.TensorSpec([None], tf.float32))
    return {
        "tensors": (lambda: data.from_tensors([1, 2, 3]),),
        "slices": (lambda: data.from_tensor_slices([1, 2, 3]),),
        "slices of a nest": (lambda: data.from_tensor_slices(pairs),),
        "slices of a tuple": (lambda: data.from_tensor_slices(([1, 2], [[1.0, 2.0], [3.0, 4.0]])),),
        "slices of NumPy": (lambda: data.from_tensor_slices(np.arange(6).reshape(3, 2)),),
        "range": (lambda: data.range(5),),
        "range from": (lambda: data.range(2, 5),),
        "range by step": (lambda: data.range(5, 1, -2),),
        "range of a type": (lambda: data.range(3, output_type=tf.float32),),
        "generator": (lambda: data.from_generator(generator, output_signature=signature),),
        "generator with arguments": (lambda: data.from_generator(generator, output_signature=signature, args=[2]),),
        "generator by types": (lambda: data.from_generator(lambda: iter([1, 2]), tf.int64, tf.TensorShape([])),),
        "generator of what is cast to ints": (
            lambda: data.from_generator(lambda: iter([1.5, tf.constant(-2.5), "5", np.float64(3)]), tf.int32, []),
        ),
        "generator of what is cast to floats": (
            lambda: data.from_generator(lambda: iter([None, True, "2.5"]), tf.float32, []),
        ),
        "map": (lambda: data.range(4).map(lambda x: x * x),),
        "map of pairs": (lambda: data.from_tensor_slices(([1, 2], [3, 4])).map(lambda a, b: a + b),),
        "map of a dict": (lambda: data.from_tensor_slices(pairs).map(lambda e: e["a"] * 2),),
        "map to a nest": (lambda: data.range(2).map(lambda x: {"x": x, "y": (x + 1, [x, x])}),),
        "map with branches": (lambda: data.range(4).map(lambda x: tf.cond(x > 1, lambda: x, lambda: -x)),),
        "filter": (lambda: data.range(6).filter(lambda x: x % 2 == 0),),
        "flat_map": (lambda: data.range(1, 4).flat_map(lambda x: data.from_tensors(x).repeat(x)),),
        "flat_map of slices": (lambda: data.from_tensor_slices([[1, 2], [3, 4]]).flat_map(data.from_tensor_slices),),
        "interleave": (
            lambda: data.range(1, 6).interleave(
                lambda x: data.from_tensors(x).repeat(6), cycle_length=2, block_length=4
            ),
        ),
        "interleave uneven": (
            lambda: data.range(1, 5).interleave(lambda x: data.range(x), cycle_length=3, block_length=1),
        ),
        "take": (lambda: data.range(5).take(3),),
        "take all": (lambda: data.range(5).take(-1),),
        "skip": (lambda: data.range(5).skip(3),),
        "skip all": (lambda: data.range(5).skip(-1),),
        "shard": (lambda: data.range(10).shard(3, 1),),
        "repeat": (lambda: data.range(2).repeat(3),),
        "repeat without end": (lambda: data.range(2).repeat().take(5),),
        "concatenate": (lambda: data.range(2).concatenate(data.range(5, 7)),),
        "concatenate of shapes": (lambda: data.from_tensors([1, 2]).concatenate(data.from_tensors([1, 2, 3])),),
        "zip": (lambda: data.zip((data.range(3), data.range(10, 15))),),
        "zip of arguments": (lambda: data.zip(data.range(3), data.range(10, 15)),),
        "zip of a dict": (lambda: data.zip({"a": data.range(2), "b": (data.range(2), data.range(2))}),),
        "zip in batches": (lambda: data.zip((data.range(5), data.range(10, 15))).batch(2),),
        "enumerate": (lambda: data.from_tensor_slices(["a", "b"]).enumerate(start=5),),
        "batch": (lambda: data.range(5).batch(2),),
        "batch without the rest": (lambda: data.range(5).batch(2, drop_remainder=True),),
        "batch of a nest": (lambda: data.from_tensor_slices(pairs).batch(2),),
        "batch of batches": (lambda: data.range(8).batch(2).batch(3),),
        "padded_batch": (lambda: data.range(1, 5).map(lambda x: tf.fill([x], x)).padded_batch(2),),
        "padded_batch of a shape": (
            lambda: data.range(1, 5).map(lambda x: tf.fill([x], x)).padded_batch(2, padded_shapes=5, padding_values=-1),
        ),
        "padded_batch of a nest": (
            lambda: data.from_generator(generator, output_signature=signature).padded_batch(
                2, padded_shapes=([], [None]), padding_values=(0, 9.0), drop_remainder=True
            ),
        ),
        "unbatch": (lambda: data.from_tensor_slices([[1, 2], [3, 4]]).unbatch(),),
        "rebatch": (lambda: data.range(6).batch(4).rebatch(3),),
        "window": (lambda: data.range(7).window(3).flat_map(lambda w: w.batch(3)),),
        "window with a shift": (
            lambda: data.range(7).window(3, shift=1, stride=2, drop_remainder=True).flat_map(lambda w: w.batch(3)),
        ),
        "window with a long shift": (lambda: data.range(9).window(2, shift=4).flat_map(lambda w: w.batch(2)),),
        "group_by_window": (
            lambda: data.range(10).group_by_window(lambda x: x % 2, lambda key, group: group.batch(5), window_size=5),
        ),
        "scan": (lambda: data.range(5).scan(np.int64(0), lambda state, x: (state + x, state)),),
        "take_while": (lambda: data.range(10).take_while(lambda x: x < 4),),
        "unique": (lambda: data.from_tensor_slices([1, 37, 2, 37, 2, 1]).unique(),),
        "prefetch": (lambda: data.range(3).prefetch(2),),
        "prefetch by itself": (lambda: data.range(3).map(lambda x: x + 1).prefetch(tf.data.AUTOTUNE),),
        "cache": (lambda: data.range(3).cache(),),
        "choose_from_datasets": (
            lambda: data.choose_from_datasets(
                [data.from_tensors("a").repeat(), data.from_tensors("b").repeat(), data.from_tensors("c").repeat()],
                data.range(3).repeat(2),
            ),
        ),
        "random": (seeded(lambda: data.random(seed=4).take(3)), "order"),
        "random again": (seeded(lambda: data.random(seed=4).take(3).repeat(2)), "order"),
        "random anew": (
            seeded(lambda: data.random(seed=4, rerandomize_each_iteration=True).take(3).repeat(2)),
            "order",
        ),
        "sample_from_datasets": (seeded(lambda: data.sample_from_datasets(three, seed=3).take(12)),),
        "sample_from_datasets by weights": (
            lambda: data.sample_from_datasets(three, weights=[0.2, 0.0, 0.8], seed=3).take(12),
            "order",
        ),
        "sample_from_datasets by a tensor": (
            lambda: data.sample_from_datasets(three, weights=tf.constant([0.5, 0.1, 0.4], tf.float64), seed=5).take(9),
            "order",
        ),
        "sample_from_datasets by a dataset": (
            lambda: data.sample_from_datasets(
                three, weights=data.from_tensor_slices([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]).repeat(), seed=5
            ).take(9),
            "order",
        ),
        "sample_from_datasets to the first end": (
            lambda: data.sample_from_datasets([data.range(2), data.range(9)], seed=1, stop_on_empty_dataset=True),
        ),
        "sample_from_datasets to the last end": (
            lambda: data.sample_from_datasets([data.range(2), data.range(9)], seed=1),
        ),
        "apply": (lambda: data.range(4).apply(lambda d: d.skip(1)),),
        "bucket_by_sequence_length": (
            lambda: data.from_generator(
                lambda: iter([[0], [1, 2, 3, 4], [5, 6, 7], [7, 8, 9, 10, 11], [13, 14, 15, 16], [17]]),
                tf.int64,
                output_shapes=[None],
            ).bucket_by_sequence_length(
                element_length_func=lambda e: tf.shape(e)[0], bucket_boundaries=[3, 5], bucket_batch_sizes=[2, 2, 2]
            ),
            "order",
        ),
        "shuffle": (seeded(lambda: data.range(10).shuffle(10, seed=1)), "order"),
        "shuffle a little": (seeded(lambda: data.range(10).shuffle(3, seed=2)), "order"),
        "shuffle by the global seed": (seeded(lambda: data.range(10).shuffle(5)), "order"),
        "shuffle by two seeds": (seeded(lambda: data.range(10).shuffle(5, seed=3)), "order"),
        "shuffle anew": (seeded(lambda: data.range(4).shuffle(4).repeat(3)), "order"),
        "shuffle the same way": (
            seeded(lambda: data.range(4).shuffle(4, seed=5, reshuffle_each_iteration=False).repeat(3)),
            "order",
        ),
        "shuffle and batch": (seeded(lambda: data.range(10).shuffle(10).batch(4)), "order"),
    }


def _errors(tf):
    data = tf.data.Dataset

    def drained(make):
        return lambda: list(make())

    return {
        "refuses slices of a scalar": lambda: data.from_tensor_slices(1),
        "refuses uneven slices": lambda: data.from_tensor_slices(([1, 2], [1, 2, 3])),
        "refuses a batch of nothing": drained(lambda: data.range(3).batch(0)),
        "refuses a batch of shapes": drained(
            lambda: data.from_generator(lambda: iter([[1], [2, 2]]), tf.int32, [None]).batch(2)
        ),
        "refuses a filter that is no bool": lambda: data.range(3).filter(lambda x: x),
        "refuses to concatenate types": lambda: data.range(3).concatenate(data.from_tensors(1.0)),
        "refuses to zip nothing": lambda: data.zip(),
        "refuses to zip a tensor": lambda: data.zip((data.range(3), 1)),
        "refuses the length of no end": lambda: len(data.range(3).repeat()),
        "refuses the length of a filter": lambda: len(data.range(3).filter(lambda x: x > 0)),
        "refuses a generator without types": lambda: data.from_generator(lambda: iter([1])),
        "refuses to sample nothing": lambda: data.sample_from_datasets([]),
        "refuses too few weights": lambda: data.sample_from_datasets([data.range(3)] * 2, weights=[1.0]),
        "refuses weights of integers": lambda: data.sample_from_datasets([data.range(3)] * 2, weights=[1, 2]),
        "refuses weights of a shape": lambda: data.sample_from_datasets([data.range(3)] * 2, weights=tf.ones([3])),
        "refuses to choose from nothing": lambda: data.choose_from_datasets([], data.range(3)),
        "refuses choices that are no numbers": lambda: data.choose_from_datasets(
            [data.range(3)], data.from_tensors(1.0)
        ),
        "refuses a shard beyond": drained(lambda: data.range(3).shard(2, 2)),
        "refuses a single element of many": lambda: data.range(3).get_single_element(),
        "refuses a single element of none": lambda: data.range(0).get_single_element(),
    }


def _protocol(tf):
    data = tf.data.Dataset

    def iterator():
        found = iter(data.range(2))
        first = found.get_next(), found.element_spec, next(found)
        try:
            found.get_next()
        except tf.errors.OutOfRangeError as error:
            return *first, type(error).__name__

    def traced_once():
        seen = []
        list(data.range(3).map(lambda x: seen.append(1) or x))
        return len(seen)

    def twice():
        tf.random.set_seed(3)
        shuffled = data.range(6).shuffle(6)
        return _shown(shuffled), _shown(shuffled)

    def twice_the_same():
        shuffled = data.range(6).shuffle(6, seed=3, reshuffle_each_iteration=False)
        return _shown(shuffled), _shown(shuffled)

    def in_a_loop():
        @tf.function
        def total(numbers):
            found = tf.constant(0, tf.int64)
            for x in numbers:
                found += x
            return found

        return total(data.range(5))

    def batches_in_a_loop():
        @tf.function
        def total(pairs):
            found = 0.0
            for x, y in pairs:
                found += tf.reduce_sum(x) * y[0]
            return found

        return total(data.from_tensor_slices(([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])).batch(2))

    def counted_in_a_loop():
        @tf.function
        def run(numbers):
            i, x = tf.constant(0, tf.int64), tf.constant(0, tf.int64)
            for i, x in enumerate(numbers):
                if x > 2:
                    break
                tf.print(i, x, output_stream="file:///dev/null")
            return i, x

        return run(data.range(5))

    return {
        "iterator": iterator,
        "a function is traced once": traced_once,
        "another order each time": twice,
        "the same order each time": twice_the_same,
        "reduce": lambda: data.range(5).reduce(np.int64(0), lambda total, x: total + x),
        "reduce to a pair": lambda: data.range(5).reduce((0, np.int64(1)), lambda s, x: (s[0] + 1, s[1] + x)),
        "get_single_element": lambda: data.range(10).batch(10).get_single_element(),
        "length": lambda: len(data.range(10).batch(3)),
        "a loop of a function": in_a_loop,
        "batches in a loop of a function": batches_in_a_loop,
        "a loop with break": counted_in_a_loop,
    }


def _files(tf):
    def lines():
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.txt")
            with open(path, "wb") as file:
                file.write(b"one\ntwo\r\n\nlast")
            return _shown(tf.data.TextLineDataset(path)), _shown(tf.data.TextLineDataset([path, path]).skip(1).take(4))

    def csv():
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.csv")
            with open(path, "w") as file:
                file.write('a,b,c\n1,2.5,x\n,3.5,"y,z"\n')
            return _shown(tf.data.experimental.CsvDataset(path, [tf.constant([7]), tf.float32, tf.string], header=True))

    def fixed():
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.bin")
            with open(path, "wb") as file:
                file.write(b"HEADabcdefEND")
            return _shown(tf.data.FixedLengthRecordDataset(path, 2, header_bytes=4, footer_bytes=3))

    def missing():
        return list(tf.data.TextLineDataset("/nowhere/to/be/found"))

    def listed():
        with tempfile.TemporaryDirectory() as folder:
            for name in "ba":
                open(os.path.join(folder, name + ".txt"), "w").close()
            found = tf.data.Dataset.list_files(os.path.join(folder, "*.txt"), shuffle=False)
            return [os.path.basename(path) for path in _shown(found)]

    def cache_of_nothing():
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cached")
            return [_shown(tf.data.Dataset.range(size).cache(path)) for size in (0, 3)]

    def calls_before_caches():
        """How often two iterations over a cache, in memory and in a file, call the function whose results it holds."""
        calls = []

        def count(x):
            calls.append(x)
            return x

        def count_calls(path, limit, least):
            counted = tf.data.Dataset.range(3).map(lambda x: tf.py_function(count, [x], tf.int64))
            some = counted if least is None else counted.filter(lambda x: x >= least)
            cached = some.cache(path).take(limit)
            calls.clear()
            return _shown(cached), _shown(cached), len(calls)

        with tempfile.TemporaryDirectory() as folder:
            return [
                count_calls(path, limit, least)
                for limit in (2, 3, 4)
                for least in (None, 0, 3)
                for path in ("", os.path.join(folder, f"{limit}{least}"))
            ]

    return {
        "a cache of nothing": cache_of_nothing,
        "a cache read in part": calls_before_caches,
        "lines": lines,
        "csv": csv,
        "fixed records": fixed,
        "a file that is missing": missing,
        "list_files": listed,
    }
