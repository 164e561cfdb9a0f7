"""Random numbers and orders of datasets that are used several times: twice in a pipeline, repeated, cached, in functions."""

import numpy as np


def programs(tf):
    return _used_twice(tf) | _repeated(tf) | _in_functions(tf) | _before_and_after_functions(tf) | _rewritten(tf)


def _number_maker(tf):
    """A function of any element that draws an integer below 100."""

    def number(*_):
        return tf.random.uniform([], maxval=100, dtype=tf.int32)

    return number


def _values(tf, element):
    return tf.nest.map_structure(lambda tensor: np.asarray(tensor).tolist(), element)


def _iterated(tf, make, times=2):
    """The program that iterates over a dataset several times."""

    def run():
        tf.random.set_seed(1)
        dataset = make()
        return [[_values(tf, element) for element in dataset] for _ in range(times)]

    return run


def _used_twice(tf):
    data = tf.data.Dataset
    number = _number_maker(tf)

    def joined(first, second):
        return first.concatenate(second)

    sources = {
        "map": lambda: data.range(4).map(number),
        "filter": lambda: data.range(8).filter(lambda _: tf.random.uniform([]) < 0.5),
        "scan": lambda: data.range(4).scan(0, lambda total, _: (total + number(), total)),
        "flat_map": lambda: data.range(2).flat_map(lambda _: data.range(2).map(number)),
        "Python": lambda: data.range(3).map(lambda x: tf.py_function(number, [x], tf.int32)),
        "shuffle": lambda: data.range(6).shuffle(6),
        "repeated shuffle": lambda: data.range(4).shuffle(4).repeat(2),
        "batched shuffle": lambda: data.range(6).shuffle(6).batch(2),
        "shuffle and map": lambda: data.range(4).shuffle(4).map(lambda x: (x, number())),
        "cached shuffle": lambda: data.range(5).shuffle(5).cache(),
        "random": lambda: data.random(seed=4, rerandomize_each_iteration=True).take(3),
    }

    def parity_of_first(*element):
        return tf.cast(tf.reshape(element[0], [-1])[0] % 2, tf.int64)

    uses = {
        "zip": lambda d: data.zip((d, d, d)),
        "concatenate": lambda d: joined(d, d),
        "zip of concatenate": lambda d: data.zip((joined(d, d), joined(d, d))),
        "choose": lambda d: data.choose_from_datasets([d, d], data.range(2).repeat(6)),
        "choose by itself": lambda d: data.choose_from_datasets([d, d], d.map(parity_of_first)),
        "sample": lambda d: data.sample_from_datasets([d, d], seed=3),
        "flat_map": lambda d: data.range(2).flat_map(lambda _: d),
        "interleave": lambda d: data.range(3).interleave(lambda _: d, cycle_length=2),
        "repeat": lambda d: d.repeat(2),
    }

    def zipped_parallel_map():
        numbers = data.range(4).map(number, num_parallel_calls=1).prefetch(2)
        return data.zip((numbers, numbers))

    return {"zip with one parallel map": _iterated(tf, zipped_parallel_map)} | {
        f"{use} with one {source}": _iterated(tf, lambda make=make, combine=combine: combine(make()))
        for source, make in sources.items()
        for use, combine in uses.items()
        # TensorFlow computes the choices ahead in a thread, so that the order of calls of Python isn't fixed.
        if (use, source) != ("choose by itself", "Python")
    }


def _repeated(tf):
    data = tf.data.Dataset

    def shuffled(n=4):
        return data.range(n).shuffle(n)

    repeated = {
        "shuffle": lambda: shuffled().repeat(2),
        "batched shuffle": lambda: shuffled().batch(2).repeat(2),
        "batched shuffle, once": lambda: shuffled().batch(4).repeat(1),
        "batched shuffle, thrice": lambda: shuffled().batch(4).repeat(3),
        "batched shuffle, without end": lambda: shuffled().batch(4).repeat().take(2),
        "batched shuffle, not to its end": lambda: shuffled().batch(4).repeat(2).take(2),
        "shuffle of a small buffer": lambda: data.range(8).shuffle(3).repeat(3),
        "shuffle of a large buffer": lambda: data.range(4).shuffle(20).repeat(3),
        "two shuffles": lambda: data.range(5).shuffle(3).shuffle(4).repeat(3),
        "shuffle of a repeated shuffle": lambda: shuffled().batch(2).repeat(2).shuffle(4),
        "shuffle in flat_map": lambda: data.range(3).flat_map(lambda _: shuffled(3).repeat(2)),
        "shuffle in flat_map, once": lambda: data.range(3).flat_map(lambda _: shuffled(3).repeat(1)),
        "window": lambda: data.range(6).window(3).flat_map(lambda rows: rows.batch(3).shuffle(3).repeat(2)),
    }

    def read_to_the_last():
        tf.random.set_seed(1)
        dataset = shuffled().cache()
        return [[int(x) for x in dataset.take(4)] for _ in range(3)]

    return {f"repeated {label}": _iterated(tf, make, 3) for label, make in repeated.items()} | {
        "a cache that is read to its last element": read_to_the_last
    }


