"""The primitives, one family a file, and the operators they give to tensors."""

from tvtf.ops import activation, array, cast, compare, exponential, math, operators, reduce, state, trig

__all__ = ["activation", "array", "cast", "compare", "exponential", "math", "operators", "reduce", "state", "trig"]
