"""Running compiled code: targets, executables, kernel threads, memory, and the disk cache."""
