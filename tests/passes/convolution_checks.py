"""Compares a scheduled convolution and its gradients with NumPy's."""

import numpy as np
from convolution_oracle import convolve, gradients
from schedule_programs import run_te, tensor, values
from tvm.target import Target

from tvtf.ops.kernels import conv


def check_convolution(case, target: Target) -> None:
    """Checks a case ``(image shape, filter shape, strides, padding, dilations, groups)``."""
    x_shape, w_shape, *how = case
    a, b = values(x_shape), values(w_shape)
    exact = [v.astype("float64") for v in (a, b)]
    want = convolve(*exact, *how)
    g = values(want.shape)
    dx, dw = gradients(*exact, g.astype("float64"), *how)
    x, w, dy = tensor(x_shape), tensor(w_shape, name="w"), tensor(want.shape, name="dy")
    close = {"rtol": 1e-4, "atol": 1e-3}
    np.testing.assert_allclose(run_te(conv.conv_nd(x, w, *how), {x: a, w: b}, want.shape, target), want, **close)
    result = conv.conv_nd_input_grad(dy, w, x_shape, *how)
    np.testing.assert_allclose(run_te(result, {dy: g, w: b}, x_shape, target), dx, **close)
    result = conv.conv_nd_filter_grad(x, dy, w_shape, *how)
    np.testing.assert_allclose(run_te(result, {x: a, dy: g}, w_shape, target), dw, **close)
