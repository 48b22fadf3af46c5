"""The same executor for C programs, without Python."""
