"""Ragged tensors as TensorFlow's guide to them shows them."""


def programs(tf):
    R, r = tf.RaggedTensor, tf.ragged
    digits = r.constant([[3, 1, 4, 1], [], [5, 9, 2], [6], []])
    words = r.constant([["So", "long"], ["thanks", "for", "all", "the", "fish"]])
    queries = r.constant([["Who", "is", "Dan", "Smith"], ["Pause"], ["Will", "it", "rain", "later", "today"]])
    x, y = r.constant([[1, 2], [], [3]]), r.constant([[4, 5], [], [6]])

    def embed():
        embedding = tf.reshape(tf.range(64.0), [16, 4])
        buckets = tf.strings.to_hash_bucket_fast(queries, 16)
        embedded = tf.ragged.map_flat_values(tf.nn.embedding_lookup, embedding, buckets)
        marker = tf.fill([queries.nrows(), 1], "#")
        padded = tf.concat([marker, queries, marker], axis=1)
        bigrams = tf.strings.join([padded[:, :-1], padded[:, 1:]], separator="+")
        buckets2 = tf.strings.to_hash_bucket_fast(bigrams, 16)
        found = tf.ragged.map_flat_values(tf.nn.embedding_lookup, embedding, buckets2)
        everything = tf.concat([embedded, found], axis=1)
        return bigrams, tf.reduce_mean(everything, axis=1)

    def loop(x):
        total = tf.constant(0)
        for row in x:
            total += tf.reduce_sum(row)
        return total

    def double():
        @tf.function
        def make_palindrome(x, axis):
            return tf.concat([x, tf.reverse(x, [axis])], axis)

        a = make_palindrome(r.constant([[1, 2], [3]]), 1)
        return a, make_palindrome(r.constant([[1, 2, 3], [], [4]]), 1)

    def tape():
        values = r.constant([[1.0, 2.0], [3.0]])
        with tf.GradientTape() as t:
            t.watch(values)
            z = tf.reduce_sum(values * values, axis=1)
        return t.gradient(z, values)

    deep = r.constant([[[3, 1], [4]], [], [[1, 5, 9]]])
    return {
        "add": lambda: tf.add(digits, 3),
        "mean": lambda: tf.reduce_mean(digits, axis=1),
        "concat": lambda: tf.concat([digits, [[5, 3]]], axis=0),
        "tile": lambda: tf.tile(digits, [1, 2]),
        "substr": lambda: tf.strings.substr(words, 0, 2),
        "map_fn": lambda: tf.map_fn(tf.math.square, digits),
        "rows": lambda: (digits[0], digits[:, :2], digits[:, -2:]),
        "operators": lambda: (digits + 3, digits + r.constant([[1, 2, 3, 4], [], [5, 6, 7], [8], []])),
        "flat": lambda: r.map_flat_values(lambda x: x * 2 + 1, digits),
        "to_list": lambda: digits.to_list(),
        "numpy": lambda: digits.numpy(),
        "two": lambda: r.constant([["Let's", "build", "some", "ragged", "tensors", "!"], ["We", "can", "use"]]),
        "deep": lambda: r.constant(
            [[["I", "have", "a", "cat"], ["His", "name", "is", "Mat"]], [["Do", "you", "want", "to", "come"]]]
        ),
        "rowids": lambda: R.from_value_rowids([3, 1, 4, 1, 5, 9, 2], [0, 0, 0, 0, 2, 2, 3]),
        "lengths": lambda: R.from_row_lengths([3, 1, 4, 1, 5, 9, 2], [4, 0, 2, 1]),
        "splits": lambda: R.from_row_splits([3, 1, 4, 1, 5, 9, 2], [0, 4, 4, 6, 7]),
        "mixed": lambda: r.constant([["one", "two"], [3, 4]]),
        "depths": lambda: r.constant(["A", ["B", "C"]]),
        "embed": embed,
        "uniform": lambda: R.from_row_splits([[1, 3], [0, 0], [1, 3], [5, 3], [3, 3], [1, 2]], [0, 3, 4, 6]),
        "uniform shape": lambda: r.constant([["Hi"], ["How", "are", "you"]]).shape,
        "shapes": lambda: [
            R.from_row_splits(tf.zeros([6, 2]), [0, 3, 4, 6]).shape,
            R.from_uniform_row_length(R.from_row_lengths(tf.range(6), [1, 2, 3, 0]), 2).shape,
        ],
        "bounding": lambda: tf.shape(words).static_lengths(ragged_lengths=False),
        "stacked": lambda: r.stack([x, y]),
        "concat ragged": lambda: tf.concat(
            [
                r.constant([["John"], ["a", "big", "dog"], ["my", "cat"]]),
                r.constant([["fell", "asleep"], ["barked"], ["is", "fuzzy"]]),
            ],
            axis=1,
        ),
        "loop": lambda: tf.function(loop)(digits),
        "palindrome": double,
        "concrete": lambda: tf.function(lambda x: x + 1).get_concrete_function(
            tf.RaggedTensorSpec(shape=[None, None], dtype=tf.int32)
        )(r.constant([[1, 2], [], [3]])),
        "operators eq": lambda: (x == y, x - y, x * y),
        "scalar": lambda: x + 3,
        "index": lambda: (queries[1], queries[0, 2], queries[1:], queries[:, :3], queries[:, -2:]),
        "deep index": lambda: (deep[1], deep[:, 0:1], deep[2, 0]),
        "from_tensor": lambda: R.from_tensor([["Hi", "", ""], ["How", "are", "you"]], padding=""),
        "to_tensor": lambda: words.to_tensor(default_value="", shape=[None, 10]),
        "eager": lambda: (words.to_list(), words.numpy(), words.values, words.row_splits),
        "value counts": lambda: (deep.shape, deep.bounding_shape(), deep.ragged_rank, tf.rank(deep)),
        "broadcast scalar": lambda: x + 3,
        "broadcast rows": lambda: r.constant([[10, 87, 12], [19, 53], [12, 32]]) + [[1000], [2000], [3000]],
        "broadcast one": lambda: r.constant([[[1, 2], [3, 4], [5, 6]], [[7, 8]]], ragged_rank=1) + [[10]],
        "broadcast deep": lambda: (
            r.constant([[[[1], [2]], [], [[3]], [[4]]], [[[5], [6]], [[7]]]], ragged_rank=2) + tf.constant([10, 20, 30])
        ),
        "broadcast fails dense": lambda: (
            r.constant([[1, 2], [3, 4, 5, 6], [7]]) + [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
        ),
        "broadcast fails ragged": lambda: r.constant([[1, 2, 3], [4], [5, 6]]) + r.constant([[10, 20], [30, 40], [50]]),
        "broadcast fails deep": lambda: (
            r.constant([[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10]]])
            + r.constant([[[1, 2, 0], [3, 4, 0], [5, 6, 0]], [[7, 8, 0], [9, 10, 0]]])
        ),
        "encoding": lambda: R.from_row_splits(values=[3, 1, 4, 1, 5, 9, 2], row_splits=[0, 4, 4, 6, 7]),
        "nested": lambda: R.from_row_splits(
            values=R.from_row_splits(values=[10, 11, 12, 13, 14, 15, 16, 17, 18, 19], row_splits=[0, 3, 3, 5, 9, 10]),
            row_splits=[0, 1, 1, 5],
        ),
        "nested splits": lambda: R.from_nested_row_splits(
            flat_values=[10, 11, 12, 13, 14, 15, 16, 17, 18, 19], nested_row_splits=([0, 1, 1, 5], [0, 3, 3, 5, 9, 10])
        ),
        "flat values": lambda: r.constant([[[1]], [[2, 3]]]).flat_values,
        "uniform inner": lambda: (
            R.from_row_splits(
                values=[[1, 3], [0, 0], [1, 3], [5, 3], [3, 3], [1, 2]], row_splits=[0, 3, 4, 6]
            ).flat_values.shape
        ),
        "uniform outer": lambda: (lambda v: (v, v.ragged_rank, v.shape))(
            R.from_uniform_row_length(R.from_row_splits([10, 11, 12, 13, 14, 15, 16, 17, 18, 19], [0, 3, 5, 9, 10]), 2)
        ),
        "gradient": tape,
    }
