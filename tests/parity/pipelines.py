"""Input pipelines run by threads, of composite elements, and what ``tf.data.experimental`` has."""

import os
import sqlite3
import tempfile

from parity_calls import result_or_kind


def programs(tf):
    return (
        _parallel(tf)
        | _composite(tf)
        | _tables(tf)
        | _older(tf)
        | _zipped_in_step(tf)
        | _long_chains(tf)
        | _counted(tf)
    )


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
    found = x.numpy() if hasattr(x, "numpy") else x
    return found.tolist() if hasattr(found, "tolist") else found


def typed(dataset):
    return repr(dataset).partition(" ")[0], dataset.element_spec, int(dataset.cardinality())


def _parallel(tf):
    data, auto = tf.data.Dataset, tf.data.AUTOTUNE

    def failing(x):
        tf.debugging.assert_less(x % 3, tf.constant(2, tf.int64))
        return x

    def skipped(make):
        return lambda: shown(make(data.range(10)).ignore_errors())

    def rejected(make):
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
        "refuses no parallel calls": rejected(lambda: data.range(3).map(lambda x: x, num_parallel_calls=0)),
        "refuses to be synchronous in parallel": rejected(lambda: data.range(3).map(lambda x: x, 2, synchronous=True)),
        "refuses a negative buffer": rejected(lambda: data.range(3).prefetch(-2)),
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
        "refuses sparse_batch of longer rows": lambda: result_or_kind(drained(lambda: lengths(4).sparse_batch(2, [2]))),
    }


def _zipped_in_step(tf):
    """Zips of datasets of which one fails, or ends before others."""
    data = tf.data.Dataset

    def failing():
        return data.range(4).map(lambda x: tf.debugging.check_numerics(1 / tf.cast(x - 1, tf.float32), "of one"))

    def numbers():
        return data.range(4).map(lambda _: tf.random.uniform([], maxval=100, dtype=tf.int32))

    def drawn(*datasets):
        tf.random.set_seed(1)
        return shown(data.zip(datasets).repeat(2))

    def steps(*datasets):
        """The first steps of an iteration, with its errors and ends."""
        iterator = iter(data.zip(datasets))

        def step():
            return [float(x) for x in iterator.get_next()]

        return [result_or_kind(step) for _ in range(5)]

    return {
        "zip after an error of the first": lambda: shown(data.zip(failing(), data.range(4)).ignore_errors()),
        "zip after an error of the second": lambda: shown(data.zip(data.range(4), failing()).ignore_errors()),
        "zip after errors of two": lambda: shown(
            data.zip(data.range(4), failing(), data.range(4), failing()).ignore_errors()
        ),
        "zip of an error and an end": lambda: steps(failing(), data.range(1), data.range(4)),
        "zip of an end and an error": lambda: steps(data.range(1), failing(), data.range(4)),
        "zip of a short dataset and a drawn one": lambda: drawn(data.range(2), numbers()),
        "zip of drawn datasets around a short one": lambda: drawn(numbers(), data.range(2), numbers()),
    }


def _long_chains(tf):
    """More datasets, one after the other, than Python's recursion limit allows to call each other."""
    data = tf.data.Dataset

    def chained(change):
        dataset = data.range(3)
        for _ in range(300):
            dataset = change(dataset)
        return shown(dataset), shown(data.zip(dataset, dataset))

    changes = {
        "unique": lambda d: d.unique(),
        "prefetch": lambda d: d.prefetch(1),
        "batch and unbatch": lambda d: d.batch(2).unbatch(),
        "cache": lambda d: d.cache(),
        "concatenate": lambda d: d.concatenate(data.range(0)),
        "ignore_errors": lambda d: d.ignore_errors(),
    }
    return {f"300 times {name}": lambda change=change: chained(change) for name, change in changes.items()}


