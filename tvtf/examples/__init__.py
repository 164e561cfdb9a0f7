"""``tf.train.Example`` and ``tf.train.SequenceExample`` as tensors: what features there are, and parsing them."""

from tvtf.examples import composite, features, kernels, parsing, records

__all__ = ["composite", "features", "kernels", "parsing", "records"]
