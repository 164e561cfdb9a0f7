"""How ops convert their arguments: inputs of one dtype, sizes given as scalars, attributes; eagerly and while traced."""

import numpy as np
from parity.rejected import rejected


def programs(tf):
    calls = _images(tf) | _attributes(tf) | _sizes(tf) | _operands(tf) | _structures(tf)
    return (
        {label: rejected(tf, call) for label, call in calls.items()}
        | _eager(tf)
        | _of_unknown_sizes(tf)
        | _gathered(tf)
        | _ranges(tf)
        | _sizes_of_floats(tf)
        | _dates(tf)
    )


def _images(tf):
    image, boxes = tf.ones([1, 2, 2, 3]), tf.constant([[0.0, 0.0, 1.0, 1.0]])
    scores, count = tf.constant([0.5]), tf.constant(1)
    draw, crop, image_ops = tf.image.draw_bounding_boxes, tf.image.crop_and_resize, tf.image
    return {
        "boxes of halves": lambda: draw(image, tf.ones([1, 1, 4], tf.float16), None),
        "boxes of another batch": lambda: draw(image, tf.ones([2, 1, 4]), None),
        "colours without channels": lambda: draw(image, tf.ones([1, 1, 4]), tf.ones([1, 1])),
        "a JPEG of floats": lambda: image_ops.encode_jpeg(image[0]),
        "sound of doubles": lambda: tf.audio.encode_wav(tf.ones([2, 1], tf.float64), 8),
        "partitions of floats": lambda: tf.dynamic_partition(scores, tf.constant([0.0]), 2),
        "a glimpse of doubles": lambda: image_ops.extract_glimpse(
            tf.ones([1, 2, 2, 1], tf.float64), tf.constant([1, 1]), tf.zeros([1, 2])
        ),
        "a glimpse at doubles": lambda: image_ops.extract_glimpse(
            image, tf.constant([1, 1]), tf.zeros([1, 2], tf.float64)
        ),
        "limits of doubles": lambda: tf.quantization.fake_quant_with_min_max_vars_per_channel(
            scores, tf.constant([0.0], tf.float64), scores
        ),
        "indices of floats": lambda: crop(image, boxes, [0.5], [1, 1]),
        "indices of long ints": lambda: crop(image, boxes, tf.constant([0], tf.int64), [1, 1]),
        "another method": lambda: crop(image, boxes, [0], [1, 1], method="area"),
        "count of floats": lambda: image_ops.non_max_suppression(boxes, scores, 0.5),
        "count below": lambda: image_ops.non_max_suppression(boxes, scores, -1),
        "threshold of an int": lambda: image_ops.non_max_suppression_with_scores(boxes, scores, count, 0),
        "quality of floats": lambda: image_ops.adjust_jpeg_quality(tf.ones([2, 2, 3]), 1.5),
        "hue of a row": lambda: image_ops.adjust_hue(tf.ones([2, 3]), 0.5),
        "saturation of a vector": lambda: image_ops.adjust_saturation(image, [0.5, 0.5]),
        "flipped without channels": lambda: image_ops.random_flip_up_down(tf.ones([2, 2, 0])),
        "grey of three channels": lambda: image_ops.grayscale_to_rgb(image),
        "luma of ints": lambda: image_ops.rgb_to_yuv(tf.ones([1, 1, 3], tf.int32)),
    }


