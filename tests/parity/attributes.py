"""Arguments that are attributes of TensorFlow's ops: their errors, eagerly and while traced, and the meaning of None."""

import numpy as np


def programs(tf):
    flags = _math(tf) | _linalg(tf) | _images(tf) | _texts(tf) | _sparse(tf)
    kinds = (
        (flags, (1.5, None, np.True_)),
        (_numbers(tf), ("x", [1], None)),
        (_words(tf), (1.5, [1], None)),
        (_dtypes(tf), ("x", [1], True, np.complex64(1.5))),
        (_formats(tf), ("x", [1], np.zeros(1, np.float32))),
    )
    return {
        f"{name}: {argument}={value!r}": _outcome(tf, call, argument, value)
        for calls, values in kinds
        for name, (call, arguments) in calls.items()
        for argument in arguments.split()
        for value in values
    }


def _outcome(tf, call, argument, value):
    def run():
        return call(**{argument: value})

    def message():
        usual = _message(tf, call)
        outcomes = [_message(tf, run), _message(tf, tf.function(run, autograph=False))]
        return ["as by default" if each == usual else each for each in outcomes]

    return message


def _message(tf, call):
    try:
        return str([np.asarray(part).round(3).tolist() for part in tf.nest.flatten(call(), expand_composites=True)])
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0].partition(" [Op:")[0]


def _numbers(tf):
    x, image = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.zeros([1, 1, 3], tf.uint8)
    png, jpeg = tf.image.encode_png(image), tf.image.encode_jpeg(image)
    wav = tf.audio.encode_wav([[0.5]], 8)
    return {
        "approx_max_k": (
            lambda **k: tf.math.approx_max_k(x, **({"k": 1} | k)),
            "k reduction_dimension recall_target reduction_input_size_override",
        ),
        "as_string": (lambda **k: tf.strings.as_string(x, **k), "precision width"),
        "decode_wav": (lambda **k: tf.audio.decode_wav(wav, **k), "desired_channels desired_samples"),
        "decode_png": (lambda **k: tf.image.decode_png(png, **k), "channels"),
        "decode_image": (lambda **k: tf.image.decode_image(png, **k), "channels"),
        "decode_jpeg": (lambda **k: tf.image.decode_jpeg(jpeg, **k), "channels ratio acceptable_fraction"),
        "encode_png": (lambda **k: tf.image.decode_png(tf.image.encode_png(image, **k)), "compression"),
        "encode_jpeg": (
            lambda **k: tf.image.decode_jpeg(tf.image.encode_jpeg(image, **k)),
            "quality x_density y_density",
        ),
        "crop_and_resize": (
            lambda **k: tf.image.crop_and_resize(x[None, ..., None], [[0.0, 0.0, 1.0, 1.0]], [0], [1, 1], **k),
            "extrapolation_value",
        ),
        "dynamic_partition": (
            lambda **k: tf.dynamic_partition(x, [0, 1], **({"num_partitions": 2} | k)),
            "num_partitions",
        ),
        "fake_quant": (lambda **k: tf.quantization.fake_quant_with_min_max_args(x, **k), "min max num_bits"),
        "lrn": (lambda **k: tf.nn.lrn(x[None, ..., None], **k), "depth_radius bias alpha beta"),
        "strided_slice": (
            lambda **k: tf.strided_slice(x, [0, 0], [1, 1], **k),
            "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask",
        ),
        "one_hot": (lambda **k: tf.one_hot([0], 2, **k), "axis"),
        "unstack": (lambda **k: tf.unstack(x, **k), "num"),
        "strings.format": (lambda **k: tf.strings.format("{}", tf.range(7), **k), "summarize"),
        "strings.split": (lambda **k: tf.strings.split("a b c", **k), "maxsplit"),
        "unicode_decode": (lambda **k: tf.strings.unicode_decode("ab", "UTF-8", **k), "replacement_char"),
    }


