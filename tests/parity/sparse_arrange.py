"""tf.sparse: reordering, slicing and concatenation; with gradients of the values, and in functions of unknown shapes."""

import numpy as np
from parity_calls import of_any_size


def programs(tf):
    return _moving(tf) | _cutting(tf) | _rows(tf) | _gradients(tf) | _traced(tf) | _rejected(tf)


def _sparse(tf, dense):
    return tf.sparse.from_dense(tf.constant(dense))


WIDE = [[1.0, 0.0, 2.0, 0.0], [3.0, 0.0, 0.0, 4.0]]
OTHER = [[0.0, 5.0, 0.0, 0.0], [6.0, 0.0, 0.0, 0.0]]


def _moving(tf):
    sp, S = tf.sparse, tf.SparseTensor
    wide, other = _sparse(tf, WIDE), _sparse(tf, OTHER)
    mixed = S([[1, 2], [0, 3], [1, 0], [0, 0]], ["d", "b", "c", "a"], [2, 4])
    deep = S([[0, 0, 1], [0, 0, 3], [1, 2, 3], [1, 3, 1]], [1.1, 2.2, 3.3, 4.4], [2, 4, 5])
    return {
        "reorder": lambda: sp.reorder(mixed),
        "reorder deep": lambda: sp.reorder(S([[1, 0, 1], [0, 1, 0], [1, 0, 0]], [1, 2, 3], [2, 2, 2])),
        "reorder equal places": lambda: sp.reorder(S([[1], [0], [1]], [1, 2, 3], [2])),
        "reorder huge": lambda: sp.reorder(S([[2**40, 1], [1, 2**50]], [1, 2], [2**41, 2**51])),
        "transpose": lambda: sp.transpose(wide),
        "transpose perm": lambda: sp.transpose(deep, perm=[0, 2, 1]),
        "transpose deep": lambda: sp.transpose(deep),
        "reshape": lambda: sp.reshape(wide, [4, 2]),
        "reshape inferred": lambda: sp.reshape(wide, [2, -1, 2]),
        "reshape flat": lambda: sp.reshape(deep, [-1]),
        "reshape tensor": lambda: sp.reshape(wide, tf.constant([8, 1])),
        "expand_dims": lambda: sp.expand_dims(wide),
        "expand_dims 0": lambda: sp.expand_dims(wide, 0),
        "expand_dims 1": lambda: sp.expand_dims(wide, axis=1),
        "expand_dims -2": lambda: sp.expand_dims(wide, -2),
        "concat": lambda: sp.concat(1, [wide, other]),
        "concat rows": lambda: sp.concat(0, [wide, other, wide]),
        "concat last": lambda: sp.concat(-1, [wide, other]),
        "concat one": lambda: sp.concat(0, [wide]),
        "concat texts": lambda: sp.concat(0, [mixed, mixed]),
        "concat expanded": lambda: sp.concat(0, [wide, _sparse(tf, [[7.0]])], expand_nonconcat_dims=True),
        "concat expanded columns": lambda: sp.concat(1, [wide, _sparse(tf, [[7.0], [0.0], [8.0]])], True),
    }


def _cutting(tf):
    sp, S = tf.sparse, tf.SparseTensor
    wide = _sparse(tf, WIDE)
    t = S([[0, 2], [0, 4], [0, 5], [1, 0], [1, 1]], [1, 2, 3, 4, 5], [2, 7])
    return {
        "slice": lambda: sp.slice(t, [0, 0], [2, 4]),
        "slice rest": lambda: sp.slice(t, [0, 4], [2, 3]),
        "slice past the end": lambda: sp.slice(t, [1, 0], [5, 5]),
        "slice nothing": lambda: sp.slice(t, [0, 6], [2, 1]),
        "slice beyond": lambda: sp.slice(t, [0, 9], [2, 3]),
        "split": lambda: sp.split(sp_input=t, num_split=2, axis=1),
        "split rows": lambda: sp.split(t, 2, 0),
        "split -1": lambda: sp.split(t, 3, -1),
        "retain": lambda: sp.retain(wide, [True, False, False, True]),
        "retain tensor": lambda: sp.retain(wide, tf.constant([False] * 4)),
        "reset_shape": lambda: sp.reset_shape(S([[0, 1], [1, 0]], [1, 2], [4, 5])),
        "reset_shape given": lambda: sp.reset_shape(wide, [3, 5]),
        "reset_shape of nothing": lambda: sp.reset_shape(S(np.zeros((0, 2), np.int64), np.zeros(0), [4, 5])),
        "mask": lambda: str(sp.mask(_rows_of(tf), [12, 45])),
    }


