"""Rewrites of the tvtf dialect before it is lowered: simplification, attention, loops, mixed precision, checks."""
