"""Images: conversion, adjustment, rotation and cropping."""


def programs(tf):
    return _converted(tf) | _adjusted(tf) | _turned(tf)


def _converted(tf):
    floats, bytes_ = tf.constant([0.0, 0.2, 0.5, 1.0, 1.5, -0.5]), tf.constant([0, 51, 128, 255], tf.uint8)
    convert = tf.image.convert_image_dtype
    return {
        "floats to bytes": lambda: convert(floats[:4], tf.uint8),
        "floats to bytes, saturated": lambda: convert(floats, tf.uint8, saturate=True),
        "bytes to floats": lambda: convert(bytes_, tf.float32),
        "bytes to shorts": lambda: convert(bytes_, tf.int16),
        "shorts to bytes": lambda: convert(tf.constant([0, 128, 32767], tf.int16), tf.uint8),
        "floats to half": lambda: convert(floats, tf.float16),
        "to text": lambda: convert(floats, tf.string),
        "grayscale": lambda: tf.image.rgb_to_grayscale(tf.constant([[[255, 0, 0], [10, 20, 30]]], tf.uint8)),
        "from grayscale": lambda: tf.image.grayscale_to_rgb(tf.constant([[[1.0], [2.0]]])),
        "yiq of white": lambda: tf.round(tf.image.rgb_to_yiq([[[1.0, 0.5, 0.0]]]) * 1e4),
        "yuv": lambda: tf.round(tf.image.rgb_to_yuv([[[1.0, 0.5, 0.0]]]) * 1e4),
        "from yiq": lambda: tf.round(tf.image.yiq_to_rgb([[[0.5, 0.1, 0.2]]]) * 1e4),
        "from yuv": lambda: tf.round(tf.image.yuv_to_rgb([[[0.5, 0.1, 0.2]]]) * 1e4),
    }


def _adjusted(tf):
    image = tf.reshape(tf.range(12.0), [2, 2, 3])
    picture = tf.reshape(tf.cast(tf.range(0, 240, 20), tf.uint8), [2, 2, 3])

    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(image)
            adjusted = tf.image.adjust_contrast(image, 2.0)
        return tape.gradient(adjusted, image)

    return {
        "adjust_contrast": lambda: tf.image.adjust_contrast(image, 2.0),
        "adjust_contrast of bytes": lambda: tf.image.adjust_contrast(picture, 0.5),
        "adjust_contrast, traced": tf.function(lambda: tf.image.adjust_contrast(image, 2.0)),
        "adjust_contrast's gradient": gradient,
        "adjust_brightness": lambda: tf.image.adjust_brightness(image, 0.5),
        "adjust_brightness of bytes": lambda: tf.image.adjust_brightness(picture, 0.2),
        "adjust_gamma": lambda: tf.image.adjust_gamma(image, 2.0, 0.5),
        "adjust_gamma, negative": lambda: tf.image.adjust_gamma(image, -1.0),
        "per_image_standardization": lambda: tf.round(tf.image.per_image_standardization(image) * 1e4),
    }


def _turned(tf):
    image, batch = tf.reshape(tf.range(6), [2, 3, 1]), tf.reshape(tf.range(8), [2, 2, 2, 1])
    made = {
        f"rot90 by {k}": lambda k=k: (tf.image.rot90(image, k)[..., 0], tf.image.rot90(batch, k)[..., 0])
        for k in range(-1, 4)
    }
    return made | {
        "flip_left_right": lambda: (tf.image.flip_left_right(image), tf.image.flip_left_right(batch)),
        "flip_up_down": lambda: (tf.image.flip_up_down(image), tf.image.flip_up_down(batch)),
        "transpose": lambda: tf.image.transpose(image),
        "crop": lambda: (
            tf.image.crop_to_bounding_box(image, 0, 1, 2, 2),
            tf.image.crop_to_bounding_box(batch, 1, 0, 1, 2),
        ),
        "pad": lambda: (
            tf.image.pad_to_bounding_box(image, 1, 0, 3, 4)[..., 0],
            tf.image.pad_to_bounding_box(batch, 0, 1, 2, 3)[..., 0],
        ),
    }
