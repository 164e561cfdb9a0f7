"""Random numbers that functions draw: in loops over datasets, under gradient tapes, and in vectorized maps."""


def programs(tf):
    return _in_loops(tf) | _under_tapes(tf) | _in_maps(tf)


def _seeded(program):
    def run(tf):
        tf.random.set_seed(1)
        return program()

    return run


def _all_seeded(tf, programs):
    return {label: lambda program=program: _seeded(program)(tf) for label, program in programs.items()}


def _rounded(x):
    return str(x.numpy().round(3).tolist())


def _in_loops(tf):
    """TensorFlow makes a loop over a dataset a reduction, whose random ops start again; loops over iterators are loops."""
    data = tf.data.Dataset

    def number(seed=None):
        return tf.random.uniform([], maxval=100, dtype=tf.int32, seed=seed)

    def thrice(python_function, *args):
        def run():
            function = tf.function(python_function)
            return [tf.nest.map_structure(int, function(*(arg() for arg in args))) for _ in range(3)]

        return run

    def digits(elements):
        total = 0
        for _ in elements:
            total = 100 * total + number()
        return total

    def over_dataset():
        total = 0
        for _ in data.range(3):
            total = 100 * total + number()
        return total

    def over_iterator():
        total = 0
        for _ in iter(data.range(3)):
            total += number()  # TensorFlow may draw the numbers in any order
        return total

    def over_range():
        total = 0
        for _ in tf.range(3):
            total += number()  # TensorFlow may draw the numbers in any order
        return total

    def reduced():
        return data.range(3).reduce(0, appended)

    def reduced_twice():
        return data.range(3).reduce(0, appended), data.range(3).reduce(0, appended)

    def of_seed():
        total = 0
        for _ in data.range(3):
            total = 100 * total + number(seed=7)
        return total

    def between():
        before, total = number(), 0
        for _ in data.range(3):
            total = 100 * total + number()
        return before, total, number()

    def to_a_break():
        total = 0
        for x in data.range(9):
            if x > 2:
                break
            total = 100 * total + number()
        return total

    def nested():
        total = 0
        for _ in data.range(2):
            for _ in data.range(2):
                total = 100 * total + number()
            total += number()
        return total

    def in_a_loop():
        total = 0
        for _ in tf.range(2):
            for _ in data.range(2):
                total = 100 * total + number()
        return total

    def in_branches():
        total = 0
        for x in data.range(3):
            if x > 0:
                total = 100 * total + number()
            else:
                total = 100 * total + number()
        return total

    drawn = tf.function(number)

    def by_a_function():
        total = 0
        for _ in data.range(3):
            total = 100 * total + drawn()
        return total

    def appended(total, _):
        return total * 100 + number()

    def in_map(use):
        return lambda: [list(map(int, dataset)) for dataset in [data.range(3).map(use)] * 2]

    def mapped(_):
        total = 0
        for _ in data.range(3):
            total = 100 * total + number()
        return total

    programs = {
        "a dataset": thrice(over_dataset),
        "an argument": thrice(digits, lambda: data.range(3)),
        "an iterator": thrice(over_iterator),
        "a range": thrice(over_range),
        "a dataset, seeded": thrice(of_seed),
        "a dataset, with numbers before and after": thrice(between),
        "a dataset to a break": thrice(to_a_break),
        "datasets, nested": thrice(nested),
        "datasets in a loop": thrice(in_a_loop),
        "a dataset, in branches": thrice(in_branches),
        "a dataset, by a function": thrice(by_a_function),
        "a reduced dataset": thrice(reduced),
        "two reduced datasets": thrice(reduced_twice),
        "a reduced dataset in map": in_map(lambda _: data.range(3).reduce(0, appended)),
        "a dataset in map": in_map(mapped),
    }
    return _all_seeded(tf, {f"numbers over {label}": program for label, program in programs.items()})


