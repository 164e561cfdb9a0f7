"""Input pipelines run by threads, of composite elements, and what ``tf.data.experimental`` has."""


def programs(tf):
    return _parallel(tf)


def shown(dataset):
    return [plain(element) for element in dataset]


def plain(x):
    if isinstance(x, tuple):
        return tuple(plain(v) for v in x)
    if isinstance(x, dict):
        return {k: plain(x[k]) for k in sorted(x)}
    if hasattr(x, "to_list"):
        return x.to_list()
    return x.numpy().tolist() if hasattr(x, "numpy") else x


def typed(dataset):
    return repr(dataset).partition(" ")[0], dataset.element_spec, int(dataset.cardinality())


def _parallel(tf):
    data, auto = tf.data.Dataset, tf.data.AUTOTUNE

    def failing(x):
        tf.debugging.assert_less(x % 3, tf.constant(2, tf.int64))
        return x

    def skipped(make):
        return lambda: shown(make(data.range(10)).ignore_errors())

    def refused(make):
        def run():
            try:
                return list(make())
            except (ValueError, tf.errors.InvalidArgumentError) as error:
                return type(error).__name__, getattr(error, "message", "").partition(" [Op")[0]

        return run

    def unordered():
        found = data.range(20).map(lambda x: x * 2, num_parallel_calls=3, deterministic=False)
        return typed(found), sorted(shown(found))

    def shuffled():
        tf.random.set_seed(7)
        return shown(data.range(9).map(lambda x: x + 1, 2).shuffle(9, seed=1).repeat(2))

    def opened(x):
        return data.range(x)

    return {
        "parallel map": lambda: shown(data.range(10).map(lambda x: x * 2, num_parallel_calls=3)),
        "parallel map, type": lambda: typed(data.range(10).map(lambda x: x * 2, num_parallel_calls=auto)),
        "parallel map of pairs": lambda: shown(
            data.from_tensor_slices(([1, 2, 3], ["a", "b", "c"])).map(lambda a, b: {"b": b, "a": a + 1}, auto).batch(2)
        ),
        "parallel map in any order": unordered,
        "parallel map shuffled": shuffled,
        "parallel batch": lambda: shown(data.range(7).batch(3, num_parallel_calls=2)),
        "parallel batch, type": lambda: typed(data.range(7).batch(3, drop_remainder=True, num_parallel_calls=2)),
        "parallel interleave": lambda: shown(
            data.range(1, 6).interleave(opened, cycle_length=2, block_length=2, num_parallel_calls=2)
        ),
        "parallel interleave, type": lambda: typed(
            data.range(3).interleave(opened, cycle_length=2, num_parallel_calls=2)
        ),
        "errors of map are left out": skipped(lambda d: d.map(failing)),
        "errors of parallel map are left out": skipped(lambda d: d.map(failing, num_parallel_calls=2)),
        "errors behind a batch are left out": skipped(lambda d: d.filter(lambda x: failing(x) >= 0).batch(2)),
        "errors behind prefetch are left out": skipped(lambda d: d.map(failing).prefetch(2)),
        "errors of a filter are left out": skipped(lambda d: d.filter(lambda x: failing(x) > 3)),
        "refuses no parallel calls": refused(lambda: data.range(3).map(lambda x: x, num_parallel_calls=0)),
        "refuses to be synchronous in parallel": refused(lambda: data.range(3).map(lambda x: x, 2, synchronous=True)),
        "refuses a negative buffer": refused(lambda: data.range(3).prefetch(-2)),
    }
