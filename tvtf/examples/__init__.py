"""Parses ``tf.train.Example`` and ``tf.train.SequenceExample`` messages into tensors."""

from tvtf.examples import composite, features, kernels, parsing, records

__all__ = ["composite", "features", "kernels", "parsing", "records"]
