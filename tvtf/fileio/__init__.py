"""Files: atomic writes, locks between processes, checksums, TFRecords, compressed streams, protocol buffers."""
