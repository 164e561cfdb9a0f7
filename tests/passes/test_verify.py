"""Self-checks of the compiler: wrong passes and schedules are named; spans; output of the debug settings."""

import numpy as np
import pytest
import tvm

import tvtf as tf
from tvtf import passes
from tvtf.core.primitive import table
from tvtf.core.thread_state import debug_settings
from tvtf.ir.interpreter import Evaluation, reemit
from tvtf.passes import pipeline, user_passes
from tvtf.passes.debug import verify
from tvtf.runtime.target import host_target


@pytest.fixture
def verifying(monkeypatch, own_cache):
    monkeypatch.setattr(debug_settings, "verify", True)


class Wrong(Evaluation):
    """sin as cos."""

    def bind(self, prim, inputs, attrs):
        return super().bind(table["cos"] if prim.name == "sin" else prim, inputs, attrs)


def sine():
    return tf.function(lambda x: (x + 1.0, tf.sin(x)), autograph=False)


def test_a_wrong_pass_is_named(verifying):
    passes.add_pass("wrong", lambda mod: reemit(mod, Wrong))
    try:
        with pytest.raises(tf.errors.InternalError) as caught:
            sine()(tf.ones([2]))
    finally:
        passes.remove_pass("wrong")
    text = str(caught.value)
    assert text.startswith("TVTF_VERIFY: the pass 'wrong' changed output 1 of main: expected [")
    assert text.endswith("; TVTF_DUMP=DIR keeps the IR of every step")


def test_a_right_pass_is_not(verifying):
    passes.add_pass("right", lambda mod: reemit(mod, Evaluation))
    try:
        assert sine()(tf.ones([2]))[0].numpy().tolist() == [2.0, 2.0]
    finally:
        passes.remove_pass("right")


class Thirds(Evaluation):
    """Sums of three times as much, divided by three: right but for rounding."""

    def bind(self, prim, inputs, attrs):
        if prim.name != "reduce_sum":
            return super().bind(prim, inputs, attrs)
        (x,) = inputs
        tripled = super().bind(table["multiply"], [x, tf.constant(3.0)], {})
        return super().bind(table["divide"], [super().bind(prim, [tripled], attrs), tf.constant(3.0)], {})


@pytest.mark.parametrize("rewrite, is_right", [(Thirds, True), (Wrong, False)])
def test_rounding_that_a_program_amplifies_is_no_mistake(verifying, rewrite, is_right):
    program = tf.function(lambda x: tf.sin(tf.reduce_sum(x) * 100.0), autograph=False)
    passes.add_pass("rewrite", lambda mod: reemit(mod, rewrite))
    try:
        program(tf.ones([1000]))
    except tf.errors.InternalError:
        assert not is_right
    else:
        assert is_right
    finally:
        passes.remove_pass("rewrite")


def test_a_wrong_schedule_is_named():
    from tvm.script import tirx as T

    def kernel(factor):
        @T.prim_func(s_tir=True)
        def scale(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.sblock("scale"):
                    v = T.axis.spatial(4, i)
                    y[v] = x[v] * T.float32(factor)

        return scale

    before = tvm.IRModule({"scale": kernel(2.0)})
    after = before.clone()
    after.update_func(before.get_global_var("scale"), kernel(3.0))
    verify.check_schedules(before, before, host_target())
    with pytest.raises(tf.errors.InternalError) as caught:
        verify.check_schedules(before, after, host_target())
    assert str(caught.value).startswith("TVTF_VERIFY: the schedule of kernel 'scale' changed its result: expected [")


def test_a_program_with_everything_verifies(verifying):
    v = tf.Variable(tf.ones([4]))

    @tf.function(autograph=False)
    def step(x, i):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.nn.softmax(x * v)[:2]) + tf.gather(v, i)
        v.assign_sub(0.1 * tape.gradient(y, v))
        return tf.cond(y > 0.0, lambda: y, lambda: y * 2.0)

    assert step(tf.ones([4]), tf.constant(1)).numpy() > 0


# -- spans


def lines_of(mod):
    return [
        (b.value.span.source_name.name, b.value.span.line)
        for function in mod.functions.values()
        for block in function.body.blocks
        for b in block.bindings
        if isinstance(b.value, tvm.relax.Call)
    ]


def test_every_binding_has_the_users_line():
    def body(x):
        y = tf.sin(x)
        z = tf.nn.softmax(y)
        if tf.reduce_sum(z) > 0.0:
            z = z * 2.0
        with tf.GradientTape() as tape:
            tape.watch(y)
            w = tf.reduce_sum(y * y)
        return z + tape.gradient(w, y)

    first = body.__code__.co_firstlineno
    found = lines_of(tf.function(body).get_concrete_function(tf.TensorSpec([3])).module())
    assert found
    assert {file for file, _ in found} == {__file__}
    assert {line - first for _, line in found} <= {1, 2, 3, 4, 6, 7, 8}
    assert {1, 2, 8} <= {line - first for _, line in found}


def test_spans_survive_the_dialect_passes():
    mod = tf.function(lambda x: tf.sin(x) * 1.0 + x, autograph=False).get_concrete_function(tf.TensorSpec([3])).module()
    from tvtf.passes.graph.simplify import simplify

    assert {file for file, _ in lines_of(simplify(mod))} == {__file__}


# -- debug_settings


def test_debug_levels_print(monkeypatch, capfd, own_cache):
    monkeypatch.setattr(debug_settings, "debug", 3)
    tf.function(lambda x: x * 41.0, autograph=False)(tf.ones([2]))
    out, err = capfd.readouterr()
    assert "trace 1" in err
    assert "# after simplify" in err
    for phase in pipeline.phases(host_target()):
        assert f"tvtf: {phase.name:14s}" in err


def test_dumps_are_numbered(monkeypatch, tmp_path, own_cache):
    monkeypatch.setattr(debug_settings, "dump", str(tmp_path))
    tf.function(lambda x: x * 43.0, autograph=False)(tf.ones([2]))
    names = sorted(p.stem for p in tmp_path.rglob("*_*.*"))
    assert names == [f"{n:03d}_{phase.name}" for n, phase in enumerate(pipeline.phases(host_target()))]


def test_passes_come_and_go_by_name():
    passes.add_pass("a", lambda mod: mod)
    passes.add_pass("b", lambda mod: mod)
    passes.remove_pass("a")
    names = [name for name, _ in user_passes.user_passes]
    passes.remove_pass("b")
    assert (names, user_passes.user_passes) == (["b"], [])


def test_convolutions_that_eager_calls_compile_are_verified(verifying):
    rng = np.random.default_rng(0)
    x, w = (tf.constant(rng.normal(size=size).astype(np.float32)) for size in ((2, 16, 16, 64), (3, 3, 64, 64)))
    verified = tf.function(lambda x: tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME")), autograph=False)(x)
    np.testing.assert_allclose(verified, np.maximum(tf.nn.conv2d(x, w, 1, "SAME"), 0), rtol=1e-3, atol=1e-3)
