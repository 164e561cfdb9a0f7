"""Random numbers drawn by rejection sampling, in functions and in datasets, which equal TensorFlow's."""

from parity_numbers import calls


def programs(tf):
    random = tf.random
    drawn = {
        "gamma": (lambda a: random.stateless_gamma([4, 3], [1, 2], a), [0.3, 1.0, 4.0]),
        "gamma of double": (lambda: random.stateless_gamma([5], [3, -4], 2.5, 2.0, tf.float64),),
        "gamma of a scalar": (lambda a: random.stateless_gamma([2, 3], [7, 8], a), 0.7),
        "gamma with rates": (lambda: random.stateless_gamma([2, 2, 3], [1, 2], [[0.5], [2.0]], [1.0, 2.0, 3.0]),),
        "poisson": (lambda: random.stateless_poisson([6, 3], [1, 2], [0.5, 4.0, 30.0]),),
        "poisson of long": (lambda: random.stateless_poisson([8], [5, 6], 100.0, tf.int64),),
        "poisson of floats": (lambda: random.stateless_poisson([8], [5, 6], 12.5, tf.float32),),
    }
    return (
        calls(tf, drawn)
        | _seeded(tf)
        | _in_functions(tf)
        | _in_datasets(tf)
        | _beside_unused(tf)
        | _by_branch(tf)
        | _errors(tf)
    )


def _seeded(tf):
    """Stateful ones after a seed, and the shapes of those that are drawn otherwise."""

    def gamma():
        tf.random.set_seed(5)
        return [str(tf.random.gamma([3], [0.5, 2.0], seed=s).numpy().round(3).tolist()) for s in (None, 3)]

    def poisson():
        tf.random.set_seed(5)
        return [str(tf.random.poisson([3], [0.5, 20.0], seed=s).numpy().tolist()) for s in (None, 3)]

    shapes = {
        "binomial": lambda: tf.random.stateless_binomial([4, 2], [1, 2], [10.0, 20.0], 0.5).shape,
        "truncated normal": lambda: (
            tf.random.stateless_parameterized_truncated_normal([4, 2], [1, 2], [0.0, 1.0]).dtype
        ),
    }
    states = {
        f"state of {seed}": lambda seed=seed: tf.random.create_rng_state(seed, tf.random.Algorithm.PHILOX)
        for seed in (7, 1 << 70, (1, 2, 3))
    }
    return states | {"seeded gamma": gamma, "seeded poisson": poisson} | shapes


def _in_functions(tf):
    def seeded_after_tracing():
        draw = tf.function(lambda: tf.random.uniform([2]))
        seeded = tf.function(lambda: tf.random.uniform([2], seed=3))
        numbers = []
        for seed in (1, 2, 1):  # the functions keep the seed 1, with which they are traced
            tf.random.set_seed(seed)
            numbers.append([_rounded(x) for x in (draw(), seeded(), draw(), seeded())])
        return numbers

    return {"a seed set after tracing": seeded_after_tracing}


def _in_datasets(tf):
    """Elements of two iterations: random ops of a dataset start again with each iterator, but not with each repetition."""
    data = tf.data.Dataset

    def number(_):
        return tf.random.uniform([], maxval=100, dtype=tf.int32)

    def heads(_):
        return tf.random.uniform([]) < 0.5

    def other(dataset):
        return dataset.map(lambda x: x * 1000 + number(x))

    datasets = {
        "map": lambda: data.range(3).map(number),
        "map with a seed": lambda: data.range(3).map(lambda _: _percent(tf.random.uniform([], seed=5))),
        "parallel map": lambda: data.range(3).map(number, num_parallel_calls=1),
        "shuffled rows": lambda: data.range(3).map(lambda _: tf.random.shuffle(tf.range(5))),
        "two maps": lambda: other(data.range(3).map(number)),
        "repeat": lambda: data.range(3).map(number).repeat(2),
        "filter": lambda: data.range(9).filter(heads),
        "scan": lambda: data.range(3).scan(0, lambda total, x: (total + number(x), total)),
        "flat_map": lambda: data.range(2).flat_map(lambda _: data.range(3).map(number)),
        "interleave": lambda: data.range(2).interleave(lambda _: data.range(3).map(number), cycle_length=2),
        "flat_map of shuffles": lambda: data.range(2).flat_map(lambda _: data.range(4).shuffle(4)),
        "interleaved shuffles": lambda: data.range(2).interleave(lambda _: data.range(4).shuffle(4), cycle_length=2),
        "flat_map of a number": lambda: data.range(2).flat_map(lambda x: data.from_tensors(number(x)).repeat(2)),
        "flat_map of two shuffles": lambda: data.range(2).flat_map(
            lambda _: data.range(4).shuffle(4).concatenate(data.range(4).shuffle(4))
        ),
        "cache": lambda: data.range(3).map(number).cache(),
        "group_by_window": lambda: data.range(6).group_by_window(
            lambda x: tf.cast(heads(x), tf.int64), lambda _, rows: rows.batch(9), window_size=9
        ),
    }

    def _percent(x):
        return tf.cast(x * 100, tf.int32)

    def twice(make):
        tf.random.set_seed(1)
        dataset = make()
        return [[x.tolist() for x in dataset.as_numpy_iterator()] for _ in range(2)]

    def unfinished():
        tf.random.set_seed(1)
        dataset = data.range(5).map(number)
        first = int(next(iter(dataset)))
        return first, [x.tolist() for x in dataset.as_numpy_iterator()]

    def in_function():
        tf.random.set_seed(1)
        dataset = data.range(3).map(number)

        @tf.function
        def digits():
            total = 0
            for x in dataset:
                total = total * 100 + x
            return total

        return int(digits()), int(digits())

    def reduced():
        tf.random.set_seed(1)
        dataset = data.range(3).map(number)
        return [int(dataset.reduce(0, lambda total, x: total * 100 + x)) for _ in range(2)]

    def seeded_later():
        tf.random.set_seed(1)
        dataset = data.range(3).map(number)
        tf.random.set_seed(2)
        return [x.tolist() for x in dataset.as_numpy_iterator()]

    programs = {f"two iterations of {label}": lambda make=make: twice(make) for label, make in datasets.items()}
    return programs | {
        "an iteration after an unfinished one": unfinished,
        "a dataset of a function's runs": in_function,
        "a reduced dataset": reduced,
        "a seed set after a dataset is made": seeded_later,
    }


