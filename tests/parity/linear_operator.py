"""Linear operators: the methods of each, their algebra, and their errors."""

import numpy as np
from parity_calls import kind
from parity_numbers import _digits

HINTS = ("is_non_singular", "is_self_adjoint", "is_positive_definite", "is_square")


def operators(linalg, c):
    """Label -> function of constants that makes an operator, and those constants."""
    low, full, diag = linalg.LinearOperatorLowerTriangular, linalg.LinearOperatorFullMatrix, linalg.LinearOperatorDiag
    definite = {"is_self_adjoint": True, "is_positive_definite": True}
    a, s = [[4.0, 1.0, 2.0], [1.0, 3.0, 0.5], [0.0, 1.0, 5.0]], [[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 5.0]]
    z = [[1 + 1j, 2.0], [0.5j, 3 - 1j]]
    many = [[[1.0, 2.0], [3.0, 4.0]], [[2.0, 0.5], [0.25, 1.0]]]
    u, v = [[1.0, 0.5], [2.0, 1.0], [0.0, 1.0]], [[0.5, 1.0], [1.0, 1.0], [2.0, 0.0]]
    compact = [[1.0, 2.0, 0.0], [4.0, 5.0, 6.0], [0.0, 0.5, 1.5]]
    return {
        "Diag": (diag, [1.0, 2.0, -3.0]),
        "Diag of many": (lambda d: diag(d, is_positive_definite=True), [[1.0, 2.0], [3.0, 4.0]]),
        "Diag of complex": (diag, [1 + 1j, 2.0, 3j]),
        "FullMatrix": (full, a),
        "FullMatrix, definite": (lambda x: full(x, **definite), s),
        "FullMatrix of many": (full, many),
        "FullMatrix of complex": (full, z),
        "LowerTriangular": (low, a),
        "ScaledIdentity": (lambda m: linalg.LinearOperatorScaledIdentity(3, m), 2.5),
        "ScaledIdentity of many": (lambda m: linalg.LinearOperatorScaledIdentity(2, m), [2.5, -1.0]),
        "Identity": (lambda m: linalg.LinearOperatorIdentity(3), 1.0),
        "Identity of many": (lambda m: linalg.LinearOperatorIdentity(2, [2]), 1.0),
        "Householder": (linalg.LinearOperatorHouseholder, [1.0, 2.0, 2.0]),
        "Permutation": (lambda m: linalg.LinearOperatorPermutation([1, 2, 0]), 1.0),
        "Tridiag": (linalg.LinearOperatorTridiag, compact),
        "Tridiag of a matrix": (lambda x: linalg.LinearOperatorTridiag(x, "matrix"), [[4.0, 1.0], [2.0, 3.0]]),
        "Tridiag of three": (lambda x: linalg.LinearOperatorTridiag([x[0], x[1], x[2]], "sequence"), compact),
        "Toeplitz": (linalg.LinearOperatorToeplitz, [3.0, 1.0, 0.5], [3.0, -1.0, 2.0]),
        "Circulant": (lambda x: linalg.LinearOperatorCirculant(x, x.dtype), [6.0, 4.0, 4.0]),
        "Circulant of complex": (linalg.LinearOperatorCirculant, np.array([6.0 + 1j, 4.0, 4.0 - 2j], "complex64")),
        "Circulant2D": (linalg.LinearOperatorCirculant2D, np.array([[1.0 + 0j, 2.0], [3.0, 4.0 + 1j]], "complex64")),
        "Circulant3D": (linalg.LinearOperatorCirculant3D, np.arange(1, 9).reshape(2, 2, 2).astype("complex64")),
        "LowRankUpdate": (lambda d, u: linalg.LinearOperatorLowRankUpdate(diag(d), u), [1.0, 2.0, 3.0], u),
        "LowRankUpdate, definite": (
            lambda d, u, w: linalg.LinearOperatorLowRankUpdate(
                diag(d, is_positive_definite=True), u, w, is_diag_update_positive=True
            ),
            [1.0, 2.0, 3.0], u, [0.5, 2.0],
        ),
        "LowRankUpdate by two": (
            lambda m, u, v: linalg.LinearOperatorLowRankUpdate(full(m), u, v=v), a, u, v
        ),
        "Adjoint": (lambda x: linalg.LinearOperatorAdjoint(full(x)), z),
        "Inversion": (lambda x: linalg.LinearOperatorInversion(full(x)), a),
        "Composition": (lambda x, d: linalg.LinearOperatorComposition([full(x), diag(d)]), a, [1.0, 2.0, 3.0]),
        "Kronecker": (lambda x, d: linalg.LinearOperatorKronecker([full(x), diag(d)]), many[0], [1.0, 2.0, 3.0]),
        "Kronecker of complex": (lambda x, y: linalg.LinearOperatorKronecker([full(x), full(y)]), z, np.array(z) + 1.3713),
        "BlockDiag": (lambda x, y: linalg.LinearOperatorBlockDiag([full(x), low(y)]), many, a),
        "BlockLowerTriangular": (
            lambda x, y, d: linalg.LinearOperatorBlockLowerTriangular([[full(x)], [full(y), diag(d)]]),
            many[0], u, [1.0, 2.0, 3.0],
        ),
    }  # fmt: skip


