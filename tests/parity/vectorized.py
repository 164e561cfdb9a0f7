"""``tf.vectorized_map`` over many kinds of functions of a row: values, shapes and dtypes, eager and traced."""

import numpy as np


def programs(tf):
    programs = {}
    for family in (_plain, _linear, _networks, _drawn, _control, _state, _composites, _texts):
        for label, (function, *elems) in family(tf).items():
            rows = elems[0] if len(elems) == 1 else tuple(elems)
            programs[label] = lambda f=function, rows=rows: _shown(tf, tf.vectorized_map(f, rows, warn=False))
            traced = tf.function(lambda rows, f=function: tf.vectorized_map(f, rows, warn=False))
            programs[f"{label}, traced"] = lambda run=traced, rows=rows: _shown(tf, run(rows))
    return programs | _rejected(tf) | _jacobians(tf)


def _shown(tf, results):
    return tf.nest.map_structure(_rounded, results)


def _rounded(x):
    if not hasattr(x, "numpy"):
        return x
    array = np.asarray(x.numpy())
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        array = np.vectorize(lambda v: float(f"{v:.3e}") + 0.0, otypes=[float])(array)
    return x.dtype.name, array.tolist()


def _plain(tf):
    c = tf.constant
    x = c([[0.3, -0.6, 0.9], [0.1, 0.4, -0.2]])
    m = tf.reshape(tf.range(24.0), [2, 3, 4])
    i = c([[1, 2, 0], [0, 1, 1]])
    flags = c([[True, False, True], [False, False, True]])
    return {
        "dynamic stitch": (lambda r: tf.dynamic_stitch([[0, 2], [1]], [r[:2], r[2:]]), x),
        "dynamic partition sizes": (lambda r: tf.dynamic_partition(r, [0, 1, 0], 2), x),
        "read by an index": (lambda r: r[0][r[1][0] % 2], (tf.stack([i, i], 1))),
        "rows by an index": (lambda p: p[0][p[1][0] :], m, c([[1], [1]])),
        "a slice from an index": (lambda p: tf.slice(p[0], [p[1][0], 0], [1, 2]), m, i),
        "segment sum": (lambda r: tf.math.segment_sum(r, [0, 0, 1]), x),
        "segment mean": (lambda r: tf.math.segment_mean(r, [0, 0, 1]), x),
        "segment max": (lambda r: tf.math.segment_max(r, [0, 0, 1]), x),
        "segment prod": (lambda r: tf.math.segment_prod(r, [0, 0, 1]), x),
        "unsorted segment sum": (lambda p: tf.math.unsorted_segment_sum(p[0], p[1], 3), x, i),
        "unsorted segment sum, shared ids": (lambda r: tf.math.unsorted_segment_sum(r, [0, 2, 0], 3), x),
        "unsorted segment sum, shared data": (lambda r: tf.math.unsorted_segment_sum(x[0], r, 3), i),
        "unsorted segment sum of rows": (lambda p: tf.math.unsorted_segment_sum(p[0], p[1], 3), m, i),
        "unsorted segment max": (lambda p: tf.math.unsorted_segment_max(p[0], p[1], 3), x, i),
        "unsorted segment min": (lambda p: tf.math.unsorted_segment_min(p[0], p[1], 3), x, i),
        "unsorted segment prod": (lambda p: tf.math.unsorted_segment_prod(p[0], p[1], 3), x, i),
        "unsorted segment mean": (lambda p: tf.math.unsorted_segment_mean(p[0], p[1], 3), x, i),
        "unsorted segment sqrt n": (lambda p: tf.math.unsorted_segment_sqrt_n(p[0], p[1], 3), x, i),
        "sparse segment sum": (lambda r: tf.sparse.segment_sum(r, [0, 1], [0, 0]), m),
        "cast, bitcast": (lambda r: (tf.cast(r, tf.int32), tf.bitcast(r, tf.int32)), x),
        "where of a condition": (lambda r: tf.where(r > 0, r, -1.0), x),
        "where of a scalar": (lambda r: tf.where(r[0] > 0.2, r, -r), x),
        "where over": (lambda p: tf.where(p[0], p[1], 0.0), flags, x),
        "sort": (tf.sort, x),
        "argsort": (tf.argsort, x),
        "top k": (lambda r: tf.math.top_k(r, 2), x),
        "in top k": (lambda r: tf.math.in_top_k([0, 1], tf.reshape(tf.concat([r, r], 0), [2, 3]), 1), x),
        "searchsorted": (lambda r: tf.searchsorted(tf.sort(r), [0.0, 0.5]), x),
        "searchsorted in shared": (lambda r: tf.searchsorted([0.0, 0.35], r), x),
        "cumsum": (lambda r: tf.cumsum(r, exclusive=True), x),
        "cumprod": (lambda r: tf.math.cumprod(r, reverse=True), x),
        "cumulative logsumexp": (tf.math.cumulative_logsumexp, x),
        "argmax": (lambda r: (tf.argmax(r), tf.argmin(r)), x),
        "reductions": (
            lambda r: (tf.reduce_max(r), tf.reduce_any(r > 0), tf.reduce_logsumexp(r), tf.math.reduce_std(r)),
            x,
        ),
        "norms": (lambda r: (tf.norm(r), tf.linalg.normalize(r)[0], tf.clip_by_norm(r, 0.5)), x),
        "one hot": (lambda r: tf.one_hot(r, 3), i),
        "one hot of values": (lambda p: tf.one_hot(p[0], 3, on_value=p[1][0], off_value=0.0), i, x),
        "gather": (lambda p: tf.gather(p[0], p[1]), m, i),
        "gather along": (lambda p: tf.gather(p[0], p[1], axis=1), m, i),
        "gather of shared": (lambda r: tf.gather(m[0], r), i),
        "gather with shared": (lambda r: tf.gather(r, [2, 0]), m),
        "gather in batches": (lambda p: tf.gather(p[0], p[1][:, None], batch_dims=1), m, i),
        "gather nd": (lambda p: tf.gather_nd(p[0], p[1][:, None]), m, i),
        "gather nd of shared": (lambda r: tf.gather_nd(m[0], r[:, None]), i),
        "scatter nd": (lambda p: tf.scatter_nd(p[1][:, None], p[0], [4]), x, i),
        "scatter nd at shared": (lambda r: tf.scatter_nd([[0], [2], [0]], r, [4]), x),
        "scattered updates": (lambda p: tf.tensor_scatter_nd_update(p[0], [[1]], p[1][:1]), x, x + 1),
        "scattered updates at": (lambda p: tf.tensor_scatter_nd_update(p[0], p[1][:1][:, None], [9.0]), x, i),
        "scattered sums": (lambda p: tf.tensor_scatter_nd_add(p[0], p[1][:, None], p[0]), x, i),
        "scattered maxima": (lambda p: tf.tensor_scatter_nd_max(p[0], p[1][:, None], p[0]), x, i),
        "scattered in shared": (lambda p: tf.tensor_scatter_nd_add(x[0], p[1][:, None], p[0]), x, i),
        "concat": (lambda r: tf.concat([r, [1.0], r], 0), x),
        "stack": (lambda r: tf.stack([r, x[0]], 1), x),
        "unstack": (tf.unstack, x),
        "split": (lambda r: tf.split(r, [1, 2]), x),
        "tile": (lambda r: tf.tile(r, [2]), x),
        "repeat": (lambda r: tf.repeat(r, 2), x),
        "repeats": (lambda r: tf.repeat(r, [1, 0, 2]), x),
        "pad": (lambda r: tf.pad(r, [[1, 0], [0, 2]]), m),
        "mirror pad": (lambda r: tf.pad(r, [[1, 1]], "REFLECT"), x),
        "roll": (lambda r: tf.roll(r, 1, 0), x),
        "roll by": (lambda p: tf.roll(p[0], p[1][0], 0), x, i),
        "reverse": (lambda r: tf.reverse(r, [0]), x),
        "reverse sequence": (lambda r: tf.reverse_sequence(r, [2, 1, 4], seq_axis=1, batch_axis=0), m),
        "transpose": (tf.transpose, m),
        "broadcast": (lambda r: tf.broadcast_to(r, [2, 3]), x),
        "meshgrid": (lambda r: tf.meshgrid(r, [1.0, 2.0]), x),
        "shape, size, rank": (lambda r: (tf.shape(r), tf.size(r), tf.rank(r)), m),
        "zeros like": (lambda r: (tf.zeros_like(r), tf.ones_like(r), tf.fill([2], r[0])), x),
        "constant": (lambda r: tf.constant([1, 2]), x),
        "range": (lambda r: tf.range(3), x),
        "linspace": (lambda r: tf.linspace(r[0], r[1], 3), x),
        "identity n": (lambda r: tf.identity_n([r, r]), x),
        "bitwise": (lambda r: (tf.bitwise.bitwise_and(r, 1), tf.bitwise.left_shift(r, 1), tf.bitwise.invert(r)), i),
        "logical": (lambda r: (tf.logical_not(r), tf.math.logical_xor(r, True)), flags),
        "bincount": (lambda r: tf.math.bincount(r, minlength=3, maxlength=3), i),
        "confusion": (lambda p: tf.math.confusion_matrix(p, p, 3), i),
        "einsum": (lambda r: tf.einsum("ij,kj->ik", r, r), m),
        "tensordot": (lambda r: tf.tensordot(r, r, 0), x),
        "polynomial": (lambda r: tf.math.polyval([1.0, 2.0], r), x),
        "special": (
            lambda r: (tf.math.lgamma(r + 2), tf.math.digamma(r + 2), tf.math.erfinv(r), tf.math.ndtri(r / 4 + 0.5)),
            x,
        ),
        "bessel": (lambda r: (tf.math.bessel_i0(r), tf.math.special.bessel_j1(r), tf.math.special.dawsn(r)), x),
        "igamma": (
            lambda r: (tf.math.igamma(r + 1, 0.5), tf.math.betainc(r + 1, 2.0, 0.3), tf.math.zeta(r + 2, 1.5)),
            x,
        ),
        "complex": (lambda r: (tf.complex(r, -r), tf.abs(tf.complex(r, r)), tf.math.angle(tf.complex(r, r))), x),
        "checks": (lambda r: tf.debugging.check_numerics(r, "bad"), x),
        "ensure shape": (lambda r: tf.ensure_shape(r, [3]), x),
        "clip": (lambda p: tf.clip_by_value(p[0], -0.1, 0.2), x, i),
        "quantized": (lambda r: tf.quantization.fake_quant_with_min_max_args(r), x),
        "nan": (lambda r: (tf.math.is_nan(r), tf.math.multiply_no_nan(r, 0.0), tf.math.xlogy(r, 0.5)), x),
        "space to depth": (lambda r: tf.nn.space_to_depth(r, 2), tf.reshape(tf.range(32.0), [2, 1, 4, 4, 1])),
        "space to batch": (
            lambda r: tf.space_to_batch(r, [2, 2], [[0, 0], [0, 0]]),
            tf.reshape(tf.range(32.0), [2, 1, 4, 4, 1]),
        ),
        "patches": (
            lambda r: tf.image.extract_patches(r, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID"),
            tf.reshape(tf.range(32.0), [2, 1, 4, 4, 1]),
        ),
        "nested structure": (lambda p: {"a": p["x"] + 1, "b": (p["y"], [p["x"]])}, {"x": x, "y": i}),
        "one row for many": (lambda p: p[0] + p[1], x, x[:1]),
        "map of a map": (lambda r: tf.vectorized_map(lambda e: e * r[0], r), x),
        "map in it": (lambda r: tf.map_fn(lambda e: e * r[0], r), x),
        "a fold in it": (lambda r: tf.foldl(lambda a, e: a * 2 + e, r), x),
        "a scan in it": (lambda r: tf.scan(lambda a, e: a * 2 + e, r), x),
        "unique": (lambda r: tf.unique(r)[0][:1], c([[1, 1, 2], [3, 3, 4]])),
        "boolean mask": (lambda r: tf.boolean_mask(r, [True, False, True]), x),
        "places": (lambda r: tf.where([True, False, True]), x),
        "edit distance": (lambda r: tf.math.l2_normalize(r), x),
        "empty": (lambda r: r * 2, tf.zeros([0, 3])),
    }


def _linear(tf):
    s = tf.constant([[[2.0, 0.5], [0.5, 1.0]], [[3.0, -1.0], [-1.0, 2.0]]])
    v = tf.constant([[[1.0], [2.0]], [[0.0], [-1.0]]])
    w = tf.constant(np.cos(np.arange(12)).reshape(2, 3, 2))
    return {
        "inverse": (tf.linalg.inv, s),
        "determinants": (lambda r: (tf.linalg.det(r), tf.linalg.slogdet(r), tf.linalg.logdet(r)), s),
        "solve": (lambda p: tf.linalg.solve(p[0], p[1]), s, v),
        "solve shared": (lambda r: tf.linalg.solve(s[0], r), v),
        "triangular solve": (lambda p: tf.linalg.triangular_solve(tf.linalg.cholesky(p[0]), p[1]), s, v),
        "cholesky solve": (lambda p: tf.linalg.cholesky_solve(tf.linalg.cholesky(p[0]), p[1]), s, v),
        "least squares": (lambda p: tf.linalg.lstsq(p[0], p[1], fast=True), s, v),
        "eigenvalues": (tf.linalg.eigvalsh, s),
        "singular values": (lambda r: tf.linalg.svd(r, compute_uv=False), w),
        "qr": (lambda r: tf.abs(tf.linalg.qr(r)[1]), w),
        "lu": (tf.linalg.lu, s),
        "exponential": (tf.linalg.expm, s),
        "square root": (tf.linalg.sqrtm, s),
        "power": (lambda r: tf.linalg.matmul(r, r, transpose_a=True), s),
        "products": (lambda p: (p[0] @ p[1], tf.linalg.matvec(p[0], p[1][:, 0])), s, v),
        "diagonals": (
            lambda r: (tf.linalg.diag(r[0]), tf.linalg.diag_part(r), tf.linalg.band_part(r, 0, -1), tf.linalg.trace(r)),
            s,
        ),
        "set diagonal": (lambda p: tf.linalg.set_diag(p[0], p[1][:, 0]), s, v),
        "tensor diagonal": (lambda r: tf.linalg.tensor_diag_part(tf.linalg.tensor_diag(r[0])), s),
        "cross": (lambda r: tf.linalg.cross(r[:, 0], r[:, 1]), w),
        "pseudo inverse": (tf.linalg.pinv, s),
        "adjoint": (tf.linalg.adjoint, s),
        "tridiagonal": (
            lambda p: tf.linalg.tridiagonal_solve(tf.constant([[0.1, 0.0], [1.0, 2.0], [0.0, 0.1]]), p[:, 0]),
            v,
        ),
        "fourier": (lambda r: tf.signal.fft(tf.complex(r[:, 0], r[:, 1])), w),
        "real fourier": (lambda r: tf.signal.irfft(tf.signal.rfft(r[0])), s),
        "operator": (lambda p: tf.linalg.LinearOperatorFullMatrix(p[0]).solve(p[1]), s, v),
    }


def _networks(tf):
    image = tf.constant(np.cos(np.arange(2 * 25 * 2)).reshape(2, 1, 5, 5, 2).astype(np.float32))
    kernel = tf.constant(np.sin(np.arange(2 * 36)).reshape(2, 3, 3, 2, 2).astype(np.float32))
    logits = tf.constant([[0.3, -0.6, 0.9], [0.1, 0.4, -0.2]])
    nn = tf.nn
    return {
        "convolution": (lambda r: nn.conv2d(r, kernel[0], 1, "SAME"), image),
        "convolution by": (lambda r: nn.conv2d(image[0], r, 2, "VALID"), kernel),
        "convolution of both": (lambda p: nn.conv2d(p[0], p[1], 1, "VALID"), image, kernel),
        "convolution transposed": (lambda r: tf.round(50 * nn.conv2d_transpose(r, kernel[0], [1, 5, 5, 2], 1)), image),
        "depthwise": (lambda r: nn.depthwise_conv2d(r, kernel[0], [1, 1, 1, 1], "VALID"), image),
        "depthwise of both": (lambda p: nn.depthwise_conv2d(p[0], p[1], [1, 1, 1, 1], "VALID"), image, kernel),
        "pools": (lambda r: (nn.max_pool2d(r, 2, 2, "VALID"), nn.avg_pool2d(r, 2, 1, "SAME")), image),
        "pool with places": (lambda r: nn.max_pool_with_argmax(r, 2, 2, "VALID"), image),
        "activations": (
            lambda r: (nn.gelu(r), nn.elu(r), nn.selu(r), nn.leaky_relu(r), nn.relu6(r), nn.swish(r)),
            logits,
        ),
        "softmax": (lambda r: (nn.softmax(r), nn.log_softmax(r)), logits),
        "losses": (
            lambda r: (
                nn.softmax_cross_entropy_with_logits([0.0, 1.0, 0.0], r),
                nn.sparse_softmax_cross_entropy_with_logits(tf.constant(1), r),
                nn.sigmoid_cross_entropy_with_logits(tf.ones([3]), r),
            ),
            logits,
        ),
        "batch norm": (lambda r: nn.batch_normalization(r, 0.0, 1.0, None, None, 1e-3), image),
        "fused batch norm": (lambda r: nn.moments(r, [0, 1, 2]), image),
        "dropout of nothing": (lambda r: nn.dropout(r, 0.0), logits),
        "local response": (lambda r: nn.local_response_normalization(r), image),
        "embedding": (lambda r: nn.embedding_lookup(logits, r), tf.constant([[0, 1], [1, 1]])),
        "bias": (lambda r: nn.bias_add(r, [1.0, 2.0]), image),
        "resize": (lambda r: tf.image.resize(r, [3, 3]), image),
        "resize nearest": (lambda r: tf.image.resize(r, [3, 3], "nearest"), image),
        "pictures": (
            lambda r: (tf.image.flip_left_right(r[0]), tf.image.central_crop(r[0], 0.6), tf.image.rot90(r[0])),
            image,
        ),
        "colours": (lambda r: tf.image.adjust_contrast(r, 2.0), image),
        "gradient within": (
            lambda r: _slope(tf, lambda x: tf.reduce_sum(nn.conv2d(x, kernel[0], 1, "SAME") ** 2), r),
            image,
        ),
        "gradient of pool": (
            lambda r: _slope(tf, lambda x: tf.reduce_sum(nn.max_pool2d(x, 2, 1, "SAME") ** 2), r),
            image,
        ),
        "gradient of reads": (lambda r: _slope(tf, lambda x: x[0] * x[2] + tf.gather(x, 1), r), logits),
        "jacobian within": (lambda r: _jacobian(tf, lambda x: x * tf.reduce_sum(x), r), logits),
    }


def _slope(tf, function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


def _jacobian(tf, function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.jacobian(y, x)


def _drawn(tf):
    x = tf.constant([[0.3, 0.6], [0.1, 0.4], [0.2, 0.9]])
    seeds = tf.constant([[1, 2], [3, 4], [1, 2]])
    r = tf.random

    def differ(draw):
        def drawn(_):
            return draw([3])

        return drawn

    return {
        "stateless uniform": (lambda s: r.stateless_uniform([2], s), seeds),
        "stateless normal": (lambda s: r.stateless_normal([2], s), seeds),
        "stateless truncated": (lambda s: r.stateless_truncated_normal([2], s), seeds),
        "stateless integers": (lambda s: r.stateless_uniform([2], s, 0, 10, tf.int32), seeds),
        "stateless of one seed": (lambda row: r.stateless_uniform([2], [1, 2]) + row, x),
        "stateless categorical": (lambda s: r.stateless_categorical([[0.3, 0.7]], 3, s), seeds),
        "stateless gamma": (lambda s: tf.shape(r.stateless_gamma([2], s, 0.5)), seeds),
        "stateless shuffle": (lambda s: tf.sort(tf.random.experimental.stateless_shuffle([1, 2, 3], s)), seeds),
        "uniform shape": (lambda row: tf.shape(r.uniform([3])), x),
        "normal shape": (lambda row: tf.shape(r.normal([3, 1])), x),
        "categorical shape": (lambda row: tf.shape(r.categorical([row], 4)), x),
        "integers shape": (lambda row: tf.shape(r.uniform([3], maxval=5, dtype=tf.int32)), x),
        "dropout shape": (lambda row: tf.shape(tf.nn.dropout(row, 0.5)), x),
    }


def _control(tf):
    x = tf.constant([[0.3, -0.6, 0.9], [-0.1, 0.4, -0.2], [2.0, 1.0, 0.0]])
    n = tf.constant([3, 0, 2])

    def counted(limit):
        return tf.while_loop(lambda i, a: i < limit, lambda i, a: (i + 1, a * 2.0), (tf.constant(0), tf.constant(1.0)))

    def together(r):
        return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + r), (tf.constant(0), tf.zeros_like(r)))[1]

    @tf.function
    def halves(r):
        while tf.reduce_sum(tf.abs(r)) > 0.5:
            r = r / 2
        return r

    @tf.function
    def chosen(r):
        if r[0] > 0:
            y = r * 2
        else:
            y = -r
        return y

    @tf.function
    def array(r):
        ta = tf.TensorArray(tf.float32, 3)
        for k in tf.range(3):
            ta = ta.write(k, r[k] * 2)
        return ta.stack()

    def plain_array(r):
        ta = tf.TensorArray(tf.float32, 2)
        return ta.write(0, r).write(1, r * 2).stack()

    @tf.function
    def total(r):
        found = 0.0
        for value in r:
            found += value * value
        return found

    @tf.function
    def first_positive(r):
        found = -1.0
        for k in tf.range(3):
            if r[k] > 0:
                found = r[k]
                break
        return found

    @tf.function
    def inner(r):
        return tf.reduce_sum(r) * 2

    @tf.custom_gradient
    def custom(r):
        return r * 2, lambda ct: ct * 5

    return {
        "cond by the row": (lambda r: tf.cond(r[0] > 0, lambda: r * 2, lambda: -r), x),
        "cond by another": (lambda r: tf.cond(tf.constant(True), lambda: r * 2, lambda: -r), x),
        "cond without rows": (lambda r: tf.cond(tf.reduce_sum(r) > 0, lambda: 1.0, lambda: 2.0), x),
        "if": (chosen, x),
        "case": (lambda r: tf.case([(r[0] > 1, lambda: r), (r[0] > 0, lambda: r + 1)], default=lambda: r - 1), x),
        "switch": (lambda k: tf.switch_case(k % 3, [lambda: 1, lambda: 2, lambda: 3]), n),
        "while to the row's end": (counted, n),
        "while all alike": (together, x),
        "while": (halves, x),
        "for": (total, x),
        "for with break": (first_positive, x),
        "array in a loop": (array, x),
        "array": (plain_array, x),
        "function": (inner, x),
        "custom gradient": (lambda r: (custom(r), _slope(tf, custom, r)), x),
        "gradient of cond": (lambda r: _slope(tf, lambda y: tf.cond(y[0] > 0, lambda: y * y, lambda: y), r), x),
        "gradient of while": (
            lambda r: _slope(
                tf, lambda y: tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * y), (0, y))[1], r
            ),
            x,
        ),
        "recompute": (lambda r: tf.recompute_grad(lambda y: y * y)(r), x),
        "assertion": (lambda r: _asserted(tf, r), x),
        "print": (lambda r: (tf.print(r[0], output_stream="file:///dev/null"), r)[1], x),
    }