def _older(tf):
    data, older = tf.data.Dataset, tf.data.experimental

    def total():
        return older.Reducer(
            lambda key: (tf.zeros([], tf.int64), key),
            lambda state, x: (state[0] + x, state[1]),
            lambda found, key: {"sum": found, "key": key},
        )

    def listed():
        return older.from_list([(1, "a"), (2, "b"), (3, "c")])

    def padded():
        return data.from_tensor_slices({"x": [1, 2], "y": [[1.0], [2.0]]}).apply(older.pad_to_cardinality(4))

    def options():
        made = tf.data.Options()
        made.autotune.cpu_budget = 3
        other = tf.data.Options()
        other.threading.private_threadpool_size = 5
        found = data.range(3).with_options(made).with_options(other).options()
        return found.autotune.cpu_budget, found.threading.private_threadpool_size, found.deterministic

    def options_of_sources():
        made = tf.data.Options()
        made.autotune.cpu_budget = 3
        other = tf.data.Options()
        other.deterministic = False
        first = data.range(3).with_options(made).map(lambda x: x + 1)
        second = data.range(3).with_options(other).batch(2)
        found = [first.options(), data.zip((first, second)).options(), first.concatenate(data.range(2)).options()]
        return [(each.autotune.cpu_budget, each.deterministic) for each in found]

    def misspelt():
        tf.data.Options().determinstic = True

    made = {
        "a list": listed,
        "a list of other sizes": lambda: older.from_list([[1], [2, 3]]),
        "reduced by key": lambda: data.range(7).apply(older.group_by_reducer(lambda x: x % 3, total())),
        "padded to a number": padded,
        "enumerated": lambda: data.range(3).apply(tf.data.experimental.enumerate_dataset(start=4)),
        "mapped and batched": lambda: data.range(5).apply(older.map_and_batch(lambda x: x + 1, 2)),
        "scanned": lambda: data.range(4).apply(
            tf.data.experimental.scan(tf.zeros([], tf.int64), lambda s, x: (s + x, s))
        ),
        "taken while": lambda: data.range(4).apply(tf.data.experimental.take_while(lambda x: x < 2)),
        "each once": lambda: data.range(4).map(lambda x: x % 2).apply(tf.data.experimental.unique()),
        "unbatched": lambda: data.range(4).batch(2).apply(older.unbatch()),
        "ragged": lambda: older.from_list([[1], [2, 3]]).apply(older.dense_to_ragged_batch(2)),
        "sparse": lambda: older.from_list([[1], [2, 3]]).apply(older.dense_to_sparse_batch(2, [3])),
    }
    return {
        **{f"older: {label}": lambda make=make: (typed(make()), shown(make())) for label, make in made.items()},
        "element at": lambda: older.at(data.range(5).map(lambda x: x * 2), 3).numpy(),
        "element beyond": lambda: older.at(data.range(5), 5),
        "options": options,
        "options of the datasets before": options_of_sources,
        "refuses an option that there is not": misspelt,
        "refuses an empty list": lambda: older.from_list([]),
        "refuses to pad fewer": lambda: data.from_tensor_slices({"x": [1, 2]}).apply(older.pad_to_cardinality(1)),
        "refuses to pad what is no dict": lambda: data.range(2).apply(older.pad_to_cardinality(3)),
        "policies": lambda: [p.value for p in older.AutoShardPolicy] + [p.value for p in older.ExternalStatePolicy],
    }


TABLE = "size,name,share,big,rest\n1,one,0.5,5000000000,\n2,,1,1,\n,three,1e300,2,\n"


def _in_pairs(spec):
    """Dicts as their items: Python writes an OrderedDict otherwise from 3.12 on."""
    if isinstance(spec, tuple):
        return tuple(map(_in_pairs, spec))
    return list(spec.items()) if isinstance(spec, dict) else spec


