"""What public names are: namespaces made of what ops declare, names that are refused, modules under former names."""
