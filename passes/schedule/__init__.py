"""Schedules: write a kernel's loops for a machine."""
