"""Tapes, forward mode, and gradients that users define."""
