"""Datasets and iterators as arguments of functions, created and iterated in them."""

from parity_calls import kind


def programs(tf):
    return _arguments(tf) | _begun(tf) | _unconverted(tf)


def total(tf):
    @tf.function
    def total(elements):
        found = tf.constant(0, tf.int64)
        for x in elements:
            found += x
        return found

    return total


def first(tf):
    @tf.function
    def first(iterator, count):
        found = tf.constant(0, tf.int64)
        for _ in tf.range(count):
            found = 10 * found + next(iterator)
        return found

    return first


def _arguments(tf):
    numbers = tf.data.Dataset.range

    def counted(function, *calls):
        return [int(function(*args)) for args in calls], function.experimental_get_tracing_count()

    def of_datasets():
        other = numbers(5).map(lambda x: x * x)
        return counted(total(tf), (numbers(4),), (numbers(9).shuffle(3),), (other,), (other.take(3),))

    def of_other_elements():
        return counted(
            total(tf), (numbers(4),), (numbers(4).batch(2).map(tf.reduce_sum),), (numbers(6).batch(3).unbatch(),)
        )

    def of_iterators():
        kept, two, three = iter(numbers(9)), tf.constant(2), tf.constant(3)
        return counted(first(tf), (kept, two), (iter(numbers(3, 9)), three), (kept, three))

    def of_both():
        function, kept = total(tf), iter(numbers(3))
        return counted(function, (numbers(4),), (kept,), (kept,), (iter(numbers(2)),))

    def nested():
        @tf.function
        def both(pair):
            found = tf.constant(0, tf.int64)
            for a in pair["a"]:
                for b in pair["b"]:
                    found += a * b
            return found

        return counted(both, ({"a": numbers(5), "b": numbers(3)},), ({"a": numbers(3), "b": numbers(4)},))

    def handed_on():
        inner, next_ones = total(tf), first(tf)

        @tf.function
        def outer(dataset, iterator):
            return 100 * inner(dataset) + next_ones(iterator, tf.constant(2))

        return counted(outer, (numbers(4), iter(numbers(7, 9))), (numbers(5), iter(numbers(5, 9))))

    def in_a_branch():
        @tf.function
        def chosen(one, other, which):
            if which:
                found = next(iter(one))
            else:
                found = next(iter(other))
            return found

        yes, no = tf.constant(True), tf.constant(False)
        return counted(chosen, (numbers(4, 9), numbers(6, 9), yes), (numbers(2, 9), numbers(3, 9), no))

    def trained():
        w = tf.Variable(1.0)
        rows = tf.data.Dataset.from_tensor_slices(([1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.0]))

        @tf.function
        def epoch(iterator, steps):
            for _ in tf.range(steps):
                x, y = next(iterator)
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((w * x - y) ** 2)
                w.assign_sub(0.05 * tape.gradient(loss, w))
            return loss

        losses = [f"{epoch(iter(rows.repeat().batch(2)), tf.constant(3)):.4f}" for _ in range(3)]
        return losses, epoch.experimental_get_tracing_count()

    def concrete():
        function = total(tf).get_concrete_function(numbers(3))
        return function(numbers(5)), function.structured_input_signature

    def too_few():
        return first(tf)(iter(numbers(1)), tf.constant(2))

    def changed_inside():
        @tf.function
        def batched(dataset):
            found = tf.constant(0, tf.int64)
            for x in dataset.map(lambda x: x + 1).batch(2):
                found += tf.reduce_prod(x)
            return found

        return [int(batched(d)) for d in (numbers(4), numbers(5), numbers(4))]

    def reduced_inside():
        reduced = tf.function(lambda d: d.reduce(tf.constant(0, tf.int64), lambda a, b: a + b))
        return [int(reduced(d)) for d in (numbers(4), numbers(5))]

    def counted_inside():
        size = tf.function(lambda d: (d.cardinality(), d.element_spec.dtype.name))
        return [int(size(d)[0]) for d in (numbers(4), numbers(5))]

    return {
        "datasets share a trace": of_datasets,
        "of elements that differ, they don't": of_other_elements,
        "iterators share a trace": of_iterators,
        "datasets and iterators have one each": of_both,
        "nested datasets": nested,
        "handed on": handed_on,
        "begun in a branch": in_a_branch,
        "trained on": trained,
        "concrete": concrete,
        "more than there is": too_few,
        "changed inside": changed_inside,
        "reduced inside": reduced_inside,
        "counted inside": counted_inside,
    }


def _begun(tf):
    numbers = tf.data.Dataset.range(5)

    def again(dataset):
        @tf.function
        def two():
            iterator = iter(dataset)
            return next(iterator), iterator.get_next()

        return [two() for _ in range(2)]

    def of_an_argument():
        @tf.function
        def two(dataset):
            iterator = iter(dataset)
            return 10 * next(iterator) + next(iterator)

        return [int(two(d)) for d in (numbers, numbers.skip(2), numbers)]

    def in_a_loop():
        @tf.function
        def firsts():
            found = tf.constant(0, tf.int64)
            for _ in tf.range(3):
                iterator = iter(numbers.skip(1))
                found += 10 * next(iterator) + next(iterator)
            return found

        return firsts()

    def handed_on():
        inner = first(tf)

        @tf.function
        def outer():
            iterator = iter(numbers)
            return inner(iterator, tf.constant(2)), inner(iterator, tf.constant(3))

        return outer(), outer(), inner.experimental_get_tracing_count()

    return {
        "begun at each run": lambda: again(numbers),
        "begun at each run, shuffled": lambda: [len(set(map(int, pair))) for pair in again(numbers.shuffle(5))],
        "begun of an argument": of_an_argument,
        "begun in a loop": in_a_loop,
        "begun and handed on": handed_on,
    }


def _unconverted(tf):
    def loop():
        found = tf.constant(0, tf.int64)
        for x in tf.data.Dataset.range(5):
            found += x
        return found

    def steps():
        iterator = iter(tf.data.Dataset.range(5))
        return [next(iterator) for _ in range(5)]

    skipped = tf.autograph.experimental.do_not_convert(loop)
    return {
        "a loop without AutoGraph": lambda: kind(tf.function(loop, autograph=False)),
        "a loop that AutoGraph skips": lambda: kind(tf.function(lambda: skipped())),
        "steps without AutoGraph": lambda: tf.function(steps, autograph=False)(),
    }
