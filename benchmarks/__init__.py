"""Compares tvtf with TensorFlow, JAX, PyTorch and ONNX Runtime in one run on one machine: ``python -m benchmarks``."""
