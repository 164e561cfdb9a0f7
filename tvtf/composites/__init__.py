"""Tensors made of tensors: ragged and sparse tensors, extension types, linear operators."""
