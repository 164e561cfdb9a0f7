"""Tensors: creation, printing and errors as in TensorFlow; their memory is not shared with the caller's arrays."""

import gc

import numpy as np
import parity_support
import pytest

import tvtf as tf
from tvtf.core.tensor import OutOfRangeInteger

PROGRAMS = parity_support.programs("tensor", tf)
GOLDEN = parity_support.golden("tensor")


@pytest.mark.parametrize("label", PROGRAMS)
def test_tensorflow_says_the_same(label):
    assert parity_support.answer(PROGRAMS[label]) == GOLDEN[label]


def misaligned(values):
    raw = np.zeros(values.nbytes + 1, np.uint8)
    made = raw[1:].view(values.dtype).reshape(values.shape)
    made[...] = values
    assert not made.flags.aligned
    return made


def read_only(values):
    values.flags.writeable = False
    return values


SIX = np.arange(6, dtype=np.float32).reshape(2, 3)
AWKWARD = {
    "transposed": SIX.T.copy().T,
    "strided": np.repeat(SIX, 2, axis=1)[:, ::2],
    "reversed": SIX[::-1, ::-1][::-1, ::-1],
    "read-only": read_only(SIX.copy()),
    "misaligned": misaligned(SIX),
    "big-endian": SIX.astype(">f4"),
    "fortran": np.asfortranarray(SIX),
    "broadcast": np.broadcast_to(SIX, (2, 3)),
}


@pytest.mark.parametrize("label", AWKWARD)
def test_awkward_arrays_are_read(label):
    array = AWKWARD[label]
    plus_one = tf.function(lambda x: x + 1.0)
    assert tf.constant(array).numpy().tolist() == SIX.tolist()
    assert plus_one(array).numpy().tolist() == (SIX + 1).tolist()
    assert (tf.constant(array) + array).numpy().tolist() == (SIX * 2).tolist()
    assert plus_one(tf.constant(array)).numpy().tolist() == (SIX + 1).tolist()


def test_a_scalar_array_is_a_scalar():
    assert repr(tf.constant(np.array(2.0, np.float32))) == "<tf.Tensor: shape=(), dtype=float32, numpy=2.0>"
    assert tf.function(lambda x: x + 1.0)(np.array(2.0, np.float32)).numpy() == 3.0


@pytest.mark.parametrize(
    "value, dtype", [(2**63, tf.int64), ([1, 2**64], tf.uint64), (-1, tf.uint64), (2**63, tf.int8)]
)
def test_an_integer_beyond_64_bits_is_rejected(value, dtype):
    with pytest.raises(OutOfRangeInteger, match="Can't convert Python sequence with out-of-range integer to Tensor: "):
        tf.constant(value, dtype)


@pytest.mark.parametrize("label", ["numpy", "array", "dlpack"])
def test_the_source_may_change_afterwards(label):
    source = np.array([1.0, 2.0], np.float32)
    made = {"numpy": tf.constant, "array": tf.convert_to_tensor, "dlpack": lambda a: tf.constant(np.from_dlpack(a))}[
        label
    ](source)
    source[:] = 9
    assert made.numpy().tolist() == [1.0, 2.0]


def test_asarray_is_a_read_only_view():
    tensor = tf.constant([1.0, 2.0])
    view = np.asarray(tensor)
    assert np.shares_memory(view, np.asarray(tensor))
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 5.0
    copied = np.array(tensor)
    copied[0] = 5.0
    assert tensor.numpy().tolist() == [1.0, 2.0]


def test_asarray_of_a_compiled_result_outlives_it():
    made = tf.function(lambda x: x + 1.0)(tf.zeros([1000]))
    view = np.asarray(made)
    del made
    gc.collect()
    tf.function(lambda x: x - 7.0)(tf.zeros([1000]))
    assert view.tolist() == [1.0] * 1000


def test_dlpack_shares_the_memory():
    tensor = tf.constant([1.0, 2.0])
    shared = np.from_dlpack(tensor)
    assert shared.tolist() == [1.0, 2.0]
    assert np.shares_memory(shared, np.asarray(tensor))
    assert tensor.__dlpack_device__() == (1, 0)


def test_dlpack_of_a_compiled_result():
    made = tf.function(lambda x: x * 2)(tf.constant([1, 2]))
    assert np.from_dlpack(made).tolist() == [2, 4]