def _rows_of(tf):
    return tf.IndexedSlices(
        tf.constant([[1.0, 1.5], [2.0, 2.5], [3.0, 3.5], [4.0, 4.5]]), tf.constant([12, 26, 37, 45])
    )


def _rows(tf):
    sp, S = tf.sparse, tf.SparseTensor
    gaps = S([[0, 1], [0, 3], [2, 0], [3, 1]], ["a", "b", "c", "d"], [5, 6])
    return {
        "fill_empty_rows": lambda: sp.fill_empty_rows(gaps, "x"),
        "fill_empty_rows, none empty": lambda: sp.fill_empty_rows(S([[0, 0], [1, 1]], [1, 2], [2, 2]), 9),
        "fill_empty_rows, all empty": lambda: sp.fill_empty_rows(
            S(np.zeros((0, 2), np.int64), tf.zeros([0]), [2, 2]), 9.0
        ),
        "fill_empty_rows, mixed": lambda: sp.fill_empty_rows(S([[2, 1], [0, 1], [2, 0]], [1, 2, 3], [4, 2]), -1),
        "map_values": lambda: sp.map_values(tf.ones_like, _sparse(tf, WIDE)),
        "map_values two": lambda: sp.map_values(tf.multiply, _sparse(tf, WIDE), _sparse(tf, WIDE)),
        "map_values number": lambda: sp.map_values(tf.add, _sparse(tf, WIDE), 5.0),
        "map_values keywords": lambda: sp.map_values(tf.multiply, x=_sparse(tf, WIDE), y=2.0),
    }


def _gradients(tf):
    sp, S = tf.sparse, tf.SparseTensor
    at = [[0, 0], [0, 2], [1, 0], [1, 3]]

    def gradient(function):
        values = tf.constant([1.0, 2.0, 3.0, 4.0])
        with tf.GradientTape() as tape:
            tape.watch(values)
            found = function(S(at, values, [2, 4]))
            weights = tf.range(1.0, 1.0 + tf.cast(tf.size(found.values), tf.float32))
            y = tf.reduce_sum(found.values**2 * weights)
        return tf.convert_to_tensor(tape.gradient(y, values))

    def default():
        default = tf.constant(5.0)
        with tf.GradientTape() as tape:
            tape.watch(default)
            found, _ = sp.fill_empty_rows(S([[1, 0]], [1.0], [3, 2]), default)
            y = tf.reduce_sum(found.values**2)
        return tape.gradient(y, default)

    return {
        "gradient reorder": lambda: gradient(lambda s: sp.reorder(S(s.indices[::-1], s.values, s.dense_shape))),
        "gradient transpose": lambda: gradient(sp.transpose),
        "gradient reshape": lambda: gradient(lambda s: sp.reshape(s, [4, 2])),
        "gradient expand_dims": lambda: gradient(lambda s: sp.expand_dims(s, 1)),
        "gradient slice": lambda: gradient(lambda s: sp.slice(s, [0, 1], [2, 3])),
        "gradient retain": lambda: gradient(lambda s: sp.retain(s, [True, False, True, True])),
        "gradient fill_empty_rows": lambda: gradient(lambda s: sp.fill_empty_rows(s, 3.0)[0]),
        "gradient fill_empty_rows default": default,
        "gradient map_values": lambda: gradient(lambda s: sp.map_values(tf.square, s)),
    }


