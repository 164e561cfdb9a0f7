"""Public functions that take sparse tensors, embeddings looked up by sparse ids, and ragged tensors made sparse."""

import numpy as np
from parity_calls import kind


def programs(tf):
    return _dispatched(tf) | _ragged(tf) | _embeddings(tf) | _rejected(tf)


def _sp(tf, values=(1.0, 0.25)):
    return tf.SparseTensor([[0, 0], [1, 2]], tf.constant(values), [3, 4])


def _dispatched(tf):
    names = ("abs", "negative", "sign", "sqrt", "square", "identity", "stop_gradient")
    rounded = ("sin", "tan", "tanh", "atan", "atanh", "asin", "asinh", "erf", "bessel_i0e", "bessel_i1e")

    def found(name):
        return getattr(tf, name, None) or getattr(tf.math, name)

    def about(name, values=(0.5, 0.25)):
        sp = found(name)(_sp(tf, values))
        return type(sp).__name__, np.round(sp.values.numpy(), 5).tolist(), sp.shape

    return {
        **{f"tf.{name}": lambda n=name: found(n)(_sp(tf)) for name in names},
        **{f"tf.{name}": lambda n=name: about(n) for name in rounded},
        "cast": lambda: tf.cast(_sp(tf), tf.int32),
        "cast float64": lambda: tf.cast(_sp(tf), "float64").values,
        "shape": lambda: tf.shape(_sp(tf)),
        "shape int64": lambda: tf.shape(_sp(tf), out_type=tf.int64),
        "size": lambda: tf.size(_sp(tf)),
        "rank": lambda: tf.rank(_sp(tf)),
        "divide": lambda: tf.divide(_sp(tf), 2.0),
        "abs of keywords": lambda: tf.abs(x=_sp(tf)),
        "in a function": lambda: tf.function(lambda s: (tf.abs(s), tf.shape(s), tf.size(s), tf.rank(s)))(_sp(tf)),
        "of any size": lambda: tf.function(
            lambda s: (tf.square(s), tf.shape(s), tf.size(s)), input_signature=[tf.SparseTensorSpec([None, None])]
        )(_sp(tf)),
    }


def _ragged(tf):
    R, r = tf.RaggedTensor, tf.ragged
    rows = r.constant([[1, 2, 3], [], [4]])
    return {
        "to_sparse": lambda: rows.to_sparse(),
        "to_sparse deep": lambda: r.constant([[[1, 2], []], [[3]]]).to_sparse(),
        "to_sparse inner": lambda: R.from_row_splits([[1, 2], [3, 4], [5, 6]], [0, 2, 2, 3]).to_sparse(),
        "to_sparse text": lambda: r.constant([["a"], ["b", "c"]]).to_sparse(),
        "to_sparse int32": lambda: r.constant([[1], [2, 3]], row_splits_dtype=tf.int32).to_sparse(),
        "from_sparse": lambda: R.from_sparse(rows.to_sparse()),
        "from_sparse int32": lambda: R.from_sparse(rows.to_sparse(), row_splits_dtype=tf.int32).row_splits,
        "from_sparse of nothing": lambda: R.from_sparse(tf.sparse.from_dense([[0, 0], [0, 0]])),
        "round trip traced": lambda: tf.function(lambda x: R.from_sparse(x.to_sparse()))(rows),
        "from_sparse gap": lambda: kind(lambda: R.from_sparse(tf.SparseTensor([[0, 1]], [1], [2, 2]))),
        "from_sparse vector": lambda: R.from_sparse(tf.sparse.from_dense([1, 0])),
        "from_sparse dense": lambda: R.from_sparse([1]),
    }


TABLE = np.arange(8.0, dtype=np.float32).reshape(4, 2)


def _ids(tf, values=(1, 3, 0, 1), at=((0, 0), (0, 1), (1, 0), (2, 3)), shape=(3, 4)):
    return tf.SparseTensor(at, tf.constant(values), shape)


