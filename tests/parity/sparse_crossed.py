"""tf.sparse.cross and cross_hashed, and sparse tensors as strings."""

from parity_calls import kind


def programs(tf):
    return _crossed(tf) | _texts(tf)


def _texts(tf):
    io, wide = tf.io, tf.sparse.from_dense([[1, 0, 2], [0, 3, 0]])
    texts = tf.sparse.from_dense([["a", ""], ["", "b"]])

    def both(sp, dtype):
        return io.deserialize_many_sparse(io.serialize_many_sparse(sp), dtype)

    def stacked():
        rows = [tf.sparse.from_dense([1, 0]), tf.sparse.from_dense([0, 2, 3])]
        return io.deserialize_many_sparse(tf.stack([io.serialize_sparse(r) for r in rows]), tf.int32)

    return {
        "serialize_sparse": lambda: io.serialize_sparse(wide),
        "serialize_many_sparse": lambda: io.serialize_many_sparse(wide),
        "deserialize_many_sparse": lambda: both(wide, tf.int32),
        "deserialize_many_sparse texts": lambda: both(texts, tf.string),
        "deserialize_many_sparse of several sizes": stacked,
        "serialize_sparse of dense": lambda: io.serialize_sparse(tf.ones([2])),
        "deserialize_many_sparse of another dtype": lambda: kind(lambda: both(wide, tf.float32)),
        "deserialize_many_sparse of nonsense": lambda: kind(
            lambda: io.deserialize_many_sparse([["a", "b", "c"]], tf.int32)
        ),
    }


def _crossed(tf):
    c, h = tf.sparse.cross, tf.sparse.cross_hashed
    a = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], ["a", "b", "c"], [2, 2])
    d = tf.SparseTensor([[0, 0], [1, 0]], ["d", "e"], [2, 1])
    dense, numbers = tf.constant([["f"], ["g"]]), tf.constant([[1, 2], [3, 4]])
    gaps = tf.SparseTensor([[1, 0]], ["z"], [2, 1])
    return {
        "cross": lambda: c([a, d, dense]),
        "cross dense first": lambda: c([dense, a]),
        "cross dense": lambda: c([dense, tf.constant([["h", "i"], ["j", "k"]])]),
        "cross separator": lambda: c([a, d], separator="_Y_"),
        "cross numbers": lambda: c([numbers, a]),
        "cross gaps": lambda: c([a, gaps]),
        "cross traced": lambda: tf.function(lambda x, y: c([x, y]))(a, d),
        "cross_hashed": lambda: h([a, d, dense]),
        "cross_hashed buckets": lambda: h([a, d, dense], num_buckets=100),
        "cross_hashed key": lambda: h([a, d], num_buckets=100, hash_key=12345),
        "cross_hashed numbers": lambda: h([numbers, numbers]),
        "cross no list": lambda: c(a),
        "cross of a list": lambda: c([[["a"]]]),
        "cross_hashed of a list": lambda: h([[["a"]]]),
    }
