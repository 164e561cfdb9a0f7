"""Sparse tensors: creation, printing, conversion to dense; in functions, branches, loops, nests and under tapes."""

import contextlib
import io
import tempfile
from pathlib import Path

import numpy as np
from parity_calls import kind


def programs(tf):
    return _making(tf) | _looking(tf) | _dense(tf) | _traced(tf) | _rejected(tf)


def _one(tf, values=(1.0, 2.0), indices=((0, 0), (1, 2)), shape=(3, 4)):
    return tf.SparseTensor(indices, tf.constant(values), shape)


def _printed(tf, *values, **kwargs):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        tf.print(*values, output_stream=f"file://{path}", **kwargs)
        return path.read_text()


def _making(tf):
    S = tf.SparseTensor
    return {
        "lists": lambda: S(indices=[[0, 0], [1, 2]], values=[1, 2], dense_shape=[3, 4]),
        "arrays": lambda: S(np.array([[0, 0], [1, 2]]), np.array([1.5, 2.5]), np.array([3, 4])),
        "tensors": lambda: S(tf.constant([[3]], tf.int64), tf.constant(["a"]), tf.constant([4], tf.int64)),
        "repr": lambda: repr(_one(tf)),
        "names": lambda: (tf.sparse.SparseTensor is S, tf.compat.v1.SparseTensorValue._fields),
        "from_value": lambda: S.from_value(_one(tf)),
        "from_value arrays": lambda: S.from_value(tf.compat.v1.SparseTensorValue([[0]], [1], [3])),
        "with_values": lambda: _one(tf).with_values([10, 20]),
        "from_dense": lambda: tf.sparse.from_dense([[1, 0, 2, 0], [3, 0, 0, 4]]),
        "from_dense nan": lambda: tf.sparse.from_dense([[0.0, float("nan"), -0.0, 1.0]]),
        "from_dense bool": lambda: tf.sparse.from_dense([True, False]),
        "from_dense text": lambda: tf.sparse.from_dense([["a", ""], ["", "b"]]),
        "from_dense nothing": lambda: tf.sparse.from_dense([[0, 0]]),
        "from_dense deep": lambda: tf.sparse.from_dense(np.arange(8).reshape(2, 2, 2)),
        "eye": lambda: tf.sparse.eye(2),
        "eye wide": lambda: tf.sparse.eye(2, 3, tf.int32),
        "eye tall": lambda: tf.sparse.eye(tf.constant(3), 2),
    }


def _looking(tf):
    sp = _one(tf)
    spec = tf.SparseTensorSpec
    return {
        "properties": lambda: (sp.indices, sp.values, sp.dense_shape, sp.dtype, sp.shape, sp.get_shape()),
        "set_shape": lambda: (sp.set_shape([3, None]), sp.shape),
        "is_tensor": lambda: tf.is_tensor(sp),
        "consumers": lambda: sp.consumers(),
        "equal to itself": lambda: (sp == sp, sp == _one(tf), bool(sp)),
        "spec": lambda: (sp._type_spec, tf.type_spec_from_value(sp), spec.from_value(sp)),
        "spec printed": lambda: (spec([None, 3], tf.int32), spec(), spec([2]).value_type.__name__),
        "specs": lambda: (
            spec([2, 3]) == spec([2, 3]),
            spec([2, 3]) == spec([2, None]),
            spec([None, None]).is_compatible_with(sp),
            spec([4, None]).is_compatible_with(sp),
            spec([None, None], tf.int32).is_compatible_with(sp),
            spec([2, 3]).is_subtype_of(spec([2, None])),
            spec([2, 3]).most_specific_common_supertype([spec([2, 4])]),
            spec([2, 3]).most_specific_common_supertype([spec([2, 4], tf.int32)]),
        ),
        "spec's parts": lambda: (spec([2, 3], tf.int32).shape, spec([2, 3], tf.int32).dtype),
        "flatten": lambda: len(tf.nest.flatten([sp, 1])),
        "flatten, expanded": lambda: tf.nest.flatten([sp, 1], expand_composites=True),
        "map, expanded": lambda: tf.nest.map_structure(lambda t: t, {"a": sp}, expand_composites=True)["a"],
        "pack into a spec": lambda: tf.nest.pack_sequence_as(
            spec([4]), [tf.constant([[1]], tf.int64), tf.constant([2.0]), tf.constant([4], tf.int64)], True
        ),
        "print": lambda: _printed(tf, sp),
        "print nested": lambda: _printed(tf, "x", {"a": [sp, 1]}, summarize=1),
        "print many": lambda: _printed(tf, tf.SparseTensor([[i] for i in range(10)], list(range(10)), [10])),
    }


