"""Examples in TensorFlow's docstrings, and variations of them."""

import collections
import tempfile

import numpy as np


def programs(tf):
    made = {}
    for group in (
        _parsed,
        _python,
        _datasets,
        _options,
        _nests,
        _tables,
        _queues,
        _compared,
        _graphs,
        _others,
        _wrapped,
        _called,
    ):
        made |= group(tf)
    return made


def _parsed(tf):
    io = tf.io

    def traced(change, like=tf.float32):
        return tf.function(lambda x: change(io.parse_tensor(x, like)), autograph=False)

    double = traced(lambda y: (y * 2, tf.rank(y)))
    square = io.serialize_tensor([[1.0, 2.0], [3.0, 4.0]])
    pairs = tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]]).map(io.serialize_tensor)
    whole = pairs.map(lambda x: io.parse_tensor(x, tf.int32))

    def known(y):
        y.set_shape([2, 2])
        return tf.matmul(y, y), y.shape

    return {
        "parse_tensor traced": lambda: double(square),
        "parse_tensor traced of another rank": lambda: double(io.serialize_tensor(5.0)),
        "parse_tensor traced of strings": lambda: traced(tf.strings.length, tf.string)(
            io.serialize_tensor(["a", "bc"])
        ),
        "parse_tensor traced of another dtype": lambda: double(io.serialize_tensor(5)),
        "parse_tensor traced of no scalar": lambda: double(tf.constant(["a"])),
        "parse_tensor with a shape": lambda: traced(known)(square),
        "parse_tensor whose shape is ensured": lambda: traced(
            lambda y: tf.reduce_sum(tf.ensure_shape(y, [None, 2]), 1)
        )(square),
        "parse_tensor of elements": lambda: (whole, list(whole)),
        "parse_tensor of elements in batches": lambda: list(whole.batch(2)),
        "parse_tensor of elements with a shape": lambda: list(whole.map(lambda x: tf.ensure_shape(x, [2])).batch(2)),
    }


def _python(tf):
    def expected(*values):
        texts = [f"{type(v).__name__} {np.shape(v)}" for v in values]
        return np.array(", ".join(texts).replace("bool_", "bool").encode(), object)

    def upper(text):
        return text.decode().upper()

    values = [tf.constant(v) for v in (1, "x", ["x"], 1.5, [1], True)]
    show = tf.function(lambda *a: tf.numpy_function(expected, a, tf.string), autograph=False)
    shout = tf.function(lambda x: tf.numpy_function(upper, [x], tf.string), autograph=False)
    tensor = tf.function(lambda x: tf.py_function(lambda s: upper(s.numpy()), [x], tf.string), autograph=False)
    texts = tf.data.Dataset.from_tensor_slices(["a", "b"])

    def joined(x):
        y = tf.numpy_function(upper, [x], tf.string)
        y.set_shape([])
        return tf.strings.join([y, "z"])

    return {
        "numpy_function's arguments": lambda: show(*values),
        "numpy_function's arguments, eager": lambda: tf.numpy_function(
            lambda *v: expected(*v).item(), [1.0, [2, 3]], tf.string
        ),
        "numpy_function of a float": lambda: tf.numpy_function(np.sinh, [1.0], tf.float64).dtype,
        "texts of unknown rank": lambda: (shout(values[1]), tensor(values[1])),
        "texts of unknown rank with a shape": lambda: tf.function(joined, autograph=False)(values[1]),
        "texts of elements": lambda: (texts.map(shout), list(texts.map(shout).as_numpy_iterator())),
        "lengths of texts of unknown rank": lambda: list(texts.map(shout).map(tf.strings.length).as_numpy_iterator()),
    }