def _attributes(tf):
    quantize, fake = tf.quantization.quantize_and_dequantize_v2, tf.quantization.fake_quant_with_min_max_args
    floats, frames = tf.constant([1.0, 2.0]), tf.ones([3, 1, 3])
    return {
        "range given by a number": lambda: quantize(floats, 0.0, 1.0, range_given=1),
        "limits of ints": lambda: quantize(floats, -1.0, tf.constant(2)),
        "reversed along a float": lambda: tf.reverse(floats, [1.0]),
        "unravelled floats": lambda: tf.unravel_index(0.5, [2, 3]),
        "counted floats": lambda: tf.sparse.bincount(floats),
        "numbers of flags": lambda: tf.random.stateless_normal(np.array([True, False]), [1, 2]),
        "shapes of no list": lambda: tf.shape_n(floats),
        "the same of no list": lambda: tf.identity_n(floats),
        "bits of nothing": lambda: quantize(floats, 0.0, 1.0, num_bits=0),
        "range the wrong way": lambda: quantize(floats, 2.0, 1.0, range_given=True),
        "limit in a tensor": lambda: fake(floats, tf.constant(0.0), 1.0),
        "bits in text": lambda: fake(floats, 0.0, 1.0, num_bits="2"),
        "beams of text": lambda: tf.nn.ctc_beam_search_decoder(frames, [1], beam_width="4"),
        "lengths of complex numbers": lambda: tf.nn.ctc_greedy_decoder(frames, [1j]),
        "a blank beyond": lambda: tf.nn.ctc_greedy_decoder(frames, [1], blank_index=3),
        "classes of floats": lambda: tf.random.uniform_candidate_sampler([[0.5]], 1, 1, True, 3),
        "no range": lambda: tf.random.uniform_candidate_sampler([[0]], 1, 1, True, -1),
        "unique as text": lambda: tf.random.all_candidate_sampler([[0]], 1, 1, "True"),
        "lower as text": lambda: tf.linalg.triangular_solve([[1.0]], [[1.0]], lower="True"),
        "patches of floats": lambda: (
            tf.image.extract_patches(
                tf.reshape(tf.range(16.0), [1, 4, 4, 1]), [1, 2.7, 2.0, 1], [1, 1.0, 1, 1], [1] * 4, "VALID"
            ).shape
        ),
        "stacked along a float": lambda: tf.stack([floats, floats], axis=1.0),
        "blocks of floats": lambda: tf.nn.space_to_depth(tf.ones([1, 2, 2, 1]), 2.0).shape,
        "sequence in a list": lambda: tf.reverse_sequence([[1, 2]], [1], seq_axis=[1], batch_axis=0),
    }


def _of_unknown_sizes(tf):
    """Refused while tracing, whatever the sizes are."""
    image, matrix = np.ones([1, 4, 4, 1], np.float32), np.ones([2, 2])
    calls = {
        "repeated by nothing": (lambda x: tf.repeat(x, [None]), [matrix]),
        "reshaped by floats": (lambda shape: tf.reshape(np.ones(4), shape), [matrix[0]]),
        "tiled by floats": (lambda x, multiples: tf.tile(x, multiples), [matrix, matrix[0]]),
        "zeros of bools": (tf.zeros, [np.array([True, True])]),
        "segments of floats": (lambda n: tf.math.unsorted_segment_sum([1.0], [0], n), [np.float64(2)]),
        "a dynamic shape of floats": (lambda shape: tf.broadcast_dynamic_shape(shape, [2, 2]), [matrix[0]]),
        "filters of doubles": (lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), [image, np.ones([1, 1, 1, 1])]),
        "one filter of doubles": (lambda x, w: tf.nn.conv1d(x, w, 1, "SAME"), [image[0], np.ones([1, 1, 1])]),
        "depthwise filters of doubles": (
            lambda x, w: tf.nn.depthwise_conv2d(x, w, [1] * 4, "SAME"),
            [image, np.ones([1, 1, 1, 1])],
        ),
        "bands of doubles": (tf.linalg.banded_triangular_solve, [np.ones([1, 2], np.float32), matrix]),
        "places as floats": (
            lambda x: tf.nn.max_pool_with_argmax(x, 2, 1, "SAME", output_dtype=tf.float32)[0],
            [image],
        ),
    }
    return {
        f"{label}, {what}": _while_traced(tf, call, [tf.TensorSpec(shape(x), x.dtype) for x in given])
        for label, (call, given) in calls.items()
        for what, shape in (("sizes unknown", lambda x: [None] * x.ndim), ("rank unknown", lambda x: None))
    }


def _while_traced(tf, call, specs):
    def message():
        try:
            return f"gives {tf.function(call, autograph=False).get_concrete_function(*specs).structured_outputs}"
        except Exception as error:
            return type(error).__name__

    return message


def _gathered(tf):
    table = tf.reshape(tf.range(24), [2, 3, 4])

    def taken(indices, **places):
        return lambda: [
            run(tf.constant(indices)).numpy().tolist()
            for run in (lambda i: tf.gather(table, i, **places), tf.function(lambda i: tf.gather(table, i, **places)))
        ]

    squares = [[0, 1], [1, 0]]
    return {
        "last dims of both": taken(squares, batch_dims=-1),
        "last dims of both, counted": taken(squares, batch_dims=-1, axis=-1),
        "no dims, counted from the end": taken(squares, batch_dims=-2),
        "a row of indices": taken([1, 0], batch_dims=-1),
        "too many dims": lambda: tf.gather(table, [1, 0], batch_dims=-2),
        "axis before the dims": lambda: tf.gather(table, [[[0]]], batch_dims=2, axis=1),
    }


