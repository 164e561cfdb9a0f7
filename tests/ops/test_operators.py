"""Operators on tensors and Variables: TensorFlow's rules and messages; the fast path equals the complete one."""

import operator

import numpy as np
import pytest
from covering import covering

import tvtf as tf
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import state

INT, FLOAT, FLAGS = tf.constant([1, 2]), tf.constant([1.5, -2.0]), tf.constant([True, False])

TENSOR_DTYPE = "cannot compute {} as input #1(zero-based) was expected to be a {} tensor but is a {} tensor [Op:{}]"


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (lambda: INT + 2.5, TENSOR_DTYPE.format("AddV2", "int32", "float", "AddV2")),
        (lambda: INT + FLOAT, TENSOR_DTYPE.format("AddV2", "int32", "float", "AddV2")),
        (lambda: FLOAT * INT, TENSOR_DTYPE.format("Mul", "float", "int32", "Mul")),
        (lambda: FLOAT < INT, TENSOR_DTYPE.format("Less", "float", "int32", "Less")),
        (lambda: FLOAT == INT, TENSOR_DTYPE.format("Equal", "float", "int32", "Equal")),
        (lambda: tf.Variable(1.0) - INT, TENSOR_DTYPE.format("Sub", "float", "int32", "Sub")),
        (lambda: FLOAT + tf.constant([1.0, 2.0, 3.0]), "Incompatible shapes: [2] vs. [3] [Op:AddV2]"),
    ],
)
def test_tensors_of_different_dtypes_or_shapes_are_rejected(compute, message):
    with pytest.raises(tf.errors.InvalidArgumentError) as rejected:
        compute()
    assert str(rejected.value).removesuffix(" name: ") == message


@pytest.mark.parametrize("compute", [lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x < y])
def test_traced_tensors_of_different_dtypes_raise_type_error(compute):
    with pytest.raises(TypeError, match="that does not match type int32 of argument 'x'"):
        tf.function(compute)(INT, FLOAT)


@pytest.mark.parametrize(
    "compute",
    [
        lambda: INT - 2.5,
        lambda: INT * 2.5,
        lambda: 2.5 + INT,
        lambda: 2.5 - INT,
        lambda: 2.5 / INT,
        lambda: INT // 2.5,
        lambda: INT**2.5,
        lambda: INT < 2.5,
        lambda: INT == 2.5,
    ],
)
def test_a_python_float_does_not_become_an_int(compute):
    with pytest.raises(TypeError, match="^Cannot convert 2.5 to EagerTensor of dtype int32$"):
        compute()


def test_true_division_wants_one_dtype():
    with pytest.raises(TypeError, match=r"^`x` and `y` must have the same dtype, got tf.int32 != tf.float32.$"):
        INT / FLOAT
    with pytest.raises(TypeError, match="^Invalid dtype tf.bool in __truediv__. Expected one of {tf.uint8, "):
        FLAGS / FLAGS


@pytest.mark.parametrize(
    ("dtype", "quotient"),
    [("int8", "float32"), ("uint16", "float32"), ("int32", "float64"), ("int64", "float64"), ("float16", "float16")],
)
def test_true_division_of_integers_is_floating(dtype, quotient):
    found = tf.constant([1, 3], dtype) / tf.constant([2, 2], dtype)
    assert found.dtype == quotient
    np.testing.assert_array_equal(found, np.array([0.5, 1.5], quotient))


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow])
@pytest.mark.parametrize("value", [2.0, 2, np.float64(2), np.array([2.0, 3.0])])
def test_numbers_and_arrays_take_the_dtype_of_the_tensor_on_either_side(op, value):
    x = tf.constant([1.5, 3.0])
    other = np.asarray(value, np.float32)
    for found, expected in ((op(x, value), op(x.numpy(), other)), (op(value, x), op(other, x.numpy()))):
        assert isinstance(found, Tensor)
        assert found.dtype is tf.float32
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("value", "expected"), [(300, 47), (-1, 2), (2**40 + 1, 4)])
def test_python_ints_wrap_around(value, expected):
    assert (tf.constant(3, tf.uint8) + value).numpy() == expected


def test_floor_division_and_remainder_round_down():
    x = tf.constant([7, -7])
    np.testing.assert_array_equal(x // 2, [3, -4])
    np.testing.assert_array_equal(x % 4, [3, 1])
    np.testing.assert_array_equal(7 // tf.constant([2, -2]), [3, -4])
    np.testing.assert_allclose(tf.constant([-1.5]) % 1.0, [0.5])


def test_equality_is_elementwise_and_false_where_shapes_do_not_broadcast():
    np.testing.assert_array_equal(FLOAT == 1.5, [True, False])
    np.testing.assert_array_equal(FLOAT != [1.5, 2.0], [False, True])
    assert (tf.constant([1.0, 2.0, 3.0]) == FLOAT).numpy() == np.False_
    assert (tf.constant([1.0, 2.0, 3.0]) != FLOAT).numpy() == np.True_


@pytest.mark.parametrize("x", [FLOAT, tf.Variable([1.0])])
def test_nothing_equals_none(x):
    assert (x == None) is False  # noqa: E711 - the operator is what is tested
    assert (x != None) is True  # noqa: E711


def test_logic_on_bools_and_bits_on_integers():
    np.testing.assert_array_equal(~FLAGS, [False, True])
    np.testing.assert_array_equal(FLAGS & True, [True, False])
    np.testing.assert_array_equal(False | FLAGS, [True, False])
    np.testing.assert_array_equal(FLAGS ^ FLAGS, [False, False])
    np.testing.assert_array_equal(~INT, [-2, -3])
    np.testing.assert_array_equal(INT & 3, [1, 2])
    np.testing.assert_array_equal(3 ^ INT, [2, 1])


def test_invert_rejects_floats():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Value for attr 'T' of float is not in the list"):
        ~FLOAT


def test_an_operand_that_knows_tensors_may_answer():
    class Knowing:
        def __radd__(self, other):
            return "known"

    assert FLOAT + Knowing() == "known"


def test_what_can_not_be_a_tensor_is_rejected():
    with pytest.raises(ValueError, match="^Attempt to convert a value \\(None\\) with an unsupported type"):
        FLOAT + None


def test_tensors_stay_unhashable():
    with pytest.raises(TypeError, match="^Tensor is unhashable. Instead, use tensor.ref\\(\\) as the key.$"):
        hash(FLOAT)


BINARY = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.pow),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
]
VALUES = [
    np.array([1.0, -0.0, np.inf, np.nan], np.float32),
    np.array([1.0, 2.0, 0.5, 3.0], np.float64),
    np.array([1.0, 2.0, 0.5, 3.0], np.float16),
    np.array([1, 2, 3, 2**31 - 1], np.int32),
    np.array([1, 2, 3, 255], np.uint8),
    np.array([1 + 2j, 0, 3, 1j], np.complex64),
]


