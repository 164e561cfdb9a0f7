"""A small model and its data, for tests of what is around a model."""

import numpy as np

import tvtf as tf

X = np.sin(np.arange(64 * 8, dtype=np.float32)).reshape(64, 8)
Y = X.sum(1, keepdims=True)


def model(seed=1):
    tf.keras.utils.set_random_seed(seed)
    layers = tf.keras.layers
    made = tf.keras.Sequential([layers.Input((8,)), layers.Dense(16, activation="relu"), layers.Dense(1)])
    made.compile("adam", "mse")
    return made
