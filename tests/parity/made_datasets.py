"""Datasets that functions create from their tensors in each run."""


def programs(tf):
    return {**_looped(tf), **_reduced(tf), **_captured(tf), **_nested(tf), **_single(tf)}


def _long(value):
    from numpy import int64

    return int64(value)


def _looped(tf):
    data = tf.data.Dataset

    @tf.function
    def batches(x, count):
        total = tf.constant(0.0)
        made = data.from_tensor_slices({"a": x, "b": x * 2.0}).shuffle(10, seed=1).take(count)
        for rows in made.map(lambda row: row["a"] + row["b"]).batch(2, drop_remainder=True):
            total += tf.reduce_sum(rows) * tf.cast(tf.shape(rows)[0], tf.float32)
        return total

    @tf.function
    def zipped(n):
        pairs = data.zip((data.range(n), data.range(10, 20)))
        total = tf.constant(0, tf.int64)
        for a, b in pairs.concatenate(pairs):
            total += a * b
        return total

    @tf.function
    def two(x):
        iterator = iter(data.from_tensor_slices(x))
        return next(iterator) + iterator.get_next()

    @tf.function
    def chosen(x):
        total = 0.0
        for v in data.from_tensors(x):
            if tf.reduce_sum(v) > 2.0:
                total += tf.reduce_sum(v)
        return total

    @tf.function
    def ragged(x):
        total = tf.constant(0, tf.int32)
        for row in data.from_tensor_slices(x):
            total = total * 10 + tf.size(row)
        return total

    @tf.function
    def texts(x):
        joined = tf.constant("")
        for text in data.from_tensor_slices(x).skip(1):
            joined = tf.strings.join([joined, text])
        return joined

    @tf.function
    def repeated(x, times):
        count = tf.constant(0)
        for _ in data.from_tensor_slices(x).repeat(times):
            count += 1
        return count

    @tf.function
    def out_of_range(x):
        iterator = iter(data.from_tensor_slices(x))
        next(iterator)
        return next(iterator)

    return {
        "batches": lambda: batches(tf.constant([1.0, 2.0, 3.0, 4.0]), _long(4)),
        "zipped": lambda: (zipped(_long(3)), zipped(tf.constant(4, tf.int64)), zipped(tf.constant(0, tf.int64))),
        "two of it": lambda: (two(tf.constant([1, 2, 3])), two(tf.constant([5, 6, 3]))),
        "chosen": lambda: (chosen(tf.constant([1.0, 2.0])), chosen(tf.constant([1.0, 0.0]))),
        "ragged": lambda: ragged(tf.ragged.constant([[1, 2], [], [3]])),
        "texts": lambda: texts(tf.constant(["a", "b", "c"])),
        "repeated": lambda: repeated(tf.constant([1, 2]), tf.constant(3, tf.int64)),
        "nothing left": lambda: out_of_range(tf.constant([1])),
    }


def _reduced(tf):
    data = tf.data.Dataset
    held = []
    numbers = data.from_generator(lambda: iter(held), output_signature=tf.TensorSpec([], tf.int64))

    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def rows(x):
        made = data.from_tensor_slices(x)
        return made.reduce(0.0, lambda total, row: total + tf.reduce_sum(row)), made.cardinality()

    @tf.function
    def digits():
        return numbers.take(4).reduce(tf.constant(0, tf.int64), lambda total, n: total * 10 + n)

    def read_each_time():
        held[:] = [1, 2]
        first = digits()
        held.append(3)
        return first, digits()

    @tf.function
    def pair(n):
        start = {"sum": tf.constant(0, tf.int64), "count": 0}
        return data.range(n).reduce(start, lambda s, v: {"sum": s["sum"] + v, "count": s["count"] + 1})

    @tf.function
    def signs(x):
        def step(total, v):
            if v > 0:
                return total + 1
            return total - 1

        return data.from_tensor_slices(x).reduce(0, step)

    @tf.function
    def grown(x):
        return data.from_tensor_slices(x).reduce(tf.zeros([0]), lambda rows, v: tf.concat([rows, [v]], 0))

    @tf.function
    def grown_of_known():
        return data.range(3).reduce(tf.zeros([0], tf.int64), lambda rows, v: tf.concat([rows, [v]], 0))

    return {
        "growing states": lambda: (grown(tf.constant([1.0, 2.0])), grown_of_known()),
        "unknown rows": lambda: (rows(tf.ones([3, 2])), rows(tf.ones([4, 5]))),
        "read each time": read_each_time,
        "two states": lambda: pair(tf.constant(5, tf.int64)),
        "a condition": lambda: signs(tf.constant([1, -1, 2, 3])),
    }


def _captured(tf):
    data = tf.data.Dataset

    @tf.function
    def both(x, scale):
        total = 0.0
        for v in data.from_tensor_slices(x).map(lambda v: v * scale):
            total += v
        return total

    @tf.function
    def scale_alone(scale):
        total = tf.constant(0, tf.int64)
        for v in data.range(3).map(lambda v: v * scale).filter(lambda v: v != scale):
            total += v
        return total

    @tf.function
    def of_a_function(limit):
        def small(v):
            return v < limit

        found = tf.constant(0, tf.int64)
        for v in data.range(100).take_while(small):
            found = v
        return found

    return {
        "of both": lambda: both(tf.constant([1.0, 2.0]), tf.constant(3.0)),
        "of a known one": lambda: (scale_alone(tf.constant(3, tf.int64)), scale_alone(tf.constant(4, tf.int64))),
        "by a condition": lambda: of_a_function(tf.constant(7, tf.int64)),
    }


def _nested(tf):
    data = tf.data.Dataset

    def listed(dataset):
        return [x.tolist() for x in dataset.as_numpy_iterator()], dataset.element_spec

    return {
        "flat": lambda: listed(data.range(4).flat_map(lambda n: data.range(n).map(lambda v: v * 10))),
        "slices": lambda: listed(data.range(3).flat_map(lambda n: data.from_tensor_slices(tf.range(n)))),
        "reduced inside": lambda: listed(
            data.range(3).map(lambda n: data.range(n + 1).reduce(tf.constant(0, tf.int64), lambda s, v: s + v))
        ),
        "interleaved": lambda: listed(
            data.from_tensor_slices([3, 1, 2]).interleave(
                lambda n: data.from_tensors(n).repeat(tf.cast(n, tf.int64)), cycle_length=2
            )
        ),
    }


def _single(tf):
    """The one element of a dataset, as functions that prepare what they are given ask for it."""
    data = tf.data.Dataset

    @tf.function
    def mapped(x):
        return data.from_tensors(x).map(lambda v: v * 2.0).get_single_element()

    @tf.function
    def batched(x):
        return data.from_tensor_slices({"a": x, "b": x * 2.0}).batch(8).get_single_element()

    @tf.function
    def of_known():
        return data.range(3).batch(3).get_single_element()

    @tf.function
    def one_of(x):
        return data.from_tensor_slices(x).get_single_element()

    def rejected(x):
        try:
            one_of(tf.constant(x))
        except tf.errors.InvalidArgumentError as error:
            return "more than one" in error.message, "empty" in error.message

    return {
        "one element": lambda: mapped(tf.constant([1.0, 2.0])),
        "one batch": lambda: batched(tf.constant([1.0, 2.0])),
        "one of what is known": of_known,
        "more than one, or none": lambda: (one_of(tf.constant([5])), rejected([1, 2])),
    }
