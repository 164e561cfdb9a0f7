"""What passes ask of a module: uses, effects, dead code, loops; and the walk that rewrites one."""
