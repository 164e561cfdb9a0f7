"""Functions of TensorFlow's composed of others: CTC, fake quantization, conjugate gradients."""