def _embeddings(tf):
    lookup, safe = tf.nn.embedding_lookup_sparse, tf.nn.safe_embedding_lookup_sparse
    weights = _ids(tf, (2.0, 0.5, 1.0, 3.0))
    gaps = _ids(tf, (1, -1, 0), ((0, 0), (1, 0), (3, 1)), (4, 2))
    deep = tf.SparseTensor([[0, 0, 0], [1, 1, 1]], [2, 3], [2, 2, 2])
    found = {}
    for combiner in ("mean", "sqrtn", "sum"):
        found |= {
            f"lookup {combiner}": lambda c=combiner: lookup(tf.constant(TABLE), _ids(tf), None, combiner=c),
            f"lookup {combiner} weighted": lambda c=combiner: lookup(tf.constant(TABLE), _ids(tf), weights, combiner=c),
            f"lookup {combiner} gradient": lambda c=combiner: _gradient(
                tf, lambda t: lookup(t, _ids(tf), weights, combiner=c)
            ),
            f"lookup {combiner} traced gradient": lambda c=combiner: _gradient(
                tf, tf.function(lambda t: lookup(t, _ids(tf), None, combiner=c))
            ),
            f"safe {combiner}": lambda c=combiner: safe(tf.constant(TABLE), gaps, combiner=c),
            f"safe {combiner} weighted": lambda c=combiner: safe(
                tf.constant(TABLE), gaps, gaps.with_values([2.0, 1.0, 0.0]), combiner=c
            ),
        }
    return found | {
        "lookup default": lambda: lookup(tf.constant(TABLE), _ids(tf), None),
        "lookup max_norm": lambda: np.round(lookup(tf.constant(TABLE), _ids(tf), None, max_norm=2.0).numpy(), 5),
        "lookup gap": lambda: lookup(tf.constant(TABLE), gaps.with_values([1, 2, 3]), None, combiner="sum"),
        "lookup gradient of a Variable": lambda: _variable_gradient(tf, lookup),
        "lookup traced": lambda: tf.function(lambda s, w: lookup(tf.constant(TABLE), s, w))(_ids(tf), weights),
        "safe default_id": lambda: safe(tf.constant(TABLE), gaps, default_id=3),
        "safe deep": lambda: safe(tf.constant(TABLE), deep),
        "safe traced": lambda: tf.function(lambda s: safe(tf.constant(TABLE), s))(gaps),
        "safe gradient": lambda: _gradient(tf, lambda t: safe(t, gaps, combiner="sum")),
    }


def _gradient(tf, function):
    table = tf.constant(TABLE)
    with tf.GradientTape() as tape:
        tape.watch(table)
        y = tf.reduce_sum(function(table) ** 2)
    return np.round(tf.convert_to_tensor(tape.gradient(y, table)).numpy(), 4) + 0.0


def _variable_gradient(tf, lookup):
    table = tf.Variable(TABLE)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(lookup(table, _ids(tf), None, combiner="sum") ** 2)
    found = tape.gradient(y, table)
    return type(found).__name__, tf.convert_to_tensor(found).numpy().tolist()


def _rejected(tf):
    lookup, safe = tf.nn.embedding_lookup_sparse, tf.nn.safe_embedding_lookup_sparse
    table = tf.constant(TABLE)
    return {
        "relu": lambda: kind(lambda: tf.nn.relu(_sp(tf))),
        "exp": lambda: kind(lambda: tf.exp(_sp(tf))),
        "reduce_sum": lambda: kind(lambda: tf.reduce_sum(_sp(tf))),
        "multiply": lambda: kind(lambda: tf.multiply(_sp(tf), 2.0)),
        "lookup combiner": lambda: lookup(table, _ids(tf), None, combiner="max"),
        "lookup dense ids": lambda: kind(lambda: lookup(table, tf.constant([[1]]), None)),
        "lookup dense weights": lambda: kind(lambda: lookup(table, _ids(tf), tf.constant([1.0]))),
        "lookup other weights": lambda: lookup(table, _ids(tf), _sp(tf)),
        "lookup outside": lambda: kind(lambda: lookup(table, _ids(tf, (1, 9, 0, 1)), None)),
        "safe no table": lambda: safe(None, _ids(tf)),
        "safe no tables": lambda: safe([], _ids(tf)),
    }