def _sizes_of_floats(tf):
    x, rows = tf.constant(2.0), tf.ones([3, 1])
    calls = {
        "tiled": lambda: tf.tile(rows, [x, 1]),
        "tiled by floats": lambda: tf.tile(rows, [2.0, 1]),
        "tiled by a scalar": lambda: tf.tile(rows, x),
        "reshaped": lambda: tf.reshape(rows, [x / 2.0, 3]),
        "zeros": lambda: tf.zeros([x, 3]),
        "filled": lambda: tf.fill([x, 3], 1),
        "broadcast": lambda: tf.broadcast_to(rows, [x, 3, 1]),
        "packed as ints": lambda: tf.convert_to_tensor([x, 1], tf.int32),
        "packed ints as floats": lambda: tf.convert_to_tensor([tf.constant(2), 1.5], tf.float32),
        "one_hot of nothing": lambda: tf.one_hot([], 3),
    }
    return {f"{label} by tensors of floats": rejected(tf, call) for label, call in calls.items()}


def _ranges(tf):
    limit = tf.constant(1.05, tf.float64)
    return {
        "range of floats to a double": lambda: tf.range(0.1, limit, 0.1).numpy().tolist(),
        "range of doubles": lambda: tf.range(0.1, 1.05, 0.1, dtype=tf.float64).numpy().tolist(),
        "range from an int": lambda: tf.range(tf.constant(1), limit * 2.0, 0.3).numpy().tolist(),
        "range of NumPy's doubles": lambda: tf.range(np.float64(0.1), 1.0, 0.3).numpy().tolist(),
        "range of halves": lambda: tf.range(0.1, 1.8, 0.1, dtype=tf.float16).numpy().tolist(),
        "range of floats as ints": lambda: tf.range(0.0, 1.0, 0.1, dtype=tf.int32),
    }


def _dates(tf):
    days = np.array(["2020-01-01", "2021-03-04"], "datetime64[D]")
    return {
        "days as ints": lambda: tf.constant(days, tf.int32),
        "days as floats": lambda: tf.convert_to_tensor(days, tf.float32),
        "one day": lambda: tf.constant(days[0], tf.int64),
        "seconds": lambda: tf.constant(np.array([1, 2], "timedelta64[s]"), tf.int32),
        "a list of days": lambda: tf.constant(list(days), tf.int32),
        "floor_div": lambda: tf.compat.v1.floor_div(tf.constant([7, -7]), 2),
        "list or sparse": lambda: tf.compat.v1.convert_to_tensor_or_sparse_tensor([1, 2], tf.float32),
        "sparse": lambda: tf.compat.v1.convert_to_tensor_or_sparse_tensor(tf.sparse.from_dense([0, 1])),
        "sparse of another type": lambda: tf.compat.v1.convert_to_tensor_or_sparse_tensor(
            tf.sparse.from_dense([0, 1]), tf.float32
        ),
        "list or slices": lambda: tf.compat.v1.convert_to_tensor_or_indexed_slices([1, 2]),
    }


def _sizes(tf):
    floats, long = tf.ones([8]), tf.constant(4, tf.int64)
    return {
        "window of long ints": lambda: tf.round(tf.signal.kaiser_window(long) * 1e4),
        "window of a list": lambda: tf.signal.hann_window([4]),
        "a window periodic by a number": lambda: tf.signal.hann_window(4, periodic=1),
        "a window periodic by nothing": lambda: tf.signal.hann_window(4, periodic=None),
        "window below": lambda: tf.signal.hamming_window(-1),
        "frames of long ints": lambda: tf.signal.frame(floats, long, 2),
        "frames of floats": lambda: tf.signal.frame(floats, 1.5, 2),
        "frames of a list": lambda: tf.signal.frame(floats, [4], 2),
        "steps of floats": lambda: tf.signal.overlap_and_add(tf.ones([2, 2]), 0.5),
        "a scalar in frames": lambda: tf.signal.frame(1.0, 1, 1),
        "a spectrum of floats": lambda: tf.signal.irfft(floats),
        "bins of long ints": lambda: tf.histogram_fixed_width(floats, [0.0, 1.0], tf.constant(2, tf.int64)),
        "bins the wrong way": lambda: tf.histogram_fixed_width(floats, [1.0, 0.0]),
        "blocks that are None": lambda: tf.space_to_batch([[1, 2]], None, [[0, 0]]),
        "paddings of floats": lambda: tf.space_to_batch([[1, 2]], [1], [[0.0, 0.0]]),
        "paddings that are a function": lambda: tf.pad([1], len),
        "paddings of a number": lambda: tf.pad([1], 3),
        "pieces of floats": lambda: tf.split([1, 2], [0.5, 1.5]),
        "dims of nothing": lambda: tf.unravel_index([1], None),
        "batch of floats": lambda: tf.nn.compute_average_loss([1.0], global_batch_size=0.5),
    }


