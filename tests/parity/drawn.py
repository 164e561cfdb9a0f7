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
        | _in_functions_of_datasets(tf)
        | _in_graphs(tf)
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

    def number():
        return tf.random.uniform([], maxval=100, dtype=tf.int32)

    def called_by_others():
        tf.random.set_seed(1)
        inner = tf.function(number)
        twice = tf.function(lambda: (inner(), inner(), number()))
        return [int(inner()), *map(int, twice()), int(inner()), *map(int, twice())]

    def by_branch():
        tf.random.set_seed(1)

        @tf.function
        def drawn(x):
            before = number()
            if x > 0:
                y = 100 * number() + number()
            else:
                y = -number()
            return before, y, number()

        return [list(map(int, drawn(tf.constant(x)))) for x in (1, 1, -1)]

    def in_a_loop():
        tf.random.set_seed(1)

        @tf.function
        def drawn():
            found = number()
            for _ in tf.range(3):
                found = found * 100 + number()
            return found, number()

        return [list(map(int, drawn())) for _ in range(2)]

    def of_a_map():
        tf.random.set_seed(1)
        drawn = tf.function(lambda: (tf.vectorized_map(lambda x: x + number(), tf.zeros([1], tf.int32)), number()))
        return [int(drawn()[1]) for _ in range(2)]

    def recomputed():
        tf.random.set_seed(1)
        product = tf.recompute_grad(lambda x: x * tf.random.uniform([]))
        drawn = tf.function(lambda x: (product(x), tf.random.uniform([])))
        return [list(map(_rounded, drawn(tf.constant(1.0)))) for _ in range(2)]

    def dataset_of_computed_size():
        tf.random.set_seed(1)

        @tf.function
        def drawn(n):
            before, order, digits = number(), tf.constant(0, tf.int64), 0
            for x in tf.data.Dataset.range(n).shuffle(10):
                order = 10 * order + x
            for x in tf.data.Dataset.range(n).map(lambda _: number()):
                digits = 100 * digits + x
            return before, order, digits, number()

        return [list(map(int, drawn(tf.constant(4, tf.int64)))) for _ in range(2)]

    def dataset_made_in_each_call():
        tf.random.set_seed(1)

        @tf.function
        def orders():
            dataset, found = tf.data.Dataset.range(4).shuffle(4), tf.constant(0, tf.int64)
            for _ in tf.range(2):
                for x in dataset:
                    found = 10 * found + x
            return found

        return [int(orders()) for _ in range(3)]

    return {
        "a seed set after tracing": seeded_after_tracing,
        "a dataset made in each call": dataset_made_in_each_call,
        "functions that call a function": called_by_others,
        "random ops of branches": by_branch,
        "random ops of a loop": in_a_loop,
        "random ops after a map": of_a_map,
        "random ops of a recomputed function": recomputed,
        "a dataset of computed size": dataset_of_computed_size,
    }


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


def _number_maker(tf):
    """A function of any element that draws an integer below 100."""

    def number(*_):
        return tf.random.uniform([], maxval=100, dtype=tf.int32)

    return number


