"""Arguments whose shapes do not fit together: refused eagerly, when traced, and when run with sizes that a trace lacks."""

import numpy as np

UP = np.arange(24, dtype=np.float32)


def programs(tf):
    rows = _arrays(tf) | _ragged(tf) | _images(tf) | _matrices(tf) | _losses(tf) | _sparse_and_strings(tf) | _loops(tf)
    return {
        label: lambda label=label, call=call, arrays=arrays: _in_ways(tf, call, arrays, label not in NOT_OF_ANY_SIZE)
        for label, (call, *arrays) in rows.items()
    }


def in_sweep(label):
    """The pairs of an example, and weights of another rank than theirs, are checked by default."""
    return label in ("pairs of weighted examples", "pairs of other shapes")


NOT_OF_ANY_SIZE = (
    "labels of one length",
    "rows of fewer lengths",
    "no weights",
    "no weights of rows",
    "solved for a batch of one",
    "solved for more rows",
    "softmax loss of one label for two",
    "softmax loss of one row for three",
    "repeated by fewer known counts",
    "scan from another shape",
    "scan of no rows",
    "kept of fewer elements",
    "kept of more elements",
)
"""What only one of the libraries refuses where it does not know the sizes when it traces."""


def _in_ways(tf, call, arrays, of_any_size):
    tensors = [tf.constant(array) for array in arrays]
    specs = [tf.TensorSpec([None] * x.shape.rank, x.dtype) for x in tensors]
    ways = {
        "eager": call,
        "traced": tf.function(call, autograph=False),
        "of any size": tf.function(call, autograph=False, input_signature=specs),
    }
    return {label: _outcome(tf, way, tensors) for label, way in ways.items() if of_any_size or label != "of any size"}


def _outcome(tf, way, tensors):
    """The shape and the sum of a call's result, or that the call is refused. Other errors than of arguments are faults."""
    try:
        result = np.asarray(way(*tensors))
    except (tf.errors.OpError, ValueError, TypeError):
        return "refused"
    return result.shape, round(float(result.sum()), 2)


def _f(*shape):
    return np.resize(UP, shape)


def _i(*shape, below=2):
    return np.resize(np.arange(24), shape).astype(np.int32) % below


