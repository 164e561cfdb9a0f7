"""Algorithms composed of other functions, with gradients: CTC, fake quantization, conjugate gradients, optimizers."""