def _asserted(tf, r):
    with tf.control_dependencies([tf.debugging.assert_less(r, 5.0)]):
        return tf.identity(r)


def _state(tf):
    x = tf.constant([[0.3, -0.6], [-0.1, 0.4]])
    keys = tf.constant([1, 2], tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys * 10), -1)
    weights = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    bias = tf.Variable(1.0)
    total = tf.Variable(0.0)

    def loss_slopes(r):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.linalg.matvec(weights, r) ** 2) + bias
        return tape.gradient(y, [weights, bias])

    def rows_slope(i):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.gather(weights, i) ** 2)
        return tf.convert_to_tensor(tape.gradient(y, weights))

    return {
        "read": (lambda r: r * bias + weights[0], x),
        "gradients of weights": (loss_slopes, x),
        "gradient of looked up rows": (rows_slope, tf.constant([[0, 1], [1, 1]])),
        "an assignment": (lambda r: (total.assign_add(r), total + 0.0)[1] * 0 + r, tf.constant([1.0, 2.0])),
        "table": (table.lookup, tf.constant([[1, 2], [3, 1]], tf.int64)),
    }


def _composites(tf):
    sparse = tf.sparse.from_dense([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    return {
        "sparse product": (lambda r: tf.sparse.sparse_dense_matmul(sparse, r), tf.reshape(tf.range(12.0), [2, 3, 2])),
        "sparse made": (
            lambda r: tf.sparse.to_dense(tf.SparseTensor([[0], [2]], r, [4])),
            tf.constant([[1.0, 2.0], [3.0, 4.0]]),
        ),
        "rows of a ragged one": (lambda r: tf.ones([2]) * tf.cast(r[0], tf.float32), tf.constant([[1], [2]])),
        "slices": (
            lambda r: tf.convert_to_tensor(tf.IndexedSlices(r, tf.constant([0, 2]), tf.constant([4]))),
            tf.constant([[1.0, 2.0], [3.0, 4.0]]),
        ),
    }


def _texts(tf):
    texts = tf.constant([["a b", "c"], ["dé", "e f g"]])
    numbers = tf.constant([["1", "2.5"], ["-3", "0"]])
    s = tf.strings
    return {
        "lower": (lambda r: (s.lower(r), s.upper(r), s.strip(r)), texts),
        "length": (lambda r: s.length(r, "UTF8_CHAR"), texts),
        "join": (lambda r: s.join([r, r], "-"), texts),
        "join of shared": (lambda r: s.join(["x", r]), texts),
        "joined": (lambda r: s.reduce_join(r), texts),
        "number": (s.to_number, numbers),
        "of numbers": (s.as_string, tf.constant([[1, 2], [3, 4]])),
        "part": (lambda r: s.substr(r, 0, 1), texts),
        "replaced": (lambda r: s.regex_replace(r, "[a-c]", "!"), texts),
        "matched": (lambda r: s.regex_full_match(r, "[a-c ]*"), texts),
        "hashed": (lambda r: s.to_hash_bucket_fast(r, 10), texts),
        "raw": (lambda r: tf.io.decode_raw(r, tf.uint8), tf.constant([["ab"], ["cd"]])),
        "base64": (tf.io.encode_base64, texts),
        "columns": (lambda r: tf.io.decode_csv(r, [0, 0.0]), tf.constant([["1,2.5"], ["3,4"]])),
        "compared": (lambda r: r == "c", texts),
    }


def _rejected(tf):
    x = tf.ones([2, 3])
    return {
        "python": lambda: tf.vectorized_map(
            lambda r: tf.numpy_function(lambda a: a * 2, [r], tf.float32), x, warn=False
        ),
        "nothing returned": lambda: tf.vectorized_map(lambda r: None, x),
        "numbers returned": lambda: tf.vectorized_map(lambda r: 1.0, x),
    }


def _jacobians(tf):
    x = tf.constant([0.3, -0.6, 0.9])
    m = tf.constant([[0.3, -0.6, 0.9], [-0.1, 0.4, -0.2]])

    def loop(r):
        return tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * tf.sin(r)), (0, r))[1]

    @tf.function
    def branches(r):
        return r * r if r[0] > 0 else r

    @tf.function
    def reads(r):
        found = tf.zeros([2])
        for k in tf.range(3):
            found = found * r[k] + tf.stack([r[k], 1.0])
        return found

    def array(r):
        ta = tf.TensorArray(tf.float32, 2)
        return ta.write(0, r * r).write(1, tf.sin(r)).stack()

    functions = {
        "product": lambda r: r[:, None] * r,
        "loop": loop,
        "branches": branches,
        "reads in a loop": reads,
        "array": array,
        "function": tf.function(lambda r: tf.cumsum(r) * r),
        "scan": lambda r: tf.scan(lambda a, e: a * e, r),
        "map": lambda r: tf.map_fn(lambda e: e * e, r),
        "segments": lambda r: tf.math.unsorted_segment_sum(r * r, [0, 1, 0], 2),
        "segment products": lambda r: tf.math.unsorted_segment_prod(r * r, [0, 1, 0], 2),
        "updates": lambda r: tf.tensor_scatter_nd_update(r, [[1]], [r[0] * r[2]]),
        "top": lambda r: tf.math.top_k(r * r, 2)[0],
        "sparse": lambda r: tf.sparse.sparse_dense_matmul(tf.sparse.eye(3), tf.reshape(r * r, [3, 1])),
        "stitch": lambda r: tf.dynamic_stitch([[0, 2], [1]], [r[:2] ** 2, r[2:]]),
        "custom": tf.custom_gradient(lambda r: (r * 2, lambda ct: ct * 3)),
        "recompute": tf.recompute_grad(lambda r: r * r),
        "solve": lambda r: tf.linalg.solve([[2.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 1.0]], (r * r)[:, None])[:, 0],
    }  # fmt: skip

    def jacobian(f, **options):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = f(x)
        return _shown(tf, tape.jacobian(y, x, **options))

    def batch_jacobian(f):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(m)
            y = tf.square(m) if f is None else tf.stack([f(m[0]), f(m[1])])
        return _shown(tf, tape.batch_jacobian(y, m))

    found = {}
    for label, f in functions.items():
        found[f"jacobian of {label}"] = lambda f=f: jacobian(f)
        found[f"jacobian of {label}, traced"] = lambda f=f: _shown(tf, tf.function(lambda r: _jacobian(tf, f, r))(x))
        found[f"jacobian of {label} without pfor"] = lambda f=f: jacobian(f, experimental_use_pfor=False)
        found[f"batch jacobian of {label}"] = lambda f=f: batch_jacobian(f)
    return found
