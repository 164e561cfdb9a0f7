"""Attention is fused to one kernel, forward and backward, if its scores have no other use; NumPy's values and gradients."""

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
from tvtf.ops.fused_attention import _attention_array, _grad_array
from tvtf.ops.kernels.attention import attention, attention_grad
from tvtf.passes.analysis.causal_mask import TRIANGLES, Triangle, triangle_attribute, triangle_of
from tvtf.passes.graph.fuse_attention import fuse_attention
from tvtf.passes.graph.simplify import simplify
from tvtf.passes.schedule.cpu import schedule

few = settings(max_examples=6, deadline=None, derandomize=True)
lengths = st.sampled_from([1, 2, 7, 16, 33, 65])
widths = st.sampled_from([1, 5, 16, 48])
leads = st.sampled_from([(), (3,), (2, 3), (1, 1)])
MASKS = ("none", "add", "where", "causal")


def inputs_of(lead, m, n, d, e, mask):
    rows = [values((*lead, m, d)), values((*lead, n, d)), values((*lead, n, e))]
    if mask in ("none", "causal"):
        return rows
    seen = np.tri(m, n, dtype=bool)
    return [*rows, seen if mask == "where" else np.where(seen, 0, -1e9).astype("float32")]


def attrs_of(d, n, mask):
    return {"scale": d**-0.5, "fill": -1e30, "causal": n // 3 if mask == "causal" else None}


def run_kernel(kernel, inputs, expected, target, **attrs):
    placeholders = [tensor(x.shape, str(x.dtype)) for x in inputs]
    func = te.create_prim_func([*placeholders, *kernel(*placeholders, **attrs)])
    found = run(func, inputs, [x.shape for x in expected], "float32", target)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


@few
@given(leads, lengths, lengths, widths, widths, st.sampled_from(MASKS), st.sampled_from(TARGETS))
def test_kernel_gives_values_of_numpy(lead, m: int, n: int, d: int, e: int, mask: str, target: Target) -> None:
    inputs, attrs = inputs_of(lead, m, n, d, e, mask), attrs_of(d, n, mask)
    run_kernel(attention, inputs, _attention_array(*inputs, **attrs), target, **attrs)


@few
@given(leads, lengths, lengths, widths, widths, st.sampled_from(MASKS), st.sampled_from(TARGETS))
def test_gradient_kernel_gives_values_of_numpy(lead, m: int, n: int, d: int, e: int, mask: str, target: Target) -> None:
    inputs, attrs = inputs_of(lead, m, n, d, e, mask), attrs_of(d, n, mask)
    results = _attention_array(*inputs, **attrs)
    inputs = [values(results[0].shape), *results, *inputs]
    run_kernel(attention_grad, inputs, _grad_array(*inputs, **attrs), target, **attrs)


@pytest.mark.parametrize(
    "m, n, causal, target",
    [
        pytest.param(70, 70, 0, HOST, marks=pytest.mark.sweep),
        (64, 40, 5, HOST),
        (70, 99, 29, TARGETS[-1]),
        pytest.param(70, 99, 29, TARGETS[0], marks=pytest.mark.sweep),
    ],
)
def test_causal_blocks_skip_masked_keys(m: int, n: int, causal: int, target: Target) -> None:
    inputs, attrs = inputs_of((2,), m, n, 16, 8, "none"), {"scale": 0.25, "fill": 0.0, "causal": causal}
    results = _attention_array(*inputs, **attrs)
    run_kernel(attention, inputs, results, target, **attrs)
    inputs = [values(results[0].shape), *results, *inputs]
    run_kernel(attention_grad, inputs, _grad_array(*inputs, **attrs), target, **attrs)


def test_keys_after_a_block_are_not_read() -> None:
    placeholders = [tensor((2, 256, 8)) for _ in range(3)]
    func = te.create_prim_func([*placeholders, *attention(*placeholders, scale=1.0, fill=0.0, causal=0)])
    inputs = inputs_of((2,), 256, 256, 8, 8, "none")
    inputs[2][:, 200:] = np.nan
    found, *statistics = run(func, inputs, [(2, 256, 8), (2, 256), (2, 256)], "float32", HOST)
    assert np.isfinite(found[:, :100]).all() and np.isnan(found[:, 200:]).all() and np.isfinite(statistics).all()


def test_strips_hold_no_matrix_of_all_scores() -> None:
    heads, rows = tensor((2, 1000, 16)), tensor((2, 1000))
    placeholders = [heads, heads, rows, rows, heads, heads, heads]
    func = te.create_prim_func([*placeholders, *attention_grad(*placeholders, scale=1.0, fill=0.0, causal=None)])
    script = schedule(func, HOST).script()
    assert "T.int64(1000), T.int64(1000))" not in script and "T.int64(128), T.int64(1000))" in script


def test_scores_of_a_block_are_all_there_is() -> None:
    shapes = [(2, 3, 300, 8)] * 3
    placeholders = [tensor(shape) for shape in shapes]
    func = te.create_prim_func([*placeholders, *attention(*placeholders, scale=1.0, fill=0.0, causal=None)])
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


@pytest.mark.parametrize("form", FORMS)
def test_rows_without_a_key_that_they_may_see_share_among_all(form) -> None:
    q, k, v, mask = inputs_of((2, 3), 20, 17, 8, 5, "add")
    mask[[0, 7]] = -1e9
    compiled = tf.function(step(form))
    assert "tvtf.attention_grad" in lowered(compiled, *map(tf.constant, (q, k, v, mask)))
    check(step(form), compiled, (q, k, v, mask))


def test_unknown_batch() -> None:
    spec = [tf.TensorSpec([None, 2, 9, 4]), tf.TensorSpec([None, 2, 7, 4]), tf.TensorSpec([None, 2, 7, 4])]
    compiled = tf.function(step("turned"), input_signature=[*spec, tf.TensorSpec([9, 7])])
    for size in (1, 3):
        check(step("turned"), compiled, inputs_of((size, 2), 9, 7, 4, 4, "add"))


def test_scores_that_others_need_stay() -> None:
    def with_weights(q, k, v):
        rng = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
        return tf.matmul(rng, v), rng

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


def test_gradients_of_long_rows_of_one_head_keep_their_probabilities() -> None:
    for heads, rows, fused in ((1, 256, True), (1, 257, False), (2, 257, True)):
        inputs = inputs_of((heads,), rows, 256, 2, 2, "none")
        q, k, v = map(tf.constant, inputs)
        script = lowered(tf.function(step("scaled query")), q, k, v, tf.constant(0.0))
        assert ("tvtf.attention_grad" in script) == fused


def test_softmax_along_another_axis_is_none() -> None:
    function = tf.function(lambda q, k, v: tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True), axis=0), v))
    q, k, v = map(tf.constant, inputs_of((2,), 4, 4, 4, 4, "none"))
    module = function.get_concrete_function(q, k, v).module()
    assert isinstance(module, tvm.IRModule) and "tvtf.attention" not in fuse_attention(simplify(module)).script()