def _words(tf):
    x, image = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.zeros([1, 1, 3], tf.uint8)
    jpeg, text, strings = tf.image.encode_jpeg(image), tf.constant(["ab", "c"]), tf.strings
    return {
        "as_string": (lambda **k: strings.as_string(x, **k), "fill"),
        "decode_jpeg": (lambda **k: tf.image.decode_jpeg(jpeg, **k), "dct_method"),
        "encode_jpeg": (
            lambda **k: tf.image.decode_jpeg(tf.image.encode_jpeg(image, **k)),
            "format density_unit xmp_metadata",
        ),
        "extract_glimpse": (
            lambda **k: tf.image.extract_glimpse(x[None, ..., None], [1, 1], [[0.0, 0.0]], **k),
            "noise",
        ),
        "crop_and_resize": (
            lambda **k: tf.image.crop_and_resize(x[None, ..., None], [[0.0, 0.0, 1.0, 1.0]], [0], [1, 1], **k),
            "method",
        ),
        "depth_to_space": (lambda **k: tf.nn.depth_to_space(tf.ones([1, 1, 1, 4]), 2, **k), "data_format"),
        "space_to_depth": (lambda **k: tf.nn.space_to_depth(tf.ones([1, 2, 2, 1]), 2, **k), "data_format"),
        "quantize_and_dequantize_v2": (
            lambda **k: tf.quantization.quantize_and_dequantize_v2(x, 0.0, 1.0, **k),
            "round_mode",
        ),
        "unicode_decode": (lambda **k: strings.unicode_decode(text, "UTF-8", **k), "errors"),
        "unicode_encode": (
            lambda **k: strings.unicode_encode([97, 98], **({"output_encoding": "UTF-8"} | k)),
            "output_encoding errors",
        ),
        "ngrams": (lambda **k: strings.ngrams(text, 2, **k), "separator"),
        "strings.lower": (lambda **k: strings.lower(text, **k), "encoding"),
        "unsorted_segment_join": (lambda **k: strings.unsorted_segment_join(text, [0, 0], 1, **k), "separator"),
        "max_pool_with_argmax": (
            lambda **k: tf.nn.max_pool_with_argmax(x[None, ..., None], 2, 1, **({"padding": "VALID"} | k)),
            "padding",
        ),
        "decode_compressed": (lambda **k: tf.io.decode_compressed(["ab"], **k), "compression_type"),
        "decode_csv": (lambda **k: tf.io.decode_csv(["1,2"], [[0], [0]], **k), "field_delim na_value"),
        "linalg.diag": (lambda **k: tf.linalg.diag(x, k=(0, 1), **k), "align"),
        "linalg.diag_part": (lambda **k: tf.linalg.diag_part(x, k=(0, 1), **k), "align"),
        "linalg.set_diag": (lambda **k: tf.linalg.set_diag(x, x, k=(0, 1), **k), "align"),
        "strings.join": (lambda **k: strings.join(["a", text], **k), "separator"),
        "strings.length": (lambda **k: strings.length(text, **k), "unit"),
        "strings.substr": (lambda **k: strings.substr(text, 0, 1, **k), "unit"),
        "reduce_join": (lambda **k: strings.reduce_join(text, **k), "separator"),
    }


def _dtypes(tf):
    x, image = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.zeros([1, 1, 3], tf.uint8)
    png, jpeg = tf.image.encode_png(image), tf.image.encode_jpeg(image)
    return {
        "argmax": (lambda **k: tf.argmax(x, **k), "output_type"),
        "argmin": (lambda **k: tf.argmin(x, **k), "output_type"),
        "top_k": (lambda **k: tf.math.top_k(x, **k), "index_type"),
        "lu": (lambda **k: tf.linalg.lu(x, **k), "output_idx_type"),
        "unique": (lambda **k: tf.unique([1, 1], **k), "out_idx"),
        "unique_with_counts": (lambda **k: tf.unique_with_counts([1, 1], **k), "out_idx"),
        "sobol_sample": (lambda **k: tf.math.sobol_sample(1, 1, **k), "dtype"),
        "histogram_fixed_width": (lambda **k: tf.histogram_fixed_width(x, [0.0, 5.0], 2, **k), "dtype"),
        "decode_png": (lambda **k: tf.image.decode_png(png, **k), "dtype"),
        "extract_jpeg_shape": (lambda **k: tf.image.extract_jpeg_shape(jpeg, **k), "output_type"),
        "searchsorted": (lambda **k: tf.searchsorted([1.0, 2.0], [1.5], **k), "out_type"),
        "max_pool_with_argmax": (
            lambda **k: tf.nn.max_pool_with_argmax(x[None, ..., None], 2, 1, "VALID", **k),
            "output_dtype",
        ),
        "stateless_poisson": (lambda **k: tf.random.stateless_poisson([1], [1, 2], 0.0, **k), "dtype"),
        "to_number": (lambda **k: tf.strings.to_number(["1"], **k), "out_type"),
        "bitcast": (lambda **k: tf.bitcast(x, **({"type": tf.int32} | k)), "type"),
    }


