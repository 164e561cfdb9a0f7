"""The base layer: shapes, tensors, primitives (the record that every op is), nests, and a thread's state."""
