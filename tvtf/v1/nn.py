"""``tf.compat.v1.nn`` and ``image``: functions whose arguments TensorFlow 2 renamed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.tensor import convert_to_tensor, static_value
from tvtf.images.glimpse import glimpse
from tvtf.images.sizes import fit_aspect_ratio
from tvtf.ops.attention import table_and_rows
from tvtf.v1.arguments import renamed
from tvtf.v1.registry import Alias, tf_, v1

_CONV = {"filter": "filters", "input": "input"}
v1("nn.conv2d")(
    renamed(
        "nn.conv2d",
        {"filter": "filters", "use_cudnn_on_gpu": ""},
        "input filter strides padding use_cudnn_on_gpu data_format dilations name filters",
    )
)
v1("nn.conv1d")(
    renamed(
        "nn.conv1d",
        {"value": "input", "use_cudnn_on_gpu": ""},
        "value filters stride padding use_cudnn_on_gpu data_format name input dilations",
    )
)
v1("nn.conv3d")(
    renamed("nn.conv3d", {"filter": "filters"}, "input filter strides padding data_format dilations name filters")
)
v1("nn.convolution")(
    renamed(
        "nn.convolution",
        {"filter": "filters", "dilation_rate": "dilations"},
        "input filter padding strides dilation_rate name data_format filters dilations",
    )
)
v1("nn.depthwise_conv2d", "nn.depthwise_conv2d_native")(
    renamed(
        "nn.depthwise_conv2d", {"rate": "dilations"}, "input filter strides padding rate name data_format dilations"
    )
)
v1("nn.separable_conv2d")(
    renamed(
        "nn.separable_conv2d",
        {"rate": "dilations"},
        "input depthwise_filter pointwise_filter strides padding rate name data_format dilations",
    )
)
v1("nn.conv2d_transpose")(
    renamed(
        "nn.conv2d_transpose",
        {"value": "input", "filter": "filters"},
        "value filter output_shape strides padding data_format name input filters dilations",
    )
)
for _dims in ("", "1d", "2d", "3d"):
    for _kind in ("max", "avg"):
        v1(f"nn.{_kind}_pool{_dims}")(
            renamed(f"nn.{_kind}_pool{_dims}", {"value": "input"}, "value ksize strides padding data_format name input")
        )
v1("nn.softmax", "math.softmax")(renamed("nn.softmax", {"dim": "axis"}, "logits axis name dim"))
v1("nn.log_softmax", "math.log_softmax")(renamed("nn.log_softmax", {"dim": "axis"}, "logits axis name dim"))
v1("nn.l2_normalize", "math.l2_normalize", "linalg.l2_normalize")(
    renamed("math.l2_normalize", {"dim": "axis"}, "x axis epsilon name dim")
)
v1("nn.moments")(renamed("nn.moments", {"keep_dims": "keepdims"}, "x axes shift name keep_dims keepdims"))
v1("nn.weighted_moments")(
    renamed("nn.weighted_moments", {"keep_dims": "keepdims"}, "x axes frequency_weights name keep_dims keepdims")
)
v1("nn.zero_fraction")(renamed("math.zero_fraction", {"input_tensor": "value"}, "value name"))
v1("nn.in_top_k", "math.in_top_k")(renamed("math.in_top_k", {}, "predictions targets k name"))
v1("nn.weighted_cross_entropy_with_logits")(
    renamed("nn.weighted_cross_entropy_with_logits", {"targets": "labels"}, "labels logits pos_weight name targets")
)
v1("nn.erosion2d")(
    renamed("nn.erosion2d", {"kernel": "filters", "rates": "dilations"}, "value kernel strides rates padding name")
)
v1("nn.dilation2d")(
    renamed(
        "nn.dilation2d",
        {"filter": "filters", "rates": "dilations"},
        "input filter strides rates padding name filters dilations",
    )
)
v1("nn.crelu")(Alias("nn.crelu"))
for _name in ("tanh", "sigmoid"):
    v1(f"nn.{_name}")(Alias(f"math.{_name}"))
v1("nn.lrn")(Alias("nn.local_response_normalization"))
v1("nn.uniform_candidate_sampler")(Alias("random.uniform_candidate_sampler"))
v1("nn.log_uniform_candidate_sampler")(Alias("random.log_uniform_candidate_sampler"))
v1("nn.learned_unigram_candidate_sampler")(Alias("random.learned_unigram_candidate_sampler"))
v1("nn.fixed_unigram_candidate_sampler")(Alias("random.fixed_unigram_candidate_sampler"))
v1("nn.embedding_lookup")(
    lambda params, ids, partition_strategy="mod", name=None, validate_indices=True, max_norm=None: tf_(
        "nn.embedding_lookup"
    )(*table_and_rows(params, ids, partition_strategy), max_norm)
)
v1("nn.embedding_lookup_sparse")(
    lambda params, sp_ids, sp_weights, partition_strategy="mod", name=None, combiner=None, max_norm=None, **_: tf_(
        "nn.embedding_lookup_sparse"
    )(*_table_and_sparse_rows(params, sp_ids, partition_strategy), sp_weights, combiner or "mean", max_norm)
)
for _name in ("nce_loss", "sampled_softmax_loss"):
    v1(f"nn.{_name}")(
        (
            lambda path: lambda weights, biases, labels, inputs, num_sampled, num_classes, num_true=1, sampled_values=None,
            remove_accidental_hits=path == "nn.sampled_softmax_loss", partition_strategy="mod", name=None, seed=None: tf_(path)(
                _unpartitioned(weights), _unpartitioned(biases), labels, inputs, num_sampled, num_classes, num_true, sampled_values,
                remove_accidental_hits
            )
        )(f"nn.{_name}")
    )  # fmt: skip


def _unpartitioned(params: Any) -> Any:
    """Returns the variable ``params``, or the only variable of a list. TensorFlow 1 allows a list of partitions.

    Raises:
      NotImplementedError: there are several partitions.
    """
    if not isinstance(params, (list, tuple)):
        return params
    if len(params) > 1:
        raise NotImplementedError("tvtf does not partition parameters: pass one variable instead of several")
    return params[0]


def _table_and_sparse_rows(params: Any, ids: Any, strategy: str) -> tuple[Any, Any]:
    """Joins partitions of an embedding table, and returns it, and for sparse ids the rows in it at the same places."""
    if not hasattr(ids, "values"):
        return _unpartitioned(params), ids
    table, rows = table_and_rows(params, ids.values, strategy)
    return table, tf_("sparse.SparseTensor")(ids.indices, rows, ids.dense_shape)


@v1("nn.dropout")
def dropout(
    x: Any, keep_prob: Any = None, noise_shape: Any = None, seed: Any = None, name: Any = None, rate: Any = None
) -> Any:
    """Computes dropout: sets elements to 0 with probability ``rate``, and divides the others by ``1 - rate``.

    Instead of ``rate``, ``keep_prob`` may be given, which is ``1 - rate``.
    """
    if keep_prob is None and rate is None:
        raise ValueError("rate must be a scalar in the range [0, 1).")
    if keep_prob is not None and rate is not None:
        raise ValueError("Cannot specify both 'rate' and 'keep_prob'")
    if rate is None:
        is_number = isinstance(keep_prob, (int, float))
        rate = 1 - (keep_prob if is_number else tf_("cast")(keep_prob, convert_to_tensor(x).dtype))
    return tf_("nn.dropout")(x, rate, noise_shape, seed)


@v1("nn.softmax_cross_entropy_with_logits")
def softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, dim: int = -1, name: Any = None, axis: Any = None
) -> Any:
    """Computes the softmax cross entropy of logits as in TensorFlow 2, but without a gradient for ``labels``."""
    _require_named("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    return softmax_cross_entropy_with_logits_v2(tf_("stop_gradient")(labels), logits, axis, name, dim)


@v1("nn.softmax_cross_entropy_with_logits_v2")
def softmax_cross_entropy_with_logits_v2(
    labels: Any, logits: Any, axis: Any = None, name: Any = None, dim: Any = None
) -> Any:
    """Same as TensorFlow 2's ``softmax_cross_entropy_with_logits``. ``dim`` is the older name of ``axis``."""
    axis = axis if axis is not None else dim
    return tf_("nn.softmax_cross_entropy_with_logits")(labels, logits, -1 if axis is None else axis)


