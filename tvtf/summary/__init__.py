"""``tf.summary``: what TensorBoard shows, written eagerly and by traced functions.

Event files are TensorBoard's own protos (the ``tensorboard`` extra) in TFRecord framing.

Source: https://www.tensorflow.org/api_docs/python/tf/summary
"""
