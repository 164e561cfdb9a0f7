"""Defines ``experimental_enable_numpy_behavior``: tensors with NumPy's methods, promotion and indexing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.arrays import elementwise, products, promotion, reductions, shaping, weak_tensor
from tvtf.arrays.convert import preference, result_dtype, tf
from tvtf.arrays.indexing import getitem
from tvtf.core.primitive import export
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.ops import operators

Operator = Callable[[Any, Any], Any]


@export("experimental.numpy.experimental_enable_numpy_behavior")
def experimental_enable_numpy_behavior(prefer_float32: bool = False, dtype_conversion_mode: str = "legacy") -> None:
    """Makes all tensors behave as NumPy's arrays from now on.

    They have NumPy's methods (``T``, ``reshape``, ``astype``, ``ravel`` ...), accept arrays as indices, and operators
    promote their operands as NumPy does: ``int32 + float32`` is ``float64``.

    Args:
      prefer_float32: whether Python's floats are float32 instead of float64.
      dtype_conversion_mode: "legacy" promotes as NumPy, "off" not at all. "all" promotes by a table in which numbers without
        a given dtype, ``1.5`` or ``tf.constant(1.5)``, defer to the other operand's dtype; "safe" does too, but raises
        where a promotion may lose precision or takes more bits than both operands.

    Raises:
      ValueError: the mode is unknown.

    >>> import subprocess, sys
    >>> program = "import tvtf as tf; tf.experimental.numpy.experimental_enable_numpy_behavior(); "
    >>> program += "x = tf.constant([[1, 2]]); print((x.T + 0.5).dtype.name)"
    >>> subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip()
    'float64'

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/experimental_enable_numpy_behavior
    """
    if dtype_conversion_mode not in ("off", "legacy", *promotion.MODES):
        raise ValueError(
            f"The provided promotion mode {dtype_conversion_mode} does not exist. Make sure the provided dtype conversion "
            "mode is one of the followings: 'off', 'legacy', 'safe' or 'all'."
        )
    preference.is_float32 = prefer_float32
    Tensor.__getitem__ = getitem  # type: ignore[assignment, method-assign]
    for name, method in METHODS.items():
        setattr(Tensor, name, method)
        setattr(weak_tensor.WeakTensor, name, method)
    if dtype_conversion_mode in promotion.MODES:
        weak_tensor.enable(dtype_conversion_mode)
    else:
        weak_tensor.disable()
        operators.install(None if dtype_conversion_mode == "off" else _promoting_operands)


def _promoting_operands(operate: Operator) -> Operator:
    """Wraps an operator so that its operands are first converted to the dtype in which NumPy would compute."""
    # NumPy's matmul also takes vectors.
    if operate is operators.ARITHMETIC["matmul"]:
        operate = products.matmul

    def promote_and_operate(x: Any, y: Any) -> Any:
        # `x == None` and `x != None` aren't computed elementwise: None has no dtype to promote to. Only the second operand
        # can be None: for `None == x`, Python calls the tensor's method with None as the second operand.
        if y is None:
            return operate(x, y)
        dtype = result_dtype(x, y)
        return operate(_converted_to(x, dtype), _converted_to(y, dtype))

    return promote_and_operate


def _converted_to(value: Any, dtype: Any) -> Tensor:
    return tf.cast(value, dtype) if tf.is_tensor(value) else tf.convert_to_tensor(value, dtype)


def _reshape(self: Tensor, *newshape: Any, **kwargs: Any) -> Tensor:
    """Implements ``x.reshape``, whose shape may be one argument or several."""
    order = kwargs.pop("order", "C")
    if kwargs:
        raise ValueError(f"Unsupported arguments: {kwargs.keys()}")
    shape = newshape if len(newshape) != 1 or isinstance(newshape[0], int) else newshape[0]
    return shaping.reshape(self, shape, order)


def _tolist(self: Tensor) -> Any:
    if not isinstance(self, EagerTensor):
        raise ValueError("Symbolic Tensors do not support the tolist API.")
    return self.numpy().tolist()


def _static_size(self: Tensor) -> Any:
    return np.int64(self.shape.num_elements() or 0) if self.shape.is_fully_defined() else None


METHODS: dict[str, Any] = {
    "T": property(lambda self: shaping.transpose(self)),
    "size": property(_static_size),
    "data": property(lambda self: self),
    "__pos__": lambda self: self,
    "__round__": lambda self, decimals=0: elementwise.around(self, decimals),
    "tolist": _tolist,
    "reshape": _reshape,
    "astype": lambda self, dtype, name=None: tf.cast(self, dtype),
    "transpose": shaping.transpose,
    "flatten": shaping.flatten,
    "ravel": shaping.ravel,
    "clip": elementwise.clip,
    "max": reductions.amax,
    "min": reductions.amin,
    "mean": reductions.mean,
}
"""The methods of NumPy's arrays that TensorFlow adds to tensors."""
