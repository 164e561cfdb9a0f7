"""The guide's program runs as it stands there, and its primitives are equal to tvtf's own."""

import re
from pathlib import Path

import numpy as np
import pytest

import tvtf as tf
from tvtf import passes
from tvtf.core.primitive import primitive, table
from tvtf.ops.rules import scalar

GUIDE = Path(__file__).parents[1] / "docs" / "extending.md"


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    """The guide's names after its code ran as one module of a user's."""
    folder = tmp_path_factory.mktemp("user")
    source = folder / "extension.py"
    source.write_text("\n\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)))
    names = {"__name__": "extension", "__file__": str(source)}
    before = set(table)
    exec(compile(source.read_text(), str(source), "exec"), names)
    yield names
    for name in set(table) - before:
        if not table[name].is_own:  # tvtf's are those of modules that were imported meanwhile
            del table[name]


def test_eager_and_compiled_agree(guide):
    expected = np.sin(np.float32(3) * np.array([0.5, 1.0], np.float32))
    np.testing.assert_allclose(guide["eager"].numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(guide["compiled"].numpy(), expected, rtol=1e-6)


def test_its_gradient_and_map(guide):
    np.testing.assert_allclose(guide["slope"].numpy(), 3 * np.cos([1.5, 3.0]), rtol=1e-5)
    np.testing.assert_allclose(guide["mapped"].numpy(), np.sin([[1.5], [3.0]]), rtol=1e-6)


def test_second_order(guide):
    wave = guide["wave"]

    @tf.function
    def second(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = wave(x, rate=3.0)
            first = inner.gradient(y, x)
        return outer.gradient(first, x)

    np.testing.assert_allclose(second(tf.constant([0.5])).numpy(), -9 * np.sin([1.5]), rtol=1e-5)


def test_its_errors_name_it(guide):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Value for attr 'T' of int32.*Op:Wave"):
        guide["wave"](tf.constant(1))


def test_its_onnx(guide):
    runtime = pytest.importorskip("onnxruntime")
    from tvtf import onnx

    concrete = tf.function(lambda x: guide["wave"](x, rate=3.0)).get_concrete_function(tf.TensorSpec([2]))
    session = runtime.InferenceSession(onnx.export(concrete).SerializeToString())
    (found,) = session.run(None, {session.get_inputs()[0].name: np.array([0.5, 1.0], np.float32)})
    np.testing.assert_allclose(found, np.sin([1.5, 3.0]), rtol=1e-6)


def test_the_bounded_gradient(guide):
    assert guide["value"].numpy().tolist() == [200.0]
    assert guide["bounded"].numpy().tolist() == [1.0]


def test_the_pass_kept_the_value_and_is_gone(guide):
    assert guide["doubled"].numpy().tolist() == [8.0]
    from tvtf.passes.user_passes import user_passes

    assert user_passes == []


def test_the_pass_rewrites(guide):
    module = tf.function(lambda x: x + x).get_concrete_function(tf.TensorSpec([2])).module()
    text = guide["double"](module).script()
    assert "tvtf.multiply" in text
    assert "tvtf.add" not in text


def test_a_changed_kernel_is_compiled_again():
    def declare(factor):
        @primitive(
            name="user_scaled",
            type=lambda x: x,
            numpy=lambda x: x * x.dtype.type(factor),
            lower=scalar(lambda t, v: v * t.const(factor, v)),
        )
        def user_scaled(x):
            return (tf.convert_to_tensor(x),), {}

        return tf.function(lambda x: user_scaled(x))(tf.constant([1.0])).numpy().tolist()

    found = []
    for factor in 2, 3:
        found.append(declare(factor))
        del table["user_scaled"]
    assert found == [[2.0], [3.0]]


def test_errors_of_the_decorator():
    with pytest.raises(ValueError) as caught:
        primitive(name="sin", type=lambda x: x, numpy=np.sin)(lambda x: ((x,), {}))
    assert str(caught.value) == "primitive 'sin' exists already; give yours another name"
    with pytest.raises(TypeError) as caught:
        primitive(name="mine", type=lambda x: x, numpy=np.sin, lowered=None)(lambda x: ((x,), {}))
    assert str(caught.value) == "primitive mine: unknown columns ['lowered']"


def test_a_column_left_out_is_reported_where_it_is_needed():
    @primitive(name="bare", type=lambda x: x, numpy=lambda x: x)
    def bare(x):
        return (tf.convert_to_tensor(x),), {}

    try:
        assert bare(1.0).numpy() == 1.0
        with pytest.raises(tf.errors.UnimplementedError) as caught:
            tf.function(lambda x: bare(x), autograph=False)(tf.constant(1.0))
        assert str(caught.value) == "bare has no native kernel: its primitive has no `lower` column"
        x = tf.constant(1.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = bare(x)
        with pytest.raises(LookupError) as caught:
            tape.gradient(y, x)
        assert "gradient registry has no entry for: Bare" in str(caught.value)
        assert tf.vectorized_map(bare, tf.constant([1.0, 2.0])).numpy().tolist() == [1.0, 2.0]
    finally:
        del table["bare"]


def test_unknown_names_of_passes():
    with pytest.raises(AttributeError) as caught:
        passes.nothing_like_it
    assert str(caught.value) == "module 'tvtf.passes' has no attribute 'nothing_like_it'"
