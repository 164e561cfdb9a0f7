"""Measuring kernels, and searching for faster schedules."""
