"""Random numbers that move on with each call: streams, generators, initializers, samplers of candidates."""
