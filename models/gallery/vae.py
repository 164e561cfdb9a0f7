"""A variational autoencoder: scanned digits laid out on a plane, and new ones drawn from it.

The encoder maps each image to a normal distribution in the plane (a mean and a deviation), the decoder maps a point drawn
from it to an image. The loss is the reconstruction error of the image plus the divergence of the distribution from the
standard normal: the second term leaves no gaps in the plane, so that every point of it decodes to a digit.

Source: Kingma and Welling 2013, https://arxiv.org/abs/1312.6114
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tvtf as tf
from tvtf.models import digits
from tvtf.models.pictures import picture, tiles

LATENT = 2
BATCH = 128
GRID = 10
PIXELS = digits.SIDE**2


def networks() -> tuple[Any, Any]:
    """Returns the two networks of a variational autoencoder.

    The encoder maps an image to the mean and log variance of a normal distribution of latent vectors, the decoder a latent
    vector to the logits of an image.
    """
    layers = tf.keras.layers
    image = layers.Input((digits.SIDE, digits.SIDE, 1))
    hidden = layers.Dense(128, activation="relu")(layers.Flatten()(image))
    hidden = layers.Dense(64, activation="relu")(hidden)
    encoder = tf.keras.Model(image, [layers.Dense(LATENT)(hidden), layers.Dense(LATENT)(hidden)], name="encoder")
    decoder = tf.keras.Sequential(
        [
            layers.Input((LATENT,)),
            layers.Dense(64, activation="relu"),
            layers.Dense(128, activation="relu"),
            layers.Dense(PIXELS),
            layers.Reshape((digits.SIDE, digits.SIDE, 1)),
        ],
        name="decoder",
    )
    return encoder, decoder


def losses(encoder: Any, decoder: Any, images: Any) -> tuple[Any, Any]:
    """Returns the two losses of a variational autoencoder, in nats per image.

    They are the reconstruction loss, and the KL divergence of the encoder's distributions from the standard normal.
    """
    mean, log_variance = encoder(images)
    # Samples are scaled and shifted noise (reparameterization), so that gradients reach mean and variance.
    sample = mean + tf.exp(0.5 * log_variance) * tf.random.normal(tf.shape(mean))  # type: ignore[operator] # the file shape.py
    reconstruction_losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=decoder(sample))
    divergences = 0.5 * tf.reduce_sum(mean**2 + tf.exp(log_variance) - 1.0 - log_variance, axis=1)
    return tf.reduce_mean(tf.reduce_sum(reconstruction_losses, axis=[1, 2, 3])), tf.reduce_mean(divergences)


def main(folder: Path, steps: int = 3000, seed: int = 0) -> dict[str, float]:
    """Trains, and draws the digits' positions in the plane next to the decoded images of its points."""
    tf.keras.utils.set_random_seed(seed)
    data = digits.load()
    encoder, decoder = networks()
    optimizer = tf.keras.optimizers.Adam(2e-3)
    variables = encoder.trainable_variables + decoder.trainable_variables

    @tf.function
    def step(images: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            missed, distance = losses(encoder, decoder, images)
            loss = missed + distance
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return missed, distance

    batches = tf.data.Dataset.from_tensor_slices(data.images).shuffle(len(data.images), seed=seed).repeat().batch(BATCH)
    history = np.array([step(images) for images in batches.take(steps)])
    loss = history.sum(axis=1)

    mean, _ = encoder(data.images)
    # Points at equal quantiles of the normal distribution: equally many digits lie between any two neighbours.
    shares = tf.linspace(0.5 / GRID, 1 - 0.5 / GRID, GRID)
    x, y = tf.meshgrid(*[tf.math.ndtri(tf.cast(shares, tf.float32))] * 2)
    points = tf.stack([tf.reshape(x, [-1]), tf.reshape(y[::-1], [-1])], axis=1)
    drawn = tf.sigmoid(decoder(points))[..., 0].numpy()
    with picture(folder / "vae.png", columns=2, size=(7.5, 3.6)) as (left, right):
        drawn_points = left.scatter(*mean.numpy().T, c=data.labels, cmap="tab10", s=3)
        left.figure.colorbar(drawn_points, ticks=range(10))
        left.set(title="where the digits lie")
        right.imshow(tiles(drawn, GRID), cmap="gray_r", interpolation="nearest")
        right.set(title="what the plane's points look like")
        right.set_axis_off()
    last = history[-20:].mean(axis=0)
    return {
        "first loss": float(loss[0]),
        "loss": float(last.sum()),
        "missed": float(last[0]),
        "distance": float(last[1]),
    }
