"""The build end: a scheduled module becomes bytecode, native code and one library."""
