"""Linear operators: batches of matrices known by what they do."""

from tvtf.api.namespaces import install as _install
from tvtf.composites.linear import blocks, circulant, dispatch, low_rank, structured, sums, wrapped

_install()

__all__ = ["blocks", "circulant", "dispatch", "low_rank", "structured", "sums", "wrapped"]
