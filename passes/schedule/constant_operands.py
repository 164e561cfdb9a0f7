"""The mark of kernels that are called with the same tensors in every call, such as an inference's weights."""

from __future__ import annotations

from tvm.tirx import PrimFunc

CONSTANT_OPERANDS = "tvtf.constant_operands"
"""Attribute of a function: the positions of parameters that are the same tensors in every call."""


def constant_operands(func: PrimFunc) -> list[int]:
    """Returns the positions of a kernel's constant operands."""
    return [int(i) for i in func.attrs[CONSTANT_OPERANDS]] if func.attrs and CONSTANT_OPERANDS in func.attrs else []
