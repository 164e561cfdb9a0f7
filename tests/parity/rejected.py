"""Arguments that no op accepts: the type of the exception, eagerly and while traced."""

import golden_filters
import numpy as np


def rejected(tf, call, traced=True):
    def both():
        return _kind(call) + (f", traced {_kind(tf.function(call, autograph=False))}" if traced else "")

    return both


def _kind(call):
    try:
        return f"gives {call()}"
    except Exception as error:
        return golden_filters.kind_of(error)


def _calls(tf):
    ints, floats = tf.constant([1, 2]), tf.constant([1.0, 2.0])
    image, matrix = tf.ones([1, 2, 2, 1]), tf.ones([2, 2])
    return {
        "shape of floats": lambda: tf.fill([2.5], 1.0),
        "shape of strings": lambda: tf.reshape(ints, ["a"]),
        "shape of an object": lambda: tf.random.normal([object()]),
        "shape within a shape": lambda: tf.random.stateless_uniform([[2]], [1, 2]),
        "ragged shape": lambda: tf.random.stateless_uniform([[2], [1, 2]], [1, 2]),
        "scalar shape": lambda: tf.broadcast_to(ints, 2),
        "scalar multiples": lambda: tf.tile(ints, 2),
        "scalar shape of random numbers": lambda: tf.random.stateless_normal(2, [1, 2]),
        "seed of floats": lambda: tf.random.stateless_normal([2], tf.constant([1.0, 2.0])),
        "samples below none": lambda: tf.random.stateless_categorical([[1.0, 2.0]], -1, [1, 2]),
        "segments in a list": lambda: tf.math.unsorted_segment_sum(floats, [0, 1], [3]),
        "segments of floats": lambda: tf.math.unsorted_segment_sum(floats, [0, 1], 1.5),
        "scalar of segments": lambda: tf.math.segment_sum(0.5, [0]),
        "depth in a list": lambda: tf.one_hot([1], [3]),
        "depth of floats": lambda: tf.one_hot([1], 3.0),
        "axis of text": lambda: tf.reduce_sum(floats, axis="x"),
        "ragged list": lambda: tf.logical_or([[True], [False, True]], True),
        "mixed list": lambda: tf.math.sin([1.0, "a"]),
        "an object": lambda: tf.math.sin(object()),
        "a function": lambda: tf.add(floats, len),
        "a dict": lambda: tf.linalg.matmul({"a": 1}, matrix),
        "None in a list": lambda: tf.math.sin([1.0, None]),
        "rows and targets": lambda: tf.math.in_top_k([0, 1], [[1.0, 2.0]], 1),
        "targets of floats": lambda: tf.math.in_top_k([0.0], [[1.0, 2.0]], 1),
        "shift for two axes": lambda: tf.roll(ints, [1], [0, 0]),
        "shift and a list of axes": lambda: tf.roll(ints, 1, [0]),
        "parts of two dtypes": lambda: tf.complex(1.0, 2),
        "limit of rank one": lambda: tf.quantization.fake_quant_with_min_max_vars(floats, 0.0, [6.0]),
        "bits of text": lambda: tf.quantization.fake_quant_with_min_max_vars(floats, 0.0, 6.0, num_bits="x"),
        "boxes of rank three": lambda: tf.image.crop_and_resize(image, [[[0.0, 0.0, 1.0, 1.0]]], [0], [1, 2]),
        "image without rows": lambda: tf.image.flip_up_down(tf.ones([0, 2, 1])),
        "image without channels": lambda: tf.image.crop_to_bounding_box(tf.ones([2, 2, 0]), 0, 0, 1, 1),
        "image of rank two": lambda: tf.image.pad_to_bounding_box(matrix, 0, 0, 3, 3),
        "gamma that is no number": lambda: tf.image.adjust_gamma(image, float("nan")),
        "stride of text": lambda: tf.nn.conv2d(image, tf.ones([1, 1, 1, 1]), "1", "VALID"),
        "one stride for four": lambda: tf.nn.depthwise_conv2d(image, tf.ones([1, 1, 1, 1]), 1, "VALID"),
        "strides over images": lambda: tf.nn.dilation2d(image, matrix[..., None], [2] * 4, "SAME", "NHWC", [1] * 4),
        "padding without a name": lambda: tf.nn.conv2d(image, tf.ones([1, 1, 1, 1]), 1, None),
        "a number for a bool": lambda: tf.linalg.svd(matrix, compute_uv=1),
        "a number for uniqueness": lambda: tf.random.uniform_candidate_sampler([[0]], 1, 1, 3, 2),
        "a number for a message": lambda: tf.debugging.check_numerics(floats, 3),
        "colours of ints": lambda: tf.image.draw_bounding_boxes(image, tf.ones([1, 1, 4]), tf.constant([[1]])),
        "padding of a number": lambda: tf.nn.erosion2d(image, matrix[..., None], [1] * 4, 0.5, "NHWC", [1] * 4),
        "padding of another name": lambda: tf.nn.dilation2d(image, matrix[..., None], [1] * 4, "ALL", "NHWC", [1] * 4),
        "padding of one list": lambda: tf.nn.max_pool2d(image, 1, 1, [1, 1]),
        "rates of None": lambda: tf.image.extract_patches(image, [1] * 4, [1] * 4, [1, 1, 1, None], "SAME"),
        "strides of text": lambda: tf.extract_volume_patches(image[..., None], [1] * 5, ["a"] * 5, "SAME"),
        "blocks of a vector": lambda: tf.space_to_batch(ints, [1], [[0, 0]]),
        "encoding of a number": lambda: tf.strings.lower("a", encoding=0.5),
        "encoding in a tensor": lambda: tf.strings.unicode_split(["a"], tf.constant("UTF-8")),
        "buckets of text": lambda: tf.strings.to_hash_bucket_fast(["a"], "b"),
        "no candidates": lambda: tf.random.uniform_candidate_sampler([[1]], 1, -1, False, 3, seed=1),
        "candidates of text": lambda: tf.random.uniform_candidate_sampler([[1]], 1, "a", False, 3, seed=1),
        "a step below": lambda: tf.signal.frame(floats, -1, 1),
        "an unknown argument": lambda: tf.math.sin(floats, bogus=1),
        "a missing argument": lambda: tf.concat([ints]),
        "a spec of a number": lambda: tf.TensorSpec.from_tensor(3.0),
        "dtype of bytes": lambda: tf.as_dtype(b"float32"),
    }


