"""The primitives, one family a file, and the operators they give to tensors."""

from tvtf.ops import array, math, reduce, state

__all__ = ["array", "math", "reduce", "state"]
