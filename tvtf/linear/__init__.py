"""Linear operators: batches of matrices known by what they do."""

from tvtf.linear import blocks, circulant, dispatch, low_rank, structured, sums, wrapped
from tvtf.namespaces import install as _install

_install()

__all__ = ["blocks", "circulant", "dispatch", "low_rank", "structured", "sums", "wrapped"]
