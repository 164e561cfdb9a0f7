"""ONNX: export of traced functions."""