def programs(tf):
    c = tf.constant
    made = {}
    for label, (make, *values) in operators(tf.linalg, c).items():
        for form in ("", ", traced"):
            made[label + form] = _all_of(tf, make, values, form)
        made[f"{label}, gradient"] = _gradient(tf, make, values)
        made[f"{label}, known"] = lambda make=make, values=values: _known(make(*map(c, values)))
    return _of_computed_size(tf) | (
        made | _algebra(tf) | _shapes(tf) | _blocks(tf) | _composites(tf) | _checks(tf) | _errors(tf) | _of_any_rank(tf)
    )


VARIANTS = (" of many", " of three", " of a matrix", ", definite", " by two")


def in_sweep(label):
    """Operators in several forms are compiled in one of them by default, and run eagerly in all."""
    name, _, traced = label.rpartition(", ")
    return traced == "traced" and name.endswith(VARIANTS)


def _of_computed_size(tf):
    """In a function of unknown rank, operators whose size is computed from the shape of a tensor."""
    linalg = tf.linalg

    def scaled(x):
        return linalg.LinearOperatorScaledIdentity(tf.shape(x)[-1], x[..., 0])

    def blocks(x):
        return linalg.LinearOperatorBlockDiag([scaled(x), linalg.LinearOperatorDiag(x)])

    def called(make, method):
        unknown = [tf.TensorSpec(None, tf.float32)]
        return tf.function(lambda x: getattr(make(x), method)(), input_signature=unknown)(tf.constant([2.0, 3.0]))

    return {
        f"{name} of computed size, {method}": lambda make=make, method=method: called(make, method)
        for name, make in {"scaled identity": scaled, "blocks": blocks}.items()
        for method in ("trace", "to_dense", "shape_tensor")
    }


def _shown(x):
    array = np.asarray(x)
    parts = np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array
    return x.dtype.name, (_digits(parts) + 0.0).tolist()


def _argument(tf, operator, rows):
    values = np.arange(1, 1 + rows * 2).reshape(rows, 2) / 4
    return tf.cast(tf.constant(values), operator.dtype)


def _values(tf, operator):
    """Everything that an operator gives."""
    rows, columns = operator.range_dimension, operator.domain_dimension
    x = _argument(tf, operator, int(columns))
    found = {
        "dense": operator.to_dense(),
        "matmul": operator.matmul(x),
        "matmul adjoint": operator.matmul(_argument(tf, operator, int(rows)), adjoint=True),
        "matmul adjoint arg": operator.matmul(tf.linalg.adjoint(x), adjoint_arg=True),
        "matvec": operator.matvec(x[:, 0]),
        "solve": operator.solve(x),
        "solve adjoint": operator.solve(tf.linalg.adjoint(x), adjoint=True, adjoint_arg=True),
        "solvevec": operator.solvevec(x[:, 1]),
        "diag": operator.diag_part(),
        "trace": operator.trace(),
        "det": operator.determinant(),
        "log det": operator.log_abs_determinant(),
        "added": operator.add_to_tensor(operator.to_dense()),
        "shape": operator.shape_tensor(),
        "batch": operator.batch_shape_tensor(),
        "inverse": operator.inverse().matvec(x[:, 0]),
        "adjoint": operator.H.matvec(x[:, 0]),
    }
    if not isinstance(operator, tf.linalg.LinearOperatorInversion):
        found["cond"] = operator.cond()
    if operator.is_self_adjoint:
        found["eigenvalues"] = tf.sort(tf.math.real(operator.eigvals()))
        if operator.is_positive_definite:
            found["cholesky"] = operator.cholesky().to_dense()
    return found


