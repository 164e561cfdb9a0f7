"""Schedules: how a kernel's loops are laid out on a machine."""