def _arrays(tf):
    def stitched(one, other):
        return tf.dynamic_stitch([[0, 1], [2, 3]], [one, other])

    def counted(axis):
        return lambda numbers, weights: tf.math.bincount(numbers, weights=weights, axis=axis)

    return {
        "stitched rows of other widths": (stitched, _f(2, 2), _f(2, 3)),
        "stitched rows of another rank": (stitched, _f(2, 2), _f(2)),
        "stitched rows of other widths, none of one": (
            lambda k, x, y: tf.dynamic_stitch([k, [0, 1]], [x, y]),
            _i(0),
            _f(0, 2),
            _f(2, 3),
        ),
        "stitched rows of no columns": (stitched, _f(2, 0), _f(2, 0)),
        "stitched at an index below zero": (lambda k, x: tf.dynamic_stitch([k], [x]), np.int32([0, -1]), _f(2)),
        "more stitched indices than rows": (lambda x: tf.dynamic_stitch([[0], [1]], [x]), _f(1, 2)),
        "sum of a row and of rows": (lambda x, y: tf.add_n([x, y]), _f(1, 2), _f(3, 2)),
        "sum of rows and of a column": (lambda x, y: tf.math.accumulate_n([x, y]), _f(3, 2), _f(3, 1)),
        "permutation of rank two": (lambda x: tf.transpose(x, [[1, 0]]), _f(2, 3)),
        "computed permutation of rank two": (tf.transpose, _f(2, 3), np.int32([[1, 0]])),
        "computed permutation of three axes": (tf.transpose, _f(2, 3), np.int32([1, 0, 0])),
        "computed permutation of one axis": (tf.transpose, _f(2, 3), np.int32([1])),
        "computed permutation with an axis twice": (tf.transpose, _f(2, 3), np.int32([1, 1])),
        "computed permutation": (tf.transpose, _f(2, 3), np.int32([1, 0])),
        "scalar permutation": (lambda x: tf.transpose(x, 0), _f(3)),
        "numbers between a vector and a matrix": (lambda a, b: tf.linspace(a, b, 3), _f(2), _f(1, 2) + 3),
        "rows of fewer lengths": (
            lambda x, n: tf.RaggedTensor.from_tensor(x, lengths=n).to_tensor(),
            _f(3, 2),
            _i(2),
        ),
        "more values than the rows hold": (
            lambda x, y: tf.RaggedTensor.from_row_lengths(x, [2, 3]).with_values(y).to_tensor(),
            _f(5),
            _f(6),
        ),
        "labels of one length": (lambda x, n: tf.nn.collapse_repeated(x, n)[0], _i(2, 4), _i(1) + 3),
        "labels of fewer lengths": (lambda x, n: tf.nn.collapse_repeated(x, n)[0], _i(3, 4), _i(2) + 3),
        "sparse permutation of one axis": (
            lambda x: tf.sparse.to_dense(tf.sparse.transpose(tf.sparse.from_dense(x), [0])),
            _f(2, 3),
        ),
        "a mask beyond the last axis": (lambda x, m: tf.boolean_mask(x, m, axis=1), _f(4), _i(4) > 0),
        "a mask of another length": (lambda x, m: tf.boolean_mask(x, m, axis=1), _f(4, 3), _i(4) > 0),
        "weights of fewer numbers": (counted(None), _i(6), _f(5)),
        "weights of another shape": (counted(None), _i(2, 3), _f(3, 2)),
        "weights of rows, of one row": (counted(-1), _i(2, 3), _f(1, 3)),
        "weights of rows, flat": (counted(-1), _i(2, 3), _f(6)),
        "weights of rows, of more axes": (counted(-1), _i(2, 3), _f(1, 2, 3)),
        "segments of a matrix of rows": (tf.sparse.segment_sum, _f(3, 2), _i(2, 1), _i(2)),
        "segments of fewer rows": (tf.sparse.segment_sum, _f(3, 2), _i(3), _i(2)),
        "segments that do not ascend": (tf.sparse.segment_mean, _f(3, 2), _i(3), np.int32([0, 2, 1])),
        "segments below zero, of computed rows": (
            lambda x, rows: tf.sparse.segment_sum(x, rows, [-1, 0, 0]),
            _f(3, 2),
            _i(3),
        ),
        "slice bounds of two lengths": (tf.strided_slice, _f(3, 4), _i(1), _i(2) + 1),
        "slice steps of another length": (lambda x: tf.strided_slice(x, [0, 0], [2, 2], [1]), _f(3, 4)),
        "scalar slice bounds": (tf.strided_slice, _f(3, 4), np.int32(0), np.int32(2)),
        "a slice's scalar start": (tf.slice, _f(4), np.int32(1), np.int32(2)),
        "a slice's start of rank two": (tf.slice, _f(4), _i(1, 1), _i(1) + 2),
        "repeated by counts of rank two": (lambda x, n: tf.repeat(x, n), _f(3), _i(1, 3)),
        "repeated by fractions": (lambda x, n: tf.repeat(x, n), _f(3), _f(3)),
        "repeated by known counts": (lambda x: tf.repeat(x, [1, 2, 3]), _f(3)),
        "repeated by known fractions": (lambda x: tf.repeat(x, [1.0, 2.0, 3.0]), _f(3)),
        "repeated by an array of fractions": (lambda x: tf.repeat(x, np.array([1.0, 2.5, 3.0])), _f(3)),
        "repeated by fewer known counts": (lambda x: tf.repeat(x, [1, 2]), _f(3)),
        "repeated by a tensor of bools": (lambda x: tf.repeat(x, tf.constant([True, False, True])), _f(3)),
        "repeated by unsigned counts": (lambda x: tf.repeat(x, tf.constant([1, 2, 0], tf.uint64)), _f(3)),
        "repeated along an axis beyond the last": (lambda x: tf.repeat(x, 2, axis=2), _f(3)),
        "a mask from the last axis": (lambda x, m: tf.boolean_mask(x, m, axis=-1), _f(3, 4), _i(4) > 0),
        "a mask from the last axis but one": (lambda x, m: tf.boolean_mask(x, m, axis=-2), _f(3, 4), _i(3) > 0),
        "a mask of both last axes": (lambda x, m: tf.boolean_mask(x, m, axis=-2), _f(3, 4), _i(3, 4) > 0),
        "values of one-hot vectors of rank one": (lambda v: tf.one_hot([0, 1], 2, on_value=v), _f(2)),
        "zeros of one-hot vectors of rank one": (lambda v: tf.one_hot([0, 1], 2, off_value=v), _f(1)),
        "rows of a tensor stitched": (lambda k, x: tf.dynamic_stitch(k, x), np.int32([1, 0]), _f(2, 3)),
        "an array's rows stitched": (lambda x: tf.dynamic_stitch(np.array([[0], [1]]), [x, x]), _f(1, 2)),
        "letters joined": (lambda x: (tf.strings.join("ab"), x)[0], _f(1)),
        "an array's rows joined": (lambda x: (tf.strings.join(np.array(["a", "b"])), x)[0], _f(1)),
        "shapes of letters": (lambda x: (tf.shape_n("ab"), x)[0], _f(1)),
        "split in no pieces": (lambda x: tf.split(x, []), _f(3)),
        "no weights": (counted(None), _i(6), _f(0)),
        "no weights of rows": (counted(-1), _i(2, 3), _f(2, 0)),
    }