def _formats(tf):
    x = tf.constant([1.0, 2.0])
    return {
        "decode_raw": (lambda **k: tf.io.decode_raw("abcd", **({"out_type": tf.int32} | k)), "out_type"),
        "parse_tensor": (
            lambda **k: tf.io.parse_tensor(tf.io.serialize_tensor(x), **({"out_type": tf.float32} | k)),
            "out_type",
        ),
    }


def _math(tf):
    x, segments = tf.constant([[1.0, 2.0], [3.0, 4.0]]), ([0, 1], [0, 0])
    batch = tf.reshape(tf.range(1.0, 5.0), [1, 2, 2])
    turned = "transpose_a transpose_b adjoint_a adjoint_b"
    return {
        "cumsum": (lambda **k: tf.cumsum(x, **k), "exclusive reverse"),
        "cumprod": (lambda **k: tf.math.cumprod(x, **k), "exclusive reverse"),
        "cumulative_logsumexp": (lambda **k: tf.math.cumulative_logsumexp(x, **k), "exclusive reverse"),
        "bincount": (lambda **k: tf.math.bincount([1, 1, 2], **k), "binary_output"),
        "top_k": (lambda **k: tf.math.top_k(x, **k), "sorted"),
        "approx_max_k": (lambda **k: tf.math.approx_max_k(x, 1, **k), "aggregate_to_topk"),
        "matmul": (lambda **k: tf.matmul(x, x, **k), f"{turned} grad_a grad_b"),
        "matmul of batches": (lambda **k: tf.matmul(batch, batch, **k), turned),
        "matmul of a batch": (lambda **k: tf.matmul(x, batch, **k), turned),
        "matvec": (lambda **k: tf.linalg.matvec(x, [1.0, 2.0], **k), "transpose_a adjoint_a"),
        "fake_quant": (lambda **k: tf.quantization.fake_quant_with_min_max_args(x, **k), "narrow_range"),
        "max_pool_with_argmax": (
            lambda **k: tf.nn.max_pool_with_argmax(x[None, ..., None], 2, 1, "VALID", **k),
            "include_batch_in_index",
        ),
        "segment_sum": (lambda **k: tf.sparse.segment_sum(x, *segments, **k), "sparse_gradient"),
    }


def _linalg(tf):
    x, linalg = tf.constant([[2.0, 1.0], [1.0, 3.0]]), tf.linalg
    return {
        "inv": (lambda **k: linalg.inv(x, **k), "adjoint"),
        "solve": (lambda **k: linalg.solve(x, x, **k), "adjoint"),
        "triangular_solve": (lambda **k: linalg.triangular_solve(x, x, **k), "lower adjoint"),
        "banded_triangular_solve": (lambda **k: linalg.banded_triangular_solve(x, x, **k), "lower adjoint"),
        "qr": (lambda **k: [tf.abs(y) for y in linalg.qr(x, **k)], "full_matrices"),
        "svd": (lambda **k: [tf.abs(y) for y in tf.nest.flatten(linalg.svd(x, **k))], "full_matrices compute_uv"),
        "tridiagonal_solve": (
            lambda **k: linalg.tridiagonal_solve(tf.ones([3, 2]) + x[0], tf.ones([2]), **k),
            "partial_pivoting perturb_singular",
        ),
    }


