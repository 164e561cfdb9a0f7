"""Mixed precision: products in 16 bits, sensitive ops, master weights and losses in float32."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tvtf as tf
from tvtf.models import stdlib
from tvtf.models.transformer import Sizes, Transformer
from tvtf.passes.graph.mixed_precision import mixed_precision
from tvtf.passes.graph.simplify import simplify

TOKENS = stdlib.encode("def f(x):\n    return x\n" * 20)
SIZES = Sizes(len(stdlib.LETTERS), context=8, width=16, heads=2, blocks=1)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    tf.mixed_precision.set_global_policy("float32")


def traced(function, *args, policy="mixed_bfloat16") -> str:
    tf.mixed_precision.set_global_policy(policy)
    module = tf.function(function).get_concrete_function(*args).module()
    return simplify(mixed_precision(module)).script()


def calls(script: str) -> dict[str, str]:
    """The dtype of each named result."""
    lines = [line.strip() for line in script.splitlines() if "T.Call" in line]
    return {line.split(":")[0]: line.split('dtype="')[1].split('"')[0] for line in lines}


def test_products_are_narrow_and_what_is_delicate_is_not() -> None:
    def program(x, w):
        hidden = tf.nn.relu(tf.matmul(x, w) + 1.0)
        return tf.reduce_sum(tf.nn.softmax(hidden)), tf.matmul(hidden, w)

    found = calls(traced(program, tf.ones([3, 3]), tf.ones([3, 3])))
    narrow = {name for name, dtype in found.items() if dtype == "bfloat16" and not name.startswith("cast")}
    assert narrow == {"matmul", "add", "relu", "matmul_1"}
    assert found["softmax"] == found["reduce_sum"] == "float32"


def test_numbers_without_a_value_in_float16_keep_float32() -> None:
    found = calls(traced(lambda x: tf.matmul(x, x) * 1e9, tf.ones([2, 2]), policy="mixed_float16"))
    assert (found["matmul"], found["multiply"]) == ("float16", "float32")


def test_types_that_the_program_chose_stay() -> None:
    found = calls(traced(lambda x: tf.exp(tf.matmul(x, x)), tf.ones([2, 2], tf.float64)))
    assert set(found.values()) == {"float64"}
    found = calls(traced(lambda x: tf.exp(tf.cast(x, tf.bfloat16)), tf.ones([2, 2])))
    assert found["exp"] == "bfloat16"


def test_bodies_of_loops_are_mixed_too() -> None:
    def program(x):
        for _ in tf.range(3):
            x = tf.matmul(x, x) * 0.5
        return x

    tf.mixed_precision.set_global_policy("mixed_bfloat16")
    found = tf.function(program)(tf.fill([2, 2], 1.001))
    np.testing.assert_array_equal(found, np.full((2, 2), 1, np.float32))


def test_without_a_policy_nothing_changes() -> None:
    module = tf.function(lambda x: tf.matmul(x, x)).get_concrete_function(tf.ones([2, 2])).module()
    assert mixed_precision(module) is module


@pytest.mark.parametrize("policy", ["mixed_float16", pytest.param("mixed_bfloat16", marks=pytest.mark.sweep)])
def test_a_language_model_learns_as_in_float32(policy) -> None:
    def losses(optimizer, scaled=lambda loss: loss):
        model = Transformer(0, SIZES)
        batch = tf.constant(np.stack([TOKENS[i : i + 9] for i in range(0, 36, 9)]).astype(np.int32))

        @tf.function
        def step(tokens):
            with tf.GradientTape() as tape:
                logits = model(tokens[:, :-1])
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tokens[:, 1:], logits))
                target = scaled(loss)
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(target, weights), weights))
            return loss

        return np.array([float(step(batch)) for _ in range(6)])

    plain = losses(tf.optimizers.Adam(0.01))
    tf.mixed_precision.set_global_policy(policy)
    optimizer = tf.mixed_precision.LossScaleOptimizer(tf.optimizers.Adam(0.01))
    mixed = losses(optimizer, optimizer.scale_loss)
    np.testing.assert_allclose(mixed, plain, rtol=0.02)
    assert mixed[-1] < 0.8 * mixed[0] and int(optimizer.iterations) == 6


# -- the optimizer


def test_steps_that_are_not_finite_are_left_out() -> None:
    w = tf.Variable(1.0)
    optimizer = tf.mixed_precision.LossScaleOptimizer(tf.optimizers.SGD(0.25), 8.0, dynamic_growth_steps=2)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(w * x)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])

    seen = []
    for x in (1.0, 1.0, float("inf"), 1.0):
        step(tf.constant(x))
        seen.append((float(w), float(optimizer.dynamic_scale), int(optimizer.step_counter)))
    assert seen == [(0.75, 8.0, 1), (0.5, 16.0, 0), (0.5, 8.0, 0), (0.25, 8.0, 1)]
    assert int(optimizer.iterations) == 3


def test_configuration_comes_back() -> None:
    optimizer = tf.mixed_precision.LossScaleOptimizer(tf.optimizers.Adam(0.5), 4.0, 7)
    again = tf.mixed_precision.LossScaleOptimizer.from_config(optimizer.get_config())
    assert again.get_config() == optimizer.get_config()
    assert type(again.inner_optimizer).__name__ == "Adam" and float(again.learning_rate) == 0.5


def test_policies_have_names() -> None:
    with pytest.raises(ValueError) as caught:
        tf.mixed_precision.set_global_policy("float8")
    assert str(caught.value) == (
        "Policy: name must be one of ['float32', 'mixed_bfloat16', 'mixed_float16'], but got 'float8'"
    )
    tf.mixed_precision.set_global_policy(tf.mixed_precision.Policy("mixed_float16"))
    assert tf.mixed_precision.global_policy().name == "mixed_float16"
