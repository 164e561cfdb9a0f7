"""Names of TensorFlow 1 for functions that TensorFlow 2 has under others."""

from __future__ import annotations

MOVED = {
    "debugging": "assert_proper_iterable assert_same_float_dtype check_numerics is_numeric_tensor",
    "errors": "OpError",
    "image": "random_crop",
    "io": (
        "FixedLenFeature FixedLenSequenceFeature SparseFeature VarLenFeature decode_base64 decode_compressed"
        " decode_json_example deserialize_many_sparse encode_base64 matching_files parse_single_sequence_example"
        " parse_tensor read_file serialize_tensor write_file"
    ),
    "linalg": "cholesky cholesky_solve cross global_norm matrix_transpose qr svd trace",
    "math": (
        "accumulate_n angle betainc ceil conj cumprod digamma erf erfc expm1 igamma igammac imag invert_permutation"
        " is_finite is_inf is_nan is_non_decreasing is_strictly_increasing lbeta lgamma log1p log_sigmoid logical_xor"
        " polygamma real reciprocal rint rsqrt segment_max segment_mean segment_min segment_prod segment_sum"
        " squared_difference unsorted_segment_max unsorted_segment_mean unsorted_segment_min unsorted_segment_prod"
        " unsorted_segment_sqrt_n unsorted_segment_sum zeta"
    ),
    "quantization": (
        "fake_quant_with_min_max_args fake_quant_with_min_max_args_gradient fake_quant_with_min_max_vars"
        " fake_quant_with_min_max_vars_gradient fake_quant_with_min_max_vars_per_channel"
        " fake_quant_with_min_max_vars_per_channel_gradient"
    ),
    "queue": "FIFOQueue PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue",
    "random": "truncated_normal",
    "signal": "fft fft2d fft3d ifft ifft2d ifft3d",
    "strings": "regex_replace",
    "version": "VERSION",
}
"""By namespace of TensorFlow 2: the names in it that TensorFlow 1 has at the top level."""

PREFIXED = {
    "matrix": "band_part diag diag_part set_diag solve triangular_solve",
    "random": "gamma normal shuffle uniform",
    "sparse": (
        "fill_empty_rows mask maximum minimum reorder reset_shape reshape retain slice softmax to_indicator transpose"
    ),
    "string": "strip to_hash_bucket_fast to_hash_bucket_strong",
}
"""By prefix: top-level names of TensorFlow 1 that begin with the namespace's (former) name: ``sparse_mask`` is ``sparse.mask``."""

SPACES = {"matrix": "linalg", "string": "strings"}

SAME = {
    "debugging": ("math", "is_finite is_inf is_nan is_non_decreasing is_strictly_increasing"),
    "io": ("queue", "PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue"),
    "manip": ("", "gather_nd reshape reverse roll scatter_nd space_to_batch_nd tile"),
}
"""By namespace of TensorFlow 1: the namespace of TensorFlow 2 that has these of its names."""

PATHS = {
    **{
        f"{space}.{name}": f"{there}.{name}".lstrip(".")
        for space, (there, names) in SAME.items()
        for name in names.split()
    },
    "linalg.transpose": "linalg.matrix_transpose",
    **{name: f"{space}.{name}" for space, names in MOVED.items() for name in names.split()},
    **{
        f"{prefix}_{name}": f"{SPACES.get(prefix, prefix)}.{name}"
        for prefix, names in PREFIXED.items()
        for name in names.split()
    },
    "NoGradient": "no_gradient",
    "NotDifferentiable": "no_gradient",
    "diag": "linalg.tensor_diag",
    "diag_part": "linalg.tensor_diag_part",
    "div_no_nan": "math.divide_no_nan",
    "matrix_determinant": "linalg.det",
    "matrix_inverse": "linalg.inv",
    "matrix_solve_ls": "linalg.lstsq",
    "reverse_v2": "reverse",
    "self_adjoint_eig": "linalg.eigh",
    "self_adjoint_eigvals": "linalg.eigvalsh",
    "set_random_seed": "random.set_seed",
    "sparse_tensor_dense_matmul": "sparse.sparse_dense_matmul",
    "sparse_tensor_to_dense": "sparse.to_dense",
    "spectral": "signal",
    "tensor_scatter_add": "tensor_scatter_nd_add",
    "tensor_scatter_sub": "tensor_scatter_nd_sub",
    "tensor_scatter_update": "tensor_scatter_nd_update",
}
"""By path below ``tf.compat.v1``: the path of the same function below ``tf``."""
