"""Watching and checking the pipeline: dumps, verification of numbers, of structure and of memory."""