def _all_of(tf, make, values, kind):
    def run(*constants):
        return _values(tf, make(*constants))

    call = tf.function(run, autograph=False) if kind else run
    return lambda: {k: _shown(v) for k, v in call(*map(tf.constant, values)).items()}


def _gradient(tf, make, values):
    def sizes(operator):
        x = _argument(tf, operator, int(operator.domain_dimension))
        parts = (operator.matmul(x), operator.solve(x), operator.log_abs_determinant(), operator.trace())
        return [tf.cast(tf.reduce_sum(tf.abs(part) ** 2), tf.float64) for part in parts]

    def run():
        constants = [tf.constant(v) for v in values]
        with tf.GradientTape() as tape:
            tape.watch(constants)
            y = sizes(make(*constants))
        return [None if g is None else _shown(g) for g in tape.gradient(y, constants)]

    return run


def _kind(operator):
    return type(operator).__name__


def _known(operator):
    made = [_kind(operator.inverse()), _kind(operator.H)]
    if operator.is_self_adjoint and operator.is_positive_definite:
        made.append(_kind(operator.cholesky()))
    return operator.name, operator.shape, operator.dtype, [getattr(operator, h) for h in HINTS], made


def _algebra(tf):
    """The kinds that products and solutions of operators have, with their hints."""
    linalg = tf.linalg
    some = {
        "Identity": linalg.LinearOperatorIdentity(3),
        "ScaledIdentity": linalg.LinearOperatorScaledIdentity(3, 2.0, is_positive_definite=True),
        "Diag": linalg.LinearOperatorDiag([1.0, 2.0, 3.0], is_positive_definite=True),
        "LowerTriangular": linalg.LinearOperatorLowerTriangular(tf.ones([3, 3]), is_non_singular=True),
        "FullMatrix": linalg.LinearOperatorFullMatrix([[4.0, 1.0, 2.0], [1.0, 3.0, 0.5], [0.0, 1.0, 5.0]]),
        "Circulant": linalg.LinearOperatorCirculant([6.0, 4.0, 4.0], tf.float32),
        "Zeros": linalg.LinearOperatorZeros(3),
    }

    def shown(operator):
        dense = None if "Circulant" in _kind(operator) and operator.dtype.is_complex else _shown(operator.to_dense())
        return _kind(operator), [getattr(operator, h) for h in HINTS], dense

    made = {}
    for one, a in some.items():
        for other, b in some.items():
            made[f"{one} @ {other}"] = lambda a=a, b=b: shown(a @ b)
            made[f"{one} solves {other}"] = lambda a=a, b=b: shown(a.solve(b))
    lower = some["LowerTriangular"]
    return made | {
        "A @ A.H": lambda: _known(linalg.LinearOperatorComposition([lower, lower.H])),
        "cholesky of L @ L.H": lambda: _shown((lower @ lower.H).cholesky().to_dense()),
        "inverse twice": lambda: some["FullMatrix"].inverse().inverse() is some["FullMatrix"],
        "adjoint twice": lambda: some["FullMatrix"].H.H is some["FullMatrix"],
        "product of Kronecker": lambda: _kind(linalg.LinearOperatorKronecker([lower]) @ lower),
        "tf.matmul": lambda: _shown(tf.matmul(lower, tf.ones([3, 1]))),
        "tf.matmul of a tensor": lambda: _shown(tf.matmul(tf.ones([1, 3]), lower)),
        "tensor @ operator": lambda: _shown(tf.ones([1, 3]) @ lower),
        "tf.linalg": lambda: (
            _kind(linalg.inv(lower)), _kind(linalg.adjoint(lower)), _shown(linalg.det(lower)), _shown(linalg.trace(lower)),
            _shown(linalg.diag_part(lower)), _shown(linalg.solve(lower, tf.ones([3, 1]))),
            _shown(linalg.logdet(some["Diag"])), _kind(linalg.cholesky(some["Diag"])),
        ),
    }  # fmt: skip


