"""Reverse-mode differentiation: the sweep over recorded calls, and a pass that differentiates any module."""
