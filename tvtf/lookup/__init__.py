"""``tf.lookup``: tables from keys to values."""

from tvtf.lookup import dense, initializers, tables

__all__ = ["dense", "initializers", "tables"]