def _shapes(tf):
    linalg = tf.linalg
    wide = linalg.LinearOperatorFullMatrix(tf.ones([5, 1, 2, 3]))
    diag = linalg.LinearOperatorDiag(tf.reshape(tf.range(24.0), [3, 4, 2]))
    both = linalg.LinearOperatorComposition([diag, linalg.LinearOperatorDiag(tf.reshape(tf.range(8.0), [4, 2]))])
    update = linalg.LinearOperatorLowRankUpdate(diag, tf.ones([4, 2, 1]))
    eye = linalg.LinearOperatorIdentity(2, [3, 4])

    class Scaling(linalg.LinearOperator):
        """An operator of a user, of a size that may be unknown while tracing."""

        def __init__(self, scale):
            self.scale = scale
            super().__init__(scale.dtype, is_square=True)

        def _shape(self):
            return self.scale.shape.concatenate(self.scale.shape[-1:])

        def _shape_tensor(self):
            return tf.concat([tf.shape(self.scale), tf.shape(self.scale)[-1:]], 0)

        def _matmul(self, x, adjoint=False, adjoint_arg=False):
            return self.scale[..., None] * (tf.linalg.adjoint(x) if adjoint_arg else x)

    def of_unknown_size(scale):
        operator = Scaling(scale)
        return operator.to_dense(), operator.shape_tensor(), operator.diag_part(), operator.trace()

    return {
        "a user's operator of unknown size": lambda: tf.function(
            of_unknown_size, input_signature=[tf.TensorSpec([None, None], tf.float32)]
        )(tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])),
        "shape": lambda: (wide.shape, wide.batch_shape, wide.tensor_rank, wide.is_square),
        "zeros": lambda: _shown(
            linalg.LinearOperatorZeros(2, 3, [2], is_square=False, is_self_adjoint=False).to_dense()
        ),
        "zeros times": lambda: _shown(
            linalg.LinearOperatorZeros(2, 3, is_square=False, is_self_adjoint=False).matmul(tf.ones([3, 1]))
        ),
        "sliced": lambda: [_shown(diag[i].to_dense()) for i in (0, slice(1, 3), (0, 1), (Ellipsis, 2))],
        "sliced composition": lambda: _shown(both[1:, 2].to_dense()),
        "sliced update": lambda: _shown(update[0, ::2].to_dense()),
        "sliced identity": lambda: [eye[i].shape for i in (0, (slice(None), 1), (Ellipsis, slice(2)))],
        "sliced with a new axis": lambda: diag[0, None].shape,
        "broadcast": lambda: _shown(diag.matmul(tf.ones([2, 1]))),
        "solve broadcast": lambda: _shown(
            linalg.LinearOperatorFullMatrix([[2.0, 1.0], [0.5, 1.0]]).solve(tf.ones([3, 2, 1]))
        ),
        "kernel": lambda: _shown(linalg.LinearOperatorCirculant([6.0, 4.0, 4.0]).convolution_kernel()),
        "blocks of Circulant2D": lambda: linalg.LinearOperatorCirculant2D(tf.ones([3, 2])).block_shape,
    }


def _blocks(tf):
    full = tf.linalg.LinearOperatorFullMatrix
    a, b, d = full([[1.0, 2.0], [3.0, 4.0]]), full([[5.0, 1.0]]), full([[2.0]])
    diag = tf.linalg.LinearOperatorBlockDiag([a, d])
    lower = tf.linalg.LinearOperatorBlockLowerTriangular([[a], [b, d]])
    x = [tf.constant([[1.0], [2.0]]), tf.constant([[3.0]])]
    rows = [tf.constant([1.0, 2.0]), tf.constant([3.0])]
    made = {}
    for label, op in (("BlockDiag", diag), ("BlockLowerTriangular", lower)):
        made |= {
            f"{label} times blocks": lambda op=op: list(map(_shown, op.matmul(list(x)))),
            f"{label} times blocks, adjoint": lambda op=op: list(map(_shown, op.matmul(list(x), adjoint=True))),
            f"{label} times rows": lambda op=op: list(map(_shown, op.matvec(list(rows)))),
            f"{label} solves blocks": lambda op=op: list(map(_shown, op.solve(list(x)))),
            f"{label} solves blocks, adjoint": lambda op=op: list(map(_shown, op.solve(list(x), adjoint=True))),
            f"{label} solves rows": lambda op=op: list(map(_shown, op.solvevec(list(rows)))),
            f"{label} of blocks that don't fit": lambda op=op: kind(
                lambda: op.matmul([tf.ones([3, 1]), tf.ones([4, 1])])
            ),
        }
    return made | {
        "BlockDiag @ BlockDiag": lambda: _known(diag @ diag),
        "BlockDiag solves BlockDiag": lambda: _shown(diag.solve(diag).to_dense()),
        "BlockDiag of more": lambda: diag @ tf.linalg.LinearOperatorBlockDiag([d, d, d]),
        "BlockLowerTriangular inverted": lambda: _shown(lower.inverse().to_dense()),
        "rows of other sizes": lambda: tf.linalg.LinearOperatorBlockLowerTriangular([[a], [d, d]]),
        "rows too short": lambda: tf.linalg.LinearOperatorBlockLowerTriangular([[a], [d]]),
        "a block that is not square": lambda: tf.linalg.LinearOperatorBlockLowerTriangular(
            [[full([[1.0, 2.0]], is_square=False)]]
        ),
    }


