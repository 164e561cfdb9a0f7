"""A training step of a two-layer perceptron with stochastic gradient descent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.workload import Call, Workload

RATE = 0.1


class Size(NamedTuple):
    batch: int
    inputs: int
    hidden: int
    classes: int


def weights(size: Size) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    first, second = rng.normal(0, 0.05, (size.inputs, size.hidden)), rng.normal(0, 0.05, (size.hidden, size.classes))
    return [w.astype(np.float32) for w in (first, np.zeros(size.hidden), second, np.zeros(size.classes))]


def data(size: Size) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(size.batch, size.inputs)).astype(np.float32), rng.integers(0, size.classes, size.batch)


def tensorflow(tf: Any, function: Any, size: Size) -> Call:
    x, y = map(tf.constant, data(size))
    variables = w1, b1, w2, b2 = [tf.Variable(w) for w in weights(size)]

    @function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(RATE * gradient)
        return loss

    return lambda: step(x, y)


def tensorflow_eager(tf: Any, function: Any, size: Size) -> Call:
    return tensorflow(tf, lambda step: step, size)


def jax(jax: Any, size: Size) -> Call:
    x, y = map(jax.numpy.asarray, data(size))
    params = [jax.numpy.asarray(w) for w in weights(size)]

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        w1, b1, w2, b2 = params
        logits = jax.nn.relu(x @ w1 + b1) @ w2 + b2
        return -jax.numpy.mean(jax.numpy.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1))

    @jax.jit(donate_argnums=0)
    def step(params: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        return [p - RATE * g for p, g in zip(params, gradients)], loss

    def run() -> Any:
        nonlocal params
        params, loss = step(params, x, y)
        return loss.block_until_ready()

    return run


def torch(torch: Any, compiled: Any, size: Size) -> Call:
    x, y = map(torch.from_numpy, data(size))
    params = [torch.from_numpy(w).requires_grad_() for w in weights(size)]
    optimizer = torch.optim.SGD(params, lr=RATE)

    @compiled
    def loss_of(x: Any, y: Any) -> Any:
        w1, b1, w2, b2 = params
        return torch.nn.functional.cross_entropy(torch.relu(x @ w1 + b1) @ w2 + b2, y)

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss

    return step


WORKLOADS = [
    Workload(
        name="mlp",
        title="MLP 64x784-512-10, SGD step",
        full=Size(64, 784, 512, 10),
        tiny=Size(4, 6, 5, 3),
        tensorflow=tensorflow,
        jax=jax,
        torch=torch,
        goal="<= 2x the best, then 0.67x",
    ),
    Workload(
        name="mlp-eager",
        title="the same step, op by op",
        full=Size(64, 784, 512, 10),
        tiny=Size(4, 6, 5, 3),
        tensorflow=tensorflow_eager,
        torch=torch,
        is_eager=True,
        goal="<= 1.5x PyTorch",
    ),
]