def _without_memory(tf):
    """Results that no machine holds."""
    most = 2**30
    return {
        "eye of everything": lambda: tf.eye(most),
        "tile of everything": lambda: tf.tile([1.0], [most * most]),
        "range of everything": lambda: tf.range(2**50),
        "sum of everything": lambda: tf.ones([2**24, 1]) + tf.ones([2**24]),
    }


def _halves(tf):
    half = tf.constant([[2.0, 1.0], [1.0, 3.0]], tf.float16)
    linalg = tf.linalg
    return {
        "inverse of halves": lambda: linalg.inv(half)[0, 0] > 0.5,
        "qr of halves": lambda: tf.abs(linalg.qr(half)[1][1, 0]) < 0.01,
        "determinant of halves": lambda: linalg.det(half),
        "cholesky of halves": lambda: linalg.cholesky(half),
        "svd of halves": lambda: linalg.svd(half),
        "solve of halves": lambda: linalg.triangular_solve(half, half),
        "logarithm of halves": lambda: linalg.logm(half),
        "three diagonals of halves": lambda: linalg.tridiagonal_solve(tf.ones([3, 2], tf.float16), half),
    }


def _only_when_run(tf):
    """What arguments of unknown sizes or values do not tell before a call."""
    shapes = [tf.TensorSpec([None], tf.float32)] * 2

    def traced(function, *args, signature=None):
        run = tf.function(function, autograph=False, input_signature=signature)
        return lambda: _kind(lambda: run(*args))

    def reshaped(x, sizes):
        return traced(tf.reshape, tf.zeros(x), tf.constant(sizes))

    two, three, zero = tf.ones([2]), tf.ones([3]), tf.constant(0)
    return {
        "zeros of everything": lambda: _kind(lambda: tf.zeros([2**30, 2**30])),
        "strings of everything": lambda: _kind(lambda: tf.fill([2**45], "a")),
        "strides of a scalar": lambda: _kind(lambda: tf.nn.max_pool(two[None, :, None, None], 1, zero + 1, "VALID")),
        "step of zero": traced(lambda step: tf.range(0, 5, step), zero),
        "step of zero, floats": traced(lambda step: tf.range(0.0, 5.0, step), tf.constant(0.0)),
        "step the wrong way": traced(lambda step: tf.range(5, 0, step), tf.constant(1)),
        "sizes of empties": lambda: [tf.reshape(tf.zeros(x), s) for x, s in (([0, 0], [0, -1]), ([0, 3], [-1, 0]))],
        "a computed size left": reshaped([2, 3], [3, -1]),
        "a computed size left of empties": reshaped([0, 3], [0, -1]),
        "computed sizes that do not fit": reshaped([2, 3], [4, -1]),
        "two computed sizes left": reshaped([2, 3], [-1, -1]),
        "a computed size below": reshaped([2, 3], [-2, -3]),
        "sizes that clash": traced(lambda x, y: x + y, two, three, signature=shapes),
        "rows that clash": traced(lambda x, y: tf.stack([x, y]), two, three, signature=shapes),
        "constant of a tensor": traced(tf.constant, two),
        "constant of tensors": traced(lambda x: tf.constant([x, x]), two),
    }