def _composites(tf):
    linalg = tf.linalg
    diag = linalg.LinearOperatorDiag([1.0, 2.0])
    update = linalg.LinearOperatorLowRankUpdate(diag, [[1.0], [1.0]])
    inverse = tf.function(lambda op: op.inverse(), autograph=False)

    def traces():
        count = []
        seen = tf.function(lambda op: count.append(1) or op.trace(), autograph=False)
        for values in ([1.0, 2.0], [3.0, 4.0], [1.0, 2.0, 3.0]):
            seen(linalg.LinearOperatorDiag(values))
        return len(count)

    def by_operator():
        with tf.GradientTape() as tape:
            tape.watch(update)
            y = update.determinant()
        found = tape.gradient(y, update)
        return _kind(found), _shown(found.u), _shown(found.base_operator.diag)

    def by_variable():
        v = tf.Variable([1.0, 2.0])
        op = linalg.LinearOperatorDiag(v)
        determinant = tf.function(lambda: op.determinant())
        with tf.GradientTape() as tape:
            y = determinant()
        first = _shown(tape.gradient(y, v))
        v.assign([5.0, 6.0])
        return first, _shown(determinant()), [w.shape for w in op.trainable_variables]

    def in_module():
        class Model(tf.Module):
            def __init__(self):
                self.op = linalg.LinearOperatorComposition(
                    [linalg.LinearOperatorDiag(tf.Variable([1.0])), linalg.LinearOperatorDiag(tf.Variable([2.0]))]
                )

        model = Model()
        return len(model.trainable_variables), [_kind(m) for m in model.submodules]

    def looped():
        _, found = tf.while_loop(lambda i, op: i < 3, lambda i, op: (i + 1, op @ op), (0, diag))
        return _shown(found.to_dense())

    eye = linalg.LinearOperatorIdentity(2, [3])
    return {
        "spec": lambda: diag._type_spec == linalg.LinearOperatorDiag([3.0, 4.0])._type_spec,
        "spec of another size": lambda: diag._type_spec == linalg.LinearOperatorDiag([3.0])._type_spec,
        "flat": lambda: len(tf.nest.flatten(update, expand_composites=True)),
        "parameters": lambda: diag.parameters,
        "from a function": lambda: (_kind(inverse(diag)), _shown(inverse(diag).to_dense())),
        "update from a function": lambda: (_kind(inverse(update)), _shown(inverse(update).to_dense())),
        "identity from a function": lambda: (_kind(inverse(eye)), inverse(eye).shape),
        "eager while": looped,
        "cond": lambda: _shown(
            tf.function(lambda x, op: tf.cond(x, lambda: op, lambda: op.inverse()))(tf.constant(False), diag).to_dense()
        ),
        "traces": traces,
        "gradient by an operator": by_operator,
        "Variable": by_variable,
        "Module": in_module,
        "unknown sizes": lambda: _shown(
            tf.function(
                lambda m: linalg.LinearOperatorIdentity(tf.shape(m)[0]).matmul(m) + linalg.LinearOperatorFullMatrix(m).solve(m),
                input_signature=[tf.TensorSpec([None, None])], autograph=False,
            )(tf.constant([[2.0, 1.0], [0.5, 3.0]]))
        ),
    }  # fmt: skip


