"""Attention becomes one kernel each way where nobody else asks for its scores, with NumPy's values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_programs import HOST, TARGETS, run, tensor, values
from tvm import te
from tvm.target import Target

import tvtf as tf
from tvtf.ops.attended import _attention_array, _grad_array
from tvtf.ops.kernels.attention import attention, attention_grad
from tvtf.passes.attention import fuse_attention
from tvtf.passes.simplify import simplify

few = settings(max_examples=6, deadline=None, derandomize=True)
lengths = st.sampled_from([1, 2, 7, 16, 33, 65])
widths = st.sampled_from([1, 5, 16, 48])
leads = st.sampled_from([(), (3,), (2, 3), (1, 1)])
MASKS = ("none", "add", "where")


def inputs_of(lead, m, n, d, e, mask):
    rows = [values((*lead, m, d)), values((*lead, n, d)), values((*lead, n, e))]
    if mask == "none":
        return rows
    seen = np.tri(m, n, dtype=bool)
    return [*rows, seen if mask == "where" else np.where(seen, 0, -1e9).astype("float32")]


def run_kernel(kernel, inputs, expected, target, **attrs):
    placeholders = [tensor(x.shape, str(x.dtype)) for x in inputs]
    func = te.create_prim_func([*placeholders, *kernel(*placeholders, **attrs)])
    found = run(func, inputs, [x.shape for x in expected], "float32", target)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


@few
@given(leads, lengths, lengths, widths, widths, st.sampled_from(MASKS), st.sampled_from(TARGETS))
def test_kernel_gives_values_of_numpy(lead, m: int, n: int, d: int, e: int, mask: str, target: Target) -> None:
    inputs, attrs = inputs_of(lead, m, n, d, e, mask), {"scale": d**-0.5, "fill": -1e30}
    run_kernel(attention, inputs, _attention_array(*inputs, **attrs), target, **attrs)


@few
@given(leads, lengths, lengths, widths, widths, st.sampled_from(MASKS), st.sampled_from(TARGETS))
def test_gradient_kernel_gives_values_of_numpy(lead, m: int, n: int, d: int, e: int, mask: str, target: Target) -> None:
    inputs, attrs = inputs_of(lead, m, n, d, e, mask), {"scale": d**-0.5, "fill": -1e30}
    out, log = _attention_array(*inputs, **attrs)
    inputs = [values(out.shape), out, log, *inputs]
    run_kernel(attention_grad, inputs, _grad_array(*inputs, **attrs), target, **attrs)


def test_scores_of_a_block_are_all_there_is() -> None:
    shapes = [(2, 3, 300, 8)] * 3
    placeholders = [tensor(shape) for shape in shapes]
    func = te.create_prim_func([*placeholders, *attention(*placeholders, scale=1.0, fill=0.0)])
    from tvtf.passes.schedule.cpu import schedule

    script = schedule(func, HOST).script()
    assert "T.int64(300), T.int64(300))" not in script
    assert "T.parallel" in script


# -- finding it in programs


def attended(q, k, v, mask, form: str):
    """Attention as people write it."""
    width = q.shape[-1]
    if form == "turned":
        scores = tf.matmul(q, tf.transpose(k, [*range(k.ndim - 2), k.ndim - 1, k.ndim - 2])) / np.float32(width**0.5)
        return tf.matmul(tf.nn.softmax(scores + mask), v)
    if form == "where":
        scores = tf.matmul(q, k, transpose_b=True) * width**-0.5
        return tf.matmul(tf.nn.softmax(tf.where(mask > -1.0, scores, -1e9)), v)
    if form == "scaled query":
        return tf.matmul(tf.nn.softmax(tf.matmul(q * width**-0.5, k, transpose_b=True) + mask), v)
    return tf.nn.scaled_dot_product_attention(q, k, v, mask > -1.0)


FORMS = ("turned", "where", "scaled query", "function")


def step(form):
    def run(q, k, v, mask):
        with tf.GradientTape() as tape:
            tape.watch([q, k, v])
            out = attended(q, k, v, mask, form)
            loss = tf.reduce_sum(tf.sin(out))
        return [out, *tape.gradient(loss, [q, k, v])]

    return run


def lowered(function, *args) -> str:
    return fuse_attention(simplify(function.get_concrete_function(*args).module())).script()


def check(function, compiled, inputs) -> None:
    args = [tf.constant(x) for x in inputs]
    for a, b in zip(compiled(*args), function(*args), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("form", FORMS)
def test_both_ways_are_found(form) -> None:
    inputs = inputs_of((2, 3), 20, 17, 8, 5, "add")
    compiled = tf.function(step(form))
    script = lowered(compiled, *map(tf.constant, inputs))
    assert "tvtf.attention_grad" in script and '"tvtf.softmax' not in script
    check(step(form), compiled, inputs)


@pytest.mark.parametrize(
    "lead, m, n, d",
    [((1, 3), 100, 100, 48), ((1, 1), 1, 40, 16), ((4,), 33, 7, 5)],
    ids=["odd", "one query", "one head"],
)
def test_other_sizes(lead, m, n, d) -> None:
    inputs = inputs_of(lead, m, n, d, d, "add")
    check(step("scaled query"), tf.function(step("scaled query")), inputs)


def test_unknown_batch() -> None:
    spec = [tf.TensorSpec([None, 2, 9, 4]), tf.TensorSpec([None, 2, 7, 4]), tf.TensorSpec([None, 2, 7, 4])]
    compiled = tf.function(step("turned"), input_signature=[*spec, tf.TensorSpec([9, 7])])
    for size in (1, 3):
        check(step("turned"), compiled, inputs_of((size, 2), 9, 7, 4, 4, "add"))


def test_scores_that_others_need_stay() -> None:
    def with_weights(q, k, v):
        chance = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
        return tf.matmul(chance, v), chance

    def with_trained_mask(q, k, v, mask):
        with tf.GradientTape() as tape:
            tape.watch(mask)
            out = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + mask), v)
        return out, tape.gradient(out, mask)

    inputs = inputs_of((2,), 4, 3, 5, 2, "add")
    for function, args in ((with_weights, inputs[:3]), (with_trained_mask, inputs)):
        compiled = tf.function(function)
        assert "tvtf.attention" not in lowered(compiled, *map(tf.constant, args))
        check(function, compiled, args)


def test_gradients_of_long_rows_keep_their_probabilities() -> None:
    for rows, fused in ((256, True), (257, False)):
        inputs = inputs_of((1,), rows, 256, 2, 2, "none")
        q, k, v = map(tf.constant, inputs)
        script = lowered(tf.function(step("scaled query")), q, k, v, tf.constant(0.0))
        assert ("tvtf.attention_grad" in script) == fused


def test_softmax_along_another_axis_is_none() -> None:
    function = tf.function(lambda q, k, v: tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True), axis=0), v))
    q, k, v = map(tf.constant, inputs_of((2,), 4, 4, 4, 4, "none"))
    module = function.get_concrete_function(q, k, v).module()
    assert isinstance(module, tvm.IRModule) and "tvtf.attention" not in fuse_attention(simplify(module)).script()
