"""Images: resizing, colours, random changes, measures, boxes, reading and writing."""

import numpy as np
from parity_calls import value_or_kind


def programs(tf):
    return (
        _sizes(tf)
        | _cubic(tf)
        | _colours(tf)
        | _random(tf)
        | _measures(tf)
        | _boxes(tf)
        | _files(tf)
        | _jpegs(tf)
        | _distorted(tf)
    )


def _cubic(tf):
    """TensorFlow 1's bicubic sizes, with each rule of where the pixels are."""
    pictures = np.random.RandomState(0).rand(2, 5, 7, 1).astype(np.float32)
    resize = tf.compat.v1.image.resize_bicubic
    rules = {"corners": {}, "aligned corners": {"align_corners": True}, "half pixels": {"half_pixel_centers": True}}
    return {
        f"bicubic, {rule}, {rows} x {columns}": lambda size=(rows, columns), options=options: np.round(
            resize(pictures, size, **options)[:, :, ::2, 0], 4
        )
        for rule, options in rules.items()
        for rows, columns in ((5, 13), (9, 4), (1, 7))
    } | {
        "bicubic, bytes": lambda: np.round(
            tf.function(resize)(tf.cast(pictures * 255, tf.uint8), [3, 3])[0, :, :, 0], 1
        )
    }


def _jpegs(tf):
    """Noise, whose pixels the fast transform of TensorFlow's default decodes to other values than the accurate one."""

    def decoded(shape):
        pixels = np.random.RandomState(1).randint(0, 255, shape).astype(np.uint8)
        picture = tf.io.decode_jpeg(tf.io.encode_jpeg(pixels), dct_method="INTEGER_ACCURATE")
        weights = tf.range(tf.size(picture), dtype=tf.int64) % 101
        total = tf.reduce_sum(tf.reshape(tf.cast(picture, tf.int64), [-1]) * weights)
        return picture.shape, int(total), picture[:2, :3].numpy().tolist()

    shapes = ((8, 8, 3), (37, 51, 3), (20, 33, 1))
    return {f"accurate jpeg of {shape}": lambda shape=shape: decoded(shape) for shape in shapes}


def _rounded(tf, x):
    return tf.round(tf.cast(x, tf.float32) * 1000.0)


