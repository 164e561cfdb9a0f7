"""The state of a program: Variables, Modules, the objects that checkpoints find, and the global seed."""
