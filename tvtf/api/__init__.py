"""Public names: namespaces built from the declarations of ops, unsupported names, aliases of moved modules."""