def _in_functions_of_datasets(tf):
    """Random ops and datasets that functions of datasets call: where their numbers start, and which calls continue them."""
    data = tf.data.Dataset

    number = _number_maker(tf)

    def by_parity(x):
        return x % 2

    def innermost(_):
        return data.range(2).map(number)

    def middle(_):
        return data.range(2).flat_map(innermost)

    def shuffled(_):
        return data.range(4).shuffle(4)

    def middle_of_shuffles(_):
        return data.range(2).flat_map(shuffled)

    def numbers_for(_, group):
        return group.map(number)

    def order_of(_, group):
        return group.shuffle(3)

    def one_number_for(_key, _group):
        return data.from_tensors(number())

    def sampled(_):
        return data.sample_from_datasets([data.range(3), data.range(5, 8)], [0.5, 0.5])

    def resampled(*distributions, seed=None, source=data.range(70)):
        pairs = source.rejection_resample(by_parity, *distributions, seed=seed)
        return pairs.map(lambda kind, x: 100 * kind + x)

    datasets = {
        "flat_map in flat_map": lambda: data.range(2).flat_map(middle),
        "shuffles in flat_map in flat_map": lambda: data.range(2).flat_map(middle_of_shuffles),
        "resampling": lambda: resampled([0.2, 0.8], [0.5, 0.5]),
        "resampling without known frequencies": lambda: resampled([0.3, 0.7], seed=3),
        "resampling of a shuffle": lambda: resampled([0.3, 0.7], seed=3, source=data.range(70).shuffle(50)),
        "resampling of a shuffle with known frequencies": lambda: resampled(
            [0.3, 0.7], [0.5, 0.5], source=data.range(70).shuffle(50)
        ),
        "resampling that keeps all": lambda: resampled([0.5, 0.5], [0.5, 0.5]),
        "resampling to one class": lambda: resampled([0.0, 1.0], [0.5, 0.5]),
        "flat_map in interleave": lambda: data.range(2).interleave(middle, cycle_length=2),
        "map in group_by_window": lambda: data.range(6).group_by_window(by_parity, numbers_for, 3),
        "shuffle in group_by_window": lambda: data.range(6).group_by_window(by_parity, order_of, 3),
        "a number of group_by_window": lambda: data.range(6).group_by_window(by_parity, one_number_for, 3),
        "samples in flat_map": lambda: data.range(2).flat_map(sampled),
        "random in flat_map": lambda: data.range(2).flat_map(lambda _: data.random().take(2)),
    }
    later = {
        "map": lambda: data.range(3).map(number),
        "map in flat_map": lambda: data.range(2).flat_map(innermost),
        "shuffle in flat_map": lambda: data.range(2).flat_map(shuffled),
        "number in flat_map": lambda: data.range(2).flat_map(lambda _: data.from_tensors(number())),
        "map in interleave": lambda: data.range(2).interleave(innermost, cycle_length=2),
        "map in group_by_window": lambda: data.range(6).group_by_window(by_parity, numbers_for, 3),
    }
    open_at_once = {
        "map": lambda: data.range(5).map(number),
        "parallel map": lambda: data.range(5).map(number, num_parallel_calls=1).prefetch(2),
        "map in flat_map": lambda: data.range(3).flat_map(innermost),
        "filter": lambda: data.range(30).filter(lambda _: tf.random.uniform([]) < 0.5),
        "scan": lambda: data.range(5).scan(0, lambda total, _: (total + number(), total)),
    }

    def twice(make, later_seed=None):
        tf.random.set_seed(1)
        dataset = make()
        if later_seed is not None:
            tf.random.set_seed(later_seed)
        return [[int(x) for x in dataset] for _ in range(2)]

    def in_turn(make):
        tf.random.set_seed(1)
        dataset = make()
        first, second = iter(dataset), iter(dataset)
        begun = [int(next(x)) for x in (first, second, first, second, second)]
        tf.random.set_seed(3)
        return begun, [int(next(x)) for x in (first, second)]

    def function_called_elsewhere():
        tf.random.set_seed(1)
        drawn = tf.function(number)
        before = int(drawn())
        dataset = data.range(2).map(lambda _: (drawn(), drawn(), number()))
        found = [[list(map(int, row)) for row in dataset] for _ in range(2)]
        return before, found, int(drawn())

    def function_called_by_flat_map():
        tf.random.set_seed(1)
        drawn = tf.function(number)

        def numbers(_):
            outer = drawn()
            return data.range(2).map(lambda _: (outer, drawn(), number()))

        dataset = data.range(2).flat_map(numbers)
        return [[list(map(int, row)) for row in dataset] for _ in range(2)], int(drawn())

    def function_of_two_sizes():
        tf.random.set_seed(1)
        rows = tf.TensorSpec([None])
        drawn = tf.function(
            lambda a, b: number() + 0 * tf.cast(tf.reduce_sum(a + b), tf.int32), input_signature=[rows] * 2
        )
        dataset = data.range(4).flat_map(lambda n: data.from_tensors(drawn(tf.ones([3]), tf.ones([n % 2 * 2 + 1]))))
        return [[int(x) for x in dataset] for _ in range(2)]

    def of_any_rank():
        def elements():
            yield from ([1.0, 2.0], [[1.0]], 3.0, [4.0])

        def total(x, seed=None):
            return tf.reduce_sum(tf.random.uniform(tf.shape(x), maxval=100, dtype=tf.int32, seed=seed))

        tf.random.set_seed(1)
        drawn = tf.function(lambda x: total(x, seed=3), input_signature=[tf.TensorSpec(None)])
        dataset = data.from_generator(elements, output_signature=tf.TensorSpec(None)).map(total)
        before = int(drawn(tf.constant(1.0)))
        tf.random.set_seed(2)
        return [[int(x) for x in dataset] for _ in range(2)], before, [int(drawn(tf.constant(x))) for x in elements()]

    def reduced_in_flat_map():
        tf.random.set_seed(1)
        dataset = data.range(2).flat_map(
            lambda _: data.from_tensors(data.range(3).reduce(0, lambda total, _: total * 100 + number()))
        )
        return [[int(x) for x in dataset] for _ in range(2)]

    def python(call):
        def run():
            tf.random.set_seed(1)
            dataset = data.range(3).flat_map(lambda x: data.from_tensors(tf.py_function(call, [x], tf.int32)))
            mapped = data.range(3).map(lambda x: tf.py_function(call, [x], tf.int32))
            return [[int(x) for x in each] for each in (dataset, dataset, mapped, mapped)], int(call())

        return run

    def eager_numbers_beside():
        tf.random.set_seed(1)
        found = [int(number())]
        for make in (middle_of_shuffles, innermost, sampled):
            dataset = data.range(2).flat_map(make)
            found.append(int(number()))
            list(dataset)
            found.append(int(number()))
        return found

    return (
        {f"two iterations of {label}": lambda make=make: twice(make) for label, make in datasets.items()}
        | {f"a seed set after {label} is made": lambda make=make: twice(make, 2) for label, make in later.items()}
        | {f"{label} of iterators in turn": lambda make=make: in_turn(make) for label, make in open_at_once.items()}
        | {
            "a function called in map and elsewhere": function_called_elsewhere,
            "a function called in flat_map and elsewhere": function_called_by_flat_map,
            "a function of two sizes called in flat_map": function_of_two_sizes,
            "random ops of any rank": of_any_rank,
            "a reduced dataset in flat_map": reduced_in_flat_map,
            "Python called in datasets": python(number),
            "Python with a seed called in datasets": python(
                lambda *_: tf.random.uniform([], maxval=100, dtype=tf.int32, seed=3)
            ),
            "eager numbers beside datasets": eager_numbers_beside,
        }
    )


