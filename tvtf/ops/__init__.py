"""The primitives, one family a file, and the operators they give to tensors."""

from tvtf.ops import activation, array, cast, compare, conv, convolution, exponential, linalg, loss, math, nn, operators, pool, pooling, reduce, softmax, state, trig

__all__ = ["activation", "array", "cast", "compare", "conv", "convolution", "exponential", "linalg", "loss", "math", "nn", "operators", "pool", "pooling", "reduce", "softmax", "state", "trig"]