def _checks(tf):
    linalg = tf.linalg
    full, diag = linalg.LinearOperatorFullMatrix, linalg.LinearOperatorDiag
    good, bad = full([[2.0, 1.0], [1.0, 2.0]], is_self_adjoint=True), full([[1.0, 0.0], [0.0, 0.0]])
    some = {
        "Diag": diag([0.0, 1.0]), "complex Diag": diag([1j, 1.0]), "Full": full([[1.0, 2.0], [3.0, 4.0]]), "good": good,
        "Householder": linalg.LinearOperatorHouseholder([1.0, 0.0]), "Zeros": linalg.LinearOperatorZeros(2),
        "Identity": linalg.LinearOperatorIdentity(2), "ScaledIdentity": linalg.LinearOperatorScaledIdentity(2, 0.0),
        "singular": bad, "Circulant": linalg.LinearOperatorCirculant([1.0 + 1j, 0.0]),
        "Toeplitz": linalg.LinearOperatorToeplitz([1.0, 2.0], [1.0, 3.0]),
        "Tridiag": linalg.LinearOperatorTridiag([[1.0, 2.0, 0.0], [4.0, 5.0, 6.0], [0.0, 0.5, 1.5]]),
    }  # fmt: skip
    checks = ("assert_non_singular", "assert_positive_definite", "assert_self_adjoint")
    return {f"{c} of {n}": (lambda op=op, c=c: getattr(op, c)()) for n, op in some.items() for c in checks}


def _errors(tf):
    linalg = tf.linalg
    full, diag = linalg.LinearOperatorFullMatrix, linalg.LinearOperatorDiag
    op, wide = full([[1.0, 2.0], [3.0, 4.0]]), full([[1.0, 2.0]])
    singular = diag([1.0, 2.0], is_non_singular=False)
    return {
        "matmul that does not fit": lambda: op.matmul(tf.ones([3, 1])),
        "matvec that does not fit": lambda: op.matvec([1.0, 2.0, 3.0]),
        "solve that does not fit": lambda: op.solve(tf.ones([3, 1])),
        "matmul of another dtype": lambda: op.matmul(tf.constant([[1], [2]])),
        "operators that do not fit": lambda: op @ diag([1.0, 2.0, 3.0]),
        "operators that do not fit in solve": lambda: op.solve(diag([1.0, 2.0, 3.0])),
        "cholesky": lambda: op.cholesky(),
        "eigvals": lambda: op.eigvals(),
        "determinant of wide": lambda: wide.determinant(),
        "log determinant of wide": lambda: wide.log_abs_determinant(),
        "solve of wide": lambda: wide.solve(tf.ones([1, 1])),
        "inverse of wide": lambda: wide.inverse(),
        "inverse of singular": lambda: singular.inverse(),
        "solve of singular": lambda: singular.solve(tf.ones([2, 1])),
        "definite and singular": lambda: full([[1.0]], is_non_singular=False, is_positive_definite=True),
        "non-singular and not square": lambda: full([[1.0]], is_non_singular=True, is_square=False),
        "square after all": lambda: full([[1.0]], is_square=False).is_square,
        "scalar Diag": lambda: diag(2.0),
        "Diag that is not self-adjoint": lambda: diag([2.0], is_self_adjoint=False),
        "Diag that is not square": lambda: diag([2.0], is_square=False),
        "vector FullMatrix": lambda: full([2.0]),
        "FullMatrix of integers": lambda: full([[2]]),
        "vector LowerTriangular": lambda: linalg.LinearOperatorLowerTriangular([2.0]),
        "Identity of floats": lambda: linalg.LinearOperatorIdentity(2.0),
        "Identity of less than nothing": lambda: linalg.LinearOperatorIdentity(-1),
        "Identity of a vector": lambda: linalg.LinearOperatorIdentity([1]),
        "Identity that is singular": lambda: linalg.LinearOperatorIdentity(2, is_non_singular=False),
        "Identity of a scalar batch": lambda: linalg.LinearOperatorIdentity(2, 3),
        "Zeros that are not square": lambda: linalg.LinearOperatorZeros(2, 3),
        "Zeros that are definite": lambda: linalg.LinearOperatorZeros(2, is_positive_definite=True),
        "Householder that is definite": lambda: linalg.LinearOperatorHouseholder([1.0], is_positive_definite=True),
        "no permutation": lambda: linalg.LinearOperatorPermutation([0, 2]),
        "permutation of floats": lambda: linalg.LinearOperatorPermutation([0.0, 1.0]),
        "Tridiag of no format": lambda: linalg.LinearOperatorTridiag([[1.0]], "other"),
        "Toeplitz of two sizes": lambda: linalg.LinearOperatorToeplitz([1.0], [1.0, 2.0]),
        "real spectrum": lambda: linalg.LinearOperatorCirculant([1.0], is_self_adjoint=False),
        "spectrum too flat": lambda: linalg.LinearOperatorCirculant2D([1.0]),
        "no operators": lambda: linalg.LinearOperatorComposition([]),
        "operators of two dtypes": lambda: linalg.LinearOperatorKronecker([op, diag([1j])]),
        "inversion of singular": lambda: linalg.LinearOperatorInversion(singular),
        "adjoint that disagrees": lambda: linalg.LinearOperatorAdjoint(singular, is_non_singular=True),
        "update that does not fit": lambda: linalg.LinearOperatorLowRankUpdate(op, tf.ones([3, 1])),
        "update of no positive diagonal": lambda: linalg.LinearOperatorLowRankUpdate(
            op, tf.ones([2, 1]), is_diag_update_positive=False
        ),
        "missing arguments": lambda: linalg.LinearOperatorDiag(),
        "tf.matmul transposed": lambda: tf.matmul(op, tf.ones([2, 2]), transpose_a=True),
        "solve by a tensor": lambda: linalg.solve(tf.ones([2, 2]), op),
    }


