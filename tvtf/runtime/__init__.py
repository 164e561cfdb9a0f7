"""Devices, executables, the linker and the disk cache."""