def _dense(tf):
    to_dense, S = tf.sparse.to_dense, tf.SparseTensor
    twice = S([[0, 1], [0, 0], [0, 1]], [1, 2, 3], [2, 2])

    def gradients():
        values, default = tf.constant([1.0, 2.0]), tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch([values, default])
            y = to_dense(S([[0, 0], [1, 2]], values, [3, 4]), default) ** 2 * np.arange(12.0).reshape(3, 4)
        return tape.gradient(y, [values, default])

    def from_dense_gradient():
        x = tf.constant([[1.0, 0.0], [0.0, 3.0]])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sparse.from_dense(x).values ** 2
        return tape.gradient(y, x)

    def from_vector_gradient():
        x = tf.constant([1.0, 0.0, 3.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sparse.from_dense(x).values ** 2
        return tf.convert_to_tensor(tape.gradient(y, x))

    return {
        "to_dense": lambda: to_dense(_one(tf)),
        "to_dense default": lambda: to_dense(_one(tf), 7.0),
        "to_dense text": lambda: to_dense(S([[0], [2]], ["a", "b"], [4])),
        "to_dense text default": lambda: to_dense(S([[0], [2]], ["a", "b"], [4]), "-"),
        "to_dense deep": lambda: to_dense(S([[0, 0, 1], [1, 1, 0]], [1, 2], [2, 2, 2])),
        "to_dense nothing": lambda: to_dense(S(np.zeros((0, 2), np.int64), np.zeros(0), [2, 3])),
        "to_dense unchecked": lambda: to_dense(twice, validate_indices=False),
        "to_dense of arrays": lambda: to_dense(tf.compat.v1.SparseTensorValue([[0]], [1], [3])),
        "to_dense gradients": gradients,
        "from_dense gradient": from_dense_gradient,
        "from_dense gradient of a vector": from_vector_gradient,
        "to_indicator": lambda: tf.sparse.to_indicator(S([[0, 0], [1, 0]], [2, 0], [2, 1]), 3),
        "to_indicator, repeated": lambda: tf.sparse.to_indicator(S([[0, 0], [0, 1]], [2, 2], [1, 2]), 3),
    }


def _traced(tf):
    S = tf.SparseTensor

    @tf.function
    def both(s):
        return s, tf.sparse.to_dense(s, -1.0)

    @tf.function(input_signature=[tf.SparseTensorSpec([None, None])])
    def of_any_size(s):
        return tf.sparse.to_dense(s) * 2.0

    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def sparse_again(x):
        s = tf.sparse.from_dense(x)
        return s.with_values(s.values * 2.0)

    @tf.function
    def made(indices, values):
        return S(indices, values, [3, 4])

    @tf.function
    def branched(s, flag):
        return tf.cond(flag, lambda: s, lambda: s.with_values(-s.values))

    @tf.function
    def converted(s, flag):
        if flag:
            result = s
        else:
            result = s.with_values(-s.values)
        return result

    @tf.function(input_signature=[tf.SparseTensorSpec([None, None])])
    def looped(s):
        for _ in tf.range(3):
            s = s.with_values(s.values * 2.0)
        return s

    @tf.function
    def while_loop(s):
        return tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s.with_values(s.values + 1.0)), (0, s))[1]

    def counted():
        count = []

        @tf.function
        def seen(s):
            count.append(1)
            return s.values

        for s in (_one(tf), _one(tf, [3.0], [[1, 1]]), _one(tf, shape=(3, 5)), _one(tf, shape=(3, 6))):
            seen(s)
        return len(count)

    def gradient():
        values = tf.constant([1.0, 2.0])

        @tf.function
        def loss(v):
            return tf.reduce_sum(tf.sparse.to_dense(S([[0, 0], [1, 2]], v, [3, 4])) ** 2)

        with tf.GradientTape() as tape:
            tape.watch(values)
            y = loss(values)
        return tape.gradient(y, values)

    def signature():
        both.get_concrete_function(_one(tf))
        return both.pretty_printed_concrete_signatures().partition("Output Type")[0]

    @tf.function
    def printing(s):
        print(s)
        print(s.shape, s.dense_shape.shape)
        return s.values

    true, false = tf.constant(True), tf.constant(False)
    return {
        "through a function": lambda: both(_one(tf)),
        "input_signature": lambda: of_any_size(_one(tf)),
        "input_signature, other size": lambda: of_any_size(_one(tf, [5.0], [[0, 1]], (2, 2))),
        "input_signature, repeated": lambda: kind(lambda: of_any_size(_one(tf, indices=[[0, 0], [0, 0]]))),
        "input_signature, outside": lambda: kind(lambda: of_any_size(_one(tf, indices=[[0, 0], [0, 9]]))),
        "from_dense traced": lambda: sparse_again(tf.constant([[0.0, 1.0], [2.0, 0.0]])),
        "made in a function": lambda: made(tf.constant([[0, 1]], tf.int64), tf.constant([5])),
        "cond": lambda: (str(branched(_one(tf), true)), str(branched(_one(tf), false))),
        "converted if": lambda: (str(converted(_one(tf), true)), str(converted(_one(tf), false))),
        "converted for": lambda: looped(_one(tf)),
        "while_loop": lambda: while_loop(_one(tf)),
        "traces": counted,
        "gradient through a function": gradient,
        "signature": signature,
        "printed while traced": lambda: _shown(lambda: printing(_one(tf))),
        "printed when it runs": lambda: _printed_by(tf, _one(tf)),
    }


