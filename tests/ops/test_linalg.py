"""Matrix products and einsum against NumPy, and their errors."""

import numpy as np
import pytest
from error_texts import eager_error_text, error_text, traced_error_text

import tvtf as tf

EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ba", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iijj->ij", (2, 2, 3, 3)),
    ("iij,jk->ik", (2, 2, 3), (3, 2)),
    ("ij->", (2, 3)),
    ("ijk,j->ik", (2, 3, 4), (3,)),
    ("a,b->", (2,), (3,)),
    ("i,j,k->kij", (2,), (3,), (4,)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
    ("...i,...i->...", (2, 1, 3), (4, 3)),
    ("...ij,jk->...ik", (2, 5, 3, 4), (4, 2)),
    ("i...->i...", (2, 3, 4)),
]


def arrays(*shapes, seed=0):
    random = np.random.default_rng(seed)
    return [random.normal(size=shape) for shape in shapes]


@pytest.mark.parametrize("equation, shapes", [(e, s) for e, *s in EQUATIONS], ids=[e for e, *_ in EQUATIONS])
def test_einsum_is_numpys(equation, shapes):
    inputs = arrays(*shapes)
    expected = np.einsum(equation, *inputs)
    np.testing.assert_allclose(tf.einsum(equation, *inputs).numpy(), expected, atol=1e-12)


def test_einsum_compiles_with_an_unknown_batch():
    x, w = arrays((5, 2, 3), (3, 4))

    @tf.function(input_signature=[tf.TensorSpec([None, None, 3], tf.float64)])
    def run(x):
        return tf.einsum("btd,de->bte", x, tf.constant(w))

    np.testing.assert_allclose(run(x).numpy(), np.einsum("btd,de->bte", x, w), atol=1e-12)


def test_einsum_gradient_of_a_diagonal_is_the_diagonal():
    x = tf.constant(arrays((3, 3))[0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.einsum("ii->i", x)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), np.eye(3))


def test_einsum_keeps_nan_off_the_diagonal_out():
    x = np.full((2, 2), np.nan)
    x[[0, 1], [0, 1]] = 1, 2
    np.testing.assert_array_equal(tf.einsum("ii->i", x).numpy(), [1, 2])


@pytest.mark.parametrize(
    "equation, message",
    [
        ("ij,jk->ik", 'Got 1 inputs for equation "ij,jk->ik", expecting 2'),
        ("ij->ix", "Output subscripts contain the label x not present in the input subscripts."),
        ("ij->ii", "Output subscripts contain a label appearing more than once: ij->ii"),
        ("i1->i", "Subscripts have incorrect format: i1->i"),
    ],
)
def test_einsum_rejects_an_equation(equation, message):
    assert error_text(ValueError, lambda: tf.einsum(equation, np.zeros((2, 3)))) == message


def test_einsum_rejects_shapes():
    x = np.zeros((2, 3))
    assert eager_error_text(lambda: tf.einsum("ijk->i", x)) == "Expected input 0 to have rank 3 but got: 2 [Op:Einsum]"
    expected = "Expected dimension 3 at axis 0 of the input shaped [2,3] but got dimension 2 [Op:Einsum]"
    assert eager_error_text(lambda: tf.einsum("ij,jk->ik", x, x)) == expected
    expected = "Output contains 1 broadcasting dimension(s) but no ellipsis (...) was found in the output subscripts."
    assert eager_error_text(lambda: tf.einsum("i...->i", x)) == f"{expected} [Op:Einsum]"


@pytest.mark.parametrize("axes", [0, 1, 2, [[1, 2], [1, 0]], [[-1], [0]], [2, 0]])
def test_tensordot_is_numpys(axes):
    shapes = ((2, 3, 4), (3, 4, 5)) if axes == 2 else ((2, 3, 4), (4, 3, 5))
    a, b = arrays(*shapes)
    np.testing.assert_allclose(tf.tensordot(a, b, axes).numpy(), np.tensordot(a, b, axes), atol=1e-12)


@pytest.mark.parametrize(
    "axes, message",
    [
        (-1, "`axes` must be at least 0. Received: -1."),
        ([[0], [1, 0]], "Different number of contraction axes `a` and `b`, 1 != 2."),
        ([[5], [0]], "tensordot: axis 5 of `a` is not in [-2, 2): it has rank 2"),
    ],
)
def test_tensordot_rejects_axes(axes, message):
    assert error_text(ValueError, lambda: tf.tensordot(np.zeros((2, 3)), np.zeros((3, 2)), axes)) == message


def test_matmul_adjoint_conjugates():
    a = np.array([[1 + 2j, 3]], np.complex64)
    np.testing.assert_array_equal(tf.matmul(a, a, adjoint_b=True).numpy(), a @ a.conj().T)
    np.testing.assert_array_equal(tf.matmul(a, a, transpose_b=True).numpy(), a @ a.T)


def test_matmul_of_bytes_sums_in_the_output_type():
    ones = np.full((1, 300), 100, np.int8)
    result = tf.matmul(ones, ones, transpose_b=True, output_type=tf.int32)
    assert result.dtype is tf.int32 and result.numpy() == 3_000_000


def test_matmul_sums_half_in_float32():
    ones = np.ones((1, 5000), np.float16)
    assert tf.matmul(ones, ones, transpose_b=True).numpy() == 5000
    assert tf.function(lambda x: tf.matmul(x, x, transpose_b=True))(ones).numpy() == 5000


def test_matmul_gradient_for_a_shared_matrix_sums_over_the_batch():
    a, b = map(tf.constant, arrays((2, 5, 3), (3, 4)))
    with tf.GradientTape() as tape:
        tape.watch(b)
        y = tf.matmul(a, b)
    expected = np.einsum("bij,bik->jk", a.numpy(), np.ones((2, 5, 4)))
    np.testing.assert_allclose(tape.gradient(y, b).numpy(), expected, atol=1e-12)


def test_matmul_rejects_shapes():
    x = np.zeros((2, 3))
    expected = "Matrix size-incompatible: In[0]: [2,3], In[1]: [2,3] [Op:MatMul]"
    assert eager_error_text(lambda: tf.matmul(x, x)) == expected
    expected = "Dimensions must be equal, but are 3 and 2 for MatMul with input shapes: [2,3], [2,3]."
    assert traced_error_text(lambda: tf.matmul(x, x)) == expected
    assert eager_error_text(lambda: tf.matmul(x, np.zeros(3))) == "In[1] ndims must be >= 2 [Op:MatMul]"
    expected = "In[0] and In[1] must have compatible batch dimensions: [2,2,3] vs. [3,3,3] [Op:MatMul]"
    assert eager_error_text(lambda: tf.matmul(np.zeros((2, 2, 3)), np.zeros((3, 3, 3)))) == expected


def test_matmul_rejects_transpose_and_adjoint():
    message = error_text(ValueError, lambda: tf.matmul([[1.0]], [[1.0]], transpose_a=True, adjoint_a=True))
    expected = "Only one of `transpose_a` and `adjoint_a` can be True. Received `transpose_a`=True, `adjoint_a`=True."
    assert message == expected


def test_trace_of_a_rectangle_and_of_a_batch():
    x = arrays((2, 3, 4))[0]
    np.testing.assert_allclose(tf.linalg.trace(x).numpy(), np.trace(x, axis1=1, axis2=2))


def test_matvec_broadcasts():
    a, b = arrays((4, 2, 3), (3,))
    np.testing.assert_allclose(tf.linalg.matvec(a, b).numpy(), a @ b)
