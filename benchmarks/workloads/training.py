"""Training steps of a classifier in each framework: cross-entropy, and a step of SGD or Adam.

JAX has no optimizers of its own: its Adam is that of Kingma and Ba (2015), with Keras's epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.workload import Call, Workload

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-7


def adam_tensorflow(
    tf: Any, function: Any, logits_of: Callable[..., Any], weights: Sequence[np.ndarray], rate: float, x: Any, y: Any
) -> Call:
    """A step of Adam on the cross-entropy of ``logits_of(variables, x)`` and the labels ``y``."""
    variables = [tf.Variable(w) for w in weights]
    optimizer = tf.optimizers.Adam(rate)
    optimizer.build(variables)

    @function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = logits_of(variables, x)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return lambda: step(x, y)


def sgd_tensorflow(
    tf: Any, function: Any, logits_of: Callable[..., Any], variables: Sequence[Any], rate: float, x: Any, y: Any
) -> Call:
    """A step of stochastic gradient descent on the cross-entropy of ``logits_of(x)`` and the labels ``y``."""

    @function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits_of(x)))
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            if gradient is not None:
                variable.assign_sub(rate * gradient)
        return loss

    return lambda: step(x, y)


def cross_entropy_jax(jax: Any, logits: Any, labels: Any) -> Any:
    """The mean cross-entropy, which JAX has no function for."""
    return -jax.numpy.mean(jax.numpy.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1))


def sgd_jax(jax: Any, loss_of: Callable[..., Any], weights: Sequence[np.ndarray], rate: float, *batch: Any) -> Call:
    """A step of stochastic gradient descent on ``loss_of(params, *batch)``, the parameters donated."""
    params = [jax.numpy.asarray(w) for w in weights]

    @jax.jit(donate_argnums=0)
    def step(params: Any, *batch: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(params, *batch)
        return [p - rate * g for p, g in zip(params, gradients)], loss

    def run() -> Any:
        nonlocal params
        params, loss = step(params, *batch)
        return loss.block_until_ready()

    return run


def adam_jax(jax: Any, loss_of: Callable[..., Any], weights: Sequence[np.ndarray], rate: float, *batch: Any) -> Call:
    """A step of Adam on ``loss_of(params, *batch)``, its state donated."""
    jnp = jax.numpy

    @jax.jit(donate_argnums=0)
    def step(state: Any, *batch: Any) -> Any:
        params, means, squares, count = state
        loss, gradients = jax.value_and_grad(loss_of)(params, *batch)
        count = count + 1
        alpha = rate * jnp.sqrt(1 - BETA_2**count) / (1 - BETA_1**count)
        means = [m + (g - m) * (1 - BETA_1) for m, g in zip(means, gradients)]
        squares = [s + (g * g - s) * (1 - BETA_2) for s, g in zip(squares, gradients)]
        params = [p - alpha * m / (jnp.sqrt(s) + EPSILON) for p, m, s in zip(params, means, squares)]
        return (params, means, squares, count), loss

    params = [jnp.array(w) for w in weights]
    state = params, [jnp.zeros_like(p) for p in params], [jnp.zeros_like(p) for p in params], jnp.float32(0)

    def run() -> Any:
        nonlocal state
        state, loss = step(state, *batch)
        return loss.block_until_ready()

    return run


def adam_torch(torch: Any, params: Sequence[Any], rate: float) -> Any:
    """Adam as the others have it, fused."""
    return torch.optim.Adam(params, lr=rate, eps=EPSILON, fused=True)


def step_torch(optimizer: Any, loss_of: Callable[..., Any], *batch: Any) -> Call:
    """A step of an optimizer on ``loss_of(*batch)``."""

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        optimizer.step()
        return loss

    return step


def op_by_op(step: Workload) -> Workload:
    """The workload of a training step, run eagerly."""

    def eager(tf: Any, function: Any, size: Any) -> Call:
        return step.tensorflow(tf, lambda run: run, size)

    return replace(
        step,
        name=f"{step.name}-eager",
        title="the same step, op by op",
        tensorflow=eager,
        jax=None,
        is_eager=True,
        goal="<= 1.5x PyTorch",
    )