def _datasets(tf):
    data, rows = tf.data.Dataset, tf.data.Dataset.from_tensor_slices({"a": [1, 2, 3]})
    a, b = data.from_tensors("a").repeat(), data.from_tensors("b").repeat()

    def counted(count):
        return lambda: list(data.range(2).apply(tf.data.experimental.assert_cardinality(count)))

    def read_only():
        next(data.from_tensors([1.0]).as_numpy_iterator())[0] = 2.0

    return {
        "a window's parts": lambda: list(rows.window(2).map(lambda w: w["a"]).flat_map(lambda w: w.batch(2))),
        "windows in batches": lambda: [list(w) for w in data.range(3).window(2).map(lambda w: w.batch(2))],
        "as_numpy_iterator's next": lambda: rows.as_numpy_iterator().next(),
        "as_numpy_iterator of sparse": lambda: next(
            data.from_tensors(tf.sparse.from_dense([1, 0])).as_numpy_iterator()
        ),
        "as_numpy_iterator's arrays": read_only,
        "NumpyIterator": lambda: type(rows.as_numpy_iterator()) is tf.data.NumpyIterator,
        "fewer than asserted": counted(5),
        "more than asserted": counted(1),
        "zip of a list": lambda: data.zip([a, b]),
        "window of none": lambda: data.range(3).window(0),
        "windows without a shift": lambda: data.range(3).window(2, shift=0),
        "interleave without a cycle": lambda: data.range(3).interleave(lambda x: a, cycle_length=0),
        "groups of no dataset": lambda: data.range(3).group_by_window(lambda x: x, lambda k, w: k, window_size=2),
        "padded to another rank": lambda: data.from_tensors([1]).padded_batch(2, padded_shapes=[2, 3]),
        "unbatch of scalars": lambda: data.range(3).unbatch(),
        "choices out of range": lambda: list(data.choose_from_datasets([a, b], data.range(4))),
        "samples of other specs": lambda: data.sample_from_datasets([a, data.range(3)]),
        "scan without a state": lambda: data.range(5).scan(initial_state=0, scan_func=lambda s, i: i),
        "unique floats": lambda: data.from_tensors(1.0).unique(),
        "unique pairs": lambda: data.from_tensors(("a", 1)).unique(),
        "reduce to another dtype": lambda: data.range(4).reduce(0, lambda s, x: 1.0),
    }


def _options(tf):
    def given(name, value):
        def run():
            options = tf.data.Options()
            setattr(options, name, value)
            return getattr(options, name)

        return run

    return {
        "an option": given("deterministic", True),
        "an option of another type": given("deterministic", 3),
        "an option taken away": given("experimental_slack", None),
        "options of another type": given("framework_type", "a"),
    }


def _nests(tf):
    nest = tf.nest
    first, second = collections.namedtuple("First", "x y"), collections.namedtuple("Second", "x y")
    pairs = {
        "lengths": ([1, 2], [1]),
        "inner lengths": ([[1, 2]], [[1]]),
        "kinds": ({"a": 1}, [1]),
        "keys": ({"a": 1, "b": 2}, {"a": 1}),
        "depths": ({"a": 1}, {"a": [1]}),
        "named tuples": (first(1, 2), second(1, 2)),
        "a named tuple and a tuple": (first(1, 2), (1, 2)),
        "inner kinds": ([1, [2, (3,)]], [1, [2, [3]]]),
        "none and nothing": (None, []),
        "ragged ranks": (tf.ragged.constant([[1]]), tf.ragged.constant([[[1]]])),
    }
    made = {
        f"other {what}": lambda one=one, other=other: nest.assert_same_structure(one, other, expand_composites=True)
        for what, (one, other) in pairs.items()
    }
    return made | {
        "other lengths, any types": lambda: nest.assert_same_structure([1, 2], (1, 2, 3), check_types=False),
        "the same, any types": lambda: nest.assert_same_structure([1, 2], (1, 2), check_types=False),
        "pack as a leaf": lambda: nest.pack_sequence_as(1, [1, 2]),
        "pack a leaf": lambda: nest.pack_sequence_as([1], 5),
        "pack a text": lambda: nest.pack_sequence_as([1], "a"),
        "map nothing callable": lambda: nest.map_structure("a", [1]),
        "map no structure": lambda: nest.map_structure(lambda: 1),
        "map with another keyword": lambda: nest.map_structure(lambda x: 0, [1, 2], check_type=False),
    }


def _tables(tf):
    lookup, long = tf.lookup, tf.int64

    def dense(empty, deleted):
        return lookup.experimental.DenseHashTable(long, long, -1, empty, deleted)

    def of_file(text, *indices):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/pairs.txt"
            with open(path, "w") as file:
                file.write(text)
            try:
                initializer = lookup.TextFileInitializer(path, tf.string, indices[0], long, indices[1], delimiter=" ")
                return lookup.StaticHashTable(initializer, -1).lookup(tf.constant(["a", "c"]))
            except tf.errors.InvalidArgumentError as error:
                return error.message.split(" [Op:")[0].replace(folder, "")

    def read():
        with tempfile.TemporaryDirectory() as folder:
            tf.train.Checkpoint(v=tf.Variable([1.0, 2.0]), n=tf.Variable(1, dtype=long)).write(f"{folder}/c")
            return tf.train.load_checkpoint(f"{folder}/c").debug_string().decode()

    texts = lookup.experimental.MutableHashTable(tf.string, long, -1)
    return {
        "a table of pairs in a file": lambda: of_file("a 1\nb 2\n", 0, 1),
        "a file with too few columns": lambda: of_file("a 1\nb 2\n", 0, 2),
        "a file without numbers": lambda: of_file("a 1\nb x\n", 0, 1),
        "look the empty key up": lambda: dense(0, -1).lookup(tf.constant([0], long)),
        "one key for empty and deleted": lambda: dense(0, 0),
        "remove keys of another dtype": lambda: texts.remove(tf.constant([1])),
        "a checkpoint's arrays": read,
    }


