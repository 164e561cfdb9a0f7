"""Ops on strings, which the host computes."""

from tvtf.ops.strings import basic, files, gfile, hashing, numbers, raw, regex, unicode

__all__ = ["basic", "files", "gfile", "hashing", "numbers", "raw", "regex", "unicode"]
