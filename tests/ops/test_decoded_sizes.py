"""Sizes claimed by a file's header are compared with the limit before memory is allocated."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.ops.strings.tensor_proto import TensorProto


def repeated(count, **values):
    return TensorProto(tensor_shape={"dim": [{"size": count}]}, **values).SerializeToString()


@pytest.mark.parametrize("dtype", [tf.float32, tf.string, tf.int8, tf.complex128, tf.bfloat16])
@pytest.mark.parametrize("function", [tf.io.parse_tensor, tf.function(tf.io.parse_tensor)])
def test_a_repeated_value_is_bounded(dtype, function):
    expected = repeated(1 << 31, dtype=dtype.as_datatype_enum)
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"2147483648 elements .*TVTF_MAX_DECODED_BYTES"):
        function(expected, dtype)


def test_the_limit_is_raised_by_name(monkeypatch):
    monkeypatch.setenv("TVTF_MAX_DECODED_BYTES", "400")
    message = repeated(100, dtype=1, float_val=[7.0])
    np.testing.assert_array_equal(tf.io.parse_tensor(message, tf.float32), np.full(100, 7, np.float32))
    monkeypatch.setenv("TVTF_MAX_DECODED_BYTES", "399")
    with pytest.raises(tf.errors.ResourceExhaustedError):
        tf.io.parse_tensor(message, tf.float32)
    for wrong in ("-1", "0", "many"):
        monkeypatch.setenv("TVTF_MAX_DECODED_BYTES", wrong)
        with pytest.raises(ValueError, match=f"positive number of bytes, got '{wrong}'"):
            tf.io.parse_tensor(message, tf.float32)