def _operands(tf):
    ints, floats, wide = tf.constant([1, 2]), tf.constant([1.0, 2.0]), np.array([1.0, 2.0])
    linalg, pairs = tf.linalg, tf.constant([[2.0, 1.0], [1.0, 2.0]])
    return {
        "updates of floats": lambda: tf.tensor_scatter_nd_add(ints, [[0]], [0.5]),
        "a scalar of complex numbers": lambda: tf.math.scalar_mul(1j, floats),
        "a number times bytes": lambda: tf.math.scalar_mul(2.0, tf.constant([1], tf.uint8)),
        "coefficients of ints": lambda: tf.math.polyval([1, 2], floats),
        "edges of ints": lambda: tf.searchsorted(ints, wide),
        "labels of doubles": lambda: tf.nn.sigmoid_cross_entropy_with_logits(wide, floats),
        "a rate of doubles": lambda: tf.nn.dropout(floats, tf.constant(0.5, tf.float64)),
        "diagonals of doubles": lambda: linalg.eigh_tridiagonal(floats, np.array([1.0])),
        "a permutation of too many": lambda: linalg.lu_solve(pairs, [[0, 1]], pairs),
        "no permutation": lambda: linalg.lu_reconstruct(pairs, [1, 1]),
        "factors of no square": lambda: linalg.lu_matrix_inverse(tf.ones([3, 2]), [0, 1, 2]),
        "a scalar's diagonal": lambda: linalg.tensor_diag(1),
        "the real part of text": lambda: tf.math.real("a"),
        "an int beyond": lambda: tf.math.sin(-(2**70)),
        "objects in an array": lambda: tf.math.sin(np.array([1.0, None], object)),
    }


def _structures(tf):
    rows = tf.ragged.constant([[[1], [2]], [[3]]])
    return {
        "rows along a tensor": lambda: rows.row_lengths(axis=tf.constant(1)),
        "rows along nothing": lambda: rows.row_lengths(axis=4),
        "merged beyond": lambda: rows.merge_dims(0, 9),
        "stacked along text": lambda: tf.ragged.stack([rows, rows], axis="a"),
        "texts that are none": lambda: tf.strings.join({"a": 1}),
        "texts for one place": lambda: tf.strings.format("{}", ["a", "b"]),
        "a result of another dtype": lambda: tf.map_fn(lambda x: x, [1, 2], fn_output_signature=tf.float32),
        "axes of floats": lambda: tf.sparse.reduce_sum(tf.sparse.from_dense([[1]]), axis=0.5),
        "a day of floats": lambda: tf.compat.forward_compatible(2020, 1.5, 1),
    }


def _eager(tf):
    data = tf.data.Dataset

    def kind(call):
        return lambda: rejected(tf, call, traced=False)()

    calls = {
        "range of floats": lambda: data.range(1.5),
        "range to a list": lambda: data.range([3]),
        "calls of none": lambda: data.range(2).interleave(lambda x: data.range(x), num_parallel_calls=0),
        "cycle of none": lambda: data.range(2).interleave(lambda x: data.range(x), cycle_length=0),
        "rest as a number": lambda: data.range(4).batch(2).rebatch(3, drop_remainder=1),
        "elements of no list": lambda: data.from_tensors(1) and tf.data.experimental.from_list((1, 2)),
        "elements of two forms": lambda: tf.data.experimental.from_list([(1, 2), 3]),
        "seeds as a bool": lambda: data.random(seed=1, rerandomize_each_iteration="yes"),
        "a queue of no types": lambda: tf.queue.FIFOQueue(1, []),
        "a queue of text": lambda: tf.queue.FIFOQueue("a", tf.int32),
        "a shuffled queue that keeps all": lambda: tf.queue.RandomShuffleQueue(2, 2, tf.int32),
        "a picture in ints": lambda: tf.io.decode_png(tf.constant(1)),
        "sizes of a picture in floats": lambda: tf.io.extract_jpeg_shape(tf.constant(0.5)),
        "examples in floats": lambda: tf.io.decode_json_example(tf.constant(0.5)),
        "no file of words": lambda: tf.lookup.TextFileInitializer("", tf.string, 0, tf.int64, 1),
    }
    return {label: kind(call) for label, call in calls.items()}