def _ragged(tf):
    def tiled(multiples):
        return tf.tile(tf.ragged.constant([[1, 2], [3]]), multiples).to_tensor()

    return {
        "ragged rows tiled": (tiled, np.int32([2, 3])),
        "ragged rows tiled along three axes": (tiled, np.int32([2, 1, 1])),
        "ragged rows tiled less than never": (tiled, np.int32([1, -2])),
        "ragged rows tiled by a scalar": (tiled, np.int32(2)),
        "ranges from more starts": (lambda s, n: tf.ragged.range(s, n).to_tensor(), _i(3), _i(1) + 4),
        "ranges to more limits": (lambda s, n: tf.ragged.range(s, n).to_tensor(), _i(1), _i(3) + 4),
        "ranges from a scalar": (lambda s, n: tf.ragged.range(s, n).to_tensor(), np.int32(1), _i(3) + 4),
    }


def _images(tf):
    image = tf.image

    def selected(boxes, scores):
        return image.non_max_suppression(boxes, scores, 3)

    def combined(boxes, scores):
        return image.combined_non_max_suppression(boxes, scores, 2, 2)[0]

    def transformed(images, transforms):
        return tf.raw_ops.ImageProjectiveTransformV3(
            images=images, transforms=transforms, output_shape=[2, 2], fill_value=0.0, interpolation="NEAREST"
        )

    def dilated(images, filters):
        return tf.nn.dilation2d(images, filters, [1] * 4, "SAME", "NHWC", [1] * 4)

    def conv(images, filters):
        return tf.nn.conv2d(images, filters, 1, "SAME")

    cropped = lambda x, boxes: image.crop_and_resize(x, boxes, [0, 0], [2, 2])  # noqa: E731
    return {
        "crops of boxes of five columns": (cropped, _f(1, 3, 3, 1), _f(2, 5) / 8),
        "crops of boxes of three columns": (cropped, _f(1, 3, 3, 1), _f(2, 3) / 8),
        "selected boxes of three columns": (selected, _f(3, 3), _f(3)),
        "selected boxes of five columns": (selected, _f(3, 5), _f(3)),
        "fewer scores than boxes": (selected, _f(3, 4), _f(2)),
        "overlaps of two columns": (lambda o, s: image.non_max_suppression_overlaps(o, s, 3), _f(3, 2) / 24, _f(3)),
        "overlaps and fewer scores": (lambda o, s: image.non_max_suppression_overlaps(o, s, 3), _f(3, 3) / 24, _f(2)),
        "padded boxes of three columns": (
            lambda b, s: image.non_max_suppression_padded(b, s, 3, pad_to_max_output_size=True)[0],
            _f(2, 3, 3),
            _f(2, 3),
        ),
        "padded boxes and fewer scores": (
            lambda b, s: image.non_max_suppression_padded(b, s, 3, pad_to_max_output_size=True)[0],
            _f(2, 3, 4),
            _f(2, 2),
        ),
        "boxes on images of two channels": (
            lambda x, b: image.draw_bounding_boxes(x, b, None),
            _f(1, 3, 3, 2),
            _f(1, 1, 4) / 4,
        ),
        "colours of too few channels": (
            lambda x, b, c: image.draw_bounding_boxes(x, b, c),
            _f(1, 3, 3, 4),
            _f(1, 1, 4) / 4,
            _f(1, 3),
        ),
        "colours of more channels": (
            lambda x, b, c: image.draw_bounding_boxes(x, b, c),
            _f(1, 3, 3, 1),
            _f(1, 1, 4) / 4,
            _f(1, 3) + 5,
        ),
        "noise between images of one row and three": (
            lambda x, y: image.psnr(x, y, 1.0),
            _f(2, 1, 3, 1),
            _f(2, 3, 3, 1),
        ),
        "boxes of classes and fewer scores": (combined, _f(1, 3, 1, 4), _f(1, 2, 2)),
        "boxes of classes, of one column": (combined, _f(1, 3, 1, 1), _f(1, 3, 2)),
        "boxes of two classes for three": (combined, _f(1, 3, 2, 4), _f(1, 3, 3)),
        "hues of four channels": (image.rgb_to_hsv, _f(2, 2, 4)),
        "white outlines": (lambda x, b: image.draw_bounding_boxes(x, b, None), _f(1, 3, 3, 1), _f(1, 3, 4) / 8),
        "transformed images of five axes": (transformed, _f(1, 2, 2, 1, 1), _f(1, 8)),
        "transforms of nine columns": (transformed, _f(1, 2, 2, 1), _f(1, 9)),
        "dilation by one channel for two": (dilated, _f(1, 3, 3, 2), _f(2, 2, 1)),
        "dilation of one channel by two": (dilated, _f(1, 3, 3, 1), _f(2, 2, 2)),
        "convolution by a filter of no rows": (conv, _f(1, 3, 3, 2), _f(0, 2, 2, 1)),
        "convolution by no filters": (conv, _f(1, 3, 3, 2), _f(2, 2, 2, 0)),
        "convolution of an image of no rows": (conv, _f(2, 0, 5, 3), _f(3, 3, 3, 3)),
        "transposed convolution of an image of no rows": (
            lambda x, w: tf.nn.conv2d_transpose(x, w, [2, 0, 10, 3], 2, "SAME"),
            _f(2, 0, 5, 3),
            _f(3, 3, 3, 3),
        ),
        "pool of an image of no rows": (lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME"), _f(2, 0, 5, 3)),
        "pool of overlapping windows of no rows": (lambda x: tf.nn.avg_pool2d(x, 3, 1, "SAME"), _f(2, 0, 5, 3)),
        "pool of a volume of no columns": (lambda x: tf.nn.max_pool3d(x, 3, 2, "SAME"), _f(2, 5, 0, 4, 3)),
        "pool of too few rows": (lambda x: tf.nn.max_pool2d(x, 3, 1, "VALID"), _f(1, 1, 5, 1)),
        "dilation by a matrix": (dilated, _f(1, 3, 3, 2), _f(2, 2)),
    }


def _matrices(tf):
    linalg = tf.linalg
    order = np.int32([1, 0, 2])

    def tridiagonal(diagonals, rhs):
        return linalg.tridiagonal_matmul(diagonals, rhs, diagonals_format="compact")

    def by_operator(diagonals, rhs):
        return linalg.LinearOperatorTridiag(diagonals, diagonals_format="compact").matmul(rhs)

    return {
        "solved for more rows": (linalg.lu_solve, _f(3, 3) + np.eye(3, dtype=np.float32), order, _f(4, 2)),
        "solved for fewer rows": (linalg.lu_solve, _f(3, 3) + np.eye(3, dtype=np.float32), order, _f(2, 2)),
        "solved for a batch of one": (
            linalg.lu_solve,
            _f(2, 3, 3) + np.eye(3, dtype=np.float32),
            np.int32([[1, 0, 2]] * 2),
            _f(1, 3, 2),
        ),
        "wide factors": (linalg.lu_reconstruct, _f(3, 4), order),
        "tall factors": (linalg.lu_reconstruct, _f(3, 2), order),
        "orders that name no row": (linalg.lu_reconstruct, _f(2, 3, 3), np.int32([[0, 1, 2], [0, 1, 5]])),
        "orders that name a row twice": (linalg.lu_reconstruct, _f(2, 3, 3), np.int32([[0, 1, 2], [0, 1, 1]])),
        "diagonals of one column": (tridiagonal, _f(3, 1), _f(4, 2)),
        "one diagonal for three": (tridiagonal, _f(1, 4), _f(4, 2)),
        "one row for four diagonal elements": (tridiagonal, _f(3, 4), _f(1, 2)),
        "diagonals of a batch for one matrix": (tridiagonal, _f(1, 3, 4), _f(4, 2)),
        "an operator's diagonals of a batch": (by_operator, _f(1, 3, 4), _f(4, 2)),
        "a diagonal for a batch": (linalg.set_diag, _f(2, 3, 3), _f(3)),
        "diagonals of a batch for a matrix": (linalg.set_diag, _f(3, 3), _f(2, 3)),
        "a diagonal too long": (linalg.set_diag, _f(3, 3), _f(4)),
        "a batch's orders beyond its rows": (linalg.lu_reconstruct, _f(2, 2, 2), np.int32([[0, 2], [-1, 1]])),
        "a batch's inverse by orders beyond its rows": (
            linalg.lu_matrix_inverse,
            _f(2, 2, 2) + 1,
            np.int32([[0, 2], [-1, 1]]),
        ),
        "a diagonal added to a row": (lambda d, x: linalg.LinearOperatorDiag(d).add_to_tensor(x), _f(3), _f(1, 3)),
        "diagonals added to a matrix": (
            lambda d, x: linalg.LinearOperatorDiag(d).add_to_tensor(x),
            _f(2, 3),
            _f(3, 3),
        ),
        "a diagonal added to matrices": (
            lambda d, x: linalg.LinearOperatorDiag(d).add_to_tensor(x),
            _f(3),
            _f(2, 3, 3),
        ),
        "identity added to a wider matrix": (lambda x: linalg.LinearOperatorIdentity(3).add_to_tensor(x), _f(4, 5)),
        "a scaled identity added to a row": (
            lambda x: linalg.LinearOperatorScaledIdentity(3, 2.0).add_to_tensor(x),
            _f(1, 3),
        ),
        "a product of a column and of a batch of rows": (
            lambda c, r: linalg.LinearOperatorToeplitz(c, r).matmul(tf.ones([3, 1])),
            _f(3),
            _f(1, 3),
        ),
    }


def _losses(tf):
    drawn = (tf.constant([1, 2, 3], tf.int64), tf.ones([4, 1]), tf.ones([3]))
    losses, nn = tf.compat.v1.losses, tf.nn

    def sampled(loss):
        return lambda w, labels, x: loss(w, tf.zeros([8]), labels, x, 3, 8, sampled_values=drawn)

    def ctc(label_length, logit_length):
        return nn.ctc_loss([[1, 2], [2, 1]], tf.ones([3, 2, 4]), label_length, logit_length)

    return {
        "pairs of an example": (lambda y, x: losses.mean_pairwise_squared_error(y, x), _f(2, 3), _f(2, 3) ** 0.5),
        "pairs of weighted examples": (losses.mean_pairwise_squared_error, _f(2, 3), _f(2, 3) ** 0.5, _f(2, 1)),
        "pairs of other shapes": (losses.mean_pairwise_squared_error, _f(2, 3), _f(2, 4)),
        "weights of other rank than pairs": (losses.mean_pairwise_squared_error, _f(2, 3), _f(2, 3), _f(2)),
        "softmax loss of one label for two": (lambda y, x: losses.softmax_cross_entropy(y, x), _f(3, 2), _f(3, 1)),
        "softmax loss of one row for three": (lambda y, x: losses.softmax_cross_entropy(y, x), _f(1, 2), _f(3, 2)),
        "sampled softmax of two labels": (sampled(nn.sampled_softmax_loss), _f(8, 5), _i(4, 2), _f(4, 5)),
        "sampled softmax of no label": (sampled(nn.sampled_softmax_loss), _f(8, 5), _i(4, 0), _f(4, 5)),
        "noise contrast of two labels": (sampled(nn.nce_loss), _f(8, 5), _i(4, 2), _f(4, 5)),
        "sampled softmax of fewer labels": (sampled(nn.sampled_softmax_loss), _f(8, 5), _i(3, 1), _f(4, 5)),
        "CTC labels' lengths of rank two": (ctc, _i(2, 1), _i(2) + 2),
        "CTC frames' lengths of rank two": (ctc, _i(2), _i(1, 2) + 2),
    }


def _sparse_and_strings(tf):
    def edits(one, other):
        return tf.edit_distance(tf.sparse.from_dense(one), tf.sparse.from_dense(other))

    def retained(values, kept):
        return tf.sparse.to_dense(tf.sparse.retain(tf.SparseTensor([[0, 1], [2, 3]], values, [5, 5]), kept))

    def joined(x, segments):
        return tf.strings.length(tf.strings.unsorted_segment_join(tf.strings.as_string(x), segments, 2))

    return {
        "edits between other ranks": (edits, _i(2, 3), _i(1, 2, 3)),
        "joined by segments of rank two": (joined, _f(4), _i(1, 4)),
        "joined by fewer segments": (joined, _f(4), _i(3)),
        "parts of strings from fewer positions": (
            lambda x, p, n: tf.strings.length(tf.strings.substr(tf.strings.as_string(x), p, n)),
            _f(3),
            _i(1),
            _i(3),
        ),
        "parts of strings of fewer lengths": (
            lambda x, p, n: tf.strings.length(tf.strings.substr(tf.strings.as_string(x), p, n)),
            _f(3),
            _i(3),
            _i(1),
        ),
        "kept of fewer elements": (retained, _f(2), _i(1) > 0),
        "kept of more elements": (retained, _f(2), _i(3) > 0),
        "joined by a scalar": (joined, _f(4), _i()),
    }


def _loops(tf):
    def summed(elements, start):
        return tf.scan(lambda total, x: total + x, elements, initializer=start)

    return {
        "scan from another shape": (summed, _f(3, 2), _f(1)),
        "scan from another rank": (summed, _f(3, 2), np.float32(1)),
        "scan to another rank": (summed, _f(3, 2, 2), _f(2)),
        "scan of no rows": (lambda x, start: summed(x[:0], start), _f(3, 2), _f(2)),
    }
