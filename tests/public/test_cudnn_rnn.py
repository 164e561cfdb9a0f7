"""``tf.raw_ops.CudnnRNN`` against recurrent layers written out in NumPy; TensorFlow has no kernel of it for CPUs."""

import numpy as np
import pytest
from covering import covering

import tvtf as tf

TIME, BATCH, FEATURES, UNITS = 4, 2, 3, 5
GATES = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def stepped(mode, x, h, c, w, r, bw, br):
    by_input, by_state = x @ w.T + bw, h @ r.T + br
    a, b = np.split(by_input, GATES[mode], -1), np.split(by_state, GATES[mode], -1)
    if mode == "lstm":
        i, f, g, o = (p + q for p, q in zip(a, b))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    if mode == "gru":
        reset, update = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
        return (1 - update) * np.tanh(a[2] + reset * b[2]) + update * h, c
    return (np.tanh if mode == "rnn_tanh" else lambda v: np.maximum(v, 0))(by_input + by_state), c


def written_out(mode, ways, x, h, c, weights, biases):
    last_h, last_c = [], []
    for layer in range(len(weights) // ways):
        outputs = []
        for k in range(layer * ways, layer * ways + ways):
            state, cell, found = h[k], c[k], []
            for step in x if k % ways == 0 else x[::-1]:
                state, cell = stepped(mode, step, state, cell, *weights[k], *biases[k])
                found.append(state)
            outputs.append(np.stack(found if k % ways == 0 else found[::-1]))
            last_h.append(state)
            last_c.append(cell)
        x = np.concatenate(outputs, -1)
    return x, np.stack(last_h), np.stack(last_c)


@covering(shifts=2, mode=list(GATES), direction=["unidirectional", "bidirectional"], layers=[1, 2])
def test_layers_are_those_written_out(mode, direction, layers):
    rng = np.random.default_rng(1)
    ways = 2 if direction == "bidirectional" else 1
    rows = GATES[mode] * UNITS

    def drawn(*shape):
        return rng.normal(0, 0.5, shape)

    sizes = [FEATURES] * ways + [ways * UNITS] * ways * (layers - 1)
    weights = [(drawn(rows, size), drawn(rows, UNITS)) for size in sizes]
    biases = [(drawn(rows), drawn(rows)) for _ in sizes]
    x, h, c = drawn(TIME, BATCH, FEATURES), drawn(len(sizes), BATCH, UNITS), drawn(len(sizes), BATCH, UNITS)
    params = np.concatenate([a.ravel() for pairs in (weights, biases) for pair in pairs for a in pair])

    def run(x, h, c, params):
        return tf.raw_ops.CudnnRNN(
            input=x, input_h=h, input_c=c, params=params, rnn_mode=mode, direction=direction, is_training=False
        )

    expected = written_out(mode, ways, x, h, c, weights, biases)
    values = [tf.constant(v) for v in (x, h, c, params)]
    for found in (run(*values), tf.function(run)(*values)):
        assert type(found).__name__ == "CudnnRNN" and found.reserve_space.shape == (0,)
        for value, wanted in zip(found[: 3 if mode == "lstm" else 2], expected):
            np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "rejected", [{"rnn_mode": "elman"}, {"direction": "up"}, {"input_mode": "skip_input"}, {"dropout": 0.5}]
)
def test_what_it_has_not_is_rejected(rejected):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"CudnnRNN: {next(iter(rejected))} must be one of"):
        tf.raw_ops.CudnnRNN(
            input=tf.ones([1, 1, 1]),
            input_h=tf.ones([1, 1, 1]),
            input_c=tf.ones([1, 1, 1]),
            params=tf.ones([16]),
            **rejected,
        )
