"""tf.sparse: products, sums, extremes, reductions, softmax and segments; with gradients, and in functions of unknown shapes."""

import numpy as np
from parity_calls import kind, of_any_size


def programs(tf):
    return (
        _operators(tf) | _sums(tf) | _products(tf) | _reductions(tf) | _segments(tf) | _gradients(tf) | _traced(tf) | _rejected(tf)
    )  # fmt: skip


WIDE = [[1.0, 0.0, 2.0, 0.0], [3.0, 0.0, 0.0, 4.0]]
OTHER = [[0.0, 5.0, 0.5, 0.0], [-6.0, 0.0, 0.0, 0.0]]
DATA = [[1.0, 2.0, 3.0, 4.0], [-1.0, -2.0, -3.0, -4.0], [5.0, 6.0, 7.0, 8.0]]


def _sparse(tf, dense, dtype=None):
    return tf.sparse.from_dense(tf.constant(dense, dtype))


def _numbered(rows, columns, start=1.0):
    return np.arange(start, start + rows * columns, dtype=np.float32).reshape(rows, columns)


def _operators(tf):
    wide, ints = _sparse(tf, WIDE), _sparse(tf, [[1, 0], [0, 7]])
    dense = tf.constant(_numbered(2, 4))
    return {
        "times dense": lambda: wide * dense,
        "dense times": lambda: dense * wide,
        "times a row": lambda: wide * tf.constant([1.0, 2.0, 3.0, 4.0]),
        "times a column": lambda: wide * tf.constant([[2.0], [3.0]]),
        "times a number": lambda: wide * 2.0,
        "times a list": lambda: wide * [[1.0, 2.0, 3.0, 4.0]],
        "divided": lambda: wide / dense,
        "divided by a number": lambda: wide / 4.0,
        "ints divided": lambda: ints / 2,
        "ints times": lambda: ints * [[1, 2], [3, 4]],
        "with an infinity": lambda: wide * tf.constant([[np.inf, np.inf, np.nan, 1.0]]),
    }


