"""Stateful random numbers: streams, generators, initializers, candidate samplers."""
