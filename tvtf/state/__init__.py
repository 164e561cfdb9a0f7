"""What a program keeps: Variables, Modules, the objects that checkpoints find, and the global seed."""