def _in_functions(tf):
    data = tf.data.Dataset
    number = _number_maker(tf)

    def captured():
        numbers = data.range(2).map(number)
        return data.range(2).flat_map(lambda _: data.zip((numbers, numbers)))

    def made(_):
        numbers = data.range(2).map(number)
        return data.zip((numbers, numbers))

    def captured_twice():
        numbers = data.range(2).map(number)
        return data.range(2).interleave(lambda _: numbers.concatenate(numbers), cycle_length=2)

    def captured_by_groups():
        numbers = data.range(2).map(number)
        return data.range(6).group_by_window(lambda x: x % 2, lambda _, rows: data.zip((numbers, numbers, rows)), 3)

    def in_loops():
        tf.random.set_seed(1)
        numbers = data.range(3).map(number)

        @tf.function
        def of_captured():
            total = 0
            for a, b in data.zip((numbers, numbers)):
                total = total * 100 + a - b
            return total

        @tf.function
        def of_made():
            total, inner = 0, data.range(3).map(number)
            for a, b in data.zip((inner, inner)):
                total = total * 100 + a - b
            return total

        @tf.function
        def repeated(n):
            total = tf.constant(0, tf.int64)
            for x in data.range(n).shuffle(3).repeat(2):
                total = 10 * total + x
            for x in data.range(n).shuffle(3).batch(1).repeat(2):
                total = 10 * total + x[0]
            return total

        size = tf.constant(3, tf.int64)
        return [
            int(f(*args)) for f, *args in [(of_captured,), (of_made,), (repeated, 3), (repeated, size)] for _ in "12"
        ]

    def reduced():
        tf.random.set_seed(1)
        numbers = data.range(3).map(number)
        return [int(data.zip((numbers, numbers)).reduce(0, lambda total, x: total * 100 + x[0] - x[1])) for _ in "12"]

    def iterators_in_turn():
        tf.random.set_seed(1)
        numbers = data.range(4).map(number)
        pairs = data.zip((numbers, numbers))
        first = _values(tf, next(iter(pairs)))
        one, other = iter(pairs), iter(pairs)
        return first, [_values(tf, next(each)) for each in (one, other, one, one, other)]

    return {
        "zip of a captured dataset": _iterated(tf, captured),
        "zip in flat_map": _iterated(tf, lambda: data.range(2).flat_map(made)),
        "concatenate of a captured dataset": _iterated(tf, captured_twice),
        "zip of a dataset that groups capture": _iterated(tf, captured_by_groups),
        "zip and repeat in loops": in_loops,
        "zip of one dataset, reduced": reduced,
        "iterators of a zip of one dataset": iterators_in_turn,
    }


