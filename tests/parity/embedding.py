"""Embedding lookups by sparse ids, and pooling over random windows."""

import numpy as np
from parity_numbers import calls

TABLE = np.arange(12, dtype="float32").reshape(4, 3) / 4
IMAGES = np.random.RandomState(0).randn(2, 7, 6, 2).astype("float32")


def programs(tf):
    return calls(tf, _lookups(tf) | _pools(tf)) | _sequences(tf) | _partitions(tf) | _errors(tf)


def in_sweep(label):
    """Traced pools over random windows: each kind of window, and each kind of gradient, is run once by default."""
    return label in (
        "max, traced",
        "max, overlapping, gradient, traced",
        "max, whole ratio, gradient, traced",
        "avg, overlapping, traced",
        "avg, gradient, traced",
        "avg, whole ratio, traced",
    )


def _ids(tf, *values):
    places = [[0, 0], [0, 2], [1, 1], [2, 0], [2, 1], [2, 2]]
    return tf.SparseTensor(places, tf.constant(values, tf.int64), [4, 3])


def _lookups(tf):
    ids, some = _ids(tf, 0, 1, 3, 2, 2, 1), _ids(tf, 0, -1, -2, 2, 2, 1)
    weights = tf.SparseTensor(ids.indices, tf.constant([1.0, 2.0, 0.5, 1.0, -1.0, 3.0]), ids.dense_shape)
    deep = tf.SparseTensor([[0, 0, 0], [0, 1, 1], [1, 1, 0]], tf.constant([1, 2, 3], tf.int64), [2, 2, 2])
    lookup, safe = tf.nn.embedding_lookup_sparse, tf.nn.safe_embedding_lookup_sparse
    made = {}
    for combiner in ("sum", "mean", "sqrtn"):
        options = {"combiner": combiner}
        made |= {
            f"lookup, {combiner}": (lambda t, o=options: lookup(t, ids, None, **o), TABLE),
            f"weighted lookup, {combiner}": (lambda t, o=options: lookup(t, ids, weights, **o), TABLE),
            f"safe lookup, {combiner}": (lambda t, o=options: safe(t, some, **o), TABLE),
            f"safe weighted lookup, {combiner}": (lambda t, o=options: safe(t, some, weights, **o), TABLE),
        }
    return made | {
        "lookup of short rows": (lambda t: lookup(t, ids, None, max_norm=1.0), TABLE),
        "safe lookup with a default": (lambda t: safe(t, some, default_id=3), TABLE),
        "safe lookup of more dims": (lambda t: safe(t, deep), TABLE),
        "lookup in parts": (lambda a, b: tf.stop_gradient(lookup([a, b], ids, None)), TABLE[:2], TABLE[2:]),
    }


def _pools(tf):
    def pool(name, ratio, **options):
        def run(x):
            tf.random.set_seed(1)
            return getattr(tf.nn, name)(x, ratio, seed=5, **options)[0]

        return run, IMAGES

    def dilated(padding, rates, **options):
        def op(x, count, padding):
            return tf.nn.max_pool2d(x, [2, 3], 1, padding)

        return lambda x: tf.nn.with_space_to_batch(x, rates, padding, op, **options), IMAGES

    return {
        "dilated": dilated("VALID", [2, 2]),
        "dilated along one axis": dilated("VALID", [1, 2]),
        "dilated and padded": dilated("SAME", [2, 3], filter_shape=[2, 3]),
        "not dilated": dilated("SAME", [1, 1]),
        "max, whole ratio": (lambda x: tf.nn.fractional_max_pool(x[:, :6], [1.0, 2.0, 3.0, 1.0])[0], IMAGES),
        "avg, whole ratio": (lambda x: tf.nn.fractional_avg_pool(x[:, :6], [1.0, 2.0, 3.0, 1.0])[0], IMAGES),
        "max": pool("fractional_max_pool", [1.0, 1.5, 1.3, 1.0]),
        "max, overlapping": pool("fractional_max_pool", 1.5, overlapping=True),
        "avg": pool("fractional_avg_pool", [1.0, 1.5, 1.3, 1.0]),
        "avg, overlapping": pool("fractional_avg_pool", [1.0, 1.5, 1.5, 1.0], overlapping=True, pseudo_random=True),
    }


def _sequences(tf):
    def sequences(**options):
        tf.random.set_seed(3)
        x = tf.constant(np.zeros((1, 17, 23, 1), "float32"))
        found = [tf.nn.fractional_max_pool(x, [1.0, 1.4, 1.7, 1.0], seed=7, **options)[1:] for _ in range(2)]
        return [[s.numpy().tolist() for s in pair] for pair in found]

    return {"borders": sequences, "even borders": lambda: sequences(pseudo_random=True)}


def _partitions(tf):
    """Lookups in tables of several partitions, of the sizes that a division gives and of others."""
    v1 = tf.compat.v1.nn
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([3, 0, 2], tf.int64), [2, 2])
    looked_up = {
        "divided": lambda parts: tf.nn.embedding_lookup(parts, [0, 1, 2, 3]),
        "modulo": lambda parts: v1.embedding_lookup(parts, [0, 1, 2, 3]),
        "modulo, of a matrix": lambda parts: v1.embedding_lookup(parts, [[0, 1], [2, 0]], max_norm=1.0),
        "modulo, sparse": lambda parts: v1.embedding_lookup_sparse(parts, ids, None, combiner="sum"),
        "beyond": lambda parts: tf.nn.embedding_lookup(parts, [6]),
        "negative": lambda parts: v1.embedding_lookup(parts, [-1]),
    }

    def found(lookup, sizes):
        rows = np.arange(2.0 * sum(sizes), dtype="float32").reshape(-1, 2)
        parts = np.split(rows, np.cumsum(sizes)[:-1])
        ways = lookup, tf.function(lambda *parts: lookup(list(parts)))
        try:
            return [way(*given).numpy().tolist() for way, given in zip(ways, ([parts], parts))]
        except (tf.errors.InvalidArgumentError, ValueError):
            return "refused"

    sizes = {"as divided": (3, 2), "more in the second": (2, 3), "more in the first": (4, 2), "of three": (2, 2, 2)}
    return {
        f"partitions {size_label}: {label}": lambda lookup=lookup, each=each: found(lookup, each)
        for label, lookup in looked_up.items()
        for size_label, each in sizes.items()
    }


def _errors(tf):
    ids = _ids(tf, 0, 1, 3, 2, 2, 1)
    images = tf.constant(IMAGES)
    return {
        "dilated and padded by nobody knows what": lambda: tf.nn.with_space_to_batch(images, [2, 2], "SAME", None),
        "dilated by nothing": lambda: tf.nn.with_space_to_batch(images, [2, 0], "VALID", None),
        "ratio of the batch": lambda: tf.nn.fractional_max_pool(images, [2.0, 1.5, 1.5, 1.0]),
        "ratio below one": lambda: tf.nn.fractional_max_pool(images, 0.5),
        "ratios below one": lambda: tf.nn.fractional_max_pool(images, [1.0, 0.5, 1.5, 1.0]),
        "ratio that is none": lambda: tf.nn.fractional_max_pool(images, "2"),
        "no such combiner": lambda: tf.nn.embedding_lookup_sparse(TABLE, ids, None, combiner="max"),
        "dense ids": lambda: tf.nn.embedding_lookup_sparse(TABLE, [[1]], None),
        "dense weights": lambda: tf.nn.embedding_lookup_sparse(TABLE, ids, [1.0]),
        "no table": lambda: tf.nn.safe_embedding_lookup_sparse(None, ids),
    }
