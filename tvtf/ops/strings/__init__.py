"""Ops on strings, computed by Python, for TVM has no strings."""

from tvtf.ops.strings import basic, files, gfile, hashing, numbers, raw, regex, unicode

__all__ = ["basic", "files", "gfile", "hashing", "numbers", "raw", "regex", "unicode"]