def test_attributes_can_be_added():
    x = tf.constant(1)
    x.colour = "red"
    assert x.colour == "red" and not hasattr(tf.constant(1), "colour")


def test_symbolic_tensors_print_as_tensorflows():
    seen = []

    @tf.function
    def f(x):
        seen.extend([repr(x), str(x), f"{x.shape}"])
        return x

    f.get_concrete_function(tf.TensorSpec([None, 3], tf.float32))
    assert seen == [
        "<tf.Tensor 'x:0' shape=(None, 3) dtype=float32>",
        'Tensor("x:0", shape=(None, 3), dtype=float32)',
        "(None, 3)",
    ]


@pytest.mark.parametrize(
    "use, error, message",
    [
        (lambda x: bool(x), TypeError, "Using a symbolic `tf.Tensor` as a Python `bool` is not allowed."),
        (lambda x: [*x], TypeError, "Iterating over a symbolic `tf.Tensor` is not allowed."),
        (
            lambda x: len(x),
            TypeError,
            "len is not well defined for a symbolic Tensor (x:0). Please call `x.shape` rather than `len(x)`",
        ),
        (lambda x: np.asarray(x), NotImplementedError, "Cannot convert a symbolic tf.Tensor (x:0) to a numpy array."),
        (lambda x: x.numpy(), AttributeError, "'SymbolicTensor' object has no attribute 'numpy'"),
        (lambda x: float(x), TypeError, "float() argument must be a string or a real number, not 'SymbolicTensor'"),
    ],
)
def test_symbolic_tensors_have_no_value(use, error, message):
    function = tf.function(use, autograph=False, input_signature=[tf.TensorSpec([None], tf.float32)])
    with pytest.raises(error) as caught:
        function(tf.zeros([2]))
    assert str(caught.value).startswith(message)


def test_conversion_functions_teach_types():
    class Celsius:
        def __init__(self, degrees):
            self.degrees = degrees

    def convert(value, dtype=None, name=None, as_ref=False):
        return tf.constant(value.degrees, dtype)

    tf.register_tensor_conversion_function(Celsius, convert)
    assert (tf.convert_to_tensor(Celsius(20.0)) + 1.0).numpy() == 21.0


@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "in a graph"])
@pytest.mark.parametrize(
    ("value", "shape", "expected"),
    [
        (np.float32(2.0), (3,), np.full(3, 2.0, np.float32)),
        (np.arange(6, dtype=np.int32), (2, 3), np.arange(6, dtype=np.int32).reshape(2, 3)),
        (np.zeros(0, np.float32), [0, 2], np.zeros([0, 2], np.float32)),
        (np.array([b"a"], object), [2], np.array([b"a", b"a"], object)),
        (np.array(b"a", object), [2], np.array([b"a", b"a"], object)),
        (np.array(True), [2], np.array([True, True])),
        (np.float32(2.0), [], np.float32(2.0)),
    ],
    ids=["fill", "reshape", "nothing", "texts", "a text", "bools", "the same shape"],
)
def test_constants_of_tensors_with_a_shape(value, shape, expected, in_graph):
    tensor = tf.constant(value)
    make = (
        (lambda: tf.constant(tensor, shape=shape))
        if not in_graph
        else tf.function(lambda: tf.constant(tensor, shape=shape))
    )
    made = make()
    assert (made.shape, made.dtype) == (expected.shape, tensor.dtype)
    np.testing.assert_array_equal(made.numpy(), expected)


@pytest.mark.parametrize("value", [[tf.constant(1.9), 1], [tf.constant([1.9]), [2]], (1, tf.constant(1.9))])
def test_constants_of_lists_of_tensors_are_not_cast(value):
    """TensorFlow raises a TypeError or, outside of functions, a ValueError."""

    def make():
        return tf.constant(value, tf.int32)

    for run in (make, tf.function(make)):
        with pytest.raises(TypeError, match="with dtype tf.int32, but got dtype tf.float32"):
            run()


def test_constants_of_variables_with_a_shape():
    np.testing.assert_array_equal(tf.constant(tf.Variable(2.0), shape=[2]), [2.0, 2.0])


def test_constants_of_tensors_with_a_shape_of_another_size():
    with pytest.raises(
        TypeError, match=r"Tensor \[0 1 2\] .* has 3 elements, but got `shape` \(2, 2\) with 4 elements"
    ):
        tf.constant(tf.range(3), shape=(2, 2))