def _sums(tf):
    sp, S = tf.sparse, tf.SparseTensor
    wide, other = _sparse(tf, WIDE), _sparse(tf, OTHER)
    return {
        "add": lambda: sp.add(wide, other),
        "add cancelling": lambda: sp.add(wide, wide.with_values(-wide.values)),
        "add threshold": lambda: sp.add(wide, other, 2.5),
        "add threshold 0.1": lambda: sp.add(wide, wide.with_values(-wide.values), 0.1),
        "add dense": lambda: sp.add(wide, tf.constant(_numbered(2, 4))),
        "dense add": lambda: sp.add(tf.constant(_numbered(2, 4)), wide),
        "add ints": lambda: sp.add(_sparse(tf, [1, 0, 2]), _sparse(tf, [0, 0, 3])),
        "add complex": lambda: sp.add(_sparse(tf, [1 + 1j, 0j]), _sparse(tf, [0j, 2j])),
        "maximum": lambda: sp.maximum(wide, other),
        "minimum": lambda: sp.minimum(wide, other),
        "maximum of ints": lambda: sp.maximum(S([[0]], [0], [7]), S([[1]], [1], [7])),
        "minimum of ints": lambda: sp.minimum(S([[0]], [0], [7]), S([[1]], [1], [7])),
        "softmax": lambda: sp.softmax(_sparse(tf, [[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])),
        "softmax deep": lambda: sp.softmax(_sparse(tf, [[[0.0, np.e], [1.0, 0.0]], [[np.e, 0.0], [np.e, np.e]]])),
    }


def _products(tf):
    sp = tf.sparse
    wide = _sparse(tf, WIDE)
    b, rows = tf.constant(_numbered(4, 3)), tf.constant(_numbered(2, 3))
    return {
        "matmul": lambda: sp.sparse_dense_matmul(wide, b),
        "matmul adjoint_a": lambda: sp.sparse_dense_matmul(wide, rows, adjoint_a=True),
        "matmul adjoint_b": lambda: sp.sparse_dense_matmul(wide, tf.transpose(b), adjoint_b=True),
        "matmul both": lambda: sp.sparse_dense_matmul(wide, tf.transpose(rows), True, True),
        "dense matmul": lambda: sp.sparse_dense_matmul(tf.constant(_numbered(3, 2)), wide),
        "dense matmul adjoint_a": lambda: sp.sparse_dense_matmul(rows, wide, adjoint_a=True),
        "dense matmul adjoint_b": lambda: sp.sparse_dense_matmul(tf.constant(_numbered(3, 4)), wide, adjoint_b=True),
        "matmul complex": lambda: sp.sparse_dense_matmul(
            _sparse(tf, [[1 + 1j, 0j], [0j, 2j]]), tf.constant([[1j, 2 + 0j], [3 + 0j, 4 + 0j]], tf.complex128), True
        ),
        "matmul ints": lambda: sp.sparse_dense_matmul(_sparse(tf, [[1, 0], [0, 7]]), [[1], [2]]),
        "matmul of nothing": lambda: sp.sparse_dense_matmul(_sparse(tf, [[0.0, 0.0]]), [[1.0], [2.0]]),
        "matmul unordered": lambda: sp.sparse_dense_matmul(
            tf.SparseTensor([[1, 0], [0, 1], [1, 0]], [1.0, 2.0, 3.0], [2, 2]), [[1.0], [2.0]]
        ),
    }


def _reductions(tf):
    sp, S = tf.sparse, tf.SparseTensor
    x = S([[0, 0], [0, 2], [1, 1]], [1, 1, 1], [2, 3])
    deep = _sparse(tf, [[[0.0, 1.0], [2.0, 0.0]], [[3.0, 0.0], [-4.0, -5.0]]])
    low = S([[0, 0], [1, 0], [1, 1]], [-7, 4, 3], [3, 2])
    return {
        "reduce_sum": lambda: sp.reduce_sum(x),
        "reduce_sum 0": lambda: sp.reduce_sum(x, 0),
        "reduce_sum 1": lambda: sp.reduce_sum(x, 1),
        "reduce_sum -1": lambda: sp.reduce_sum(x, -1),
        "reduce_sum keepdims": lambda: sp.reduce_sum(x, 1, keepdims=True),
        "reduce_sum all kept": lambda: sp.reduce_sum(x, keepdims=True),
        "reduce_sum both": lambda: sp.reduce_sum(x, [0, 1]),
        "reduce_sum deep": lambda: sp.reduce_sum(deep, [0, 2]),
        "reduce_sum sparse": lambda: sp.reduce_sum(x, 1, output_is_sparse=True),
        "reduce_sum sparse deep": lambda: sp.reduce_sum(deep, [1], output_is_sparse=True),
        "reduce_sum sparse keepdims": lambda: sp.reduce_sum(deep, 2, keepdims=True, output_is_sparse=True),
        "reduce_sum sparse all": lambda: sp.reduce_sum(x, output_is_sparse=True),
        "reduce_max": lambda: sp.reduce_max(low),
        "reduce_max 1": lambda: sp.reduce_max(low, 1),
        "reduce_max keepdims": lambda: sp.reduce_max(low, 1, keepdims=True),
        "reduce_max deep": lambda: sp.reduce_max(deep, [0, 2]),
        "reduce_max sparse": lambda: sp.reduce_max(low, 1, output_is_sparse=True),
        "reduce_max of nothing": lambda: sp.reduce_max(_sparse(tf, [[0.0, 0.0]]), 1),
        "reduce_sum of nothing": lambda: sp.reduce_sum(_sparse(tf, [[0.0, 0.0]])),
    }


def _segments(tf):
    sp = tf.sparse
    data = tf.constant(DATA)
    found = {}
    for name in ("segment_sum", "segment_mean", "segment_sqrt_n"):
        f = getattr(sp, name)
        found |= {
            name: lambda f=f: f(data, [0, 1], [0, 0]),
            f"{name} apart": lambda f=f: f(data, [0, 2], [0, 1]),
            f"{name} gap": lambda f=f: f(data, [0, 1, 2], [0, 0, 2]),
            f"{name} count": lambda f=f: f(data, [0, 1], [0, 2], num_segments=4),
            f"{name} vector": lambda f=f: f(tf.constant([1.0, 2.0, 3.0]), [2, 0, 0], [0, 0, 1]),
            f"{name} int64": lambda f=f: f(data, tf.constant([0, 1], tf.int64), tf.constant([0, 1], tf.int64)),
            f"{name} of nothing": lambda f=f: f(data, tf.zeros([0], tf.int32), tf.zeros([0], tf.int32)),
            f"{name} outside": lambda f=f: f(data, [0, 7], [0, 1]),
            f"{name} descending": lambda f=f: f(data, [0, 1], [1, 0]),
            f"{name} negative": lambda f=f: f(data, [0, 1], [-1, 0]),
            f"{name} misfit": lambda f=f: f(data, [0, 1], [0]),
            f"{name} too few": lambda f=f: f(data, [0, 1], [0, 4], num_segments=3),
            f"{name} gradient": lambda f=f: _rounded(_segment_gradient(tf, lambda x: f(x, [0, 2, 0], [0, 0, 1]))),
            f"{name} gradient traced": lambda f=f: _rounded(
                _segment_gradient(tf, tf.function(lambda x: f(x, [0, 2, 0], [0, 0, 1], num_segments=3)))
            ),
            f"{name} sparse gradient": lambda f=f: _rounded(
                tf.convert_to_tensor(_segment_gradient(tf, lambda x: f(x, [0, 2, 0], [0, 0, 1], sparse_gradient=True)))
            ),
            f"{name} traced": lambda f=f: tf.function(lambda x, i, s: f(x, i, s))(
                data, tf.constant([0, 1]), tf.constant([0, 2])
            ),
        }
    return found


def _segment_gradient(tf, function):
    x = tf.constant(DATA)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        z = tf.reduce_sum(y**2)
    return tape.gradient(z, x)


def _gradients(tf):
    sp, S = tf.sparse, tf.SparseTensor
    at, other_at = [[0, 0], [0, 2], [1, 0], [1, 3]], [[0, 0], [0, 1], [1, 3]]
    dense = _numbered(2, 4)

    def gradient(function, traced=False):
        values, others = tf.constant([1.0, 2.0, 3.0, 4.0]), tf.constant([5.0, 0.5, -6.0])

        def weighted(v, w):
            found = function(S(at, v, [2, 4]), S(other_at, w, [2, 4]))
            found = found.values if isinstance(found, S) else found
            weights = tf.reshape(tf.cumsum(tf.reshape(tf.ones_like(found), [-1])), tf.shape(found))
            return tf.reduce_sum(found**2 * weights)

        weighted = tf.function(weighted) if traced else weighted
        with tf.GradientTape() as tape:
            tape.watch([values, others])
            y = weighted(values, others)
        return tape.gradient(y, [values, others])

    def by_dense(function, dense, traced=False):
        x = tf.constant(dense)

        def squares(x):
            found = function(S(at, tf.constant([1.0, 2.0, 3.0, 4.0]), [2, 4]), x)
            return tf.reduce_sum((found.values if isinstance(found, S) else found) ** 2)

        squares = tf.function(squares) if traced else squares
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = squares(x)
        return tape.gradient(y, x)

    b = _numbered(4, 3)
    found = {}
    for traced in (False, True):
        mark = " traced" if traced else ""
        found |= {
            f"gradient times{mark}": lambda t=traced: gradient(lambda s, _: s * dense, t)[0],
            f"gradient divided{mark}": lambda t=traced: gradient(lambda s, _: s / dense, t)[0],
            f"gradient add{mark}": lambda t=traced: gradient(lambda s, o: sp.add(s, o), t),
            f"gradient add dense{mark}": lambda t=traced: gradient(lambda s, _: sp.add(s, dense), t)[0],
            f"gradient softmax{mark}": lambda t=traced: _rounded(gradient(lambda s, _: sp.softmax(s), t)[0]),
            f"gradient matmul{mark}": lambda t=traced: gradient(lambda s, _: sp.sparse_dense_matmul(s, b), t)[0],
            f"gradient matmul adjoint{mark}": lambda t=traced: gradient(
                lambda s, _: sp.sparse_dense_matmul(s, dense[:, :3], adjoint_a=True), t
            )[0],
            f"gradient dense matmul{mark}": lambda t=traced: gradient(
                lambda s, _: sp.sparse_dense_matmul(b[:, :2], s), t
            )[0],
            f"gradient reduce_sum{mark}": lambda t=traced: gradient(lambda s, _: sp.reduce_sum(s, 1), t)[0],
            f"gradient reduce_sum 0{mark}": lambda t=traced: gradient(lambda s, _: sp.reduce_sum(s, 0, True), t)[0],
            f"matmul by dense{mark}": lambda t=traced: by_dense(sp.sparse_dense_matmul, b, t),
            f"matmul adjoint_a by dense{mark}": lambda t=traced: by_dense(
                lambda s, x: sp.sparse_dense_matmul(s, x, adjoint_a=True), dense[:, :3], t
            ),
            f"matmul adjoint_b by dense{mark}": lambda t=traced: by_dense(
                lambda s, x: sp.sparse_dense_matmul(s, x, adjoint_b=True), b.T.copy(), t
            ),
            f"add by dense{mark}": lambda t=traced: by_dense(sp.add, dense, t),
        }
    return found


def _rounded(x):
    return np.round(x.numpy(), 5) + 0.0


def _traced(tf):
    sp = tf.sparse
    wide, other = _sparse(tf, WIDE), _sparse(tf, OTHER)

    def matmul(s, b):
        f = tf.function(
            sp.sparse_dense_matmul, input_signature=[tf.SparseTensorSpec([None, None]), tf.TensorSpec([None, None])]
        )
        return f(s, b)

    return {
        "times traced": lambda: of_any_size(tf, lambda s: s * 2.0, wide),
        "times dense traced": lambda: of_any_size(tf, lambda s: s * _numbered(2, 4), wide),
        "divided traced": lambda: of_any_size(tf, lambda s: s / tf.constant([1.0, 2.0, 3.0, 4.0]), wide),
        "add traced": lambda: of_any_size(tf, lambda a, b: sp.add(a, b), wide, other),
        "add dense traced": lambda: of_any_size(tf, lambda a: sp.add(a, _numbered(2, 4)), wide),
        "maximum traced": lambda: of_any_size(tf, lambda a, b: sp.maximum(a, b), wide, other),
        "softmax traced": lambda: of_any_size(tf, lambda s: sp.softmax(s), _sparse(tf, [[0.0, 1.0], [1.0, 1.0]])),
        "matmul traced": lambda: matmul(wide, tf.constant(_numbered(4, 3))),
        "matmul traced, other size": lambda: matmul(_sparse(tf, [[1.0, 2.0]]), tf.constant(_numbered(2, 1))),
        "matmul traced, misfit": lambda: kind(lambda: matmul(wide, tf.constant(_numbered(3, 3)))),
        "reduce_sum traced": lambda: of_any_size(tf, lambda s: sp.reduce_sum(s, 1), wide),
        "reduce_sum all traced": lambda: of_any_size(tf, lambda s: sp.reduce_sum(s), wide),
        "reduce_max traced": lambda: of_any_size(tf, lambda s: sp.reduce_max(s, 0), wide),
        "reduce_sum sparse traced": lambda: of_any_size(tf, lambda s: sp.reduce_sum(s, 0, output_is_sparse=True), wide),
    }


def _rejected(tf):
    sp, S = tf.sparse, tf.SparseTensor
    wide, short = _sparse(tf, WIDE), _sparse(tf, [[1.0, 2.0]])
    return {
        "times sparse": lambda: kind(lambda: wide * wide),
        "times misfit": lambda: wide * tf.ones([3, 4]),
        "times deeper": lambda: wide * tf.ones([1, 2, 4]),
        "times ints": lambda: kind(lambda: wide * tf.constant(2)),
        "divided by ints": lambda: wide / tf.constant(2),
        "dense divided": lambda: kind(lambda: tf.ones([2, 4]) / wide),
        "number times": lambda: 2.0 * wide,
        "dense plus": lambda: kind(lambda: tf.ones([2, 4]) + wide),
        "add two dense": lambda: sp.add(tf.ones([2]), tf.ones([2])),
        "add misfit": lambda: sp.add(wide, short),
        "add ranks": lambda: sp.add(wide, _sparse(tf, [1.0])),
        "add dtypes": lambda: kind(lambda: sp.add(wide, _sparse(tf, [[1, 0, 0, 0], [0, 0, 0, 0]]))),
        "add dense misfit": lambda: sp.add(wide, tf.ones([2, 3])),
        "add dense rank": lambda: sp.add(wide, tf.ones([4])),
        "maximum misfit": lambda: sp.maximum(wide, short),
        "maximum ranks": lambda: sp.maximum(wide, _sparse(tf, [1.0])),
        "softmax of a vector": lambda: sp.softmax(_sparse(tf, [1.0])),
        "softmax of ints": lambda: kind(lambda: sp.softmax(_sparse(tf, [[1]]))),
        "matmul misfit": lambda: sp.sparse_dense_matmul(wide, tf.ones([3, 3])),
        "matmul vector": lambda: sp.sparse_dense_matmul(wide, tf.ones([4])),
        "matmul of rank 3": lambda: sp.sparse_dense_matmul(S([[0, 0, 0]], [1.0], [1, 1, 1]), tf.ones([1, 1])),
        "matmul dtypes": lambda: kind(lambda: sp.sparse_dense_matmul(wide, tf.ones([4, 2], tf.float64))),
        "matmul outside": lambda: sp.sparse_dense_matmul(S([[0, 9]], [1.0], [2, 4]), tf.ones([4, 1])),
        "matmul rows outside": lambda: sp.sparse_dense_matmul(S([[9, 0]], [1.0], [2, 4]), tf.ones([4, 1])),
        "matmul two dense": lambda: sp.sparse_dense_matmul(tf.ones([2, 2]), tf.ones([2, 2])),
        "reduce_sum axis": lambda: sp.reduce_sum(wide, 2),
    }
