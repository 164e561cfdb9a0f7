"""Rewrites of the tvtf dialect, before it is lowered: simplification, fused attention, loops, mixed precision, checks."""
