"""Branches, loops, maps and tensor arrays of traced programs, and their gradients."""
