"""The intermediate representation: primitives as Relax ops, tracing into them, and their interpretation."""