def _tables(tf):
    def made(content=TABLE, files=1, **options):
        def run():
            with tempfile.TemporaryDirectory() as folder:
                for i in range(files):
                    with open(os.path.join(folder, f"{i}.csv"), "w") as file:
                        file.write(content)
                chosen = {"shuffle": False, "num_epochs": 1, **options}
                found = tf.data.experimental.make_csv_dataset(os.path.join(folder, "*.csv"), 2, **chosen)
                return _in_pairs(found.element_spec), shown(found.take(4))

        return run

    def sql(query="select name, age, weight, here from people order by age", kinds=None, driver="sqlite"):
        kinds = kinds or (tf.string, tf.int32, tf.float64, tf.bool)

        def run():
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "people.db")
                base = sqlite3.connect(path)
                base.execute("create table people (name text, age integer, weight real, here integer)")
                base.executemany("insert into people values (?, ?, ?, ?)", [("Ann", 7, 21.5, 1), ("Bo", 9, 30.0, 0)])
                base.commit()
                base.close()
                found = tf.data.experimental.SqlDataset(driver, path, query, kinds)
                return typed(found), shown(found)

        return run

    def rejected(**options):
        return lambda: result_or_kind(made(**options))

    def message(**options):
        def run():
            try:
                return made(**options)()
            except ValueError as error:
                return str(error)

        return run

    def shuffled():
        tf.random.set_seed(3)
        return made("n\n" + "\n".join(map(str, range(9))), shuffle=True, num_epochs=2)()

    return {
        "a table": made(),
        "a table with labels": made(label_name="name"),
        "a table again and again": made(num_epochs=None),
        "a table twice": made(num_epochs=2, prefetch_buffer_size=0),
        "a table of several files": made(files=2),
        "a table of several files in turn": made(files=2, num_parallel_reads=2),
        "a table shuffled": shuffled,
        "some columns by name": made(select_columns=["share", "size"]),
        "some columns by number": made(select_columns=[0, 1], column_defaults=[tf.int64, ""], ignore_errors=True),
        "columns that are named": made("1;a\n2;b\n", header=False, column_names=["n", "s"], field_delim=";"),
        "a value for what is missing": made("a,b\n1,?\n?,2.5\n", na_value="?"),
        "types from few rows": message(content="a\n1\n2\n", num_rows_for_inference=1),
        "refuses columns without names": message(header=False),
        "refuses a label that is no column": message(label_name="price"),
        "refuses a column that is not there": message(select_columns=["price"]),
        "refuses a column's number that is not there": message(select_columns=[9]),
        "refuses a column twice": rejected(select_columns=[1, 1]),
        "refuses names twice": message(content="a,a\n1,2\n"),
        "refuses as many defaults": message(select_columns=[1], column_defaults=[tf.int32, tf.int32]),
        "refuses an empty table": rejected(content=""),
        "a query": sql(),
        "a query of less": sql("select name from people where age > 7", (tf.string,)),
        "refuses another database": lambda: result_or_kind(sql(driver="postgres")),
        "refuses a query that fails": lambda: result_or_kind(sql("select no from where")),
        "refuses another number of columns": lambda: result_or_kind(sql("select name from people")),
    }


def _counted(tf):
    """A dataset's function that counts in a Variable, which the traced function around it assigns and reads."""
    count = tf.Variable(0)
    rows = tf.data.Dataset.range(6).batch(2)

    def numbered(batch):
        start = count.read_value()
        return tf.range(start, count.assign_add(tf.size(batch))), batch

    def total():
        count.assign(0)
        return rows.map(numbered).reduce(0, lambda state, row: state * 10 + tf.reduce_sum(row[0]))

    def in_loops():
        found = 0
        for i in tf.range(2):
            count.assign(i * 10)
            for numbers, _ in rows.map(numbered).take(2):
                found += tf.reduce_sum(numbers)
            if found > 1000:
                count.assign(-1)
        return found, count.read_value()

    def thrice(body):
        traced = tf.function(body)
        return [body(), traced(), traced(), count.numpy()]

    return {
        "counted": lambda: thrice(total),
        "counted twice": lambda: thrice(lambda: (total(), total())),
        "counted in loops": lambda: [tf.function(in_loops)() for _ in range(2)],
    }