def _traced(tf):
    sp = tf.sparse
    wide, other = _sparse(tf, WIDE), _sparse(tf, OTHER)

    return {
        "reorder traced": lambda: of_any_size(tf, lambda s: sp.reorder(s), wide),
        "transpose traced": lambda: of_any_size(tf, lambda s: sp.transpose(s), wide),
        "reshape traced": lambda: of_any_size(tf, lambda s: sp.reshape(s, [4, 2]), wide),
        "reshape inferred traced": lambda: of_any_size(tf, lambda s: sp.reshape(s, [-1]), wide),
        "expand_dims traced": lambda: of_any_size(tf, lambda s: sp.expand_dims(s, 0), wide),
        "concat traced": lambda: of_any_size(tf, lambda a, b: sp.concat(1, [a, b]), wide, other),
        "concat expanded traced": lambda: of_any_size(
            tf, lambda a, b: sp.concat(0, [a, b], True), wide, _sparse(tf, [[7.0]])
        ),
        "slice traced": lambda: of_any_size(tf, lambda s: sp.slice(s, [0, 1], [2, 2]), wide),
        "split traced": lambda: of_any_size(tf, lambda s: sp.split(s, 2, 1), wide),
        "retain traced": lambda: of_any_size(tf, lambda s: sp.retain(s, s.values > 2.0), wide),
        "reset_shape traced": lambda: of_any_size(tf, lambda s: sp.reset_shape(s), wide),
        "fill_empty_rows traced": lambda: of_any_size(
            tf, lambda s: sp.fill_empty_rows(s, 5.0), _sparse(tf, [[0.0], [1.0]])
        ),
        "map_values traced": lambda: of_any_size(tf, lambda s: sp.map_values(tf.square, s), wide),
        "known shape": lambda: tf.function(lambda s: sp.transpose(sp.reshape(s, [-1, 2])))(wide),
        "static shapes": lambda: _static_shapes(tf),
    }


def _static_shapes(tf):
    sp, shapes = tf.sparse, []

    @tf.function
    def f(s):
        shapes.extend([sp.reorder(s).shape, sp.reshape(s, [-1, 2]).shape, sp.transpose(s).shape])
        shapes.append(sp.concat(0, [s, s]).shape)
        return s

    f(_sparse(tf, WIDE))
    return shapes


def _rejected(tf):
    sp, S = tf.sparse, tf.SparseTensor
    wide = _sparse(tf, WIDE)
    return {
        "reorder dense": lambda: sp.reorder(tf.ones([2])),
        "reorder outside": lambda: sp.reorder(S([[0, 5], [0, 1]], [1, 2], [2, 2])),
        "reshape misfit": lambda: sp.reshape(wide, [3, 3]),
        "reshape two unknown": lambda: sp.reshape(wide, [-1, -1]),
        "reshape misfit inferred": lambda: sp.reshape(wide, [3, -1]),
        "reshape dense": lambda: sp.reshape(tf.ones([2]), [2]),
        "expand_dims float": lambda: sp.expand_dims(wide, 0.5),
        "concat dense": lambda: sp.concat(0, [wide, tf.ones([2, 4])]),
        "concat no list": lambda: sp.concat(0, wide),
        "concat misfit": lambda: sp.concat(0, [wide, _sparse(tf, [[7.0]])]),
        "concat ranks": lambda: sp.concat(0, [wide, _sparse(tf, [7.0])]),
        "concat axis": lambda: sp.concat(2, [wide, wide]),
        "slice dense": lambda: sp.slice(tf.ones([2]), [0], [1]),
        "slice rank": lambda: sp.slice(wide, [0], [1]),
        "split nothing": lambda: sp.split(),
        "split no number": lambda: sp.split(wide),
        "split no axis": lambda: sp.split(wide, 2),
        "split too many": lambda: sp.split(wide, 3, 0),
        "split axis": lambda: sp.split(wide, 2, 2),
        "retain dense": lambda: sp.retain(tf.ones([2]), [True, True]),
        "retain misfit": lambda: sp.retain(wide, [True]),
        "retain matrix": lambda: sp.retain(wide, [[True]]),
        "reset_shape smaller": lambda: sp.reset_shape(wide, [1, 4]),
        "reset_shape rank": lambda: sp.reset_shape(wide, [2, 4, 1]),
        "fill_empty_rows dense": lambda: sp.fill_empty_rows(tf.ones([2]), 1.0),
        "fill_empty_rows outside": lambda: sp.fill_empty_rows(S([[7, 0]], [1], [2, 2]), 0),
        "fill_empty_rows default vector": lambda: sp.fill_empty_rows(wide, [0.0]),
        "map_values without": lambda: sp.map_values(tf.sin, 1.0),
        "map_values misfit": lambda: sp.map_values(tf.add, wide, _sparse(tf, OTHER)).shape,
        "map_values other shape": lambda: _kind(lambda: sp.map_values(tf.add, wide, sp.reset_shape(wide, [3, 4]))),
    }


def _kind(program):
    try:
        program()
    except Exception as error:
        return type(error).__name__
