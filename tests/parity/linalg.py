"""tf.linalg: values, gradients and errors, eager and traced."""

import numpy as np
from parity_numbers import calls

A = [[4.0, 1.0, 2.0], [1.0, 3.0, 0.5], [0.0, 1.0, 5.0]]
B = [[[1.0, 2.0], [3.0, 4.0]], [[2.0, 0.5], [0.25, 1.0]]]
S = [[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 5.0]]
WIDE, TALL = [[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]]
Z = [[1 + 1j, 2.0], [0.5j, 3 - 1j]]
H = [[2.0, 1 - 1j], [1 + 1j, 5.0]]
RHS = [[1.0, 2.0], [0.5, 1.0], [3.0, -1.0]]


def programs(tf):
    return calls(tf, _factored(tf) | _composed(tf)) | _errors(tf)


VARIANTS = (
    " of many", " of complex", " of tall", " of wide", " of adjoint", " with adjoint", " adjoint", " upper", " of a vector",
    " of a matrix", " as documented", " with rcond", " regularized", " slow",
)  # fmt: skip


def in_sweep(label):
    """By default gradients of each function are compiled for one kind of matrix, and run eagerly for all, as do compiled values."""
    return label.endswith(", gradient, traced") and label.removesuffix(", gradient, traced").endswith(VARIANTS)


def _rebuilt(tf):
    """What does not depend on signs, phases and order of vectors."""
    linalg = tf.linalg

    def by_svd(x, **options):
        s, u, v = linalg.svd(x, **options)
        return s, linalg.matmul(u * tf.cast(s, u.dtype)[..., None, :], v, adjoint_b=True)

    def by_eigh(x):
        e, v = linalg.eigh(x)
        return e, linalg.matmul(v * tf.exp(e / 4)[..., None, :], v, adjoint_b=True)

    def by_eig(x):
        e, v = linalg.eig(x)
        return linalg.matmul(v * tf.exp(e / 4)[..., None, :], linalg.inv(v))

    return by_svd, by_eigh, by_eig


def _factored(tf):
    linalg = tf.linalg
    by_svd, by_eigh, by_eig = _rebuilt(tf)

    def still(factors):
        """TensorFlow has no gradient of lu."""
        return tf.nest.map_structure(tf.stop_gradient, factors)

    return {
        "inv": (linalg.inv, A),
        "inv of many": (linalg.inv, B),
        "inv of complex": (linalg.inv, Z),
        "inv of adjoint": (lambda x: linalg.inv(x, adjoint=True), Z),
        "det": (linalg.det, A),
        "det of many": (linalg.det, B),
        "det of complex": (lambda x: tf.stop_gradient(linalg.det(x)), Z),  # TensorFlow's gradient lacks a conjugate
        "slogdet": (linalg.slogdet, B),
        "logdet": (linalg.logdet, S),
        "solve": (linalg.solve, A, RHS),
        "solve with adjoint": (lambda a, b: linalg.solve(a, b, adjoint=True), A, RHS),
        "triangular_solve": (linalg.triangular_solve, A, RHS),
        "triangular_solve upper": (lambda a, b: linalg.triangular_solve(a, b, lower=False), A, RHS),
        "triangular_solve adjoint": (lambda a, b: linalg.triangular_solve(a, b, adjoint=True), A, RHS),
        "cholesky": (linalg.cholesky, S),
        "cholesky of complex": (linalg.cholesky, H),
        "cholesky_solve": (lambda a, b: linalg.cholesky_solve(linalg.cholesky(a), b), S, RHS),
        "lu": (lambda a: still(linalg.lu(a)), A),
        "lu of many": (lambda a: still(linalg.lu(a)), B),
        "lu_solve": (lambda a, b: linalg.lu_solve(*still(linalg.lu(a)), rhs=b), A, RHS),
        "lu_reconstruct": (lambda a: linalg.lu_reconstruct(*still(linalg.lu(a))), B),
        "lu_matrix_inverse": (lambda a: linalg.lu_matrix_inverse(*still(linalg.lu(a))), B),
        "qr": (linalg.qr, A),
        "qr of tall": (linalg.qr, TALL),
        "qr of wide": (linalg.qr, WIDE),
        "qr of complex": (linalg.qr, Z),
        "svd": (by_svd, A),
        "svd of tall": (by_svd, TALL),
        "svd of wide": (by_svd, WIDE),
        "svd of complex": (by_svd, Z),
        "singular values": (lambda x: linalg.svd(x, compute_uv=False), B),
        "eigh": (by_eigh, S),
        "eigh of complex": (by_eigh, H),
        "eigvalsh": (linalg.eigvalsh, S),
        "eig": (by_eig, A),
        "eigvals": (lambda x: tf.reduce_sum(linalg.eigvals(x) ** 2), A),
        "eigvals as documented": (linalg.eigvals, [[1.0, 2.0], [-5.0, 4.0]]),
    }


