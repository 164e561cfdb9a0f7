"""Tensor expressions for `lower` rules: imported when something is compiled, because they import TVM."""
