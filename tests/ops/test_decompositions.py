"""Gradients of decompositions along directions that keep a matrix symmetric, or through what no phase or sign changes.

And decompositions of matrices that have none, for NaN or infinities are in them.
"""

import numpy as np
import pytest

import tvtf as tf

STEP = 1e-6


def matrix(seed, dtype, *shape):
    random = np.random.default_rng(seed)
    values = random.uniform(-1, 1, shape) + np.eye(*shape[-2:]) * np.arange(2, 2 + shape[-1])
    return values + 1j * random.uniform(-1, 1, shape) if dtype == "complex128" else values


def hermitian(x):
    return tf.matmul(x, x, adjoint_b=True)


def weighed(x):
    """A real number that depends on every element."""
    weights = np.arange(1, 1 + np.prod(x.shape)).reshape(x.shape) / 7
    return tf.reduce_sum(tf.math.real(x * tf.cast(weights, x.dtype))) + tf.reduce_sum(tf.math.imag(x) * weights**2)


def rebuilt_square(x):
    s, u, v = tf.linalg.svd(x)
    return tf.matmul(tf.matmul(u, tf.cast(tf.linalg.diag(s * s), x.dtype)), v, adjoint_b=True)


def root_by_eigh(x):
    e, v = tf.linalg.eigh(hermitian(x))
    return tf.matmul(tf.matmul(v, tf.linalg.diag(tf.sqrt(e))), v, adjoint_b=True)


def sine_by_eig(x):
    e, v = tf.linalg.eig(x)
    return tf.matmul(tf.matmul(v, tf.linalg.diag(tf.sin(e))), tf.linalg.inv(v))


FUNCTIONS = {
    "cholesky": (lambda x: tf.linalg.cholesky(hermitian(x)), (3, 3)),
    "svd of square": (rebuilt_square, (3, 3)),
    "svd of wide": (rebuilt_square, (2, 4)),
    "svd of tall": (rebuilt_square, (4, 2)),
    "singular values": (lambda x: tf.linalg.svd(x, compute_uv=False), (3, 2)),
    "qr": (lambda x: tf.matmul(*tf.linalg.qr(x * x)), (3, 2)),
    "q": (lambda x: tf.linalg.qr(x).q, (3, 3)),
    "eigh": (root_by_eigh, (3, 3)),
    "eig": (sine_by_eig, (3, 3)),
    "eigvals": (lambda x: tf.reduce_sum(tf.linalg.eigvals(x) ** 3), (3, 3)),
    "lu": (lambda x: tf.linalg.lu(x).lu, (3, 3)),
    "logm": (lambda x: tf.linalg.logm(tf.cast(hermitian(x), tf.complex128)), (2, 2)),
    "expm": (lambda x: tf.linalg.expm(x / 3), (3, 3)),
    "det": (tf.linalg.det, (3, 3)),
    "slogdet": (lambda x: tf.stack(tf.linalg.slogdet(x)), (3, 3)),
    "pinv": (tf.linalg.pinv, (3, 2)),
    "lstsq": (lambda x: tf.linalg.lstsq(x, tf.ones_like(x)), (3, 2)),
    "spectral norm": (lambda x: tf.norm(x, 2, axis=[-2, -1]), (3, 2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradient_is_that_of_finite_differences(name, dtype):
    function, shape = FUNCTIONS[name]
    x, direction = matrix(1, dtype, *shape), matrix(2, dtype, *shape)

    def value(at):
        return weighed(function(tf.constant(at))).numpy()

    source = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(source)
        y = weighed(function(source))
    found = np.sum(np.conj(tape.gradient(y, source).numpy()) * direction).real
    expected = (value(x + STEP * direction) - value(x - STEP * direction)) / (2 * STEP)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def matrices_with(bad):
    """Of all sizes up to 6 x 6, some with ``bad`` in three of ten places: LAPACK's search never ended for a few of them."""
    for seed in range(60):
        random = np.random.default_rng(seed)
        x = random.uniform(-1, 1, random.integers(2, 7, 2))
        yield np.where(random.random(x.shape) < 0.3, random.choice([bad, -bad], x.shape), x).astype(np.float32)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_singular_values_of_what_has_none_are_nan(bad):
    for x in matrices_with(bad):
        s, u, v = tf.linalg.svd(x)
        finite = np.isfinite(x).all()
        assert all(np.isfinite(part).all() == finite for part in (s, u, v))
        assert np.isnan(s).all() != finite
        np.testing.assert_array_equal(
            tf.function(tf.linalg.svd)(x, compute_uv=False), tf.linalg.svd(x, compute_uv=False)
        )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["eigh", "eigvalsh", "eig", "eigvals"])
def test_eigenvalues_of_what_has_none_are_rejected(name, bad):
    decompose = getattr(tf.linalg, name)
    for x in matrices_with(bad):
        square = x[: min(x.shape), : min(x.shape)]
        if np.isfinite(np.tril(square)).all():
            continue
        for function in (decompose, tf.function(decompose)):
            with pytest.raises(tf.errors.InvalidArgumentError, match="[Ee]igen decomposition was not successful"):
                function(square)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["expm", "sqrtm", "logm"])
def test_functions_of_what_has_none_are_nan(name, bad):
    x = np.stack([np.eye(2), [[1.0, bad], [0.0, 1.0]]]).astype(np.complex64)
    found = getattr(tf.linalg, name)(x)
    assert np.isfinite(found[0]).all() and np.isnan(found[1]).all()