def _sizes(tf):
    image = tf.reshape(tf.range(24.0) * tf.range(24.0) * 0.125, [4, 3, 2])
    batch = tf.stack([image, image[::-1]])
    resize = tf.image.resize
    made = {
        f"resize {method} to {size}{' antialias' * antialias}": lambda m=method, s=size, a=antialias: _rounded(
            tf, resize(image, s, method=m, antialias=a)
        )
        for method in ("bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic")
        for size, antialias in (([6, 5], False), ([2, 2], False), ([2, 2], True))
    }

    def gradient(method):
        def run():
            with tf.GradientTape() as tape:
                tape.watch(image)
                y = resize(image, [3, 5], method=method) ** 2
            return tf.round(tape.gradient(y, image))

        return run

    def traced():
        f = tf.function(lambda x: resize(x, [2, 2]), input_signature=[tf.TensorSpec([None, None, 2], tf.float32)])
        return _rounded(tf, f(image)), _rounded(tf, f(image[:3]))

    return made | {
        "resize batch": lambda: _rounded(tf, resize(batch, [2, 5])),
        "resize bytes": lambda: (
            resize(tf.cast(image, tf.uint8), [2, 2]),
            resize(tf.cast(image, tf.uint8), [4, 3]).dtype,
        ),
        "resize nearest bytes": lambda: resize(tf.cast(image, tf.uint8), [2, 4], method="nearest"),
        "resize in proportion": lambda: resize(image, [8, 8], preserve_aspect_ratio=True).shape,
        "resize gradient bilinear": gradient("bilinear"),
        "resize gradient nearest": gradient("nearest"),
        "resize gradient bicubic": gradient("bicubic"),
        "resize traced": traced,
        "resize a vector": lambda: resize(tf.range(3.0), [2, 2]),
        "resize to three": lambda: resize(image, [2, 2, 2]),
        "resize by no method": lambda: resize(image, [2, 2], method="best"),
        "with pad": lambda: _rounded(tf, tf.image.resize_with_pad(image, 4, 6)),
        "with pad below": lambda: tf.image.resize_with_pad(batch, 8, 3).shape,
        "with pad of nothing": lambda: tf.image.resize_with_pad(image, 0, 3),
        "crop or pad": lambda: [
            tf.image.resize_with_crop_or_pad(image, h, w)[..., 0] for h, w in ((2, 2), (7, 5), (2, 6), (4, 3), (5, 1))
        ],
        "crop or pad batch": lambda: tf.image.resize_with_crop_or_pad(batch, 3, 4).shape,
        "crop or pad to nothing": lambda: tf.image.resize_with_crop_or_pad(image, 3, -1),
        "central_crop": lambda: (tf.image.central_crop(image, 0.5), tf.image.central_crop(batch, 0.7).shape),
        "central_crop too much": lambda: tf.image.central_crop(image, 1.5),
        "central_crop vector": lambda: tf.image.central_crop(tf.range(3.0)[None], 0.5),
        "patches": lambda: tf.image.extract_patches(batch, [1, 2, 2, 1], [1, 1, 2, 1], [1, 1, 1, 1], "VALID"),
        "patches same": lambda: tf.image.extract_patches(batch, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME"),
        "patches with rates": lambda: tf.image.extract_patches(
            batch, [1, 2, 2, 1], [1, 1, 1, 1], [1, 2, 2, 1], "VALID"
        ),
        "methods": lambda: sorted(n for n in dir(tf.image.ResizeMethod) if n.isupper()),
    }


def _colours(tf):
    image = tf.constant([[[0.1, 0.5, 0.9], [0.8, 0.2, 0.2]], [[0.3, 0.3, 0.3], [0.9, 0.9, 0.1]]])
    pixels = tf.cast(image * 255.0, tf.uint8)
    return {
        "hsv": lambda: _rounded(tf, tf.image.rgb_to_hsv(image)),
        "hsv of black": lambda: tf.image.rgb_to_hsv(tf.zeros([1, 1, 3])),
        "rgb": lambda: _rounded(tf, tf.image.hsv_to_rgb(image)),
        "hue": lambda: [_rounded(tf, tf.image.adjust_hue(image, d)) for d in (0.2, -0.4, 1.0)],
        "hue of bytes": lambda: tf.image.adjust_hue(pixels, 0.3),
        "hue too far": lambda: tf.image.adjust_hue(image, 1.5),
        "saturation": lambda: [_rounded(tf, tf.image.adjust_saturation(image, s)) for s in (0.5, 2.0, 0.0)],
        "saturation of bytes": lambda: tf.image.adjust_saturation(pixels, 0.4),
        "hue traced": lambda: _rounded(tf, tf.function(tf.image.adjust_hue)(image, 0.1)),
        "hsv of two channels": value_or_kind(lambda: tf.image.rgb_to_hsv(tf.zeros([1, 1, 2]))),
    }


def _random(tf):
    image = tf.reshape(tf.range(24.0) / 24.0, [2, 4, 3])
    batch = tf.stack([image, image * 0.5, image * 0.25])
    one = tf.image
    return {
        "flip left": lambda: [_rounded(tf, one.stateless_random_flip_left_right(image, (s, 1)))[0, 0, 0] for s in range(6)],
        "flip up": lambda: [_rounded(tf, one.stateless_random_flip_up_down(image, (s, 1)))[0, 0, 0] for s in range(6)],
        "flip batch": lambda: _rounded(tf, one.stateless_random_flip_left_right(batch, (1, 2)))[:, 0, 0, 0],
        "brightness": lambda: _rounded(tf, one.stateless_random_brightness(image, 0.3, (1, 2))),
        "contrast": lambda: _rounded(tf, one.stateless_random_contrast(image, 0.3, 0.9, (1, 2))),
        "hue": lambda: _rounded(tf, one.stateless_random_hue(image, 0.3, (1, 2))),
        "saturation by chance": lambda: _rounded(tf, one.stateless_random_saturation(image, 0.3, 0.9, (1, 2))),
        "crop by chance": lambda: [one.stateless_random_crop(image, [1, 2, 3], (s, 2))[..., 0] for s in range(3)],
        "crop too large": value_or_kind(lambda: one.stateless_random_crop(image, [3, 2, 3], (1, 2))),
        "brightness below": lambda: one.stateless_random_brightness(image, -0.3, (1, 2)),
        "contrast upside down": lambda: one.stateless_random_contrast(image, 0.9, 0.3, (1, 2)),
        "contrast below": lambda: one.random_contrast(image, -0.9, 0.3),
        "hue beyond": lambda: one.stateless_random_hue(image, 0.6, (1, 2)),
        "saturation upside down": lambda: one.random_saturation(image, 0.9, 0.3),
        "quality upside down": lambda: one.random_jpeg_quality(image, 90, 30),
        "quality beyond": lambda: one.stateless_random_jpeg_quality(image, 90, 300, (1, 2)),
        "stateful shapes": lambda: [
            f.shape
            for f in (
                one.random_flip_left_right(image), one.random_flip_up_down(batch), one.random_brightness(image, 0.1),
                one.random_contrast(image, 0.1, 0.2), one.random_hue(image, 0.1), one.random_saturation(image, 0.1, 0.2),
                one.random_crop(image, [1, 1, 3]),
            )
        ],
        "in a dataset": lambda: [
            _rounded(tf, x)[0, 0]
            for x in tf.data.Dataset.from_tensor_slices(batch).map(
                lambda x: one.resize(one.stateless_random_flip_left_right(x, (1, 2)), [1, 1])
            )
        ],
    }  # fmt: skip


def _measures(tf):
    a = tf.reshape(tf.sin(tf.range(2 * 24 * 26 * 2.0) * 0.1) * 0.5 + 0.5, [2, 24, 26, 2])
    b = tf.clip_by_value(a + tf.reshape(tf.cos(tf.range(2 * 24 * 26 * 2.0)) * 0.1, a.shape), 0.0, 1.0)
    small = tf.reshape(tf.range(12.0) ** 1.3, [1, 3, 4, 1])

    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(small)
            y = tf.image.total_variation(small)
        return tape.gradient(y, small)

    return {
        "psnr": lambda: _rounded(tf, tf.image.psnr(a, b, 1.0)),
        "psnr of bytes": lambda: tf.round(
            tf.image.psnr(tf.cast(a * 255.0, tf.uint8), tf.cast(b * 255.0, tf.uint8), 255) * 100.0
        ),
        "psnr of two shapes": lambda: tf.image.psnr(a, b[:, 1:], 1.0),
        "ssim": lambda: _rounded(tf, tf.image.ssim(a, b, 1.0)),
        "ssim window": lambda: _rounded(tf, tf.image.ssim(a, b, 1.0, filter_size=5, filter_sigma=1.0, k1=0.02)),
        "ssim map": lambda: tf.image.ssim(a, b, 1.0, return_index_map=True).shape,
        "ssim too small": value_or_kind(lambda: tf.image.ssim(small, small, 1.0)),
        "ssim scales": lambda: tf.round(tf.image.ssim_multiscale(a, b, 1.0, (0.3, 0.7), filter_size=5) * 100.0),
        "variation": lambda: (_rounded(tf, tf.image.total_variation(a)), _rounded(tf, tf.image.total_variation(a[0]))),
        "variation of a row": lambda: tf.image.total_variation(small[0, 0]),
        "variation's gradient": gradient,
        "differences": lambda: [_rounded(tf, d)[..., 0] for d in tf.image.image_gradients(small)],
        "differences of one": lambda: tf.image.image_gradients(small[0]),
        "sobel": lambda: _rounded(tf, tf.image.sobel_edges(small)[0, :, :, 0]) + 0.0,
        "ssim traced": lambda: _rounded(tf, tf.function(tf.image.ssim)(a, b, 1.0)),
    }


def _boxes(tf):
    images = tf.zeros([1, 5, 6, 3])
    grey = tf.reshape(tf.range(36.0) ** 1.2, [1, 6, 6, 1])
    boxes = tf.constant(
        [[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.1], [0.0, 2.0, 1.0, 3.0], [0.1, 0.0, 1.0, 0.9], [3, 3, 2, 2]]
    )
    scores = tf.constant([0.9, 0.75, 0.6, 0.95, 0.5])
    suppress = tf.image.non_max_suppression

    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(grey)
            y = tf.image.crop_and_resize(grey, [[0.1, 0.2, 0.7, 0.9]], [0], [2, 3])
        return _rounded(tf, tape.gradient(y, grey))[0, ..., 0]

    return {
        "drawn": lambda: tf.image.draw_bounding_boxes(images, [[[0.1, 0.2, 0.8, 0.9], [0.0, 0.0, 0.5, 0.4]]], None),
        "drawn in colours": lambda: tf.image.draw_bounding_boxes(
            images, [[[0.1, 0.2, 0.8, 0.9], [-0.5, 0.0, 0.5, 2.0]]], [[0.5, 0.25, 1.0]]
        ),
        "drawn on grey": lambda: tf.image.draw_bounding_boxes(images[..., :1], [[[0.0, 0.0, 0.5, 0.5]]], None)[..., 0],
        "cut out": lambda: _rounded(
            tf,
            tf.image.crop_and_resize(
                grey, [[0.1, 0.2, 0.7, 0.9], [0.9, 0.9, 0.1, 0.1], [-0.5, 0.0, 1.5, 1.0]], [0, 0, 0], [3, 2]
            ),
        ),
        "cut out nearest": lambda: _rounded(
            tf, tf.image.crop_and_resize(grey, [[0.1, 0.2, 0.7, 0.9]], [0], [3, 3], method="nearest")
        ),
        "cut out beyond": lambda: _rounded(
            tf, tf.image.crop_and_resize(grey, [[0.5, 0.5, 2.0, 2.0]], [0], [2, 2], extrapolation_value=-1.0)
        ),
        "cut out one pixel": lambda: _rounded(tf, tf.image.crop_and_resize(grey, [[0.2, 0.2, 0.6, 0.8]], [0], [1, 1])),
        "cut out gradient": gradient,
        "suppressed": lambda: [
            suppress(boxes, scores, n, iou_threshold=t) for n, t in ((5, 0.5), (2, 0.5), (5, 0.9), (5, 0.0))
        ],
        "suppressed by score": lambda: suppress(boxes, scores, 5, score_threshold=0.7),
        "suppressed with scores": lambda: [
            x.numpy().round(4).tolist()
            for x in tf.image.non_max_suppression_with_scores(boxes, scores, 5, 0.5, 0.1, soft_nms_sigma=0.5)
        ],
        "suppressed padded": lambda: tf.image.non_max_suppression_padded(
            boxes, scores, 5, iou_threshold=0.5, pad_to_max_output_size=True
        ),
        "suppressed short": lambda: tf.image.non_max_suppression_padded(boxes, scores, 5, iou_threshold=0.5),
        "suppressed batch": lambda: tf.image.non_max_suppression_padded(
            tf.stack([boxes, boxes]),
            tf.stack([scores, scores[::-1]]),
            4,
            iou_threshold=0.5,
            pad_to_max_output_size=True,
        ),
        "suppressed by overlaps": lambda: tf.image.non_max_suppression_overlaps(
            [[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]], [0.3, 0.7, 0.5], 3
        ),
        "suppressed by class": lambda: tf.image.combined_non_max_suppression(
            tf.reshape(boxes, [1, 5, 1, 4]), tf.stack([scores, scores[::-1]], axis=-1)[None], 2, 3, clip_boxes=False
        ),
        "suppressed traced": lambda: tf.function(lambda b, s: suppress(b, s, 3))(boxes, scores),
        "suppressed vector": value_or_kind(lambda: suppress(boxes[0], scores, 3)),
        "threshold beyond": value_or_kind(lambda: suppress(boxes, scores, 3, iou_threshold=2.0)),
    }


def _files(tf):
    pixels = tf.reshape(tf.cast(tf.range(60) * 4, tf.uint8), [4, 5, 3])
    wide = tf.reshape(tf.cast(tf.range(12) * 5000, tf.uint16), [2, 3, 2])
    io = tf.io
    bmp = (
        b"BM" + (70).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little") + (40).to_bytes(4, "little")
        + (2).to_bytes(4, "little") + (2).to_bytes(4, "little") + (1).to_bytes(2, "little") + (24).to_bytes(2, "little")
        + bytes(4) + (16).to_bytes(4, "little") + bytes(16) + bytes(range(16))
    )  # fmt: skip
    return {
        "png": lambda: io.decode_png(io.encode_png(pixels)),
        "png of one channel": lambda: io.decode_png(io.encode_png(pixels[..., :1])).shape,
        "png of two channels": lambda: io.decode_png(io.encode_png(pixels[..., :2]), channels=4),
        "png of 16 bits": lambda: io.decode_png(io.encode_png(wide), dtype=tf.uint16),
        "png of 16 bits as 8": lambda: io.decode_png(io.encode_png(wide)),
        "png of 8 bits as 16": lambda: io.decode_png(io.encode_png(pixels), dtype=tf.uint16)[0, 0],
        "png grey": lambda: io.decode_png(io.encode_png(pixels[..., :1]), channels=3)[0],
        "png with opacity": lambda: io.decode_png(io.encode_png(pixels), channels=4)[0],
        "png batch": lambda: io.encode_png(tf.stack([pixels, pixels])).shape,
        "png head": lambda: io.encode_png(pixels).numpy()[:8],
        "png traced": lambda: tf.function(lambda x: tf.image.resize(io.decode_png(x, channels=3), [2, 2]))(
            io.encode_png(pixels)
        ),
        "png damaged": value_or_kind(lambda: io.decode_png(io.encode_png(pixels).numpy()[:40])),
        "png none": value_or_kind(lambda: io.decode_png(b"no image at all")),
        "png channels": value_or_kind(lambda: io.decode_png(io.encode_png(pixels), channels=7)),
        "png of five channels": value_or_kind(lambda: io.encode_png(tf.zeros([1, 1, 5], tf.uint8))),
        "bmp": lambda: io.decode_bmp(bmp),
        "bmp as image": lambda: io.decode_image(bmp),
        "bmp none": value_or_kind(lambda: io.decode_bmp(b"BM")),
        "image": lambda: io.decode_image(io.encode_png(pixels)).shape,
        "image in floats": lambda: _rounded(tf, io.decode_image(io.encode_png(pixels), dtype=tf.float32)[0]),
        "image of text": value_or_kind(lambda: io.decode_image(b"no image at all")),
        "is_jpeg": lambda: (
            io.is_jpeg(io.encode_png(pixels)),
            io.is_jpeg(io.encode_jpeg(pixels)),
            tf.image.is_jpeg(b""),
        ),
        "jpeg": lambda: (
            io.decode_jpeg(io.encode_jpeg(tf.fill([8, 8, 3], tf.constant(77, tf.uint8)))).numpy().mean().round()
        ),
        "jpeg grey": lambda: io.decode_jpeg(io.encode_jpeg(pixels), channels=1).shape,
        "jpeg smaller": lambda: io.decode_jpeg(io.encode_jpeg(tf.zeros([16, 24, 3], tf.uint8)), ratio=4).shape,
        "jpeg shape": lambda: io.extract_jpeg_shape(io.encode_jpeg(pixels)),
        "jpeg part": lambda: io.decode_and_crop_jpeg(io.encode_jpeg(pixels), [1, 1, 2, 3]).shape,
        "jpeg none": value_or_kind(lambda: io.decode_jpeg(b"\xff\xd8\xff and no more")),
        "jpeg of four channels": value_or_kind(lambda: io.encode_jpeg(tf.zeros([2, 2, 4], tf.uint8))),
        "jpeg quality": lambda: tf.image.adjust_jpeg_quality(tf.fill([8, 8, 3], 0.5), 75).shape,
        "jpeg quality beyond": value_or_kind(lambda: tf.image.adjust_jpeg_quality(tf.fill([8, 8, 3], 0.5), 175)),
        "png is what numpy sees": lambda: np.asarray(io.decode_png(io.encode_png(pixels))).sum(),
    }


def _distorted(tf):
    """Rectangles by chance."""
    boxes = np.array([[[0.1, 0.2, 0.5, 0.9], [0.5, 0.5, 1.0, 0.8]]], np.float32)
    of_seed = tf.image.stateless_sample_distorted_bounding_box

    def drawn(**how):
        return lambda: [of_seed(size, boxes, (1, k), **how) for k in range(5) for size in ([40, 60, 3], [7, 3, 1])]

    def rejected(size=(5, 5, 3), boxes=boxes, **how):
        return value_or_kind(lambda: of_seed(size, boxes, (1, 2), **how))

    def of_state():
        tf.random.set_seed(5)
        draw = tf.function(lambda: tf.image.sample_distorted_bounding_box([50, 60, 3], boxes, seed=4))
        return [
            *[tf.image.sample_distorted_bounding_box([50, 60, 3], boxes, seed=s) for s in (3, 3, 7)],
            draw(),
            draw(),
        ]

    return {
        "distorted boxes": drawn(),
        "distorted boxes that cover": drawn(min_object_covered=0.8, max_attempts=9),
        "distorted boxes of areas": drawn(area_range=[0.3, 0.9], aspect_ratio_range=[0.5, 2.0]),
        "distorted boxes of a state": of_state,
        "distorted, no boxes": lambda: of_seed([5, 5, 3], boxes[:, :0], (1, 2), use_image_if_no_bounding_boxes=True),
        "distorted, refused": lambda: [
            f()
            for f in (
                *(
                    rejected(size=[5, 5]),
                    rejected(boxes=boxes[0]),
                    rejected(boxes=boxes[:, :0]),
                    rejected(boxes=2 * boxes),
                ),
                *(rejected(min_object_covered=-1.0), rejected(min_object_covered=[0.1]), rejected(size=[2**40, 5, 3])),
                *(
                    rejected(aspect_ratio_range=[1.0]),
                    rejected(aspect_ratio_range=[0.0, 1.0]),
                    rejected(max_attempts=0),
                ),
                *(rejected(area_range=[0.5, 1.5]), rejected(size=[5.0, 5.0, 3.0]), rejected(max_attempts="x")),
            )
        ],
    }
