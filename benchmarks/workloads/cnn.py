"""A training step of a small convolutional network with Adam."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.workload import Call, Workload
from benchmarks.workloads.convnet import (
    Size,
    data,
    logits_jax,
    logits_tensorflow,
    logits_torch,
    torch_images,
    torch_weights,
    weights,
)
from benchmarks.workloads.training import (
    adam_jax,
    adam_tensorflow,
    adam_torch,
    cross_entropy_jax,
    op_by_op,
    step_torch,
)

RATE = 1e-3


def tensorflow(tf: Any, function: Any, size: Size) -> Call:
    x, y = map(tf.constant, data(size))
    return adam_tensorflow(tf, function, partial(logits_tensorflow, tf), weights(size), RATE, x, y)


def jax(jax: Any, size: Size) -> Call:
    x, y = map(jax.numpy.asarray, data(size))

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        return cross_entropy_jax(jax, logits_jax(jax, params, x), y)

    return adam_jax(jax, loss_of, weights(size), RATE, x, y)


def torch(torch: Any, compiled: Any, size: Size) -> Call:
    images, labels = data(size)
    x, y = torch_images(torch, images), torch.from_numpy(labels)
    params = [w.requires_grad_() for w in torch_weights(torch, size)]
    loss_of = compiled(lambda x, y: torch.nn.functional.cross_entropy(logits_torch(torch, params, x), y))
    return step_torch(adam_torch(torch, params, RATE), loss_of, x, y)


STEP = Workload(
    name="cnn",
    title="CNN on 64x28x28, Adam step",
    full=Size(64),
    tiny=Size(2, 10, 3, 4, 5, 3),
    tensorflow=tensorflow,
    jax=jax,
    torch=torch,
    goal="<= 0.67x the best",
)
WORKLOADS = [STEP, op_by_op(STEP)]