def _queues(tf):
    named = tf.queue.FIFOQueue(3, [tf.int32, tf.string], shapes=[[], []], names=["a", "b"])
    bare = tf.queue.FIFOQueue(3, tf.int32, shapes=[[]])
    return {
        "a tuple for a queue with names": lambda: named.enqueue((1, "x")),
        "other names": lambda: named.enqueue({"a": 1, "c": "x"}),
        "names for a queue without": lambda: bare.enqueue({"a": 1}),
        "a padding queue without shapes": lambda: tf.queue.PaddingFIFOQueue(10, tf.int32, shapes=None),
    }


def _compared(tf):
    ragged, dense = tf.ragged.constant([[1, 2], [3]]), tf.constant([[1, 2], [3, 4]])
    others = {
        "the same": tf.ragged.constant([[1, 2], [3]]),
        "other values": tf.ragged.constant([[1, 2], [4]]),
        "other rows": tf.ragged.constant([[1, 2], [3, 4]]),
        "a tensor": dense,
        "a scalar": 3,
        "nothing": None,
    }
    made = {f"ragged == {what}": lambda other=other: ragged == other for what, other in others.items()}
    return (
        made
        | {f"ragged != {what}": lambda other=other: ragged != other for what, other in others.items()}
        | {
            "a tensor == ragged": lambda: (dense == ragged, dense == others["other rows"]),
            "a tensor != ragged": lambda: (dense != ragged, dense != others["other rows"]),
        }
    )


def _graphs(tf):
    def run(build):
        graph = tf.Graph()
        with graph.as_default():
            fetched = build(graph)
        with tf.compat.v1.Session(graph=graph) as session:
            return session.run(fetched)

    def scopes():
        with tf.Graph().as_default() as graph, graph.name_scope("outer") as outer, graph.name_scope("inner") as inner:
            return outer, inner, graph.get_name_scope()

    return {
        "a graph's tensors": lambda: run(lambda graph: tf.constant(30.0) * 2.0),
        "a tensor's graph": lambda: run(lambda graph: tf.constant(float(tf.constant(1.0).graph is graph))),
        "the default graph": lambda: run(
            lambda graph: tf.constant(float(tf.compat.v1.get_default_graph() is graph and not tf.executing_eagerly()))
        ),
        "a graph's scopes": scopes,
        "one class of graphs": lambda: tf.Graph is tf.compat.v1.Graph,
    }


def _others(tf):
    ones = tf.ones([4])

    def lines():
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/a", "w") as file:
                file.write("one\ntwo\n")
            return list(tf.io.gfile.GFile(f"{folder}/a"))

    counted = np.arange(1, 13, dtype=np.float32).reshape(2, 2, 3)
    image = np.random.default_rng(3).random((4, 5, 3), np.float32)
    image[0, 0] = 0.5
    image[1, :, 1] = image[1, :, 0]
    whole = np.arange(1, 19, dtype=np.int32).reshape(3, 2, 3)
    hues, saturations = (-1.0, -0.4, 0.2, 1.0), (0.0, 0.5, 3.0)

    return {
        "hues of integers": lambda: tf.image.adjust_hue(whole, 0.2),
        "hues of large floats": lambda: tf.image.adjust_hue(counted, 0.2),
        "hues": lambda: [np.round(tf.image.adjust_hue(image, d).numpy(), 5).tolist() for d in hues],
        "hues, traced": lambda: np.round(tf.function(tf.image.adjust_hue)(image, 0.2).numpy(), 5).tolist(),
        "saturation of large floats": lambda: np.round(tf.image.adjust_saturation(counted, 0.5).numpy(), 5),
        "saturations": lambda: [
            np.round(tf.image.adjust_saturation(image, s).numpy(), 5).tolist() for s in saturations
        ],
        "saturation of integers": lambda: tf.image.adjust_saturation(whole, 0.5),
        "dropout's scale": lambda: tf.nn.experimental.stateless_dropout(ones, rate=0.8, seed=[1, 0]),
        "dropout's scale by a tensor": lambda: tf.nn.experimental.stateless_dropout(
            ones, tf.constant(0.8), seed=[1, 0]
        ),
        "a certain label": lambda: tf.nn.sparse_softmax_cross_entropy_with_logits([0], [[999.0, 0.0]]),
        "bands": lambda: tf.linalg.banded_triangular_solve([[2.0, 3.0, 4.0], [1.0, 2.0, 3.0]], tf.ones([3, 1])),
        "lines of a file nobody holds": lines,
    }


