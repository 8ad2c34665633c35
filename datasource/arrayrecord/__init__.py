"""The ArrayRecord file format: bytes of a file in, records out."""
