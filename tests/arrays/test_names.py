"""What ``tf.experimental.numpy`` has of NumPy's own, and the mode that is rejected."""

import subprocess
import sys

import numpy as np
import pytest

import tvtf as tf

OWN = {
    tf.experimental.numpy.bool_: np.bool_,
    tf.experimental.numpy.int8: np.int8,
    tf.experimental.numpy.int16: np.int16,
    tf.experimental.numpy.int32: np.int32,
    tf.experimental.numpy.int64: np.int64,
    tf.experimental.numpy.uint8: np.uint8,
    tf.experimental.numpy.uint16: np.uint16,
    tf.experimental.numpy.uint32: np.uint32,
    tf.experimental.numpy.uint64: np.uint64,
    tf.experimental.numpy.int_: np.int_,
    tf.experimental.numpy.float16: np.float16,
    tf.experimental.numpy.float32: np.float32,
    tf.experimental.numpy.float64: np.float64,
    tf.experimental.numpy.float_: np.float64,
    tf.experimental.numpy.complex64: np.complex64,
    tf.experimental.numpy.complex128: np.complex128,
    tf.experimental.numpy.complex_: np.complex128,
    tf.experimental.numpy.inexact: np.inexact,
    tf.experimental.numpy.object_: np.object_,
    tf.experimental.numpy.string_: np.bytes_,
    tf.experimental.numpy.unicode_: np.str_,
    tf.experimental.numpy.iinfo: np.iinfo,
    tf.experimental.numpy.issubdtype: np.issubdtype,
    tf.experimental.numpy.pi: np.pi,
    tf.experimental.numpy.e: np.e,
    tf.experimental.numpy.inf: np.inf,
    tf.experimental.numpy.newaxis: None,
    tf.experimental.numpy.ndarray: tf.Tensor,
}


def test_what_is_numpys_own():
    assert all(ours is theirs or ours == theirs for ours, theirs in OWN.items())


def test_another_mode_is_rejected():
    with pytest.raises(ValueError, match="^The provided promotion mode never does not exist"):
        tf.experimental.numpy.experimental_enable_numpy_behavior(dtype_conversion_mode="never")


def test_the_namespace_is_imported_by_name():
    program = "import tvtf.experimental.numpy as tnp; print(tnp.ones([1]).numpy(), hasattr(tnp, 'nothing'))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == "[1.] False\n", run.stderr
