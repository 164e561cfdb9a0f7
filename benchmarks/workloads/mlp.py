"""A training step of a two-layer perceptron with stochastic gradient descent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.workload import Call, Workload
from benchmarks.workloads.training import cross_entropy_jax, op_by_op, sgd_jax, sgd_tensorflow, step_torch

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

    def logits_of(x: Any) -> Any:
        return tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2

    return sgd_tensorflow(tf, function, logits_of, variables, RATE, x, y)


def jax(jax: Any, size: Size) -> Call:
    x, y = map(jax.numpy.asarray, data(size))

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        w1, b1, w2, b2 = params
        return cross_entropy_jax(jax, jax.nn.relu(x @ w1 + b1) @ w2 + b2, y)

    return sgd_jax(jax, loss_of, weights(size), RATE, x, y)


def torch(torch: Any, compiled: Any, size: Size) -> Call:
    x, y = map(torch.from_numpy, data(size))
    params = w1, b1, w2, b2 = [torch.from_numpy(w).requires_grad_() for w in weights(size)]
    loss_of = compiled(lambda x, y: torch.nn.functional.cross_entropy(torch.relu(x @ w1 + b1) @ w2 + b2, y))
    return step_torch(torch.optim.SGD(params, lr=RATE), loss_of, x, y)


STEP = Workload(
    name="mlp",
    title="MLP 64x784-512-10, SGD step",
    full=Size(64, 784, 512, 10),
    tiny=Size(4, 6, 5, 3),
    tensorflow=tensorflow,
    jax=jax,
    torch=torch,
    goal="<= 2x the best, then 0.67x",
)
WORKLOADS = [STEP, op_by_op(STEP)]
