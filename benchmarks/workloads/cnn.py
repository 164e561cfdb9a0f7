"""A training step of a small convolutional network with Adam."""

from __future__ import annotations

from typing import Any

from benchmarks.workload import Call, Workload
from benchmarks.workloads.adam import adam_jax
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

RATE = 1e-3


def tensorflow(tf: Any, function: Any, size: Size) -> Call:
    x, y = map(tf.constant, data(size))
    variables = [tf.Variable(w) for w in weights(size)]
    optimizer = tf.optimizers.Adam(RATE)
    optimizer.build(variables)

    @function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = logits_tensorflow(tf, variables, x)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return lambda: step(x, y)


def jax(jax: Any, size: Size) -> Call:
    x, y = map(jax.numpy.asarray, data(size))

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        log_probabilities = jax.nn.log_softmax(logits_jax(jax, params, x))
        return -jax.numpy.mean(jax.numpy.take_along_axis(log_probabilities, y[:, None], axis=1))

    return adam_jax(jax, loss_of, weights(size), RATE, x, y)


def torch(torch: Any, compiled: Any, size: Size) -> Call:
    images, labels = data(size)
    x, y = torch_images(torch, images), torch.from_numpy(labels)
    params = [w.requires_grad_() for w in torch_weights(torch, size)]
    optimizer = torch.optim.Adam(params, lr=RATE, eps=1e-7, fused=True)
    loss_of = compiled(lambda x, y: torch.nn.functional.cross_entropy(logits_torch(torch, params, x), y))

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def tensorflow_eager(tf: Any, function: Any, size: Size) -> Call:
    return tensorflow(tf, lambda step: step, size)


WORKLOADS = [
    Workload(
        name="cnn",
        title="CNN on 64x28x28, Adam step",
        full=Size(64),
        tiny=Size(2, 10, 3, 4, 5, 3),
        tensorflow=tensorflow,
        jax=jax,
        torch=torch,
        goal="<= 0.67x the best",
    ),
    Workload(
        name="cnn-eager",
        title="the same step, op by op",
        full=Size(64),
        tiny=Size(2, 10, 3, 4, 5, 3),
        tensorflow=tensorflow_eager,
        torch=torch,
        is_eager=True,
        goal="<= 1.5x PyTorch",
    ),
]