def _images(tf):
    image, boxes = tf.reshape(tf.range(32.0), [1, 4, 4, 2]), tf.constant([[[[0.0, 0.0, 1.0, 2.0]]]])
    small = tf.image.encode_png(tf.zeros([1, 1, 3], tf.uint8))
    jpeg = tf.image.encode_jpeg(tf.zeros([1, 1, 3], tf.uint8))
    return {
        "extract_glimpse": (
            lambda **k: tf.image.extract_glimpse(image, [2, 2], [[0.5, 0.0]], **k),
            "centered normalized",
        ),
        "resize": (lambda **k: tf.image.resize(image, [2, 2], **k), "antialias"),
        "resize_with_pad": (lambda **k: tf.image.resize_with_pad(image, 2, 2, **k), "antialias"),
        "resize nearest": (lambda **k: tf.image.resize(image, [2, 2], "nearest", **k), "antialias"),
        "resize lanczos3": (lambda **k: tf.image.resize(image, [2, 2], "lanczos3", **k), "antialias"),
        "combined_non_max_suppression": (
            lambda **k: tf.image.combined_non_max_suppression(boxes, [[[0.5]]], 1, 2, **k),
            "pad_per_class clip_boxes",
        ),
        "decode_image": (lambda **k: tf.io.decode_image(small, **k), "expand_animations"),
        "decode_jpeg": (lambda **k: tf.io.decode_jpeg(jpeg, **k), "fancy_upscaling try_recover_truncated"),
        "encode_jpeg": (
            lambda **k: tf.io.decode_jpeg(tf.io.encode_jpeg(tf.zeros([1, 1, 3], tf.uint8), **k)),
            "progressive optimize_size chroma_downsampling",
        ),
        "fractional_max_pool": (
            lambda **k: tf.shape(tf.nn.fractional_max_pool(image, [1.0, 2.0, 2.0, 1.0], seed=1, **k)[0]),
            "pseudo_random overlapping",
        ),
    }


def _texts(tf):
    text, strings = tf.constant(["ab", "c"]), tf.strings
    return {
        "as_string": (lambda **k: strings.as_string([1.5, 2.0], **k), "scientific shortest"),
        "reduce_join": (lambda **k: strings.reduce_join(text, **k), "keepdims"),
        "regex_replace": (lambda **k: strings.regex_replace(text, "a|b", "x", **k), "replace_global"),
        "ngrams": (lambda **k: strings.ngrams(text, 3, **k), "preserve_short_sequences"),
        "unicode_decode": (lambda **k: strings.unicode_decode(text, "UTF-8", **k), "replace_control_characters"),
        "unicode_transcode": (
            lambda **k: strings.unicode_transcode(text, "UTF-8", "UTF-16-BE", **k),
            "replace_control_characters",
        ),
        "decode_raw": (lambda **k: tf.io.decode_raw([b"ab"], tf.int16, **k), "little_endian"),
        "decode_csv": (lambda **k: tf.io.decode_csv(["1,'2'"], [[0], [""]], **k), "use_quote_delim"),
        "encode_base64": (lambda **k: tf.io.encode_base64(text, **k), "pad"),
    }


def _sparse(tf):
    sp, sets = tf.sparse.from_dense([[1, 0, 2], [0, 3, 0]]), ([[1, 2]], [[2, 3]])
    words = [tf.sparse.from_dense([[each, "b"]]) for each in ("a", "c")]
    return {
        "edit_distance": (lambda **k: tf.edit_distance(*words, **k), "normalize"),
        "sets.union": (lambda **k: tf.sets.union(*sets, **k), "validate_indices"),
        "sets.difference": (lambda **k: tf.sets.difference(*sets, **k), "validate_indices"),
        "sets.size": (lambda **k: tf.sets.size(sp, **k), "validate_indices"),
        "sparse.to_dense": (lambda **k: tf.sparse.to_dense(sp, **k), "validate_indices"),
        "sparse.reduce_sum": (lambda **k: tf.sparse.reduce_sum(sp, 1, **k), "keepdims"),
        "sparse.reduce_max": (lambda **k: tf.sparse.reduce_max(sp, 1, **k), "keepdims"),
        "sparse.bincount": (lambda **k: tf.sparse.bincount([1, 1], **k), "binary_output"),
        "sparse_dense_matmul": (
            lambda **k: tf.sparse.sparse_dense_matmul(tf.sparse.from_dense([[1.0]]), [[2.0]], **k),
            "adjoint_a adjoint_b",
        ),
        "ctc_greedy_decoder": (
            lambda **k: tf.nn.ctc_greedy_decoder(tf.one_hot([[1], [1], [2]], 3), [3], **k),
            "merge_repeated",
        ),
    }
