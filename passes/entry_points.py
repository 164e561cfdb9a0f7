"""Names of functions in a compiled module beside ``main``, apart from the passes that make them: who runs it needs these."""

PREPARE = "prepare"
"""Computes packed copies of constants, once for all calls."""
