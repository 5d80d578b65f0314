"""What the caches hold: one module per kind of record, every format with its version. Values in, bytes out."""
