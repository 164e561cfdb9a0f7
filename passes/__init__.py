"""Relax to Relax, and from Relax to a library: every step of the compiler."""
