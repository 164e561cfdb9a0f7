"""Devices and switches: ``tf.config``, ``tf.device``, ``tf.debugging``'s switches."""
