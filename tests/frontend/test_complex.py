"""Ops that NumPy computes in compiled code: complex numbers, and where there is no Python."""

import numpy as np
import pytest

import tvtf as tf
from tvtf import saved
from tvtf.errors import UnimplementedError
from tvtf.frontend.function import executor
from tvtf.onnx import export
from tvtf.runtime.target import emulated_gpu_target
from tvtf.saved import library

Z = tf.constant([[1 + 2j, 3 - 1j], [2, 1j]], tf.complex64)


def both(function, *args):
    return function(*args).numpy(), tf.function(function)(*args).numpy()


def same(function, *args):
    eager, traced = both(function, *args)
    np.testing.assert_allclose(traced, eager, rtol=1e-6)
    assert traced.dtype == eager.dtype


def test_complex_constants_small_and_large():
    large = tf.constant(np.arange(40) + 1j)
    same(lambda x: x * tf.constant([1j, 2], tf.complex64) + 1j, Z)
    same(lambda x: x * large, large)


def test_complex_numbers_between_real_ones():
    same(lambda x: 2 * tf.abs(tf.exp(tf.complex(x, x) * 1j)) + x, tf.constant([1.0, 2.0]))


def test_complex_gradients():
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.abs(x * x * x) ** 2)
        return tape.gradient(y, x)

    same(gradient, Z)


def test_complex_numbers_through_control_flow():
    def powers(x):
        y = x if tf.reduce_sum(tf.math.real(x)) > 0 else -x
        for _ in tf.range(3):
            y = y * x
        return y

    traced = tf.function(powers)(Z)
    np.testing.assert_allclose(traced.numpy(), Z.numpy() ** 4, rtol=1e-6)


@pytest.mark.parametrize("shape", [(7, 3), (53, 3, 1)])
@pytest.mark.parametrize("dtype", [tf.complex64, tf.complex128])
def test_rows_of_complex_numbers_that_fill_no_vectors(shape, dtype):
    x = tf.cast(tf.reshape(tf.range(float(np.prod(shape))), shape), dtype) * 1j
    same(lambda x: tf.map_fn(lambda row: row[::-1], x), x)


def test_complex_numbers_with_unknown_dims():
    f = tf.function(
        lambda x: tf.reshape(tf.concat([x, x], 0), [-1]), input_signature=[tf.TensorSpec([None, 2], Z.dtype)]
    )
    assert f(Z).shape == (8,)
    assert f(Z[:1]).numpy().tolist() == [1 + 2j, 3 - 1j] * 2


def test_a_complex_variable_is_updated():
    v = tf.Variable([1 + 1j, 2])
    f = tf.function(lambda x: v.assign_add(x) * 2)
    assert f(tf.constant([1j, 1])).numpy().tolist() == [2 + 4j, 6]
    assert v.numpy().tolist() == [1 + 2j, 3]


def test_a_result_that_is_a_view_of_an_argument_keeps_its_value():
    v = tf.Variable(Z)

    @tf.function
    def f(x):
        old = tf.transpose(v)
        v.assign(x)
        return old

    assert np.array_equal(f(Z * 2).numpy(), Z.numpy().T)
    assert np.array_equal(v.numpy(), Z.numpy() * 2)


def test_a_saved_module_runs_and_a_library_rejects(tmp_path):
    module = saved.load(saved.save(tmp_path / "module", lambda x: tf.abs(x * 2), Z))
    np.testing.assert_allclose(module(Z).numpy(), np.abs(Z.numpy() * 2), rtol=1e-6)
    with pytest.raises(UnimplementedError, match="is computed by NumPy, and a library runs without Python"):
        library.write(module, tmp_path / "library.so")


def test_a_gpu_rejects(monkeypatch, own_cache):
    monkeypatch.setattr(executor, "target_of", lambda device: emulated_gpu_target())
    with pytest.raises(UnimplementedError, match=r"multiply \(.*\) is computed by NumPy, and Python's arrays lie in"):
        tf.function(lambda x: tf.abs(x * x))(Z)


def test_onnx_rejects_with_the_reason():
    with pytest.raises(UnimplementedError, match="x is complex64, and ONNX's operators take no such tensors"):
        export(lambda x: tf.abs(x * x), Z)
    with pytest.raises(UnimplementedError, match="ONNX's operators take no complex tensors"):
        export(lambda x: tf.abs(tf.complex(x, x)), tf.constant(1.0))
