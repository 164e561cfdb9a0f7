"""Sparse tensors: the elements that are not zero, and what public functions do on them."""

from tvtf.sparse import arrange, cutting, dense, embedding, kernels, math, operators, reduce, tensor

operators.install()

__all__ = ["arrange", "cutting", "dense", "embedding", "kernels", "math", "operators", "reduce", "tensor"]
