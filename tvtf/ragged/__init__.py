"""Ragged tensors: rows of several lengths, and what public functions do on them."""

from tvtf.ragged import build, dispatch, getitem, joining, kernels, tensor, texts

dispatch.install()

__all__ = ["build", "dispatch", "getitem", "joining", "kernels", "tensor", "texts"]