@pytest.mark.parametrize("op", BINARY, ids=lambda o: o.__name__)
@pytest.mark.parametrize("array", VALUES, ids=lambda a: a.dtype.name)
def test_the_short_way_equals_the_complete_way(op, array):
    name = f"__{op.__name__}__"
    x = EagerTensor(array)
    for y in (x, EagerTensor(array[::-1].copy()), EagerTensor(array[1:2].reshape(())), 2):
        assert text(lambda y=y: op(x, y)) == text(lambda y=y: getattr(Tensor, name)(x, y))


@pytest.mark.parametrize("op", [operator.neg, operator.abs], ids=lambda o: o.__name__)
@pytest.mark.parametrize("array", VALUES, ids=lambda a: a.dtype.name)
def test_the_short_way_of_one_operand_equals_the_complete_way(op, array):
    x = EagerTensor(array)
    assert text(lambda: op(x)) == text(lambda: getattr(Tensor, f"__{op.__name__}__")(x))


def text(compute):
    """The result with its type, or the refusal."""
    try:
        found = compute()
    except (TypeError, tf.errors.InvalidArgumentError) as error_text:
        return type(error_text), str(error_text)
    return found.dtype, found.shape.as_list(), repr(found.numpy())


def test_the_short_way_yields_to_tapes_and_traces():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x + 2.0 * x - x / 3.0
    np.testing.assert_allclose(tape.gradient(y, x), 8 - 1 / 3, rtol=1e-6)
    assert tf.function(lambda x: -x * x + 1.0)(x).numpy() == -8
    assert state.trace is None


def test_the_short_way_makes_no_warning_of_an_overflow():
    big = tf.constant([3e38])
    assert np.isinf((big + big).numpy()).all()
    assert np.isinf((big * 1e10).numpy()).all()


def test_variables_have_the_operators():
    v = tf.Variable([1.0, 2.0])
    np.testing.assert_array_equal(v + v, [2, 4])
    np.testing.assert_array_equal(1 - v, [0, -1])
    np.testing.assert_array_equal(v > 1, [False, True])
    np.testing.assert_array_equal(-v, [-1, -2])
    np.testing.assert_array_equal(abs(-v), [1, 2])
    np.testing.assert_array_equal(np.array([3.0, 4.0]) * v, [3, 8])


OPERATORS = [
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
    *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod),
]
NUMBERS = [3, -1, 127, 129, 301, (1 << 15) + 1, (1 << 31) - 1, (1 << 31) + 1, (1 << 40) + 5, (1 << 63) + 1, 1 << 70]
NUMBERS += [10**400, 1.5, 1e300]


@covering(
    shifts=2,
    compute={compute.__name__: compute for compute in OPERATORS},
    dtype=["int8", "uint8", "int32", "int64", "float16", "float32"],
)
def test_python_numbers_beside_tensors_are_the_same_in_functions(compute, dtype):
    """Those that the dtype can't hold, too: they wrap around or are refused, in both worlds."""
    x = tf.constant([1, 0, 3], dtype) + 2

    def error_text(run):
        try:
            run(x)
        except (TypeError, ValueError, tf.errors.InvalidArgumentError):
            return True
        return False

    for each in (lambda number: lambda x: compute(x, number), lambda number: lambda x: compute(number, x)):
        runs = {number: each(number) for number in NUMBERS}
        taken = [run for run in runs.values() if not error_text(run)]
        traced = {number for number, run in runs.items() if error_text(tf.function(run, autograph=False))}
        assert traced == {number for number, run in runs.items() if run not in taken}
        together = tf.function(lambda x, taken=taken: tuple(run(x) for run in taken), autograph=False)
        for run, compiled in zip(taken, together(x)):
            np.testing.assert_array_equal(run(x), compiled)


def test_ranges_of_numbers_that_the_dtype_can_not_hold_wrap_around():
    start = 1 << 40
    for make in (
        lambda: tf.range(start + 3, start + 6, dtype=tf.int32),
        tf.function(lambda: tf.range(start + 3, start + 6, dtype=tf.int32)),
    ):
        np.testing.assert_array_equal(make(), [3, 4, 5])
