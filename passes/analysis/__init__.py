"""Analyses of a module: uses, side effects, dead code, loops; and the walk that rewrites one."""