def _shown(program):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        program()
    return out.getvalue()


def _printed_by(tf, sp):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"

        @tf.function
        def printing(s):
            tf.print("s:", s, output_stream=f"file://{path}")

        printing(sp)
        return path.read_text()


def _rejected(tf):
    S, to_dense = tf.SparseTensor, tf.sparse.to_dense
    return {
        "negative shape": lambda: S([[0, 0]], [1], [3, -4]),
        "indices of rank 1": lambda: S([0], [1], [3]),
        "too many values": lambda: S([[0]], [1, 2], [3]),
        "too few dims": lambda: S([[0]], [1], [3, 4]),
        "float shape": lambda: kind(lambda: S([[0]], [1], [3.0])),
        "int32 indices": lambda: kind(lambda: S(tf.constant([[0]]), [1], [3])),
        "set_shape of another": lambda: _one(tf).set_shape([3, 5]),
        "from_value of a number": lambda: S.from_value(3),
        "spec of a number": lambda: tf.SparseTensorSpec.from_value(3),
        "op": lambda: _one(tf).op,
        "eval": lambda: _one(tf).eval(),
        "converted": lambda: kind(lambda: tf.convert_to_tensor(_one(tf))),
        "sum": lambda: _one(tf) + _one(tf),
        "negated": lambda: -_one(tf),
        "len": lambda: len(_one(tf)),
        "item": lambda: _one(tf)[0],
        "numpy": lambda: _one(tf).numpy(),
        "gradient": lambda: _gradient_of_sparse(tf),
        "to_dense of dense": lambda: to_dense(tf.ones([2])),
        "to_dense repeated": lambda: to_dense(S([[0, 0], [0, 0]], [1, 2], [2, 2])),
        "to_dense out of order": lambda: to_dense(S([[0, 1], [0, 0]], [1, 2], [2, 2])),
        "to_dense outside": lambda: to_dense(S([[0, 1], [0, 5]], [1, 2], [2, 2])),
        "to_dense negative": lambda: to_dense(S([[-1, 1]], [1], [2, 2])),
        "to_dense outside, unchecked": lambda: to_dense(S([[0, 1], [0, 5]], [1, 2], [2, 2]), validate_indices=False),
        "to_dense default of another dtype": lambda: to_dense(_one(tf), tf.constant(7)),
        "to_dense default vector": lambda: to_dense(_one(tf), [7.0]),
        "to_indicator outside": lambda: tf.sparse.to_indicator(S([[0, 0]], [5], [2, 1]), 3),
        "from_dense of a scalar": lambda: tf.sparse.from_dense(3),
        "eye of a float": lambda: tf.sparse.eye(2.0),
        "eye of less than nothing": lambda: tf.sparse.eye(-1),
        "signature misfit": lambda: kind(lambda: _of_ints(tf)(_one(tf))),
    }


def _of_ints(tf):
    return tf.function(lambda s: s, input_signature=[tf.SparseTensorSpec([None, None], tf.int32)])


def _gradient_of_sparse(tf):
    sp = _one(tf)
    with tf.GradientTape() as tape:
        tape.watch(sp)
        y = tf.reduce_sum(tf.sparse.to_dense(sp) ** 2)
    return tape.gradient(y, sp)
