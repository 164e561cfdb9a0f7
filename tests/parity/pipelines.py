"""Input pipelines run by threads, of composite elements, and what ``tf.data.experimental`` has."""


def programs(tf):
    return _parallel(tf) | _composite(tf)


def shown(dataset):
    return [plain(element) for element in dataset]


def plain(x):
    if isinstance(x, tuple):
        return tuple(plain(v) for v in x)
    if isinstance(x, dict):
        return {k: plain(x[k]) for k in sorted(x)}
    if hasattr(x, "dense_shape"):
        return x.indices.numpy().tolist(), x.values.numpy().tolist(), x.dense_shape.numpy().tolist()
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


def _composite(tf):
    data = tf.data.Dataset
    ragged = tf.ragged.constant([[1, 2], [3], [], [4, 5, 6]])
    deep = tf.ragged.constant([[[1], [2, 3]], [[]], [[4, 5]]])
    sparse = tf.sparse.from_dense([[1, 0], [0, 2], [3, 4]])

    def lengths(n):
        return data.range(1, n).map(lambda x: tf.fill([x], x))

    def pairs():
        return data.from_tensor_slices({"r": ragged, "x": [1, 2, 3, 4]})

    def of_generator():
        spec = tf.RaggedTensorSpec([None, None], tf.int32)
        return data.from_generator(lambda: iter([deep[0], deep[1], deep[2]]), output_signature=spec)

    def looped():
        @tf.function
        def total(rows):
            found = tf.constant(0)
            for row in rows:
                found += tf.reduce_sum(row) * tf.cast(row.nrows(), tf.int32)
            return found

        return total(data.from_tensor_slices(ragged).batch(2))

    def stepped():
        iterator = iter(data.from_tensor_slices(deep))
        step = tf.function(lambda: next(iterator))
        return [plain(step()), plain(step())]

    def drained(make):
        return lambda: shown(make())

    made = {
        "ragged slices": lambda: data.from_tensor_slices(ragged),
        "ragged slices of depth": lambda: data.from_tensor_slices(deep),
        "ragged slices beside dense ones": pairs,
        "one ragged element": lambda: data.from_tensors(ragged),
        "ragged batches": lambda: data.from_tensor_slices(ragged).batch(3),
        "ragged batches of whole size": lambda: data.from_tensor_slices(deep).batch(2, drop_remainder=True),
        "ragged batches of a dict": lambda: pairs().batch(2),
        "ragged batches taken apart": lambda: pairs().batch(3).unbatch(),
        "ragged batches of another size": lambda: data.from_tensor_slices(deep).batch(2).rebatch(3),
        "ragged results of map": lambda: data.range(4).map(lambda n: tf.ragged.range([n, n + 1])).batch(2),
        "ragged arguments of map": lambda: (
            data.from_tensor_slices(deep).map(lambda r: tf.reduce_sum(r, axis=1)).take(2)
        ),
        "ragged elements of a generator": of_generator,
        "ragged elements zipped": lambda: data.zip((data.from_tensor_slices(ragged), data.range(9))).batch(2),
        "ragged elements filtered": lambda: data.from_tensor_slices(deep).filter(lambda r: tf.size(r.values) > 0),
        "ragged elements kept": lambda: data.from_tensor_slices(deep).cache().repeat(2),
        "ragged_batch": lambda: lengths(5).ragged_batch(2),
        "ragged_batch of int32 splits": lambda: lengths(4).ragged_batch(2, True, row_splits_dtype=tf.int32),
        "ragged_batch of fixed sizes": lambda: data.from_tensor_slices([[1, 2], [3, 4]]).ragged_batch(2),
        "ragged_batch of matrices": lambda: data.from_generator(
            lambda: iter([[[1, 2]], [[3, 4], [5, 6]]]), output_signature=tf.TensorSpec([None, 2], tf.int32)
        ).ragged_batch(2),
        "sparse slices": lambda: data.from_tensor_slices(sparse),
        "sparse batches": lambda: data.from_tensor_slices({"s": sparse, "x": [1, 2, 3]}).batch(2),
        "sparse batches taken apart": lambda: data.from_tensor_slices(sparse).batch(2).unbatch(),
        "sparse_batch": lambda: lengths(4).sparse_batch(2, [4]),
        "sparse_batch of the largest": lambda: lengths(4).sparse_batch(2, [None]),
    }
    shows = {label: drained(make) for label, make in made.items()}
    types = {f"{label}, type": lambda make=make: typed(make()) for label, make in made.items()}
    return {
        **shows,
        **types,
        "ragged elements in a loop of a function": looped,
        "ragged elements of a traced iterator": stepped,
        "ragged elements reduced": lambda: data.from_tensor_slices(deep).reduce(0, lambda n, r: n + tf.size(r.values)),
        "refuses sparse_batch of a pair": lambda: data.zip((data.range(2), data.range(2))).sparse_batch(2, []),
        "refuses sparse_batch of longer rows": lambda: _raised(drained(lambda: lengths(4).sparse_batch(2, [2]))),
    }


def _raised(run):
    try:
        return run()
    except Exception as error:
        return type(error).__name__