def _beside_unused(tf):
    """An iterator that is made after one that is used later: each takes its order of shuffled elements when it is made."""
    data = tf.data.Dataset

    def shuffled(n=8):
        return data.range(n).shuffle(n)

    datasets = {
        "shuffle": shuffled,
        "batch": lambda: shuffled().batch(3),
        "rebatch": lambda: shuffled().batch(3).rebatch([2, 3]),
        "parallel batch": lambda: shuffled().batch(3, num_parallel_calls=2),
        "map": lambda: shuffled().map(lambda x: x + 1),
        "parallel map": lambda: shuffled().map(lambda x: x + 1, num_parallel_calls=2),
        "filter": lambda: shuffled().filter(lambda x: x > 2),
        "take": lambda: shuffled().take(5),
        "skip": lambda: shuffled().skip(3),
        "shard": lambda: shuffled().shard(2, 0),
        "repeat": lambda: shuffled().repeat(2),
        "endless repeat": lambda: shuffled().repeat().take(12),
        "two shuffles": lambda: shuffled().shuffle(3),
        "concatenate": lambda: shuffled().concatenate(shuffled(4)),
        "zip": lambda: data.zip(shuffled(), shuffled(6)).map(lambda x, y: 10 * x + y),
        "prefetch": lambda: shuffled().prefetch(2),
        "cache": lambda: shuffled().cache(),
        "unique": lambda: shuffled().unique(),
        "take_while": lambda: shuffled().take_while(lambda x: x != 0),
        "scan": lambda: shuffled().scan(tf.constant(0, tf.int64), lambda s, x: (s + x, s)),
        "window": lambda: shuffled().window(3).flat_map(lambda w: w.batch(3)),
        "group_by_window": lambda: shuffled().group_by_window(lambda x: x % 2, lambda _, d: d.batch(4), window_size=4),
        "unbatch": lambda: shuffled().batch(2).unbatch(),
        "flat_map": lambda: shuffled().flat_map(lambda x: data.from_tensors(x)),
        "interleave": lambda: shuffled().interleave(lambda x: data.from_tensors(x), cycle_length=2),
        "parallel interleave": lambda: shuffled().interleave(
            lambda x: data.from_tensors(x), cycle_length=2, num_parallel_calls=2
        ),
        "enumerate": lambda: shuffled().enumerate().map(lambda i, x: 10 * i + x),
        "ignore_errors": lambda: shuffled().ignore_errors(),
        "padded_batch": lambda: shuffled().padded_batch(3),
        "choose_from_datasets": lambda: data.choose_from_datasets([shuffled(4), shuffled(4)], data.range(2).repeat(4)),
        "sample_from_datasets": lambda: data.sample_from_datasets([shuffled(4), shuffled(4)], [0.5, 0.5]),
        "assert_cardinality": lambda: shuffled().apply(tf.data.experimental.assert_cardinality(8)),
        "random": lambda: data.random(rerandomize_each_iteration=True).take(3),
    }

    def iterated(make):
        tf.random.set_seed(4)
        dataset = make()
        first = iter(dataset)
        second = [x.tolist() for x in dataset.as_numpy_iterator()]
        return second, [next(first).numpy().tolist() for _ in range(2)]

    return {f"{label} beside an unused iterator": lambda make=make: iterated(make) for label, make in datasets.items()}


def _by_branch(tf):
    """Elements for which a function calls other random ops than for the element before."""

    def drawn(x):
        if x % 2 == 0:
            return tf.random.uniform([], seed=1)
        return tf.random.normal([])

    def numbers():
        tf.random.set_seed(1)
        return [_rounded(x) for x in tf.data.Dataset.range(5).map(drawn)]

    return {"random ops in branches of a map": numbers}


def _rounded(x):
    return str(x.numpy().round(5).tolist())


def _errors(tf):
    return {"gamma of no shape": lambda: tf.random.stateless_gamma([4, 2], [1, 2], [1.0, 2.0, 3.0]).shape}
