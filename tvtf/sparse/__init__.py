"""Sparse tensors: the elements that are not zero, and what public functions do on them."""

from tvtf.sparse import dense, tensor

__all__ = ["dense", "tensor"]
