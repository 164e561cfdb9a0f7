"""Public names above the frontend: queues, tests, raw ops, exchange with other libraries, TensorFlow as Keras and programs see it."""
