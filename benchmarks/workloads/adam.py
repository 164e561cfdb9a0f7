"""Adam for JAX, which has no optimizers of its own (Kingma and Ba 2015, with Keras's epsilon)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.workload import Call

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-7


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
