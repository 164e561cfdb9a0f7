"""Elements of datasets that are None, and the specs of datasets and iterators."""


def programs(tf):
    return _nones(tf) | _iterators(tf)


def _nones(tf):
    range_of = tf.data.Dataset.range

    def paired():
        return range_of(4).map(lambda x: (x, None))

    def specs():
        yield tf.data.Dataset.from_tensors((1, None)).element_spec
        yield tf.data.Dataset.from_tensor_slices(([1, 2], None)).element_spec
        yield paired().element_spec
        yield paired().batch(2).element_spec

    def elements():
        yield list(tf.data.Dataset.from_tensor_slices(([1, 2], None)))
        yield list(paired().take(2))
        yield list(paired().batch(2))
        yield list(paired().batch(2).unbatch().take(2))
        yield list(paired().shuffle(1).repeat(2).skip(6))
        yield list(paired().map(lambda x, none: (x + 1, none is None, none)).take(1))
        yield list(tf.data.Dataset.zip((range_of(1), paired())).take(1))
        yield list(paired().filter(lambda x, none: x > 2))
        yield list(paired().map(lambda x, none: (x, none), num_parallel_calls=2).prefetch(1).take(1))
        yield list(paired().take(1).as_numpy_iterator())
        yield list(range_of(2).scan(0, lambda s, x: (s + 1, (x, None))))
        yield list(paired().take(1).concatenate(paired().take(1)).cache())
        yield list(range_of(1).interleave(lambda i: paired().take(1), cycle_length=1))
        yield paired().take(1).get_single_element()
        yield paired().reduce(0, lambda s, e: s + 1)

    @tf.function
    def total(dataset):
        t = tf.constant(0, tf.int64)
        for x, _ in dataset:
            t += x
        return t

    def spec():
        none, scalar = tf.NoneTensorSpec(), tf.TensorSpec([])
        yield none, none == tf.NoneTensorSpec(), none == scalar, isinstance(none, tf.TypeSpec)
        yield [none.is_compatible_with(x) for x in (None, none, 1, scalar)]
        yield tf.type_spec_from_value(None)

    return {
        "none specs": lambda: list(specs()),
        "none elements": lambda: list(elements()),
        "none in a traced loop": lambda: total(paired()),
        "none spec": lambda: list(spec()),
    }


def _iterators(tf):
    scalar = tf.TensorSpec([], tf.int64)
    spec = tf.data.IteratorSpec(scalar)

    @tf.function(input_signature=[spec])
    def following(iterator):
        return next(iterator) + 1

    def called():
        iterator = iter(tf.data.Dataset.range(3))
        yield following(iterator)
        yield following(iterator)
        yield following(iter(tf.data.Dataset.range(7, 9)))
        yield following.experimental_get_tracing_count()

    def compared():
        iterator = iter(tf.data.Dataset.range(3))
        yield spec == tf.data.IteratorSpec(scalar), spec == tf.data.IteratorSpec(tf.TensorSpec([]))
        yield tf.type_spec_from_value(iterator) == spec
        yield spec.is_compatible_with(iterator), tf.data.IteratorSpec(tf.TensorSpec([])).is_compatible_with(iterator)
        yield spec.is_subtype_of(tf.data.IteratorSpec(tf.TensorSpec(None, tf.int64)))

    @tf.function(input_signature=[tf.data.DatasetSpec(scalar)])
    def summed(dataset):
        return dataset.reduce(tf.constant(0, tf.int64), lambda a, b: a + b)

    return {
        "iterator by its spec": lambda: list(called()),
        "iterator spec": lambda: list(compared()),
        "dataset by its spec": lambda: [summed(tf.data.Dataset.range(n)) for n in (3, 5)],
    }
