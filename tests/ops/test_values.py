"""Values of integers known while tracing (the ``value`` column) against the numpy column."""

import itertools

import numpy as np
import pytest
from table_support import OWN, all_cases, tensor, type_of

import tvtf as tf
from tvtf.core.argument_error import MISTAKES, ArgumentError
from tvtf.core.primitive import as_tuple, quietly, table
from tvtf.core.tensor import static_value

KNOWING = [p for p in OWN if p.value is not None]
NARROW = ("int8", "uint8", "int32", "int64", "uint64")


def integer_cases(prim):
    """Cases on integers, maybe chosen by flags, and those without inputs."""
    return [c for c in all_cases(prim) if _are_integers([a.dtype.name for a in c.arrays])]


def _are_integers(dtypes):
    return all(d in NARROW for d in (dtypes[1:] if dtypes[:1] == ["bool"] and len(dtypes) > 1 else dtypes))


def arrays_at_the_limits(case):
    """The case's drawn inputs as they are, and with the least and the greatest numbers of their dtypes in them."""
    yield case.arrays
    for turn in range(3):
        yield [
            _extreme(a, turn) if callable(x) and a.dtype != bool else a for a, x in zip(case.arrays, case.sample.inputs)
        ]


def _extreme(array, turn):
    limits = np.iinfo(array.dtype)
    numbers = itertools.islice(itertools.cycle([limits.max, limits.min, 1, limits.max - 1, 3]), turn, None)
    return np.array([next(numbers) for _ in range(array.size)], array.dtype).reshape(array.shape)


def known_while_tracing(prim, arrays, attrs):
    """What the trace says each result is, or None."""
    found = []

    def run():
        inputs = [tensor(a) if a.dtype == bool else tf.identity(tensor(a)) for a in arrays]
        found.extend(map(static_value, as_tuple(prim.bind(*inputs, **attrs))))
        return []

    tf.function(run, autograph=False).get_concrete_function()
    return found


def value_differences(prim, arrays, attrs):
    (found,) = known_while_tracing(prim, arrays, attrs)
    message = f"{prim.name} of {[a.tolist() for a in arrays]} {arrays[0].dtype if arrays else ''} with {attrs}"
    try:
        expected = np.asarray(quietly(prim.numpy, arrays, attrs))
        expected = expected.astype(prim.typed(*map(type_of, arrays), **attrs).dtype.np)
    except (ArgumentError, *MISTAKES):
        return [] if found is None else [f"{message}: known to be {found.tolist()}, and refused"]
    if found is not None and (found.shape != expected.shape or not np.array_equal(found, expected)):
        return [f"{message}: known to be {found.tolist()}, and is {expected.tolist()}"]
    return []


@pytest.mark.parametrize("prim", KNOWING, ids=lambda p: p.name)
def test_what_is_known_is_the_numpy_column(prim):
    cases = integer_cases(prim)
    lines = [line for c in cases for a in arrays_at_the_limits(c) for line in value_differences(prim, a, c.attrs)]
    assert not lines, "\n".join(["", *lines])


def test_each_value_column_knows_something():
    for prim in KNOWING:
        known = [known_while_tracing(prim, c.arrays, c.attrs)[0] for c in integer_cases(prim)]
        assert any(k is not None for k in known), prim.name


MATRIX = np.arange(12, dtype=np.int32).reshape(3, 4)
OTHERWISE = [
    ("concat", (MATRIX, MATRIX[:, :2]), {"axis": 1}),
    ("stack", (MATRIX, MATRIX), {"axis": 2}),
    ("reduce_prod", (MATRIX,), {"axis": (1,), "keepdims": True}),
    ("reduce_prod", (MATRIX,), {"axis": (), "keepdims": False}),
    ("reduce_prod", (MATRIX[:, :0],), {"axis": (1,), "keepdims": False}),
    ("gather", (MATRIX, np.int64([[2, 0], [1, 1]])), {"axis": 1, "batch_dims": 0}),
    ("gather", (MATRIX, np.int32([1, 0, 3])), {"axis": 1, "batch_dims": 1}),
    ("gather", (MATRIX, np.int32(-1)), {"axis": 0, "batch_dims": 0}),
    ("gather", (MATRIX, np.int32(4)), {"axis": 1, "batch_dims": 0}),
    ("strided_slice", (MATRIX,), {"begin": (2, 3), "size": (3, 2), "strides": (-1, -2), "checked": ()}),
    ("strided_slice", (MATRIX,), {"begin": (1, 0), "size": (0, 2), "strides": (-1, 3), "checked": ()}),
    ("reshape", (MATRIX,), {"shape": (2, -1)}),
    ("range", (), {"size": 4, "start": 2**31 - 2, "delta": 1, "dtype": tf.int32}),
    ("range", (), {"size": 4, "start": 3, "delta": -2, "dtype": tf.uint8}),
    ("negative", (np.int8([0, 1, -128]),), {}),
    ("add", (MATRIX, MATRIX[:, :1]), {}),
    ("floordiv", (np.int8([-128, -7]), np.int8([-1, 2])), {}),
    *(
        ("cast", (np.int64([-1, 300, 2**40, -(2**63)]),), {"dtype": d})
        for d in (tf.int8, tf.uint8, tf.int32, tf.uint64)
    ),
]


@pytest.mark.parametrize(("name", "arrays", "attrs"), OTHERWISE)
def test_what_is_known_with_other_attributes(name, arrays, attrs):
    assert not value_differences(table[name], list(map(np.asarray, arrays)), attrs)


def test_padding_by_constants_joined_along_the_last_axis():
    @tf.function
    def padded(x):
        paddings = tf.concat([tf.constant([[1], [0]]), tf.constant([[2], [3]])], 1)
        assert tf.get_static_value(paddings).tolist() == [[1, 2], [0, 3]]
        return tf.pad(x, paddings)

    assert padded(tf.ones([2, 2])).shape == [5, 5]


def test_a_dim_in_a_narrow_dtype_is_not_known():
    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def run(x):
        narrow = tf.cast(tf.shape(x), tf.int8)
        return narrow, tf.cast(narrow, tf.int32)[0] + tf.zeros([tf.shape(x)[1]], tf.int32)

    narrow, shifted = run(tf.zeros([200, 3]))
    assert (narrow.numpy().tolist(), shifted.numpy().tolist()) == ([-56, 3], [-56] * 3)


def test_flags_are_padded_with_false():
    np.testing.assert_array_equal(tf.pad([True, False], [[1, 1]]), [False, True, False, False])
    np.testing.assert_array_equal(tf.pad([True], [[0, 1]], constant_values=True), [True, True])
