"""Devices, targets, executables and the disk cache: what runs compiled code."""
