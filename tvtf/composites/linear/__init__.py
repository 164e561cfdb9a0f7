"""``tf.linalg.LinearOperator``: batches of matrices defined by their products, without being stored."""

from tvtf.api.namespaces import install as _install
from tvtf.composites.linear import blocks, circulant, dispatch, low_rank, structured, sums, wrapped

_install()

__all__ = ["blocks", "circulant", "dispatch", "low_rank", "structured", "sums", "wrapped"]
