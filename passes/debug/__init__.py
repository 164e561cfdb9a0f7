"""Debugging the pipeline: dumps, and checks of numbers, of structure and of memory."""
