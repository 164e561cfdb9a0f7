"""tf.sets, tf.edit_distance and tf.sparse.bincount; eager and in functions."""

import numpy as np
from parity_calls import kind


def programs(tf):
    return _sets(tf) | _distances(tf) | _counts(tf) | _rejected(tf)


def _sparse(tf, dense):
    return tf.sparse.from_dense(tf.constant(dense))


def _sets(tf):
    s = tf.sets
    a, b = [[1, 2, 3], [4, 4, 5]], [[3, 2, 9], [5, 6, 7]]
    sa, sb = _sparse(tf, [[1, 2, 0], [3, 3, 4]]), _sparse(tf, [[0, 2, 5], [4, 0, 0]])
    texts, others = _sparse(tf, [["b", "a"], ["", "c"]]), _sparse(tf, [["a", ""], ["d", "c"]])
    return {
        "intersection": lambda: s.intersection(a, b),
        "union": lambda: s.union(a, b),
        "difference": lambda: s.difference(a, b),
        "difference b-a": lambda: s.difference(a, b, aminusb=False),
        "intersection sparse": lambda: s.intersection(sa, sb),
        "union sparse": lambda: s.union(sa, sb),
        "difference sparse": lambda: s.difference(sa, sb),
        "difference sparse b-a": lambda: s.difference(sa, sb, False),
        "union dense and sparse": lambda: s.union([[1, 1, 7], [8, 8, 8]], sb),
        "union sparse and dense": lambda: s.union(sa, [[1, 1, 7], [8, 8, 8]]),
        "difference sparse and dense": lambda: s.difference(sa, [[1, 1, 7], [3, 8, 8]]),
        "union texts": lambda: s.union(texts, others),
        "intersection texts": lambda: s.intersection(texts, others),
        "union deep": lambda: s.union([[[1, 2]], [[3, 3]]], [[[2, 4]], [[3, 1]]]),
        "union of vectors": lambda: s.union([1, 2], [2, 3]),
        "size": lambda: s.size(sa),
        "size texts": lambda: s.size(texts),
        "size deep": lambda: s.size(_sparse(tf, [[[1, 1], [2, 3]], [[0, 0], [4, 0]]])),
        "union traced": lambda: tf.function(lambda x, y: s.union(x, y))(sa, sb),
        "size traced": lambda: tf.function(lambda x: s.size(x))(sa),
        "size of any size": lambda: tf.function(
            lambda x: s.size(x), input_signature=[tf.SparseTensorSpec([None, None], tf.int32)]
        )(sa),
    }


def _distances(tf):
    d = tf.edit_distance
    a, b = _sparse(tf, [["a", "", ""], ["b", "c", "d"]]), _sparse(tf, [["a", "x", ""], ["c", "d", ""]])
    deep = tf.SparseTensor([[0, 0, 0], [1, 0, 0]], ["a", "b"], [2, 1, 1])
    truth = tf.SparseTensor([[0, 1, 0], [1, 0, 0], [1, 0, 1], [1, 1, 0]], ["a", "b", "c", "a"], [2, 2, 2])
    return {
        "distance": lambda: d(a, b),
        "distance, not normalized": lambda: d(a, b, normalize=False),
        "distance of numbers": lambda: d(_sparse(tf, [[1, 2, 3]]), _sparse(tf, [[1, 3, 3]])),
        "distance of the documentation": lambda: d(deep, truth),
        "distance of the documentation, not normalized": lambda: d(deep, truth, False),
        "distance of a vector": lambda: d(_sparse(tf, [1, 2]), _sparse(tf, [2, 2])),
        "distance traced": lambda: tf.function(lambda x, y: d(x, y))(a, b),
    }


def _counts(tf):
    c = tf.sparse.bincount
    data = np.array([[10, 2, 3, 2], [1, 5, 1, 7]])
    sparse = tf.SparseTensor([[0, 3], [0, 7], [1, 0], [1, 1]], [3, 1, 3, 3], [2, 8])
    weights = [[2.0, 0.25, 15.0, 0.5], [2.0, 17.0, 3.0, 0.5]]
    return {
        "bincount": lambda: c(data),
        "bincount axis None": lambda: c(data, axis=None),
        "bincount rows": lambda: c(data, axis=-1),
        "bincount int32": lambda: c([1, 1, 3]),
        "bincount weights": lambda: c(data, weights=weights, axis=-1),
        "bincount minlength": lambda: c([1, 1, 3], minlength=9),
        "bincount maxlength": lambda: c(data, axis=-1, maxlength=5),
        "bincount both lengths": lambda: c(data, axis=-1, minlength=6, maxlength=6),
        "bincount binary": lambda: c(data, axis=-1, binary_output=True),
        "bincount sparse": lambda: c(sparse),
        "bincount sparse rows": lambda: c(sparse, axis=-1),
        "bincount sparse weights": lambda: c(sparse, sparse.with_values([1.0, 2.0, 3.0, 4.0]), axis=-1),
        "bincount sparse weights, all": lambda: c(sparse, sparse.with_values([1.0, 2.0, 3.0, 4.0])),
        "bincount of nothing": lambda: c(np.zeros([0], np.int32)),
        "bincount traced": lambda: tf.function(lambda x: c(x, axis=-1))(data),
        "bincount sparse traced": lambda: tf.function(lambda x: c(x, axis=-1))(sparse),
    }


def _rejected(tf):
    c, sparse = tf.sparse.bincount, _sparse(tf, [[1, 2]])
    return {
        "sets of floats": lambda: kind(lambda: tf.sets.union([[1.0]], [[1.0]])),
        "sets of two dtypes": lambda: tf.sets.union([[1]], tf.constant([[1]], tf.int64)),
        "sets of other shapes": lambda: kind(lambda: tf.sets.union([[1], [2]], [[1]])),
        "size of dense": lambda: tf.sets.size(tf.constant([[1]])),
        "distance of dense": lambda: tf.edit_distance([[1]], sparse),
        "distance from dense": lambda: tf.edit_distance(sparse, [[1]]),
        "bincount negative": lambda: kind(lambda: c([1, -1])),
        "bincount axis": lambda: c([[1]], axis=1),
        "bincount weights and binary": lambda: c([1], weights=[1.0], binary_output=True),
        "bincount dense weights": lambda: kind(lambda: c(sparse, weights=[[1.0, 2.0]], axis=-1)),
        "bincount other weights": lambda: kind(lambda: c([1, 2], weights=[1.0])),
    }
