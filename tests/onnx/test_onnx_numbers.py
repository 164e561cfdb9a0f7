"""Exported models at the ends of dtypes: what ONNX's operators lose or wrap, and eager execution doesn't."""

import numpy as np
import onnxruntime
import pytest

import tvtf as tf
from tvtf.onnx import export

SIGNED = (np.int8, np.int16, np.int32, np.int64)


def exported(function, *arrays):
    """Returns the result of a function that is exported to ONNX and run there."""
    model = export(tf.function(function).get_concrete_function(*map(tf.constant, arrays)))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {parameter.name: array for parameter, array in zip(session.get_inputs(), arrays)}
    return session.run(None, feeds)[0]


@pytest.mark.parametrize("dtype", SIGNED, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("divide", [tf.math.floordiv, tf.math.floormod, tf.truncatediv, tf.truncatemod])
def test_signed_divisions_don_t_overflow(divide, dtype):
    limits = np.iinfo(dtype)
    values = [0, 1, 7, -1, -7, limits.max, limits.max // 2, limits.min, limits.min + 1, limits.min // 2]
    dividends = np.array(values, dtype)[:, None]
    divisors = np.array(values[1:], dtype)
    np.testing.assert_array_equal(exported(divide, dividends, divisors), divide(dividends, divisors))


@pytest.mark.parametrize("function", [tf.math.log1p, tf.math.expm1, tf.math.softplus, tf.math.log_sigmoid])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_digits_near_0_are_kept(function, dtype):
    magnitudes = np.array([0.0, 1e-20, 1e-7, 1e-3, 0.1, 0.4, 0.6, 3.0, 20.0, 80.0, np.inf, np.nan], dtype)
    x = np.concatenate([magnitudes, -magnitudes])
    x = x[x > -1] if function is tf.math.log1p else x
    np.testing.assert_allclose(exported(function, x), function(x), rtol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("stride", [-1, -2, -3])
def test_backward_slices_of_unknown_sizes_reach_the_first_element(stride):
    model = export(lambda x: x[::stride], tf.TensorSpec([None]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for size in range(8):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], x[::stride])


def test_functions_that_need_sizes_say_so():
    with pytest.raises(ValueError, match="give tensors, or specs with all their dims"):
        export(lambda x, i: tf.gather_nd(x, i), tf.TensorSpec([None, None]), tf.TensorSpec([None, None], tf.int32))


def test_uint64_sort_in_their_order():
    x = np.array([5, 2**63, 2**64 - 1, 0, 2**63 - 1], np.uint64)
    np.testing.assert_array_equal(exported(tf.sort, x), np.sort(x))
    np.testing.assert_array_equal(exported(lambda x: tf.math.top_k(x, 2).indices, x), [2, 1])
