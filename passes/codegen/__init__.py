"""Code generation: a scheduled module becomes bytecode, native code and one shared library."""
