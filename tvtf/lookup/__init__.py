"""Defines ``tf.lookup``: tables from keys to values."""

from tvtf.api.namespaces import install as _install
from tvtf.lookup import dense, initializers, tables

__all__ = ["dense", "initializers", "tables"]
_install()