# -- causal masks


def ranges(t):
    return tf.range(t)[:, None] >= tf.range(t)


def sums(t):
    """As Keras's MultiHeadAttention makes it."""
    rows = tf.cumsum(tf.ones([1, t, 1], tf.int32), axis=-2)
    return tf.greater_equal(rows, tf.cumsum(tf.ones([1, 1, t], tf.int32), axis=-1))


def band(t):
    return tf.linalg.band_part(tf.ones([t, t]), -1, 0) > 0


CAUSAL = {
    "constant": lambda t: tf.constant(np.tri(t, dtype=bool)),
    "ranges": ranges,
    "band": band,
    "sums": sums,
}
ADDED = {
    "constant": lambda t: tf.constant(np.triu(np.full((t, t), -1e9, np.float32), 1)),
    "infinite": lambda t: tf.constant(np.where(np.tri(t), 0, -np.inf).astype("float32")),
    "sums": lambda t: (1.0 - tf.cast(sums(t), tf.float32)) * -1e9,
}


def compiled_script(function, *args) -> str:
    """What attention makes of the module that is compiled: with what is known of captured constants."""
    concrete = function.get_concrete_function(*args)
    constants = {len(concrete.graph.params) + i: x for i, x in enumerate(concrete.captures)}
    module = concrete.graph.entry((), list(constants), {TRIANGLES: triangle_attribute(constants)})
    return fuse_attention(simplify(module)).script()