def _in_graphs(tf):
    """TensorFlow 1 graphs, whose ops and datasets get the seeds of their positions in the graph."""
    v1 = tf.compat.v1

    number = _number_maker(tf)

    def in_graph(make):
        def run():
            with tf.Graph().as_default():
                v1.set_random_seed(1)
                return make()

        return run

    def constant():
        before = number()
        dataset = v1.data.Dataset.range(4).shuffle(4).map(lambda x: (x, number()))
        between = number()
        other = v1.data.Dataset.range(4).shuffle(4)
        tensors = [before, between, v1.data.make_one_shot_iterator(dataset).get_next()]
        tensors.append(v1.data.make_one_shot_iterator(other).get_next())
        with v1.Session() as session:
            return [str(session.run(tensors)) for _ in range(4)]

    def fed():
        size = v1.placeholder(tf.int64, [])
        before = number()
        iterator = v1.data.make_initializable_iterator(
            v1.data.Dataset.range(size).shuffle(5).map(lambda x: (x, number()))
        )
        tensors = [before, iterator.get_next(), number()]
        found = []
        with v1.Session() as session:
            for _ in range(2):
                session.run(iterator.initializer, {size: 3})
                found.append([str(session.run(tensors)) for _ in range(3)])
        return found

    def function_called_twice():
        drawn = tf.function(number)
        tensors = [drawn(), drawn(), number()]
        with v1.Session() as session:
            return [list(map(int, session.run(tensors))) for _ in range(2)]

    return {
        "datasets of a graph": in_graph(constant),
        "a dataset of a fed size": in_graph(fed),
        "a function called in a graph": in_graph(function_called_twice),
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