def _wrapped(tf):
    """Ints that their dtype can't hold."""
    x = tf.constant([1, 2], tf.int8)

    def within(f):
        return tf.function(f, autograph=False)()

    return {
        "an int of few bits": lambda: [
            *(tf.constant(129, tf.int8), tf.constant([-1, 300], tf.uint8), tf.constant(70000, tf.int16)),
            *(tf.constant(2**31, tf.int32), tf.constant([-1, 2**32], tf.uint32), tf.constant(2**31)),
            *(tf.Variable(129, dtype=tf.int8), tf.constant((-129,), tf.int8), tf.convert_to_tensor([2**40], tf.int8)),
        ],
        "ints beside few bits": lambda: [
            *(tf.add(x, [129, 130]), tf.subtract(x, [257, 258]), x + 129, x + [129, 130], 300 * x),
            *(tf.concat([x, [129]], 0), tf.where([True, False], x, [129, 130]), tf.equal(x, [257, 258])),
        ],
        "an int of few bits, traced": lambda: [
            within(lambda: tf.constant(129, tf.int8)),
            within(lambda: tf.constant([300, -1], tf.uint8)),
            within(lambda: tf.add(x, [129, 130])),
            within(lambda: tf.constant([2**40], tf.int8)),
        ],
    }


def _called(tf):
    v1, arrays = tf.compat.v1, tf.numpy_function

    def printing():
        with v1.Graph().as_default(), v1.Session() as session:
            i, x = tf.while_loop(lambda i, x: i < 3, lambda i, x: (v1.Print(i + 1, [i], "i "), x + i), (0, 1))
            return session.run((i, x))

    @tf.function(input_signature=[tf.TensorSpec(None)])
    def of_any_rank(x):
        return x + 1.0

    @tf.function
    def of_graph():
        return tf.constant(isinstance(v1.get_default_graph(), tf.Graph))

    concrete = of_any_rank.get_concrete_function
    seeds, algorithms = (1, [12], [12, 34], [1, 2, 3]), ("philox", "threefry", 1, 2)

    def dense():
        table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, 0, -1, -2)
        table.insert_or_assign([1, 2], [3, 4])
        return table.lookup(tf.constant([1, 2, 3], tf.int64))

    def wrong_queues(*queues):
        try:
            tf.queue.QueueBase.from_list(0, list(queues))
        except TypeError as error:
            return str(error)

    class Case(tf.test.TestCase):
        def test(self):
            self.assertContainsSubset([1], [1, 2])
            self.assertSameElements([1, 2], [2, 1, 1])
            with self.assertRaisesWithLiteralMatch(ValueError, "x"):
                raise ValueError("x")

    queue, options = tf.queue.FIFOQueue, tf.io.TFRecordOptions
    return {
        "assign to a dense table": dense,
        "no queues of one kind": lambda: [
            wrong_queues(),
            wrong_queues(queue(1, tf.int32), queue(1, tf.float32)),
            wrong_queues(queue(1, tf.int32), queue(1, tf.int32, names=["a"])),
        ],
        "absl's checks": lambda: Case("test").run().wasSuccessful(),
        "shapes as messages": lambda: [str(tf.TensorShape(s).as_proto()) for s in ([1, None], [], None)],
        "compressions": lambda: [
            options.get_compression_type_string(x) for x in ("GZIP", None, "", options("ZLIB"), options(None))
        ],
        "the code of an error": lambda: tf.errors.OpError(None, None, "a", 3).error_code,
        "the spec of a ragged value": lambda: (
            tf.RaggedTensorSpec.from_value(tf.ragged.constant([[1], []])),
            tf.RaggedTensorSpec([None, None]).flat_values_spec,
        ),
        "nothing to wait for": lambda: tf.train.Checkpoint().sync(),
        "numpy_function gives what it likes, eager": lambda: [
            arrays(lambda x: (x, x + 1), [tf.constant([1, 2])], [tf.float32, tf.int64]),
            arrays(lambda x: "a", [1], tf.float32),
            arrays(lambda x: None, [1], tf.float32),
            arrays(lambda x: (x, x), [1], tf.float32),
            arrays(lambda x: x, [1], []),
        ],
        "prints in a loop of a graph": printing,
        "one concrete function for all ranks": lambda: [
            concrete(tf.ones([2])) is concrete(tf.ones([1, 1])),
            concrete(tf.ones([2])) is concrete(),
            [concrete()(tf.ones(s)).shape for s in ([2], [1, 1])],
        ],
        "graphs of functions": lambda: (isinstance(concrete().graph, tf.Graph), of_graph()),
        "states of generators": lambda: [tf.random.create_rng_state(s, a) for a in algorithms for s in seeds],
    }
