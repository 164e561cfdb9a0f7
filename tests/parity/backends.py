"""What libraries with a backend for TensorFlow ask of it, found by running their tests."""

import numpy as np


def programs(tf):
    return {**_operators(tf), **_known(tf), **_seeded(tf), **_fed_by_nobody(tf)}


def _operators(tf):
    """Classes that borrow a tensor's operators."""
    values = {"int": [7, -7], "float": [7.0, -7.0], "complex": [1 + 2j], "bool": [True]}

    def divided(value):
        x = tf.constant(value)
        return [x.__div__(2), x.__rdiv__(2), tf.Variable(x).__div__(2)]

    return {
        "operators": lambda: sorted(tf.Tensor.OVERLOADABLE_OPERATORS),
        "operators of each kind": lambda: [
            all(hasattr(kind, name) for name in tf.Tensor.OVERLOADABLE_OPERATORS)
            for kind in (tf.Tensor, type(tf.constant(1)), tf.Variable)
        ],
        "nonzero": lambda: [tf.constant(value).__nonzero__() for value in (0, 2.0)],
        **{f"divided, {kind}": lambda value=value: divided(value) for kind, value in values.items()},
    }


def _known(tf):
    """Static values of what is no tensor: itself."""
    values = (np.float32(2), np.ones(2), [1, 2], (tf.constant(1),), tf.TensorShape([1, 2]), None, "a", {"b": 1})
    composites = {
        "ragged": lambda: tf.RaggedTensor.from_row_lengths([1], [1]),
        "sparse": lambda: tf.SparseTensor([[0]], [1], [1]),
        "indexed": lambda: tf.IndexedSlices(tf.ones([1]), tf.constant([0])),
    }
    return {
        "static values of no tensors": lambda: [tf.get_static_value(value) for value in values],
        **{f"static value, {kind}": lambda made=made: tf.get_static_value(made()) for kind, made in composites.items()},
    }


def _seeded(tf):
    """Seeds of any size: those that libraries make of hashes."""
    sizes = (2**31 - 1, 2**40, 2**70, -1, 10**80, -(10**80))

    def drawn(seed):
        tf.random.set_seed(1)
        return tf.random.uniform([2], seed=seed), tf.function(lambda: tf.random.uniform([2], seed=seed))()

    def drawn_after(seed):
        tf.random.set_seed(seed)
        return tf.random.uniform([2], seed=1), tf.random.uniform([2])

    return {
        "seeds of ops": lambda: [drawn(seed) for seed in sizes],
        "seeds of all": lambda: [drawn_after(seed) for seed in sizes],
    }


def _fed_by_nobody(tf):
    """Placeholders of TensorFlow 1 outside its graphs."""
    placeholder = tf.compat.v1.placeholder_with_default

    @tf.function
    def shaped(shape):
        x = placeholder([1.0, 2.0], shape)
        return x + 1.0, str(x.shape)

    return {
        "a placeholder": lambda: tf.compat.v1.placeholder(tf.float32, [2]),
        "defaults": lambda: [placeholder([1.0, 2.0], shape) for shape in ([2], [None], None, [3])],
        "defaults in functions": lambda: [shaped(shape) for shape in ([2], [None])],
    }