def masked_step(make, adds):
    def run(q, k, v):
        with tf.GradientTape() as tape:
            tape.watch([q, k, v])
            scores = tf.matmul(q, k, transpose_b=True) * 0.5
            mask = make(q.shape[-2])
            scores = scores + mask if adds else tf.where(mask, scores, -1e9)
            out = tf.matmul(tf.nn.softmax(scores), v)
            loss = tf.reduce_sum(tf.sin(out))
        return [out, *tape.gradient(loss, [q, k, v])]

    return run


@pytest.mark.parametrize("make, adds", [*((m, False) for m in CAUSAL.values()), *((m, True) for m in ADDED.values())])
def test_causal_masks_are_known(make, adds) -> None:
    inputs = inputs_of((1, 2), 70, 70, 4, 4, "none")
    step = masked_step(make, adds)
    compiled = tf.function(step)
    script = compiled_script(compiled, *map(tf.constant, inputs))
    assert script.count('"causal": 0') == 2
    if make in (CAUSAL["constant"], ADDED["sums"]):
        check(step, compiled, inputs)


def test_queries_after_cached_keys() -> None:
    mask = tf.constant(np.tri(3, 40, 37, dtype=bool))
    function = lambda q, k, v: tf.nn.scaled_dot_product_attention(q, k, v, mask)  # noqa: E731
    inputs = inputs_of((2, 2), 3, 40, 8, 8, "none")
    compiled = tf.function(function)
    assert '"causal": 37' in compiled_script(compiled, *map(tf.constant, inputs))
    np.testing.assert_allclose(compiled(*inputs), function(*map(tf.constant, inputs)), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "mask",
    [np.tri(6, 9, -2), np.tri(6, 9)[:, ::-1], np.eye(6, 9), np.tri(6, 9) * np.arange(1, 7)[:, None] > 3],
    ids=["no key for some", "of the end", "one key each", "no key for others"],
)
def test_other_masks_stay_operands(mask) -> None:
    hidden = tf.constant(mask.astype(bool))
    function = lambda q, k, v: tf.nn.scaled_dot_product_attention(q, k, v, hidden)  # noqa: E731
    inputs = inputs_of((2, 2), 6, 9, 4, 4, "none")
    assert '"causal": None' in compiled_script(tf.function(function), *map(tf.constant, inputs))


def test_penalties_that_do_not_hide_stay_operands() -> None:
    for fill in (-5.0, -1e3):
        make = lambda t, fill=fill: tf.constant(np.triu(np.full((t, t), fill, np.float32), 1))  # noqa: E731
        step = masked_step(make, True)
        compiled = tf.function(step)
        inputs = inputs_of((2,), 9, 9, 4, 4, "none")
        assert '"causal": None' in compiled_script(compiled, *map(tf.constant, inputs))


def test_triangles() -> None:
    assert triangle_of(np.tri(2, 5, 3)) == Triangle(3, 1.0, 0.0)
    assert triangle_of(np.ones((1, 1, 2, 3))) == Triangle(2, 1.0, 1.0)
    for other in (np.eye(3), np.tri(3, k=-1), np.arange(6).reshape(2, 3), np.full((2, 2), np.nan), np.ones(3)):
        assert triangle_of(other) is None