def _under_tapes(tf):
    """TensorFlow calls other graphs of a function under tapes, with random states of their own."""

    def drawn():
        return tf.function(lambda x: x * tf.random.uniform([]))

    def plain(function, x):
        return _rounded(function(x))

    def once(function, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return _rounded(y), _rounded(tape.gradient(y, x))

    def without_gradient(function, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            return _rounded(function(x))

    def unwatched(function, x):
        with tf.GradientTape():
            return _rounded(function(x))

    def persistent(function, x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = function(x)
        return _rounded(y), _rounded(tape.gradient(y, x))

    def twice(function, x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            first = once(function, x)
        return first

    def tangents(function, x):
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator:
            y = function(x)
        return _rounded(y), _rounded(accumulator.jvp(y))

    def calls(*kinds):
        def run():
            function, x = drawn(), tf.constant(1.0)
            return [kind(function, x) for kind in kinds]

        return run

    def of_a_variable():
        weight = tf.Variable(1.0)
        function = tf.function(lambda _: weight * tf.random.uniform([]))
        found = []
        for _ in range(2):
            found.append(plain(function, weight))
            with tf.GradientTape() as tape:
                y = function(0.0)
            found.append((_rounded(y), _rounded(tape.gradient(y, weight))))
        return found

    def seeded_again():
        function, x = drawn(), tf.constant(1.0)
        found = []
        for _ in range(2):
            tf.random.set_seed(5)
            found.append([kind(function, x) for kind in (plain, once, once, persistent)])
        return found

    def in_a_function():
        function = drawn()

        @tf.function
        def both(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            return y, tape.gradient(y, x), function(x)

        return [[_rounded(t) for t in both(tf.constant(1.0))] for _ in range(2)], plain(function, tf.constant(1.0))

    programs = {
        "first under a tape": calls(once, plain, once, plain),
        "later under a tape": calls(plain, once, plain, once, once),
        "under a tape without a gradient": calls(plain, without_gradient, plain, once),
        "under a tape that doesn't watch": calls(plain, unwatched, plain, unwatched, once),
        "under tapes of several orders": calls(plain, twice, once, persistent, twice, plain, once, persistent),
        "with tangents": calls(plain, tangents, once, plain, tangents, once),
        "of a Variable": of_a_variable,
        "seeded again": seeded_again,
        "in a function": in_a_function,
    }
    return _all_seeded(tf, {f"numbers of a function {label}": program for label, program in programs.items()})


def _in_maps(tf):
    """TensorFlow draws the numbers of all elements of a vectorized map at once."""
    zeros = tf.zeros([3])
    logits = tf.reshape(tf.range(24.0), [3, 2, 4]) / 7

    def mapped(function, elements=zeros, times=2):
        def run():
            found = [tf.vectorized_map(function, elements) for _ in range(times)]
            return [tf.nest.map_structure(_rounded, each) for each in found]

        return run

    def compiled(function, elements=zeros):
        def run():
            mapped_function = tf.function(lambda rows: tf.vectorized_map(function, rows))
            return [tf.nest.map_structure(_rounded, mapped_function(elements)) for _ in range(2)]

        return run

    def of_unknown_size():
        function = tf.function(
            lambda rows: tf.vectorized_map(lambda row: row + tf.random.uniform([2]), rows),
            input_signature=[tf.TensorSpec([None, 2])],
        )
        return [_rounded(function(tf.zeros([n, 2]))) for n in (2, 3)]

    def differentiated():
        x = tf.range(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.vectorized_map(lambda element: element * tf.random.uniform([]), x)
        return _rounded(y), _rounded(tape.gradient(y, x))

    def of_a_generator():
        generator = tf.random.Generator.from_seed(1)
        rows = [tf.vectorized_map(lambda _: generator.normal([2]), zeros) for _ in range(2)]
        return [*map(_rounded, rows), _rounded(generator.normal([2]))]

    def beside_others():
        before = tf.random.uniform([])
        rows = tf.vectorized_map(lambda _: tf.random.uniform([]), zeros)
        return [_rounded(t) for t in (before, rows, tf.random.uniform([]))]

    two = lambda x: (x * 0 + tf.random.uniform([]), tf.random.normal([2]))  # noqa: E731
    programs = {
        "uniform": mapped(lambda x: x * 0 + tf.random.uniform([])),
        "several ops": mapped(two),
        "seeds": mapped(
            lambda _: (tf.random.uniform([], seed=3), tf.random.uniform([], seed=3), tf.random.uniform([]))
        ),
        "several ops, compiled": compiled(two),
        "integers": mapped(lambda _: tf.random.uniform([3], -5, 5, dtype=tf.int64)),
        "doubles": mapped(lambda _: tf.random.uniform([3], dtype=tf.float64)),
        "truncated normal": mapped(lambda _: tf.random.truncated_normal([2])),
        "scaled normal": mapped(lambda x: tf.random.normal([3], x, 2.0), tf.range(3.0)),
        "gamma": mapped(lambda x: tf.random.gamma([2], x + 1)),
        "poisson": mapped(lambda x: tf.random.poisson([2], x + 5)),
        "dropout": mapped(lambda x: tf.nn.dropout(x, 0.5), tf.ones([3, 4])),
        "dropout, compiled": compiled(lambda x: tf.nn.dropout(x, 0.5), tf.ones([3, 4])),
        "categorical": mapped(lambda x: tf.random.categorical(x, 3), logits),
        "categorical, compiled": compiled(lambda x: tf.random.categorical(x, 3), logits),
        "categorical of common logits": mapped(lambda _: tf.random.categorical([[0.0, 1.0, 0.5], [1.0, 0.0, 0.0]], 3)),
        "nested": mapped(lambda x: tf.vectorized_map(lambda _: tf.random.uniform([]), x), tf.zeros([2, 3])),
        "nested, compiled": compiled(lambda x: tf.vectorized_map(lambda _: tf.random.uniform([]), x), tf.zeros([2, 3])),
        "unknown size": of_unknown_size,
        "a gradient": differentiated,
        "a generator": of_a_generator,
        "others beside": beside_others,
    }
    return _all_seeded(tf, {f"numbers in a map: {label}": program for label, program in programs.items()})