@v1("nn.sparse_softmax_cross_entropy_with_logits")
def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: Any = None
) -> Any:
    """Same as in TensorFlow 2, except that ``labels`` and ``logits`` must be passed by name."""
    _require_named("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    return tf_("nn.sparse_softmax_cross_entropy_with_logits")(labels, logits)


@v1("nn.sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: Any = None
) -> Any:
    """Same as in TensorFlow 2, except that ``labels`` and ``logits`` must be passed by name."""
    _require_named("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    return tf_("nn.sigmoid_cross_entropy_with_logits")(labels, logits)


def _require_named(function: str, sentinel: Any, labels: Any, logits: Any) -> None:
    """Checks that labels and logits are passed as keywords."""
    if sentinel is not None:
        raise ValueError(f"Only call `{function}` with named arguments (labels=..., logits=..., ...)")
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")


@v1("nn.xw_plus_b")
def xw_plus_b(x: Any, weights: Any, biases: Any, name: Any = None) -> Any:
    """Returns ``x @ weights + biases``."""
    return tf_("nn.bias_add")(tf_("matmul")(x, weights), biases)


@v1("nn.relu_layer")
def relu_layer(x: Any, weights: Any, biases: Any, name: Any = None) -> Any:
    """Returns ``relu(x @ weights + biases)``."""
    return tf_("nn.relu")(xw_plus_b(x, weights, biases))


@v1("nn.quantized_relu_x")
def quantized_relu_x(*_: Any, **__: Any) -> Any:
    """Not supported."""
    raise NotImplementedError("tvtf has no quantized dtypes")


# -- images


class ResizeMethod:
    """The interpolation methods of ``resize_images``."""

    BILINEAR, NEAREST_NEIGHBOR, BICUBIC, AREA = range(4)


v1("image.ResizeMethod")(ResizeMethod)
_METHODS = ("bilinear", "nearest", "bicubic", "area")


def _resize(
    images: Any, size: Any, method: Any, align_corners: bool, half_pixel_centers: bool = False, keep_ratio: bool = False
) -> Any:
    """Resizes images to a height and width by an interpolation method.

    The "area" method is that of TensorFlow 2's ``image.resize``.

    Args:
      images: tensor of shape (batch, height, width, channels), or without the batch axis.
      size: the height and width.
      method: the enum value or name of the interpolation method.
      align_corners: whether the centers of the corner pixels coincide before and after.
      half_pixel_centers: whether the images' edges coincide before and after, as in TensorFlow 2.
      keep_ratio: whether the new size is the largest that fits into ``size`` and has the aspect ratio of the images.

    Raises:
      NotImplementedError: ``method`` is "area" with aligned corners.
    """
    name = _METHODS[method] if isinstance(method, int) else str(method)
    images = convert_to_tensor(images)
    new_size = [int(dim) for dim in _static(size)]
    if keep_ratio:
        old_size = images._type.shape[-3:-1]
        new_size = list(fit_aspect_ratio(old_size, (new_size[0], new_size[1])))
    if name != "area":
        return _interpolate(images, new_size, name, align_corners, half_pixel_centers)
    if align_corners:
        raise NotImplementedError("tf.compat.v1.image.resize_area with align_corners=True")
    return tf_("image.resize")(images, new_size, name)


def _static(size: Any) -> Any:
    return size if isinstance(size, (list, tuple)) else static_value(convert_to_tensor(size))


def _interpolate(images: Any, size: list[int], name: str, align_corners: bool, half_pixel_centers: bool) -> Any:
    """Resizes images to a height and width by nearest-neighbour, bilinear or bicubic interpolation.

    Args:
      images: tensor of shape (batch, height, width, channels), or without the batch axis.
      size: the height and width.
      name: the interpolation, "nearest", "bilinear" or "bicubic".
      align_corners: whether the centers of the corner pixels coincide before and after.
      half_pixel_centers: whether the images' edges coincide before and after, as in TensorFlow 2.
    """
    if images.shape.rank == 3:  # one image: add a batch axis
        return _interpolate(images[None], size, name, align_corners, half_pixel_centers)[0]
    if images.shape.as_list()[1:3] == size:
        return images
    for axis, new_size in ((1, size[0]), (2, size[1])):
        images = _resize_axis(images, axis, new_size, name, align_corners, half_pixel_centers)
    return images


def _resize_axis(
    images: Any, axis: int, new_size: int, name: str, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """Resizes images along one axis by an interpolation, as `_interpolate`, with TensorFlow 1's coordinates.

    With ``align_corners``, the centers of the first and last pixels coincide before and after. With
    ``half_pixel_centers``, the center of a pixel is at 0.5, otherwise at 0.
    """
    old_size = images.shape.as_list()[axis]
    last = old_size - 1
    scale = last / (new_size - 1) if align_corners and new_size > 1 else old_size / new_size
    center = np.float32(0.5 if half_pixel_centers else 0)
    # The new pixels' centers, in pixels of the old image.
    coordinates = np.float32(scale) * (np.arange(new_size, dtype="float32") + center)
    if name == "nearest":
        nearest = np.round(coordinates) if align_corners else np.floor(coordinates)
        return tf_("gather")(images, np.minimum(nearest, last).astype("int32"), axis=axis)
    if name == "bicubic":
        return _cubic(images, axis, coordinates - center, half_pixel_centers)
    if half_pixel_centers:
        coordinates = np.maximum(coordinates - center, 0)
    low = np.minimum(np.floor(coordinates), last).astype("int32")
    high = np.minimum(low + 1, last)
    broadcast_shape = [-1 if i == axis else 1 for i in range(4)]
    fraction = (coordinates - low).astype("float32").reshape(broadcast_shape)
    floats = tf_("cast")(images, "float32")
    low_values = tf_("gather")(floats, low, axis=axis)
    high_values = tf_("gather")(floats, high, axis=axis)
    return low_values + (high_values - low_values) * fraction


def _cubic(images: Any, axis: int, coordinates: np.ndarray, half_pixel_centers: bool) -> Any:
    """Interpolates images along one axis at the coordinates, each by a cubic polynomial of the four nearest pixels.

    TensorFlow rounds positions between pixels to 1024ths. With ``half_pixel_centers``, the polynomial is another one, and
    pixels outside of the image have no weight; without, the first and last pixel continue there.
    """
    steepness = -0.5 if half_pixel_centers else -0.75
    first = np.floor(coordinates)
    fraction = np.round((coordinates - first) * 1024) / 1024
    near = np.stack([fraction, 1 - fraction])
    far = near + 1
    near_weights = ((steepness + 2) * near - (steepness + 3)) * near**2 + 1
    far_weights = ((steepness * far - 5 * steepness) * far + 8 * steepness) * far - 4 * steepness
    weights = np.stack([far_weights[0], near_weights[0], near_weights[1], far_weights[1]])
    pixels = first.astype("int32") + np.arange(-1, 3)[:, None]
    inside = np.clip(pixels, 0, images.shape.as_list()[axis] - 1)
    if half_pixel_centers:
        weights = np.where(pixels == inside, weights, 0)
        weights /= weights.sum(axis=0)
    broadcast_shape = [-1 if i == axis else 1 for i in range(4)]
    floats = tf_("cast")(images, "float32")
    taps = [
        tf_("gather")(floats, indices.astype("int32"), axis=axis) * factors.astype("float32").reshape(broadcast_shape)
        for indices, factors in zip(inside, weights)
    ]
    return tf_("add_n")(taps)


@v1("image.extract_glimpse")
def extract_glimpse(
    input: Any,  # noqa: A002 - TensorFlow's name
    size: Any,
    offsets: Any,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: Any = None,
) -> Any:
    """Same as ``tf.image.extract_glimpse``, except that ``offsets`` are the centers of the windows.

    Args:
      input: images of shape (batch, height, width, channels).
      size: the height and width of the windows.
      offsets: the centers of the windows, of shape (batch, 2).
      centered: whether offset (0, 0) is the center of the image; otherwise it is the upper left corner.
      normalized: whether the sides of an image have length 1 (2 if ``centered``); otherwise offsets count pixels.
      uniform_noise: whether pixels outside of the image are uniform random numbers; otherwise normal ones.
    """
    noise = "uniform" if uniform_noise else "gaussian"
    return glimpse(input, size, offsets, centered, normalized, noise, to_middle=True)


@v1("image.resize_images", "image.resize")
def resize_images(
    images: Any,
    size: Any,
    method: Any = 0,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: Any = None,
) -> Any:
    """Resizes images by TensorFlow 1's rules.

    Without ``align_corners``, the top left corners of old and new pixels coincide. TensorFlow 2 aligns their centers.

    Args:
      images: tensor of shape (batch, height, width, channels), or without the batch axis.
      size: the height and width.
      method: the enum value or name of the interpolation method.
      align_corners: whether the centers of the corner pixels coincide before and after.
      preserve_aspect_ratio: whether the new size is the largest that fits into ``size`` and has the aspect ratio of the
        images.
    """
    return _resize(images, size, method, align_corners, keep_ratio=preserve_aspect_ratio)


def _resize_function(method: int) -> Any:
    """Returns a function that resizes images. ``method`` is the interpolation's enum value in ``ResizeMethod``."""

    def resize(
        images: Any, size: Any, align_corners: bool = False, name: Any = None, half_pixel_centers: bool = False
    ) -> Any:
        return _resize(images, size, method, align_corners, half_pixel_centers)

    return resize


for _index, _name in enumerate(("bilinear", "nearest_neighbor", "bicubic", "area")):
    v1(f"image.resize_{_name}")(_resize_function(_index))