def _of_any_rank(tf):
    """Operators in a TensorFlow 1 graph whose tensors are of unknown rank until the graph runs."""
    linalg, v1 = tf.linalg, tf.compat.v1
    diag, full, low = linalg.LinearOperatorDiag, linalg.LinearOperatorFullMatrix, linalg.LinearOperatorLowerTriangular
    rows = [[1.0, 2.0], [3.0, 4.0]]
    matrices = [[[2.0, 0.0], [1.0, 3.0]], [[4.0, 0.0], [1.0, 5.0]]]
    makers = {
        "diagonals": (diag, rows),
        "matrices": (full, matrices),
        "triangles": (low, matrices),
        "an inverse": (lambda x: linalg.LinearOperatorInversion(diag(x)), rows),
        "products": (lambda x: linalg.LinearOperatorComposition([diag(x), diag(x)]), rows),
        "reflections": (linalg.LinearOperatorHouseholder, rows),
        "permutations": (lambda x: linalg.LinearOperatorPermutation(tf.cast(x, tf.int32)), [[1.0, 0.0], [0.0, 1.0]]),
        "Toeplitz matrices": (lambda x: linalg.LinearOperatorToeplitz(x, x), rows),
        "blocks": (lambda x: linalg.LinearOperatorBlockDiag([diag(x), diag(x)]), rows),
    }

    def rounded(results):
        return [(np.round(np.array(x, np.float64), 4) + 0.0).tolist() for x in results]

    def of_any_size(make, value):
        spec = tf.TensorSpec([None] * np.ndim(value))

        @tf.function(input_signature=[spec], autograph=False)
        def run(x):
            operator = make(x)
            return operator.to_dense(), operator.log_abs_determinant()

        return lambda: rounded(run(tf.constant(value)))

    def made(make, value):
        def program():
            with tf.Graph().as_default(), v1.Session() as session:
                operator = make(v1.placeholder_with_default(value, None))
                dense = operator.to_dense()
                results = [dense, operator.shape_tensor(), operator.matmul(dense), operator.solve(dense)]
                results += [
                    operator.log_abs_determinant(),
                    operator.inverse().diag_part(),
                    operator.adjoint().to_dense(),
                ]
                return operator.shape.rank, rounded(session.run(results))

        return program

    low_rank = (lambda x: linalg.LinearOperatorLowRankUpdate(diag(x[..., 0]), x[..., :1]), matrices)
    products = (lambda x: linalg.LinearOperatorKronecker([diag(x), diag(x)]), rows)
    sized = makers | {"low-rank updates": low_rank, "Kronecker products": products}
    return {
        **{f"{name} of any rank": made(*maker) for name, maker in makers.items()},
        **{f"{name} of any size": of_any_size(*maker) for name, maker in sized.items()},
    }
