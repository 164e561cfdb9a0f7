"""Datasets saved, and loaded without an element spec."""

import tempfile


def programs(tf):
    ragged, sparse = tf.ragged.constant([[1, 2], [3], []]), tf.sparse.from_dense([[1, 0], [0, 2]])
    values = {
        "tensors": tf.constant([1.0, 2.0]),
        "rows of several lengths": ragged,
        "tuples with such rows": ((ragged, tf.range(3)), tf.ones([3])),
        "ragged rows": tf.ragged.constant([[[b"a"], [b"b"]], [[b"c"]]]),
        "sparse rows": (sparse, tf.constant([1, 2])),
    }
    return {label: lambda value=value: _again(tf, value) for label, value in values.items()}


def _again(tf, value):
    with tempfile.TemporaryDirectory() as folder:
        tf.data.Dataset.from_tensor_slices(value).save(folder)
        loaded = tf.data.Dataset.load(folder)
        return loaded.element_spec, [str(x) for x in loaded]