def _seen_when_run(tf):
    """TensorFlow sees these in a traced function when it runs, tvtf while it traces."""
    return {
        "negative dim": lambda: tf.random.stateless_normal([-1], [1, 2]),
        "an int of 65 bits beside ints": lambda: tf.bitwise.bitwise_and(tf.constant([1]), 2**65),
        "size of zero": lambda: tf.image.resize(tf.ones([1, 2, 2, 1]), [0, 2]),
        "crop below none": lambda: tf.image.crop_and_resize(
            tf.ones([1, 2, 2, 1]), [[0.0, 0.0, 1.0, 1.0]], [0], [-1, 2]
        ),
    }


def _pipelines(tf):
    numbers = tf.data.Dataset.range(3)
    return {
        "count of text": lambda: numbers.take("2"),
        "count of floats": lambda: numbers.repeat(1.5),
        "count of int32": lambda: numbers.skip(tf.constant(1)),
        "count in a list": lambda: numbers.take([2, 2]),
        "no function": lambda: numbers.map("relu"),
        "applied to no dataset": lambda: numbers.apply(lambda d: 3),
        "remainder of text": lambda: numbers.batch(2, drop_remainder="x"),
    }


def _files(tf):
    return {
        "records in no folder": lambda: tf.io.TFRecordWriter("/dev/null/x/y"),
        "a folder read": lambda: tf.io.read_file("/"),
        "checkpoint in no folder": lambda: tf.train.Checkpoint().save("/dev/null/x/y"),
    }


def _images(tf):
    """Images of unknown sizes."""
    image = tf.reshape(tf.range(12.0), [2, 2, 3])

    def of_any_size(function, *dims):
        return tf.function(function, autograph=False, input_signature=[tf.TensorSpec(dims, tf.float32)])

    return {
        "standardized": lambda: of_any_size(tf.image.per_image_standardization, None, None, None)(image),
        "standardized without contrast": lambda: of_any_size(tf.image.per_image_standardization, None, None, 3)(
            image * 0
        ),
        "normalized over channels": lambda: (
            of_any_size(tf.nn.local_response_normalization, *[None] * 4)(image[None]) > 0.5
        ),
        "state that grows": lambda: tf.data.Dataset.range(2).reduce([1], lambda s, x: tf.concat([s, s], 0)),
        "scanned state that grows": lambda: list(
            tf.data.Dataset.range(3).scan([1], lambda s, x: (tf.concat([s, s], 0), tf.size(s)))
        ),
    }


def _state(tf):
    table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, empty_key=0, deleted_key=-1)
    rows = tf.queue.FIFOQueue(9, [tf.int32, tf.int32])
    return {
        "mark taken out": lambda: _kind(lambda: table.remove(tf.constant([5, 0], tf.int64))),
        "columns of two lengths": lambda: _kind(lambda: rows.enqueue_many([[1, 2], [1, 2, 3]])),
        "rows after that": lambda: int(rows.size()),
    }


def programs(tf):
    calls = {**_seen_when_run(tf), **_pipelines(tf), **_files(tf)}
    eager = {label: lambda call=call: _kind(call) for label, call in calls.items()}
    return {
        **{label: rejected(tf, call) for label, call in (_calls(tf) | _without_memory(tf) | _halves(tf)).items()},
        **eager,
        **_only_when_run(tf),
        **_state(tf),
        **_images(tf),
        "partitions": lambda: tf.nn.embedding_lookup([[1.0, 2.0], [3.0, 4.0]], [1]),
        "mask of numbers": lambda: tf.boolean_mask([1, 2], [0.0, 2.0]),
        "True in a shape": lambda: tf.reshape([1, 2], [2, True]),
        "objects that are numbers": lambda: tf.add([1.0], np.array([1.0], object)),
        "no loss of no batch": lambda: tf.nn.compute_average_loss([1.0], global_batch_size=0),
        "a NumPy float where an int goes": lambda: tf.expand_dims([1], np.float32(0)),
    }
