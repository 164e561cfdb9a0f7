"""tf.sparse.cross and cross_hashed, and sparse tensors as strings."""


def programs(tf):
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