def _before_and_after_functions(tf):
    """Datasets that functions of elements capture, iterated by the program before and after, and by several functions."""
    data = tf.data.Dataset
    number = _number_maker(tf)

    def pairs():
        numbers = data.range(3).map(number)
        return data.zip((numbers, numbers))

    def twice():
        numbers = data.range(2).map(number)
        return numbers.concatenate(numbers)

    def sampled():
        numbers = data.range(4).map(number)
        return data.sample_from_datasets([numbers, numbers], seed=3)

    def shuffled_once():
        return data.range(4).shuffle(4).repeat(1)

    captured = {"zip": pairs, "concatenate": twice, "sample": sampled, "shuffle": shuffled_once}
    uses = {
        "flat_map": lambda d: data.range(2).flat_map(lambda _: d),
        "two flat_maps": lambda d: data.range(1).flat_map(lambda _: data.range(2).flat_map(lambda _: d)),
        "interleave": lambda d: data.range(3).interleave(lambda _: d, cycle_length=2),
        "groups": lambda d: data.range(2).group_by_window(lambda x: x, lambda _, rows: d, 1),
        "zip of flat_map": lambda d: data.zip(
            (data.range(2).flat_map(lambda _: d), data.range(2).flat_map(lambda _: d))
        ),
        "concatenate of flat_map": lambda d: _joined_with_itself(data.range(1).flat_map(lambda _: d)),
        "map in flat_map": lambda d: data.range(2).flat_map(lambda _: d.map(lambda *x: (x, number()))),
        "repeat in flat_map": lambda d: data.range(2).flat_map(lambda _: d.repeat(2)),
        "generator": lambda d: _generated(tf, d),
    }

    def around(make, use):
        def run():
            tf.random.set_seed(1)
            dataset = make()
            used = use(dataset)
            return [[_values(tf, element) for element in each] for each in (dataset, used, dataset, used, dataset)]

        return run

    def chosen():
        first, second = pairs(), pairs()
        return data.range(2).flat_map(lambda i: tf.cond(i < 1, lambda: first, lambda: second))

    def maps_itself():
        numbers = data.range(2).map(number)
        return numbers.flat_map(lambda _: numbers)

    def doubled():
        numbers = data.range(2).map(number)
        for _ in range(30):
            numbers = _joined_with_itself(numbers)
        return data.range(2).flat_map(lambda _: numbers).take(3)

    return {
        f"{kind} before and after {use}": around(make, change)
        for kind, make in captured.items()
        for use, change in uses.items()
    } | {
        "one of two captured zips": _iterated(tf, chosen),
        "a dataset that a function of its elements captures": _iterated(tf, maps_itself),
        "a captured dataset, concatenated 30 times": _iterated(tf, doubled),
    }


def _joined_with_itself(dataset):
    return dataset.concatenate(dataset)


def _first_of(x):
    return x


def _sum_dropped(x):
    x + x
    return x


def _generated(tf, dataset):
    def numbers():
        for element in dataset:
            yield sum(tf.nest.flatten(_values(tf, element)))

    made = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int32))
    return tf.data.Dataset.range(2).flat_map(lambda _: made)


def _rewritten(tf):
    """Shuffles and repetitions with datasets between them that change nothing, in the program and in functions."""
    data = tf.data.Dataset
    between = {
        "repeat": lambda d: d.repeat(1),
        "shard": lambda d: d.shard(1, 0),
        "take": lambda d: d.take(-1),
        "skip": lambda d: d.skip(0),
        "several": lambda d: d.skip(0).repeat(1).take(-2),
        "prefetch": lambda d: d.prefetch(1),
        "take of all": lambda d: d.take(4),
        "no prefetch": lambda d: d.prefetch(0),
        "options": lambda d: d.with_options(tf.data.Options()),
        "map": lambda d: d.map(lambda x: x),
        "map to a tuple": lambda d: d.map(lambda x: (x,)),
        "map by copying": lambda d: d.map(tf.identity),
        "parallel map": lambda d: d.map(lambda x: x, num_parallel_calls=2),
        "map that computes what it drops": lambda d: d.map(_sum_dropped),
        "map by adding": lambda d: d.map(lambda x: x + 0),
        "map that draws": lambda d: d.map(lambda x: (tf.random.uniform([]), x)[1]),
        "map to a pair": lambda d: d.map(lambda x: (x, x)).map(lambda x, y: y),
        "map by a traced function": lambda d: d.map(tf.function(_first_of)),
        "map that checks": lambda d: d.map(lambda x: (tf.debugging.assert_less(x, tf.constant(9, x.dtype)), x)[1]),
    }

    def shuffled():
        return data.range(4).shuffle(4)

    def captured(change):
        dataset = change(shuffled()).repeat(2)
        return data.range(2).flat_map(lambda _: dataset)

    def with_captured_shuffle(change):
        dataset = shuffled()
        return data.range(2).flat_map(lambda _: change(dataset).repeat(2))

    def repeated_with_captured_repetition(change):
        dataset = change(shuffled()).repeat(1)
        return data.range(2).flat_map(lambda _: dataset.repeat(1))

    uses = {
        "repeated": lambda change: change(shuffled()).repeat(2),
        "repeated once": lambda change: change(shuffled()).repeat(1),
        "repeated before": lambda change: change(shuffled().repeat(2)),
        "captured": captured,
        "captured before": with_captured_shuffle,
        "captured in between": repeated_with_captured_repetition,
    }
    return {
        f"shuffle, {name}, {use}": _iterated(tf, lambda change=change, make=make: make(change), 3)
        for name, change in between.items()
        for use, make in uses.items()
    }
