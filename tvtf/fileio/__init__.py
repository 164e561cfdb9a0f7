"""Files: written whole or not at all, locks between processes, checksums, TFRecords, compressed streams, protocol buffers."""
