"""Names of a compiled module's entry functions other than ``main``.

They are apart from the passes that make the functions, since callers need them without the compiler.
"""

PREPARE = "prepare"
"""Computes packed copies of constants, once for all calls."""