def _composed(tf):
    linalg = tf.linalg
    compact = [[1.0, 2.0, 0.0], [4.0, 5.0, 6.0], [0.0, 0.5, 1.5]]
    bands = [[2.0, 3.0, 4.0], [0.0, 1.0, 0.5]]
    orders = {f"norm {ord}": (lambda x, ord=ord: tf.norm(x, ord, axis=[0, 1]), A) for ord in ("fro", 1, 2, np.inf)}
    return orders | {
        "expm": (linalg.expm, np.array(A) / 4),
        "expm of many": (linalg.expm, np.array(B) / 4),
        "logm": (linalg.logm, H),
        "sqrtm": (linalg.sqrtm, S),
        "pinv": (linalg.pinv, TALL),
        "pinv with rcond": (lambda x: linalg.pinv(x, rcond=0.2), TALL),
        "matrix_rank": (lambda x: tf.cast(linalg.matrix_rank(x), tf.float32), [[1.0, 2.0], [2.0, 4.0]]),
        "lstsq": (linalg.lstsq, TALL, RHS),
        "lstsq of wide": (linalg.lstsq, WIDE, [[1.0], [2.0]]),
        "lstsq regularized": (lambda a, b: linalg.lstsq(a, b, l2_regularizer=0.3), TALL, RHS),
        "lstsq slow": (lambda a, b: tf.stop_gradient(linalg.lstsq(a, b, fast=False)), TALL, RHS),
        "tridiagonal_solve": (linalg.tridiagonal_solve, compact, RHS),
        "tridiagonal_solve of a vector": (linalg.tridiagonal_solve, compact, [1.0, 2.0, 3.0]),
        "tridiagonal_solve of a matrix": (
            lambda a, b: linalg.tridiagonal_solve(a, b, diagonals_format="matrix"), [[4.0, 1.0], [2.0, 3.0]], [1.0, 2.0],
        ),
        "tridiagonal_matmul": (linalg.tridiagonal_matmul, compact, RHS),
        "banded_triangular_solve": (linalg.banded_triangular_solve, bands, RHS),
        "banded_triangular_solve upper": (
            lambda a, b: linalg.banded_triangular_solve(a, b, lower=False), [[1.0, 0.5, 0.0], [2.0, 3.0, 4.0]], RHS,
        ),
        "eigh_tridiagonal": (lambda a, b: tf.stop_gradient(linalg.eigh_tridiagonal(a, b)), [2.0, 3.0, 4.0], [1.0, 0.5]),
        "adjoint": (linalg.adjoint, Z),
        "cross": (linalg.cross, [[1.0, 2.0, 3.0]], [[0.5, -1.0, 4.0]]),
        "tensor_diag": (linalg.tensor_diag, [[1.0, 2.0], [3.0, 4.0]]),
        "tensor_diag_part": (lambda x: linalg.tensor_diag_part(linalg.tensor_diag(x)), [[1.0, 2.0], [3.0, 4.0]]),
        "normalize": (linalg.normalize, A),
        "normalize by axis": (lambda x: linalg.normalize(x, ord=1, axis=1), A),
    }  # fmt: skip


def _errors(tf):
    linalg = tf.linalg
    vector, rows, singular = [1.0, 2.0], WIDE, [[1.0, 2.0], [2.0, 4.0]]
    wanted = {
        "vector": (
            lambda f: f(tf.constant(vector)),
            ("inv", "det", "cholesky", "qr", "svd", "eigh", "lu", "sqrtm", "pinv"),
        ),
        "rows": (lambda f: f(tf.constant(rows)), ("inv", "det", "cholesky", "sqrtm", "slogdet")),
        "singular": (lambda f: f(tf.constant(singular)), ("inv", "matrix_rank")),
        "integers": (lambda f: f(tf.constant([[1, 2], [3, 4]])), ("pinv", "matrix_rank")),
    }
    made = {
        f"{n} of {what}": (lambda c=call, n=n: c(getattr(linalg, n))) for what, (call, ns) in wanted.items() for n in ns
    }
    return made | {
        "solve of rows": lambda: linalg.solve(tf.constant(rows), tf.constant(rows)),
        "solve of singular": lambda: linalg.solve(tf.constant(singular), tf.constant(singular)),
        "solve that does not fit": lambda: linalg.solve(tf.eye(2), tf.ones([3, 1])),
        "cross of other shapes": lambda: linalg.cross(tf.constant(vector), tf.constant([1.0])),
        "norm of no order": lambda: tf.norm(tf.constant(rows), 3, axis=[0, 1]),
    }
