"""``tf.lookup``: tables from keys to values."""

from tvtf.lookup import dense, initializers, tables
from tvtf.namespaces import install as _install

__all__ = ["dense", "initializers", "tables"]
_install()
