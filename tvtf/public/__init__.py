"""Public names above the frontend: queues, tests, raw ops, interoperability, and TensorFlow as Keras and programs see it."""
